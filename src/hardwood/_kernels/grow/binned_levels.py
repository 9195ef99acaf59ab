"""Growing a tree of two classes level by level: what blocks of samples do, and what is done with what they count.

The search for a split, the histograms and the nodes are those of `binned.py`. The caller (`grow/binned_levels.py`) owns
all arrays. Nothing that a block is handed is written to.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64, uint64

from hardwood._kernels.compiling import inner, kernel
from hardwood._kernels.grow.binned import find_split, make_children
from hardwood._kernels.grow.histograms import CLASS_BIT, ID_MASK, fill
from hardwood._kernels.grow.nodes import DROPPED, LEFT, RIGHT, WAITS, is_open


class Held(NamedTuple):
    """The samples that a block holds, node by node."""

    entries: np.ndarray  # uint32, as in `BinnedSamples`
    bounds: np.ndarray  # int64: where the samples of each node begin, and where the last ones end


class LevelSplits(NamedTuple):
    """What becomes of the samples of nodes; see `grow/level_order.py: Moves`."""

    action: np.ndarray  # int64 per node whose samples are held: which split parts them, WAITS or DROPPED
    keep: np.ndarray  # uint8 per split: LEFT | RIGHT
    made: np.ndarray  # uint8 per split: LEFT | RIGHT
    zero_column: np.ndarray  # int64 per split: where the codes are that say on which side samples of class 0 are
    one_column: np.ndarray
    cut: np.ndarray  # int64 per split: the last code on the left


@kernel(about="the root of trees over blocks", seconds=0.2)
def count_all(samples, weights, width, cells):
    """Make the histogram of all samples of a block."""
    fill(samples, weights, int64(0), int64(samples.entries.shape[0]), width, cells)


@inner
def _partition(codes, entries, start, end, zero_column, one_column, cut, kept, write):
    """Write samples anew from `write` on, those that go left first; where the others begin.

    Those come in reverse: what is added up does not depend on the order.
    """
    last, low, high = uint64(cut), uint64(write), uint64(write + end - start)
    zero, one = uint64(zero_column), uint64(one_column)
    for k in range(uint64(start), uint64(end)):
        entry = entries[k]
        column = one if entry >> CLASS_BIT != 0 else zero
        right = uint64(uint64(codes[uint64(entry & ID_MASK), column]) > last)
        kept[low] = entry
        kept[high - uint64(1)] = entry
        low += uint64(1) - right
        high -= right
    return int64(low)


@kernel(about="the levels of trees over blocks", seconds=0.4)
def descend(held, splits, samples, weights, width, bounds, cells):
    """Move the samples of a block down by a level, and make histograms; return how many nodes it then holds.

    held : the samples before
    samples : BinnedSamples; what is held afterwards is written to `entries`
    bounds : where their nodes begin is written here
    cells : int64 (histogram, cell), written in the order of the splits
    """
    kept = samples.entries
    write, n_held, n_made = int64(0), int64(0), int64(0)
    bounds[0] = 0
    for node in range(splits.action.shape[0]):
        start, end, k = held.bounds[node], held.bounds[node + 1], splits.action[node]
        if k == DROPPED:
            continue
        if k == WAITS:
            for at in range(start, end):
                kept[write + at - start] = held.entries[at]
            write += end - start
            n_held += 1
            bounds[n_held] = write
            continue
        middle = _partition(
            samples.codes, held.entries, start, end, splits.zero_column[k], splits.one_column[k], splits.cut[k], kept,
            write,
        )  # fmt: skip
        stop = write + end - start
        if splits.made[k] & LEFT:
            fill(samples, weights, write, middle, width, cells[n_made])
            n_made += 1
        if splits.made[k] & RIGHT:
            fill(samples, weights, middle, stop, width, cells[n_made])
            n_made += 1
        if splits.keep[k] & LEFT:
            write = middle
            n_held += 1
            bounds[n_held] = write
        if splits.keep[k] & RIGHT:
            for at in range(middle, stop):
                kept[write + at - middle] = kept[at]
            write += stop - middle
            n_held += 1
            bounds[n_held] = write
    return n_held


@kernel(about="the split search of trees over blocks", seconds=0.8)
def search(chosen, cells, slots, weights, bins, units, limits, nodes, features, is_worth):
    """Find the best split of each node by its histogram, cells[slot]; whether it is worth it."""
    for k in range(chosen.shape[0]):
        is_worth[k] = find_split(weights, bins, units, limits, nodes[chosen[k]], cells[slots[k]], features)


@kernel(about="the nodes of trees over blocks", seconds=0.2)
def split(chosen, units, tree):
    """Make the children of nodes."""
    for k in range(chosen.shape[0]):
        make_children(tree, units, chosen[k])


@kernel(about="the limits of trees over blocks", seconds=0.1)
def find_open(chosen, limits, nodes, found):
    """Find out which nodes may be split at all."""
    for k in range(chosen.shape[0]):
        found[k] = is_open(nodes, limits, chosen[k])
