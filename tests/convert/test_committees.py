"""Trees that scikit-learn puts together, and objects around a model, predict the same after they were imported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sameness import (
    assert_predicts,
    assert_same_bits,
    assert_survives_json,
    hugging_rows,
    make_table,
    make_target,
    with_missing,
)
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    BaggingRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, RandomizedSearchCV
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor

from hardwood import RobustTreeClassifier, as_ensemble

ROBUST = RobustTreeClassifier(threat=0.05, max_depth=4)
TREES = [
    ("deep", DecisionTreeClassifier(random_state=0)),
    ("flat", DecisionTreeClassifier(max_depth=2)),
    ("any", ExtraTreeClassifier(max_depth=4, random_state=0)),
]
REGRESSORS = [("deep", DecisionTreeRegressor(random_state=0)), ("any", ExtraTreeRegressor(max_depth=4, random_state=0))]


def check_same(model: Any, X: Any = None) -> None:
    """Predictions and probabilities, where there are any, are the same bits."""
    ensemble = as_ensemble(model, X)
    rows = hugging_rows(ensemble, missing=ensemble.schema.accepts_missing)
    assert_predicts(ensemble, rows, model.predict(rows))
    if ensemble.link == "probability":
        assert_same_bits(ensemble.output(rows), model.predict_proba(rows))
    if ensemble.classes is None:
        assert_same_bits(ensemble.output(rows), model.predict(rows))
    assert_survives_json(ensemble, rows[:500])


COMMITTEES = [
    (BaggingClassifier(ROBUST, n_estimators=5, random_state=0), 2),
    (BaggingClassifier(ROBUST, n_estimators=5, max_features=2, bootstrap_features=True, random_state=0), 2),
    (BaggingClassifier(GridSearchCV(DecisionTreeClassifier(), {"max_depth": [2, 3]}), n_estimators=3), 3),
    (AdaBoostClassifier(ROBUST, n_estimators=5), 2),
    (AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=7), 3),
    (VotingClassifier(TREES, voting="soft"), 2),
    (VotingClassifier(TREES, voting="soft", weights=[1, 0.3, 2]), 4),
    (VotingClassifier([*TREES, ("robust", ROBUST)], voting="soft"), 2),
    (VotingClassifier([*TREES, ("robust", ROBUST)], voting="hard"), 2),
    (VotingClassifier(TREES, voting="hard"), 4),
    (VotingClassifier([*TREES, ("none", "drop")], voting="hard", weights=[0.1, 0.2, 0.3, 9]), 4),
    (VotingRegressor(REGRESSORS), 0),
    (VotingRegressor(REGRESSORS, weights=[0.3, 0.4]), 0),
    (OneVsRestClassifier(ROBUST), 2),
    (OneVsRestClassifier(ROBUST), 4),
    (OneVsRestClassifier(DecisionTreeClassifier(max_depth=3)), 2),
    (OneVsRestClassifier(DecisionTreeClassifier(max_depth=3)), 3),
    (OneVsRestClassifier(RandomForestClassifier(4, random_state=0)), 3),
    (OneVsRestClassifier(GradientBoostingClassifier(n_estimators=4)), 3),
    (OneVsRestClassifier(GradientBoostingClassifier(n_estimators=4, loss="exponential")), 3),
    (OneVsRestClassifier(HistGradientBoostingClassifier(max_iter=4)), 2),
    (OneVsRestClassifier(HistGradientBoostingClassifier(max_iter=4)), 3),
]


@pytest.mark.parametrize(("model", "n_classes"), COMMITTEES, ids=str)
def test_committees(model: Any, n_classes: int) -> None:
    X = make_table()
    y = make_target(X, n_classes)
    model.fit(X, y if n_classes == 0 else np.array(["no", "yes", "perhaps", "never"])[y])
    check_same(model, X)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_ties_between_classes_are_settled_as_the_version_does(n_classes: int) -> None:
    """Of members that are equally sure, older versions of scikit-learn take the last, newer ones the first."""
    X = np.arange(6.0)[:, None] // 2
    y = np.tile(np.arange(n_classes), 6)[:6]
    model = OneVsRestClassifier(DecisionTreeClassifier()).fit(X, y)
    assert as_ensemble(model, X).predict(X).tolist() == model.predict(X).tolist()


def test_bagging_over_one_column() -> None:
    """A leaf's feature, -2, was looked up in the columns of its tree, of which there was one: IndexError."""
    X = make_table()[:, :1]
    check_same(BaggingClassifier(n_estimators=2, random_state=0).fit(X, make_target(make_table(), 2)))
    check_same(BaggingRegressor(n_estimators=2, random_state=0).fit(X, make_target(make_table(), 0)))


def test_missing_values() -> None:
    X = with_missing(make_table())
    for model in (VotingClassifier(TREES[:2], voting="soft"), OneVsRestClassifier(DecisionTreeClassifier(max_depth=3))):
        model.fit(X, make_target(X, 3))
        assert as_ensemble(model).schema.accepts_missing
        check_same(model, X)
    mixed = VotingClassifier([*TREES[:2], ("robust", ROBUST)]).fit(make_table(), make_target(make_table(), 2))
    assert not as_ensemble(mixed).schema.accepts_missing


def test_members_that_know_other_categories() -> None:
    """Each member of a voting has seen the labels of its own table; what it has not seen is unseen to it."""
    generator = np.random.default_rng(0)
    X = pd.DataFrame({"c": pd.Categorical(generator.choice(list("uvwx"), 200)), "n": generator.normal(size=200)})
    y = (X["c"].isin(["u", "x"]) ^ (X["n"] > 0)).astype(int).to_numpy()
    model = VotingClassifier([("one", ROBUST), ("two", RobustTreeClassifier(threat=0.0))], voting="soft").fit(X, y)
    part = X["c"] != "v"
    model.estimators_[1].fit(X[part].assign(c=X["c"][part].cat.remove_unused_categories()), y[part])
    ensemble = as_ensemble(model, X)
    assert ensemble.schema.categories == (("u", "v", "w", "x"), None)
    rows = hugging_rows(ensemble)
    table = ensemble.schema.decode(rows)
    assert_predicts(ensemble, rows, model.predict(table))
    assert_same_bits(ensemble.output(rows), model.predict_proba(table))


@pytest.mark.parametrize(
    "search",
    [
        GridSearchCV(RandomForestClassifier(3), {"max_depth": [2, 3]}, cv=2),
        RandomizedSearchCV(ROBUST, {"max_depth": [2, 3]}, n_iter=2, cv=2),
        HalvingGridSearchCV(DecisionTreeClassifier(), {"max_depth": [2, 3]}, cv=2),
    ],
    ids=lambda search: type(search).__name__,
)
def test_searches(search: Any) -> None:
    X = make_table()
    check_same(search.fit(X, make_target(X, 2)), X)


def test_a_search_that_kept_nothing() -> None:
    X = make_table(60)
    search = GridSearchCV(DecisionTreeClassifier(), {"max_depth": [2, 3]}, cv=2, refit=False).fit(X, make_target(X, 2))
    with pytest.raises(ValueError, match=r"this GridSearchCV kept no model \(refit=False\)"):
        as_ensemble(search)


FOREST = RandomForestClassifier(2)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (BaggingClassifier(FOREST, n_estimators=2), "averages members of several trees each"),
        (BaggingClassifier(LogisticRegression(), n_estimators=2), "holds a LogisticRegression"),
        (VotingClassifier([("forest", FOREST)], voting="soft"), "averages members of several trees each"),
        (VotingClassifier([("forest", FOREST)], voting="hard"), "such a vote is no sum of trees"),
        (VotingClassifier([("b", GradientBoostingClassifier(n_estimators=1))], voting="soft"), "function of a sum"),
        (VotingRegressor([("forest", RandomForestRegressor(2))]), "averages members of several trees each"),
        (AdaBoostClassifier(FOREST, n_estimators=2), "such a vote is no sum of trees"),
        (OneVsRestClassifier(LogisticRegression()), "holds a LogisticRegression"),
        (OneVsRestClassifier(AdaBoostClassifier(n_estimators=2)), "divides by different sums"),
        (OneVsOneClassifier(DecisionTreeClassifier()), "a OneVsOneClassifier counts the duels"),
        (CalibratedClassifierCV(DecisionTreeClassifier(), cv=2), "a CalibratedClassifierCV bends the probabilities"),
        (StackingClassifier([("tree", DecisionTreeClassifier())], cv=2), "a StackingClassifier feeds"),
    ],
    ids=str,
)
def test_what_is_no_sum_of_trees(model: Any, message: str) -> None:
    X = make_table(60)
    y = make_target(X, 3)
    with pytest.raises(ValueError, match=message):
        as_ensemble(model.fit(X, y))


def test_several_labels_at_once() -> None:
    model = OneVsRestClassifier(DecisionTreeClassifier()).fit([[0.0], [1.0], [2.0]], [[1, 0], [0, 1], [1, 1]])
    with pytest.raises(ValueError, match="gives a row several labels"):
        as_ensemble(model)


def test_float32_members_of_one_against_the_rest() -> None:
    """XGBoost's probabilities are rounded: two classes may be equally sure whose outputs differ."""
    xgb = pytest.importorskip("xgboost")
    X = make_table()
    model = OneVsRestClassifier(xgb.XGBClassifier(n_estimators=2, n_jobs=1)).fit(X, make_target(X, 3))
    with pytest.raises(ValueError, match="computes in float32"):
        as_ensemble(model)


@given(
    values=st.lists(st.floats(-1e36, 1e36), min_size=4, max_size=12, unique=True),
    labels=st.lists(st.integers(0, 2), min_size=12, max_size=12),
    weights=st.lists(st.floats(0.01, 10.0), min_size=2, max_size=2),
    kind=st.sampled_from(["soft", "hard", "bagging", "boosting", "rest"]),
)
def test_any_small_committee(values: list[float], labels: list[int], weights: list[float], kind: str) -> None:
    X = np.array(values)[:, None]
    y = np.array(labels[: len(values)])
    y[:3] = [0, 1, 2]
    trees = [("one", DecisionTreeClassifier()), ("two", ExtraTreeClassifier(random_state=0))]
    model = {
        "soft": VotingClassifier(trees, voting="soft", weights=weights),
        "hard": VotingClassifier(trees, voting="hard", weights=weights),
        "bagging": BaggingClassifier(n_estimators=3, random_state=0),
        "boosting": AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=3),
        "rest": OneVsRestClassifier(DecisionTreeClassifier(max_depth=1)),
    }[kind].fit(X, y)
    ensemble = as_ensemble(model, X)
    at = np.concatenate([ensemble.threshold[ensemble.feature == 0], X[:, 0]])
    rows = np.concatenate([at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf)])[:, None]
    assert_predicts(ensemble, rows, model.predict(rows))
