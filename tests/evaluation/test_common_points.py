"""The ceiling under budgets over columns and relations: compared with trying every common point of rows."""

from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood import RobustTreeClassifier, ThreatModel, evaluate
from hardwood.evaluation import common_points
from hardwood.evaluation.ceiling import find_ceilings
from hardwood.table import Schema
from hardwood.threat import Reach
from reference import budgeting

SCHEMA = Schema(3, None, (None, None, ("a", "b", "c")))
POINTS = np.array(list(product(range(5), range(5), range(3))), dtype=np.float64)


def count_best(matrix: np.ndarray, label: np.ndarray, meets: np.ndarray) -> int:
    """Return the size of the largest set of rows without a conflict, by trying all."""
    masks = [1 << i | 1 << j for i, j in combinations(range(len(matrix)), 2) if label[i] != label[j] and meets[i, j]]
    return max(chosen.bit_count() for chosen in range(1 << len(matrix)) if not any(chosen & m == m for m in masks))


def list_reachable(matrix: np.ndarray, label: np.ndarray, reach: Reach, threat: ThreatModel) -> np.ndarray:
    """Say which of all points each row can be turned into."""
    rows = []
    for row, own in zip(matrix, label, strict=True):
        each = np.repeat(row[None], len(POINTS), axis=0)
        inside = reach.under(None)._contains_each(each, POINTS, np.full(len(POINTS), own))
        affordable = [budgeting.is_affordable(threat, SCHEMA, row, point) for point in POINTS]
        rows.append(inside & np.array(affordable))
    return np.array(rows)


@given(seed=st.integers(0, 10**6))
def test_all_points_are_tried(seed: int) -> None:
    """Of whole numbers and categories there are few points, so that it is known which rows can meet."""
    generator = np.random.default_rng(seed)
    matrix = POINTS[generator.integers(len(POINTS), size=9)]
    label = generator.integers(0, 2, 9)
    label[:2] = [0, 1]
    features = [[1, 2, "<>", ">"][generator.integers(4)], [1, 2, "<>", "<"][generator.integers(4)], "<>"]
    words: dict[str, Any] = {}
    kind = generator.integers(3)
    if kind != 0:
        words |= {"radius": float(generator.choice([1.0, 1.5, 2.0])), "norm": int(generator.integers(1, 3))}
        words["units"] = {0: float(generator.choice([1.0, 2.0])), 2: float(generator.choice([0.5, 1.0]))}
    if kind != 1:
        words["max_changes"] = 1
    one_attacks = generator.random() < 0.5
    threat = ThreatModel(
        features, [1] if one_attacks else None, whole_numbers=[0, 1], within={0: (0, 4), 1: (0, 4)}, **words
    )
    reach = threat.resolve(SCHEMA, [0, 1])
    can = list_reachable(matrix, label, reach, threat).astype(int)
    wanted = count_best(matrix, label, can @ can.T > 0) / 9
    lower, upper, _ = find_ceilings(matrix, label, [reach])
    assert lower[0] <= wanted + 1e-12
    assert wanted <= upper[0] + 1e-12
    if one_attacks or kind == 0:
        assert lower[0] == upper[0]


@pytest.mark.parametrize("norm", [1, 2])
def test_numbers_meet_within_twice_the_radius(norm: int) -> None:
    generator = np.random.default_rng(norm)
    matrix, label = generator.random((12, 3)), np.arange(12) % 2
    threat = ThreatModel("<>", radius=0.25, norm=norm, units={0: 2.0})
    reach = threat.resolve(Schema.numeric(3), [0, 1])
    change = np.abs(matrix[:, None] - matrix[None]) / [2.0, 1.0, 1.0]
    meets = np.linalg.norm(change, norm, axis=2) <= 0.5
    wanted = count_best(matrix, label, meets) / 12
    lower, upper, _ = find_ceilings(matrix, label, [reach])
    assert lower[0] == upper[0] == wanted < 1.0


def test_limits_of_columns_beside_a_radius() -> None:
    """The rows are 1.2 apart in a column that can be moved by 0.5 only: they never meet, whatever the radius."""
    matrix, label = np.array([[0.0, 0.0], [1.2, 0.0]]), np.array([0, 1])
    for limit, wanted in ((0.5, 1.0), (0.6, 0.5)):
        reach = ThreatModel([limit, "<>"], radius=0.7).resolve(Schema.numeric(2), [0, 1])
        lower, upper, _ = find_ceilings(matrix, label, [reach])
        assert lower[0] == upper[0] == wanted


def test_no_model_keeps_more_than_the_ceiling() -> None:
    generator = np.random.default_rng(0)
    X = generator.random((120, 4))
    y = np.digitize(X[:, 0] + 0.3 * generator.normal(size=120), [0.3, 0.7])
    for words in ({"max_changes": 1}, {"radius": 0.2}, {"radius": 0.3, "norm": 1, "max_changes": 2}):
        threat = ThreatModel(0.15, **words)
        report = evaluate(RobustTreeClassifier(0.05).fit(X, y > 0), X, y > 0, threat, epsilons=[0.5, 2])
        assert (report.ceilings >= report.ceilings_lower).all()
        assert (report.ceilings >= [(report.robust_to >= epsilon).mean() for epsilon in report.epsilons]).all()
        several = find_ceilings(X, y, [threat.resolve(Schema.numeric(4), [0, 1, 2])])
        assert several[0][0] <= several[1][0]
        assert (several[1][0] < 1.0) == ("radius" in words)


def test_without_time_there_is_a_bound() -> None:
    generator = np.random.default_rng(0)
    X, y = generator.random((50, 2)), np.arange(50) % 2
    threat = ThreatModel("<>", radius=0.2)
    report = evaluate(RobustTreeClassifier(0.1).fit(X, y), X, y, threat, ceiling_time_limit=0.0)
    assert report.ceiling == 1.0
    assert report.ceiling_bounds.lower <= evaluate(RobustTreeClassifier(0.1).fit(X, y), X, y, threat).ceiling


def test_rows_that_only_meet_against_a_relation_do_not_meet() -> None:
    """Both rows can be moved to (1, 1) column by column, where a + b is 2: the ceiling was below what a model keeps."""
    X = pd.DataFrame({"a": [1.0, 0.0] * 5, "b": [0.0, 1.0] * 5})
    y = np.array([0, 1] * 5)
    model = RobustTreeClassifier(max_depth=1).fit(X, y)
    limits = {"a": (0, 1), "b": (0, 1)}
    assert evaluate(model, X, y, ThreatModel(limits)).ceiling == 0.5
    report = evaluate(model, X, y, ThreatModel(limits, relations=["a + b <= 1"]))
    assert report.adversarial_accuracy.lower == report.ceiling == 1.0
    loose = evaluate(model, X, y, ThreatModel(limits, relations=["a + b <= 2"]))
    assert loose.ceiling == 0.5


def test_a_relation_with_a_column_of_a_group() -> None:
    """A secure page is at least 5 long, so that the rows do not meet as secure pages of length 2."""
    X = pd.DataFrame({"secure": [1, 0] * 4, "plain": [0, 1] * 4, "length": [6.0, 2.0] * 4})
    y = np.array([0, 1] * 4)
    words = {"groups": [["secure", "plain"]], "attacking_classes": None}
    free = ThreatModel({"length": (4, 0)}, **words)
    related = ThreatModel({"length": (4, 0)}, relations=["5 * secure <= length"], **words)
    model = RobustTreeClassifier(max_depth=1).fit(X, y)
    assert evaluate(model, X, y, free).ceiling == 0.5
    report = evaluate(model, X, y, related)
    assert report.ceiling >= report.adversarial_accuracy.upper
    assert report.ceilings_lower[-1] <= report.ceiling


def test_more_pairs_than_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was not looked at is no conflict: the ceiling is higher than it need be, and says so."""
    X, y = np.zeros((40, 2)), np.arange(40) % 2
    reach = ThreatModel("<>", radius=1.0).resolve(Schema.numeric(2), [0, 1])
    assert [bound[0] for bound in find_ceilings(X, y, [reach])[:2]] == [0.5, 0.5]
    monkeypatch.setattr(common_points, "MOST_PAIRS", 100)
    monkeypatch.setattr(common_points, "PAIR_VALUES", 80)
    lower, upper, _ = find_ceilings(X, y, [reach])
    assert lower[0] == 0.5 < upper[0] < 1.0
