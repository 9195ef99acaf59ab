"""Which samples of a node of any number of classes can be on which side of its split, and which side they take.

A missing value has a code of its own, and a split learns a side for it; where the attacker can blank or fill values,
that side decides who is movable, and the splits above decide who can be missing at all (`find_span`).
"""

import numpy as np
from numpy import int64, uint64

from hardwood._kernels.compiling import inner
from hardwood._kernels.grow.frame.nodes import EVERYBODY

GROUP_SHIFT = uint64(32)
ID_MASK = uint64((1 << 32) - 1)
# The threshold of a split that only parts what is missing from what is not.
LARGEST_FLOAT = float(np.finfo(np.float64).max)


@inner
def hides(bins, feature, n_groups):
    """Whether values of a feature can be blanked or filled in by somebody."""
    some = False
    for group in range(n_groups):
        some |= bins.blank[feature, group] or bins.fill[feature, group]
    return some


@inner
def find_span(tree, node, feature, n_thresholds):
    """What the splits above a node leave open of a feature: (whether it may be missing, `first`, `last`).

    Upper ends of what is there are above `first`, and lower ends are at most `last`.
    """
    can_miss, first, last = True, int64(-1), int64(n_thresholds)
    child, above = node, tree.nodes[node].parent
    while above >= 0:
        here = tree.nodes[above]
        if here.feature == feature:
            is_left = child == here.left
            can_miss = can_miss and here.missing == int64(is_left)
            if is_left:
                last = here.cut if here.cut < last else last
            else:
                first = here.cut if here.cut > first else first
        child, above = above, here.parent
    return can_miss, first, last


@inner
def can_go_left(bins, here, sides, codes, sample, group, lo, hi):
    """Whether a sample can be on the left of a split; `lo` and `hi` are the columns of both ends of its reach."""
    code = int64(codes[sample, lo])
    if here.cut < 0:
        return sides[code] & 1 != 0
    if here.missing < 0:
        return code <= here.cut or code == bins.missing
    if code == bins.missing:
        return here.missing == 1 or bins.fill[here.feature, group]
    if here.missing == 1 and bins.blank[here.feature, group]:
        return True
    return code <= here.cut and code <= here.last and int64(codes[sample, hi]) > here.first


@inner
def can_go_right(bins, here, sides, codes, sample, group, lo, hi):
    """Whether a sample can be on the right of a split."""
    code = int64(codes[sample, hi])
    if here.cut < 0:
        return sides[code] & 2 != 0
    if here.missing < 0:
        return code > here.cut
    if code == bins.missing:
        return here.missing == 0 or bins.fill[here.feature, group]
    if here.missing == 0 and bins.blank[here.feature, group]:
        return True
    return code > here.cut and int64(codes[sample, lo]) <= here.last


@inner
def tally(samples, bins, here, sides, takes, start, end, movable):
    """Add up the movable samples of groups that a split divides, by the codes of their lower ends.

    start, end : where the node's samples are among the entries.
    movable : int64 (group, code, statistic): of groups that are not divided it stays as it is.
    """
    codes, entries, statistics = samples.codes, samples.entries, samples.statistics
    lo, hi = uint64(bins.columns[here.feature, 0]), uint64(bins.columns[here.feature, 1])
    for group in range(takes.shape[0]):
        if takes[group] != 0 and takes[group] != EVERYBODY:
            for code in range(movable.shape[1]):
                for s in range(movable.shape[2]):
                    movable[group, code, s] = 0
    for k in range(uint64(start), uint64(end)):
        entry = entries[k]
        sample, group = entry & ID_MASK, int64(entry >> GROUP_SHIFT)
        if (
            takes[group] != 0
            and takes[group] != EVERYBODY
            and can_go_right(bins, here, sides, codes, sample, group, lo, hi)
            and can_go_left(bins, here, sides, codes, sample, group, lo, hi)
        ):
            code = int64(codes[sample, lo])
            if statistics.shape[1] == 1:
                movable[group, code, 0] += 1
            else:
                for s in range(movable.shape[2]):
                    movable[group, code, s] += statistics[sample, uint64(s)]


@inner
def partition(samples, bins, here, sides, limits, start, end):
    """Move a node's samples that go left to the front, keeping their order; where the others begin.

    limits : see `nodes.find_limits`.
    """
    codes, entries, spill = samples.codes, samples.entries, samples.spill
    lo, hi = uint64(bins.columns[here.feature, 0]), uint64(bins.columns[here.feature, 1])
    write, spilled = uint64(start), uint64(0)
    for k in range(uint64(start), uint64(end)):
        entry = entries[k]
        sample, group = entry & ID_MASK, entry >> GROUP_SHIFT
        right = uint64(not can_go_left(bins, here, sides, codes, sample, int64(group), lo, hi))
        if can_go_right(bins, here, sides, codes, sample, int64(group), lo, hi):
            right |= uint64(int64(codes[sample, lo]) >= limits[group])
        entries[write] = entry
        spill[spilled] = entry
        write += uint64(1) - right
        spilled += right
    for k in range(spilled):
        entries[write + k] = spill[k]
    return int64(write)
