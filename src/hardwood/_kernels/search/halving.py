"""Where a box is halved, and which half comes first."""

import numpy as np

from hardwood._kernels.compiling import inner
from hardwood._kernels.search.state import CHEAPEST


@inner
def halve_answer(search, level, goal):
    """Where to halve a box whose answer is not the last word: off what makes the answer dear; else along its edge."""
    axes, levels, cells, progress = search.axes, search.levels, search.cells, search.progress[0]
    best_axis, best_cell, most = np.int64(-1), 0, 0.0
    for i in range(progress.n_active):
        axis = axes[i].active
        low, high, at = axes[axis].low, axes[axis].high, axes[axis].start
        if low == high or goal != CHEAPEST:
            continue
        cell = axes[axis].chosen
        excess = cells[at + cell].cost - axes[axis].cheapest
        if excess > most:
            cheap = low
            while cells[at + cheap].cost > axes[axis].cheapest:
                cheap += 1
            best_axis, best_cell, most = np.int64(axis), (cell - 1 if cheap < cell else cell), excess
    if best_axis < 0:
        for i in range(progress.n_touched):
            axis = axes[i].touched
            if axes[axis].low < axes[axis].probe.first:
                best_axis, best_cell = np.int64(axis), axes[axis].probe.first - 1
            elif axes[axis].probe.last < axes[axis].high:
                best_axis, best_cell = np.int64(axis), axes[axis].probe.last
    if best_axis >= 0:
        levels[level].axis, levels[level].cell = best_axis, best_cell
    return best_axis >= 0


@inner
def halve_conflict(search, level):
    """Where to halve a box whose best leaves do not go together: so that both halves lose much."""
    axes, levels, cells, progress = search.axes, search.levels, search.cells, search.progress[0]
    best_less, best_more, best_balance = -1.0, -1.0, -1.0
    for i in range(progress.n_touched):
        axis = axes[i].touched
        low, high, at = axes[axis].low, axes[axis].high, axes[axis].start
        running = np.inf
        for cell in range(high, low - 1, -1):
            running = min(running, cells[at + cell].loss)
            cells[at + cell].least = running
        running = np.inf
        for cell in range(low, high):
            running = min(running, cells[at + cell].loss)
            less, more = min(running, cells[at + cell + 1].least), max(running, cells[at + cell + 1].least)
            if less < best_less or (less == best_less and more < best_more):
                continue
            balance = min(cell + 1 - low, high - cell) / (high - low + 1.0)
            if less > best_less or more > best_more or balance > best_balance:
                best_less, best_more, best_balance = less, more, balance
                levels[level].axis, levels[level].cell = axis, cell


@inner
def order_halves(search, level, total, together, goal, additive):
    """Note bounds of both halves, and which one is put off: the dearer one, or the one that loses more."""
    axes, levels, cells = search.axes, search.levels, search.cells
    axis, last = levels[level].axis, levels[level].cell
    at = axes[axis].start
    loss_low = loss_high = 0.0
    if axes[axis].is_touched == 1:
        loss_low = loss_high = np.inf
        for cell in range(axes[axis].low, axes[axis].high + 1):
            if cell <= last:
                loss_low = min(loss_low, cells[at + cell].loss)
            else:
                loss_high = min(loss_high, cells[at + cell].loss)
    floor_low = floor_high = 0.0
    if goal == CHEAPEST:
        floor_low = floor_high = np.inf
        for cell in range(axes[axis].low, axes[axis].high + 1):
            cost = cells[at + cell].cost
            cost = together - axes[axis].cheapest + cost if additive else max(together, cost)
            if cell <= last:
                floor_low = min(floor_low, cost)
            else:
                floor_high = min(floor_high, cost)
    low_first = loss_low <= loss_high
    if floor_low != floor_high and (additive or loss_low == loss_high):
        low_first = floor_low < floor_high
    levels[level].side = 1 if low_first else 0
    levels[level].other_bound = min(total - (loss_high if low_first else loss_low), levels[level].bound)
    levels[level].other_floor = floor_high if low_first else floor_low
    levels[level + 1].bound = min(total - (loss_low if low_first else loss_high), levels[level].bound)
    levels[level + 1].floor = floor_low if low_first else floor_high
