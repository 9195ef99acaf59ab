"""The least adversarial error of trees of depth one and two, by exhaustion with bounds.

A row is an interval of cuts on every feature: it can be moved to the left of cut ``k`` iff ``low <= k``, and to the
right iff ``k < high``. A tree loses a row iff the row can be moved into a leaf of the other class. Below a root cut,
some rows can only be sent left, some only right, and some either way. The third kind is what makes the two subtrees
depend on each other: the row counts once, however many subtrees lose it.

Rows are listed by number in ``rows[:n_rows]``. Losses are sums of weights. A stump is written down as three numbers:
its feature (-1: it is a leaf), its cut, and the class index of its left side (of the leaf).
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel


class Codes(NamedTuple):
    """The training rows, in terms of cuts."""

    low: np.ndarray  # int32 (feature, row)
    high: np.ndarray  # int32 (feature, row)
    n_cuts: np.ndarray  # int64 per feature
    change: np.ndarray  # float64 (feature, cut): weight of the rows that cut k sends elsewhere than cut k - 1 does
    class_index: np.ndarray  # int32 per row
    weight: np.ndarray  # float64 per row


class Scratch(NamedTuple):
    """Room for one evaluation of a root."""

    left: np.ndarray  # int64 per row: rows that can be sent left
    right: np.ndarray  # rows that can be sent right
    only_left: np.ndarray
    only_right: np.ndarray
    rest: np.ndarray  # rows that the left subtree leaves to the right one
    steps: np.ndarray  # float64 (4, cuts + 1): how losses change from cut to cut


@inner
def _sum_classes(codes, rows, n_rows):
    """The weights of the first and of the second class."""
    zeros, ones = 0.0, 0.0
    for at in range(n_rows):
        row = rows[at]
        if codes.class_index[row] == 1:
            ones += codes.weight[row]
        else:
            zeros += codes.weight[row]
    return zeros, ones


@inner
def _find_steps(codes, feature, rows, n_rows, rising, falling):
    """How the loss of both labellings of a cut changes from the cut before.

    `rising` is for labels 0 on the left and 1 on the right, which lose rows of class 1 that can go left and rows of
    class 0 that can go right; `falling` for the labels swapped.
    """
    for cut in range(codes.n_cuts[feature] + 1):
        rising[cut] = falling[cut] = 0.0
    for at in range(n_rows):
        row = rows[at]
        weight, low, high = codes.weight[row], codes.low[feature, row], codes.high[feature, row]
        if codes.class_index[row] == 1:
            rising[low] += weight
            falling[high] -= weight
        else:
            rising[high] -= weight
            falling[low] += weight


@inner
def _find_stump(codes, rows, n_rows, rising, falling, choice):
    """The least loss of a tree of one split, or of none, on some rows.

    `choice` is filled with the stump.
    """
    zeros, ones = _sum_classes(codes, rows, n_rows)
    best = min(zeros, ones)
    choice[0], choice[1], choice[2] = -1, 0, 0 if ones <= zeros else 1
    for feature in range(codes.low.shape[0]):
        if best == 0.0:
            break
        _find_steps(codes, feature, rows, n_rows, rising, falling)
        loss_rising, loss_falling = zeros, ones
        for cut in range(codes.n_cuts[feature]):
            loss_rising += rising[cut]
            loss_falling += falling[cut]
            if loss_rising < best:
                best = loss_rising
                choice[0], choice[1], choice[2] = feature, cut, 0
            if loss_falling < best:
                best = loss_falling
                choice[0], choice[1], choice[2] = feature, cut, 1
    return best


@inner
def _is_lost(codes, row, feature, cut, left_class):
    """Whether a stump loses a row."""
    if feature < 0:
        return codes.class_index[row] != left_class
    if codes.class_index[row] != left_class:
        return codes.low[feature, row] <= cut
    return cut < codes.high[feature, row]


@inner
def _divide(codes, feature, cut, rows, n_rows, scratch):
    """List the rows that a root cut can send left, right, only left, only right; how many of each."""
    n_left = n_right = n_only_left = n_only_right = 0
    for at in range(n_rows):
        row = rows[at]
        goes_left, goes_right = codes.low[feature, row] <= cut, cut < codes.high[feature, row]
        if goes_left:
            scratch.left[n_left] = row
            n_left += 1
        if goes_right:
            scratch.right[n_right] = row
            n_right += 1
        if goes_left and not goes_right:
            scratch.only_left[n_only_left] = row
            n_only_left += 1
        if goes_right and not goes_left:
            scratch.only_right[n_only_right] = row
            n_only_right += 1
    return n_left, n_right, n_only_left, n_only_right


@inner
def _finish_right(codes, root_feature, root_cut, n_left, n_only_right, left_stump, scratch, choice):
    """The least loss of the right stump on the rows that a left stump has not lost already."""
    n_rest = 0
    for at in range(n_only_right):
        scratch.rest[n_rest] = scratch.only_right[at]
        n_rest += 1
    for at in range(n_left):
        row = scratch.left[at]
        goes_right = root_cut < codes.high[root_feature, row]
        if goes_right and not _is_lost(codes, row, left_stump[0], left_stump[1], left_stump[2]):
            scratch.rest[n_rest] = row
            n_rest += 1
    return _find_stump(codes, scratch.rest, n_rest, scratch.steps[2], scratch.steps[3], choice)


@inner
def _evaluate_root(codes, root_feature, root_cut, rows, n_rows, upper, scratch, left_choice, choice, spare):
    """The least loss of two stumps below a root cut, if that is less than `upper`; otherwise a lower bound, >= upper.

    Rows that can go either way are given to one side, then to the other: two lower bounds. If neither reaches `upper`,
    every left stump is completed by the best right stump for it. A left stump whose own loss, and the least of the rows
    that only the right side has, reach `upper` needs no completion. Nor do the next cuts after a stump that was
    completed, as long as fewer rows change sides than it is above `upper`.
    `choice` is filled with the left stump and the right one. Also returns how many stumps were fitted.
    """
    n_left, n_right, n_only_left, n_only_right = _divide(codes, root_feature, root_cut, rows, n_rows, scratch)
    first, second = scratch.steps[2], scratch.steps[3]
    least_right = _find_stump(codes, scratch.only_right, n_only_right, first, second, spare)
    bound = least_right + _find_stump(codes, scratch.left, n_left, first, second, spare)
    if bound >= upper:
        return bound, 2
    least_left = _find_stump(codes, scratch.only_left, n_only_left, first, second, spare)
    bound = max(bound, least_left + _find_stump(codes, scratch.right, n_right, first, second, spare))
    if bound >= upper:
        return bound, 4
    n_stumps = 4
    best, floor = upper, np.inf
    zeros, ones = _sum_classes(codes, scratch.left, n_left)
    for feature in range(-1, codes.low.shape[0]):
        n_cuts = 1 if feature < 0 else codes.n_cuts[feature]
        if feature >= 0:
            _find_steps(codes, feature, scratch.left, n_left, scratch.steps[0], scratch.steps[1])
        for label in range(2):
            loss = zeros if (label == 0) == (feature >= 0) else ones
            slack = -1.0
            for cut in range(n_cuts):
                if feature >= 0:
                    loss += scratch.steps[label, cut]
                    slack -= codes.change[feature, cut]
                if loss + least_right >= best:
                    floor = min(floor, loss + least_right)
                    continue
                if slack >= 0.0:
                    floor = min(floor, best + slack)
                    continue
                left_choice[0], left_choice[1], left_choice[2] = feature, cut, label
                total = loss + _finish_right(
                    codes, root_feature, root_cut, n_left, n_only_right, left_choice, scratch, spare
                )
                n_stumps += 1
                if total < best:
                    best = total
                    for k in range(3):
                        choice[k], choice[3 + k] = left_choice[k], spare[k]
                floor = min(floor, total)
                slack = total - best
    if best < upper:
        return best, n_stumps
    return max(bound, floor), n_stumps


@kernel(about="the best single split", seconds=0.5)
def fit_stump(codes, rows, scratch, choice):
    """The least loss of a tree of at most one split, which `choice` is filled with."""
    return _find_stump(codes, rows, rows.shape[0], scratch.steps[0], scratch.steps[1], choice)


@kernel(about="the best tree of two levels", seconds=1.5)
def fit_root(codes, root_feature, root_cut, rows, upper, scratch, left_choice, choice, spare):
    """What `_evaluate_root` says of one root cut."""
    return _evaluate_root(
        codes, root_feature, root_cut, rows, rows.shape[0], upper, scratch, left_choice, choice, spare
    )
