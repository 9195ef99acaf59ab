"""An ensemble and its rows in terms of cells, for the attacks that move from cell to cell."""

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.search.cells import Grid, RowCells, Scratch
from hardwood._kernels.search.descent import Points
from hardwood._kernels.search.leaves import LARGEST_FLOAT
from hardwood.threat import Reach
from hardwood.threat.reach import read_codes
from hardwood.verification.search import Prepared


def make_grid(prepared: Prepared) -> Grid:
    """Number the cells of every feature, and say splits in those numbers."""
    model = prepared.model
    n_thresholds = model.features["threshold_end"] - model.features["threshold_start"]
    n_cells = np.where(model.features["n_categories"] > 0, model.features["n_categories"], n_thresholds + 1)
    # One before the first, for what is missing, and one past the last, where changes are undone.
    ends = np.cumsum(n_cells + 2)
    return Grid(
        trees=model.trees,
        rank=model.rank,
        value=model.value,
        base_score=model.base_score,
        single=model.single,
        divisor=model.divisor,
        cut=model.cut,
        limit=model.cut * model.divisor,
        doubt=prepared.rounding.doubt,
        thresholds=model.thresholds,
        above=model.above,
        features=model.features,
        slot=ends - n_cells - 1,
    )


def locate_rows(grid: Grid, reach: Reach, matrix: np.ndarray, class_index: np.ndarray) -> RowCells:
    """Return the cells of every row of an encoded matrix, and those that the attacker can move it to."""
    low, high = (np.clip(end, -LARGEST_FLOAT, LARGEST_FLOAT) for end in reach.box(matrix, class_index))
    own, first, last = (np.empty(matrix.shape, dtype=np.int64) for _ in range(3))
    for j, table in enumerate(reach.categories):
        if table is None:
            # A value is in the cell after all thresholds that are less than it.
            thresholds = grid.thresholds[grid.features["threshold_start"][j] : grid.features["threshold_end"][j]]
            for cell, value in ((own, matrix), (first, low), (last, high)):
                cell[:, j] = np.searchsorted(thresholds, value[:, j])
        else:
            code = read_codes(matrix[:, j])
            own[:, j], first[:, j], last[:, j] = code, 0, len(table) - 1
    missing = np.isnan(matrix)
    own[missing] = first[missing] = last[missing] = -1
    return RowCells(frozen(matrix), own, first, last, reach.open_codes(matrix, class_index))


def make_scratch(grid: Grid, depth: int) -> Scratch:
    """Allocate what one thread needs."""
    n_outputs, n_features = len(grid.base_score), len(grid.slot)
    n_slots = len(grid.thresholds) + int(grid.features["n_categories"].sum()) + 3 * n_features
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
    return Points(best, trial, first, last, np.empty(int(grid.features["n_categories"].sum()), dtype=bool))
