"""A local search for adversarial examples: quick, and mostly right. What it misses the exact search finds.

One pass over the leaves tells, for every axis at once, how the sum changes if the row moves to another cell of that
axis: a leaf counts if it contains the row but for one axis at most.
"""

import numpy as np

from hardwood._kernels.compiling import inner
from hardwood._kernels.ensemble_state import add_costs, touch, touch_none


@inner
def _move_category(model, leaf, axis, search):
    """A leaf that only lacks the row's category: it gains wherever it allows another one."""
    axes, cells, each, bounds = search.axes, search.cells, search.leaves, search.bounds
    n_features = model.features.shape[0]
    begin = end = n_features
    for j in range(n_features):
        if begin <= axis < end:
            break
        begin, end = end, end + model.features[j].n_categories
    value = each[leaf].value
    for other in range(begin, end):
        touch(search, other)
        cells[axes[other].start + 1].loss += value
    for k in range(each[leaf].start, each[leaf].end):
        if begin <= bounds[k].axis < end:
            cells[axes[bounds[k].axis].start + 1].loss -= value


@inner
def _find_gains(model, search, level):
    """Fill the cells' `loss` with what each move gains, as differences between cells; the present sum."""
    axes, cells, each, bounds = search.axes, search.cells, search.leaves, search.bounds
    now, here = search.now[0], search.levels[level]
    slots, marks, n_features = search.slots, search.marks, search.point.shape[0]
    touch_none(search)
    total = here.settled
    begin, stop = marks[here.mark], marks[here.mark + here.n_trees]
    now.work += stop - begin
    for i in range(begin, stop):
        leaf = slots[np.uintp(i)]
        one = each[np.uintp(leaf)]
        value, first_bound, end_bound = one.value, one.start, one.end
        outside, at = 0, 0
        for k in range(first_bound, end_bound):
            bound = bounds[np.uintp(k)]
            chosen = axes[np.uintp(bound.axis)].chosen
            if chosen < bound.first or chosen > bound.last:
                outside += 1
                at = k
                if outside > 1:
                    break
        if outside > 1:
            continue
        if outside == 1:
            bound = bounds[np.uintp(at)]
            j = bound.axis
            if j >= n_features:
                _move_category(model, leaf, j, search)
            else:
                touch(search, j)
                axis = axes[np.uintp(j)]
                cells[np.uintp(axis.start + max(bound.first, axis.low))].loss += value
                cells[np.uintp(axis.start + min(bound.last, axis.high) + 1)].loss -= value
            continue
        total += value
        for k in range(first_bound, end_bound):
            bound = bounds[np.uintp(k)]
            axis = axes[np.uintp(bound.axis)]
            touch(search, bound.axis)
            # Wherever this leaf does not reach on the axis, its value is lost.
            if bound.first > axis.low:
                cells[np.uintp(axis.start + axis.low)].loss -= value
                cells[np.uintp(axis.start + bound.first)].loss += value
            if bound.last < axis.high:
                cells[np.uintp(axis.start + bound.last + 1)].loss -= value
    return total


@inner
def _move(model, search, axis, cell):
    """Move the row to a cell; a category takes the place of the one before."""
    axes = search.axes
    n_features = model.features.shape[0]
    if axis >= n_features:
        for j in range(n_features):
            begin = n_features + model.features[j].category_start
            if begin <= axis < begin + model.features[j].n_categories:
                for other in range(begin, begin + model.features[j].n_categories):
                    axes[other].chosen = 0
    axes[axis].chosen = cell


@inner
def _start(model, search, fresh):
    """Start at the row, or go on from where the last climb ended; outside of the box, from the nearest cell of it."""
    axes = search.axes
    n_features = model.features.shape[0]
    for axis in range(axes.shape[0]):
        axes[axis].chosen = min(max(axes[axis].own if fresh else axes[axis].chosen, axes[axis].low), axes[axis].high)
    for j in range(n_features):
        begin = n_features + model.features[j].category_start
        some = np.int64(-1)
        for axis in range(begin, begin + model.features[j].n_categories):
            if axes[axis].chosen == 1 or (some < 0 and axes[axis].high == 1):
                some = np.int64(axis)
        if some >= 0:
            axes[some].chosen = 1


@inner
def _find_moves(search):
    """The best move on each axis that has some: its gain goes to `cheapest`, its cell to `front`; the best axis."""
    axes, cells, now = search.axes, search.cells, search.now[0]
    n_features = search.point.shape[0]
    best, best_axis = 0.0, np.int64(-1)
    for i in range(now.n_touched):
        axis = axes[i].touched
        low, high, at = axes[axis].low, axes[axis].high, axes[axis].start
        running, most = 0.0, 0.0
        for cell in range(low, high + 1):
            running += cells[np.uintp(at + cell)].loss
            if running > most and cell != axes[axis].chosen and (axis < n_features or cell == 1):
                most = running
                axes[axis].front = cell
        axes[axis].cheapest = most
        if most > best:
            best, best_axis = most, np.int64(axis)
    return best_axis


@inner
def climb(model, search, level, target, fresh):
    """Go to larger sums until one is at least `target`, from the row or from the last climb's end; the sum reached.

    Numbers that gain at least half as much as the best move are moved along with it. Where moves get in each other's
    way, only the best one is made.
    """
    axes, now = search.axes, search.now[0]
    _start(model, search, fresh)
    n_features = model.features.shape[0]
    n_moved, promised = 0, -np.inf
    while True:
        total = _find_gains(model, search, level)
        if total >= target:
            return total
        if n_moved > 1 and total < promised:
            for i in range(1, n_moved):
                axes[axes[i].pending].chosen = axes[axes[i].pending].back
            n_moved = 1
            continue
        best_axis = _find_moves(search)
        # Less than this is rounding, and the climb would not end.
        if best_axis < 0 or axes[best_axis].cheapest <= max(now.rounding, 1e-12 * abs(total)):
            return total
        promised, n_moved = total + axes[best_axis].cheapest, 1
        _move(model, search, best_axis, axes[best_axis].front)
        for i in range(now.n_touched):
            axis = axes[i].touched
            if axis < n_features and axis != best_axis and 2.0 * axes[axis].cheapest > axes[best_axis].cheapest:
                axes[n_moved].pending, axes[axis].back, axes[axis].chosen = axis, axes[axis].chosen, axes[axis].front
                n_moved += 1


@inner
def descend(model, search, level, target, additive):
    """From an answer go to cheaper ones, one axis at a time, with a sum of at least `target`; the cost at the end."""
    axes, cells, now = search.axes, search.cells, search.now[0]
    n_features = model.features.shape[0]
    while True:
        total = _find_gains(model, search, level)
        best, best_axis, best_cell = 0.0, np.int64(-1), np.int64(0)
        for i in range(now.n_active):
            axis = axes[i].active
            low, high, at = axes[axis].low, axes[axis].high, axes[axis].start
            running = 0.0
            for cell in range(low, high + 1):
                running += cells[at + cell].loss if axes[axis].is_touched else 0.0
                saved = cells[at + axes[axis].chosen].cost - cells[at + cell].cost
                if axis >= n_features:
                    # Back to the row's own category; other changes of category cost the same.
                    saved = cells[at].cost if cell == 1 and axes[axis].chosen == 0 else 0.0
                if saved > best and total + running >= target:
                    best, best_axis, best_cell = saved, np.int64(axis), cell
        if best_axis < 0:
            return add_costs(search, additive)
        _move(model, search, best_axis, best_cell)
