"""Reading what a regressor is to learn from: a table, a number per row, and weights."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import column_or_1d

from hardwood.ensemble.sums import HEADROOM
from hardwood.estimators.parameters import is_integer
from hardwood.estimators.refusals import explaining_missing, refuse_categories
from hardwood.estimators.target import has_missing, hides, read_columns, refuse_infinite
from hardwood.grow.regression import RegressionProblem
from hardwood.quoting import quote
from hardwood.table import Schema
from hardwood.threat import ThreatModel
from hardwood.weights import (
    MOST,
    ORDINARY,
    choose_weight_unit,
    find_weighted,
    measure_all,
    read_weights,
    spell_power,
)

# Predictions, and sums of the trees' own, stay below this: so `hardwood.ensemble.sums` wants them.
LARGEST_OUTPUT = float(np.finfo(np.float64).max) / HEADROOM


def read_regression(estimator: Any, X: Any, y: Any, sample_weight: Any) -> RegressionProblem:
    """Read a table, numbers and weights as the parameters of a tree say, and its tags."""
    with explaining_missing(estimator):
        threat, schema = read_columns(estimator, X, accepts_missing=get_tags(estimator).input_tags.allow_nan)
        refuse_columns(estimator, threat, schema)
        if schema.accepts_missing and not has_missing(X, schema):
            schema = replace(schema, accepts_missing=False)
        matrix = schema.encode(X)
    threat = threat.settle(X, matrix, schema)
    target, unit = read_numbers(y, len(matrix)), 1.0
    if sample_weight is not None:
        matrix, target, sample_weight, unit = weigh_rows(matrix, target, sample_weight)
    refuse_size(target, count_added(estimator))
    return RegressionProblem(matrix, target, sample_weight, schema, threat, unit)


def refuse_columns(estimator: Any, threat: ThreatModel, schema: Schema) -> None:
    """Refuse an attacker or columns that a regression tree with these parameters does not take."""
    if hides(threat):
        raise ValueError(
            f"threat: {type(estimator).__name__} cannot be trained against an attacker who blanks values or fills them "
            "in; RobustBoostingRegressor can. Otherwise leave out blank and fill"
        )
    if not get_tags(estimator).input_tags.categorical:
        refuse_categories(estimator, schema, "criterion")


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


def count_added(estimator: Any) -> int:
    """Return how many numbers as large as targets a model of this estimator adds up: one per tree of a forest."""
    n_trees = getattr(estimator, "n_estimators", 1)
    return int(n_trees) if is_integer(n_trees) and n_trees >= 1 else 1  # others are refused with the other parameters


def refuse_size(target: np.ndarray, n_added: int) -> None:
    """Refuse targets so large that as many of them, added up, are no number."""
    most = LARGEST_OUTPUT / n_added
    too_large = np.abs(target) > most
    if too_large.any():
        row = int(too_large.argmax())
        added = "" if n_added == 1 else f", as n_estimators={n_added} predictions are added up"
        raise ValueError(
            f"y: {quote(float(target[row]))} is too large; expected numbers up to {most:.3g}{added}. Scale the target"
        )


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
