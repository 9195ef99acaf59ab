"""The heuristic attack: examples are brought nearer to their rows by local moves, for models of any size.

In the L-infinity norm all that is nearer than an example is a box, so the climb is tried within boxes that grow until
there is an example and then shrink, until there is none. In the other norms features are put back, one at a time, and
that is made up for elsewhere, for less; first of the example that is near in the L-infinity norm, then of others.

Nothing here lists leaves: what a row takes grows with the depth of trees, not with their size.
"""

import numpy as np

from hardwood._kernels.compiling import kernel, part
from hardwood._kernels.search.climbing import climb, climb_for_less, descend, move, start
from hardwood._kernels.search.leaves import choose_point, predict_point
from hardwood._kernels.search.radius import INFINITY_NORM, measure_example, set_costs
from hardwood._kernels.search.rows import enclose, find_last_rival, is_answer, set_up
from hardwood._kernels.search.single_moves import NEARBY, measure_moves
from hardwood._kernels.search.state import FOUND, add_costs, copy_point, go_back, keep_chosen

# Where a climb begins and how it goes: from the example that is known, or from the row, with as many moves at once as
# gain anything (in norms that add up, with those that gain most for their cost), or with few.
FROM_EXAMPLE, MANY_MOVES, FEW_MOVES = 0, 1, 2
# Nearer than an example is what costs less by this share: more than the box around a radius is too large.
NEARER = 1.0 - 1e-8
# What costs this many times as much as the best example is not likely to become a better one.
TOO_DEAR = 2.0
# Once a radius is this near to one that failed, it is reduced step by step.
CLOSE = 0.02
# How many times as large as the first one a radius becomes before all within reach is taken at once.
FARTHEST = 2.0**32


@part
def _aim(task, question, is_certain):
    """Ask for sums that are an answer whatever rounding does, or for all that may be one. Votes are not rounded."""
    if question.step == 0.0:
        question.target = question.limit - task.doubt
        if is_certain:
            question.target = np.nextafter(question.limit + task.doubt, np.inf)


@part
def _climb_from(model, task, row, search, way):
    """Climb within the box to an example; whether there is one.

    What may be an answer and is none is passed over the second time, when answers have to be certain.
    """
    question = search.question[0]
    found, is_example, is_certain = True, False, False
    while found and not is_example:
        _aim(task, question, is_certain)
        if way == FROM_EXAMPLE:
            choose_point(model, task.example[row], search.axes)
        start(model, search, way != FROM_EXAMPLE)
        if way == MANY_MOVES and task.norm != INFINITY_NORM:
            found = climb_for_less(model, search, np.inf)
        else:
            total, _, _ = measure_moves(model, search, NEARBY)
            share = task.settings.move_share if way == FEW_MOVES else 0.0
            found = climb(model, search, total, question.target, share) >= question.target
        is_example = found and is_answer(model, task.x[row], search, task.each[row].class_index)
        found, is_certain = found and not is_certain, True
    return is_example


@part
def _shorten(model, task, row, search):
    """From an answer go to cheaper ones: put a feature back, wholly or by a cell, and climb again, for less."""
    axes, n_active, n_features = search.axes, search.progress[0].n_active, model.features.shape[0]
    best, i, failures = np.inf, 0, -1
    while failures < n_active and n_active > 0:
        if failures < 0:  # an answer, or a better one
            best = descend(model, search, search.question[0].target, True)
            keep_chosen(search)
            failures = 0
            if best > TOO_DEAR * search.radius[0].best:
                return
        axis = np.int64(axes[i].active)
        home, kept = np.int64(min(max(axes[axis].own, axes[axis].low), axes[axis].high)), np.int64(axes[axis].kept)
        i = (i + 1) % n_active
        failures += 1
        nearer = kept + (1 if kept < home else -1)
        for cell in (home, nearer):
            is_home = kept == home or (axis >= n_features and home == 0)
            if is_home or (cell == nearer and (cell == home or task.norm == 0)):
                break
            move(model, search, axis, cell)
            if climb_for_less(model, search, best):
                failures = -1
                break
            go_back(search)


@part
def _next_radius(known, without, radius, guess):
    """The radius that is tried next in the L-infinity norm, given one within which there is none, and the last one.

    It is doubled until there is an example; then it is half way between what failed and what is known.
    """
    if known == np.inf:
        return 2.0 * radius if radius < FARTHEST * guess else np.inf
    return known if known - without <= CLOSE * known else 0.5 * (without + known)


@part
def _close_in(model, task, row, search, from_example):
    """Look for nearer examples, until there is none: within radii that grow and shrink, or within the known cost."""
    known, guess, additive = search.radius[0], task.each[row].guess, task.norm != INFINITY_NORM
    without, radius, is_over = 0.0, guess if known.best == np.inf and not additive else known.best, False
    while known.best > 0.0 and not is_over:
        is_last = additive or radius >= NEARER * known.best
        limit = known.best if additive else (NEARER * known.best if is_last else radius)
        is_last |= enclose(model, task, row, search, limit)
        set_costs(model, task.x[row], task, search)
        is_nearer, way = False, FROM_EXAMPLE
        while way <= FEW_MOVES and not (is_nearer and not additive):
            is_right = (way == FROM_EXAMPLE) == from_example if additive else way > FROM_EXAMPLE or known.best < np.inf
            if is_right and _climb_from(model, task, row, search, way):
                if additive:
                    _aim(task, search.question[0], True)
                    _shorten(model, task, row, search)
                cost = add_costs(search, additive)
                if cost < known.best and is_answer(model, task.x[row], search, task.each[row].class_index):
                    known.best, is_nearer = cost, True
                    copy_point(search.point, task.example[row])
                    task.each[row].status = FOUND
            way += 1
        is_over = additive or (is_last and not is_nearer)
        without = without if is_nearer else radius
        radius = _next_radius(known.best, without, radius, guess)


@kernel(about="the heuristic attack", seconds=5.6)
def bring_nearer(model, task, first, end, search):
    """Look for an example of every row and bring it nearer; in norms that add up, from one that may be known on."""
    known = search.radius[0]
    for row in range(first, end):
        here, known.best = task.each[row], np.inf
        if here.status == FOUND:
            known.best = measure_example(model, task, row)
        for k in range(find_last_rival(model, here.class_index) + 2):
            rival = np.int64(k - 1)
            if k == 0:
                if here.status != FOUND:
                    continue
                rival = predict_point(model, task.example[row], search.output)
            if rival == here.class_index and model.base_score.shape[0] > 1:
                continue
            set_up(model, task, here.class_index, rival, search.question[0])
            search.question[0].rounding = task.rounding * model.side_start.shape[0]
            _close_in(model, task, row, search, k == 0)
