"""The local search for adversarial examples: quick, and mostly right. What it misses the exact search finds.

Decisions and distances begin with it (`decisions`, `distances`), and the heuristic attack is nothing else (`nearing`).
"""

import numpy as np

from hardwood._kernels.compiling import inner
from hardwood._kernels.search.single_moves import NEARBY, add_up, measure_moves
from hardwood._kernels.search.state import add_costs

FROM_THE_ROW = np.bool_(True)  # of one type with what it stands in for: see compiling


@inner
def move(model, search, axis, cell):
    """Move the row to a cell; a category takes the place of the one before."""
    axes = search.axes
    n_features = model.features.shape[0]
    if axis >= n_features:
        for j in range(n_features):
            begin = n_features + model.features[j].category_start
            if begin <= axis < begin + model.features[j].n_categories:
                for other in range(begin, begin + model.features[j].n_categories):
                    axes[other].chosen = 0
                axes[j].chosen = axis - begin
    axes[axis].chosen = cell


@inner
def start(model, search, fresh):
    """Start at the row, or go on from where the last climb ended; outside of the box, from the nearest cell of it."""
    axes, progress = search.axes, search.progress[0]
    n_features = model.features.shape[0]
    for i in range(progress.n_active):
        here = axes[axes[i].active]
        here.chosen = min(max(here.own if fresh else here.chosen, here.low), here.high)
    for j in range(n_features if model.sets.shape[0] else 0):
        begin = n_features + model.features[j].category_start
        some = np.int64(-1)
        for axis in range(begin, begin + model.features[j].n_categories):
            if axes[axis].chosen == 1 or (some < 0 and axes[axis].high == 1):
                some = np.int64(axis)
        if some >= 0:
            axes[some].chosen, axes[j].chosen = 1, some - begin


@inner
def _find_moves(search):
    """Note the best move on each axis that has some; the axis of the best of all, or -1."""
    axes, cells, progress = search.axes, search.cells, search.progress[0]
    n_features = search.point.shape[0]
    best, best_axis = 0.0, np.int64(-1)
    for i in range(progress.n_touched):
        axis = axes[i].touched
        low, high, at = axes[axis].low, axes[axis].high, axes[axis].start
        running, most = 0.0, 0.0
        for cell in range(low, high + 1):
            running += cells[np.uintp(at + cell)].gain
            if running > most and cell != axes[axis].chosen and (axis < n_features or cell == 1):
                most = running
                axes[axis].move.cell = cell
        axes[axis].move.gain = most
        if most > best:
            best, best_axis = most, np.int64(axis)
    return best_axis


@inner
def _move_back(search, n_moved):
    """Take moves back, but for the best one."""
    axes = search.axes
    for i in range(1, n_moved):
        axis = axes[i].move.moved
        axes[axis].chosen = axes[axis].move.before


@inner
def _move_along(model, search, best_axis, share, hoped):
    """Along with the best move, make those on other axes of numbers that gain more than a share of it.

    Returns how many axes have moved, and what sum they come to if they do not get in each other's way.
    """
    axes, progress = search.axes, search.progress[0]
    n_features = model.features.shape[0]
    n_moved = 1
    for i in range(progress.n_touched):
        axis = axes[i].touched
        if axis < n_features and axis != best_axis and axes[axis].move.gain > share * axes[best_axis].move.gain:
            axes[n_moved].move.moved, axes[axis].move.before = axis, axes[axis].chosen
            axes[axis].chosen = axes[axis].move.cell
            hoped += axes[axis].move.gain
            n_moved += 1
    return n_moved, hoped


@inner
def climb(model, search, total, target, share):
    """From the chosen cells, of which `measure_moves` has told, go to larger sums up to `target`; the sum reached.

    All moves that gain more than a share of what the best one does are made at once, unless one is enough. Where they
    get in each other's way, only the best one is made.
    """
    axes = search.axes
    while total < target:
        best_axis = _find_moves(search)
        # Less than this is rounding, and the climb would not end.
        if best_axis < 0 or axes[best_axis].move.gain <= max(search.question[0].rounding, 1e-12 * abs(total)):
            return total
        promised, n_moved = total + axes[best_axis].move.gain, 1
        hoped = promised
        move(model, search, best_axis, axes[best_axis].move.cell)
        if promised < target:
            n_moved, hoped = _move_along(model, search, best_axis, share, promised)
        is_measured = hoped < target
        if is_measured:
            total, _, _ = measure_moves(model, search, NEARBY)
        else:  # the end, maybe: then the sum is all that is needed
            total = add_up(model, search)
        if total >= target:
            break
        if n_moved > 1 and total < promised:
            _move_back(search, n_moved)
            is_measured = False
        if not is_measured:
            total, _, _ = measure_moves(model, search, NEARBY)
    return total


@inner
def _price_move(model, search, axis, cell):
    """What a move adds to the cost. Of categories, the row's own costs nothing, and all others the same."""
    axes, cells = search.axes, search.cells
    n_features = model.features.shape[0]
    at = axes[axis].start
    if axis < n_features:
        return cells[at + cell].cost - cells[at + axes[axis].chosen].cost
    if axes[axis].own == 1:
        return -cells[at].cost
    for j in range(n_features):
        begin = n_features + model.features[j].category_start
        if begin <= axis < begin + model.features[j].n_categories:
            for other in range(begin, begin + model.features[j].n_categories):
                if axes[other].own == 1 and axes[other].chosen == 1:
                    return cells[axes[other].start].cost
    return 0.0


@inner
def _find_bargain(model, search, total, spare):
    """The cheapest move that is enough, or if there is none the one that gains most for its cost: (axis, cell).

    Only moves that cost less than `spare` are made; (-1, 0) if there is none.
    """
    axes, cells, progress, question = search.axes, search.cells, search.progress[0], search.question[0]
    n_features = model.features.shape[0]
    best_axis, best_cell, best, best_suffices = np.int64(-1), np.int64(0), -np.inf, False
    for i in range(progress.n_touched):
        axis = np.int64(axes[i].touched)
        low, high, at = axes[axis].low, axes[axis].high, axes[axis].start
        running = 0.0
        for cell in range(low, high + 1):
            running += cells[np.uintp(at + cell)].gain
            if running <= question.rounding or cell == axes[axis].chosen or (axis >= n_features and cell != 1):
                continue
            added = _price_move(model, search, axis, cell)
            if not added < spare:
                continue
            suffices = total + running >= question.target
            score = -added if suffices else (running / added if added > 0.0 else np.inf)
            if suffices > best_suffices or (suffices == best_suffices and score > best):
                best_axis, best_cell, best, best_suffices = axis, np.int64(cell), score, suffices
    return best_axis, best_cell


@inner
def climb_for_less(model, search, budget):
    """From the chosen cells go up to the target, by what gains most for its cost; whether that is within a budget.

    Costs are those that add up.
    """
    target = search.question[0].target
    total, _, _ = measure_moves(model, search, NEARBY)
    while total < target:
        axis, cell = _find_bargain(model, search, total, budget - add_costs(search, True))
        if axis < 0:
            return False
        move(model, search, axis, cell)
        before = total
        total, _, _ = measure_moves(model, search, NEARBY)
        if total <= before:
            return False  # the gain was rounding
    return add_costs(search, True) < budget


@inner
def descend(model, search, target, additive):
    """From an answer go to cheaper ones, one axis at a time, with a sum of at least `target`; the cost at the end."""
    axes, cells, progress = search.axes, search.cells, search.progress[0]
    n_features = model.features.shape[0]
    while True:
        total, _, _ = measure_moves(model, search, NEARBY)
        best, best_axis, best_cell = 0.0, np.int64(-1), np.int64(0)
        for i in range(progress.n_active):
            axis = axes[i].active
            low, high, at = axes[axis].low, axes[axis].high, axes[axis].start
            running = 0.0
            for cell in range(low, high + 1):
                running += cells[at + cell].gain if axes[axis].is_touched else 0.0
                saved = cells[at + axes[axis].chosen].cost - cells[at + cell].cost
                if axis >= n_features:
                    # Back to the row's own category; other changes of category cost the same.
                    saved = cells[at].cost if cell == 1 and axes[axis].chosen == 0 else 0.0
                if saved > best and total + running >= target:
                    best, best_axis, best_cell = saved, np.int64(axis), cell
        if best_axis < 0:
            return add_costs(search, additive)
        move(model, search, best_axis, best_cell)
