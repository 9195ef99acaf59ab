"""Monotone features: whether a tree keeps the second class from falling, or rising, with a feature after a move.

Two leaves are ordered by a feature if a point of the one becomes a point of the other by a larger value of that feature
alone: their boxes meet in all other features. Then the first must not say the second class while the other says the
first. Missing values are in no order.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner
from hardwood._kernels.refine.tree import NOWHERE, find_window, has_holes, trace_categories

# Where a leaf is: elsewhere, or below the node, on which side; the node itself comes first.
ELSEWHERE, ON_LEFT, ON_RIGHT = 0, 1, 2
# How a leaf is limited by a test that is tried: not at all, to its left, to its right.
WHOLE, LEFT_PART, RIGHT_PART = 0, 1, 2


class Order(NamedTuple):
    """The boxes of all leaves, but for the test of the node that is looked at; and what is tried there."""

    direction: np.ndarray  # int64 per feature: 1, 0 or -1; empty if no feature is monotone
    leaf: np.ndarray  # int64: the node, then all leaves; `tried[0]` of them
    side: np.ndarray  # int8 per leaf
    first: np.ndarray  # int64 (leaf, feature): the cuts between which it lies
    last: np.ndarray
    takes_missing: np.ndarray  # bool (leaf, feature)
    categories: np.ndarray  # uint64 (leaf, feature, word)
    left_set: np.ndarray  # uint64 per word: the categories that a test which is tried sends left
    entry: np.ndarray  # int64 per leaf of the tree that is tried: which of those above
    part: np.ndarray  # int8: how it is limited
    label: np.ndarray  # int64
    tried: np.ndarray  # int64: how many leaves there are; labels of the two new leaves that are looked at, or -1


@inner
def _note_box(samples, tree, node, ignored, k, order):
    """Note what leads to a node, all splits but one on the way."""
    for feature in range(order.direction.shape[0]):
        if samples.first_reach[feature] >= 0:
            trace_categories(samples, tree, feature, node, ignored, order.categories[k, feature])
            continue
        first, last, takes_missing = find_window(tree, node, feature, ignored)
        n_cuts = samples.first_cut[feature + 1] - samples.first_cut[feature]
        most = n_cuts - 1 if has_holes(samples, feature) else n_cuts  # no number is right of the cut that parts them
        order.first[k, feature] = first
        order.last[k, feature] = min(last, most)
        order.takes_missing[k, feature] = takes_missing and has_holes(samples, feature)


@inner
def list_boxes(samples, tree, node, stack, order):
    """Note the boxes of a node and of all leaves, without the test of the node."""
    if order.direction.shape[0] == 0:
        return
    order.leaf[0] = node
    _note_box(samples, tree, node, NOWHERE, 0, order)
    n = 1
    stack[0] = 0
    size = 1
    while size:
        size -= 1
        here = stack[size]
        if tree.nodes[here].feature >= 0:
            stack[size] = tree.nodes[here].left
            stack[size + 1] = tree.nodes[here].right
            size += 2
            continue
        if here == node:
            continue
        child, above = here, tree.nodes[here].parent
        while above >= 0 and above != node:
            child, above = above, tree.nodes[above].parent
        order.side[n] = ELSEWHERE if above < 0 else (ON_LEFT if tree.nodes[node].left == child else ON_RIGHT)
        order.leaf[n] = here
        _note_box(samples, tree, here, node, n, order)
        n += 1
    order.tried[0] = n


@inner
def _add(order, n, entry, part, label):
    order.entry[n] = entry
    order.part[n] = part
    order.label[n] = label
    return n + 1


@inner
def keeps_order_as_leaf(samples, tree, label, order):
    """Whether the order is kept if the node becomes a leaf."""
    if order.direction.shape[0] == 0:
        return True
    n = _add(order, 0, 0, WHOLE, label)
    for k in range(1, order.tried[0]):
        if order.side[k] == ELSEWHERE:
            n = _add(order, n, k, WHOLE, tree.nodes[order.leaf[k]].label)
    return _are_ordered(samples, order, n, 1, NOWHERE, NOWHERE, False)


@inner
def keeps_order_as_child(samples, tree, is_left, order):
    """Whether the order is kept if the node gives way to one of its subtrees."""
    if order.direction.shape[0] == 0:
        return True
    n = 0
    for is_below in (True, False):
        for k in range(1, order.tried[0]):
            wanted = (ON_LEFT if is_left else ON_RIGHT) if is_below else ELSEWHERE
            if order.side[k] == wanted:
                n = _add(order, n, k, WHOLE, tree.nodes[order.leaf[k]].label)
        if is_below:
            n_below = n
    return _are_ordered(samples, order, n, n_below, NOWHERE, NOWHERE, False)


@inner
def keeps_order_as_split(samples, tree, feature, cut, is_swapped, missing_left, order):
    """Whether the order is kept if the node gets another test, with the subtrees or labels that are looked at."""
    if order.direction.shape[0] == 0:
        return True
    n = 0
    if order.tried[1] >= 0:
        n = _add(order, n, 0, LEFT_PART, order.tried[2] if is_swapped else order.tried[1])
        n = _add(order, n, 0, RIGHT_PART, order.tried[1] if is_swapped else order.tried[2])
    else:
        for k in range(1, order.tried[0]):
            if order.side[k] != ELSEWHERE:
                part = LEFT_PART if (order.side[k] == ON_LEFT) != is_swapped else RIGHT_PART
                n = _add(order, n, k, part, tree.nodes[order.leaf[k]].label)
    n_below = n
    for k in range(1, order.tried[0]):
        if order.side[k] == ELSEWHERE:
            n = _add(order, n, k, WHOLE, tree.nodes[order.leaf[k]].label)
    return _are_ordered(samples, order, n, n_below, feature, cut, missing_left)


@inner
def _are_ordered(samples, order, n, n_below, feature, cut, missing_left):
    """Whether no two leaves, of which the first is among the first `n_below`, are in the wrong order."""
    test = feature, cut, missing_left
    for a in range(n_below):
        for b in range(a + 1, n):
            if order.label[a] == order.label[b]:
                continue
            low, high = (a, b) if order.label[a] < order.label[b] else (b, a)
            if _is_wrong_way(samples, order, low, high, test):
                return False
    return True


@inner
def _find_span(order, k, feature, test):
    """The cuts between which a leaf of the tree that is tried lies, and whether it takes missing values."""
    entry, part = order.entry[k], order.part[k]
    first, last = order.first[entry, feature], order.last[entry, feature]
    takes_missing = order.takes_missing[entry, feature]
    if part != WHOLE and feature == test[0]:
        if part == LEFT_PART:
            last = min(last, test[1])
            takes_missing = takes_missing and test[2]
        else:
            first = max(first, test[1])
            takes_missing = takes_missing and not test[2]
    return first, last, takes_missing


@inner
def _share_category(order, low, high, feature, test):
    """Whether a category leads to both leaves."""
    for word in range(order.left_set.shape[0]):
        both = order.categories[order.entry[low], feature, word] & order.categories[order.entry[high], feature, word]
        if feature == test[0]:
            for k in (low, high):
                if order.part[k] == LEFT_PART:
                    both &= order.left_set[word]
                elif order.part[k] == RIGHT_PART:
                    both &= ~order.left_set[word]
        if both != np.uint64(0):
            return True
    return False


@inner
def _is_wrong_way(samples, order, low, high, test):
    """Whether a feature in its direction leads from a leaf of the second class, `high`, to one of the first, `low`."""
    apart, n_apart = np.int64(-1), 0
    for feature in range(order.direction.shape[0]):
        if samples.first_reach[feature] >= 0:
            meet = _share_category(order, low, high, feature, test)
        else:
            first, last, takes_missing = _find_span(order, low, feature, test)
            other_first, other_last, other_missing = _find_span(order, high, feature, test)
            meet = max(first, other_first) < min(last, other_last) or (takes_missing and other_missing)
        if not meet:
            apart = feature
            n_apart += 1
            if n_apart > 1 or order.direction[feature] == 0:
                return False
    for feature in range(order.direction.shape[0]):
        if order.direction[feature] == 0 or (n_apart and feature != apart):
            continue
        first, last, takes_missing = _find_span(order, low, feature, test)
        other_first, other_last, other_missing = _find_span(order, high, feature, test)
        if first >= last or other_first >= other_last:
            continue
        # The smallest number of the one is no larger than the largest of the other.
        if order.direction[feature] > 0 and other_first < last:
            return True
        if order.direction[feature] < 0 and first < other_last:
            return True
    return False
