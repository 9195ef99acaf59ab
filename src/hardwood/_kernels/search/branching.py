"""Exact search for what an attacker can do to one row of an ensemble.

The question is whether some point of the row's box gets a sum of leaf values of at least a target, and which such point
costs least. Branch and bound over boxes of cells:

* Bound: the sum over trees of the best leaf that meets the box.
* Probe: on each axis, how much that sum falls for each cell. A tree loses what its best leaf is ahead of the
  best leaf that reaches the cell from the same side. A cell whose sum falls below the target cannot be part of an
  answer; such cells are cut off the ends of the box, and the leaves outside are dropped, until nothing changes.
* In searches that are not easy, `multipliers` bounds the box once more.
* If the best leaves have a common box, its points are answers. Otherwise the box is cut in two, where both halves
  lose most.

Sums are added in float64 here and in the model's own precision by `predict`. Therefore the target is lowered by the
rounding that may be between them, and a point that reaches it is predicted as the model does it.
"""

import numpy as np

from hardwood._kernels.compiling import inner
from hardwood._kernels.search.cuts import cut_answer, cut_conflict, order_halves
from hardwood._kernels.search.leaves import MISSING, predict_point
from hardwood._kernels.search.multipliers import lay_out, tighten
from hardwood._kernels.search.probing import find_cheapest, probe, shave
from hardwood._kernels.search.state import (
    ANY,
    CHEAPEST,
    EVERY,
    LARGEST,
    add_costs,
    copy_point,
    keep_leaves,
    narrow,
    undo,
    write_point,
)

FOUND, NONE, UNFINISHED, CROWDED, SHAVED = 0, 1, 2, 3, 4
# So many prices of a unit of cost are tried, each so many times the one before; afterwards it is changed by less.
PRICES, APART, DRIFT = 3, 4.0, 1.2
# While a box is looked at, an axis may be narrowed so often: twice for each price, and twice for the rest.
NARROWINGS = 2 * PRICES + 2
# Prices are kept in the range of numbers, and their products with costs.
LARGEST_PRICE = 1e200


@inner
def _add_up(search, level):
    """The sum of every tree's best leaf: what they count for, and what they are worth."""
    levels, each = search.levels, search.leaves
    total, worth = levels[level].settled, levels[level].settled_worth
    mark, slots, marks = levels[level].mark, search.slots, search.marks
    for tree in range(levels[level].n_trees):
        best = each[slots[marks[mark + tree]]]
        total += best.value
        worth += best.worth
    return total, worth


@inner
def settle_categories(model, search):
    """A row has one category: if one is certain the others are not, if one is left it is certain.

    Returns (whether none is left, whether anything changed).
    """
    axes = search.axes
    changed = False
    n_features = model.features.shape[0]
    for j in range(n_features):
        if model.features[j].n_categories == 0 or axes[j].own == MISSING:
            continue
        begin = n_features + model.features[j].category_start
        end = begin + model.features[j].n_categories
        certain, possible, some = np.int64(-1), 0, np.int64(-1)
        for axis in range(begin, end):
            if axes[axis].low == 1:
                certain = np.int64(axis)
            if axes[axis].high == 1:
                possible += 1
                some = np.int64(axis)
        if possible == 0:
            return True, changed
        if possible == 1 and certain < 0:
            certain = some
            narrow(search, some, 1, 1)
            changed = True
        if certain >= 0 and possible > 1:
            for axis in range(begin, end):
                if axis != certain and axes[axis].high == 1:
                    if axes[axis].low == 1:
                        return True, changed
                    narrow(search, axis, 0, 0)
            changed = True
    return False, changed


@inner
def _choose_category(model, search, j):
    """Choose a category that all best leaves allow, the row's own one if possible; whether there is one."""
    axes = search.axes
    begin = model.features.shape[0] + model.features[j].category_start
    chosen = np.int64(-1)
    for axis in range(begin, begin + model.features[j].n_categories):
        possible = axes[axis].high == 1
        certain = axes[axis].low == 1
        if axes[axis].is_touched:
            possible, certain = axes[axis].last == 1, axes[axis].first == 1
        if certain or (possible and (chosen < 0 or axes[axis].own == 1)):
            chosen = np.int64(axis)
            if certain:
                break
    if chosen < 0:
        return False
    for axis in range(begin, begin + model.features[j].n_categories):
        axes[axis].chosen = axis == chosen
    return True


@inner
def _choose_cells(model, search):
    """Choose cells from the common box of the best leaves, the nearest ones, which cost least; False if it is empty."""
    axes, now, n_features = search.axes, search.now[0], model.features.shape[0]
    for i in range(now.n_touched):
        here = axes[np.uintp(axes[np.uintp(i)].touched)]
        if here.first > here.last:
            return False
    for i in range(now.n_active):
        here = axes[np.uintp(axes[np.uintp(i)].active)]
        low, high = (here.first, here.last) if here.is_touched else (here.low, here.high)
        here.chosen = min(max(here.own, low), high)
    for j in range(n_features if model.sets.shape[0] else 0):
        is_known = model.features[j].n_categories > 0 and axes[j].own != MISSING
        if is_known and not _choose_category(model, search, j):
            return False
    return True


@inner
def _are_alike(model, search, level, total):
    """Whether every answer would be of leaves of the same values as the best ones: then it gets the same class as they.

    Without this, a tie of classes would be looked at in every combination of leaves that comes to it.
    """
    each, slots, marks, now = search.leaves, search.slots, search.marks, search.now[0]
    mark, slack = search.levels[level].mark, total - now.target + now.rounding
    for tree in range(search.levels[level].n_trees):
        i, stop = marks[mark + tree], marks[mark + tree + 1]
        top = each[slots[i]]
        while i < stop and top.value - each[slots[i]].value <= slack:
            for k in range(model.value.shape[1]):
                if model.value[each[slots[i]].node, k] != model.value[top.node, k]:
                    return False
            i += 1
    return True


@inner
def _set_price(search, level):
    """Try some prices on a box and keep the best: (whether the box is done with, whether cells were cut off)."""
    now = search.now[0]
    price = (search.levels[0].bound - now.target) / (APART * now.within)
    if not 0.0 < price < LARGEST_PRICE:
        return False, False
    best, best_price, any_shaved = np.inf, price, False
    for _ in range(PRICES):
        now.price = price
        for _ in range(2):
            bound, shaved = tighten(search, level)
            if bound == -np.inf:
                return True, any_shaved
            if shaved:  # tolls are paid by leaves that meet the box, and no others
                keep_leaves(search, level, level, EVERY, 0.0)
                any_shaved = True
            if bound + price * now.within < best:
                best, best_price = bound + price * now.within, price
        price *= APART
    now.price, now.drift = best_price, DRIFT
    return False, any_shaved


@inner
def _ask_tolls(search, level, total, has_price):
    """Look at a box once more, with tolls: NONE: done with it; SHAVED: it is smaller now; UNFINISHED; or CROWDED.

    Where the sum of best leaves is far above the target they are in vain. How far is found out: a box that they help
    with tells to try a little farther, one that they do not to try less far, and now and then one is tried anyway.
    """
    levels, now = search.levels, search.now[0]
    if now.has_tolls == 0:
        if not lay_out(search):
            return CROWDED
        now.hope = levels[0].bound - now.target
    gap = total - now.target
    if gap > now.hope and now.n_boxes % 16 > 0:
        return UNFINISHED
    if has_price and now.price == 0.0 and now.within < np.inf:
        empty, shaved = _set_price(search, level)
        if empty or shaved:
            return NONE if empty else SHAVED
    bound, shaved = tighten(search, level)
    if now.price == 0.0:
        levels[level].bound = min(levels[level].bound, bound)
    elif not shaved and bound > -np.inf:
        # Another price may be better for this box, and then for those to come.
        price, worst = now.price, bound + now.price * now.within
        now.price *= now.drift
        bound, shaved = tighten(search, level)
        if bound + now.price * now.within >= worst:
            now.price, now.drift = price, 1.0 / now.drift
    if shaved or bound == -np.inf:
        now.hope = max(now.hope, 1.1 * gap)
        return NONE if bound == -np.inf else SHAVED
    now.hope = min(now.hope, 0.9 * now.hope + 0.05 * gap)
    return UNFINISHED


@inner
def _visit(model, x, search, level, goal, additive, label, example):
    """Look at a box: FOUND; NONE: done with it; UNFINISHED: it has to be cut in two, as noted at the level."""
    levels, now = search.levels, search.now[0]
    together = 0.0
    while True:
        if now.trail + NARROWINGS * search.axes.shape[0] + 1 > search.changes.shape[0]:
            return CROWDED
        if model.sets.shape[0]:
            empty, changed = settle_categories(model, search)
            if empty:
                return NONE
            if changed:
                keep_leaves(search, level, level, EVERY, 0.0)
        total, worth = _add_up(search, level)
        levels[level].bound = min(levels[level].bound, total)
        if total < now.target - now.rounding or worth < now.least_worth - now.rounding:
            return NONE
        probe(search, level, total)
        if goal == CHEAPEST:
            together = find_cheapest(search, additive)
        empty, shaved = shave(search, total, together, goal, additive)
        if empty:
            return NONE
        if shaved:
            keep_leaves(search, level, level, EVERY, 0.0)
            continue
        if not _choose_cells(model, search):
            now.n_boxes += 1
            if now.n_boxes > now.easy or (goal == CHEAPEST and additive and now.advance > 0.0):
                verdict = _ask_tolls(search, level, total, goal == CHEAPEST and additive)
                if verdict in (NONE, CROWDED):
                    return verdict
                if verdict == SHAVED:
                    keep_leaves(search, level, level, EVERY, 0.0)
                    continue
            cut_conflict(search, level)
            break
        if goal == LARGEST:
            now.target = np.nextafter(total, np.inf)
            write_point(model, search.axes, x, example)
            return NONE
        write_point(model, search.axes, x, search.point)
        if predict_point(model, search.point, search.output) != label:
            if goal == ANY:
                copy_point(search.point, example)
                return FOUND
            cost = add_costs(search, additive)
            if cost < now.within:
                now.best = now.within = cost
                copy_point(search.point, example)
                continue
        elif _are_alike(model, search, level, total):
            return NONE
        # Not the last word on this box: cheaper points, or what rounding has decided otherwise, may lie around.
        if not cut_answer(search, level, goal):
            return NONE
        break
    order_halves(search, level, total, together, goal, additive)
    return UNFINISHED


@inner
def seek(model, x, search, goal, additive, label, max_work, example):
    """Search the box: FOUND (for ANY), NONE: finished; UNFINISHED, after so much work, or CROWDED: call again.

    CROWDED: with more room, and all that is here in it.

    ANY: `example` is a point that the model gives another class than `label`. CHEAPEST: it is the cheapest, if there is
    one cheaper than `search.now.within`, which is then its cost. LARGEST: it has the largest sum, if there is one
    of at least `search.now.target`, which is then the next number after it.
    """
    axes, levels, now = search.axes, search.levels, search.now[0]
    level, fresh = now.level, now.fresh == 1
    now.work = 0
    while level >= 0:
        # There has to be room for one more level: its leaves and marks are fewer than this one's.
        mark, n_trees = levels[level].mark, levels[level].n_trees
        if (
            level + 2 > levels.shape[0]
            or 2 * search.marks[mark + n_trees] - search.marks[mark] > search.slots.shape[0]
            or mark + 2 * n_trees + 2 > search.marks.shape[0]
        ):
            now.level, now.fresh = level, np.int64(fresh)
            return CROWDED
        if fresh:
            if now.work >= max_work:
                now.level, now.fresh = level, 1
                return UNFINISHED
            verdict = _visit(model, x, search, level, goal, additive, label, example)
            if verdict in (FOUND, CROWDED):
                now.level, now.fresh = level, 1
                return verdict
            fresh = False
            side = 1 - levels[level].side
            if verdict == NONE:
                level -= 1
                continue
        else:
            undo(search, level + 1)
            side = levels[level].side
            hopeless = levels[level].other_bound < now.target - now.rounding
            if hopeless or (goal == CHEAPEST and levels[level].other_floor >= now.within):
                levels[level].other_bound = -np.inf
                level -= 1
                continue
            levels[level + 1].bound, levels[level + 1].floor = levels[level].other_bound, levels[level].other_floor
            levels[level].other_bound = -np.inf
        axis, cut = np.int64(levels[level].axis), levels[level].cell
        levels[level + 1].trail = now.trail
        if side == 0:
            narrow(search, axis, axes[axis].low, cut)
        else:
            narrow(search, axis, cut + 1, axes[axis].high)
        keep_leaves(search, level, level + 1, axis, 0.0)
        level += 1
        fresh = True
    now.level = level
    return NONE
