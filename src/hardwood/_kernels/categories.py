"""The best robust partition of one node's categories.

A sample of category `a` can sit at any category of `at[a]` (its own and those within reach, cut to what the node's
ancestors leave open). For a set L of categories sent left, a mover *meets* L if it can sit in L, and is *held* by L
if it can sit nowhere else. In orientation 0 (left is class 0's) class-1 movers go left if they meet L, class-0 movers
only if L holds them; in orientation 1 the roles are swapped. Samples that stay count at their own category.
"""

import numpy as np

from hardwood._kernels.compiling import inner
from hardwood._kernels.scoring import gain

# Up to this many categories in play every partition is tried; beyond it, local search. Documented in
# RobustTreeClassifier.
MAX_EXHAUSTIVE = 12

IDLE = np.uint8(2)  # a category that no sample of the node can sit at

# Rows of `sums`: weights on the left by how they got there.
MEET_ZERO, MEET_ONE, HELD_ZERO, HELD_ONE, STAY_ZERO, STAY_ONE = 0, 1, 2, 3, 4, 5


@inner
def left_weights(sums, orientation):
    """Class weights on the left once the attacker has moved."""
    if orientation == 0:
        return sums[HELD_ZERO] + sums[STAY_ZERO], sums[MEET_ONE] + sums[STAY_ONE]
    return sums[MEET_ZERO] + sums[STAY_ZERO], sums[HELD_ONE] + sums[STAY_ONE]


@inner
def _flip(b, at, places, movers, stayers, left, inside, sums):
    """Send category `b` to the other side and bring the sums up to date."""
    step = -1 if left[b] else 1
    left[b] = 1 - left[b]
    sums[STAY_ZERO] += step * stayers[0, b]
    sums[STAY_ONE] += step * stayers[1, b]
    for a in range(at.shape[0]):
        if not at[a, b]:
            continue
        before = inside[a]
        inside[a] += step
        if min(before, inside[a]) == 0:
            sums[MEET_ZERO] += step * movers[0, a]
            sums[MEET_ONE] += step * movers[1, a]
        if max(before, inside[a]) == places[a]:
            sums[HELD_ZERO] += step * movers[0, a]
            sums[HELD_ONE] += step * movers[1, a]


@inner
def _large_enough(at, movers, stayers, left, orientation, min_leaf):
    """Whether both children keep enough rows; `movers` and `stayers` count rows here."""
    if min_leaf <= 0.0:
        return True
    inside = np.zeros(at.shape[0], dtype=np.int64)
    places = at.sum(axis=1)
    sums = np.zeros(6)
    trial = np.zeros(left.shape[0], dtype=np.uint8)
    for b in range(left.shape[0]):
        if left[b]:
            _flip(b, at, places, movers, stayers, trial, inside, sums)
    zero, one = left_weights(sums, orientation)
    return zero + one >= min_leaf and movers.sum() + stayers.sum() - zero - one >= min_leaf


@inner
def _share_order(active, zero, one):
    """Active categories in increasing share of class 1 (insertion sort; empty ones first)."""
    order = active.copy()
    share = one / np.maximum(zero + one, 1e-300)
    for i in range(1, order.shape[0]):
        b = order[i]
        j = i
        while j > 0 and share[order[j - 1]] > share[b]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = b
    return order


@inner
def _keep_better(state, counts, totals, best, best_left, criterion, min_leaf):
    """Score the current partition in both orientations; remember it if it is the best so far."""
    at, left, sums = state
    improved = False
    for orientation in range(2):
        zero, one = left_weights(sums, orientation)
        score = gain(criterion, 1.0 - 2.0 * orientation, zero, one, totals[0], totals[1])
        if score > best[0] and _large_enough(at, counts[0], counts[1], left, orientation, min_leaf):
            best[0], best[1] = score, orientation
            best_left[:] = left
            improved = True
    return improved


@inner
def _prefixes(order, state, moves, counts, totals, best, best_left, criterion, min_leaf):
    """Try every prefix of an order of the categories; leaves the state at 'all but the last on the left'."""
    at, left, sums = state
    places, movers, stayers, inside = moves
    for k in range(order.shape[0] - 1):
        _flip(order[k], at, places, movers, stayers, left, inside, sums)
        _keep_better(state, counts, totals, best, best_left, criterion, min_leaf)


@inner
def _gray_code(active, state, moves, counts, totals, best, best_left, criterion, min_leaf):
    """Try every partition, each a single flip from the one before. The last category stays right: mirrors are equal."""
    at, left, sums = state
    places, movers, stayers, inside = moves
    for step in range(1, 1 << (active.shape[0] - 1)):
        bit = 0
        while not (step >> bit) & 1:
            bit += 1
        _flip(active[bit], at, places, movers, stayers, left, inside, sums)
        _keep_better(state, counts, totals, best, best_left, criterion, min_leaf)


@inner
def _move_to(target, active, state, moves):
    at, left, sums = state
    places, movers, stayers, inside = moves
    for b in active:
        if left[b] != target[b]:
            _flip(b, at, places, movers, stayers, left, inside, sums)


@inner
def _climb(active, state, moves, counts, totals, best, best_left, criterion, min_leaf):
    """From the best partition found, move single categories across and swap pairs while that gains."""
    at, left, sums = state
    places, movers, stayers, inside = moves
    improved = best[0] > 0.0
    while improved:
        improved = False
        _move_to(best_left.copy(), active, state, moves)
        start = left.copy()
        for b in active:
            _flip(b, at, places, movers, stayers, left, inside, sums)
            improved |= _keep_better(state, counts, totals, best, best_left, criterion, min_leaf)
            for other in active:
                if other > b and start[other] != start[b]:
                    _flip(other, at, places, movers, stayers, left, inside, sums)
                    improved |= _keep_better(state, counts, totals, best, best_left, criterion, min_leaf)
                    _flip(other, at, places, movers, stayers, left, inside, sums)
            _flip(b, at, places, movers, stayers, left, inside, sums)


@inner
def best_partition(at, movers, stayers, moving_rows, staying_rows, criterion, min_leaf, best_left):
    """Best set of categories to send left: (gain, orientation); the set goes into `best_left`.

    at : bool (c, c), where a category's movers can sit.
    movers, stayers : float64 (2, c), weight per class and category; the rows versions count rows, for `min_leaf`.
    """
    c = at.shape[0]
    totals = movers.sum(axis=1) + stayers.sum(axis=1)
    places = at.sum(axis=1)
    own = stayers.copy()  # what sits at each category when nobody can choose
    free = False
    in_play = stayers.sum(axis=0) > 0.0
    for a in range(c):
        if movers[0, a] + movers[1, a] > 0.0:
            in_play |= at[a]
            free |= places[a] > 1
            for b in range(c):
                if at[a, b]:
                    own[0, b] += movers[0, a] / places[a]
                    own[1, b] += movers[1, a] / places[a]
    active = np.flatnonzero(in_play)
    best = np.zeros(2)
    best_left[:] = 0
    if active.shape[0] < 2:
        return 0.0, np.int64(0)
    left = np.zeros(c, dtype=np.uint8)
    sums = np.zeros(6)
    state = (at, left, sums)
    moves = (places, movers, stayers, np.zeros(c, dtype=np.int64))
    counts = (moving_rows, staying_rows)
    if free and active.shape[0] <= MAX_EXHAUSTIVE:
        _gray_code(active, state, moves, counts, totals, best, best_left, criterion, min_leaf)
    else:
        order = _share_order(active, own[0], own[1])
        _prefixes(order, state, moves, counts, totals, best, best_left, criterion, min_leaf)
        if free:
            _move_to(np.zeros(c, dtype=np.uint8), active, state, moves)
            order = _share_order(active, stayers[0], stayers[1])
            _prefixes(order, state, moves, counts, totals, best, best_left, criterion, min_leaf)
            _climb(active, state, moves, counts, totals, best, best_left, criterion, min_leaf)
    for b in range(c):
        if not in_play[b]:
            best_left[b] = IDLE
    return best[0], np.int64(best[1])
