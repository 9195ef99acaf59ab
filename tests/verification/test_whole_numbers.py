"""Whole numbers and domains: every answer is that of trying all values that exist."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

from hardwood import (
    RobustTreeClassifier,
    as_ensemble,
    attack,
    black_box_attack,
    evaluate,
    transfer_attack,
    verify,
)
from hardwood.threat import ThreatModel
from reference import attacking, enumerating
from reference.library_models import DISTANCES, MODELS, fit, random_table, random_threat

NORMS = [np.inf, 2, 1, 0]


def check_answers(model: Any, X: np.ndarray, y: np.ndarray, threat: ThreatModel, methods: tuple[str, ...]) -> int:
    """Compare statuses, distances in all norms and examples with those of trying everything; how many can be fooled."""
    trees = as_ensemble(model, X)
    reach = threat.resolve(trees.schema, trees.labels)
    label = np.searchsorted(trees.labels, y)
    points = [enumerating.adversarial_points(trees, row, k, reach) for row, k in zip(X, label, strict=True)]
    fooled = np.array([len(found) > 0 for found in points])
    for method in methods:
        status = verify(model, X, y, threat, method=method).status
        np.testing.assert_array_equal(status == "vulnerable", fooled)
        for norm in NORMS:
            result = attack(model, X, y, threat, norm=norm, method=method)
            np.testing.assert_array_equal(result.found, fooled)
            for row in np.flatnonzero(fooled):
                wanted = min(attacking.distance(p, X[row], trees.schema, norm, [1.0] * X.shape[1]) for p in points[row])
                np.testing.assert_allclose(result.distance[row], wanted, rtol=1e-5 if method == "milp" else 1e-12)
            check_examples(model, X[fooled], y[fooled], result.X_adv[fooled], threat)
    return int(fooled.sum())


def check_examples(model: Any, X: np.ndarray, y: np.ndarray, X_adv: np.ndarray, threat: ThreatModel) -> None:
    """Every example is whole and in its domain where it must be, within reach, and of another class."""
    if not len(X):
        return
    whole = X_adv[:, threat.whole_numbers]
    np.testing.assert_array_equal(whole, np.floor(whole))
    for j, (low, high) in threat.within.items():
        assert ((low <= X_adv[:, j]) & (X_adv[:, j] <= high)).all()
    assert threat.contains(X, X_adv).all()
    assert (model.predict(X_adv) != y).all()


@pytest.mark.parametrize("name", MODELS)
def test_all_values_that_exist_are_tried(name: str) -> None:
    fooled = 0
    for seed in range(6):
        generator = np.random.default_rng(seed)
        X, y = random_table(generator)
        threat = random_threat(generator)
        fooled += check_answers(fit(name, X, y, threat, seed), X[:12], y[:12], threat, ("search",))
    assert 0 < fooled < 72


@pytest.mark.parametrize("name", ["tree", "forest", "xgboost"])
def test_the_solver_agrees(name: str) -> None:
    pytest.importorskip("highspy")
    for seed in range(2):
        generator = np.random.default_rng(100 + seed)
        X, y = random_table(generator)
        threat = random_threat(generator)
        check_answers(fit(name, X, y, threat, seed), X[:5], y[:5], threat, ("milp",))


@given(seed=st.integers(0, 10**6), n_trees=st.integers(1, 3), n_classes=st.integers(2, 3))
def test_trees_of_any_kind(seed: int, n_trees: int, n_classes: int) -> None:
    """Thresholds 0.1 and 0.3 have no whole number between them, and splits contradict each other."""
    generator = np.random.default_rng(seed)
    schema = attacking.random_schema(generator, categorical=False, accepts_missing=True)
    trees = attacking.random_trees(generator, schema, n_trees, n_classes=n_classes)
    limits = {-1.5: -1.5, 1e10: 2.5}
    threshold = np.array([limits.get(t, t) for t in trees.threshold.tolist()])
    trees = replace(trees, threshold=threshold)
    X = generator.integers(-3, 4, (6, schema.n_features)).astype(float)
    X[generator.random(X.shape) < 0.1] = np.nan
    entries = [DISTANCES[k] for k in generator.integers(len(DISTANCES), size=schema.n_features)]
    threat = ThreatModel(entries, whole_numbers=list(range(schema.n_features)), within={0: (-3, 3.5)})
    reach = threat.resolve(schema, trees.labels)
    label = trees.decide(X)
    y = trees.labels[label]
    status = verify(trees, X, y, threat).status
    results = {norm: attack(trees, X, y, threat, norm=norm) for norm in NORMS}
    for row in range(len(X)):
        points = enumerating.adversarial_points(trees, X[row], label[row], reach)
        assert (status[row] == "vulnerable") == (len(points) > 0)
        for norm, result in results.items():
            one = [1.0] * schema.n_features
            wanted = min((attacking.distance(p, X[row], schema, norm, one) for p in points), default=np.inf)
            np.testing.assert_allclose(result.distance[row], wanted, rtol=1e-12)


@pytest.mark.parametrize("method", ["heuristic", "coordinate", "lowest"])
def test_attacks_that_prove_nothing(method: str) -> None:
    found = 0
    for seed in range(4):
        generator = np.random.default_rng(seed)
        X, y = random_table(generator)
        threat = random_threat(generator)
        model = fit("forest", X, y, threat, seed)
        result = attack(model, X, y, threat, method=method)
        exact = attack(model, X, y, threat)
        assert (exact.found | ~result.found).all()
        check_examples(model, X[result.found], y[result.found], result.X_adv[result.found], threat)
        found += int(result.found.sum())
    assert found > 20


@pytest.mark.parametrize("name", ["transfer", "black box"])
def test_attacks_by_predictions_alone(name: str) -> None:
    """An example of a surrogate is brought nearer by halving, which made halves of whole numbers."""
    if name == "black box":
        pytest.importorskip("art")
    X, y = random_table(np.random.default_rng(0), 200)
    threat = ThreatModel([2, 2, 1.0], whole_numbers=[0, 1], within={2: (0, 6)})
    model = fit("forest", X, y, threat, 0)
    if name == "transfer":
        result = transfer_attack(model, X[:60], y[:60], threat, X_surrogate=X, random_state=0)
    else:
        result = black_box_attack(model, X[:10], y[:10], threat, max_queries=200, random_state=0)
    made_wrong = result.found & ~result.was_wrong
    assert made_wrong.any()
    rows = np.flatnonzero(made_wrong)
    check_examples(model, X[rows], y[rows], result.X_adv[rows], threat)


def test_regressions() -> None:
    """The interval of outputs is that of all points."""
    for seed in range(3):
        generator = np.random.default_rng(seed)
        X, _ = random_table(generator)
        threat = random_threat(generator)
        target = generator.normal(size=len(X))
        for n_trees in (1, 4):
            model = RandomForestRegressor(n_trees, max_depth=4, random_state=seed).fit(X, target)
            trees = as_ensemble(model, X)
            reach = threat.resolve(trees.schema)
            certificate = verify(model, X[:8], None, threat, tolerance=0.1)
            for row in range(8):
                outputs = trees.output(enumerating.reachable_points(trees, X[row], 0, reach))[:, 0]
                np.testing.assert_allclose(certificate.upper[row], outputs.max(), rtol=1e-9, atol=1e-9)
                np.testing.assert_allclose(certificate.lower[row], outputs.min(), rtol=1e-9, atol=1e-9)


def test_the_ceiling_counts_whole_numbers() -> None:
    """0 and 1 meet at 0.5, which is no count."""
    X, y = np.array([[0.0], [1.0]]), [0, 1]
    model = DecisionTreeClassifier().fit(X, y)
    assert evaluate(model, X, y, 0.5).ceiling == 0.5
    report = evaluate(model, X, y, ThreatModel(0.5, whole_numbers=[0]))
    assert report.ceiling == report.adversarial_accuracy.lower == 1.0


def test_a_frame_says_which_columns_are_whole() -> None:
    """Examples come back in the columns' own types, and no example has 14.5 items."""
    frame = pd.DataFrame({"items": [14, 15, 16, 17], "paid": [False, True, False, True], "share": [0.1, 0.2, 0.8, 0.9]})
    y = [0, 0, 1, 1]
    threat = ThreatModel(
        {"items": 1.7, "paid": "<>", "share": 0.25}, whole_numbers="from_dtype", within={"share": (0, 1)}
    )
    model = RobustTreeClassifier(threat).fit(frame, y)
    assert model.threat_.whole_numbers == ["items", "paid"]
    assert model.threat_.resolve(model.ensemble_.schema, [0, 1]).left.tolist() == [1.0, np.inf, 0.25]
    forest = RandomForestClassifier(5, random_state=0).fit(frame, y)
    is_weak = attack(forest, frame, y, threat).found
    weak = frame[is_weak]
    result = attack(forest, weak, np.array(y)[is_weak], threat)
    assert len(weak)
    assert result.found.all()
    assert result.X_adv.dtypes.astype(str).tolist() == ["int64", "bool", "float64"]
    assert (result.X_adv["items"] - weak["items"]).abs().max() <= 1


def test_an_ensemble_is_asked_both_ways() -> None:
    """What is prepared for whole numbers is not taken for others, nor the other way round."""
    for n_trees in (1, 2):
        stump = RobustTreeClassifier().fit([[0.0], [5.0]], [0, 1]).ensemble_
        trees = replace(stump, root=np.repeat(stump.root, n_trees))
        for columns, wanted in ((None, np.nextafter(2.5, 3.0)), ([0], 3.0), (None, np.nextafter(2.5, 3.0)), ([0], 3.0)):
            result = attack(trees, [[0.0]], [0], ThreatModel("<>", whole_numbers=columns))
            assert result.distance.tolist() == [wanted]
