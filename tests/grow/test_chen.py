"""The trees of Chen et al. (2019): against a slow oracle, and where they are not defined."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood import RobustTreeClassifier, adversarial_accuracy
from reference.chen import check_chen, gain_under_attack, least_gain
from reference.growing import robust_gain
from strategies import arrays

ATTACKERS = ["chen", "chen-greedy"]


@st.composite
def problems(draw: st.DrawFn) -> tuple[RobustTreeClassifier, np.ndarray, np.ndarray, Any]:
    """Small tables full of ties, with every kind of threat."""
    attacker = draw(st.sampled_from(ATTACKERS))
    n, n_features = draw(st.integers(2, 16)), draw(st.integers(1, 3))
    grid = draw(st.sampled_from([1.0, 0.25, 0.1]))
    X = grid * draw(arrays(np.int64, (n, n_features), st.integers(-4, 4)))
    y = draw(arrays(np.int64, n, st.integers(0, 1)))
    y[:2] = 0, 1
    distance = st.sampled_from([0.0, 0.5 * grid, grid, 1.5 * grid, 3.0 * grid, np.inf])
    entry = st.sampled_from([None, "<", ">", "<>"]) | distance | st.tuples(distance, distance)
    model = RobustTreeClassifier(
        threat=draw(st.lists(entry, min_size=n_features, max_size=n_features)),
        attacker=attacker,
        attacking_classes=draw(st.sampled_from([None, 0, 1])),
        criterion=draw(st.sampled_from(["gini", "entropy"])),
        max_depth=draw(st.sampled_from([None, None, 2])),
        min_samples_split=draw(st.sampled_from([2, 2, 5])),
        min_samples_leaf=draw(st.sampled_from([1, 1, 2, 3])),
        min_impurity_decrease=draw(st.sampled_from([0.0, 0.0, 0.03])),
        class_weight=draw(st.sampled_from([None, None, {0: 0.3, 1: 2.0}])),
    )
    weight = arrays(np.float64, n, st.sampled_from([0.5, 1.0, 2.0, 0.7]))
    return model, X, y, draw(st.none() | weight) if attacker == "chen" else None


@given(problems())
def test_every_node_is_the_best_it_can_be(problem: tuple) -> None:
    check_chen(*problem)


@pytest.mark.parametrize("attacker", ATTACKERS)
def test_every_node_is_the_best_it_can_be_in_a_larger_table(attacker: str) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=150), rng.integers(0, 12, 150) / 4.0])
    y = (X[:, 0] + X[:, 1] + rng.normal(0.0, 0.7, 150) > 1.5).astype(int)
    model = RobustTreeClassifier([0.15, 0.25], attacker=attacker, max_depth=4)
    assert check_chen(model, X, y).n_leaves > 6


@pytest.mark.parametrize("attacker", ATTACKERS)
def test_without_a_threat_it_is_the_ordinary_tree(attacker: str, numbers: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = numbers
    natural = RobustTreeClassifier(max_depth=6).fit(X, y)
    chen = RobustTreeClassifier(max_depth=6, attacker=attacker).fit(X, y)
    np.testing.assert_array_equal(chen.predict_proba(X), natural.predict_proba(X))


def test_where_four_cases_do_not_see_the_worst() -> None:
    """Worst is that the ambiguous ones go left and the ambiguous zeros go right, which is none of the four cases."""
    X = np.array([0.0, 0.0, 0.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 5.0, 5.0, 5.0])[:, None]
    y = np.array([0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1])
    four = RobustTreeClassifier(1.0, attacker="chen", min_samples_leaf=6).fit(X, y)
    greedy = RobustTreeClassifier(1.0, attacker="chen-greedy", min_samples_leaf=6).fit(X, y)
    assert four.ensemble_.threshold[0] == 2.5
    assert greedy.get_n_leaves() == 1


@given(st.data())
def test_greedy_is_exact_unless_the_attacker_can_level_both_sides(data: st.DataObject) -> None:
    n = data.draw(st.integers(4, 10))
    own = data.draw(arrays(np.int64, n, st.integers(-3, 4))).astype(float)
    label = data.draw(arrays(np.int64, n, st.integers(0, 1)))
    label[:2] = 0, 1
    rows, weight = (own - 1.0, own, own + 1.0, 0.5), np.ones(n)
    for criterion in ("gini", "entropy"):
        greedy = gain_under_attack("chen-greedy", criterion, weight, label, rows)
        least = least_gain(criterion, weight, label, rows)
        assert greedy >= least - 1e-12
        exact = robust_gain(criterion, *(counts(label, side) for side in (own < -0.5, own > 1.5, abs(own - 0.5) < 1.0)))
        if exact > 1e-9:
            assert greedy == pytest.approx(exact)


def counts(label: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    return np.bincount(label[chosen], minlength=2).astype(float)


@pytest.mark.parametrize("attacker", ATTACKERS)
def test_threads_and_drawn_features_grow_the_same_tree(attacker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    X = rng.random((500, 5))
    y = (X.sum(axis=1) + rng.normal(0.0, 0.2, 500) > 2.5).astype(int)
    monkeypatch.setattr("hardwood.grow.exact.LARGE_NODE", 100)
    for parameters in ({}, {"max_features": 2, "random_state": 0}, {"max_leaf_nodes": 9}):
        trees = [
            RobustTreeClassifier(0.03, attacker=attacker, n_jobs=n_jobs, **parameters).fit(X, y).ensemble_
            for n_jobs in (1, 3)
        ]
        assert trees[0].to_json() == trees[1].to_json()
        assert trees[0].n_leaves > 5


def test_it_holds_up_better_than_a_natural_tree() -> None:
    rng = np.random.default_rng(2)
    X = rng.random((600, 4))
    y = (X[:, 0] + 0.1 * X[:, 1] > 0.55).astype(int)
    scores = [
        adversarial_accuracy(RobustTreeClassifier(threat, attacker="chen", max_depth=4).fit(X, y), X, y, 0.05)
        for threat in (None, 0.05)
    ]
    assert scores[1] > scores[0]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"attacker": "greedy"}, r"attacker='greedy': expected one of 'groot', 'chen', 'chen-greedy'"),
        ({"attacker": None}, r"attacker=None: expected one of"),
        ({"attacker": "chen", "criterion": "error"}, r"criterion='error': with attacker='chen', expected"),
        ({"attacker": "chen-greedy", "rho": 0.5}, r"rho=0\.5: with attacker='chen-greedy', expected 1\.0"),
        ({"attacker": "chen", "categorical_features": [1]}, r"X: column 1 is categorical, and attacker='chen' takes"),
    ],
)
def test_what_is_not_defined(parameters: dict[str, Any], message: str, numbers: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = numbers
    with pytest.raises(ValueError, match=message):
        RobustTreeClassifier(0.1, **parameters).fit(X.round(), y)


def test_what_is_not_defined_is_named(frame: tuple[pd.DataFrame, pd.Series]) -> None:
    with pytest.raises(ValueError, match="X: column 'color' is categorical"):
        RobustTreeClassifier(attacker="chen").fit(*frame)


def test_whole_rows_have_no_weights(numbers: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = numbers
    with pytest.raises(ValueError, match="sample_weight: attacker='chen-greedy' moves whole rows"):
        RobustTreeClassifier(0.1, attacker="chen-greedy").fit(X, y, np.ones(len(y)))
