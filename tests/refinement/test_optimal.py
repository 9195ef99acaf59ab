"""Trees of least adversarial error against trying all trees."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimator_checks import find_faulty_checks
from hardwood import OptimalRobustTreeClassifier, RobustTreeClassifier, ThreatModel, adversarial_accuracy, load_dataset
from hardwood.refinement import optimal
from hardwood.refinement.leaf_values import measure_loss
from hardwood.refinement.optimal import Samples, find_optimum
from hardwood.refinement.optimal_tree import prove_optimum
from hardwood.refinement.rows import Rows
from hardwood.table import Schema
from reference import attacking, refining
from reference.optimal import least_loss, least_loss_of_points


def random_samples(seed: int, depth: int) -> Samples:
    """Return rows that can be moved on a few cuts, with whole weights."""
    generator = np.random.default_rng(seed)
    n_rows = int(generator.integers(1, 25 if depth < 3 else 9))
    n_features = int(generator.integers(1, 4 if depth < 3 else 3))
    n_cuts = generator.integers(0, 12 if depth < 3 else 5, n_features)
    ends = [np.sort(generator.integers(0, count + 1, (2, n_rows)), axis=0) for count in n_cuts]
    low, high = (np.array([both[end] for both in ends], dtype=np.uint16) for end in range(2))
    weight = generator.integers(1, 4, n_rows).astype(float)
    n_classes = int(generator.integers(2, 4 if depth < 3 else 3))
    label = generator.integers(0, n_classes, n_rows, dtype=np.int32)
    return Samples(low, high, n_cuts.astype(np.int64), label, weight, n_classes)


def find_least(samples: Samples, depth: int) -> float:
    """Return the least loss of all trees of a depth."""
    return least_loss(*samples[:6], depth)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2))
def test_two_levels_equal_trying_all_trees(seed, depth):
    samples = random_samples(seed, depth)
    best = find_optimum(samples, depth)
    assert best.loss == best.lower == find_least(samples, depth)
    assert best.loss == samples.weight[samples.find_lost(best.tree)].sum()


@given(st.integers(0, 2**32 - 1))
def test_three_levels_are_bounded_from_both_sides(seed):
    samples = random_samples(seed, 3)
    best = find_optimum(samples, 3)
    assert best.lower <= find_least(samples, 3) <= best.loss
    assert best.loss == samples.weight[samples.find_lost(best.tree)].sum()


@given(st.integers(0, 2**32 - 1), st.integers(0, 30), st.integers(2, 3), st.booleans())
@example(0, 0, 2, False)
def test_what_is_known_when_the_search_is_stopped_holds(seed, n_looks, depth, by_interrupt):
    """However early the clock or Ctrl-C ends it, the least loss lies between both numbers."""
    samples, looks = random_samples(seed, depth), itertools.count()

    def clock() -> float:
        if next(looks) < n_looks:
            return 0.0
        if by_interrupt:
            raise KeyboardInterrupt
        return 2.0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimal, "working_time", clock)
        best = find_optimum(samples, depth, end=1.0)
    assert best.lower <= find_least(samples, depth) <= best.loss
    assert best.loss == samples.weight[samples.find_lost(best.tree)].sum()


def test_a_limit_that_cannot_be_beaten_is_a_bound():
    samples = random_samples(3, 2)
    least = find_least(samples, 2)
    assert find_optimum(samples, 2, limit=least) == (None, least, least)


def test_a_table_with_nothing_to_ask_gets_a_leaf():
    """A single column of a single category made no cuts at all, and the search failed on an empty list of them."""
    model = OptimalRobustTreeClassifier().fit(pd.DataFrame({"c": pd.Categorical(["a"] * 3)}), [0, 1, 1])
    assert model.get_n_leaves() == 1
    assert model.is_optimal_


@given(st.integers(0, 2**32 - 1), st.integers(0, 2))
def test_missing_values_and_categories_that_change_equal_trying_all_trees(seed, depth):
    """Values go missing and come back, categories become others, up to four classes: all trees are tried."""
    generator = np.random.default_rng(seed)
    n_rows, n_classes = int(generator.integers(2, 9)), int(generator.integers(2, 5))
    kinds = [("u", "v"), None, ("x", "y", "z")]
    categories = tuple(kinds[k] for k in generator.integers(3, size=2))
    schema = Schema(2, None, categories, accepts_missing=bool(generator.integers(2)))
    X = np.column_stack([generator.integers(0, 3 if labels is None else len(labels), n_rows) for labels in categories])
    X, hidden = X.astype(float), {}
    if schema.accepts_missing:
        X[generator.random(X.shape) < 0.25] = np.nan
        forms = [None, "all", [0], [1]]
        hidden = {"blank": forms[generator.integers(4)], "fill": forms[generator.integers(4)]}
    forms = {None: [None, 1.0, ">"], kinds[0]: [None, "<>"], kinds[2]: [{"x": ["y"]}, {"x": ["y"], "y": ["z", "x"]}]}
    threat = ThreatModel(
        [forms[labels][generator.integers(len(forms[labels]))] for labels in categories],
        attacking_classes=[None, [0], [0, 1]][generator.integers(3)],
        **hidden,
    )
    label = generator.integers(0, n_classes, n_rows)
    leaf = attacking.build(0, schema=schema, n_classes=n_classes)
    rows = Rows(X, label, generator.integers(1, 3, n_rows).astype(float), threat.resolve(schema, leaf.labels))
    proof = prove_optimum(rows, leaf, measure_loss(leaf, rows), depth, np.inf)
    tests, points = list_tests(X, categories), list_points(rows, categories)
    least = least_loss_of_points(points, tests, label, rows.weight, n_classes, depth)
    assert proof.loss == proof.lower == least
    assert refining.loss_by_points(proof.ensemble, rows) == least


def list_tests(X, categories):
    """List all tests of a table of small whole numbers and categories: of points, which go left."""
    tests = []
    for feature, labels in enumerate(categories):
        for missing_left in (False, True):
            if labels is None:
                for threshold in (-1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 1e300):
                    tests.append(partial(goes_left, feature, threshold, missing_left))
            else:
                codes = range(len(labels) + 1)
                for size in codes:
                    for chosen in itertools.combinations(codes, size):
                        tests.append(partial(goes_left, feature, chosen, missing_left))
    return tests


def goes_left(feature, test, missing_left, points):
    values = points[:, feature]
    there = np.isin(values, test) if isinstance(test, tuple) else values <= test
    return np.where(np.isnan(values), missing_left, there)


def list_points(rows, categories):
    """List the points that each row can be turned into; of numbers, the whole ones: all thresholds are between them."""
    points = []
    for row, label in zip(rows.matrix, rows.label.tolist(), strict=True):
        choices = [
            list_choices(rows.reach, feature, x, labels)
            for feature, (x, labels) in enumerate(zip(row, categories, strict=True))
        ]
        points.append(np.array(list(itertools.product(*choices)) if rows.reach.attacks[label] else [row]))
    return points


def list_choices(reach, feature, x, labels):
    """List what one value can be turned into."""
    is_missing = bool(np.isnan(x))
    hidden = reach.fill if is_missing else reach.blank
    is_open = hidden is not None and bool(hidden[feature])
    if is_missing:
        found = [float(k) for k in range(-1, 4) if is_open] if labels is None else list(range(is_open * len(labels)))
    elif labels is None:
        found = [float(k) for k in range(-1, 4) if x - reach.left[feature] <= k <= x + reach.right[feature]]
    else:
        found = np.flatnonzero(reach.categories[feature][int(x)]).tolist()
    return [*found, *([np.nan] if is_missing or is_open else [])]


@given(st.integers(0, 2**32 - 1))
def test_the_estimator_reports_the_exact_adversarial_loss(seed):
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(30, 3)).round(1)
    y = np.append([0, 1], generator.integers(0, 2, 28))
    threat = ThreatModel([0.2, "<", (0.1, 0.3)], attacking_classes=generator.choice([None, 0, 1]))
    model = OptimalRobustTreeClassifier(threat).fit(X, y)
    assert model.is_optimal_
    assert model.gap_ == 0.0
    assert model.get_depth() <= 2
    assert adversarial_accuracy(model, X, y, threat) == pytest.approx(1.0 - model.loss_)
    for refine in (None, "alternate"):
        rival = RobustTreeClassifier(threat, max_depth=2, refine=refine).fit(X, y)
        assert adversarial_accuracy(rival, X, y, threat) <= 1.0 - model.loss_ + 1e-12


def test_weights_and_rho_enter_the_loss():
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 1, 0, 1]
    model = OptimalRobustTreeClassifier(0.6, rho=0.25, max_depth=1).fit(X, y, sample_weight=[4.0, 1.0, 1.0, 4.0])
    right = model.predict(X) == y
    held = [adversarial_accuracy(model, X[[k]], [y[k]], 0.6) for k in range(4)]
    lost = np.array([4.0, 1.0, 1.0, 4.0]) @ (0.75 * ~right + 0.25 * (1.0 - np.array(held)))
    assert model.loss_ == pytest.approx(lost / 10.0)


def test_categories_are_divided_in_the_best_way():
    """Every partition is tried: the best one is no prefix of the categories in any order of class shares, twice."""
    table = pd.DataFrame({"c": pd.Categorical(list("abcdabcd")), "x": [0.0, 0, 0, 0, 1, 1, 1, 1]})
    y = [0, 1, 0, 1, 1, 0, 1, 0]
    model = OptimalRobustTreeClassifier({"x": 0.4}).fit(table, y)
    assert model.loss_ == 0.0
    assert model.predict(table).tolist() == y


def test_categories_that_abound_and_attackers_with_wishes_are_refused():
    table = pd.DataFrame({"c": pd.Categorical([str(k) for k in range(10)]), "x": np.arange(10.0)})
    with pytest.raises(ValueError, match=r"column 'c' has 10 categories; .* 8 at most"):
        OptimalRobustTreeClassifier().fit(table, [0, 1] * 5)
    X, y = np.arange(6.0)[:, None], [0, 1, 2] * 2
    with pytest.raises(ValueError, match="give the list of classes that attack"):
        OptimalRobustTreeClassifier(0.1, attacking_classes={0: [1]}).fit(X, y)
    with pytest.raises(ValueError, match=r"rho=0\.5: with blank or fill"):
        OptimalRobustTreeClassifier(ThreatModel(0.1, blank="all"), rho=0.5).fit(X, y)


def test_three_classes_are_proved():
    X, y = load_iris(return_X_y=True)
    model = OptimalRobustTreeClassifier(0.2).fit(X, y)
    assert model.is_optimal_
    assert adversarial_accuracy(model, X, y, 0.2) == pytest.approx(1.0 - model.loss_)
    rival = RobustTreeClassifier(0.2, max_depth=2, refine="search", refine_price=0.0, random_state=0).fit(X, y)
    assert adversarial_accuracy(rival, X, y, 0.2) <= 1.0 - model.loss_ + 1e-12


@pytest.mark.parametrize("name", ["haberman", "blood-transfusion", "breast-w", "banknote-authentication"])
def test_tables_of_the_paper_are_proved(name):
    table = load_dataset(name)
    model = OptimalRobustTreeClassifier(0.1, time_limit=None).fit(table.data, table.target)
    assert model.is_optimal_
    assert adversarial_accuracy(model, table.data, table.target, 0.1) == pytest.approx(1.0 - model.loss_)


def test_no_time_at_all_still_gives_a_tree():
    table = load_dataset("diabetes")
    model = OptimalRobustTreeClassifier(0.1, max_depth=3, time_limit=0.0).fit(table.data, table.target)
    assert 0.0 <= model.lower_bound_ < model.loss_ < 0.35
    assert not model.is_optimal_
    assert model.gap_ == model.loss_ - model.lower_bound_


def test_progress_narrows_the_gap():
    table, seen = load_dataset("haberman"), []
    OptimalRobustTreeClassifier(0.1, progress=lambda *both: seen.append(both)).fit(table.data, table.target)
    lower, upper = np.array(seen).T
    assert (np.diff(lower) >= 0.0).all()
    assert (np.diff(upper) <= 0.0).all()
    assert lower[-1] == upper[-1]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"max_depth": 2.5}, "max_depth=2.5: expected an integer >= 0"),
        ({"max_depth": -1}, "max_depth=-1: expected an integer >= 0"),
        ({"time_limit": -1}, "time_limit=-1: expected a number >= 0"),
        ({"rho": 2}, "rho=2: expected a number >= 0 and <= 1"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        OptimalRobustTreeClassifier(**parameters).fit([[0.0], [1.0]], [0, 1])


@parametrize_with_checks(
    [OptimalRobustTreeClassifier(), OptimalRobustTreeClassifier(0.1)],
    expected_failed_checks=lambda estimator: (
        find_faulty_checks(estimator)
        | {"check_class_weight_classifiers": "a leaf of one class predicts it, however little it weighs"}
    ),
)
def test_scikit_learn(estimator, check):
    check(estimator)
