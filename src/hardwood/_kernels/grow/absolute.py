"""What a threshold is worth if a row has a number, by absolute error, once the attacker has moved.

As in `numbers.py`, with medians for means: movable rows above the midpoint of the medians go to the side whose median
is smaller, those below it to the other. Say X is the side with the smaller median, and Y the other one. As rows are
made low, from the least number on, what is left of the absolute error first rises and then falls, because it is concave
in what the attacker moves and the lower rows gain the attacker more; so the midpoint is found by halving. If it falls
on a rank, whole units of the rank's weight are low: medians change only where the weights of both sides are whole.

Medians and sums below them are read off Fenwick trees over ranks.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64, uint64

from hardwood._kernels.compiling import inner
from hardwood._kernels.grow.criteria import LIFT, ROUNDING
from hardwood._kernels.grow.numbers import END_BIT, Found, weigh
from hardwood._kernels.grow.orders import GROUP, ID_MASK

# The columns of `Fenwick.sums`: weights and values of all samples, of those that are left and of those that are
# movable, and rows of the movable ones.
ALL, LEFT, MOVABLE, MOVABLE_ROWS = 0, 2, 4, 6


class Fenwick(NamedTuple):
    """Sums over ranks: entry k holds those of the ranks k - (lowest bit of k) to k - 1."""

    sums: np.ndarray  # int64 (rank + 1, 7)


class Members(NamedTuple):
    """A set of samples, as a sum of sets: how often it has all, those that are left, those that are movable."""

    everybody: int
    left: int
    movable: int


class Middle(NamedTuple):
    """The median of some samples, and their absolute error."""

    median: float
    error: float


@inner
def _add(sums, rank, column, amount):
    k = rank + 1
    while k < sums.shape[0]:
        sums[k, column] += amount
        k += k & -k


@inner
def plant(sums, numbers, weights, order, start, end, n_ranks):
    """Make the sums of a node: all of its samples, nobody left or movable yet."""
    for k in range(n_ranks + 1):
        for column in range(7):
            sums[k, column] = 0
    for i in range(start, end):
        sample = uint64(order[i] & ID_MASK)
        weight, _ = weigh(weights, sample)
        at = numbers.rank[sample] + 1
        sums[at, ALL] += weight
        sums[at, ALL + 1] += numbers.value[sample]
    for k in range(1, n_ranks + 1):
        above = k + (k & -k)
        if above <= n_ranks:
            sums[above, ALL] += sums[k, ALL]
            sums[above, ALL + 1] += sums[k, ALL + 1]


@inner
def clear(sums, n_ranks):
    """Forget who is left and who is movable."""
    for k in range(n_ranks + 1):
        for column in range(LEFT, 7):
            sums[k, column] = 0


@inner
def _sum_below(sums, rank, column):
    """Sum of a column over the ranks below one."""
    total, k = int64(0), rank
    while k > 0:
        total += sums[k, column]
        k -= k & -k
    return total


@inner
def _read(sums, k, members, value):
    return (
        members.everybody * sums[k, ALL + value]
        + members.left * sums[k, LEFT + value]
        + members.movable * sums[k, MOVABLE + value]
    )


@inner
def _find(sums, n_ranks, members, target):
    """The first rank at which twice the weight up to it is at least `target`: (rank, weight and value below it)."""
    step = int64(1)
    while 2 * step <= n_ranks:
        step *= 2
    at, weight, value = int64(0), int64(0), int64(0)
    while step > 0:
        if at + step < n_ranks:
            more = _read(sums, at + step, members, 0)
            if 2 * (weight + more) < target:
                at += step
                weight += more
                value += _read(sums, at, members, 1)
        step //= 2
    return at, weight, value


@inner
def _measure(sums, n_ranks, height, members, pointer, low, sign):
    """Median and absolute error of a side without its movable samples (`members`) and those that come to it.

    Those are the high ones (sign 1) or the low ones (sign -1). Low are the movable samples of ranks below the pointer,
    and as many of its own rank as `low`, (weight, value), has beyond these.
    """
    with_movable = Members(members.everybody, members.left, members.movable + 1)
    below, k = int64(0), pointer
    while k > 0:
        below += _read(sums, k, members if sign > 0 else with_movable, 0)
        k -= k & -k
    total_weight = total_value = int64(0)
    k = n_ranks
    while k > 0:
        total_weight += _read(sums, k, with_movable if sign > 0 else members, 0)
        total_value += _read(sums, k, with_movable if sign > 0 else members, 1)
        k -= k & -k
    total_weight, total_value = total_weight - sign * low[0], total_value - sign * low[1]
    if 2 * below >= total_weight:
        at, weight, value = _find(sums, n_ranks, members if sign > 0 else with_movable, total_weight)
    else:
        target = total_weight + 2 * sign * low[0]
        at, weight, value = _find(sums, n_ranks, with_movable if sign > 0 else members, target)
        weight, value = weight - sign * low[0], value - sign * low[1]
    error = float(total_value - 2 * value) + height[at] * float(2 * weight - total_weight)
    return Middle(height[at], error)


@inner
def _play(sums, n_ranks, height, sign, pointer, part, value_part):
    """Medians of the side with the smaller one and of the other, and what is left of the absolute error.

    Low are the movable samples below the pointer, and a part of those of its own rank: weight and value.
    """
    low = (
        _sum_below(sums, pointer, MOVABLE) + part,
        _sum_below(sums, pointer, MOVABLE + 1) + value_part,
    )
    left, right = Members(int64(0), int64(1), int64(0)), Members(int64(1), int64(-1), int64(-1))
    smaller = _measure(sums, n_ranks, height, left if sign > 0 else right, pointer, low, int64(1))
    larger = _measure(sums, n_ranks, height, right if sign > 0 else left, pointer, low, int64(-1))
    return smaller.median, larger.median, smaller.error + larger.error


@inner
def _halve_rank(sums, n_ranks, height, sign, at, error):
    """The most error that a part of one rank makes low, at least `error`: (error, share that is high).

    `error` is what is left if the whole rank is low.
    """
    weight = _sum_below(sums, at + 1, MOVABLE) - _sum_below(sums, at, MOVABLE)
    value = _sum_below(sums, at + 1, MOVABLE + 1) - _sum_below(sums, at, MOVABLE + 1)
    few, many, best, high = int64(0), weight, error, 0.0
    while many - few > 1:
        part = few + (many - few) // 2
        share = float(part) / float(weight)
        smaller, larger, error = _play(sums, n_ranks, height, sign, at, part, int64(share * float(value)))
        if error > best:
            best, high = error, 1.0 - share
        if height[at] >= 0.5 * (smaller + larger):
            many = part
        else:
            few = part
    if few == 0:
        _, _, error = _play(sums, n_ranks, height, sign, at, int64(0), int64(0))
        if error > best:
            best, high = error, 1.0
    return best, high


@inner
def solve(sums, n_ranks, height, sign):
    """The most absolute error that the attacker can leave: (error or infinity if he can level, pointer, turn)."""
    least, most = int64(0), n_ranks
    while least < most:
        pointer = (least + most) // 2
        smaller, larger, _ = _play(sums, n_ranks, height, sign, pointer, int64(0), int64(0))
        if smaller >= larger:
            return np.inf, pointer, pointer
        if height[pointer] >= 0.5 * (smaller + larger):
            most = pointer
        else:
            least = pointer + 1
    smaller, larger, error = _play(sums, n_ranks, height, sign, least, int64(0), int64(0))
    if smaller >= larger:
        return np.inf, least, least
    if least == 0:
        return error, least, least
    error, high = _halve_rank(sums, n_ranks, height, sign, least - 1, error)
    return error, least, least - 1 if high >= 0.5 else least


@inner
def _better(sums, numbers, n_ranks, impurity, pointers, best):
    """Whether a threshold beats the best: (gain or 0, sign, turn, pointers)."""
    height = numbers.height
    smaller, larger, _ = _play(sums, n_ranks, height, int64(1), int64(0), int64(0), int64(0))
    if smaller == larger:
        return 0.0, int64(1), int64(0), pointers
    sign = int64(1) if smaller < larger else int64(-1)
    pointer = pointers[0] if sign > 0 else pointers[1]
    smaller, larger, error = _play(sums, n_ranks, height, sign, pointer, int64(0), int64(0))
    if smaller >= larger or not impurity - error > best * (1.0 - ROUNDING):
        return 0.0, sign, int64(0), pointers
    error, pointer, turn = solve(sums, n_ranks, height, sign)
    pointers = (pointer, pointers[1]) if sign > 0 else (pointers[0], pointer)
    saved = impurity - error
    saved = (saved + LIFT * impurity) - LIFT * impurity
    return saved if saved > ROUNDING * impurity else 0.0, sign, turn, pointers


@inner
def scan(events, begin, end, moves, weights, numbers, sums, totals, impurity, fewest, start, floor):
    """Best threshold of a node's samples on one feature by absolute error; see `numbers.scan`."""
    value, rank = numbers.value, numbers.rank
    left_rows, movable_rows, left_weight, movable_weight = int64(0), int64(0), int64(0), int64(0)
    pointers = (start, start)
    found = Found(floor, int64(-1), int64(1), int64(0))
    clear(sums, totals.n_ranks)
    following = events[begin]
    for i in range(uint64(begin), uint64(end - 1)):
        entry = following
        following = events[i + uint64(1)]
        sample, leaves = uint64(entry & ID_MASK), int64(entry >> END_BIT)
        weight, rows = weigh(weights, sample)
        at = int64(rank[sample])
        if leaves:
            _add(sums, at, LEFT, weight)
            _add(sums, at, LEFT + 1, value[sample])
            left_rows, left_weight = left_rows + rows, left_weight + weight
        if moves:
            times = int64(1) - int64(2) * leaves
            _add(sums, at, MOVABLE, times * weight)
            _add(sums, at, MOVABLE + 1, times * value[sample])
            _add(sums, at, MOVABLE_ROWS, times * rows)
            movable_rows, movable_weight = movable_rows + times * rows, movable_weight + times * weight
        if following & GROUP == 0 or left_weight == 0 or left_weight + movable_weight == totals.weight:
            continue
        gain, sign, turn, pointers = _better(sums, numbers, totals.n_ranks, impurity, pointers, found.gain)
        if gain > found.gain:
            low = _sum_below(sums, turn, MOVABLE_ROWS)
            on_left = left_rows + (movable_rows - low if sign > 0 else low)
            if on_left >= fewest and totals.rows - on_left >= fewest:
                found = Found(gain, int64(i) + 1, sign, turn)
    return found
