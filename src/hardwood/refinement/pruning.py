"""`prune`: a smaller tree, by what its leaves are worth under attack."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch

from hardwood._kernels.refine import pruning as kernels
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.reachable import find_parents
from hardwood.reals import LARGEST, check_number
from hardwood.refinement.door import hand_back, read_training
from hardwood.refinement.leaf_values import fill_values, keep_missing, list_leaves
from hardwood.refinement.rows import Rows, divide
from hardwood.refinement.working_tree import number_nodes


def prune(
    model: Any,
    X: Any,
    y: Any,
    threat: Any = None,
    *,
    price: float = 2.0,
    rho: float = 1.0,
    sample_weight: Any = None,
) -> Any:
    """Prune a tree: cost-complexity pruning, with the exact adversarial loss for the cost.

    Parameters
    ----------
    model : fitted classifier of a single tree
        Anything :func:`as_ensemble` takes.
    X : table of shape (n_samples, n_features)
        The rows that count; with missing values if the model takes them.
    y : array-like of labels
    threat : ThreatModel or any of its spellings, or None
        None: what the model was trained against, which hardwood's own estimators know.
    price : float, default=2.0
        What a leaf costs, in rows (in units of `sample_weight`, if given).
    rho : float in [0, 1], default=1.0
        The share of attackers who attack.
    sample_weight : array-like of shape (n_samples,) or None

    Returns
    -------
    estimator or TreeEnsemble
        The tree of the pruning path with the least loss plus price times leaves, which is never more than the tree has
        that was given; see :func:`refine` for its type.

    See Also
    --------
    pruning_path : All prices at which the pruned tree changes.

    Examples
    --------
    >>> from hardwood import RobustTreeClassifier, load_dataset, prune
    >>> table = load_dataset("diabetes")
    >>> tree = RobustTreeClassifier(threat=1.0).fit(table.data, table.target)
    >>> pruned = prune(tree, table.data, table.target)
    >>> tree.get_n_leaves(), pruned.get_n_leaves()
    (205, 8)
    """
    training = read_training(model, X, y, threat, rho, sample_weight)
    ensemble, rows = training.ensemble, training.rows
    price = check_number("price", price, 0.0, LARGEST) / training.weight_unit
    steps = _find_path(ensemble, rows)
    best = min(range(len(steps)), key=lambda k: (steps[k].loss + price * steps[k].n_leaves, steps[k].n_leaves))
    return hand_back(model, _cut(ensemble, steps[1 : best + 1], rows), training.weight_unit)


def pruning_path(
    model: Any, X: Any, y: Any, threat: Any = None, *, rho: float = 1.0, sample_weight: Any = None
) -> Bunch:
    """Return all prices of a leaf at which the tree that :func:`prune` returns changes.

    Parameters
    ----------
    model, X, y, threat, rho, sample_weight
        As for :func:`prune`.

    Returns
    -------
    Bunch
        `prices`, ascending from 0; `losses`, the weight of the rows that the tree pruned at each price loses under
        attack (at rho < 1, with those it misclassifies in their share); `n_leaves`, its leaves.

    Notes
    -----
    Like scikit-learn's `cost_complexity_pruning_path`: node after node becomes a leaf, each time the one that costs
    least per leaf saved, with the class that is best for the tree as it is then. Rows can be moved into several leaves,
    so that losses do not add up over leaves: the path is greedy, and trees that are best at no price are left out.

    Examples
    --------
    >>> from hardwood import RobustTreeClassifier, load_dataset, pruning_path
    >>> table = load_dataset("haberman")
    >>> tree = RobustTreeClassifier(threat=1.0, max_depth=3).fit(table.data, table.target)
    >>> path = pruning_path(tree, table.data, table.target)
    >>> path.prices.round(2).tolist(), path.losses.tolist(), path.n_leaves.tolist()
    ([0.0, 1.0, 2.33], [73.0, 74.0, 81.0], [5, 4, 1])
    """
    ensemble, rows, _, unit = read_training(model, X, y, threat, rho, sample_weight)
    steps = _find_path(ensemble, rows)
    prices, kept = [0.0], [min(steps, key=lambda step: (step.loss, step.n_leaves))]
    while True:
        here = kept[-1]
        later = [step for step in steps if step.n_leaves < here.n_leaves]
        if not later:
            break
        slopes = [(step.loss - here.loss) / (here.n_leaves - step.n_leaves) for step in later]
        price = min(slopes)
        cheapest = [step for step, slope in zip(later, slopes, strict=True) if slope <= price]
        kept.append(min(cheapest, key=lambda step: step.n_leaves))
        prices.append(price)
    return Bunch(
        prices=np.array(prices) * unit,
        losses=np.array([step.loss for step in kept]) * unit,
        n_leaves=np.array([step.n_leaves for step in kept]),
    )


class _Step(NamedTuple):
    """The tree after a node has become a leaf of a class; the first step is the tree itself."""

    loss: float
    n_leaves: int
    node: int = -1
    label: int = -1


def _find_path(ensemble: TreeEnsemble, rows: Rows) -> list[_Step]:
    """Make node after node a leaf, always the one that costs least per leaf; all the way to the root."""
    state, tolerance = _prepare(ensemble, rows), 1e-9 * float(rows.weight.sum())
    reached = _list_reached(state)
    loss = kernels.weigh_all(state)
    below = _list_below(ensemble)
    is_inner = ensemble.feature >= 0
    n_leaves = np.where(is_inner, 0, 1)
    for level in reversed(ensemble.levels):
        inner = level[is_inner[level]]
        n_leaves[inner] = n_leaves[ensemble.left[inner]] + n_leaves[ensemble.right[inner]]
    steps = [_Step(loss, int(n_leaves[ensemble.root[0]]))]
    while True:
        nodes = np.flatnonzero(is_inner)
        if not len(nodes):
            return steps
        at_stake = state.at_stake[nodes]
        label = at_stake.argmax(axis=1)
        more = at_stake.sum(axis=1) - at_stake.max(axis=1) - state.lost[nodes]
        rate = more / (n_leaves[nodes] - 1)
        # Of equals the one that saves most leaves; rounding must not decide.
        equal = np.flatnonzero(rate <= rate.min() + tolerance)
        k = equal[n_leaves[nodes[equal]].argmax()]
        node = int(nodes[k])
        kernels.make_leaf(state, node, int(label[k]), below[node], reached(node))
        loss += float(more[k])
        saved = int(n_leaves[node]) - 1
        is_inner[node] = False
        is_inner[below[node]] = False
        above = node
        while above >= 0:
            n_leaves[above] -= saved
            above = int(state.parent[above])
        steps.append(_Step(loss, steps[-1].n_leaves - saved, node, int(label[k])))


def _prepare(ensemble: TreeEnsemble, rows: Rows) -> kernels.Pruning:
    starts, leaves, labels, weights = [np.zeros(1, dtype=np.int64)], [], [], []
    for part in divide(rows):
        found = list_leaves(ensemble, rows, part)
        starts.append(found.start[1:] + starts[-1][-1])
        leaves.append(found.leaf)
        labels.append(rows.label[part.which])
        weights.append(rows.weight[part.which] * part.share)
    n_nodes = ensemble.n_nodes
    return kernels.Pruning(
        parent=find_parents(ensemble),
        leaf_class=ensemble.node_class.astype(np.int64),
        start=np.concatenate(starts).astype(np.int64),
        leaf=np.concatenate(leaves).astype(np.int64),
        label=np.concatenate(labels).astype(np.int64),
        weight=np.concatenate(weights),
        at_stake=np.zeros((n_nodes, len(ensemble.labels))),
        lost=np.zeros(n_nodes),
        became=np.where(ensemble.feature < 0, np.arange(n_nodes), -1),
        wrong=np.zeros(n_nodes, dtype=np.int64),
    )


def _list_reached(state: kernels.Pruning) -> Any:
    """Return a function that lists the samples that can be moved to a node."""
    sample = np.repeat(np.arange(len(state.weight)), np.diff(state.start))
    first, last = _number_leaves(state)
    position = first[state.leaf]
    order = np.argsort(position, kind="stable")
    position, sample = position[order], sample[order]

    def reached(node: int) -> np.ndarray:
        begin, end = np.searchsorted(position, [first[node], last[node]])
        return np.unique(sample[begin:end])

    return reached


def _number_leaves(state: kernels.Pruning) -> tuple[np.ndarray, np.ndarray]:
    """Number the leaves from left to right; return the first below each node, and one past the last."""
    n_nodes = len(state.parent)
    children: list[list[int]] = [[] for _ in range(n_nodes)]
    for node, above in enumerate(state.parent.tolist()):
        if above >= 0:
            children[above].append(node)
    first, last = np.zeros(n_nodes, dtype=np.int64), np.zeros(n_nodes, dtype=np.int64)
    n_before, stack = 0, [(int(np.flatnonzero(state.parent < 0)[0]), False)]
    while stack:
        node, is_done = stack.pop()
        if not is_done:
            first[node] = n_before
            n_before += not children[node]
            stack.append((node, True))
            stack += [(child, False) for child in children[node]]
        last[node] = n_before
    return first, last


def _list_below(ensemble: TreeEnsemble) -> dict[int, np.ndarray]:
    """List the nodes below each inner node."""
    below: dict[int, np.ndarray] = {}
    for level in reversed(ensemble.levels):
        for node in level.tolist():
            if ensemble.feature[node] >= 0:
                children = np.array([ensemble.left[node], ensemble.right[node]], dtype=np.int64)
                parts = [below[child] for child in children.tolist() if child in below]
                below[node] = np.concatenate([children, *parts])
    return below


def _cut(ensemble: TreeEnsemble, steps: list[_Step], rows: Rows) -> TreeEnsemble:
    """Return the tree after some steps."""
    label = ensemble.node_class.copy()
    feature = ensemble.feature.copy()
    for step in steps:
        feature[step.node], label[step.node] = -1, step.label
    number = number_nodes(feature, ensemble)
    position = np.full(ensemble.n_nodes + 1, -1, dtype=np.int32)
    position[number] = np.arange(len(number))
    feature = feature[number]
    is_leaf = feature < 0
    pruned = replace(
        ensemble,
        root=np.zeros(1, dtype=np.int32),
        feature=feature,
        threshold=np.where(is_leaf, 0.0, ensemble.threshold[number]),
        left=np.where(is_leaf, -1, position[ensemble.left[number]]).astype(np.int32),
        right=np.where(is_leaf, -1, position[ensemble.right[number]]).astype(np.int32),
        value=ensemble.value[number],
        cover=ensemble.cover[number],
        missing_left=ensemble.missing_left[number],
        category_start=np.where(is_leaf, -1, ensemble.category_start[number]),
    )
    return fill_values(pruned, label[number], rows, learned=keep_missing(pruned))
