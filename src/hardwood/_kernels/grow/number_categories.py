"""Splits of a regression tree by sets of categories.

The categories of a node are put in the order of their rows' means, and every prefix of that order is tried as the left
set. Where the attacker cannot change categories the best set is among them. Where he can, a row is movable if one of
the categories that it can be given in the node is on the left and one on the right; categories without rows in the node
are all tried on the right and all on the left, and sets that are no prefix are not tried.

A row that can be moved has the code of its category plus the number of categories, one that cannot its category's. What
is missing is a category of its own, which cannot be changed.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64

from hardwood._kernels.compiling import inner

# What a split does to a category without rows, where nobody can be given it: left to the caller.
IDLE = 2


class Categories(NamedTuple):
    """What the attacker may do to categorical features, and scratch for one node and feature."""

    n_categories: np.ndarray  # int64 per feature, those never seen counted as one; 0: a number
    moves: np.ndarray  # bool per feature: whether an attacker may change it
    start: np.ndarray  # int64 per feature: where its matrix begins
    allowed: np.ndarray  # bool: the matrices, [a, b]: whether a may become b
    open: np.ndarray  # bool per category: which can still be had in the node
    order: (
        np.ndarray
    )  # int64: categories with rows by their mean, and what is missing, which has the number after the last
    keys: np.ndarray  # float64 per category
    n_open: np.ndarray  # int64 per category: how many open ones it may become
    n_left: np.ndarray  # int64 per category: how many of these are in the left set
    in_left: np.ndarray  # uint8 per category: the left set; the last is what is missing
    sides: np.ndarray  # int8 per code: -1 surely left, 1 surely right, 0 movable


@inner
def _find_open(tree, node, feature, categories):
    """Find out which categories the splits above have left open, and how many of them each may become."""
    nodes, n, begin = tree.nodes, categories.n_categories[feature], categories.start[feature]
    for category in range(n):
        categories.open[category] = True
    child, parent = node, nodes[node].parent
    while parent >= 0:
        if nodes[parent].feature == feature:
            wanted = int64(nodes[parent].left == child)
            for category in range(n):
                if int64(tree.sets[parent, category]) != wanted:
                    categories.open[category] = False
        child, parent = parent, nodes[parent].parent
    for a in range(n):
        categories.n_open[a] = 0
        for b in range(n):
            categories.n_open[a] += int64(categories.open[b] and categories.allowed[begin + a * n + b])


@inner
def _sort(cells, first, feature, missing, categories):
    """Put the categories with rows in order; how many they are. `first` is the first cell of the feature's column."""
    n, n_sorted = categories.n_categories[feature], int64(0)
    for category in range(n + int64(missing >= 0)):
        at = 4 * (first + (category if category < n else missing))
        value, weight = cells[at] + cells[at + 2], cells[at + 1] + cells[at + 3]
        if category < n:
            at += 4 * n  # those that can be moved
            value, weight = value + cells[at] + cells[at + 2], weight + cells[at + 1] + cells[at + 3]
        categories.keys[category] = np.inf
        if weight == 0 or (category < n and not categories.open[category]):
            continue
        key, place = float(value) / float(weight), n_sorted
        while place > 0 and categories.keys[categories.order[place - 1]] > key:
            categories.order[place] = categories.order[place - 1]
            place -= 1
        categories.order[place] = category
        categories.keys[category] = key
        n_sorted += 1
    return n_sorted


@inner
def _put(feature, category, categories):
    """Add a category to the left set."""
    n, begin = categories.n_categories[feature], categories.start[feature]
    categories.in_left[category] = 1
    if category < n:
        for a in range(n):
            categories.n_left[a] += int64(categories.allowed[begin + a * n + category])


@inner
def begin_left(feature, idle_left, categories):
    """Begin with a left set of no category with rows, and of all open ones without rows or of none."""
    n = categories.n_categories[feature]
    for category in range(n):
        categories.in_left[category] = 0
        categories.n_left[category] = 0
    categories.in_left[n] = 0
    if idle_left:
        for category in range(n):
            if categories.open[category] and categories.keys[category] == np.inf:
                _put(feature, category, categories)


@inner
def _find_side(feature, code, categories):
    """Where the samples of a code go: surely left (-1), surely right (1), or wherever the attacker likes (0)."""
    n = categories.n_categories[feature]
    if code < n:
        return int64(-1) if categories.in_left[code] == 1 else int64(1)
    n_left, n_open = categories.n_left[code - n], categories.n_open[code - n]
    if n_left == 0:
        return int64(1)
    return int64(-1) if n_left == n_open else int64(0)


@inner
def _sum_sides(cells, first, feature, missing, categories, sums):
    """Add up what is surely and what is possibly left: weight below the mean and above, then values."""
    n = categories.n_categories[feature]
    for k in range(8):
        sums[k] = 0
    for code in range(2 * n + 1):
        if code == 2 * n:
            if missing < 0:
                break
            side, at = int64(-1) if categories.in_left[n] == 1 else int64(1), 4 * (first + missing)
        else:
            side, at = _find_side(feature, code, categories), 4 * (first + code)
        if side > 0:
            continue
        for group in range(2):
            value, weight = cells[at + 2 * group], cells[at + 2 * group + 1]
            sums[4 + group] += weight
            sums[6 + group] += value
            if side < 0:
                sums[group] += weight
                sums[2 + group] += value


@inner
def n_variants(feature, categories):
    """How often categories without rows are tried: on the right, and if somebody can be given them on the left, too."""
    return int64(2) if categories.moves[feature] else int64(1)


@inner
def prepare(cells, first, tree, node, feature, missing, categories):
    """Find the open categories of a node and put those with rows in order; how many they are."""
    _find_open(tree, node, feature, categories)
    return _sort(cells, first, feature, missing, categories)


@inner
def choose_left(feature, idle_left, n_left, categories):
    """Make the left set of the first categories in order, and say where the samples of every code go."""
    begin_left(feature, idle_left, categories)
    for k in range(n_left):
        _put(feature, categories.order[k], categories)
    for code in range(2 * categories.n_categories[feature]):
        categories.sides[code] = _find_side(feature, code, categories)


@inner
def next_left(cells, first, feature, missing, k, categories, sums):
    """Add the next category in order to the left set, and add up what is left then."""
    _put(feature, categories.order[k], categories)
    _sum_sides(cells, first, feature, missing, categories, sums)


@inner
def find_code_side(categories, code):
    """Where the samples of a code go; without categories there is no such code."""
    if categories is None:
        return int64(0)
    return int64(categories.sides[code])


@inner
def keep_set(tree, node, feature, categories):
    """Write the left set to a node; categories without rows that nobody can be given are left to the caller."""
    if categories is None:
        return
    for category in range(categories.n_categories[feature]):
        is_idle = categories.keys[category] == np.inf and not categories.moves[feature]
        tree.sets[node, category] = IDLE if is_idle else categories.in_left[category]


@inner
def recall_set(tree, node, feature, categories):
    """Say where the samples of every code go by the set of a node."""
    if categories is None:
        return
    _find_open(tree, node, feature, categories)
    n = categories.n_categories[feature]
    for category in range(n):
        categories.in_left[category] = 0
        categories.n_left[category] = 0
    for category in range(n):
        if categories.open[category] and tree.sets[node, category] == 1:
            _put(feature, category, categories)
    for code in range(2 * n):
        categories.sides[code] = _find_side(feature, code, categories)
