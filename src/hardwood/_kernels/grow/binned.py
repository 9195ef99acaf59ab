"""Growing one tree on codes: evaluate a node by its histogram, split it, evaluate its children.

The caller (`grow/binned.py`) owns all arrays. `grow` returns when the frontier is empty or when the node array is full
(the caller enlarges it and calls again).
"""

from typing import NamedTuple

import numpy as np
from numpy import int64, uint32, uint64

from hardwood._kernels.compiling import inner, kernel
from hardwood._kernels.grow.frontier import pop, push
from hardwood._kernels.grow.histograms import (
    CLASS_BIT,
    ID_MASK,
    Rule,
    fill,
    scan,
    skip_empty,
    subtract,
    sum_left,
)
from hardwood._kernels.grow.nodes import LEAVES, NODES, WAITING, Totals, draw_features, is_open, mix

DONE, FULL = 0, 1

NODE = np.dtype(
    [
        ("feature", np.int64),  # the split found; -1 where none is worth it
        ("threshold", np.float64),
        ("orientation", np.int64),
        ("cut", np.int64),  # the last code on the left
        ("gain", np.float64),
        ("left", np.int64),  # the right child is the next node; -1 while unsplit
        ("depth", np.int64),
        ("start", np.int64),  # the node's samples are entries[start:end]
        ("end", np.int64),
        ("slot", np.int64),  # where its histogram is; -1: nowhere
        ("zero", np.float64),  # weight of class 0, of class 1, and rows
        ("one", np.float64),
        ("count", np.float64),
        ("sums", np.int64, (3,)),  # the same in integers
        ("left_sums", np.int64, (3,)),  # what its split leaves on the left
        ("seed", np.uint64),
    ]
)
NODE = np.dtype((np.record, NODE))


class BinnedTree(NamedTuple):
    """The nodes of a tree, and which of them are still to be split."""

    nodes: np.ndarray  # NODE
    heap: np.ndarray  # int64: the frontier, see frontier.py
    sizes: np.ndarray  # int64: as in `nodes.Tree`


class Columns(NamedTuple):
    """Where the codes of a feature are, and what they mean."""

    columns: np.ndarray  # int64 (feature, end)
    n_thresholds: np.ndarray  # int64 per feature
    below: np.ndarray  # float64 (feature, threshold): the ends of reach beside each threshold
    above: np.ndarray
    width: int  # codes of a column


class Histograms(NamedTuple):
    """Memory for some histograms."""

    cells: np.ndarray  # int64 (slot, cell)
    free: np.ndarray  # int64: how many slots are free, and which
    features: np.ndarray  # int64: scratch, the features in the order they are tried


@inner
def find_split(weights, bins, units, limits, here, cells, features):
    """Find a node's best split by its histogram, and return whether it is worth it.

    Its threshold goes midway between the samples on either side: to the middle of the empty bins behind the cut. The
    bin before the cut holds a sample, or the cut before it would have been taken, which is as good.
    """
    columns, width = bins.columns, bins.width
    totals = Totals(here.zero, here.one, here.count)
    rule = Rule(limits.criterion, limits.min_leaf)
    here.feature, here.gain = -1, 0.0
    draw_features(here.seed, limits.max_features, features)
    for k in range(features.shape[0]):
        if here.feature >= 0 and k >= limits.max_features:
            break
        feature = features[k]
        lo, hi = columns[feature, 0] * width, columns[feature, 1] * width
        score, cut, orientation = scan(
            cells, weights, lo, hi, bins.n_thresholds[feature], units, totals, rule, here.gain
        )
        if cut >= 0:
            here.feature, here.orientation, here.cut, here.gain = feature, orientation, cut, score
    if here.feature < 0 or here.gain < limits.min_gain:
        return False
    feature, cut, end = here.feature, here.cut, 1 - here.orientation
    zero_column, one_column = columns[feature, end] * width, columns[feature, 1 - end] * width
    left = sum_left(cells, weights, zero_column, one_column, cut)
    here.left_sums[0], here.left_sums[1], here.left_sums[2] = left
    beyond = skip_empty(cells, weights, zero_column, one_column, cut, bins.n_thresholds[feature])
    low, high = bins.below[feature, cut], bins.above[feature, beyond - 1]
    middle = 0.5 * low + 0.5 * high
    here.threshold = middle if low <= middle < high else low
    return True


@inner
def _evaluate(weights, bins, units, limits, tree, node, histograms):
    """Find a node's best split, and put it on the frontier if it is worth it."""
    here, free = tree.nodes[node], histograms.free
    if find_split(weights, bins, units, limits, here, histograms.cells[here.slot], histograms.features):
        push(tree, limits.best_first, node)
        if free[0] >= 2:  # enough for the children of whichever node is split next
            return
    free[0] += 1
    free[free[0]] = here.slot
    here.slot = -1


@inner
def _partition(samples, here, zero_column, one_column):
    """Move a node's samples that go left to the front, keeping their order; where the others begin."""
    codes, entries, spill = samples.codes, samples.entries, samples.spill
    write, spilled, cut = uint64(here.start), uint64(0), uint64(here.cut)
    zero, one = uint64(zero_column), uint64(one_column)
    for k in range(uint64(here.start), uint64(here.end)):
        entry = entries[k]
        column = one if entry >> CLASS_BIT != uint32(0) else zero
        right = uint64(uint64(codes[uint64(entry & ID_MASK), column]) > cut)
        entries[write] = entry
        spill[spilled] = entry
        write += uint64(1) - right
        spilled += right
    for k in range(spilled):
        entries[write + k] = spill[k]
    return int64(write)


@inner
def make_children(tree, units, node):
    """Make a node's two children, which are not yet given their samples."""
    nodes, sizes = tree.nodes, tree.sizes
    here = nodes[node]
    here.left = sizes[NODES]
    sizes[NODES] += 2
    sizes[LEAVES] += 1
    for right in range(2):
        child = nodes[here.left + right]
        child.feature = -1
        child.left = -1
        child.slot = -1
        child.depth = here.depth + 1
        child.seed = mix(here.seed + uint64(right + 1))
        for k in range(3):
            child.sums[k] = here.sums[k] - here.left_sums[k] if right else here.left_sums[k]
        child.zero, child.one = child.sums[0] * units.zero, child.sums[1] * units.one
        child.count = child.sums[2] * units.rows


@inner
def _split(samples, weights, bins, units, limits, tree, node, histograms):
    """Split a frontier node: its children, their samples, and the histograms of those that can be split again."""
    nodes, cells, free = tree.nodes, histograms.cells, histograms.free
    make_children(tree, units, node)
    here = nodes[node]
    left, slot = here.left, here.slot
    left_open, right_open = is_open(nodes, limits, left), is_open(nodes, limits, left + 1)
    if left_open or right_open:
        end = 1 - here.orientation
        middle = _partition(samples, here, bins.columns[here.feature, end], bins.columns[here.feature, 1 - end])
        nodes[left].start, nodes[left].end = here.start, middle
        nodes[left + 1].start, nodes[left + 1].end = middle, here.end
        smaller = left if middle - here.start <= here.end - middle else left + 1
        larger = 2 * left + 1 - smaller
        counted = free[free[0]]
        free[0] -= 1
        fill(samples, weights, nodes[smaller].start, nodes[smaller].end, bins.width, cells[counted])
        if slot < 0:  # the parent's was given up for want of memory
            slot = free[free[0]]
            free[0] -= 1
            fill(samples, weights, nodes[larger].start, nodes[larger].end, bins.width, cells[slot])
        else:
            subtract(cells[slot], cells[counted])
        here.slot = -1
        nodes[smaller].slot, nodes[larger].slot = counted, slot
        for child in range(left, left + 2):
            if is_open(nodes, limits, child):
                _evaluate(weights, bins, units, limits, tree, child, histograms)
            else:
                free[0] += 1
                free[free[0]] = nodes[child].slot
                nodes[child].slot = -1
    elif slot >= 0:
        free[0] += 1
        free[free[0]] = slot
        here.slot = -1


@kernel(about="the grower of large tables", seconds=1.6)
def grow(samples, bins, units, limits, tree, histograms):
    """Split nodes until none is left to split (DONE) or there is no room for more of them (FULL)."""
    nodes, sizes, free = tree.nodes, tree.sizes, histograms.free
    if sizes[WAITING] == 0 and is_open(nodes, limits, int64(0)):
        root = nodes[0]
        root.slot = free[free[0]]
        free[0] -= 1
        fill(samples, samples.weights, root.start, root.end, bins.width, histograms.cells[root.slot])
        _evaluate(samples.weights, bins, units, limits, tree, int64(0), histograms)
    while sizes[WAITING] > 0 and sizes[LEAVES] < limits.max_leaves:
        if sizes[NODES] + 2 > nodes.shape[0]:
            return FULL
        node = pop(tree, limits.best_first)
        _split(samples, samples.weights, bins, units, limits, tree, node, histograms)
    return DONE
