"""What attack rules can make of a number: pieces, each a closed interval and the least cost of getting there."""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel


class NumberRules(NamedTuple):
    """The rules of one numerical feature, an entry per rule."""

    low: np.ndarray  # float64: the rule applies from here
    high: np.ndarray  # float64: to here
    least: np.ndarray  # float64: what it adds at least
    most: np.ndarray  # float64: and at most
    target: np.ndarray  # float64: what it sets the value to; NaN where it adds
    cost: np.ndarray  # float64


@inner
def _is_covered(low, high, cost, count, start, end):
    """Whether pieces that cost no more than `cost[count]` together cover everything from `start` to `end`."""
    reached = start
    while True:
        furthest = -np.inf
        for k in range(count):
            if low[k] <= reached and high[k] >= reached and cost[k] <= cost[count]:
                furthest = max(furthest, high[k])
        if furthest >= end:
            return True
        if furthest <= reached:
            return False
        reached = furthest


@inner
def _apply(rules, r, low, high, piece, into):
    """Write what rule `r` makes of a piece to entry `into`; False where it does not apply."""
    start, end = max(low[piece], rules.low[r]), min(high[piece], rules.high[r])
    if not start <= end:
        return False
    if np.isnan(rules.target[r]):
        low[into], high[into] = start + rules.least[r], end + rules.most[r]
    else:
        low[into] = high[into] = rules.target[r]
    return True


@inner
def _expand(rules, value, limit, repeat, low, high, cost):
    """Fill in the pieces of one value, cheapest first; how many, or -1 if there is no room."""
    room, n_rules = low.shape[0], rules.cost.shape[0]
    low[0] = high[0] = value
    cost[0] = 0.0
    count, done = 1, 0
    while done < count:
        # The cheapest piece that the rules have not been applied to is next, and goes to its final place.
        best = done
        for k in range(done + 1, count):
            if cost[k] < cost[best]:
                best = k
        low[done], low[best] = low[best], low[done]
        high[done], high[best] = high[best], high[done]
        cost[done], cost[best] = cost[best], cost[done]
        if done > 0 and not repeat:
            done += 1
            continue
        for r in range(n_rules):
            if count == room:
                return -1
            price = cost[done] + rules.cost[r]
            if price <= limit and _apply(rules, r, low, high, done, count):
                cost[count] = price
                if not _is_covered(low, high, cost, count, low[count], high[count]):
                    count += 1
        done += 1
    return count


@kernel(about="the costs of attack rules", seconds=0.5)
def expand_column(rules, column, moves, limit, repeat, low, high, cost):
    """Fill in the pieces of every value of a column: how many the longest list has, or -1 if there is no room.

    low, high, cost : float64 (row, piece). Entries that a row does not need are empty: from inf to -inf at cost inf.
    """
    most = 1
    for row in range(column.shape[0]):
        count = 1
        if moves[row]:
            count = _expand(rules, column[row], limit, repeat, low[row], high[row], cost[row])
            if count < 0:
                return -1
        else:
            low[row, 0] = high[row, 0] = column[row]
            cost[row, 0] = 0.0
        for k in range(count, low.shape[1]):
            low[row, k], high[row, k], cost[row, k] = np.inf, -np.inf, np.inf
        most = max(most, count)
    return most
