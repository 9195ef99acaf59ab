"""Reading what a classifier is to learn from: a table, labels, and weights."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite, get_tags
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from hardwood.estimators.refusals import explaining_missing, refuse_hiding, refuse_many_classes
from hardwood.grow.problem import Problem
from hardwood.quoting import quote
from hardwood.table import Schema
from hardwood.table.columns import check_classes
from hardwood.table.likeness import find_whole_columns
from hardwood.threat import ThreatModel
from hardwood.weights import find_weighted, read_weights, refuse_no_weight, settle_weights


def read_problem(
    estimator: Any, X: Any, y: Any, sample_weight: Any, *, in_parts: bool = False, narrow: bool = False
) -> Problem:
    """Read a table, labels and weights as the parameters of a tree say, and its tags.

    Some take two classes only; those that take missing values accept some later if there are some here, or if the
    attacker makes or fills them.

    in_parts : whether whole numbers are moved by parts, unless the threat model says which are whole.
    narrow : whether a table of float32 may stay so, for a grower on bins.
    """
    with explaining_missing(estimator):
        threat, schema = read_columns(estimator, X, accepts_missing=get_tags(estimator).input_tags.allow_nan)
        matrix = schema.encode_narrow(X) if narrow else schema.encode(X)
    refuse_hiding(estimator, threat)
    if in_parts and threat.whole_numbers == "from_dtype" and not threat.rules and find_whole_columns(X):
        threat = threat.replace(whole_numbers=None)
    if schema.accepts_missing and not hides(threat) and not is_missing_somewhere(matrix):
        schema = replace(schema, accepts_missing=False)
    threat = threat.settle(X, matrix, schema)
    classes, class_index = read_target(y, len(matrix))
    refuse_many_classes(estimator, classes)
    class_weight = read_class_weight(estimator.class_weight, classes, class_index)
    if sample_weight is not None:
        matrix, class_index, sample_weight = weigh(matrix, class_index, sample_weight, classes)
    class_weight, unit = settle_weights(sample_weight, class_index, class_weight)
    return Problem(
        X=matrix,
        class_index=class_index,
        sample_weight=sample_weight,
        class_weight=class_weight,
        schema=schema,
        classes=classes,
        threat=threat,
        weight_unit=unit,
    )


def read_columns(estimator: Any, X: Any, *, accepts_missing: bool = False) -> tuple[ThreatModel, Schema]:
    """Read the threat and the columns of a table, with the categories that only the threat names."""
    threat = ThreatModel.coerce(estimator.threat, getattr(estimator, "attacking_classes", None))
    schema = Schema.from_table(X, estimator.categorical_features, accepts_missing=accepts_missing)
    return threat, threat.extend(schema)


def hides(threat: ThreatModel) -> bool:
    """Say whether an attacker makes values missing, or fills in missing ones."""
    return threat.blank is not None or threat.fill is not None


def has_missing(X: Any, schema: Schema) -> bool:
    """Say whether a value of a table is missing."""
    return is_missing_somewhere(replace(schema, accepts_missing=True).encode_narrow(X))


def is_missing_somewhere(matrix: np.ndarray) -> bool:
    """Say whether a value of an encoded matrix is missing; there is no infinity in it."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(matrix.sum(dtype=np.float64))) and bool(np.isnan(matrix).any())


def read_labels(y: Any, n_rows: int) -> np.ndarray:
    """Return a label per row, of two classes or more."""
    labels = read_column(y, n_rows)
    _check_labels(labels)
    if len(classes := np.unique(labels)) < 2:
        raise _one_class(classes)
    return labels


def read_target(y: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the class labels, sorted, and the class index of each row, of the smallest type that holds it."""
    y = read_column(y, n_rows)
    if (two := index_two(y)) is not None:
        return two
    _check_labels(y)
    classes, index = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise _one_class(classes)
    return classes, index.astype(np.min_scalar_type(len(classes) - 1))


def index_two(y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return two whole numbers as classes, and which each row has: two passes instead of a sort; None of others."""
    if y.dtype.kind not in "biu" or not len(y):
        return None
    low, high = y.min(), y.max()
    is_high = y == high
    if low < high and bool((is_high | (y == low)).all()):
        return np.array([low, high]), is_high.view(np.uint8)
    return None


def read_column(y: Any, n_rows: int) -> np.ndarray:
    """Return the target as a plain array that is as long as the table."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    if type(y) is not np.ndarray or y.ndim != 1:  # small tables should not wait for the checks of what is plain
        y = column_or_1d(y, warn=True)
    if len(y) != n_rows:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: X has {n_rows}, y has {len(y)}")
    return y


def refuse_infinite(y: np.ndarray) -> None:
    """Refuse a target with missing or infinite values."""
    with np.errstate(over="ignore", invalid="ignore"):  # it adds up, which the largest numbers do not
        assert_all_finite(y, input_name="y")


def _check_labels(y: np.ndarray) -> None:
    check_classes(y)
    refuse_infinite(y)
    check_classification_targets(y)


def _one_class(classes: np.ndarray) -> ValueError:
    return ValueError(f"y has only one class, {quote(classes[:1].tolist())}; a classifier needs two")


def weigh(
    matrix: np.ndarray, class_index: np.ndarray, sample_weight: Any, classes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Check the weights and drop rows that have none."""
    weight = read_weights(sample_weight, len(matrix))
    kept = find_weighted(weight)
    if not kept.all():
        matrix, class_index, weight = matrix[kept], class_index[kept], weight[kept]
    refuse_one_class_with_weight(classes, np.bincount(class_index))
    return matrix, class_index, weight


def refuse_one_class_with_weight(classes: np.ndarray, n_kept: np.ndarray) -> None:
    """Refuse rows of which all that weigh something are of one class."""
    refuse_no_weight(int(n_kept.sum()))
    if np.count_nonzero(n_kept) < 2:
        raise ValueError(
            f"sample_weight: only one of the classes {quote(classes.tolist())} has rows with a positive weight"
        )


def read_class_weight(class_weight: Any, classes: np.ndarray, class_index: np.ndarray) -> np.ndarray:
    """Return the weight of each class."""
    return weigh_classes(class_weight, classes, np.bincount(class_index, minlength=len(classes)))


def weigh_classes(class_weight: Any, classes: np.ndarray, n_rows: np.ndarray) -> np.ndarray:
    """Return the weight of each class, by how many rows it has."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        return np.asarray(n_rows.sum() / (len(classes) * n_rows.astype(np.float64)))  # as scikit-learn has it
    weight = compute_class_weight(class_weight, classes=classes, y=classes)
    if not (np.isfinite(weight) & (weight >= 0.0)).all() or not weight.any():
        raise ValueError(f"class_weight={quote(class_weight)}: expected finite weights >= 0, not all 0")
    return np.asarray(weight)
