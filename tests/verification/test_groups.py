"""One-hot groups: every answer is that of trying all states of every group."""

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from hardwood import (
    OneHotGroup,
    RobustTreeClassifier,
    ThreatModel,
    as_ensemble,
    attack,
    verify,
)
from reference.attackers import Attacker

NORMS = [np.inf, 2, 1, 0]
MODELS = ["hardwood", "tree", "forest", "boosting", "pipeline", "xgboost", "lightgbm"]


def random_table(generator: np.random.Generator, n_rows: int = 80) -> tuple[np.ndarray, np.ndarray]:
    """Return a number, a group of three, a whole number, a group of two of which none may be set, and labels."""
    first, second = generator.integers(0, 3, n_rows), generator.integers(0, 3, n_rows)
    X = np.column_stack([
        4.0 * generator.random(n_rows), np.eye(3)[first], generator.integers(0, 5, n_rows), np.eye(3)[second][:, :2],
    ])  # fmt: skip
    weight = np.array([1.0, 2.0, -1.0, 0.0, 0.5, 2.0, -2.0])
    score = X @ weight + generator.normal(0.0, 1.0, n_rows)
    return X, (score > np.median(score)).astype(int)


def random_relation(generator: np.random.Generator, labels: list[Any]) -> Any:
    if generator.random() < 0.4:
        return "<>"
    return {label: [other for other in labels if generator.random() < 0.5] for label in labels}


def random_attacker(generator: np.random.Generator) -> Attacker:
    groups = [
        OneHotGroup([1, 2, 3], may_become=random_relation(generator, [1, 2, 3])),
        OneHotGroup([5, 6], at_most_one=True, may_become=random_relation(generator, [5, 6, ""])),
    ]
    left, right = generator.choice([0.0, 0.3, 1.0, 2.0], (2, 2))
    return Attacker(
        7,
        left={0: left[0], 4: left[1]},
        right={0: right[0], 4: right[1]},
        whole=[4],
        within={4: (0.0, 4.0)},
        groups=groups,
        options={} if generator.random() < 0.7 else {"attacking_classes": [1]},
    )


def fit(name: str, X: np.ndarray, y: np.ndarray, threat: ThreatModel, seed: int) -> Any:
    if name == "hardwood":
        return RobustTreeClassifier(threat, max_depth=4, min_samples_leaf=1).fit(X, y)
    if name == "tree":
        return DecisionTreeClassifier(max_depth=5, splitter="random", random_state=seed).fit(X, y)
    if name == "forest":
        return RandomForestClassifier(5, max_depth=4, random_state=seed).fit(X, y)
    if name == "boosting":
        return GradientBoostingClassifier(n_estimators=5, max_depth=3, random_state=seed).fit(X, y)
    if name == "pipeline":
        return make_pipeline(StandardScaler(), RandomForestClassifier(3, max_depth=4, random_state=seed)).fit(X, y)
    if name == "xgboost":
        xgboost = pytest.importorskip("xgboost")
        return xgboost.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1).fit(X, y)
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMClassifier(n_estimators=5, num_leaves=6, min_child_samples=4, n_jobs=1, verbose=-1).fit(X, y)


def list_thresholds(model: Any, X: np.ndarray) -> list[np.ndarray]:
    trees = as_ensemble(model, X)
    return [np.unique(trees.threshold[trees.feature == j]) for j in range(X.shape[1])]


def find_points(model: Any, X: np.ndarray, y: np.ndarray, attacker: Attacker) -> list[np.ndarray]:
    """Return, row by row, the points that the model itself gives another class."""
    thresholds, attacking_classes = list_thresholds(model, X), attacker.options.get("attacking_classes")
    found = []
    for row, label in zip(X, y, strict=True):
        still = attacking_classes is not None and label not in attacking_classes
        points = row[None] if still else attacker.points(row, thresholds)
        found.append(points[model.predict(points) != label])
    return found


def check_answers(model: Any, X: np.ndarray, y: np.ndarray, attacker: Attacker, method: str = "search") -> int:
    """Compare statuses, distances in all norms and examples with those of trying everything; how many can be fooled."""
    threat = attacker.threat()
    points = find_points(model, X, y, attacker)
    fooled = np.array([len(found) > 0 for found in points])
    certificate = verify(model, X, y, threat, method=method)
    np.testing.assert_array_equal(certificate.status == "vulnerable", fooled)
    assert not (certificate.status == "unknown").any()
    check_examples(model, X[fooled], y[fooled], certificate.witness[fooled], threat)
    for norm in NORMS:
        result = attack(model, X, y, threat, norm=norm, method=method)
        np.testing.assert_array_equal(result.found, fooled)
        for row in np.flatnonzero(fooled):
            wanted = attacker.distances(X[row], points[row], norm).min()
            np.testing.assert_allclose(result.distance[row], wanted, rtol=1e-5 if method == "milp" else 1e-12)
        check_examples(model, X[fooled], y[fooled], result.X_adv[fooled], threat)
    return int(fooled.sum())


def check_examples(model: Any, X: np.ndarray, y: np.ndarray, X_adv: np.ndarray, threat: ThreatModel) -> None:
    """Every example has one column of every group set, is within reach, and of another class."""
    if len(X):
        assert np.isin(X_adv[:, [1, 2, 3, 5, 6]], [0.0, 1.0]).all()
        assert (X_adv[:, 1:4].sum(axis=1) == 1.0).all()
        assert (X_adv[:, 5:7].sum(axis=1) <= 1.0).all()
        assert threat.contains(X, X_adv, y).all()
        assert (model.predict(X_adv) != y).all()


@pytest.mark.parametrize("name", MODELS)
def test_all_states_are_tried(name: str) -> None:
    fooled = 0
    for seed in range(5):
        generator = np.random.default_rng(seed)
        X, y = random_table(generator)
        attacker = random_attacker(generator)
        fooled += check_answers(fit(name, X, y, attacker.threat(), seed), X[:12], y[:12], attacker)
    assert 0 < fooled < 60


@pytest.mark.parametrize("name", ["tree", "forest", "xgboost"])
def test_the_solver_agrees(name: str) -> None:
    pytest.importorskip("highspy")
    for seed in range(2):
        generator = np.random.default_rng(100 + seed)
        X, y = random_table(generator)
        attacker = random_attacker(generator)
        check_answers(fit(name, X, y, attacker.threat(), seed), X[:5], y[:5], attacker, "milp")
