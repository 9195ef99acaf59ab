"""The split search of two classes: by the shift theorem, the better of two ordinary scans over shifted codes.

Where samples are one row each, a cell of a histogram is a single word, with the count of class 0 in its lower and the
count of class 1 in its upper half; else it is four, rows and weight of either class. What is numbers, all there and not
monotone comes here, which is quicker than the search of any number of classes (`classes.py`). The attacker never
divides the movable samples of one of two classes.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy import int64, uint32, uint64

from hardwood._kernels.compiling import inner, name_functions
from hardwood._kernels.grow.criteria import GINI, gain
from hardwood._kernels.grow.frame.kernels import Target, make_kernels
from hardwood._kernels.grow.frame.nodes import EVERYBODY, halve
from hardwood._kernels.grow.nodes import Totals, draw_features
from hardwood._kernels.grow.scanning import SLACK

CLASS_BIT = uint32(31)
ID_MASK = uint32((1 << 31) - 1)
HALF = int64(32)  # bits of a count
LOW_HALF = int64((1 << 32) - 1)


class Cuts(NamedTuple):
    """Where the codes of a feature are, and what they mean: fields of `nodes.Columns`."""

    columns: np.ndarray
    n_thresholds: np.ndarray
    below: np.ndarray
    above: np.ndarray
    width: int
    monotonic: np.ndarray


class Rule(NamedTuple):
    """How thresholds are compared, which of them are not allowed, and what one unit of the integers stands for."""

    criterion: int
    min_leaf: float
    zero: float  # weight of class 0
    one: float
    rows: float


@inner
def count(samples, start, end, n_groups, width, cells):
    """Add samples to a histogram."""
    codes, entries, statistics = samples.codes, samples.entries, samples.statistics
    n_columns, step = uint64(codes.shape[1]), uint64(width)
    if statistics.shape[1] == 1:
        for k in range(uint64(start), uint64(end)):
            entry = entries[k]
            sample = uint64(entry & ID_MASK)
            unit = int64(1) << (int64(entry >> CLASS_BIT) << int64(5))
            base = uint64(0)
            for column in range(n_columns):
                cells[base + uint64(codes[sample, column])] += unit
                base += step
        return
    for k in range(uint64(start), uint64(end)):
        entry = entries[k]
        sample = uint64(entry & ID_MASK)
        word = uint64(entry >> CLASS_BIT) << uint64(1)
        rows, weight = statistics[sample, 0], statistics[sample, 1]
        for column in range(n_columns):
            cell = ((column * step + uint64(codes[sample, column])) << uint64(2)) + word
            cells[cell] += rows
            cells[cell + uint64(1)] += weight


@inner
def _read(cells, is_weighted, cell):
    """What a cell holds: weight and rows of class 0, weight and rows of class 1."""
    if is_weighted:
        at = cell << uint64(2)
        return cells[at + uint64(1)], cells[at], cells[at + uint64(3)], cells[at + uint64(2)]
    word = cells[cell]
    zero, one = word & LOW_HALF, word >> HALF
    return zero, zero, one, one


@inner
def _improve(code, sign, zero, one, rows, totals, rule, best, cut):
    """Return the better of the best threshold so far and the one behind a code: (gain, code)."""
    zero, one, rows = zero * rule.zero, one * rule.one, rows * rule.rows
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


def _make_scan(name: str, is_weighted: bool) -> Any:
    """Make the scan of a feature for one kind of cells: a branch per cell would cost a tenth of all growing."""

    @name_functions(name).inner
    def scan(cells, lo, hi, n_thresholds, totals, rule, floor):
        """Best threshold of one feature: (gain, code that is the last on the left or -1, orientation).

        `lo` and `hi` are the first cells of the feature's columns, the same if nobody can move it. Of equally good ones
        the first is taken, and orientation 0 before orientation 1 (see `grow/tree.py`): class 0 at the upper end of its
        reach and class 1 at the lower one, or the other way round.
        """
        both = lo == hi  # one scan serves both orientations
        sign = 0.0 if both else 1.0
        best, cut, other, other_cut = floor, int64(-1), floor, int64(-1)
        lo_zero, lo_zero_rows, lo_one, lo_one_rows = int64(0), int64(0), int64(0), int64(0)
        hi_zero, hi_zero_rows, hi_one, hi_one_rows = int64(0), int64(0), int64(0), int64(0)
        for code in range(n_thresholds):
            zero, zero_rows, one, one_rows = _read(cells, is_weighted, uint64(lo + code))
            lo_zero, lo_zero_rows = lo_zero + zero, lo_zero_rows + zero_rows
            lo_one, lo_one_rows = lo_one + one, lo_one_rows + one_rows
            held = zero_rows | one_rows
            zero, zero_rows, one, one_rows = _read(cells, is_weighted, uint64(hi + code))
            hi_zero, hi_zero_rows = hi_zero + zero, hi_zero_rows + zero_rows
            hi_one, hi_one_rows = hi_one + one, hi_one_rows + one_rows
            if (held | zero_rows | one_rows) == 0:
                continue
            best, cut = _improve(code, sign, hi_zero, lo_one, hi_zero_rows + lo_one_rows, totals, rule, best, cut)
            if not both:
                other, other_cut = _improve(
                    code, -1.0, lo_zero, hi_one, lo_zero_rows + hi_one_rows, totals, rule, other, other_cut
                )
        if other > best:
            return other, other_cut, int64(1)
        return best, cut, int64(0)

    return scan


_scan_rows, _scan_weights = _make_scan("scan of rows", False), _make_scan("scan of weights", True)


@inner
def _settle(cells, is_weighted, bins, here, zero_column, one_column, left_sums):
    """Add up what is left of the cut that was found, and place its threshold.

    It goes to the middle of the empty bins behind the cut. The bin before the cut holds a sample, or the cut before it
    would have been taken, which is as good.
    """
    n_statistics = left_sums.shape[0] // 2
    for k in range(left_sums.shape[0]):
        left_sums[k] = 0
    for code in range(here.cut + 1):
        zero, zero_rows, _, _ = _read(cells, is_weighted, uint64(zero_column + code))
        _, _, one, one_rows = _read(cells, is_weighted, uint64(one_column + code))
        left_sums[0] += zero_rows
        left_sums[n_statistics] += one_rows
        if is_weighted:
            left_sums[1] += zero
            left_sums[3] += one
    beyond = here.cut + 1
    while beyond < bins.n_thresholds[here.feature]:
        _, zero_rows, _, _ = _read(cells, is_weighted, uint64(zero_column + beyond))
        _, _, _, one_rows = _read(cells, is_weighted, uint64(one_column + beyond))
        if (zero_rows | one_rows) != 0:
            break
        beyond += 1
    here.threshold = halve(bins.below[here.feature, here.cut], bins.above[here.feature, beyond - 1])


@inner
def find_split(cells, bins, units, limits, tree, node, features, work):
    """Find a node's best split by its histogram, and return whether it is worth it; `features` are scratch."""
    here, sums, takes = tree.nodes[node], tree.sums[node], tree.takes[node]
    columns, width, n_statistics = bins.columns, bins.width, sums.shape[0] // 2
    is_weighted, last = n_statistics == 2, n_statistics - 1
    rule = Rule(limits.criterion, limits.min_leaf, units.weight[0], units.weight[1], units.rows)
    totals = Totals(sums[last] * rule.zero, sums[n_statistics + last] * rule.one, here.count)
    here.feature, here.gain, orientation = -1, 0.0, int64(0)
    draw_features(here.seed, limits.max_features, features)
    for k in range(features.shape[0]):
        if here.feature >= 0 and k >= limits.max_features:
            break
        feature = features[k]
        lo, hi = columns[feature, 0] * width, columns[feature, 1] * width
        if is_weighted:
            score, cut, side = _scan_weights(cells, lo, hi, bins.n_thresholds[feature], totals, rule, here.gain)
        else:
            score, cut, side = _scan_rows(cells, lo, hi, bins.n_thresholds[feature], totals, rule, here.gain)
        if cut >= 0:
            here.feature, orientation, here.cut, here.gain = feature, side, cut, score
    if here.feature < 0 or here.gain < limits.min_gain:
        return False
    takes[0], takes[1] = (0, EVERYBODY) if orientation == 0 else (EVERYBODY, 0)
    zero_column, one_column = columns[here.feature, 1 - orientation], columns[here.feature, orientation]
    _settle(cells, is_weighted, bins, here, zero_column * width, one_column * width, tree.left_sums[node])
    return True


@inner
def partition(samples, bins, here, sides, limits, start, end):
    """Move a node's samples that go left to the front, keeping their order; where the others begin.

    Samples of a class whose movable ones go left are where the lower ends of their reach are, the others where the
    upper ends are.
    """
    codes, entries, spill = samples.codes, samples.entries, samples.spill
    write, spilled, cut = uint64(start), uint64(0), uint64(here.cut)
    zero = uint64(bins.columns[here.feature, int64(limits[0] == 0)])
    one = uint64(bins.columns[here.feature, int64(limits[1] == 0)])
    for k in range(uint64(start), uint64(end)):
        entry = entries[k]
        column = one if entry >> CLASS_BIT != uint32(0) else zero
        right = uint64(uint64(codes[uint64(entry & ID_MASK), column]) > cut)
        entries[write] = entry
        spill[spilled] = entry
        write += uint64(1) - right
        spilled += right
    for k in range(spilled):
        entries[write + k] = spill[k]
    return int64(write)


two_classes = make_kernels(Target("trees of two classes", 2.5, count, find_split, partition, tally=None))
