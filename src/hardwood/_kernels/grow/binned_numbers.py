"""Growing one regression tree on bins: histograms bound what each threshold can gain, the best are settled exactly.

Samples are numbered by their targets, as in `sweep.py`, so a node's samples ascend: those below its mean come first. A
histogram has, per column of codes and per code, what the samples below the mean and those above it add up to. At every
threshold that is enough for one move of the attacker: movable samples on one side of the mean go left, the others
right. No robust gain is larger than what that move leaves. So thresholds are looked into by falling bounds, each
exactly by `numbers.solve`, until no bound beats the best gain: the split is the best of all that bins have.

Values may be missing, and stay so: every threshold is tried with them on the right and on the left, and the split that
parts them from the others, too.

The groups depend on the node, so a child's histogram is not its parent's less its sibling's: every node is counted. In
turn no histogram has to be kept.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64, uint64

from hardwood._kernels.compiling import inner, kernel, record_type
from hardwood._kernels.grow.criteria import ROUNDING, SPLITTER
from hardwood._kernels.grow.frontier import pop, push
from hardwood._kernels.grow.nodes import EVALUATED, LEAVES, NODES, WAITING, draw_features, mix
from hardwood._kernels.grow.number_bounds import bound_sets, bound_thresholds, holds_missing, measure_lead
from hardwood._kernels.grow.number_categories import choose_left, find_code_side, keep_set, prepare, recall_set
from hardwood._kernels.grow.numbers import Cut, Move, Side, count_left, enter, solve, weigh
from hardwood._kernels.grow.ranking import find_mean, find_start, measure_error, rank
from hardwood._kernels.grow.scanning import SLACK
from hardwood._kernels.grow.sweep import DONE, FULL

# The threshold of a split that parts what is missing from what is not.
LARGEST = np.finfo(np.float64).max

NODE = record_type(
    [
        ("feature", np.int64),  # the split found; -1 where none is worth it
        ("threshold", np.float64),
        ("cut", np.int64),  # the last code on the left
        ("missing_left", np.int64),  # whether missing values go left; -1 where none is missing
        ("gain", np.float64),  # weight times decrease of the squared error, in the integers' unit of weight
        ("sign", np.int64),  # 1: high movable samples go left, low ones right; -1: the other way round
        ("turn", np.float64),  # movable samples with this number or a larger one are high
        ("left", np.int64),  # the right child is the next node; -1 while unsplit
        ("parent", np.int64),
        ("depth", np.int64),
        ("start", np.int64),  # the node's samples are entries[start:end]
        ("end", np.int64),
        ("count", np.float64),  # rows
        ("weight", np.float64),
        ("value", np.float64),  # mean
        ("seed", np.uint64),
    ]
)


class BinnedNumberSamples(NamedTuple):
    """The training samples, and scratch."""

    codes: np.ndarray  # uint8 or uint16 (sample, column)
    entries: np.ndarray  # uint32: the samples, node by node, ascending
    spill: np.ndarray  # uint32 per sample: scratch
    cells: np.ndarray  # int64 (column * code * 4): value and weight below the mean, value and weight above it
    bounds: np.ndarray  # float64 (feature, side of missing values, code): what each threshold can gain at most
    features: np.ndarray  # int64: the features in the order they are tried
    sums: np.ndarray  # int64 (8): what is surely and what is possibly left of a set


class BinnedNumberTree(NamedTuple):
    """The nodes of a tree, and which of them are still to be split; see `nodes.Tree`."""

    nodes: np.ndarray
    heap: np.ndarray
    sizes: np.ndarray
    sets: np.ndarray  # uint8 (node, category): 1 on the left, 0 on the right, or IDLE


class Columns(NamedTuple):
    """Where the codes of a feature are, and what they mean; see `frame.nodes.Columns`."""

    columns: np.ndarray
    n_thresholds: np.ndarray
    below: np.ndarray
    above: np.ndarray
    width: int
    missing: int  # the code of a missing value; -1 if there is none
    categorical: np.ndarray  # bool per feature


@inner
def _count(codes, entries, begin, end, width, weights, value, cells, word):
    """Add samples to a histogram, to the words `word` and `word + 1` of every cell."""
    n_columns, step = uint64(codes.shape[1]), uint64(4 * width)
    for k in range(uint64(begin), uint64(end)):
        sample = uint64(entries[k])
        number, weight = value[sample], weigh(weights, sample)[0]
        base = uint64(word)
        for column in range(n_columns):
            cell = base + (uint64(codes[sample, column]) << uint64(2))
            cells[cell] += number
            cells[cell + uint64(1)] += weight
            base += step


@inner
def _fill(samples, weights, numbers, here, start, width):
    """Make the histogram of a node; `start` is the rank of its mean."""
    cells, entries = samples.cells, samples.entries
    for cell in range(cells.shape[0]):
        cells[cell] = 0
    least, most = here.start, here.end
    while least < most:  # the first sample that is not below the mean
        at = (least + most) // 2
        if numbers.rank[uint64(entries[at])] < start:
            least = at + 1
        else:
            most = at
    _count(samples.codes, entries, here.start, least, width, weights, numbers.value, cells, int64(0))
    _count(samples.codes, entries, least, here.end, width, weights, numbers.value, cells, int64(2))


@inner
def _find_side(codes, sample, lo, hi, cut, missing, missing_left, by_set, categories):
    """Where a sample goes: surely left (-1), surely right (1), or wherever the attacker likes (0)."""
    code = int64(codes[sample, hi])
    if code == missing:
        return int64(-1) if missing_left > 0 else int64(1)
    if by_set:
        return find_code_side(categories, code)
    if code <= cut:
        return int64(-1)
    return int64(1) if int64(codes[sample, lo]) > cut else int64(0)


@inner
def _make_set(samples, bins, categories, tree, node, feature, side, cut):
    """Make the left set of a split by categories; where missing values go. A split of numbers says that itself."""
    if categories is None:
        return side
    if not bins.categorical[feature]:
        return side
    missing = bins.missing if holds_missing(samples.cells, bins, feature) else int64(-1)
    prepare(samples.cells, bins.columns[feature, 0] * bins.width, tree, node, feature, missing, categories)
    choose_left(feature, side, cut, categories)
    return int64(categories.in_left[categories.n_categories[feature]])


@inner
def _settle(samples, weights, bins, categories, numbers, totals, here, feature, cut, missing_left, start):
    """What a threshold gains: (gain or 0, sign, turn, rows on the left)."""
    codes, held = samples.codes, numbers.held
    lo, hi = uint64(bins.columns[feature, 0]), uint64(bins.columns[feature, 1])
    by_set = bins.categorical[feature]
    nobody = Side(int64(0), int64(0), int64(0))
    left, right, movable, low = nobody, nobody, nobody, nobody
    for k in range(uint64(here.start), uint64(here.end)):
        sample = uint64(samples.entries[k])
        weight, rows = weigh(weights, sample)
        number = numbers.value[sample]
        side = _find_side(codes, sample, lo, hi, cut, bins.missing, missing_left, by_set, categories)
        if side < 0:
            left = enter(left, weight, number, rows, int64(1))
        elif side > 0:
            right = enter(right, weight, number, rows, int64(1))
        else:
            at = numbers.rank[sample]
            held[at, 0] += weight
            held[at, 1] += number
            held[at, 2] += rows
            movable = enter(movable, weight, number, rows, int64(1))
            low = enter(low, weight, number, rows, int64(at < start))
    whole = Cut(left, right, movable)
    noise = ROUNDING * totals.weight * totals.size
    apart, _ = measure_lead(left.weight + movable.weight, left.value + movable.value, totals)
    sign = int64(1) if apart > 0.0 else int64(-1)
    gain, move, turn = solve(numbers, totals, whole, Move(start, low), sign, noise)
    on_left = count_left(whole, numbers, move, turn, sign)
    if movable.weight > 0:
        for rank_ in range(totals.n_ranks):
            for k in range(3):
                held[rank_, k] = 0
    scaled = gain * SPLITTER
    return scaled - (scaled - gain), sign, turn, on_left


@inner
def _find_largest(samples, bins, first, last):
    """The threshold with the largest bound over `features[first:last]`: (bound, order, side of missing values, cut)."""
    bound, order, side, cut = 0.0, int64(-1), int64(0), int64(0)
    for k in range(first, last):
        feature = samples.features[k]
        n_thresholds, bounds = bins.n_thresholds[feature], samples.bounds[feature]
        both = bins.categorical[feature] or holds_missing(samples.cells, bins, feature)
        for missing_left in range(1 + int64(both)):
            for code in range(n_thresholds + 1):
                if bounds[missing_left, code] > bound:
                    bound, order, side, cut = bounds[missing_left, code], k, int64(missing_left), int64(code)
    return bound, order, side, cut


@inner
def _choose(samples, weights, bins, categories, numbers, totals, fewest, start, first, last, scale, tree, node):
    """Write the best split over `features[first:last]` to a node, whose histogram is made."""
    here = tree.nodes[node]
    for k in range(first, last):
        feature = samples.features[k]
        if not bins.categorical[feature]:
            bound_thresholds(samples, bins, feature, totals)
        else:
            bound_sets(samples, bins, categories, tree, node, feature, totals)
    best, best_order, best_side = 0.0, last, int64(0)
    while True:
        bound, order, side, cut = _find_largest(samples, bins, first, last)
        if order < 0 or bound * SLACK < best:
            return
        feature = samples.features[order]
        samples.bounds[feature, side, cut] = 0.0
        missing_left = _make_set(samples, bins, categories, tree, node, feature, side, cut)
        gain, sign, turn, on_left = _settle(
            samples, weights, bins, categories, numbers, totals, here, feature, cut, missing_left, start
        )
        if gain < best or gain == 0.0 or on_left < fewest or totals.rows - on_left < fewest:
            continue
        if gain == best and (order, side, cut) > (best_order, best_side, here.cut):
            continue  # of equally good thresholds the first is taken
        best, best_order, best_side = gain, order, side
        here.feature, here.cut, here.sign, here.gain = feature, cut, sign, gain / (scale * scale)
        if bins.categorical[feature]:
            keep_set(tree, node, feature, categories)
        here.missing_left = missing_left if holds_missing(samples.cells, bins, feature) else -1
        here.turn = np.inf
        if turn < totals.n_ranks:
            here.turn = numbers.target[numbers.first[turn]]


@inner
def _place(samples, bins, here):
    """Put the threshold of a node in the middle of the empty bins behind its cut."""
    feature, width = here.feature, bins.width
    if bins.categorical[feature]:
        return
    if here.cut == bins.n_thresholds[feature]:
        here.threshold = LARGEST  # all numbers go left
        return
    lo, hi = bins.columns[feature, 0] * width, bins.columns[feature, 1] * width
    beyond = here.cut + 1
    while beyond < bins.n_thresholds[feature]:
        at, to = (lo + beyond) * 4, (hi + beyond) * 4
        if samples.cells[at + 1] + samples.cells[at + 3] + samples.cells[to + 1] + samples.cells[to + 3] > 0:
            break
        beyond += 1
    low, high = bins.below[feature, here.cut], bins.above[feature, beyond - 1]
    middle = 0.5 * low + 0.5 * high
    here.threshold = middle if low <= middle < high else low


@inner
def _evaluate(samples, weights, bins, categories, numbers, units, limits, tree, node):
    """Find a node's value and, if it may be split, its best split, which puts it on the frontier."""
    here, entries, target = tree.nodes[node], samples.entries, numbers.target
    here.value = find_mean(entries, here.start, here.end, weights, target)
    is_open = (
        here.depth < limits.max_depth
        and here.count >= limits.min_split
        and here.count >= 2.0 * limits.min_leaf
        and target[uint64(entries[here.start])] < target[uint64(entries[here.end - 1])]
    )
    if not is_open:
        return
    spread = measure_error(entries, here.start, here.end, weights, target, here.value, False)
    totals, scale = rank(entries, here.start, here.end, weights, numbers, here.value, spread)
    start = find_start(numbers.height, totals.n_ranks)
    _fill(samples, weights, numbers, here, start, bins.width)
    draw_features(here.seed, limits.max_features, samples.features)
    n_features = samples.features.shape[0]
    fewest = int64(np.ceil(limits.min_leaf / units.rows))
    first, last = int64(0), limits.max_features if limits.max_features < n_features else n_features
    while here.feature < 0 and first < n_features:
        _choose(samples, weights, bins, categories, numbers, totals, fewest, start, first, last, scale, tree, node)
        first, last = last, last + 1
    if here.feature >= 0 and here.gain * units.weight >= limits.min_gain:
        _place(samples, bins, here)
        push(tree, limits.best_first, node)


@inner
def _split(samples, weights, bins, categories, numbers, units, tree, node):
    """Make a frontier node's two children, and give them their samples."""
    nodes, sizes, entries, spill = tree.nodes, tree.sizes, samples.entries, samples.spill
    here = nodes[node]
    here.left = sizes[NODES]
    sizes[NODES] += 2
    sizes[LEAVES] += 1
    lo, hi = uint64(bins.columns[here.feature, 0]), uint64(bins.columns[here.feature, 1])
    by_set = bins.categorical[here.feature]
    if by_set:
        recall_set(tree, node, here.feature, categories)
    write, spilled = uint64(here.start), uint64(0)
    left_weight, left_rows, all_weight, all_rows = int64(0), int64(0), int64(0), int64(0)
    for k in range(uint64(here.start), uint64(here.end)):
        sample = uint64(entries[k])
        side = _find_side(samples.codes, sample, lo, hi, here.cut, bins.missing, here.missing_left, by_set, categories)
        right = side > 0
        if side == 0:
            right = (numbers.target[sample] >= here.turn) == (here.sign < 0)
        weight, rows = weigh(weights, sample)
        all_weight, all_rows = all_weight + weight, all_rows + rows
        entries[write] = entries[k]
        spill[spilled] = entries[k]
        if right:
            spilled += uint64(1)
        else:
            write += uint64(1)
            left_weight, left_rows = left_weight + weight, left_rows + rows
    for k in range(spilled):
        entries[write + k] = spill[k]
    for right_ in range(2):
        child = nodes[here.left + right_]
        child.feature = -1
        child.left = -1
        child.parent = node
        child.depth = here.depth + 1
        child.seed = mix(here.seed + uint64(right_ + 1))
        child.start = int64(write) if right_ else here.start
        child.end = here.end if right_ else int64(write)
        child.weight = float(all_weight - left_weight if right_ else left_weight)
        child.count = (all_rows - left_rows if right_ else left_rows) * units.rows


@kernel(about="the grower of regression trees for large tables", seconds=2.7)
def grow(samples, weights, bins, categories, numbers, units, limits, tree):
    """Split nodes until none is left to split (DONE) or there is no room for more of them (FULL).

    `categories` is None where all features are numbers.
    """
    nodes, sizes = tree.nodes, tree.sizes
    while True:
        while sizes[EVALUATED] < sizes[NODES]:
            node = sizes[EVALUATED]
            sizes[EVALUATED] += 1
            _evaluate(samples, weights, bins, categories, numbers, units, limits, tree, node)
        if sizes[WAITING] == 0 or sizes[LEAVES] >= limits.max_leaves:
            return DONE
        if sizes[NODES] + 2 > nodes.shape[0]:
            return FULL
        node = pop(tree, limits.best_first)
        _split(samples, weights, bins, categories, numbers, units, tree, node)
