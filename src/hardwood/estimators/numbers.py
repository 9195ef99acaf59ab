"""Reading what a regressor is to learn from: a table, a number per row, and weights."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite, get_tags
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from hardwood.estimators.target import has_missing, hides, read_columns
from hardwood.grow.regression import RegressionProblem
from hardwood.table import Schema
from hardwood.threat import ThreatModel


def read_regression(estimator: Any, X: Any, y: Any, sample_weight: Any) -> RegressionProblem:
    """Read a table, numbers and weights as the parameters of a tree say, and its tags."""
    threat, schema = read_columns(estimator, X, accepts_missing=get_tags(estimator).input_tags.allow_nan)
    refuse_columns(estimator, threat, schema)
    if schema.accepts_missing and not has_missing(X, schema):
        schema = replace(schema, accepts_missing=False)
    matrix = schema.encode(X)
    threat = threat.settle(X, matrix, schema)
    target = read_numbers(y, len(matrix))
    if sample_weight is not None:
        matrix, target, sample_weight = weigh_rows(matrix, target, sample_weight)
    return RegressionProblem(matrix, target, sample_weight, schema, threat)


def refuse_columns(estimator: Any, threat: ThreatModel, schema: Schema) -> None:
    """Refuse an attacker or columns that a regression tree with these parameters does not take."""
    if hides(threat):
        raise ValueError(
            f"threat: {type(estimator).__name__} cannot be trained against an attacker who blanks values or fills them "
            "in; leave out blank and fill"
        )
    if schema.categorical and not get_tags(estimator).input_tags.categorical:
        raise ValueError(
            f"X: column {schema.key(schema.categorical[0])!r} is categorical; {type(estimator).__name__} takes numbers "
            "only with these parameters: choose criterion='squared_error', or encode the column"
        )


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
                f"y: expected numbers, got {column.dtype} such as {column.tolist()[0]!r}; for classes there is "
                "RobustTreeClassifier"
            ) from None
    assert_all_finite(column, input_name="y")
    if len(column) != n_rows:
        raise ValueError(
            f"Found input variables with inconsistent numbers of samples: X has {n_rows}, y has {len(column)}"
        )
    return np.asarray(column, dtype=np.float64)


def weigh_rows(matrix: np.ndarray, target: np.ndarray, sample_weight: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Check the weights and drop rows that have none."""
    weight = _check_sample_weight(sample_weight, matrix, dtype=np.float64)
    if (weight < 0.0).any():
        row = int((weight < 0.0).argmax())
        raise ValueError(f"sample_weight: row {row} has {weight[row]!r}; expected weights >= 0")
    kept = weight > 0.0
    if not kept.any():
        raise ValueError("sample_weight: no row has a positive weight")
    return (matrix, target, weight) if kept.all() else (matrix[kept], target[kept], weight[kept])
