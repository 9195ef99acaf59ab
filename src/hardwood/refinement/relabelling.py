"""`relabel`: which class each leaf had best say, exactly."""

from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.refinement.door import hand_back, read_training
from hardwood.refinement.leaf_values import fill_values, keep_missing, list_leaves
from hardwood.refinement.minimum_cut import Groups, choose_labels
from hardwood.refinement.rows import Rows, divide
from hardwood.threads import count_threads
from hardwood.verification import ask
from hardwood.verification.answers import FOUND, NONE
from hardwood.verification.question import check_time_limit

# A cut helps if it lowers what is lost by more than this share: rounding must not go on for ever.
TOLERANCE = 1e-9


def relabel(
    model: Any,
    X: Any,
    y: Any,
    threat: Any = None,
    *,
    rho: float = 1.0,
    sample_weight: Any = None,
    time_limit: float | None = 1.0,
    n_jobs: int | None = None,
) -> Any:
    """Give the leaves of a tree the classes with which the fewest rows are lost under attack: the optimum.

    A row is lost as soon as it can be moved into a leaf of another class, so a leaf's own majority need not be its best
    class. The best classes of all leaves together are a minimum cut between rows of the one and of the other class.
    With more than two classes minimum cuts are made in turn, until none helps: each gives one class to whatever leaves
    had best have it, or divides the leaves of two classes anew. No split changes.

    Parameters
    ----------
    model : fitted classifier
        Anything :func:`as_ensemble` takes. Several trees are relabelled each by itself, see the notes.
    X : table of shape (n_samples, n_features)
        The rows that count; with missing values if the model takes them.
    y : array-like of labels
    threat : ThreatModel or any of its spellings, or None
        None: what the model was trained against, which hardwood's own estimators know.
    rho : float in [0, 1], default=1.0
        The share of attackers who attack.
    sample_weight : array-like of shape (n_samples,) or None
        Weights that are not whole numbers are rounded to one part in 5e8 of their sum.
    time_limit : float or None, default=1.0
        Seconds that a row of a forest may take to be verified, see the notes.
    n_jobs : int or None, default=None
        Threads of that.

    Returns
    -------
    estimator or TreeEnsemble
        For a fitted RobustTreeClassifier or TreantClassifier a fitted copy of it, for anything else a TreeEnsemble. Of
        two equally good classes a leaf keeps the one it has. Adversarial accuracy on the rows given never falls.

    Notes
    -----
    *Forests.* Which rows a forest loses depends on where all its trees can be brought to err at once; the best classes
    of all leaves of all trees are no minimum cut. So each tree gets the best classes it can have by itself: leaves
    that change their class exchange the shares of the old and the new one. Whether that helps the forest is then
    verified: if it is not proved that at least as many rows survive as before, the forest stays as it was. Models that
    add up scores (boosting) are refused, because a leaf of theirs has no class.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from hardwood import adversarial_accuracy, load_dataset, relabel
    >>> table = load_dataset("diabetes")
    >>> tree = DecisionTreeClassifier(max_depth=6, random_state=0).fit(table.data, table.target)
    >>> relabelled = relabel(tree, table.data, table.target, threat=2.0)
    >>> for model in tree, relabelled:
    ...     print(f"{adversarial_accuracy(model, table.data, table.target, threat=2.0):.3f}")
    0.441
    0.746
    """
    training = read_training(model, X, y, threat, rho, sample_weight, several=True)
    ensemble, rows = training.ensemble, training.rows
    if ensemble.n_trees == 1:
        labels = find_labels(ensemble, rows)
        relabelled = fill_values(ensemble, labels, rows, learned=keep_missing(ensemble))
        return hand_back(model, relabelled, training.weight_unit)
    if ensemble.link != "probability" or ensemble.value.shape[1] != len(ensemble.labels):
        raise ValueError(f"model: its trees add up to a {ensemble.link}, so that a leaf has no class to change")
    settings = ask.AskSettings(
        time_limit=check_time_limit(time_limit), n_threads=count_threads(n_jobs, len(rows.matrix))
    )

    def decide(forest: TreeEnsemble) -> np.ndarray:
        return ask.decide(forest, rows.matrix, rows.label, rows.reach, settings).status

    return hand_back(model, _relabel_forest(ensemble, rows, decide))


def find_labels(ensemble: TreeEnsemble, rows: Rows, tree: int = 0) -> np.ndarray:
    """Return the best class of each leaf of a tree (an entry per node of the ensemble; others keep theirs)."""
    current = ensemble.node_class
    starts, leaves, wishes, weights = [np.zeros(1, dtype=np.int64)], [], [], []
    for part in divide(rows):
        reached = list_leaves(ensemble, rows, part, tree)
        starts.append(reached.start[1:] + starts[-1][-1])
        leaves.append(reached.leaf)
        wishes.append(rows.label[part.which])
        weights.append(rows.weight[part.which] * part.share)
    item, position = np.unique(np.concatenate(leaves), return_inverse=True)
    wish = np.concatenate(wishes)
    groups = Groups(np.concatenate(starts), position.ravel(), wish, np.concatenate(weights))
    labels = current.copy()
    if len(ensemble.labels) == 2:
        labels[item] = choose_labels(groups._replace(wish=wish == 1), current[item] == 1)
    else:
        labels[item] = choose_classes(groups, current[item], len(ensemble.labels))
    before, after = (_weigh_lost(groups, classes[item]) for classes in (current, labels))
    return labels if after < before else current.copy()  # rounded weights might mislead


def choose_classes(groups: Groups, current: np.ndarray, n_classes: int) -> np.ndarray:
    """Return a class for each item such that no minimum cut finds a better one; `wish` of the groups is a class.

    A cut gives one class to any of the items, or divides the items of two classes anew.
    """
    pairs: list[tuple[int | None, int]] = [(None, second) for second in range(n_classes)]
    pairs += [(first, second) for second in range(n_classes) for first in range(second)]
    best, least, failed = current.copy(), _weigh_lost(groups, current), 0
    for first, second in cycle(pairs):
        labels = _cut_once(groups, best, first, second)
        loss = _weigh_lost(groups, labels)
        failed = 0 if loss < least * (1.0 - TOLERANCE) else failed + 1
        if failed == 0:
            best, least = labels, loss
        elif failed == len(pairs):
            return best
    return best


def _cut_once(groups: Groups, labels: np.ndarray, first: int | None, second: int) -> np.ndarray:
    """Give the class `second` to the items that had best have it, of all items.

    With a class `first`, divide the items of these two classes between them.
    """
    is_open = labels != second if first is None else (labels == first) | (labels == second)
    row = np.repeat(np.arange(len(groups.wish)), np.diff(groups.start))
    # A group can have its wish if the items that stay as they are, and those that keep their class, say it.
    may_change = is_open[groups.item] & ((groups.wish[row] == second) | (first is not None))
    says_it = may_change | (labels[groups.item] == groups.wish[row])
    is_asked = np.logical_and.reduceat(says_it, groups.start[:-1])
    if first is not None:
        is_asked &= (groups.wish == first) | (groups.wish == second)
    chosen = is_asked[row] & is_open[groups.item]
    sizes = np.bincount(row[chosen], minlength=len(groups.wish))
    has_items = sizes > 0
    part = Groups(
        np.concatenate([[0], np.cumsum(sizes[has_items])]),
        groups.item[chosen],
        groups.wish[has_items] == second,
        groups.weight[has_items],
    )
    is_second = choose_labels(part, labels == second)
    changed = labels.copy()
    changed[is_open & is_second] = second
    if first is not None:
        changed[is_open & ~is_second] = first
    return changed


def _weigh_lost(groups: Groups, labels: np.ndarray) -> float:
    """Return the weight of the groups that do not get their wish."""
    is_wrong = labels[groups.item] != np.repeat(groups.wish, np.diff(groups.start))
    return float(groups.weight[np.logical_or.reduceat(is_wrong, groups.start[:-1])].sum())


def _relabel_forest(ensemble: TreeEnsemble, rows: Rows, decide: Callable[[TreeEnsemble], np.ndarray]) -> TreeEnsemble:
    """Relabel every tree by itself, and keep that if the forest as a whole is proved to be none the worse for it."""
    labels = ensemble.node_class.copy()
    for tree in range(ensemble.n_trees):
        found = find_labels(ensemble, rows, tree)
        is_changed = found != ensemble.node_class
        labels[is_changed] = found[is_changed]
    changed = np.flatnonzero((labels != ensemble.node_class) & (ensemble.feature < 0))
    value = ensemble.value.copy()
    old, new = ensemble.node_class[changed], labels[changed]
    value[changed, old], value[changed, new] = ensemble.value[changed, new], ensemble.value[changed, old]
    tied = changed[value[changed].argmax(axis=1) != new]  # several classes had the same share
    value[tied] = np.eye(value.shape[1])[labels[tied]]
    relabelled = replace(ensemble, value=value)
    least, _ = _bound_loss(ensemble, rows, decide(ensemble))
    _, most = _bound_loss(relabelled, rows, decide(relabelled))
    return relabelled if most <= least else ensemble


def _bound_loss(ensemble: TreeEnsemble, rows: Rows, status: np.ndarray) -> tuple[float, float]:
    """Return the least and the most that a forest may lose: the same once every row is decided."""
    plain = (1.0 - rows.rho) * float(rows.weight[ensemble.decide(rows.matrix) != rows.label].sum())
    least = rows.rho * float(rows.weight[status == FOUND].sum())
    most = rows.rho * float(rows.weight[status != NONE].sum())
    return plain + least, plain + most
