"""Categorical features inside the grower.

For a table that has none, `categories` is None and all of this compiles to nothing.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.categories import IDLE, ROWS, STAY, WEIGHT, best_partition
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
def _find_seats(categories, nodes, node, feature, seats):
    """Fill in where each category's movers can sit: its reach, cut to what the ancestors leave open."""
    c, begin = categories.size[feature], categories.reach_start[feature]
    for a in range(c):
        for b in range(c):
            seats[a, b] = categories.reach[begin + a * c + b]
    child, parent = node, nodes[node].parent
    while parent >= 0:
        if nodes[parent].feature == feature:
            is_left = child == nodes[parent].left
            for b in range(c):
                if (categories.goes_left[parent, b] == 1) != is_left:
                    for a in range(c):
                        seats[a, b] = False
        child, parent = parent, nodes[parent].parent


@inner
def search_categories(categories, samples, moves, limits, nodes, node, feature, floor, partition, goes_left):
    """Best partition of a categorical feature: (gain, orientation); it fills `goes_left` if it beats `floor`."""
    if categories is None:
        return 0.0, np.int64(0)
    c, here = categories.size[feature], nodes[node]
    n, slot = samples.X.shape[0], moves.slots[feature, 0]
    mass = partition.mass
    for label in range(2):
        for b in range(c):
            mass[0, 0, label, b] = mass[0, 1, label, b] = mass[1, 0, label, b] = mass[1, 1, label, b] = 0.0
    for i in range(here.start, here.end):
        entry = samples.orders[slot, i]
        sample = np.int64(entry & ID_MASK)
        label = np.int64(entry >> CLASS_BIT)
        stays = np.int64(sample >= n)
        code = np.int64(samples.X[sample - n * stays, feature])
        kind = stays if categories.attacks[label] else STAY
        if samples.weight.shape[0]:
            mass[WEIGHT, kind, label, code] += samples.weight[sample]
        else:
            mass[WEIGHT, kind, label, code] += samples.class_weight[label, stays]
        mass[ROWS, kind, label, code] += samples.class_count[label, stays]
    _find_seats(categories, nodes, node, feature, partition.seats)
    best_partition(partition, c, here.zero, here.one, here.count, limits.criterion, limits.min_leaf)
    if partition.best[0] > floor:
        for b in range(c):
            goes_left[b] = partition.best_left[b]
    return partition.best[0], np.int64(partition.best[1])


@inner
def lay_sides(categories, nodes, node, partition):
    """Fill in which child each (category, class, kind) of a node goes to."""
    if categories is None:
        return
    here = nodes[node]
    seats = partition.seats
    _find_seats(categories, nodes, node, here.feature, seats)
    for a in range(categories.size[here.feature]):
        meets, held = False, True
        for b in range(categories.size[here.feature]):
            if seats[a, b]:
                meets |= categories.goes_left[node, b] == 1
                held &= categories.goes_left[node, b] == 1
        for label in range(2):
            stays_right = categories.goes_left[node, a] != 1
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
        for b in range(goes_left.shape[0]):
            categories.goes_left[node, b] = goes_left[b]


@inner
def settle_idle(categories, node, to_left):
    """Send categories nobody in the node can sit at, those never seen among them, to the heavier child."""
    if categories is not None:
        for b in range(categories.goes_left.shape[1]):
            if categories.goes_left[node, b] == IDLE:
                categories.goes_left[node, b] = to_left
