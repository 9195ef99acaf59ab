"""Attack rules: their words, what they allow, and attacks that pay for what they change."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from hardwood import (
    AttackRule,
    RobustTreeClassifier,
    ThreatModel,
    adversarial_accuracy,
    as_ensemble,
    attack,
    is_vulnerable,
    verify,
)
from hardwood.table import Schema
from reference import ruling

inf = np.inf
SEEDS = st.integers(0, 2**32 - 1)
GRID = st.integers(-8, 8).map(lambda k: k * ruling.STEP)
COSTS = st.sampled_from([0.5, 1.0, 2.0])
STEPS = GRID | st.tuples(GRID, GRID).map(lambda pair: tuple(sorted(pair)))
CONDITIONS = st.none() | st.tuples(GRID, GRID).map(lambda pair: tuple(sorted(pair)))


def rules_for(feature: int) -> st.SearchStrategy[AttackRule]:
    adding = st.builds(AttackRule, st.just(feature), CONDITIONS, STEPS, st.none(), COSTS)
    setting = st.builds(AttackRule, st.just(feature), CONDITIONS, st.none(), GRID, COSTS)
    return adding | setting


def radius_as_rules(radius: float, n_features: int, **options: Any) -> ThreatModel:
    """The paper's encoding of an L-infinity radius: a step down, a step up, each feature once."""
    rules = [AttackRule(j, add=step) for j in range(n_features) for step in (-radius, radius)]
    return ThreatModel(rules=rules, budget=n_features, repeat=False, **options)


class TestWords:
    def test_a_step_is_anything_up_to_it(self) -> None:
        assert AttackRule("age", add=2) == AttackRule("age", add=(0, 2))
        assert AttackRule("age", add=-2) == AttackRule("age", add=(-2, 0))
        assert AttackRule("age", add=(2, 2)) != AttackRule("age", add=2)

    @pytest.mark.parametrize(
        ("parameters", "problem"),
        [
            ({"feature": 1.5, "add": 1}, "feature: 1.5"),
            ({"feature": True, "add": 1}, "feature: True"),
            ({"feature": "age"}, "feature 'age': add=None, set_to=None"),
            ({"feature": "age", "add": 1, "set_to": 2}, "add=1, set_to=2"),
            ({"feature": "age", "add": float("nan")}, "add=nan"),
            ({"feature": "age", "add": "far"}, "add='far'"),
            ({"feature": "age", "add": (2, 1)}, "add=(2, 1)"),
            ({"feature": "age", "add": (1, 2, 3)}, "add=(1, 2, 3)"),
            ({"feature": "age", "add": (inf, inf)}, "add=(inf, inf)"),
            ({"feature": "age", "add": 1, "when": (2, 1)}, "when=(2, 1)"),
            ({"feature": "age", "add": 1, "when": "red"}, "when='red'"),
            ({"feature": "age", "set_to": 1, "when": []}, "when=[]"),
            ({"feature": "age", "add": 1, "cost": 0}, "cost=0"),
            ({"feature": "age", "add": 1, "cost": inf}, "cost=inf"),
            ({"feature": "age", "add": 1, "cost": "free"}, "cost='free'"),
            ({"feature": "age", "set_to": inf}, "set_to: inf"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_a_bad_rule_is_named(self, parameters: dict[str, Any], problem: str) -> None:
        with pytest.raises(ValueError, match=re.escape(problem)):
            AttackRule(**parameters)
        with pytest.raises(ValueError, match=re.escape("rules[1]: ") + ".*" + re.escape(problem)):
            ThreatModel(rules=[AttackRule(0, add=1), parameters], budget=1)

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            ({"rules": "up"}, "rules='up'"),
            ({"rules": [1], "budget": 1}, "rules[0]: 1 is not"),
            ({"rules": [{"add": 1}], "budget": 1}, "rules[0]: feature: missing"),
            ({"rules": [{"feature": 0, "by": 1}], "budget": 1}, "unknown key 'by'"),
            ({"rules": [AttackRule(0, add=1)]}, "budget"),
            ({"rules": [AttackRule(0, add=1)], "budget": -1}, "budget=-1"),
            ({"rules": [AttackRule(0, add=1)], "budget": inf}, "budget=inf"),
            ({"rules": [AttackRule(0, add=1)], "budget": "all"}, "budget='all'"),
            ({"budget": 1}, "budget=1"),
            ({"rules": [AttackRule(0, add=1)], "budget": 1, "repeat": "once"}, "repeat='once'"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_a_bad_threat_is_named(self, options: dict[str, Any], problem: str) -> None:
        with pytest.raises(ValueError, match=re.escape(problem)):
            ThreatModel(**options)

    @pytest.mark.parametrize(
        ("rule", "features", "problem"),
        [
            (AttackRule("height", add=1), None, "rules[0]: AttackRule('height', add=1.0): there is no such column"),
            (AttackRule("age", add=1), {"age": 2}, "can be moved at no cost (2.0)"),
            (AttackRule("color", add=1), None, "attack rule for feature 'color': add=(0.0, 1.0) is for numbers"),
            (AttackRule("age", when="old", set_to=1), None, "attack rule for feature 'age': when=('old',)"),
            (AttackRule("age", set_to="old"), None, "attack rule for feature 'age': set_to='old'"),
            (AttackRule("color", when="pink", set_to="grey"), None, "'color': there is no category 'pink' in"),
            (AttackRule("color", set_to="bleu"), None, "no category 'bleu' in the table, did you mean 'blue'?"),
        ],
        ids=repr,
    )
    def test_a_rule_that_does_not_suit_the_table(self, rule: AttackRule, features: Any, problem: str) -> None:
        schema = Schema(2, ("age", "color"), (None, ("blue", "red")))
        with pytest.raises(ValueError, match=re.escape(problem)):
            ThreatModel(features, rules=[rule], budget=1).price(schema)

    def test_who_does_not_understand_rules_says_so(self) -> None:
        """A reach without costs would be another threat: nobody may take one for the other."""
        threat = radius_as_rules(0.1, 1)
        with pytest.raises(ValueError, match="attack rules"):
            threat.resolve(Schema.numeric(1))
        with pytest.raises(ValueError, match="attack rules"):
            RobustTreeClassifier(threat).fit([[0.0], [1.0]], [0, 1])

    @given(st.lists(rules_for(0) | rules_for(1), min_size=1, max_size=4), st.integers(0, 5), st.booleans())
    def test_toml_and_copies(self, rules: list[AttackRule], budget: float, repeat: bool) -> None:
        threat = ThreatModel({2: 0.5}, attacking_classes=[1], rules=rules, budget=budget, repeat=repeat)
        for same in (
            ThreatModel.parse(threat.to_toml()),
            pickle.loads(pickle.dumps(threat)),
            ThreatModel(threat),
            eval(repr(threat), {"ThreatModel": ThreatModel, "AttackRule": AttackRule}),
        ):
            assert same == threat
            assert (same.rules, same.budget, same.repeat) == (rules, budget, repeat)
        assert threat != ThreatModel({2: 0.5}, attacking_classes=[1], rules=rules, budget=budget + 1, repeat=repeat)
        assert threat != ThreatModel({2: 0.5}, attacking_classes=[1])

    def test_toml_of_categories(self) -> None:
        threat = ThreatModel(
            rules=[AttackRule("color", when=["red", "green"], set_to="blue", cost=2)], budget=inf, repeat=False
        )
        assert ThreatModel.parse(threat.to_toml()) == threat
        assert threat.to_toml() == (
            'budget = inf\nrepeat = false\n\n[[rules]]\nfeature = "color"\nwhen = ["red", "green"]\n'
            'set_to = "blue"\ncost = 2.0\n'
        )


class TestMeaning:
    @given(st.lists(rules_for(0), min_size=1, max_size=3), GRID, st.sampled_from([0, 0.5, 1, 2.5, 3]), st.booleans())
    def test_pieces_are_what_rules_make(
        self, rules: list[AttackRule], value: float, budget: float, repeat: bool
    ) -> None:
        reach = ThreatModel(rules=rules, budget=budget, repeat=repeat).price(Schema.numeric(1))
        low, high, cost = (array[0] for array in reach.pieces(np.array([[value]]), None, 0))
        assert (np.diff(cost[np.isfinite(cost)]) >= 0.0).all()
        expected = ruling.least_costs(rules, value, budget, repeat)
        for point in np.arange(-80, 81) * ruling.STEP:
            inside = (low <= point) & (point <= high)
            assert np.where(inside, cost, inf).min() == expected.get(point, inf), point

    def test_steps_of_a_tenth_fit_into_a_budget_of_one(self) -> None:
        threat = ThreatModel(rules=[AttackRule(0, add=1, cost=0.1)], budget=1)
        assert threat.contains([[0.0]] * 2, [[9.9], [11.0]]).tolist() == [True, False]

    def test_an_exact_step(self) -> None:
        threat = ThreatModel(rules=[AttackRule(0, add=(2, 2))], budget=2)
        rows, changed = [[1.0]] * 5, [[1.0], [3.0], [5.0], [2.0], [7.0]]
        assert threat.contains(rows, changed).tolist() == [True, True, True, False, False]

    def test_the_budget_is_shared_and_reach_is_free(self) -> None:
        rules = [AttackRule(0, add=1), AttackRule(1, add=1)]
        threat = ThreatModel([None, None, 0.5], rules=rules, budget=1, attacking_classes=[1])
        rows = [[0.0, 0.0, 0.0]] * 4
        changed = [[1.0, 0.0, 0.5], [1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
        assert threat.contains(rows, changed, y=[1, 1, 0, 0]).tolist() == [True, False, False, True]

    @pytest.mark.parametrize("repeat", [False, True])
    def test_categories(self, repeat: bool) -> None:
        labels = ("a", "b", "c", "d")
        rules = [
            AttackRule("letter", when="a", set_to="b", cost=1),
            AttackRule("letter", when=["b", "d"], set_to="c", cost=1),
            AttackRule("letter", when="a", set_to="c", cost=3),
            AttackRule("letter", set_to="d", cost=5),
        ]
        schema = Schema(1, ("letter",), (labels,))
        cost = ThreatModel(rules=rules, budget=9, repeat=repeat).price(schema).category_cost[0]
        assert cost is not None
        for a, before in enumerate(labels):
            expected = ruling.least_costs(rules, before, inf, repeat, categorical=True)
            assert cost[a, :4].tolist() == [expected.get(after, inf) for after in labels]

    def test_a_threat_names_categories_that_the_table_lacks(self) -> None:
        table = pd.DataFrame({"color": pd.Categorical(["red", "blue"])})
        rules = [AttackRule("color", when="red", set_to="pink")]
        threat = ThreatModel(rules=rules, budget=1, unseen_categories="allow")
        assert threat.extend(Schema.from_table(table)).categories == (("blue", "red", "pink"),)
        changed = pd.DataFrame({"color": ["pink", "pink"]})
        assert threat.contains(table, changed).tolist() == [True, False]
        ignoring = ThreatModel(rules=rules, budget=1, unseen_categories="ignore")
        cost = ignoring.price(Schema.from_table(table)).category_cost[0]
        assert np.array_equal(cost, np.where(np.eye(3, dtype=bool), 0.0, np.inf))

    def test_too_many_steps(self) -> None:
        threat = ThreatModel(rules=[AttackRule(0, add=(1e-3, 1e-3), cost=1e-6)], budget=1)
        with pytest.raises(ValueError, match="budget=1: it pays for too many steps"):
            threat.contains([[0.0]], [[1.0]])


def random_table(seed: int, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = generator.integers(-4, 5, (30, n_features)) * ruling.STEP
    return X, generator.integers(0, 2, 30)


def on_grid(model: Any) -> Any:
    """The same model with thresholds on the grid."""
    ensemble = as_ensemble(model)
    return replace(ensemble, threshold=np.floor(ensemble.threshold / ruling.STEP) * ruling.STEP)


class TestAttacks:
    @pytest.mark.parametrize("n_trees", [1, 3])
    @given(
        SEEDS,
        st.lists(rules_for(0) | rules_for(1), min_size=1, max_size=4),
        st.sampled_from([1, 2, 3.5]),
        st.booleans(),
    )
    def test_agree_with_trying_everything(
        self, n_trees: int, seed: int, rules: list[AttackRule], budget: float, repeat: bool
    ) -> None:
        X, y = random_table(seed, 2)
        assume(len(np.unique(y)) == 2)
        if n_trees == 1:
            model = DecisionTreeClassifier(max_depth=4, random_state=0).fit(X, y)
        else:
            model = RandomForestClassifier(n_trees, max_depth=3, random_state=0).fit(X, y)
        trees = on_grid(model)
        threat = ThreatModel(rules=rules, budget=budget, repeat=repeat)
        result = attack(trees, X[:8], y[:8], threat)
        status = verify(trees, X[:8], y[:8], threat).status
        vulnerable = is_vulnerable(trees, X[:8], y[:8], threat)
        for k in range(8):
            options = [
                ruling.least_costs([r for r in rules if r.feature == j], X[k, j], budget, repeat) for j in range(2)
            ]
            expected = ruling.cheapest_example(trees, X[k], int(y[k]), options, budget)
            assert result.distance[k] == expected
            assert vulnerable[k] == (expected < inf)
            assert status[k] == ("vulnerable" if expected < inf else "robust")
        if result.found.any():
            assert threat.contains(X[:8][result.found], result.X_adv[result.found]).all()

    @pytest.mark.parametrize("kind", ["tree", "forest"])
    @pytest.mark.parametrize("radius", [0.1, 0.5])
    def test_a_radius_written_as_rules(self, numbers: tuple[np.ndarray, np.ndarray], kind: str, radius: float) -> None:
        """Decimal values and a decimal radius: the last bit of every sum matters, and is the same."""
        X, y = numbers
        maker = RandomForestClassifier(5, max_depth=4, random_state=0)
        model = (maker if kind == "forest" else DecisionTreeClassifier(random_state=0)).fit(X, y)
        rules = radius_as_rules(radius, X.shape[1])
        assert np.array_equal(is_vulnerable(model, X, y, rules), is_vulnerable(model, X, y, radius))
        assert np.array_equal(verify(model, X, y, rules).status, verify(model, X, y, radius).status)
        assert adversarial_accuracy(model, X, y, rules) == adversarial_accuracy(model, X, y, radius)
        assert np.array_equal(attack(model, X, y, rules).found, attack(model, X, y, radius).found)
        assert 0.0 < adversarial_accuracy(model, X, y, rules) < model.score(X, y)

    def test_a_row_on_the_edge_of_its_reach(self) -> None:
        model = RobustTreeClassifier().fit([[0.0], [1.0]], [0, 1])
        rows = np.array([[0.4], [np.nextafter(0.4, 1.0)], [0.6], [np.nextafter(0.6, 1.0)]])
        labels = [0, 0, 1, 1]
        assert np.array_equal(
            is_vulnerable(model, rows, labels, radius_as_rules(0.1, 1)), is_vulnerable(model, rows, labels, 0.1)
        )

    @pytest.mark.parametrize("kind", ["tree", "forest"])
    def test_more_budget_never_helps_the_model(self, numbers: tuple[np.ndarray, np.ndarray], kind: str) -> None:
        X, y = numbers
        maker = RandomForestClassifier(7, max_depth=4, random_state=0)
        model = (maker if kind == "forest" else DecisionTreeClassifier(max_depth=5, random_state=0)).fit(X, y)
        rules = [AttackRule(j, when=(-1, 1), add=step) for j in range(3) for step in (-0.2, 0.2)]
        scores = [adversarial_accuracy(model, X, y, ThreatModel(rules=rules, budget=b)) for b in (0, 1, 2, 3, 4)]
        assert scores == sorted(scores, reverse=True)
        assert scores[0] == model.score(X, y)
        assert scores[-1] < scores[1] < scores[0]

    @pytest.mark.parametrize("kind", ["tree", "forest"])
    def test_categories_and_numbers(self, frame: tuple[pd.DataFrame, pd.Series], kind: str) -> None:
        """Every combination of categories and of numbers on either side of every threshold is tried."""
        X, y = frame
        first = RobustTreeClassifier({"income": 1.0}, max_depth=3).fit(X, y).ensemble_
        trees = first
        if kind == "forest":
            second = RobustTreeClassifier(max_depth=3).fit(X[:120], y[:120]).ensemble_
            assert second.schema == first.schema
            trees = merge(first, second)
        rules = [
            AttackRule("color", when="red", set_to="blue", cost=2),
            AttackRule("color", set_to="green", cost=1),
            AttackRule("income", when=(20, 40), add=3),
            AttackRule("income", add=-2, cost=2),
        ]
        threat = ThreatModel(rules=rules, budget=3)
        label = np.searchsorted(trees.labels, y[:40])
        matrix = trees.schema.encode(X[:40])
        reach = threat.price(trees.schema, trees.labels)
        result = attack(trees, X[:40], y[:40], threat)
        splits = trees.threshold[(trees.feature == 2) & (trees.category_start < 0)]
        for k, row in enumerate(matrix):
            values = np.concatenate([[row[2]], splits, np.nextafter(splits, inf)])
            best = inf
            for value in values:
                for code in range(4):
                    point = row.copy()
                    point[1], point[2] = code, value
                    cost = reach.price(row[None], point[None], None)[0]
                    if cost <= 3 and trees.decide(point[None])[0] != label[k]:
                        best = min(best, cost)
            assert result.distance[k] == best
        assert set(result.distance.tolist()) >= {0.0, 1.0, inf}

    def test_what_a_certificate_says(self) -> None:
        model = RobustTreeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
        threat = ThreatModel(rules=[AttackRule(0, add=1.0)], budget=1)
        said: list[tuple[int, int]] = []
        certificate = verify(model, [[0.0], [1.0]], [0, 0], threat, progress=lambda *counts: said.append(counts))
        assert said == [(2, 2)]
        assert certificate.status.tolist() == ["robust", "vulnerable"]
        assert certificate.lower.tolist() == [1.0, -1.0]
        assert certificate.upper.tolist() == [1.0, -1.0]

    def test_time_that_runs_out_is_unknown(self) -> None:
        generator = np.random.default_rng(0)
        X = generator.normal(size=(300, 6))
        y = (X.sum(axis=1) + generator.normal(size=300) > 0).astype(int)
        model = RandomForestClassifier(40, random_state=0).fit(X, y)
        rules = [AttackRule(j, add=step) for j in range(6) for step in (-0.6, 0.6)]
        threat = ThreatModel(rules=rules, budget=3, repeat=False)
        certificate = verify(model, X[:40], y[:40], threat, time_limit=0)
        assert "unknown" in certificate.status
        with pytest.raises(TimeoutError, match="undecided"):
            is_vulnerable(model, X[:40], y[:40], threat, time_limit=0)

    def test_a_norm_is_refused(self, numbers: tuple[np.ndarray, np.ndarray]) -> None:
        X, y = numbers
        model = DecisionTreeClassifier(max_depth=2).fit(X, y)
        with pytest.raises(ValueError, match="norm=1"):
            attack(model, X, y, radius_as_rules(0.1, 3), norm=1)
        with pytest.raises(ValueError, match="feature_weight"):
            attack(model, X, y, radius_as_rules(0.1, 3), feature_weight=[1, 1, 1])


def merge(first: Any, second: Any) -> Any:
    """Two trees with the same schema as one ensemble that averages them."""
    n, words = first.n_nodes, len(first.category_words)

    def shift(children: np.ndarray) -> np.ndarray:
        return np.where(children < 0, -1, children + n)

    def join(name: str) -> np.ndarray:
        return np.concatenate([getattr(first, name), getattr(second, name)])

    return replace(
        first,
        root=np.array([0, n], dtype=np.int32),
        left=np.concatenate([first.left, shift(second.left)]).astype(np.int32),
        right=np.concatenate([first.right, shift(second.right)]).astype(np.int32),
        category_start=np.concatenate(
            [first.category_start, np.where(second.category_start < 0, -1, second.category_start + words)]
        ),
        divisor=2.0,
        **{n: join(n) for n in ("feature", "threshold", "value", "cover", "missing_left", "category_words")},
    )


def test_a_budget_of_nothing_stays_nothing() -> None:
    """0 times infinity is not a number, and so was the budget."""
    threat = ThreatModel(rules=[AttackRule(0, add=1)], budget=0, repeat=False)
    assert threat.scaled(np.inf).budget == 0.0


def test_missing_values_are_not_bought() -> None:
    """`contains` took a missing category for a place in the table of prices, far outside of it: an IndexError."""
    table = pd.DataFrame({"x": [1.0, np.nan], "color": pd.Categorical(["red", None], ["blue", "red"])})
    schema = replace(Schema.from_table(table.iloc[:1]), accepts_missing=True)
    threat = ThreatModel(rules=[AttackRule("color", set_to="blue"), AttackRule("x", add=1)], budget=1)
    assert threat.contains(table, table, schema=schema).tolist() == [True, True]
    assert threat.contains(table, table.iloc[::-1], schema=schema).tolist() == [False, False]
    assert threat.contains(table, table.assign(x=[2.0, np.nan]), schema=schema).tolist() == [True, True]
