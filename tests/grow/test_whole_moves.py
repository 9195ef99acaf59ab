"""Training against an attacker who moves by whole numbers, within a domain."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood import OptimalRobustTreeClassifier, RobustTreeClassifier, adversarial_accuracy, refine
from hardwood.threat import ThreatModel
from reference import growing

DISTANCES: list[Any] = [None, 0.5, 1, 1.5, 2, (1, 2.5), (0.4, 2), ">", "<", "<>"]


def random_problem(seed: int) -> tuple[np.ndarray, np.ndarray, ThreatModel]:
    generator = np.random.default_rng(seed)
    n_rows = int(generator.integers(8, 40))
    X = np.column_stack([generator.integers(0, 8, (n_rows, 2)), generator.integers(0, 80, n_rows) / 10])
    y = (X.sum(axis=1) + generator.normal(0.0, 3.0, n_rows) > 12.0).astype(int)
    y[:2] = 0, 1
    entries = [DISTANCES[k] for k in generator.integers(len(DISTANCES), size=3)]
    domains = {j: (float(generator.choice([-0.5, 0.0])), float(generator.choice([8.0, 9.5]))) for j in range(3)}
    within = {j: pair for j, pair in domains.items() if generator.random() < 0.7}
    attacking = [None, [0], [1]][generator.integers(3)]
    return X, y, ThreatModel(entries, attacking, whole_numbers=[0, 1], within=within)


@given(seed=st.integers(0, 10**6), rho=st.sampled_from([1.0, 0.7]), criterion=st.sampled_from(["gini", "error"]))
def test_every_split_is_the_best(seed: int, rho: float, criterion: str) -> None:
    """The oracle reads what a row can become off its ends, which a test of `Reach` compares with all whole numbers."""
    X, y, threat = random_problem(seed)
    model = RobustTreeClassifier(threat, max_depth=4, rho=rho, criterion=criterion)
    tree = growing.check_fit(model, X, y)
    thresholds = tree.threshold[(tree.feature == 0) | (tree.feature == 1)]
    np.testing.assert_array_equal(thresholds, np.floor(thresholds))


@given(seed=st.integers(0, 10**6))
def test_bins_for_all_ends_are_as_good(seed: int) -> None:
    X, y, threat = random_problem(seed)
    growing.check_fit(RobustTreeClassifier(threat, max_depth=4, max_bins=250), X, y)


@pytest.mark.parametrize("attacker", ["groot", "chen", "chen-greedy"])
def test_distances_are_rounded_down(attacker: str) -> None:
    """Moving whole numbers by 1.9 is moving them by 1, in training, too."""
    X, y, _ = random_problem(7)
    trees = [
        RobustTreeClassifier(
            ThreatModel([distance, distance, None], whole_numbers=[0, 1]), max_depth=4, attacker=attacker
        )
        .fit(X, y)
        .ensemble_
        for distance in (1, 1.9)
    ]
    np.testing.assert_array_equal(trees[0].threshold, trees[1].threshold)
    np.testing.assert_array_equal(trees[0].value, trees[1].value)


@pytest.mark.parametrize("seed", range(4))
def test_refined_trees_are_judged_by_whole_moves(seed: int) -> None:
    """What refinement keeps under attack is what the verifier says, and never less than before."""
    X, y, threat = random_problem(seed)
    greedy = RobustTreeClassifier(threat, max_depth=3).fit(X, y)
    refined = refine(greedy, X, y, price=0.0, max_depth=3)
    assert adversarial_accuracy(refined, X, y, threat) >= adversarial_accuracy(greedy, X, y, threat) - 1e-12
    thresholds = refined.ensemble_.threshold[np.isin(refined.ensemble_.feature, [0, 1])]
    np.testing.assert_array_equal(thresholds, np.floor(thresholds))


@pytest.mark.parametrize("seed", range(3))
def test_the_optimal_tree_is_the_best_of_all_trees(seed: int) -> None:
    """All trees of depth 2 on a grid of whole numbers, each judged by all that every row can become."""
    generator = np.random.default_rng(seed)
    X, y = generator.integers(0, 4, (12, 2)).astype(float), generator.integers(0, 2, 12)
    y[:2] = 0, 1
    threat = ThreatModel([1.6, (0, 1)], whole_numbers=[0, 1], within={0: (0, 3), 1: (0, 3)})
    model = OptimalRobustTreeClassifier(threat, max_depth=2).fit(X, y)
    grid = np.array(list(product(range(4), repeat=2)))
    down, up = grid >= X[:, None] - [1, 0], grid <= X[:, None] + [1, 1]
    can_be = (down & up).all(axis=2)
    sides = [grid[:, j] <= k for j in range(2) for k in range(3)]
    best = 0
    for root, left, right in product(sides, repeat=3):
        for labels in product((0, 1), repeat=4):
            predicted = np.where(root, np.where(left, *labels[:2]), np.where(right, *labels[2:]))
            best = max(best, int((~can_be | (predicted == y[:, None])).all(axis=1).sum()))
    assert adversarial_accuracy(model, X, y, threat) == pytest.approx(best / 12)
