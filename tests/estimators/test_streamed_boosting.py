"""Boosting from streams: the same, bit for bit, as from the table in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from hardwood import RobustBoostingClassifier, RobustBoostingRegressor, ThreatModel, stream
from hardwood.grow import boosted

N_ROWS = 1500


def make_table(n_rows: int = N_ROWS) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers and a target, of float32: a table in memory is not widened as a whole."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n_rows, 4)).astype(np.float32)
    return X, X[:, 0] + X[:, 1] * X[:, 2] + generator.normal(scale=0.5, size=n_rows)


def assert_same(streamed: Any, fitted: Any) -> None:
    assert streamed.ensemble_.to_json() == fitted.ensemble_.to_json()
    assert streamed.ensemble_.n_leaves > 7
    assert streamed.threat_ == fitted.threat_
    assert streamed.n_estimators_ == fitted.n_estimators_
    np.testing.assert_array_equal(streamed.train_loss_, fitted.train_loss_)
    np.testing.assert_array_equal(streamed.held_out_loss_, fitted.held_out_loss_)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"class_weight": "balanced", "early_stopping": "cv"},
        {"threat": "10%", "subsample": 0.5, "max_features": 2, "early_stopping": False},
        {"mode": "ordered", "attacking_classes": ["b"], "early_stopping": 0.2},
        {"threat": ThreatModel({0: 0.1}, blank=[0], fill=[1])},
    ],
)
def test_two_classes(parameters: dict[str, Any], weighted: bool) -> None:
    """Some values are missing in the last batch, and some rows weigh nothing."""
    X, signal = make_table()
    X[-200:, 0] = np.nan
    y = np.where(signal > 0.0, "b", "a")
    weight = np.random.default_rng(1).integers(0, 4, size=N_ROWS) / 2.0 if weighted else None
    model = RobustBoostingClassifier(**{"threat": 0.1, "n_estimators": 8, "random_state": 0} | parameters)
    fitted = clone(model).fit(X, y, weight)
    rows = stream(X, y, sample_weight=weight, batch_rows=700)
    assert_same(model.fit(rows), fitted)
    np.testing.assert_array_equal(model.classes_, ["a", "b"])
    np.testing.assert_array_equal(model.predict(rows), fitted.predict(X))
    np.testing.assert_array_equal(model.predict_proba(rows), fitted.predict_proba(X))
    np.testing.assert_array_equal(model.decision_function(rows), fitted.decision_function(X))


def test_three_classes() -> None:
    X, signal = make_table()
    y = np.digitize(signal, [-1.0, 1.0])
    model = RobustBoostingClassifier(0.1, n_estimators=4, random_state=0, n_jobs=2)
    assert_same(clone(model).fit(stream(X, y, batch_rows=111)), model.fit(X, y))


@pytest.mark.parametrize("threat", [0.1, ThreatModel({0: 0.1}, blank=[0])])
def test_numbers(threat: Any) -> None:
    X, y = make_table()
    X[5, 1] = np.nan
    weight = np.arange(N_ROWS) % 3
    model = RobustBoostingRegressor(threat, n_estimators=8, random_state=0)
    fitted = clone(model).fit(X, y, weight)
    rows = stream(X, y, sample_weight=weight, batch_rows=400)
    assert_same(model.fit(rows), fitted)
    np.testing.assert_array_equal(model.predict(rows), fitted.predict(X))


def test_categories_that_only_later_batches_have() -> None:
    X, signal = make_table()
    y = (signal > 0.0).astype(int)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["kind"] = np.where(np.arange(N_ROWS) < 700, "x", np.array(["z", "w"])[y])

    def read() -> Iterator[tuple[Any, Any]]:
        for first in range(0, N_ROWS, 500):
            yield frame[first : first + 500].astype({"kind": "category"}), y[first : first + 500]

    model = RobustBoostingClassifier({"a": 0.1, "kind": {"x": ["w"]}}, n_estimators=5, random_state=0)
    assert_same(clone(model).fit(stream(read)), model.fit(frame.astype({"kind": "category"}), y))


def test_more_rows_than_are_listed_in_folds() -> None:
    """Rows are held out by hashes of their numbers, of those that weigh something."""
    X, signal = make_table(60_000)
    weight = (np.arange(60_000) % 7 > 0).astype(float)
    model = RobustBoostingClassifier(0.1, n_estimators=2, max_depth=2, random_state=0)
    fitted = clone(model).fit(X, signal > 0, weight)
    assert_same(model.fit(stream(X, signal > 0, sample_weight=weight, batch_rows=7777)), fitted)
    assert len(fitted.held_out_loss_) == 3


@pytest.mark.parametrize("is_cut", [False, True])
def test_warm_start(monkeypatch: pytest.MonkeyPatch, is_cut: bool) -> None:
    """Also where a table is boosted in tiles."""
    X, signal = make_table()
    y = signal > 0.0
    model = RobustBoostingClassifier(0.1, n_estimators=3, early_stopping=False, warm_start=True)
    streamed = clone(model).fit(stream(X, y, batch_rows=700))
    model.fit(X, y)
    if is_cut:
        monkeypatch.setattr(boosted, "TILE_ROWS", 600)
    for each, rows in ((streamed, (stream(X, y, batch_rows=600),)), (model, (X, y))):
        each.set_params(n_estimators=6).fit(*rows)
        monkeypatch.undo()  # the streamed one only
    assert_same(streamed, model)
    assert model.n_estimators_ == 6


def test_progress() -> None:
    """Both passes first, and then rounds."""
    X, signal = make_table()
    said: list[tuple[int, int]] = []
    model = RobustBoostingRegressor(0.1, n_estimators=2, early_stopping=False, progress=lambda *at: said.append(at))
    model.fit(stream(X, signal, batch_rows=1000))
    assert said == [(1000, 1500), (1500, 1500), (1000, 1500), (1500, 1500), (1, 2), (2, 2)]


def test_refusals() -> None:
    X, signal = make_table()
    with pytest.raises(ValueError, match="y: a stream brings its own"):
        RobustBoostingClassifier(0.1).fit(stream(X, signal > 0), signal > 0)
    with pytest.raises(ValueError, match="measured on a whole table"):
        RobustBoostingRegressor("1 std").fit(stream(X, signal))
    with pytest.raises(ValueError, match="y is None"):
        RobustBoostingRegressor(0.1).fit(X)
