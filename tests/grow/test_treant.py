"""TreantClassifier: the loss under attack, attack invariance, rules and categories, and scikit-learn's conventions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimator_checks import find_faulty_checks
from examples import some_examples
from hardwood import AttackRule, RobustTreeClassifier, ThreatModel, TreantClassifier, adversarial_accuracy
from hardwood._kernels.grow import treant as kernels
from hardwood.table import Schema
from hardwood.verification.priced_tree import attack_priced_tree
from reference import treanting

SEEDS = st.integers(0, 2**32 - 1)
Table = tuple[np.ndarray, np.ndarray]
THREATS = {
    "nothing": ThreatModel(),
    "a radius": ThreatModel(0.5),
    "one class": ThreatModel([1.0, ">"], attacking_classes=[1]),
    "rules": ThreatModel(
        rules=[AttackRule(0, when=(0, 2), add=1), AttackRule(0, add=-0.5, cost=2), AttackRule(1, set_to=3, cost=1.5)],
        budget=3,
    ),
    "once": ThreatModel(rules=[AttackRule(j, add=step) for j in (0, 1) for step in (-1, 0.5)], budget=1, repeat=False),
}


# Checks that are expected to fail, each with its reason.
EXPECTED_FAILURES = {
    "check_class_weight_classifiers": "a leaf of one class predicts it, however little it weighs; the check keeps "
    "trees from growing such leaves by min_weight_fraction_leaf, which is not a parameter here",
}


@parametrize_with_checks(
    [
        TreantClassifier(),
        TreantClassifier(threat=0.1, thresholds="midway", max_depth=4),
        TreantClassifier(threat=0.1, thresholds="midway", loss="log", n_jobs=2),
        TreantClassifier(ThreatModel(rules=[AttackRule(0, add=0.5)], budget=2), class_weight="balanced"),
    ],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES | find_faulty_checks(estimator),
)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


class TestSplits:
    @given(SEEDS, st.sampled_from(["squared", "log"]))
    def test_the_closed_form(self, seed: int, kind: str) -> None:
        """No pair of values on a fine grid is better, and the loss is what an attacker would make of these values."""
        generator = np.random.default_rng(seed)
        weight = generator.integers(0, 4, (3, 2)).astype(float)
        bounds = np.sort(generator.choice([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], (2, 2)), axis=1)
        number = (weight > 0).astype(np.int64)
        loss, left, right = np.empty(1), np.empty(1), np.empty(1)
        code = {"squared": kernels.SQUARED, "log": kernels.LOG}[kind]
        kernels.solve_candidates(weight[None], number[None], bounds[None], 1, code, loss, left, right)

        def under_attack(a: float, b: float) -> float:
            total = 0.0
            for one in (0, 1):
                at_left, at_right = treanting.loss(kind, one, a), treanting.loss(kind, one, b)
                total += weight[0, one] * at_left + weight[1, one] * at_right + weight[2, one] * max(at_left, at_right)
            return total

        grid = [(a, b) for a in np.linspace(*bounds[0], 21) for b in np.linspace(*bounds[1], 21)]
        if np.isinf(loss[0]):  # "gains nothing": one value for all, which the mean is, does as well as any pair
            mean = weight[:, 1].sum() / max(weight.sum(), 1.0)
            value = min(max(mean, bounds.min()), bounds.max())
            assert all(under_attack(a, b) >= under_attack(value, value) - 1e-9 for a, b in grid)
            return
        assert loss[0] == pytest.approx(under_attack(left[0], right[0]))
        for side, value in enumerate((left[0], right[0])):
            assert bounds[side, 0] <= value <= bounds[side, 1]
        assert all(under_attack(a, b) >= loss[0] - 1e-9 for a, b in grid)

    @pytest.mark.parametrize("threat", THREATS.values(), ids=THREATS)
    @given(SEEDS, st.sampled_from(["squared", "log"]), st.integers(1, 2))
    @some_examples(0.25)
    def test_every_node_is_the_best_there_is(self, threat: ThreatModel, seed: int, kind: str, min_leaf: int) -> None:
        generator = np.random.default_rng(seed)
        X = generator.integers(0, 7, (12, 2)) * 0.5
        y = (X[:, 0] + X[:, 1] + 2.0 * generator.normal(size=12) > 3.0).astype(int)
        assume(0 < y.sum() < 12)
        weight = generator.integers(1, 4, 12).astype(float)
        model = TreantClassifier(threat, loss=kind, max_depth=3, min_samples_leaf=min_leaf).fit(X, y, weight)
        check(model, X, y, weight, 3, min_leaf)

    @given(SEEDS, st.sampled_from(["squared", "log"]))
    @some_examples(0.5)
    @example(24, "squared")  # in these, bounds decide between categories
    @example(73, "squared")
    def test_categories(self, seed: int, kind: str) -> None:
        generator = np.random.default_rng(seed)
        names = ("first", "second", "third")
        letters = {name: generator.choice(["a", "b", "c"], 24) for name in names}
        table = pd.DataFrame({name: pd.Categorical(column) for name, column in letters.items()})
        score = sum(2.0 * (column == "a") for column in letters.values())
        y = (score + generator.normal(size=24) > 2).astype(int)
        assume(0 < y.sum() < 24)
        threat = ThreatModel(rules=[AttackRule(name, when="b", set_to="a") for name in names], budget=1)
        model = TreantClassifier(threat, loss=kind, max_depth=4).fit(table, y)
        check(model, table, y, np.ones(24), 4, 1)

    @given(SEEDS)
    @some_examples(0.25)
    def test_numbers_and_categories(self, seed: int) -> None:
        generator = np.random.default_rng(seed)
        table = pd.DataFrame(
            {
                "size": generator.integers(0, 5, 14) * 1.0,
                "color": pd.Categorical(generator.choice(["blue", "green", "red", "white"], 14)),
            }
        )
        y = ((table["color"].cat.codes * 2 + table["size"] + 2 * generator.normal(size=14)) > 4).astype(int).to_numpy()
        assume(0 < y.sum() < 14)
        rules = [
            AttackRule("color", when="red", set_to="blue"),
            AttackRule("color", set_to="white", cost=2),
            AttackRule("size", add=1),
        ]
        model = TreantClassifier(ThreatModel(rules=rules, budget=2), max_depth=3).fit(table, y)
        check(model, table, y, np.ones(14), 3, 1)

    def test_without_an_attacker_it_is_a_regression_tree(self, numbers: Table) -> None:
        X, y = numbers
        ours = TreantClassifier(thresholds="midway", max_depth=5).fit(X, y)
        theirs = DecisionTreeRegressor(max_depth=5, random_state=0).fit(X, y)
        error = [((p - y) ** 2).sum() for p in (ours.predict_proba(X)[:, 1], theirs.predict(X))]
        assert error[0] == pytest.approx(error[1], rel=0.02)

    def test_a_radius_as_rules_gives_the_same_tree(self, numbers: Table) -> None:
        X, y = numbers
        rules = [AttackRule(j, add=step) for j in range(3) for step in (-0.1, 0.1)]
        as_rules = ThreatModel(rules=rules, budget=3, repeat=False)
        for thresholds in ("values", "midway"):
            trees = [
                TreantClassifier(threat, max_depth=4, thresholds=thresholds).fit(X, y).ensemble_
                for threat in (0.1, as_rules)
            ]
            assert trees[0].to_json() == trees[1].to_json()

    def test_a_budget_lies_between_nothing_and_everything(self, numbers: Table) -> None:
        """The loss under attack that the tree is left with grows with the budget."""
        X, y = numbers
        rules = [AttackRule(j, add=step) for j in range(3) for step in (-0.3, 0.3)]
        scores = []
        for budget in (0, 1, 2, 3):
            threat = ThreatModel(rules=rules, budget=budget, repeat=False)
            model = TreantClassifier(threat, max_depth=4).fit(X, y)
            scores.append(adversarial_accuracy(model, X, y, threat))
        assert scores == sorted(scores, reverse=True)
        assert scores[0] > scores[-1] > 0.5

    def test_whole_numbers_split_midway(self) -> None:
        """At a value of the table, a row with that value can be pushed across by however little; midway it cannot."""
        X, y = np.repeat([[0.0], [1.0], [2.0], [3.0]], 5, axis=0), np.repeat([0, 0, 1, 1], 5)
        scores = {
            thresholds: adversarial_accuracy(TreantClassifier(0.1, thresholds=thresholds).fit(X, y), X, y, 0.1)
            for thresholds in ("values", "midway")
        }
        assert scores == {"values": 0.75, "midway": 1.0}

    def test_rounding_makes_no_gaps(self) -> None:
        """7.0 + 0.1 and 7.2 - 0.1 differ in the last bit only: no threshold tells them apart."""
        X = np.array([[7.0], [7.0], [7.2], [7.2]])
        for thresholds in ("values", "midway"):
            model = TreantClassifier(0.1, thresholds=thresholds).fit(X, [0, 0, 1, 1])
            assert adversarial_accuracy(model, X, [0, 0, 1, 1], 0.1) >= 0.5

    def test_midway_between_numbers_beside_categories(self) -> None:
        """Categories have infinite ends, and the middle between two infinities warned of an invalid value."""
        X = pd.DataFrame({"x": [1.0, 2.0, 5.0, 6.0], "c": pd.Categorical(["a", "b", "a", "b"])})
        model = TreantClassifier({"x": 1.0, "c": "<>"}, thresholds="midway").fit(X, [0, 0, 1, 1])
        assert model.ensemble_.threshold[0] == 3.5


def check(model: TreantClassifier, X: Any, y: np.ndarray, weight: np.ndarray, max_depth: int, min_leaf: int) -> None:
    """Hold a tree against the definition, and see that attackers end where they were counted (attack invariance)."""
    tree = model.ensemble_
    reach = model.threat_.price(tree.schema, tree.labels)
    matrix = tree.schema.encode(X)
    table = treanting.Table(matrix, y, weight, reach, model.loss)
    ends = treanting.check_tree(tree, table, max_depth, 2, min_leaf)
    worst = attack_priced_tree(tree, reach, matrix, y).worst
    for row, leaf in ends.items():
        value = tree.value[leaf]
        assert worst[row] == pytest.approx(value[y[row]] - value[1 - y[row]])


class TestEstimator:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("threat", -1.0),
            ("threat", {"age": 1.0}),
            ("attacking_classes", 7),
            ("loss", "gini"),
            ("loss", None),
            ("thresholds", "all"),
            ("thresholds", None),
            ("max_depth", 0),
            ("min_samples_split", 1),
            ("min_samples_leaf", 0),
            ("class_weight", "even"),
            ("categorical_features", ["color"]),
            ("n_jobs", 0),
        ],
        ids=str,
    )
    def test_a_bad_value_is_named(self, numbers: Table, name: str, value: Any) -> None:
        with pytest.raises((ValueError, TypeError), match=name):
            TreantClassifier(**{name: value}).fit(*numbers)

    def test_threads_change_nothing(self, numbers: Table) -> None:
        one, three = (TreantClassifier(0.1, max_depth=4, n_jobs=n).fit(*numbers) for n in (1, 3))
        assert one.ensemble_.to_json() == three.ensemble_.to_json()

    def test_weights_count_rows(self, numbers: Table) -> None:
        X, y = numbers
        weight = np.random.default_rng(0).integers(0, 3, len(y))
        weighed = TreantClassifier(0.05, max_depth=3).fit(X, y, sample_weight=weight)
        repeated = TreantClassifier(0.05, max_depth=3).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
        assert np.array_equal(weighed.ensemble_.threshold, repeated.ensemble_.threshold)
        assert np.allclose(weighed.ensemble_.value, repeated.ensemble_.value)

    def test_a_class_that_weighs_nothing(self, numbers: Table) -> None:
        X, y = numbers
        model = TreantClassifier(0.1, class_weight={0: 0.0, 1: 1.0}).fit(X, y)
        assert model.get_n_leaves() == 1
        assert set(model.predict(X)) == {1}

    def test_tables_of_all_kinds(self, frame: tuple[pd.DataFrame, pd.Series]) -> None:
        X, y = frame
        rules = [AttackRule("income", add=2), AttackRule("color", when="red", set_to="blue")]
        threat = ThreatModel({"age": 1}, rules=rules, budget=1, attacking_classes="yes")
        model = clone(TreantClassifier(threat, max_depth=4)).fit(X, y)
        assert model.score(X, y) > 0.7
        assert 0.5 < adversarial_accuracy(model, X, y, threat) <= model.score(X, y)
        assert model.feature_names_in_.tolist() == list(X.columns)
        assert model.ensemble_.schema == Schema.from_table(X)

    def test_it_is_robust_where_a_greedy_tree_is(self, numbers: Table) -> None:
        X, y = numbers
        treant = TreantClassifier(0.3, max_depth=4).fit(X, y)
        groot = RobustTreeClassifier(0.3, max_depth=4).fit(X, y)
        natural = RobustTreeClassifier(max_depth=4).fit(X, y)
        scores = [adversarial_accuracy(model, X, y, 0.3) for model in (treant, groot, natural)]
        assert scores[0] > scores[1] - 0.05
        assert scores[0] > scores[2] + 0.05


def test_distances_beyond_the_largest_number() -> None:
    """How far a value can be moved was infinite where both ends were numbers, and NumPy warned of an overflow."""
    X, y = np.array([[1e308], [-1e308]] * 5), np.array([0, 1] * 5)
    model = TreantClassifier(1e308, max_depth=2).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
