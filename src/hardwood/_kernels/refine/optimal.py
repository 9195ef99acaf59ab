"""The least adversarial error of trees of depth one and two, by exhaustion with bounds.

A row is an interval of cuts on every feature: it can be moved to the left of cut ``k`` iff ``low <= k``, and to the
right iff ``k < high``. A tree loses a row iff the row can be moved into a leaf of another class. Below a root cut,
some rows can only be sent left, some only right, and some either way. The third kind is what makes the two subtrees
depend on each other: the row counts once, however many subtrees lose it.

Rows are listed by number in ``rows[:n_rows]``. Losses are sums of weights. A stump is written down as four numbers:
its feature (-1: it is a leaf), its cut, and the class indices of its left side (of the leaf) and of its right one. Two
classes are tried at a time: the rows of all others are lost.

What can still become of a row below the root may depend on the side that it was sent to: each side has its own codes.
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
    by_class: np.ndarray  # float64 (2, class): the weights of some rows


@inner
def _sum_classes(codes, rows, n_rows, by_class):
    """Fill in the weights of the classes; return their sum."""
    by_class[:] = 0.0
    for at in range(n_rows):
        by_class[codes.class_index[rows[at]]] += codes.weight[rows[at]]
    total = 0.0
    for label in range(by_class.shape[0]):
        total += by_class[label]
    return total


@inner
def _sum_others(by_class, first, second):
    """The weight of all classes but two, which may be the same."""
    total = 0.0
    for label in range(by_class.shape[0]):
        if label != first and label != second:
            total += by_class[label]
    return total


@inner
def _find_steps(codes, feature, rows, n_rows, labels, rising, falling):
    """How the loss of two labellings of a cut changes from the cut before.

    `rising` is for the first of two labels on the left and the second on the right, which lose rows of the second
    class that can go left and rows of the first that can go right; `falling` for the labels swapped.
    """
    for cut in range(codes.n_cuts[feature] + 1):
        rising[cut] = falling[cut] = 0.0
    for at in range(n_rows):
        row = rows[at]
        weight, low, high = codes.weight[row], codes.low[feature, row], codes.high[feature, row]
        if codes.class_index[row] == labels[1]:
            rising[low] += weight
            falling[high] -= weight
        elif codes.class_index[row] == labels[0]:
            rising[high] -= weight
            falling[low] += weight


@inner
def _note_stump(choice, feature, cut, left, right):
    choice[0] = feature
    choice[1] = cut
    choice[2] = left
    choice[3] = right


@inner
def _find_stump(codes, rows, n_rows, rising, falling, by_class, choice):
    """The least loss of a tree of one split, or of none, on some rows.

    `choice` is filled with the stump.
    """
    _sum_classes(codes, rows, n_rows, by_class)
    n_classes = by_class.shape[0]
    best = np.inf
    for label in range(n_classes):
        loss = _sum_others(by_class, label, label)
        if loss < best:
            best = loss
            _note_stump(choice, -1, 0, label, label)
    for first in range(n_classes):
        for second in range(first + 1, n_classes):
            others = _sum_others(by_class, first, second)
            if others >= best:
                continue
            for feature in range(codes.low.shape[0]):
                if best == 0.0:
                    break
                _find_steps(codes, feature, rows, n_rows, (first, second), rising, falling)
                loss_rising, loss_falling = others + by_class[first], others + by_class[second]
                for cut in range(codes.n_cuts[feature]):
                    loss_rising += rising[cut]
                    loss_falling += falling[cut]
                    if loss_rising < best:
                        best = loss_rising
                        _note_stump(choice, feature, cut, first, second)
                    if loss_falling < best:
                        best = loss_falling
                        _note_stump(choice, feature, cut, second, first)
    return best


@inner
def _is_lost(codes, row, stump):
    """Whether a stump loses a row."""
    feature, cut, label = stump[0], stump[1], codes.class_index[row]
    if feature < 0:
        return label != stump[2]
    gets_left, gets_right = codes.low[feature, row] <= cut, cut < codes.high[feature, row]
    return (gets_left and label != stump[2]) or (gets_right and label != stump[3])


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
def _finish_right(sides, codes, root_feature, root_cut, n_left, n_only_right, left_stump, scratch, choice):
    """The least loss of the right stump on the rows that a left stump has not lost already."""
    n_rest = 0
    for at in range(n_only_right):
        scratch.rest[n_rest] = scratch.only_right[at]
        n_rest += 1
    for at in range(n_left):
        row = scratch.left[at]
        goes_right = root_cut < codes.high[root_feature, row]
        if goes_right and not _is_lost(sides[0], row, left_stump):
            scratch.rest[n_rest] = row
            n_rest += 1
    steps = scratch.steps[2], scratch.steps[3]
    return _find_stump(sides[1], scratch.rest, n_rest, steps[0], steps[1], scratch.by_class[1], choice)


@inner
def _evaluate_root(codes, sides, root_feature, root_cut, rows, n_rows, upper, scratch, left_choice, choice, spare):
    """The least loss of two stumps below a root cut, if that is less than `upper`; otherwise a lower bound, >= upper.

    Rows that can go either way are given to one side, then to the other: two lower bounds. If neither reaches `upper`,
    every left stump is completed by the best right stump for it. A left stump whose own loss, and the least of the rows
    that only the right side has, reach `upper` needs no completion. Nor do the next cuts after a stump that was
    completed, as long as fewer rows change sides than it is above `upper`.
    `choice` is filled with the left stump and the right one.
    """
    n_left, n_right, n_only_left, n_only_right = _divide(codes, root_feature, root_cut, rows, n_rows, scratch)
    left, right, by_class = sides[0], sides[1], scratch.by_class[1]
    first, second = scratch.steps[2], scratch.steps[3]
    least_right = _find_stump(right, scratch.only_right, n_only_right, first, second, by_class, spare)
    bound = least_right + _find_stump(left, scratch.left, n_left, first, second, by_class, spare)
    if bound >= upper:
        return bound
    least_left = _find_stump(left, scratch.only_left, n_only_left, first, second, by_class, spare)
    bound = max(bound, least_left + _find_stump(right, scratch.right, n_right, first, second, by_class, spare))
    if bound >= upper:
        return bound
    best, floor = upper, np.inf
    own = scratch.by_class[0]
    _sum_classes(left, scratch.left, n_left, own)
    n_classes = own.shape[0]
    for feature in range(-1, left.low.shape[0]):
        for one in range(n_classes):
            for other in range(one if feature < 0 else one + 1, one + 1 if feature < 0 else n_classes):
                others = _sum_others(own, one, other)
                if n_classes > 2 and others + least_right >= best:
                    floor = min(floor, others + least_right)
                    continue
                if feature >= 0:
                    steps = scratch.steps[0], scratch.steps[1]
                    _find_steps(left, feature, scratch.left, n_left, (one, other), steps[0], steps[1])
                for is_falling in range(1 if feature < 0 else 2):
                    loss = others
                    if feature >= 0:
                        loss += own[other] if is_falling else own[one]
                    slack = -1.0
                    for cut in range(1 if feature < 0 else left.n_cuts[feature]):
                        if feature >= 0:
                            loss += scratch.steps[is_falling, cut]
                            slack -= left.change[feature, cut]
                        if loss + least_right >= best:
                            floor = min(floor, loss + least_right)
                            continue
                        if slack >= 0.0:
                            floor = min(floor, best + slack)
                            continue
                        labels = (other, one) if is_falling else (one, other)
                        _note_stump(left_choice, feature, cut, labels[0], labels[1])
                        total = loss + _finish_right(
                            sides, codes, root_feature, root_cut, n_left, n_only_right, left_choice, scratch, spare
                        )
                        if total < best:
                            best = total
                            for k in range(4):
                                choice[k], choice[4 + k] = left_choice[k], spare[k]
                        floor = min(floor, total)
                        slack = total - best
    return best if best < upper else max(bound, floor)


@kernel(about="the best single split", seconds=0.5)
def fit_stump(codes, rows, scratch, choice):
    """The least loss of a tree of at most one split, which `choice` is filled with."""
    steps = scratch.steps[0], scratch.steps[1]
    return _find_stump(codes, rows, rows.shape[0], steps[0], steps[1], scratch.by_class[0], choice)


@kernel(about="the best tree of two levels", seconds=1.5)
def fit_root(codes, left, right, root_feature, root_cut, rows, upper, scratch, left_choice, choice, spare):
    """What `_evaluate_root` says of one root cut; `left` and `right` are the codes of rows that were sent there."""
    sides = left, right
    return _evaluate_root(
        codes, sides, root_feature, root_cut, rows, rows.shape[0], upper, scratch, left_choice, choice, spare
    )
