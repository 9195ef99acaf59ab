"""The shifted orders: for each feature, all samples sorted by where the attacker would put them.

An order is a row of uint32 entries. An entry packs a sample's class (top bit), whether it starts a group
(next bit: its position differs from the one before it), and the sample's id (the rest)::

    31      30            29 .. 0
    class   group start   id

With rho < 1 a row of an attacking class is two samples: one that moves (id = row) and one that stays (id = row + n).
Positions are not stored: they are the row's value plus a shift that depends on class and kind alone.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel, part
from hardwood._kernels.sorting import DIGITS, LOW_HALF, PASSES, argsort_column

CLASS_BIT = np.uint32(31)
GROUP_BIT = np.uint32(30)
GROUP = np.uint32(1 << 30)
ID_MASK = np.uint32((1 << 30) - 1)
MAX_ROWS = 1 << 29

# Two shifted values closer than this, relative to their size and to the reach, count as equal.
TIE_TOLERANCE = 1e-9


@part
def position(X, shift, feature, orientation, entry):
    """Where the attacker puts the sample of this entry on this feature."""
    n = X.shape[0]
    row = np.int64(entry & ID_MASK)
    if row >= n:
        return X[row - n, feature]
    return X[row, feature] + shift[feature, orientation, entry >> CLASS_BIT]


@part
def tie_tolerance(size):
    """The tolerance for a feature: none where nothing finite is added, so that nothing can have been rounded."""
    return TIE_TOLERANCE if size > 0.0 else 0.0


@part
def tie_width(tolerance, size, a, b):
    """How far two finite positions may be apart and still count as equal; `size` is the feature's finite reach."""
    return tolerance * max(max(abs(a), abs(b)), size)


@part
def _mark(entry, at, previous, size, tolerance):
    """The entry, marked as the start of a group if its position differs from the one before."""
    gap = at - previous
    width = tie_width(tolerance, size, at, previous)
    # An infinite gap parts its neighbours, though the width is infinite too; inf - inf is no gap (nan).
    starts = ((gap > 0.0) & (gap > width)) | (gap == np.inf)
    return (entry & ~GROUP) | (np.uint32(starts) << GROUP_BIT)


@inner
def _merge(
    left, left_at, i, left_end, left_shift, right, right_at, j, right_end, right_shift, size, merged, k, previous
):
    """Merge two shifted runs from `i` and `j` on, each sorted by position, into `merged` from `k` on; mark the groups.

    Of what is equal the left run comes first; `previous` is the position before. The first loop chooses without a
    branch: which run is next is close to a coin flip, and a mispredicted branch costs more than the whole step.
    """
    tolerance, one = tie_tolerance(size), np.uint64(1)
    while i < left_end and j < right_end:
        from_left, from_right = left_at[i] + left_shift, right_at[j] + right_shift
        take_right = from_right < from_left
        at = from_right if take_right else from_left
        merged[k] = _mark(right[j] if take_right else left[i], at, previous, size, tolerance)
        j += np.uint64(take_right)
        i += np.uint64(not take_right)
        k += one
        previous = at
    while i < left_end:
        at = left_at[i] + left_shift
        merged[k] = _mark(left[i], at, previous, size, tolerance)
        i += one
        k += one
        previous = at
    while j < right_end:
        at = right_at[j] + right_shift
        merged[k] = _mark(right[j], at, previous, size, tolerance)
        j += one
        k += one
        previous = at


@inner
def _merge_three(
    zeros, zeros_at, n_zero, zero_shift, ones, ones_at, n_one, one_shift, staying, staying_at, size, merged
):
    """Merge the moved samples of both classes and those that stay, in the same manner."""
    tolerance, previous = tie_tolerance(size), np.nan
    n_zero, n_one, n_staying = np.uint64(n_zero), np.uint64(n_one), np.uint64(staying.shape[0])
    a, b, c, k, step = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(1)
    while a < n_zero and b < n_one and c < n_staying:
        at, entry = zeros_at[a] + zero_shift, zeros[a]
        from_one, from_staying = ones_at[b] + one_shift, staying_at[c]
        take_one = from_one < at
        at, entry = from_one if take_one else at, ones[b] if take_one else entry
        take_staying = from_staying < at
        at, entry = from_staying if take_staying else at, staying[c] if take_staying else entry
        merged[k] = _mark(entry, at, previous, size, tolerance)
        c += np.uint64(take_staying)
        b += np.uint64(take_one & (not take_staying))
        a += np.uint64((not take_one) & (not take_staying))
        k += step
        previous = at
    if c == n_staying:
        _merge(zeros, zeros_at, a, n_zero, zero_shift, ones, ones_at, b, n_one, one_shift, size, merged, k, previous)
    elif a == n_zero:
        _merge(ones, ones_at, b, n_one, one_shift, staying, staying_at, c, n_staying, 0.0, size, merged, k, previous)
    else:
        _merge(
            zeros, zeros_at, a, n_zero, zero_shift, staying, staying_at, c, n_staying, 0.0, size, merged, k, previous
        )


class Scratch(NamedTuple):
    """What sorting one column needs. Where two share memory, one is free when the other is used."""

    column: np.ndarray  # float64 per row
    bits: np.ndarray  # uint64: the column's memory
    packed: np.ndarray  # uint64 per row
    values: np.ndarray  # float64: the memory of packed. The sorted values; later those of class 0
    sorted: np.ndarray  # uint64 per row
    moving: np.ndarray  # uint32 per row: class 0, then class 1, each sorted
    staying: np.ndarray  # uint32 per staying sample
    staying_at: np.ndarray  # float64 per staying sample
    counts: np.ndarray  # uint64 (passes, digits)


def make_scratch(n: int, n_samples: int) -> Scratch:
    """Allocate what `presort` works in."""
    column, packed, rows = np.empty(n), np.empty(n, dtype=np.uint64), np.empty(n, dtype=np.uint64)
    n_staying = n_samples - n
    return Scratch(
        column=column,
        bits=column.view(np.uint64),
        packed=packed,
        values=packed.view(np.float64),
        sorted=rows,
        moving=np.empty(n, dtype=np.uint32),
        staying=np.empty(n_staying, dtype=np.uint32),
        staying_at=np.empty(n_staying),
        counts=np.empty((PASSES, DIGITS), dtype=np.uint64),
    )


@kernel
def presort(X, payload, n_zero, stays, shift, reach_size, slots, first, last, orders, tied, scratch):
    """Fill the orders of features `first` to `last`.

    payload : uint32 per row, its number and, in the top bit, its class; `n_zero` rows are of class 0.
    stays : bool per class, whether its rows have a second sample that does not move.
    shift : float64 (feature, orientation, class).
    reach_size : float64 per feature, the largest finite shift (0: nothing is added, so only equal values are equal).
    slots : int64 (feature, orientation), the row of `orders`; the same twice where the orientations coincide.
    tied : bool per slot, filled in: whether many samples of the order share a group.
    """
    n = X.shape[0]
    column, values, moving, staying = scratch.column, scratch.values, scratch.moving, scratch.staying
    for feature in range(first, last):
        for row in range(n):
            column[row] = X[row, feature]
        argsort_column(column, scratch.bits, payload, scratch.packed, scratch.sorted, values, scratch.counts)
        zero, one, stay = np.int64(0), np.int64(0), np.int64(0)
        for k in range(n):
            entry = np.uint32(scratch.sorted[k] & LOW_HALF)
            label = np.int64(entry >> CLASS_BIT)
            value = values[k]
            if stays[label]:
                staying[stay] = entry + np.uint32(n)
                scratch.staying_at[stay] = value
                stay += 1
            moving[n_zero + one if label else zero] = entry
            # Class 0 stays in place, class 1 goes where the column was; a value that is put wrongly is overwritten.
            values[zero] = value
            column[one] = value
            one += label
            zero += 1 - label
        for orientation in range(2):
            if orientation == 1 and slots[feature, 1] == slots[feature, 0]:
                continue
            slot = slots[feature, orientation]
            _merge_three(
                moving, values, n_zero, shift[feature, orientation, 0], moving[n_zero:], column, n - n_zero,
                shift[feature, orientation, 1], staying[:stay], scratch.staying_at[:stay], reach_size[feature],
                orders[slot],
            )  # fmt: skip
            n_tied = 0
            for k in range(1, orders.shape[1]):
                n_tied += np.int64(orders[slot, k] & GROUP == 0)
            tied[slot] = n_tied > orders.shape[1] // 16
