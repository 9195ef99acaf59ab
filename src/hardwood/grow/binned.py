"""The binned grower: few thresholds per feature, histograms instead of orders. For large tables.

It grows what the exact grower grows (`grow/tree.py`), from the thresholds of `grow/bins.py`: with bins for all ends of
reach it is the same tree, split by split. Codes are made once. What a row adds to a histogram is an integer, a count or
a weight in fixed point, so the tree depends neither on threads nor on the order in which rows are added up.
"""

from dataclasses import replace

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow import binned
from hardwood._kernels.grow.histograms import CLASS_BIT, ID_MASK, BinnedSamples, Units
from hardwood._kernels.grow.nodes import LEAVES, NODES, Limits
from hardwood.grow.bins import Bins, encode_rows, find_bins
from hardwood.grow.exact import FIRST_CAPACITY, GAIN_SLACK
from hardwood.grow.fixed_point import weigh_samples
from hardwood.grow.limits import GrowOptions, make_limits
from hardwood.grow.problem import Problem
from hardwood.grow.workers import hire
from hardwood.threat import Reach

# Memory for histograms. A tree that is grown depth first keeps one per level; where there is no room for one, the node
# is counted again when it is split.
HISTOGRAM_BYTES = 1 << 28


def grow_nodes(problem: Problem, reach: Reach, options: GrowOptions, max_bins: int | None) -> np.ndarray:
    """Grow one robust tree on bins, and return its nodes; None: on bins for all ends of reach."""
    attacks = reach.attacks & (options.rho > 0.0)
    stays = attacks & (options.rho < 1.0)
    # Ends may lie outside a feature's domain, as in the exact grower; `find_shifts` says why that changes nothing.
    reach = replace(reach, attacks=attacks, within=None)
    with hire(options.n_threads) as workers:
        bins = find_bins(problem.X, problem.class_index, reach, stays, max_bins)
        codes = encode_rows(problem.X, problem.class_index, reach, stays, bins, workers)
    weights, units, sums = _weigh_samples(problem, stays, options.rho)
    limits = make_limits(options, attacks)
    return _grow(_make_samples(problem, stays, codes, weights), bins, units, sums, limits, options.seed)


def _make_samples(problem: Problem, stays: np.ndarray, codes: np.ndarray, weights: np.ndarray | None) -> BinnedSamples:
    if len(codes) > ID_MASK:
        raise ValueError(f"X has {len(problem.X)} rows, {len(codes)} samples; at most {ID_MASK} are supported.")
    classes = problem.class_index
    entries = np.concatenate([classes, classes[stays[classes]]]).astype(np.uint32) << CLASS_BIT
    entries |= np.arange(len(codes), dtype=np.uint32)
    return BinnedSamples(frozen(codes), entries, np.empty(len(codes), dtype=np.uint32), weights)


def _weigh_samples(
    problem: Problem, stays: np.ndarray, rho: float
) -> tuple[np.ndarray | None, Units, tuple[int, int, int]]:
    """Return the weights of samples as integers, their units, and the sums: class 0, class 1, rows.

    Samples that are one row each and weigh what their class weighs need none.
    """
    classes, n_rows = problem.class_index, len(problem.class_index)
    n_one = int(np.count_nonzero(classes))
    if problem.sample_weight is None and not stays.any():
        zero, one = problem.class_weight.tolist()
        return None, Units(zero, one, 1.0), (n_rows - n_one, n_one, n_rows)
    staying = np.flatnonzero(stays[classes])
    fixed = weigh_samples(problem.row_weight, staying, rho)
    of_sample = np.concatenate([classes, classes[staying]])
    sums = [int(fixed.weight[of_sample == k].sum()) for k in (0, 1)]
    units = Units(fixed.weight_unit, fixed.weight_unit, 1.0 / fixed.whole_row)
    return np.column_stack([fixed.weight, fixed.rows]), units, (sums[0], sums[1], n_rows * fixed.whole_row)


def _grow(
    samples: BinnedSamples, bins: Bins, units: Units, sums: tuple[int, int, int], limits: Limits, seed: int
) -> np.ndarray:
    """Plant the root and grow the tree."""
    columns = binned.Columns(bins.columns, bins.n_thresholds, bins.below, bins.above, bins.width)
    histograms = _make_histograms(bins, 1 if samples.weights is None else 4, limits, len(samples.codes))
    tree = binned.BinnedTree(
        nodes=np.zeros(FIRST_CAPACITY, dtype=binned.NODE),
        heap=np.zeros(FIRST_CAPACITY, dtype=np.int64),
        sizes=np.zeros(4, dtype=np.int64),
    )
    root = tree.nodes[0]
    root["feature"] = root["left"] = root["slot"] = -1
    root["end"], root["seed"], root["sums"] = len(samples.codes), seed, sums
    root["zero"], root["one"], root["count"] = sums[0] * units.zero, sums[1] * units.one, sums[2] * units.rows
    tree.sizes[[NODES, LEAVES]] = 1
    limits = limits._replace(min_gain=limits.min_gain * (root["zero"] + root["one"]) * GAIN_SLACK)
    while binned.grow(samples, columns, units, limits, tree, histograms) == binned.FULL:
        tree = tree._replace(
            nodes=np.concatenate([tree.nodes, np.zeros_like(tree.nodes)]),
            heap=np.concatenate([tree.heap, np.zeros_like(tree.heap)]),
        )
    return tree.nodes[: int(tree.sizes[NODES])]


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
