"""Splits of a boosted tree by sets of categories.

Categories are put in the order of their rows' gradient per hessian, and every prefix of that order is tried as the left
set. Where the attacker cannot change categories the best set is among them: what a split takes off the loss is a convex
function of the left set's two sums. Where he can, a row goes to the side that
hurts it if one of the categories it can be given is there; every prefix is judged by that, in ascending and in
descending order (categories without rows in the node are on the other side), and sets that are no prefix are not tried.

A row of a class that attacks has its category's code plus the number of categories, if the feature can be moved at all.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64

from hardwood._kernels.compiling import inner
from hardwood._kernels.grow.boosting_splits import try_split


class Categories(NamedTuple):
    """What the attacker may do to categorical features, and scratch for one node and feature."""

    n_categories: np.ndarray  # int64 per feature, those never seen counted as one; 0: a number
    moves: np.ndarray  # bool per feature: whether an attacker may change it
    start: np.ndarray  # int64 per feature: where its matrix begins
    allowed: np.ndarray  # bool: the matrices, [a, b]: whether a may become b
    open: np.ndarray  # bool per category: which can still be had in the node
    order: np.ndarray  # int64: categories with rows, by gradient per hessian
    keys: np.ndarray  # float64 per category
    n_open: np.ndarray  # int64 per category: how many open ones it may become
    n_left: np.ndarray  # int64 per category: how many of these are in the left set
    in_left: np.ndarray  # bool per category: the left set


def make_categories(n_categories: np.ndarray, moves: np.ndarray, start: np.ndarray, allowed: np.ndarray) -> Categories:
    """Return what the attacker may do, and room to work on one node and feature, which no two threads may share."""
    most = int(n_categories.max())
    flags, counts = (np.zeros((2, most), dtype=dtype) for dtype in (np.bool_, np.int64))
    order, keys = np.zeros(most, dtype=np.int64), np.zeros(most)
    return Categories(n_categories, moves, start, allowed, flags[0], order, keys, counts[0], counts[1], flags[1])


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
def _clear(feature, categories):
    """Begin with an empty left set."""
    n, start = categories.n_categories[feature], categories.start[feature]
    for category in range(n):
        categories.in_left[category] = False
        categories.n_left[category] = 0
        categories.n_open[category] = 0
        if categories.moves[feature]:
            for other in range(n):
                if categories.open[other] and categories.allowed[start + category * n + other]:
                    categories.n_open[category] += 1


@inner
def _add(feature, added, categories):
    """Put one more category into the left set."""
    n, start = categories.n_categories[feature], categories.start[feature]
    categories.in_left[added] = True
    if categories.moves[feature]:
        for category in range(n):
            if categories.allowed[start + category * n + added]:
                categories.n_left[category] += 1


@inner
def _sum_left(cells, firsts, feature, direction, categories):
    """Sum what is left if the attacker moves rows to the sides that hurt: (gradient, hessian)."""
    n = categories.n_categories[feature]
    gradient, hessian = int64(0), int64(0)
    for group in range(2):
        to_left = (group == 0) == (direction > 0)  # whether the left side is the one that hurts
        for category in range(n):
            at = 2 * (firsts[group] + category)
            if categories.in_left[category]:
                gradient += cells[at]
                hessian += cells[at + 1]
            n_left = categories.n_left[category]
            if n_left > 0 and (to_left or n_left == categories.n_open[category]):
                gradient += cells[at + 2 * n]
                hessian += cells[at + 2 * n + 1]
    return gradient, hessian


@inner
def scan_categories(cells, firsts, n_codes, feature, node, rule, categories, best):
    """Return the best split so far, or a better one by a set of categories.

    `firsts` are the first cells of the rows of both groups, the same if nobody can move the feature; `open` has been
    filled. A split is a number of categories to be taken from the ascending order, or, if negative, from its end.
    """
    n_sorted = _sort(cells, firsts, feature, categories)
    missing_gradient, missing_hessian = cells[2 * (firsts[0] + n_codes)], cells[2 * (firsts[0] + n_codes) + 1]
    moves = categories.moves[feature]
    if moves:
        missing_gradient += cells[2 * (firsts[1] + n_codes)]
        missing_hessian += cells[2 * (firsts[1] + n_codes) + 1]
    has_missing = missing_hessian > 0
    for descending in range(1 + moves):
        _clear(feature, categories)
        gradient, hessian = int64(0), int64(0)
        for size in range(1, n_sorted + 1):
            added = categories.order[n_sorted - size if descending else size - 1]
            _add(feature, added, categories)
            cut = -size if descending else size
            for turn in range(1 + moves):
                direction = int64(0)
                if moves:
                    direction = int64(1 - 2 * turn)
                    gradient, hessian = _sum_left(cells, firsts, feature, direction, categories)
                else:
                    gradient += cells[2 * (firsts[0] + added)]
                    hessian += cells[2 * (firsts[0] + added) + 1]
                best = try_split(best, feature, cut, direction, False, gradient, hessian, node, rule)
                if has_missing:
                    best = try_split(
                        best, feature, cut, direction, True, gradient + missing_gradient, hessian + missing_hessian,
                        node, rule,
                    )  # fmt: skip
    return best


@inner
def take_set(cells, firsts, feature, cut, categories):
    """Make the left set of a split again, by its number."""
    n_sorted = _sort(cells, firsts, feature, categories)
    _clear(feature, categories)
    for size in range(1, abs(cut) + 1):
        _add(feature, categories.order[n_sorted - size if cut < 0 else size - 1], categories)


@inner
def write_sides(feature, n_codes, missing_left, left_is_heavier, categories, set_left, left_of, right_of):
    """Write a split into its tables: the set, and by code whether a row can go left and right.

    Categories that no row of the node has are with the heavier child, unless an attacker could make use of them there.
    """
    n, moves = categories.n_categories[feature], categories.moves[feature]
    if not moves and left_is_heavier:
        for category in range(n):
            categories.in_left[category] = categories.in_left[category] or categories.keys[category] == np.inf
    for category in range(n):
        is_left = categories.in_left[category]
        set_left[category] = is_left
        left_of[category], right_of[category] = is_left, not is_left
        if moves:
            left_of[n + category] = categories.n_left[category] > 0
            right_of[n + category] = categories.n_left[category] < categories.n_open[category]
    left_of[n_codes], right_of[n_codes] = missing_left, not missing_left
