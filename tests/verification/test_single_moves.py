"""Single moves: what one pass over the trees tells of a point, against the model's outputs at all points next to it."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from sklearn.ensemble import RandomForestClassifier

from hardwood import TreeEnsemble, as_ensemble
from hardwood._kernels.search.climbing import start
from hardwood._kernels.search.rows import enclose
from hardwood._kernels.search.single_moves import add_up, measure_moves
from hardwood._kernels.search.state import ANY, write_point
from hardwood.threat import Reach, ThreatModel
from hardwood.verification.engine import drop_unused
from hardwood.verification.search import RowSearch, prepare
from hardwood.verification.settings import SETTINGS
from reference import attacking, enumerating


@njit
def look_around(model: Any, task: Any, work: Any, steps: Any, everywhere: bool, gains: Any) -> Any:
    """Measure the moves of the point that is some cells away from the row on axes of numbers, or as many as can be."""
    question, axes = work.question[0], work.axes
    question.plus, question.minus, question.step = np.int64(1), np.int64(0), 0.0
    enclose(model, task, np.int64(0), work, np.inf)
    start(model, work, True)
    for j in range(steps.shape[0]):
        if model.features[j].n_categories == 0 and axes[j].low < axes[j].high:
            axes[j].chosen = min(max(axes[j].own + steps[j], axes[j].low), axes[j].high)
    sums = measure_moves(model, work, everywhere)
    for i in range(work.progress[0].n_touched):
        axis = axes[i].touched
        running = 0.0
        for cell in range(axes[axis].low, axes[axis].high + 1):
            running += work.cells[axes[axis].start + cell].gain
            gains[axis, cell] = running
    write_point(model, axes, task.x[0], work.point)
    return sums, add_up(model, work)


class Told:
    """A random row under attack, and what the pass tells of a point within its reach."""

    def __init__(self, trees: TreeEnsemble, row: np.ndarray, reach: Reach, steps: np.ndarray, everywhere: bool) -> None:
        prepared = prepare(trees)
        label = trees.decide(row[None])
        task = RowSearch(trees, reach, np.ones(len(row))).make_task(ANY, row[None], label)
        _, work = prepared.take_workspace(SETTINGS)
        self.gains = np.zeros((len(work.axes), int(np.diff(work.axes["start"]).max(initial=3)) + 1000))
        sums, self.added_up = look_around(prepared.model, task, work, steps, everywhere, self.gains)
        self.total, self.bound, _ = sums
        self.trees, self.model, self.point, self.label = trees, prepared.model, work.point.copy(), int(label[0])

    def lead(self, points: np.ndarray) -> np.ndarray:
        """Return by how much leaves take the second output ahead of the first."""
        return sum(np.diff(self.trees.value[leaves, :2], axis=1)[:, 0] for leaves in self.trees.leaves(points).T)

    def check_moves(self, row: np.ndarray, reach: Reach) -> None:
        """Compare with all points that differ from it in one feature."""
        assert self.total == self.added_up == pytest.approx(self.lead(self.point[None])[0], abs=1e-9)
        for j, values in enumerate(enumerating.reachable_values(self.trees, row, self.label, reach)):
            points = np.tile(self.point, (len(values), 1))
            points[:, j] = values
            here = self.model.features[j]
            if here["n_categories"]:
                axis = len(row) + here["category_start"] + np.nan_to_num(values).astype(int)
                gains = np.where(values == self.point[j], 0.0, self.gains[axis, 1])
            else:
                thresholds = self.model.thresholds[here["threshold_start"] : here["threshold_end"]]
                gains = self.gains[j, np.searchsorted(thresholds, values) if not np.isnan(row[j]) else [0]]
            np.testing.assert_allclose(gains, self.lead(points) - self.total, atol=1e-9)

    def best_leaves(self, row: np.ndarray, reach: Reach) -> float:
        """Return the sum of every tree's best leaf."""
        leaves = self.trees.leaves(enumerating.reachable_points(self.trees, row, self.label, reach))
        return float(sum(np.diff(self.trees.value[np.unique(of_tree), :2]).max() for of_tree in leaves.T))


@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_trees_of_all_kinds(seed: int, everywhere: bool, missing: bool) -> None:
    """With categories, missing values, and splits that contradict each other."""
    generator = np.random.default_rng(seed)
    schema = attacking.random_schema(generator, accepts_missing=missing)
    trees = attacking.random_trees(generator, schema, 5, 3, 2, "softmax")
    trees, _ = drop_unused(trees)  # all of its columns are looked at
    row = attacking.random_rows(generator, trees, 1, missing=missing)[0]
    reach = ThreatModel(attacking.random_threat(generator, trees.schema)).resolve(trees.schema, trees.labels)
    told = Told(trees, row, reach, generator.integers(-2, 3, len(row)), everywhere)
    told.check_moves(row, reach)
    if everywhere:
        assert told.bound >= told.best_leaves(row, reach) - 1e-9


@given(st.integers(0, 2**32))
def test_forests(seed: int) -> None:
    generator = np.random.default_rng(seed)
    X, y = np.round(generator.random((40, 3)), 2), generator.integers(0, 2, 40)
    trees = as_ensemble(RandomForestClassifier(8, random_state=seed % 1000, n_jobs=1).fit(X, y))
    row, reach = generator.random(3), ThreatModel([0.2, (0.0, 0.3), None]).resolve(trees.schema, trees.labels)
    told = Told(trees, row, reach, generator.integers(-3, 4, 3), everywhere=True)
    told.check_moves(row, reach)
    assert told.bound == pytest.approx(told.best_leaves(row, reach), abs=1e-9)
