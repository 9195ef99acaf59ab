"""The kernel of distances: look for the nearest example the easy way, and say where branch and bound has to go on.

In the L-infinity norm what is within a radius of the row is a box, so bounds of boxes tell most of the distance. In the
other norms the climb ends in an example, which is then made cheaper, one axis at a time.
"""

import numpy as np

from hardwood._kernels.compiling import inner, kernel, part
from hardwood._kernels.search.climbing import FROM_THE_ROW, climb, descend, start
from hardwood._kernels.search.radius import (
    INFINITY_NORM,
    bound_radius,
    find_costs,
    narrow_radius,
    price_leaves,
    set_costs,
)
from hardwood._kernels.search.rows import begin_rival, enclose, is_answer, list_leaves, settle_rival
from hardwood._kernels.search.single_moves import NEARBY, measure_moves
from hardwood._kernels.search.state import (
    BRANCH,
    CROWDED,
    DONE,
    FOUND,
    NONE,
    RADIUS_ONLY,
    UNFINISHED,
    add_costs,
    copy_point,
    keep_leaves,
    undo,
)


@inner
def _improve(model, task, row, search, fresh):
    """Look for an example in the box, and remember it if it is the best; whether there is one.

    From the row itself, if `fresh`; otherwise from where the last look ended.
    """
    question, radius = search.question[0], search.radius[0]
    x, class_index = task.x[row], task.each[row].class_index
    additive = task.norm != INFINITY_NORM
    start(model, search, fresh)
    total, _, _ = measure_moves(model, search, NEARBY)
    reached = climb(model, search, total, question.target, task.settings.move_share if additive else 0.0)
    if reached < question.target or not is_answer(model, x, search, class_index):
        return False
    cost = add_costs(search, additive)
    if cost < radius.best:
        radius.best = cost
        copy_point(search.point, task.example[row])
        task.each[row].status = FOUND
    if additive:
        cost = descend(model, search, question.target, additive)
        if cost < radius.best and is_answer(model, x, search, class_index):
            radius.best = cost
            copy_point(search.point, task.example[row])
            task.each[row].status = FOUND
    return True


@inner
def _try_radius(model, task, row, search, radius, fresh):
    """Look for an example within a radius, the easy way; if there is one, what is farther is given up for good."""
    here = np.int64(0)
    narrow_radius(model, search, radius)
    found = _improve(model, task, row, search, fresh)
    undo(search, here)
    if found:
        best = search.radius[0].best
        narrow_radius(model, search, best)
        keep_leaves(search, here, here, RADIUS_ONLY, best)
        search.progress[0].trail = 0
    return found


@part
def _close_in(model, task, row, search, most):
    """Look for the nearest example within a radius, the easy way; whether it is certain that there is no nearer one.

    First, bounds tell a radius without, often the largest there is. So the next larger radius is the first to be tried,
    then larger ones until there is an example within one, and then some in between.
    """
    question, known, settings = search.question[0], search.radius[0], task.settings
    price_leaves(search)
    radius = min(most, known.best)
    for _ in range(settings.radius_tries):
        if known.without >= radius:
            break
        bound, below, above = bound_radius(search, 0.5 * (known.without + radius))
        if bound < question.target - question.rounding:
            known.without = min(above, radius)
        else:
            radius = below
    least, failures, fresh = known.without, 0, True
    middle = max(np.nextafter(least, -np.inf), 0.0)  # the row itself costs nothing
    for _ in range(settings.radius_tries):
        below, above = find_costs(search, middle)
        radius = below if below >= least else above
        if known.best < np.inf and radius >= known.best:
            return least == known.without
        if failures == settings.radius_failures:
            if known.best < np.inf:
                break
            radius = np.inf
        if _try_radius(model, task, row, search, radius, fresh or radius == np.inf):
            failures = 0
        elif radius == np.inf:
            break
        else:
            least = np.nextafter(radius, np.inf)
            failures += 1
        fresh = False
        middle = 0.5 * (least + known.best) if known.best < np.inf else settings.radius_growth * least
    return False


@inner
def _find_dearest(search):
    """More than any cell costs."""
    axes, cells = search.axes, search.cells
    most = 0.0
    for i in range(search.progress[0].n_active):
        here = axes[axes[i].active]
        most = max(most, max(cells[here.start + here.low].cost, cells[here.start + here.high].cost))
    return np.nextafter(most, np.inf)


@part
def _approach(model, task, row, search):
    """Look for an example the easy way: NONE: there is no better one; UNFINISHED: the search goes on; or CROWDED.

    FOUND: there is one, and any will do.

    A radius is doubled until there is an example within it, or nothing is left outside; after `doublings` steps all
    that is within reach is taken at once.
    """
    levels, question, known = search.levels, search.question[0], search.radius[0]
    radius = min(task.each[row].guess, known.best)
    doublings = 0
    while True:
        whole = enclose(model, task, row, search, radius)
        if not list_leaves(model, task, search):
            return CROWDED
        is_enough = whole or radius >= known.best
        if levels[0].bound < question.target - question.rounding:
            known.without = np.nextafter(radius, np.inf)
            if is_enough:
                return NONE
        else:
            set_costs(model, task.x[row], task, search)
            if task.norm == INFINITY_NORM:
                if _close_in(model, task, row, search, radius) and (whole or radius >= known.best):
                    return NONE
            else:
                _improve(model, task, row, search, FROM_THE_ROW)
            if task.any_will_do and task.each[row].status == FOUND:
                return FOUND
            if whole or radius >= known.best:
                break
        doublings += 1
        radius = min(2.0 * radius, max(known.best, radius))
        if doublings >= task.settings.doublings:
            radius = known.best
    known.within, known.dearest = known.best, _find_dearest(search)
    known.advance, known.spent, known.spent_in_all, known.budget = 0.0, 0, 0, task.settings.easy_work
    search.progress[0].work = 0  # what was spent so far is not branch and bound's
    return UNFINISHED


@inner
def _widen(model, task, row, search):
    """Begin a search within a larger cost than is known to be too small; whether there is room.

    The nearest example is first searched for within the cost of the best one known. If that is not done soon, it may be
    far too much: then one search follows another, from below, each within a little more than is known to be too little.
    Work grows by about the same factor from step to step, so each step is chosen to take `work_growth` times the work
    of the one before.
    """
    known, settings = search.radius[0], task.settings
    top = min(known.best, known.dearest)
    if known.advance == 0.0:
        known.advance = min(settings.first_advance * (top - known.without), max(known.without, task.each[row].guess))
    else:
        growth = np.log(max(1.1, known.spent / np.float64(max(known.spent_before, 1))))
        farther = np.log(settings.work_growth) / growth
        known.advance *= min(max(farther, 1.0 / settings.most_farther), settings.most_farther)
    within = known.without + known.advance
    known.within = within if known.without < within < top - 0.25 * known.advance else known.best
    known.spent_before, known.spent, known.budget = known.spent, 0, settings.excess_work * known.spent_in_all
    enclose(model, task, row, search, known.within)
    has_room = list_leaves(model, task, search)
    if has_room:
        set_costs(model, task.x[row], task, search)
    return has_room


@kernel(about="distances, for hard rows", seconds=0.9)
def widen_row(model, task, row, search):
    """Begin a search within a larger cost: BRANCH, or CROWDED."""
    return BRANCH if _widen(model, task, row, search) else CROWDED


@kernel(about="distances to ensembles", seconds=4.4)
def approach_rows(model, task, row, end, rival, search):
    """Find the nearest examples of rows from `row` and `rival` on, up to `end`.

    Returns (reason, row, rival): DONE; or at a row and rival BRANCH, that branch and bound has to go on with it, or
    CROWDED.
    """
    while row < end:
        rival = begin_rival(model, task, row, rival, search)
        status = _approach(model, task, row, search)
        if status == CROWDED:
            return CROWDED, np.int64(row), np.int64(rival)
        if status == UNFINISHED:
            return BRANCH, np.int64(row), np.int64(rival)
        row, rival = settle_rival(model, task, row, rival, np.int64(status), search)
    return DONE, np.int64(end), np.int64(0)
