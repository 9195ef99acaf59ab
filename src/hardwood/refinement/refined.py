"""`refine`: a tree, made more robust."""

from dataclasses import replace
from typing import Any

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.reals import LARGEST, check_count, check_number, read_seed
from hardwood.refinement.alternation import Settings, alternate
from hardwood.refinement.door import hand_back, read_training
from hardwood.refinement.leaf_values import fill_values
from hardwood.refinement.monotone import order_values
from hardwood.refinement.rows import Rows, find_grid, make_samples, order_columns, select_columns
from hardwood.refinement.working_tree import find_capacity, find_learned, harvest, plant

PRICE = 2.0  # the best or as good as the best for every start, over 14 tables
MAX_SWEEPS = 20
UNLIMITED = np.iinfo(np.int64).max


def refine(
    model: Any,
    X: Any,
    y: Any,
    threat: Any = None,
    *,
    price: float = PRICE,
    max_sweeps: int = MAX_SWEEPS,
    max_depth: int | None = None,
    rho: float = 1.0,
    sample_weight: Any = None,
    random_state: Any = 0,
) -> Any:
    """Make a fitted tree more robust: improve it node by node until nothing moves.

    What is minimised is the exact adversarial 0/1 loss on the rows given, plus a price per leaf. Each node in turn gets
    the best split there is while the rest of the tree stays as it is, or becomes a leaf, gives way to one of its
    subtrees, or has them swapped; a leaf may be split. No move raises the objective.

    Parameters
    ----------
    model : fitted classifier of a single tree
        Anything :func:`as_ensemble` takes: hardwood's own, a DecisionTreeClassifier, a saved model.
    X : table of shape (n_samples, n_features)
        The rows to improve it on, as a rule those it was trained on; with missing values if the model takes them.
    y : array-like of labels
    threat : ThreatModel or any of its spellings, or None
        What the attacker may do; not rules with a budget. None: what the model was trained against, which hardwood's
        own estimators know.
    price : float, default=2.0
        What a leaf costs, in rows (in units of `sample_weight`, if given): a leaf that saves fewer goes. It keeps the
        tree from learning the rows by heart; 0 fits them as closely as it can.
    max_sweeps : int, default=20
        How often all nodes are visited at most. Five times is usual.
    max_depth : int or None, default=None
        How deep the tree may grow. None: no deeper than it is. A tree that is deeper is not cut back.
    rho : float in [0, 1], default=1.0
        The share of attackers who attack: the loss is `rho` times the adversarial loss plus `1 - rho` times the plain
        one.
    sample_weight : array-like of shape (n_samples,) or None
    random_state : int, RandomState or None, default=0
        Draws the order in which nodes are visited.

    Returns
    -------
    estimator or TreeEnsemble
        For a fitted RobustTreeClassifier or TreantClassifier a fitted copy of it with the new tree; for anything else
        the new tree as a TreeEnsemble, which predicts as well. The model itself is not changed. What a
        RobustTreeClassifier was told of monotone features holds for the new tree.

    Notes
    -----
    Of equally good thresholds the middle of the widest gap is taken, gaps being measured in standard deviations of
    their feature; what is then still equal is decided by what is in the columns, not by their order. Two columns with
    the same contents are the only case in which the order decides.

    Where values of a feature are missing, or can be made so, each split of it learns which side they are on, or parts
    them from all others. Elsewhere they go where more of the weight goes.

    `predict_proba` gives the class shares of each leaf after the attacker has moved the rows. A leaf that was given a
    class against the majority of its rows says so with a share just above one half.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from hardwood import adversarial_accuracy, load_dataset, refine
    >>> table = load_dataset("diabetes")
    >>> tree = DecisionTreeClassifier(max_depth=4, random_state=0).fit(table.data, table.target)
    >>> refined = refine(tree, table.data, table.target, threat=2.0)
    >>> refined
    TreeEnsemble(1 tree, 7 leaves, 8 features)
    >>> for model in tree, refined:
    ...     print(f"{adversarial_accuracy(model, table.data, table.target, threat=2.0):.3f}")
    0.730
    0.762
    """
    training = read_training(model, X, y, threat, rho, sample_weight, targets=True)
    ensemble, rows = training.ensemble, training.rows
    read_monotonic = getattr(model, "_read_monotonic", None)  # estimators of ours that may have been told of some
    settings = Settings(
        price=check_number("price", price, 0.0, LARGEST) / training.weight_unit,
        max_sweeps=check_count("max_sweeps", max_sweeps, 0),
        max_depth=ensemble.max_depth if max_depth is None else check_count("max_depth", max_depth, 0),
        max_leaves=UNLIMITED,
        monotonic=None if read_monotonic is None else read_monotonic(ensemble.schema, len(ensemble.labels)),
    )
    refined = improve(ensemble, rows, settings, read_seed(random_state))
    return hand_back(model, refined, training.weight_unit)


def improve(ensemble: TreeEnsemble, rows: Rows, settings: Settings, seed: int) -> TreeEnsemble:
    """Return the tree that alternating optimisation makes of a tree, whatever the order of the columns."""
    columns = order_columns(rows)
    ordered = rows._replace(matrix=np.ascontiguousarray(rows.matrix[:, columns]), reach=rows.reach.select(columns))
    if settings.monotonic is not None:
        settings = settings._replace(monotonic=settings.monotonic[columns])
    refined = improve_ordered(order_features(ensemble, columns), ordered, settings, seed)
    return order_features(refined, np.argsort(columns))


def improve_ordered(start: TreeEnsemble, rows: Rows, settings: Settings, seed: int) -> TreeEnsemble:
    """Return the tree that alternating optimisation makes of a tree; of equals it prefers what columns come first."""
    samples = make_samples(rows, find_grid(rows, start))
    tree = plant(start, samples, find_capacity(start, len(samples.weight), settings.max_depth))
    alternate(samples, tree, settings, np.random.default_rng(seed))
    refined = harvest(tree, samples, start.schema, start.labels)
    return finish(refined, rows, find_learned(samples, start.schema), settings)


def finish(refined: TreeEnsemble, rows: Rows, learned: np.ndarray, settings: Settings) -> TreeEnsemble:
    """Return a refined tree whose leaves say class shares; `learned` as for `fill_values`."""
    filled = fill_values(refined, refined.node_class, rows, learned=learned)
    return filled if settings.monotonic is None else order_values(filled, settings.monotonic, learned)


def order_features(ensemble: TreeEnsemble, columns: np.ndarray) -> TreeEnsemble:
    """Return a tree that reads a table whose columns are taken in another order."""
    position = np.empty(len(columns) + 1, dtype=np.int32)
    position[columns], position[-1] = np.arange(len(columns)), -1
    return replace(ensemble, feature=position[ensemble.feature], schema=select_columns(ensemble.schema, columns))
