"""Histograms of the samples of a node: per column of codes and per code, what its samples of each class add up to.

Everything that is added is an integer, so sums are exact and do not depend on the order of the samples. Where a sample
counts as one row and weighs what its class weighs, a cell is a single word with the count of class 0 in its lower and
the count of class 1 in its upper half; else a cell is four words: weight and rows of class 0, weight and rows of class
1, in fixed point.

A sample sits in one child only, and its codes never change, so a parent's histogram is the sum of its children's: the
smaller child is counted, the larger one is what is left.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64, uint32, uint64

from hardwood._kernels.compiling import inner
from hardwood._kernels.grow.criteria import GINI, gain
from hardwood._kernels.grow.scanning import SLACK

CLASS_BIT = uint32(31)
ID_MASK = uint32((1 << 31) - 1)
HALF = int64(32)  # bits of a count
LOW_HALF = int64((1 << 32) - 1)


class BinnedSamples(NamedTuple):
    """The training samples. With rho < 1 there are up to two samples per row; those that stay come last."""

    codes: np.ndarray  # uint8 or uint16 (sample, column)
    entries: np.ndarray  # uint32: the samples, node by node; the class is in the top bit
    spill: np.ndarray  # uint32 per sample: scratch
    weights: np.ndarray | None  # int64 (sample, 2): weight and rows in fixed point; None where each is a row


class Units(NamedTuple):
    """What one unit of the integers stands for."""

    zero: float  # weight of class 0
    one: float
    rows: float


@inner
def count(codes, entries, start, end, width, cells):
    """Add samples that are one row each to a histogram."""
    n_columns, step = uint64(codes.shape[1]), uint64(width)
    for k in range(uint64(start), uint64(end)):
        entry = entries[k]
        sample = uint64(entry & ID_MASK)
        unit = int64(1) << (int64(entry >> CLASS_BIT) << int64(5))
        base = uint64(0)
        for column in range(n_columns):
            cells[base + uint64(codes[sample, column])] += unit
            base += step


@inner
def weigh(codes, entries, start, end, width, weights, cells):
    """Add samples with weights to a histogram."""
    n_columns = uint64(codes.shape[1])
    for k in range(uint64(start), uint64(end)):
        entry = entries[k]
        sample = uint64(entry & ID_MASK)
        word = uint64(entry >> CLASS_BIT) << uint64(1)
        weight, rows = weights[sample, 0], weights[sample, 1]
        for column in range(n_columns):
            cell = ((column * uint64(width) + uint64(codes[sample, column])) << uint64(2)) + word
            cells[cell] += weight
            cells[cell + uint64(1)] += rows


@inner
def fill(samples, weights, start, end, width, cells):
    """Make the histogram of some samples; `weights` are those of the samples, see `growing.Samples`."""
    for cell in range(cells.shape[0]):
        cells[cell] = 0
    if weights is None:
        count(samples.codes, samples.entries, start, end, width, cells)
    else:
        weigh(samples.codes, samples.entries, start, end, width, weights, cells)


@inner
def subtract(cells, others):
    """Take one histogram away from another."""
    for cell in range(cells.shape[0]):
        cells[cell] -= others[cell]


@inner
def read(cells, weights, cell):
    """What a cell holds: weight and rows of class 0, weight and rows of class 1."""
    if weights is None:
        word = cells[cell]
        zero, one = word & LOW_HALF, word >> HALF
        return zero, zero, one, one
    at = cell << uint64(2)
    return cells[at], cells[at + uint64(1)], cells[at + uint64(2)], cells[at + uint64(3)]


class Rule(NamedTuple):
    """How thresholds are compared, and which of them are not allowed."""

    criterion: int
    min_leaf: float


@inner
def _improve(code, sign, zero, one, rows, totals, rule, best, cut):
    """Return the better of the best threshold so far and the one behind a code: (gain, code)."""
    if rule.criterion == GINI:  # spares most divisions, as in the exact scan
        imbalance, left, node = zero * totals.one - one * totals.zero, zero + one, totals.zero + totals.one
        if imbalance * sign < 0.0 or imbalance * imbalance * (2.0 * SLACK) < best * node * (left * (node - left)):
            return best, cut
    score = gain(rule.criterion, sign, zero, one, totals.zero, totals.one)
    if not score > best:
        return best, cut
    if rule.min_leaf > 0.0 and (rows < rule.min_leaf or totals.rows - rows < rule.min_leaf):
        return best, cut
    return score, code


@inner
def scan(cells, weights, lo, hi, n_thresholds, units, totals, rule, floor):
    """Best threshold of one feature: (gain, code that is the last on the left or -1, orientation).

    `lo` and `hi` are the first cells of the feature's columns, the same if nobody can move it. Of equally good ones the
    first is taken, and orientation 0 before orientation 1 (see `grow/tree.py`): class 0 at the upper end of its reach
    and class 1 at the lower one, or the other way round.
    """
    both = lo == hi  # one scan serves both orientations
    sign = 0.0 if both else 1.0
    best, cut, other, other_cut = floor, int64(-1), floor, int64(-1)
    lo_zero, lo_zero_rows, lo_one, lo_one_rows = int64(0), int64(0), int64(0), int64(0)
    hi_zero, hi_zero_rows, hi_one, hi_one_rows = int64(0), int64(0), int64(0), int64(0)
    for code in range(n_thresholds):
        zero, zero_rows, one, one_rows = read(cells, weights, uint64(lo + code))
        lo_zero, lo_zero_rows = lo_zero + zero, lo_zero_rows + zero_rows
        lo_one, lo_one_rows = lo_one + one, lo_one_rows + one_rows
        held = zero_rows | one_rows
        zero, zero_rows, one, one_rows = read(cells, weights, uint64(hi + code))
        hi_zero, hi_zero_rows = hi_zero + zero, hi_zero_rows + zero_rows
        hi_one, hi_one_rows = hi_one + one, hi_one_rows + one_rows
        if (held | zero_rows | one_rows) == 0:
            continue
        best, cut = _improve(
            code, sign, hi_zero * units.zero, lo_one * units.one, (hi_zero_rows + lo_one_rows) * units.rows, totals,
            rule, best, cut,
        )  # fmt: skip
        if not both:
            other, other_cut = _improve(
                code, -1.0, lo_zero * units.zero, hi_one * units.one, (lo_zero_rows + hi_one_rows) * units.rows,
                totals, rule, other, other_cut,
            )  # fmt: skip
    if other > best:
        return other, other_cut, int64(1)
    return best, cut, int64(0)


@inner
def sum_left(cells, weights, zero_column, one_column, cut):
    """What is left of a cut, in integers: weight of class 0, of class 1, and rows."""
    left_zero, left_one, left_rows = int64(0), int64(0), int64(0)
    for code in range(cut + 1):
        zero, zero_rows, _, _ = read(cells, weights, uint64(zero_column + code))
        _, _, one, one_rows = read(cells, weights, uint64(one_column + code))
        left_zero, left_one, left_rows = left_zero + zero, left_one + one, left_rows + zero_rows + one_rows
    return left_zero, left_one, left_rows


@inner
def skip_empty(cells, weights, zero_column, one_column, cut, n_thresholds):
    """Return the first code behind a cut that holds a sample."""
    code = cut + 1
    while code < n_thresholds:
        _, zero_rows, _, _ = read(cells, weights, uint64(zero_column + code))
        _, _, _, one_rows = read(cells, weights, uint64(one_column + code))
        if (zero_rows | one_rows) != 0:
            break
        code += 1
    return code
