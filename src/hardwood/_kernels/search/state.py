"""What a search knows of a row, and how it narrows the row's box, goes back, and writes down a point.

Records in few arrays: each array that kernels hand to each other is half a dozen numbers for the compiler to carry.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, part
from hardwood._kernels.search.leaves import MISSING

# Constants are of one type with what they stand in for: otherwise functions would be compiled for both.
EVERY, BALL = np.int64(-1), np.int64(-2)
# What is looked for: any point that gets another class; the cheapest one; the largest sum.
ANY, CHEAPEST, LARGEST = 0, 1, 2
# Of the cells of an axis a tree tells apart so many groups at most when it comes to tolls.
MAX_LANES = 64

# An axis (numerical features come first, then categories): where one row is on it, the cells that it can be moved to,
# and what a search notes of them.
AXIS = np.dtype(
    [
        ("start", np.int64),  # where its cells begin, among those of all axes
        ("own", np.int32),  # the row's cell
        ("low", np.int32),  # the first and the last cell, as the search narrows them
        ("high", np.int32),
        ("first", np.int32),  # the common box of the best leaves
        ("last", np.int32),
        ("is_touched", np.int32),  # whether it has losses
        ("front", np.int32),  # the cells of a tree whose losses are known: from front to back
        ("back", np.int32),
        ("seen_first", np.int32),  # the bounds of a leaf,
        ("seen_last", np.int32),
        ("seen", np.int64),  # which was the last to have some here
        ("chosen", np.int32),  # a cell: of an answer
        # Three lists of axes: the i-th is noted in record i.
        ("active", np.int32),  # those of several cells
        ("touched", np.int32),  # those with losses
        ("pending", np.int32),  # those where some losses are not known yet
        ("cheapest", np.float64),  # the least cost within the box
        # Of tolls: see multipliers.
        ("gate", np.int64),  # the first of its gates, or -1
        ("collected", np.float64),  # the most that a cell collects
    ],
    align=True,
)
LEVEL = np.dtype(
    [
        ("mark", np.int64),  # its first mark
        ("n_trees", np.int64),  # with several leaves left
        ("settled", np.float64),  # what the trees with one leaf left count for
        ("settled_worth", np.float64),
        ("bound", np.float64),  # the best sum of its box
        ("floor", np.float64),  # the least cost of its box
        ("other_bound", np.float64),  # the same for the half that has been put off; -inf if none has
        ("other_floor", np.float64),
        ("axis", np.int32),  # where it was cut in two: after this cell
        ("cell", np.int32),
        ("side", np.int64),  # the half that has been put off: 0 low, 1 high
        ("trail", np.int64),  # how many changes had been made to the box
    ]
)
CHANGE = np.dtype([("axis", np.int32), ("low", np.int32), ("high", np.int32)])  # how the box was before
CELL = np.dtype([("cost", np.float64), ("loss", np.float64), ("least", np.float64)])  # the least loss from here on
NOW = np.dtype(
    [
        ("level", np.int64),
        ("work", np.int64),  # leaves and cells looked at
        ("tick", np.int64),  # counts leaves, to tell them apart
        ("trail", np.int64),  # how many changes have been made to the box
        ("fresh", np.int64),  # whether the level has not been looked at yet
        ("n_active", np.int64),
        ("n_touched", np.int64),
        ("limit", np.float64),  # the sum at which classes are equal
        ("target", np.float64),  # the least sum that is an answer
        # Leaf values that are no multiples of `step` are rounded up, by at least `excess`, to `vote` plus a multiple of
        # `stride`. The sum of what leaves are really worth is no less than `least_worth` for an answer.
        ("step", np.float64),
        ("excess", np.float64),
        ("vote", np.float64),
        ("stride", np.float64),
        ("least_worth", np.float64),
        ("best", np.float64),  # the cost of the best answer
        ("rounding", np.float64),  # what adding up may lose
        ("first_bound", np.float64),  # of the whole box
        ("earlier", np.float64),  # the bound of rivals before this one
        ("without", np.float64),  # a cost below which there is no answer
        ("n_open", np.int64),  # the trees of several leaves within reach
        ("settled", np.float64),  # what the others count for
        ("settled_worth", np.float64),
        ("plus", np.int64),  # leaves count by this output
        ("minus", np.int64),  # less that one (-1: none)
        # A search for the nearest example: see rows.
        ("within", np.float64),  # only answers that cost less than this are looked for
        ("dearest", np.float64),  # more than any cell costs
        ("advance", np.float64),  # how much more `within` is than what was known before; 0 in a first search
        ("budget", np.int64),  # how much work the search may take before something else is tried
        ("spent", np.int64),  # how much it has taken,
        ("spent_before", np.int64),  # the search before,
        ("spent_in_all", np.int64),  # and all of the row
        # Of tolls: see multipliers.
        ("has_tolls", np.int64),  # whether they are laid out
        ("n_boxes", np.int64),  # that have been cut in two
        ("easy", np.int64),  # how many are before tolls are worth their while
        ("hope", np.float64),  # how far above the target a bound may be for tolls to be asked
        ("price", np.float64),  # what a point pays for a unit of cost
        ("drift", np.float64),  # what it is changed by next
        ("n_lanes", np.int64),
        ("largest", np.float64),  # the largest number among tolls and leaf values
    ]
)
GATE = np.dtype(
    [
        ("axis", np.int32),
        ("tree", np.int32),
        ("start", np.int32),  # its lanes
        ("end", np.int32),
        ("low", np.int32),  # those that meet the box, the last included
        ("high", np.int32),
        ("following", np.int32),  # the next gate of the axis, or -1
    ]
)
LANE = np.dtype([("toll", np.float64), ("most", np.float64), ("first", np.int64)])  # its first cell
# The lanes of a gate that a leaf is on, and where its toll is in the table of those that meet the box.
WAY = np.dtype([("first", np.int32), ("last", np.int32), ("spot", np.int32)])
ACCOUNT = np.dtype(  # a leaf's value less tolls, the same apart from one gate, its tree, and its ways
    [("net", np.float64), ("gross", np.float64), ("tree", np.int32), ("way", np.int32)]
)
TREE = np.dtype(
    [
        ("best", np.float64),  # the best leaf, tolls paid
        ("seen", np.int64),  # when it was last looked at
        ("gate_start", np.int32),
        ("gate_end", np.int32),
        ("begin", np.int32),  # its leaves are slots[begin:stop]
        ("stop", np.int32),
    ]
)
TAKING = np.dtype([("sum", np.float64), ("share", np.float64)])  # what trees get in a cell, and what it collects


class Search(NamedTuple):
    """The state of a search, and scratch."""

    leaves: np.ndarray  # LEAF: those that the row can be moved into, except those of trees with a single one
    leaf_cost: np.ndarray  # float64 per leaf: the largest cost of an axis that no point of it comes below
    bounds: np.ndarray  # BOUND: those that cut the row's box
    slots: np.ndarray  # int32: the leaves that meet the box, tree by tree, best first; level after level
    marks: np.ndarray  # int32: where each tree's leaves end
    axes: np.ndarray  # AXIS
    levels: np.ndarray  # LEVEL
    changes: np.ndarray  # CHANGE: to be undone
    cells: np.ndarray  # CELL
    now: np.ndarray  # NOW (1)
    point: np.ndarray  # float64 per feature: the chosen cells' point
    output: np.ndarray  # float64 per output
    entries: np.ndarray  # int32: of open trees, the first node where the box is on both sides
    stack: np.ndarray  # STEP: nodes to visit
    gates: np.ndarray  # GATE: see multipliers
    lanes: np.ndarray  # LANE
    ways: np.ndarray  # WAY, leaf by leaf: one for each gate of its tree
    accounts: np.ndarray  # ACCOUNT per leaf
    trees: np.ndarray  # TREE
    takings: np.ndarray  # TAKING per cell
    table: np.ndarray  # float64: two tables of lanes by lanes
    runs: np.ndarray  # float64: sums of cells


@part
def narrow(search, axis, low, high):
    """Narrow the box on an axis, and remember how it was."""
    here, now = search.axes[axis], search.now[0]
    change = search.changes[now.trail]
    change.axis, change.low, change.high = axis, here.low, here.high
    here.low, here.high = low, high
    now.trail += 1


@inner
def undo(search, level):
    """Bring the box back to how it was at a level."""
    now = search.now[0]
    while now.trail > search.levels[level].trail:
        now.trail -= 1
        change = search.changes[now.trail]
        here = search.axes[change.axis]
        here.low, here.high = change.low, change.high


@inner
def touch_none(search):
    """Forget all losses."""
    axes, now = search.axes, search.now[0]
    for i in range(now.n_touched):
        axes[axes[i].touched].is_touched = 0
    now.n_touched = 0


@inner
def touch(search, axis):
    """Begin to note losses on an axis, unless there are some."""
    here, now = search.axes[axis], search.now[0]
    if here.is_touched:
        return
    here.is_touched, search.axes[now.n_touched].touched = 1, axis
    now.n_touched += 1
    now.work += here.high - here.low + 1
    for cell in range(here.start + here.low, here.start + here.high + 2):
        search.cells[np.uintp(cell)].loss = 0.0


@inner
def keep_leaves(search, source, level, axis, radius):
    """Copy the leaves of one level that still meet the box to another; only this axis has changed, or EVERY one.

    For a BALL the box holds the cells that cost no more than the radius: what leaves cost tells it at once. Trees with
    one leaf left are settled: the box lies within it.
    """
    axes, levels, each, bounds, now = search.axes, search.levels, search.leaves, search.bounds, search.now[0]
    slots, marks = search.slots, search.marks
    n_trees, mark = levels[source].n_trees, levels[source].mark
    settled, worth = levels[source].settled, levels[source].settled_worth
    to_mark = mark if source == level else mark + n_trees + 1
    begin = marks[mark]
    write = begin if source == level else marks[mark + n_trees]
    marks[to_mark] = write
    kept = 0
    for tree in range(n_trees):
        stop = marks[mark + tree + 1]
        tree_start = write
        for i in range(begin, stop):
            slot = slots[np.uintp(i)]
            leaf = each[np.uintp(slot)]
            meets = axis != BALL or search.leaf_cost[np.uintp(slot)] <= radius
            for k in range(leaf.start, leaf.start if axis == BALL else leaf.end):
                bound = bounds[np.uintp(k)]
                here = axes[np.uintp(bound.axis)]
                if axis < 0:
                    meets &= (bound.first <= here.high) & (bound.last >= here.low)
                elif bound.axis == axis:
                    meets = bound.first <= here.high and bound.last >= here.low
                    break
            slots[np.uintp(write)] = slot  # without a branch: it could not be foreseen
            write += meets
        begin = stop
        if write == tree_start + 1:
            settled += each[slots[tree_start]].value
            worth += each[slots[tree_start]].worth
            write = tree_start
        else:
            kept += 1
            marks[to_mark + kept] = write
    levels[level].mark, levels[level].n_trees = to_mark, kept
    levels[level].settled, levels[level].settled_worth = settled, worth
    now.work += marks[mark + n_trees] - marks[mark] if source != level else write - marks[to_mark]


@inner
def begin(search, n_trees, bound):
    """Start a search among the leaves that `collect` has listed."""
    levels, now = search.levels, search.now[0]
    levels[0].mark, levels[0].n_trees, levels[0].trail = 0, n_trees, 0
    levels[0].bound, levels[0].floor = bound, 0.0
    now.first_bound = bound
    now.level = now.trail = now.has_tolls = now.n_boxes = 0
    now.fresh, now.price = 1, 0.0


@inner
def open_bounds(search):
    """What is left to be searched: its best sum, and its least cost."""
    levels, now = search.levels, search.now[0]
    bound, floor = -np.inf, np.inf
    level = now.level
    if level >= 0:
        bound, floor = levels[level].bound, levels[level].floor
    for above in range(level):
        if levels[above].other_bound > -np.inf:
            bound = max(bound, levels[above].other_bound)
            floor = min(floor, levels[above].other_floor)
    return bound, floor


@inner
def write_point(model, axes, x, point):
    """The point of the chosen cells that is nearest to the row."""
    n_features = x.shape[0]
    for j in range(n_features):
        point[j] = x[j]
        own, chosen, start = axes[j].own, axes[j].chosen, model.features[j].threshold_start
        if own == MISSING:
            continue
        if model.features[j].n_categories:
            for code in range(model.features[j].n_categories):
                if axes[n_features + model.features[j].category_start + code].chosen == 1:
                    point[j] = code
        elif chosen > own:
            point[j] = np.nextafter(model.thresholds[start + chosen - 1], np.inf)
        elif chosen < own:
            point[j] = model.thresholds[start + chosen]


@inner
def copy_point(source, point):
    """Copy a point. (A loop compiles in a tenth of the time of an assignment of arrays.)"""
    for j in range(point.shape[0]):
        point[j] = source[j]


@inner
def add_costs(search, additive):
    """The cost of the chosen cells."""
    axes, cells, now = search.axes, search.cells, search.now[0]
    together = 0.0
    for i in range(now.n_active):
        here = axes[axes[i].active]
        cost = cells[here.start + here.chosen].cost
        together = together + cost if additive else max(together, cost)
    return together
