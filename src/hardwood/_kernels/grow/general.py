"""The frame of the general grower on bins: samples in groups, histograms of integers, nodes and how they are split.

A target (classes, for one) divides the samples into groups and gives each sample some statistics, integers that are
added up. The first statistic is always the rows that a sample stands for. What a target brings is a kernel `grow` of
its own that looks for the best split of a node by its histogram (`general_classes.py`); what is here it shares:

* `fill`, `subtract`: histograms, column x code x group x statistic. A sample sits in one child only and its codes never
  change, so the smaller child is counted and the larger one is what is left.
* `is_worth_it`: whether the best split is, and where its threshold goes.
* `split`: children, their samples and their histograms.

A split at a cut (the last code on the left) makes a sample surely left, surely right or movable, by the codes of both
ends of its reach: `can_go_left` and `can_go_right`. A missing value has a code of its own, and a split learns a side
for it; where the attacker can blank or fill values, that side decides who is movable, and the splits above decide who
can be missing at all (`find_span`). How many of the movable samples of each group go left is part of the split
(`takes`): nobody, everybody, or the first of them by the lower ends of their reach, those with the same code together,
until their weight is as near as can be to what the attacker wants on the left. So the tree depends neither on the order
of the rows nor on whether a row is given twice or weighs twice as much.

The caller (`grow/general.py`) owns all arrays. `grow` returns when the frontier is empty (DONE) or when there is no
room for more nodes (FULL): the caller enlarges the arrays and calls again.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64, uint64

from hardwood._kernels.compiling import inner, part, record_type
from hardwood._kernels.grow.nodes import LEAVES, NODES, mix

DONE, FULL = 0, 1

GROUP_SHIFT = uint64(32)
ID_MASK = uint64((1 << 32) - 1)
# Of a group's movable samples, all of them.
EVERYBODY = np.iinfo(np.int64).max
# The threshold of a split that only parts what is missing from what is not.
LARGEST_FLOAT = float(np.finfo(np.float64).max)

NODE = record_type(
    [
        ("feature", np.int64),  # the split found; -1 where none is worth it
        ("threshold", np.float64),
        # The last code on the left, -1 where categories are parted; in a sweep, the first of its events on the right.
        ("cut", np.int64),
        ("below", np.int64),  # in a sweep, the events on both sides of the threshold
        ("above", np.int64),
        ("missing", np.int64),  # the side of missing values: 0 right, 1 left; -1: none can be here
        ("first", np.int64),  # what ancestors leave open of the split's feature, where values can be missing:
        ("last", np.int64),  # upper ends are above `first`, lower ends at most `last`
        ("gain", np.float64),
        ("left", np.int64),  # the right child is the next node; -1 while unsplit
        ("parent", np.int64),
        ("lower", np.float64),  # between which the share of class 1 has to stay, where features are monotone
        ("upper", np.float64),
        ("depth", np.int64),
        ("start", np.int64),  # the node's samples are entries[start:end]
        ("end", np.int64),
        ("slot", np.int64),  # where its histogram is; -1: nowhere
        ("count", np.float64),  # rows
        ("mixed", np.int64),  # whether it holds what a split could part
        ("seed", np.uint64),
    ]
)


class Samples(NamedTuple):
    """The training samples. With rho < 1 there are up to two samples per row; those that stay come last."""

    codes: np.ndarray  # uint8 or uint16 (sample, column)
    entries: np.ndarray  # uint64: the samples, node by node, in the order of their numbers; the group in the upper half
    spill: np.ndarray  # uint64 per sample: scratch
    # int64 (sample, statistic): rows, weight and what else a target wants, in fixed point. Where each sample is one row
    # and nothing else counts there is a single statistic, and nothing in it: (0, 1).
    statistics: np.ndarray


class Columns(NamedTuple):
    """Where the codes of a feature are, and what they mean."""

    columns: np.ndarray  # int64 (feature, end)
    n_thresholds: np.ndarray  # int64 per feature
    below: np.ndarray  # float64 (feature, threshold): the ends of reach beside each threshold
    above: np.ndarray
    width: int  # codes of a column
    missing: int  # the code of what is missing; -1 if nothing is
    blank: np.ndarray  # bool (feature, group): whether its values can be made missing
    fill: np.ndarray  # bool (feature, group): whether its missing values can be given any other
    n_categories: np.ndarray  # int64 per feature: with those never seen and what is missing; 0 = numerical
    reach: np.ndarray  # bool: which category can become which, a square matrix per categorical feature
    reach_start: np.ndarray  # int64 per feature: where its matrix begins
    # int64 per feature: 1 where the share of class 1 must not fall as the feature grows, -1 where it must not rise, or
    # 0; empty if there is no such feature.
    monotonic: np.ndarray


class Units(NamedTuple):
    """What the integers stand for."""

    weight: (
        np.ndarray
    )  # float64 per group: what one unit of its weight stands for (of its rows, where nothing else counts)
    rows: float  # what one unit of rows stands for


class Tree(NamedTuple):
    """The nodes of a tree, and which of them are still to be split."""

    nodes: np.ndarray  # NODE
    sums: np.ndarray  # int64 (node, group * statistic): what it holds
    left_sums: np.ndarray  # int64, the same of what its split leaves on the left
    # int64 (node, group): twice the weight of movable samples that the attacker wants on the left of its split, rounded
    # up; see EVERYBODY
    takes: np.ndarray
    sides: np.ndarray  # uint8 (node, code): who can go where at a split by categories, see general_categories.py
    heap: np.ndarray  # int64: the frontier, see frontier.py
    sizes: np.ndarray  # int64: as in `nodes.Tree`


class Histograms(NamedTuple):
    """Memory for some histograms, and scratch for splits."""

    cells: np.ndarray  # int64 (slot, cell)
    free: np.ndarray  # int64: how many slots are free, and which
    features: np.ndarray  # int64: the features in the order they are tried
    limits: np.ndarray  # int64 per group: see `find_limits`
    movable: np.ndarray  # int64 (group, code, statistic): see `tally`


@inner
def _count(codes, entries, start, end, n_groups, step, cells):
    """Add samples that are one row each to a histogram."""
    n_columns, size = uint64(codes.shape[1]), uint64(n_groups)
    for k in range(uint64(start), uint64(end)):
        entry = entries[k]
        sample, cell = entry & ID_MASK, entry >> GROUP_SHIFT
        for column in range(n_columns):
            cells[cell + uint64(codes[sample, column]) * size] += 1
            cell += uint64(step)


@inner
def _add(codes, entries, start, end, n_groups, step, statistics, cells):
    """Add the statistics of samples to a histogram."""
    n_columns, n_statistics = uint64(codes.shape[1]), uint64(statistics.shape[1])
    size = uint64(n_groups) * n_statistics
    for k in range(uint64(start), uint64(end)):
        entry = entries[k]
        sample, cell = entry & ID_MASK, (entry >> GROUP_SHIFT) * n_statistics
        for column in range(n_columns):
            at = cell + uint64(codes[sample, column]) * size
            for s in range(n_statistics):
                cells[at + s] += statistics[sample, s]
            cell += uint64(step) * n_statistics


@inner
def fill(samples, start, end, n_groups, width, cells):
    """Make the histogram of some samples."""
    for cell in range(cells.shape[0]):
        cells[cell] = 0
    if samples.statistics.shape[1] == 1:
        _count(samples.codes, samples.entries, start, end, n_groups, n_groups * width, cells)
    else:
        _add(samples.codes, samples.entries, start, end, n_groups, n_groups * width, samples.statistics, cells)


@part
def subtract(cells, others):
    """Take one histogram away from another."""
    for cell in range(cells.shape[0]):
        cells[cell] -= others[cell]


@part
def take_slot(histograms):
    """Return a free slot, which is free no longer."""
    free = histograms.free
    slot = free[free[0]]
    free[0] -= 1
    return slot


@inner
def release_slot(histograms, here):
    """Give a node's slot back, if it has one."""
    free = histograms.free
    if here.slot >= 0:
        free[0] += 1
        free[free[0]] = here.slot
        here.slot = -1


@inner
def is_open(here, limits):
    """Whether a node may be split at all."""
    return (
        here.mixed != 0
        and here.depth < limits.max_depth
        and here.count >= limits.min_split
        and here.count >= 2.0 * limits.min_leaf
    )


@inner
def hides(bins, feature, n_groups):
    """Whether values of a feature can be blanked or filled in by somebody."""
    some = False
    for group in range(n_groups):
        some |= bins.blank[feature, group] or bins.fill[feature, group]
    return some


@inner
def find_span(tree, node, feature, n_thresholds):
    """What the splits above a node leave open of a feature: (whether it may be missing, `first`, `last`).

    Upper ends of what is there are above `first`, and lower ends are at most `last`.
    """
    can_miss, first, last = True, int64(-1), int64(n_thresholds)
    child, above = node, tree.nodes[node].parent
    while above >= 0:
        here = tree.nodes[above]
        if here.feature == feature:
            is_left = child == here.left
            can_miss = can_miss and here.missing == int64(is_left)
            if is_left:
                last = here.cut if here.cut < last else last
            else:
                first = here.cut if here.cut > first else first
        child, above = above, here.parent
    return can_miss, first, last


@inner
def can_go_left(bins, here, sides, codes, sample, group, lo, hi):
    """Whether a sample can be on the left of a split; `lo` and `hi` are the columns of both ends of its reach."""
    code = int64(codes[sample, lo])
    if here.cut < 0:
        return sides[code] & 1 != 0
    if here.missing < 0:
        return code <= here.cut or code == bins.missing
    if code == bins.missing:
        return here.missing == 1 or bins.fill[here.feature, group]
    if here.missing == 1 and bins.blank[here.feature, group]:
        return True
    return code <= here.cut and code <= here.last and int64(codes[sample, hi]) > here.first


@inner
def can_go_right(bins, here, sides, codes, sample, group, lo, hi):
    """Whether a sample can be on the right of a split."""
    code = int64(codes[sample, hi])
    if here.cut < 0:
        return sides[code] & 2 != 0
    if here.missing < 0:
        return code > here.cut
    if code == bins.missing:
        return here.missing == 0 or bins.fill[here.feature, group]
    if here.missing == 0 and bins.blank[here.feature, group]:
        return True
    return code > here.cut and int64(codes[sample, lo]) <= here.last


@part
def skip_empty(cells, takes, n_groups, n_statistics, lo, hi, cut, n_thresholds):
    """Return the first code behind a cut that holds a sample, at the ends that count.

    Where everybody who can goes left only lower ends count, where nobody does only upper ends; else both do.
    """
    code = cut + 1
    while code < n_thresholds:
        for group in range(n_groups):
            low, high = (lo + code) * n_groups + group, (hi + code) * n_groups + group
            if takes[group] != 0 and cells[low * n_statistics] != 0:
                return code
            if takes[group] != EVERYBODY and cells[high * n_statistics] != 0:
                return code
        code += 1
    return code


@part
def _place_threshold(bins, here, takes, cells, n_statistics):
    """Return the threshold of a split: midway between the samples on either side.

    It goes to the middle of the empty bins behind the cut. The bin before the cut holds a sample, or the cut before it
    would have been taken, which is as good.
    """
    feature, cut, width = here.feature, here.cut, bins.width
    if cut < 0:  # categories are parted
        return 0.0
    if cut == bins.n_thresholds[feature]:  # what is missing is parted from what is not
        return LARGEST_FLOAT
    lo, hi = bins.columns[feature, 0] * width, bins.columns[feature, 1] * width
    beyond = skip_empty(cells, takes, takes.shape[0], n_statistics, lo, hi, cut, bins.n_thresholds[feature])
    low, high = bins.below[feature, cut], bins.above[feature, beyond - 1]
    middle = 0.5 * low + 0.5 * high
    return middle if low <= middle < high else low


@inner
def is_worth_it(bins, limits, here, takes, cells, n_statistics):
    """Whether the split that was found in a node's histogram is worth it; if so, it is given its threshold."""
    if here.feature < 0 or here.gain < limits.min_gain:
        return False
    here.threshold = _place_threshold(bins, here, takes, cells, n_statistics)
    return True


@inner
def tally(samples, bins, here, sides, takes, start, end, movable):
    """Add up the movable samples of groups that a split divides, by the codes of their lower ends.

    start, end : where the node's samples are among the entries.
    movable : int64 (group, code, statistic): of groups that are not divided it stays as it is.
    """
    codes, entries, statistics = samples.codes, samples.entries, samples.statistics
    lo, hi = uint64(bins.columns[here.feature, 0]), uint64(bins.columns[here.feature, 1])
    for group in range(takes.shape[0]):
        if takes[group] != 0 and takes[group] != EVERYBODY:
            for code in range(movable.shape[1]):
                for s in range(movable.shape[2]):
                    movable[group, code, s] = 0
    for k in range(uint64(start), uint64(end)):
        entry = entries[k]
        sample, group = entry & ID_MASK, int64(entry >> GROUP_SHIFT)
        if (
            takes[group] != 0
            and takes[group] != EVERYBODY
            and can_go_right(bins, here, sides, codes, sample, group, lo, hi)
            and can_go_left(bins, here, sides, codes, sample, group, lo, hi)
        ):
            code = int64(codes[sample, lo])
            if statistics.shape[1] == 1:
                movable[group, code, 0] += 1
            else:
                for s in range(movable.shape[2]):
                    movable[group, code, s] += statistics[sample, uint64(s)]


@inner
def is_divided(takes):
    """Whether some of a group's movable samples go left, and some right."""
    some = False
    for group in range(takes.shape[0]):
        some |= takes[group] != 0 and takes[group] != EVERYBODY
    return some


@inner
def find_limits(takes, movable, limits, left_sums):
    """Find where the movable samples that go left end, for each group; of divided ones, complete what is left.

    movable : see `tally`.
    limits : int64 per group: the first code of lower ends whose movable samples go right.
    """
    n_codes, n_statistics = movable.shape[1:]
    weight = int64(n_statistics > 1)
    for group in range(takes.shape[0]):
        limits[group] = n_codes if takes[group] == EVERYBODY else 0
        if takes[group] == 0 or takes[group] == EVERYBODY:
            continue
        wanted, code = takes[group], int64(0)
        while code < n_codes and wanted > movable[group, code, weight]:  # nearer with it than without it
            wanted -= 2 * movable[group, code, weight]
            for s in range(n_statistics):
                left_sums[group * n_statistics + s] += movable[group, code, s]
            code += 1
        limits[group] = code


@inner
def partition(samples, bins, here, sides, limits, start, end):
    """Move a node's samples that go left to the front, keeping their order; where the others begin.

    limits : see `find_limits`.
    """
    codes, entries, spill = samples.codes, samples.entries, samples.spill
    lo, hi = uint64(bins.columns[here.feature, 0]), uint64(bins.columns[here.feature, 1])
    write, spilled = uint64(start), uint64(0)
    for k in range(uint64(start), uint64(end)):
        entry = entries[k]
        sample, group = entry & ID_MASK, entry >> GROUP_SHIFT
        right = uint64(not can_go_left(bins, here, sides, codes, sample, int64(group), lo, hi))
        if can_go_right(bins, here, sides, codes, sample, int64(group), lo, hi):
            right |= uint64(int64(codes[sample, lo]) >= limits[group])
        entries[write] = entry
        spill[spilled] = entry
        write += uint64(1) - right
        spilled += right
    for k in range(spilled):
        entries[write + k] = spill[k]
    return int64(write)


@inner
def make_children(tree, units, node, n_statistics):
    """Make a node's two children, which are not yet given their samples."""
    nodes, sizes, sums, left_sums = tree.nodes, tree.sizes, tree.sums, tree.left_sums
    here = nodes[node]
    here.left = sizes[NODES]
    sizes[NODES] += 2
    sizes[LEAVES] += 1
    for right in range(2):
        child = nodes[here.left + right]
        child.feature = -1
        child.left = -1
        child.slot = -1
        child.parent, child.lower, child.upper = node, here.lower, here.upper
        child.missing = -1
        child.depth = here.depth + 1
        child.seed = mix(here.seed + uint64(right + 1))
        own, rows, n_held = sums[here.left + right], int64(0), int64(0)
        for cell in range(own.shape[0]):
            own[cell] = sums[node, cell] - left_sums[node, cell] if right else left_sums[node, cell]
        for group in range(tree.takes.shape[1]):
            held = own[group * n_statistics]
            rows += held
            n_held += int64(held > 0 and units.weight[group] > 0.0)
        child.count, child.mixed = rows * units.rows, int64(n_held >= 2)


@inner
def _find_share(sums, units, n_statistics):
    """The share of class 1 in what a node of two classes holds."""
    zero, one = sums[n_statistics - 1] * units.weight[0], sums[2 * n_statistics - 1] * units.weight[1]
    return one / (zero + one)


@inner
def part_bounds(tree, units, monotonic, node, n_statistics):
    """Part the bounds of a node at the middle of its children's shares, if it is split by a monotone feature."""
    if monotonic.shape[0] == 0 or monotonic[tree.nodes[node].feature] == 0:
        return
    first, second = tree.nodes[node].left, tree.nodes[node].left + 1
    shares = _find_share(tree.sums[first], units, n_statistics) + _find_share(tree.sums[second], units, n_statistics)
    if monotonic[tree.nodes[node].feature] < 0:
        first, second = second, first
    tree.nodes[first].upper = tree.nodes[second].lower = 0.5 * shares


@inner
def split(samples, bins, units, limits, tree, node, histograms):
    """Split a frontier node: its children, their samples, and their histograms if one of them can be split again."""
    nodes, cells = tree.nodes, histograms.cells
    n_groups, n_statistics = tree.takes.shape[1], tree.sums.shape[1] // tree.takes.shape[1]
    here, sides, takes = nodes[node], tree.sides[node], tree.takes[node]
    if is_divided(takes):
        tally(samples, bins, here, sides, takes, here.start, here.end, histograms.movable)
    find_limits(takes, histograms.movable, histograms.limits, tree.left_sums[node])
    make_children(tree, units, node, n_statistics)
    part_bounds(tree, units, bins.monotonic, node, n_statistics)
    left, right = nodes[here.left], nodes[here.left + 1]
    if is_open(left, limits) or is_open(right, limits):
        middle = partition(samples, bins, here, sides, histograms.limits, here.start, here.end)
        left.start, left.end, right.start, right.end = here.start, middle, middle, here.end
        smaller, larger = (left, right) if left.end - left.start <= right.end - right.start else (right, left)
        smaller.slot = take_slot(histograms)
        fill(samples, smaller.start, smaller.end, n_groups, bins.width, cells[smaller.slot])
        if here.slot < 0:  # the parent's was given up for want of memory
            larger.slot = take_slot(histograms)
            fill(samples, larger.start, larger.end, n_groups, bins.width, cells[larger.slot])
        else:
            larger.slot = here.slot
            subtract(cells[larger.slot], cells[smaller.slot])
            here.slot = -1
    else:
        release_slot(histograms, here)
