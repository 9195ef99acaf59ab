"""Growing one tree of many classes at every threshold there is: by a sweep over the ends of reach.

A feature is an order of events, the ends of the reach of all samples from the lowest to the highest, as in `sweep.py`.
One event changes how much of one class is surely or possibly left of the threshold behind it, so a bound of the gain,
by the attacker's last answer, is brought up to date in a few operations: a cut that it does not pass over is rated as
in `targets/ratings.py`. With bins for all ends of reach the tree on bins is the same.

The bound is a sum over classes of squares of what is on the left, `v`, and on the right, times a scale `c`::

    sum c v^2 / s + sum c (N - v)^2 / (n - s) - sum c N^2 / n

With c = 1 it is the Gini gain. With c = 1 / N it is, times n / ln 2, the chi-squared distance of both sides from the
node, in bits, which the gain of entropy never exceeds.
"""

import math

from numpy import int64, uint32, uint64

from hardwood._kernels.compiling import inner, kernel, part
from hardwood._kernels.grow.criteria import ENTROPY, ERROR
from hardwood._kernels.grow.frame.kernels import DONE, FULL
from hardwood._kernels.grow.frame.nodes import EVERYBODY, is_open, make_children
from hardwood._kernels.grow.frontier import pop, push
from hardwood._kernels.grow.nodes import EVALUATED, LEAVES, NODES, WAITING, draw_features
from hardwood._kernels.grow.numbers import END_BIT
from hardwood._kernels.grow.orders import GROUP, ID_MASK
from hardwood._kernels.grow.partitioning import partition
from hardwood._kernels.grow.targets.ratings import (
    BOUND_SLACK,
    divide,
    is_poor,
    keep,
    rate,
    weigh_node,
)

# Sums of purities that are brought up to date event by event are off by some 1e-16 of themselves per event.
DRIFT_SLACK = 1.0 - 1e-10


@part
def _share(work, k):
    """How much of a class an earlier answer leaves on the left now."""
    share = work.total[k] * work.answer[0] + work.answer[1]
    share = share if share < work.most[k] else work.most[k]
    return share if share > work.least[k] else work.least[k]


@inner
def _measure(work):
    """Add up what the last answer leaves now: (weight on the left, scaled squares on the left, on the right)."""
    s, left, right = 0.0, 0.0, 0.0
    for k in range(work.total.shape[0]):
        share = _share(work, k)
        rest = work.total[k] - share
        s, left, right = s + share, left + work.scale[k] * share * share, right + work.scale[k] * rest * rest
    return s, left, right


@part
def _set_scale(criterion, n, work):
    """Scale the squares: (what one unit of gain is in them, what they are in the node as a whole)."""
    base = 0.0
    for k in range(work.total.shape[0]):
        work.scale[k] = 1.0
        if criterion == ENTROPY:
            work.scale[k] = 1.0 / work.total[k] if work.total[k] > 0.0 else 0.0
        base += work.scale[k] * work.total[k] * work.total[k] / n
    return math.log(2.0) / n if criterion == ENTROPY else 1.0, base


@part
def _pass_event(is_lower, is_upper, sample, k, statistics, units, work):
    """Take note of an end of a sample's reach: it can be left of what follows, or it surely is, or both."""
    if statistics.shape[1] == 1:
        work.lows[k] += is_lower
        work.highs[k] += is_upper
        work.most[k], work.least[k] = work.lows[k] * units.weight[k], work.highs[k] * units.weight[k]
    else:
        for s in range(2):
            work.lows[2 * k + s] += is_lower * statistics[sample, s]
            work.highs[2 * k + s] += is_upper * statistics[sample, s]
        work.most[k] = work.lows[2 * k + 1] * units.weight[k]
        work.least[k] = work.highs[2 * k + 1] * units.weight[k]


@part
def _scan(samples, statistics, classes, feature, units, limits, tree, node, n, purity, unit, base, work):
    """Look for a threshold of one feature that is better than the node's best so far."""
    here, events, n_statistics = tree.nodes[node], samples.events, work.lows.shape[0] // work.total.shape[0]
    begin = samples.first[feature] + samples.ends[feature] * here.start
    end = samples.first[feature] + samples.ends[feature] * here.end
    is_fixed, poor = samples.ends[feature] == 1, False
    for at in range(work.lows.shape[0]):
        work.lows[at] = work.highs[at] = 0
    for k in range(work.total.shape[0]):
        work.least[k] = work.most[k] = 0.0
    s, left, right = _measure(work)
    bar = (here.gain * BOUND_SLACK * unit + base) * DRIFT_SLACK
    for i in range(begin, end):
        event = events[i]
        if (
            event & GROUP
            and i > begin
            and (limits.criterion == ERROR or left * (n - s) + right * s >= bar * (s * (n - s)))
        ):
            score = rate(limits.criterion, work, n, purity, here.gain, is_fixed)
            s, left, right = _measure(work)  # the answer is another, and what has been added up is rounded
            if score > here.gain or (poor and score == here.gain and not is_poor(work, n)):
                fewest, largest = divide(units, work, n_statistics)
                if fewest * units.rows >= limits.min_leaf and here.count - largest * units.rows >= limits.min_leaf:
                    here.feature, here.cut, here.gain = feature, i - begin, score
                    poor = not is_fixed and is_poor(work, n)
                    keep(work, n_statistics, tree.takes[node], tree.left_sums[node])
                    bar = (here.gain * BOUND_SLACK * unit + base) * DRIFT_SLACK
        sample, is_upper = uint64(event & ID_MASK), int64(event >> END_BIT)
        k = int64(classes[sample])
        before = _share(work, k)
        _pass_event(int64(is_fixed) | (1 - is_upper), is_upper, sample, k, statistics, units, work)
        after = _share(work, k)
        step, both, scale = after - before, after + before, work.scale[k]
        s, left, right = s + step, left + scale * step * both, right - scale * step * (2.0 * work.total[k] - both)


@part
def _settle(samples, classes, limits, tree, node):
    """Put a node on the frontier if its best split is worth it; find the ends on both sides of its threshold.

    Behind the threshold only ends count that are where the attacker wants their samples, as on bins.
    """
    here, takes, events = tree.nodes[node], tree.takes[node], samples.events
    if here.feature < 0 or here.gain < limits.min_gain:
        return
    ends = samples.ends[here.feature]
    at = samples.first[here.feature] + ends * here.start + here.cut
    here.below = events[at - 1]
    while True:
        event = events[at]
        take = takes[int64(classes[uint64(event & ID_MASK)])]
        if ends == 1 or take != (EVERYBODY if event >> END_BIT else 0):
            break
        at += 1
    here.above = events[at]
    push(tree, limits.best_first, node)


@part
def _find_split(samples, statistics, classes, units, limits, tree, node, work):
    """Find a node's best split."""
    here, features, total = tree.nodes[node], samples.features, work.total
    n, purity = weigh_node(tree.sums[node], units, total)
    unit, base = _set_scale(limits.criterion, n, work)
    work.answer[0], work.answer[1] = 0.5, 0.0
    here.feature, here.gain = -1, 0.0
    draw_features(here.seed, limits.max_features, features)
    for k in range(features.shape[0]):
        if here.feature >= 0 and k >= limits.max_features:
            break
        _scan(samples, statistics, classes, features[k], units, limits, tree, node, n, purity, unit, base, work)


@part
def _is_right(side, sample):
    return (side[uint64(sample >> uint32(5))] >> (sample & uint32(31))) & uint32(1) != uint32(0)


@part
def _mark(side, sample, right):
    word, bit = uint64(sample >> uint32(5)), uint32(1) << (sample & uint32(31))
    side[word] = side[word] | bit if right else side[word] & ~bit


@part
def _send_some(samples, statistics, classes, begin, first_right, k, wanted, left_sums):
    """Send movable samples of a divided class left as long as that is nearer to what is wanted, position by position.

    Samples that are movable are marked as right so far. `wanted` is twice the weight.
    """
    events, side = samples.events, samples.side
    i = begin
    while i < first_right:
        last, weight = i, int64(0)
        while last < first_right and (last == i or not events[last] & GROUP):
            sample = events[last] & ID_MASK
            if not events[last] >> END_BIT and int64(classes[uint64(sample)]) == k and _is_right(side, sample):
                if statistics.shape[1] == 1:
                    weight += 1
                else:
                    weight += statistics[uint64(sample), 1]
            last += 1
        if weight > 0 and not wanted > weight:
            return
        wanted -= 2 * weight
        for j in range(i, last):
            sample = events[j] & ID_MASK
            if not events[j] >> END_BIT and int64(classes[uint64(sample)]) == k and _is_right(side, sample):
                _mark(side, sample, False)
                if statistics.shape[1] == 1:
                    left_sums[k] += 1
                else:
                    left_sums[2 * k] += statistics[uint64(sample), 0]
                    left_sums[2 * k + 1] += statistics[uint64(sample), 1]
        i = last


@part
def _send(samples, statistics, classes, tree, node):
    """Mark which child every sample of a node goes to; how many go left. Of divided classes, complete what is left."""
    here, takes, events, side = tree.nodes[node], tree.takes[node], samples.events, samples.side
    ends = samples.ends[here.feature]
    begin = samples.first[here.feature] + ends * here.start
    first_right, end = begin + here.cut, samples.first[here.feature] + ends * here.end
    for i in range(begin, end):
        if events[i] >> END_BIT:
            _mark(side, events[i] & ID_MASK, i >= first_right)
    if ends == 2:
        for i in range(begin, first_right):
            sample = events[i] & ID_MASK
            if not events[i] >> END_BIT and takes[int64(classes[uint64(sample)])] == EVERYBODY:
                _mark(side, sample, False)
        for k in range(takes.shape[0]):
            if takes[k] != 0 and takes[k] != EVERYBODY:
                _send_some(samples, statistics, classes, begin, first_right, k, takes[k], tree.left_sums[node])
    roster, n_left = samples.first[samples.first.shape[0] - 1], int64(0)
    for i in range(roster + here.start, roster + here.end):
        n_left += not _is_right(side, events[i] & ID_MASK)
    return n_left


@part
def _split(samples, statistics, classes, units, limits, tree, node):
    """Make a frontier node's two children, and give them their samples if one of them can be split again."""
    here = tree.nodes[node]
    n_left = _send(samples, statistics, classes, tree, node)
    make_children(tree, units, node)
    left, right = tree.nodes[here.left], tree.nodes[here.left + 1]
    left.start, left.end, right.start, right.end = here.start, here.start + n_left, here.start + n_left, here.end
    if is_open(left, limits) or is_open(right, limits):
        for order in range(samples.first.shape[0]):
            begin, ends = samples.first[order], samples.ends[order]
            partition(samples.events, begin + ends * here.start, begin + ends * here.end, samples.side, samples.spill)


@kernel(about="the exact grower of trees of many classes", seconds=4.0)
def grow(samples, statistics, classes, units, limits, tree, work):
    """Split nodes until none is left to split (DONE) or there is no room for more of them (FULL).

    `samples` are as in `sweep.py`, `classes` are theirs, and `statistics` as in `frame.nodes.Samples`.
    """
    nodes, sizes = tree.nodes, tree.sizes
    while True:
        while sizes[EVALUATED] < sizes[NODES]:
            node = sizes[EVALUATED]
            sizes[EVALUATED] += 1
            if is_open(nodes[node], limits):
                _find_split(samples, statistics, classes, units, limits, tree, node, work)
                _settle(samples, classes, limits, tree, node)
        if sizes[WAITING] == 0 or sizes[LEAVES] >= limits.max_leaves:
            return DONE
        if sizes[NODES] + 2 > nodes.shape[0]:
            return FULL
        _split(samples, statistics, classes, units, limits, tree, pop(tree, limits.best_first))
