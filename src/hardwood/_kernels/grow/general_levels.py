"""Growing one tree of many classes on codes level by level, over blocks of rows: see `grow/general_levels.py`.

Blocks have samples. They add up those that are movable (`tally_nodes`), send the samples of nodes that are split to
their children and count histograms (`descend`). Who grows the tree has none: it completes splits and makes children
(`complete_splits`), and finds splits by histograms (`search`). What is done to one node is what `general.py` and
`general_classes.py` do. The samples of one node in a block are a segment of its entries: segment k is
`entries[bounds[k] : bounds[k + 1]]`.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64

from hardwood._kernels.compiling import kernel, record_type
from hardwood._kernels.grow.general import (
    fill,
    find_limits,
    is_worth_it,
    make_children,
    part_bounds,
    partition,
    tally,
)
from hardwood._kernels.grow.general_classes import find_split
from hardwood._kernels.grow.nodes import DROPPED, LEFT, RIGHT, WAITS

# What a block has to know of a split: fields of `general.NODE`.
SPLIT_FIELDS = ("feature", "cut", "missing", "first", "last")
SPLIT = record_type([(name, np.int64) for name in SPLIT_FIELDS])


class BlockColumns(NamedTuple):
    """What a block has to know of columns: fields of `general.Columns`."""

    columns: np.ndarray
    width: int
    missing: int
    blank: np.ndarray
    fill: np.ndarray


@kernel(about="the histogram of a block of rows", seconds=0.3)
def count(samples, columns, cells):
    """Count the histogram of all samples."""
    fill(samples, int64(0), samples.entries.shape[0], columns.blank.shape[1], columns.width, cells)


@kernel(about="sums over movable rows of a block", seconds=0.6)
def tally_nodes(samples, columns, bounds, segments, splits, sides, takes, movable):
    """Add up the movable samples of nodes that are split; `segments` says where their samples are."""
    for k in range(segments.shape[0]):
        start, end = bounds[segments[k]], bounds[segments[k] + 1]
        tally(samples, columns, splits[k], sides[k], takes[k], start, end, movable[k])


@kernel(about="the way of a block's rows down a tree", seconds=0.8)
def descend(entries, bounds, samples, columns, splits, sides, limits, moves, new_bounds, cells):
    """Send the samples of nodes that are split to their children, and count the histograms of some of these.

    Parameters
    ----------
    entries : the samples of all segments; those that are there afterwards become the entries of `samples`
    limits : int64 (split, group): see `general.find_limits`
    moves : `level_order.Moves`
    new_bounds : of the segments that are there afterwards, written
    cells : (child, cell): histograms, written in the order of the splits
    """
    write, n_segments, n_made, n_groups = int64(0), int64(0), int64(0), columns.blank.shape[1]
    new_bounds[0] = 0
    for segment in range(moves.action.shape[0]):
        at = moves.action[segment]
        if at == DROPPED:
            continue
        start, own = write, samples.entries
        for k in range(bounds[segment], bounds[segment + 1]):
            own[write] = entries[k]
            write += 1
        if at == WAITS:
            n_segments += 1
            new_bounds[n_segments] = write
            continue
        middle, end = partition(samples, columns, splits[at], sides[at], limits[at], start, write), write
        for right in range(2):
            first, last = (middle, end) if right else (start, middle)
            if moves.made[at] & (RIGHT if right else LEFT):
                fill(samples, first, last, n_groups, columns.width, cells[n_made])
                n_made += 1
        write = start
        for right in range(2):
            first, last = (middle, end) if right else (start, middle)
            if moves.keep[at] & (RIGHT if right else LEFT):
                for k in range(first, last):
                    own[write] = own[k]
                    write += 1
                n_segments += 1
                new_bounds[n_segments] = write


@kernel(about="children of nodes, level by level", seconds=0.9)
def complete_splits(units, monotonic, tree, nodes, tallied, movable, limits):
    """Find who of the movable samples of nodes goes left, and make their children.

    tallied : int64 per node: which of the tables in `movable` is its; of one that divides no group it is not read
    movable : int64 (table, group, code, statistic): see `general.tally`
    limits : int64 (node, group), written: see `general.find_limits`
    """
    for k in range(nodes.shape[0]):
        node = nodes[k]
        find_limits(tree.takes[node], movable[tallied[k]], limits[node], tree.left_sums[node])
        make_children(tree, units, node, movable.shape[3])
        part_bounds(tree, units, monotonic, node, movable.shape[3])


@kernel(about="the grower of trees of many classes, level by level", seconds=5.0)
def search(nodes, cells, slots, bins, units, limits, tree, features, work, partition, hidden, is_worth):
    """Find the best splits of nodes by their histograms; the others are as `general_classes.grow` takes them.

    is_worth : bool per node, written: whether its split is worth it
    """
    n_statistics = work.lows.shape[0] // work.total.shape[0]
    for k in range(nodes.shape[0]):
        node, own = nodes[k], cells[slots[k]]
        find_split(own, bins, units, limits, tree, node, features, work, partition, hidden)
        is_worth[k] = is_worth_it(bins, limits, tree.nodes[node], tree.takes[node], own, n_statistics)
