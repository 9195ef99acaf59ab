"""Boxes of cells, seen from outside: no answer is lost where cells are given up, and costs are what the norm says."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numba import njit

from examples import some_examples
from hardwood import TreeEnsemble
from hardwood._kernels.search.probing import find_cheapest, measure_losses, shave
from hardwood._kernels.search.radius import set_costs
from hardwood._kernels.search.rows import begin_rival, enclose, list_leaves
from hardwood._kernels.search.state import ANY, CHEAPEST
from hardwood.threat import Reach, ThreatModel
from hardwood.verification.engine import drop_unused, make_workspace
from hardwood.verification.search import RowSearch, prepare
from hardwood.verification.settings import SETTINGS
from reference import attacking, enumerating

NORMS = [np.inf, 2, 1, 0]
# One row in a hundred can be moved to more points than this, and one in two hundred to a hundred times as many.
MOST_POINTS = 2_500


@njit
def shave_box(model: Any, task: Any, rival: int, within: float, additive: bool, search: Any) -> Any:
    """List the leaves of a row, note costs, and take cells off its box once: (whether none is left, the leaf sum)."""
    begin_rival(model, task, np.int64(0), np.int64(rival), search)
    enclose(model, task, np.int64(0), search, np.inf)
    list_leaves(model, task, search)
    set_costs(model, task.x[0], task, search)
    search.radius[0].within = within
    total, together = search.levels[0].bound, 0.0
    measure_losses(search, np.int64(0), total)
    if task.goal == CHEAPEST:
        together = find_cheapest(search, additive)
    empty, _ = shave(search, total, together, task.goal, additive)
    return empty


class Asked:
    """A random row, and the search that is asked about it."""

    def __init__(self, seed: int, norm: float) -> None:
        generator = np.random.default_rng(seed)
        schema = attacking.random_schema(generator)
        trees = attacking.random_trees(generator, schema, int(generator.integers(2, 6)), 3, 2, "probability")
        self.trees: TreeEnsemble = drop_unused(trees)[0]
        self.row = attacking.random_rows(generator, self.trees, 1)[0]
        self.label = int(self.trees.decide(self.row[None])[0])
        threat = ThreatModel(attacking.random_threat(generator, self.trees.schema))
        self.reach: Reach = threat.resolve(self.trees.schema, self.trees.labels)
        self.weight = generator.choice([0.0, 0.5, 1.0, 3.0], len(self.row))
        self.norm = norm
        self.prepared = prepare(self.trees)
        self.search = make_workspace(self.prepared.model, self.prepared.max_depth, SETTINGS, 8)

    def shave(self, goal: int, within: float) -> bool:
        """Take cells off the row's box; whether none is left."""
        rows = RowSearch(self.trees, self.reach, self.weight, norm=self.norm)
        task = rows.make_task(goal, self.row[None], np.array([self.label]))
        additive = goal == CHEAPEST and self.norm != np.inf
        self.scale = task.scale
        cost = self.price(within)
        return bool(shave_box(self.prepared.model, task, 1 - self.label, cost, additive, self.search))

    def price(self, distance: float) -> float:
        """Return a distance as the search has costs."""
        return (distance * self.scale) ** 2 if self.norm == 2 else distance * self.scale

    def find_cells(self, point: np.ndarray) -> np.ndarray:
        """Return the cell of a point on every axis."""
        model = self.prepared.model
        cells = np.zeros(len(self.search.axes), dtype=int)
        for j, here in enumerate(model.features):
            if here["n_categories"]:
                cells[len(point) + here["category_start"] + int(point[j])] = 1
            else:
                thresholds = model.thresholds[here["threshold_start"] : here["threshold_end"]]
                cells[j] = np.searchsorted(thresholds, point[j])
        return cells

    def list_examples(self) -> np.ndarray:
        """Return adversarial examples of the row from every cell; the row is passed over where it can go too far."""
        known = (self.trees, self.row, self.label, self.reach)
        assume(math.prod(map(len, enumerating.reachable_values(*known))) <= MOST_POINTS)
        return enumerating.adversarial_points(*known)

    def measure(self, point: np.ndarray) -> float:
        """Return how far a point is from the row."""
        return attacking.distance(point, self.row, self.trees.schema, self.norm, self.weight.tolist())


@given(seed=st.integers(0, 2**32))
def test_no_example_is_taken_off_the_box(seed: int) -> None:
    asked = Asked(seed, np.inf)
    examples = asked.list_examples()
    empty = asked.shave(ANY, np.inf)
    assert not (empty and len(examples))
    low, high = asked.search.axes["low"], asked.search.axes["high"]
    for point in examples:
        cells = asked.find_cells(point)
        assert ((low <= cells) & (cells <= high)).all()


@pytest.mark.parametrize("norm", NORMS)
@some_examples(0.5)
@given(seed=st.integers(0, 2**32))
def test_no_cheaper_example_is_taken_off_the_box(norm: float, seed: int) -> None:
    """Examples that cost less than the best one known stay."""
    asked = Asked(seed, norm)
    examples = asked.list_examples()
    distances = np.array([asked.measure(point) for point in examples])
    assume(len(examples) > 0)
    within = float(np.median(distances))
    assume(within == 0.0 or within > 1e-100)  # the search asks again, scaled, where squares would vanish
    empty = asked.shave(CHEAPEST, within)
    nearer = distances < within * (1.0 - 1e-9)
    assert not (empty and nearer.any())
    low, high = asked.search.axes["low"], asked.search.axes["high"]
    for point in examples[nearer]:
        cells = asked.find_cells(point)
        assert ((low <= cells) & (cells <= high)).all()


def test_something_is_taken_off() -> None:
    """A shave that never took anything off would pass the tests above."""
    shaved = 0
    for seed in range(100):
        asked = Asked(seed, np.inf)
        asked.shave(ANY, np.inf)
        shaved += int(asked.search.progress["trail"][0] > 0)
    assert shaved > 20


@pytest.mark.parametrize("norm", NORMS)
@some_examples(0.5)
@given(seed=st.integers(0, 2**32))
def test_costs_are_distances(norm: float, seed: int) -> None:
    """The cost of a cell is how far its nearest point is, alone: scaled, and squared in the L2 norm."""
    asked = Asked(seed, norm)
    asked.shave(CHEAPEST, np.inf)
    own = asked.find_cells(asked.row)
    for j, values in enumerate(enumerating.reachable_values(asked.trees, asked.row, asked.label, asked.reach)):
        points = [with_value(asked.row, j, value) for value in values if len(values) > 1]
        cells = [asked.find_cells(point) for point in points]
        for cell in cells:
            distances = [asked.measure(p) for p, other in zip(points, cells, strict=True) if (other == cell).all()]
            expected = 0.0 if (cell == own).all() else min(distances)
            moved = np.flatnonzero((cell != own) | (np.arange(len(own)) == j))
            costs = asked.search.cells["cost"][asked.search.axes["start"][moved] + cell[moved]]
            np.testing.assert_allclose(costs.sum(), asked.price(expected), rtol=1e-12, atol=1e-300)


def with_value(row: np.ndarray, j: int, value: float) -> np.ndarray:
    """Return a row with another value in one column."""
    moved = row.copy()
    moved[j] = value
    return moved
