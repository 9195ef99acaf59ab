"""The best cut for samples that lose on one side only: two histograms per feature."""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner
from hardwood._kernels.refine.accounting import LEFT
from hardwood._kernels.refine.moves import SPLIT, find_window


class Histograms(NamedTuple):
    """What changes at each cut: with the subtrees where they are, and with the subtrees swapped."""

    plain: np.ndarray  # float64 per cut
    swapped: np.ndarray
    undecided: np.ndarray  # int32: the samples that lose on one side only
    side: np.ndarray  # uint8: which


@inner
def middle_cut(samples, feature, first, last):
    """The cut of a plateau that is nearest to its middle."""
    cut = samples.cut[samples.first_cut[feature] : samples.first_cut[feature + 1]]
    middle = 0.5 * cut[first] + 0.5 * cut[last]
    below, above = first, last
    while above - below > 1:
        half = (below + above) >> 1
        if cut[half] <= middle:
            below = half
        else:
            above = half
    return below if middle - cut[below] <= cut[above] - middle else above


@inner
def _fill(samples, feature, n_undecided, n_cuts, histograms):
    """Fill both histograms of a feature."""
    plain, swapped = histograms.plain, histograms.swapped
    for k in range(n_cuts + 1):
        plain[k] = 0.0
        swapped[k] = 0.0
    for k in range(n_undecided):
        sample = histograms.undecided[k]
        low, high = samples.low[feature, sample], samples.high[feature, sample]
        weight = samples.weight[sample]
        if histograms.side[k] == LEFT:  # lost as soon as it gets left, that is from `low` on
            plain[low] += weight
            swapped[high] -= weight
        else:
            plain[high] -= weight
            swapped[low] += weight


@inner
def scan_feature(samples, tree, node, feature, n_undecided, base, tolerance, histograms, move):
    """Look for a better cut of one feature, and note it in `move`.

    base : float64 (2,), the loss left of all cuts: of the subtrees as they are, and swapped.

    Cuts between which no undecided sample changes sides are a plateau. Of equal losses the one with the widest
    plateau is taken, measured in the spread of its feature, and of a plateau the middle.
    """
    n_cuts = samples.first_cut[feature + 1] - samples.first_cut[feature]
    first, last = find_window(tree, node, feature)
    first, last = first + 1, last if last < n_cuts else n_cuts
    if first >= last:
        return
    _fill(samples, feature, n_undecided, n_cuts, histograms)
    for orientation in range(2):
        change = histograms.swapped if orientation else histograms.plain
        loss = base[orientation]
        for k in range(first):
            loss += change[k]
        for k in range(first, last):
            loss += change[k]
            if loss > move.loss + tolerance or (k > first and change[k] == 0.0):
                continue
            is_better = loss < move.loss - tolerance
            if not is_better and move.kind != SPLIT:
                continue
            end = k
            while end + 1 < last and change[end + 1] == 0.0:
                end += 1
            cut = samples.cut[samples.first_cut[feature] : samples.first_cut[feature + 1]]
            width = (cut[end] - cut[k]) / samples.spread[feature]
            if is_better or width > move.width * (1.0 + 1e-9):
                move.loss = loss if loss < move.loss else move.loss
                move.width = width
                move.kind = SPLIT
                move.feature = feature
                move.cut = middle_cut(samples, feature, k, end)
                move.is_swapped = orientation == 1
