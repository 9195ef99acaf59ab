"""Cuts of a feature of which values are missing, or can be blanked or filled in, for the grower of many classes.

A cut is tried with missing values on the right and on the left. Say they go left: then surely left is what is missing
for good and what ends below the cut, and possibly left is, besides, all that can be blanked. Say they go right: then
surely left is what ends below the cut and cannot be blanked, and possibly left is, besides, what can be filled in.
"""

from numpy import int64

from hardwood._kernels.compiling import inner
from hardwood._kernels.grow.targets.ratings import divide, is_poor, keep, obeys, rate_sums
from hardwood._kernels.grow.targets.sides import hides


@inner
def _begin_hidden(cells, bins, feature, first, last, missing, sums, work):
    """Begin a scan with what missing values, and those that must have been blanked, add on the left.

    `sums` is what the node holds. What is there is out of reach of the node if its upper end is at most `first` or its
    lower end above `last`: then it has been blanked above, and is missing.
    """
    n_groups, step, width = bins.blank.shape[1], work.lows.shape[0], bins.width
    n_statistics = step // n_groups
    low, high = bins.columns[feature, 0] * width, bins.columns[feature, 1] * width
    for at in range(step):
        group = at // n_statistics
        gone = cells[(low + bins.missing) * step + at] if bins.missing >= 0 else int64(0)
        shut = int64(0)
        for code in range(first + 1):
            shut += cells[(high + code) * step + at]
        for code in range(last + 1, bins.n_thresholds[feature] + 1):
            shut += cells[(low + code) * step + at]
        fill, blank = bins.fill[feature, group], bins.blank[feature, group]
        if missing == 1:
            work.lows[at] = sums[at] if blank else gone + shut
            work.highs[at] = shut if fill else gone + shut
        else:  # missing values go right, or none can be missing here but has been filled in
            work.lows[at] = gone if fill else int64(0)
            work.highs[at] = 0
        # Lower ends that lie before the first cut, of what is open.
        if not (missing == 1 and blank):
            for code in range(first + 1):
                work.lows[at] += cells[(low + code) * step + at] - cells[(high + code) * step + at]


@inner
def _advance_hidden(cells, bins, feature, missing, low, high, work):
    """Go on to the next cut where values can be missing; whether a sample's end lies in the bin that was passed."""
    n_groups, step = bins.blank.shape[1], work.lows.shape[0]
    n_statistics = step // n_groups
    held = int64(0)
    for at in range(step):
        blank = bins.blank[feature, at // n_statistics]
        held |= cells[low + at] | cells[high + at]
        if not (blank and missing == 1):
            work.lows[at] += cells[low + at]
        if not (blank and missing == 0):
            work.highs[at] += cells[high + at]
    return held != 0


@inner
def _part_missing(cells, bins, feature, span, sums, work):
    """Measure the split that only parts what is missing, on the right, from what is not."""
    n_groups, step, width = bins.blank.shape[1], work.lows.shape[0], bins.width
    n_statistics = step // n_groups
    low, high = bins.columns[feature, 0] * width, bins.columns[feature, 1] * width
    first, last = span
    for at in range(step):
        group = at // n_statistics
        gone = cells[(low + bins.missing) * step + at] if bins.missing >= 0 else int64(0)
        there = sums[at] - gone
        for code in range(first + 1):
            there -= cells[(high + code) * step + at]
        for code in range(last + 1, bins.n_thresholds[feature] + 1):
            there -= cells[(low + code) * step + at]
        work.lows[at] = there + gone if bins.fill[feature, group] else there
        work.highs[at] = int64(0) if bins.blank[feature, group] else there


@inner
def scan_hidden(cells, bins, feature, units, limits, tree, node, span, missing, n, base, work):
    """Look for a better cut of a feature of which values are missing, or can be: they go to the side `missing`."""
    here, takes, left_sums = tree.nodes[node], tree.takes[node], tree.left_sums[node]
    n_groups, step, width = takes.shape[0], work.lows.shape[0], bins.width
    low, high = bins.columns[feature, 0] * width, bins.columns[feature, 1] * width
    is_fixed, poor = low == high and not hides(bins, feature, n_groups), False
    first, last = span
    n_thresholds = bins.n_thresholds[feature]
    _begin_hidden(cells, bins, feature, first, last, missing, tree.sums[node], work)
    for code in range(first + 1, last + 1):
        cut = code
        if code < last:
            if not _advance_hidden(cells, bins, feature, missing, (low + code) * step, (high + code) * step, work):
                continue
        elif missing == 0:  # to part what is missing from what is not, one side is enough
            cut = n_thresholds
            _part_missing(cells, bins, feature, span, tree.sums[node], work)
        else:
            continue
        score = rate_sums(limits.criterion, units, work, n, base, here.gain, is_fixed)
        if not score > here.gain and not (poor and score == here.gain and not is_poor(work, n)):
            continue
        if not obeys(bins.monotonic, feature, here, work, n):
            continue
        fewest, largest = divide(units, work, step // n_groups)
        if fewest * units.rows < limits.min_leaf or here.count - largest * units.rows < limits.min_leaf:
            continue
        here.feature, here.cut, here.gain, here.missing = feature, cut, score, missing
        here.first, here.last = first, last
        poor = not is_fixed and is_poor(work, n)
        keep(work, step // n_groups, takes, left_sums)


@inner
def holds_missing(cells, bins, feature, step):
    """Whether a value of a feature is missing in a node."""
    if bins.missing < 0:
        return False
    first = (bins.columns[feature, 0] * bins.width + bins.missing) * step
    held = int64(0)
    for at in range(step):
        held |= cells[first + at]
    return held != 0
