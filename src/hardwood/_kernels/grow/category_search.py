"""Splits by categories: a search of its own, called where a table has categorical features and compiled only then.

What a split does to a category is a byte of `sides`: bit `2 * class + kind` says that samples of this class and kind
(0 moves, 1 stays) go right, so a staying bit is the side of the category itself; IDLE marks a category that no sample
of the node can sit at.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64

from hardwood._kernels.compiling import inner, kernel, part, record_type
from hardwood._kernels.grow.categories import GAIN, ORIENTATION, ROWS, STAY, Goal, best_partition
from hardwood._kernels.grow.nodes import Totals, draw_features, is_open
from hardwood._kernels.grow.orders import CLASS_BIT, ID_MASK

STAYS_RIGHT, IDLE = 1 << 1, 1 << 4


# A feature's categories: how many, the code for unseen ones included (0 = numerical), and where `reach` has its matrix.
SPAN = record_type([("n_categories", np.int64), ("start", np.int64)])


class Categories(NamedTuple):
    """What the attacker can do to categorical features."""

    spans: np.ndarray  # SPAN per feature
    reach: np.ndarray  # bool, the category matrices one after another
    attacks: tuple[bool, bool]  # per class


@part
def _find_seats(categories, tree, node, feature, seats):
    """Fill in where each category's movers can sit: its reach, as far as the ancestors leave it open."""
    reach, nodes, sides = categories.reach, tree.nodes, tree.sides
    c, begin = categories.spans[feature].n_categories, categories.spans[feature].start
    for a in range(c):
        for b in range(c):
            seats[a, b] = reach[begin + a * c + b]
    child, parent = node, nodes[node].parent
    while parent >= 0:
        if nodes[parent].feature == feature:
            is_right = child != nodes[parent].left
            for b in range(c):
                if (sides[parent, b] & STAYS_RIGHT != 0) != is_right:
                    for a in range(c):
                        seats[a, b] = False
        child, parent = parent, nodes[parent].parent


@inner
def _weigh(samples, weight, order, attacks, here, feature, c, mass):
    """Add up the node's samples by category."""
    X, kinds = samples.X, samples.kinds
    for b in range(c):
        for k in range(2 * STAY):
            mass[b, k] = 0.0
    n = X.shape[0]
    for i in range(here.start, here.end):
        entry = order[i]
        sample = int64(entry & ID_MASK)
        class_index = int64(entry >> CLASS_BIT)
        stays = int64(sample >= n)
        code = int64(X[sample - n * stays, feature])
        at = class_index if attacks[class_index] and not stays else class_index + STAY
        if weight.shape[0] == 0:
            mass[code, at] += kinds.weight[2 * class_index + stays]
        else:
            mass[code, at] += weight[sample]
        mass[code, at + ROWS] += kinds.rows[2 * class_index + stays]


@part
def _lay_sides(each, orientation, c, attacks, sides):
    """Say what the best partition does to each category."""
    for a in range(c):
        here = each[a]
        bits = IDLE * (1 - here.in_play)
        for class_index in range(2):
            stays = moves = 1 - here.left
            if attacks[class_index]:
                moves = int64(here.inside < 1 + (class_index == orientation) * (here.places - 1))
            bits |= (2 * stays + moves) << (2 * class_index)
        sides[a] = bits


@kernel(about="the split search over categories", seconds=1.4)
def search(samples, slots, categories, limits, tree, node, first, last, features, partition, found):
    """Find the best splits by categories of `node` and those that follow it, one for each record of `found`.

    Tries the categorical ones among the features `first` to `last` in the order drawn. `tree` and `found` are
    `Splits`, and what is found may be written straight to the tree.
    """
    nodes, sums, attacks = tree.nodes, partition.sums, categories.attacks
    for row in range(found.nodes.shape[0]):
        here, top = nodes[node + row], found.nodes[row]
        top.feature, top.first_right, top.gain = -1, -1, 0.0
        if not is_open(nodes, limits, node + row):
            continue
        goal = Goal(Totals(here.zero, here.one, here.count), limits.criterion, limits.min_leaf)
        draw_features(here.seed, limits.max_features, features)
        for k in range(first, last):
            if top.feature >= 0 and k >= limits.max_features:
                break
            feature = features[k]
            c = categories.spans[feature].n_categories
            if c == 0:
                continue
            order = samples.orders[slots[feature, 0]]
            _weigh(samples, samples.weight, order, attacks, here, feature, c, partition.mass)
            _find_seats(categories, tree, node + row, feature, partition.seats)
            best_partition(partition, c, goal)
            if sums[GAIN] > top.gain:
                top.feature, top.orientation, top.gain = feature, int64(sums[ORIENTATION]), sums[GAIN]
                _lay_sides(partition.each, top.orientation, c, attacks, found.sides[row])
