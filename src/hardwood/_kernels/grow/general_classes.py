"""Growing one tree of many classes on codes: a group is a class, and its statistics are rows, or rows and weight.

At every cut the scan knows how much of each class is surely left (`least`) and how much can be (`most`), asks what the
attacker would do (`general_attacks.py`) and compares what he leaves. Most cuts are passed over by a bound: any answer
of his is one, and the one to the cut before is nearly his best.

With two classes the tree is the one that `binned.py` grows; of equally good cuts of a feature the first is taken, and
those whose left side is the richer one in class 0 before the others.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64

from hardwood._kernels.compiling import inner, kernel
from hardwood._kernels.grow.criteria import ENTROPY, ERROR, LIFT, PLATEAU_WEIGHT, ROUNDING, round_off
from hardwood._kernels.grow.frontier import pop
from hardwood._kernels.grow.general import (
    DONE,
    EVERYBODY,
    FULL,
    fill,
    find_span,
    hides,
    is_open,
    release_slot,
    settle,
    split,
    take_slot,
)
from hardwood._kernels.grow.general_attacks import answer_entropy, answer_gini, is_levelled
from hardwood._kernels.grow.nodes import EVALUATED, LEAVES, NODES, WAITING, draw_features

# A bound this much below the best gain known cannot be a tie that rounding hides; and sums of purities are exact to
# some 1e-15 of themselves.
BOUND_SLACK = 1.0 - 1e-9
PURITY_SLACK = 1.0 - 1e-13


class Work(NamedTuple):
    """Scratch for one node: what is known of a cut, class by class."""

    total: np.ndarray  # float64: the weight of each class in the node,
    least: np.ndarray  # surely left of the cut,
    most: np.ndarray  # possibly left of it,
    move: np.ndarray  # and left of it once the attacker has answered
    answer: np.ndarray  # float64 (2): theta and mu of the last answer
    lows: np.ndarray  # int64 (class * statistic): sums over lower ends up to the cut,
    highs: np.ndarray  # over upper ends
    scale: np.ndarray  # float64: see `general_sweep.py`
    takes: np.ndarray  # int64: what goes left of those that are movable, as in `general.Tree`


@inner
def weigh_classes(sums, statistics, units, weights):
    """Write what each class weighs; the sum."""
    n = 0.0
    for k in range(weights.shape[0]):
        weights[k] = (sums[k] if statistics is None else sums[2 * k + 1]) * units.weight[k]
        n += weights[k]
    return n


@inner
def _advance(cells, statistics, low, high, units, work):
    """Go on to the next cut; whether a sample's end lies in the bin that was passed. `low`, `high`: its first cells."""
    lows, highs = work.lows, work.highs
    held = int64(0)
    for at in range(lows.shape[0]):
        held |= cells[low + at] | cells[high + at]
        lows[at] += cells[low + at]
        highs[at] += cells[high + at]
    if held != 0:
        weigh_classes(lows, statistics, units, work.most)
        weigh_classes(highs, statistics, units, work.least)
    return held != 0


@inner
def _exceeds(least, most, total, n, base, theta, mu, floor):
    """Whether an earlier answer leaves more Gini gain than `floor`; `base` is the purity of the node."""
    s, left, right = 0.0, 0.0, 0.0
    for k in range(total.shape[0]):
        share = total[k] * theta + mu
        share = share if share < most[k] else most[k]
        share = share if share > least[k] else least[k]
        rest = total[k] - share
        s, left, right = s + share, left + share * share, right + rest * rest
    return left * (n - s) + right * s >= (floor * BOUND_SLACK + base) * (s * (n - s)) * PURITY_SLACK


@inner
def gain_gini(move, total, n):
    """Weight times the decrease of the Gini impurity. A sum of squares: nothing cancels."""
    s, squares = 0.0, 0.0
    for k in range(total.shape[0]):
        s += move[k]
    for k in range(total.shape[0]):
        imbalance = move[k] * n - total[k] * s
        squares += imbalance * imbalance
    return round_off(squares / (n * s * (n - s)))


@inner
def _add_entropy(bits, part, whole):
    """Take off the bits that part of a side needs."""
    return bits - part * np.log2(part / whole) if part > 0.0 else bits


@inner
def gain_entropy(move, total, n):
    """Weight times the decrease of the entropy, in bits."""
    s, node, left, right = 0.0, 0.0, 0.0, 0.0
    for k in range(total.shape[0]):
        s += move[k]
    for k in range(total.shape[0]):
        node = _add_entropy(node, total[k], n)
        left = _add_entropy(left, move[k], s)
        right = _add_entropy(right, total[k] - move[k], n - s)
    saved = node - left - right
    return round_off(saved) if saved > 0.0 else 0.0


@inner
def _mark_ends(work, theta, mu):
    """Say of every class at which end of their reach the attacker wants its samples: `takes`, as if none was divided.

    Where nobody of a class is movable at this cut somebody may be behind it: to find out how far the threshold can be
    moved without changing his answer, it has to be known which ends count.
    """
    for k in range(work.total.shape[0]):
        work.takes[k] = EVERYBODY if work.total[k] * theta + mu > work.least[k] else 0


@inner
def _find_labels(least, most, total):
    """Find the classes that keep most on either side, whatever the attacker does: (left, right)."""
    left, right = int64(0), int64(0)
    for k in range(1, total.shape[0]):
        left = k if least[k] > least[left] else left
        right = k if total[k] - most[k] > total[right] - most[right] else right
    return left, right


@inner
def _rate_error(work, n, base, floor, is_fixed):
    """The rows that a cut saves from being lost, with a trifle of Gini gain that decides between equals."""
    least, most, total, move = work.least, work.most, work.total, work.move
    left, right = _find_labels(least, most, total)
    largest = total[0]
    for k in range(1, total.shape[0]):
        largest = total[k] if total[k] > largest else largest
    saved = least[left] + (total[right] - most[right]) - largest
    saved = (saved + LIFT * n) - LIFT * n
    # The Gini gain is n at most. If both classes are one and the same, nothing is saved.
    if not saved > ROUNDING * n or saved + PLATEAU_WEIGHT * n < floor or is_levelled(least, most, total):
        return 0.0
    gini = _rate_gini(work, n, base, 0.0, is_fixed)
    move[left], move[right] = least[left], most[right]
    work.takes[left], work.takes[right] = 0, EVERYBODY
    return saved + PLATEAU_WEIGHT * gini


@inner
def _rate_gini(work, n, base, floor, is_fixed):
    least, most, total, move, answer = work.least, work.most, work.total, work.move, work.answer
    if not _exceeds(least, most, total, n, base, answer[0], answer[1], floor) or is_levelled(least, most, total):
        return 0.0
    if is_fixed:
        for k in range(total.shape[0]):
            move[k] = least[k]
    else:
        answer[0], answer[1] = answer_gini(least, most, total, n, answer[0], answer[1], move)
    _mark_ends(work, answer[0], answer[1])
    return gain_gini(move, total, n)


@inner
def _rate_entropy(work, n, floor, is_fixed):
    least, most, total, move, answer = work.least, work.most, work.total, work.move, work.answer
    if is_levelled(least, most, total):
        return 0.0
    for k in range(total.shape[0]):
        share = total[k] * answer[0]
        share = share if share < most[k] else most[k]
        move[k] = share if share > least[k] else least[k]
    score = gain_entropy(move, total, n)
    if score < floor * BOUND_SLACK:
        return score
    if not is_fixed:
        answer[0] = answer_entropy(least, most, total, n, answer[0], move)
    _mark_ends(work, answer[0], 0.0)
    return gain_entropy(move, total, n)


@inner
def rate(criterion, work, n, base, floor, is_fixed):
    """What a cut gains once the attacker has answered, as `work.move` says; what is less than `floor` is a bound."""
    if criterion == ERROR:
        return _rate_error(work, n, base, floor, is_fixed)
    if criterion == ENTROPY:
        return _rate_entropy(work, n, floor, is_fixed)
    return _rate_gini(work, n, base, floor, is_fixed)


@inner
def divide(units, work, n_statistics):
    """Find how much of each class is taken; the fewest and the most rows that are left then, in units.

    Of a class that is divided it is known only later who goes left (`general.find_limits`).
    """
    least, most, move, takes = work.least, work.most, work.move, work.takes
    fewest, largest = int64(0), int64(0)
    for k in range(takes.shape[0]):
        surely, possibly = work.highs[k * n_statistics], work.lows[k * n_statistics]
        if least[k] < move[k] < most[k]:
            takes[k] = int64(np.ceil(round_off(2.0 * (move[k] - least[k])) / units.weight[k]))
            fewest, largest = fewest + surely, largest + possibly
        else:
            rows = possibly if takes[k] == EVERYBODY else surely
            fewest, largest = fewest + rows, largest + rows
    return fewest, largest


@inner
def keep(work, n_statistics, takes, left_sums):
    """Remember what the cut leaves on the left; of a class that is divided, what is surely there."""
    for k in range(takes.shape[0]):
        takes[k] = work.takes[k]
        for s in range(n_statistics):
            cell = k * n_statistics + s
            left_sums[cell] = work.lows[cell] if takes[k] == EVERYBODY else work.highs[cell]


@inner
def is_poor(work, n):
    """Whether the left side is not the richer one in class 0."""
    s = 0.0
    for k in range(work.total.shape[0]):
        s += work.move[k]
    return not work.move[0] * n > work.total[0] * s


@inner
def _scan(cells, statistics, bins, feature, units, limits, here, takes, left_sums, n, base, work):
    """Look for a cut of one feature that is better than the node's best so far."""
    n_statistics, width = work.lows.shape[0] // takes.shape[0], bins.width
    low, high = bins.columns[feature, 0] * width, bins.columns[feature, 1] * width
    is_fixed, step, poor = low == high, work.lows.shape[0], False
    for at in range(step):
        work.lows[at] = work.highs[at] = 0
    for code in range(bins.n_thresholds[feature]):
        if not _advance(cells, statistics, (low + code) * step, (high + code) * step, units, work):
            continue
        score = rate(limits.criterion, work, n, base, here.gain, is_fixed)
        if not score > here.gain and not (poor and score == here.gain and not is_poor(work, n)):
            continue
        fewest, largest = divide(units, work, n_statistics)
        if fewest * units.rows < limits.min_leaf or here.count - largest * units.rows < limits.min_leaf:
            continue
        here.feature, here.cut, here.gain, here.missing = feature, code, score, -1
        poor = not is_fixed and is_poor(work, n)
        keep(work, n_statistics, takes, left_sums)


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
def _scan_hidden(cells, statistics, bins, feature, units, limits, tree, node, span, missing, n, base, work):
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
        weigh_classes(work.lows, statistics, units, work.most)
        weigh_classes(work.highs, statistics, units, work.least)
        score = rate(limits.criterion, work, n, base, here.gain, is_fixed)
        if not score > here.gain and not (poor and score == here.gain and not is_poor(work, n)):
            continue
        fewest, largest = divide(units, work, step // n_groups)
        if fewest * units.rows < limits.min_leaf or here.count - largest * units.rows < limits.min_leaf:
            continue
        here.feature, here.cut, here.gain, here.missing = feature, cut, score, missing
        here.first, here.last = first, last
        poor = not is_fixed and is_poor(work, n)
        keep(work, step // n_groups, takes, left_sums)


@inner
def _holds_missing(cells, bins, feature, step):
    """Whether a value of a feature is missing in a node."""
    if bins.missing < 0:
        return False
    first = (bins.columns[feature, 0] * bins.width + bins.missing) * step
    held = int64(0)
    for at in range(step):
        held |= cells[first + at]
    return held != 0


@inner
def _find_split(statistics, bins, units, limits, tree, node, histograms, work):
    """Find a node's best split by its histogram."""
    here, features, total = tree.nodes[node], histograms.features, work.total
    n, base = weigh_classes(tree.sums[node], statistics, units, total), 0.0
    for k in range(total.shape[0]):
        base += total[k] * total[k] / n
    work.answer[0], work.answer[1] = 0.5, 0.0
    here.feature, here.gain, here.missing = -1, 0.0, -1
    draw_features(here.seed, limits.max_features, features)
    for k in range(features.shape[0]):
        if here.feature >= 0 and k >= limits.max_features:
            break
        cells, feature = histograms.cells[here.slot], features[k]
        if hides(bins, feature, total.shape[0]) or _holds_missing(cells, bins, feature, work.lows.shape[0]):
            can_miss, first, last = find_span(tree, node, feature, bins.n_thresholds[feature])
            for missing in range(0 if can_miss else -1, 2 if can_miss else 0):
                _scan_hidden(
                    cells, statistics, bins, feature, units, limits, tree, node, (first, last), missing, n, base, work
                )
            continue
        _scan(
            cells, statistics, bins, feature, units, limits, here, tree.takes[node], tree.left_sums[node], n, base, work
        )


@kernel(about="the grower of trees of many classes", seconds=3.0)
def grow(samples, bins, units, limits, tree, histograms, work):
    """Split nodes until none is left to split (DONE) or there is no room for more of them (FULL)."""
    nodes, sizes, statistics = tree.nodes, tree.sizes, samples.statistics
    n_classes, n_statistics = work.total.shape[0], work.lows.shape[0] // work.total.shape[0]
    if sizes[EVALUATED] == 0:
        root = nodes[0]
        root.slot = take_slot(histograms)
        fill(samples, statistics, root.start, root.end, n_classes, bins.width, histograms.cells[root.slot])
    while True:
        while sizes[EVALUATED] < sizes[NODES]:
            node = sizes[EVALUATED]
            sizes[EVALUATED] += 1
            if is_open(nodes[node], limits):
                _find_split(statistics, bins, units, limits, tree, node, histograms, work)
                settle(bins, limits, tree, node, histograms, n_statistics)
            else:
                release_slot(histograms, nodes[node])
        if sizes[WAITING] == 0 or sizes[LEAVES] >= limits.max_leaves:
            return DONE
        if sizes[NODES] + 2 > nodes.shape[0]:
            return FULL
        split(samples, statistics, bins, units, limits, tree, pop(tree, limits.best_first), histograms)
