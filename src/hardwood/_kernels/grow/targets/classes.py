"""The split search of any number of classes: a group is a class, and its statistics are rows, or rows and weight.

At every cut the scan knows how much of each class is surely left (`least`) and how much can be (`most`), asks what the
attacker would do (`answers.py`) and compares what he leaves. Most cuts are passed over by a bound: any answer of his is
one, and the one to the cut before is nearly his best.

With two classes the tree is the one that `two_classes.py` grows; of equally good cuts of a feature the first is taken,
and those whose left side is the richer one in class 0 before the others.

There are two targets: `plain_classes` for features that are numbers, all there, and `all_classes` for the rest. Whether
it is plain is a constant to the compiler, so that who has no categories and no holes does not wait for what they take.
"""

from typing import NamedTuple

from numpy import int64, uint64

from hardwood._kernels.compiling import inner, name_functions, part
from hardwood._kernels.grow.frame.kernels import Kernels, Target, make_kernels
from hardwood._kernels.grow.frame.nodes import EVERYBODY, halve
from hardwood._kernels.grow.nodes import draw_features
from hardwood._kernels.grow.targets.categories import Partition, scan_categories
from hardwood._kernels.grow.targets.hidden import holds_missing, scan_hidden
from hardwood._kernels.grow.targets.ratings import Work, divide, is_poor, keep, obeys, rate, weigh_classes, weigh_node
from hardwood._kernels.grow.targets.sides import (
    GROUP_SHIFT,
    ID_MASK,
    LARGEST_FLOAT,
    find_span,
    hides,
    partition,
    tally,
)


class AllWork(NamedTuple):
    """Scratch for classes, and for categories."""

    classes: Work
    categories: Partition


@inner
def _count_rows(codes, entries, start, end, n_groups, width, cells):
    """Add samples that are one row each to a histogram."""
    n_columns, size, step = uint64(codes.shape[1]), uint64(n_groups), uint64(n_groups * width)
    for k in range(uint64(start), uint64(end)):
        entry = entries[k]
        sample, cell = entry & ID_MASK, entry >> GROUP_SHIFT
        for column in range(n_columns):
            cells[cell + uint64(codes[sample, column]) * size] += 1
            cell += step


@inner
def _count_statistics(codes, entries, start, end, n_groups, width, statistics, cells):
    """Add the statistics of samples to a histogram."""
    n_columns, n_statistics = uint64(codes.shape[1]), uint64(statistics.shape[1])
    size, step = uint64(n_groups) * n_statistics, uint64(n_groups * width) * n_statistics
    for k in range(uint64(start), uint64(end)):
        entry = entries[k]
        sample, cell = entry & ID_MASK, (entry >> GROUP_SHIFT) * n_statistics
        for column in range(n_columns):
            at = cell + uint64(codes[sample, column]) * size
            for s in range(n_statistics):
                cells[at + s] += statistics[sample, s]
            cell += step


@inner
def count(samples, start, end, n_groups, width, cells):
    """Add samples to a histogram: column x code x group x statistic."""
    if samples.statistics.shape[1] == 1:
        _count_rows(samples.codes, samples.entries, start, end, n_groups, width, cells)
    else:
        _count_statistics(samples.codes, samples.entries, start, end, n_groups, width, samples.statistics, cells)


@part
def _advance(cells, low, high, units, work):
    """Go on to the next cut; whether a sample's end lies in the bin that was passed. `low`, `high`: its first cells."""
    lows, highs = work.lows, work.highs
    held = int64(0)
    for at in range(lows.shape[0]):
        held |= cells[low + at] | cells[high + at]
        lows[at] += cells[low + at]
        highs[at] += cells[high + at]
    if held != 0:
        weigh_classes(lows, units, work.most)  # pasted in: every cut comes along here
        weigh_classes(highs, units, work.least)
    return held != 0


@inner
def _scan(cells, bins, feature, units, limits, here, takes, left_sums, n, base, work):
    """Look for a cut of one feature that is better than the node's best so far."""
    n_statistics, width = work.lows.shape[0] // takes.shape[0], bins.width
    low, high = bins.columns[feature, 0] * width, bins.columns[feature, 1] * width
    is_fixed, step, poor = low == high, work.lows.shape[0], False
    for at in range(step):
        work.lows[at] = work.highs[at] = 0
    for code in range(bins.n_thresholds[feature]):
        if not _advance(cells, (low + code) * step, (high + code) * step, units, work):
            continue
        score = rate(limits.criterion, work, n, base, here.gain, is_fixed)
        if not score > here.gain and not (poor and score == here.gain and not is_poor(work, n)):
            continue
        if not obeys(bins.monotonic, feature, here, work, n):
            continue
        fewest, largest = divide(units, work, n_statistics)
        if fewest * units.rows < limits.min_leaf or here.count - largest * units.rows < limits.min_leaf:
            continue
        here.feature, here.cut, here.gain, here.missing = feature, code, score, -1
        poor = not is_fixed and is_poor(work, n)
        keep(work, n_statistics, takes, left_sums)


@part
def _skip_empty(cells, takes, n_groups, n_statistics, lo, hi, cut, n_thresholds):
    """Return the first code behind a cut that holds a sample, at the ends that count.

    Where everybody who can goes left only lower ends count, where nobody does only upper ends; else both do.
    """
    code = cut + 1
    while code < n_thresholds:
        for group in range(n_groups):
            low, high = (lo + code) * n_groups + group, (hi + code) * n_groups + group
            if takes[group] != 0 and cells[low * n_statistics] != 0:
                return code
            if takes[group] != EVERYBODY and cells[high * n_statistics] != 0:
                return code
        code += 1
    return code


@part
def _place_threshold(bins, here, takes, cells, n_statistics):
    """Return the threshold of a split: midway between the samples on either side.

    It goes to the middle of the empty bins behind the cut. The bin before the cut holds a sample, or the cut before it
    would have been taken, which is as good.
    """
    feature, cut, width = here.feature, here.cut, bins.width
    if cut < 0:  # categories are parted
        return 0.0
    if cut == bins.n_thresholds[feature]:  # what is missing is parted from what is not
        return LARGEST_FLOAT
    lo, hi = bins.columns[feature, 0] * width, bins.columns[feature, 1] * width
    beyond = _skip_empty(cells, takes, takes.shape[0], n_statistics, lo, hi, cut, bins.n_thresholds[feature])
    low, high = bins.below[feature, cut], bins.above[feature, beyond - 1]
    return halve(low, high)


@inner
def _is_worth_it(bins, limits, here, takes, cells, n_statistics):
    """Whether the split that was found in a node's histogram is worth it; if so, it is given its threshold."""
    if here.feature < 0 or here.gain < limits.min_gain:
        return False
    here.threshold = _place_threshold(bins, here, takes, cells, n_statistics)
    return True


def _make(name: str, seconds: float, is_plain: bool) -> Kernels:
    """Make the kernels of one target."""

    @name_functions(name).inner
    def find_split(cells, bins, units, limits, tree, node, features, work):
        """Find a node's best split by its histogram, and return whether it is worth it; `features` are scratch."""
        if is_plain:  # noqa: SIM108, numba prunes a branch
            own = work
        else:
            own = work.classes
        here, takes, left_sums = tree.nodes[node], tree.takes[node], tree.left_sums[node]
        n, base = weigh_node(tree.sums[node], units, own.total)
        own.answer[0], own.answer[1] = 0.5, 0.0
        here.feature, here.gain, here.missing = -1, 0.0, -1
        draw_features(here.seed, limits.max_features, features)
        for k in range(features.shape[0]):
            if here.feature >= 0 and k >= limits.max_features:
                break
            feature = features[k]
            if not is_plain:
                if bins.n_categories[feature] > 0:
                    scan_categories(cells, bins, feature, units, limits, tree, node, n, base, work.categories, own)
                    continue
                if hides(bins, feature, takes.shape[0]) or holds_missing(cells, bins, feature, own.lows.shape[0]):
                    can_miss, first, last = find_span(tree, node, feature, bins.n_thresholds[feature])
                    span = (first, last)
                    for missing in range(0 if can_miss else -1, 2 if can_miss else 0):
                        scan_hidden(cells, bins, feature, units, limits, tree, node, span, missing, n, base, own)
                    continue
            _scan(cells, bins, feature, units, limits, here, takes, left_sums, n, base, own)
        return _is_worth_it(bins, limits, here, takes, cells, own.lows.shape[0] // takes.shape[0])

    return make_kernels(Target(name, seconds, count, find_split, partition, tally))


plain_classes = _make("trees of many classes", 5.0, is_plain=True)
all_classes = _make("trees with categories or missing values", 12.0, is_plain=False)
