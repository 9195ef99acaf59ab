"""The ordinary CART scan, over one shifted order of one node.

Small nodes are many, so what a scan is handed counts: numbers and named tuples of numbers travel in registers, named
tuples of arrays do not. Indices are unsigned inside the loops, which spares a check for negative ones. What is counted,
and what a sample weighs, comes in fours: class 0 moving, class 0 staying, class 1 moving, class 1 staying.
"""

from typing import NamedTuple

from numpy import int64, uint64

from hardwood._kernels.compiling import inner
from hardwood._kernels.grow.criteria import GINI, ROUNDING, SIGNIFICANT, gain
from hardwood._kernels.grow.orders import CLASS_BIT, GROUP, ID_MASK

BLOCK_BITS = 6
BLOCK = 1 << BLOCK_BITS
BLOCKS = 8  # blocks that are bounded together first
# A bound must not come out below the gain it bounds because either is rounded.
SLACK = 1.0 + 4.0 * 2.0**-SIGNIFICANT
MASK = 0xFFFF  # one of four counts in a number


class Kinds(NamedTuple):
    """What a sample counts, by class and kind."""

    n_rows: int  # the ids of samples that stay begin here
    weight: tuple[float, float, float, float]
    rows: tuple[float, float, float, float]  # what part of a row it is


class Choice(NamedTuple):
    """How thresholds are compared, and which of them are not allowed."""

    sign: float  # of the orientation: +1, -1, or 0 where one order serves both
    criterion: int
    min_leaf: float


@inner
def _weigh(counts, block, more, table):
    """Class weights of the samples before a block and of some more, whose four counts are packed in one number."""
    zero = (counts[block, 0] + (more & MASK)) * table[0] + (counts[block, 1] + ((more >> 16) & MASK)) * table[1]
    one = (counts[block, 2] + ((more >> 32) & MASK)) * table[2] + (counts[block, 3] + (more >> 48)) * table[3]
    return zero, one


@inner
def _scan_block(order, begin, end, counts, block, kinds, totals, choice, best, best_first_right):
    """Try every threshold behind samples `begin` to `end`, which are a block.

    With Gini the gain is `2 imbalance^2 / (node left right)`. Both factors are kept up to date by one addition per
    sample and compared by cross-multiplication; the few thresholds that pass are scored from the exact counts.
    """
    node_zero, node_one, node_rows = totals
    sign, criterion, min_leaf = choice
    n, weights, rows = kinds
    node = node_zero + node_one
    noise = ROUNDING * node_zero * node_one
    numerator, denominator = best * node, 2.0 * SLACK
    zero, one = _weigh(counts, block, int64(0), weights)
    zero_moving, zero_staying, one_moving, one_staying = weights
    more = int64(0)
    imbalance, left = zero * node_one - one * node_zero, zero + one
    step = uint64(1)
    following = order[uint64(begin)]
    for i in range(uint64(begin), uint64(end)):
        entry = following
        following = order[i + step]
        class_index = int64(entry >> CLASS_BIT)
        stays = int64(int64(entry & ID_MASK) >= n)
        moving, staying = one_moving if class_index else zero_moving, one_staying if class_index else zero_staying
        weight = staying if stays else moving
        left += weight
        imbalance += weight * (-node_zero if class_index else node_one)
        more += int64(1) << (32 * class_index + 16 * stays)
        if not following & GROUP:
            continue
        if criterion == GINI:
            if imbalance * imbalance * denominator < numerator * (left * (node - left)):
                continue
            if imbalance * sign <= noise and (sign != 0.0 or abs(imbalance) <= noise):
                continue
        zero, one = _weigh(counts, block, more, weights)
        score = gain(criterion, sign, zero, one, node_zero, node_one)
        first_right = int64(i + step)
        if score < best or (score == best and not first_right < best_first_right):
            continue
        if min_leaf > 0.0:
            zero, one = _weigh(counts, block, more, rows)
            if zero + one < min_leaf or node_rows - zero - one < min_leaf:
                continue
        best, best_first_right = score, first_right
        numerator = best * node
    return best, best_first_right


@inner
def _count_blocks(order, start, n_blocks, last, kinds, counts):
    """Count the samples before each block."""
    n = kinds.n_rows
    split = kinds.rows[1] + kinds.rows[3] > 0.0
    for block in range(n_blocks):
        begin = start + block * BLOCK
        end = begin + BLOCK if begin + BLOCK < last else last
        ones, staying = 0, 0
        if split:
            for i in range(uint64(begin), uint64(end)):
                class_index = int64(order[i] >> CLASS_BIT)
                stays = int64(int64(order[i] & ID_MASK) >= n)
                ones += class_index
                staying += stays + ((class_index & stays) << 32)  # two counts in one
        else:
            for i in range(uint64(begin), uint64(end)):
                ones += int64(order[i] >> CLASS_BIT)
        staying_ones = staying >> 32
        staying_zeros = (staying & 0xFFFFFFFF) - staying_ones
        counts[block + 1, 0] = counts[block, 0] + end - begin - ones - staying_zeros
        counts[block + 1, 1] = counts[block, 1] + staying_zeros
        counts[block + 1, 2] = counts[block, 2] + ones - staying_ones
        counts[block + 1, 3] = counts[block, 3] + staying_ones


@inner
def _bound(counts, block, after, kinds, totals, choice):
    """Bound the gains of a run of blocks: the gain is convex, so its maximum is at a corner of what can be left."""
    zero, one = _weigh(counts, block, int64(0), kinds.weight)
    all_zero, all_one = _weigh(counts, after, int64(0), kinds.weight)
    bound = 0.0
    if choice.sign >= 0.0:
        bound = gain(choice.criterion, 1.0, all_zero, one, totals.zero, totals.one)
    if choice.sign <= 0.0:
        other = gain(choice.criterion, -1.0, zero, all_one, totals.zero, totals.one)
        bound = other if other > bound else bound
    return bound * SLACK


@inner
def _scan_weights(order, start, end, weight, kinds, totals, choice, floor):
    """Best threshold where every sample has a weight of its own: see `scan`."""
    n, rows, min_leaf = kinds.n_rows, kinds.rows, choice.min_leaf
    best, best_first_right = floor, int64(-1)
    left_zero, left_one, left_rows = 0.0, 0.0, 0.0
    for i in range(start, end - 1):
        sample = int64(order[i] & ID_MASK)
        if order[i] >> CLASS_BIT:
            left_one += weight[sample]
            left_rows += rows[3] if sample >= n else rows[2]
        else:
            left_zero += weight[sample]
            left_rows += rows[1] if sample >= n else rows[0]
        if not order[i + 1] & GROUP:
            continue
        score = gain(choice.criterion, choice.sign, left_zero, left_one, totals.zero, totals.one)
        if score > best and not (min_leaf > 0.0 and (left_rows < min_leaf or totals.rows - left_rows < min_leaf)):
            best, best_first_right = score, i + 1
    return best, best_first_right


@inner
def scan(order, start, end, weight, kinds, totals, choice, floor, counts, bounds):
    """Best threshold of a node's samples on one order, which weigh what `weight` says, or `kinds` if it is empty.

    Returns (gain, index of the first sample on the right); the index is -1 where no threshold gains more than `floor`.

    Counting in integers keeps every sum exact, whatever the order of the rows. A large node is counted block by block
    first, and only the blocks that may hold a better threshold than the best known are looked into.
    """
    if weight.shape[0] > 0:
        return _scan_weights(order, start, end, weight, kinds, totals, choice, floor)
    last = end - 1
    n_blocks = (last - start + BLOCK - 1) >> BLOCK_BITS
    best, best_first_right = floor, int64(-1)
    if n_blocks <= 1:
        return _scan_block(order, start, last, counts, int64(0), kinds, totals, choice, best, best_first_right)
    _count_blocks(order, start, n_blocks, last, kinds, counts)
    promising, n_groups = 0, (n_blocks + BLOCKS - 1) // BLOCKS
    for group in range(n_groups):
        after = (group + 1) * BLOCKS if group + 1 < n_groups else n_blocks
        bounds[group] = _bound(counts, group * BLOCKS, after, kinds, totals, choice)
        if bounds[group] > bounds[promising]:
            promising = group
    for turn in range(-1, n_groups):
        group = promising if turn < 0 else turn
        if turn == promising or bounds[group] < best:
            continue
        for block in range(group * BLOCKS, (group + 1) * BLOCKS if group + 1 < n_groups else n_blocks):
            if _bound(counts, block, block + 1, kinds, totals, choice) < best:
                continue
            begin = start + block * BLOCK
            stop = begin + BLOCK if begin + BLOCK < last else last
            best, best_first_right = _scan_block(
                order, begin, stop, counts, block, kinds, totals, choice, best, best_first_right
            )
    return best, best_first_right
