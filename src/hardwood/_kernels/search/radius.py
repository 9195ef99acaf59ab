"""What changes cost, and what is within a radius of a row.

In the L-infinity norm all that is within a radius is a box of cells. In the others it is only within one: what costs no
more than the radius costs no more on any axis.
"""

import numpy as np

from hardwood._kernels.compiling import inner, part
from hardwood._kernels.search.categories import settle_categories
from hardwood._kernels.search.leaves import MISSING, find_cell, find_last_cell
from hardwood._kernels.search.state import narrow

INFINITY_NORM = -1
# Costs are kept finite: infinity means that there is no example.
LARGEST_COST = 1e300
# Costs up to this, and down to its inverse, are exact: there are numbers for them, their sums and their squares.
SAFE_COST = 2.0**800


@part
def _measure_cost(task, j, lower, upper):
    """What it costs to change a feature from one number to another, in scaled units.

    Whatever is large is made smaller before it can leave the range of numbers.
    """
    if task.scale < 1.0:
        cost = task.weight[j] * (upper * task.scale - lower * task.scale)
    else:
        cost = task.weight[j] * (upper - lower) * task.scale
    if task.norm == 2:
        cost *= cost
    return cost if cost < LARGEST_COST else LARGEST_COST


@part
def _price_change(task, j):
    """What any change of a feature costs, of a category or in the L0 norm, in scaled units."""
    cost = task.weight[j] * task.scale
    if task.norm == 2:
        cost *= cost
    return cost if cost < LARGEST_COST else LARGEST_COST


@part
def _measure_reach(task, j, radius):
    """How far a feature can be changed for a cost, and a trifle more: what counts is the cost of the cells."""
    cost = np.sqrt(radius) if task.norm == 2 else radius
    weight, scale = task.weight[j], task.scale
    change = cost / weight / scale if scale < 1.0 else cost / scale / weight  # whatever is large is made smaller first
    return change * (1.0 + 1e-9) + 1e-300


@inner
def limit_radius(model, task, row, radius, axes):
    """Limit the row's reach to where a change of one feature costs no more than a radius; whether that is all of it."""
    whole = True
    x, n_features = task.x[row], task.x.shape[1]
    for j in range(n_features):
        if axes[j].own == MISSING:
            continue
        n_categories = model.features[j].n_categories
        if (n_categories or task.norm == 0) and _price_change(task, j) > radius:
            whole &= axes[j].low == axes[j].high
            axes[j].low = axes[j].high = axes[j].own
            for code in range(n_categories):
                axis = n_features + model.features[j].category_start + code
                whole &= axes[axis].high == axes[axis].own
                axes[axis].high = axes[axis].own
        elif n_categories == 0 and task.norm != 0 and task.weight[j] > 0.0:
            reach = _measure_reach(task, j, radius)
            low, high = find_cell(model, j, x[j] - reach), find_last_cell(model, j, x[j] + reach)
            whole &= low <= axes[j].low and high >= axes[j].high
            axes[j].low, axes[j].high = max(low, axes[j].low), min(high, axes[j].high)
    return whole


@inner
def measure_example(model, task, row):
    """What the example of a row costs."""
    x, example = task.x[row], task.example[row]
    total = 0.0
    for j in range(x.shape[0]):
        if x[j] == example[j] or x[j] != x[j]:
            continue
        if task.norm == 0 or model.features[j].n_categories:
            cost = _price_change(task, j)
        else:
            cost = _measure_cost(task, j, min(x[j], example[j]), max(x[j], example[j]))
        total = max(total, cost) if task.norm == INFINITY_NORM else total + cost
    return total


@inner
def set_costs(model, x, task, search):
    """Work out what it costs to move to each cell."""
    axes, cells = search.axes, search.cells
    n_features = x.shape[0]
    for i in range(search.progress[0].n_active):
        axis = axes[i].active
        at = axes[axis].start
        if axis >= n_features:
            continue
        own, start = axes[axis].own, model.features[axis].threshold_start
        for cell in range(axes[axis].low, axes[axis].high + 1):
            cost = 0.0
            if task.norm == 0:
                cost = _price_change(task, axis) if cell != own else 0.0
            elif cell > own:
                cost = _measure_cost(task, axis, x[axis], model.above[start + cell - 1])
            elif cell < own:
                cost = _measure_cost(task, axis, model.thresholds[start + cell], x[axis])
            cells[at + cell].cost = cost
    for j in range(n_features):
        for code in range(model.features[j].n_categories):
            axis = n_features + model.features[j].category_start + code
            at = axes[axis].start
            cells[at].cost = _price_change(task, j) if axes[axis].own == 1 else 0.0
            cells[at + 1].cost = 0.0


@inner
def price_leaves(search):
    """Work out what each leaf costs: on some axis a point of it costs as much. Costs rise away from the row."""
    axes, cells, each, bounds = search.axes, search.cells, search.leaves, search.bounds
    slots, here = search.slots, search.levels[0]
    for i in range(search.marks[here.mark], search.marks[here.mark + here.n_trees]):
        leaf = each[np.uintp(slots[np.uintp(i)])]
        cost = 0.0
        for k in range(leaf.start, leaf.end):
            bound = bounds[np.uintp(k)]
            axis = axes[np.uintp(bound.axis)]
            nearest = min(max(axis.own, bound.first), bound.last)
            cost = max(cost, cells[np.uintp(axis.start + nearest)].cost)
        search.leaf_cost[np.uintp(slots[np.uintp(i)])] = cost


@inner
def bound_radius(search, radius):
    """The sum of every tree's best leaf within a radius, and between which costs of leaves it stays the same.

    It is the same for every radius from the first of these costs on, up to, but not at, the second.
    """
    here, each, slots, marks = search.levels[0], search.leaves, search.slots, search.marks
    total, below, above = here.settled, 0.0, np.inf
    for tree in range(here.n_trees):
        i = np.uintp(marks[np.uintp(here.mark + tree)])
        cost = search.leaf_cost[np.uintp(slots[i])]
        while cost > radius:
            above = min(above, cost)
            i += np.uintp(1)
            cost = search.leaf_cost[np.uintp(slots[i])]
        below = max(below, cost)
        total += each[np.uintp(slots[i])].value
    return total, below, above


@inner
def find_costs(search, radius):
    """The largest cost of a cell that is not above the radius, and the least that is."""
    axes, cells, progress = search.axes, search.cells, search.progress[0]
    below, above = 0.0, np.inf
    for i in range(progress.n_active):
        here = axes[axes[i].active]
        first, last = np.uintp(here.start + here.low), np.uintp(here.start + here.high)
        while cells[first].cost > radius:
            above = min(above, cells[first].cost)
            first += np.uintp(1)
        while cells[last].cost > radius:
            above = min(above, cells[last].cost)
            last -= np.uintp(1)
        below = max(below, max(cells[first].cost, cells[last].cost))
    return below, above


@inner
def narrow_radius(model, search, radius):
    """Narrow the box to the cells that cost no more than the radius."""
    axes, cells, progress = search.axes, search.cells, search.progress[0]
    for i in range(progress.n_active):
        axis = axes[i].active
        low, high, at = axes[axis].low, axes[axis].high, axes[axis].start
        while cells[np.uintp(at + low)].cost > radius:
            low += 1
        while cells[np.uintp(at + high)].cost > radius:
            high -= 1
        if low > axes[axis].low or high < axes[axis].high:
            narrow(search, axis, low, high)
    settle_categories(model, search)
