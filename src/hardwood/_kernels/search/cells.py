"""An ensemble over cells, and what it says when one feature moves.

The thresholds of all trees part each feature into cells, from above one threshold to the next; within a cell no tree
can tell two values apart. So an attacker has only to choose a cell per feature, and a tree only to compare integers. A
categorical feature has a cell per category. What is missing is in cell -1 and stays there.

With all other features fixed, the outputs are a piecewise constant function of the cell of one feature. `scan` works
out these functions for all features at once: a leaf takes part in one of them iff all splits above it that the point
does not satisfy are on the same feature, and then for an interval of cells.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, part
from hardwood._kernels.predicting import Trees, in_left_set


class Grid(NamedTuple):
    """The ensemble."""

    trees: Trees
    rank: np.ndarray  # int32 per node: the last cell that goes left (numerical splits)
    value: np.ndarray  # float64 (node, output)
    base_score: np.ndarray  # float64 per output
    single: bool  # float32 sums
    divisor: float
    cut: float
    limit: float  # the cut before the division
    doubt: float  # how far float64 sums may be from the model's own
    thresholds: np.ndarray  # float64: those of all numerical features, ascending in each
    above: np.ndarray  # float64 per threshold: the smallest value that is greater
    features: np.ndarray  # FEATURE, see leaves.py
    slot: np.ndarray  # int64 per feature: where its cells start in `Scratch.change`


class RowCells(NamedTuple):
    """One row and what may become of it, or many rows."""

    x: np.ndarray  # float64 per feature
    own: np.ndarray  # int64 per feature: the cell it is in
    first: np.ndarray  # int64 per feature: the cells in reach
    last: np.ndarray
    allowed: np.ndarray  # bool: the categories of all categorical features


class Scratch(NamedTuple):
    """What one thread works in."""

    leaf: np.ndarray  # int64 per tree: where the point is
    output: np.ndarray  # float64 per output: the sums there
    moved: np.ndarray  # float64 per output: the sums elsewhere
    change: np.ndarray  # float64 (cell, output): how outputs differ from those of the cell before; 0 between scans
    price: np.ndarray  # float64 per cell: how far it is from the row, in the units of the distance
    low: np.ndarray  # int64 per feature: the cells that share a path
    high: np.ndarray
    stack: np.ndarray  # int64 (depth, 3): node, first and last cell


@part
def _next_node(grid, node, cell):
    here = grid.trees.nodes[node]
    if cell < 0:
        return here.left if here.missing_left else here.right
    if here.category_start < 0:
        return here.left if cell <= grid.rank[node] else here.right
    return here.left if in_left_set(grid.trees, node, cell) else here.right


@inner
def settle(grid, cells, scratch):
    """Find the leaves of a point and add up their values; the class that the model gives it, in its own arithmetic."""
    leaf, output = scratch.leaf, scratch.output
    for tree in range(leaf.shape[0]):
        node = grid.trees.root[tree]
        while grid.trees.nodes[node].feature >= 0:
            node = _next_node(grid, node, cells[grid.trees.nodes[node].feature])
        leaf[tree] = node
    best, largest = np.int64(0), -np.inf
    for k in range(output.shape[0]):
        total = exact = grid.base_score[k]
        for tree in range(leaf.shape[0]):
            total += grid.value[leaf[tree], k]
            exact += grid.value[leaf[tree], k]
            if grid.single:
                exact = np.float64(np.float32(exact))
        output[k] = total
        exact /= grid.divisor
        if grid.single:
            exact = np.float64(np.float32(exact))
        if output.shape[0] == 1:
            return np.int64(exact > grid.cut)
        if exact > largest:
            best, largest = np.int64(k), exact
    return best


@inner
def find_class(output, limit):
    """The class of float64 sums."""
    if output.shape[0] == 1:
        return np.int64(output[0] > limit)
    best = np.int64(0)
    for k in range(1, output.shape[0]):
        if output[k] > output[best]:
            best = np.int64(k)
    return best


@inner
def find_margin(output, limit, class_index):
    """How far the class is ahead of the best other class, before the division."""
    if output.shape[0] == 1:
        return limit - output[0] if class_index == 0 else output[0] - limit
    rival = -np.inf
    for k in range(output.shape[0]):
        if k != class_index:
            rival = max(rival, output[k])
    return output[class_index] - rival


@inner
def nearest_value(grid, row, j, cell):
    """The value of a cell that is nearest to the row's own; for a category its code."""
    if cell == row.own[j]:
        return row.x[j]
    if grid.features[j].n_categories:
        return np.float64(cell)
    if cell > row.own[j]:
        return grid.above[grid.features[j].threshold_start + cell - 1]
    return grid.thresholds[grid.features[j].threshold_start + cell]


@inner
def _spread(grid, cells, scratch, feature, here, node, low, high):
    """Note what the leaves below a node say about the cells from `low` to `high` of a feature, instead of `here`."""
    trees, stack, slot = grid.trees, scratch.stack, grid.slot[feature]
    depth = 0
    stack[0, 0], stack[0, 1], stack[0, 2] = node, low, high
    while depth >= 0:
        node, low, high = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        split = trees.nodes[node].feature
        if split == feature:
            rank = grid.rank[node]
            depth -= 1
            if low <= rank:
                depth += 1
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = trees.nodes[node].left, low, min(high, rank)
            if high > rank:
                depth += 1
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = trees.nodes[node].right, max(low, rank + 1), high
        elif split >= 0:
            stack[depth, 0] = _next_node(grid, node, cells[split])
        else:
            depth -= 1
            for k in range(scratch.change.shape[1]):
                difference = grid.value[node, k] - grid.value[here, k]
                scratch.change[slot + low, k] += difference
                scratch.change[slot + high + 1, k] -= difference


@inner
def _scan_categories(grid, row, cells, scratch, j):
    """Note what the model says of every other category of a feature, by asking it."""
    here = cells[j]
    for code in range(grid.features[j].n_categories):
        if code == here or not row.allowed[grid.features[j].category_start + code]:
            continue
        cells[j] = code
        for tree in range(scratch.leaf.shape[0]):
            node = grid.trees.root[tree]
            while grid.trees.nodes[node].feature >= 0:
                node = _next_node(grid, node, cells[grid.trees.nodes[node].feature])
            for k in range(scratch.change.shape[1]):
                difference = grid.value[node, k] - grid.value[scratch.leaf[tree], k]
                scratch.change[grid.slot[j] + code, k] += difference
                scratch.change[grid.slot[j] + code + 1, k] -= difference
    cells[j] = here


@inner
def scan(grid, row, cells, only, scratch):
    """Fill `scratch.change` with what the outputs become if one feature moves; the point must be settled.

    only : the feature to look at; -1 for all.
    """
    trees = grid.trees
    low, high = scratch.low, scratch.high
    for j in range(cells.shape[0]):
        low[j], high[j] = row.first[j], row.last[j]
        if grid.features[j].n_categories and cells[j] >= 0 and (only < 0 or only == j):
            _scan_categories(grid, row, cells, scratch, j)
    for tree in range(scratch.leaf.shape[0]):
        here = scratch.leaf[tree]
        node = np.int64(trees.root[tree])
        while node != here:
            j, rank = trees.nodes[node].feature, grid.rank[node]
            child = _next_node(grid, node, cells[j])
            if row.first[j] < row.last[j] and grid.features[j].n_categories == 0 and (only < 0 or only == j):
                # The cells that take the other way here, and took the same way as the point so far.
                if child == trees.nodes[node].left:
                    if rank < high[j]:
                        _spread(grid, cells, scratch, j, here, trees.nodes[node].right, max(low[j], rank + 1), high[j])
                        high[j] = rank
                elif low[j] <= rank:
                    _spread(grid, cells, scratch, j, here, trees.nodes[node].left, low[j], min(high[j], rank))
                    low[j] = rank + 1
            node = np.int64(child)
        node = np.int64(trees.root[tree])
        while node != here:
            j = trees.nodes[node].feature
            low[j], high[j] = row.first[j], row.last[j]
            node = np.int64(_next_node(grid, node, cells[j]))
