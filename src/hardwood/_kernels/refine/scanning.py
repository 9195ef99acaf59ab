"""The best cut for samples that lose on one side only: two histograms per feature."""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner
from hardwood._kernels.refine.accounting import LEFT
from hardwood._kernels.refine.moves import SPLIT, find_window

AS_IT_IS, SWAPPED = np.bool_(False), np.bool_(True)  # typed, so that nothing is compiled for constants
ROUNDING = 1e-9  # widths that differ by no more are equal


class Histograms(NamedTuple):
    """What changes at each cut: with the subtrees where they are, and with the subtrees swapped."""

    plain: np.ndarray  # float64 per cut
    swapped: np.ndarray
    undecided: np.ndarray  # int32: the samples that lose on one side only
    side: np.ndarray  # uint8: which


@inner
def middle_cut(cut, first, last):
    """The cut of a plateau that is nearest to its middle."""
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
def _fill(samples, feature, n_undecided, histograms):
    """Fill both histograms of a feature, which are all 0 before; return the first and the last cut that they speak of.

    Before the first, and from the last on, all samples are on one side: no split worth a leaf.
    """
    plain, swapped = histograms.plain, histograms.swapped
    first, last = np.int64(plain.shape[0]), np.int64(0)
    for k in range(n_undecided):
        sample = histograms.undecided[k]
        low, high = np.int64(samples.low[feature, sample]), np.int64(samples.high[feature, sample])
        weight = samples.weight[sample]
        first = low if low < first else first
        last = high if high > last else last
        if histograms.side[k] == LEFT:  # lost as soon as it gets left, that is from `low` on
            plain[low] += weight
            swapped[high] -= weight
        else:
            plain[high] -= weight
            swapped[low] += weight
    return first, last


@inner
def _offer_plateau(samples, feature, first, end, loss, change, is_swapped, tolerance, move):
    """Note the plateau of cuts that begins at `first` if it is better than the move known, or as good and wider."""
    is_better = loss < move.loss - tolerance
    if not is_better and move.kind != SPLIT:
        return
    last = first
    while last + 1 < end and change[last + 1] == 0.0:
        last += 1
    cut = samples.cut[samples.first_cut[feature] : samples.first_cut[feature + 1]]
    width = (cut[last] - cut[first]) / samples.spread[feature]
    if is_better or width > move.width * (1.0 + ROUNDING):
        move.loss = loss if loss < move.loss else move.loss
        move.width = width
        move.kind = SPLIT
        move.feature = feature
        move.cut = middle_cut(cut, first, last)
        move.is_swapped = is_swapped


@inner
def scan_feature(samples, tree, node, feature, n_undecided, base, tolerance, histograms, move):
    """Look for a better cut of one feature, and note it in `move`.

    base : float64 (2,), the loss left of all cuts: of the subtrees as they are, and swapped.

    Cuts between which the loss does not change are a plateau. Of equal losses the one with the widest plateau is
    taken, measured in the spread of its feature, and of a plateau the middle.
    """
    n_cuts = samples.first_cut[feature + 1] - samples.first_cut[feature]
    begin, end = find_window(tree, node, feature)
    begin, end = begin + 1, end if end < n_cuts else n_cuts
    if begin >= end or n_undecided == 0:
        return
    plain, swapped = histograms.plain, histograms.swapped
    first, last = _fill(samples, feature, n_undecided, histograms)
    begin, end = first if first > begin else begin, last if last < end else end
    plain_loss, swapped_loss = base[0], base[1]
    for k in range(first, begin):
        plain_loss += plain[k]
        swapped_loss += swapped[k]
    for k in range(begin, end):
        plain_loss += plain[k]
        swapped_loss += swapped[k]
        if plain_loss <= move.loss + tolerance and (k == begin or plain[k] != 0.0):
            _offer_plateau(samples, feature, k, end, plain_loss, plain, AS_IT_IS, tolerance, move)
        if swapped_loss <= move.loss + tolerance and (k == begin or swapped[k] != 0.0):
            _offer_plateau(samples, feature, k, end, swapped_loss, swapped, SWAPPED, tolerance, move)
    for k in range(first, last + 1):
        plain[k] = 0.0
        swapped[k] = 0.0
