"""Trees of tables with missing values: every split against who can be where, one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_binned import CRITERIA

from hardwood import (
    RobustTreeClassifier,
    TreeEnsemble,
    adversarial_accuracy,
    export_rules,
    load_dataset,
    verify,
)
from hardwood.estimators.parameters import check_grow_options, read_monotonic
from hardwood.grow.tree import grow_tree
from hardwood.rows.task import Task
from hardwood.table import Schema
from hardwood.threat import ThreatModel
from reference import missing_splits
from strategies import arrays

NAN = np.nan


@st.composite
def problems(draw: st.DrawFn) -> tuple[RobustTreeClassifier, np.ndarray, np.ndarray, Any, Schema]:
    """Small tables with holes and categories, of two to four classes, and attackers of every kind."""
    n_classes = draw(st.integers(2, 4))
    n, n_features = draw(st.integers(n_classes, 30)), draw(st.integers(1, 3))
    sizes = draw(st.lists(st.sampled_from([0, 0, 1, 3]), min_size=n_features, max_size=n_features))
    labels = tuple(tuple("abc"[:size]) if size else None for size in sizes)
    X = draw(arrays(np.int64, (n, n_features), st.integers(-6, 6))).astype(float)
    for j, size in enumerate(sizes):
        X[:, j] = np.abs(X[:, j]) % (size + 1) if size else X[:, j]
    X[draw(arrays(np.int64, X.shape, st.integers(0, 9))) < draw(st.integers(0, 5))] = NAN
    y = draw(arrays(np.int64, n, st.integers(0, n_classes - 1)))
    y[:n_classes] = np.arange(n_classes)
    distance = st.sampled_from([0.0, 0.5, 1.0, 1.5, 3.0, np.inf])
    number = st.sampled_from([None, "<", ">", "<>"]) | distance | st.tuples(distance, distance)
    columns = st.none() | st.just("all") | st.lists(st.integers(0, n_features - 1), min_size=1)
    threat = ThreatModel(
        [draw(number if own is None else _moves(own)) for own in labels],
        draw(st.none() | st.sets(st.integers(0, n_classes - 1), min_size=1).map(sorted)),
        blank=draw(columns),
        fill=draw(columns),
    )
    model = RobustTreeClassifier(threat, criterion=draw(st.sampled_from(CRITERIA)))
    weight = draw(st.none() | arrays(np.float64, n, st.sampled_from([0.5, 1.0, 2.0, 0.7])))
    return model, X, y, weight, Schema(n_features, None, labels, True)


def _moves(labels: tuple[str, ...]) -> st.SearchStrategy:
    """What can be done to categories."""
    some = st.lists(st.sampled_from(labels), min_size=1, max_size=2)
    return st.sampled_from([None, "<>"]) | st.dictionaries(st.sampled_from(labels), some, min_size=1)


@given(problems())
def test_every_split_is_the_best_there_is(problem: tuple) -> None:
    model, X, y, weight, schema = problem
    n_classes = len(np.unique(y))
    reach = model.threat.resolve(schema, range(n_classes))
    table = Task(X, y, weight, np.ones(n_classes), schema, np.arange(n_classes), model.threat)
    tree = grow_tree(table, reach, check_grow_options(model, len(X), schema.n_features))
    row_weight = np.ones(len(X)) if weight is None else weight
    samples = missing_splits.make_samples(X, y, row_weight, reach, n_classes)
    missing_splits.check_splits(tree, samples, model.criterion)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 4, 8, 14, 24, 27, 30])
def test_rows_that_were_blanked_above(seed: int) -> None:
    """Classes in bands of a number, so that paths ask for it again and again, of which half is missing in class 2.

    Where a row can be deep in the tree depends on where the splits above have let it pass: some can only have come
    blanked, and others cannot be missing any more.
    """
    generator = np.random.default_rng(seed)
    X, n_rows = generator.integers(0, 9, (40, 2)).astype(float), 40
    y = (X[:, 0] // (1 + seed % 3)).astype(int) % 3
    is_noise = generator.random(n_rows) < 0.15
    y[is_noise] = generator.integers(0, 3, is_noise.sum())
    y[:3] = range(3)
    X[(y == 2) & (generator.random(n_rows) < 0.5), 0] = NAN
    X[generator.random(n_rows) < 0.1, 1] = NAN
    hides: dict[str, Any] = [{"blank": "all"}, {"blank": [0]}, {"blank": "all", "fill": "all"}][seed % 3]
    threat = ThreatModel([[None, 0.5, 1.0][seed // 3 % 3], None], [[0], [0, 1]][seed % 2], **hides)
    check_splits(RobustTreeClassifier(threat, criterion=CRITERIA[seed % 2]), X, y, (None, None))


@pytest.mark.parametrize("seed", [2, 3, 51])
def test_categories_that_were_left_above(seed: int) -> None:
    """Paths ask for categories again and again: below a split, nobody can be what went the other way."""
    generator = np.random.default_rng(seed)
    X, labels = generator.integers(0, 4, (48, 2)).astype(float), tuple("abcd")
    y = 1 + X.sum(axis=1).astype(int) % 2
    y[generator.random(len(X)) < 0.3] = 0
    y[:3] = range(3)
    X[generator.random(X.shape) < 0.1] = NAN
    moves = {"a": ["d"], "b": ["d"], "c": ["d", "a"]}
    threat = ThreatModel([moves, moves], [0], fill="all" if seed % 2 else None)
    check_splits(RobustTreeClassifier(threat), X, y, (labels, labels))


def check_splits(model: RobustTreeClassifier, X: np.ndarray, y: np.ndarray, labels: tuple) -> None:
    """Grow a tree, and hold every split of it against who can be where."""
    schema, classes = Schema(2, None, labels, True), np.unique(y)
    reach = model.threat.resolve(schema, classes)
    table = Task(X, y, None, np.ones(len(classes)), schema, classes, model.threat)
    tree = grow_tree(table, reach, check_grow_options(model, len(X), 2))
    samples = missing_splits.make_samples(X, y, np.ones(len(X)), reach, len(classes))
    missing_splits.check_splits(tree, samples, model.criterion)


def make_table(n_rows: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose first value is missing more often in class 1."""
    generator = np.random.default_rng(seed)
    X = generator.random((n_rows, 3))
    y = (X[:, 1] + 0.2 * generator.normal(size=n_rows) > 0.5).astype(int)
    X[generator.random(n_rows) < 0.1 + 0.5 * y, 0] = NAN
    X[generator.random(n_rows) < 0.2, 1] = NAN
    return X, y


class TestEstimator:
    def test_what_is_missing_tells(self) -> None:
        """One split that parts missing values from others; against an attacker who blanks it is worth nothing."""
        X = np.array([[1.0], [2.0], [3.0], [NAN], [NAN], [NAN]])
        y = [0, 0, 0, 1, 1, 1]
        tree = RobustTreeClassifier(0.1).fit(X, y)
        assert export_rules(tree).splitlines()[::2] == ["if feature 0 is there:", "if feature 0 is missing:"]
        assert tree.predict([[9.0], [NAN]]).tolist() == [0, 1]
        assert RobustTreeClassifier(ThreatModel(0.1, blank=[0])).fit(X, y).get_n_leaves() == 1
        assert RobustTreeClassifier(ThreatModel(0.1, fill="all")).fit(X, y).get_n_leaves() == 1
        only_zero = ThreatModel(0.1, attacking_classes=[0], blank=[0])
        assert RobustTreeClassifier(only_zero).fit(X, y).get_n_leaves() == 1

    @pytest.mark.parametrize("hides", [{}, {"blank": [0]}, {"fill": "all"}, {"blank": "all", "fill": "all"}])
    def test_trained_for_it(self, hides: dict[str, Any]) -> None:
        """The tree that knows the attacker holds up better than the one that does not, and is verified by anybody."""
        X, y = make_table()
        threat = ThreatModel(0.05, **hides)
        robust, natural = (RobustTreeClassifier(t, max_depth=4).fit(X, y) for t in (threat, None))
        natural_tree = replace(natural.ensemble_)
        accuracy = [adversarial_accuracy(model, X, y, threat) for model in (robust, natural_tree)]
        assert accuracy[0] > accuracy[1]
        certificate = verify(robust, X[:40], y[:40], threat)
        found = certificate.status == "vulnerable"
        assert found.mean() == pytest.approx(1.0 - adversarial_accuracy(robust, X[:40], y[:40], threat))
        assert np.array_equal(TreeEnsemble.parse_json(robust.ensemble_.to_json()).predict(X), robust.predict(X))

    def test_bins(self) -> None:
        """With bins for all ends, and with a few; on uint8 codes with a code for what is missing."""
        X, y = make_table(2000)
        for max_bins in (255, 16):
            tree = RobustTreeClassifier(ThreatModel(0.05, blank=[0]), max_bins=max_bins, max_depth=4).fit(X, y)
            assert tree.score(X, y) > 0.6

    def test_missing_where_none_was(self) -> None:
        """A feature that was complete in a node sends missing values where more rows went."""
        X = np.array([[1.0, NAN], [2.0, 1.0], [3.0, 1.0], [9.0, 1.0], [8.0, NAN]] * 3)
        y = [0, 0, 0, 1, 1] * 3
        tree = RobustTreeClassifier().fit(X, y)
        assert tree.predict([[NAN, 1.0]]).tolist() == [0]

    def test_without_missing_values_nothing_changes(self) -> None:
        table = load_dataset("banknote-authentication")
        tree = RobustTreeClassifier(0.1, max_depth=4).fit(table.data, table.target)
        assert not tree.ensemble_.schema.accepts_missing
        with pytest.raises(ValueError, match=r"missing|NaN"):
            tree.predict(np.full((1, 4), NAN))

    def test_refusals(self) -> None:
        X, y = make_table(40)
        hiding = ThreatModel(0.1, blank="all")
        with pytest.raises(ValueError, match=r"rho=0\.5: with blank or fill"):
            RobustTreeClassifier(hiding, rho=0.5).fit(X, y)
        with pytest.raises(ValueError, match=r"missing|NaN"):
            RobustTreeClassifier(0.1, attacker="chen").fit(X, y)
        with pytest.raises(ValueError, match="blank='all': attacker='chen' takes complete rows only"):
            RobustTreeClassifier(hiding, attacker="chen").fit(np.nan_to_num(X), y)


class TestCategories:
    @pytest.mark.parametrize("rho", [1.0, 0.4, 0.0])
    @pytest.mark.parametrize("entry", [None, "<>", {"b": ["c", "d"], "e": ["a"]}])
    def test_two_classes_are_as_the_exact_grower_has_them(self, entry: Any, rho: float) -> None:
        """Bins for numbers and one for each category: the leaves of both growers are the same."""
        generator = np.random.default_rng(1)
        n_rows = 200
        table = pd.DataFrame({"color": pd.Categorical(generator.choice([*"abcdefgh"], n_rows)), "size": 0.0})
        table["size"] = generator.integers(0, 9, n_rows).astype(float)
        odds = table["color"].cat.codes.to_numpy() / 8 + table["size"].to_numpy() / 9
        y = (odds + 0.3 * generator.normal(size=n_rows) > 1.0).astype(int)
        threat = {"color": entry, "size": 1.0}
        exact, binned = (
            RobustTreeClassifier(threat, rho=rho, max_depth=3, max_bins=bins).fit(table, y) for bins in ("exact", 64)
        )
        # Which of the two sets is on the left may differ.
        np.testing.assert_allclose(exact.predict_proba(table), binned.predict_proba(table), atol=1e-9)
        np.testing.assert_allclose(*(np.sort(tree.ensemble_.cover) for tree in (exact, binned)), atol=1e-9)

    def test_many_categories(self) -> None:
        """Beyond all sets: prefixes by the shares of classes, and from there one category after another."""
        generator = np.random.default_rng(0)
        code = generator.integers(0, 40, 2000)
        table = pd.DataFrame({"id": pd.Categorical(code)})
        y = np.where(generator.random(2000) < 0.1, generator.integers(0, 3, 2000), code % 3)
        tree = RobustTreeClassifier(max_depth=2).fit(table, y)
        assert tree.score(table, y) > 0.9
        hard = RobustTreeClassifier({"id": {k: [(k + 3) % 40] for k in range(40)}}, max_depth=2).fit(table, y)
        assert hard.score(table, y) > 0.5
        assert hard.ensemble_.left_sets()[0].shape == (41,)

    def test_missing_categories(self) -> None:
        table = pd.DataFrame({"color": pd.Categorical(["red", "blue", None] * 10), "x": [1.0, NAN, 2.0] * 10})
        y = ["r", "b", "n"] * 10
        tree = RobustTreeClassifier().fit(table[["color"]].assign(x=table["x"]), y)
        assert tree.predict(table).tolist() == y
        threat = ThreatModel({"color": {"red": ["blue"]}}, blank=["color"])
        robust = RobustTreeClassifier(threat, max_depth=1).fit(table[["color"]], y)
        assert robust.ensemble_.schema.accepts_missing


class TestMonotone:
    @given(problems(), st.lists(st.sampled_from([-1, 0, 1, 1]), min_size=3, max_size=3))
    def test_every_split_is_the_best_that_keeps_the_order(self, problem: tuple, directions: list[int]) -> None:
        """For Gini impurity, whose answer of the attacker is one; with missing values that nobody blanks or fills."""
        model, X, y, weight, schema = problem
        schema = Schema(schema.n_features, None, (None,) * schema.n_features, True)
        model = RobustTreeClassifier(0.5, monotonic_cst=directions[: schema.n_features])
        threat = ThreatModel(0.5)
        y = np.minimum(y, 1)
        reach = threat.resolve(schema, [0, 1])
        options = check_grow_options(model, len(X), schema.n_features)
        options = replace(options, monotonic=read_monotonic(model.monotonic_cst, schema))
        table = Task(X, y, weight, np.ones(2), schema, np.arange(2), threat)
        tree = grow_tree(table, reach, options)
        row_weight = np.ones(len(X)) if weight is None else weight
        samples = missing_splits.make_samples(X, y, row_weight, reach, 2)
        missing_splits.check_order(tree, samples, "gini", missing_splits.Order(tuple(model.monotonic_cst)))

    @pytest.mark.parametrize("threat", [None, 0.05])
    def test_predictions_are_monotone(self, threat: float | None) -> None:
        generator = np.random.default_rng(0)
        X = generator.random((400, 3))
        y = (np.sin(9 * X[:, 0]) + X[:, 1] - X[:, 2] + 0.5 * generator.normal(size=400) > 0.3).astype(int)
        tree = RobustTreeClassifier(threat, monotonic_cst=[1, 0, -1]).fit(X, y)
        assert tree.get_n_leaves() > 10
        rows = generator.random((300, 3))
        for feature, direction in ((0, 1), (2, -1)):
            moved = rows.copy()
            moved[:, feature] += generator.random(300)
            rise = tree.predict_proba(moved)[:, 1] - tree.predict_proba(rows)[:, 1]
            assert (direction * rise >= 0.0).all()
        free = RobustTreeClassifier(threat).fit(X, y)
        assert (np.diff(free.predict_proba(np.linspace(0, 1, 99)[:, None] * [1.0, 0, 0])[:, 1]) < 0.0).any()

    def test_by_name(self) -> None:
        table = pd.DataFrame({"age": [1.0, 2.0, 3.0, 4.0], "size": [1.0, 1.0, 2.0, 2.0]})
        tree = RobustTreeClassifier(monotonic_cst={"age": -1, "size": -1}).fit(table, [0, 0, 1, 1])
        assert tree.get_n_leaves() == 1

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"monotonic_cst": [1]}, "expected 2 numbers"),
            ({"monotonic_cst": [1, 2]}, "2 for feature 1: expected 1, 0 or -1"),
            ({"monotonic_cst": {"x": 1}}, "there is no column 'x'"),
            ({"monotonic_cst": [0, 1], "categorical_features": [1]}, "feature 1 is categorical"),
            ({"monotonic_cst": [0, 1], "attacker": "chen"}, "attacker='chen': with monotonic_cst"),
        ],
    )
    def test_refusals(self, options: dict[str, Any], message: str) -> None:
        X = [[0.0, 0.0], [1.0, 1.0], [0.0, 2.0]]
        with pytest.raises(ValueError, match=message):
            RobustTreeClassifier(**options).fit(X, [0, 1, 1])
        with pytest.raises(ValueError, match="for two classes only, and y has 3"):
            RobustTreeClassifier(monotonic_cst=[1, 0]).fit(X, [0, 1, 2])
