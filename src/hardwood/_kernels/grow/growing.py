"""Growing one tree: evaluate a node, split it, evaluate its children, until nothing is left to split.

The caller (`grow/tree.py`) owns all arrays. `grow` returns when the frontier is empty, when the node array is full (the
caller enlarges it and calls again), when the next node is large enough to be worth the caller's threads, or when a
kernel of its own has to look at new nodes first: the category search is one that tables without categories need not
compile.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64, uint32, uint64

from hardwood._kernels.compiling import inner, kernel, part
from hardwood._kernels.grow.frontier import pop, push
from hardwood._kernels.grow.nodes import EVALUATED, LEAVES, NODES, WAITING, Totals, draw_features, is_open, mix
from hardwood._kernels.grow.orders import CLASS_BIT, ID_MASK, position
from hardwood._kernels.grow.partitioning import partition
from hardwood._kernels.grow.scanning import Choice, Kinds, scan

DONE, FULL, LARGE, NEW = 0, 1, 2, 3


class Samples(NamedTuple):
    """The training samples. With rho < 1 there are up to two samples per row; ids from n on are those that stay."""

    X: np.ndarray
    orders: np.ndarray  # uint32 (slot, sample), see orders.py
    weight: np.ndarray  # float64 per id; empty where class and kind say it all
    kinds: Kinds
    side: np.ndarray  # uint32, a bit per id: scratch, which child a sample goes to; small enough to stay in cache


class Workspace(NamedTuple):
    """Scratch for one thread."""

    features: np.ndarray  # int64: the features in the order they are tried
    counts: np.ndarray  # int64 (block + 1, 4); the first row stays 0
    bounds: np.ndarray  # float64 per block
    tally: np.ndarray  # float64: (side, class, kind), samples and then weights
    spill: np.ndarray  # uint32 per sample


@part
def _threshold(samples, shifts, here):
    """Halfway between the last sample on the left and the first on the right.

    A sample that reaches the node reaches into its interval (low, high], so only those that the attacker would move
    away from the threshold can sit beyond it: class 1 below and class 0 above, in orientation 0. A threshold that had
    nothing else on one side would have the wrong orientation. So both neighbours of a threshold that gains lie inside,
    and nothing has to be clipped.
    """
    X, orders, shift, slot = samples.X, samples.orders, shifts.shift, shifts.slots[here.feature, here.orientation]
    low = position(X, shift, here.feature, here.orientation, orders[slot, here.first_right - 1])
    high = position(X, shift, here.feature, here.orientation, orders[slot, here.first_right])
    middle = 0.5 * low + 0.5 * high
    return middle if low <= middle < high else low


@part
def _search(samples, shifts, limits, here, first, last, work):
    """Find the best split over `work.features[first:last]` and write it to `here`, the node or a copy of it.

    Where features are searched elsewhere, the best split found there is in it already.
    """
    other, other_orientation = here.feature, here.orientation
    other_first_right, other_gain = here.first_right, here.gain
    here.feature, here.gain = -1, 0.0
    slots = shifts.slots
    totals = Totals(here.zero, here.one, here.count)
    for k in range(first, last):
        if here.feature >= 0 and k >= limits.max_features:
            break
        feature = work.features[k]
        if shifts.elsewhere[feature]:
            if feature == other and other_gain > here.gain:
                here.feature, here.orientation = other, other_orientation
                here.first_right, here.gain = other_first_right, other_gain
            continue
        n_orders = 1 + (slots[feature, 0] != slots[feature, 1])  # one order serves both orientations
        for orientation in range(n_orders):
            choice = Choice((n_orders - 1) * (1.0 - 2.0 * orientation), limits.criterion, limits.min_leaf)
            order = samples.orders[slots[feature, orientation]]
            score, first_right = scan(
                order, here.start, here.end, samples.weight, samples.kinds, totals, choice, here.gain, work.counts,
                work.bounds,
            )  # fmt: skip
            if first_right >= 0:
                here.feature, here.orientation = feature, orientation
                here.first_right, here.gain = first_right, score


@inner
def _settle(samples, shifts, limits, tree, node):
    """Put a node on the frontier if the split that was found is worth it."""
    here = tree.nodes[node]
    if here.feature < 0 or here.gain < limits.min_gain:
        return
    if here.first_right >= 0:
        here.threshold = _threshold(samples, shifts, here)
    push(tree, limits.best_first, node)


@inner
def _send(samples, slot, tree, node, tally):
    """Mark which child every sample of a node goes to and add up the children's weights; how many go left."""
    X, orders, side = samples.X, samples.orders, samples.side
    nodes, sides = tree.nodes, tree.sides
    here = nodes[node]
    n, first_right, feature = X.shape[0], here.first_right, here.feature
    weight, is_weighted = samples.weight, samples.weight.shape[0] > 0
    for cell in range(tally.shape[0]):
        tally[cell] = 0.0
    n_left = 0
    for i in range(here.start, here.end):
        entry = orders[slot, i]
        sample = int64(entry & ID_MASK)
        class_index = int64(entry >> CLASS_BIT)
        kind = int64(sample >= n)
        right = int64(i >= first_right)
        if first_right < 0:
            code = int64(X[sample - n * kind, feature])
            right = int64(sides[node, code] >> (2 * class_index + kind)) & 1
        word, bit = uint64(sample >> 5), uint32(1) << uint32(sample & 31)
        side[word] = side[word] | bit if right else side[word] & ~bit
        n_left += 1 - right
        cell = 4 * right + 2 * class_index + kind
        tally[cell] += 1.0
        if is_weighted:
            tally[cell + 8] += weight[sample]
    for right in range(2):
        child = nodes[here.left + right]
        child.count = 0.0
        for k in range(4):
            cell = 4 * right + k
            if not is_weighted:
                tally[cell + 8] = tally[cell] * samples.kinds.weight[k]
            child.count += tally[cell] * samples.kinds.rows[k]
        child.zero = tally[4 * right + 8] + tally[4 * right + 9]
        child.one = tally[4 * right + 10] + tally[4 * right + 11]
    return n_left


@part
def _split(samples, shifts, limits, tree, node, tally):
    """Make a frontier node's two children; whether their samples still have to be partitioned."""
    nodes, sizes = tree.nodes, tree.sizes
    here = nodes[node]
    here.left = sizes[NODES]
    sizes[NODES] += 2
    sizes[LEAVES] += 1
    n_left = _send(samples, shifts.slots[here.feature, here.orientation], tree, node, tally)
    for right in range(2):
        child = nodes[here.left + right]
        child.feature = -1
        child.left = -1
        child.parent = node
        child.depth = here.depth + 1
        child.seed = mix(here.seed + uint64(right + 1))
        child.start = here.start + right * n_left
        child.end = here.end if right else here.start + n_left
    return is_open(nodes, limits, here.left) or is_open(nodes, limits, here.left + 1)


@part
def _divide(samples, shifts, here, first, last, spill):
    """Partition the orders of features `first` to `last` between a node's children."""
    slots = shifts.slots
    for feature in range(first, last):
        for orientation in range(1 + (slots[feature, 0] != slots[feature, 1])):
            if feature == here.feature and orientation == here.orientation and here.first_right >= 0:
                continue  # this order is divided already
            order = samples.orders[slots[feature, orientation]]
            partition(order, here.start, here.end, samples.side, spill)


@kernel(about="the grower of robust trees", seconds=1.8)
def grow(samples, shifts, limits, tree, large, pause, work):
    """Split nodes until done, or until the caller is needed: (reason, node).

    `large` is the size of a node that the caller takes over; with `pause` the caller is given the children of every
    split before they are evaluated.
    """
    n_features = samples.X.shape[1]
    nodes, sizes = tree.nodes, tree.sizes
    while True:
        while sizes[EVALUATED] < sizes[NODES]:
            node = sizes[EVALUATED]
            sizes[EVALUATED] += 1
            if is_open(nodes, limits, node):
                draw_features(nodes[node].seed, limits.max_features, work.features)
                _search(samples, shifts, limits, nodes[node], int64(0), n_features, work)
                _settle(samples, shifts, limits, tree, node)
        if sizes[WAITING] == 0 or sizes[LEAVES] >= limits.max_leaves:
            return DONE, int64(-1)
        if sizes[NODES] + 2 > nodes.shape[0]:
            return FULL, int64(-1)
        node = pop(tree, limits.best_first)
        if nodes[node].end - nodes[node].start >= large:
            return LARGE, node
        if _split(samples, shifts, limits, tree, node, work.tally):
            _divide(samples, shifts, nodes[node], int64(0), n_features, work.spill)
            if pause:
                return NEW, nodes[node].left


# The same steps one by one, for a caller that shares a large node out among threads.


@kernel(about="the split search of large nodes", seconds=0.3)
def search(samples, shifts, limits, found, first, last, work):
    """Find the best split over features `first` to `last` in the order drawn; `found` is a copy of a node."""
    here = found[0]
    if is_open(found, limits, int64(0)):
        draw_features(here.seed, limits.max_features, work.features)
        _search(samples, shifts, limits, here, first, last, work)


@kernel(about="the best split of large nodes", seconds=0.1)
def settle(samples, shifts, limits, tree, node):
    """Put a node on the frontier if the split that was found is worth it."""
    _settle(samples, shifts, limits, tree, node)


@kernel(about="the splits of large nodes", seconds=0.2)
def split(samples, shifts, limits, tree, node, work):
    """Make a node's two children; whether their samples still have to be partitioned."""
    return _split(samples, shifts, limits, tree, node, work.tally)


@kernel(about="the partition of large nodes", seconds=0.2)
def divide(samples, shifts, tree, node, first, last, work):
    """Partition the orders of features `first` to `last` between a node's children."""
    _divide(samples, shifts, tree.nodes[node], first, last, work.spill)
