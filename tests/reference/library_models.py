"""Small tables, models of every library fitted to them, and attackers of whole numbers."""

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from hardwood import RobustTreeClassifier, ThreatModel

DISTANCES = [None, 0.5, 1, 1.5, 2.9999999999, (1, 3), (0.4, 2), ">", "<", "<>"]


def random_table(generator: np.random.Generator, n_rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Return two columns of whole numbers and one of others, from 0 to 6, and labels that depend on all of them."""
    X = np.column_stack([generator.integers(0, 7, (n_rows, 2)), 6.0 * generator.random(n_rows)])
    score = X @ generator.choice([-1.0, 1.0, 2.0], 3) + generator.normal(0.0, 1.0, n_rows)
    return X, (score > np.median(score)).astype(int)


def random_threat(generator: np.random.Generator) -> ThreatModel:
    within: dict[Any, tuple[float, float]] = {}
    for j in range(3):
        if generator.random() < 0.5:
            within[j] = (float(generator.choice([-np.inf, -0.5, 0.0])), float(generator.choice([6.0, 7.3, np.inf])))
    whole = [[0], [0, 1]][generator.integers(2)]
    entries = [DISTANCES[k] for k in generator.integers(len(DISTANCES), size=3)]
    return ThreatModel(entries, whole_numbers=whole, within=within)


def fit(name: str, X: np.ndarray, y: np.ndarray, threat: ThreatModel, seed: int) -> Any:
    if name == "hardwood":
        return RobustTreeClassifier(threat, max_depth=4).fit(X, y)
    if name == "tree":
        return DecisionTreeClassifier(max_depth=4, splitter="random", random_state=seed).fit(X, y)
    if name == "forest":
        return RandomForestClassifier(5, max_depth=4, random_state=seed).fit(X, y)
    if name == "boosting":
        return GradientBoostingClassifier(n_estimators=4, max_depth=3, random_state=seed).fit(X, y)
    if name == "xgboost":
        xgboost = pytest.importorskip("xgboost")
        return xgboost.XGBClassifier(n_estimators=4, max_depth=3, n_jobs=1).fit(X, y)
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMClassifier(n_estimators=4, num_leaves=6, min_child_samples=4, n_jobs=1, verbose=-1).fit(X, y)


MODELS = ["hardwood", "tree", "forest", "boosting", "xgboost", "lightgbm"]
