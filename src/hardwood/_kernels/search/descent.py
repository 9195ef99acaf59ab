"""Adversarial examples by local moves: fast on models of any size; near, if not always nearest.

`_descend` changes one feature at a time until the class changes: the one that lowers the margin of the true class most,
or most for its price. The coordinate attack is one such descent through all that is in reach. The rest of this file
makes examples nearer. In the L-infinity norm everything within a radius costs the same, so it descends within ever
smaller ones. In the other norms it puts features back, one at a time, and pays for that elsewhere, with less.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel, part
from hardwood._kernels.search.cells import RowCells, find_class, find_margin, nearest_value, scan, settle

INF = -1  # the code of the L-infinity norm; the other norms go by their power: 0, 1 or 2
CLOSE = 0.02  # once a radius is this near to one that failed, it is reduced step by step


class Goal(NamedTuple):
    """What is asked of a row: another class than this, at the least distance."""

    class_index: int
    norm: int
    weight: np.ndarray  # float64 per feature: what a unit of change costs


class Points(NamedTuple):
    """Scratch: points as cells, and a part of the reach."""

    best: np.ndarray  # int64 per feature
    trial: np.ndarray
    first: np.ndarray
    last: np.ndarray
    allowed: np.ndarray  # bool


@inner
def _copy(cells, to):
    for j in range(cells.shape[0]):
        to[j] = cells[j]


@inner
def _set_prices(grid, row, weight, price):
    """Work out how far every cell in reach is from the row."""
    for j in range(row.own.shape[0]):
        for cell in range(row.first[j], row.last[j] + 1):
            change = 1.0
            if grid.features[j].n_categories == 0:
                change = abs(nearest_value(grid, row, j, cell) - row.x[j])
            price[grid.slot[j] + cell] = 0.0 if cell == row.own[j] else weight[j] * change


@part
def _cost(goal, j, price):
    """What a price adds to the distance, or to its square; nothing in the L-infinity norm: the radius sees to that."""
    if goal.norm == INF:
        return 0.0
    if goal.norm == 0:
        return goal.weight[j] if price > 0.0 else 0.0
    return price * price if goal.norm == 2 else price


@inner
def _total(goal, slot, price, cells):
    """The distance of a point, or its square."""
    total = 0.0
    for j in range(cells.shape[0]):
        here = price[slot[j] + cells[j]]
        total = max(total, here) if goal.norm == INF else total + _cost(goal, j, here)
    return total


@part
def _is_open(grid, row, j, cell):
    """Whether a cell between the first and the last is in reach."""
    return grid.features[j].n_categories == 0 or cell < 0 or row.allowed[grid.features[j].category_start + cell]


@inner
def _best_move(grid, row, cells, goal, spare, scratch):
    """The best change of one feature that costs less than `spare`: (feature, cell), or (-1, 0).

    In the L-infinity norm that is the one that leaves the lowest margin. Otherwise the cheapest one that changes the
    class, or if there is none the one that lowers the margin most for its price. Of equals, the nearest to the row.
    """
    scan(grid, row, cells, -1, scratch)
    output, moved, change, price = scratch.output, scratch.moved, scratch.change, scratch.price
    margin = find_margin(output, grid.limit, goal.class_index)
    feature, target = np.int64(-1), np.int64(0)
    best_flips, best_score, best_price = False, -np.inf, np.inf
    for j in range(cells.shape[0]):
        slot = grid.slot[j]
        before = _cost(goal, j, price[slot + cells[j]])
        for k in range(output.shape[0]):
            moved[k] = output[k]
        for cell in range(row.first[j], row.last[j] + 2):
            for k in range(output.shape[0]):
                moved[k] += change[slot + cell, k]
                change[slot + cell, k] = 0.0
            if cell == cells[j] or cell > row.last[j] or not _is_open(grid, row, j, cell):
                continue
            gain = margin - find_margin(moved, grid.limit, goal.class_index)
            if not gain > grid.doubt:
                continue
            extra = _cost(goal, j, price[slot + cell]) - before
            if not extra < spare:
                continue
            flips = goal.norm != INF and find_class(moved, grid.limit) != goal.class_index
            if flips:
                score = -extra
            elif goal.norm == INF:
                score = gain
            else:
                score = gain / extra if extra > 0.0 else np.inf
            better = score > best_score or (score == best_score and price[slot + cell] < best_price)
            if flips > best_flips or (flips == best_flips and better):
                feature, target = np.int64(j), np.int64(cell)
                best_flips, best_score, best_price = flips, score, price[slot + cell]
    return feature, target


@inner
def _descend(grid, row, cells, goal, budget, scratch):
    """Move a point until it gets another class; whether it does so for a total below `budget`."""
    found = settle(grid, cells, scratch) != goal.class_index
    while not found:
        margin = find_margin(scratch.output, grid.limit, goal.class_index)
        spare = budget if goal.norm == INF else budget - _total(goal, grid.slot, scratch.price, cells)
        feature, cell = _best_move(grid, row, cells, goal, spare, scratch)
        if feature < 0:
            return False
        cells[feature] = cell
        found = settle(grid, cells, scratch) != goal.class_index
        if not (found or find_margin(scratch.output, grid.limit, goal.class_index) < margin):
            return False  # the gain was rounding
    return goal.norm == INF or _total(goal, grid.slot, scratch.price, cells) < budget


@inner
def _pull_back(grid, row, cells, goal, j, scratch):
    """Move one feature of an example as near to the row as can be without losing the example."""
    settle(grid, cells, scratch)
    scan(grid, row, cells, j, scratch)
    output, moved, change, slot = scratch.output, scratch.moved, scratch.change, grid.slot[j]
    here, best = cells[j], cells[j]
    least = scratch.price[slot + here]
    for k in range(output.shape[0]):
        moved[k] = output[k]
    for cell in range(row.first[j], row.last[j] + 2):
        for k in range(output.shape[0]):
            moved[k] += change[slot + cell, k]
            change[slot + cell, k] = 0.0
        if cell <= row.last[j] and _is_open(grid, row, j, cell):
            price = scratch.price[slot + cell]
            if price < least and find_class(moved, grid.limit) != goal.class_index:
                best, least = cell, price
    cells[j] = best
    if best != here and settle(grid, cells, scratch) == goal.class_index:
        cells[j] = here  # it was rounding


@inner
def _shorten(grid, row, goal, points, scratch):
    """Bring an example nearer: put a feature back, wholly or by a cell, and make up for it elsewhere, for less."""
    best, trial, own = points.best, points.trial, row.own
    n_features = best.shape[0]
    for k in range(n_features):
        _pull_back(grid, row, best, goal, k, scratch)
    j, failures = 0, 0
    while failures < n_features:
        failures += 1
        budget = _total(goal, grid.slot, scratch.price, best)
        nearer = best[j] + (1 if best[j] < own[j] else -1)
        for target in (own[j], nearer):
            if best[j] == own[j] or (target != own[j] and (goal.norm == 0 or grid.features[j].n_categories)):
                break
            _copy(best, trial)
            trial[j] = target
            if _descend(grid, row, trial, goal, budget, scratch):
                _copy(trial, best)
                for k in range(n_features):
                    _pull_back(grid, row, best, goal, k, scratch)
                failures = 0
                break
        j = (j + 1) % n_features


@inner
def _limit_radius(grid, row, limit, points, price):
    """Cut the reach to prices below a limit; whether that left anything out."""
    smaller = False
    for j in range(row.own.shape[0]):
        first, last, slot = row.own[j], row.own[j], grid.slot[j]
        if grid.features[j].n_categories and first >= 0:
            first, last = row.first[j], row.last[j]
            for code in range(first, last + 1):
                at = grid.features[j].category_start + code
                points.allowed[at] = row.allowed[at] and price[slot + code] < limit
                smaller |= points.allowed[at] != row.allowed[at]
        else:
            while first > row.first[j] and price[slot + first - 1] < limit:
                first -= 1
            while last < row.last[j] and price[slot + last + 1] < limit:
                last += 1
            smaller |= first > row.first[j] or last < row.last[j]
        points.first[j], points.last[j] = first, last
    return smaller


@inner
def _widen(grid, row, goal, guess, points, scratch):
    """Descend from the row within ever larger radii, from a first guess on; whether there was an example."""
    limit, smaller = guess, True
    while smaller:
        smaller = _limit_radius(grid, row, limit, points, scratch.price)
        nearby = RowCells(row.x, row.own, points.first, points.last, points.allowed)
        _copy(row.own, points.best)
        if _descend(grid, nearby, points.best, goal, np.inf, scratch):
            return True
        smaller &= limit < np.inf  # what is infinitely far stays out of every radius
        limit *= 2.0
    return False


@inner
def _shrink_radius(grid, row, goal, points, scratch):
    """Bring an example nearer in the L-infinity norm, by descending within radii that it is outside of.

    Each descent starts where the example enters the radius, or else from the row.
    """
    best, trial = points.best, points.trial
    without, radius = 0.0, _total(goal, grid.slot, scratch.price, best)
    while radius > 0.0:
        limit = 0.5 * (without + radius)
        if radius - without <= CLOSE * radius or limit <= without:  # of two tiny numbers there may be no middle
            limit = radius
        _limit_radius(grid, row, limit, points, scratch.price)
        nearby = RowCells(row.x, row.own, points.first, points.last, points.allowed)
        for j in range(best.shape[0]):
            trial[j] = min(max(best[j], nearby.first[j]), nearby.last[j])
            if not _is_open(grid, nearby, j, trial[j]):
                trial[j] = row.own[j]
        found = _descend(grid, nearby, trial, goal, np.inf, scratch)
        if not found:
            _copy(row.own, trial)
            found = _descend(grid, nearby, trial, goal, np.inf, scratch)
        if found:
            _copy(trial, best)
            radius = _total(goal, grid.slot, scratch.price, best)
        elif limit == radius:
            return
        else:
            without = limit


@inner
def _find_start(grid, row, goal, start, guess, points, scratch):
    """Find an example to make nearer: one that is near in the L-infinity norm, or by the price, or by the margin."""
    free = Goal(goal.class_index, np.int64(INF), goal.weight)
    if start == 0:
        found = _widen(grid, row, free, guess, points, scratch)
        if found:
            _shrink_radius(grid, row, free, points, scratch)
        return found
    _copy(row.own, points.best)
    return _descend(grid, row, points.best, goal if start == 1 else free, np.inf, scratch)


@inner
def _take_row(rows, index):
    return RowCells(rows.x[index], rows.own[index], rows.first[index], rows.last[index], rows.allowed[index])


@inner
def _write(grid, row, cells, example):
    for j in range(cells.shape[0]):
        example[j] = nearest_value(grid, row, j, cells[j])


@kernel(about="the attack by coordinates", seconds=0.6)
def attack_coordinates(grid, rows, class_index, weight, points, scratch, found, example):
    """For each row, change one feature after the other until the class changes; then put back what is not needed."""
    cells = points.best
    for index in range(class_index.shape[0]):
        row = _take_row(rows, index)
        _set_prices(grid, row, weight, scratch.price)
        _copy(row.own, cells)
        found[index] = _descend(grid, row, cells, Goal(class_index[index], np.int64(INF), weight), np.inf, scratch)
        if found[index]:
            for j in range(cells.shape[0]):
                here = cells[j]
                cells[j] = row.own[j]
                if here != cells[j] and settle(grid, cells, scratch) == class_index[index]:
                    cells[j] = here
            _write(grid, row, cells, example[index])


@kernel(about="the attack by the lowest margin", seconds=0.6)
def attack_deeply(grid, rows, class_index, weight, points, scratch, found, example):
    """For each row, change one feature after the other as long as that lowers the margin; what is wrong stays."""
    cells = points.best
    for index in range(class_index.shape[0]):
        row = _take_row(rows, index)
        _set_prices(grid, row, weight, scratch.price)
        goal = Goal(class_index[index], np.int64(INF), weight)
        _copy(row.own, cells)
        found[index] = wrong = settle(grid, cells, scratch) != class_index[index]
        while not wrong:
            margin = find_margin(scratch.output, grid.limit, class_index[index])
            feature, cell = _best_move(grid, row, cells, goal, np.inf, scratch)
            if feature < 0:
                break
            here, cells[feature] = cells[feature], cell
            changed = settle(grid, cells, scratch) != class_index[index]
            if not find_margin(scratch.output, grid.limit, class_index[index]) < margin:
                cells[feature] = here  # the gain was rounding
                break
            found[index] = changed
        if found[index]:
            _write(grid, row, cells, example[index])


@kernel(about="the heuristic attack", seconds=5.3)
def attack_nearby(grid, rows, class_index, norm, weight, guess, points, scratch, found, example):
    """For each row, find an example and bring it as near to it as local moves can; from several starts."""
    for index in range(class_index.shape[0]):
        row = _take_row(rows, index)
        _set_prices(grid, row, weight, scratch.price)
        goal = Goal(class_index[index], norm, weight)
        nearest = np.inf
        for start in range(1 if norm == INF else 3):
            if not _find_start(grid, row, goal, start, guess, points, scratch):
                continue
            if norm != INF:
                _shorten(grid, row, goal, points, scratch)
            total = _total(goal, grid.slot, scratch.price, points.best)
            if total < nearest or not found[index]:
                nearest, found[index] = total, True
                _write(grid, row, points.best, example[index])
