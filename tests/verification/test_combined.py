"""Attackers who may do several things at once: every answer is that of trying all points."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from hardwood import AttackRule, ThreatModel, attack, verify
from hardwood.table import Schema
from reference import attacking, ruling
from reference.cases import Case
from reference.combining import combined_case, find_nearest, list_examples, list_points

NAN = np.nan
NORMS = [np.inf, 2, 1, 0]
SEEDS = st.integers(0, 2**32 - 1)
# Values that can be hidden beside relations, and what else may be there.
RELATED = ["relations hides", "relations hides groups", "relations hides budget", "relations hides category number"]
RELATED += ["relations groups budget", "relations hides groups budget", "relations hides budget number category"]
PAID = ["hides budget number", "hides budget category", "hides groups budget number"]

pytestmark = pytest.mark.filterwarnings("ignore:relations. .* does not hold in:UserWarning")


def assert_all_points_were_tried(case: Case, norm: float) -> None:
    """Statuses, distances and examples are those of trying every point, and no row is unknown."""
    X, y = case.trees.schema.decode(case.rows), case.trees.labels[case.class_index]
    examples = [list_examples(case, k) for k in range(len(case.rows))]
    wanted = [find_nearest(case, k, points, norm) for k, points in enumerate(examples)]
    proof, result = verify(case.trees, X, y, case.threat), attack(case.trees, X, y, case.threat, norm=norm)
    assert proof.status.tolist() == ["vulnerable" if len(points) else "robust" for points in examples]
    np.testing.assert_allclose(result.distance, wanted, rtol=1e-5)
    np.testing.assert_allclose(result.lower, wanted, rtol=1e-5)
    for found in (proof.witness, result.X_adv):
        points = case.trees.schema.encode(found)
        for k, point in enumerate(points):
            if len(examples[k]):
                assert case.reach.contains(case.rows[[k]], point[None], case.class_index[[k]])[0]
                given = case.trees.decide(point[None])
                assert given[0] != case.class_index[k]
                assert case.reach.wants(case.class_index[[k]], given)[0] or (point == case.rows[k]).all()


class TestHiddenValues:
    """Values that can be blanked or filled in, beside relations between columns and budgets."""

    @settings(max_examples=50)
    @given(SEEDS, st.sampled_from(RELATED), st.sampled_from([1, None]), st.sampled_from(NORMS))
    def test_relations_besides(self, seed: int, means: str, n_trees: int | None, norm: float) -> None:
        """The first examples were repaired within the reach of the row, where nothing may be left of their cells.

        What came back was the row itself, which failed the check of examples: one such row ended the answer for all.
        """
        assert_all_points_were_tried(combined_case(seed, means.split(), n_trees), norm)

    def test_a_cell_of_which_relations_leave_nothing(self) -> None:
        """No whole number above 2 keeps the relation: robust. It was `an adversarial example failed its own check`."""
        X = np.array([[0, 0], [1, 2], [3, 2], [3, 5], [0, NAN], [3, NAN]] * 5)
        model = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, np.array([0, 0, 1, 1, 0, 1] * 5))
        threat = ThreatModel({0: "<>"}, fill=[1], relations=["2 * `0` - `1` <= 2"], whole_numbers=[0, 1])
        assert verify(model, X[1:2], [0], threat).status.tolist() == ["robust"]
        assert not attack(model, X[1:2], [0], threat).found[0]

    @settings(max_examples=30)
    @given(SEEDS, st.sampled_from(PAID), st.sampled_from([1, None]), st.sampled_from(NORMS))
    @example(517, "hides budget number", None, 1)
    def test_budgets_besides(self, seed: int, means: str, n_trees: int | None, norm: float) -> None:
        """What is filled in was kept as near as the budget lets values be moved, where others move by shares."""
        assert_all_points_were_tried(combined_case(seed, means.split(), n_trees), norm)

    def test_what_is_filled_in_is_no_further_away(self) -> None:
        """To fill in a value costs 1, whatever the value; beside shares of a value it was kept within the radius."""
        table = Schema(2, None, (None, None), accepts_missing=True)
        tree = attacking.build((0, 5.0, 0, 1), table, missing_left=np.array([True, False, False]))
        threat = ThreatModel(["50%", 2.0], fill=[0], radius=1.0)
        assert threat.contains([[NAN, 1.0]], [[6.0, 1.0]]).all()
        assert verify(tree, [[NAN, 1.0]], [0], threat).status.tolist() == ["vulnerable"]

    @pytest.mark.parametrize(("seed", "means", "n_trees", "norm"), [
        (82, "relations hides groups budget number", None, 2),
        (446, "relations hides budget number category", None, 1),
        (962, "relations hides budget number category", 1, 2),
    ])  # fmt: skip
    def test_what_is_filled_in_is_paid_for_once(self, seed: int, means: str, n_trees: int | None, norm: float) -> None:
        """What is filled in costs 1, whatever it is. Beside relations its size used up the radius as well.

        So too little was left for other columns, examples were missed, and rows were called robust that are not.
        """
        assert_all_points_were_tried(combined_case(seed, means.split(), n_trees), norm)

    @settings(max_examples=30)
    @given(SEEDS, st.sampled_from([*RELATED, *PAID]), st.sampled_from([1, None]))
    def test_regressions(self, seed: int, means: str, n_trees: int | None) -> None:
        """Of related columns with a budget only bounds are known."""
        case = combined_case(seed, means.split(), n_trees, link="value")
        proof = verify(case.trees, case.trees.schema.decode(case.rows), None, case.threat, tolerance=0.0)
        atol = 4.0 * attacking.rounding(case.trees)
        for k in range(len(case.rows)):
            output = case.trees.output(list_points(case, k))[:, 0].astype(np.float64)
            assert proof.lower[k] <= output.min() + atol
            assert proof.upper[k] >= output.max() - atol
            if case.reach.relations is None or case.reach.budget is None:
                np.testing.assert_allclose([proof.lower[k], proof.upper[k]], [output.min(), output.max()], atol=atol)


class TestWantedClasses:
    """Which class wants to be taken for which, of several trees: a third class may be in the way."""

    @settings(max_examples=60)
    @given(
        SEEDS, st.sampled_from([*RELATED, *PAID, "hides", "groups", "", "category number"]), st.sampled_from(NORMS)
    )  # fmt: skip
    def test_no_row_is_unknown(self, seed: int, means: str, norm: float) -> None:
        """Beside groups, relations, blank and fill, and in rows with missing values, the solver could not be asked.

        Such rows were unknown at once, without a time limit, and scores raised TimeoutError.
        """
        assert_all_points_were_tried(combined_case(seed, [*means.split(), "targets"]), norm)

    @settings(max_examples=20)
    @given(SEEDS)
    def test_beside_rules(self, seed: int) -> None:
        """The search behind rules with costs asks about boxes, and each box about the classes that are wanted."""
        generator = np.random.default_rng(seed)
        trees = attacking.random_trees(generator, Schema.numeric(2), 3, 3, 3, "softmax")
        trees = replace(trees, threshold=generator.integers(-4, 5, trees.n_nodes) * ruling.STEP)
        rows = generator.integers(-4, 5, (4, 2)) * ruling.STEP
        own = trees.decide(rows)
        rules = [AttackRule(j, add=(-1.0, 1.0), cost=float(generator.integers(1, 3))) for j in (0, 1)]
        rules.append(AttackRule(0, set_to=2.0, cost=2.5))
        wants = {"a": ["b"], "b": ["c"], "c": ["a"]}
        threat = ThreatModel(rules=rules, budget=3.0, repeat=True, attacking_classes=wants)
        result = attack(trees, rows, trees.labels[own], threat)
        for k, row in enumerate(rows):
            costs = [ruling.least_costs([r for r in rules if r.feature == j], row[j], 3.0, True) for j in (0, 1)]
            points = np.array(list(product(*costs)))
            price = np.array([sum(paid) for paid in product(*(cost.values() for cost in costs))])
            works = (price <= 3.0) & (trees.decide(points) == (own[k] + 1) % 3)
            wanted = price[works].min(initial=np.inf)
            assert [result.lower[k], result.distance[k]] == [wanted, wanted]

    def test_nothing_else_is_needed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Several trees that a third class gets in the way of took the solver of the extra `milp`."""
        monkeypatch.setitem(sys.modules, "highspy", None)
        for seed in range(10):
            assert_all_points_were_tried(combined_case(seed, ["targets"]), 2)

    @pytest.mark.parametrize("method", ["search", "milp"])
    def test_a_row_that_presolving_had_taken_for_robust(self, method: str) -> None:
        """The solver's presolve called a problem infeasible that is not: a row that can be moved was called robust."""
        if method == "milp":
            pytest.importorskip("highspy")
        case = combined_case(5936, ["relations", "hides", "budget", "targets"])
        row, threat = case.trees.schema.decode(case.rows[3:4]), case.threat.replace(relations=None)
        label = case.trees.labels[case.class_index[3:4]]
        proof = verify(case.trees, row, label, threat, method=method)
        assert proof.status.tolist() == ["vulnerable"]
        assert threat.contains(row, proof.witness, label, case.trees.schema).all()
