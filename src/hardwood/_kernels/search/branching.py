"""Branch and bound over boxes of cells: the kernel for rows that cheap looks leave undecided.

The question is whether some point of the row's box gets a sum of leaf values of at least a target, and which such point
costs least.

* Bound: the sum over trees of the best leaf that meets the box.
* Losses: on each axis, how much that sum falls for each cell. A tree loses what its best leaf is ahead of the best leaf
  that reaches the cell from the same side. A cell whose sum falls below the target cannot be part of an answer; such
  cells are taken off the ends of the box, and the leaves outside are dropped, until nothing changes.
* In searches that are not easy, `dual_bounds` bounds the box once more.
* If the best leaves have a common box, its points are answers. Otherwise the box is halved, where both halves lose
  most.

Sums are added in float64 here and in the model's own precision by `predict`. Therefore the target is lowered by the
rounding that may be between them, and a point that reaches it is predicted as the model does it.
"""

import numpy as np

from hardwood._kernels.compiling import inner, kernel, part
from hardwood._kernels.search.categories import choose_category, settle_categories
from hardwood._kernels.search.halving import halve_answer, halve_conflict, order_halves
from hardwood._kernels.search.leaves import MISSING, predict_point
from hardwood._kernels.search.probing import find_cheapest, measure_losses, shave
from hardwood._kernels.search.radius import INFINITY_NORM
from hardwood._kernels.search.rows import find_last_rival, list_leaves, note, settle_rival
from hardwood._kernels.search.state import (
    AGAIN,
    ANY,
    ASCEND,
    BACK,
    BOUNDED,
    CHEAPEST,
    CROWDED,
    EVERY,
    FOUND,
    FRESH,
    LARGEST,
    LISTING,
    NONE,
    UNFINISHED,
    WIDEN,
    add_costs,
    copy_point,
    keep_leaves,
    narrow,
    undo,
    write_point,
)

# While a box is looked at, an axis may be narrowed this often: for each price, and for the rest.
NARROWED_PER_PRICE, NARROWED_BESIDES = 2, 2


@inner
def _add_up(search, level):
    """The sum of every tree's best leaf: what they count for, and what they are worth."""
    levels, each = search.levels, search.leaves
    total, worth = levels[level].settled, levels[level].settled_worth
    mark, slots, marks = levels[level].mark, search.slots, search.marks
    for tree in range(levels[level].n_trees):
        best = each[slots[marks[mark + tree]]]
        total += best.value
        worth += best.worth
    return total, worth


@inner
def _choose_cells(model, search):
    """Choose cells from the common box of the best leaves, the nearest ones, which cost least; False if it is empty."""
    axes, progress, n_features = search.axes, search.progress[0], model.features.shape[0]
    for i in range(progress.n_touched):
        common = axes[np.uintp(axes[np.uintp(i)].touched)].probe
        if common.first > common.last:
            return False
    for i in range(progress.n_active):
        here = axes[np.uintp(axes[np.uintp(i)].active)]
        low, high = (here.probe.first, here.probe.last) if here.is_touched else (here.low, here.high)
        here.chosen = min(max(here.own, low), high)
    for j in range(n_features if model.sets.shape[0] else 0):
        is_known = model.features[j].n_categories > 0 and axes[j].own != MISSING
        if is_known and not choose_category(model, search, j):
            return False
    return True


@inner
def _are_alike(model, search, level, total):
    """Whether every answer would be of leaves of the same values as the best ones: then it gets the same class as they.

    Without this, a tie of classes would be looked at in every combination of leaves that comes to it.
    """
    each, slots, marks, question = search.leaves, search.slots, search.marks, search.question[0]
    mark, slack = search.levels[level].mark, total - question.target + question.rounding
    for tree in range(search.levels[level].n_trees):
        i, stop = marks[mark + tree], marks[mark + tree + 1]
        top = each[slots[i]]
        while i < stop and top.value - each[slots[i]].value <= slack:
            for k in range(model.value.shape[1]):
                if model.value[each[slots[i]].node, k] != model.value[top.node, k]:
                    return False
            i += 1
    return True


@inner
def _reduce(model, task, search, level, additive):
    """Take off the box what cannot be part of an answer: UNFINISHED, with losses of what is left; NONE; or CROWDED."""
    levels, question, progress, goal = search.levels, search.question[0], search.progress[0], task.goal
    narrowings = NARROWED_PER_PRICE * task.settings.prices + NARROWED_BESIDES
    while True:
        if progress.trail + narrowings * search.axes.shape[0] + 1 > search.changes.shape[0]:
            return CROWDED
        if model.sets.shape[0]:
            empty, changed = settle_categories(model, search)
            if empty:
                return NONE
            if changed:
                keep_leaves(search, level, level, EVERY, 0.0)
        total, worth = _add_up(search, level)
        levels[level].bound = min(levels[level].bound, total)
        if total < question.target - question.rounding or worth < question.least_worth - question.rounding:
            return NONE
        measure_losses(search, level, total)
        progress.total, progress.floor = total, find_cheapest(search, additive) if goal == CHEAPEST else 0.0
        empty, shaved = shave(search, total, progress.floor, goal, additive)
        if empty:
            return NONE
        if not shaved:
            return UNFINISHED
        keep_leaves(search, level, level, EVERY, 0.0)


@part
def _try_point(model, task, row, search, level, additive):
    """Predict the point of the chosen cells: FOUND; NONE: the box is done with; UNFINISHED: it has to be halved.

    AGAIN: it is the cheapest so far.
    """
    question, progress, radius, goal = search.question[0], search.progress[0], search.radius[0], task.goal
    x, example = task.x[row], task.example[row]
    if goal == LARGEST:
        question.target = np.nextafter(progress.total, np.inf)
        write_point(model, search.axes, x, example)
        return NONE
    write_point(model, search.axes, x, search.point)
    if predict_point(model, search.point, search.output) != task.each[row].class_index:
        if goal == ANY:
            copy_point(search.point, example)
            return FOUND
        cost = add_costs(search, additive)
        if cost < radius.within:
            radius.best = radius.within = cost
            task.each[row].status = FOUND
            copy_point(search.point, example)
            return FOUND if task.any_will_do else AGAIN
    elif _are_alike(model, search, level, progress.total):
        return NONE
    # Not the last word on this box: cheaper points, or what rounding has decided otherwise, may lie around.
    return UNFINISHED if halve_answer(search, level, goal) else NONE


@part
def _visit(model, task, row, search, level, additive):
    """Look at a box: FOUND; NONE: done with it; UNFINISHED: it has to be halved, as noted at the level.

    Or ASCEND: multipliers should have a look; then call again. CROWDED: there is too little room.
    """
    progress, goal = search.progress[0], task.goal
    while True:
        if progress.stage == BOUNDED:
            progress.stage = FRESH
            if progress.verdict == NONE:
                return NONE
            if progress.verdict == UNFINISHED:
                halve_conflict(search, level)
                break
        verdict = _reduce(model, task, search, level, additive)
        if verdict != UNFINISHED:
            return verdict
        if not _choose_cells(model, search):
            progress.n_boxes += 1
            is_near = goal == CHEAPEST and additive and search.radius[0].advance > 0.0
            if is_near or progress.n_boxes > task.settings.easy_boxes:
                return ASCEND
            halve_conflict(search, level)
            break
        verdict = _try_point(model, task, row, search, level, additive)
        if verdict == UNFINISHED:
            break
        if verdict != AGAIN:
            return verdict
    order_halves(search, level, progress.total, progress.floor, goal, additive)
    return UNFINISHED


@part
def _has_room(search, level):
    """Whether there is room for one more level: its leaves and marks are fewer than this one's."""
    marks, here = search.marks, search.levels[level]
    return (
        level + 2 <= search.levels.shape[0]
        and 2 * marks[here.mark + here.n_trees] - marks[here.mark] <= search.slots.shape[0]
        and here.mark + 2 * here.n_trees + 2 <= marks.shape[0]
    )


@inner
def _enter_half(search, level, side):
    """Go down to one half of a level's box: 0 low, 1 high."""
    axes, levels = search.axes, search.levels
    axis, last = np.int64(levels[level].axis), levels[level].cell
    levels[level + 1].trail = search.progress[0].trail
    if side == 0:
        narrow(search, axis, axes[axis].low, last)
    else:
        narrow(search, axis, last + 1, axes[axis].high)
    keep_leaves(search, level, level + 1, axis, 0.0)
    search.progress[0].level, search.progress[0].stage = level + 1, FRESH


@part
def _seek(model, task, row, search, additive, max_work):
    """Search the box: FOUND (for ANY), NONE: finished; UNFINISHED, after this much work; ASCEND or CROWDED.

    ANY: the row's example is a point that the model gives another class. CHEAPEST: it is the cheapest, if there is one
    cheaper than `radius.within`, which is then its cost. LARGEST: it has the largest sum, if there is one of at least
    `question.target`, which is then the next number after it.
    """
    levels, question, progress = search.levels, search.question[0], search.progress[0]
    while progress.level >= 0:
        level = progress.level
        if not _has_room(search, level):
            return CROWDED
        if progress.stage != BACK:
            if progress.work >= max_work and progress.stage == FRESH:
                return UNFINISHED
            verdict = _visit(model, task, row, search, level, additive)
            if verdict == UNFINISHED:
                _enter_half(search, level, 1 - levels[level].side)
            elif verdict == NONE:
                progress.level, progress.stage = level - 1, BACK
            else:
                return verdict
            continue
        undo(search, level + 1)
        hopeless = levels[level].other_bound < question.target - question.rounding
        if hopeless or (task.goal == CHEAPEST and levels[level].other_floor >= search.radius[0].within):
            levels[level].other_bound = -np.inf
            progress.level = level - 1
            continue
        levels[level + 1].bound, levels[level + 1].floor = levels[level].other_bound, levels[level].other_floor
        levels[level].other_bound = -np.inf
        _enter_half(search, level, levels[level].side)
    return NONE


@part
def _choose_radius(task, search, status):
    """Say how a search for the nearest example goes on that came to its end, or took too long: maybe WIDEN.

    Otherwise as it is. A search that takes `excess_work` times the work of all before it is made smaller as it goes on:
    what has been given up stays so.
    """
    radius = search.radius[0]
    if status == NONE and radius.within < radius.best:
        radius.without = radius.within
        return WIDEN
    if status == UNFINISHED and radius.spent >= radius.budget:
        within = 0.5 * (radius.without + min(radius.within, radius.dearest))
        radius.budget += task.settings.excess_work * radius.spent_in_all
        if radius.advance == 0.0:
            return WIDEN
        if radius.without < within < radius.within:
            radius.within, radius.advance = within, within - radius.without
    return status


@kernel(about="the exact search of ensembles (branch and bound)", seconds=4.8)
def branch_row(model, task, row, rival, search):
    """Search on where `search.progress` says, for one row and rival.

    Returns (reason, row, rival): DONE, FOUND or NONE, with the row and rival that come next; or at this one UNFINISHED,
    CROWDED, ASCEND or WIDEN, to come back to. What is known by then is in the task.
    """
    question, progress, radius = search.question[0], search.progress[0], search.radius[0]
    is_nearest = task.goal == CHEAPEST and task.max_work > 0
    status = np.int64(UNFINISHED)
    if progress.stage == LISTING:
        if not list_leaves(model, task, search):
            return np.int64(CROWDED), np.int64(row), np.int64(rival)
        if search.levels[0].bound < question.target - question.rounding:
            status = np.int64(NONE)
    if status == UNFINISHED:
        max_work = min(task.max_work, radius.budget - radius.spent) if is_nearest else task.max_work
        status = np.int64(_seek(model, task, row, search, task.norm != INFINITY_NORM, max_work))
        if status == ASCEND:
            return status, np.int64(row), np.int64(rival)
        radius.spent += progress.work
        radius.spent_in_all += progress.work
        task.each[row].work += progress.work
        progress.work = 0
        if is_nearest:
            status = np.int64(_choose_radius(task, search, status))
    if status in (FOUND, NONE):
        row, rival = settle_rival(model, task, row, rival, status, search)
    elif status != CROWDED:
        note(task, search, np.int64(UNFINISHED), rival == find_last_rival(model, task.each[row].class_index), row)
    return status, np.int64(row), np.int64(rival)
