"""Models of scikit-learn predict the same after they were imported, on rows that hug their thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sameness import (
    assert_predicts,
    assert_same_at_the_door,
    assert_same_bits,
    assert_survives_json,
    hugging_rows,
    make_table,
    make_target,
    with_missing,
)
from sklearn import config_context
from sklearn.base import RegressorMixin
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

from hardwood import TreeEnsemble, as_ensemble

SMALL = {"n_estimators": 12, "random_state": 0}
CLASSIFIERS = [
    DecisionTreeClassifier(random_state=0),
    ExtraTreeClassifier(random_state=0, max_depth=5, class_weight="balanced"),
    RandomForestClassifier(**SMALL),
    RandomForestClassifier(**SMALL, max_depth=3, max_features=None, bootstrap=False, n_jobs=2),
    ExtraTreesClassifier(**SMALL),
    GradientBoostingClassifier(**SMALL),
    GradientBoostingClassifier(**SMALL, init="zero", subsample=0.5),
    GradientBoostingClassifier(**SMALL, init=DummyClassifier(strategy="prior")),
    HistGradientBoostingClassifier(max_iter=8, max_leaf_nodes=8, random_state=0),
    AdaBoostClassifier(**SMALL),
    AdaBoostClassifier(DecisionTreeClassifier(max_depth=3), **SMALL),
    BaggingClassifier(**SMALL),
    BaggingClassifier(ExtraTreeClassifier(max_depth=4), **SMALL, max_features=0.6, bootstrap_features=True),
]
REGRESSORS = [
    DecisionTreeRegressor(random_state=0, max_depth=6),
    ExtraTreeRegressor(random_state=0, criterion="absolute_error"),
    RandomForestRegressor(**SMALL),
    ExtraTreesRegressor(**SMALL, max_depth=4, n_jobs=2),
    GradientBoostingRegressor(**SMALL),
    GradientBoostingRegressor(**SMALL, loss="huber", init=DummyRegressor(strategy="median")),
    GradientBoostingRegressor(**SMALL, loss="quantile", init="zero"),
    HistGradientBoostingRegressor(max_iter=8, max_leaf_nodes=8, random_state=0),
    HistGradientBoostingRegressor(max_iter=4, loss="quantile", quantile=0.8, random_state=0),
    BaggingRegressor(**SMALL, max_features=0.6),
]


def outputs_of(model: Any, table: Any) -> np.ndarray:
    """What the ensemble adds up, by the model's own account."""
    if not hasattr(model, "classes_"):
        return model.predict(table)
    if "Boost" in type(model).__name__:
        return model.decision_function(table)
    return model.predict_proba(table)


def check_same(model: Any, ensemble: TreeEnsemble, rows: np.ndarray) -> None:
    if getattr(model, "n_jobs", None) is not None:
        model.n_jobs = 1  # with several threads the order of the sum, and so its last bit, is chance
    for table in (rows, rows.astype(np.float32), np.asfortranarray(rows)):
        encoded = np.ascontiguousarray(table, dtype=np.float64)
        assert_predicts(ensemble, encoded, model.predict(table))
        assert_same_bits(ensemble.output(encoded), outputs_of(model, table))


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_classifiers(model: Any, n_classes: int) -> None:
    X = make_table()
    model.fit(X, make_target(X, n_classes))
    ensemble = as_ensemble(model)
    rows = hugging_rows(ensemble)
    check_same(model, ensemble, rows)
    assert np.array_equal(ensemble.predict(rows), model.predict(rows))
    if ensemble.link != "score":
        assert np.allclose(ensemble.predict_proba(rows), model.predict_proba(rows), rtol=1e-12)
    assert_survives_json(ensemble, rows[:500])


@pytest.mark.parametrize("model", REGRESSORS, ids=str)
def test_regressors(model: Any) -> None:
    X = make_table()
    model.fit(X, make_target(X, 0))
    ensemble = as_ensemble(model)
    rows = hugging_rows(ensemble)
    check_same(model, ensemble, rows)
    assert_same_bits(ensemble.predict(rows), model.predict(rows))
    assert_survives_json(ensemble, rows[:500])


ACCEPT_MISSING = [
    DecisionTreeClassifier(random_state=0),
    ExtraTreeRegressor(random_state=0),
    RandomForestClassifier(**SMALL),
    ExtraTreesRegressor(**SMALL),
    BaggingClassifier(**SMALL, max_features=0.6),
    HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=8, random_state=0),
    HistGradientBoostingRegressor(max_iter=10, max_leaf_nodes=8, random_state=0),
]


@pytest.mark.parametrize("seen", [True, False], ids=["missing in training", "none in training"])
@pytest.mark.parametrize("model", ACCEPT_MISSING, ids=str)
def test_missing_values(model: Any, seen: bool) -> None:
    X = make_table()
    X = with_missing(X) if seen else X
    model.fit(X, make_target(X, 2 if hasattr(model, "predict_proba") else 0))
    ensemble = as_ensemble(model)
    rows = hugging_rows(ensemble, missing=True)
    check_same(model, ensemble, rows)
    assert_same_at_the_door(ensemble, rows, model.predict)
    assert_survives_json(ensemble, rows[:500])


@pytest.mark.parametrize("model", [*CLASSIFIERS, *REGRESSORS], ids=str)
def test_missing_values_are_accepted_iff_the_model_does(model: Any) -> None:
    X = make_table(60)
    model.fit(X, make_target(X, 0 if isinstance(model, RegressorMixin) else 2))
    ensemble = as_ensemble(model)
    X[::2, 1] = np.nan
    try:
        expected = model.predict(X)
    except ValueError:
        assert not ensemble.schema.accepts_missing
        with pytest.raises(ValueError, match="X contains NaN"):
            ensemble.predict(X)
    else:
        assert ensemble.schema.accepts_missing
        # Threads of scikit-learn's forests add up in whatever order they end.
        same = (
            np.isclose(ensemble.predict(X), expected, rtol=1e-12)
            if isinstance(model, RegressorMixin)
            else (ensemble.predict(X) == expected)
        )
        assert same.all()


def test_infinities() -> None:
    """HistGradientBoosting is the one that takes them."""
    X = make_table()
    model = HistGradientBoostingClassifier(max_iter=10, random_state=0).fit(X, make_target(X, 2))
    ensemble = as_ensemble(model)
    check_same(model, ensemble, hugging_rows(ensemble, missing=True, infinite=True))


def test_monotonic_trees() -> None:
    """In older versions of scikit-learn their predict refuses NaN; then the check of the import must not try any."""
    X = make_table()
    model = RandomForestClassifier(**SMALL, monotonic_cst=[1, 0, 0, 0]).fit(X, make_target(X, 2))
    ensemble = as_ensemble(model)
    check_same(model, ensemble, hugging_rows(ensemble, missing=ensemble.schema.accepts_missing))


def test_ties_of_a_forest() -> None:
    """Averages are compared as they round: 1/3 + 2/3 is not always 2/3 + 1/3."""
    generator = np.random.default_rng(0)
    X = generator.integers(0, 3, size=(60, 2)).astype(float)
    y = generator.integers(0, 3, 60)
    for seed in range(5):
        model = RandomForestClassifier(n_estimators=6, random_state=seed, max_depth=2).fit(X, y)
        rows = np.array([[a, b] for a in range(-1, 4) for b in range(-1, 4)], dtype=float)
        ensemble = as_ensemble(model)
        check_same(model, ensemble, rows)
        assert ensemble.divisor == 6.0


def test_exponential_loss() -> None:
    """The raw prediction is half the log-odds; the import's outputs are log-odds."""
    X = make_table()
    model = GradientBoostingClassifier(loss="exponential", **SMALL).fit(X, make_target(X, 2))
    ensemble = as_ensemble(model)
    rows = hugging_rows(ensemble)
    assert np.array_equal(ensemble.predict(rows), model.predict(rows))
    assert_same_bits(ensemble.output(rows), 2.0 * model.decision_function(rows))
    assert np.allclose(ensemble.predict_proba(rows), model.predict_proba(rows), rtol=1e-12)


def test_zero_is_the_second_class_of_gradient_boosting_but_not_of_the_histogram_one() -> None:
    X = np.array([[0.0], [0.0], [1.0], [1.0]])
    y = [0, 1, 0, 1]
    model = GradientBoostingClassifier(n_estimators=2, init="zero").fit(X, y)
    assert model.decision_function([[0.0]]) == 0.0
    assert as_ensemble(model).predict([[0.0]]).tolist() == model.predict([[0.0]]).tolist() == [1]
    histogram = HistGradientBoostingClassifier(max_iter=2).fit(X, y)
    assert histogram.decision_function([[0.0]]) == 0.0
    assert as_ensemble(histogram).predict([[0.0]]).tolist() == histogram.predict([[0.0]]).tolist() == [0]


@pytest.mark.parametrize("kind", [RandomForestClassifier, GradientBoostingClassifier, BaggingClassifier])
def test_names_and_labels(kind: Any) -> None:
    X = pd.DataFrame(make_table(), columns=["a", "b", "c", "d"])
    model = kind(**SMALL).fit(X, np.array(["no", "yes"])[make_target(X.to_numpy(), 2)])
    ensemble = as_ensemble(model)
    assert ensemble.schema.feature_names == ("a", "b", "c", "d")
    rows = pd.DataFrame(hugging_rows(ensemble), columns=X.columns)
    assert np.array_equal(ensemble.predict(rows), model.predict(rows))
    assert np.array_equal(ensemble.predict(pl.DataFrame(rows.to_dict("list"))), model.predict(rows))


def test_a_bagging_whose_trees_missed_a_class() -> None:
    """With metadata routing on, trees are given rows, not weights, and some do not see all classes."""
    X = make_table(60)
    y = make_target(X, 2)
    y[0] = 7
    with config_context(enable_metadata_routing=True):
        model = BaggingClassifier(n_estimators=8, max_samples=15, random_state=0).fit(X, y)
    assert {len(tree.classes_) for tree in model.estimators_} == {2, 3}
    ensemble = as_ensemble(model)
    check_same(model, ensemble, hugging_rows(ensemble))


def test_a_forest_that_saw_one_class() -> None:
    model = RandomForestClassifier(n_estimators=3).fit([[0.0], [1.0]], ["yes", "yes"])
    assert as_ensemble(model).predict([[5.0]]).tolist() == ["yes"]


class TestCategories:
    @staticmethod
    def frame(n_rows: int = 300) -> tuple[pd.DataFrame, np.ndarray]:
        generator = np.random.default_rng(4)
        X = pd.DataFrame(
            {
                "number": generator.normal(size=n_rows),
                "color": pd.Categorical(generator.choice(["red", "green", "blue", "grün"], n_rows)),
                "other": generator.normal(size=n_rows).round(1),
                "size": pd.Categorical(generator.choice([10, 20, 30], n_rows)),
            }
        )
        X.loc[::11, "color"] = None
        X.loc[::13, "number"] = np.nan
        y = X["color"].isin(["red", "grün"]).to_numpy() ^ (X["number"] > 0).to_numpy() ^ (X["size"] == 20).to_numpy()
        return X, y.astype(int)

    @pytest.mark.parametrize("kind", [HistGradientBoostingClassifier, HistGradientBoostingRegressor])
    def test_of_a_frame(self, kind: Any) -> None:
        """The columns change places on their way into the model, and come back."""
        X, y = self.frame()
        model = kind(max_iter=12, random_state=0, categorical_features="from_dtype").fit(X, y)
        ensemble = as_ensemble(model)
        assert ensemble.schema.categories == (None, ("blue", "green", "grün", "red"), None, (10, 20, 30))
        assert (ensemble.category_start >= 0).sum() > 10
        assert X.isna().any().tolist() == [True, True, False, False]
        assert np.array_equal(ensemble.predict(X), model.predict(X))
        rows = hugging_rows(ensemble, missing=True)
        table = ensemble.schema.decode(rows)
        assert_predicts(ensemble, rows, model.predict(table))
        assert np.array_equal(ensemble.predict(table), model.predict(table))
        assert_survives_json(ensemble, rows[:500])

    def test_unseen_labels(self) -> None:
        X, y = self.frame()
        model = HistGradientBoostingClassifier(max_iter=12, categorical_features="from_dtype").fit(X, y)
        strange = X.assign(color=pd.Categorical(["purple", None, "red"] * 100))
        assert np.array_equal(as_ensemble(model).predict(strange), model.predict(strange))

    def test_of_an_array_of_numbers(self) -> None:
        X = make_table()
        X[:, 3] = np.random.default_rng(5).choice([-3.0, 0.0, 2.5, 7.0, 90.0], len(X))
        X[::9, 3] = np.nan
        y = make_target(X, 3) * np.isin(X[:, 3], [0.0, 7.0])
        model = HistGradientBoostingClassifier(max_iter=6, categorical_features=[3]).fit(X, y)
        ensemble = as_ensemble(model)
        assert ensemble.schema.categories[3] == (-3.0, 0.0, 2.5, 7.0, 90.0)
        rows = hugging_rows(ensemble, missing=True)
        raw = rows.copy()
        code = np.nan_to_num(rows[:, 3]).astype(int)
        raw[:, 3] = np.where(np.isnan(rows[:, 3]), np.nan, np.array([-3.0, 0.0, 2.5, 7.0, 90.0, 55.0])[code])
        assert_predicts(ensemble, rows, model.predict(raw))
        assert np.array_equal(ensemble.predict(raw), model.predict(raw))
        assert_same_bits(ensemble.output(rows), model.decision_function(raw))


class TestRefused:
    X = np.array([[0.0], [1.0], [2.0], [3.0]])

    @pytest.mark.parametrize(
        ("model", "message"),
        [
            (AdaBoostRegressor(), "AdaBoostRegressor predicts a weighted median"),
            (AdaBoostClassifier(LogisticRegression()), "AdaBoostClassifier holds a LogisticRegression"),
            (BaggingClassifier(LogisticRegression()), "BaggingClassifier holds a LogisticRegression"),
            (BaggingRegressor(RandomForestRegressor(2), n_estimators=2), "averages members of several trees each"),
            (GradientBoostingRegressor(init=LinearRegression()), "starts from a LinearRegression"),
            (GradientBoostingClassifier(init=DummyClassifier(strategy="stratified")), "starts from a DummyClassifier"),
            (HistGradientBoostingRegressor(loss="poisson"), "exponential of a sum"),
        ],
        ids=str,
    )
    def test_what_is_no_sum_of_trees(self, model: Any, message: str) -> None:
        model.fit(self.X, [0, 0, 1, 1])
        with pytest.raises(ValueError, match=message):
            as_ensemble(model)

    @pytest.mark.parametrize("model", [RandomForestClassifier(), ExtraTreesRegressor()], ids=str)
    def test_several_outputs(self, model: Any) -> None:
        model.fit(self.X, [[0, 1], [1, 0], [0, 1], [1, 1]])
        with pytest.raises(ValueError, match="has 2 outputs"):
            as_ensemble(model)

    @pytest.mark.parametrize("model", CLASSIFIERS + REGRESSORS, ids=str)
    def test_not_fitted(self, model: Any) -> None:
        with pytest.raises(ValueError, match=f"{type(model).__name__} is not fitted"):
            as_ensemble(type(model)())

    @pytest.mark.parametrize("model", [IsolationForest(n_estimators=2), RandomTreesEmbedding(2)], ids=str)
    def test_other_forests(self, model: Any) -> None:
        with pytest.raises(TypeError, match="is not a tree model"):
            as_ensemble(model.fit(self.X))

    def test_a_model_that_predicts_otherwise(self) -> None:
        """A subclass may do anything; the check of the import sees it."""

        class Contrary(RandomForestClassifier):
            def predict(self, X: Any) -> Any:
                return 1 - super().predict(X)

        with pytest.raises(ValueError, match="Contrary could not be imported faithfully"):
            as_ensemble(Contrary(3).fit(self.X, [0, 0, 1, 1]))


@given(
    values=st.lists(st.floats(-1e36, 1e36), min_size=3, max_size=12, unique=True),
    labels=st.lists(st.integers(0, 2), min_size=12, max_size=12),
    seed=st.integers(0, 9),
)
def test_any_small_forest(values: list[float], labels: list[int], seed: int) -> None:
    """Thresholds anywhere, from the smallest float to nearly the largest float32."""
    X = np.array(values)[:, None]
    y = np.array(labels[: len(values)])
    if len(np.unique(y)) == 1:
        y[0] += 1
    model = RandomForestClassifier(n_estimators=3, random_state=seed).fit(X, y)
    ensemble = as_ensemble(model)
    at = np.concatenate([ensemble.threshold[ensemble.feature == 0], X[:, 0]])
    rows = np.concatenate([at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf)])[:, None]
    rows = rows[np.abs(rows[:, 0]) <= 3.4e38]
    check_same(model, ensemble, rows)
