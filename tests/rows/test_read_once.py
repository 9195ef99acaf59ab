"""A row is encoded once on its way into a fit, and its cells are read once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import hardwood
from counting import count_reading

N_ROWS = 90
COLUMNS = ("feature 'age'", "feature 'town'", "feature 'income'")


def make_table() -> tuple[pd.DataFrame, np.ndarray]:
    """Whole numbers, categories, and numbers in a column of objects, which are gone through cell by cell."""
    generator = np.random.default_rng(0)
    town = generator.choice(["A", "B", "C"], N_ROWS)
    income = generator.random(N_ROWS).round(2)
    X = pd.DataFrame({"age": generator.integers(18, 90, N_ROWS), "town": pd.Categorical(town)})
    X["income"] = pd.Series(income.tolist(), dtype=object)
    return X, (income + (town == "B") > 0.7).astype(np.int64)


MODELS: list[Any] = [
    hardwood.RobustTreeClassifier({"income": 0.1}),
    hardwood.RobustTreeClassifier({"income": 0.1}, refine="search", n_starts=2),
    hardwood.RobustTreeClassifier({"income": 0.1}, max_bins=9),
    hardwood.RobustTreeRegressor({"income": 0.1}),
    hardwood.RobustForestClassifier({"income": 0.1}, n_estimators=2),
    hardwood.RobustForestRegressor({"income": 0.1}, n_estimators=2),
    hardwood.RobustBoostingClassifier({"income": 0.1}, n_estimators=2),
    hardwood.RobustBoostingRegressor({"income": 0.1}, n_estimators=2),
    hardwood.TreantClassifier({"income": 0.1}, max_depth=2),
    hardwood.OptimalRobustTreeClassifier({"income": 0.1}, max_depth=1),
]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_table_in_memory(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Regressors encoded it twice, to find out first whether values are missing; columns were read three times."""
    X, y = make_table()
    counts = count_reading(monkeypatch)
    model.fit(X, y)
    assert counts == {"rows": N_ROWS, **dict.fromkeys(COLUMNS, N_ROWS)}


@pytest.mark.parametrize("model", [MODELS[2], MODELS[3], MODELS[4], MODELS[5], MODELS[6], MODELS[7]], ids=repr)
def test_a_stream(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once in each of its two passes, and the first row once more, for its types; columns were read twice a pass."""
    X, y = make_table()
    rows = [slice(start, start + 30) for start in range(0, N_ROWS, 30)]
    counts = count_reading(monkeypatch)
    model.fit(hardwood.stream(lambda: ((X[own], y[own]) for own in rows)))
    assert counts == {"rows": 2 * N_ROWS + 1, **dict.fromkeys(COLUMNS, 2 * N_ROWS + 1)}
