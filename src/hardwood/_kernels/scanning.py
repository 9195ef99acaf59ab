"""The ordinary CART scan, over one shifted order of one node."""

import numpy as np

from hardwood._kernels.compiling import inner, part
from hardwood._kernels.orders import CLASS_BIT, GROUP, ID_MASK
from hardwood._kernels.scoring import GINI, ROUNDING, gain

BLOCK = 64
# A bound must not come out below the gain it bounds because of rounding.
SLACK = 1.0 + 1e-12


@part
def _weigh(counts, class_weight):
    """Class weights of counted samples (zeros, ones, staying zeros, staying ones)."""
    zeros, ones, staying_zeros, staying_ones = counts
    zero = (zeros - staying_zeros) * class_weight[0, 0] + staying_zeros * class_weight[0, 1]
    one = (ones - staying_ones) * class_weight[1, 0] + staying_ones * class_weight[1, 1]
    return zero, one


@inner
def _scan_block(order, begin, end, before, samples, here, sign, criterion, min_leaf, best, best_cut):
    """Try every cut behind samples `begin` to `end`; `before` counts what lies left of them.

    With Gini, cuts are compared by cross-multiplication of `imbalance^2 / (left right)`, without a division.
    """
    n = samples.X.shape[0]
    node_zero, node_one = here.zero, here.one
    node = node_zero + node_one
    noise = ROUNDING * node_zero * node_one
    numerator, denominator = best * node, 2.0
    zeros, ones, staying_zeros, staying_ones = before[0], before[1], before[2], before[3]
    following = order[begin]
    for i in range(begin, end):
        entry = following
        following = order[i + 1]
        label = np.int64(entry >> CLASS_BIT)
        stays = np.int64(np.int64(entry & ID_MASK) >= n)
        ones += label
        zeros += 1 - label
        staying_ones += label & stays
        staying_zeros += stays & ~label
        if not following & GROUP:
            continue
        zero, one = _weigh((zeros, ones, staying_zeros, staying_ones), samples.class_weight)
        imbalance = zero * node_one - one * node_zero
        left_right = (zero + one) * (node - zero - one)
        if criterion == GINI:
            lead = imbalance * sign if sign != 0.0 else abs(imbalance)
            if lead <= noise or imbalance * imbalance * denominator < numerator * left_right:
                continue
        score = gain(criterion, sign, zero, one, node_zero, node_one)
        if score < best or (score == best and not i + 1 < best_cut):
            continue
        if min_leaf > 0.0:
            zero, one = _weigh((zeros, ones, staying_zeros, staying_ones), samples.class_count)
            if zero + one < min_leaf or here.count - zero - one < min_leaf:
                continue
        best, best_cut = score, i + 1
        numerator, denominator = imbalance * imbalance, left_right
    return best, best_cut


@inner
def _count_blocks(order, start, n_blocks, last, samples, counts):
    """Count the samples left of each block: (block, [zeros, ones, staying zeros, staying ones])."""
    n = samples.X.shape[0]
    split = samples.class_count[0, 1] + samples.class_count[1, 1] > 0.0
    for block in range(n_blocks):
        begin = start + block * BLOCK
        end = min(begin + BLOCK, last)
        ones = 0
        for i in range(begin, end):
            ones += np.int64(order[i] >> CLASS_BIT)
        counts[block + 1, 0] = counts[block, 0] + end - begin - ones
        counts[block + 1, 1] = counts[block, 1] + ones
        if split:
            staying, staying_ones = 0, 0
            for i in range(begin, end):
                stays = np.int64(np.int64(order[i] & ID_MASK) >= n)
                staying += stays
                staying_ones += stays & np.int64(order[i] >> CLASS_BIT)
            counts[block + 1, 2] = counts[block, 2] + staying - staying_ones
            counts[block + 1, 3] = counts[block, 3] + staying_ones


@inner
def _bound(counts, block, class_weight, here, sign, criterion):
    """No cut inside a block gains more: the gain is convex, so its maximum is at a corner of what can be left."""
    few_zero, few_one = _weigh((counts[block, 0], counts[block, 1], counts[block, 2], counts[block, 3]), class_weight)
    after = block + 1
    all_zero, all_one = _weigh((counts[after, 0], counts[after, 1], counts[after, 2], counts[after, 3]), class_weight)
    bound = 0.0
    if sign >= 0.0:
        bound = gain(criterion, 1.0, all_zero, few_one, here.zero, here.one)
    if sign <= 0.0:
        bound = max(bound, gain(criterion, -1.0, few_zero, all_one, here.zero, here.one))
    return bound * SLACK


@inner
def scan_counts(order, samples, here, sign, criterion, min_leaf, floor, counts, bounds):
    """Best cut of a node's samples on one order, where a sample's weight follows from its class and kind.

    Returns (gain, index of the first sample on the right); the index is -1 where no cut gains more than `floor`.

    Counting in integers keeps every sum exact, whatever the order of the rows. A large node is counted block by block
    first, and only the blocks that may hold a better cut than the best known are looked into.
    """
    start, last = here.start, here.end - 1
    n_blocks = -(-(last - start) // BLOCK)
    best, best_cut = floor, np.int64(-1)
    promising = 0
    if n_blocks <= 2:
        bounds[0] = bounds[1] = np.inf
    else:
        _count_blocks(order, start, n_blocks, last, samples, counts)
        for block in range(n_blocks):
            bounds[block] = _bound(counts, block, samples.class_weight, here, sign, criterion)
            if bounds[block] > bounds[promising]:
                promising = block
    for turn in range(-1, n_blocks):
        block = promising if turn < 0 else turn
        if turn == promising or bounds[block] < best:
            continue
        begin, end = start + block * BLOCK, min(start + (block + 1) * BLOCK, last)
        if n_blocks <= 2:  # small: all in one go
            end = last
        best, best_cut = _scan_block(
            order, begin, end, counts[block], samples, here, sign, criterion, min_leaf, best, best_cut
        )
        if n_blocks <= 2:
            break
    return best, best_cut


@inner
def scan_weights(order, samples, here, sign, criterion, min_leaf, floor):
    """The same where every sample has a weight of its own."""
    n = samples.X.shape[0]
    best, best_cut = floor, np.int64(-1)
    left_zero, left_one, left_count = 0.0, 0.0, 0.0
    for i in range(here.start, here.end - 1):
        sample = np.int64(order[i] & ID_MASK)
        label = np.int64(order[i] >> CLASS_BIT)
        if label:
            left_one += samples.weight[sample]
        else:
            left_zero += samples.weight[sample]
        left_count += samples.class_count[label, np.int64(sample >= n)]
        if not order[i + 1] & GROUP:
            continue
        score = gain(criterion, sign, left_zero, left_one, here.zero, here.one)
        if score > best and not (min_leaf > 0.0 and (left_count < min_leaf or here.count - left_count < min_leaf)):
            best, best_cut = score, i + 1
    return best, best_cut
