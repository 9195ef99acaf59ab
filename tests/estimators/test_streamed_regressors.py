"""Regression trees from streams: the same, bit for bit, as from the table in memory, however the rows are cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hardwood import RobustForestRegressor, RobustTreeRegressor, stream
from hardwood.estimators.forest_parts import check_forest
from hardwood.grow.forest import draw_rows, draw_seeds

N_ROWS = 2000


def make_table(n_rows: int = N_ROWS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Many numbers are there several times, so that their order says which row is which."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n_rows, 4))
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + generator.normal(scale=0.3, size=n_rows)).round(1)


def make_tree(**parameters: Any) -> RobustTreeRegressor:
    return RobustTreeRegressor(**{"threat": 0.1, "max_depth": 4, "max_bins": 50, "refit_leaves": False} | parameters)


def make_forest(**parameters: Any) -> RobustForestRegressor:
    return RobustForestRegressor(**{"threat": 0.1, "n_estimators": 3, "max_bins": 50, "random_state": 0} | parameters)


def cut(X: Any, y: Any, weight: Any = None) -> Any:
    """Return a function that gives three batches, again and again."""

    def read() -> Iterator[tuple[Any, ...]]:
        for rows in (slice(0, 7), slice(7, 1300), slice(1300, None)):
            yield (X[rows], y[rows]) + (() if weight is None else (weight[rows],))

    return read


def assert_same(streamed: Any, fitted: Any) -> None:
    assert streamed.ensemble_.to_json() == fitted.ensemble_.to_json()
    assert streamed.threat_ == fitted.threat_
    assert streamed.get_n_leaves() > 3


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"rho": 0.5},
        {"threat": None},
        {"threat": "10%", "max_leaf_nodes": 9},
        {"max_features": 2, "random_state": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_tree(parameters: dict[str, Any], weighted: bool) -> None:
    """Some rows weigh nothing: they are not counted, and the sample is drawn from the others."""
    X, y = make_table()
    weight = np.random.default_rng(1).integers(0, 4, size=len(X)) / 2.0 if weighted else None
    streamed = make_tree(**parameters).fit(stream(cut(X, y, weight)))
    fitted = make_tree(**parameters).fit(X, y, weight)
    assert_same(streamed, fitted)
    np.testing.assert_array_equal(streamed.feature_importances_, fitted.feature_importances_)


def test_more_rows_than_the_sample_and_a_batch_have() -> None:
    X, y = make_table(70_000)
    assert_same(make_tree(max_bins="auto").fit(stream(X, y, batch_rows=9999)), make_tree(max_bins="auto").fit(X, y))


@pytest.mark.parametrize("rho", [1.0, 0.5])
def test_missing_values_and_categories(rho: float) -> None:
    """Values are missing, and a category is there, in the last batch only."""
    X, y = make_table()
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.loc[1500:, "a"] = np.nan
    frame["kind"] = np.where(np.arange(len(X)) < 1400, "x", np.where(y > 0, "w", "y"))
    frame.loc[1900:, "kind"] = None
    threat = {"a": 0.1, "c": 0.3, "kind": {"x": ["y"]}}
    typed = frame.astype({"kind": "category"})
    batches = cut(frame, y)

    def read() -> Iterator[tuple[Any, Any]]:
        for part, numbers in batches():
            yield part.astype({"kind": "category"}), numbers

    streamed = make_tree(threat=threat, rho=rho).fit(stream(read))
    assert_same(streamed, make_tree(threat=threat, rho=rho).fit(typed, y))
    assert streamed.ensemble_.schema.categories[4] == ("w", "x", "y")
    np.testing.assert_array_equal(streamed.predict(stream(read)), streamed.predict(typed))


@pytest.mark.parametrize("parameters", [{}, {"bootstrap": True}, {"bootstrap": True, "rho": 0.5, "n_jobs": 2}], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_forest(parameters: dict[str, Any], weighted: bool) -> None:
    X, y = make_table()
    weight = np.random.default_rng(1).integers(0, 4, size=len(X)) / 2.0 if weighted else None
    streamed = make_forest(**parameters).fit(stream(cut(X, y, weight)))
    assert_same(streamed, make_forest(**parameters).fit(X, y, weight))


def test_forest_with_categories_side_by_side() -> None:
    """Trees that grow at the same time must not share what they work on."""
    X, y = make_table()
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["kind"] = pd.Categorical(np.array(list("stuvwxyz"))[np.digitize(X[:, 1] + X[:, 3], np.linspace(-2, 2, 7))])
    options = {"threat": {"a": 0.1, "kind": {"s": ["t", "u"], "z": ["y"]}}, "n_estimators": 16}
    assert_same(make_forest(n_jobs=4, **options).fit(frame, y), make_forest(n_jobs=1, **options).fit(frame, y))


def test_draws_of_a_forest_are_trees_of_the_rows_drawn() -> None:
    """A tree from drawn rows is the tree of a table of these rows, if both have all thresholds."""
    generator = np.random.default_rng(0)
    X = generator.integers(0, 12, size=(300, 3)).astype(float)
    y = (X[:, 0] - X[:, 1] + generator.normal(size=300)).round(1)
    weight = generator.integers(1, 4, size=300) / 2.0
    for options in ({}, {"rho": 0.5}):
        common = {"threat": 1.0, "max_depth": 3, "max_features": None, "max_bins": 255, **options}
        forest = RobustForestRegressor(n_estimators=2, bootstrap=True, random_state=0, **common).fit(X, y, weight)
        settings = check_forest(forest, len(X), forest._seed)
        rows = [draw_rows(settings, seed) for seed in draw_seeds(settings)]
        trees = [RobustTreeRegressor(refit_leaves=False, **common).fit(X[r], y[r], weight[r]) for r in rows]
        expected = np.mean([tree.predict(X) for tree in trees], axis=0)
        np.testing.assert_allclose(forest.predict(X), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_bins": "exact"}, "max_bins='exact': needs all rows"),
        ({"criterion": "absolute_error"}, "criterion='absolute_error': needs all rows.*'squared_error'"),
        ({"refit_leaves": True}, "refit_leaves=True: needs all rows"),
        ({"refit_leaves": "maybe"}, "refit_leaves='maybe': expected"),
        ({"threat": "1 std"}, "measured on a whole table"),
    ],
)
def test_refusals(parameters: dict[str, Any], message: str) -> None:
    X, y = make_table(100)
    with pytest.raises(ValueError, match=message):
        make_tree(**parameters).fit(stream(X, y, batch_rows=30))


def test_targets_that_differ_the_second_time() -> None:
    X, y = make_table(100)
    passes = []

    def read() -> Iterator[tuple[Any, Any]]:
        passes.append(None)
        yield X, y + len(passes)

    with pytest.raises(ValueError, match="gave other rows when it was read again"):
        make_tree().fit(stream(read))


def test_text_is_no_number() -> None:
    X, y = make_table(100)
    with pytest.raises(ValueError, match="y: expected numbers"):
        make_tree().fit(stream(X, y.astype(str).astype(object) + "x", batch_rows=30))
    with pytest.raises(ValueError, match="y: a stream brings its own"):
        make_forest().fit(stream(X, y), y)
