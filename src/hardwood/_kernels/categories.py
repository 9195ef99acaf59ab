"""The best robust partition of one node's categories.

A sample of category `a` can sit at any category `b` with `seats[a, b]` (its own and those within reach, cut to what
the node's ancestors leave open). For a set L of categories sent left, a mover *meets* L if it can sit in L, and is
*held* by L if it can sit nowhere else. In orientation 0 (left is class 0's) class-1 movers go left if they meet L,
class-0 movers only if L holds them; in orientation 1 the roles are swapped. Samples that stay count at their own
category.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, part
from hardwood._kernels.scoring import gain

# Up to this many categories in play every partition is tried; beyond it, local search. Documented in
# RobustTreeClassifier.
MAX_EXHAUSTIVE = 12

# A set counts as better only by more than rounding: otherwise the search could go round in circles.
BETTER = 1.0 + 1e-12

IDLE = np.uint8(2)  # a category that no sample of the node can sit at

WEIGHT, ROWS = 0, 1
MOVE, STAY = 0, 1
# Entries of `sums`: weights on the left by how they got there, for class 0; class 1 is the next.
MEET, HELD, STAYED = 0, 2, 4


class Partition(NamedTuple):
    """One node's categories and a way to divide them, with room for the feature that has the most categories."""

    seats: np.ndarray  # bool (category, category)
    mass: np.ndarray  # float64 (weight or rows, kind, class, category)
    places: np.ndarray  # int64: how many categories a mover can sit at
    inside: np.ndarray  # int64: how many of them are on the left
    share: np.ndarray  # float64: of class 1, to sort by
    active: np.ndarray  # int64: the categories in play
    left: np.ndarray  # uint8: the current set
    best_left: np.ndarray  # uint8: the best set
    start: np.ndarray  # uint8: where a round of local search began
    sums: np.ndarray  # float64 (6): see above
    best: np.ndarray  # float64 (2): gain and orientation


def make_partition(size: int) -> Partition:
    """Allocate for up to `size` categories."""
    return Partition(
        seats=np.zeros((size, size), dtype=np.bool_),
        mass=np.zeros((2, 2, 2, size)),
        places=np.zeros(size, dtype=np.int64),
        inside=np.zeros(size, dtype=np.int64),
        share=np.zeros(size),
        active=np.zeros(size, dtype=np.int64),
        left=np.zeros(size, dtype=np.uint8),
        best_left=np.zeros(size, dtype=np.uint8),
        start=np.zeros(size, dtype=np.uint8),
        sums=np.zeros(6),
        best=np.zeros(2),
    )


@inner
def _flip(p, c, b):
    """Send category `b` to the other side and bring the sums up to date."""
    step = -1 if p.left[b] else 1
    p.left[b] = 1 - p.left[b]
    for label in range(2):
        p.sums[STAYED + label] += step * p.mass[WEIGHT, STAY, label, b]
    for a in range(c):
        if p.seats[a, b]:
            before = p.inside[a]
            p.inside[a] = before + step
            for label in range(2):
                if before == 0 or before + step == 0:
                    p.sums[MEET + label] += step * p.mass[WEIGHT, MOVE, label, a]
                if before == p.places[a] or before + step == p.places[a]:
                    p.sums[HELD + label] += step * p.mass[WEIGHT, MOVE, label, a]


@part
def _rows_left(p, c, orientation):
    """How many rows the left child would get."""
    rows = 0.0
    for a in range(c):
        for label in range(2):
            if p.left[a] == 1:
                rows += p.mass[ROWS, STAY, label, a]
            if p.inside[a] > 0 and (label != orientation or p.inside[a] == p.places[a]):
                rows += p.mass[ROWS, MOVE, label, a]
    return rows


@part
def _left_weights(p, orientation):
    """Class weights on the left once the attacker has moved."""
    left_zero = p.sums[HELD if orientation == 0 else MEET] + p.sums[STAYED]
    left_one = p.sums[(MEET if orientation == 0 else HELD) + 1] + p.sums[STAYED + 1]
    return left_zero, left_one


@inner
def _keep_better(p, c, zero, one, rows, criterion, min_leaf):
    """Score the current set in both orientations; remember it if it is the best so far, and say so."""
    improved = False
    for orientation in range(2):
        left_zero, left_one = _left_weights(p, orientation)
        score = gain(criterion, 1.0 - 2.0 * orientation, left_zero, left_one, zero, one)
        if score > p.best[0] * BETTER:
            if min_leaf > 0.0:
                rows_left = _rows_left(p, c, orientation)
                if rows_left < min_leaf or rows - rows_left < min_leaf:
                    continue
            p.best[0], p.best[1] = score, orientation
            for b in range(c):
                p.best_left[b] = p.left[b]
            improved = True
    return improved


@inner
def _prefixes(p, c, n_active, zero, one, rows, criterion, min_leaf):
    """Try every prefix of the active categories, sorted by `share`; starts and ends with an empty left side."""
    for i in range(1, n_active):
        b = p.active[i]
        j = i
        while j > 0 and p.share[p.active[j - 1]] > p.share[b]:
            p.active[j] = p.active[j - 1]
            j -= 1
        p.active[j] = b
    for k in range(n_active - 1):
        _flip(p, c, p.active[k])
        _keep_better(p, c, zero, one, rows, criterion, min_leaf)
    for k in range(n_active - 1):
        _flip(p, c, p.active[k])


@part
def _gray_code(p, c, n_active, zero, one, rows, criterion, min_leaf):
    """Try every set, each a single flip from the one before. The last category stays right: mirrors are equal."""
    for step in range(1, 1 << (n_active - 1)):
        bit = 0
        while not (step >> bit) & 1:
            bit += 1
        _flip(p, c, p.active[bit])
        _keep_better(p, c, zero, one, rows, criterion, min_leaf)


@part
def _restart(p, c):
    """Make the best set the current one."""
    for k in range(6):
        p.sums[k] = 0.0
    for b in range(c):
        p.left[b] = p.inside[b] = 0
    for b in range(c):
        if p.best_left[b] == 1:
            _flip(p, c, b)


@part
def _climb(p, c, n_active, zero, one, rows, criterion, min_leaf):
    """From the best set found, move single categories across and swap pairs while that gains."""
    improved = p.best[0] > 0.0
    while improved:
        improved = False
        _restart(p, c)  # from scratch: sums that are only brought up to date drift
        for b in range(c):
            p.start[b] = p.left[b]
        for k in range(n_active):
            _flip(p, c, p.active[k])
            improved |= _keep_better(p, c, zero, one, rows, criterion, min_leaf)
            for m in range(k + 1, n_active):
                if p.start[p.active[m]] != p.start[p.active[k]]:
                    _flip(p, c, p.active[m])
                    improved |= _keep_better(p, c, zero, one, rows, criterion, min_leaf)
                    _flip(p, c, p.active[m])
            _flip(p, c, p.active[k])


@part
def _set_out(p, c):
    """Empty the left side and find the categories in play: (how many, whether any mover has a choice)."""
    n_active, free = 0, False
    for k in range(6):
        p.sums[k] = 0.0
    p.best[0] = p.best[1] = 0.0
    for b in range(c):
        p.left[b] = p.best_left[b] = p.inside[b] = p.places[b] = 0
        in_play = p.mass[WEIGHT, STAY, 0, b] + p.mass[WEIGHT, STAY, 1, b] > 0.0
        for a in range(c):
            p.places[b] += p.seats[b, a]
            in_play |= p.seats[a, b] and p.mass[WEIGHT, MOVE, 0, a] + p.mass[WEIGHT, MOVE, 1, a] > 0.0
        free |= p.places[b] > 1 and p.mass[WEIGHT, MOVE, 0, b] + p.mass[WEIGHT, MOVE, 1, b] > 0.0
        if in_play:
            p.active[n_active] = b
            n_active += 1
    return n_active, free


@part
def _share_of_one(p, c, with_movers):
    """Class 1's share at each category, the movers spread evenly over the categories they can sit at or left out."""
    for b in range(c):
        zero, one = p.mass[WEIGHT, STAY, 0, b], p.mass[WEIGHT, STAY, 1, b]
        if with_movers:
            for a in range(c):
                if p.seats[a, b]:
                    zero += p.mass[WEIGHT, MOVE, 0, a] / p.places[a]
                    one += p.mass[WEIGHT, MOVE, 1, a] / p.places[a]
        p.share[b] = one / (zero + one) if zero + one > 0.0 else 0.0


@part
def _place_unseen(p, c, zero, one, criterion):
    """Send the categories never seen, the last code, to the heavier side if the split is as good that way."""
    _restart(p, c)
    orientation = np.int64(p.best[1])
    left_zero, left_one = _left_weights(p, orientation)
    to_left = 2.0 * (left_zero + left_one) >= zero + one
    if (p.left[c - 1] == 1) != to_left:
        _flip(p, c, c - 1)
        left_zero, left_one = _left_weights(p, orientation)
        if gain(criterion, 1.0 - 2.0 * orientation, left_zero, left_one, zero, one) >= p.best[0]:
            p.best_left[c - 1] = to_left


@inner
def best_partition(p, c, zero, one, rows, criterion, min_leaf):
    """Find the best set of the first `c` categories to send left; it goes into `best`, `best_left`.

    `seats` and `mass` say what the node holds; zero, one and rows are its totals.
    """
    n_active, free = _set_out(p, c)
    if n_active >= 2:
        if free and n_active <= MAX_EXHAUSTIVE:
            _gray_code(p, c, n_active, zero, one, rows, criterion, min_leaf)
        else:
            _share_of_one(p, c, True)
            _prefixes(p, c, n_active, zero, one, rows, criterion, min_leaf)
            if free:
                _share_of_one(p, c, False)
                _prefixes(p, c, n_active, zero, one, rows, criterion, min_leaf)
                _climb(p, c, n_active, zero, one, rows, criterion, min_leaf)
    if p.best[0] > 0.0:
        _place_unseen(p, c, zero, one, criterion)
    for b in range(c):
        p.start[b] = 0
    for k in range(n_active):
        p.start[p.active[k]] = 1
    for b in range(c):
        if p.start[b] == 0:
            p.best_left[b] = IDLE
