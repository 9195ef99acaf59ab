"""Reading what a regressor is to learn from: a table, a number per row, and weights."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import get_tags

from hardwood.ensemble.sums import HEADROOM
from hardwood.estimators.parameters import is_integer
from hardwood.grow.regression import RegressionProblem
from hardwood.quoting import quote
from hardwood.rows.columns import has_missing, hides, read_columns
from hardwood.rows.targets import read_numbers, weigh_rows
from hardwood.table import Schema
from hardwood.threat import ThreatModel

# Predictions, and sums of the trees' own, stay below this: so `hardwood.ensemble.sums` wants them.
LARGEST_OUTPUT = float(np.finfo(np.float64).max) / HEADROOM


def read_regression(estimator: Any, X: Any, y: Any, sample_weight: Any) -> RegressionProblem:
    """Read a table, numbers and weights as the parameters of a tree say, and its tags."""
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
            "in; leave out blank and fill"
        )
    if schema.categorical and not get_tags(estimator).input_tags.categorical:
        raise ValueError(
            f"X: column {quote(schema.key(schema.categorical[0]))} is categorical; {type(estimator).__name__} "
            "takes numbers only with these parameters: choose criterion='squared_error', or encode the column"
        )


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
