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
def _merge(left, left_at, i, left_end, left_shift, right, right_at, j, right_end, right_shift, size, merged, merged_at):
    """Merge two shifted runs, each sorted by position, and mark the groups; of what is equal the left run comes first.

    The positions go into `merged_at`, unless that is empty. The first loop chooses without a branch: which run is
    next is close to a coin flip, and a mispredicted branch costs more than the whole step.
    """
    tolerance = tie_tolerance(size)
    previous = np.nan
    i, left_end, j, right_end = np.uint64(i), np.uint64(left_end), np.uint64(j), np.uint64(right_end)
    k, one = np.uint64(0), np.uint64(1)
    while i < left_end and j < right_end:
        from_left, from_right = left_at[i] + left_shift, right_at[j] + right_shift
        take_right = from_right < from_left
        at = from_right if take_right else from_left
        merged[k] = _mark(right[j] if take_right else left[i], at, previous, size, tolerance)
        if merged_at.shape[0]:
            merged_at[k] = at
        j += np.uint64(take_right)
        i += np.uint64(not take_right)
        k += one
        previous = at
    while i < left_end or j < right_end:
        entry, at = left[0], 0.0
        if i < left_end:
            entry, at = left[i], left_at[i] + left_shift
            i += one
        else:
            entry, at = right[j], right_at[j] + right_shift
            j += one
        merged[k] = _mark(entry, at, previous, size, tolerance)
        if merged_at.shape[0]:
            merged_at[k] = at
        k += one
        previous = at


class Scratch(NamedTuple):
    """What sorting one column needs. Where two share memory, one is free when the other is used."""

    column: np.ndarray  # float64 per row
    bits: np.ndarray  # uint64: the column's memory
    packed: np.ndarray  # uint64 per row
    values: np.ndarray  # float64: the memory of packed. The sorted values; later those of class 0
    sorted: np.ndarray  # uint64 per row
    moved_at: np.ndarray  # float64: the memory of sorted
    moving: np.ndarray  # uint32 per row: class 0, then class 1, each sorted
    moved: np.ndarray  # uint32 per row, only where some samples stay
    staying: np.ndarray  # uint32 per staying sample
    staying_at: np.ndarray  # float64 per staying sample
    none: np.ndarray  # float64, empty
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
        moved_at=rows.view(np.float64),
        moving=np.empty(n, dtype=np.uint32),
        moved=np.empty(n if n_staying else 0, dtype=np.uint32),
        staying=np.empty(n_staying, dtype=np.uint32),
        staying_at=np.empty(n_staying),
        none=np.empty(0),
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
            order, at = orders[slot], scratch.none
            if stay:
                order, at = scratch.moved, scratch.moved_at
            _merge(
                moving, values, np.int64(0), n_zero, shift[feature, orientation, 0],
                moving[n_zero:], column, np.int64(0), n - n_zero, shift[feature, orientation, 1],
                reach_size[feature], order, at,
            )  # fmt: skip
            if stay:
                _merge(
                    order, at, np.int64(0), n, 0.0, staying, scratch.staying_at, np.int64(0), stay, 0.0,
                    reach_size[feature], orders[slot], scratch.none,
                )  # fmt: skip
            n_tied = 0
            for k in range(1, orders.shape[1]):
                n_tied += np.int64(orders[slot, k] & GROUP == 0)
            tied[slot] = n_tied > orders.shape[1] // 16
