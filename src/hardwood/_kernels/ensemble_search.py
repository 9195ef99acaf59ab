"""Exact search for what an attacker can do to one row of an ensemble.

The question is whether some point of the row's box gets a sum of leaf values of at least a target, and which such point
costs least. Branch and bound over boxes of cells:

* Bound: the sum over trees of the best leaf that meets the box.
* Probe: on each axis, how much that sum falls for each cell. A tree loses what its best leaf is ahead of the
best leaf that reaches the cell from the same side. A cell whose sum falls below the target cannot be part of an answer;
  such cells are cut off the ends of the box, and the leaves outside are dropped, until nothing changes.
* If the best leaves have a common box, its points are answers. Otherwise the box is cut in two, where both halves
  lose most.

Sums are added in float64 here and in the model's own precision by `predict`. Therefore the target is lowered by the
rounding that may be between them, and a point that reaches it is predicted as the model does it.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, part
from hardwood._kernels.ensemble_leaves import MISSING, predict_point

FOUND, NONE, UNFINISHED, NO_ROOM = 0, 1, 2, 3
# What is looked for: any point that gets another class; the cheapest one; the largest sum.
ANY, CHEAPEST, LARGEST = 0, 1, 2
# Entries of Search.numbers and Search.state.
TARGET, BEST, ROUNDING, EARLIER, WITHOUT = 0, 1, 2, 3, 4
LEVEL, WORK, TICK, TRAIL, FRESH = 0, 1, 2, 3, 4
# Constants are of one type with what they stand in for: otherwise functions would be compiled for both.
EVERY = np.int64(-1)


class Search(NamedTuple):
    """The state of a search, and scratch."""

    slots: np.ndarray  # int32: the leaves that meet the box, tree by tree, best first; level after level
    marks: np.ndarray  # int32: where each tree's leaves end
    # Per level.
    mark: np.ndarray  # int64: its first mark
    n_trees: np.ndarray  # int64: with several leaves left
    settled: np.ndarray  # float64: the sum of the trees with one leaf left
    bound: np.ndarray  # float64: the best sum of its box
    floor: np.ndarray  # float64: the least cost of its box
    other_bound: np.ndarray  # float64: the same for the half that has been put off; -inf if none has
    other_floor: np.ndarray
    axis: np.ndarray  # int32: where it was cut in two: after this cell
    cell: np.ndarray
    side: np.ndarray  # int32: the half that has been put off: 0 low, 1 high
    trail: np.ndarray  # int64: how many changes had been made to the box
    # Changes to the box, to be undone.
    changed: np.ndarray  # int32: axis
    old_low: np.ndarray
    old_high: np.ndarray
    # Per cell.
    cost: np.ndarray  # float64: of moving there
    loss: np.ndarray  # float64
    least: np.ndarray  # float64: the least loss from here on
    # Per axis, int32.
    first: np.ndarray  # the common box of the best leaves
    last: np.ndarray
    touched: np.ndarray  # the axes with losses
    is_touched: np.ndarray
    front: np.ndarray  # the cells of a tree whose losses are known: from front to back
    back: np.ndarray
    pending: np.ndarray  # axes where there are others
    seen: np.ndarray  # int64: the last leaf that has bounds on it, and which
    seen_first: np.ndarray
    seen_last: np.ndarray
    chosen: np.ndarray  # a cell per axis: an answer
    cheapest: np.ndarray  # float64 per axis: the least cost within the box
    point: np.ndarray  # float64 per feature: the same
    output: np.ndarray  # float64 per output
    stack: np.ndarray  # int64: nodes to visit
    state: np.ndarray  # int64 (5)
    numbers: np.ndarray  # float64 (5)


@part
def narrow(place, search, axis, low, high):
    """Narrow the box on an axis, and remember how it was."""
    at = search.state[TRAIL]
    search.changed[at], search.old_low[at], search.old_high[at] = axis, place.low[axis], place.high[axis]
    search.state[TRAIL] = at + 1
    place.low[axis], place.high[axis] = low, high


@inner
def undo(place, search, level):
    """Bring the box back to how it was at a level."""
    at = search.state[TRAIL]
    while at > search.trail[level]:
        at -= 1
        axis = search.changed[at]
        place.low[axis], place.high[axis] = search.old_low[at], search.old_high[at]
    search.state[TRAIL] = at


@inner
def keep_leaves(leaves, place, search, source, level, axis):
    """Copy the leaves of one level that still meet the box to another; only this axis has changed, or EVERY one.

    Trees with one leaf left are settled: the box lies within it.
    """
    slots, marks, start, end = search.slots, search.marks, leaves.start, leaves.end
    bound_axis, first, last, low, high = leaves.axis, leaves.first, leaves.last, place.low, place.high
    n_trees, mark = search.n_trees[source], search.mark[source]
    settled = search.settled[source]
    to_mark = mark if source == level else mark + n_trees + 1
    begin = marks[mark]
    write = begin if source == level else marks[mark + n_trees]
    marks[to_mark] = write
    kept = 0
    for tree in range(n_trees):
        stop = marks[mark + tree + 1]
        tree_start = write
        for i in range(begin, stop):
            leaf = slots[i]
            meets = True
            for k in range(start[leaf], end[leaf]):
                j = bound_axis[k]
                if axis < 0:
                    meets &= (first[k] <= high[j]) & (last[k] >= low[j])
                elif j == axis:
                    meets = first[k] <= high[j] and last[k] >= low[j]
                    break
            if meets:
                slots[write] = leaf
                write += 1
        begin = stop
        if write == tree_start + 1:
            settled += leaves.value[slots[tree_start]]
            write = tree_start
        else:
            kept += 1
            marks[to_mark + kept] = write
    search.mark[level], search.n_trees[level], search.settled[level] = to_mark, kept, settled
    search.state[WORK] += marks[mark + n_trees] - marks[mark] if source != level else write - marks[to_mark]


@inner
def _add_up(leaves, search, level):
    """The sum of every tree's best leaf."""
    total = search.settled[level]
    mark, slots, marks, value = search.mark[level], search.slots, search.marks, leaves.value
    for tree in range(search.n_trees[level]):
        total += value[slots[marks[mark + tree]]]
    return total


@inner
def _start_tree(leaves, place, search, top, n_touched):
    """Note the bounds of a tree's best leaf: the axes on which some cells are out of its reach.

    Returns (how many such axes, how many axes touched by now).
    """
    axes, leaf_first, leaf_last, box_low, box_high = leaves.axis, leaves.first, leaves.last, place.low, place.high
    first, last, front, back = search.first, search.last, search.front, search.back
    n_pending = 0
    for k in range(leaves.start[top], leaves.end[top]):
        j = axes[k]
        low, high = box_low[j], box_high[j]
        if leaf_first[k] <= low and leaf_last[k] >= high:
            continue
        if search.is_touched[j] == 0:
            search.is_touched[j] = 1
            search.touched[n_touched] = j
            n_touched += 1
        front[j], back[j] = max(leaf_first[k], low), min(leaf_last[k], high)
        first[j] = max(first[j], front[j])
        last[j] = min(last[j], back[j])
        search.pending[n_pending] = j
        n_pending += 1
    return n_pending, n_touched


@inner
def _probe(model, leaves, place, search, level, total):
    """Work out what each cell loses, as differences between neighbouring cells; how many axes have losses."""
    loss, front, back, pending = search.loss, search.front, search.back, search.pending
    seen, seen_first, seen_last = search.seen, search.seen_first, search.seen_last
    start, end, bound_axis, value = leaves.start, leaves.end, leaves.axis, leaves.value
    leaf_first, leaf_last = leaves.first, leaves.last
    cell_start, slots, marks, box_low, box_high = model.cell_start, search.slots, search.marks, place.low, place.high
    slack = total - search.numbers[TARGET] + search.numbers[ROUNDING]
    for i in range(place.n_active[0]):
        axis = place.active[i]
        search.first[axis], search.last[axis], search.is_touched[axis] = box_low[axis], box_high[axis], 0
        for cell in range(cell_start[axis] + box_low[axis], cell_start[axis] + box_high[axis] + 2):
            loss[cell] = 0.0
    n_touched, tick, work = np.int64(0), search.state[TICK], 0
    mark = search.mark[level]
    for tree in range(search.n_trees[level]):
        i, stop = marks[mark + tree], marks[mark + tree + 1]
        top = value[slots[i]]
        n_pending, n_touched = _start_tree(leaves, place, search, slots[i], n_touched)
        while n_pending > 0:
            i += 1
            leaf = slots[i]
            lost = top - value[leaf]
            # No leaf from here on can be part of an answer: as if this one reached everywhere.
            everywhere = lost > slack or i + 1 == stop
            tick += 1
            work += 1
            if not everywhere:
                for k in range(start[leaf], end[leaf]):
                    j = bound_axis[k]
                    seen[j], seen_first[j], seen_last[j] = tick, leaf_first[k], leaf_last[k]
            still = 0
            for r in range(n_pending):
                j = pending[r]
                low, high = box_low[j], box_high[j]
                if seen[j] == tick:
                    low, high = max(low, seen_first[j]), min(high, seen_last[j])
                if low < front[j]:
                    loss[cell_start[j] + low] += lost
                    loss[cell_start[j] + front[j]] -= lost
                    front[j] = low
                if high > back[j]:
                    loss[cell_start[j] + back[j] + 1] += lost
                    loss[cell_start[j] + high + 1] -= lost
                    back[j] = high
                if front[j] > box_low[j] or back[j] < box_high[j]:
                    pending[still] = j
                    still += 1
            n_pending = still
    search.state[TICK] = tick
    search.state[WORK] += work + search.n_trees[level]
    for i in range(n_touched):
        axis = search.touched[i]
        running = 0.0
        for cell in range(cell_start[axis] + box_low[axis], cell_start[axis] + box_high[axis] + 1):
            running += loss[cell]
            loss[cell] = running
    return n_touched


@inner
def find_cheapest(model, place, search, additive):
    """Work out the least cost on each axis within the box, and the least cost of a point of it."""
    together = 0.0
    for i in range(place.n_active[0]):
        axis = place.active[i]
        at = model.cell_start[axis]
        least = search.cost[at + place.low[axis]]
        for cell in range(at + place.low[axis] + 1, at + place.high[axis] + 1):
            least = min(least, search.cost[cell])
        search.cheapest[axis] = least
        together = together + least if additive else max(together, least)
    return together


@inner
def _shave(model, place, search, total, together, goal, additive):
    """Cut cells that cannot be part of an answer off the ends of the box: (whether none is left, whether any was)."""
    shaved = False
    least_sum, best = search.numbers[TARGET] - search.numbers[ROUNDING], search.numbers[BEST]
    loss, cost = search.loss, search.cost
    for i in range(place.n_active[0]):
        axis = place.active[i]
        low, high, at = place.low[axis], place.high[axis], model.cell_start[axis]
        if low == high or (goal != CHEAPEST and search.is_touched[axis] == 0):
            continue
        rest = together - search.cheapest[axis] if goal == CHEAPEST and additive else 0.0
        lossy = search.is_touched[axis] == 1
        first, last = high + 1, low - 1
        for cell in range(low, high + 1):
            if (not lossy or total - loss[at + cell] >= least_sum) and (
                goal != CHEAPEST or rest + cost[at + cell] < best
            ):
                first = min(first, cell)
                last = cell
        if first > last:
            return True, shaved
        if first > low or last < high:
            narrow(place, search, axis, first, last)
            shaved = True
    return False, shaved


@inner
def _settle_categories(model, place, search):
    """A row has one category: if one is certain the others are not, if one is left it is certain.

    Returns (whether none is left, whether anything changed).
    """
    changed = False
    n_features = model.n_categories.shape[0]
    for j in range(n_features):
        if model.n_categories[j] == 0 or place.own[j] == MISSING:
            continue
        begin = n_features + model.category_start[j]
        end = begin + model.n_categories[j]
        certain, possible, some = np.int64(-1), 0, np.int64(-1)
        for axis in range(begin, end):
            if place.low[axis] == 1:
                certain = np.int64(axis)
            if place.high[axis] == 1:
                possible += 1
                some = np.int64(axis)
        if possible == 0:
            return True, changed
        if possible == 1 and certain < 0:
            certain = some
            narrow(place, search, some, 1, 1)
            changed = True
        if certain >= 0 and possible > 1:
            for axis in range(begin, end):
                if axis != certain and place.high[axis] == 1:
                    if place.low[axis] == 1:
                        return True, changed
                    narrow(place, search, axis, 0, 0)
            changed = True
    return False, changed


@inner
def _choose_category(model, place, search, j):
    """Choose a category that all best leaves allow, the row's own one if possible; whether there is one."""
    begin = model.n_categories.shape[0] + model.category_start[j]
    chosen = np.int64(-1)
    for axis in range(begin, begin + model.n_categories[j]):
        possible = place.high[axis] == 1
        certain = place.low[axis] == 1
        if place.low[axis] < place.high[axis]:
            possible, certain = search.last[axis] == 1, search.first[axis] == 1
        if certain or (possible and (chosen < 0 or place.own[axis] == 1)):
            chosen = np.int64(axis)
            if certain:
                break
    if chosen < 0:
        return False
    for axis in range(begin, begin + model.n_categories[j]):
        search.chosen[axis] = axis == chosen
    return True


@inner
def _choose_cells(model, place, search, n_touched, goal):
    """Choose a cell on each axis from the common box of the best leaves; False if they have none."""
    for i in range(n_touched):
        if search.first[search.touched[i]] > search.last[search.touched[i]]:
            return False
    for j in range(model.n_categories.shape[0]):
        if model.n_categories[j] == 0:
            low, high = place.low[j], place.high[j]
            if low < high:
                low, high = search.first[j], search.last[j]
            chosen, at = min(max(place.own[j], low), high), model.cell_start[j]
            if goal == CHEAPEST:
                for cell in range(low, high + 1):
                    if search.cost[at + cell] < search.cost[at + chosen]:
                        chosen = np.int32(cell)
            search.chosen[j] = chosen
        elif place.own[j] != MISSING and not _choose_category(model, place, search, j):
            return False
    return True


@inner
def write_point(model, place, x, chosen, point):
    """The point of the chosen cells that is nearest to the row."""
    n_features = x.shape[0]
    for j in range(n_features):
        point[j] = x[j]
        if place.own[j] == MISSING:
            continue
        if model.n_categories[j]:
            for code in range(model.n_categories[j]):
                if chosen[n_features + model.category_start[j] + code] == 1:
                    point[j] = code
        elif chosen[j] > place.own[j]:
            point[j] = np.nextafter(model.thresholds[model.threshold_start[j] + chosen[j] - 1], np.inf)
        elif chosen[j] < place.own[j]:
            point[j] = model.thresholds[model.threshold_start[j] + chosen[j]]


@inner
def copy_point(source, point):
    """Copy a point. (A loop compiles in a tenth of the time of an assignment of arrays.)"""
    for j in range(point.shape[0]):
        point[j] = source[j]


@inner
def add_costs(model, place, search, additive):
    """The cost of the chosen cells."""
    together = 0.0
    for i in range(place.n_active[0]):
        axis = place.active[i]
        cost = search.cost[model.cell_start[axis] + search.chosen[axis]]
        together = together + cost if additive else max(together, cost)
    return together


@inner
def _cut_answer(model, place, search, level, n_touched, goal):
    """Where to cut a box whose answer is not the last word: off what makes the answer dear; else along its edge."""
    best_axis, best_cell, most = np.int64(-1), 0, 0.0
    for i in range(place.n_active[0]):
        axis = place.active[i]
        low, high, at = place.low[axis], place.high[axis], model.cell_start[axis]
        if low == high or goal != CHEAPEST:
            continue
        cell = search.chosen[axis]
        excess = search.cost[at + cell] - search.cheapest[axis]
        if excess > most:
            cheap = low
            while search.cost[at + cheap] > search.cheapest[axis]:
                cheap += 1
            best_axis, best_cell, most = np.int64(axis), (cell - 1 if cheap < cell else cell), excess
    if best_axis < 0:
        for i in range(n_touched):
            axis = search.touched[i]
            if place.low[axis] < search.first[axis]:
                best_axis, best_cell = np.int64(axis), search.first[axis] - 1
            elif search.last[axis] < place.high[axis]:
                best_axis, best_cell = np.int64(axis), search.last[axis]
    if best_axis >= 0:
        search.axis[level], search.cell[level] = best_axis, best_cell
    return best_axis >= 0


@inner
def _cut_conflict(model, place, search, level, n_touched):
    """Where to cut a box whose best leaves do not go together: so that both halves lose much."""
    loss, least = search.loss, search.least
    best_less, best_more, best_balance = -1.0, -1.0, -1.0
    for i in range(n_touched):
        axis = search.touched[i]
        low, high, at = place.low[axis], place.high[axis], model.cell_start[axis]
        running = np.inf
        for cell in range(high, low - 1, -1):
            running = min(running, loss[at + cell])
            least[at + cell] = running
        running = np.inf
        for cell in range(low, high):
            running = min(running, loss[at + cell])
            less, more = min(running, least[at + cell + 1]), max(running, least[at + cell + 1])
            if less < best_less or (less == best_less and more < best_more):
                continue
            balance = min(cell + 1 - low, high - cell) / (high - low + 1.0)
            if less > best_less or more > best_more or balance > best_balance:
                best_less, best_more, best_balance = less, more, balance
                search.axis[level], search.cell[level] = axis, cell


@inner
def _order_halves(model, place, search, level, total, together, goal, additive):
    """Note bounds of both halves, and which one is put off: the dearer one, or the one that loses more."""
    axis, cut = search.axis[level], search.cell[level]
    at = model.cell_start[axis]
    loss_low = loss_high = 0.0
    if search.is_touched[axis] == 1:
        loss_low = loss_high = np.inf
        for cell in range(place.low[axis], place.high[axis] + 1):
            if cell <= cut:
                loss_low = min(loss_low, search.loss[at + cell])
            else:
                loss_high = min(loss_high, search.loss[at + cell])
    floor_low = floor_high = 0.0
    if goal == CHEAPEST:
        floor_low = floor_high = np.inf
        for cell in range(place.low[axis], place.high[axis] + 1):
            cost = search.cost[at + cell]
            cost = together - search.cheapest[axis] + cost if additive else max(together, cost)
            if cell <= cut:
                floor_low = min(floor_low, cost)
            else:
                floor_high = min(floor_high, cost)
    low_first = floor_low < floor_high or (floor_low == floor_high and loss_low <= loss_high)
    search.side[level] = 1 if low_first else 0
    search.other_bound[level] = total - (loss_high if low_first else loss_low)
    search.other_floor[level] = floor_high if low_first else floor_low
    search.bound[level + 1] = total - (loss_low if low_first else loss_high)
    search.floor[level + 1] = floor_low if low_first else floor_high


@inner
def begin(search, n_trees, settled, total):
    """Start a search among the leaves that `collect` has listed."""
    search.mark[0], search.n_trees[0], search.settled[0], search.trail[0] = 0, n_trees, settled, 0
    search.bound[0], search.floor[0] = total, 0.0
    search.state[LEVEL] = search.state[TRAIL] = 0
    search.state[FRESH] = 1


@inner
def _visit(model, x, leaves, place, search, level, goal, additive, label, example):
    """Look at a box: FOUND; NONE: done with it; UNFINISHED: it has to be cut in two, as noted at the level."""
    together = 0.0
    while True:
        if search.state[TRAIL] + 2 * place.low.shape[0] + 1 > search.changed.shape[0]:
            return NO_ROOM
        if model.sets.shape[0]:
            empty, changed = _settle_categories(model, place, search)
            if empty:
                return NONE
            if changed:
                keep_leaves(leaves, place, search, level, level, EVERY)
        total = _add_up(leaves, search, level)
        search.bound[level] = min(search.bound[level], total)
        if total < search.numbers[TARGET] - search.numbers[ROUNDING]:
            return NONE
        n_touched = _probe(model, leaves, place, search, level, total)
        if goal == CHEAPEST:
            together = find_cheapest(model, place, search, additive)
        empty, shaved = _shave(model, place, search, total, together, goal, additive)
        if empty:
            return NONE
        if shaved:
            keep_leaves(leaves, place, search, level, level, EVERY)
            continue
        if not _choose_cells(model, place, search, n_touched, goal):
            _cut_conflict(model, place, search, level, n_touched)
            break
        if goal == LARGEST:
            search.numbers[TARGET] = np.nextafter(total, np.inf)
            write_point(model, place, x, search.chosen, example)
            return NONE
        write_point(model, place, x, search.chosen, search.point)
        if predict_point(model, search.point, search.output) != label:
            if goal == ANY:
                copy_point(search.point, example)
                return FOUND
            cost = add_costs(model, place, search, additive)
            if cost < search.numbers[BEST]:
                search.numbers[BEST] = cost
                copy_point(search.point, example)
                continue
        # Not the last word on this box: cheaper points, or what rounding has decided otherwise, may lie around.
        if not _cut_answer(model, place, search, level, n_touched, goal):
            return NONE
        break
    _order_halves(model, place, search, level, total, together, goal, additive)
    return UNFINISHED


@inner
def seek(model, x, leaves, place, search, goal, additive, label, max_work, example):
    """Search the box: FOUND (for ANY), NONE: finished, UNFINISHED: after so much work, call again; or NO_ROOM.

    ANY: `example` is a point that the model gives another class than `label`. CHEAPEST: it is the cheapest, if there is
    one cheaper than `search.numbers[BEST]`, which is then its cost. LARGEST: it has the largest sum, if there is one
    of at least `search.numbers[TARGET]`, which is then the next number after it.
    """
    state = search.state
    level, fresh = state[LEVEL], state[FRESH] == 1
    state[WORK] = 0
    while level >= 0:
        # There has to be room for one more level: its leaves and marks are fewer than this one's.
        mark, n_trees = search.mark[level], search.n_trees[level]
        if (
            level + 2 > search.mark.shape[0]
            or 2 * search.marks[mark + n_trees] - search.marks[mark] > search.slots.shape[0]
            or mark + 2 * n_trees + 2 > search.marks.shape[0]
        ):
            return NO_ROOM
        if fresh:
            if state[WORK] >= max_work:
                state[LEVEL], state[FRESH] = level, 1
                return UNFINISHED
            verdict = _visit(model, x, leaves, place, search, level, goal, additive, label, example)
            if verdict in (FOUND, NO_ROOM):
                return verdict
            fresh = False
            side = 1 - search.side[level]
            if verdict == NONE:
                level -= 1
                continue
        else:
            undo(place, search, level + 1)
            side = search.side[level]
            hopeless = search.other_bound[level] < search.numbers[TARGET] - search.numbers[ROUNDING]
            if hopeless or (goal == CHEAPEST and search.other_floor[level] >= search.numbers[BEST]):
                search.other_bound[level] = -np.inf
                level -= 1
                continue
            search.bound[level + 1], search.floor[level + 1] = search.other_bound[level], search.other_floor[level]
            search.other_bound[level] = -np.inf
        axis, cut = np.int64(search.axis[level]), search.cell[level]
        search.trail[level + 1] = state[TRAIL]
        if side == 0:
            narrow(place, search, axis, place.low[axis], cut)
        else:
            narrow(place, search, axis, cut + 1, place.high[axis])
        keep_leaves(leaves, place, search, level, level + 1, axis)
        level += 1
        fresh = True
    state[LEVEL] = level
    return NONE


@inner
def open_bounds(search):
    """What is left to be searched: its best sum, and its least cost."""
    bound, floor = -np.inf, np.inf
    level = search.state[LEVEL]
    if level >= 0:
        bound, floor = search.bound[level], search.floor[level]
    for above in range(level):
        if search.other_bound[above] > -np.inf:
            bound = max(bound, search.other_bound[above])
            floor = min(floor, search.other_floor[above])
    return bound, floor
