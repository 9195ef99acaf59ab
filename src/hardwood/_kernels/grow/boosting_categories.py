"""Splits of a boosted tree by sets of categories.

Categories are put in the order of their rows' gradient per hessian, and every prefix of that order is tried as the left
set. Where the attacker cannot change categories the best set is among them: what a split takes off the loss is a convex
function of the left set's two sums. Where he can, a row goes to the side that
hurts it if one of the categories it can be given is there; every prefix is judged by that, in ascending and in
descending order (categories without rows in the node are on the other side), and sets that are no prefix are not tried.

A row of a class that attacks has its category's code plus the number of categories, if the feature can be moved at all.
If an attacker can blank or fill in the feature, the code after these is that of rows whose category is missing and can
be given: any that is known.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64

from hardwood._kernels.compiling import inner
from hardwood._kernels.grow.boosting_splits import try_split


class Categories(NamedTuple):
    """What the attacker may do to categorical features, and scratch for one node and feature."""

    n_categories: np.ndarray  # int64 per feature, those never seen counted as one; 0: a number
    moves: np.ndarray  # bool per feature: whether an attacker may change it, blank it or fill it in
    blanks: np.ndarray  # bool per feature: whether he may blank it
    start: np.ndarray  # int64 per feature: where its matrix begins
    allowed: np.ndarray  # bool: the matrices, [a, b]: whether a may become b
    open: np.ndarray  # bool per category: which can still be had in the node
    order: np.ndarray  # int64: categories with rows, by gradient per hessian
    keys: np.ndarray  # float64 per category
    n_open: np.ndarray  # int64 per category, and of those that are filled in: how many open ones it may become
    n_left: np.ndarray  # int64 the same: how many of these are in the left set
    in_left: np.ndarray  # bool per category: the left set


def make_categories(
    n_categories: np.ndarray, moves: np.ndarray, blanks: np.ndarray, start: np.ndarray, allowed: np.ndarray
) -> Categories:
    """Return what the attacker may do, and room to work on one node and feature, which no two threads may share."""
    most = int(n_categories.max())
    flags, counts = np.zeros((2, most), dtype=np.bool_), np.zeros((2, most + 1), dtype=np.int64)
    order, keys = np.zeros(most, dtype=np.int64), np.zeros(most)
    return Categories(
        n_categories, moves, blanks, start, allowed, flags[0], order, keys, counts[0], counts[1], flags[1]
    )


@inner
def find_open(feature, node, nodes, set_left, categories):
    """Find out which categories the splits above have left open."""
    n = categories.n_categories[feature]
    for category in range(n):
        categories.open[category] = True
    above = nodes[node].parent
    while above >= 0:
        if nodes[above].feature == feature:
            on_left = nodes[above].left == node
            for category in range(n):
                if (set_left[above, category] != 0) != on_left:
                    categories.open[category] = False
        node = above
        above = nodes[node].parent


@inner
def _sort(cells, firsts, feature, categories):
    """Put the open categories with rows in order; how many they are."""
    n, moves = categories.n_categories[feature], categories.moves[feature]
    n_sorted = int64(0)
    for category in range(n):
        gradient, hessian = int64(0), int64(0)
        for column in range(1 + (firsts[0] != firsts[1])):
            for moved in range(1 + moves):
                at = 2 * (firsts[column] + category + moved * n)
                gradient += cells[at]
                hessian += cells[at + 1]
        categories.keys[category] = np.inf  # without rows
        if hessian == 0 or not categories.open[category]:
            continue
        key = float(gradient) / float(hessian)
        place = n_sorted
        while place > 0 and categories.keys[categories.order[place - 1]] > key:
            categories.order[place] = categories.order[place - 1]
            place -= 1
        categories.order[place] = category
        categories.keys[category] = key
        n_sorted += 1
    return n_sorted


@inner
def _may_become(feature, category, other, categories):
    """Whether a category, or one that is filled in, may become another one."""
    n = categories.n_categories[feature]
    if category == n:
        return other < n - 1
    return categories.allowed[categories.start[feature] + category * n + other]


@inner
def _clear(feature, hides, categories):
    """Begin with an empty left set."""
    n = categories.n_categories[feature]
    for category in range(n):
        categories.in_left[category] = False
    for category in range(n + hides):
        categories.n_left[category] = 0
        categories.n_open[category] = 0
        if categories.moves[feature]:
            for other in range(n):
                if categories.open[other] and _may_become(feature, category, other, categories):
                    categories.n_open[category] += 1


@inner
def _add(feature, added, hides, categories):
    """Put one more category into the left set."""
    categories.in_left[added] = True
    if categories.moves[feature]:
        for category in range(categories.n_categories[feature] + hides):
            if _may_become(feature, category, added, categories):
                categories.n_left[category] += 1


@inner
def _sum_left(cells, firsts, feature, direction, hides, hidden_left, hidden_right, categories):
    """Sum what is left if the attacker moves rows to the sides that hurt: (gradient, hessian).

    `hidden_left` and `hidden_right` say on which side those are whose value is missing, if they can be.
    """
    n = categories.n_categories[feature]
    gradient, hessian = int64(0), int64(0)
    for group in range(2):
        left_hurts = (group == 0) == (direction > 0)
        for category in range(n + hides):
            at = 2 * (firsts[group] + category)
            if category < n and categories.in_left[category]:
                gradient += cells[at]
                hessian += cells[at + 1]
            hidden = category == n or categories.blanks[feature]
            n_left = categories.n_left[category]
            can_right = (hidden and hidden_right) or n_left < categories.n_open[category]
            if ((hidden and hidden_left) or n_left > 0) and (left_hurts or not can_right):
                gradient += cells[at + 2 * n]
                hessian += cells[at + 2 * n + 1]
    return gradient, hessian


@inner
def scan_categories(cells, firsts, n_codes, hides, fresh, feature, node, rule, categories, best):
    """Return the best split so far, or a better one by a set of categories.

    `firsts` are the first cells of the rows of both groups, the same if nobody can move the feature; `open` has been
    filled. A split is a number of categories to be taken from the ascending order, or, if negative, from its end.
    `hides` and `fresh` are those of numbers, see `boosting_splits.scan_hidden`.
    """
    n_sorted = _sort(cells, firsts, feature, categories)
    missing_gradient, missing_hessian = cells[2 * (firsts[0] + n_codes)], cells[2 * (firsts[0] + n_codes) + 1]
    moves = categories.moves[feature]
    if moves:
        missing_gradient += cells[2 * (firsts[1] + n_codes)]
        missing_hessian += cells[2 * (firsts[1] + n_codes) + 1]
    both_sides = fresh and (hides or missing_hessian > 0)
    for descending in range(1 + moves):
        _clear(feature, hides, categories)
        gradient, hessian = int64(0), int64(0)
        for size in range(1, n_sorted + 1):
            added = categories.order[n_sorted - size if descending else size - 1]
            _add(feature, added, hides, categories)
            cut = -size if descending else size
            if not moves:
                gradient += cells[2 * (firsts[0] + added)]
                hessian += cells[2 * (firsts[0] + added) + 1]
            for turn in range(1 + moves):
                direction = int64(1 - 2 * turn) if moves else int64(0)
                for missing_left in range(1 + both_sides):
                    if moves:
                        hidden = hides and fresh
                        gradient, hessian = _sum_left(
                            cells, firsts, feature, direction, hides, hidden and missing_left == 1,
                            hidden and missing_left == 0, categories,
                        )  # fmt: skip
                    best = try_split(
                        best, feature, cut, direction, missing_left == 1, gradient + missing_left * missing_gradient,
                        hessian + missing_left * missing_hessian, node, rule,
                    )  # fmt: skip
    return best


@inner
def take_set(cells, firsts, feature, cut, hides, categories):
    """Make the left set of a split again, by its number."""
    n_sorted = _sort(cells, firsts, feature, categories)
    _clear(feature, hides, categories)
    for size in range(1, abs(cut) + 1):
        _add(feature, categories.order[n_sorted - size if cut < 0 else size - 1], hides, categories)


@inner
def write_sides(feature, n_codes, missing_left, left_is_heavier, hidden, categories, set_left, left_of, right_of):
    """Write a split into its tables: the set, and by code whether a row can go left and right.

    Categories that no row of the node has are with the heavier child, unless an attacker could make use of them there.
    `hidden`: rows can be missing, if an attacker blanks or does not fill in their category.
    """
    n, moves = categories.n_categories[feature], categories.moves[feature]
    if not moves and left_is_heavier:
        for category in range(n):
            categories.in_left[category] = categories.in_left[category] or categories.keys[category] == np.inf
    for category in range(n):
        is_left = categories.in_left[category]
        set_left[category] = is_left
        left_of[category], right_of[category] = is_left, not is_left
    for category in range(n_codes - n):  # those that move, and those that are filled in
        can_hide = hidden and (category == n or categories.blanks[feature])
        left_of[n + category] = categories.n_left[category] > 0 or (can_hide and missing_left)
        can_right = categories.n_left[category] < categories.n_open[category]
        right_of[n + category] = can_right or (can_hide and not missing_left)
    left_of[n_codes], right_of[n_codes] = missing_left, not missing_left
