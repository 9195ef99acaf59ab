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
from numpy import int64, uint32, uint64

from hardwood._kernels.compiling import inner, kernel, part
from hardwood._kernels.grow.sorting import DIGITS, LOW_HALF, PASSES, sort_column

CLASS_BIT = uint32(31)
GROUP_BIT = uint32(30)
GROUP = uint32(1 << 30)
ID_MASK = uint32((1 << 30) - 1)
MAX_ROWS = 1 << 29

# Two shifted values closer than this, relative to their size and to the reach, count as equal.
TIE_TOLERANCE = 1e-9
# Nobody sits beyond this: it stands for a position at infinity, where the runs to be merged end.
LAST = np.finfo(np.float64).max


@inner
def position(X, shift, feature, orientation, entry):
    """Where the attacker puts the sample of this entry on this feature."""
    n = X.shape[0]
    row = int64(entry & ID_MASK)
    if row >= n:
        return X[row - n, feature]
    return X[row, feature] + shift[feature, orientation, entry >> CLASS_BIT]


@part
def _starts(at, previous, slack, tolerance):
    """Whether a position differs from the one before, by more than the tolerance allows, as 0 or 1."""
    gap = at - previous
    differs = (gap > 0.0) & (gap > slack) & (gap > tolerance * abs(at)) & (gap > tolerance * abs(previous))
    # An infinite gap parts its neighbours, though the tolerance is infinite too; inf - inf is no gap (nan).
    return uint32(differs | (gap == np.inf))


@part
def _first(moving, moving_at, staying, staying_at, a, b, c, zero_shift, one_shift):
    """The foremost of the next moving zero, moving one and staying sample: (entry, position, from ones, from staying).

    Chosen without a branch: which comes next is close to a coin flip, and a mispredicted branch costs more than the
    whole step. Whoever moves without limit is kept from the infinite ends of the runs, which do not move.
    """
    zero, one, still = moving_at[a], moving_at[b], staying_at[c]
    zero_entry, one_entry, still_entry = moving[a], moving[b], uint32(staying[c])
    zero_at, one_at = zero + zero_shift, one + one_shift
    zero_at, one_at = zero_at if zero_at < LAST else LAST, one_at if one_at < LAST else LAST
    zero_at, one_at = zero if zero > LAST else zero_at, one if one > LAST else one_at
    from_ones = one_at < zero_at
    at, entry = one_at if from_ones else zero_at, one_entry if from_ones else zero_entry
    from_staying = still < at
    at, entry = still if from_staying else at, still_entry if from_staying else entry
    return entry, at, from_ones & (not from_staying), from_staying


@inner
def _merge(moving, moving_at, n_zero, staying, staying_at, zero_shift, one_shift, size, orders, slot):
    """Merge the moved samples of both classes and those that stay, and mark the groups.

    Each of the three runs ends in an infinite position, so that none has to be checked for its end. Of what is equal
    zeros come first, then ones.
    """
    # Where nothing finite is added nothing can have been rounded.
    tolerance = TIE_TOLERANCE if size > 0.0 else 0.0
    slack = tolerance * size
    a, b, c, previous = uint64(0), uint64(n_zero + 1), uint64(0), np.nan
    for k in range(uint64(orders.shape[1])):
        entry, at, from_ones, from_staying = _first(
            moving, moving_at, staying, staying_at, a, b, c, zero_shift, one_shift
        )
        orders[slot, k] = entry | (_starts(at, previous, slack, tolerance) << GROUP_BIT)
        previous = at
        a += uint64(not (from_ones | from_staying))
        b += uint64(from_ones)
        c += uint64(from_staying)


class Rows(NamedTuple):
    """The rows of the table that is sorted."""

    X: np.ndarray
    payload: np.ndarray  # uint32 per row: its number and, in the top bit, its class
    n_zero: int  # rows of class 0
    stays: np.ndarray  # bool per class: whether its rows have a second sample that does not move


class Shifts(NamedTuple):
    """What the attacker can do, per feature."""

    shift: np.ndarray  # float64 (feature, orientation, class)
    largest: np.ndarray  # float64: the largest finite shift (0: nothing is added, so only equal values are equal)
    slots: np.ndarray  # int64 (feature, orientation): the row of the orders; the same twice where orientations coincide
    elsewhere: np.ndarray  # bool: the caller has a kernel of its own that searches this feature


class Scratch(NamedTuple):
    """What sorting one column needs. Where two share memory, one is free when the other is used."""

    column: np.ndarray  # float64 per row
    packed: np.ndarray  # uint64 per row
    values: np.ndarray  # float64 per row and one more, the memory of packed: sorted; later of those that stay
    entries: np.ndarray  # uint64 per row and one more: sorted; later those that stay
    moving: np.ndarray  # uint32: class 0, an empty place, class 1, an empty place
    moving_at: np.ndarray  # float64: their values, in the column's memory
    counts: np.ndarray  # uint64 (passes, digits)


def make_scratch(n: int) -> Scratch:
    """Allocate what `presort` works in."""
    moving_at, values = np.empty(n + 2), np.empty(n + 1)
    return Scratch(
        column=moving_at[:n],
        packed=values[:n].view(np.uint64),
        values=values,
        entries=np.empty(n + 1, dtype=np.uint64),
        moving=np.empty(n + 2, dtype=np.uint32),
        moving_at=moving_at,
        counts=np.empty((PASSES, DIGITS), dtype=np.uint64),
    )


@kernel(about="the sorting of columns", seconds=0.6)
def presort(rows, shifts, first, last, is_sorted, orders, scratch):
    """Fill the orders of features `first` to `last`, up to one that is too crowded: which that is, or `last`.

    The caller sorts it into `scratch.entries` and `scratch.values` and calls again with `is_sorted`.
    """
    X, n_zero, stays = rows.X, rows.n_zero, rows.stays
    shift, slots = shifts.shift, shifts.slots
    n = X.shape[0]
    column, values, entries = scratch.column, scratch.values, scratch.entries
    moving, moving_at = scratch.moving, scratch.moving_at
    for feature in range(first, last):
        for row in range(n):
            column[row] = X[row, feature]
        if is_sorted:
            is_sorted = False
        elif not sort_column(column, rows.payload, scratch.packed, entries, values, scratch.counts):
            return feature
        zero, one, stay = 0, n_zero + 1, 0
        for k in range(n):
            entry, value = uint32(entries[k] & LOW_HALF), values[k]
            class_index = int64(entry >> CLASS_BIT)
            to = one if class_index else zero
            moving[to] = entry
            moving_at[to] = value
            one += class_index
            zero += 1 - class_index
            # Never further than what has been read; what does not stay is overwritten.
            entries[stay] = uint64(entry + uint32(n))
            values[stay] = value
            stay += int64(stays[class_index])
        moving_at[n_zero] = moving_at[n + 1] = values[stay] = np.inf
        for orientation in range(1 + (slots[feature, 0] != slots[feature, 1])):
            _merge(
                moving, moving_at, n_zero, entries, values, shift[feature, orientation, 0],
                shift[feature, orientation, 1], shifts.largest[feature], orders, slots[feature, orientation],
            )  # fmt: skip
    return last
