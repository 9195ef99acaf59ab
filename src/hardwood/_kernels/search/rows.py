"""Row after row: the loops around `branching`.

There is one kernel for all questions, since each kernel is compiled with all that it calls. It works through rows until
it is done or needs the caller: more room, or a word on whether to go on with a hard row.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel, part
from hardwood._kernels.search.branching import CROWDED, FOUND, NONE, UNFINISHED, seek
from hardwood._kernels.search.climbing import climb, descend, start
from hardwood._kernels.search.leaves import collect, list_active, locate, open_trees, predict_point
from hardwood._kernels.search.radius import bound_ball, cut_ball, find_costs, narrow_ball, price_leaves, set_costs
from hardwood._kernels.search.single_moves import survey
from hardwood._kernels.search.state import (
    ANY,
    BALL,
    CHEAPEST,
    LARGEST,
    add_costs,
    begin,
    copy_point,
    keep_leaves,
    open_bounds,
    undo,
    write_point,
)

DONE, NO_ROOM = -1, -2
FRESH = np.bool_(True)  # of one type with what it stands in for
INFINITY_NORM = -1
# How often balls are bounded, and how often climbed in, before the nearest example is proved; how often in vain; and
# how many times as large the next ball is while there is no example.
HALVINGS, FAILURES, WIDER = 12, 4, 1.25
# The nearest example is searched for within the distance of the best one known. If that is not done soon, it may be far
# too much: then one search follows another, from below, each within a little more than is known to be too little. The
# first goes so far of the way to the best one, and the next ones so far that each takes about GROWTH times the work of
# the one before, as work grows by about the same factor from step to step; but no more than so many times as far.
FIRST_SHARE, GROWTH, MOST_FARTHER = 1 / 16, 8.0, 4.0
# A search that takes so many times the work of all before it is made smaller as it goes on: what has been given up
# stays so.
EXCESS = 16


ROW = np.dtype(
    [
        ("label", np.int64),
        ("status", np.int64),  # FOUND, NONE, or as it was
        ("bound", np.float64),  # an upper bound of the lead of another class over the label; or of the sum
        ("distance", np.float64),  # a first guess
        ("certified", np.float64),  # there is no example nearer than this (squared in the L2 norm)
    ]
)


class Task(NamedTuple):
    """The rows of one call, encoded, what may become of them, what is asked, and what has been found."""

    x: np.ndarray  # float64 (row, feature)
    low: np.ndarray  # float64 (row, feature): low <= x <= high
    high: np.ndarray
    allowed: np.ndarray  # bool (row, category)
    each: np.ndarray  # ROW
    example: np.ndarray  # float64 (row, feature)
    weight: np.ndarray  # float64 per feature: what a unit of change costs, for distances
    norm: int  # of distances: 0, 1, 2 or INFINITY_NORM
    goal: int  # ANY, CHEAPEST or LARGEST
    sign: int  # for LARGEST: 1 largest, -1 smallest output
    doubt: float  # how far float64 sums may be from the model's own
    step: float  # nearly all leaf values are multiples of this; 0 if there is no such number
    stride: float  # sums of those are `offset` plus a multiple of this, and leaf values `vote` plus one
    offset: float
    vote: float
    rounding: float  # what adding up may lose per leaf
    max_work: int  # before the caller is asked
    patience: int  # how much work is spent on a distance before it is looked for in another way
    easy: int  # how many boxes are cut in two before tolls are asked


@part
def _set_up(model, task, label, rival, now):
    """Note how to ask whether `rival` can beat `label`: which outputs count, and the least sum of leaf values.

    Leaf values are multiples of the step, and their sums come in strides, so the least sum is the next one. What few
    leaves of other values there are count for more than they are worth: so much that sums with them come in strides,
    too, and that rounding cannot make more of them.
    """
    if model.base_score.shape[0] == 1:
        # One output: class 1 iff it is greater than the cut.
        limit = model.cut * model.divisor - model.base_score[0]
        now.plus, now.minus = (np.int64(0), np.int64(-1)) if label == 0 else (np.int64(-1), np.int64(0))
        limit, beats = (limit, False) if label == 0 else (-limit, True)
    else:
        limit = model.base_score[label] - model.base_score[rival]
        now.plus, now.minus, beats = np.int64(rival), np.int64(label), rival < label  # of equal outputs the first wins
    now.limit, now.target, now.least_worth = limit, limit - task.doubt, -np.inf
    now.step, now.stride, now.vote, now.excess = task.step, task.stride, task.vote, 2.0 * task.doubt
    if task.step > 0.0:
        least = task.offset + task.stride * np.ceil((limit - task.offset) / task.stride)
        now.target = least if beats or least > limit else least + task.stride
        # What counts for most is worth most, up to the excess.
        now.least_worth = limit - task.doubt - 2.0 * task.doubt * model.trees.root.shape[0]


@inner
def _is_answer(model, x, search, label):
    """Write down the point of the chosen cells; whether the model gives it another class."""
    write_point(model, search.axes, x, search.point)
    return predict_point(model, search.point, search.output) != label


@inner
def _enclose(model, task, row, search, radius):
    """Find the cells within reach, and within a radius of the row; whether that is all within reach."""
    axes = search.axes
    whole = True
    locate(model, task.x[row], task.low[row], task.high[row], task.allowed[row], axes)
    if task.goal == CHEAPEST:
        whole = cut_ball(model, task, row, radius, axes)
    search.now[0].n_active = list_active(axes)
    open_trees(model, search)
    return whole


@inner
def _list_leaves(model, task, search):
    """List the leaves of these cells; whether there is room for them."""
    slots, marks, now = search.slots, search.marks, search.now[0]
    n_trees, bound = collect(model, search)
    if n_trees < 0 or 2 * marks[n_trees] > slots.shape[0] or 2 * n_trees + 2 > marks.shape[0]:
        return False
    now.rounding = task.rounding * marks[n_trees]
    begin(search, n_trees, bound)
    return True


@inner
def _look(model, task, row, search):
    """Decide whether there is any example before leaves are listed, if possible: NONE, FOUND, or UNFINISHED."""
    now = search.now[0]
    start(model, search, True)
    total, bound, n_leaves = survey(model, search, True)
    begin(search, np.int64(0), bound)
    now.rounding = task.rounding * n_leaves
    if bound < now.target - now.rounding:
        return NONE
    if climb(model, search, total, now.target, False) < now.target:
        return UNFINISHED
    if not _is_answer(model, task.x[row], search, task.each[row].label):
        return UNFINISHED
    copy_point(search.point, task.example[row])
    return FOUND


@inner
def _improve(model, task, row, search, fresh):
    """Look for an example in the box, and remember it if it is the best; whether there is one.

    From the row itself, if `fresh`; otherwise from where the last look ended.
    """
    levels, now = search.levels, search.now[0]
    x, label = task.x[row], task.each[row].label
    additive = task.norm != INFINITY_NORM
    wanted = levels[0].bound if task.goal == LARGEST else now.target
    start(model, search, fresh)
    total, _, _ = survey(model, search, False)
    reached = climb(model, search, total, wanted, additive)
    if task.goal == LARGEST:
        # None is given up for rounding alone: the sum reached was added up in another order than bounds are.
        now.target, now.rounding = np.nextafter(reached, np.inf), 0.0
        write_point(model, search.axes, x, task.example[row])
        return False
    if reached < now.target or not _is_answer(model, x, search, label):
        return False
    cost = add_costs(search, additive)
    if cost < now.best:
        now.best = cost
        copy_point(search.point, task.example[row])
        task.each[row].status = FOUND
    if additive:
        cost = descend(model, search, now.target, additive)
        if cost < now.best and _is_answer(model, x, search, label):
            now.best = cost
            copy_point(search.point, task.example[row])
    return True


@inner
def _try_ball(model, task, row, search, radius, fresh):
    """Look for an example within a radius, the easy way; if there is one, what is farther is given up for good."""
    now, here = search.now[0], np.int64(0)
    narrow_ball(model, search, radius)
    found = _improve(model, task, row, search, fresh)
    undo(search, here)
    if found:
        narrow_ball(model, search, now.best)
        keep_leaves(search, here, here, BALL, now.best)
        now.trail = 0
    return found


@part
def _close_in(model, task, row, search, radius):
    """Look for the nearest example within a radius, the easy way; whether it is certain that there is no nearer one.

    First, bounds tell a radius without, often the largest there is. So the next larger ball is the first to be tried,
    then larger ones until there is an example in one, and then some in between.
    """
    now = search.now[0]
    price_leaves(search)
    radius = min(radius, now.best)
    for _ in range(HALVINGS):
        if now.without >= radius:
            break
        bound, below, above = bound_ball(search, 0.5 * (now.without + radius))
        if bound < now.target - now.rounding:
            now.without = min(above, radius)
        else:
            radius = below
    least, failures, fresh = now.without, 0, True
    middle = max(np.nextafter(least, -np.inf), 0.0)  # the row itself costs nothing
    for _ in range(HALVINGS):
        below, above = find_costs(search, middle)
        radius = below if below >= least else above
        if now.best < np.inf and radius >= now.best:
            return least == now.without
        if failures == FAILURES:
            if now.best < np.inf:
                break
            radius = np.inf
        if _try_ball(model, task, row, search, radius, fresh or radius == np.inf):
            failures = 0
        elif radius == np.inf:
            break
        else:
            least = np.nextafter(radius, np.inf)
            failures += 1
        fresh = False
        middle = 0.5 * (least + now.best) if now.best < np.inf else WIDER * least
    return False


@inner
def _find_dearest(search):
    """More than any cell costs."""
    axes, cells, now = search.axes, search.cells, search.now[0]
    most = 0.0
    for i in range(now.n_active):
        here = axes[axes[i].active]
        most = max(most, max(cells[here.start + here.low].cost, cells[here.start + here.high].cost))
    return np.nextafter(most, np.inf)


@part
def _approach(model, task, row, rival, search):
    """Look for an example the easy way: FOUND (for ANY); UNFINISHED: the search has to go on; NONE; or NO_ROOM.

    For CHEAPEST, a ball is widened until there is an example in it. For LARGEST, the search begins with the best
    point that the climb comes to.
    """
    levels, now = search.levels, search.now[0]
    _set_up(model, task, task.each[row].label, rival, now)
    if task.goal == LARGEST:
        now.plus, now.minus = (np.int64(0), np.int64(-1)) if task.sign > 0 else (np.int64(-1), np.int64(0))
        now.target, now.step, now.least_worth = -np.inf, 0.0, -np.inf
    now.without, now.easy = 0.0, task.easy
    radius = min(task.each[row].distance, now.best) if task.goal == CHEAPEST else np.inf
    while True:
        whole = _enclose(model, task, row, search, radius)
        if task.goal == ANY:
            verdict = _look(model, task, row, search)
            if verdict != UNFINISHED:
                return verdict
        if not _list_leaves(model, task, search):
            return NO_ROOM
        if levels[0].bound < now.target - now.rounding:
            now.without = np.nextafter(radius, np.inf)
            if whole or radius >= now.best:
                return NONE
        else:
            if task.goal == CHEAPEST:
                set_costs(model, task.x[row], task, search)
            if task.goal == CHEAPEST and task.norm == INFINITY_NORM:
                if _close_in(model, task, row, search, radius) and (whole or radius >= now.best):
                    return NONE
            elif task.goal != ANY:
                _improve(model, task, row, search, FRESH)
            if whole or radius >= now.best:
                break
        radius = min(2.0 * radius, max(now.best, radius))
    now.within, now.dearest = now.best, _find_dearest(search)
    now.advance, now.spent, now.spent_in_all, now.budget = 0.0, 0, 0, task.patience
    return UNFINISHED


@inner
def _widen(model, task, row, search):
    """Begin a search within a larger cost than is known to be too small; whether there is room."""
    now, top = search.now[0], min(search.now[0].best, search.now[0].dearest)
    if now.advance == 0.0:
        now.advance = min(FIRST_SHARE * (top - now.without), max(now.without, task.each[row].distance))
    else:
        growth = np.log(max(1.1, now.spent / np.float64(max(now.spent_before, 1))))
        now.advance *= min(max(np.log(GROWTH) / growth, 1.0 / MOST_FARTHER), MOST_FARTHER)
    within = now.without + now.advance
    now.within = within if now.without < within < top - 0.25 * now.advance else now.best
    now.spent_before, now.spent, now.budget = now.spent, 0, EXCESS * now.spent_in_all
    _enclose(model, task, row, search, now.within)
    has_room = _list_leaves(model, task, search)
    if has_room:
        set_costs(model, task.x[row], task, search)
    return has_room


@part
def _go_on(model, task, row, search, label):
    """Search on: FOUND, NONE, UNFINISHED or CROWDED, as `seek` has it. Where that takes too long, begin elsewhere.

    NO_ROOM: there is none to begin.
    """
    now = search.now[0]
    is_nearest = task.goal == CHEAPEST and task.max_work > 0
    max_work = min(task.max_work, now.budget - now.spent) if is_nearest else task.max_work
    status = seek(model, task.x[row], search, task.goal, task.norm != INFINITY_NORM, label, max_work, task.example[row])
    now.spent += now.work
    now.spent_in_all += now.work
    if is_nearest and status == NONE and now.within < now.best:
        now.without = now.within
        status = UNFINISHED if _widen(model, task, row, search) else NO_ROOM
    elif is_nearest and status == UNFINISHED and now.spent >= now.budget:
        within = 0.5 * (now.without + min(now.within, now.dearest))
        now.budget += EXCESS * now.spent_in_all
        if now.advance == 0.0:
            status = UNFINISHED if _widen(model, task, row, search) else NO_ROOM
        elif now.without < within < now.within:
            now.within, now.advance = within, within - now.without
    return status


@inner
def _note(task, search, status, is_last, row):
    """Write down what is known of a row. Nothing is known of rivals that have not been looked at."""
    now = search.now[0]
    bound, floor = open_bounds(search)
    if task.goal == LARGEST:
        task.each[row].bound = max(bound, np.nextafter(now.target, -np.inf))
    elif task.goal == CHEAPEST:
        free = max(now.without, min(floor, now.within)) if is_last else 0.0
        task.each[row].certified = max(free, task.each[row].certified)
    else:
        # Of what has been given up it is known that it is below the target, and no more than the first bound.
        lead = min(max(bound, now.target), now.first_bound) - now.limit
        if status == NONE:
            now.earlier = max(now.earlier, min(lead, 0.0))
            lead = now.earlier
        task.each[row].bound = max(lead, now.earlier) if is_last else np.inf


@kernel(about="the exact search of ensembles (branch and bound)", seconds=19)
def search_rows(model, task, first, end, rival, resume, search):
    """Answer the question for rows from `first` on, up to `end`.

    ANY: can the attacker give it another class? CHEAPEST: what is the nearest example? LARGEST: what is the largest sum
    (times the sign)? Returns (reason, row, rival): DONE; or NO_ROOM, CROWDED or UNFINISHED at a row and rival to come
    back to, the latter two with `resume`. What is known by then is in the task.
    """
    now = search.now[0]
    n_outputs = model.base_score.shape[0]
    for row in range(first, end):
        label = task.each[row].label
        last = n_outputs - 1 - (label == n_outputs - 1 and n_outputs > 1)
        if not resume and rival == 0:
            now.best, now.earlier = np.inf, -np.inf
        for other in range(rival, last + 1):
            if n_outputs > 1 and other == label:
                continue
            status = UNFINISHED
            if not resume:
                status = _approach(model, task, row, other, search)
            resume = False
            before = now.best
            if status == UNFINISHED:
                status = _go_on(model, task, row, search, label)
            if now.best < before or status == FOUND:
                task.each[row].status = FOUND
            if status in (NO_ROOM, CROWDED):
                return np.int64(status), np.int64(row), np.int64(other)
            _note(task, search, status, other == last, row)
            if status == UNFINISHED:
                return UNFINISHED, np.int64(row), np.int64(other)
            if status == FOUND:
                break
        if task.goal == CHEAPEST:
            task.each[row].certified = np.inf
        if task.each[row].status != FOUND:
            task.each[row].status = NONE
        rival = np.int64(0)
    return DONE, np.int64(end), np.int64(0)
