"""Attacks on one tree: exact, inside the threat model, and true of the model that was attacked."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from hardwood import (
    AttackResult,
    RobustTreeClassifier,
    ThreatModel,
    TreeEnsemble,
    adversarial_accuracy,
    as_ensemble,
    attack,
    is_vulnerable,
)
from hardwood.table import Schema
from reference import attacking as reference

SEEDS = st.integers(0, 2**32 - 1)
NORMS = [np.inf, 2, 1, 0]
inf = np.inf


def check_against_oracle(
    tree: TreeEnsemble,
    rows: np.ndarray,
    label: np.ndarray,
    threat: ThreatModel,
    norm: float = inf,
    weight: list[float] | None = None,
) -> AttackResult:
    """Attack encoded rows and hold everything that comes back against brute force over the leaves."""
    schema = tree.schema
    X, y = schema.decode(rows), tree.labels[label]
    reach = threat.resolve(schema, tree.labels)
    weights = [1.0] * schema.n_features if weight is None else weight
    expected = [
        reference.nearest_distance(tree, row, int(k), reach, norm, weights) for row, k in zip(rows, label, strict=True)
    ]
    result = attack(tree, X, y, threat, norm=norm, feature_weight=weight)
    found = result.found
    assert found.tolist() == np.isfinite(expected).tolist()
    if norm in (0, inf):
        assert result.distance.tolist() == expected
    else:
        # The squares of changes below 1e-150 are not told apart here, but in `TestKnifeEdges`.
        assert np.allclose(result.distance, expected, rtol=1e-12, atol=1e-150)
    assert pd.isna(result.X_adv[~found]).all()
    assert np.array_equal(is_vulnerable(tree, X, y, threat), found)
    if found.any():
        examples = result.X_adv[found]
        assert (tree.predict(examples) != y[found]).all()
        # A row that is misclassified as it stands is its own example, whether or not its class attacks.
        assert threat.contains(X[found], examples, y[found], schema).all()
        moved = schema.encode(examples)
        exact = [reference.distance(a, b, schema, norm, weights) for a, b in zip(moved, rows[found], strict=True)]
        assert np.allclose(result.distance[found], exact, rtol=1e-15, atol=1e-150)
    return result


class TestAgainstBruteForce:
    @given(SEEDS, st.sampled_from(NORMS), st.booleans())
    def test_every_leaf_tried(self, seed: int, norm: float, weighted: bool) -> None:
        """Random trees with contradictions and ties, every form of threat, rows at the thresholds and beside them."""
        generator = np.random.default_rng(seed)
        schema = reference.random_schema(generator)
        link = str(generator.choice(["probability", "logistic", "softmax", "score"]))
        n_classes = 2 if link == "logistic" else int(generator.integers(2, 5))
        tree = reference.random_trees(generator, schema, 1, 5, n_classes, link)
        rows = reference.random_rows(generator, tree, 8)
        label = tree.decide(rows)
        wrong = generator.random(len(rows)) < 0.2
        label[wrong] = generator.integers(n_classes, size=wrong.sum())
        attackers = [None, tree.labels[:1].tolist(), tree.labels[1:].tolist(), []]
        threat = ThreatModel(
            reference.random_threat(generator, schema), attackers[generator.choice([0, 0, 0, 1, 2, 3])]
        )
        weight = generator.choice([0.0, 0.5, 1.0, 3.0], schema.n_features).tolist()
        check_against_oracle(tree, rows, label, threat, norm, weight if weighted else None)

    @given(SEEDS, st.sampled_from(NORMS))
    def test_no_threat_means_anywhere(self, seed: int, norm: float) -> None:
        generator = np.random.default_rng(seed)
        schema = reference.random_schema(generator)
        tree = reference.random_trees(generator, schema, max_depth=5)
        rows = reference.random_rows(generator, tree, 6)
        X = schema.decode(rows)
        expected = check_against_oracle(tree, rows, tree.decide(rows), ThreatModel("<>"), norm)
        result = attack(tree, X, norm=norm)  # without labels: any change of prediction
        assert np.array_equal(result.distance, expected.distance)
        # A leaf may hold nothing but a category that no table had.
        result = attack(tree, X, threat=ThreatModel("<>", unseen_categories="allow"), norm=norm)
        has_two_classes = len(set(tree.node_class[np.flatnonzero(~empty_leaves(tree))].tolist())) > 1
        assert (result.found == has_two_classes).all()

    @pytest.mark.parametrize("norm", NORMS)
    @pytest.mark.parametrize("threat", [0.05, 0.3, [(0.0, 0.4), None, ">"], "<>"])
    def test_a_grown_tree(
        self, ensemble: TreeEnsemble, numbers: tuple[np.ndarray, np.ndarray], norm: float, threat: Any
    ) -> None:
        X, y = numbers
        check_against_oracle(ensemble, X[:60], y[:60], ThreatModel(threat), norm)

    @pytest.mark.parametrize("norm", NORMS)
    def test_a_grown_tree_with_categories(
        self, mixed: RobustTreeClassifier, frame: tuple[pd.DataFrame, pd.Series], norm: float
    ) -> None:
        X, y = frame
        threat = ThreatModel({"age": (3, 0), "income": 2.0, "color": {"red": ["blue", "green"]}})
        tree = mixed.ensemble_
        reach = threat.resolve(tree.schema, tree.labels)
        label = (y == "yes").to_numpy().astype(int)
        rows = tree.schema.encode(X)
        result = attack(mixed, X, y, threat, norm=norm)
        expected = [
            reference.nearest_distance(tree, row, k, reach, norm, [1.0] * 4) for row, k in zip(rows, label, strict=True)
        ]
        assert np.allclose(result.distance, expected, rtol=1e-12, atol=0.0)
        assert 0 < result.found.sum() < len(X)


def empty_leaves(tree: TreeEnsemble) -> np.ndarray:
    """Say of each node whether it is no leaf or a leaf that nothing can get to."""
    region = reference.regions(tree, tree.root[0])
    return np.array([tree.feature[k] >= 0 or region[k].is_empty for k in range(tree.n_nodes)])


class TestKnifeEdges:
    """`x <= threshold` goes left; reach is `x - left <= v <= x + right` as float64 rounds it."""

    stump = reference.build((0, 1.0, 0, 1))

    def test_the_end_of_the_reach_counts(self) -> None:
        """A half-open box misses x - eps itself: 1.5 moved down by 0.5 is 1.0, which goes left."""
        result = attack(self.stump, [[1.5]], [1], threat=0.5)
        assert result.found.tolist() == [True]
        assert result.X_adv.tolist() == [[1.0]]
        assert not attack(self.stump, [[1.5]], [1], threat=0.5 - 2.0**-52).found.any()

    def test_reaching_the_threshold_from_the_left_is_not_enough(self) -> None:
        """A leaf is open on its left end: clipping to it gives examples that do not change the prediction."""
        assert not attack(self.stump, [[0.5]], [0], threat=0.5).found.any()
        result = attack(self.stump, [[0.5]], [0], threat=0.5 + 2.0**-52)
        assert result.found.tolist() == [True]
        assert result.X_adv.tolist() == [[np.nextafter(1.0, 2.0)]]
        assert self.stump.predict(result.X_adv).tolist() == [1]

    @pytest.mark.parametrize("norm", NORMS)
    def test_rows_at_the_threshold(self, norm: float) -> None:
        above = np.nextafter(1.0, 2.0)
        result = attack(self.stump, [[1.0], [above]], [0, 1], "<>", norm=norm)
        assert result.X_adv.tolist() == [[above], [1.0]]
        assert result.distance.tolist() == [1.0 if norm == 0 else above - 1.0] * 2

    @given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(0, 10), st.sampled_from(["left", "right"]))
    def test_found_exactly_if_the_rounded_end_is_across(
        self, x: float, threshold: float, distance: float, side: str
    ) -> None:
        stump = reference.build((0, threshold, 0, 1))
        label = int(x > threshold)
        threat = ThreatModel([(distance, 0.0) if side == "left" else (0.0, distance)])
        across = x - distance <= threshold if label == 1 else x + distance > threshold
        expected = across and side == ("left" if label == 1 else "right")
        assert attack(stump, [[x]], [label], threat).found.tolist() == [expected]

    @pytest.mark.parametrize("x", [1e10, 1e16, 1e100, -1e100])
    def test_large_values(self, x: float) -> None:
        """The published implementation takes 1e10 for infinity."""
        threshold = np.nextafter(x, inf)
        stump = reference.build((0, threshold, 0, 1))
        for norm in NORMS:
            check_against_oracle(stump, np.array([[x]]), np.array([0]), ThreatModel("<>"), norm)
        for reach in (1e-9, 0.1):
            found = attack(stump, [[x]], [0], threat=reach).found
            assert found.tolist() == [x + reach > threshold]

    @pytest.mark.parametrize("norm", NORMS)
    @pytest.mark.parametrize(("x", "threshold"), [(0.0, 1e200), (-1e308, 1e308), (0.0, 1e-200), (-1e-170, 2e-170)])
    def test_changes_whose_square_is_out_of_range(self, x: float, threshold: float, norm: float) -> None:
        """The square of 1e200 is infinite, that of 1e-200 is 0: neither may hide an example."""
        stump = reference.build((0, threshold, 0, 1), Schema.numeric(2))
        result = attack(stump, [[x, 0.0]], [0], "<>", norm=norm)
        assert result.found.tolist() == [True]
        assert is_vulnerable(stump, [[x, 0.0]], [0], "<>").tolist() == [True]
        expected = 1.0 if norm == 0 else threshold - x
        assert np.allclose(result.distance, expected, rtol=1e-12, atol=0.0)

    def test_tiny_changes_are_told_apart(self) -> None:
        """The square of 1e-200 is 0, and yet feature 1 is the nearer way out."""
        tree = reference.build((0, 2e-200, (1, 1e-200, 0, 1), 1))
        result = attack(tree, [[0.0, 0.0]], [0], norm=2)
        assert np.allclose(result.distance, 1e-200, rtol=1e-12, atol=0.0)

    def test_a_vast_change_that_is_out_of_reach(self) -> None:
        stump = reference.build((0, 1.7e308, 0, 1))
        assert not attack(stump, [[-1.7e308]], [0], threat=1e308).found.any()
        assert attack(stump, [[1e308]], [0], threat=1e308).found.all()

    def test_infinity_is_no_example(self) -> None:
        """Beyond the largest float64 there is nothing that predict would take."""
        stump = reference.build((0, np.finfo(float).max, 0, 1))
        for norm in NORMS:
            assert not attack(stump, [[0.0]], [0], "<>", norm=norm).found.any()


class TestContradictions:
    def test_a_leaf_nothing_can_get_to_is_never_used(self) -> None:
        """x <= 0 and then x > 1: the leaf is there, its inputs are not."""
        tree = reference.build((0, 0.0, (0, 1.0, 0, 1), 0))
        for norm in NORMS:
            result = attack(tree, [[-1.0], [0.0], [0.5], [2.0]], [0] * 4, norm=norm)
            assert not result.found.any()

    def test_equal_thresholds_leave_nothing_between(self) -> None:
        tree = reference.build((0, 0.0, (0, 0.0, 0, 1), (0, 0.0, 1, 0)))
        assert not attack(tree, [[-1.0], [1.0]], [0, 0]).found.any()

    def test_one_float_is_enough_room(self) -> None:
        above = np.nextafter(0.0, 1.0)
        tree = reference.build((0, 0.0, 0, (0, above, 1, 0)))
        result = attack(tree, [[-1.0], [5.0]], [0, 0])
        assert result.X_adv.tolist() == [[above], [above]]

    def test_categories_that_exclude_each_other(self) -> None:
        schema = Schema(1, None, (("a", "b", "c"),))
        tree = reference.build((0, {0}, 0, (0, {0, 1}, (0, {1}, 0, 1), 0)), schema)
        assert not attack(tree, [["a"], ["b"], ["c"], ["z"]]).found.any()


class TestCategories:
    schema = Schema(2, ("size", "color"), (None, ("blue", "green", "red")))
    # blue and red go left to 0; green goes right: 0 if the size is at most 1, else 1
    tree = reference.build((1, {0, 2}, 0, (0, 1.0, 0, 1)), schema, classes=np.array(["no", "yes"]))

    @staticmethod
    def table(*rows: tuple[float, str]) -> pd.DataFrame:
        return pd.DataFrame(rows, columns=["size", "color"])

    def test_only_what_the_dict_lists(self) -> None:
        X, y = self.table((2.0, "blue"), (2.0, "red"), (2.0, "green")), ["no", "no", "yes"]
        result = attack(self.tree, X, y, {"color": {"blue": ["green"]}})
        assert result.found.tolist() == [True, False, False]
        assert result.distance.tolist() == [1.0, inf, inf]
        assert result.X_adv["color"].tolist()[0] == "green"

    @pytest.mark.parametrize("norm", NORMS)
    def test_a_changed_category_is_a_change_by_one(self, norm: float) -> None:
        X = self.table((0.0, "blue"))
        weight = [0.5, 3.0]
        result = attack(self.tree, X, ["no"], "<>", norm=norm, feature_weight=weight)
        size = np.nextafter(1.0, 2.0) * 0.5
        expected = {inf: 3.0, 2: np.hypot(size, 3.0), 1: size + 3.0, 0: 3.5}[norm]
        assert result.distance.tolist() == pytest.approx([expected], rel=1e-15)

    def test_a_number_does_not_reach_categories(self) -> None:
        X = self.table((2.0, "green"), (2.0, "blue"))
        result = attack(self.tree, X, ["yes", "no"], 10.0)
        assert result.found.tolist() == [True, False]
        assert result.X_adv["size"].tolist()[0] == 1.0

    def test_a_category_never_seen(self) -> None:
        """It goes right. Where an attacker can bring one, the example holds a missing value there."""
        tree = reference.build((1, {0, 1, 2}, 0, 1), self.schema)
        X = self.table((0.0, "red"))
        assert not attack(tree, X, [0], "<>").found.any()
        threat = ThreatModel("<>", unseen_categories="allow")
        result = attack(tree, X, [0], threat)
        assert result.found.tolist() == [True]
        assert result.X_adv["color"].isna().tolist() == [True]
        assert tree.predict(result.X_adv).tolist() == [1]
        assert threat.contains(X, result.X_adv, schema=self.schema).all()
        assert not attack(tree, X, [0], {"color": {"red": ["blue", "green"]}}).found.any()
        assert attack(tree, self.table((0.0, "purple")), [1], "<>").X_adv["color"].tolist() == ["blue"]

    def test_a_category_that_only_the_threat_names(self) -> None:
        """It counts as one never seen."""
        tree = reference.build((1, {0, 1, 2}, 0, 1), self.schema)
        threat = ThreatModel({"color": {"red": ["purple"]}}, unseen_categories="allow")
        result = attack(tree, self.table((0.0, "red"), (0.0, "blue")), [0, 0], threat)
        assert result.found.tolist() == [True, False]


class TestLabels:
    stump = reference.build((0, 1.0, 0, 1), classes=np.array(["ham", "spam"]))

    def test_misclassified_rows_are_their_own_examples(self) -> None:
        for threat in (None, 0.0, 5.0, ThreatModel(5.0, attacking_classes="spam")):
            result = attack(self.stump, [[0.25], [7.5]], ["spam", "ham"], threat)
            assert result.found.all()
            assert result.distance.tolist() == [0.0, 0.0]
            assert result.X_adv.tolist() == [[0.25], [7.5]]

    def test_rows_of_classes_that_do_not_attack_stay(self) -> None:
        threat = ThreatModel(5.0, attacking_classes=["spam"])
        result = attack(self.stump, [[0.5], [1.5]], ["ham", "spam"], threat)
        assert result.found.tolist() == [False, True]
        assert np.isnan(result.X_adv[0]).all()

    def test_without_labels_the_predictions_count(self) -> None:
        X = [[0.5], [1.5], [7.0]]
        threat = ThreatModel(1.0, attacking_classes=["spam"])
        own = attack(self.stump, X, None, threat)
        told = attack(self.stump, X, self.stump.predict(X), threat)
        assert own.found.tolist() == told.found.tolist() == [False, True, False]

    def test_an_empty_threat_finds_only_mistakes(
        self, model: RobustTreeClassifier, numbers: tuple[np.ndarray, np.ndarray]
    ) -> None:
        X, y = numbers
        nothing: list[Any] = [ThreatModel(), 0, {}, [None, "", (0, 0)]]
        for threat in nothing:
            assert np.array_equal(is_vulnerable(model, X, y, threat), model.predict(X) != y)

    def test_label_containers(self) -> None:
        X, labels = [[0.5], [1.5]], ["ham", "spam"]
        kinds = (tuple, np.array, pd.Series, pl.Series, lambda y: np.array(y, dtype=object))
        for kind in kinds:
            assert attack(self.stump, X, kind(labels), 0.4).found.tolist() == [False, False]


class TestMonotone:
    @given(SEEDS)
    def test_a_larger_threat_finds_more_and_nothing_farther(self, seed: int) -> None:
        generator = np.random.default_rng(seed)
        schema = reference.random_schema(generator, categorical=False)
        tree = reference.random_trees(generator, schema, max_depth=5)
        rows = reference.random_rows(generator, tree, 20)
        label = generator.integers(2, size=len(rows))
        y = tree.labels[label]
        scores, distance = [], np.full(len(rows), inf)
        for threat in (0.0, 0.05, 0.1, 0.5, (1.0), 3.0, "<>"):
            result = attack(tree, rows, y, threat)
            assert (result.distance <= distance).all()
            distance = result.distance
            scores.append(adversarial_accuracy(tree, rows, y, threat))
        assert scores == sorted(scores, reverse=True)
        assert scores[0] == np.mean(tree.predict(rows) == y)

    def test_the_nearest_example_is_found_at_its_distance_and_not_before(
        self, model: RobustTreeClassifier, numbers: tuple[np.ndarray, np.ndarray]
    ) -> None:
        X, _ = numbers
        y = model.predict(X)
        distance = attack(model, X).distance
        # x + (v - x) may round to either side of v: a little more, a little less.
        for row in range(60):
            one = X[row : row + 1], y[row : row + 1]
            assert is_vulnerable(model, *one, distance[row] * (1 + 1e-9)).all()
            assert not is_vulnerable(model, *one, distance[row] * (1 - 1e-9)).any()

    @pytest.mark.parametrize("threat", [0.05, 0.3, [0.1, None, (0.5, 0.0)]])
    def test_random_attacks_never_beat_the_exact_one(
        self, model: RobustTreeClassifier, numbers: tuple[np.ndarray, np.ndarray], threat: Any
    ) -> None:
        X, y = numbers
        generator = np.random.default_rng(0)
        reach = ThreatModel(threat).resolve(model.ensemble_.schema, model.classes_)
        low, high = reach.box(X, y)
        survives = model.predict(X) == y
        for _ in range(200):
            share = generator.random(X.shape).round(generator.integers(3))  # the ends, often
            points = np.clip(low + share * (high - low), low, high)
            survives &= model.predict(points) == y
        robust = ~is_vulnerable(model, X, y, threat)
        assert (robust <= survives).all()
        assert robust.mean() <= survives.mean() < 1.0


class TestScikitLearn:
    @pytest.mark.parametrize("kind", [DecisionTreeClassifier, ExtraTreeClassifier])
    @pytest.mark.parametrize("n_classes", [2, 4])
    @pytest.mark.parametrize("scale", [1.0, 1e-4, 1e37, 2.0**24])
    def test_examples_change_its_own_prediction(self, kind: Any, n_classes: int, scale: float) -> None:
        """scikit-learn rounds rows to float32: an example one float64 past a threshold need not have moved at all."""
        generator = np.random.default_rng(0)
        X = generator.normal(size=(300, 3)) * scale
        y = np.digitize(X[:, 0] + X[:, 1], np.linspace(-1, 1, n_classes - 1) * scale)
        y = (y + (generator.random(300) < 0.1)) % n_classes
        model = kind(random_state=0, max_depth=8).fit(X, y)
        for norm in NORMS:
            result = attack(model, X, y, threat=0.2 * scale, norm=norm)
            assert result.found.sum() > 0
            assert (model.predict(result.X_adv[result.found]) != y[result.found]).all()
            assert ThreatModel(0.2 * scale).contains(X, result.X_adv)[result.found].all()
            assert (model.predict(X[~result.found]) == y[~result.found]).all()
        anywhere = attack(model, X)
        assert anywhere.found.all()
        assert (model.predict(anywhere.X_adv) != model.predict(X)).all()

    def test_the_distance_is_to_where_rounding_changes(self) -> None:
        """4 + 2**-21 is the next float32 after 4; float64 numbers up to halfway between are rounded to 4."""
        model = DecisionTreeClassifier().fit(np.array([[4.0], [4.0 + 2.0**-21]]), [0, 1])
        halfway = 4.0 + 2.0**-22
        result = attack(model, [[4.0]], [0])
        assert result.X_adv.tolist() == [[np.nextafter(halfway, inf)]]
        assert model.predict([[halfway]]).tolist() == [0]
        assert model.predict(result.X_adv).tolist() == [1]

    def test_brute_force_agrees(self, numbers: tuple[np.ndarray, np.ndarray]) -> None:
        X, y = numbers
        tree = as_ensemble(DecisionTreeClassifier(random_state=0).fit(X, y))
        for norm in NORMS:
            check_against_oracle(tree, X[:40], y[:40], ThreatModel([0.2, (0.0, 0.5), None]), norm)

    def test_a_model_trained_on_a_frame(self) -> None:
        frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [1, 0, 1, 0]})
        model = DecisionTreeClassifier().fit(frame, [0, 0, 1, 1])
        result = attack(model, frame, [0, 0, 1, 1], {"a": 0.75})
        assert list(result.X_adv.columns) == ["a", "b"]
        assert result.found.tolist() == [False, True, True, False]
        assert model.predict(result.X_adv[result.found]).tolist() == [1, 0]


class TestTables:
    def test_a_frame_comes_back_as_a_frame(
        self, mixed: RobustTreeClassifier, frame: tuple[pd.DataFrame, pd.Series]
    ) -> None:
        X, y = frame
        threat = ThreatModel({"income": 5.0, "color": "<>"})
        result = attack(mixed, X, y, threat)
        assert isinstance(result.X_adv, pd.DataFrame)
        assert list(result.X_adv.columns) == list(X.columns)
        assert isinstance(result.X_adv["color"].dtype, pd.CategoricalDtype)
        found = result.found
        assert (mixed.predict(result.X_adv[found]) != y[found]).all()
        assert threat.contains(X[found], result.X_adv[found], schema=mixed.ensemble_.schema).all()
        assert result.X_adv[~found].isna().all(axis=None)
        unmoved = result.X_adv.loc[found, ["age", "town"]].astype({"age": int, "town": str})
        assert unmoved.equals(X.loc[found, ["age", "town"]].astype({"age": int, "town": str}))

    def test_polars(self, mixed: RobustTreeClassifier, frame: tuple[pd.DataFrame, pd.Series]) -> None:
        X, y = frame
        ours, theirs = (
            attack(mixed, X, y, {"income": 5.0}),
            attack(mixed, pl.from_pandas(X), pl.Series(y.to_list()), {"income": 5.0}),
        )
        assert np.array_equal(ours.distance, theirs.distance)
        assert list(theirs.X_adv.columns) == list(X.columns)

    def test_an_array_comes_back_as_an_array(
        self, model: RobustTreeClassifier, numbers: tuple[np.ndarray, np.ndarray]
    ) -> None:
        X, y = numbers
        for table in (X, np.asfortranarray(X), X.tolist(), X.astype(object)):
            result = attack(model, table, y, 0.1)
            assert isinstance(result.X_adv, np.ndarray)
            assert result.X_adv.dtype == np.float64
            assert np.array_equal(result.found, is_vulnerable(model, X, y, 0.1))

    def test_the_table_is_left_alone(self, model: RobustTreeClassifier, numbers: tuple[np.ndarray, np.ndarray]) -> None:
        X, y = numbers[0].copy(), numbers[1]
        result = attack(model, X, y, 0.1)
        result.X_adv[:] = 0.0
        assert np.array_equal(X, numbers[0])

    def test_integers_do_not_truncate_the_reach(self) -> None:
        """The published implementation casts 0.6 to the table's type, and nobody moves."""
        model = RobustTreeClassifier().fit(np.array([[0], [1]]), [0, 1])
        assert is_vulnerable(model, np.array([[0], [1]]), [0, 1], 0.6).all()

    def test_more_rows_than_a_chunk(self, model: RobustTreeClassifier) -> None:
        """Rows are attacked some 16,000 at a time; where the chunks end must not show."""
        X = np.random.default_rng(0).normal(size=(40_000, 3))
        result = attack(model, X, threat=0.1)
        ends = [0, 16_383, 16_384, 32_767, 32_768, 39_999]
        few = attack(model, X[ends], threat=0.1)
        assert np.array_equal(result.distance[ends], few.distance)
        assert np.array_equal(result.X_adv[ends], few.X_adv, equal_nan=True)

    def test_a_path_of_a_saved_model(self, ensemble: TreeEnsemble, tmp_path: Path) -> None:
        ensemble.to_json(tmp_path / "model.json")
        X = np.zeros((3, 3))
        result = attack(str(tmp_path / "model.json"), X)
        assert np.array_equal(result.X_adv, attack(ensemble, X).X_adv)


class TestResult:
    def test_record(self) -> None:
        result = attack(reference.build((0, 1.0, 0, 1)), [[1.0], [3.0]], [0, 1], 1.0)
        assert repr(result) == "AttackResult(was_wrong=0, made_wrong=1, holds=1, undecided=0)"
        with pytest.raises(AttributeError):
            result.found = np.zeros(2, dtype=bool)  # type: ignore[misc]

    def test_one_leaf_is_safe(self) -> None:
        leaf = reference.build(1)
        result = attack(leaf, [[0.0], [5.0]], [1, 0])
        assert result.found.tolist() == [False, True]

    def test_a_deep_tree_is_quick(self) -> None:
        """Thousands of leaves: only those in reach cost time."""
        generator = np.random.default_rng(0)
        X = generator.normal(size=(4000, 5))
        y = generator.integers(2, size=4000)
        model = DecisionTreeClassifier(max_depth=30, random_state=0).fit(X, y)
        attack(model, X[:2], y[:2], 0.1)
        begin = time.process_time()
        result = attack(model, X, y, 0.1)
        nearest = attack(model, X[:500], norm=2)
        assert time.process_time() - begin < 5.0
        assert model.get_n_leaves() > 500
        assert result.found.mean() > 0.5
        assert (model.predict(result.X_adv[result.found]) != y[result.found]).all()
        assert nearest.found.all()

    def test_a_chain_deeper_than_the_recursion_limit(self) -> None:
        tree = reference.chain(5_000)
        result = attack(tree, [[2500.5], [2501.0]])
        assert result.X_adv.tolist() == [[2500.0], [np.nextafter(2501.0, inf)]]


class TestErrors:
    X = np.zeros((2, 2))
    y = np.array([0, 1])
    tree = reference.build((0, 0.5, 0, 1), Schema.numeric(2))

    @pytest.mark.parametrize("norm", ["inf", None, 3, -1, 0.5, np.nan, [2], np.array([1, 2])])
    def test_norm(self, norm: Any) -> None:
        with pytest.raises((ValueError, TypeError), match="norm="):
            attack(self.tree, self.X, self.y, 0.1, norm=norm)

    @pytest.mark.parametrize(
        "weight",
        [[1.0], [[1.0, 1.0]], 1.0, [1.0, -1.0], [1.0, np.nan], [1.0, inf], "ab", ["a", "b"], [None, 1]],
        ids=repr,
    )
    def test_feature_weight(self, weight: Any) -> None:
        with pytest.raises((ValueError, TypeError), match="feature_weight"):
            attack(self.tree, self.X, self.y, 0.1, feature_weight=weight)

    @pytest.mark.parametrize("function", [attack, is_vulnerable, adversarial_accuracy])
    @pytest.mark.parametrize(
        ("y", "words"),
        [
            ([0, 2], "2.* is not a class of the model; its classes are"),
            ([0.0, 0.5], "0.5.* is not a class"),
            ([0, np.nan], "nan.* is not a class"),
            (["0", "1"], "'0'.* is not a class"),
            ([0, None], "None.* is not a class"),
            ([None, None], "None.* is not a class"),
            ([0, "a"], "is not a class"),
            ([0], "expected 2 labels"),
            ([0, 1, 0], "expected 2 labels"),
            ([[0], [1]], "expected 2 labels"),
            (0, "expected 2 labels"),
        ],
        ids=repr,
    )
    def test_labels(self, function: Any, y: Any, words: str) -> None:
        with pytest.raises(ValueError, match=f"^y: .*{words}"):
            function(self.tree, self.X, y, 0.1)

    def test_numbers_where_labels_are_text(self) -> None:
        tree = reference.build((0, 0.5, 0, 1), classes=np.array(["ham", "spam"]))
        with pytest.raises(ValueError, match=r"^y: .*is not a class of the model"):
            attack(tree, [[0.0], [1.0]], [0, 1], 0.1)

    def test_classes_in_any_order(self) -> None:
        """Classes read from a file need not be sorted."""
        tree = reference.build((0, 0.5, 0, 1), classes=np.array(["spam", "ham"]))
        tree = TreeEnsemble.parse_json(tree.to_json())
        result = attack(tree, [[0.0], [1.0]], ["spam", "ham"], 0.6)
        assert result.found.tolist() == [True, True]
        assert result.distance.tolist() == [np.nextafter(0.5, 1.0), 0.5]

    @pytest.mark.parametrize(
        ("X", "words"),
        [
            (np.zeros((2, 3)), "3 features"),
            (np.zeros((2, 1)), "1 features"),
            (np.zeros((0, 2)), "0 sample"),
            (np.zeros(2), "1D array"),
            ([[0.0, np.nan], [0.0, 0.0]], "NaN"),
            ([[0.0, inf], [0.0, 0.0]], "infinity"),
            ([["a", 0.0], [0.0, 0.0]], "'a'"),
        ],
        ids=lambda value: str(value)[:20],
    )
    def test_tables(self, X: Any, words: str) -> None:
        with pytest.raises(ValueError, match=words):
            attack(self.tree, X, self.y, 0.1)

    def test_columns_of_another_name(self, mixed: RobustTreeClassifier, frame: Any) -> None:
        X, y = frame
        with pytest.raises(ValueError, match="Feature names unseen at fit time"):
            attack(mixed, X.rename(columns={"age": "years"}), y, {"income": 1.0})

    @pytest.mark.parametrize(
        ("threat", "words"),
        [(-1, "-1"), ("up", "up"), ([0.1], "1 entries"), ({"age": 1}, "age"), ({5: 1}, "5"), (np.nan, "nan")],
        ids=repr,
    )
    def test_threats(self, threat: Any, words: str) -> None:
        for function in (attack, is_vulnerable, adversarial_accuracy):
            with pytest.raises(ValueError, match=f"threat.*{words}"):
                function(self.tree, self.X, self.y, threat)

    def test_a_class_that_cannot_attack(self) -> None:
        with pytest.raises(ValueError, match=r"attacking_classes: 7 is not a class"):
            attack(self.tree, self.X, self.y, ThreatModel(0.1, attacking_classes=7))

    @pytest.mark.parametrize("model", [None, 3, "nowhere.json", RobustTreeClassifier(), object()])
    def test_models(self, model: Any) -> None:
        with pytest.raises((TypeError, ValueError, OSError)):
            attack(model, self.X, self.y, 0.1)
