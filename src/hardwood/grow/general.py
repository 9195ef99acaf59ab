"""The general grower on bins: samples in groups, for targets of more than two classes.

It grows what `grow/tree.py` tells, from the thresholds of `grow/bins.py`, with the attacker's exact answer to many
classes (`_kernels.grow.general_attacks`); with two classes it is the tree of the other growers, split by split. What a
sample adds to a histogram is an integer, so the tree depends neither on threads nor on the order of the rows.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow import general, general_classes, general_ratings
from hardwood._kernels.grow.general import GROUP_SHIFT, Columns, Histograms, Samples, Tree, Units
from hardwood._kernels.grow.general_categories import Partition
from hardwood._kernels.grow.nodes import LEAVES, NODES, Limits
from hardwood.grow.bins import Bins
from hardwood.grow.coded_rows import CodedRows, draw_samples
from hardwood.grow.exact import FIRST_CAPACITY, GAIN_SLACK
from hardwood.grow.fixed_point import ROW_EACH, FixedUnits, choose_units, weigh_samples
from hardwood.grow.general_categories import Categories
from hardwood.grow.limits import GrowOptions, make_limits
from hardwood.grow.problem import Problem
from hardwood.threat import Reach

# Memory for histograms, see `grow/binned.py`.
HISTOGRAM_BYTES = 1 << 28


class GrownNodes(NamedTuple):
    """A tree as it was grown."""

    nodes: np.ndarray  # general.NODE
    weight: np.ndarray  # float64 (node, class)
    sides: np.ndarray  # uint8 (node, code): of splits by categories


class Statistics(NamedTuple):
    """What samples of classes add to sums: rows and weight."""

    # int64 (sample, 2); (0, 1) where each sample is a row, and weighs what its class weighs
    of_samples: np.ndarray
    units: Units


def grow_classes(
    problem: Problem, coded: CodedRows, options: GrowOptions, drawn: np.ndarray | None = None
) -> GrownNodes:
    """Grow one robust tree of any number of classes on bins.

    drawn : the rows to grow it from, with repetitions; None: all, each once.
    """
    bins, stays, categories, attacks = coded.bins, coded.stays, coded.categories, coded.reach.attacks
    statistics = weigh_classes(problem, stays, options.rho, drawn)
    staying = np.flatnonzero(stays[problem.class_index])
    group = np.concatenate([problem.class_index, problem.class_index[staying]])
    chosen = np.arange(len(group)) if drawn is None else draw_samples(drawn, staying, len(problem.class_index))
    samples = make_samples(coded.codes, group, statistics.of_samples, chosen)
    sums = sum_up(group[chosen], take_statistics(statistics.of_samples, chosen), len(problem.classes))
    tree = make_root(sums, len(chosen), statistics.units, options.seed, categories.n_codes)
    limits = limit_growth(options, attacks, tree, statistics.units)
    columns = make_columns(bins, coded.reach, categories, len(problem.classes), options.monotonic)
    histograms, work = make_histograms(bins, tree, limits, len(chosen)), make_work(tree)
    context = (samples, columns, statistics.units, limits)
    special = make_special(columns, categories)
    while general_classes.grow(*context, tree, histograms, work, *special) == general.FULL:
        tree = enlarge(tree)
    return harvest_nodes(tree, statistics.units)


def harvest_nodes(tree: Tree, units: Units) -> GrownNodes:
    """Return the nodes of a finished tree."""
    n_nodes = int(tree.sizes[NODES])
    return GrownNodes(tree.nodes[:n_nodes], weigh_nodes(tree, units), tree.sides[:n_nodes])


def weigh_classes(problem: Problem, stays: np.ndarray, rho: float, drawn: np.ndarray | None = None) -> Statistics:
    """Return the rows and weights of samples: of every row, and then of the parts that stay."""
    if problem.sample_weight is None and not stays.any():
        return Statistics(ROW_EACH, make_units(None, problem.class_weight))
    row_weight = problem.row_weight
    units = choose_units(row_weight, drawn)
    fixed = weigh_samples(row_weight, np.flatnonzero(stays[problem.class_index]), rho, units)
    return Statistics(np.column_stack([fixed.rows, fixed.weight]), make_units(units, problem.class_weight))


def make_units(fixed: FixedUnits | None, class_weight: np.ndarray) -> Units:
    """Return what integers stand for; None where each sample is a row, and weighs what its class weighs."""
    return Units(class_weight, 1.0) if fixed is None else Units(np.full(len(class_weight), fixed.weight), fixed.rows)


def weigh_nodes(tree: Tree, units: Units) -> np.ndarray:
    """Return what every class weighs in every node: the last statistic is the weight, or the rows that stand for it."""
    n_nodes = int(tree.sizes[NODES])
    return tree.sums[:n_nodes].reshape(n_nodes, len(units.weight), -1)[:, :, -1] * units.weight


def limit_growth(options: GrowOptions, attacks: np.ndarray, tree: Tree, units: Units) -> Limits:
    """Return when to stop, for a tree that is still its root."""
    limits = make_limits(options, attacks)
    return limits._replace(min_gain=limits.min_gain * float(weigh_nodes(tree, units).sum()) * GAIN_SLACK)


def make_samples(codes: np.ndarray, group: np.ndarray, statistics: np.ndarray, chosen: np.ndarray) -> Samples:
    """Put the chosen samples in one node."""
    if len(codes) > general.ID_MASK:
        raise ValueError(f"X has {len(codes)} samples; at most {general.ID_MASK} are supported.")
    entries = group[chosen].astype(np.uint64) << GROUP_SHIFT | chosen.astype(np.uint64)
    return Samples(frozen(codes), entries, np.empty_like(entries), frozen(statistics))


def take_statistics(of_samples: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return the statistics of some samples."""
    return of_samples if of_samples.shape[1] == 1 else of_samples[chosen]


def sum_up(group: np.ndarray, of_samples: np.ndarray, n_groups: int) -> np.ndarray:
    """Return the sums of the statistics of some samples (group, statistic)."""
    if of_samples.shape[1] == 1:
        return np.bincount(group, minlength=n_groups)[:, None]
    return np.stack([of_samples[group == k].sum(axis=0) for k in range(n_groups)])


def make_root(sums: np.ndarray, n_samples: int, units: Units, seed: int, n_codes: int = 0) -> Tree:
    """Make a tree that is a root, which holds all samples; `sums` (group, statistic) are theirs."""
    n_groups = len(sums)
    tree = Tree(
        nodes=np.zeros(FIRST_CAPACITY, dtype=general.NODE),
        sums=np.zeros((FIRST_CAPACITY, sums.size), dtype=np.int64),
        left_sums=np.zeros((FIRST_CAPACITY, sums.size), dtype=np.int64),
        takes=np.zeros((FIRST_CAPACITY, n_groups), dtype=np.int64),
        sides=np.zeros((FIRST_CAPACITY, n_codes), dtype=np.uint8),
        heap=np.zeros(FIRST_CAPACITY, dtype=np.int64),
        sizes=np.zeros(4, dtype=np.int64),
    )
    tree.sums[0], rows = sums.ravel(), sums[:, 0]
    root = tree.nodes[0]
    root["feature"] = root["left"] = root["slot"] = root["parent"] = root["missing"] = -1
    root["lower"], root["upper"] = -np.inf, np.inf
    root["end"], root["seed"], root["count"] = n_samples, seed, rows.sum() * units.rows
    root["mixed"] = ((rows > 0) & (units.weight > 0.0)).sum() >= 2
    tree.sizes[[NODES, LEAVES]] = 1
    return tree


def enlarge(tree: Tree) -> Tree:
    """Return a tree with room for twice as many nodes."""
    arrays = {name: getattr(tree, name) for name in ("nodes", "sums", "left_sums", "takes", "sides", "heap")}
    return tree._replace(**{name: np.concatenate([old, np.zeros_like(old)]) for name, old in arrays.items()})


def make_histograms(bins: Bins, tree: Tree, limits: Limits, n_samples: int) -> Histograms:
    """Make room for the histograms of as many nodes as can wait to be split, or as memory allows."""
    n_cells = bins.n_columns * bins.width * tree.sums.shape[1]
    waiting = min(limits.max_leaves if limits.best_first else limits.max_depth, n_samples) + 2
    n_slots = max(3, min(waiting, HISTOGRAM_BYTES // (8 * n_cells)))
    n_groups = tree.takes.shape[1]
    return Histograms(
        cells=np.empty((n_slots, n_cells), dtype=np.int64),
        free=np.arange(n_slots, -1, -1, dtype=np.int64),  # n_slots of them: the slots n_slots - 1 to 0
        features=np.arange(len(bins.columns), dtype=np.int64),
        limits=np.empty(n_groups, dtype=np.int64),
        movable=np.empty((n_groups, bins.width, tree.sums.shape[1] // n_groups), dtype=np.int64),
    )


def make_columns(
    bins: Bins, reach: Reach, categories: Categories, n_groups: int, monotonic: np.ndarray | None = None
) -> Columns:
    """Say what codes mean, and whose values can be blanked or filled in; groups are classes."""
    moves = reach.attacks
    none = np.zeros((len(bins.columns), n_groups), dtype=bool)
    blank, fill = (none if flags is None else flags[:, None] & moves for flags in (reach.blank, reach.fill))
    return Columns(
        columns=bins.columns,
        n_thresholds=bins.n_thresholds,
        below=bins.below,
        above=bins.above,
        width=bins.width,
        missing=bins.missing,
        blank=frozen(blank),
        fill=frozen(fill),
        n_categories=frozen(categories.n_categories),
        reach=frozen(categories.reach),
        reach_start=frozen(categories.reach_start),
        monotonic=frozen(np.zeros(0, dtype=np.int64) if monotonic is None else monotonic),
    )


def make_special(columns: Columns, categories: Categories) -> tuple[Partition | None, int | None]:
    """Return what the search for a split needs for categories, and for missing values.

    What is not needed is None, so that nothing is compiled for it.
    """
    partition = categories.make_partition() if categories.n_codes else None
    has_missing = columns.missing >= 0 or columns.blank.any() or columns.fill.any()
    return partition, columns.missing if has_missing else None


def make_work(tree: Tree) -> general_ratings.Work:
    """Allocate what the search for a split writes to."""
    n_classes, n_sums = tree.takes.shape[1], tree.sums.shape[1]
    return general_ratings.Work(
        total=np.empty(n_classes),
        least=np.empty(n_classes),
        most=np.empty(n_classes),
        move=np.empty(n_classes),
        answer=np.empty(2),
        lows=np.empty(n_sums, dtype=np.int64),
        highs=np.empty(n_sums, dtype=np.int64),
        scale=np.empty(n_classes),
        takes=np.empty(n_classes, dtype=np.int64),
    )
