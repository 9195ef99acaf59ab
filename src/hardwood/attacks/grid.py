"""An ensemble and its rows in terms of cells, for the attacks that move from cell to cell."""

import numpy as np

from hardwood._kernels.cells import Grid, Room, Scratch
from hardwood._kernels.compiling import frozen
from hardwood._kernels.descent import Points
from hardwood.ensemble import TreeEnsemble
from hardwood.reach import Reach
from hardwood.verification.search import rounding_doubt

LARGEST = np.finfo(np.float64).max


def make_grid(ensemble: TreeEnsemble) -> Grid:
    """Number the cells of every feature, and say splits in those numbers."""
    n_features = ensemble.schema.n_features
    n_categories = np.array([0 if c is None else len(c) + 1 for c in ensemble.schema.categories], dtype=np.int64)
    rank = np.zeros(ensemble.n_nodes, dtype=np.int64)
    cuts = []
    for j in range(n_features):
        nodes = np.flatnonzero((ensemble.feature == j) & (ensemble.category_start < 0))
        thresholds, rank[nodes] = np.unique(ensemble.threshold[nodes], return_inverse=True)
        cuts.append(thresholds)
    n_cuts = np.array([len(thresholds) for thresholds in cuts], dtype=np.int64)
    # A cell more than there are cuts, or a cell per category; and one past the end, where changes are undone.
    n_slots = np.where(n_categories > 0, n_categories, n_cuts + 1) + 1
    return Grid(
        trees=ensemble.trees,
        rank=rank,
        value=ensemble.value,
        base_score=ensemble.base_score,
        single=ensemble.precision == "float32",
        divisor=float(ensemble.divisor),
        cut=float(ensemble.cut),
        limit=float(ensemble.cut) * float(ensemble.divisor),
        doubt=rounding_doubt(ensemble),
        cuts=np.concatenate(cuts),
        cut_start=np.cumsum(n_cuts) - n_cuts,
        slot=np.cumsum(n_slots) - n_slots,
        n_categories=n_categories,
        category_start=np.cumsum(n_categories) - n_categories,
    )


def find_rooms(grid: Grid, reach: Reach, matrix: np.ndarray, label: np.ndarray) -> Room:
    """Return the cells of every row of an encoded matrix, and those that the attacker can move it to."""
    low, high = (np.clip(end, -LARGEST, LARGEST) for end in reach.box(matrix, label))
    own, first, last = (np.empty(matrix.shape, dtype=np.int64) for _ in range(3))
    ends = [*grid.cut_start[1:], len(grid.cuts)]
    for j in range(matrix.shape[1]):
        if grid.n_categories[j]:
            own[:, j], first[:, j], last[:, j] = matrix[:, j], 0, grid.n_categories[j] - 1
            continue
        # A value is in the cell after all cuts that are less than it.
        cuts = grid.cuts[grid.cut_start[j] : ends[j]]
        for cell, value in ((own, matrix), (first, low), (last, high)):
            cell[:, j] = np.searchsorted(cuts, value[:, j])
    return Room(frozen(matrix), own, first, last, reach.open_codes(matrix, label))


def make_scratch(grid: Grid, depth: int) -> Scratch:
    """Allocate what one thread needs."""
    n_outputs, n_features = len(grid.base_score), len(grid.slot)
    n_slots = len(grid.cuts) + int(grid.n_categories.sum()) + 2 * n_features
    return Scratch(
        leaf=np.empty(len(grid.trees.root), dtype=np.int64),
        output=np.empty(n_outputs),
        moved=np.empty(n_outputs),
        change=np.zeros((n_slots, n_outputs)),
        price=np.empty(n_slots),
        low=np.empty(n_features, dtype=np.int64),
        high=np.empty(n_features, dtype=np.int64),
        stack=np.empty((depth + 2, 3), dtype=np.int64),
    )


def make_points(grid: Grid) -> Points:
    """Allocate the points that one thread keeps."""
    best, trial, first, last = np.empty((4, len(grid.slot)), dtype=np.int64)
    return Points(best, trial, first, last, np.empty(int(grid.n_categories.sum()), dtype=bool))
