"""Codes: between which of its feature's thresholds an end of a row's reach lies.

The code of a value is the number of thresholds below it, so `value <= thresholds[k]` iff its code is at most k. A grid
over each feature's thresholds says how many lie below each cell; what is left to a search is what shares a cell.
"""

from typing import NamedTuple

import numpy as np
from numpy import uint64

from hardwood._kernels.compiling import inner, kernel

CELLS = 4096
CROWDED = uint64(4)  # thresholds in one cell: more are searched by halving, fewer one by one


class Guide(NamedTuple):
    """The thresholds of all features, and the grids that lead to them."""

    thresholds: np.ndarray  # float64 (feature, threshold), ascending
    low: np.ndarray  # float64 per feature: where the grid begins
    scale: np.ndarray  # float64 per feature: cells per unit
    grid: np.ndarray  # uint16 (feature, CELLS + 1): how many thresholds lie in earlier cells


def place(values: np.ndarray, low: float, scale: float) -> np.ndarray:
    """Return the cells of values, by the same arithmetic as the kernel's."""
    with np.errstate(over="ignore", invalid="ignore"):
        cell = (values - low) * scale
    return np.minimum(np.where(cell > 0.0, cell, 0.0), CELLS - 1.0).astype(np.int64)


@inner
def _encode(value, thresholds, low, scale, grid):
    """How many thresholds are below a value."""
    cell = (value - low) * scale
    cell = cell if cell > 0.0 else 0.0
    at = uint64(cell if cell < CELLS - 1.0 else CELLS - 1.0)
    first, last = uint64(grid[at]), uint64(grid[at + uint64(1)])
    while last - first > CROWDED:
        middle = (first + last) >> uint64(1)
        if thresholds[middle] < value:
            first = middle + uint64(1)
        else:
            last = middle
    while first < last and thresholds[first] < value:
        first += uint64(1)
    return first


@kernel(about="the codes of large tables", seconds=0.2)
def encode(lo, hi, guide, columns, codes):
    """Write the codes of both ends of some rows; `columns` (feature, end) says where, the same twice for one column."""
    n_rows, n_features = lo.shape
    for feature in range(n_features):
        low, scale = guide.low[feature], guide.scale[feature]
        thresholds, grid = guide.thresholds[feature], guide.grid[feature]
        first, second = columns[feature, 0], columns[feature, 1]
        for row in range(n_rows):
            codes[row, first] = _encode(lo[row, feature], thresholds, low, scale, grid)
        if second != first:
            for row in range(n_rows):
                codes[row, second] = _encode(hi[row, feature], thresholds, low, scale, grid)
