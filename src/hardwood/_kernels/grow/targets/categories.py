"""The best robust partition of one node's categories, for the grower of many classes.

A sample has the code of its category if it moves, or that code plus the number of categories if it does not. A mover
can *sit* at every category that its own may become and that the splits above leave open; what is missing is a category
like others. For a set of categories sent left, possibly left is who can sit in it, and surely left who can sit nowhere
else. Up to MAX_EXHAUSTIVE categories at which somebody can sit every set is tried; beyond that the prefixes of
categories in the order of each class's share, and from the best of these, sets with one category on the other side
while that helps.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64

from hardwood._kernels.compiling import inner, record_type
from hardwood._kernels.grow.categories import BETTER, MAX_EXHAUSTIVE
from hardwood._kernels.grow.targets.ratings import divide, keep, obeys, rate_sums

# What a node remembers of a code, or of a category: whether a sample of it can go left or right; and whether the
# category is on the left, and whether nobody can sit there.
CAN_LEFT, CAN_RIGHT, ON_LEFT, IDLE = 1, 2, 4, 8

CATEGORY = record_type(
    [
        ("is_open", np.int64),  # whether the splits above lead here,
        ("in_play", np.int64),  # and somebody can sit here
        ("left", np.int64),  # whether it is on the left now,
        ("best", np.int64),  # and in the best set
        ("places", np.int64),  # where its movers can sit,
        ("inside", np.int64),  # and how many of these are on the left; places = 0: it has no movers here
        ("share", np.float64),  # to sort by
    ]
)


class Partition(NamedTuple):
    """One node's categories, with room for the feature that has the most."""

    each: np.ndarray  # CATEGORY
    active: np.ndarray  # int64: the categories in play


@inner
def _hold(cells, first, step):
    """Whether a code holds samples."""
    held = int64(0)
    for at in range(step):
        held |= cells[first + at]
    return held != 0


@inner
def _take_part(cells, bins, feature, tree, node, step, partition):
    """Find out who can sit where: (how many categories are in play, whether anybody has a choice)."""
    each, active = partition.each, partition.active
    size, start = bins.n_categories[feature], bins.reach_start[feature]
    first = bins.columns[feature, 0] * bins.width
    for b in range(size):
        each[b].is_open, each[b].in_play, each[b].left, each[b].places, each[b].inside = 1, 0, 0, 0, 0
    child, above = node, tree.nodes[node].parent
    while above >= 0:
        if tree.nodes[above].feature == feature:
            side = int64(child == tree.nodes[above].left)
            for b in range(size):
                each[b].is_open &= int64((tree.sides[above, b] & ON_LEFT != 0) == (side == 1))
        child, above = above, tree.nodes[above].parent
    chooses = False
    for a in range(size):
        if _hold(cells, (first + size + a) * step, step):
            each[a].in_play = 1
        if _hold(cells, (first + a) * step, step):
            for b in range(size):
                if each[b].is_open and bins.reach[start + a * size + b]:
                    each[b].in_play = 1
                    each[a].places += 1
            chooses |= each[a].places > 1
    count = int64(0)
    for b in range(size):
        if each[b].in_play:
            active[count] = b
            count += 1
    return count, chooses


@inner
def _flip(bins, feature, b, partition):
    """Send a category to the other side."""
    each, size, start = partition.each, bins.n_categories[feature], bins.reach_start[feature]
    step = 1 - 2 * each[b].left
    each[b].left += step
    for a in range(size):
        if each[a].places > 0 and bins.reach[start + a * size + b]:
            each[a].inside += step


@inner
def _measure(cells, bins, feature, partition, work):
    """Add up what the set at hand leaves surely and possibly on the left."""
    each, size, step = partition.each, bins.n_categories[feature], work.lows.shape[0]
    first = bins.columns[feature, 0] * bins.width
    for at in range(step):
        work.lows[at] = work.highs[at] = 0
    for a in range(size):
        here = each[a]
        if here.inside > 0:
            for at in range(step):
                work.lows[at] += cells[(first + a) * step + at]
        if here.inside > 0 and here.inside == here.places:
            for at in range(step):
                work.highs[at] += cells[(first + a) * step + at]
        if here.left:
            for at in range(step):
                work.lows[at] += cells[(first + size + a) * step + at]
                work.highs[at] += cells[(first + size + a) * step + at]


@inner
def _try_set(cells, bins, feature, units, limits, here, n, base, is_fixed, best, partition, work):
    """Rate the set at hand; what it gains if that is more than `best`, and both children are large enough; or -1."""
    _measure(cells, bins, feature, partition, work)
    score = rate_sums(limits.criterion, units, work, n, base, best, is_fixed)
    if not score > best * BETTER or not obeys(bins.monotonic, feature, here, work, n):
        return -1.0
    fewest, largest = divide(units, work, work.lows.shape[0] // work.total.shape[0])
    if fewest * units.rows < limits.min_leaf or here.count - largest * units.rows < limits.min_leaf:
        return -1.0
    for b in range(bins.n_categories[feature]):
        partition.each[b].best = partition.each[b].left
    return score


@inner
def _clear(bins, feature, partition, to_best):
    """Make the empty set the one at hand, or the best one; `to_best` is 0 or 1."""
    for b in range(bins.n_categories[feature]):
        wanted = partition.each[b].best * to_best
        if partition.each[b].left != wanted:
            _flip(bins, feature, b, partition)


@inner
def _sort_by_share(cells, bins, feature, units, k, count, partition, work):
    """Put the categories in play in the order of a class's share of their rows; those without rows come first."""
    each, active, size, step = partition.each, partition.active, bins.n_categories[feature], work.lows.shape[0]
    n_classes = work.total.shape[0]
    first, n_statistics = bins.columns[feature, 0] * bins.width, step // n_classes
    for i in range(count):
        b = active[i]
        own, total = 0.0, 0.0
        for group in range(n_classes):
            cell = group * n_statistics + n_statistics - 1
            weight = cells[(first + b) * step + cell] + cells[(first + size + b) * step + cell]
            total += weight * units.weight[group]
            own += weight * units.weight[group] if group == k else 0.0
        each[b].share = own / total if total > 0.0 else -1.0
    for i in range(1, count):
        b, j = active[i], i
        while j > 0 and each[active[j - 1]].share > each[b].share:
            active[j] = active[j - 1]
            j -= 1
        active[j] = b


@inner
def _search(cells, bins, feature, units, limits, here, n, base, count, chooses, partition, work):
    """Look for the best set; what it gains, 0 if there is none."""
    active = partition.active
    best, n_classes = 0.0, work.total.shape[0]
    context = (cells, bins, feature, units, limits, here, n, base, not chooses)
    if count <= MAX_EXHAUSTIVE:
        for code in range(1, int64(1) << (count - 1)):  # Gray code: one flip from set to set; the last stays right
            change, bit = code & -code, int64(0)
            while change > 1:
                change >>= 1
                bit += 1
            _flip(bins, feature, active[bit], partition)
            score = _try_set(*context, best, partition, work)
            best = score if score > best else best
        return best
    for k in range(1 if n_classes == 2 else 0, n_classes):
        _clear(bins, feature, partition, int64(0))
        _sort_by_share(cells, bins, feature, units, k, count, partition, work)
        for i in range(count - 1):
            _flip(bins, feature, active[i], partition)
            score = _try_set(*context, best, partition, work)
            best = score if score > best else best
    if best <= 0.0 or (n_classes == 2 and not chooses):
        return best
    improves = True
    while improves:
        improves = False
        for i in range(count):
            _clear(bins, feature, partition, int64(1))
            _flip(bins, feature, active[i], partition)
            score = _try_set(*context, best, partition, work)
            if score > best:
                best, improves = score, True
    return best


@inner
def scan_categories(cells, bins, feature, units, limits, tree, node, n, base, partition, work):
    """Look for a partition of a feature's categories that is better than the node's best split so far."""
    here, each, size = tree.nodes[node], partition.each, bins.n_categories[feature]
    count, chooses = _take_part(cells, bins, feature, tree, node, work.lows.shape[0], partition)
    if count < 2:
        return
    for b in range(size):
        each[b].best = 0
    work.answer[0], work.answer[1] = 0.5, 0.0
    best = _search(cells, bins, feature, units, limits, here, n, base, count, chooses, partition, work)
    work.answer[0], work.answer[1] = 0.5, 0.0
    if not best > here.gain:
        return
    _clear(bins, feature, partition, int64(1))
    _measure(cells, bins, feature, partition, work)
    rate_sums(limits.criterion, units, work, n, base, 0.0, not chooses)
    n_statistics = work.lows.shape[0] // work.total.shape[0]
    divide(units, work, n_statistics)
    here.feature, here.cut, here.gain, here.missing = feature, -1, best, -1
    keep(work, n_statistics, tree.takes[node], tree.left_sums[node])
    sides = tree.sides[node]
    for b in range(size):
        own = each[b]
        side = ON_LEFT | CAN_LEFT if own.left else CAN_RIGHT
        sides[size + b] = side & (CAN_LEFT | CAN_RIGHT)
        can = (CAN_LEFT if own.inside > 0 else 0) | (CAN_RIGHT if own.inside < own.places else 0)
        sides[b] = can | (side & ON_LEFT) | (0 if own.in_play else IDLE)
