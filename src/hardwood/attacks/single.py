"""Exact attacks on a model of one tree."""

from typing import Any, NamedTuple

import numpy as np

from hardwood._kernels import tree_attack
from hardwood._kernels.compiling import frozen
from hardwood.convert import as_ensemble
from hardwood.ensemble import TreeEnsemble
from hardwood.reach import Reach
from hardwood.results import AttackResult
from hardwood.table import Schema
from hardwood.threat import ThreatModel

NORMS = {np.inf: tree_attack.INF, 0: 0, 1: 1, 2: 2}

# Rows are attacked in chunks, so that their reach (two numbers per value) need not fit in memory at once.
CHUNK = 1 << 14


class _Search(NamedTuple):
    """Everything about a model and a threat that does not depend on the rows."""

    tree: TreeEnsemble
    reach: Reach
    target: tree_attack.Target
    categories: tree_attack.CategoryReach


def attack(
    model: Any, X: Any, y: Any = None, threat: Any = None, *, norm: float = np.inf, feature_weight: Any = None
) -> AttackResult:
    """Find the nearest adversarial example of every row, exactly.

    An adversarial example of a row is a point that the threat model lets the attacker reach and that the model gives
    another
    class than `y`. A row the model gets wrong as it stands is its own example, at distance 0.

    Parameters
    ----------
    model : fitted tree
        A :class:`RobustTreeClassifier`, a :class:`TreeEnsemble` of one tree, a scikit-learn decision tree, or the
        path of a saved model.
    X : table of shape (n_samples, n_features)
    y : array-like of labels, or None
        None: the model's own predictions, that is, any change of prediction counts.
    threat : ThreatModel or any of its spellings, or None
        None: every feature may take any value, so that `distance` is how far the row is from the other class.
    norm : {inf, 2, 1, 0}, default=inf
        How the size of a change is measured. A changed category counts as a change by 1.
    feature_weight : array-like of shape (n_features,), or None
        What a change of one unit in each feature costs. None: 1 for all.

    Returns
    -------
    AttackResult

    Notes
    -----
    Leaves are open on their left end. An example that has to cross a threshold to the right takes the next float64
    after it, so the distance is the smallest there is among floating point numbers. Every example is predicted again
    before it is returned.

    Examples
    --------
    >>> from hardwood import RobustTreeClassifier, attack
    >>> model = RobustTreeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> attack(model, [[1.0], [3.0]], [0, 1]).distance.tolist()
    [0.5000000000000002, 1.5]
    """
    tree = as_ensemble(model)
    matrix = tree.schema.encode(X)
    label = tree.decide(matrix) if y is None else read_labels(y, tree.labels, len(matrix))
    search = _prepare(tree, ThreatModel("<>") if threat is None else threat)
    if not isinstance(norm, (int, float)) or norm not in NORMS:
        raise ValueError(f"norm={norm!r}: expected inf, 2, 1 or 0")
    weight = _read_weight(feature_weight, tree.schema)
    found, X_adv = _attack_matrix(search, matrix, label, NORMS[norm], weight, any_will_do=False)
    _predict_again(search, matrix, X_adv, label, found)
    distance = np.full(len(matrix), np.inf)
    distance[found] = measure(X_adv[found], matrix[found], tree.schema, norm, weight)
    return AttackResult(found=found, X_adv=_like(X, tree.schema, X_adv), distance=distance)


def is_vulnerable(model: Any, X: Any, y: Any, threat: Any) -> np.ndarray:
    """Say of each row whether the attacker can make the model give it another class than `y`.

    Rows the model gets wrong as they stand count as vulnerable. Faster than :func:`attack`, which looks for the
    nearest example.

    Examples
    --------
    >>> from hardwood import RobustTreeClassifier, is_vulnerable
    >>> model = RobustTreeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> is_vulnerable(model, [[1.0], [3.0]], [0, 1], threat=1.0).tolist()
    [True, False]
    """
    tree = as_ensemble(model)
    matrix = tree.schema.encode(X)
    label = read_labels(y, tree.labels, len(matrix))
    search = _prepare(tree, threat)
    weight = np.ones(tree.schema.n_features)
    found, X_adv = _attack_matrix(search, matrix, label, tree_attack.INF, weight, any_will_do=True)
    _predict_again(search, matrix, X_adv, label, found)
    return found


def read_labels(y: Any, classes: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the class index of every label."""
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise ValueError(f"y: expected {n_rows} labels, one per row of X, got shape {labels.shape}")
    index = np.full(n_rows, -1)
    for k, name in enumerate(classes.tolist()):
        index[labels == name] = k
    if (index < 0).any():
        label = labels[(index < 0).argmax()]
        raise ValueError(f"y: {label!r} is not a class of the model; its classes are {classes.tolist()}")
    return index


def measure(X_adv: np.ndarray, matrix: np.ndarray, schema: Schema, norm: float, weight: np.ndarray) -> np.ndarray:
    """Return the distances between two encoded matrices, row by row; a changed category is a change by 1."""
    with np.errstate(over="ignore"):  # the difference of two huge numbers may be infinite
        change = np.abs(X_adv - matrix)
    for feature, labels in enumerate(schema.categories):
        if labels is not None:
            change[:, feature] = change[:, feature] != 0.0
    if norm == 0:
        return ((change != 0.0) * weight).sum(axis=1)
    with np.errstate(over="ignore"):
        change *= weight
        if norm != 2:
            return np.linalg.norm(change, ord=norm, axis=1)
        # Scaled, so that no square is out of range.
        largest = change.max(axis=1, keepdims=True)
        scale = np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0)
        return scale[:, 0] * np.linalg.norm(change / scale, axis=1)


def _prepare(tree: TreeEnsemble, threat: Any) -> _Search:
    if tree.n_trees != 1:
        raise ValueError(f"model: it has {tree.n_trees} trees; exact attacks are for models of one tree so far")
    reach = ThreatModel.coerce(threat).resolve(tree.schema, tree.labels)
    inner = np.flatnonzero(tree.feature >= 0)
    parent = np.full(tree.n_nodes, -1, dtype=np.int64)
    parent[tree.left[inner]] = parent[tree.right[inner]] = inner
    target = tree_attack.Target(tree.trees, parent, tree.empty_nodes(), tree.node_class)
    return _Search(tree, reach, target, tree_attack.CategoryReach(*reach.pack_categories()))


def _attack_matrix(
    search: _Search, matrix: np.ndarray, label: np.ndarray, norm: int, weight: np.ndarray, *, any_will_do: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Attack an encoded matrix chunk by chunk: (found, examples)."""
    reach = search.reach
    n_levels = search.tree.max_depth + 1
    path = tree_attack.Path(
        np.empty(n_levels, np.int64), np.empty(n_levels, np.int64), np.empty(n_levels), np.empty(n_levels)
    )
    point = np.empty(matrix.shape[1])
    found = np.zeros(len(matrix), dtype=bool)
    X_adv = np.full_like(matrix, np.nan)
    for start in range(0, len(matrix), CHUNK):
        rows = slice(start, start + CHUNK)
        low, high = reach.box(matrix[rows], label[rows])
        tree_attack.attack_rows(
            search.target, search.categories, frozen(matrix[rows]), low, high, reach.attacks[label[rows]], label[rows],
            norm, weight, any_will_do, path, point, found[rows], X_adv[rows],
        )  # fmt: skip
    return found, X_adv


def _predict_again(
    search: _Search, matrix: np.ndarray, X_adv: np.ndarray, label: np.ndarray, found: np.ndarray
) -> None:
    """Make sure that every example is within reach and is misclassified: a claim that is wrong must not leave here."""
    example, row_label = X_adv[found], label[found]
    inside = search.reach.contains(matrix[found], example, row_label)
    if not (inside.all() and (search.tree.decide(example) != row_label).all()):
        raise RuntimeError("an adversarial example failed its own check; please report this with the model and the row")


def _read_weight(feature_weight: Any, schema: Schema) -> np.ndarray:
    if feature_weight is None:
        return np.ones(schema.n_features)
    try:
        weight = np.asarray(feature_weight, dtype=np.float64)
    except (ValueError, TypeError):
        raise ValueError(f"feature_weight: expected numbers, got {feature_weight!r}") from None
    if weight.shape != (schema.n_features,):
        raise ValueError(f"feature_weight: expected {schema.n_features} weights, got shape {weight.shape}")
    if not (np.isfinite(weight) & (weight >= 0.0)).all():
        raise ValueError(f"feature_weight: expected finite weights >= 0, got {weight.tolist()}")
    return weight


def _like(X: Any, schema: Schema, X_adv: np.ndarray) -> Any:
    """Return the examples as the kind of table that was attacked."""
    plain = not hasattr(X, "columns") and all(labels is None for labels in schema.categories)
    return X_adv if plain else schema.decode(X_adv)
