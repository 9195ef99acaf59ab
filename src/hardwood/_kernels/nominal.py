"""Categorical features inside the grower.

For a table that has none, `categories` is None and all of this compiles to nothing.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.categories import IDLE, best_partition
from hardwood._kernels.compiling import inner, part
from hardwood._kernels.orders import CLASS_BIT, ID_MASK


class Categories(NamedTuple):
    """What the attacker can do to categorical features, and which categories the nodes so far send left."""

    size: np.ndarray  # int64 per feature, the code for unseen ones included; 0 = numerical
    reach: np.ndarray  # bool, the category matrices one after another
    reach_start: np.ndarray  # int64 per feature
    attacks: np.ndarray  # bool per class
    sides: np.ndarray  # uint8 (category, class, kind): scratch, the child each goes to
    goes_left: np.ndarray  # uint8 (node, category): 1 left, 0 right, IDLE until the children's weights are known


@part
def is_categorical(categories, feature):
    """Whether a feature is categorical."""
    if categories is None:
        return False
    return categories.size[feature] > 0


@inner
def _seats(categories, nodes, node, feature):
    """Where each category's movers can sit: its reach, cut to what the ancestors leave open."""
    c = categories.size[feature]
    begin = categories.reach_start[feature]
    seats = categories.reach[begin : begin + c * c].reshape((c, c)).copy()
    child, parent = node, nodes[node].parent
    while parent >= 0:
        if nodes[parent].feature == feature:
            is_left = child == nodes[parent].left
            for b in range(c):
                if (categories.goes_left[parent, b] == 1) != is_left:
                    seats[:, b] = False
        child, parent = parent, nodes[parent].parent
    return seats


@inner
def search_categories(categories, samples, moves, limits, nodes, node, feature, floor, goes_left):
    """Best partition of a categorical feature: (gain, orientation); it fills `goes_left` if it beats `floor`."""
    if categories is None:
        return 0.0, np.int64(0)
    c = categories.size[feature]
    n = samples.X.shape[0]
    order = samples.orders[moves.slots[feature, 0]]
    weights = np.zeros((2, 2, c))  # kind, class, category
    rows = np.zeros((2, 2, c))
    for i in range(nodes[node].start, nodes[node].end):
        sample = np.int64(order[i] & ID_MASK)
        label = np.int64(order[i] >> CLASS_BIT)
        stays = np.int64(sample >= n)
        code = np.int64(samples.X[sample - n * stays, feature])
        kind = stays if categories.attacks[label] else 1
        rows[kind, label, code] += samples.class_count[label, stays]
        weights[kind, label, code] += (
            samples.weight[sample] if samples.weight.shape[0] else samples.class_weight[label, stays]
        )
    seats = _seats(categories, nodes, node, feature)
    trial = np.zeros(c, dtype=np.uint8)
    score, orientation = best_partition(
        seats, weights[0], weights[1], rows[0], rows[1], limits.criterion, limits.min_leaf, trial
    )
    if score > floor:
        goes_left[:c] = trial
    return score, orientation


@inner
def lay_sides(categories, nodes, node):
    """Fill in which child each (category, class, kind) of a node goes to."""
    if categories is None:
        return
    here = nodes[node]
    seats = _seats(categories, nodes, node, here.feature)
    goes_left = categories.goes_left[node]
    for a in range(categories.size[here.feature]):
        meets, held = False, True
        for b in range(categories.size[here.feature]):
            if seats[a, b]:
                meets |= goes_left[b] == 1
                held &= goes_left[b] == 1
        for label in range(2):
            stays_right = goes_left[a] != 1
            categories.sides[a, label, 1] = stays_right
            hurt_left = label != here.orientation  # orientation 0: class 1 is hurt on the left
            moves_right = not (meets if hurt_left else held)
            categories.sides[a, label, 0] = moves_right if categories.attacks[label] else stays_right


@part
def category_side(categories, code, label, kind):
    """The child a sample of this category goes to."""
    if categories is None:
        return np.int64(0)
    return np.int64(categories.sides[np.int64(code), label, kind])


@part
def remember(categories, node, goes_left):
    """Store the set of categories a node sends left."""
    if categories is not None:
        categories.goes_left[node] = goes_left


@inner
def settle_idle(categories, node, to_left):
    """Send categories nobody in the node can sit at, those never seen among them, to the heavier child."""
    if categories is not None:
        goes_left = categories.goes_left[node]
        for b in range(goes_left.shape[0]):
            if goes_left[b] == IDLE:
                goes_left[b] = to_left
