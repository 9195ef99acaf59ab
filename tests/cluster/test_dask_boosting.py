"""Boosting on a cluster: the same, bit for bit, as from the table in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

from dask_tables import cut, kill_a_worker, make_table  # noqa: E402

from hardwood import RobustBoostingClassifier, RobustBoostingRegressor  # noqa: E402
from hardwood.dask import DaskRobustBoostingClassifier, DaskRobustBoostingRegressor  # noqa: E402

FEW: dict[str, Any] = {"threat": 0.1, "n_estimators": 3, "max_depth": 3, "random_state": 0, "early_stopping": False}


def assert_same(fitted: Any, expected: Any) -> None:
    assert fitted.ensemble_.to_json() == expected.ensemble_.to_json()
    assert fitted.threat_ == expected.threat_
    assert fitted.ensemble_.n_nodes > 7
    for name in ("train_loss_", "held_out_loss_", "_round_ends"):
        np.testing.assert_array_equal(getattr(fitted, name), getattr(expected, name))


@pytest.mark.parametrize("n_parts", [1, 2, 8])
def test_two_classes(client: Any, n_parts: int) -> None:
    X, y, weight = make_table()
    X[2500:, 1] = np.nan
    fitted = DaskRobustBoostingClassifier(**FEW).fit(*cut(n_parts, X, y, weight))
    assert_same(fitted, RobustBoostingClassifier(**FEW).fit(X, y, weight))


@pytest.mark.parametrize(
    "parameters", [{"early_stopping": 0.2, "subsample": 0.5}, {"early_stopping": "cv", "class_weight": "balanced"}]
)
def test_parameters(client: Any, parameters: dict[str, Any]) -> None:
    X, y, _ = make_table()
    model = DaskRobustBoostingClassifier(**FEW | parameters)
    expected = RobustBoostingClassifier(**FEW | parameters).fit(X, y)
    fitted = model.fit(*cut(3, X, y))
    assert_same(fitted, expected)
    assert len(fitted.held_out_loss_) > 1
    assert_same(fitted.to_local(), expected)


def test_three_classes(client: Any) -> None:
    X, y, _ = make_table(n_classes=3)
    dX, dy = cut(3, X, y)
    fitted = DaskRobustBoostingClassifier(**FEW).fit(dX, dy)
    expected = RobustBoostingClassifier(**FEW).fit(X, y)
    assert_same(fitted, expected)
    np.testing.assert_array_equal(fitted.predict_proba(dX).compute(), expected.predict_proba(X))


@pytest.mark.parametrize("weighted", [False, True])
def test_numbers(client: Any, weighted: bool) -> None:
    X, _, weight = make_table()
    own = (weight,) if weighted else ()
    y = X[:, 0] * X[:, 1]
    dX, *rest = cut(3, X, y, *own)
    fitted = DaskRobustBoostingRegressor(**FEW).fit(dX, *rest)
    expected = RobustBoostingRegressor(**FEW).fit(X, y, *own)
    assert_same(fitted, expected)
    predicted = fitted.predict(dX)
    assert predicted.dtype == np.float64
    np.testing.assert_array_equal(predicted.compute(), expected.predict(X))
    assert fitted.score(dX, *rest) == pytest.approx(expected.score(X, y, *own), rel=1e-12)


def test_score_of_numbers_that_are_all_the_same(client: Any) -> None:
    """Where nothing varies R² is 1 if all is predicted, else 0, as scikit-learn has it."""
    X, _, _ = make_table()
    dX, dy = cut(3, X, np.ones(len(X)))
    fitted = DaskRobustBoostingRegressor(**FEW).fit(dX, dy)
    assert fitted.score(dX, dy) == fitted.to_local().score(X, np.ones(len(X))) == 1.0
    assert fitted.score(dX, dy + 1.0) == fitted.to_local().score(X, np.full(len(X), 2.0)) == 0.0


def test_losing_a_worker(client: Any) -> None:
    X, y, weight = make_table()
    killed = []

    def kill(done: int, total: int) -> None:
        if done == 2:
            killed.append(done)
            kill_a_worker(client)

    fitted = DaskRobustBoostingClassifier(**FEW, progress=kill).fit(*cut(4, X, y, weight))
    assert killed == [2]
    assert_same(fitted, RobustBoostingClassifier(**FEW).fit(X, y, weight))
    client.wait_for_workers(2)


def test_refusals(client: Any) -> None:
    X, y, weight = make_table()
    dX, dy, dw = cut(2, X, y, weight)
    model = DaskRobustBoostingRegressor(**FEW)
    cases: list[tuple[Any, tuple[Any, ...], str]] = [
        (clone(model).set_params(warm_start=True), (dX, dy), "warm_start=True: on a cluster, boosting begins anew"),
        (model, (dX, dy, dw * 0.0), "sample_weight: the weights of all rows are zero; expected a positive one"),
        (model, (dX, da.where(dy == 0, np.inf, 1.0)), "Input y contains infinity"),
        (clone(model).set_params(threat="2 std"), (dX, dy), "measured on a whole table"),
        (clone(model).set_params(max_bins=1), (dX, dy), "max_bins=1: expected an integer from 2 to 255"),
    ]
    for estimator, arguments, message in cases:
        with pytest.raises(ValueError, match=message):
            estimator.fit(*arguments)
        assert not hasattr(estimator, "ensemble_")
