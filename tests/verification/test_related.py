"""Relations between columns: every answer is that of trying all points, or all cells, that keep them."""

import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_bipartite_matching
from sklearn.ensemble import GradientBoostingRegressor, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from examples import some_examples
from hardwood import OneHotGroup, RobustTreeClassifier, ThreatModel, as_ensemble, attack, evaluate, verify
from hardwood.evaluation.metrics import adversarial_accuracy
from reference import relating

NORMS = [np.inf, 1, 0, 2]
NAMES = ["a", "b", "c", "d"]
RELATIONS = [
    "a + b <= c", "d = a + b", "d = a - b + 1", "a <= c", "2 * a - b <= c + 3", "0 <= c - a <= 4", "a + b + c = 6",
    "d >= c", "3 * a + 2 * b + c - d <= 8",
]  # fmt: skip
MODELS = ["hardwood", "tree", "forest", "xgboost", "lightgbm"]

pytestmark = pytest.mark.filterwarnings("ignore:relations. .* does not hold in:UserWarning")


def random_table(generator: np.random.Generator, n_rows: int = 70) -> tuple[pd.DataFrame, np.ndarray]:
    """Return small whole numbers among which the relations above hold in many rows, and labels."""
    X = generator.integers(0, 5, size=(n_rows, 4)).astype(float)
    if generator.random() < 0.7:
        X[:, 3] = X[:, 0] + X[:, 1]
    if generator.random() < 0.5:
        X[:, 2] = np.maximum(6.0 - X[:, 0] - X[:, 1], 0.0)
    noise = generator.random(n_rows) < 0.15
    y = noise ^ (X[:, 0] + 2.0 * X[:, 3] > X[:, 2] + 4.0)
    y[:2] = [False, True]
    return pd.DataFrame(X, columns=NAMES), y.astype(int)


def fit(name: str, X: Any, y: np.ndarray, seed: int) -> Any:
    if name == "hardwood":
        return RobustTreeClassifier(max_depth=4).fit(X, y)
    if name == "tree":
        return DecisionTreeClassifier(max_depth=5, random_state=seed).fit(X, y)
    if name == "forest":
        return RandomForestClassifier(4, max_depth=4, random_state=seed).fit(X, y)
    if name == "xgboost":
        xgboost = pytest.importorskip("xgboost")
        return xgboost.XGBClassifier(n_estimators=5, max_depth=3, n_jobs=1).fit(X, y)
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMClassifier(n_estimators=5, num_leaves=6, min_child_samples=4, n_jobs=1, verbose=-1).fit(X, y)


def list_examples(model: Any, threat: ThreatModel, x: np.ndarray, label: int) -> np.ndarray:
    """Return all whole points that the attacker may turn a row into and that the model gives another class."""
    reach = ThreatModel(threat.features, whole_numbers=NAMES, within=threat.within).resolve(as_ensemble(model).schema)
    low, high = reach.box(x[None], None)
    points = relating.keep_related(threat.relations, NAMES, x, relating.whole_points(x, low[0], high[0]))
    return points[model.predict(pd.DataFrame(points, columns=NAMES)) != label]


@pytest.mark.parametrize("name", MODELS)
@some_examples(0.2)
@given(seed=st.integers(0, 10**6))
def test_whole_points_by_trying_them_all(name: str, seed: int) -> None:
    generator = np.random.default_rng(seed)
    X, y = random_table(generator)
    model = fit(name, X, y, seed)
    chosen = generator.choice(RELATIONS, size=generator.integers(1, 4), replace=False).tolist()
    reach = dict(zip(NAMES, generator.integers(0, 4, size=4).tolist(), strict=True))
    threat = ThreatModel(reach, whole_numbers=NAMES, within=dict.fromkeys(NAMES, (-1, 9)), relations=chosen)
    X, y = X[:6], y[:6]
    wanted = [list_examples(model, threat, x, label) for x, label in zip(X.to_numpy(), y, strict=True)]
    fooled = np.array([len(found) > 0 for found in wanted])
    proof = verify(model, X, y, threat)
    np.testing.assert_array_equal(proof.status, np.where(fooled, "vulnerable", "robust"))
    for norm in NORMS:
        result = attack(model, X, y, threat, norm=norm)
        np.testing.assert_array_equal(result.found, fooled)
        for i in np.flatnonzero(fooled):
            nearest = np.linalg.norm(wanted[i] - X.to_numpy()[i], ord=norm, axis=1).min()
            assert result.distance[i] == pytest.approx(nearest)
            assert result.lower[i] == pytest.approx(nearest)
            for example in (result.X_adv.to_numpy()[i], proof.witness.to_numpy()[i]):
                assert (wanted[i] == example).all(axis=1).any()


DERIVED = {
    "d = a / b": lambda a, b, c: a / b,
    "d = 10 * (a + 1) / (b + c) - 2": lambda a, b, c: 10.0 * (a + 1.0) / (b + c) - 2.0,
    "d = sqrt(a + b)": lambda a, b, c: np.sqrt(a + b),
    "d = 3 - log1p(c)": lambda a, b, c: 3.0 - np.log1p(c),
}


@pytest.mark.parametrize("text", list(DERIVED))
@pytest.mark.parametrize("name", ["tree", "forest"])
@some_examples(0.05)
@given(seed=st.integers(0, 10**6))
def test_derived_columns_by_trying_all_that_they_derive_from(name: str, text: str, seed: int) -> None:
    generator = np.random.default_rng(seed)
    X = generator.integers(1, 6, size=(70, 4)).astype(float)
    X[:, 3] = DERIVED[text](*X[:, :3].T)
    y = (X[:, 3] + 0.2 * X[:, 0] + generator.normal(0.0, 0.4, 70) > np.median(X[:, 3]) + 0.6).astype(int)
    y[:2] = [0, 1]
    table = pd.DataFrame(X, columns=NAMES)
    model = fit(name, table, y, seed)
    reach = dict(zip(NAMES, [*generator.integers(0, 3, size=3).tolist(), "<>"], strict=True))
    relations = [text, *(["a <= c + 2"] if generator.random() < 0.5 else [])]
    threat = ThreatModel(reach, whole_numbers=NAMES[:3], within=dict.fromkeys(NAMES[:3], (0, 9)), relations=relations)
    table, y = table[:5], y[:5]
    results = {norm: attack(model, table, y, threat, norm=norm) for norm in NORMS}
    status = verify(model, table, y, threat).status
    for i, x in enumerate(table.to_numpy()):
        distance = np.array([reach[column] for column in NAMES[:3]])
        points = relating.whole_points(x[:3], np.maximum(x[:3] - distance, 0.0), x[:3] + distance)
        with np.errstate(all="ignore"):
            points = np.column_stack([points, DERIVED[text](*points.T)])
        points = relating.keep_related(relations, NAMES, x, points[np.isfinite(points[:, 3])])
        points = points[model.predict(pd.DataFrame(points, columns=NAMES)) != y[i]]
        assert status[i] == ("vulnerable" if len(points) else "robust")
        for norm, result in results.items():
            wanted = np.linalg.norm(points - x, ord=norm, axis=1).min() if len(points) else np.inf
            assert result.distance[i] == pytest.approx(wanted, rel=1e-6)
            assert result.lower[i] == pytest.approx(wanted, rel=1e-6)


@some_examples(0.15)
@given(seed=st.integers(0, 10**6))
def test_the_solver_agrees(seed: int) -> None:
    pytest.importorskip("highspy")
    generator = np.random.default_rng(seed)
    X, y = random_table(generator)
    model = fit("forest", X, y, seed)
    chosen = generator.choice(RELATIONS, size=2, replace=False).tolist()
    threat = ThreatModel(2, whole_numbers=NAMES, within=dict.fromkeys(NAMES, (0, 9)), relations=chosen)
    X, y = X[:5], y[:5]
    np.testing.assert_array_equal(verify(model, X, y, threat, method="milp").status, verify(model, X, y, threat).status)
    for norm in NORMS:
        by_solver = attack(model, X, y, threat, norm=norm, method="milp")
        np.testing.assert_allclose(by_solver.distance, attack(model, X, y, threat, norm=norm).distance, rtol=1e-6)


@pytest.mark.parametrize("name", ["tree", "forest", "xgboost"])
@some_examples(0.15)
@given(seed=st.integers(0, 10**6))
def test_other_numbers_cell_by_cell(name: str, seed: int) -> None:
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(60, 3)).round(int(generator.integers(1, 8)))
    texts, rows = ["a - 2 * b <= c + 0.5"], [(np.array([1.0, -2.0, -1.0]), 0.5, False)]
    if generator.random() < 0.6:
        texts, rows = [*texts, "c = a + b"], [*rows, (np.array([-1.0, -1.0, 1.0]), 0.0, True)]
        X[:, 2] = X[:, 0] + X[:, 1]
    y = (X[:, 0] + X[:, 1] > generator.normal(0.0, 0.3, 60)).astype(int)
    table = pd.DataFrame(X, columns=NAMES[:3])
    model = fit(name, table, y, seed)
    trees = as_ensemble(model, table)
    threat = ThreatModel(generator.choice([0.0, 0.5, 1.0, np.inf], size=3).tolist(), relations=texts)
    reach = threat.resolve(trees.schema, trees.labels)
    some = np.arange(4)
    for norm in (np.inf, 1):
        result = attack(model, table.iloc[some], y[some], threat, norm=norm)
        for k, i in enumerate(some.tolist()):
            if result.was_wrong[k]:
                continue
            own_rows = [
                row for text, row in zip(texts, rows, strict=True) if relating.holds(text, NAMES[:3], X[[i]])[0]
            ]
            low, high = reach.box(X[[i]], y[[i]])
            wanted = relating.distance_by_cells(trees, X[i], int(y[i]), (low[0], high[0]), own_rows, norm)
            assert result.distance[k] == pytest.approx(wanted, rel=1e-6, abs=1e-9)
            assert result.lower[k] == pytest.approx(wanted, rel=1e-6, abs=1e-9)


BUDGETS: list[dict[str, Any]] = [
    {}, {"max_changes": 2}, {"radius": 2.0, "norm": 1, "units": {"a": 2.0}}, {"radius": 1.5, "norm": 2},
]  # fmt: skip


@pytest.mark.parametrize("at_most_one", [False, True])
@pytest.mark.parametrize("budget", BUDGETS)
@some_examples(0.1)
@given(seed=st.integers(0, 10**6))
def test_together_with_groups_and_budgets(budget: dict[str, Any], at_most_one: bool, seed: int) -> None:
    """Relations of counts and of one-hot columns, a group whose change is one change, and a budget."""
    generator = np.random.default_rng(seed)
    names = ["a", "b", "c", "p", "q", "r"]
    X = np.zeros((70, 6))
    X[:, :3] = generator.integers(0, 5, size=(70, 3))
    code = generator.integers(0, 3 + at_most_one, size=70)
    X[:, 3:] = code[:, None] == np.arange(3)
    y = (X[:, 0] + 2.0 * X[:, 3] + generator.normal(0.0, 0.5, 70) > X[:, 2] + X[:, 4]).astype(int)
    y[:2] = [0, 1]
    table = pd.DataFrame(X, columns=names)
    model = fit(["tree", "forest"][seed % 2], table, y, seed)
    pool = ["a + b <= c + 2", "a <= 2 + 3 * p", "b >= q", "c >= 2 * p + q", "p <= q + r + 0.5"]
    relations = generator.choice(pool, size=2, replace=False).tolist()
    group = OneHotGroup(["p", "q", "r"], at_most_one=at_most_one)
    threat = ThreatModel(
        {"a": 2, "b": 1, "c": 1}, whole_numbers=names[:3], within=dict.fromkeys(names[:3], (0, 9)), groups=[group],
        relations=relations, **budget,
    )  # fmt: skip
    status = verify(model, table[:5], y[:5], threat).status
    results = {norm: attack(model, table[:5], y[:5], threat, norm=norm) for norm in NORMS}
    states = np.eye(3 + at_most_one, 3)
    reach = np.array([2.0, 1.0, 1.0])
    for i, x in enumerate(X[:5]):
        counts = relating.whole_points(x[:3], np.maximum(x[:3] - reach, 0.0), x[:3] + reach)
        points = np.hstack([np.repeat(counts, len(states), axis=0), np.tile(states, (len(counts), 1))])
        points = relating.keep_related(relations, names, x, points)
        points = points[model.predict(pd.DataFrame(points, columns=names)) != y[i]]
        change = np.abs(points - x)
        change = np.column_stack([change[:, :3], change[:, 3:].any(axis=1)])
        spent = change / [budget.get("units", {}).get("a", 1.0), 1.0, 1.0, 1.0]
        affordable = (change != 0.0).sum(axis=1) <= budget.get("max_changes", 4)
        affordable &= np.linalg.norm(spent, ord=budget.get("norm", 2), axis=1) <= budget.get("radius", np.inf) + 1e-9
        change = change[affordable]
        assert status[i] == ("vulnerable" if len(change) else "robust")
        for norm, result in results.items():
            wanted = np.linalg.norm(change, ord=norm, axis=1).min() if len(change) else np.inf
            assert result.lower[i] <= wanted * (1.0 + 1e-9)
            assert result.distance[i] >= wanted * (1.0 - 1e-9)
            if not budget or norm == budget.get("norm", 0):  # otherwise a bound may be all that is known
                assert result.distance[i] == pytest.approx(wanted)
                assert result.lower[i] == pytest.approx(wanted)


def stump(threshold: float, column: int = 2, n_columns: int = 3) -> Any:
    """Return a tree of one split."""
    X = np.zeros((2, n_columns))
    X[:, column] = [threshold - 1.0, threshold + 1.0]
    return DecisionTreeClassifier().fit(pd.DataFrame(X, columns=NAMES[:n_columns]), [0, 1])


def test_a_sum_moves_with_its_parts_only() -> None:
    """A total that stands at a threshold was moved past it by the last digit, which rounding would have allowed."""
    model, X = stump(5.0), pd.DataFrame([[2.0, 3.0, 5.0]], columns=NAMES[:3])
    related = ["c = a + b"]
    assert verify(model, X, [0], ThreatModel({"c": 1.0})).status.tolist() == ["vulnerable"]
    assert verify(model, X, [0], ThreatModel({"c": 1.0}, relations=related)).status.tolist() == ["robust"]
    result = attack(model, X, [0], ThreatModel(1.0, relations=related), norm=1)
    example = result.X_adv.iloc[0]
    assert example["c"] == example["a"] + example["b"] > 5.0
    assert result.distance[0] == pytest.approx(0.0, abs=1e-6)  # the first sum past 5 that a float32 can tell from it
    forest = RandomForestClassifier(3, random_state=0).fit([[0.0, 0.0, 4.0], [0.0, 0.0, 6.0]] * 20, [0, 1] * 20)
    assert (
        verify(forest, X.to_numpy(), [0], ThreatModel([0, 0, 1.0], relations=["`2` = `0` + `1`"])).status[0] == "robust"
    )


def test_ratios_and_functions() -> None:
    X = pd.DataFrame([[3.0, 10.0, 0.3]], columns=NAMES[:3])
    model = stump(0.5)
    ratio = ["c = a / b"]

    def ask(reach: dict[str, Any]) -> str:
        return str(verify(model, X, [0], ThreatModel({"c": "<>", **reach}, relations=ratio)).status[0])

    assert ask({}) == "robust"
    assert ask({"a": 1.9}) == "robust"
    assert ask({"a": 2.1}) == "vulnerable"
    assert ask({"b": (3.9, 0)}) == "robust"
    assert ask({"b": (4.1, 0)}) == "vulnerable"
    assert ask({"a": 1.0, "b": 1.0}) == "robust"
    assert ask({"a": 1.0, "b": 2.1}) == "vulnerable"
    assert ask({"b": 20.0}) == "vulnerable"  # also by a negative denominator, which gives the same class
    witness = verify(model, X, [0], ThreatModel({"c": "<>", "a": 3}, relations=ratio)).witness.iloc[0]
    assert witness["c"] == pytest.approx(witness["a"] / witness["b"], rel=1e-12)
    logs = pd.DataFrame([[100.0, 0.0, 2.0]], columns=NAMES[:3])
    for relation, own, factor in (("c = log10(a)", 2.0, 10.0**1.0), ("c = 5 - log10(a)", 3.0, 10.0**-1.0)):
        logs["c"] = own
        steps = stump(own + 1.0)
        needed = abs(100.0 * factor - 100.0)
        for reach, status in ((0.99 * needed, "robust"), (1.01 * needed, "vulnerable")):
            threat = ThreatModel({"a": reach, "c": "<>"}, relations=[relation])
            assert verify(steps, logs, [0], threat).status.tolist() == [status]


def test_rows_that_break_a_relation_are_reported_and_free_of_it() -> None:
    model = stump(5.0)
    X = pd.DataFrame([[2.0, 3.0, 4.9], [2.0, 2.9, 4.9], [1.0, 1.0, 1.0]], columns=NAMES[:3])
    threat = ThreatModel({"c": 0.5}, relations=["c = a + b"])
    with pytest.warns(UserWarning, match=r"'c = a \+ b' does not hold in 2 of 3 rows as they stand, first in row 0"):
        proof = verify(model, X, [0, 0, 0], threat)
    assert proof.status.tolist() == ["vulnerable", "robust", "robust"]


def test_float32_sums_are_sums() -> None:
    X = np.random.default_rng(0).random((50, 3)).astype(np.float32)
    X[:, 2] = X[:, 0] + X[:, 1]
    threat = ThreatModel([0.1, 0.1, 0.2], relations=["`2` = `0` + `1`"])
    model = DecisionTreeClassifier(max_depth=3).fit(X, X[:, 2] > 1.0)
    proof = verify(model, X, None, threat)
    assert set(proof.status) <= {"vulnerable", "robust"}
    found = proof.status == "vulnerable"
    assert found.any()
    assert threat.contains(X[found], proof.witness[found]).all()


@pytest.mark.parametrize("model", [DecisionTreeRegressor(max_depth=4), GradientBoostingRegressor(n_estimators=4)])
def test_regressions(model: Any) -> None:
    generator = np.random.default_rng(3)
    X, _ = random_table(generator)
    model.fit(X, X["a"] * 2.0 - X["d"] + generator.normal(size=len(X)))
    threat = ThreatModel(
        2, whole_numbers=NAMES, within=dict.fromkeys(NAMES, (0, 9)), relations=["a + b <= c", "d >= a"]
    )
    rows = X[:8]
    proof = verify(model, rows, None, threat, tolerance=1.0)
    for i, x in enumerate(rows.to_numpy()):
        low, high = (
            ThreatModel(2, whole_numbers=NAMES, within=threat.within)
            .resolve(as_ensemble(model).schema)
            .box(x[None], None)
        )
        points = relating.keep_related(threat.relations, NAMES, x, relating.whole_points(x, low[0], high[0]))
        output = model.predict(pd.DataFrame(points, columns=NAMES))
        assert proof.lower[i] == pytest.approx(output.min())
        assert proof.upper[i] == pytest.approx(output.max())


def test_nothing_else_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the solver of the extra `milp` every question is answered all the same."""
    monkeypatch.setitem(sys.modules, "highspy", None)
    X, y = random_table(np.random.default_rng(5))
    model = fit("forest", X, y, 0)
    threat = ThreatModel(1, whole_numbers=NAMES, relations=["a + b <= c", "d = a + b"])
    proof = verify(model, X, model.predict(X), threat)
    assert set(proof.status) == {"vulnerable", "robust"}


def test_time_is_limited() -> None:
    X, y = random_table(np.random.default_rng(5))
    model = fit("forest", X, y, 0)
    threat = ThreatModel(1, whole_numbers=NAMES, relations=["a + b <= c", "d = a + b"])
    exact, hurried = verify(model, X, y, threat), verify(model, X, y, threat, time_limit=0)
    assert "unknown" in hurried.status
    known = hurried.status != "unknown"
    np.testing.assert_array_equal(hurried.status[known], exact.status[known])
    assert (hurried.lower <= exact.upper).all()


def test_evaluations_and_blind_attacks_keep_relations() -> None:
    X, y = random_table(np.random.default_rng(7), 40)
    model = fit("forest", X, y, 0)
    threat = ThreatModel(
        2, whole_numbers=NAMES, within=dict.fromkeys(NAMES, (0, 9)), relations=["a + b <= c", "d = a + b"]
    )
    robust = verify(model, X, y, threat).status == "robust"
    assert adversarial_accuracy(model, X, y, threat=threat) == pytest.approx(robust.mean())
    assert evaluate(model, X, y, threat=threat).adversarial_accuracy.lower == pytest.approx(robust.mean())
    for method in ("heuristic", "coordinate", "lowest"):
        result = attack(model, X, y, threat, method=method)
        found = result.found & ~result.was_wrong
        assert threat.contains(X[found], result.X_adv[found]).all()
        assert not (found & robust).any()


@some_examples(0.25)
@given(seed=st.integers(0, 10**6))
def test_the_ceiling_counts_rows_that_meet(seed: int) -> None:
    """Rows met in the box around them, at points that broke their relations: no ceiling at all for who keeps them."""
    generator = np.random.default_rng(seed)
    X, y = random_table(generator, 30)
    chosen = generator.choice(RELATIONS, size=2, replace=False).tolist()
    distance = dict.fromkeys(NAMES, [1, (0, 2)][seed % 2])  # rows that can only grow may meet in their boxes alone
    threat = ThreatModel(distance, whole_numbers=NAMES, within=dict.fromkeys(NAMES, (0, 9)), relations=chosen)
    model = fit("tree", X, y, seed)
    report = evaluate(model, X, y, threat=threat)
    reach = ThreatModel(distance, whole_numbers=NAMES, within=threat.within).resolve(as_ensemble(model).schema)
    becomes = []
    for x in X.to_numpy():
        low, high = reach.box(x[None], None)
        points = relating.keep_related(chosen, NAMES, x, relating.whole_points(x, low[0], high[0]))
        becomes.append(set(map(tuple, points.tolist())))
    few, many = (np.flatnonzero(y == k) for k in (0, 1))
    meet = np.array([[bool(becomes[i] & becomes[j]) for j in many] for i in few])
    partner = maximum_bipartite_matching(csr_matrix(meet), perm_type="column")
    ceiling = 1.0 - (partner >= 0).sum() / len(X)
    assert report.ceilings_lower[-1] <= ceiling + 1e-12
    assert report.ceilings[-1] >= ceiling - 1e-12
    assert (report.ceilings[-1] < 1.0) == (ceiling < 1.0)
