"""The check of imports sees whatever is wrong with one, and the numbers it rests on are exact."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier

from hardwood import TreeEnsemble, as_ensemble
from hardwood.convert.checking import check_import, rows_near_thresholds
from hardwood.convert.libraries import SUPPORTED, load_library
from hardwood.convert.precision import find_cut, float32_cutoffs
from hardwood.convert.source import Source


@pytest.fixture(scope="module")
def mixed() -> tuple[Any, TreeEnsemble]:
    """A model with numbers, categories and missing values."""
    generator = np.random.default_rng(0)
    X = pd.DataFrame(
        {"color": pd.Categorical(generator.choice(["red", "green", "blue"], 300)), "number": generator.normal(size=300)}
    )
    X.loc[::5, "number"] = np.nan
    y = (X["color"] == "red") ^ (X["number"] > 0.3)
    model = HistGradientBoostingClassifier(max_iter=5, max_leaf_nodes=4).fit(X, y)
    return model, as_ensemble(model)


def check(model: Any, ensemble: TreeEnsemble) -> None:
    check_import(
        Source(
            ensemble=ensemble,
            name="the model",
            predict=model.predict,
            output=model.decision_function,
            as_table=ensemble.schema.decode,
        )
    )


def inner_nodes(ensemble: TreeEnsemble, categorical: bool) -> np.ndarray:
    return np.flatnonzero((ensemble.feature >= 0) & ((ensemble.category_start >= 0) == categorical))


def changed(array: np.ndarray, index: Any, value: Any) -> np.ndarray:
    array = array.copy()
    array[index] = value
    return array


class TestEverythingIsSeen:
    def test_the_right_one_passes(self, mixed: tuple[Any, TreeEnsemble]) -> None:
        check(*mixed)

    def test_a_threshold_one_float_off(self, mixed: tuple[Any, TreeEnsemble]) -> None:
        model, ensemble = mixed
        for node in inner_nodes(ensemble, categorical=False):
            for side in (-np.inf, np.inf):
                threshold = changed(ensemble.threshold, node, np.nextafter(ensemble.threshold[node], side))
                with pytest.raises(ValueError, match="the model could not be imported faithfully"):
                    check(model, replace(ensemble, threshold=threshold))

    def test_a_missing_value_sent_the_other_way(self, mixed: tuple[Any, TreeEnsemble]) -> None:
        model, ensemble = mixed
        for node in inner_nodes(ensemble, categorical=False):
            missing_left = changed(ensemble.missing_left, node, ~ensemble.missing_left[node])
            with pytest.raises(ValueError, match="could not be imported faithfully"):
                check(model, replace(ensemble, missing_left=missing_left))

    def test_a_category_sent_the_other_way(self, mixed: tuple[Any, TreeEnsemble]) -> None:
        """Each of the three, and the unseen."""
        model, ensemble = mixed
        for node in inner_nodes(ensemble, categorical=True):
            for code in range(4):
                start = ensemble.category_start[node]
                flipped = ensemble.category_words[start] ^ np.uint64(1 << code)
                words = changed(ensemble.category_words, start, flipped)
                with pytest.raises(ValueError, match="could not be imported faithfully"):
                    check(model, replace(ensemble, category_words=words))

    def test_a_leaf_value_a_little_off(self, mixed: tuple[Any, TreeEnsemble]) -> None:
        model, ensemble = mixed
        for node in np.flatnonzero(ensemble.feature < 0):
            value = changed(ensemble.value, node, ensemble.value[node] * (1 + 1e-9))
            with pytest.raises(ValueError, match="could not be imported faithfully"):
                check(model, replace(ensemble, value=value))

    def test_another_start(self, mixed: tuple[Any, TreeEnsemble]) -> None:
        model, ensemble = mixed
        with pytest.raises(ValueError, match="could not be imported faithfully"):
            check(model, replace(ensemble, base_score=ensemble.base_score + 1e-9))

    def test_classes_in_another_order(self, mixed: tuple[Any, TreeEnsemble]) -> None:
        model, ensemble = mixed
        with pytest.raises(ValueError, match="could not be imported faithfully"):
            check(model, replace(ensemble, classes=ensemble.labels[::-1]))

    def test_another_cut(self) -> None:
        """At 0 scikit-learn's GradientBoosting predicts the second class."""
        X = np.array([[0.0], [1.0], [2.0], [3.0]])
        model = GradientBoostingClassifier(n_estimators=3, init="zero").fit(X, [0, 0, 0, 1])
        for tree in model.estimators_.ravel():
            tree.tree_.value[tree.apply(X[:1])] = 0.0
        ensemble = as_ensemble(model)
        assert not ensemble.output(X[:1]).any()
        with pytest.raises(ValueError, match="could not be imported faithfully"):
            check_import(Source(ensemble=replace(ensemble, cut=0.0), name="the model", predict=model.predict))

    def test_not_one_prediction_per_row(self, mixed: tuple[Any, TreeEnsemble]) -> None:
        with pytest.raises(ValueError, match=r"the model predicts an array of shape \(512, 2\)"):
            check_import(Source(ensemble=mixed[1], name="the model", predict=lambda rows: np.zeros((len(rows), 2))))

    def test_one_of_a_hundred_trees(self) -> None:
        generator = np.random.default_rng(0)
        X = generator.normal(size=(300, 5))
        y = X[:, 0] * X[:, 1] > 0
        model = RandomForestClassifier(100, max_depth=5, random_state=0).fit(X, y)
        ensemble = as_ensemble(model)
        swapped = changed(ensemble.value, ensemble.left[ensemble.root[42]], [0.0, 0.0])
        assert ensemble.feature[ensemble.left[ensemble.root[42]]] >= 0  # inner nodes have no say
        source = Source(ensemble=ensemble, name="it", predict=model.predict, output=model.predict_proba, float32=True)
        check_import(replace(source, ensemble=replace(ensemble, value=swapped)))
        left, right = ensemble.left.copy(), ensemble.right.copy()
        root = ensemble.root[42]
        left[root], right[root] = right[root], left[root]
        with pytest.raises(ValueError, match="it could not be imported faithfully"):
            check_import(replace(source, ensemble=replace(ensemble, left=left, right=right)))


class TestRows:
    def test_what_is_asked_for(self, mixed: tuple[Any, TreeEnsemble]) -> None:
        ensemble = mixed[1]
        plain = rows_near_thresholds(ensemble)
        assert np.isfinite(plain).all()
        assert set(plain[:, 0].tolist()) == {0.0, 1.0, 2.0, 3.0}
        missing = rows_near_thresholds(ensemble, missing=True)
        assert np.isnan(missing).any(axis=0).all()
        assert not np.isnan(missing).any(axis=1).all()
        infinite = rows_near_thresholds(ensemble, infinite=True)
        assert {-np.inf, np.inf} <= set(infinite[:, 1].tolist())
        assert np.isfinite(infinite[:, 0]).all()
        numbers = ensemble.threshold[inner_nodes(ensemble, categorical=False)]
        beside = np.nextafter(numbers.astype(np.float32), np.float32(np.inf)).astype(np.float64)
        assert set(beside) <= set(rows_near_thresholds(ensemble, float32=True)[:, 1].tolist())

    def test_every_leaf_is_visited(self) -> None:
        """Rows drawn feature by feature seldom reach the depths of a tree; those that aim for a leaf do."""
        generator = np.random.default_rng(0)
        X = generator.normal(size=(400, 3))
        model = RandomForestClassifier(3, random_state=0).fit(X, generator.integers(0, 2, 400))
        ensemble = as_ensemble(model)
        reached = np.unique(ensemble.leaves(rows_near_thresholds(ensemble, 4000)))
        assert len(reached) == ensemble.n_leaves


def as_float32(number: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(number))


class TestStrictCutoffs:
    """`float32(x) < t` and `x <= cutoff(t)` are the same question for every float64 x."""

    @given(st.floats(-3.5e38, 3.5e38))
    @example(0.0)
    @example(-0.0)
    @example(1e-45)
    @example(-1e-45)
    @example(5e-324)
    @example(1.0)
    @example(float(np.finfo(np.float32).max))
    @example(-float(np.finfo(np.float32).max))
    @example(1e300)
    def test_any_threshold(self, threshold: float) -> None:
        (cutoff,) = float32_cutoffs(np.array([threshold]), strict=True)
        assert as_float32(cutoff) < threshold
        assert not as_float32(np.nextafter(cutoff, np.inf)) < threshold

    def test_infinite_thresholds(self) -> None:
        """Every number is below infinity, none below minus infinity."""
        largest = np.finfo(np.float64).max
        assert float32_cutoffs(np.array([np.inf]))[0] == largest
        upper, lower = float32_cutoffs(np.array([np.inf, -np.inf]), strict=True)
        assert as_float32(upper) == np.finfo(np.float32).max
        assert lower == -largest


class TestCut:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @given(at=st.floats(-0.9, 0.9))
    def test_between_two_floats(self, dtype: Any, at: float) -> None:
        cut = find_cut(lambda x: bool(x > dtype(at)), dtype)
        assert cut == dtype(at)
        assert type(cut) is dtype


class TestLibraries:
    def test_ranges_are_declared(self) -> None:
        assert set(SUPPORTED) == {"sklearn", "xgboost", "lightgbm"}
        assert load_library("sklearn").__name__ == "sklearn"
