"""The kernels that grow trees on bins: what is the same whatever a tree tells, around the functions of a target.

`make_kernels` compiles a target's functions into the frame: to the compiler, what a kernel captures is a constant, and
calls are as direct as if the functions stood here. In memory `grow` does it all. Over blocks of rows
(`grow/class_levels.py`) blocks have samples: they count histograms, add up movable samples and send samples down
(`count_all`, `tally_nodes`, `descend`). Who grows the tree has none: it asks `grow` for the splits of nodes alone, and
completes splits (`complete_splits`, `find_open`, the same for all targets). The samples of one node in a block are a
segment of its entries: segment k is `entries[bounds[k] : bounds[k + 1]]`.

The caller owns all arrays. `grow` returns when the frontier is empty (DONE) or when there is no room for more nodes
(FULL): the caller enlarges the arrays and calls again.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy import int64

from hardwood._kernels.compiling import Decorators, kernel, name_functions, record_type
from hardwood._kernels.grow.frame.histograms import release_slot, subtract, take_slot
from hardwood._kernels.grow.frame.nodes import find_limits, is_divided, is_open, make_children, part_bounds
from hardwood._kernels.grow.frontier import pop, push
from hardwood._kernels.grow.nodes import DROPPED, EVALUATED, LEAVES, LEFT, NODES, RIGHT, WAITING, WAITS

DONE, FULL = 0, 1

# What a block has to know of a split: fields of `nodes.NODE`.
SPLIT_FIELDS = ("feature", "cut", "missing", "first", "last")
SPLIT = record_type([(name, np.int64) for name in SPLIT_FIELDS])


class BlockColumns(NamedTuple):
    """What a block has to know of columns: fields of `nodes.Columns`."""

    columns: np.ndarray
    width: int
    missing: int
    blank: np.ndarray
    fill: np.ndarray


class Asked(NamedTuple):
    """Nodes whose splits are all that is wanted of `grow`; none of them: the tree is."""

    nodes: np.ndarray  # int64
    slots: np.ndarray  # int64: where the histogram of each is
    is_worth: np.ndarray  # bool, written: whether its split is worth it


class Target(NamedTuple):
    """What a target brings: functions that are compiled into the frame.

    What `grow` is handed as `columns` and `work` is between the caller and the target, but for `columns.width` and
    `columns.monotonic`.
    """

    name: str  # of what is grown; no other target has it
    seconds: float  # that `grow` takes to compile
    # (samples, start, end, n_groups, width, cells): adds samples to a histogram.
    count: Callable
    # (cells, columns, units, limits, tree, node, features, work): writes the best split by a histogram; whether it is
    # worth it.
    find_split: Callable
    # (samples, columns, split, sides, limits, start, end): brings the samples that go left to the front, and keeps the
    # order on both sides; where the others begin.
    partition: Callable
    # (samples, columns, split, sides, takes, start, end, movable): adds up the movable samples of divided groups. None
    # where the attacker never divides a group.
    tally: Callable | None


class Kernels(NamedTuple):
    """What grows the trees of a target."""

    grow: Any
    count_all: Any
    descend: Any
    tally_nodes: Any  # None where there is nothing to add up


def make_kernels(target: Target) -> Kernels:
    """Compile the functions of a target into the frame."""
    made_by = name_functions(target.name)
    fill = _make_fill(target, made_by)
    split = _make_split(target, made_by, fill)
    grow = _make_grow(target, made_by, fill, split)
    counting, descend = _make_count(target, made_by, fill), _make_descend(target, made_by, fill)
    return Kernels(grow, counting, descend, None if target.tally is None else _make_tally(target, made_by))


def _make_fill(target: Target, made_by: Decorators) -> Any:
    count = target.count

    @made_by.inner
    def fill(samples, start, end, n_groups, width, cells):
        """Make the histogram of some samples."""
        for cell in range(cells.shape[0]):
            cells[cell] = 0
        count(samples, start, end, n_groups, width, cells)

    return fill


def _make_split(target: Target, made_by: Decorators, fill: Any) -> Any:
    tally, partition, divides = target.tally, target.partition, target.tally is not None

    @made_by.inner
    def split(samples, columns, units, limits, tree, node, histograms):
        """Split a frontier node: children, their samples, and their histograms if one of them can be split again."""
        nodes, cells, n_groups = tree.nodes, histograms.cells, tree.takes.shape[1]
        here, sides, takes = nodes[node], tree.sides[node], tree.takes[node]
        if divides:  # noqa: SIM102, numba prunes what is tested alone
            if is_divided(takes):
                tally(samples, columns, here, sides, takes, here.start, here.end, histograms.movable)
        find_limits(takes, histograms.movable, histograms.limits, tree.left_sums[node])
        make_children(tree, units, node)
        part_bounds(tree, units, columns.monotonic, node)
        left, right = nodes[here.left], nodes[here.left + 1]
        if not (is_open(left, limits) or is_open(right, limits)):
            release_slot(histograms, here)
            return
        middle = partition(samples, columns, here, sides, histograms.limits, here.start, here.end)
        left.start, left.end, right.start, right.end = here.start, middle, middle, here.end
        smaller, larger = (left, right) if left.end - left.start <= right.end - right.start else (right, left)
        smaller.slot = take_slot(histograms)
        fill(samples, smaller.start, smaller.end, n_groups, columns.width, cells[smaller.slot])
        if here.slot < 0:  # the parent's was given up for want of memory
            larger.slot = take_slot(histograms)
            fill(samples, larger.start, larger.end, n_groups, columns.width, cells[larger.slot])
        else:
            larger.slot = here.slot
            subtract(cells[larger.slot], cells[smaller.slot])
            here.slot = -1

    return split


def _make_grow(target: Target, made_by: Decorators, fill: Any, split: Any) -> Any:
    find_split = target.find_split

    @made_by.kernel(about=f"the grower of {target.name}", seconds=target.seconds)
    def grow(samples, columns, units, limits, tree, histograms, work, asked):
        """Split nodes until none is left to split (DONE) or there is no room for more of them (FULL)."""
        nodes, sizes, features = tree.nodes, tree.sizes, histograms.features
        for k in range(asked.nodes.shape[0]):
            own = histograms.cells[asked.slots[k]]
            asked.is_worth[k] = find_split(own, columns, units, limits, tree, asked.nodes[k], features, work)
        if asked.nodes.shape[0] > 0:
            return DONE
        if sizes[EVALUATED] == 0:
            root = nodes[0]
            root.slot = take_slot(histograms)
            own = histograms.cells[root.slot]
            fill(samples, root.start, root.end, tree.takes.shape[1], columns.width, own)
        while True:
            while sizes[EVALUATED] < sizes[NODES]:
                node = sizes[EVALUATED]
                sizes[EVALUATED] += 1
                here = nodes[node]
                if is_open(here, limits):
                    own = histograms.cells[here.slot]
                    if find_split(own, columns, units, limits, tree, node, features, work):
                        push(tree, limits.best_first, node)
                        if histograms.free[0] >= 2:  # enough for the children of whichever node is split next
                            continue
                release_slot(histograms, here)
            if sizes[WAITING] == 0 or sizes[LEAVES] >= limits.max_leaves:
                return DONE
            if sizes[NODES] + 2 > nodes.shape[0]:
                return FULL
            split(samples, columns, units, limits, tree, pop(tree, limits.best_first), histograms)

    return grow


def _make_count(target: Target, made_by: Decorators, fill: Any) -> Any:
    @made_by.kernel(about=f"the histogram of a block, for {target.name}", seconds=0.3)
    def count_all(samples, columns, cells):
        """Count the histogram of all samples of a block."""
        fill(samples, int64(0), samples.entries.shape[0], columns.blank.shape[1], columns.width, cells)

    return count_all


def _make_tally(target: Target, made_by: Decorators) -> Any:
    tally = target.tally

    @made_by.kernel(about=f"sums over movable rows of a block, for {target.name}", seconds=0.6)
    def tally_nodes(samples, columns, bounds, segments, splits, sides, takes, movable):
        """Add up the movable samples of nodes that are split; `segments` says where their samples are."""
        for k in range(segments.shape[0]):
            start, end = bounds[segments[k]], bounds[segments[k] + 1]
            tally(samples, columns, splits[k], sides[k], takes[k], start, end, movable[k])

    return tally_nodes


def _make_descend(target: Target, made_by: Decorators, fill: Any) -> Any:
    partition = target.partition

    @made_by.kernel(about=f"the way of a block's rows down a tree, for {target.name}", seconds=0.8)
    def descend(entries, bounds, samples, columns, splits, sides, limits, moves, new_bounds, cells):
        """Send the samples of nodes that are split to their children, and count the histograms of some of these.

        Parameters
        ----------
        entries : the samples of all segments; those that are there afterwards become the entries of `samples`
        limits : int64 (split, group): see `nodes.find_limits`
        moves : `level_order.Moves`
        new_bounds : of the segments that are there afterwards, written
        cells : (child, cell): histograms, written in the order of the splits
        """
        write, n_segments, n_made, n_groups = int64(0), int64(0), int64(0), columns.blank.shape[1]
        own = samples.entries
        new_bounds[0] = 0
        for segment in range(moves.action.shape[0]):
            at = moves.action[segment]
            if at == DROPPED:
                continue
            start = write
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

    return descend


@kernel(about="children of nodes, level by level", seconds=0.9)
def complete_splits(units, monotonic, tree, nodes, tallied, movable, limits):
    """Find who of the movable samples of nodes goes left, and make their children.

    tallied : int64 per node: which of the tables in `movable` is its; of one that divides no group it is not read
    movable : int64 (table, group, code, statistic): see `nodes.find_limits`
    limits : int64 (node, group), written: see `nodes.find_limits`
    """
    for k in range(nodes.shape[0]):
        node = nodes[k]
        find_limits(tree.takes[node], movable[tallied[k]], limits[node], tree.left_sums[node])
        make_children(tree, units, node)
        part_bounds(tree, units, monotonic, node)


@kernel(about="the limits of trees over blocks", seconds=0.1)
def find_open(nodes, limits, tree, found):
    """Find out which nodes may be split at all."""
    for k in range(nodes.shape[0]):
        found[k] = is_open(tree.nodes[nodes[k]], limits)
