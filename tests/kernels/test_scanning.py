"""The two kernels every split of a grown tree goes through: `scan` and `partition`, against plain loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from hardwood._kernels.grow import partitioning, scanning
from hardwood._kernels.grow.criteria import GINI
from hardwood._kernels.grow.nodes import Totals
from hardwood._kernels.grow.orders import GROUP, ID_MASK

SEEDS = st.integers(0, 2**32 - 1)


@njit
def scan(order, start, end, weight, kinds, totals, choice, floor, counts, bounds):
    return scanning.scan(order, start, end, weight, kinds, totals, choice, floor, counts, bounds)


@njit
def partition(order, start, end, side, spill):
    partitioning.partition(order, start, end, side, spill)


def draw_order(generator: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return entries of samples in a random order, their classes, and the number of the group of each."""
    ids = generator.permutation(n)
    share = generator.choice([0.1, 0.5, 0.9], 4)[np.arange(n) * 4 // n]  # of class 1, quarter by quarter
    label = (generator.random(n) < share).astype(np.int64)
    group = np.cumsum(generator.random(n) < generator.choice([0.05, 0.5, 1.0]))
    starts = np.r_[True, group[1:] != group[:-1]]
    entries = ids.astype(np.uint32) | (label.astype(np.uint32) << 31) | np.where(starts, GROUP, 0).astype(np.uint32)
    return entries.astype(np.uint32), label, group


def gini_gain(zero: float, one: float, all_zero: float, all_one: float, sign: float) -> float:
    """Weight times the decrease of Gini impurity, where the orientation holds."""

    def impurity(a: float, b: float) -> float:
        return 2.0 * a * b / (a + b) if a + b > 0.0 else 0.0

    lead = zero * all_one - one * all_zero
    if (lead * sign if sign else abs(lead)) <= 0.0:
        return 0.0
    return impurity(all_zero, all_one) - impurity(zero, one) - impurity(all_zero - zero, all_one - one)


@given(SEEDS, st.sampled_from([2, 7, 60, 130, 1500]), st.sampled_from([-1.0, 0.0, 1.0]), st.sampled_from([0.0, 5.0]))
def test_scan_finds_the_best_of_all_thresholds(seed: int, n: int, sign: float, min_leaf: float) -> None:
    """In nodes of one block, of several blocks, and of several groups of blocks; by kinds and by weights."""
    generator = np.random.default_rng(seed)
    entries, label, group = draw_order(generator, n + 6)
    order, label, group = np.ascontiguousarray(entries), label[3:-3], group[3:-3]
    ids = (order & ID_MASK).astype(int)[3:-3]
    n_rows = (n + 6) * 2 // 3
    stays = ids >= n_rows
    per_kind = (1.0, 0.5, 2.0, 0.25)
    rows_per_kind = (1.0, 0.5, 1.0, 0.5)
    kind = 2 * label + stays
    by_kind = np.array(per_kind)[kind]
    rows = np.array(rows_per_kind)[kind]
    kinds = scanning.Kinds(n_rows, per_kind, rows_per_kind)
    choice = scanning.Choice(sign, GINI, min_leaf)
    by_id = np.empty(n + 6)
    by_id[(order & ID_MASK).astype(int)] = generator.integers(1, 4, n + 6)
    for weight, weights in ((np.empty(0), by_kind), (by_id, by_id[ids])):
        zero, one = weights * (label == 0), weights * (label == 1)
        totals = Totals(zero.sum(), one.sum(), rows.sum())
        gains = np.zeros(n)
        for k in range(1, n):
            if group[k] != group[k - 1] and min(rows[:k].sum(), rows[k:].sum()) >= min_leaf:
                gains[k] = gini_gain(zero[:k].sum(), one[:k].sum(), totals.zero, totals.one, sign)
        counts, bounds = np.zeros((n // 64 + 3, 4), dtype=np.int64), np.empty(n // 64 + 3)
        found, first_right = scan(order, 3, n + 3, weight, kinds, totals, choice, 0.0, counts, bounds)
        tolerance = 2.0**-32 * weights.sum()  # gains are rounded to 34 bits, so that equal ones are equal
        if first_right < 0:
            assert gains.max() <= tolerance
        else:
            assert abs(found - gains[first_right - 3]) < tolerance
            assert gains.max() <= found + tolerance
        found, first_right = scan(
            order, 3, n + 3, weight, kinds, totals, choice, gains.max() + 2 * tolerance, counts, bounds
        )
        assert first_right == -1, "nothing gains more than the floor"


@given(SEEDS, st.integers(1, 80))
def test_partition_keeps_order_and_groups(seed: int, n: int) -> None:
    """On either side, an entry starts a group just where its group differs from that of the entry before it."""
    generator = np.random.default_rng(seed)
    order, _, group = draw_order(generator, n + 4)
    order[2] |= GROUP  # the first entry of a node starts a group
    before = order.copy()
    goes_right = generator.random(n + 4) < generator.choice([0.0, 0.1, 0.5, 1.0])  # by id
    side = np.zeros((n + 4) // 32 + 1, dtype=np.uint32)
    for sample in np.flatnonzero(goes_right):
        side[sample >> 5] |= np.uint32(1) << np.uint32(sample & 31)
    partition(order, 2, n + 2, side, np.empty(n + 5, dtype=np.uint32))
    np.testing.assert_array_equal(order[:2], before[:2])
    np.testing.assert_array_equal(order[n + 2 :], before[n + 2 :])
    places = np.arange(2, n + 2)
    right = goes_right[(before[places] & ID_MASK).astype(int)]
    expected = []
    for places_of_child in (places[~right], places[right]):
        previous = None
        for k in places_of_child:
            expected.append(before[k] & ~GROUP | (GROUP if group[k] != previous else np.uint32(0)))
            previous = group[k]
    np.testing.assert_array_equal(order[2 : n + 2], np.array(expected, dtype=np.uint32))
