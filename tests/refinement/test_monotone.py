"""Refinement with monotone features: predictions and class shares are in order on all pairs of a grid."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood import RobustTreeClassifier, ThreatModel, adversarial_accuracy, refine

SEEDS = st.integers(0, 2**32 - 1)


def make_case(seed: int):
    """Return a small table with some missing values and a category, labels, a threat, and directions."""
    generator = np.random.default_rng(seed)
    n_rows = int(generator.integers(20, 60))
    X = pd.DataFrame({
        "a": generator.integers(0, 6, n_rows).astype(float),
        "b": generator.normal(size=n_rows).round(1),
        "c": generator.integers(0, 4, n_rows).astype(float),
    })  # fmt: skip
    score = np.sin(2 * X.a) + X.b - 0.5 * X.c + generator.normal(size=n_rows)
    if generator.random() < 0.5:
        X["k"] = pd.Categorical.from_codes(generator.integers(0, 3, n_rows), ["x", "y", "z"])
        score += X.k == "x"
    y = (score > np.median(score)).astype(int)
    hides = {}
    if generator.random() < 0.6:
        X.loc[generator.random(n_rows) < 0.2, "a"] = np.nan
        X.loc[generator.random(n_rows) < 0.2, "c"] = np.nan
        hides = [{}, {"blank": ["c"]}, {"fill": "all"}][generator.integers(3)]
    monotonic = {"a": int(generator.integers(-1, 2)), "b": int(generator.integers(-1, 2)), "c": 1}
    return X, y, ThreatModel({"a": 1.0, "b": (0.2, 0.0)}, **hides), monotonic


def check_grid(model, X, monotonic):
    """Compare all points of a grid with those that differ in one monotone feature alone, which nobody left out."""
    values = []
    for name in X.columns:
        column = X[name]
        if name == "k":
            values.append([*column.cat.categories])
            continue
        there = np.unique(column.dropna())
        middles = [*(0.5 * (there[1:] + there[:-1])), there[0] - 1.0, there[-1] + 1.0]
        some = sorted([*there, *middles])[:: max(1, len(there) // 6)]
        values.append([*some, *([np.nan] if column.isna().any() else [])])
    grid = pd.DataFrame(list(product(*values)), columns=X.columns)
    if "k" in grid:
        grid["k"] = pd.Categorical(grid["k"], categories=X.k.cat.categories)
    shape = [len(column) for column in values]
    share = model.predict_proba(grid)[:, 1].reshape(shape)
    says = model.predict(grid).reshape(shape)
    for axis, (name, column) in enumerate(zip(X.columns, values, strict=True)):
        direction = monotonic.get(name, 0)
        numbers = np.flatnonzero(~pd.isna(np.array(column, dtype=object)))
        for found in (share, says):
            rise = np.diff(np.take(found, numbers, axis=axis), axis=axis)
            assert (direction * rise >= 0).all()


@given(SEEDS, st.sampled_from(["alternate", "search"]))
def test_refined_trees_are_monotone(seed, name):
    X, y, threat, monotonic = make_case(seed)
    model = RobustTreeClassifier(
        threat, max_depth=4, monotonic_cst=monotonic, refine=name, refine_price=0.0, n_starts=2, random_state=0
    ).fit(X, y)
    check_grid(model, X, monotonic)
    check_grid(refine(model, X, y, price=1.0, max_depth=5), X, monotonic)


@given(SEEDS)
def test_the_loss_never_rises(seed):
    X, y, threat, monotonic = make_case(seed)
    greedy = RobustTreeClassifier(threat, max_depth=4, monotonic_cst=monotonic).fit(X, y)
    refined = refine(greedy, X, y, price=0.0)
    assert adversarial_accuracy(refined, X, y, threat) >= adversarial_accuracy(greedy, X, y, threat) - 1e-12


@pytest.mark.parametrize("name", ["alternate", "search"])
def test_what_is_in_order_anyway_is_found_as_well(name):
    """Where the best tree is monotone, asking for it loses nothing; where it is not, a row less is kept."""
    generator = np.random.default_rng(0)
    X = generator.random((300, 2))
    rising, bent = (X[:, 0] > 0.5).astype(int), (np.abs(X[:, 0] - 0.5) > 0.25).astype(int)
    for y, loses in ((rising, False), (bent, True)):
        free, ordered = (
            RobustTreeClassifier(0.02, max_depth=3, monotonic_cst=cst, refine=name, random_state=0).fit(X, y)
            for cst in (None, [1, 0])
        )
        kept = [adversarial_accuracy(model, X, y, 0.02) for model in (free, ordered)]
        assert (kept[1] < kept[0]) == loses
