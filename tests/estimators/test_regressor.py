"""RobustTreeRegressor as a scikit-learn estimator."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimator_checks import find_faulty_checks
from hardwood import RobustTreeRegressor, TreeEnsemble, as_ensemble, export_rules


@parametrize_with_checks(
    [
        RobustTreeRegressor(),
        RobustTreeRegressor(threat=0.1),
        RobustTreeRegressor(threat=0.1, criterion="absolute_error", max_depth=4),
        RobustTreeRegressor(threat=0.1, max_bins=16, refit_leaves=False),
        RobustTreeRegressor(threat=0.1, rho=0.5, max_leaf_nodes=6, n_jobs=2),
    ],
    expected_failed_checks=find_faulty_checks,
)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def table() -> tuple[pd.DataFrame, np.ndarray]:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"area": generator.normal(80.0, 20.0, 120).round(1), "rooms": generator.integers(1, 7, 120)})
    return frame, 3.0 * frame["area"].to_numpy() + 20.0 * frame["rooms"].to_numpy() + generator.normal(0, 9, 120)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threat", -1.0),
        ("criterion", "gini"),
        ("criterion", None),
        ("rho", 1.5),
        ("max_depth", 0),
        ("min_samples_split", 1),
        ("min_samples_leaf", 0),
        ("min_impurity_decrease", -1.0),
        ("max_features", "all"),
        ("max_leaf_nodes", 1),
        ("max_bins", 1),
        ("max_bins", "few"),
        ("refit_leaves", "yes"),
        ("categorical_features", [7]),
        ("random_state", "seed"),
        ("n_jobs", 0),
    ],
)
def test_bad_parameters_are_named(name: str, value: Any, table: Any) -> None:
    with pytest.raises(ValueError, match=name):
        RobustTreeRegressor(**{name: value}).fit(*table)


class TestBadInput:
    def test_targets(self, table: Any) -> None:
        X, y = table
        with pytest.raises(ValueError, match=r"y: expected numbers, got 'a'; for classes there is"):
            RobustTreeRegressor().fit(X, ["a"] * len(X))
        with pytest.raises(ValueError, match="contains NaN"):
            RobustTreeRegressor().fit(X, np.where(y > 300.0, np.nan, y))
        with pytest.raises(ValueError, match="inconsistent numbers of samples: X has 120, y has 3"):
            RobustTreeRegressor().fit(X, y[:3])
        with pytest.raises(ValueError, match="requires y"):
            RobustTreeRegressor().fit(X, None)

    def test_weights(self, table: Any) -> None:
        X, y = table
        with pytest.raises(ValueError, match=r"sample_weight: row 0 has .*-1.0.*; expected finite weights >= 0"):
            RobustTreeRegressor().fit(X, y, np.full(len(X), -1.0))
        with pytest.raises(ValueError, match="sample_weight: the weights of all rows are zero; expected"):
            RobustTreeRegressor().fit(X, y, np.zeros(len(X)))

    def test_rules_and_classes_are_refused(self, table: Any) -> None:
        from hardwood import AttackRule, ThreatModel

        with pytest.raises(ValueError, match="attack rules"):
            RobustTreeRegressor(ThreatModel(rules=[AttackRule("area", add=1.0)], budget=1)).fit(*table)
        with pytest.raises(ValueError, match="there are no classes"):
            RobustTreeRegressor(ThreatModel(1.0, attacking_classes=[1])).fit(*table)

    def test_a_failed_fit_leaves_the_model_as_it_was(self, table: Any) -> None:
        model = RobustTreeRegressor(max_depth=2).fit(*table)
        before = model.predict(table[0])
        with pytest.raises(ValueError, match="inconsistent"):
            model.fit(table[0], table[1][:5])
        np.testing.assert_array_equal(model.predict(table[0]), before)

    def test_not_fitted(self) -> None:
        with pytest.raises(NotFittedError):
            RobustTreeRegressor().predict([[0.0]])


class TestTables:
    def test_frames_of_both_kinds(self, table: Any) -> None:
        X, y = table
        model = RobustTreeRegressor({"area": 2.0}, max_depth=3).fit(X, y)
        assert model.feature_names_in_.tolist() == ["area", "rooms"]
        polars = RobustTreeRegressor({"area": 2.0}, max_depth=3).fit(pl.from_pandas(X), y)
        np.testing.assert_array_equal(model.predict(X), polars.predict(pl.from_pandas(X)))
        as_array = RobustTreeRegressor([2.0, 0.0], max_depth=3).fit(X.to_numpy(dtype=float), y)
        np.testing.assert_array_equal(as_array.predict(X.to_numpy(dtype=float)), model.predict(X))

    def test_pickles_clones_and_documents(self, table: Any) -> None:
        X, y = table
        model = RobustTreeRegressor(2.0, criterion="absolute_error", max_depth=3).fit(X, y)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        np.testing.assert_array_equal(again.feature_importances_, model.feature_importances_)
        assert not hasattr(clone(model), "ensemble_")
        read = TreeEnsemble.parse_json(model.ensemble_.to_json())
        np.testing.assert_array_equal(read.predict(X), model.predict(X))
        assert as_ensemble(model) is model.ensemble_

    def test_model_selection(self, table: Any) -> None:
        X, y = table
        search = GridSearchCV(RobustTreeRegressor(1.0), {"max_depth": [1, 3]}, cv=3).fit(X, y)
        assert search.best_params_ == {"max_depth": 3}
        pipeline = make_pipeline(MinMaxScaler(), RobustTreeRegressor(0.01, max_depth=4)).fit(X, y)
        np.testing.assert_array_equal(as_ensemble(pipeline).predict(X), pipeline.predict(X))


def test_rules_say_numbers() -> None:
    model = RobustTreeRegressor(1.0).fit([[1.0], [2.0], [6.0], [7.0]], [1.0, 1.5, 8.0, 8.0])
    assert export_rules(model) == (
        "if feature 0 <= 4:\n    predict 1.25 (cover 50%)\nif feature 0 > 4:\n    predict 8 (cover 50%)"
    )


def test_importances_are_shares_of_what_is_saved(table: Any) -> None:
    model = RobustTreeRegressor({"area": 15.0}, max_depth=3).fit(*table)
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    natural = RobustTreeRegressor(max_depth=3).fit(*table)
    assert model.feature_importances_[1] > natural.feature_importances_[1]
    assert RobustTreeRegressor().fit([[1.0], [2.0]], [3.0, 3.0]).feature_importances_.tolist() == [0.0]
