"""The best robust partition of one node's categories.

A sample of category `a` can sit at any category `b` with `seats[a, b]` (its own and those within reach, of those that
the node's ancestors leave open). For a set L of categories sent left, a mover *meets* L if it can sit in L, and is
*held* by L if it can sit nowhere else. In orientation 0 (left is class 0's) class-1 movers go left if they meet L,
class-0 movers only if L holds them; in orientation 1 the roles are swapped. Samples that stay count at their own
category. Every search below is a walk from set to set, one category flipped at a time.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64

from hardwood._kernels.compiling import inner, part, record_type
from hardwood._kernels.grow.criteria import gain
from hardwood._kernels.grow.nodes import Totals

# Up to this many categories in play every partition is tried; beyond it, local search. Documented in
# RobustTreeClassifier.
MAX_EXHAUSTIVE = 12

# A set counts as better only by more than rounding: otherwise the search could go round in circles.
BETTER = 1.0 + 1e-12

# What a category holds, in eight numbers: weight of class 0, of class 1, rows of class 0, of class 1; first of the
# samples that move, then of those that stay.
MOVE, ROWS, STAY = 0, 2, 4

# The sums: what is on the left once the attacker has moved, in orientation o, of class k, at 2 * o + k; then the best
# gain, its orientation, and the best gain of a set that would leave a child too few rows.
GAIN, ORIENTATION, REFUSED = 4, 5, 6

CATEGORY = record_type(
    [
        ("in_play", np.int64),  # whether a sample of the node can sit at it
        ("places", np.int64),  # at how many categories its movers can sit
        ("inside", np.int64),  # how many of these are on the left
        ("share", np.float64),  # of class 1, to sort by
        ("left", np.int64),  # whether it is on the left now,
        ("start", np.int64),  # was there when a round of local search began,
        ("best", np.int64),  # is there in the best set
    ]
)


class Partition(NamedTuple):
    """One node's categories and a way to divide them, with room for the feature that has the most categories."""

    seats: np.ndarray  # bool (category, category)
    mass: np.ndarray  # float64 (category, 8)
    each: np.ndarray  # CATEGORY
    active: np.ndarray  # int64: the categories in play
    sums: np.ndarray  # float64 (7)


class Goal(NamedTuple):
    """How sets are compared, and which of them are not allowed."""

    totals: Totals
    criterion: int
    min_leaf: float  # 0: any child will do


def make_partition(size: int) -> Partition:
    """Allocate for up to `size` categories."""
    return Partition(
        seats=np.zeros((size, size), dtype=np.bool_),
        mass=np.zeros((size, 8)),
        each=np.zeros(size, dtype=CATEGORY),
        active=np.zeros(size, dtype=np.int64),
        sums=np.zeros(7),
    )


@inner
def _flip(partition, movers, b):
    """Send category `b` to the other side and bring the sums up to date; `movers` is 0 where nobody has a choice."""
    seats, mass, each, sums = partition.seats, partition.mass, partition.each, partition.sums
    step = 1 - 2 * each[b].left
    each[b].left += step
    for k in range(4):
        sums[k] += step * mass[b, STAY + (k & 1)]
    for a in range(movers):
        if seats[a, b]:
            here = each[a]
            before, after = here.inside, here.inside + step
            here.inside = after
            zero, one = step * mass[a, MOVE], step * mass[a, MOVE + 1]
            if before == 0 or after == 0:  # meets the left side, or does so no longer
                sums[1] += one
                sums[2] += zero
            if before == here.places or after == here.places:  # is held by it, or no longer
                sums[0] += zero
                sums[3] += one


@inner
def _restart(partition, c, movers, at_best):
    """Make the empty set the current one, or the best so far. From scratch: sums that are brought up to date drift."""
    for k in range(4):
        partition.sums[k] = 0.0
    for b in range(c):
        partition.each[b].left = partition.each[b].inside = 0
    for b in range(c):
        if at_best and partition.each[b].best:
            _flip(partition, movers, b)


@part
def _count_left(partition, c, orientation):
    """How many rows are on the left once the attacker has moved."""
    rows, mass = 0.0, partition.mass
    for a in range(c):
        here = partition.each[a]
        for class_index in range(2):
            moves = here.inside >= 1 + (class_index == orientation) * (here.places - 1)
            rows += moves * mass[a, MOVE + ROWS + class_index] + here.left * mass[a, STAY + ROWS + class_index]
    return rows


@inner
def _try_flip(partition, c, movers, b, goal):
    """Flip category `b` and score the set; if it is the best so far, remember it and say so.

    A set holds in one orientation at most. In the other one more zeros and fewer ones are on the left, so if the left
    side leads in zeros here it leads there all the more.
    """
    sums, totals = partition.sums, goal.totals
    _flip(partition, movers, b)
    orientation = int64(sums[0] * totals.one <= sums[1] * totals.zero)
    zero, one = sums[2 * orientation], sums[2 * orientation + 1]
    score = gain(goal.criterion, 1.0 - 2.0 * orientation, zero, one, totals.zero, totals.one)
    if score <= sums[GAIN] * BETTER:
        return False
    accepted = True
    if goal.min_leaf > 0.0:
        rows = _count_left(partition, c, orientation)
        if rows < goal.min_leaf or totals.rows - rows < goal.min_leaf:
            accepted = False
    if accepted:
        sums[GAIN], sums[ORIENTATION] = score, orientation
    elif score > sums[REFUSED]:
        sums[REFUSED] = score
    else:
        return False
    if accepted or sums[GAIN] == 0.0:  # a refused set is at least one to begin a local search at
        for a in range(c):
            partition.each[a].best = partition.each[a].left
    return accepted


@part
def _walk(partition, c, movers, n_active, all_sets, goal):
    """Try every set of active categories but the mirrored ones, or every prefix of them, beginning with nothing.

    All sets come in Gray-code order, each a single flip from the one before; the last category stays right.
    """
    _restart(partition, c, movers, movers < 0)
    for step in range(1, 1 << (n_active - 1) if all_sets else n_active):
        k = step - 1
        if all_sets:
            k = 0
            while not (step >> k) & 1:
                k += 1
        _try_flip(partition, c, movers, partition.active[k], goal)


@part
def _climb(partition, c, movers, n_active, goal):
    """From the best set found, move single categories across and swap pairs while that gains."""
    each, active = partition.each, partition.active
    improved = partition.sums[GAIN] > 0.0 or partition.sums[REFUSED] > 0.0
    while improved:
        _restart(partition, c, movers, improved)
        improved = False
        for b in range(c):
            each[b].start = each[b].left
        for k in range(n_active):
            first = active[k]
            improved |= _try_flip(partition, c, movers, first, goal)
            for m in range(k + 1, n_active):
                second = active[m]
                if each[second].start != each[first].start:
                    improved |= _try_flip(partition, c, movers, second, goal)
                    _flip(partition, movers, second)
            _flip(partition, movers, first)


@part
def _set_out(partition, c):
    """Find the categories in play: (how many, 1 if any mover has a choice)."""
    seats, mass, each = partition.seats, partition.mass, partition.each
    n_active, free = int64(0), int64(0)
    for a in range(c):
        places, seat = 0, 0
        for b in range(c):
            if seats[a, b]:
                places += 1
                seat = b
        each[a].places = places
        each[a].best = each[a].in_play = 0
        if places == 1:  # who has one seat only stays there
            for k in range(STAY):
                mass[seat, STAY + k] += mass[a, MOVE + k]
                mass[a, MOVE + k] = 0.0
    for b in range(c):
        if mass[b, STAY] + mass[b, STAY + 1] > 0.0:
            each[b].in_play = 1
        for a in range(c):
            if seats[a, b] and mass[a, MOVE] + mass[a, MOVE + 1] > 0.0:
                each[b].in_play = free = 1
        if each[b].in_play:
            partition.active[n_active] = b
            n_active += 1
    return n_active, free


@part
def _sort_by_share(partition, n_active, movers):
    """Sort by class 1's share at each category, the movers spread evenly over their seats or left out."""
    seats, mass, each, active = partition.seats, partition.mass, partition.each, partition.active
    for i in range(n_active):
        b = active[i]
        zero, one = mass[b, STAY], mass[b, STAY + 1]
        for a in range(movers):
            if seats[a, b]:
                zero += mass[a, MOVE] / each[a].places
                one += mass[a, MOVE + 1] / each[a].places
        share = one / (zero + one) if zero + one > 0.0 else 0.0
        each[b].share = share
        j = i
        while j > 0 and each[active[j - 1]].share > share:
            active[j] = active[j - 1]
            j -= 1
        active[j] = b


@part
def _place_unseen(partition, c, goal):
    """Make the best set the current one; categories never seen, the last code, join the heavier side if they can."""
    sums, totals = partition.sums, goal.totals
    _restart(partition, c, c, c > 0)
    at, unseen, best = 2 * int64(sums[ORIENTATION]), c - 1, sums[GAIN]
    to_left = 2.0 * (sums[at] + sums[at + 1]) >= totals.zero + totals.one
    if (partition.each[unseen].left == 1) != to_left:
        sums[GAIN] = best / (BETTER * BETTER)  # as good is good enough
        if not _try_flip(partition, c, c, unseen, goal):
            _flip(partition, c, unseen)
        sums[GAIN] = best


@inner
def best_partition(partition, c, goal):
    """Find the best set of the first `c` categories to send left, and make it the current one if it gains anything.

    `partition.seats` and `partition.mass` say what the node holds. Where nobody has a choice, the best set is a prefix
    of the categories in the order of their class share (gains are convex), unless that leaves a child too few rows:
    then, as where somebody has a choice, it may be any set.
    """
    sums = partition.sums
    sums[GAIN] = sums[REFUSED] = 0.0
    n_active, free = _set_out(partition, c)
    if n_active < 2:
        return
    movers, any_set, all_sets = c * free, free, int64(0)
    for turn in range(2):
        all_sets = any_set & (n_active <= MAX_EXHAUSTIVE)
        if not all_sets:
            _sort_by_share(partition, n_active, movers * (1 - turn))
        _walk(partition, c, movers, n_active, all_sets, goal)
        any_set = free | (sums[REFUSED] > sums[GAIN])
        if all_sets or not any_set:
            break
    if any_set > all_sets:
        _climb(partition, c, movers, n_active, goal)
    if sums[GAIN] > 0.0:
        _place_unseen(partition, c, goal)
