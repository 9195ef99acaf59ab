"""One-hot groups: every answer is that of trying all states of every group."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from hardwood import (
    OneHotGroup,
    RobustTreeClassifier,
    ThreatModel,
    adversarial_accuracy,
    as_ensemble,
    attack,
    black_box_attack,
    evaluate,
    is_vulnerable,
    make_adversarial_scorer,
    transfer_attack,
    verify,
)
from hardwood.table import Schema
from hardwood.verification import folding
from reference import attacking
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


@given(seed=st.integers(0, 10**6), n_trees=st.integers(1, 3), n_classes=st.integers(2, 3))
def test_trees_of_any_kind(seed: int, n_trees: int, n_classes: int) -> None:
    """Thresholds lie below 0, above 1 and in between, and splits contradict each other; other values are missing."""
    generator = np.random.default_rng(seed)
    schema = Schema(4, None, (None,) * 4, accepts_missing=True)
    trees = attacking.random_trees(generator, schema, n_trees, 3, n_classes)
    threshold = generator.choice([-0.5, 0.0, 0.3, 0.5, np.nextafter(1.0, 0.0), 1.0, 1.5], trees.n_nodes)
    trees = replace(trees, threshold=np.where(trees.feature >= 1, threshold, trees.threshold))
    X = np.column_stack([generator.choice([-1.0, 0.0, 0.2, np.nan], 6), np.eye(3)[generator.integers(0, 3, 6)]])
    group = OneHotGroup([1, 2, 3], may_become=random_relation(generator, [1, 2, 3]))
    attacker = Attacker(4, left={0: 1.0}, right={0: 0.2}, groups=[group])
    label = trees.decide(X)
    y = trees.labels[label]
    status = verify(trees, X, y, attacker.threat()).status
    results = {norm: attack(trees, X, y, attacker.threat(), norm=norm) for norm in NORMS}
    for row in range(len(X)):
        points = attacker.points(X[row], list_thresholds(trees, X))
        points = points[trees.decide(points) != label[row]]
        assert (status[row] == "vulnerable") == (len(points) > 0)
        for norm, result in results.items():
            wanted = attacker.distances(X[row], points, norm).min(initial=np.inf)
            np.testing.assert_allclose(result.distance[row], wanted, rtol=1e-12)


@pytest.mark.parametrize("method", ["heuristic", "coordinate", "lowest"])
def test_attacks_that_prove_nothing(method: str) -> None:
    found = 0
    for seed in range(4):
        generator = np.random.default_rng(seed)
        X, y = random_table(generator)
        attacker = random_attacker(generator)
        model = fit("forest", X, y, attacker.threat(), seed)
        result = attack(model, X, y, attacker.threat(), norm=1, method=method)
        exact = attack(model, X, y, attacker.threat(), norm=1)
        assert (exact.found | ~result.found).all()
        assert (result.distance >= exact.distance * (1.0 - 1e-12))[result.found].all()
        check_examples(model, X[result.found], y[result.found], result.X_adv[result.found], attacker.threat())
        found += int((result.found & ~result.was_wrong).sum())
    assert found > 20


@pytest.mark.parametrize("name", ["transfer", "black box"])
def test_attacks_by_predictions_alone(name: str) -> None:
    """They ask about no point at which two columns of a group are set, and count a changed group as one change."""
    if name == "black box":
        pytest.importorskip("art")
    X, y = random_table(np.random.default_rng(0), 200)
    groups = [OneHotGroup([1, 2, 3]), OneHotGroup([5, 6], at_most_one=True, may_become={5: [6, ""]})]
    threat = ThreatModel({0: 0.5, 4: 1}, groups=groups, whole_numbers=[4])
    forest = fit("forest", X, y, threat, 0)

    class Strict:
        classes_ = forest.classes_

        def predict(self, points: np.ndarray) -> np.ndarray:
            assert (points[:, 1:4].sum(axis=1) == 1.0).all()
            assert (points[:, 5:7].sum(axis=1) <= 1.0).all()
            return np.asarray(forest.predict(points))

    if name == "transfer":
        rows = slice(60)
        result = transfer_attack(Strict(), X[rows], y[rows], threat, surrogate=forest, norm=1)
    else:
        rows = slice(10)
        result = black_box_attack(Strict(), X[rows], y[rows], threat, max_queries=200, random_state=0, norm=2)
    made_wrong = np.flatnonzero(result.found & ~result.was_wrong)
    check_examples(forest, X[made_wrong], y[made_wrong], result.X_adv[made_wrong], threat)
    changed = (X[made_wrong][:, 1:4] != result.X_adv[made_wrong][:, 1:4]).any(axis=1)
    others = (X[made_wrong][:, [0, 4, 5, 6]] != result.X_adv[made_wrong][:, [0, 4, 5, 6]]).any(axis=1)
    assert (result.distance[made_wrong][changed & ~others] == 1.0).all()
    assert changed.any()


def test_regressions() -> None:
    """The interval of outputs is that of all points."""
    for seed in range(3):
        generator = np.random.default_rng(seed)
        X, _ = random_table(generator)
        attacker = random_attacker(generator)
        attacker.options = {}
        target = generator.normal(size=len(X))
        for n_trees in (1, 4):
            model = RandomForestRegressor(n_trees, max_depth=5, random_state=seed).fit(X, target)
            certificate = verify(model, X[:8], None, attacker.threat(), tolerance=0.1)
            for row in range(8):
                outputs = model.predict(attacker.points(X[row], list_thresholds(model, X)))
                np.testing.assert_allclose(certificate.lower[row], outputs.min(), rtol=1e-9, atol=1e-12)
                np.testing.assert_allclose(certificate.upper[row], outputs.max(), rtol=1e-9, atol=1e-12)


def test_everybody_honours_groups() -> None:
    """Training, evaluation, scorers and the ceiling; and the ceiling is that of all points that rows share."""
    for seed in range(4):
        generator = np.random.default_rng(seed)
        X, y = random_table(generator, 40)
        attacker = random_attacker(generator)
        attacker.left[0] = attacker.right[0] = 0.0
        X[:, 0] = generator.integers(0, 2, len(X))
        threat = attacker.threat()
        model = RobustTreeClassifier(threat, max_depth=3).fit(X, y)
        fooled = np.array([len(points) > 0 for points in find_points(model, X, y, attacker)])
        np.testing.assert_array_equal(is_vulnerable(model, X, y, threat), fooled)
        assert adversarial_accuracy(model, X, y, threat) == pytest.approx((~fooled).mean())
        assert make_adversarial_scorer(threat)(model, X, y) == pytest.approx((~fooled).mean())
        report = evaluate(model, X, y, threat, epsilons=[0.5], distances=True)
        assert report.adversarial_accuracy.lower == report.adversarial_accuracy.upper == pytest.approx((~fooled).mean())
        assert report.ceiling == pytest.approx(find_ceiling(X, y, attacker))
        assert report.ceilings[0] >= report.ceiling


def find_ceiling(X: np.ndarray, y: np.ndarray, attacker: Attacker) -> float:
    """Return the share of rows that no two of different classes of which have a point in common."""
    classes = attacker.options.get("attacking_classes", [0, 1])
    wide = [np.append(column.min(), column.max()) for column in X.T]
    points = [
        set(map(tuple, (attacker.points(row, wide) if label in classes else row[None]).tolist()))
        for row, label in zip(X, y, strict=True)
    ]
    zeros, ones = np.flatnonzero(y == 0), np.flatnonzero(y == 1)
    meets = np.array([[bool(points[i] & points[j]) for j in ones] for i in zeros])
    matched = maximum_bipartite_matching(csr_matrix(meets), perm_type="column")
    return 1.0 - float((matched >= 0).sum()) / len(X)


def test_asking_row_by_row_folds_once(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = random_table(np.random.default_rng(0))
    threat = random_attacker(np.random.default_rng(0)).threat()
    trees = as_ensemble(fit("forest", X, y, threat, 0), X)
    calls = []
    monkeypatch.setattr(
        folding, "_fold_nodes", lambda *given, made=folding._fold_nodes: calls.append(1) or made(*given)
    )
    status = [verify(trees, X[[row]], y[[row]], threat).status[0] for row in range(5)]
    assert status == verify(trees, X[:5], y[:5], threat).status.tolist()
    evaluate(trees, X[:5], y[:5], threat, epsilons=[0.5, 2.0], ceiling=False)
    assert len(calls) == 1


def test_a_frame_comes_back_in_its_own_types() -> None:
    """Dummies of pandas are booleans, and an example sets another one."""
    frame = pd.DataFrame({"age": [20, 30, 40, 50] * 5, "color": ["red", "blue", "green", "red"] * 5})
    table = pd.get_dummies(frame)
    y = (frame["color"] == "red").to_numpy()
    tree = DecisionTreeClassifier().fit(table, y)
    threat = ThreatModel(groups="from_table")
    result = attack(tree, table, y, threat, norm=2)
    assert result.found.all()
    assert (result.distance == 1.0).all()
    assert (result.X_adv.dtypes == table.dtypes).all()
    assert (result.X_adv[["color_blue", "color_green", "color_red"]].sum(axis=1) == 1).all()
    limited = OneHotGroup(["color_blue", "color_green", "color_red"], may_become={"color_blue": ["color_green"]})
    assert not attack(tree, table, y, ThreatModel(groups=[limited])).found.any()


def test_weights_within_a_group_are_the_same() -> None:
    X, y = random_table(np.random.default_rng(0))
    threat = ThreatModel(groups=[[1, 2, 3]])
    model = fit("tree", X, y, threat, 0)
    with pytest.raises(ValueError, match=r"feature_weight: the columns \[1, 2, 3\] .* are a one-hot group"):
        attack(model, X, y, threat, feature_weight=[1, 1, 2, 3, 1, 1, 1])
    result = attack(model, X, y, threat, norm=1, feature_weight=[1, 3, 3, 3, 1, 1, 1])
    assert set(result.distance[result.found & ~result.was_wrong].tolist()) == {3.0}


def test_training_moves_one_column_at_a_time() -> None:
    """A tree is trained against the box: a category that can become any other is of no use, one that cannot is."""
    generator = np.random.default_rng(0)
    X = np.eye(3)[generator.integers(0, 3, 60)]
    y = X[:, 0].astype(int)
    assert RobustTreeClassifier(ThreatModel(groups=[[0, 1, 2]])).fit(X, y).ensemble_.n_leaves == 1
    limited = ThreatModel(groups=[OneHotGroup([0, 1, 2], may_become={1: [2]})])
    model = RobustTreeClassifier(limited).fit(X, y)
    assert adversarial_accuracy(model, X, y, limited) == 1.0
    fixed = ThreatModel(groups=[OneHotGroup([0, 1, 2], may_become=None)])
    assert verify(model, X, y, fixed).status.tolist() == ["robust"] * 60


def test_attackers_who_want_certain_classes() -> None:
    """Rows of three classes stayed open where a third one got in the way: the solver was not asked about groups."""
    pytest.importorskip("highspy")
    generator = np.random.default_rng(0)
    X, _ = random_table(generator, 200)
    score = X @ np.array([1.0, 2.0, -1.0, 0.0, 0.5, 2.0, -2.0]) + generator.normal(0.0, 0.5, len(X))
    y = np.digitize(score, [0.8, 2.5])
    forest = RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, y)
    groups = [OneHotGroup([1, 2, 3], may_become={1: [2], 2: [3]}), OneHotGroup([5, 6], at_most_one=True)]
    attacker = Attacker(7, {0: 0.5, 4: 1.0}, {0: 0.5, 4: 1.0}, whole=[4], within={4: (0.0, 4.0)}, groups=groups)
    wanted = {2: [0]}
    attacker.options = {"attacking_classes": wanted}
    status = verify(forest, X[:40], y[:40], attacker.threat()).status
    result = attack(forest, X[:40], y[:40], attacker.threat(), norm=1)
    predicted, thresholds = forest.predict(X[:40]), list_thresholds(forest, X)
    for row in np.flatnonzero((predicted == y[:40]) & (y[:40] == 2)):
        points = attacker.points(X[row], thresholds)
        points = points[np.isin(forest.predict(points), wanted[2])]
        assert status[row] == ("vulnerable" if len(points) else "robust")
        distance = attacker.distances(X[row], points, 1).min(initial=np.inf)
        np.testing.assert_allclose(result.distance[row], distance, rtol=1e-5)
