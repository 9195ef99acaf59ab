"""The targets of training rows, classes or numbers: reading them, and what classes weigh."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from hardwood.quoting import quote, shortening
from hardwood.reals import read_real, read_reals
from hardwood.table.columns import check_classes
from hardwood.weights import MOST, ORDINARY, spell_power


def read_labels(y: Any, n_rows: int) -> np.ndarray:
    """Return a label per row, of two classes or more."""
    labels = read_column(y, n_rows)
    refuse_classes(index_labels(labels, n_rows)[0])
    return labels


def index_labels(y: Any, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels, sorted, and the index of each row among them, of the smallest type that holds it."""
    labels = read_column(y, n_rows)
    if (two := _index_two(labels)) is not None:
        return two
    check_classes(labels)
    refuse_infinite(labels)
    classes, index = np.unique(labels, return_inverse=True)
    return classes, index.astype(np.min_scalar_type(len(classes) - 1))


def _index_two(y: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return two whole numbers as classes, and which each row has: two passes instead of a sort; None of others."""
    if y.dtype.kind not in "biu" or not len(y):
        return None
    low, high = y.min(), y.max()
    is_high = y == high
    if low < high and bool((is_high | (y == low)).all()):
        return np.array([low, high]), is_high.view(np.uint8)
    return None


def refuse_classes(classes: np.ndarray) -> None:
    """Refuse a single class, and what is no class."""
    if classes.dtype.kind not in "biu":
        check_classification_targets(np.repeat(classes, 3))  # a class of one row each would be warned about
    if len(classes) < 2:
        raise ValueError(f"y has only one class, {quote(classes[:1].tolist())}; a classifier needs two")


def read_numbers(y: Any, n_rows: int) -> np.ndarray:
    """Return the target as an array of numbers that is as long as the table."""
    try:
        column = read_reals(read_column(y, n_rows), "y")
    except ValueError as error:
        raise ValueError(f"{error}; for classes there is RobustTreeClassifier") from None
    refuse_infinite(column)
    return column


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


def weigh_classes(class_weight: Any, classes: np.ndarray, n_rows: np.ndarray) -> np.ndarray:
    """Return the weight of each class, by how many rows it has."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        return np.asarray(n_rows.sum() / (len(classes) * n_rows.astype(np.float64)))  # as scikit-learn has it
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight={quote(class_weight)}: expected None, 'balanced' or a dict {{label: weight}}")
    said = {label: read_real(own, f"class_weight of {quote(label)}") for label, own in class_weight.items()}
    with shortening():  # labels that are no classes
        weight = compute_class_weight(said, classes=classes, y=classes)
    if not (np.isfinite(weight) & (weight >= 0.0)).all() or not weight.any():
        raise ValueError(f"class_weight={quote(class_weight)}: expected finite weights >= 0, not all 0")
    return np.asarray(weight)


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
        name, beside, what = "y", "", "target"
        if weight_unit != 1.0:
            together = spell_power(math.log2(total_weight) + math.log2(weight_unit))
            name, beside, what = "y and sample_weight", f" for rows that may weigh {together} together", "weights"
        raise ValueError(
            f"{name}: the largest number, {largest:.3g} without its sign, is too large{beside}: squared errors of all "
            f"rows may be more than float64 can hold; expected numbers up to {spell_power(room)}. Scale the {what}"
        )
    return 1.0 if abs(size) <= ORDINARY else math.ldexp(1.0, math.ceil(size))
