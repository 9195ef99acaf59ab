"""Splits that minimise a loss under attack, with leaf values bounded from above and below.

A node has *entries*: the rows that the attacker sends there (residents, which count), and rows that could come but do
better elsewhere (visitors, which do not). An entry may bound the values of the leaves it can get to. For a split,
every entry can get to the left child, to the right one, or to both. If the left child's value is the smaller one,
those of class 1 that have the choice are worse off on the left and those of class 0 on the right. The loss is
then a sum of one term per child, each least at its share of class 1, or at the bound nearest to that share: a closed
form. The loss under attack is at least as large as that sum whichever way the values are ordered, so if the values
come out in the order that was assumed, they are the best there are. If they do so for neither order, both children are
best off with the same value, and the split gains nothing.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel, part

SQUARED, LOG = 0, 1
LEAST_PROBABILITY = 1e-15  # what the logarithmic loss takes instead of 0


class PieceTable(NamedTuple):
    """The pieces of every numerical feature of every row: float64 (piece, row), all features one after another."""

    low: np.ndarray
    high: np.ndarray
    cost: np.ndarray
    start: np.ndarray  # int64 (features + 1); a categorical feature has no pieces
    size: np.ndarray  # float64 per feature: how far it can be moved, as far as that is finite; 0 for not at all


class Entries(NamedTuple):
    """The rows that can get to a node."""

    row: np.ndarray  # int64
    resident: np.ndarray  # bool
    class_index: np.ndarray  # int64
    weight: np.ndarray  # float64
    lower: np.ndarray  # float64: no leaf that the row can get to may have a value below this
    upper: np.ndarray  # float64: or above this
    spent: np.ndarray  # float64: what it costs to get here


class SplitGroups(NamedTuple):
    """What is compared between candidates. First index: left only, right only, either; second index: the class."""

    weight: np.ndarray  # float64 (3, 2)
    number: np.ndarray  # int64 (3, 2): of rows
    bounds: np.ndarray  # float64 (2, 2): of the left and the right value, from below and above


class Ends(NamedTuple):
    """Between which two values entries can be, and the thresholds to try: a row per feature, or those of one."""

    low: np.ndarray  # float64 (feature, entry)
    high: np.ndarray
    by_low: np.ndarray  # int64 (feature, entry): the entries in the order of their low ends
    by_high: np.ndarray
    thresholds: np.ndarray  # float64 (feature, candidate), ascending


@inner
def _loss(kind, zero, one, value):
    if kind == SQUARED:
        return one * (1.0 - value) ** 2 + zero * value**2
    p = min(max(value, LEAST_PROBABILITY), 1.0 - LEAST_PROBABILITY)
    return -one * np.log(p) - zero * np.log(1.0 - p)


@inner
def _best_value(zero, one, low, high):
    return min(max(one / (zero + one), low), high)


@inner
def solve(groups, min_leaf, kind):
    """The least loss under attack of a split, and the values of its children; the loss is inf if it gains nothing."""
    weight, number, bounds = groups.weight, groups.number, groups.bounds
    for order in range(2):  # 0: the left value is the smaller one
        goes_left = 1 - order  # the class that is worse off on the left
        goes_right = order
        left_zero = weight[0, 0] + (weight[2, 0] if goes_left == 0 else 0.0)
        left_one = weight[0, 1] + (weight[2, 1] if goes_left == 1 else 0.0)
        right_zero = weight[1, 0] + (weight[2, 0] if goes_right == 0 else 0.0)
        right_one = weight[1, 1] + (weight[2, 1] if goes_right == 1 else 0.0)
        n_left = number[0, 0] + number[0, 1] + number[2, goes_left]
        n_right = number[1, 0] + number[1, 1] + number[2, goes_right]
        if n_left < min_leaf or n_right < min_leaf:
            continue
        left = _best_value(left_zero, left_one, bounds[0, 0], bounds[0, 1])
        right = _best_value(right_zero, right_one, bounds[1, 0], bounds[1, 1])
        if (left < right) == (order == 0) and left != right:
            return _loss(kind, left_zero, left_one, left) + _loss(kind, right_zero, right_one, right), left, right
    return np.inf, 0.0, 0.0


@kernel(about="the leaf values of TREANT's splits", seconds=0.1)
def solve_candidates(weight, number, bounds, min_leaf, kind, loss, left, right):
    """Solve candidates one by one; the leading index of every array is the candidate."""
    for k in range(weight.shape[0]):
        loss[k], left[k], right[k] = solve(SplitGroups(weight[k], number[k], bounds[k]), min_leaf, kind)


@kernel(about="what attackers of TREANT can afford", seconds=0.2)
def find_ends(table, entries, node_low, node_high, limit, begin, end, low, high):
    """Fill in between which two values each entry can be within the node, per feature: (feature, entry)."""
    for feature in range(begin, end):
        first, last = table.start[feature], table.start[feature + 1]
        floor, ceiling = node_low[feature], node_high[feature]
        for i in range(entries.row.shape[0]):
            row = entries.row[i]
            here = np.inf
            for k in range(first, last):
                if table.high[k, row] > floor and table.low[k, row] <= ceiling:
                    here = min(here, table.cost[k, row])
            others = entries.spent[i] - here
            lowest, highest = np.inf, -np.inf
            for k in range(first, last):
                reached = table.high[k, row] > floor and table.low[k, row] <= ceiling
                if reached and others + table.cost[k, row] <= limit:
                    lowest = min(lowest, table.low[k, row])
                    highest = max(highest, table.high[k, row])
            low[feature - begin, i] = max(lowest, floor)
            high[feature - begin, i] = min(highest, ceiling)


@part
def _move(groups, entries, i, source, target):
    """Count a resident in another group."""
    if entries.resident[i]:
        class_index = entries.class_index[i]
        groups.weight[source, class_index] -= entries.weight[i]
        groups.number[source, class_index] -= 1
        groups.weight[target, class_index] += entries.weight[i]
        groups.number[target, class_index] += 1
        if groups.number[source, class_index] == 0:
            groups.weight[source, class_index] = 0.0  # not what rounding has left


@inner
def _begin(entries, groups):
    """Everybody can go right only, and nobody bounds the left value."""
    groups.weight[:] = 0.0
    groups.number[:] = 0
    groups.bounds[:, 0] = -np.inf
    groups.bounds[:, 1] = np.inf
    for i in range(entries.row.shape[0]):
        if entries.resident[i]:
            groups.weight[1, entries.class_index[i]] += entries.weight[i]
            groups.number[1, entries.class_index[i]] += 1


@inner
def _bounds_from_here(entries, by_high, tail):
    """The bounds of the entries from each position of an order on."""
    tail[0, -1], tail[1, -1] = -np.inf, np.inf
    for k in range(by_high.shape[0] - 1, -1, -1):
        tail[0, k] = max(tail[0, k + 1], entries.lower[by_high[k]])
        tail[1, k] = min(tail[1, k + 1], entries.upper[by_high[k]])


@inner
def _scan(entries, ends, min_leaf, kind, groups, tail):
    """The best of a feature's thresholds: (loss, threshold, left value, right value)."""
    low, high, by_low, by_high = ends.low, ends.high, ends.by_low, ends.by_high
    n, i, j = low.shape[0], 0, 0
    best = (np.inf, 0.0, 0.0, 0.0)
    _begin(entries, groups)
    _bounds_from_here(entries, by_high, tail)
    for threshold in ends.thresholds:
        # From its low end on an entry can go left, from its high end on it can no longer go right.
        while i < n and low[by_low[i]] <= threshold:
            entry = by_low[i]
            _move(groups, entries, entry, 1, 2)
            groups.bounds[0, 0] = max(groups.bounds[0, 0], entries.lower[entry])
            groups.bounds[0, 1] = min(groups.bounds[0, 1], entries.upper[entry])
            i += 1
        while j < n and high[by_high[j]] <= threshold:
            _move(groups, entries, by_high[j], 2, 0)
            j += 1
        if j == n:
            break
        if i > 0:
            groups.bounds[1, 0], groups.bounds[1, 1] = tail[0, j], tail[1, j]
            loss, left, right = solve(groups, min_leaf, kind)
            if loss < best[0]:
                best = (loss, threshold, left, right)
    return best


@kernel(about="TREANT's split search", seconds=0.9)
def find_threshold(table, entries, ends, begin, min_leaf, kind, groups, tail):
    """The best split over features, the first of which is `begin`: (loss, feature, threshold, left, right value)."""
    best = (np.inf, np.int64(-1), 0.0, 0.0, 0.0)
    for k in range(ends.low.shape[0]):
        feature = begin + k
        if table.start[feature] == table.start[feature + 1]:
            continue
        here = Ends(ends.low[k], ends.high[k], ends.by_low[k], ends.by_high[k], ends.thresholds[k])
        loss, threshold, left, right = _scan(entries, here, min_leaf, kind, groups, tail)
        if loss < best[0]:
            best = (loss, np.int64(feature), threshold, left, right)
    return best
