"""The binned grower: few thresholds per feature, histograms instead of orders. For large tables.

It grows what the exact grower grows (`grow/tree.py`), from the thresholds of `grow/bins.py`: with bins for all ends of
reach it is the same tree, split by split. Codes are made once. What a row adds to a histogram is an integer, a count or
a weight in fixed point, so the tree depends neither on threads nor on the order in which rows are added up.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow import binned
from hardwood._kernels.grow.histograms import CLASS_BIT, ID_MASK, BinnedSamples, Units
from hardwood._kernels.grow.nodes import LEAVES, NODES, Limits
from hardwood.grow.bins import Bins
from hardwood.grow.coded_rows import CodedRows, draw_samples
from hardwood.grow.exact import FIRST_CAPACITY, GAIN_SLACK
from hardwood.grow.fixed_point import choose_units, weigh_samples
from hardwood.grow.limits import GrowOptions, make_limits
from hardwood.grow.problem import Problem

# Memory for histograms. A tree that is grown depth first keeps one per level; where there is no room for one, the node
# is counted again when it is split.
HISTOGRAM_BYTES = 1 << 28


class BinnedGrower:
    """A table of two classes in codes, from which trees are grown: all of one forest from the same codes.

    Parameters
    ----------
    problem : what is learned; its rows are read from the codes alone
    coded : CodedRows
    options : GrowOptions
    """

    def __init__(self, problem: Problem, coded: CodedRows, options: GrowOptions) -> None:
        if len(coded.codes) > ID_MASK:
            n_rows = len(problem.class_index)
            raise ValueError(f"X has {n_rows} rows, {len(coded.codes)} samples; at most {ID_MASK} are supported.")
        self._codes, self._bins, self._stays = coded.codes, coded.bins, coded.stays
        self._problem, self._rho, self._limits = problem, options.rho, make_limits(options, coded.reach.attacks)

    def grow(self, seed: int, drawn: np.ndarray | None = None, class_weight: np.ndarray | None = None) -> np.ndarray:
        """Grow one tree, and return its nodes.

        drawn : the rows to grow it from, with repetitions; None: all, each once.
        class_weight : what the classes weigh, if not what the problem says.
        """
        problem = self._problem if class_weight is None else replace(self._problem, class_weight=class_weight)
        classes = problem.class_index
        staying = np.flatnonzero(self._stays[classes])
        of_sample = np.concatenate([classes, classes[staying]])
        weights, units = _weigh_samples(problem, self._stays, self._rho, drawn)
        numbers = np.arange(len(of_sample), dtype=np.uint32)
        sums = sum_up(of_sample, weights)
        if drawn is not None:
            numbers = draw_samples(drawn, staying, len(classes)).astype(np.uint32)
            of_sample = of_sample[numbers]
            sums = sum_up(of_sample, None if weights is None else weights[numbers])
        entries = of_sample.astype(np.uint32) << CLASS_BIT
        entries |= numbers
        samples = BinnedSamples(self._codes, entries, numbers, weights)  # what numbers hold is written over
        return _grow(samples, self._bins, units, sums, self._limits, seed)


def _weigh_samples(
    problem: Problem, stays: np.ndarray, rho: float, drawn: np.ndarray | None
) -> tuple[np.ndarray | None, Units]:
    """Return the weights of samples as integers, and their units.

    Samples that are one row each and weigh what their class weighs need none.
    """
    if problem.sample_weight is None and not stays.any():
        zero, one = problem.class_weight.tolist()
        return None, Units(zero, one, 1.0)
    row_weight = problem.row_weight
    units = choose_units(row_weight, drawn)
    fixed = weigh_samples(row_weight, np.flatnonzero(stays[problem.class_index]), rho, units)
    return np.column_stack([fixed.weight, fixed.rows]), Units(units.weight, units.weight, units.rows)


def sum_up(of_sample: np.ndarray, weights: np.ndarray | None) -> tuple[int, int, int]:
    """Return the weight of class 0, of class 1, and the rows, in integers."""
    if weights is None:
        n_one = int(np.count_nonzero(of_sample))
        return len(of_sample) - n_one, n_one, len(of_sample)
    one = of_sample != 0
    return int(weights[~one, 0].sum()), int(weights[one, 0].sum()), int(weights[:, 1].sum())


def _grow(
    samples: BinnedSamples, bins: Bins, units: Units, sums: tuple[int, int, int], limits: Limits, seed: int
) -> np.ndarray:
    """Plant the root and grow the tree."""
    histograms = _make_histograms(bins, 1 if samples.weights is None else 4, limits, len(samples.entries))
    tree, limits = plant(sums, units, limits, seed)
    tree.nodes[0]["end"] = len(samples.entries)
    while binned.grow(samples, make_columns(bins), units, limits, tree, histograms) == binned.FULL:
        tree = enlarge(tree)
    return tree.nodes[: int(tree.sizes[NODES])]


def make_columns(bins: Bins) -> binned.Columns:
    """Say what codes mean."""
    columns, n_thresholds, below, above = map(frozen, (bins.columns, bins.n_thresholds, bins.below, bins.above))
    return binned.Columns(columns, n_thresholds, below, above, bins.width)


def plant(sums: Sequence[int], units: Units, limits: Limits, seed: int) -> tuple[binned.BinnedTree, Limits]:
    """Make a tree that is a root, which holds what `sums` says; settle which gain it takes to split a node."""
    tree = binned.BinnedTree(
        nodes=np.zeros(FIRST_CAPACITY, dtype=binned.NODE),
        heap=np.zeros(FIRST_CAPACITY, dtype=np.int64),
        sizes=np.zeros(4, dtype=np.int64),
    )
    root = tree.nodes[0]
    root["feature"] = root["left"] = root["slot"] = -1
    root["seed"], root["sums"] = seed, sums
    root["zero"], root["one"], root["count"] = sums[0] * units.zero, sums[1] * units.one, sums[2] * units.rows
    tree.sizes[[NODES, LEAVES]] = 1
    return tree, limits._replace(min_gain=limits.min_gain * (root["zero"] + root["one"]) * GAIN_SLACK)


def enlarge(tree: binned.BinnedTree) -> binned.BinnedTree:
    """Return a tree with room for twice as many nodes."""
    return tree._replace(
        nodes=np.concatenate([tree.nodes, np.zeros_like(tree.nodes)]),
        heap=np.concatenate([tree.heap, np.zeros_like(tree.heap)]),
    )


def _make_histograms(bins: Bins, n_words: int, limits: Limits, n_samples: int) -> binned.Histograms:
    """Make room for the histograms of as many nodes as can wait to be split, or as memory allows."""
    n_cells = bins.n_columns * bins.width * n_words
    waiting = min(limits.max_leaves if limits.best_first else limits.max_depth, n_samples) + 2
    n_slots = max(3, min(waiting, HISTOGRAM_BYTES // (8 * n_cells)))
    return binned.Histograms(
        cells=np.empty((n_slots, n_cells), dtype=np.int64),
        free=np.arange(n_slots, -1, -1, dtype=np.int64),  # n_slots of them: the slots n_slots - 1 to 0
        features=np.arange(len(bins.columns), dtype=np.int64),
    )
