"""Row after row: the loops around `ensemble_search`.

There is one kernel for all questions, since each kernel is compiled with all that it calls. It works through rows until
it is done or needs the caller: more room, or a word on whether to go on with a hard row.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel, part
from hardwood._kernels.ensemble_balls import bound_ball, cut_ball, find_costs, narrow_ball, price_leaves, set_costs
from hardwood._kernels.ensemble_climb import climb, descend, scatter
from hardwood._kernels.ensemble_leaves import collect, list_active, locate, predict_point
from hardwood._kernels.ensemble_search import ANY, CHEAPEST, FOUND, LARGEST, NO_ROOM, NONE, UNFINISHED, seek
from hardwood._kernels.ensemble_state import add_costs, begin, copy_point, open_bounds, undo, write_point

DONE = -1
INFINITY_NORM = -1
# How often the radius of an example is tried to be improved before it is proved, and how often in vain.
HALVINGS, FAILURES = 12, 4
# The cheapest example is searched for in the ball of the best one. If that takes long, smaller balls are searched: they
# may have a nearer example, or be known to have none. Then the cheapest is searched for again, in another order, and so
# on, with so many times more work in every round. A ball may take a share of what the search for the cheapest may, and
# is climbed in from so many random points first. How long a search takes is a matter of luck: hence all the variety.
GROWTH, SHARE, SCATTERED = 64, 5, 10


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
    stride: float  # sums of those are `offset` plus a multiple of this
    offset: float
    rounding: float  # what adding up may lose per leaf
    max_work: int  # before the caller is asked
    patience: int  # how much work is spent on a distance before it is looked for in another way
    easy: int  # how many boxes are cut in two before tolls are asked


@part
def _set_up(model, task, label, rival, now):
    """Note how to ask whether `rival` can beat `label`: which outputs count, and the least sum of leaf values.

    Sums of multiples of the step come in strides, so the least is the next one. Leaves of other values can come to sums
    in between: they are counted for more than they are by what lies between.
    """
    if model.base_score.shape[0] == 1:
        # One output: class 1 iff it is greater than the cut.
        limit = model.cut * model.divisor - model.base_score[0]
        now.plus, now.minus = (np.int64(0), np.int64(-1)) if label == 0 else (np.int64(-1), np.int64(0))
        limit, beats = (limit, False) if label == 0 else (-limit, True)
    else:
        limit = model.base_score[label] - model.base_score[rival]
        now.plus, now.minus, beats = np.int64(rival), np.int64(label), rival < label  # of equal outputs the first wins
    now.limit, now.target, now.step, now.extra = limit, limit - task.doubt, task.step, 0.0
    if task.step > 0.0:
        least = task.offset + task.stride * np.ceil((limit - task.offset) / task.stride)
        now.target = least if beats or least > limit else least + task.stride
        now.extra = now.target - limit + task.doubt


@inner
def _is_answer(model, x, search, label):
    """Write down the point of the chosen cells; whether the model gives it another class."""
    write_point(model, search.axes, x, search.point)
    return predict_point(model, search.point, search.output) != label


@inner
def _enclose(model, task, row, search, radius):
    """Collect the leaves within reach and within a radius: (whether there is room for them, whether that is all)."""
    slots, marks, axes, now = search.slots, search.marks, search.axes, search.now[0]
    whole = True
    locate(model, task.x[row], task.low[row], task.high[row], task.allowed[row], axes)
    if task.goal == CHEAPEST:
        whole = cut_ball(model, task, row, radius, axes)
    now.n_active = list_active(axes)
    n_trees, settled, total = collect(model, search)
    if n_trees < 0 or 2 * marks[n_trees] > slots.shape[0] or 2 * n_trees + 2 > marks.shape[0]:
        return False, whole
    now.rounding = task.rounding * marks[n_trees]
    begin(search, n_trees, settled, total)
    return True, whole


@inner
def _improve(model, task, row, search, level):
    """Look for an example among the leaves of a level, and remember it if it is the best; whether there is one."""
    levels, now = search.levels, search.now[0]
    x, label = task.x[row], task.each[row].label
    additive = task.norm != INFINITY_NORM
    wanted = levels[0].bound if task.goal == LARGEST else now.target
    reached = climb(model, search, level, wanted, level == 0)
    if task.goal == LARGEST:
        # None is given up for rounding alone: the sum reached was added up in another order than bounds are.
        now.target, now.rounding = np.nextafter(reached, np.inf), 0.0
        write_point(model, search.axes, x, task.example[row])
        return False
    if reached < now.target or not _is_answer(model, x, search, label):
        return False
    cost = 0.0
    if task.goal == CHEAPEST:
        cost = add_costs(search, additive)
    if cost < now.best:
        now.best = cost
        copy_point(search.point, task.example[row])
        task.each[row].status = FOUND
    if task.goal == CHEAPEST and additive:
        cost = descend(model, search, level, now.target, additive)
        if cost < now.best and _is_answer(model, x, search, label):
            now.best = cost
            copy_point(search.point, task.example[row])
    return True


@inner
def _try_ball(model, task, row, search, max_work):
    """Look for an example within a radius halfway to the best one.

    UNFINISHED: there is more to do; NONE: the best example is the nearest; FOUND: it is as good as can be had in this
    way; or NO_ROOM. What is farther than the best example is given up for good.
    """
    levels, now = search.levels, search.now[0]
    ball, found = np.int64(1), False
    if now.radius < 0.0:
        below, above = find_costs(search, 0.5 * (now.least + now.best))
        radius = below if below > now.least else above
        if radius >= now.best:
            # Nothing is known of changes that are free.
            return NONE if now.least == now.without and now.least > 0.0 else FOUND
        if now.failures == FAILURES:
            return FOUND
        levels[ball].trail = 0
        narrow_ball(model, search, radius, ball)
        found = _improve(model, task, row, search, ball)
        # From anywhere in the ball; every time a ball is tried again, from elsewhere.
        seed, scattered = np.uint64(now.budget + now.failures), 0 if max_work > 0 else SCATTERED
        while not found and scattered < SCATTERED:
            seed = scatter(model, search, seed)
            found = _improve(model, task, row, search, ball)
            scattered += 1
        levels[0].other_bound, levels[ball].bound, levels[ball].floor = -np.inf, np.inf, 0.0
        now.level, now.fresh, now.spent, now.radius = ball, 1, 0, radius
    if not found and max_work > 0:
        status = seek(model, task.x[row], search, ANY, False, task.each[row].label, max_work, task.example[row])
        now.spent += now.work
        if status == NO_ROOM or (status == UNFINISHED and SHARE * now.spent < now.budget):
            return status
        if status == NONE:
            now.without = now.radius
        elif status == FOUND:
            found = True
            now.best = add_costs(search, False)
    now.level, now.fresh = 0, 1
    undo(search, ball)
    if found:
        narrow_ball(model, search, now.best, np.int64(0))
        now.trail = 0
    else:
        now.least = now.radius
        now.failures += now.without < now.radius
    now.radius = -1.0
    return UNFINISHED


@part
def _halve(model, task, row, search):
    """Bring the best example nearer, the easy way; whether it is the nearest. First, bounds tell a radius without."""
    now = search.now[0]
    price_leaves(search)
    radius = now.best
    for _ in range(HALVINGS):
        middle = 0.5 * (now.without + radius)
        if bound_ball(search, middle) < now.target - now.rounding:
            now.without = middle
        else:
            radius = middle
    now.least, now.failures, now.radius = now.without, 0, -1.0
    for _ in range(HALVINGS):
        status = _try_ball(model, task, row, search, np.int64(0))
        if status != UNFINISHED:
            return status == NONE
    return False


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
        now.target, now.step = -np.inf, 0.0
    now.without, now.easy = 0.0, task.easy
    now.near_first, now.in_balls, now.budget, now.spent = task.norm != INFINITY_NORM, 0, task.patience, 0
    radius = min(task.each[row].distance, now.best) if task.goal == CHEAPEST else np.inf
    while True:
        has_room, whole = _enclose(model, task, row, search, radius)
        if not has_room:
            return NO_ROOM
        if levels[0].bound < now.target - now.rounding:
            now.without = radius
            if whole or radius >= now.best:
                return NONE
        else:
            if task.goal == CHEAPEST:
                set_costs(model, task.x[row], task, search)
            found = _improve(model, task, row, search, np.int64(0))
            if found and task.goal == ANY:
                return FOUND
            if whole or radius >= now.best:
                break
        radius = min(2.0 * radius, max(now.best, radius))
    halve = task.goal == CHEAPEST and task.norm == INFINITY_NORM and now.best < np.inf
    if halve and _halve(model, task, row, search):
        return NONE
    return UNFINISHED


@inner
def _start_balls(model, task, row, search):
    """Begin anew with the ball of the best example; whether there is room."""
    now = search.now[0]
    has_room, _ = _enclose(model, task, row, search, now.best)
    if has_room:
        set_costs(model, task.x[row], task, search)
        price_leaves(search)
        now.in_balls, now.least, now.failures, now.radius = 1, now.without, 0, -1.0
    return has_room


@inner
def _note(task, search, status, is_last, row):
    """Write down what is known of a row. Nothing is known of rivals that have not been looked at."""
    now = search.now[0]
    bound, floor = open_bounds(search)
    if task.goal == LARGEST:
        task.each[row].bound = max(bound, np.nextafter(now.target, -np.inf))
    elif task.goal == CHEAPEST:
        free = max(now.without, min(floor, now.best)) if is_last else 0.0
        task.each[row].certified = max(free, task.each[row].certified)
    else:
        # Of what has been given up it is known that it is below the target, and no more than the first bound.
        lead = min(max(bound, now.target), now.first_bound) - now.limit
        if status == NONE:
            now.earlier = max(now.earlier, min(lead, 0.0))
            lead = now.earlier
        task.each[row].bound = max(lead, now.earlier) if is_last else np.inf


@kernel
def search_rows(model, task, first, end, rival, resume, search):
    """Answer the question for rows from `first` on, up to `end`.

    ANY: can the attacker give it another class? CHEAPEST: what is the nearest example? LARGEST: what is the largest sum
    (times the sign)? Returns (reason, row, rival): DONE; or NO_ROOM or UNFINISHED at a row and rival to come back to,
    the latter with `resume`. What is known by then is in the task.
    """
    now = search.now[0]
    n_outputs = model.base_score.shape[0]
    has_balls = task.goal == CHEAPEST and task.norm == INFINITY_NORM and task.max_work > 0
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
            if status == UNFINISHED and now.in_balls:
                status = _try_ball(model, task, row, search, min(task.max_work, now.budget // SHARE + 1))
                if status == FOUND:
                    status, now.in_balls, now.spent = UNFINISHED, 0, 0
                    now.budget *= GROWTH
                    now.near_first = 1 - now.near_first
            if status == UNFINISHED and not now.in_balls:
                status = seek(
                    model, task.x[row], search, task.goal, task.norm != INFINITY_NORM, label,
                    min(task.max_work, now.budget) if has_balls else task.max_work, task.example[row],
                )  # fmt: skip
                now.spent += now.work
                if status == UNFINISHED and has_balls and now.best < np.inf and now.spent >= now.budget:
                    status = UNFINISHED if _start_balls(model, task, row, search) else NO_ROOM
            if now.best < before or status == FOUND:
                task.each[row].status = FOUND
            if status == NO_ROOM:
                return NO_ROOM, np.int64(row), np.int64(other)
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
