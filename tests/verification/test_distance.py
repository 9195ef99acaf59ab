"""Distances of nearest examples in any unit: weights and tables of very large and very small numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from hardwood import ThreatModel, TreeEnsemble, as_ensemble, attack
from hardwood.results import AttackResult

pytestmark = pytest.mark.filterwarnings("ignore:relations. .* does not hold in:UserWarning")

NORMS = [np.inf, 2, 1, 0]
N_ROWS = 8
EXPONENTS = [-1000, -560, 530, 1000]
WEIGHT = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 3.0])
TARGETS = {0: [2], 1: [2], 2: [0]}

# What an attacker may do where the first four columns are measured in some unit.
Threats = Callable[[float], ThreatModel]
THREATS: dict[str, Threats] = {
    "reach": lambda unit: ThreatModel(place([1.0] * 4, unit)),
    "changes": lambda unit: ThreatModel("<>", max_changes=1),
    "radius": lambda unit: ThreatModel("<>", radius=1.5, units=place([1.0] * 4, unit)),
    "changes, radius": lambda unit: ThreatModel("<>", max_changes=2, radius=1.5, units=place([1.0] * 4, unit)),
    "changes, radius in l1": lambda unit: ThreatModel(
        "<>", max_changes=2, radius=2.0, norm=1, units=place([1.0] * 4, unit)
    ),
    "groups": lambda unit: ThreatModel("<>", groups=[[4, 5]], max_changes=2),
    "targets": lambda unit: ThreatModel("<>", TARGETS, radius=1.5, max_changes=2, units=place([1.0] * 4, unit)),
    "relations": lambda unit: ThreatModel(
        place([np.inf, np.inf, 1.0, 2.0], unit), relations=["`0` + `1` <= `2`", "`3` <= 2 * `2`"], max_changes=2
    ),
}


def place(numbers: list[float], unit: float) -> dict[Any, float]:
    return {j: number * unit for j, number in enumerate(numbers)}


@cache
def fit(n_trees: int) -> tuple[TreeEnsemble, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 6))
    X[:, 4] = generator.integers(0, 2, 200)
    X[:, 5] = 1.0 - X[:, 4]
    y = np.digitize(X[:, :5].sum(axis=1), [-0.5, 1.5])
    forest = RandomForestClassifier(n_trees, max_depth=4, random_state=0).fit(X, y)
    return as_ensemble(forest), X[:N_ROWS], y[:N_ROWS]


def assert_scaled(one: AttackResult, scaled: AttackResult, exponent: int) -> None:
    """Distances and their bounds are the same, but for a power of two."""
    np.testing.assert_array_equal(scaled.found, one.found)
    for number, wanted in ((scaled.distance, one.distance), (scaled.lower, one.lower)):
        np.testing.assert_allclose(np.ldexp(number, -exponent), wanted, rtol=1e-6)


@pytest.mark.parametrize("n_trees", [1, 5])
@pytest.mark.parametrize("threat", THREATS)
def test_weights_of_any_size(threat: str, n_trees: int) -> None:
    """Squares of changes were 0 or infinite: distances behind `max_changes` were seven times too large, and exact."""
    trees, X, y = fit(n_trees)
    for norm in NORMS:
        one = attack(trees, X, y, THREATS[threat](1.0), norm=norm, feature_weight=WEIGHT)
        for exponent in EXPONENTS:
            weight = np.ldexp(WEIGHT, exponent)
            assert_scaled(one, attack(trees, X, y, THREATS[threat](1.0), norm=norm, feature_weight=weight), exponent)


@pytest.mark.parametrize("n_trees", [1, 5])
@pytest.mark.parametrize("threat", THREATS)
def test_tables_of_any_size(threat: str, n_trees: int) -> None:
    """The same for the columns themselves, and the thresholds on them."""
    trees, X, y = fit(n_trees)
    for norm in NORMS[:3]:
        one = attack(trees, X, y, THREATS[threat](1.0), norm=norm)
        for exponent in EXPONENTS:
            unit = np.ldexp([1.0, 1.0, 1.0, 1.0, 0.0, 0.0], exponent) + np.array([0.0] * 4 + [1.0] * 2)
            larger = replace(trees, threshold=trees.threshold * unit[np.maximum(trees.feature, 0)])
            weight = np.where(unit == 1.0, np.ldexp(1.0, exponent), 1.0)
            result = attack(larger, X * unit, y, THREATS[threat](float(unit[0])), norm=norm, feature_weight=weight)
            assert_scaled(one, result, exponent)
