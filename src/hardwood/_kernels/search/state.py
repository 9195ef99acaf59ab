"""What a search knows of a row, and how it narrows the row's box, goes back, and writes down a point.

The records are kept in few arrays: each array that kernels hand to each other is half a dozen numbers for the compiler
to carry.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, part, record_type
from hardwood._kernels.search.leaves import MISSING

# Constants have one type with what they stand in for: otherwise functions would be compiled for both.
EVERY, RADIUS_ONLY = np.int64(-1), np.int64(-2)
# What is looked for: any point that gets another class; the cheapest one; the largest sum.
ANY, CHEAPEST, LARGEST = 0, 1, 2
# What is known of a row, or of a box. AGAIN: a box has become smaller, or the search more modest; look at it again.
FOUND, NONE, UNFINISHED, AGAIN = 0, 1, 2, 8
# Why a kernel comes back before its rows are decided. CROWDED: call it again with more room and all that is here in it.
# The others name the kernel that has to go on: branch and bound, multipliers for one box, a larger radius.
CROWDED, BRANCH, ASCEND, WIDEN, DONE = 3, 4, 5, 6, 7
# Where branch and bound goes on: leaves have to be listed; a box has not been looked at; a box was bounded by
# multipliers; a box is done with and the half that was put off comes next.
LISTING, FRESH, BOUNDED, BACK = 0, 1, 2, 3
# A tree's cells of one axis share at most this many multipliers; `multipliers` keeps tables of its square.
MAX_INTERVALS = 64

# Scratch of one phase on one axis. Lists of axes are kept in these records too: the i-th entry is in record i.
PROBE = record_type(
    [
        ("first", np.int32),  # the common box of the best leaves
        ("last", np.int32),
        ("front", np.int32),  # the cells of a tree whose losses are known: from front to back
        ("back", np.int32),
        ("leaf_first", np.int32),  # the bounds of a leaf,
        ("leaf_last", np.int32),
        ("leaf_tick", np.int64),  # which was the last to have some here
        ("pending", np.int32),  # list: the axes where some losses are not known yet
    ],
    align=True,
)
MOVE = record_type(
    [
        ("gain", np.float64),  # of the best move on this axis,
        ("cell", np.int32),  # which goes to this cell,
        ("before", np.int32),  # from this one
        ("moved", np.int32),  # list: the axes that were moved at once
    ],
    align=True,
)
AXIS_DUAL = record_type(
    [
        ("pair", np.int64),  # the first of its (tree, axis) pairs, or -1
        ("collected", np.float64),  # the largest sum of multipliers in one of its cells, less the cell's price
        ("tree_pair", np.int32),  # its pair with the tree whose intervals are being made,
        ("tree_tick", np.int64),  # which is this one
    ],
    align=True,
)
# An axis (numerical features come first, then categories): where one row is on it, and the cells it can be moved to.
AXIS = record_type(
    [
        ("start", np.int64),  # where its cells begin, among those of all axes
        ("own", np.int32),  # the row's cell
        ("low", np.int32),  # the first and the last cell, as the search narrows them
        ("high", np.int32),
        ("chosen", np.int32),  # the cell of an answer, or of a point that is moved about
        ("kept", np.int32),  # where that was, to go back to
        ("is_touched", np.int32),  # whether its cells have losses or gains
        ("active", np.int32),  # list: the axes of several cells
        ("touched", np.int32),  # list: the axes with losses or gains
        ("cheapest", np.float64),  # the least cost of its cells
        ("probe", PROBE),
        ("move", MOVE),
        ("dual", AXIS_DUAL),
    ],
    align=True,
)
LEVEL = record_type(
    [
        ("mark", np.int64),  # its first mark
        ("n_trees", np.int64),  # with several leaves left
        ("settled", np.float64),  # what the trees with one leaf left count for
        ("settled_worth", np.float64),
        ("bound", np.float64),  # the best sum of its box
        ("floor", np.float64),  # the least cost of its box
        ("other_bound", np.float64),  # the same for the half that has been put off; -inf if none has
        ("other_floor", np.float64),
        ("axis", np.int32),  # where it was halved: after this cell
        ("cell", np.int32),
        ("side", np.int64),  # the half that has been put off: 0 low, 1 high
        ("trail", np.int64),  # how many changes had been made to the box
    ]
)
CHANGE = record_type([("axis", np.int32), ("low", np.int32), ("high", np.int32)])  # how the box was before
CELL = record_type(
    [
        ("cost", np.float64),  # of moving the row there
        ("loss", np.float64),  # how far the sum of best leaves falls there
        ("least", np.float64),  # the least loss from here on; in `coordinates` the margin there
        ("gain", np.float64),  # how far the sum rises if the chosen point moves there
    ]
)
QUESTION = record_type(
    [
        ("plus", np.int64),  # leaves count by this output (-1: none)
        ("minus", np.int64),  # less that one (-1: none)
        ("limit", np.float64),  # the sum at which classes are equal
        ("target", np.float64),  # the least sum that is an answer
        ("rounding", np.float64),  # what adding up may lose
        # Leaf values that are no multiples of `step` are rounded up, by at least `excess`, to `vote` plus a multiple of
        # `stride`. The sum of what leaves are really worth is no less than `least_worth` for an answer.
        ("step", np.float64),
        ("excess", np.float64),
        ("vote", np.float64),
        ("stride", np.float64),
        ("least_worth", np.float64),
    ]
)
PROGRESS = record_type(
    [
        ("stage", np.int64),  # where branch and bound goes on: LISTING, FRESH, BOUNDED or BACK
        ("verdict", np.int64),  # of multipliers on a box that is BOUNDED: NONE, AGAIN or UNFINISHED
        ("level", np.int64),
        ("trail", np.int64),  # how many changes have been made to the box
        ("work", np.int64),  # leaves and cells looked at
        ("tick", np.int64),  # counts leaves and passes, to tell them apart
        ("n_boxes", np.int64),  # how many were looked at and left several leaves
        ("n_active", np.int64),
        ("n_touched", np.int64),
        ("n_open", np.int64),  # the trees of several leaves within reach
        ("settled", np.float64),  # what the others count for
        ("settled_worth", np.float64),
        ("total", np.float64),  # the sum of best leaves of the box that is being looked at
        ("floor", np.float64),  # the least cost of a point of it
        ("first_bound", np.float64),  # the sum of best leaves of the whole box
        ("earlier", np.float64),  # the bound of rivals before this one
    ]
)
# The search for the nearest example: see distances. Costs are scaled, and squared in the L2 norm.
RADIUS = record_type(
    [
        ("best", np.float64),  # the cost of the best answer
        ("within", np.float64),  # only answers that cost less than this are looked for
        ("without", np.float64),  # a cost below which there is no answer
        ("dearest", np.float64),  # more than any cell costs
        ("advance", np.float64),  # how much more `within` is than what was known before; 0 in a first search
        ("budget", np.int64),  # how much work the search may take before something else is tried
        ("spent", np.int64),  # how much it has taken,
        ("spent_before", np.int64),  # the search before,
        ("spent_in_all", np.int64),  # and all of the row
    ]
)
# The dual problem: see multipliers.
DUAL = record_type(
    [
        ("has_multipliers", np.int64),
        ("n_intervals", np.int64),
        ("largest", np.float64),  # the largest number among multipliers and leaf values
        ("worthwhile", np.float64),  # how far above the target a sum may be for multipliers to be tried
        ("price", np.float64),  # the multiplier of the cost: what a point pays for a unit of it
        ("drift", np.float64),  # what the price is changed by next
    ]
)
PAIR = record_type(
    [
        ("axis", np.int32),
        ("tree", np.int32),
        ("start", np.int32),  # its intervals
        ("end", np.int32),
        ("low", np.int32),  # those that meet the box, the last included
        ("high", np.int32),
        ("n_bounds", np.int32),  # how many bounds its leaves have
        ("following", np.int32),  # the next pair of the axis, or -1
    ]
)
INTERVAL = record_type(
    [
        ("multiplier", np.float64),
        ("marginal", np.float64),  # the best leaf that reaches it, without multipliers of this axis
        ("first", np.int64),  # its first cell
    ]
)
# The intervals of a pair that a leaf spans, and where their lowest multiplier is in the table of those in the box.
SPAN = record_type([("first", np.int32), ("last", np.int32), ("entry", np.int32)])
LEAF_DUAL = record_type(
    [
        ("reduced", np.float64),  # its value less multipliers
        ("others", np.float64),  # the same, but for those of one pair
        ("tree", np.int32),
        ("span", np.int32),  # its first span
    ]
)
TREE_DUAL = record_type(
    [
        ("best", np.float64),  # the largest reduced value of a leaf
        ("tick", np.int64),  # the last pass that it took part in
        ("pair_start", np.int32),
        ("pair_end", np.int32),
        ("begin", np.int32),  # its leaves are slots[begin:stop]
        ("stop", np.int32),
    ]
)
MARGINAL = record_type(  # of a cell: the sum of all trees' marginals less its price; the sum of multipliers
    [("total", np.float64), ("collected", np.float64)]
)


class Search(NamedTuple):
    """The state of a search, and scratch."""

    leaves: np.ndarray  # LEAF: those that the row can be moved into, except those of trees with a single one
    leaf_cost: np.ndarray  # float64 per leaf: the largest cost of an axis that no point of it comes below
    bounds: np.ndarray  # BOUND: those within the row's box
    slots: np.ndarray  # int32: the leaves that meet the box, tree by tree, best first; level after level
    marks: np.ndarray  # int32: where each tree's leaves end
    axes: np.ndarray  # AXIS
    levels: np.ndarray  # LEVEL
    changes: np.ndarray  # CHANGE: to be undone
    cells: np.ndarray  # CELL
    question: np.ndarray  # QUESTION (1)
    progress: np.ndarray  # PROGRESS (1)
    radius: np.ndarray  # RADIUS (1)
    point: np.ndarray  # float64 per feature: the chosen cells' point
    output: np.ndarray  # float64 per output
    entries: np.ndarray  # int32: of open trees, the first node where the box is on both sides
    stack: np.ndarray  # STEP: nodes to visit
    dual: np.ndarray  # DUAL (1)
    pairs: np.ndarray  # PAIR
    intervals: np.ndarray  # INTERVAL
    spans: np.ndarray  # SPAN, leaf by leaf: one for each pair of its tree
    leaf_duals: np.ndarray  # LEAF_DUAL per leaf
    tree_duals: np.ndarray  # TREE_DUAL
    marginals: np.ndarray  # MARGINAL per cell
    table: np.ndarray  # float64: two tables of intervals by intervals
    runs: np.ndarray  # float64: the largest marginals of runs of cells


class Walk(NamedTuple):
    """What local moves alone need of a search: fewer arrays to hand on are less to compile."""

    axes: np.ndarray
    cells: np.ndarray
    question: np.ndarray
    progress: np.ndarray
    radius: np.ndarray
    point: np.ndarray
    output: np.ndarray
    entries: np.ndarray
    stack: np.ndarray

    @classmethod
    def of(cls, search: Search) -> "Walk":
        """Return what they need of it."""
        return cls(*(getattr(search, name) for name in cls._fields))


@part
def narrow(search, axis, low, high):
    """Narrow the box on an axis, and remember how it was."""
    here, progress = search.axes[axis], search.progress[0]
    change = search.changes[progress.trail]
    change.axis, change.low, change.high = axis, here.low, here.high
    here.low, here.high = low, high
    progress.trail += 1


@inner
def undo(search, level):
    """Bring the box back to how it was at a level."""
    progress = search.progress[0]
    while progress.trail > search.levels[level].trail:
        progress.trail -= 1
        change = search.changes[progress.trail]
        here = search.axes[change.axis]
        here.low, here.high = change.low, change.high


@inner
def touch_none(search):
    """Forget all losses and gains."""
    axes, progress = search.axes, search.progress[0]
    for i in range(progress.n_touched):
        axes[axes[i].touched].is_touched = 0
    progress.n_touched = 0


@part
def touch(search, axis):
    """List an axis as one with losses or gains. The caller sets those to 0."""
    here, progress = search.axes[axis], search.progress[0]
    here.is_touched, search.axes[progress.n_touched].touched = 1, axis
    progress.n_touched += 1
    progress.work += here.high - here.low + 1


@inner
def keep_leaves(search, source, level, axis, radius):
    """Copy the leaves of one level that still meet the box to another; only this axis has changed, or EVERY one.

    RADIUS_ONLY: the box holds the cells that cost no more than the radius, so that what leaves cost tells it at once.
    Trees with one leaf left are settled: the box lies within it.
    """
    axes, levels, each, bounds = search.axes, search.levels, search.leaves, search.bounds
    slots, marks, progress = search.slots, search.marks, search.progress[0]
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
            meets = axis != RADIUS_ONLY or search.leaf_cost[np.uintp(slot)] <= radius
            for k in range(leaf.start, leaf.start if axis == RADIUS_ONLY else leaf.end):
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
    progress.work += marks[mark + n_trees] - marks[mark] if source != level else write - marks[to_mark]


@inner
def begin(search, n_trees, bound):
    """Start a search among the leaves that `collect` has listed."""
    levels, progress, dual = search.levels, search.progress[0], search.dual[0]
    levels[0].mark, levels[0].n_trees, levels[0].trail = 0, n_trees, 0
    levels[0].bound, levels[0].floor = bound, 0.0
    progress.first_bound = bound
    progress.level = progress.trail = progress.n_boxes = progress.work = 0
    progress.stage = FRESH
    dual.has_multipliers, dual.price = 0, 0.0


@inner
def open_bounds(search):
    """What is left to be searched: its best sum, and its least cost."""
    levels = search.levels
    bound, floor = -np.inf, np.inf
    level = search.progress[0].level
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
            point[j] = model.above[start + chosen - 1]
        elif chosen < own:
            point[j] = model.thresholds[start + chosen]


@inner
def copy_point(source, point):
    """Copy a point. (A loop compiles in a tenth of the time of an assignment of arrays.)"""
    for j in range(point.shape[0]):
        point[j] = source[j]


@inner
def keep_chosen(search):
    """Keep the chosen cells, to go back to."""
    axes = search.axes
    for axis in range(axes.shape[0]):
        axes[axis].kept = axes[axis].chosen


@inner
def go_back(search):
    """Choose the cells that were kept."""
    axes = search.axes
    for axis in range(axes.shape[0]):
        axes[axis].chosen = axes[axis].kept


@inner
def add_costs(search, additive):
    """The cost of the chosen cells."""
    axes, cells = search.axes, search.cells
    together = 0.0
    for i in range(search.progress[0].n_active):
        here = axes[axes[i].active]
        cost = cells[here.start + here.chosen].cost
        together = together + cost if additive else max(together, cost)
    return together
