"""A tree on bins while it grows: samples in groups, what their codes mean, nodes, and how a node gets its children.

A target (classes, for one) divides the samples into groups and gives each sample some statistics, integers that are
added up. The first statistic is always the rows that a sample stands for. Everything that is added is an integer, so
that sums are exact and the tree does not depend on the order of the rows.

A split at a cut (the last code on the left) makes a sample surely left, surely right or movable, by the codes of both
ends of its reach. How many of the movable samples of each group go left is part of the split (`takes`): nobody,
everybody, or the first of them by the lower ends of their reach, those with the same code together, until their weight
is as near as can be to what the attacker wants on the left. So the tree does not depend either on whether a row is
given twice or weighs twice as much.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64, uint64

from hardwood._kernels.compiling import inner, part, record_type
from hardwood._kernels.grow.nodes import LEAVES, NODES, mix

# Of a group's movable samples, all of them.
EVERYBODY = np.iinfo(np.int64).max

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
    # The samples, node by node, in the order of their numbers; the group in the upper bits, as the target wants it.
    entries: np.ndarray
    spill: np.ndarray  # of the same type, per sample: scratch
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

    # float64 per group: what one unit of its weight stands for (of its rows, where nothing else counts)
    weight: np.ndarray
    rows: float  # what one unit of rows stands for


class Tree(NamedTuple):
    """The nodes of a tree, and which of them are still to be split."""

    nodes: np.ndarray  # NODE
    sums: np.ndarray  # int64 (node, group * statistic): what it holds
    left_sums: np.ndarray  # int64, the same of what its split leaves on the left
    # int64 (node, group): twice the weight of movable samples that the attacker wants on the left of its split, rounded
    # up; see EVERYBODY
    takes: np.ndarray
    sides: np.ndarray  # uint8 (node, code): who can go where at a split by categories, see targets/categories.py
    heap: np.ndarray  # int64: the frontier, see frontier.py
    sizes: np.ndarray  # int64: as in `nodes.Tree`


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
def is_divided(takes):
    """Whether some of a group's movable samples go left, and some right."""
    some = False
    for group in range(takes.shape[0]):
        some |= takes[group] != 0 and takes[group] != EVERYBODY
    return some


@inner
def find_limits(takes, movable, limits, left_sums):
    """Find where the movable samples that go left end, for each group; of divided ones, complete what is left.

    movable : int64 (group, code, statistic): sums over the movable samples of divided groups, by their lower ends.
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


@part
def halve(low, high):
    """The threshold midway between what is on either side, rounded so that it parts the two."""
    middle = 0.5 * low + 0.5 * high
    return middle if low <= middle < high else low


@inner
def make_children(tree, units, node):
    """Make a node's two children, which are not yet given their samples."""
    nodes, sizes, sums, left_sums = tree.nodes, tree.sizes, tree.sums, tree.left_sums
    n_statistics = sums.shape[1] // tree.takes.shape[1]
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
def part_bounds(tree, units, monotonic, node):
    """Part the bounds of a node at the middle of its children's shares, if it is split by a monotone feature."""
    if monotonic.shape[0] == 0 or monotonic[tree.nodes[node].feature] == 0:
        return
    direction, first, second = monotonic[tree.nodes[node].feature], tree.nodes[node].left, tree.nodes[node].left + 1
    n_statistics = tree.sums.shape[1] // tree.takes.shape[1]
    shares = _find_share(tree.sums[first], units, n_statistics) + _find_share(tree.sums[second], units, n_statistics)
    if direction < 0:
        first, second = second, first
    tree.nodes[first].upper = tree.nodes[second].lower = 0.5 * shares


@inner
def _find_share(sums, units, n_statistics):
    """The share of class 1 in what a node of two classes holds."""
    zero, one = sums[n_statistics - 1] * units.weight[0], sums[2 * n_statistics - 1] * units.weight[1]
    return one / (zero + one)
