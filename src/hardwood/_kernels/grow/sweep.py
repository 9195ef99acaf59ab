"""Growing one tree by sweeping over the ends of reach: for targets that shifted orders cannot serve.

For two classes the attacker's answer to a split is known beforehand, so that a feature is two shifted orders
(`orders.py`). For other targets it is not. A feature is then an order of *events*, the ends of the reach of all samples
from the lowest to the highest. An event is a uint32::

    31                    30            29 .. 0
    upper end of reach    group start   sample

Behind the event of its lower end a sample is movable, behind that of its upper end it is surely left of the threshold.
A feature that nobody can move has upper ends only. Last comes the roster, the samples by themselves in ascending order.
A sample goes to one child, and children inherit every order by a stable partition, so a node has its events together:
sample range times events per sample.

What a threshold is worth is the target's business: `numbers.scan` and `absolute.scan` return the event behind the best
one and which movable samples are high. Whatever is scored by samples that are surely left, surely right and movable
fits in at `_find_split` (the best split of a node) and at `_send` (where movable samples go).

The caller (`grow/sweep.py`) owns all arrays; `grow` returns when nothing is left to split, or when it needs room.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64, uint32, uint64

from hardwood._kernels.compiling import inner, kernel, record_type
from hardwood._kernels.grow import absolute, numbers
from hardwood._kernels.grow.frontier import pop, push
from hardwood._kernels.grow.nodes import EVALUATED, LEAVES, NODES, WAITING, draw_features, mix
from hardwood._kernels.grow.numbers import END_BIT, Found, weigh
from hardwood._kernels.grow.orders import ID_MASK
from hardwood._kernels.grow.partitioning import partition
from hardwood._kernels.grow.ranking import find_mean, find_median, find_start, measure_error, rank

DONE, FULL = 0, 1

NODE = record_type(
    [
        ("feature", np.int64),  # the split found; -1 where none is worth it
        ("below", np.int64),  # the last event on the left of the threshold, and the first on the right
        ("above", np.int64),
        ("gain", np.float64),  # weight times decrease of the error, in the integers' unit of weight
        ("first_right", np.int64),  # the first of the node's events on the right
        ("sign", np.int64),  # 1: high movable samples go left, low ones right; -1: the other way round
        ("turn", np.float64),  # movable samples with this number or a larger one are high
        ("left", np.int64),  # the right child is the next node; -1 while unsplit
        ("depth", np.int64),
        ("start", np.int64),  # the node's samples are these of the roster
        ("end", np.int64),
        ("count", np.float64),  # rows
        ("weight", np.float64),
        ("value", np.float64),  # mean or median
        ("error", np.float64),  # weight times squared or absolute error
        ("seed", np.uint64),
    ]
)


class SweepSamples(NamedTuple):
    """The training samples. With rho < 1 a row is two samples, one that moves and one that stays."""

    events: np.ndarray  # uint32: all orders, one after the other
    first: np.ndarray  # int64 per order: where it begins
    ends: np.ndarray  # int64 per order: events per sample
    side: np.ndarray  # uint32, a bit per sample: scratch, which child it goes to
    spill: np.ndarray  # uint32 per two samples: scratch
    features: np.ndarray  # int64: scratch, the features in the order they are tried


class SweepTree(NamedTuple):
    """The nodes of a tree, and which of them are still to be split; see `nodes.Tree`."""

    nodes: np.ndarray
    heap: np.ndarray
    sizes: np.ndarray


class Units(NamedTuple):
    """What one unit of the integers stands for."""

    weight: float
    rows: float


@inner
def _find_split(samples, weights, target, fenwick, units, limits, here):
    """Write the best split of a node to it."""
    roster = samples.first[samples.first.shape[0] - 1]
    begin, end = roster + here.start, roster + here.end
    mean = find_mean(samples.events, begin, end, weights, target.target)
    spread = measure_error(samples.events, begin, end, weights, target.target, mean, False)
    totals, scale = rank(samples.events, begin, end, weights, target, mean, spread)
    start = find_start(target.height, totals.n_ranks)
    fewest = int64(np.ceil(limits.min_leaf / units.rows))
    if fenwick is not None:
        absolute.plant(fenwick.sums, target, weights, samples.events, begin, end, totals.n_ranks)
    best = Found(0.0, int64(-1), int64(1), int64(0))
    for k in range(samples.features.shape[0]):
        if here.feature >= 0 and k >= limits.max_features:
            break
        feature = samples.features[k]
        ends = samples.ends[feature]
        begin, end = samples.first[feature] + ends * here.start, samples.first[feature] + ends * here.end
        if fenwick is None:
            found = numbers.scan(
                samples.events, begin, end, ends - 1, weights, target, totals, fewest, start, best.gain
            )
        else:
            found = absolute.scan(
                samples.events, begin, end, ends - 1, weights, target, fenwick.sums, totals, here.error * scale, fewest,
                start, best.gain,
            )  # fmt: skip
        if found.first_right >= 0:
            best = found
            here.feature, here.first_right, here.sign = feature, found.first_right - begin, found.sign
            here.gain = found.gain / (scale if fenwick is not None else scale * scale)
            here.below = samples.events[found.first_right - 1]
            here.above = samples.events[found.first_right]
            here.turn = np.inf
            if found.turn < totals.n_ranks:
                here.turn = target.target[target.first[found.turn]]


@inner
def _evaluate(samples, weights, target, fenwick, units, limits, tree, node):
    """Find a node's value and, if it may be split, its best split, which puts it on the frontier."""
    here = tree.nodes[node]
    roster = samples.first[samples.first.shape[0] - 1]
    begin, end = roster + here.start, roster + here.end
    if fenwick is None:
        here.value = find_mean(samples.events, begin, end, weights, target.target)
    else:
        here.value = find_median(samples.events, begin, end, weights, target.target)
    here.error = measure_error(samples.events, begin, end, weights, target.target, here.value, fenwick is None)
    lowest, highest = samples.events[begin] & ID_MASK, samples.events[end - 1] & ID_MASK
    is_open = (
        here.depth < limits.max_depth
        and here.count >= limits.min_split
        and here.count >= 2.0 * limits.min_leaf
        and target.target[uint64(lowest)] < target.target[uint64(highest)]
    )
    if not is_open:
        return
    draw_features(here.seed, limits.max_features, samples.features)
    _find_split(samples, weights, target, fenwick, units, limits, here)
    if here.feature >= 0 and here.gain * units.weight >= limits.min_gain:
        push(tree, limits.best_first, node)


@inner
def _send(samples, target, here):
    """Mark which child every sample of a node goes to."""
    events, side = samples.events, samples.side
    roster, begin = samples.first[samples.first.shape[0] - 1], samples.first[here.feature]
    ends = samples.ends[here.feature]
    for i in range(roster + here.start, roster + here.end):
        sample = events[i] & ID_MASK
        word, bit = uint64(sample >> uint32(5)), uint32(1) << (sample & uint32(31))
        goes_right = (target.target[uint64(sample)] >= here.turn) == (here.sign < 0)
        side[word] = side[word] | bit if goes_right else side[word] & ~bit
    begin += ends * here.start
    for i in range(ends * (here.end - here.start)):
        event = events[begin + i]
        sample, is_upper = event & ID_MASK, event >> END_BIT
        word, bit = uint64(sample >> uint32(5)), uint32(1) << (sample & uint32(31))
        if i < here.first_right:
            if is_upper:
                side[word] &= ~bit
        elif not is_upper or ends == 1:
            side[word] |= bit


@inner
def _split(samples, weights, target, units, limits, tree, node):
    """Make a frontier node's two children, and give them their samples."""
    nodes, sizes = tree.nodes, tree.sizes
    here = nodes[node]
    here.left = sizes[NODES]
    sizes[NODES] += 2
    sizes[LEAVES] += 1
    _send(samples, target, here)
    roster = samples.first[samples.first.shape[0] - 1]
    n_left = int64(0)
    for right in range(2):
        child = nodes[here.left + right]
        child.feature = -1
        child.left = -1
        child.depth = here.depth + 1
        child.seed = mix(here.seed + uint64(right + 1))
        weight, rows, count = int64(0), int64(0), int64(0)
        for i in range(roster + here.start, roster + here.end):
            sample = samples.events[i] & ID_MASK
            if int64((samples.side[uint64(sample >> uint32(5))] >> (sample & uint32(31))) & uint32(1)) == right:
                more, parts = weigh(weights, uint64(sample))
                weight, rows, count = weight + more, rows + parts, count + 1
        child.weight, child.count = float(weight), rows * units.rows
        child.start = here.start + right * n_left
        n_left = count
        child.end = child.start + count
    last = samples.first.shape[0] - 1
    first = int64(0) if here.depth + 1 < limits.max_depth else last  # of leaves only the roster is looked at
    for order in range(first, last + 1):
        begin, ends = samples.first[order], samples.ends[order]
        partition(samples.events, begin + ends * here.start, begin + ends * here.end, samples.side, samples.spill)


@kernel(about="the grower of regression trees", seconds=2.4)
def grow(samples, weights, target, fenwick, units, limits, tree):
    """Split nodes until none is left to split (DONE) or there is no room for more of them (FULL).

    `weights` are int64 (sample, 2), weight and rows in fixed point; (0, 1) where each is a row. `fenwick` is None for
    squared error, and for absolute error not.
    """
    nodes, sizes = tree.nodes, tree.sizes
    while True:
        while sizes[EVALUATED] < sizes[NODES]:
            node = sizes[EVALUATED]
            sizes[EVALUATED] += 1
            _evaluate(samples, weights, target, fenwick, units, limits, tree, node)
        if sizes[WAITING] == 0 or sizes[LEAVES] >= limits.max_leaves:
            return DONE
        if sizes[NODES] + 2 > nodes.shape[0]:
            return FULL
        node = pop(tree, limits.best_first)
        _split(samples, weights, target, units, limits, tree, node)
