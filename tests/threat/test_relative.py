"""Relative distances: shares of the value, standard deviations and interquartile ranges of the training column."""

import pickle
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from hardwood import (
    OptimalRobustTreeClassifier,
    RobustTreeClassifier,
    ThreatModel,
    adversarial_accuracy,
    as_ensemble,
    attack,
    evaluate,
    refine,
    verify,
)
from hardwood.table import Schema
from reference import attacking, enumerating, growing

NORMS = [np.inf, 2, 1, 0]
SHARES: list[Any] = ["10%", "25%", "60%", "150%", ("30%", 0), (0, "40%"), ("20%", 1), ">", None, 0.5]


class TestWords:
    @pytest.mark.parametrize(
        ("given_as", "kept"),
        [
            ("10%", "10%"),
            (" 10.0 % ", "10%"),
            ("1e1%", "10%"),
            ("0.5std", "0.5 std"),
            (".5 std", "0.5 std"),
            ("2  iqr", "2 iqr"),
            ("0%", None),
            ("0 std", None),
            (("10%", 0), ("10%", 0.0)),
            (("10%", "10%"), "10%"),
            (["10%", "1 std"], ("10%", "1 std")),
            (("0%", "0 iqr"), None),
            (np.str_("5%"), "5%"),
        ],
    )
    def test_the_shortest_spelling_is_kept(self, given_as: Any, kept: Any) -> None:
        threat = ThreatModel({"income": given_as, "age": 1})
        assert threat.features["income"] == kept
        assert threat == ThreatModel({"income": kept, "age": 1})
        assert ThreatModel.parse(threat.to_toml()) == threat

    def test_one_for_all_columns(self) -> None:
        assert repr(ThreatModel("10%")) == "ThreatModel('10%')"
        assert ThreatModel.parse('features = "0.5 std"') == ThreatModel("0.5 std")

    @pytest.mark.parametrize(
        ("entry", "problem"),
        [
            ("-10%", "'-10%' is negative"),
            (("-1 std", 0), "'-1 std' is negative"),
            ("1e999%", "'1e999%' is too large"),
            ("10 percent", "'10 percent' is not understood"),
            ("10", "'10' is not understood"),
            ("%", "'%' is not understood"),
            ("nan std", "'nan std' is not understood"),
            (("10", 0), "'10' is not a distance"),
        ],
    )
    def test_what_is_not_understood_is_named(self, entry: Any, problem: str) -> None:
        with pytest.raises(ValueError, match=f"^threat for feature 'age': {problem}"):
            ThreatModel({"age": entry})

    def test_scaled(self) -> None:
        threat = ThreatModel({"a": "10%", "b": ("1 std", 2), "c": "2 iqr"})
        assert threat.scaled(0.5) == ThreatModel({"a": "5%", "b": ("0.5 std", 1), "c": "1 iqr"})
        assert threat.scaled(np.inf) == ThreatModel({"a": np.inf, "b": np.inf, "c": np.inf})
        assert threat.scaled(0.0) == ThreatModel(None)


class TestSettling:
    def test_spreads_become_numbers_once(self) -> None:
        table = pd.DataFrame({"a": [1.0, 2.0, 4.0, 9.0], "b": [0.0, 0.0, 0.0, 8.0], "c": pd.Categorical(list("xxyy"))})
        schema = Schema.from_table(table)
        matrix = schema.encode(table)
        settled = ThreatModel({"a": ("0.5 std", "2 iqr"), "b": "10%"}).settle(table, matrix, schema)
        low, high = np.quantile(table["a"], [0.25, 0.75])
        assert settled.features == {"a": (0.5 * np.std(table["a"].to_numpy()), 2 * (high - low)), "b": "10%"}
        assert settled.settle(table, matrix, schema) is settled
        everywhere = ThreatModel("1 std").settle(table, matrix, schema)
        assert everywhere.features == {"a": np.std(matrix[:, 0]), "b": np.std(matrix[:, 1])}
        numbers = np.array([[1.0, 5.0], [np.nan, 5.0], [4.0, 5.0]])
        assert ThreatModel("2 std").settle(numbers, numbers, Schema.numeric(2)).features == [3.0, None]

    def test_tables_of_half_the_precision(self) -> None:
        """A table of float32 may stay so for a grower on bins, and in float32 its spread is off."""
        values = (1e4 + np.random.default_rng(0).normal(size=(5000, 1))).astype(np.float32)
        settled = ThreatModel("1 std").settle(values, values, Schema.numeric(1))
        assert settled.features == [pytest.approx(np.std(values.astype(np.float64)), rel=1e-12)]

    def test_a_table_is_needed(self) -> None:
        with pytest.raises(ValueError, match="threat for feature 1: '1 std' is measured on a table, and here is none"):
            ThreatModel([1, "1 std"]).resolve(Schema.numeric(2))
        with pytest.raises(ValueError, match="threat for feature 0: '1 iqr': the table has 1 values of it, too few"):
            attack(DecisionTreeClassifier().fit([[0.0], [1.0]], [0, 1]), [[0.0]], [0], "1 iqr")

    def test_a_trained_model_keeps_numbers(self) -> None:
        """Rows that are asked about later do not change them."""
        X = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0], [8.0, 80.0]])
        model = RobustTreeClassifier(ThreatModel(["0.5 std", "10%"])).fit(X, [0, 0, 1, 1])
        wanted = ThreatModel([0.5 * np.std(X[:, 0]), "10%"])
        assert model.threat_ == wanted
        assert pickle.loads(pickle.dumps(model)).threat_ == ThreatModel.parse(model.threat_.to_toml()) == wanted


@given(
    x=st.floats(-1e6, 1e6),
    percent=st.sampled_from([1, 10, 33.3, 100, 250]),
    sides=st.sampled_from(["both", "left", "right"]),
    whole=st.booleans(),
)
def test_the_reach_of_a_value_is_a_share_of_it(x: float, percent: float, sides: str, whole: bool) -> None:
    x = float(np.floor(x)) if whole else x
    entry = {"both": f"{percent}%", "left": (f"{percent}%", 0), "right": (0, f"{percent}%")}[sides]
    reach = ThreatModel([entry, 1.0], whole_numbers=[0] if whole else None).resolve(Schema.numeric(2))
    low, high = reach.box(np.array([[x, 0.0]]), None)
    distance = percent / 100 * abs(x)
    distance = np.floor(distance + 1e-9) if whole else distance
    assert low[0].tolist() == [x - distance if sides != "right" else x, -1.0]
    assert high[0].tolist() == [x + distance if sides != "left" else x, 1.0]
    column = reach.interval(np.array([x]), 0)
    assert [column[0][0], column[1][0]] == [low[0, 0], high[0, 0]]


def random_problem(seed: int) -> tuple[np.ndarray, np.ndarray, ThreatModel]:
    """Return a column of whole numbers and two of others, on both sides of 0, and shares as an attacker."""
    generator = np.random.default_rng(seed)
    n_rows = int(generator.integers(8, 40))
    X = np.column_stack([generator.integers(-4, 12, n_rows), generator.integers(-30, 80, (n_rows, 2)) / 10])
    y = (X.sum(axis=1) + generator.normal(0.0, 3.0, n_rows) > 9.0).astype(int)
    y[:2] = 0, 1
    entries = [SHARES[k] for k in generator.integers(len(SHARES), size=3)]
    entries[generator.integers(3)] = SHARES[generator.integers(7)]
    attackers = [None, None, [0], [1]][generator.integers(4)]
    within = {j: (-4.0, 12.0) for j in range(3) if generator.random() < 0.3}
    return X, y, ThreatModel(entries, attackers, whole_numbers=[0] if generator.random() < 0.5 else None, within=within)


class TestTraining:
    @given(seed=st.integers(0, 10**6), rho=st.sampled_from([1.0, 0.7]), criterion=st.sampled_from(["gini", "entropy"]))
    def test_every_split_is_the_best(self, seed: int, rho: float, criterion: str) -> None:
        """By an oracle that tries all splits and reads off the box where each row can get to."""
        X, y, threat = random_problem(seed)
        growing.check_fit(RobustTreeClassifier(threat, max_depth=4, rho=rho, criterion=criterion), X, y)

    @pytest.mark.parametrize("seed", range(4))
    def test_refined_trees_are_judged_by_shares(self, seed: int) -> None:
        X, y, threat = random_problem(seed)
        greedy = RobustTreeClassifier(threat, max_depth=3).fit(X, y)
        refined = refine(greedy, X, y, price=0.0, max_depth=3)
        assert adversarial_accuracy(refined, X, y, threat) >= adversarial_accuracy(greedy, X, y, threat) - 1e-12

    def test_the_optimal_tree_is_the_best_of_all_stumps(self) -> None:
        generator = np.random.default_rng(3)
        X, y = generator.uniform(-2, 8, (25, 1)), generator.integers(0, 2, 25)
        y[:2] = 0, 1
        model = OptimalRobustTreeClassifier("30%", max_depth=1).fit(X, y)
        low, high = X[:, 0] - 0.3 * abs(X[:, 0]), X[:, 0] + 0.3 * abs(X[:, 0])
        best = 0
        for cut, labels in product(np.concatenate([low, high, [-9.0]]), product((0, 1), repeat=2)):
            fooled = ((low <= cut) & (labels[0] != y)) | ((high > cut) & (labels[1] != y))
            best = max(best, int((~fooled).sum()))
        assert adversarial_accuracy(model, X, y, "30%") == pytest.approx(best / 25)

    def test_what_cannot_be_trained_is_refused(self) -> None:
        X, y = np.array([[1.0, 2.0], [3.0, 4.0]]), [0, 1]
        with pytest.raises(ValueError, match="attacker='chen': knows no shares of a value"):
            RobustTreeClassifier("10%", attacker="chen").fit(X, y)

    @given(seed=st.integers(0, 10**6), rho=st.sampled_from([1.0, 0.6]))
    def test_beside_categories(self, seed: int, rho: float) -> None:
        """Bins, which take no categories, were once the only way to train against shares."""
        X, y, threat = random_problem(seed)
        generator = np.random.default_rng(seed)
        table = pd.DataFrame(X, columns=["n", "a", "b"])
        table["c"] = pd.Categorical(generator.choice(["red", "blue", "teal"], len(X)))
        features = dict(zip(table.columns, threat.features, strict=False)) | {"c": {"red": ["blue"]}}
        whole = ["n"] if threat.whole_numbers else []
        words = ThreatModel(features, threat.attacking_classes, whole_numbers=whole, unseen_categories="ignore")
        growing.check_fit(RobustTreeClassifier(words, max_depth=4, rho=rho), table, y)

    @given(seed=st.integers(0, 10**6), rho=st.sampled_from([1.0, 0.4]), n_jobs=st.sampled_from([1, 2]))
    def test_bins_for_all_ends_are_the_same_tree(self, seed: int, rho: float, n_jobs: int) -> None:
        X, y, threat = random_problem(seed)
        weight = np.random.default_rng(seed).choice([0.5, 1.0, 2.0], len(X))
        model = RobustTreeClassifier(threat, rho=rho, n_jobs=n_jobs)
        exact = model.fit(X, y, weight).ensemble_
        binned = model.set_params(max_bins=250).fit(X, y, weight).ensemble_
        np.testing.assert_array_equal(exact.feature, binned.feature)
        np.testing.assert_allclose(exact.threshold, binned.threshold, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(exact.value, binned.value, rtol=0.0, atol=1e-9)


MODELS: dict[str, Any] = {
    "hardwood": lambda threat, seed: RobustTreeClassifier(threat, max_depth=4),
    "forest": lambda threat, seed: RandomForestClassifier(5, max_depth=4, random_state=seed),
    "boosting": lambda threat, seed: GradientBoostingClassifier(n_estimators=4, max_depth=3, random_state=seed),
}


def check_answers(model: Any, X: np.ndarray, y: np.ndarray, threat: ThreatModel, method: str) -> int:
    """Compare statuses, distances and examples with those of trying a point of every cell."""
    trees = as_ensemble(model, X)
    reach = threat.resolve(trees.schema, trees.labels)
    points = [enumerating.adversarial_points(trees, row, k, reach) for row, k in zip(X, y, strict=True)]
    fooled = np.array([len(found) > 0 for found in points])
    np.testing.assert_array_equal(verify(model, X, y, threat, method=method).status == "vulnerable", fooled)
    for norm in NORMS:
        result = attack(model, X, y, threat, norm=norm, method=method)
        np.testing.assert_array_equal(result.found, fooled)
        for row in np.flatnonzero(fooled):
            wanted = min(attacking.distance(p, X[row], trees.schema, norm, [1.0] * 3) for p in points[row])
            np.testing.assert_allclose(result.distance[row], wanted, rtol=1e-5 if method == "milp" else 1e-12)
        if fooled.any():
            assert threat.contains(X[fooled], result.X_adv[fooled], y[fooled]).all()
            assert (model.predict(result.X_adv[fooled]) != y[fooled]).all()
    return int(fooled.sum())


@pytest.mark.parametrize("name", list(MODELS))
def test_all_values_are_tried(name: str) -> None:
    fooled = 0
    for seed in range(8):
        X, y, threat = random_problem(seed)
        model = MODELS[name](threat, seed).fit(X, y)
        fooled += check_answers(model, X[:10], y[:10], threat, "search")
    assert 0 < fooled < 80


def test_the_solver_agrees() -> None:
    pytest.importorskip("highspy")
    for seed in range(2):
        X, y, threat = random_problem(seed)
        check_answers(MODELS["forest"](threat, seed).fit(X, y), X[:5], y[:5], threat, "milp")


@pytest.mark.parametrize("seed", range(5))
def test_the_ceiling_is_that_of_the_boxes(seed: int) -> None:
    """With one column, a classifier can be right about two rows of two classes unless their intervals meet."""
    generator = np.random.default_rng(seed)
    x, y = generator.uniform(-1, 9, 9), generator.integers(0, 2, 9)
    y[:2] = 0, 1
    low, high = x - 0.2 * abs(x), x + 0.2 * abs(x)
    best = 0
    for kept in product((False, True), repeat=9):
        keep = np.array(kept)
        meet = (low[:, None] <= high) & (low <= high[:, None]) & (y[:, None] != y)
        if not meet[np.ix_(keep, keep)].any():
            best = max(best, int(keep.sum()))
    model = DecisionTreeClassifier().fit(x[:, None], y)
    assert evaluate(model, x[:, None], y, "20%").ceiling == pytest.approx(best / 9)


def test_contains_measures_spreads() -> None:
    """`contains` asked for numbers where a distance was measured on the table, though it had the table."""
    X = np.array([[0.0], [2.0]])
    assert ThreatModel("0.5 std").contains(X, X + 0.5).tolist() == [True, True]
    assert ThreatModel("0.5 std").contains(X, X + 0.6).tolist() == [False, False]


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e160, 8e307, 1.7976931348623157e308])
@pytest.mark.parametrize("spelling", ["0.5 std", "1 iqr"])
def test_spreads_of_very_large_and_very_small_numbers(size: float, spelling: str) -> None:
    """Squares of such numbers are 0 or infinite: the attacker could then do nothing, or everything."""
    matrix = np.array([[-1.0], [1.0], [-1.0], [1.0]]) * size
    settled = ThreatModel([spelling]).settle(matrix, matrix, Schema.numeric(1))
    np.testing.assert_allclose(settled.features, [0.5 * size if spelling == "0.5 std" else 2.0 * size], rtol=1e-12)
