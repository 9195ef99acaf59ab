"""Models of every kind, fitted to small tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble, tree

import hardwood

Fit = Callable[[pd.DataFrame, np.ndarray, Any, int], Any]


@dataclass(frozen=True)
class Learner:
    """A way to make a model, and which tables it takes."""

    fit: Fit
    takes_categories: bool = False
    takes_holes: bool = False
    most_classes: int = 4


def _own(make: Callable[..., Any]) -> Fit:
    """Return how an estimator of ours is fitted: against the threat, or a plain one if it knows no such attacker."""

    def fit(X: pd.DataFrame, y: np.ndarray, threat: Any, seed: int) -> Any:
        try:
            return make(threat, seed).fit(X, y)
        except ValueError:  # who reads the sentence is another test
            return make({"x": 0.1}, seed).fit(X, y)

    return fit


def _other(make: Callable[[int], Any]) -> Fit:
    return lambda X, y, threat, seed: make(seed).fit(X, y)


def _xgboost(name: str, **options: Any) -> Fit:
    def make(seed: int) -> Any:
        library = pytest.importorskip("xgboost")
        return getattr(library, name)(n_jobs=1, enable_categorical=True, random_state=seed, **options)

    return _other(make)


def _lightgbm(name: str, **options: Any) -> Fit:
    def make(seed: int) -> Any:
        library = pytest.importorskip("lightgbm")
        common = {
            "num_leaves": 6,
            "min_child_samples": 3,
            "n_jobs": 1,
            "verbose": -1,
            "min_data_per_group": 1,
            "cat_smooth": 1.0,
        }
        return getattr(library, name)(n_estimators=3, random_state=seed, **common, **options)

    return _other(make)


CLASSIFIERS = {
    "tree of ours": Learner(_own(lambda t, s: hardwood.RobustTreeClassifier(t, max_depth=4)), True, True),
    "refined tree": Learner(
        _own(lambda t, s: hardwood.RobustTreeClassifier(t, max_depth=3, refine="search", n_starts=1, random_state=s)),
        True,
        False,
        2,
    ),
    "tree of Chen": Learner(
        _own(lambda t, s: hardwood.RobustTreeClassifier(t, attacker="chen", max_depth=3)), most_classes=2
    ),
    "binned tree": Learner(_own(lambda t, s: hardwood.RobustTreeClassifier(t, max_depth=4, max_bins=6)), True, True),
    "forest of ours": Learner(
        _own(lambda t, s: hardwood.RobustForestClassifier(t, n_estimators=3, random_state=s)), True, True
    ),
    "boosting of ours": Learner(
        _own(lambda t, s: hardwood.RobustBoostingClassifier(t, n_estimators=3, max_depth=3, early_stopping=False)),
        True,
        True,
    ),
    "hardened": Learner(
        _own(
            lambda t, s: hardwood.HardenedClassifier(
                ensemble.RandomForestClassifier(3, max_depth=3, random_state=s), t, rounds=2
            )
        )
    ),
    "optimal": Learner(_own(lambda t, s: hardwood.OptimalRobustTreeClassifier(t, max_depth=1)), most_classes=2),
    "TREANT": Learner(_own(lambda t, s: hardwood.TreantClassifier(t, max_depth=2)), True, most_classes=2),
    "tree": Learner(
        _other(lambda s: tree.DecisionTreeClassifier(max_depth=5, splitter="random", random_state=s)), False, True
    ),
    "extra trees": Learner(
        _other(lambda s: ensemble.ExtraTreesClassifier(4, max_depth=4, random_state=s)), False, True
    ),
    "forest": Learner(_other(lambda s: ensemble.RandomForestClassifier(4, max_depth=4, random_state=s)), False, True),
    "boosting": Learner(
        _other(lambda s: ensemble.GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=s))
    ),
    "AdaBoost": Learner(
        _other(
            lambda s: ensemble.AdaBoostClassifier(
                tree.DecisionTreeClassifier(max_depth=2), n_estimators=3, random_state=s
            )
        )
    ),
    "bagging": Learner(
        _other(
            lambda s: ensemble.BaggingClassifier(
                tree.DecisionTreeClassifier(max_depth=3), n_estimators=3, random_state=s
            )
        )
    ),
    "histogram": Learner(
        _other(lambda s: ensemble.HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=5, min_samples_leaf=4)),
        True,
        True,
    ),
    "xgboost": Learner(_xgboost("XGBClassifier", n_estimators=3, max_depth=3), True, True),
    "xgboost forest": Learner(_xgboost("XGBRFClassifier", n_estimators=3, max_depth=3), True, True),
    "lightgbm": Learner(_lightgbm("LGBMClassifier"), True, True),
}
REGRESSORS = {
    "tree of ours": Learner(_own(lambda t, s: hardwood.RobustTreeRegressor(t, max_depth=4)), True, True),
    "forest of ours": Learner(
        _own(lambda t, s: hardwood.RobustForestRegressor(t, n_estimators=3, random_state=s)), True, True
    ),
    "boosting of ours": Learner(
        _own(lambda t, s: hardwood.RobustBoostingRegressor(t, n_estimators=3, max_depth=3, early_stopping=False)),
        True,
        True,
    ),
    "tree": Learner(_other(lambda s: tree.DecisionTreeRegressor(max_depth=5, random_state=s)), False, True),
    "forest": Learner(_other(lambda s: ensemble.RandomForestRegressor(4, max_depth=4, random_state=s)), False, True),
    "boosting": Learner(
        _other(lambda s: ensemble.GradientBoostingRegressor(n_estimators=3, max_depth=2, random_state=s))
    ),
    "histogram": Learner(
        _other(lambda s: ensemble.HistGradientBoostingRegressor(max_iter=3, max_leaf_nodes=5, min_samples_leaf=4)),
        True,
        True,
    ),
    "xgboost": Learner(_xgboost("XGBRegressor", n_estimators=3, max_depth=3), True, True),
    "lightgbm": Learner(_lightgbm("LGBMRegressor"), True, True),
}
# These want classes that are numbered.
NUMBERED = ("xgboost", "xgboost forest")
