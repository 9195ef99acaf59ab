"""Splits of a node of a boosted tree, judged by histograms of gradients of the certified loss.

A row is hurt where its leaf's value is lower (group 0) or where it is higher (group 1). If the left value is the lower
one (direction 1), the attacker puts a row of group 0 at the lower end of its reach and a row of group 1 at the upper
one: its seat. Direction -1 is the mirror image. So a feature has two histograms, of both directions' seats, and
a threshold is judged by prefix sums of either. Child values are those that minimise the second-order loss::

    value = -G / (H + l2)        objective(value) = G value + (H + l2) value^2 / 2

A threshold counts only where its values have the order that its seats were chosen for.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64

from hardwood._kernels.compiling import inner


class SplitRule(NamedTuple):
    """How splits are compared, and which of them are not allowed."""

    l2: float
    min_child_weight: float
    min_gain: float
    max_depth: int
    ordered: bool  # a row sits in one child only, and children's values are kept apart
    gradient_unit: float  # what one unit of the integers stands for
    hessian_unit: float


class Split(NamedTuple):
    """The best split of a node so far. A named tuple of numbers travels in registers."""

    score: float  # half the sum of G^2 / (H + l2) over both children, where nothing bounds their values
    feature: int
    cut: int  # the last code on the left; of categories, how many of the order are left
    direction: int  # 1: the left value is the lower one, -1: the higher one
    missing_left: bool
    left_gradient: int
    left_hessian: int


class Node(NamedTuple):
    """What a split divides: sums of all rows, and the bounds that values are kept within."""

    gradient: int
    hessian: int
    lower: float
    upper: float


@inner
def clip(value, lower, upper):
    """Return the value within bounds that is nearest."""
    return lower if value < lower else upper if value > upper else value


@inner
def judge(gradient, hessian, lower, upper, l2):
    """What the best value within bounds takes off the loss of some rows."""
    value = clip(-gradient / (hessian + l2), lower, upper)
    return -(gradient * value + 0.5 * (hessian + l2) * value * value)


@inner
def try_split(best, feature, cut, direction, missing_left, left_gradient, left_hessian, node, rule):
    """Return the better of the best split so far and another one. `direction` 0: either will do."""
    right_gradient, right_hessian = node.gradient - left_gradient, node.hessian - left_hessian
    if left_hessian <= 0 or right_hessian <= 0:
        return best
    left_weight, right_weight = left_hessian * rule.hessian_unit, right_hessian * rule.hessian_unit
    if left_weight < rule.min_child_weight or right_weight < rule.min_child_weight:
        return best
    l2 = rule.l2
    left, right = left_gradient * rule.gradient_unit, right_gradient * rule.gradient_unit
    # The order of the values without a division: positive where the left one is lower.
    lead = left * (right_weight + l2) - right * (left_weight + l2)
    if lead == 0.0 or lead * direction < 0.0:
        return best
    if node.lower == -np.inf and node.upper == np.inf:
        twice = left * left * (right_weight + l2) + right * right * (left_weight + l2)
        if not twice > 2.0 * best.score * ((left_weight + l2) * (right_weight + l2)):
            return best
    elif clip(-left / (left_weight + l2), node.lower, node.upper) == clip(
        -right / (right_weight + l2), node.lower, node.upper
    ):
        return best
    score = judge(left, left_weight, node.lower, node.upper, l2)
    score += judge(right, right_weight, node.lower, node.upper, l2)
    if not score > best.score:
        return best
    found = int64(1) if lead > 0.0 else int64(-1)
    return Split(score, feature, cut, found, missing_left, left_gradient, left_hessian)


@inner
def scan_numbers(cells, first, n_codes, begin, end, feature, direction, node, rule, best):
    """Return the best split so far, or a better one by a threshold of this feature.

    `first` is the first cell of the histogram of this direction's seats, `begin` to `end` are the thresholds inside the
    node. Missing values have the code `n_codes`: they are tried on both sides, and by themselves.
    """
    missing = 2 * (first + n_codes)
    missing_gradient, missing_hessian = cells[missing], cells[missing + 1]
    has_missing = missing_hessian > 0
    if has_missing and end == n_codes - 1:
        end = n_codes
    gradient, hessian = int64(0), int64(0)
    for code in range(end):
        at = 2 * (first + code)
        here = cells[at + 1]
        gradient += cells[at]
        hessian += here
        # A threshold behind an empty cell parts the same rows as the one before it.
        if code < begin or (here == 0 and code > begin):
            continue
        best = try_split(best, feature, code, direction, False, gradient, hessian, node, rule)
        if has_missing:
            best = try_split(
                best, feature, code, direction, True, gradient + missing_gradient, hessian + missing_hessian, node, rule
            )
    return best


@inner
def scan_hidden(cells, firsts, n_codes, begin, end, fresh, feature, direction, node, rule, best):
    """Return the best split so far, or a better one by a threshold of a feature that an attacker can blank or fill in.

    `firsts` are the first cells of group 0 and 1 at the lower end of their reach, and of group 0 and 1 at the upper
    one. Who can hide a number, or show a missing one, has codes that begin after that of missing values. Where no split
    above has asked for the feature (`fresh`), he can be missing as well: on whichever side missing values are sent to.
    """
    low, high = (firsts[0], firsts[3]) if direction > 0 else (firsts[1], firsts[2])
    shift = n_codes + 1
    missing_gradient = cells[2 * (low + n_codes)] + cells[2 * (high + n_codes)]
    missing_hessian = cells[2 * (low + n_codes) + 1] + cells[2 * (high + n_codes) + 1]
    for code in range(n_codes):  # where missing values go, those go whom it hurts
        missing_gradient += cells[2 * (low + shift + code)]
        missing_hessian += cells[2 * (low + shift + code) + 1]
    if fresh and end == n_codes - 1:
        end = n_codes
    gradient, hessian = int64(0), int64(0)  # of numbers that cannot be hidden
    low_gradient, low_hessian, high_gradient, high_hessian = int64(0), int64(0), int64(0), int64(0)  # of those that can
    for code in range(end):
        here = int64(0)
        for first in (low, high):
            gradient += cells[2 * (first + code)]
            here += cells[2 * (first + code) + 1]
        hessian += here
        low_gradient += cells[2 * (low + shift + code)]
        low_hessian += cells[2 * (low + shift + code) + 1]
        high_gradient += cells[2 * (high + shift + code)]
        high_hessian += cells[2 * (high + shift + code) + 1]
        here += cells[2 * (low + shift + code) + 1] + cells[2 * (high + shift + code) + 1]
        if code < begin or (here == 0 and code > begin):
            continue
        if fresh:
            best = try_split(
                best, feature, code, direction, False, gradient + low_gradient, hessian + low_hessian, node, rule
            )
            best = try_split(
                best, feature, code, direction, True, gradient + missing_gradient + high_gradient,
                hessian + missing_hessian + high_hessian, node, rule,
            )  # fmt: skip
        else:
            best = try_split(
                best, feature, code, direction, False, gradient + low_gradient + high_gradient,
                hessian + low_hessian + high_hessian, node, rule,
            )  # fmt: skip
    return best


@inner
def find_middle(cells, low, high, shift, thresholds, cut, end):
    """Return the cut in the middle of the empty cells behind another: as good for the rows, and further from them.

    A code is counted in the cells of both `low` and `high`, and in those `shift` behind them.
    """
    last = cut
    while last + 1 < end:
        code = last + 1
        held = cells[2 * (low + code) + 1] | cells[2 * (high + code) + 1]
        held |= cells[2 * (low + shift + code) + 1] | cells[2 * (high + shift + code) + 1]
        if held != 0:
            break
        last = code
    middle = 0.5 * thresholds[cut] + 0.5 * thresholds[last]
    while cut < last and abs(thresholds[cut + 1] - middle) <= abs(thresholds[cut] - middle):
        cut += 1
    return cut
