"""The ceiling: what brute force finds, whatever the attacker; and an interval around it, wherever the work stops."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from hardwood import RobustTreeClassifier, ThreatModel, evaluate
from hardwood._kernels.conflicts import grow_forest, match_greedily
from hardwood.evaluation import ceiling as ceiling_module
from hardwood.evaluation.ceiling import Budget, find_ceilings
from hardwood.table import Schema
from hardwood.threat import Reach
from reference import attacking, conflicts
from reference.cases import random_columns

Table = tuple[np.ndarray, np.ndarray]
Case = tuple[np.ndarray, np.ndarray, Schema, ThreatModel]


@dataclass
class Steps:
    """A budget that counts steps of work instead of seconds."""

    left: int

    def begin(self, pieces_left: int) -> None:
        pass

    def lasts(self) -> bool:
        self.left -= 1
        return self.left >= 0


def random_table(seed: int, n_classes: int, most_rows: int = 10) -> Case:
    """Return rows with categories, missing values and repeats, and an attacker."""
    generator = np.random.default_rng(seed)
    schema = attacking.random_schema(generator)
    n_rows = int(generator.integers(1, most_rows + 1))
    rows = generator.integers(0, 4, (n_rows, schema.n_features)).astype(float)
    for j, labels in enumerate(schema.categories):
        if labels is not None:
            rows[:, j] = generator.integers(0, len(labels) + 1, n_rows)
    rows[generator.random(rows.shape) < generator.choice([0.0, 0.2])] = np.nan
    attackers = None if generator.random() < 0.6 else [0]
    hides = {name: random_columns(generator, schema.n_features) for name in ("blank", "fill")} if seed % 3 == 0 else {}
    schema = replace(schema, accepts_missing=True)
    threat = ThreatModel(attacking.random_threat(generator, schema), attacking_classes=attackers, **hides)
    label = generator.integers(0, n_classes, n_rows)
    if generator.random() < 0.3:  # rows that occur several times
        again = generator.integers(0, n_rows, n_rows)
        rows, label = rows[again], label[again]
    return rows, label, schema, threat


def find_one(rows: np.ndarray, label: np.ndarray, reach: Reach, **options: Any) -> tuple[float, float]:
    lower, upper, interrupted = find_ceilings(rows, label, [reach], **options)
    assert not interrupted
    return lower[0], upper[0]


class TestExact:
    @given(st.integers(0, 2**32))
    def test_with_two_classes_it_is_what_the_best_classifier_gets(self, seed: int) -> None:
        rows, label, schema, threat = random_table(seed, 2)
        reach = threat.resolve(schema, range(2))
        best = conflicts.best_possible(rows, label, reach) / len(rows)
        assert find_one(rows, label, reach) == (best, best)

    @given(st.integers(0, 2**32), st.sampled_from([2, 3, 5]))
    def test_larger_tables_against_a_plain_matching(self, seed: int, n_classes: int) -> None:
        """With trees of boxes of several levels, and paths of several steps."""
        rows, label, schema, threat = random_table(seed, n_classes, most_rows=120)
        reach = threat.resolve(schema, range(n_classes))
        bound = conflicts.matching_bound(rows, label, reach) / len(rows)
        assert find_one(rows, label, reach) == (bound, bound)

    @given(st.integers(0, 2**32), st.sampled_from([3, 4]))
    def test_with_more_classes_it_is_a_bound(self, seed: int, n_classes: int) -> None:
        rows, label, schema, threat = random_table(seed, n_classes)
        reach = threat.resolve(schema, range(n_classes))
        lower, upper = find_one(rows, label, reach)
        assert conflicts.best_possible(rows, label, reach) / len(rows) <= lower == upper <= 1.0

    def test_three_rows_of_three_classes_on_one_point(self) -> None:
        """One can be right. A matching proves that two cannot all be; a fractional one does no better here."""
        reach = ThreatModel(None).resolve(Schema.numeric(1), range(3))
        assert find_one(np.zeros((3, 1)), np.arange(3), reach)[1] == pytest.approx(1 / 3)

    def test_one_number_and_thousands_of_rows(self) -> None:
        """On a line, matching from left to right with whoever ends first is best: a rule to check against."""
        generator = np.random.default_rng(0)
        values, label = generator.random(3000), generator.integers(0, 2, 3000)
        reach = ThreatModel(0.0002).resolve(Schema.numeric(1), [0, 1])
        ours, theirs = (np.sort(values[label == k]).tolist() for k in (0, 1))
        matched = i = j = 0
        while i < len(ours) and j < len(theirs):
            if ours[i] + 0.0002 < theirs[j] - 0.0002:
                i += 1
            elif theirs[j] + 0.0002 < ours[i] - 0.0002:
                j += 1
            else:
                matched, i, j = matched + 1, i + 1, j + 1
        assert 0 < matched < 1000
        assert find_one(values[:, None], label, reach) == pytest.approx([(3000 - matched) / 3000] * 2, abs=0)

    def test_missing_values_are_in_conflict_with_missing_ones(self) -> None:
        """Two equal rows of different classes, both with a hole: they were said to be no obstacle to each other.

        Worse, a missing category was taken for the number of some category far outside the table of categories.
        """
        rows = np.array([[np.nan, np.nan], [np.nan, np.nan], [0.0, 1.0]])
        schema = Schema(2, None, (None, ("a", "b")), accepts_missing=True)
        reach = ThreatModel({0: 5.0, 1: "<>"}).resolve(schema, [0, 1])
        assert find_one(rows, np.array([0, 1, 1]), reach) == (2 / 3, 2 / 3)

    def test_many_categories(self) -> None:
        """Thousands of ids, some of which can become others: no table of all pairs is multiplied."""
        n = 2000
        schema = Schema(1, None, (tuple(map(str, range(n))),))
        reach = ThreatModel({0: {"0": ["1", "2"], "5": ["6"]}}).resolve(schema, [0, 1])
        rows = np.r_[np.arange(n), [2, 6, 7, n]].astype(float)[:, None]
        label = np.r_[np.zeros(n, dtype=int), 1, 1, 1, 1]
        # 2 conflicts with 2 and 0, 6 with 6 and 5, 7 with 7, and what is not known with nothing.
        assert find_one(rows, label, reach) == ((n + 1) / (n + 4),) * 2


class TestIntervals:
    @given(st.integers(0, 2**32), st.sampled_from([2, 3]), st.integers(0, 12), st.sampled_from([1, 7, 40]))
    def test_wherever_the_work_stops_the_ceiling_is_between(
        self, seed: int, n_classes: int, steps: int, step: int
    ) -> None:
        rows, label, schema, threat = random_table(seed, n_classes, most_rows=60)
        reaches = [threat.scaled(epsilon).resolve(schema, range(n_classes)) for epsilon in (0.0, 0.5, 1.0)]
        lower, upper, _ = find_ceilings(rows, label, reaches, budget=Steps(steps), step=step)
        for k, reach in enumerate(reaches):
            exact = conflicts.matching_bound(rows, label, reach) / len(rows)
            assert np.bincount(label).max() / len(rows) <= lower[k] <= exact <= upper[k] <= 1.0
        assert (np.diff(lower) <= 0.0).all()
        assert (np.diff(upper) <= 0.0).all()

    def test_more_work_never_makes_it_wider(self) -> None:
        rows, label, schema, threat = random_table(3, 2, most_rows=60)
        reach = threat.resolve(schema, range(2))
        widths = [np.subtract(*find_one(rows, label, reach, budget=Steps(k), step=1)[::-1]) for k in range(60)]
        assert widths[0] > 0.0
        assert widths[-1] == 0.0
        assert (np.diff(widths) <= 0.0).all()

    def test_rows_that_all_meet_are_not_compared_pair_by_pair(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """`evaluate` spent minutes on 20,000 rows at a large epsilon, silently and deaf to Ctrl-C, listing all pairs.

        Counted in boxes that are looked at: a few dozen per row, and the budget is asked as often as it says.
        """
        generator = np.random.default_rng(0)
        rows, label = generator.random((20_000, 5)), (generator.random(20_000) < 0.4).astype(int)
        reach = ThreatModel(0.9).resolve(Schema.numeric(5), [0, 1])
        steps = 0

        def count(kernel: Any) -> Any:
            def call(*arguments: Any) -> Any:
                nonlocal steps
                steps += 1
                return kernel(*arguments)

            return call

        for kernel in (match_greedily, grow_forest):
            monkeypatch.setattr(ceiling_module, kernel.__name__, count(kernel))
        lower, upper = find_one(rows, label, reach, step=1 << 12)
        assert lower == upper
        assert steps > 1
        assert steps << 12 < 50 * len(rows)

    def test_seconds_are_shared(self) -> None:
        now = 100.0
        budget = Budget(12.0, clock=lambda: now)
        budget.begin(3)
        now = 103.9
        assert budget.lasts()
        now = 104.0
        assert not budget.lasts()
        now = 101.0  # the first was done early, so the second has more
        budget.begin(2)
        now = 106.4
        assert budget.lasts()
        now = 106.5
        assert not budget.lasts()
        assert Budget(None).lasts()
        empty = Budget(0.0)
        empty.begin(1)
        assert not empty.lasts()


class TestEvaluate:
    def test_no_model_beats_it(self, numbers: Table) -> None:
        X, y = numbers
        overfitted = DecisionTreeClassifier(random_state=0).fit(X, y)
        for epsilon in (0.02, 0.1, 0.3):
            robust = RobustTreeClassifier(epsilon).fit(X, y)
            reports = [evaluate(model, X, y, epsilon) for model in (overfitted, robust)]
            assert reports[0].ceiling == reports[1].ceiling
            for report in reports:
                assert report.ceiling is not None
                assert report.constant_accuracy <= report.ceiling
                assert report.adversarial_accuracy.upper <= report.ceiling

    @pytest.fixture
    def cut_short(self, model: RobustTreeClassifier, numbers: Table) -> Any:
        return evaluate(model, *numbers, 0.1, epsilons=[0.5], ceiling_time_limit=0)

    def test_an_interval_is_marked_as_such(self, cut_short: Any) -> None:
        # What a constant classifier attains, and what the model itself does.
        kept = [max(cut_short.constant_accuracy, cut_short.accuracy_at(e).lower) for e in (0.0, 0.5, 1.0)]
        assert kept[0] > kept[1] > kept[2]
        assert cut_short.ceiling == 1.0
        assert cut_short.ceiling_bounds == (kept[2], 1.0)
        assert not cut_short.ceiling_bounds.is_exact
        shown = f"{kept[2]:.1%} to 100.0%"
        assert f"ceiling={shown}" in repr(cut_short)
        for text in (str(cut_short), cut_short._repr_html_()):
            assert text.count(shown) == 2  # the figure itself, and a line of the curve
            assert f"{kept[1]:.1%} to 100.0%" in text
            assert "time ran out" in text
        curve = cut_short.to_frame("curve")
        assert curve["ceiling"].tolist() == [1.0] * 3
        assert curve["ceiling_lower"].tolist() == kept

    def test_an_exact_one_is_a_number(self, model: RobustTreeClassifier, numbers: Table) -> None:
        report = evaluate(model, *numbers, 0.1)
        assert report.ceiling_bounds == (report.ceiling, report.ceiling)
        assert "time ran out" not in str(report)
        assert f"ceiling={report.ceiling:.1%})" in repr(report)

    def test_interrupted(self, model: RobustTreeClassifier, numbers: Table, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ctrl-C while the ceiling is worked out: a report of what is known by then, which is not nothing."""

        def interrupt(done: int, total: int) -> None:
            raise KeyboardInterrupt

        report = evaluate(model, *numbers, 0.1, epsilons=[0.5], progress=interrupt)
        assert report.interrupted
        assert report.accuracy == (model.predict(numbers[0]) == numbers[1]).mean()
        assert report.ceiling_bounds is not None
        assert not report.ceiling_bounds.is_exact
        assert set(report.status[report.prediction == report.label]) == {"unknown"}

    def test_progress_of_each_part(self, model: RobustTreeClassifier, numbers: Table) -> None:
        seen: list[tuple[int, int]] = []
        evaluate(model, *numbers, 0.1, epsilons=[0.5], progress=lambda *step: seen.append(step))
        n_ceiling = seen.index((3 * len(numbers[1]),) * 2) + 1
        done, total = zip(*seen[:n_ceiling], strict=True)
        assert list(done) == sorted(done)
        assert set(total) == {3 * len(numbers[1])}

    def test_limits_that_are_none(self, model: RobustTreeClassifier, numbers: Table) -> None:
        for limit in (-1, "1", True, np.nan):
            with pytest.raises(ValueError, match="ceiling_time_limit="):
                evaluate(model, *numbers, 0.1, ceiling_time_limit=limit)


def test_rows_with_missing_values_of_an_imported_model(frame: tuple[pd.DataFrame, pd.Series]) -> None:
    """A table whose model has a place for missing values, end to end."""
    X, y = frame[0][["age", "income"]].astype(float), frame[1]
    X.loc[::7, "age"] = np.nan
    model = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)
    report = evaluate(model, X, y, {"income": "<>"})
    label = np.unique(y, return_inverse=True)[1]
    reach = ThreatModel({"income": "<>"}).resolve(Schema.numeric(2, ["age", "income"]), np.unique(y))
    assert report.ceiling == conflicts.matching_bound(X.to_numpy(), label, reach) / len(y) < 1.0
