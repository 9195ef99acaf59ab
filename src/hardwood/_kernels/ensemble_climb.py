"""A local search for adversarial examples: quick, and mostly right. What it misses the exact search finds.

One pass over the leaves tells, for every axis at once, how the sum changes if the row moves to another cell of that
axis: a leaf counts if it contains the row but for one axis at most.
"""

import numpy as np

from hardwood._kernels.compiling import inner
from hardwood._kernels.ensemble_search import WORK, add_costs


@inner
def _move_category(model, leaves, leaf, axis, search):
    """A leaf that only lacks the row's category: it gains wherever it allows another one."""
    n_features = model.n_categories.shape[0]
    j = 0
    while axis >= n_features + model.category_start[j] + model.n_categories[j] or model.n_categories[j] == 0:
        j += 1
    begin = n_features + model.category_start[j]
    value = leaves.value[leaf]
    for other in range(begin, begin + model.n_categories[j]):
        search.loss[model.cell_start[other] + 1] += value
    for k in range(leaves.start[leaf], leaves.end[leaf]):
        if begin <= leaves.axis[k] < begin + model.n_categories[j]:
            search.loss[model.cell_start[leaves.axis[k]] + 1] -= value


@inner
def _find_gains(model, leaves, place, search, level):
    """Fill `search.loss` with what each move gains, as differences between cells; the present sum."""
    gain, chosen, cell_start = search.loss, search.chosen, model.cell_start
    start, end, bound_axis, first, last = leaves.start, leaves.end, leaves.axis, leaves.first, leaves.last
    slots, marks, value, n_features = search.slots, search.marks, leaves.value, model.n_categories.shape[0]
    low, high, active = place.low, place.high, place.active
    for i in range(place.n_active[0]):
        axis = active[i]
        for cell in range(cell_start[axis] + low[axis], cell_start[axis] + high[axis] + 2):
            gain[cell] = 0.0
    total = search.settled[level]
    begin, stop = marks[search.mark[level]], marks[search.mark[level] + search.n_trees[level]]
    search.state[WORK] += stop - begin
    for i in range(begin, stop):
        leaf = slots[i]
        outside, at = 0, 0
        for k in range(start[leaf], end[leaf]):
            j = bound_axis[k]
            if chosen[j] < first[k] or chosen[j] > last[k]:
                outside += 1
                at = k
                if outside > 1:
                    break
        if outside > 1:
            continue
        if outside == 1:
            j = bound_axis[at]
            if j >= n_features:
                _move_category(model, leaves, leaf, j, search)
            else:
                gain[cell_start[j] + max(first[at], low[j])] += value[leaf]
                gain[cell_start[j] + min(last[at], high[j]) + 1] -= value[leaf]
            continue
        total += value[leaf]
        for k in range(start[leaf], end[leaf]):
            j = bound_axis[k]
            # Wherever this leaf does not reach on the axis, its value is lost.
            gain[cell_start[j] + low[j]] -= value[leaf]
            gain[cell_start[j] + max(first[k], low[j])] += value[leaf]
            gain[cell_start[j] + min(last[k], high[j]) + 1] -= value[leaf]
    return total


@inner
def _move(model, place, search, axis, cell):
    """Move the row to a cell; a category takes the place of the one before."""
    n_features = model.n_categories.shape[0]
    if axis >= n_features:
        for j in range(n_features):
            begin = n_features + model.category_start[j]
            if begin <= axis < begin + model.n_categories[j]:
                for other in range(begin, begin + model.n_categories[j]):
                    search.chosen[other] = 0
    search.chosen[axis] = cell


@inner
def _start(model, place, search, fresh):
    """Start at the row, or go on from where the last climb ended; outside of the box, from the nearest cell of it."""
    chosen, n_features = search.chosen, model.n_categories.shape[0]
    for axis in range(place.own.shape[0]):
        chosen[axis] = min(max(place.own[axis] if fresh else chosen[axis], place.low[axis]), place.high[axis])
    for j in range(n_features):
        begin = n_features + model.category_start[j]
        some = np.int64(-1)
        for axis in range(begin, begin + model.n_categories[j]):
            if chosen[axis] == 1 or (some < 0 and place.high[axis] == 1):
                some = np.int64(axis)
        if some >= 0:
            chosen[some] = 1


@inner
def _find_moves(model, place, search):
    """The best move on each axis: its gain goes to `search.cheapest`, its cell to `search.front`; the best axis."""
    gain, best_gain, best_cell = search.loss, search.cheapest, search.front
    n_features, chosen = model.n_categories.shape[0], search.chosen
    best, best_axis = 0.0, np.int64(-1)
    for i in range(place.n_active[0]):
        axis = place.active[i]
        low, high, at = place.low[axis], place.high[axis], model.cell_start[axis]
        running, most = 0.0, 0.0
        for cell in range(low, high + 1):
            running += gain[at + cell]
            if running > most and cell != chosen[axis] and (axis < n_features or cell == 1):
                most = running
                best_cell[axis] = cell
        best_gain[axis] = most
        if most > best:
            best, best_axis = most, np.int64(axis)
    return best_axis


@inner
def climb(model, leaves, place, search, level, target, fresh):
    """Go to larger sums until one is at least `target`, from the row or from the last climb's end; the sum reached.

    Numbers that gain at least half as much as the best move are moved along with it. Where moves get in each other's
    way, only the best one is made.
    """
    _start(model, place, search, fresh)
    n_features, chosen = model.n_categories.shape[0], search.chosen
    best_gain, best_cell, moved, before = search.cheapest, search.front, search.pending, search.back
    n_moved, promised = 0, -np.inf
    while True:
        total = _find_gains(model, leaves, place, search, level)
        if total >= target:
            return total
        if n_moved > 1 and total < promised:
            for i in range(1, n_moved):
                chosen[moved[i]] = before[moved[i]]
            n_moved = 1
            continue
        best_axis = _find_moves(model, place, search)
        # Less than this is rounding, and the climb would not end.
        if best_axis < 0 or total + best_gain[best_axis] <= total + 1e-12 * abs(total):
            return total
        promised, n_moved = total + best_gain[best_axis], 1
        _move(model, place, search, best_axis, best_cell[best_axis])
        for i in range(place.n_active[0]):
            axis = place.active[i]
            if axis < n_features and axis != best_axis and 2.0 * best_gain[axis] > best_gain[best_axis]:
                moved[n_moved], before[axis], chosen[axis] = axis, chosen[axis], best_cell[axis]
                n_moved += 1


@inner
def descend(model, leaves, place, search, level, target, additive):
    """From an answer go to cheaper ones, one axis at a time, with a sum of at least `target`; the cost at the end."""
    gain, n_features, cost = search.loss, model.n_categories.shape[0], search.cost
    while True:
        total = _find_gains(model, leaves, place, search, level)
        best, best_axis, best_cell = 0.0, np.int64(-1), np.int64(0)
        for i in range(place.n_active[0]):
            axis = place.active[i]
            low, high, at = place.low[axis], place.high[axis], model.cell_start[axis]
            running = 0.0
            for cell in range(low, high + 1):
                running += gain[at + cell]
                saved = cost[at + search.chosen[axis]] - cost[at + cell]
                if axis >= n_features:
                    # Back to the row's own category; other changes of category cost the same.
                    saved = cost[at] if cell == 1 and search.chosen[axis] == 0 else 0.0
                if saved > best and total + running >= target:
                    best, best_axis, best_cell = saved, np.int64(axis), cell
        if best_axis < 0:
            return add_costs(model, place, search, additive)
        _move(model, place, search, best_axis, best_cell)
