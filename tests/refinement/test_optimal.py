"""Trees of least adversarial error against trying all trees."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimator_checks import find_faulty_checks
from hardwood import OptimalRobustTreeClassifier, RobustTreeClassifier, ThreatModel, adversarial_accuracy, load_dataset
from hardwood.refinement import optimal
from hardwood.refinement.optimal import Samples, find_optimum
from reference.optimal import least_loss


def random_samples(seed: int, depth: int) -> Samples:
    """Return rows that can be moved on a few cuts, with whole weights."""
    generator = np.random.default_rng(seed)
    n_rows = int(generator.integers(1, 25 if depth < 3 else 9))
    n_features = int(generator.integers(1, 4 if depth < 3 else 3))
    n_cuts = generator.integers(0, 12 if depth < 3 else 5, n_features)
    ends = [np.sort(generator.integers(0, count + 1, (2, n_rows)), axis=0) for count in n_cuts]
    low, high = (np.array([both[end] for both in ends], dtype=np.uint16) for end in range(2))
    weight = generator.integers(1, 4, n_rows).astype(float)
    return Samples(low, high, n_cuts.astype(np.int64), generator.integers(0, 2, n_rows, dtype=np.int32), weight)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2))
def test_two_levels_equal_trying_all_trees(seed, depth):
    samples = random_samples(seed, depth)
    best = find_optimum(samples, depth)
    assert best.loss == best.lower == least_loss(*samples, depth)
    assert best.loss == samples.weight[samples.find_lost(best.tree)].sum()


@given(st.integers(0, 2**32 - 1))
def test_three_levels_are_bounded_from_both_sides(seed):
    samples = random_samples(seed, 3)
    best = find_optimum(samples, 3)
    assert best.lower <= least_loss(*samples, 3) <= best.loss
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
    assert best.lower <= least_loss(*samples, depth) <= best.loss
    assert best.loss == samples.weight[samples.find_lost(best.tree)].sum()


def test_a_limit_that_cannot_be_beaten_is_a_bound():
    samples = random_samples(3, 2)
    least = least_loss(*samples, 2)
    assert find_optimum(samples, 2, limit=least) == (None, least, least)


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


def test_categories_that_move_or_abound_are_refused():
    table = pd.DataFrame({"c": pd.Categorical([str(k) for k in range(10)]), "x": np.arange(10.0)})
    y = [0, 1] * 5
    with pytest.raises(ValueError, match=r"column 'c' has 10 categories; .* 8 at most"):
        OptimalRobustTreeClassifier().fit(table, y)
    with pytest.raises(ValueError, match="lets categories of column 'c' change"):
        OptimalRobustTreeClassifier({"c": "<>"}).fit(table, y)


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
    [OptimalRobustTreeClassifier(max_depth=1), OptimalRobustTreeClassifier(0.1)],
    expected_failed_checks=lambda estimator: (
        find_faulty_checks(estimator)
        | {"check_class_weight_classifiers": "a leaf of one class predicts it, however little it weighs"}
    ),
)
def test_scikit_learn(estimator, check):
    check(estimator)
