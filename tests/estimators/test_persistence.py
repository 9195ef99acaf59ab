"""Estimators come back from pickle, copy, joblib and skops as they were, fitted or not."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from dataclasses import astuple, fields
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone

import hardwood
from hardwood import AttackRule, OneHotGroup, ThreatModel
from hardwood.refinement.search_report import SearchReport

N_ROWS = 24
THREAT = ThreatModel(
    {"size": (0.1, np.inf), "colour": {"blue": ["red"]}, "flag": {False: [True]}},
    whole_numbers=None,
    within={"size": (None, 1.0)},
    max_changes=2,
)
RULES = ThreatModel({"age": ">"}, rules=[AttackRule("size", when=(0.1, 0.9), add=-0.1)], budget=1)
HIDING = ThreatModel({"size": "10%"}, attacking_classes={"a": ["b"]}, blank=["age"], fill="all")
RELATED = ThreatModel("<>", groups=[OneHotGroup(["one", "other"])], relations=["size <= age"])


def make_table() -> pd.DataFrame:
    """Return a table with numbers, categories and flags."""
    generator = np.random.default_rng(0)
    return pd.DataFrame({
        "size": generator.random(N_ROWS).round(2),
        "age": generator.random(N_ROWS).round(2) + 1.0,
        "colour": pd.Categorical(generator.choice(["blue", "red", "green"], N_ROWS)),
        "flag": pd.Categorical(generator.random(N_ROWS) < 0.5),
    })  # fmt: skip


ESTIMATORS = [
    hardwood.RobustTreeClassifier(THREAT, max_depth=2),
    hardwood.RobustTreeClassifier(THREAT, max_depth=2, refine="search", n_starts=2, random_state=0),
    hardwood.RobustTreeClassifier(HIDING, max_depth=2),
    hardwood.RobustForestClassifier(THREAT, n_estimators=2, bootstrap=True, oob_score=True, random_state=0),
    hardwood.RobustForestClassifier(THREAT, n_estimators=2, warm_start=True, random_state=0),
    hardwood.RobustBoostingClassifier(THREAT, n_estimators=2, warm_start=True, early_stopping=False, random_state=0),
    hardwood.RobustBoostingClassifier({"size": 0.1}, n_estimators=2, early_stopping=0.4, mode="ordered"),
    hardwood.TreantClassifier(RULES, max_depth=1),
    hardwood.OptimalRobustTreeClassifier({"size": 0.1}, max_depth=1),
    hardwood.HardenedClassifier(hardwood.RobustTreeClassifier(max_depth=2), THREAT, rounds=1, random_state=0),
    hardwood.RobustTreeRegressor(THREAT, max_depth=2),
    hardwood.RobustForestRegressor(THREAT, n_estimators=2, oob_score=True, bootstrap=True, random_state=0),
    hardwood.RobustBoostingRegressor(THREAT, n_estimators=2, warm_start=True, early_stopping=False, random_state=0),
]
FITTED = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: each.__class__.__name__)


def fit(model: Any) -> Any:
    X = make_table()
    is_regressor = "Regressor" in type(model).__name__
    return model.fit(X, X["size"] if is_regressor else np.resize(["a", "b", "b"], N_ROWS))


def through_joblib(thing: Any) -> Any:
    file = io.BytesIO()
    joblib.dump(thing, file)
    file.seek(0)
    return joblib.load(file)


def through_skops(thing: Any) -> Any:
    """Write and read, and trust no types but ours."""
    skops = pytest.importorskip("skops.io")
    data = skops.dumps(thing)
    types = skops.get_untrusted_types(data=data)
    assert all(name.startswith("hardwood.") for name in types)
    return skops.loads(data, trusted=types)


def through_pickle(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


ways = pytest.mark.parametrize("way", [through_pickle, through_joblib, through_skops, copy.copy, copy.deepcopy])


def test_every_estimator_is_here() -> None:
    public = {getattr(hardwood, name) for name in hardwood.__all__}
    estimators = {each for each in public if isinstance(each, type) and issubclass(each, BaseEstimator)}
    assert {type(each) for each in ESTIMATORS} == estimators


def assert_same(mine: Any, yours: Any) -> None:
    """What a fitted estimator knows is the same, arrays to the last bit."""
    assert type(mine) is type(yours)
    if isinstance(mine, np.ndarray):
        assert mine.dtype == yours.dtype
        np.testing.assert_array_equal(mine, yours)
    elif isinstance(mine, hardwood.TreeEnsemble):
        assert mine.to_json() == yours.to_json()
        parts = [getattr(yours, field.name) for field in fields(yours)]
        assert not any(part.flags.writeable for part in parts if isinstance(part, np.ndarray))
    elif isinstance(mine, BaseEstimator):
        assert vars(mine).keys() == vars(yours).keys()
        for name, value in vars(mine).items():
            assert_same(value, vars(yours)[name])
    elif isinstance(mine, SearchReport):
        np.testing.assert_equal(astuple(mine), astuple(yours))  # NaN is equal to NaN
    else:
        assert repr(mine) == repr(yours)
        assert mine == yours


@FITTED
@ways
def test_fitted_estimators_come_back(estimator: Any, way: Callable[[Any], Any]) -> None:
    """skops could not read any of ours back: "'ThreatModel' object has no attribute '__dict__'"."""
    model, X = fit(clone(estimator)), make_table()
    again = way(model)
    assert_same(model, again)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    if getattr(model, "warm_start", False):
        for each in (model, again):
            fit(each.set_params(n_estimators=4))
        assert_same(model, again)


@FITTED
@ways
def test_unfitted_estimators_come_back(estimator: Any, way: Callable[[Any], Any]) -> None:
    assert_same(clone(estimator), way(clone(estimator)))


@pytest.mark.parametrize("threat", [THREAT, RULES, HIDING, RELATED, ThreatModel(), THREAT.scaled(0.0)], ids=str)
@ways
def test_threat_models_come_back(threat: ThreatModel, way: Callable[[Any], Any]) -> None:
    """With keys that are no strings, which files of JSON know nothing of: `False` came back as `True`."""
    again = way(threat)
    assert again == threat
    assert repr(again) == repr(threat)
    assert list(again.features or ()) == list(threat.features or ())
