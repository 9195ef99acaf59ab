"""Targets of training rows, classes or numbers, and what the rows weigh."""

import math
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from hardwood.quoting import quote
from hardwood.table.columns import check_classes
from hardwood.weights import (
    MOST,
    ORDINARY,
    choose_weight_unit,
    find_weighted,
    measure_all,
    read_weights,
    refuse_no_weight,
    spell_power,
)


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


def read_numbers(y: Any, n_rows: int) -> np.ndarray:
    """Return the target as an array of numbers that is as long as the table."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    column = column_or_1d(y, warn=True)
    if column.dtype.kind not in "biuf":
        try:
            column = column.astype(np.float64)
        except (ValueError, TypeError):
            raise ValueError(
                f"y: expected numbers, got {column.dtype} such as {quote(column.tolist()[0])}; for classes there is "
                "RobustTreeClassifier"
            ) from None
    refuse_infinite(column)
    if len(column) != n_rows:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {n_rows}, y has {len(column)}"
        )
    return np.asarray(column, dtype=np.float64)


def choose_target_unit(largest: float, total_weight: float, weight_unit: float) -> float:
    """Return the power of two that targets are divided by where squared errors are added up: 1 for ordinary ones.

    Refuse targets whose squared errors, all together, are no number.

    largest : the largest absolute value
    total_weight, weight_unit : what no sum of weights exceeds, in that unit
    """
    if largest == 0.0:
        return 1.0
    size = math.log2(largest)
    # Half a square of the distance to the other end of the targets, and room for a tree that leads away from them.
    room = 0.5 * (MOST - math.log2(total_weight) - math.log2(weight_unit)) - 2.0
    if size > room:
        raise ValueError(
            f"y: the largest number, {largest:.3g} without its sign, is too large: squared errors of all rows may be "
            f"more than float64 can hold; expected numbers up to {spell_power(room)}. Scale the target"
        )
    return 1.0 if abs(size) <= ORDINARY else math.ldexp(1.0, math.ceil(size))


def weigh_rows(
    matrix: np.ndarray, target: np.ndarray, sample_weight: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """Check the weights and drop rows that have none; return the weights in a unit, and the unit."""
    weight = read_weights(sample_weight, len(matrix))
    kept = find_weighted(weight)
    if not kept.all():
        matrix, target, weight = matrix[kept], target[kept], weight[kept]
    unit = choose_weight_unit(measure_all(weight), None, "sample_weight")
    return matrix, target, weight if unit == 1.0 else weight / unit, unit


def join_classes(parts: list[np.ndarray]) -> np.ndarray:
    """Return the classes of all parts, sorted; refuse a single one, and what is no class."""
    classes = np.unique(np.concatenate(parts))
    check_classification_targets(np.repeat(classes, 3))  # a class of one row each would be warned about
    if len(classes) < 2:
        raise ValueError(f"y has only one class, {quote(classes[:1].tolist())}; a classifier needs two")
    return classes
