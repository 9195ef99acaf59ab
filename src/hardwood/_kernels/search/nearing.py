"""The heuristic attack: examples are brought nearer to their rows by local moves, for models of any size.

In the L-infinity norm all that is nearer than an example is a box, so the climb is tried within it, again and again. In
the other norms features are put back, one at a time, and that is made up for elsewhere, for less.
"""

import numpy as np

from hardwood._kernels.compiling import inner, kernel
from hardwood._kernels.search.climbing import FROM_THE_ROW, climb, climb_for_less, descend, move, start
from hardwood._kernels.search.leaves import choose_point, open_trees, predict_point
from hardwood._kernels.search.radius import INFINITY_NORM, measure_example, narrow_radius, set_costs
from hardwood._kernels.search.rows import enclose, find_last_rival, is_answer, set_up
from hardwood._kernels.search.single_moves import NEARBY, measure_moves
from hardwood._kernels.search.state import FOUND, UNFINISHED, add_costs, copy_point, go_back, keep_chosen

# The climbs that are tried within each radius: from the example, and from the row with many moves at once and with few.
N_CLIMBS = 3
# What costs more than this share of the best example costs is not likely to become a better one.
PROMISING = 2.0


@inner
def _set_up(model, task, class_index, rival, search):
    """Note how to ask for points where a rival beats a class for certain, whatever rounding does."""
    question = search.question[0]
    set_up(model, task, class_index, rival, question)
    question.rounding = task.rounding * model.side_start.shape[0]
    if question.step == 0.0:
        question.target = np.nextafter(question.limit + task.doubt, np.inf)


@inner
def _climb_to(model, search, share):
    """Climb from the chosen cells; whether that comes to the target."""
    target = search.question[0].target
    total, _, _ = measure_moves(model, search, NEARBY)
    return climb(model, search, total, target, share) >= target


@inner
def _enclose_nearer(model, task, row, search):
    """Narrow the box to the cells that cost less than the best example."""
    best = search.radius[0].best
    enclose(model, task, row, search, best)
    search.progress[0].trail = 0
    narrow_radius(model, search, np.nextafter(best, -np.inf))
    open_trees(model, search)


@inner
def _shrink(model, task, row, search):
    """Look for examples within radii that the best one is outside of, until there is none."""
    known = search.radius[0]
    found = True
    while found and known.best > 0.0:
        _enclose_nearer(model, task, row, search)
        found = False
        for k in range(N_CLIMBS):
            if k == 0:
                choose_point(model, task.example[row], search.axes)
            start(model, search, k > 0)
            found = _climb_to(model, search, 0.0 if k < N_CLIMBS - 1 else task.settings.move_share)
            found = found and is_answer(model, task.x[row], search, task.each[row].class_index)
            if found:
                break
        if found:
            known.best = add_costs(search, False)
            copy_point(search.point, task.example[row])


@inner
def _shorten(model, task, row, search):
    """From an answer go to cheaper ones: put a feature back, wholly or by a cell, and climb again, for less."""
    axes, n_active, n_features = search.axes, search.progress[0].n_active, model.features.shape[0]
    target, known = search.question[0].target, search.radius[0]
    best = descend(model, search, target, True)
    if best > PROMISING * known.best:
        return
    keep_chosen(search)
    i, failures = 0, 0
    while failures < n_active:
        axis = np.int64(axes[i].active)
        home = np.int64(min(max(axes[axis].own, axes[axis].low), axes[axis].high))
        kept = np.int64(axes[axis].kept)
        i = (i + 1) % n_active
        failures += 1
        if kept == home or (axis >= n_features and home == 0):
            continue
        nearer = kept + (1 if kept < home else -1)
        for cell in (home, nearer):
            if cell == nearer and (nearer == home or task.norm == 0):
                break
            move(model, search, axis, cell)
            if climb_for_less(model, search, best):
                best = descend(model, search, target, True)
                keep_chosen(search)
                failures = 0
                break
            go_back(search)
    if best < known.best and is_answer(model, task.x[row], search, task.each[row].class_index):
        known.best = best
        copy_point(search.point, task.example[row])


@inner
def _start_again(model, task, row, search):
    """Look for nearer examples from the row itself: by what gains most for its cost, and by what gains most."""
    for k in range(2):
        enclose(model, task, row, search, search.radius[0].best)
        start(model, search, FROM_THE_ROW)
        found = climb_for_less(model, search, np.inf) if k == 0 else _climb_to(model, search, task.settings.move_share)
        if found:
            _shorten(model, task, row, search)


@inner
def _find_any(model, task, row, search):
    """Look for an example anywhere within reach, for a row that many moves at once have found none of."""
    class_index = task.each[row].class_index
    for rival in range(find_last_rival(model, class_index) + 1):
        if rival == class_index and model.base_score.shape[0] > 1:
            continue
        _set_up(model, task, class_index, rival, search)
        enclose(model, task, row, search, np.inf)
        set_costs(model, task.x[row], task, search)
        for k in range(2):
            start(model, search, FROM_THE_ROW)
            found = _climb_to(model, search, 1.0) if k == 0 else climb_for_less(model, search, np.inf)
            if found and is_answer(model, task.x[row], search, class_index):
                copy_point(search.point, task.example[row])
                task.each[row].status = FOUND
                return


@kernel(about="the heuristic attack", seconds=3.0)
def bring_nearer(model, task, first, end, search):
    """Bring the examples of rows nearer to them."""
    known = search.radius[0]
    for row in range(first, end):
        class_index = task.each[row].class_index
        if task.each[row].status == UNFINISHED:
            _find_any(model, task, row, search)
        if task.each[row].status != FOUND:
            continue
        known.best = measure_example(model, task, row)
        _set_up(model, task, class_index, predict_point(model, task.example[row], search.output), search)
        enclose(model, task, row, search, known.best)
        set_costs(model, task.x[row], task, search)
        if task.norm == INFINITY_NORM:
            _shrink(model, task, row, search)
            continue
        choose_point(model, task.example[row], search.axes)
        start(model, search, not FROM_THE_ROW)
        _shorten(model, task, row, search)
        for rival in range(find_last_rival(model, class_index) + 1):
            if rival != class_index or model.base_score.shape[0] == 1:
                _set_up(model, task, class_index, rival, search)
                _start_again(model, task, row, search)
