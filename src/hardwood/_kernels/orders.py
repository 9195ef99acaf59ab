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
from hardwood._kernels.sorting import DIGITS, PASSES, ROW_MASK, argsort_column

CLASS_BIT = np.uint32(31)
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
def tie_width(tolerance, size, a, b):
    """How far two finite positions may be apart and still count as equal; `size` is the feature's finite reach."""
    return tolerance * max(max(abs(a), abs(b)), size)


@inner
def _merge(left, left_at, i, left_end, left_shift, right, right_at, j, right_end, right_shift, merged, merged_at):
    """Merge two shifted runs, each sorted by position; what is equal comes from the left run first.

    The first loop chooses without a branch: which run is next is close to a coin flip, and a mispredicted branch
    costs more than the whole step.
    """
    k = 0
    while i < left_end and j < right_end:
        from_left, from_right = left_at[i] + left_shift, right_at[j] + right_shift
        take_right = from_right < from_left
        merged[k] = right[j] if take_right else left[i]
        merged_at[k] = from_right if take_right else from_left
        j += take_right
        i += not take_right
        k += 1
    while i < left_end:
        merged[k] = left[i]
        merged_at[k] = left_at[i] + left_shift
        i += 1
        k += 1
    while j < right_end:
        merged[k] = right[j]
        merged_at[k] = right_at[j] + right_shift
        j += 1
        k += 1


@part
def _mark_groups(order, at, size, tolerance):
    """Mark the entries whose position differs from the one before."""
    for k in range(1, order.shape[0]):
        gap = at[k] - at[k - 1]
        width = tie_width(tolerance, size, at[k], at[k - 1])
        # An infinite gap parts its neighbours, though the width is infinite too; inf - inf is no gap (nan).
        if (gap > 0.0 and gap > width) or gap == np.inf:
            order[k] |= GROUP


class Scratch(NamedTuple):
    """What sorting one column needs; float and integer views share memory where one is free when the other is used."""

    column: np.ndarray  # float64 per row
    bits: np.ndarray  # uint64: the same memory
    packed: np.ndarray  # uint64 per row
    moving_at: np.ndarray  # float64: the same memory
    rows: np.ndarray  # uint64 per row
    moved_at: np.ndarray  # float64: the same memory
    moving: np.ndarray  # uint32 per row: class 0, then class 1, each sorted
    moved: np.ndarray  # uint32 per row, only where some samples stay
    staying: np.ndarray  # uint32 per staying sample
    staying_at: np.ndarray  # float64 per staying sample
    at: np.ndarray  # float64 per sample
    counts: np.ndarray  # int64 (passes, digits)


def make_scratch(n: int, n_samples: int) -> Scratch:
    """Allocate what `presort` works in."""
    column, packed, rows = np.empty(n), np.empty(n, dtype=np.uint64), np.empty(n, dtype=np.uint64)
    n_staying = n_samples - n
    return Scratch(
        column=column,
        bits=column.view(np.uint64),
        packed=packed,
        moving_at=packed.view(np.float64),
        rows=rows,
        moved_at=rows.view(np.float64),
        moving=np.empty(n, dtype=np.uint32),
        moved=np.empty(n if n_staying else 0, dtype=np.uint32),
        staying=np.empty(n_staying, dtype=np.uint32),
        staying_at=np.empty(n_staying),
        at=np.empty(n_samples),
        counts=np.empty((PASSES, DIGITS), dtype=np.int64),
    )


@kernel
def presort(X, is_one, n_zero, stays, shift, reach_size, slots, first, last, orders, scratch):
    """Fill the orders of features `first` to `last`.

    is_one : uint8 per row, the class; `n_zero` of them are 0.
    stays : bool per class, whether its rows have a second sample that does not move.
    shift : float64 (feature, orientation, class).
    reach_size : float64 per feature, the largest finite shift (0: nothing is added, so only equal values are equal).
    slots : int64 (feature, orientation), the row of `orders`; the same twice where the orientations coincide.
    """
    n = X.shape[0]
    column, rows, at = scratch.column, scratch.rows, scratch.at
    moving, moving_at, staying = scratch.moving, scratch.moving_at, scratch.staying
    for feature in range(first, last):
        for row in range(n):
            column[row] = X[row, feature]
        argsort_column(column, scratch.bits, scratch.packed, rows, scratch.counts)
        zero, one, stay = np.int64(0), n_zero, np.int64(0)
        for k in range(n):
            row = rows[k] & ROW_MASK
            label = np.int64(is_one[row])
            entry = np.uint32(row) | np.uint32(label) << CLASS_BIT
            to = one if label else zero
            moving[to] = entry
            moving_at[to] = column[row]
            one += label
            zero += 1 - label
            if stays[label]:
                staying[stay] = entry + np.uint32(n)
                scratch.staying_at[stay] = column[row]
                stay += 1
        for orientation in range(2):
            if orientation == 1 and slots[feature, 1] == slots[feature, 0]:
                continue
            order = orders[slots[feature, orientation]]
            zero_shift, one_shift = shift[feature, orientation, 0], shift[feature, orientation, 1]
            target, target_at = (scratch.moved, scratch.moved_at) if stay else (order, at)
            _merge(
                moving,
                moving_at,
                np.int64(0),
                n_zero,
                zero_shift,
                moving,
                moving_at,
                n_zero,
                n,
                one_shift,
                target,
                target_at,
            )
            if stay:
                _merge(
                    target,
                    target_at,
                    np.int64(0),
                    n,
                    0.0,
                    staying,
                    scratch.staying_at,
                    np.int64(0),
                    stay,
                    0.0,
                    order,
                    at,
                )
            _mark_groups(order, at, reach_size[feature], TIE_TOLERANCE if reach_size[feature] > 0.0 else 0.0)
