"""Attacks by local moves: the coordinate attack against its oracle, the heuristic against the exact minimum."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

from hardwood import RobustTreeClassifier, ThreatModel, as_ensemble, attack, is_vulnerable, load_dataset
from hardwood._kernels.search import coordinates, nearing
from reference import attacking, descending, enumerating
from reference.cases import Case, random_case

SEEDS = st.integers(0, 2**32)
NORMS = [np.inf, 2, 1, 0]


def exact_case(seed: int) -> Case:
    """Return a small case of a model whose sums are exact."""
    generator = np.random.default_rng(seed)
    n_cells = np.inf
    while n_cells > 5000:  # all of them are tried
        n_trees, missing = int(generator.integers(1, 6)), bool(generator.random() < 0.3)
        case = random_case(int(generator.integers(2**32)), n_trees, max_depth=3, missing=missing)
        n_cells = np.prod([len(labels or ()) + 8 for labels in case.trees.schema.categories])
    base_score, cut = np.round(case.trees.base_score * 4) / 4, round(case.trees.cut * 4) / 4
    trees = replace(case.trees, base_score=base_score, cut=cut)
    return case._replace(trees=trees, class_index=np.array([attacking.predict(trees, row) for row in case.rows]))


@pytest.fixture(scope="module")
def forest() -> tuple[RandomForestClassifier, np.ndarray, np.ndarray]:
    table = load_dataset("diabetes")
    X = (table.data - table.data.min(axis=0)) / np.ptp(table.data, axis=0)
    model = RandomForestClassifier(30, max_depth=5, random_state=0, n_jobs=1).fit(X, table.target)
    return model, X[:60], table.target[:60]


class TestCoordinate:
    @given(SEEDS)
    def test_same_as_trying_every_value(self, seed: int) -> None:
        trees, rows, label, threat = exact_case(seed)
        reach = threat.resolve(trees.schema, trees.labels)
        result = attack(trees, trees.schema.decode(rows), None, threat, norm=0, method="coordinate")
        expected = [descending.coordinate_attack(trees, row, k, reach) for row, k in zip(rows, label, strict=True)]
        assert result.found.tolist() == [example is not None for example in expected]
        for row, example, distance, point in zip(rows, result.X_adv, result.distance, expected, strict=True):
            if point is not None:
                np.testing.assert_array_equal(trees.schema.encode(example[None])[0], point)
                assert distance == ((point != row) & ~np.isnan(row)).sum()

    def test_one_change_is_found_where_one_is_enough(self, forest: Any) -> None:
        model, X, y = forest
        ensemble = as_ensemble(model)
        reach = ThreatModel(0.2).resolve(ensemble.schema, ensemble.labels)
        distance = attack(model, X, y, 0.2, norm=0, method="coordinate").distance
        alone = []
        for row, label in zip(X, y, strict=True):
            values = enumerating.reachable_values(ensemble, row, label, reach)
            points = [descending.with_value(row, j, value) for j in range(len(row)) for value in values[j]]
            alone.append((ensemble.decide(np.array(points)) != label).any())
        np.testing.assert_array_equal(distance <= 1, alone)
        assert 0 < np.mean(alone) < 1

    def test_nothing_is_proved(self, forest: Any) -> None:
        model, X, y = forest
        result = attack(model, X, y, 0.02, norm=0, method="coordinate")
        assert 0 < result.found.sum() < len(X)
        assert (result.lower == 0.0).all()
        assert np.isinf(result.distance[~result.found]).all()
        assert np.isnan(result.X_adv[~result.found]).all()


class TestLowest:
    @given(SEEDS)
    def test_no_single_change_lowers_the_margin(self, seed: int) -> None:
        trees, rows, label, threat = exact_case(seed)
        reach = threat.resolve(trees.schema, trees.labels)
        result = attack(trees, trees.schema.decode(rows), None, threat, method="lowest")
        for row, own, found, example in zip(rows, label, result.found, result.X_adv, strict=True):
            if found:
                point = trees.schema.encode(example[None])[0]
                values = enumerating.reachable_values(trees, row, own, reach)
                lowest = descending.margin(trees, point, own)
                for j in range(len(row)):
                    for value in values[j].tolist():
                        assert descending.margin(trees, descending.with_value(point, j, value), own) >= lowest

    def test_deeper_than_the_coordinate_attack(self, forest: Any) -> None:
        model, X, y = forest
        deep, first = (attack(model, X, y, 0.1, method=method) for method in ("lowest", "coordinate"))
        assert (deep.found | ~first.found).all()
        rows = np.arange(len(X))[first.found]
        own = y[first.found]
        shares = [model.predict_proba(result.X_adv[rows])[np.arange(len(rows)), own] for result in (deep, first)]
        assert (shares[0] <= shares[1] + 1e-12).all()
        assert (shares[0] < shares[1] - 0.05).any()
        wrong = model.predict(X) != y
        np.testing.assert_array_equal(deep.X_adv[wrong], X[wrong])


class TestHeuristic:
    @given(SEEDS, st.sampled_from(NORMS))
    def test_examples_are_examples_and_never_too_near(self, seed: int, norm: float) -> None:
        """`attack` checks reach and class by itself; the distance is held against every cell in reach."""
        trees, rows, label, threat = exact_case(seed)
        reach = threat.resolve(trees.schema, trees.labels)
        weight = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 3.0], trees.schema.n_features)
        table = trees.schema.decode(rows)
        result = attack(trees, table, None, threat, norm=norm, method="heuristic", feature_weight=weight)
        for row, own, found, distance in zip(rows, label, result.found, result.distance, strict=True):
            points = enumerating.adversarial_points(trees, row, own, reach)
            if found:
                nearest = enumerating.nearest(points, row, trees.schema, norm, weight)
                assert distance >= nearest * (1 - 1e-12)

    def test_most_small_cases_are_solved(self) -> None:
        """On models small enough to try every cell: how many examples are found, and how many of them are nearest."""
        exist, found, nearest = 0, 0, 0
        for seed in range(150):
            trees, rows, label, threat = exact_case(seed)
            reach = threat.resolve(trees.schema, trees.labels)
            weight = np.ones(trees.schema.n_features)
            norm = NORMS[seed % 4]
            distance = attack(trees, trees.schema.decode(rows), None, threat, norm=norm, method="heuristic").distance
            for row, own, reached in zip(rows, label, distance, strict=True):
                points = enumerating.adversarial_points(trees, row, own, reach)
                if len(points):
                    least = enumerating.nearest(points, row, trees.schema, norm, weight)
                    exist, found, nearest = exist + 1, found + np.isfinite(reached), nearest + (reached <= least + 1e-9)
        assert exist > 80
        assert found >= 0.95 * exist
        assert nearest >= 0.9 * exist

    def test_near_the_exact_minimum(self, forest: Any) -> None:
        model, X, y = forest
        exact = attack(model, X, y).distance
        result = attack(model, X, y, method="heuristic")
        right = exact > 0.0
        ratio = result.distance[right] / exact[right]
        assert (ratio >= 1.0 - 1e-12).all()
        assert (ratio <= 1.0 + 1e-9).mean() > 0.8
        assert np.mean(ratio) < 1.05
        assert (model.predict(result.X_adv) != y).all()
        assert (result.lower == 0.0).all()

    @pytest.mark.parametrize("norm", [2, 1, 0])
    def test_each_norm_is_best_at_its_own(self, forest: Any, norm: float) -> None:
        model, X, y = forest
        own = attack(model, X, y, norm=norm, method="heuristic").distance
        other = attack(model, X, y, method="heuristic")
        distance = np.linalg.norm(other.X_adv - X, norm, axis=1)
        assert (own <= distance + 1e-12).all()
        assert own.mean() < 0.9 * distance.mean()

    def test_found_only_where_there_is_one(self, forest: Any) -> None:
        model, X, y = forest
        vulnerable = is_vulnerable(model, X, y, 0.05)
        found = attack(model, X, y, 0.05, method="heuristic").found
        assert not (found & ~vulnerable).any()
        assert found.sum() >= 0.95 * vulnerable.sum()

    def test_a_category_in_a_single_tree(self) -> None:
        """The only way out is a change of category, and it is not free."""
        frame = pd.DataFrame({"color": pd.Categorical(["red", "blue"] * 10), "size": np.arange(20.0)})
        y = (frame["color"] == "red").astype(int)
        model = RobustTreeClassifier().fit(frame, y)
        result = attack(model, frame[:2], y[:2], {"color": {"red": ["blue"]}}, method="heuristic")
        assert result.found.tolist() == [True, False]
        assert result.X_adv["color"].tolist()[0] == "blue"
        assert result.distance.tolist() == [1.0, np.inf]


@pytest.mark.parametrize("method", ["coordinate", "heuristic", "lowest"])
class TestAll:
    def test_threads_and_company_change_nothing(self, forest: Any, method: str) -> None:
        model, X, y = forest
        X, y = np.tile(X, (6, 1)), np.tile(y, 6)
        one, two = (attack(model, X, y, 0.1, method=method, n_jobs=n_jobs) for n_jobs in (1, 2))
        np.testing.assert_array_equal(one.X_adv, two.X_adv)
        np.testing.assert_array_equal(one.X_adv[:60], attack(model, X[:60], y[:60], 0.1, method=method).X_adv)

    def test_rows_that_do_not_attack_stay(self, forest: Any, method: str) -> None:
        model, X, y = forest
        result = attack(model, X, y, ThreatModel("<>", attacking_classes=1), method=method)
        wrong = model.predict(X) != y
        np.testing.assert_array_equal(result.found, wrong | (y == 1))
        assert (result.distance[wrong] == 0.0).all()


@pytest.mark.parametrize("method", ["exact", "", None, 1])
def test_unknown_methods(forest: Any, method: Any) -> None:
    with pytest.raises(
        ValueError, match=r"method=.*: expected 'search', 'milp', 'heuristic', 'coordinate' or 'lowest'"
    ):
        attack(*forest, method=method)


@pytest.mark.skipif(not hasattr(nearing.bring_nearer, "overloads"), reason="compilation is switched off")
def test_one_compiled_form() -> None:
    """A choice of columns of several rows is in another order of memory than that of one row: it was compiled twice."""
    X = np.random.default_rng(0).random((300, 6)).astype(np.float32).astype(np.float64)
    y = (X[:, 0] + X[:, 3] > 1.0).astype(int)
    forest = RandomForestClassifier(3, max_depth=2, max_features=None, random_state=0, n_jobs=1).fit(X, y)
    read_only = X.copy()
    read_only.flags.writeable = False
    kernels = {
        "coordinate": coordinates.change_coordinates,
        "lowest": coordinates.change_coordinates,
        "heuristic": nearing.bring_nearer,
    }
    for table in (X[:1], X[:2], X, np.asfortranarray(X), read_only, X.astype(np.float32)):
        for method in kernels:
            for norm in NORMS:
                attack(forest, table, threat=0.3, norm=norm, method=method)
    assert {method: len(kernel.overloads) for method, kernel in kernels.items()} == dict.fromkeys(kernels, 1)
