"""Trees of classes on bins: two classes by every target, many classes against bisection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_binned import CRITERIA, assert_same_tree, make_table, problems

from hardwood import RobustTreeClassifier
from hardwood.ensemble import TreeEnsemble
from hardwood.estimators.parameters import check_grow_options
from hardwood.estimators.target import read_problem
from hardwood.grow import classes as growers
from hardwood.grow.classes import grow_classes
from hardwood.grow.coded_rows import code_rows
from hardwood.grow.general_sweep import sweep_classes
from hardwood.grow.limits import GrowOptions
from hardwood.grow.tree import finish, grow_tree
from hardwood.rows.task import Task
from hardwood.table import Schema
from hardwood.threat import Reach, ThreatModel
from reference import many_classes
from strategies import arrays


def grow_all(problem: Task, reach: Reach, options: GrowOptions) -> Iterator[TreeEnsemble]:
    """The trees by a sweep, and on bins for all ends of reach by every target that can grow them."""
    yield finish(sweep_classes(problem, reach, options), problem, reach)
    coded = code_rows(problem, reach, options, None)
    names = ["two", "plain", "all"] if coded.bins.dtype == np.uint8 else ["all"]
    for name in names if len(problem.classes) == 2 else names[-2:]:
        with patch.object(growers, "choose_target", return_value=growers.TARGETS[name]):
            yield finish(grow_classes(problem, coded, options), problem, reach)


def grow(
    model: RobustTreeClassifier, X: np.ndarray, y: np.ndarray, weight: Any = None, max_bins: int | None = None
) -> TreeEnsemble:
    """Grow a tree of any number of classes; without bins, by all growers that can, which agree."""
    schema, classes = Schema.numeric(X.shape[1]), np.unique(y)
    class_weight = [(model.class_weight or {}).get(label, 1.0) for label in classes.tolist()]
    threat = ThreatModel.coerce(model.threat, model.attacking_classes)
    problem = Task(X, np.searchsorted(classes, y), weight, np.array(class_weight), schema, classes, threat)
    options = check_grow_options(model, len(X), X.shape[1])
    reach = threat.resolve(schema, classes)
    if max_bins is not None:
        return finish(grow_classes(problem, code_rows(problem, reach, options, max_bins), options), problem, reach)
    swept, *on_bins = grow_all(problem, reach, options)
    for tree in on_bins:
        assert_same_tree(tree, swept)
    return tree


@given(problems())
def test_two_classes_are_the_exact_tree(problem: tuple) -> None:
    model, X, y, weight = problem
    problem = read_problem(model, X, y, weight)
    reach = problem.threat.resolve(problem.schema, problem.classes)
    options = check_grow_options(model, len(problem.X), problem.schema.n_features)
    exact = grow_tree(problem, reach, options)
    for tree in grow_all(problem, reach, options):
        assert_same_tree(tree, exact)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("rho", [1.0, 0.4])
def test_two_classes_in_thousands_of_bins(criterion: str, rho: float) -> None:
    X, y = make_table(1500)
    model = RobustTreeClassifier([0.02, (0.01, 0.05), ">", None], criterion=criterion, rho=rho)
    for weight in (None, np.random.default_rng(1).integers(1, 5, len(X)) / 7.0):
        problem = read_problem(model, X, y, weight)
        reach = problem.threat.resolve(problem.schema, problem.classes)
        options = check_grow_options(model, len(problem.X), problem.schema.n_features)
        exact = grow_tree(problem, reach, options)
        for tree in grow_all(problem, reach, options):
            assert_same_tree(tree, exact)


@st.composite
def many_class_problems(draw: st.DrawFn) -> tuple[RobustTreeClassifier, np.ndarray, np.ndarray, Any]:
    """Small tables full of ties, of three to six classes, with every kind of threat."""
    n_classes = draw(st.integers(3, 6))
    n, n_features = draw(st.integers(n_classes, 40)), draw(st.integers(1, 3))
    grid = draw(st.sampled_from([1.0, 0.25]))
    X = grid * draw(arrays(np.int64, (n, n_features), st.integers(-6, 6)))
    y = draw(arrays(np.int64, n, st.integers(0, n_classes - 1)))
    y[:n_classes] = np.arange(n_classes)
    distance = st.sampled_from([0.0, 0.5 * grid, grid, 1.5 * grid, 3.0 * grid, np.inf])
    entry = st.sampled_from([None, "<", ">", "<>"]) | distance | st.tuples(distance, distance)
    attacking = draw(st.none() | st.sets(st.integers(0, n_classes - 1), min_size=1).map(sorted))
    model = RobustTreeClassifier(
        threat=draw(st.lists(entry, min_size=n_features, max_size=n_features)),
        attacking_classes=attacking,
        rho=draw(st.sampled_from([1.0, 1.0, 0.5, 0.0])),
        criterion=draw(st.sampled_from(CRITERIA)),
        class_weight=draw(st.sampled_from([None, None, {0: 0.5, 1: 2.0}])),
    )
    return model, X, y, draw(st.none() | arrays(np.float64, n, st.sampled_from([0.5, 1.0, 2.0, 0.7])))


def samples_of(model: RobustTreeClassifier, X: np.ndarray, y: np.ndarray, weight: Any) -> many_classes.Samples:
    classes = np.unique(y)
    label = np.searchsorted(classes, y)
    by_class = np.array([(model.class_weight or {}).get(k, 1.0) for k in classes.tolist()])[label]
    reach = ThreatModel.coerce(model.threat, model.attacking_classes).resolve(Schema.numeric(X.shape[1]), classes)
    row_weight = by_class if weight is None else weight * by_class
    return many_classes.make_samples(X, label, row_weight, reach, model.rho, len(classes))


@given(many_class_problems())
def test_every_split_is_the_best_there_is(problem: tuple) -> None:
    """By bisection over the attacker's answers; and the children hold what the attacker sends there."""
    model, X, y, weight = problem
    many_classes.check_splits(grow(model, X, y, weight), samples_of(model, X, y, weight), model.criterion)


def make_classes(n: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = generator.random((n, 4))
    score = np.sin(6 * X) @ [1.0, 0.8, 0.6, 0.4] + 0.3 * generator.normal(size=n)
    return X, np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)


@pytest.mark.parametrize("min_samples_leaf", [5, 0.1])
@pytest.mark.parametrize("rho", [1.0, 0.5])
def test_leaves_are_large_enough(min_samples_leaf: float, rho: float) -> None:
    """Rows are counted as they go down; of divided classes, each child is large enough whoever goes there."""
    X, y = make_classes(300, 5)
    model = RobustTreeClassifier(0.1, min_samples_leaf=min_samples_leaf, rho=rho)
    tree = grow(model, X, y)
    assert tree.n_leaves > 3
    assert tree.cover[tree.feature < 0].min() >= (5 if min_samples_leaf == 5 else 30) - 1e-6


def test_histograms_that_do_not_fit_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for three histograms, in depth and in breadth: the tree is the same."""
    X, y = make_classes(600, 4)
    for max_leaf_nodes in (None, 40):
        model = RobustTreeClassifier(0.01, max_leaf_nodes=max_leaf_nodes)
        for weight in (None, np.random.default_rng(2).random(len(X)) + 0.5):
            with monkeypatch.context() as context:
                roomy = grow(model, X, y, weight)
                context.setattr(growers, "HISTOGRAM_BYTES", 1)
                assert len(roomy.feature) > 60
                assert_equal(roomy, grow(model, X, y, weight))


def assert_equal(first: TreeEnsemble, other: TreeEnsemble) -> None:
    for name in ("feature", "threshold", "left", "value", "cover"):
        np.testing.assert_array_equal(getattr(first, name), getattr(other, name))


@pytest.mark.parametrize("criterion", CRITERIA)
def test_threads_do_not_matter(criterion: str) -> None:
    X, y = make_classes(5000, 5)
    one, two = (RobustTreeClassifier(0.03, criterion=criterion, max_depth=6, n_jobs=k) for k in (1, 2))
    assert_equal(grow(one, X, y, None, 32), grow(two, X, y, None, 32))


def test_rows_of_a_class_are_exchangeable() -> None:
    """Shuffled rows, in few bins and in many: the same tree."""
    X, y = make_classes(1500, 4)
    shuffled = np.random.default_rng(3).permutation(len(X))
    model = RobustTreeClassifier(0.03, max_depth=6)
    for weight in (None, np.random.default_rng(2).random(len(X)) + 0.5):
        for max_bins in (20, None):
            other = grow(model, X[shuffled], y[shuffled], None if weight is None else weight[shuffled], max_bins)
            assert_equal(grow(model, X, y, weight, max_bins), other)


def test_weights_count_rows() -> None:
    """A row of weight 3 is the row three times, also where a class is divided."""
    X, y = make_classes(300, 5)
    weight = np.random.default_rng(2).integers(1, 4, len(X))
    model = RobustTreeClassifier(0.1)
    once, often = grow(model, X, y, weight.astype(float)), grow(model, X.repeat(weight, axis=0), y.repeat(weight))
    assert once.n_leaves > 20
    np.testing.assert_array_equal(once.feature, often.feature)
    np.testing.assert_allclose(once.threshold, often.threshold)
    np.testing.assert_allclose(once.value, often.value, atol=1e-12)


def test_class_names_do_not_matter() -> None:
    """Classes in another order: the same splits, but for ties."""
    X, y = make_classes(1500, 4)
    model = RobustTreeClassifier(0.03, max_depth=5)
    first, other = grow(model, X, y), grow(model, X, 3 - y)
    np.testing.assert_array_equal(first.feature, other.feature)
    np.testing.assert_allclose(first.threshold, other.threshold)
    np.testing.assert_allclose(first.value, other.value[:, ::-1], atol=1e-12)
