"""Steps in front of a tree model are folded into its splits: the same predictions, on the table that goes in."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sameness import assert_predicts, assert_survives_json, hugging_rows, make_table, make_target, with_missing
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import (
    BaggingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import SelectKBest, VarianceThreshold, f_regression
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    TargetEncoder,
)
from sklearn.tree import DecisionTreeClassifier

from hardwood import RobustTreeClassifier, as_ensemble, attack, verify
from hardwood.convert.precision import LARGEST, largest_not_above

FOREST = RandomForestClassifier(6, max_depth=5, random_state=0)
SCALERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    StandardScaler(copy=False),
    MinMaxScaler(),
    MinMaxScaler((-3.0, 0.1)),
    MinMaxScaler(clip=True),
    RobustScaler(),
    RobustScaler(with_centering=False, quantile_range=(10, 60)),
    MaxAbsScaler(),
    FunctionTransformer(),
    VarianceThreshold(),
    SelectKBest(f_regression, k=2),
    make_pipeline(StandardScaler(), MinMaxScaler(), RobustScaler()),
    make_union(StandardScaler(), MaxAbsScaler()),
    FeatureUnion([("scaled", MinMaxScaler(clip=True)), ("raw", "passthrough"), ("none", "drop")]),
    make_column_transformer((StandardScaler(), [2, 0]), remainder="passthrough"),
    make_column_transformer((StandardScaler(), [0]), (MinMaxScaler(), [0, 3]), ("passthrough", [0])),
    make_column_transformer((make_pipeline(StandardScaler(), SelectKBest(f_regression, k=1)), slice(0, 3))),
]


def check_same(model: Any, X: Any = None) -> Any:
    ensemble = as_ensemble(model, X)
    rows = hugging_rows(ensemble, missing=ensemble.schema.accepts_missing)
    table = ensemble.schema.decode(rows)
    assert_predicts(ensemble, rows, model.predict(table.copy()))
    assert_survives_json(ensemble, rows[:500])
    return ensemble


@pytest.mark.parametrize("n_classes", [0, 2])
@pytest.mark.parametrize("step", SCALERS, ids=lambda step: re.sub(r" at 0x\w+", "", str(step)))
def test_steps(step: Any, n_classes: int) -> None:
    X = make_table() * [1.0, 1000.0, 1e-3, 1.0] + [0.0, 5000.0, 0.0, 7.0]
    last = FOREST if n_classes else RandomForestRegressor(6, max_depth=5, random_state=0)
    model = make_pipeline(step, last).fit(X.copy(), make_target(make_table(), n_classes))
    before = X.copy()
    ensemble = check_same(model, X)
    assert ensemble.schema.n_features == 4
    assert np.array_equal(X, before)  # whatever a scaler with copy=False does


@pytest.mark.parametrize(
    "last",
    [
        RobustTreeClassifier(threat=0.05, max_depth=5),
        HistGradientBoostingClassifier(max_iter=6, max_leaf_nodes=6),
        BaggingClassifier(n_estimators=3, random_state=0),
        GridSearchCV(DecisionTreeClassifier(), {"max_depth": [2, 4]}, cv=2),
    ],
    ids=lambda last: type(last).__name__,
)
def test_last_steps(last: Any) -> None:
    X = pd.DataFrame(make_table(), columns=["a", "b", "c", "d"])
    model = make_pipeline(StandardScaler(), last).fit(X, np.array(["no", "yes"])[make_target(X.to_numpy(), 2)])
    assert check_same(model, X).schema.feature_names == ("a", "b", "c", "d")
    inside = BaggingClassifier(make_pipeline(StandardScaler(), DecisionTreeClassifier()), n_estimators=3)
    check_same(inside.fit(X.to_numpy(), make_target(X.to_numpy(), 2)), X.to_numpy())


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_other_libraries(library: str, n_classes: int) -> None:
    package = pytest.importorskip(library)
    kind = ("XGB" if library == "xgboost" else "LGBM") + ("Classifier" if n_classes else "Regressor")
    quiet = {} if library == "xgboost" else {"verbose": -1}
    X = with_missing(make_table())
    model = make_pipeline(RobustScaler(), getattr(package, kind)(n_estimators=5, n_jobs=1, **quiet))
    ensemble = check_same(model.fit(X, make_target(X, n_classes)), X)
    assert ensemble.schema.accepts_missing


class TestMissing:
    X = with_missing(make_table())
    y = make_target(X, 2)

    @pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent", "constant"])
    @pytest.mark.parametrize("add_indicator", [False, True])
    def test_imputers(self, strategy: str, add_indicator: bool) -> None:
        """Where what is filled in goes, there goes what is missing."""
        imputer = SimpleImputer(strategy=strategy, fill_value=0.3, add_indicator=add_indicator)
        for steps in ([imputer, StandardScaler()], [MinMaxScaler(clip=True), imputer]):
            ensemble = check_same(make_pipeline(*steps, FOREST).fit(self.X, self.y), self.X)
            assert ensemble.schema.accepts_missing

    def test_an_empty_column(self) -> None:
        X = self.X.copy()
        X[:, 1] = np.nan
        with pytest.warns(UserWarning, match="Skipping features without any observed values"):
            model = make_pipeline(SimpleImputer(), FOREST).fit(X, self.y)
        with pytest.warns(UserWarning, match="Skipping features without any observed values"):
            check_same(model, X)
        check_same(make_pipeline(SimpleImputer(keep_empty_features=True), FOREST).fit(X, self.y), X)

    def test_some_columns_only(self) -> None:
        """The trees themselves take missing values, or else some columns may and others must not: then none may."""
        imputer = make_column_transformer((SimpleImputer(), [0, 1]), remainder="passthrough")
        X = self.X.copy()
        X[:, 2:] = np.nan_to_num(X[:, 2:])
        assert check_same(make_pipeline(imputer, FOREST).fit(self.X, self.y), self.X).schema.accepts_missing
        robust = make_pipeline(imputer, RobustTreeClassifier(threat=0.1)).fit(X, self.y)
        assert not as_ensemble(robust).schema.accepts_missing
        with pytest.raises(ValueError, match="X contains NaN"):
            as_ensemble(robust, X)


class TestCategories:
    generator = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            "color": generator.choice(["red", "green", "blue", "grün"], 300),
            "size": generator.choice([10, 20, 30], 300),
            "n": generator.normal(size=300),
        }
    )
    y = (X["color"].isin(["red", "grün"]) ^ (X["size"] == 20) ^ (X["n"] > 0)).astype(int).to_numpy()

    @pytest.mark.parametrize(
        "encoder",
        [
            OneHotEncoder(handle_unknown="ignore"),
            OneHotEncoder(drop="first"),
            OneHotEncoder(min_frequency=80, handle_unknown="infrequent_if_exist", sparse_output=False),
            OrdinalEncoder(),
            OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
            TargetEncoder(),
            make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(), MaxAbsScaler()),
        ],
        ids=str,
    )
    def test_encoders(self, encoder: Any) -> None:
        """The splits of the model are on the columns that encoders make, those of the import on the categories."""
        transformer = ColumnTransformer(
            [("c", encoder, ["color"]), ("s", encoder, ["size"]), ("n", StandardScaler(), ["n"])]
        )
        model = make_pipeline(transformer, FOREST).fit(self.X, self.y)
        ensemble = as_ensemble(model, self.X)
        assert ensemble.schema.categories == (("blue", "green", "grün", "red"), (10, 20, 30), None)
        assert np.array_equal(ensemble.predict(self.X), model.predict(self.X))
        result = attack(ensemble, self.X[:40], self.y[:40], {"n": 0.2, "color": "<>"})
        known = result.found & result.X_adv["color"].isin(self.X["color"]).to_numpy()
        assert known.any()
        examples = result.X_adv[known].astype({"size": int})
        assert (model.predict(examples) != self.y[:40][known]).all()

    def test_missing_labels(self) -> None:
        X = self.X.copy()
        X.loc[::7, "color"] = np.nan
        X.loc[::5, "n"] = np.nan
        transformer = make_column_transformer((OneHotEncoder(), ["color"]), remainder="passthrough")
        model = make_pipeline(transformer, DecisionTreeClassifier(max_depth=5)).fit(X, self.y)
        ensemble = as_ensemble(model, X)
        assert ensemble.schema.accepts_missing
        assert np.array_equal(ensemble.predict(X), model.predict(X))
        X["n"] = X["n"].fillna(0.0)
        model = make_pipeline(transformer, RobustTreeClassifier(threat=0.0)).fit(X, self.y)
        with pytest.raises(ValueError, match="a category of its own for missing labels"):
            as_ensemble(model)

    def test_categories_that_are_handed_on(self) -> None:
        """HistGradientBoosting has categories of its own, in columns that nobody changes."""
        X = self.X.assign(color=self.X["color"].astype("category"))
        transformer = make_column_transformer(
            (StandardScaler(), ["n"]), ("passthrough", ["color"]), verbose_feature_names_out=False
        ).set_output(transform="pandas")
        last = HistGradientBoostingClassifier(max_iter=8, categorical_features="from_dtype")
        model = make_pipeline(transformer, last).fit(X, self.y)
        ensemble = as_ensemble(model, X)
        assert ensemble.schema.categories == (("blue", "green", "grün", "red"), None, None)
        assert np.array_equal(ensemble.predict(X), model.predict(X))
        changed = make_pipeline(OrdinalEncoder(), HistGradientBoostingClassifier(max_iter=8, categorical_features=[0]))
        with pytest.raises(ValueError, match="changes a column of categories"):
            as_ensemble(changed.fit(self.X, self.y))

    def test_sparse_tables_and_xgboost(self) -> None:
        """XGBoost takes the zeros of a sparse table for missing values."""
        xgb = pytest.importorskip("xgboost")
        last = xgb.XGBClassifier(n_estimators=3, n_jobs=1)
        model = make_pipeline(OneHotEncoder(), last).fit(self.X[["color", "size"]], self.y)
        with pytest.raises(ValueError, match="XGBoost takes the zeros"):
            as_ensemble(model)
        dense = make_pipeline(OneHotEncoder(sparse_output=False), last).fit(self.X[["color", "size"]], self.y)
        assert as_ensemble(dense, self.X[["color", "size"]]).schema.categories[1] == (10, 20, 30)


class TestRefused:
    @pytest.mark.parametrize(
        ("step", "reason"),
        [
            (PCA(), "not known to treat every column by itself"),
            (Normalizer(), "not known to treat"),
            (PolynomialFeatures(), "not known to treat"),
            (QuantileTransformer(n_quantiles=10), "not known to treat"),
            (KNNImputer(), "not known to treat"),
            (FunctionTransformer(np.cbrt), "it calls cbrt, and nobody promises"),
            (SimpleImputer(missing_values=-1), "takes -1 for a missing value"),
            (FeatureUnion([("a", StandardScaler())], transformer_weights={"a": 2.0}), "it has weights"),
            (make_pipeline(StandardScaler(), OrdinalEncoder()), "encodes numbers that another step has computed"),
        ],
        ids=str,
    )
    def test_with_the_reason(self, step: Any, reason: str) -> None:
        X = make_table(40)
        model = make_pipeline(step, DecisionTreeClassifier()).fit(X, make_target(X, 2))
        with pytest.raises(TypeError, match=rf"Pipeline with a {type(step).__name__} in front .*{reason}"):
            as_ensemble(model)

    def test_nothing_in_front(self) -> None:
        X, y = [[0.0], [1.0]], [0, 1]
        assert (
            as_ensemble(make_pipeline("passthrough", None, DecisionTreeClassifier()).fit(X, y)).predict(X).tolist() == y
        )
        with pytest.raises(ValueError, match="Pipeline is not fitted"):
            as_ensemble(make_pipeline(StandardScaler(), DecisionTreeClassifier()))

    def test_a_scaler_that_turns_a_column_round(self) -> None:
        X = make_table(40)
        model = make_pipeline(StandardScaler(), DecisionTreeClassifier()).fit(X, make_target(X, 2))
        model[0].scale_[1] = -1.0
        with pytest.raises(TypeError, match=r"it divides column 1 by -1\.0"):
            as_ensemble(model)


def test_answers_are_about_the_table_that_goes_in() -> None:
    """Distances and examples are in the units of the caller, and the pipeline itself is fooled."""
    X = make_table() * [1.0, 1000.0, 1e-3, 1.0]
    y = make_target(make_table(), 2)
    model = make_pipeline(StandardScaler(), FOREST).fit(X, y)
    reach = 0.1 * X.std(axis=0)
    result, certificate = attack(model, X[:60], y[:60], reach), verify(model, X[:60], y[:60], reach)
    assert 0 < result.found.sum() < 60
    assert np.array_equal(result.found, certificate.status == "vulnerable")
    for examples in (result.X_adv[result.found], certificate.witness[result.found]):
        assert (model.predict(examples) != y[:60][result.found]).all()
        assert (np.abs(examples - X[:60][result.found]) <= reach * (1 + 1e-9)).all()


def test_thresholds_outside_of_a_clipped_range() -> None:
    """All numbers are clipped to one side of them: no number goes left, and none right, but what is missing may."""
    X = np.array([[0.0], [1.0], [2.0], [3.0], [np.nan], [np.nan]])
    model = make_pipeline(MinMaxScaler(clip=True), DecisionTreeClassifier()).fit(X, [0, 0, 1, 1, 1, 1])
    rows = np.array([[-LARGEST], [-1.0], [0.0], [1.5], [1.6], [9.0], [LARGEST], [np.nan]])
    tree = model[-1].tree_
    for threshold in (-0.5, 1.5):
        for missing_left in (0, 1):
            state = tree.__getstate__()
            state["nodes"]["threshold"][0] = threshold
            state["nodes"]["missing_go_to_left"][0] = missing_left
            tree.__setstate__(state)
            assert as_ensemble(model).predict(rows).tolist() == model.predict(rows).tolist()


@given(shift=st.floats(-1e6, 1e6), scale=st.floats(1e-6, 1e6), bound=st.floats(-1e9, 1e9), clip=st.booleans())
@example(shift=0.0, scale=1e-6, bound=1e9, clip=False)
@example(shift=0.1, scale=0.3, bound=0.0, clip=True)
def test_the_largest_number_not_above(shift: float, scale: float, bound: float, clip: bool) -> None:
    def function(x: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            scaled = (x - shift) / scale
        return np.clip(scaled, -2.0, 2.0) if clip else scaled

    (x,), (some,) = largest_not_above(function, np.array([bound]))
    assert some == (function(np.array([-LARGEST]))[0] <= bound)
    if some:
        assert function(np.array([x]))[0] <= bound
        assert x == LARGEST or function(np.array([np.nextafter(x, np.inf)]))[0] > bound


@given(
    values=st.lists(st.floats(-1e30, 1e30), min_size=4, max_size=12, unique=True),
    labels=st.lists(st.integers(0, 2), min_size=12, max_size=12),
    step=st.sampled_from([StandardScaler(), MinMaxScaler(), MinMaxScaler(clip=True), RobustScaler(), MaxAbsScaler()]),
    again=st.sampled_from([None, StandardScaler(), MaxAbsScaler()]),
)
def test_any_small_pipeline(values: list[float], labels: list[int], step: Any, again: Any) -> None:
    """Rows that hug the folded thresholds, by one float on both sides."""
    X = np.array(values)[:, None]
    y = np.array(labels[: len(values)])
    y[:2] = [0, 1]
    model = Pipeline([("one", step), ("two", again), ("tree", DecisionTreeClassifier())]).fit(X, y)
    ensemble = as_ensemble(model, X)
    at = np.concatenate([ensemble.threshold[ensemble.feature == 0], X[:, 0]])
    rows = np.concatenate([at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf)])[:, None]
    assert_predicts(ensemble, rows, model.predict(rows))
