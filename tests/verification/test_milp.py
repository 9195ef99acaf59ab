"""The mixed-integer solver as a second opinion: against enumeration, and against the search."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

from hardwood import RobustTreeClassifier, ThreatModel, TreeEnsemble, as_ensemble, attack, load_dataset, verify
from hardwood.threat import Reach
from hardwood.verification import clock, milp, milp_solver
from hardwood.verification.milp import GRID, _common_step
from hardwood.verification.milp_problem import Box, Nodes, Problem
from reference import attacking, enumerating
from reference.cases import random_case

pytest.importorskip("highspy")

SEEDS = st.integers(0, 2**32)
NORMS = [np.inf, 2, 1, 0]


def near_tie(trees: TreeEnsemble, row: np.ndarray, label: int, reach: Reach) -> bool:
    """Say whether some point within reach is so close to a tie that rounding may decide it."""
    points = enumerating.reachable_points(trees, row, label, reach)
    outputs = np.unique(trees.output(points), axis=0)
    return any(abs(attacking.lead(trees, list(total), label)) < 1e-5 for total in outputs)


@pytest.fixture(scope="module")
def diabetes() -> tuple[np.ndarray, np.ndarray]:
    table = load_dataset("diabetes")
    return (table.data - table.data.min(axis=0)) / np.ptp(table.data, axis=0), table.target


@pytest.fixture(scope="module")
def forest(diabetes: tuple[np.ndarray, np.ndarray]) -> tuple[RandomForestClassifier, np.ndarray, np.ndarray]:
    X, y = diabetes
    return RandomForestClassifier(15, max_depth=4, random_state=0, n_jobs=1).fit(X, y), X[:12], y[:12]


class TestAgainstEnumeration:
    @given(SEEDS, st.integers(1, 5))
    def test_decisions_and_margins(self, seed: int, n_trees: int) -> None:
        """Never a wrong answer; undecided only where a point within reach is nearly a tie."""
        trees, rows, label, threat = random_case(seed, n_trees, n_rows=2)
        reach = threat.resolve(trees.schema, trees.labels)
        certificate = verify(trees, trees.schema.decode(rows), None, threat, method="milp")
        for k, (row, own) in enumerate(zip(rows, label.tolist(), strict=True)):
            points = enumerating.reachable_points(trees, row, own, reach)
            vulnerable = any(attacking.predict(trees, point) != own for point in points)
            if certificate.status[k] == "unknown":
                assert near_tie(trees, row, own, reach)
            else:
                assert certificate.status[k] == ("vulnerable" if vulnerable else "robust")
            worst = enumerating.worst_margin(trees, points, own)
            assert certificate.lower[k] - 1e-5 <= worst <= certificate.upper[k] + 1e-5

    @given(SEEDS, st.integers(1, 4), st.sampled_from(NORMS))
    def test_distances(self, seed: int, n_trees: int, norm: float) -> None:
        trees, rows, label, threat = random_case(seed, n_trees, n_rows=2)
        reach = threat.resolve(trees.schema, trees.labels)
        weight = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 3.0], trees.schema.n_features)
        found = attack(trees, trees.schema.decode(rows), None, threat, norm=norm, feature_weight=weight, method="milp")
        for k, (row, own) in enumerate(zip(rows, label.tolist(), strict=True)):
            points = enumerating.adversarial_points(trees, row, own, reach)
            nearest = enumerating.nearest(points, row, trees.schema, norm, weight)
            assert found.lower[k] <= nearest * (1 + 1e-12)
            np.testing.assert_allclose(found.distance[k], nearest, rtol=1e-5)
            if not near_tie(trees, row, own, reach):
                np.testing.assert_allclose(found.lower[k], nearest, rtol=1e-5)


class TestAgainstTheSearch:
    def test_forest(self, forest: Any) -> None:
        model, X, y = forest
        ensemble = as_ensemble(model)
        search = verify(ensemble, X, y, 0.05)
        second = verify(ensemble, X, y, 0.05, method="milp")
        assert {"robust", "vulnerable"} <= set(search.status)
        np.testing.assert_array_equal(second.status, search.status)
        found = second.status == "vulnerable"
        assert (model.predict(second.witness[found]) != y[found]).all()
        assert np.isnan(second.witness[~found]).all()
        assert (second.lower[~found] >= 0.0).all()
        assert (second.lower[found] <= second.upper[found]).all()

    @pytest.mark.parametrize("threat", [None, (0.2, 0.0)], ids=["anywhere", "downwards only"])
    def test_distances(self, forest: Any, threat: Any) -> None:
        model, X, y = forest
        spelled = threat if threat is None else [threat] * X.shape[1]
        search = attack(model, X, y, spelled)
        second = attack(model, X, y, spelled, method="milp")
        np.testing.assert_array_equal(second.found, search.found)
        np.testing.assert_allclose(second.distance, search.distance, rtol=1e-5)
        np.testing.assert_allclose(second.lower, search.distance, rtol=1e-5)
        assert (second.lower <= search.distance).all()

    def test_boosting_with_three_classes(self, diabetes: Any) -> None:
        X, y = diabetes
        classes = np.where(X[:, 5] > 0.5, 2, y)
        model = GradientBoostingClassifier(n_estimators=5, max_depth=3, random_state=0).fit(X, classes)
        search = verify(model, X[:10], classes[:10], 0.05)
        second = verify(model, X[:10], classes[:10], 0.05, method="milp")
        assert len(set(search.status)) > 1
        np.testing.assert_array_equal(second.status, search.status)

    def test_xgboost(self, diabetes: Any) -> None:
        xgboost = pytest.importorskip("xgboost")
        X, y = diabetes
        model = xgboost.XGBClassifier(n_estimators=20, max_depth=4, n_jobs=1).fit(X, y)
        nearest, second_nearest = (attack(model, X[:12], y[:12], method=method) for method in ("search", "milp"))
        np.testing.assert_allclose(second_nearest.distance, nearest.distance, rtol=1e-5)
        epsilon = float(np.median(nearest.distance))  # half of the rows hold, whatever this release has learned
        search, second = (verify(model, X[:12], y[:12], epsilon, method=method) for method in ("search", "milp"))
        assert search.status.tolist().count("robust") == 6
        np.testing.assert_array_equal(second.status, search.status)

    @pytest.mark.parametrize("norm", NORMS)
    def test_one_tree(self, numbers: tuple[np.ndarray, np.ndarray], norm: float) -> None:
        X, y = numbers
        model = RobustTreeClassifier(threat=0.05, max_depth=5).fit(X, y)
        weight = [1.0, 2.0, 0.5]
        search, second = (
            attack(model, X[:15], y[:15], norm=norm, feature_weight=weight, method=method)
            for method in ("search", "milp")
        )
        np.testing.assert_allclose(second.distance, search.distance, rtol=1e-5)

    def test_categories(self, mixed: RobustTreeClassifier, frame: tuple[pd.DataFrame, pd.Series]) -> None:
        table, y = frame
        threat = {"income": 2.0, "color": {"red": ["blue"], "blue": ["green"]}}
        search, second = (attack(mixed, table[:60], y[:60], threat, method=method) for method in ("search", "milp"))
        np.testing.assert_array_equal(second.found, search.found)
        assert 0 < second.found.sum() < 60
        np.testing.assert_allclose(second.distance, search.distance, rtol=1e-5)
        assert isinstance(second.X_adv, pd.DataFrame)

    def test_classes_that_do_not_attack(self, forest: Any) -> None:
        model, X, y = forest
        certificate = verify(model, X, y, ThreatModel(np.inf, attacking_classes=1), method="milp")
        still = (y == 0) & (model.predict(X) == 0)
        assert still.any()
        assert (certificate.status[still] == "robust").all()


class TestTolerance:
    def trees(self, second_leaf: float, **others: Any) -> TreeEnsemble:
        """Two stumps on one feature, of which the sum to the right of 0 is `second_leaf`."""
        return attacking.assemble(
            feature=[0, -1, -1, 0, -1, -1],
            threshold=[0.0] * 6,
            left=[1, -1, -1, 4, -1, -1],
            right=[2, -1, -1, 5, -1, -1],
            value=[[0.0], [-1.0], [1.0], [0.0], [0.0], [second_leaf - 1.0]],
            root=np.array([0, 3], dtype=np.int32),
            link="logistic",
            classes=np.array([0, 1]),
            **others,
        )

    @pytest.mark.parametrize(
        ("output", "status"),
        [(1e-3, "vulnerable"), (1e-9, "vulnerable"), (-1e-9, "unknown"), (-1e-3, "robust")],
    )
    def test_a_near_miss_is_unknown(self, output: float, status: str) -> None:
        """An example that flips counts however closely; that there is none is known up to the tolerance only."""
        trees = self.trees(output)
        assert verify(trees, [[-1.0]], [0], 2.0, method="milp").status.tolist() == [status]
        assert (verify(trees, [[-1.0]], [0], 2.0).status[0] == "vulnerable") == (output > 0)
        found = attack(trees, [[-1.0]], [0], 2.0, method="milp")
        assert found.found[0] == (output > 0)
        assert np.isfinite(found.lower[0]) == (status != "robust")

    def test_a_nearer_near_miss_leaves_a_bracket(self) -> None:
        """To the right of 0 the sum misses by a hair, to the right of 1 it is enough."""
        trees = attacking.assemble(
            feature=[0, -1, 0, -1, -1],
            threshold=[0.0, 0.0, 1.0, 0.0, 0.0],
            left=[1, -1, 3, -1, -1],
            right=[2, -1, 4, -1, -1],
            value=[[0.0], [-1.0], [0.0], [-1e-9], [1.0]],
            link="logistic",
            classes=np.array([0, 1]),
        )
        found = attack(trees, [[-1.0]], [0], method="milp")
        assert found.distance.tolist() == pytest.approx([2.0])
        assert found.lower.tolist() == pytest.approx([1.0], rel=1e-5)

    def test_votes_tie_exactly(self) -> None:
        """Sums of votes are whole numbers, so a tie is told from a win; it goes to the first class."""
        trees = self.trees(0.0)
        assert verify(trees, [[-1.0]], [0], 2.0, method="milp").status.tolist() == ["robust"]
        assert verify(self.trees(1.0), [[-1.0]], [0], 2.0, method="milp").status.tolist() == ["vulnerable"]

    def test_common_step(self) -> None:
        assert _common_step(np.array([0.5, 1.25, -3.0])) == 0.25
        assert _common_step(np.array([1 / 3, 1.0])) == 0.0
        assert _common_step(np.array([GRID, 1e300])) == 0.0
        assert _common_step(np.zeros(2)) == 0.0


class TestLimits:
    @pytest.mark.parametrize("time_limit", [0, 1e-4])
    def test_no_time_is_unknown(self, forest: Any, time_limit: float) -> None:
        model, X, y = forest
        exact = verify(model, X, y, 0.1)
        hasty = verify(model, X, y, 0.1, method="milp", time_limit=time_limit)
        assert (hasty.status == "unknown").any()
        decided = hasty.status != "unknown"
        np.testing.assert_array_equal(hasty.status[decided], exact.status[decided])
        assert (hasty.lower <= exact.upper + 1e-9).all()
        nearest = attack(model, X, y).distance
        found = attack(model, X, y, method="milp", time_limit=time_limit)
        assert (found.lower <= nearest).all()
        assert (nearest <= found.distance * (1 + 1e-12)).all()
        assert not found.found[(nearest > 0)].all()

    def test_a_row_is_given_up_when_its_time_is_over(self, forest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each problem is given what is left of the row's time, and once nothing is left none is given any more."""
        now, given = [100.0], []

        def find_nothing(*arguments: Any, seconds: float, **options: Any) -> milp_solver.Outcome:
            given.append(seconds)
            now[0] += 0.2
            return milp_solver.Outcome(True, None, np.inf)

        monkeypatch.setattr(milp, "minimise", find_nothing)
        monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: now[0]))
        model, X, _ = forest
        found = attack(model, X[:1], None, norm=1, method="milp", time_limit=0.5)
        assert given == pytest.approx([0.5, 0.3, 0.1])
        assert found.undecided.tolist() == [True]
        assert 0.0 < found.lower[0] < np.inf

    def test_interrupted(self, forest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """What was decided before Ctrl-C is kept; the rest is unknown."""
        calls: list[int] = []

        def interrupted(*arguments: Any, **options: Any) -> Any:
            calls.append(1)
            if len(calls) > 3:
                raise KeyboardInterrupt
            return milp_solver.minimise(*arguments, **options)

        monkeypatch.setattr(milp, "minimise", interrupted)
        model, X, y = forest
        expected = verify(model, X, y, 0.05).status
        certificate = verify(model, X, y, 0.05, method="milp")
        decided = certificate.status != "unknown"
        np.testing.assert_array_equal(certificate.status[decided], expected[decided])
        assert len(calls) > 3
        assert (decided & (model.predict(X) == y)).sum() >= 3
        assert not decided.all()

    def test_interrupted_in_the_middle_of_a_row(self, diabetes: Any) -> None:
        X, y = diabetes
        ensemble = as_ensemble(RandomForestClassifier(60, random_state=0, n_jobs=1).fit(X, y))
        problem = Problem(Nodes(ensemble), Box(X[0], X[0] - 0.5, X[0] + 0.5, {}))
        objective = problem.sum_leaves(ensemble.value[:, 0] - ensemble.value[:, 1])

        class StopSoon(threading.Event):
            """Set from the third time on that the solver looks."""

            looks = 0

            def is_set(self) -> bool:
                self.looks += 1
                return self.looks >= 3

        stop = StopSoon()
        outcome = milp_solver.minimise(problem, objective, seconds=600.0, stop=stop)
        assert stop.looks >= 3
        assert not outcome.finished

    def test_threads_change_nothing(self, forest: Any) -> None:
        model, X, y = forest
        one, two = (verify(model, X, y, 0.05, method="milp", n_jobs=n_jobs) for n_jobs in (1, 2))
        np.testing.assert_array_equal(one.status, two.status)
        np.testing.assert_array_equal(one.witness, two.witness)

    def test_extreme_numbers(self) -> None:
        """Distances beyond the largest float64."""
        tree = attacking.build((0, -1e308, 1, (0, 1e308, 0, 1)))
        found = attack(tree, [[1e308]], [0], norm=2, method="milp")
        assert found.distance[0] < np.inf
        assert tree.predict(found.X_adv).tolist() == [1]

    def test_a_tree_without_splits(self) -> None:
        assert verify(attacking.build(0), [[0.0]], [0], np.inf, method="milp").status.tolist() == ["robust"]


class TestDoor:
    def test_unknown_method(self, forest: Any) -> None:
        for ask in (verify, attack):
            with pytest.raises(ValueError, match=r"method='smt': expected .*'search'"):
                ask(*forest, 0.1, method="smt")

    def test_missing_extra(self, forest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def missing(name: str) -> Any:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        monkeypatch.setattr(milp_solver, "import_module", missing)
        for ask in (verify, attack):
            with pytest.raises(ModuleNotFoundError, match=r"pip install highspy"):
                ask(*forest, 0.1, method="milp")

    def test_norms(self, forest: Any) -> None:
        with pytest.raises(ValueError, match=r"norm=3: expected inf, 2, 1 or 0"):
            attack(*forest, norm=3, method="milp")
