"""The ordinary CART scan, over one shifted order of one node.

Small nodes are many, so what a scan is handed counts: plain numbers and four-number tables travel in registers, named
tuples of arrays do not. Indices are unsigned inside the loops, which spares a check for negative ones. The tables are
(class 0 moving, class 0 staying, class 1 moving, class 1 staying).
"""

from numpy import int64, uint64

from hardwood._kernels.compiling import inner, part
from hardwood._kernels.orders import CLASS_BIT, GROUP, ID_MASK
from hardwood._kernels.scoring import GINI, ROUNDING, gain

BLOCK_BITS = 6
BLOCK = 1 << BLOCK_BITS
# A bound must not come out below the gain it bounds because of rounding.
SLACK = 1.0 + 1e-12


@part
def _weigh(zeros, ones, staying_zeros, staying_ones, table):
    """Class weights of counted samples."""
    zero = (zeros - staying_zeros) * table[0] + staying_zeros * table[1]
    one = (ones - staying_ones) * table[2] + staying_ones * table[3]
    return zero, one


@inner
def _scan_block(
    orders, slot, begin, end, n, before, weights, rows, node_zero, node_one, node_rows, sign, criterion, min_leaf, best,
    best_cut,
):  # fmt: skip
    """Try every cut behind samples `begin` to `end`; `before` counts what lies left of them.

    With Gini the gain is `2 imbalance^2 / (node left right)`. Both factors are kept up to date by one addition per
    sample and compared by cross-multiplication; the few cuts that pass are scored from the counts, which are exact.
    """
    node = node_zero + node_one
    noise = ROUNDING * node_zero * node_one
    numerator, denominator = best * node, 2.0 * SLACK
    zeros, ones, staying_zeros, staying_ones = before
    zero, one = _weigh(zeros, ones, staying_zeros, staying_ones, weights)
    imbalance, left = zero * node_one - one * node_zero, zero + one
    slot, step = uint64(slot), uint64(1)
    following = orders[slot, uint64(begin)]
    for i in range(uint64(begin), uint64(end)):
        entry = following
        following = orders[slot, i + step]
        label = int64(entry >> CLASS_BIT)
        stays = int64(int64(entry & ID_MASK) >= n)
        weight = (weights[3] if stays else weights[2]) if label else (weights[1] if stays else weights[0])
        left += weight
        imbalance += weight * (-node_zero if label else node_one)
        ones += label
        zeros += 1 - label
        staying_ones += label & stays
        staying_zeros += stays & ~label
        if not following & GROUP:
            continue
        if criterion == GINI:
            if imbalance * imbalance * denominator < numerator * (left * (node - left)):
                continue
            if imbalance * sign <= noise and (sign != 0.0 or abs(imbalance) <= noise):
                continue
        zero, one = _weigh(zeros, ones, staying_zeros, staying_ones, weights)
        score = gain(criterion, sign, zero, one, node_zero, node_one)
        cut = int64(i + step)
        if score < best or (score == best and not cut < best_cut):
            continue
        if min_leaf > 0.0:
            zero, one = _weigh(zeros, ones, staying_zeros, staying_ones, rows)
            if zero + one < min_leaf or node_rows - zero - one < min_leaf:
                continue
        best, best_cut = score, cut
        numerator = best * node
    return best, best_cut


@inner
def _count_blocks(orders, slot, start, n_blocks, last, n, split, counts):
    """Count the samples left of each block: (block, [zeros, ones, staying zeros, staying ones])."""
    slot = uint64(slot)
    for block in range(n_blocks):
        begin = start + block * BLOCK
        end = begin + BLOCK if begin + BLOCK < last else last
        ones, staying = 0, 0
        if split:
            for i in range(uint64(begin), uint64(end)):
                label = int64(orders[slot, i] >> CLASS_BIT)
                stays = int64(int64(orders[slot, i] & ID_MASK) >= n)
                ones += label
                staying += stays + ((label & stays) << 32)  # two counts in one
        else:
            for i in range(uint64(begin), uint64(end)):
                ones += int64(orders[slot, i] >> CLASS_BIT)
        staying_ones = staying >> 32
        counts[block + 1, 0] = counts[block, 0] + end - begin - ones
        counts[block + 1, 1] = counts[block, 1] + ones
        counts[block + 1, 2] = counts[block, 2] + (staying & 0xFFFFFFFF) - staying_ones
        counts[block + 1, 3] = counts[block, 3] + staying_ones


@inner
def _bound(counts, block, weights, node_zero, node_one, sign, criterion):
    """No cut inside a block gains more: the gain is convex, so its maximum is at a corner of what can be left."""
    zero, one = _weigh(counts[block, 0], counts[block, 1], counts[block, 2], counts[block, 3], weights)
    after = block + 1
    all_zero, all_one = _weigh(counts[after, 0], counts[after, 1], counts[after, 2], counts[after, 3], weights)
    bound = 0.0
    if sign >= 0.0:
        bound = gain(criterion, 1.0, all_zero, one, node_zero, node_one)
    if sign <= 0.0:
        other = gain(criterion, -1.0, zero, all_one, node_zero, node_one)
        bound = other if other > bound else bound
    return bound * SLACK


@inner
def scan_counts(
    orders, slot, start, end, n, weights, rows, node_zero, node_one, node_rows, sign, criterion, min_leaf, floor,
    counts, bounds,
):  # fmt: skip
    """Best cut of a node's samples on one order, where a sample's weight follows from its class and kind.

    Returns (gain, index of the first sample on the right); the index is -1 where no cut gains more than `floor`.

    Counting in integers keeps every sum exact, whatever the order of the rows. A large node is counted block by block
    first, and only the blocks that may hold a better cut than the best known are looked into.
    """
    last = end - 1
    n_blocks = (last - start + BLOCK - 1) >> BLOCK_BITS
    best, best_cut = floor, int64(-1)
    if n_blocks <= 1:
        nothing = (int64(0), int64(0), int64(0), int64(0))
        return _scan_block(
            orders, slot, start, last, n, nothing, weights, rows, node_zero, node_one, node_rows, sign, criterion,
            min_leaf, best, best_cut,
        )  # fmt: skip
    _count_blocks(orders, slot, start, n_blocks, last, n, rows[1] + rows[3] > 0.0, counts)
    promising = 0
    for block in range(n_blocks):
        bounds[block] = _bound(counts, block, weights, node_zero, node_one, sign, criterion)
        if bounds[block] > bounds[promising]:
            promising = block
    for turn in range(-1, n_blocks):
        block = promising if turn < 0 else turn
        if turn == promising or bounds[block] < best:
            continue
        begin = start + block * BLOCK
        stop = begin + BLOCK if begin + BLOCK < last else last
        before = (counts[block, 0], counts[block, 1], counts[block, 2], counts[block, 3])
        best, best_cut = _scan_block(
            orders, slot, begin, stop, n, before, weights, rows, node_zero, node_one, node_rows,
            sign, criterion, min_leaf, best, best_cut,
        )  # fmt: skip
    return best, best_cut


@inner
def scan_weights(
    orders, slot, start, end, n, weight, rows, node_zero, node_one, node_rows, sign, criterion, min_leaf, floor
):
    """The same where every sample has a weight of its own."""
    best, best_cut = floor, int64(-1)
    left_zero, left_one, left_rows = 0.0, 0.0, 0.0
    for i in range(start, end - 1):
        sample = int64(orders[slot, i] & ID_MASK)
        if orders[slot, i] >> CLASS_BIT:
            left_one += weight[sample]
            left_rows += rows[3] if sample >= n else rows[2]
        else:
            left_zero += weight[sample]
            left_rows += rows[1] if sample >= n else rows[0]
        if not orders[slot, i + 1] & GROUP:
            continue
        score = gain(criterion, sign, left_zero, left_one, node_zero, node_one)
        if score > best and not (min_leaf > 0.0 and (left_rows < min_leaf or node_rows - left_rows < min_leaf)):
            best, best_cut = score, i + 1
    return best, best_cut
