"""What each cell of a box loses, and which cells lose or cost too much to be part of an answer."""

import numpy as np

from hardwood._kernels.compiling import inner, part
from hardwood._kernels.search.state import CHEAPEST, narrow, touch, touch_none


@inner
def _start_tree(search, top):
    """Note the bounds of a tree's best leaf: the axes on which some cells are out of its reach; how many there are."""
    axes, cells, each, bounds = search.axes, search.cells, search.leaves, search.bounds
    n_pending = 0
    for k in range(each[top].start, each[top].end):
        bound = bounds[np.uintp(k)]
        here, probe = axes[np.uintp(bound.axis)], axes[np.uintp(bound.axis)].probe
        if bound.first <= here.low and bound.last >= here.high:
            continue
        if here.is_touched == 0:
            touch(search, bound.axis)
            for cell in range(here.start + here.low, here.start + here.high + 2):
                cells[np.uintp(cell)].loss = 0.0
            probe.first, probe.last = here.low, here.high
        probe.front, probe.back = max(bound.first, here.low), min(bound.last, here.high)
        probe.first, probe.last = max(probe.first, probe.front), min(probe.last, probe.back)
        axes[n_pending].probe.pending = bound.axis
        n_pending += 1
    return n_pending


@inner
def measure_losses(search, level, total):
    """Work out what each cell loses, as differences between neighbouring cells, on axes with losses."""
    axes, cells, each, bounds = search.axes, search.cells, search.leaves, search.bounds
    slots, marks = search.slots, search.marks
    question, progress = search.question[0], search.progress[0]
    slack = total - question.target + question.rounding
    touch_none(search)
    tick, work = progress.tick, 0
    mark, n_trees = search.levels[level].mark, search.levels[level].n_trees
    for tree in range(n_trees):
        i, stop = marks[mark + tree], marks[mark + tree + 1]
        top = each[slots[i]].value
        n_pending = _start_tree(search, slots[i])
        while n_pending > 0:
            i += 1
            leaf = each[np.uintp(slots[np.uintp(i)])]
            lost = top - leaf.value
            # No leaf from here on can be part of an answer: as if this one reached everywhere.
            everywhere = lost > slack or i + 1 == stop
            tick += 1
            work += 1
            if not everywhere:
                for k in range(leaf.start, leaf.end):
                    bound = bounds[np.uintp(k)]
                    here = axes[np.uintp(bound.axis)].probe
                    here.leaf_tick, here.leaf_first, here.leaf_last = tick, bound.first, bound.last
            still = 0
            for r in range(n_pending):
                j = axes[np.uintp(r)].probe.pending
                here, known = axes[np.uintp(j)], axes[np.uintp(j)].probe
                low, high, at = here.low, here.high, here.start
                if known.leaf_tick == tick:
                    low, high = max(low, known.leaf_first), min(high, known.leaf_last)
                if low < known.front:
                    cells[np.uintp(at + low)].loss += lost
                    cells[np.uintp(at + known.front)].loss -= lost
                    known.front = low
                if high > known.back:
                    cells[np.uintp(at + known.back + 1)].loss += lost
                    cells[np.uintp(at + high + 1)].loss -= lost
                    known.back = high
                if known.front > here.low or known.back < here.high:
                    axes[np.uintp(still)].probe.pending = j
                    still += 1
            n_pending = still
    progress.tick = tick
    progress.work += work + n_trees + progress.n_active
    for i in range(progress.n_touched):
        here = axes[axes[i].touched]
        running = 0.0
        for cell in range(here.start + here.low, here.start + here.high + 1):
            running += cells[np.uintp(cell)].loss
            cells[np.uintp(cell)].loss = running


@inner
def find_cheapest(search, additive):
    """Note the least cost on each axis within the box, that of the cell nearest to the row's; the least of a point."""
    axes, cells, progress = search.axes, search.cells, search.progress[0]
    together = 0.0
    for i in range(progress.n_active):
        here = axes[np.uintp(axes[np.uintp(i)].active)]
        least = cells[np.uintp(here.start + min(max(here.own, here.low), here.high))].cost
        here.cheapest = least
        together = together + least if additive else max(together, least)
    return together


@part
def _is_hopeless(axis, cell, total, least_sum, rest, within):
    """Whether a cell loses or costs too much to be part of an answer."""
    return (axis.is_touched and total - cell.loss < least_sum) or rest + cell.cost >= within


@inner
def shave(search, total, together, goal, additive):
    """Take cells that cannot be part of an answer off the ends of the box: (whether none is left, whether any was)."""
    axes, cells, question, progress = search.axes, search.cells, search.question[0], search.progress[0]
    shaved = False
    least_sum, within = question.target - question.rounding, search.radius[0].within if goal == CHEAPEST else np.inf
    for i in range(progress.n_active if goal == CHEAPEST else progress.n_touched):
        axis = axes[np.uintp(i)].active if goal == CHEAPEST else axes[np.uintp(i)].touched
        here = axes[np.uintp(axis)]
        low, high, at = here.low, here.high, here.start
        if low == high:
            continue
        rest = together - here.cheapest if goal == CHEAPEST and additive else 0.0
        while low <= high and _is_hopeless(here, cells[np.uintp(at + low)], total, least_sum, rest, within):
            low += 1
        if low > high:
            return True, shaved
        while _is_hopeless(here, cells[np.uintp(at + high)], total, least_sum, rest, within):
            high -= 1
        if low > here.low or high < here.high:
            narrow(search, axis, low, high)
            shaved = True
    return False, shaved
