"""Leaf values that are best under attack, against a solver that knows nothing of trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from hardwood import RobustTreeRegressor, ThreatModel
from hardwood.refinement.worst_case_leaves import GAP, LeafProblem, refit_leaves, solve


def draw_problem(seed: int, squared: bool) -> LeafProblem:
    generator = np.random.default_rng(seed)
    n_rows, n_leaves = int(generator.integers(1, 30)), int(generator.integers(1, 7))
    pairs = [
        (i, int(j))
        for i in range(n_rows)
        for j in generator.permutation(n_leaves)[: generator.integers(1, n_leaves + 1)]
    ]
    row, leaf = np.array(pairs).T
    leaf = np.unique(leaf, return_inverse=True)[1]
    target = generator.normal(size=n_rows).round(int(generator.integers(0, 4)))
    return LeafProblem(row, leaf, target, generator.choice([0.5, 1.0, 4.0], n_rows), squared)


@given(st.integers(0, 2**32 - 1))
def test_absolute_error_is_a_linear_program(seed: int) -> None:
    problem = draw_problem(seed, squared=False)
    n_leaves, n_rows, n_pairs = int(problem.leaf.max()) + 1, len(problem.target), len(problem.row)
    value, bound = solve(problem, np.zeros(n_leaves))
    # Variables: leaf values, then distances.
    bounds = np.zeros((2 * n_pairs, n_leaves + n_rows))
    for k, (i, j) in enumerate(zip(problem.row, problem.leaf, strict=True)):
        bounds[2 * k, [j, n_leaves + i]] = -1.0, -1.0
        bounds[2 * k + 1, [j, n_leaves + i]] = 1.0, -1.0
    limits = np.repeat(problem.target[problem.row], 2) * np.tile([-1.0, 1.0], n_pairs)
    costs = np.concatenate([np.zeros(n_leaves), problem.weight])
    best = linprog(costs, bounds, limits, bounds=[(None, None)] * n_leaves + [(0.0, None)] * n_rows).fun
    assert problem.measure(value) <= best * (1.0 + 2.0 * GAP) + 1e-9
    assert bound <= best + 1e-9
    assert problem.measure(value) - bound <= GAP * problem.measure(value) + 1e-12


@given(st.integers(0, 2**32 - 1))
def test_squared_error_cannot_be_improved(seed: int) -> None:
    """The bound is a proof; and a general-purpose search from the answer finds nothing better."""
    problem = draw_problem(seed, squared=True)
    value, bound = solve(problem, np.zeros(int(problem.leaf.max()) + 1))
    error = problem.measure(value)
    assert error - bound <= GAP * error + 1e-12
    found = minimize(problem.measure, value, method="Nelder-Mead", options={"maxfev": 500}).fun
    assert bound <= found + 1e-12


@pytest.mark.parametrize("criterion", ["squared_error", "absolute_error"])
@pytest.mark.parametrize("rho", [1.0, 0.3])
def test_never_worse_in_training(criterion: str, rho: float) -> None:
    """The error under attack of the training rows, by enumeration of the leaves that each row can be moved into."""
    squared = criterion == "squared_error"
    generator = np.random.default_rng(0)
    X = generator.random((150, 3))
    y = 3.0 * X[:, 0] + X[:, 1] + generator.normal(0.0, 0.3, 150)
    weight = generator.choice([0.0, 1.0, 2.0], 150)
    errors = {}
    for refit in (False, True):
        model = RobustTreeRegressor(0.1, criterion=criterion, rho=rho, max_depth=4, refit_leaves=refit)
        tree = model.fit(X, y, weight).ensemble_
        boxes = tree.leaf_boxes()
        reaches = ((X[:, None] - 0.1 <= boxes.high) & (X[:, None] + 0.1 > boxes.low)).all(axis=2)
        off = np.abs(y[:, None] - tree.value[boxes.leaf, 0])
        off = off**2 if squared else off
        own = (model.predict(X) - y) ** 2 if squared else np.abs(model.predict(X) - y)
        worst = np.where(reaches, off, 0.0).max(axis=1)
        errors[refit] = float(weight @ (rho * worst + (1.0 - rho) * own))
    assert errors[True] < errors[False]
    greedy = RobustTreeRegressor(0.1, criterion=criterion, rho=rho, max_depth=4).fit(X, y, weight).ensemble_
    reach = ThreatModel(0.1).resolve(greedy.schema)
    answer = refit_leaves(greedy, X, y, weight + 1e-12, reach, rho=rho, squared=squared)
    assert answer.error == pytest.approx(errors[True], rel=1e-5)
    assert answer.bound <= answer.error * (1.0 + 1e-12)


def test_without_an_attacker_nothing_changes() -> None:
    generator = np.random.default_rng(1)
    X, y = generator.random((80, 2)), generator.random(80)
    greedy, refit = (RobustTreeRegressor(max_depth=3, refit_leaves=flag).fit(X, y) for flag in (False, True))
    np.testing.assert_allclose(refit.predict(X), greedy.predict(X), rtol=1e-3)


@pytest.mark.parametrize("squared", [True, False])
def test_trees_of_many_leaves(squared: bool) -> None:
    """A tree with a leaf per row or so took half a minute: its system is sparse, and is solved as such."""
    generator = np.random.default_rng(2)
    X, y = generator.random((1200, 3)), generator.random(1200)
    tree = RobustTreeRegressor(0.01, refit_leaves=False).fit(X, y).ensemble_
    assert tree.n_leaves > 800
    answer = refit_leaves(tree, X, y, np.ones(1200), ThreatModel(0.01).resolve(tree.schema), squared=squared)
    assert answer.error - answer.bound <= GAP * answer.error


def test_weights_and_numbers_at_the_ends_of_what_there_is() -> None:
    """Slacks that rounding had made 0 were divided by, and weights far apart led out of the range of numbers.

    NumPy warned of it; where warnings are errors, as here, no tree was made.
    """
    for seed in range(60):
        generator = np.random.default_rng(seed)
        X = generator.normal(size=(30, 1)).round(1)
        alike, weight = np.full(30, generator.choice([0.1, 1 / 3])), generator.choice([59.59375, 59.90625, 1 / 3], 30)
        assert RobustTreeRegressor(1e-300, max_depth=3, max_bins=4).fit(X, alike, weight).predict(X) == pytest.approx(
            alike
        )
        y, weight = generator.choice([74.8, -70.1, 47.6], 30), generator.choice([1e-45, 3.4e38, 1.2e-38], 30)
        predicted = RobustTreeRegressor(0.5, max_depth=3, max_bins=4).fit(X, y, weight).predict(X)
        assert (np.abs(predicted) <= 74.9).all()
