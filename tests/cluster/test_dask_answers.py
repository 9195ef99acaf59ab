"""Attacks, proofs and evaluations of the partitions of a table: those of the table in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("distributed")
dd = pytest.importorskip("dask.dataframe")

from dask_tables import cut, make_table  # noqa: E402

import hardwood  # noqa: E402
import hardwood.dask  # noqa: E402
from hardwood import RobustForestClassifier, RobustTreeClassifier, RobustTreeRegressor  # noqa: E402

N_ROWS = 60


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return make_table(N_ROWS)


@pytest.fixture(scope="module")
def forest() -> RobustForestClassifier:
    X, y, _ = make_table(300)
    return RobustForestClassifier(0.1, n_estimators=3, max_depth=3, random_state=0).fit(X, y)


def test_verify(client: Any, forest: RobustForestClassifier, table: Any) -> None:
    X, y, _ = table
    told: list[tuple[int, int]] = []
    certificate = hardwood.dask.verify(
        forest, *cut(3, X, y), threat=0.3, time_limit=10.0, progress=lambda *step: told.append(step)
    )
    expected = hardwood.verify(forest, X, y, threat=0.3)
    assert set(expected.status) == {"robust", "vulnerable"}
    for name in ("status", "lower", "upper", "witness"):
        np.testing.assert_array_equal(getattr(certificate, name), getattr(expected, name))
    assert told[-1] == (told[-1][1], told[-1][1])


def test_attack(client: Any, forest: RobustForestClassifier, table: Any) -> None:
    X, _, _ = table
    (dX,) = cut(3, X)
    result, expected = hardwood.dask.attack(forest, dX), hardwood.attack(forest, X)
    for name in ("found", "was_wrong", "distance", "lower", "X_adv"):
        np.testing.assert_array_equal(getattr(result, name), getattr(expected, name))
    assert not result.interrupted


def test_a_model_of_the_cluster(client: Any, table: Any) -> None:
    X, y, _ = table
    dX, dy = cut(2, X, y)
    model = hardwood.dask.DaskRobustTreeClassifier(0.1, max_depth=3).fit(dX, dy)
    found = hardwood.dask.adversarial_accuracy(model, dX, dy, 0.1)
    assert found == pytest.approx(hardwood.adversarial_accuracy(model.to_local(), X, y, 0.1), abs=1e-12)


def test_adversarial_accuracy(client: Any, forest: RobustForestClassifier, table: Any) -> None:
    X, y, weight = table
    dX, dy, dw = cut(4, X, y, weight)
    for own, theirs in ((None, None), (weight, dw)):
        expected = hardwood.adversarial_accuracy(forest, X, y, 0.2, sample_weight=own)
        found = hardwood.dask.adversarial_accuracy(forest, dX, dy, 0.2, sample_weight=theirs)
        assert found == pytest.approx(expected, abs=1e-12)
        assert 0.3 < found < 1.0


def test_evaluate(client: Any, forest: RobustForestClassifier, table: Any) -> None:
    X, y, _ = table
    dX, dy = cut(3, X, y)
    kept = dX[:, 0] > -9.0  # lengths that nobody knows
    report = hardwood.dask.evaluate(forest, dX[kept], dy[kept], 0.2, epsilons=[0.5])
    expected = hardwood.evaluate(forest, X, y, 0.2, epsilons=[0.5], ceiling=False)
    for name in ("label", "prediction", "robust_to", "fooled_at", "epsilons"):
        np.testing.assert_array_equal(getattr(report, name), getattr(expected, name))
    assert report.threat == expected.threat
    assert report.ceilings is None


def test_frames(client: Any) -> None:
    """Whole numbers and categories; a partition has no rows, and categories of one are unknown to another."""
    X, y, _ = make_table(N_ROWS)
    frame = pd.DataFrame({"a": X[:, 0], "clicks": np.arange(N_ROWS) % 5, "kind": np.where(y == 1, "x", "y")})
    frame.loc[:20, "kind"] = "z"
    frame = frame.astype({"kind": "category"})
    model = RobustTreeClassifier({"a": 0.1}, max_depth=4).fit(frame, y)
    threat = {"a": 0.3, "clicks": 1.5, "kind": {"x": ["y"], "y": ["z"]}}
    bounds = [0, 21, 21, N_ROWS]

    def make(number: int) -> pd.DataFrame:
        part = frame[bounds[number] : bounds[number + 1]].assign(label=y[bounds[number] : bounds[number + 1]])
        return part.assign(kind=part["kind"].cat.remove_unused_categories())

    table = dd.from_map(make, range(3), meta=make(0)[:0])
    result = hardwood.dask.attack(model, table, "label", threat)
    expected = hardwood.attack(model, frame, y, threat)
    np.testing.assert_array_equal(result.found, expected.found)
    np.testing.assert_array_equal(result.distance, expected.distance)
    assert result.found.any()
    pd.testing.assert_frame_equal(result.X_adv, expected.X_adv, check_dtype=False, check_categorical=False)
    assert result.X_adv["kind"].dtype == "category"
    report = hardwood.dask.evaluate(model, table, "label", threat)
    assert report.threat == hardwood.evaluate(model, frame, y, threat, ceiling=False).threat
    assert report.threat.whole_numbers == ["clicks"]


def test_regression(client: Any, table: Any) -> None:
    X, _, _ = table
    model = RobustTreeRegressor(0.1, max_depth=3).fit(X, X[:, 0])
    dX, dy = cut(3, X, X[:, 0])
    report, expected = hardwood.dask.evaluate(model, dX, dy, 0.1), hardwood.evaluate(model, X, X[:, 0], 0.1)
    np.testing.assert_array_equal(report.lowest, expected.lowest)
    result, found = hardwood.dask.attack(model, dX, dy, 0.1), hardwood.attack(model, X, X[:, 0], 0.1)
    np.testing.assert_array_equal(result.error, found.error)


def test_refusals(client: Any, forest: RobustForestClassifier, table: Any) -> None:
    X, y, _ = table
    dX, dy = cut(2, X, y)
    with pytest.raises(ValueError, match="measured on a whole table"):
        hardwood.dask.verify(forest, dX, dy, "2 std")
    with pytest.raises(ValueError, match="ceiling=True: takes all rows at once"):
        hardwood.dask.evaluate(forest, dX, dy, 0.1, ceiling=True)
    with pytest.raises(TypeError, match="unexpected keyword argument 'time'"):
        hardwood.dask.verify(forest, dX, dy, 0.1, time=3)
    with pytest.raises(ValueError, match="X: expected a Dask array or DataFrame, got 'ndarray'"):
        hardwood.dask.attack(forest, X, y, 0.1)
    with pytest.raises(ValueError, match="X has no rows"):
        hardwood.dask.evaluate(forest, dX[dX[:, 0] > 99.0], dy[dX[:, 0] > 99.0], 0.1)
    with pytest.raises(ValueError, match="y: 8 is not a class of the model") as refused:
        hardwood.dask.verify(forest, dX, dy + 7, 0.1)
    assert "In partition 0 of the table" in refused.value.__notes__[0]
