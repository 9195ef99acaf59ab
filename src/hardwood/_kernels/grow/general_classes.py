"""Growing one tree of many classes on codes: a group is a class, and its statistics are rows, or rows and weight.

At every cut the scan knows how much of each class is surely left (`least`) and how much can be (`most`), asks what the
attacker would do (`general_attacks.py`) and compares what he leaves. Most cuts are passed over by a bound: any answer
of his is one, and the one to the cut before is nearly his best.

With two classes the tree is the one that `binned.py` grows; of equally good cuts of a feature the first is taken, and
those whose left side is the richer one in class 0 before the others.
"""

from numpy import int64

from hardwood._kernels.compiling import inner, kernel, part
from hardwood._kernels.grow.frontier import pop, push
from hardwood._kernels.grow.general import (
    DONE,
    FULL,
    fill,
    find_span,
    hides,
    is_open,
    is_worth_it,
    release_slot,
    split,
    take_slot,
)
from hardwood._kernels.grow.general_categories import scan_categories
from hardwood._kernels.grow.general_missing import holds_missing, scan_hidden
from hardwood._kernels.grow.general_ratings import divide, is_poor, keep, obeys, rate, weigh_classes, weigh_node
from hardwood._kernels.grow.nodes import EVALUATED, LEAVES, NODES, WAITING, draw_features


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


@part
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


@inner
def find_split(cells, bins, units, limits, tree, node, features, work, partition, hidden):
    """Find a node's best split by its histogram; what `grow` is handed says what the others are.

    features : scratch.
    """
    here, total = tree.nodes[node], work.total
    n, base = weigh_node(tree.sums[node], units, total)
    work.answer[0], work.answer[1] = 0.5, 0.0
    here.feature, here.gain, here.missing = -1, 0.0, -1
    draw_features(here.seed, limits.max_features, features)
    for k in range(features.shape[0]):
        if here.feature >= 0 and k >= limits.max_features:
            break
        feature = features[k]
        if partition is not None:  # noqa: SIM102, numba prunes what is tested alone
            if bins.n_categories[feature] > 0:
                scan_categories(cells, bins, feature, units, limits, tree, node, n, base, partition, work)
                continue
        if hidden is not None:  # noqa: SIM102
            if hides(bins, feature, total.shape[0]) or holds_missing(cells, bins, feature, work.lows.shape[0]):
                can_miss, first, last = find_span(tree, node, feature, bins.n_thresholds[feature])
                span = (first, last)
                for missing in range(0 if can_miss else -1, 2 if can_miss else 0):
                    scan_hidden(cells, bins, feature, units, limits, tree, node, span, missing, n, base, work)
                continue
        _scan(cells, bins, feature, units, limits, here, tree.takes[node], tree.left_sums[node], n, base, work)


@kernel(about="the grower of trees of many classes", seconds=5.0)
def grow(samples, bins, units, limits, tree, histograms, work, partition, hidden):
    """Split nodes until none is left to split (DONE) or there is no room for more of them (FULL).

    partition : scratch for categories, see general_categories.py; None if there are none: nothing is compiled for them.
    hidden : None if no value is missing or can be blanked; or anything else.
    """
    nodes, sizes = tree.nodes, tree.sizes
    n_classes, n_statistics = work.total.shape[0], work.lows.shape[0] // work.total.shape[0]
    if sizes[EVALUATED] == 0:
        root = nodes[0]
        root.slot = take_slot(histograms)
        fill(samples, root.start, root.end, n_classes, bins.width, histograms.cells[root.slot])
    while True:
        while sizes[EVALUATED] < sizes[NODES]:
            node = sizes[EVALUATED]
            sizes[EVALUATED] += 1
            here = nodes[node]
            if is_open(here, limits):
                cells, features = histograms.cells[here.slot], histograms.features
                find_split(cells, bins, units, limits, tree, node, features, work, partition, hidden)
                if is_worth_it(bins, limits, here, tree.takes[node], cells, n_statistics):
                    push(tree, limits.best_first, node)
                    if histograms.free[0] >= 2:  # enough for the children of whichever node is split next
                        continue
            release_slot(histograms, here)
        if sizes[WAITING] == 0 or sizes[LEAVES] >= limits.max_leaves:
            return DONE
        if sizes[NODES] + 2 > nodes.shape[0]:
            return FULL
        split(samples, bins, units, limits, tree, pop(tree, limits.best_first), histograms)
