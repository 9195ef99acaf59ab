"""How far an example is from its row."""

from typing import Any

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.quoting import quote
from hardwood.reals import read_reals
from hardwood.table import Schema
from hardwood.verification.search import Prepared, prepare

# Radii to begin with are no larger.
LARGEST_GUESS = 1e300


def measure(X_adv: np.ndarray, matrix: np.ndarray, schema: Schema, norm: float, weight: np.ndarray) -> np.ndarray:
    """Return the distances between two encoded matrices, row by row; a changed category is a change by 1.

    So is a value that was blanked or filled in; one that stays missing is no change.
    """
    with np.errstate(over="ignore"):  # the difference of two huge numbers may be infinite
        change = np.abs(X_adv - matrix)
        for feature in schema.categorical:
            change[:, feature] = change[:, feature] != 0.0
        is_missing = np.isnan(matrix), np.isnan(X_adv)
        change[is_missing[0] | is_missing[1]] = 0.0
        change[is_missing[0] != is_missing[1]] = 1.0
        if norm == 0:
            return ((change != 0.0) * weight).sum(axis=1)
        change *= weight
        if norm != 2:
            return change.max(axis=1) if norm == np.inf else change.sum(axis=1)
        # Scaled, so that no square is out of range.
        largest = change.max(axis=1, keepdims=True)
        scale = np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0)
        return scale[:, 0] * np.linalg.norm(change / scale, axis=1)


def read_weight(feature_weight: Any, schema: Schema) -> np.ndarray:
    """Return what a change of one unit costs in each feature."""
    if feature_weight is None:
        return np.ones(schema.n_features)
    weight = read_reals(feature_weight, "feature_weight")
    if weight.shape != (schema.n_features,):
        raise ValueError(f"feature_weight: expected {schema.n_features} weights, got shape {weight.shape}")
    if not (np.isfinite(weight) & (weight >= 0.0)).all():
        raise ValueError(f"feature_weight: expected finite weights >= 0, got {quote(weight.tolist())}")
    return weight


def first_radius(ensemble: TreeEnsemble, weight: np.ndarray, norm: float) -> float:
    """Return a distance to begin with: half the width of a narrow leaf. Too small costs little, it is doubled."""
    if norm == 0:
        return np.inf
    prepared, key = prepare(ensemble), weight.tobytes()
    known = prepared.width
    if known is None or known[0] != key:
        known = prepared.width = key, _find_narrow_width(prepared, weight)
    return 0.5 * known[1]


def _find_narrow_width(prepared: Prepared, weight: np.ndarray) -> float:
    """Return what it costs to go through a narrow leaf: the narrowest quarter of them costs less."""
    feature, width = prepared.widths
    with np.errstate(over="ignore", invalid="ignore"):  # widths may be infinite, and weights 0
        costs = weight[prepared.used][feature] * width
    costs = np.sort(costs[costs > 0.0])
    return min(float(costs[len(costs) // 4]), LARGEST_GUESS) if len(costs) else 2.0
