"""Trees on bins: with bins for all ends they are the exact trees, with fewer they are close, whatever the threads."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood import RobustTreeClassifier, ThreatModel, adversarial_accuracy
from hardwood.ensemble import TreeEnsemble
from hardwood.estimators.parameters import check_grow_options
from hardwood.estimators.target import read_problem
from hardwood.grow import classes
from hardwood.grow.tree import grow_binned, grow_tree
from hardwood.table import Schema
from strategies import arrays

CRITERIA = ["gini", "entropy", "error"]


def grow_both(
    model: RobustTreeClassifier, X: np.ndarray, y: np.ndarray, weight: Any, max_bins: int | None = None
) -> tuple[TreeEnsemble, TreeEnsemble]:
    """The trees on bins and of the exact grower."""
    problem = read_problem(model, X, y, weight)
    reach = problem.threat.resolve(problem.schema, problem.classes)
    options = check_grow_options(model, len(problem.X), problem.schema.n_features)
    return grow_binned(problem, reach, options, max_bins), grow_tree(problem, reach, options)


def assert_same_tree(ours: TreeEnsemble, exact: TreeEnsemble) -> None:
    """Same splits, same numbering; thresholds but for ends that count as equal, values but for rounding."""
    np.testing.assert_array_equal(ours.feature, exact.feature)
    np.testing.assert_array_equal(ours.left, exact.left)
    np.testing.assert_allclose(ours.threshold, exact.threshold, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(ours.value, exact.value, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(ours.cover, exact.cover, rtol=1e-9)


@st.composite
def problems(draw: st.DrawFn) -> tuple[RobustTreeClassifier, np.ndarray, np.ndarray, Any]:
    """Small tables full of ties, on grids of integers, binary fractions and decimals, with every kind of threat."""
    n, n_features = draw(st.integers(2, 40)), draw(st.integers(1, 3))
    grid = draw(st.sampled_from([1.0, 0.25, 0.1]))
    X = grid * draw(arrays(np.int64, (n, n_features), st.integers(-6, 6)))
    y = draw(arrays(np.int64, n, st.integers(0, 1)))
    y[:2] = 0, 1
    distance = st.sampled_from([0.0, 0.5 * grid, grid, 1.5 * grid, 3.0 * grid, np.inf])
    entry = st.sampled_from([None, "<", ">", "<>"]) | distance | st.tuples(distance, distance)
    features = range(n_features)
    threat = ThreatModel(
        draw(st.lists(entry, min_size=n_features, max_size=n_features)),
        draw(st.sampled_from([None, 0, 1])),
        whole_numbers=[j for j in features if grid == 1.0 and draw(st.booleans())],
        within={j: (-6.5 * grid, 7.0 * grid) for j in features if draw(st.booleans())},
    )
    model = RobustTreeClassifier(
        threat=threat,
        rho=draw(st.sampled_from([1.0, 1.0, 0.5, 0.3, 0.0])),
        criterion=draw(st.sampled_from(CRITERIA)),
        max_depth=draw(st.sampled_from([None, None, None, 2])),
        min_samples_split=draw(st.sampled_from([2, 2, 2, 5])),
        min_samples_leaf=draw(st.sampled_from([1, 1, 2, 3])),
        min_impurity_decrease=draw(st.sampled_from([0.0, 0.0, 0.0, 0.03])),
        max_features=draw(st.sampled_from([None, None, 1, 2])),
        max_leaf_nodes=draw(st.sampled_from([None, None, 2, 5])),
        class_weight=draw(st.sampled_from([None, None, {0: 0.3, 1: 2.0}])),
        random_state=draw(st.integers(0, 3)),
    )
    weight = arrays(np.float64, n, st.sampled_from([0.5, 1.0, 2.0, 0.7]))
    return model, X, y, draw(st.none() | weight)


@given(problems())
def test_bins_for_all_ends_are_the_exact_tree(problem: tuple) -> None:
    assert_same_tree(*grow_both(*problem))


def make_table(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = generator.random((n, 4))
    y = (np.sin(6 * X) @ [1.0, 0.8, 0.6, 0.4] > 0.0).astype(np.int64)
    return X, np.where(generator.random(n) < 0.1, 1 - y, y)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("rho", [1.0, 0.4])
@pytest.mark.parametrize("max_leaf_nodes", [None, 30])
def test_codes_of_two_bytes(criterion: str, rho: float, max_leaf_nodes: int | None) -> None:
    """Thousands of ends per feature, as real numbers have them."""
    X, y = make_table(1500)
    model = RobustTreeClassifier(
        [0.02, (0.01, 0.05), ">", None], criterion=criterion, rho=rho, max_leaf_nodes=max_leaf_nodes
    )
    for weight in (None, np.random.default_rng(1).integers(1, 5, len(X)) / 7.0):
        assert_same_tree(*grow_both(model, X, y, weight))


def test_histograms_that_do_not_fit_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for three histograms, in depth and in breadth: the tree is the same."""
    monkeypatch.setattr(classes, "HISTOGRAM_BYTES", 1)
    X, y = make_table(600)
    for max_leaf_nodes in (None, 40):
        model = RobustTreeClassifier(0.01, max_leaf_nodes=max_leaf_nodes)
        ours, exact = grow_both(model, X, y, None)
        assert len(exact.feature) > 60
        assert_same_tree(ours, exact)


@pytest.mark.parametrize("rho", [1.0, 0.5])
def test_neither_rows_nor_threads_matter(rho: float) -> None:
    X, y = make_table(3000)
    weight = np.random.default_rng(2).random(len(X)) + 0.5
    shuffled = np.random.default_rng(3).permutation(len(X))
    for w in (None, weight):
        one, two = (RobustTreeClassifier(0.03, rho=rho, max_depth=6, n_jobs=k) for k in (1, 2))
        first, _ = grow_both(one, X, y, w, 32)
        for other in (
            grow_both(two, X, y, w, 32)[0],
            grow_both(one, X[shuffled], y[shuffled], None if w is None else w[shuffled], 32)[0],
        ):
            for name in ("feature", "threshold", "left", "value", "cover"):
                np.testing.assert_array_equal(getattr(first, name), getattr(other, name))


@pytest.mark.parametrize("decimals", [None, 2])
def test_large_tables_lose_nothing(decimals: int | None) -> None:
    """With 255 bins, adversarial accuracy on new rows is within .005 of the exact tree's, or better."""
    X, y = make_table(120_000)
    X = X if decimals is None else np.round(X, decimals)
    new = slice(100_000, None)
    exact, ours = (
        adversarial_accuracy(
            RobustTreeClassifier(0.03, max_depth=6, max_bins=max_bins).fit(X[:100_000], y[:100_000]),
            X[new],
            y[new],
            0.03,
        )
        for max_bins in ("exact", 255)
    )
    assert exact > 0.6
    assert ours > exact - 0.005


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_table_of_float32_is_not_copied(n_classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At ten million rows the copy in float64 was larger than all else together."""
    generator = np.random.default_rng(0)
    X = generator.random((500, 3), dtype=np.float32)
    y = (X.sum(axis=1) * n_classes / 3.0).astype(int)
    model = RobustTreeClassifier(0.05, max_depth=4, max_bins=32)
    wide = model.fit(X.astype(np.float64), y).ensemble_.to_json()
    seen = []

    def watch(schema: Schema, table: Any) -> np.ndarray:
        matrix = encode(schema, table)
        seen.append(matrix is table)
        return matrix

    encode = Schema.encode_narrow
    monkeypatch.setattr(Schema, "encode_narrow", watch)
    assert model.fit(X, y).ensemble_.to_json() == wide
    assert seen == [True]  # encoded once, and not copied
    X[3, 1] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.fit(X, y)
