"""Attacks that change one feature at a time, each to the value that lowers the margin of the row's class most."""

import numpy as np

from hardwood._kernels.compiling import kernel, part
from hardwood._kernels.search.climbing import FROM_THE_ROW, move, start
from hardwood._kernels.search.leaves import MISSING, open_trees
from hardwood._kernels.search.radius import set_costs
from hardwood._kernels.search.rows import enclose, find_last_rival, is_answer, set_up
from hardwood._kernels.search.single_moves import NEARBY, measure_moves
from hardwood._kernels.search.state import FOUND, go_back, keep_chosen, write_point


@part
def _note_margins(search, margin, is_first):
    """Note in all cells what the margin over one rival is there, if it is the least so far."""
    axes, cells = search.axes, search.cells
    for i in range(search.progress[0].n_active):
        axis = axes[i].active
        running = 0.0
        for cell in range(axes[axis].start + axes[axis].low, axes[axis].start + axes[axis].high + 1):
            here = cells[np.uintp(cell)]
            running += here.gain if axes[axis].is_touched else 0.0
            here.least = margin - running if is_first else min(here.least, margin - running)


@part
def _measure_margins(model, task, row, search):
    """The margin of the class over the best other one at the chosen cells; all cells get theirs."""
    class_index, question = task.each[row].class_index, search.question[0]
    n_outputs = model.base_score.shape[0]
    least = np.inf
    for rival in range(find_last_rival(model, class_index) + 1):
        if rival == class_index and n_outputs > 1:
            continue
        set_up(model, task, class_index, rival, question)
        question.step = 0.0  # leaves count for what they are worth
        if n_outputs > 2:
            open_trees(model, search)
        total, _, _ = measure_moves(model, search, NEARBY)
        margin = question.limit - total
        _note_margins(search, margin, least == np.inf)
        least = min(least, margin)
    return least


@part
def _find_lowest(model, search, margin, doubt, rounding):
    """The move to the lowest margin, if it is lower by more than doubt: (axis, cell), or (-1, 0).

    Of those that only rounding tells apart it is the one that costs least.
    """
    axes, cells, n_features = search.axes, search.cells, model.features.shape[0]
    best_axis, best_cell, least, cheapest = np.int64(-1), np.int64(0), np.inf, np.inf
    for j in range(n_features):
        if axes[j].own == MISSING:
            continue
        n_codes = model.features[j].n_categories
        begin = np.int64(j) if n_codes == 0 else n_features + model.features[j].category_start
        price = 0.0
        for axis in range(begin, begin + n_codes):
            price = max(price, cells[axes[axis].start].cost)
        for axis in range(begin, begin + max(n_codes, 1)):
            for cell in range(axes[axis].low if n_codes == 0 else 1, axes[axis].high + 1):
                here = cells[np.uintp(axes[axis].start + cell)]
                if cell == axes[axis].chosen or not margin - here.least > doubt:
                    continue
                cost = here.cost if n_codes == 0 else (0.0 if axes[axis].own == 1 else price)
                if here.least < least - rounding or (here.least <= least + rounding and cost < cheapest):
                    best_axis, best_cell, least, cheapest = np.int64(axis), np.int64(cell), here.least, cost
    return best_axis, best_cell


@part
def _find_home(model, search, j):
    """Where a feature is put back: (axis, cell), or (-1, 0) if it is there, or missing."""
    axes, n_features = search.axes, model.features.shape[0]
    if axes[j].own == MISSING:
        return np.int64(-1), np.int64(0)
    if model.features[j].n_categories == 0:
        home = np.int64(min(max(axes[j].own, axes[j].low), axes[j].high))
        return np.int64(j if axes[j].chosen != home else -1), home
    begin = n_features + model.features[j].category_start
    for axis in range(begin, begin + model.features[j].n_categories):
        if axes[axis].own == 1 and axes[axis].high == 1 and axes[axis].chosen == 0:
            return np.int64(axis), np.int64(1)
    return np.int64(-1), np.int64(0)


@part
def _put_back(model, task, row, search):
    """Put back the features, one after the other, that the example does without."""
    for j in range(model.features.shape[0]):
        axis, cell = _find_home(model, search, j)
        if axis >= 0:
            keep_chosen(search)
            move(model, search, axis, cell)
            if not is_answer(model, task.x[row], search, task.each[row].class_index):
                go_back(search)


@part
def _lower_margin(model, task, row, search, deep):
    """Change one feature after the other; whether the class has changed, in the end."""
    x, class_index = task.x[row], task.each[row].class_index
    margin, is_wrong = np.inf, False
    while deep or not is_wrong:
        before = margin
        margin = _measure_margins(model, task, row, search)
        if not margin < before:
            go_back(search)  # the gain was rounding
            break
        axis, cell = _find_lowest(model, search, margin, task.doubt, task.rounding * model.side_start.shape[0])
        if axis < 0:
            break
        keep_chosen(search)
        move(model, search, axis, cell)
        is_wrong = is_answer(model, x, search, class_index)
    return is_answer(model, x, search, class_index)


@kernel(about="the attacks by coordinates", seconds=1.9)
def change_coordinates(model, task, first, end, deep, search):
    """For each row, change one feature after the other until the class changes; then put back what is not needed.

    deep : go on for as long as the margin falls, and put nothing back.
    """
    for row in range(first, end):
        here = task.each[row]
        set_up(model, task, here.class_index, np.int64(here.class_index == 0), search.question[0])
        search.question[0].step = 0.0
        enclose(model, task, row, search, np.inf)
        set_costs(model, task.x[row], task, search)
        start(model, search, FROM_THE_ROW)
        keep_chosen(search)
        if _lower_margin(model, task, row, search, deep):
            if not deep:
                _put_back(model, task, row, search)
            write_point(model, search.axes, task.x[row], task.example[row])
            here.status = FOUND
