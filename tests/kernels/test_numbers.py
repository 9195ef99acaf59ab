"""What one threshold of a regression tree is worth: the attacker's move and the leaf values meet, on 100,000 cases."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from numpy import int64

from hardwood._kernels.grow import absolute, numbers
from hardwood._kernels.grow.orders import GROUP
from hardwood._kernels.grow.ranking import find_mean, find_median, find_start, measure_error, rank

UPPER = np.uint32(1 << 31)
LEFT, RIGHT, MOVABLE = 0, 1, 2
MOST_ROWS = 12


@njit
def _make_events(side, events):
    """The events of one feature on which a single threshold can be told: behind the lower ends that are on its left."""
    n = 0
    for k in range(len(side)):
        if side[k] != RIGHT:
            events[n] = k
            n += 1
    for k in range(len(side)):
        if side[k] == LEFT:
            events[n] = np.uint32(k) | UPPER
            n += 1
    first_right = n
    for k in range(len(side)):
        if side[k] == RIGHT:
            events[n] = k
            n += 1
    for k in range(len(side)):
        if side[k] != LEFT:
            events[n] = np.uint32(k) | UPPER
            n += 1
    events[first_right] |= GROUP


@njit
def _solve(side, weights, target, totals, start):
    """The gain of the threshold before it is rounded off: the better of both signs, of which one gives 0."""
    nobody = numbers.Side(int64(0), int64(0), int64(0))
    left, right, movable, low = nobody, nobody, nobody, nobody
    target.held[:] = 0
    for k in range(len(side)):
        weight, rows = numbers.weigh(weights, k)
        one = numbers.Side(weight, target.value[k], rows)
        if side[k] == LEFT:
            left = numbers._with(left, one, int64(1))
        elif side[k] == RIGHT:
            right = numbers._with(right, one, int64(1))
        else:
            movable = numbers._with(movable, one, int64(1))
            target.held[target.rank[k], 0] += weight
            target.held[target.rank[k], 1] += target.value[k]
            target.held[target.rank[k], 2] += rows
            low = numbers._with(low, one, int64(target.rank[k] < start))
    best = 0.0
    if left.weight > 0 and right.weight > 0:
        cut, move = numbers.Cut(left, right, movable), numbers.Move(start, low)
        noise = 1e-13 * totals.weight * totals.size
        for sign in (1, -1):
            best = max(best, numbers.solve(target, totals, cut, move, int64(sign), noise)[0])
    target.held[:] = 0
    return best


@njit
def _score(side, weights, target, sums, squared, events, order):
    """What the kernels say of the threshold: (gain, sign)."""
    n = len(side)
    _make_events(side, events)
    mean = find_mean(order, 0, n, weights, target.target)
    spread = measure_error(order, 0, n, weights, target.target, mean, False)
    if spread == 0.0:
        return 0.0, 0
    totals, scale = rank(order, 0, n, weights, target, mean, spread)
    start = find_start(target.height, totals.n_ranks)
    if squared:
        gain = _solve(side, weights, target, totals, start)
        found = numbers.scan(events, int64(0), 2 * n, int64(1), weights, target, totals, int64(0), start, 0.0)
        is_same = abs(found.gain - gain) <= gain * 2.0**-33  # what is rounded off
        return gain / (scale * scale) if is_same else np.nan, found.sign
    absolute.plant(sums, target, weights, order, 0, n, totals.n_ranks)
    centre = find_median(order, 0, n, weights, target.target)
    error = measure_error(order, 0, n, weights, target.target, centre, False)
    found = absolute.scan(events, 0, 2 * n, 1, weights, target, sums, totals, error * scale, 0, start, 0.0)
    return found.gain / scale, found.sign


@njit
def _loss(y, v, squared):
    return (y - v) ** 2 if squared else abs(y - v)


@njit
def _left_over(y, w, side, a, b, squared):
    """What the attacker leaves with leaf values a and b."""
    total = 0.0
    for k in range(len(y)):
        on_left, on_right = _loss(y[k], a, squared), _loss(y[k], b, squared)
        if side[k] == LEFT:
            total += w[k] * on_left
        elif side[k] == RIGHT:
            total += w[k] * on_right
        else:
            total += w[k] * max(on_left, on_right)
    return total


@njit
def _least_squared(y, w, side):
    """The least of that, for squared error: every pair of values that could be best is tried."""
    n = len(y)
    mean = (w * y).sum() / w.sum()
    least = _left_over(y, w, side, mean, mean, True)
    for turn in range(n + 1):
        for sign in (1, -1):
            # Movable rows from `turn` on go to one side; or row `turn` does not care, and both values are as far off.
            nl = nr = sl = sr = wanted = 0.0
            for k in range(n):
                goes_left = side[k] == LEFT or (side[k] == MOVABLE and (k >= turn) == (sign > 0))
                nl, sl = (nl + w[k], sl + w[k] * y[k]) if goes_left else (nl, sl)
                nr, sr = (nr, sr) if goes_left else (nr + w[k], sr + w[k] * y[k])
                if turn < n:
                    wanted += w[k] * (y[k] if goes_left else 2.0 * y[turn] - y[k])
            if nl > 0.0 and nr > 0.0:
                least = min(least, _left_over(y, w, side, sl / nl, sr / nr, True))
            if turn < n:
                a = wanted / w.sum()
                least = min(least, _left_over(y, w, side, a, 2.0 * y[turn] - a, True))
    return least


@njit
def _least_absolute(y, w, side):
    """The same for absolute error: both values are rows', or one is and they are as far off from another row."""
    least = np.inf
    for a in y:
        for c in y:
            least = min(least, _left_over(y, w, side, a, c, False))
            least = min(least, _left_over(y, w, side, a, 2.0 * c - a, False))
            least = min(least, _left_over(y, w, side, 2.0 * c - a, a, False))
    return least


@njit
def _compare(counts, ys, ws, sides, weights, target, sums, squared, events, gaps, signs):
    """The gap between what the kernels say the attacker leaves and what the best leaf values leave, case by case."""
    order = np.arange(MOST_ROWS).astype(np.uint32)
    for case in range(len(counts)):
        n = counts[case]
        y, w, side = ys[case, :n], ws[case, :n], sides[case, :n]
        target.target[:n] = y
        if weights.shape[1] == 2:
            for k in range(n):
                weights[k, 0] = np.int64(w[k] * 4.0)
                weights[k, 1] = 1
        gain, signs[case] = _score(side, weights, target, sums, squared, events, order)
        unit = 0.25 if weights.shape[1] == 2 else 1.0
        if squared:
            mean = (w * y).sum() / w.sum()
            node = (w * (y - mean) ** 2).sum()
            least = _least_squared(y, w, side)
        else:
            node = np.inf
            for v in y:
                node = min(node, (w * np.abs(y - v)).sum())
            least = _least_absolute(y, w, side)
        gaps[case] = (node - gain * unit - least) / w.sum()
        signs[case] *= gain > 0.0


def draw_cases(seed: int, n_cases: int, *, weighted: bool) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(seed)
    counts = generator.integers(2, MOST_ROWS + 1, n_cases)
    shape = (n_cases, MOST_ROWS)
    kind = generator.integers(0, 3, (n_cases, 1))
    y = np.select(
        [kind == 0, kind == 1], [generator.normal(size=shape), generator.integers(0, 4, shape)],
        generator.exponential(size=shape),
    )  # fmt: skip
    side = generator.integers(0, 3, shape).astype(np.int8)
    y = y + generator.choice([0.0, 1.0, -2.0], (n_cases, 1)) * (side == LEFT)
    w = generator.choice([0.25, 0.5, 1.0, 3.75], shape) if weighted else np.ones(shape)
    for case, n in enumerate(counts):
        by_number = np.argsort(y[case, :n], kind="stable")
        for array in (y, side, w):
            array[case, :n] = array[case, :n][by_number]
    return counts, y, w, side


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("squared", [True, False])
def test_move_and_leaf_values_meet(squared: bool, weighted: bool) -> None:
    """No duality gap: what the attacker's move leaves is what the best leaf values leave, to 1e-12 of the weight."""
    counts, y, w, side = draw_cases(int(squared), 50_000, weighted=weighted)
    target = numbers.Numbers(
        target=np.empty(MOST_ROWS),
        value=np.empty(MOST_ROWS, dtype=np.int64),
        rank=np.empty(MOST_ROWS, dtype=np.int32),
        height=np.empty(MOST_ROWS),
        first=np.empty(MOST_ROWS, dtype=np.int32),
        held=np.zeros((MOST_ROWS, 3), dtype=np.int64),
    )
    weights = np.empty((MOST_ROWS, 2) if weighted else (0, 1), dtype=np.int64)
    sums = np.zeros((MOST_ROWS + 1, 7), dtype=np.int64)
    gaps, signs = np.empty(len(counts)), np.empty(len(counts), dtype=np.int64)
    events = np.empty(2 * MOST_ROWS, dtype=np.uint32)
    _compare(counts, y, w, side, weights, target, sums, squared, events, gaps, signs)
    assert np.abs(gaps).max() <= 1e-12 * np.abs(y).max() ** (2 if squared else 1)
    assert (signs == 1).sum() > 1000
    assert (signs == -1).sum() > 1000
    assert (signs == 0).sum() > 1000
    assert not target.held.any()
