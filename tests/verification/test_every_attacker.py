"""Attackers of every kind at once: statuses, distances in all norms and witnesses are those of trying all points."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier
from threadpoolctl import threadpool_limits

from hardwood import OneHotGroup, RobustTreeClassifier, as_ensemble, attack, is_vulnerable, verify
from hardwood.table import Schema
from reference.attackers import Attacker, Holds

NORMS = [np.inf, 2, 1, 0]
COLORS = ["blue", "green", "red"]
# A number, three whole ones of which the last is the sum of the others, a category, and two one-hot groups.
NAMES = ["x", "n", "m", "total", "color", "pay_bill", "pay_card", "pay_cash", "tier_2", "tier_3"]
X, N, M, TOTAL, COLOR = range(5)
PAY, TIER = [5, 6, 7], [8, 9]
# Those that take categories.
MODELS = {
    "hardwood": True, "tree": False, "forest": False, "boosting": False, "histogram": True, "xgboost": True,
    "lightgbm": True,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Predictions of a few points take longest where threads wait for each other."""
    with threadpool_limits(1):
        yield


class Case(NamedTuple):
    """A table, its encoded rows, labels and an attacker."""

    table: pd.DataFrame
    matrix: np.ndarray
    y: np.ndarray
    attacker: Attacker
    columns: list[int]  # of NAMES


def make_case(seed: int, n_rows: int = 100, *, categories: bool, related: bool = False) -> Case:
    """Return a random table and a random attacker: each kind of limit is there in about half of the cases."""
    generator = np.random.default_rng(seed)
    counts, pay = generator.integers(0, 4, (n_rows, 2)), np.eye(3)[generator.integers(0, 3, n_rows)]
    counts[:, 0] = np.minimum(counts[:, 0], 3 - pay[:, 2])  # who pays cash buys no more than two
    matrix = np.column_stack([
        np.round(4.0 * generator.random(n_rows), 2), counts, counts.sum(axis=1), generator.integers(0, 3, n_rows),
        pay, np.eye(3)[generator.integers(0, 3, n_rows)][:, :2],
    ])  # fmt: skip
    score = matrix @ generator.choice([-2.0, -1.0, 1.0, 2.0], len(NAMES)) + generator.normal(0.0, 1.0, n_rows)
    y = (score > np.median(score)).astype(int)
    columns = [j for j in range(len(NAMES)) if categories or j != COLOR]
    attacker = make_attacker(generator, columns, related=related)
    matrix = matrix[:, columns]
    holds = attacker.relate(matrix)
    return Case(make_frame(matrix[holds], columns), matrix[holds], y[holds], attacker, columns)


def make_frame(matrix: np.ndarray, columns: list[int]) -> pd.DataFrame:
    """Return encoded rows as a table: whole numbers as integers, codes as categories."""
    frame = pd.DataFrame(matrix, columns=[NAMES[j] for j in columns])
    for name in frame.columns:
        if name == "color":
            frame[name] = pd.Categorical.from_codes(frame[name].astype(int), COLORS)
        elif name != "x":
            frame[name] = frame[name].astype(int)
    return frame


def make_attacker(generator: np.random.Generator, columns: list[int], *, related: bool) -> Attacker:
    at = {j: columns.index(j) for j in columns}
    attacker = Attacker(len(columns), names=[NAMES[j] for j in columns], labels={})

    def toss() -> bool:
        return bool(generator.random() < 0.5)

    spellings = ["10%", "25%", "0.3 std", "0.5 iqr"]
    if toss():
        attacker.spelled[at[X]] = str(generator.choice(spellings))
    else:
        attacker.left[at[X]], attacker.right[at[X]] = generator.choice([0.0, 0.5, 1.0, np.inf], 2).tolist()
    for j in (N, M, TOTAL):
        steps = [0.0, 1.0, 1.5, np.inf]
        attacker.left[at[j]], attacker.right[at[j]] = generator.choice(steps, 2).tolist()
    attacker.whole = [at[N], at[M], at[TOTAL]]
    attacker.within = {at[N]: (0.0, 3.0), at[M]: (0.0, 4.0), at[TOTAL]: (0.0, 6.0)}
    if toss():
        attacker.within[at[X]] = (0.0, 4.0)
    if COLOR in at:
        attacker.labels[at[COLOR]] = COLORS
        attacker.categories[at[COLOR]] = {a: [b for b in range(3) if toss()] for a in range(3) if toss()}
    for group, labels, at_most_one in ((PAY, PAY, False), (TIER, [*TIER, ""], True)):
        spell = {**at, "": ""}
        relation = {spell[a]: [spell[b] for b in labels if toss()] for a in labels} if toss() else "<>"
        attacker.groups.append(OneHotGroup([at[j] for j in group], at_most_one, relation))
    if toss():
        attacker.max_changes = int(generator.integers(1, 4))
    if toss():
        attacker.radius, attacker.norm = float(generator.choice([0.7, 1.0, 1.5, 2.0])), int(generator.integers(1, 3))
        attacker.units = {at[X]: 0.5, at[N]: 2.0, **dict.fromkeys([at[j] for j in PAY], 1.25)}
    if related:
        n, m, total, cash = at[N], at[M], at[TOTAL], at[PAY[2]]
        relations: dict[str, Holds] = {
            "total = n + m": lambda points: points[:, total] == points[:, n] + points[:, m],
            "n + m <= 5 + tier_2": lambda points: points[:, n] + points[:, m] <= 5.0 + points[:, at[TIER[0]]],
            "n + pay_cash <= 3": lambda points: points[:, n] + points[:, cash] <= 3.0,
            "2 * m <= total + 3": lambda points: 2.0 * points[:, m] <= points[:, total] + 3.0,
        }
        attacker.relations = {text: holds for text, holds in relations.items() if toss()}
    if generator.random() < 0.3:
        attacker.options = {"attacking_classes": [1]}
    return attacker


def fit(name: str, case: Case, seed: int) -> Any:
    X, y = case.table, case.y
    if name == "hardwood":
        return RobustTreeClassifier({"x": 0.1}, max_depth=5).fit(X, y)
    if name == "tree":
        return DecisionTreeClassifier(max_depth=6, splitter="random", random_state=seed).fit(X, y)
    if name == "forest":
        return RandomForestClassifier(5, max_depth=4, random_state=seed).fit(X, y)
    if name == "boosting":
        return GradientBoostingClassifier(n_estimators=5, max_depth=3, random_state=seed).fit(X, y)
    if name == "histogram":
        return HistGradientBoostingClassifier(max_iter=4, max_leaf_nodes=6).fit(X, y)
    if name == "xgboost":
        xgboost = pytest.importorskip("xgboost")
        return xgboost.XGBClassifier(n_estimators=4, max_depth=3, n_jobs=1, enable_categorical=True).fit(X, y)
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(
        n_estimators=4, num_leaves=6, min_child_samples=4, n_jobs=1, verbose=-1, min_data_per_group=1, cat_smooth=1.0
    )
    return model.fit(X, y)


def find_points(model: Any, case: Case, rows: slice) -> list[np.ndarray]:
    """Return, row by row, the points that the model itself gives another class."""
    trees, attacker = as_ensemble(model, case.table), case.attacker
    is_number = (trees.feature >= 0) & (trees.category_start < 0)
    thresholds = [np.unique(trees.threshold[is_number & (trees.feature == j)]) for j in range(case.matrix.shape[1])]
    classes, found = attacker.options.get("attacking_classes", [0, 1]), []
    for row, label in zip(case.matrix[rows], case.y[rows], strict=True):
        points = attacker.points(row, thresholds, case.matrix[rows]) if label in classes else row[None]
        found.append(points[np.asarray(model.predict(make_frame(points, case.columns))) != label])
    return found


def check_answers(model: Any, case: Case, n_rows: int, method: str = "search") -> int:
    """Compare all answers with those of trying everything; how many rows can be fooled."""
    rows = slice(n_rows)
    table, y, matrix, attacker = case.table[rows], case.y[rows], case.matrix[rows], case.attacker
    threat = attacker.threat()
    points = find_points(model, case, rows)
    fooled = np.array([len(found) > 0 for found in points])
    certificate = verify(model, table, y, threat, method=method)
    status = certificate.status.copy()
    if method == "milp":  # a tie is beyond the tolerance of the solver
        status[(status == "unknown") & (np.abs(certificate.lower) < 1e-5)] = "robust"
    assert status.tolist() == ["vulnerable" if can else "robust" for can in fooled]
    check_witnesses(model, case, fooled, certificate.witness)
    for norm in NORMS:
        result = attack(model, table, y, threat, norm=norm, method=method)
        np.testing.assert_array_equal(result.found, fooled)
        for row in np.flatnonzero(fooled):
            wanted = attacker.distances(matrix[row], points[row], norm).min()
            np.testing.assert_allclose(result.distance[row], wanted, rtol=1e-5 if method == "milp" else 1e-9)
        check_witnesses(model, case, fooled, result.X_adv)
    if method == "search":
        np.testing.assert_array_equal(is_vulnerable(model, table, y, threat), fooled)
    return int(fooled.sum())


def check_witnesses(model: Any, case: Case, fooled: np.ndarray, witness: pd.DataFrame) -> None:
    """Every witness is permitted by everything that was said, has the types of the table, and flips the model."""
    if not fooled.any():
        return
    shown = witness[fooled]
    values = shown.assign(color=pd.Categorical(shown["color"], COLORS).codes) if "color" in shown else shown
    points = values.to_numpy(dtype=np.float64)
    table = case.matrix[: len(fooled)]
    for row, point in zip(np.flatnonzero(fooled), points, strict=True):
        own = case.matrix[row]
        assert (point == own).all() or case.attacker.permits(own, point, table)
    predicted = np.asarray(model.predict(make_frame(points, case.columns)))
    assert (predicted != case.y[: len(fooled)][fooled]).all()
    if fooled.all():
        assert (shown.dtypes[1:4] == case.table.dtypes[1:4]).all()
    asked, schema = case.table[: len(fooled)], Schema.from_table(case.table)
    threat = case.attacker.threat().settle(asked, schema.encode(asked), schema)
    assert threat.contains(asked[fooled], shown, case.y[: len(fooled)][fooled], schema).all()


@pytest.mark.parametrize("name", MODELS)
def test_everything_is_tried(name: str) -> None:
    fooled = 0
    for seed in range(8):
        case = make_case(seed, categories=MODELS[name])
        fooled += check_answers(fit(name, case, seed), case, 8)
    assert 0 < fooled < 64


@pytest.mark.parametrize("name", MODELS)
def test_relations_between_columns_besides(name: str) -> None:
    fooled = 0
    for seed in range(200, 205):
        case = make_case(seed, categories=MODELS[name], related=True)
        fooled += check_answers(fit(name, case, seed), case, 6)
    assert 0 < fooled < 30


@pytest.mark.parametrize("related", [False, True])
@pytest.mark.parametrize("name", ["tree", "forest", "xgboost"])
def test_the_solver_agrees(name: str, related: bool) -> None:
    pytest.importorskip("highspy")
    for seed in range(3):
        case = make_case(100 + seed, categories=MODELS[name], related=related)
        check_answers(fit(name, case, seed), case, 4, "milp")


def test_the_nearest_example_within_a_budget_of_related_columns() -> None:
    """The nearest of few changes was given for the nearest: 2.71 away in L1, though there is one at 2.48."""
    case = make_case(5001, categories=True, related=True)
    assert case.attacker.max_changes == 2
    check_answers(fit("xgboost", case, 5001), case, 5)


def test_the_solver_knows_how_near_related_examples_are() -> None:
    """Its tolerance was taken for doubt: no example was the nearest, and budgets of related columns stayed open."""
    pytest.importorskip("highspy")
    case = make_case(3003, categories=True, related=True)
    model = fit("histogram", case, 0)
    unlimited = replace(case.attacker, max_changes=None, radius=None)
    assert unlimited.relations
    for norm in NORMS:
        result = attack(model, case.table[:8], case.y[:8], unlimited.threat(), norm=norm, method="milp")
        exact = attack(model, case.table[:8], case.y[:8], unlimited.threat(), norm=norm)
        np.testing.assert_array_equal(result.found, exact.found)
        np.testing.assert_allclose(result.lower[exact.found], exact.lower[exact.found], rtol=1e-4)
    assert exact.found.any()
