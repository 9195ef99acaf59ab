"""The best cut for samples that lose on one side only: two histograms per feature.

Where values may be missing, the histograms are filled twice: missing values go left, missing values go right.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner
from hardwood._kernels.refine.accounting import LEFT
from hardwood._kernels.refine.codes import MISSING, NUMBER, OWN_MISSING
from hardwood._kernels.refine.moves import SPLIT
from hardwood._kernels.refine.order import keeps_order_as_split
from hardwood._kernels.refine.tree import NOWHERE, find_window, has_holes, meets

AS_IT_IS, SWAPPED = np.bool_(False), np.bool_(True)  # typed, so that nothing is compiled for constants
ROUNDING = 1e-9  # widths that differ by no more are equal
# The side of an undecided sample, and whether only its own value loses it there: bits.
BY_ITSELF = 4
# Cuts are looked at in blocks of two to the power of this, of which most are empty deep in a tree.
BLOCK = 4


class Histograms(NamedTuple):
    """What changes at each cut: with the subtrees where they are, and with the subtrees swapped."""

    plain: np.ndarray  # float64 per cut
    swapped: np.ndarray
    used: np.ndarray  # bool per block of cuts: whether something changes there
    undecided: np.ndarray  # int32: the samples that lose on one side only
    side: np.ndarray  # uint8: which
    ends: np.ndarray  # float64: losses left of all cuts, plain and swapped; the same right of all


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
    plain, swapped, used = histograms.plain, histograms.swapped, histograms.used
    first, last = np.int64(plain.shape[0]), np.int64(0)
    for k in range(n_undecided):
        sample, side = histograms.undecided[k], histograms.side[k]
        low, high = np.int64(samples.low[feature, sample]), np.int64(samples.high[feature, sample])
        if side & BY_ITSELF:
            low = high = np.int64(samples.own[feature, sample])
        weight = samples.weight[sample]
        first = low if low < first else first
        last = high if high > last else last
        used[low >> BLOCK] = True
        used[high >> BLOCK] = True
        if side & LEFT:  # lost as soon as it gets left, that is from `low` on
            plain[low] += weight
            swapped[high] -= weight
        else:
            plain[high] -= weight
            swapped[low] += weight
    return first, last


@inner
def _read_state(samples, feature, sample, side, window):
    """Both ends of a sample's numbers at a node, whether it has any there, and whether it can be missing there."""
    low, high = np.int64(samples.low[feature, sample]), np.int64(samples.high[feature, sample])
    state = samples.state[feature, sample]
    if side & BY_ITSELF:
        low = high = np.int64(samples.own[feature, sample])
        state = MISSING if state & OWN_MISSING else NUMBER
        return low, high, state == NUMBER, state == MISSING
    first, last, takes_missing = window
    is_number = state & NUMBER != 0 and meets(samples, feature, sample, first, last)
    return low, high, is_number, state & MISSING != 0 and takes_missing


@inner
def _fill_with_holes(samples, feature, n_undecided, missing_left, window, base, histograms):
    """Do the same where values may be missing, and fill `ends`; missing values go to one side, whatever the cut."""
    plain, swapped, used, ends = histograms.plain, histograms.swapped, histograms.used, histograms.ends
    first, last = np.int64(plain.shape[0]), np.int64(0)
    ends[0], ends[1] = base[0], base[1]
    for k in range(n_undecided):  # what is lost on both sides is all that remains
        ends[0 if not histograms.side[k] & LEFT else 1] -= samples.weight[histograms.undecided[k]]
    ends[2], ends[3] = ends[0], ends[1]
    for k in range(n_undecided):
        sample, side = histograms.undecided[k], histograms.side[k]
        weight = samples.weight[sample]
        low, high, is_number, is_missing = _read_state(samples, feature, sample, side, window)
        stays_left, stays_right = is_missing and missing_left, is_missing and not missing_left
        # Which loss it adds to by getting left, and which by getting right.
        of_left, of_right = (0, 1) if side & LEFT else (1, 0)
        ends[of_left] += weight if stays_left else 0.0
        ends[of_right] += weight if stays_right or is_number else 0.0
        ends[2 + of_left] += weight if stays_left or is_number else 0.0
        ends[2 + of_right] += weight if stays_right else 0.0
        if not is_number:
            continue
        first = low if low < first else first
        last = high if high > last else last
        used[low >> BLOCK] = True
        used[high >> BLOCK] = True
        if not stays_left:
            if side & LEFT:
                plain[low] += weight
            else:
                swapped[low] += weight
        if not stays_right:
            if side & LEFT:
                swapped[high] -= weight
            else:
                plain[high] -= weight
    return first, last


@inner
def _clear(histograms, first, last):
    """Make both histograms 0 again."""
    for block in range(first >> BLOCK, (last >> BLOCK) + 1):
        if histograms.used[block]:
            histograms.used[block] = False
            for k in range(block << BLOCK, min((block + 1) << BLOCK, last + 1)):
                histograms.plain[k] = 0.0
                histograms.swapped[k] = 0.0


@inner
def _end_plateau(change, used, first, end):
    """The last cut of the plateau that begins at `first`."""
    last = first
    while last + 1 < end:
        if not used[(last + 1) >> BLOCK]:
            last = min(((((last + 1) >> BLOCK) + 1) << BLOCK) - 1, end - 1)
        elif change[last + 1] != 0.0:
            break
        else:
            last += 1
    return last


@inner
def _take(move, loss, width, feature, cut, is_swapped, missing_left):
    """Note a split."""
    move.loss = loss if loss < move.loss else move.loss
    move.width = width
    move.kind = SPLIT
    move.feature = feature
    move.cut = cut
    move.is_swapped = is_swapped
    move.missing_left = missing_left
    move.label = NOWHERE


@inner
def _offer_plateau(samples, tree, place, loss, change, is_swapped, tolerance, histograms, order, move):
    """Note the plateau of cuts that begins at `first` if it is better than the move known, or as good and wider."""
    feature, first, end, missing_left = place
    is_better = loss < move.loss - tolerance
    if not is_better and move.kind != SPLIT:
        return
    last = _end_plateau(change, histograms.used, first, end)
    cut = samples.cut[samples.first_cut[feature] : samples.first_cut[feature + 1]]
    width = (cut[last] - cut[first]) / samples.spread[feature]
    if is_better or width > move.width * (1.0 + ROUNDING):
        middle = middle_cut(cut, first, last)
        if keeps_order_as_split(samples, tree, feature, middle, is_swapped, missing_left, order):
            _take(move, loss, width, feature, middle, is_swapped, missing_left)


@inner
def _scan(samples, tree, place, loss, last, tolerance, histograms, order, move):
    """Look at the cuts between two, which the histograms speak of from the first on; `loss` is what is lost before.

    place : feature, first cut that the histograms speak of, the cuts to look at, where missing values go
    """
    feature, first, begin, end, missing_left = place
    plain, swapped = histograms.plain, histograms.swapped
    begin, end = first if first > begin else begin, last if last < end else end
    plain_loss, swapped_loss = loss
    for block in range(first >> BLOCK, (begin + (1 << BLOCK) - 1) >> BLOCK):
        if histograms.used[block]:
            for k in range(max(block << BLOCK, first), min((block + 1) << BLOCK, begin)):
                plain_loss += plain[k]
                swapped_loss += swapped[k]
    block = begin >> BLOCK
    while block << BLOCK < end:
        if histograms.used[block] or block == begin >> BLOCK:
            for k in range(max(block << BLOCK, begin), min((block + 1) << BLOCK, end)):
                plain_loss += plain[k]
                swapped_loss += swapped[k]
                here = feature, k, end, missing_left
                if plain_loss <= move.loss + tolerance and (k == begin or plain[k] != 0.0):
                    _offer_plateau(samples, tree, here, plain_loss, plain, AS_IT_IS, tolerance, histograms, order, move)
                if swapped_loss <= move.loss + tolerance and (k == begin or swapped[k] != 0.0):
                    _offer_plateau(
                        samples, tree, here, swapped_loss, swapped, SWAPPED, tolerance, histograms, order, move
                    )
        block += 1


@inner
def scan_feature(samples, tree, node, feature, n_undecided, base, tolerance, histograms, order, move):
    """Look for a better cut of one feature, and note it in `move`.

    base : float64 (2,), the loss left of all cuts: of the subtrees as they are, and swapped.

    Cuts between which the loss does not change are a plateau. Of equal losses the one with the widest plateau is
    taken, measured in the spread of its feature, and of a plateau the middle.
    """
    n_cuts = samples.first_cut[feature + 1] - samples.first_cut[feature]
    first_open, last_open, takes_missing = find_window(tree, node, feature, NOWHERE)
    begin, end = first_open + 1, last_open if last_open < n_cuts else n_cuts
    if begin >= end or n_undecided == 0:
        return
    if not has_holes(samples, feature):
        first, last = _fill(samples, feature, n_undecided, histograms)
        place = feature, first, begin, end, AS_IT_IS
        _scan(samples, tree, place, (base[0], base[1]), last, tolerance, histograms, order, move)
        _clear(histograms, first, last)
        return
    window = first_open, last_open, takes_missing
    for missing_left in (AS_IT_IS, SWAPPED):
        if missing_left and not takes_missing:
            break
        first, last = _fill_with_holes(samples, feature, n_undecided, missing_left, window, base, histograms)
        ends = histograms.ends
        if first <= last:
            place = feature, first, begin, min(end, n_cuts - 1), missing_left
            _scan(samples, tree, place, (ends[0], ends[1]), last, tolerance, histograms, order, move)
            _clear(histograms, first, last)
        if missing_left or not takes_missing or last_open <= n_cuts - 1:
            continue
        # All numbers left, what is missing right: the last cut, or, with the subtrees swapped, the other way round.
        for is_swapped in (AS_IT_IS, SWAPPED):
            loss = ends[3] if is_swapped else ends[2]
            is_better = loss < move.loss - tolerance
            if is_better and keeps_order_as_split(samples, tree, feature, n_cuts - 1, is_swapped, AS_IT_IS, order):
                _take(move, loss, 0.0, feature, n_cuts - 1, is_swapped, AS_IT_IS)
