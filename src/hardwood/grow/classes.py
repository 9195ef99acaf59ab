"""Trees of classes on bins: which kernels grow them, what these are handed, and a whole tree in memory.

It grows what `grow/tree.py` tells, from the thresholds of `grow/bins.py`: with bins for all ends of reach it is the
tree of the exact growers, split by split. What a sample adds to a histogram is an integer, so the tree depends neither
on threads nor on the order of the rows.

========================  ======================================================================================
target                    what it grows
========================  ======================================================================================
``two_classes``           two classes; features are numbers, all there and not monotone, in codes of one byte
``plain_classes``         more of them, or monotone features; the rest as above
``all_classes``           the rest: categories, values that are missing or can be, codes of two bytes
========================  ======================================================================================
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow.frame.histograms import Histograms
from hardwood._kernels.grow.frame.kernels import FULL, Asked, Kernels
from hardwood._kernels.grow.frame.nodes import NODE, Columns, Samples, Tree, Units
from hardwood._kernels.grow.nodes import LEAVES, NODES, Limits
from hardwood._kernels.grow.targets import sides
from hardwood._kernels.grow.targets import two_classes as pairs
from hardwood._kernels.grow.targets.classes import AllWork, all_classes, plain_classes
from hardwood._kernels.grow.targets.ratings import Work
from hardwood.grow.bins import Bins
from hardwood.grow.coded_rows import CodedRows, CodePlan, draw_samples
from hardwood.grow.exact import FIRST_CAPACITY, GAIN_SLACK
from hardwood.grow.fixed_point import ROW_EACH, FixedUnits, choose_units, weigh_samples
from hardwood.grow.general_categories import Categories
from hardwood.grow.limits import GrowOptions, make_limits
from hardwood.rows.task import Task

# Memory for histograms. A tree that is grown depth first keeps one per level; where there is no room for one, its
# children are both counted.
HISTOGRAM_BYTES = 1 << 28


class Target(NamedTuple):
    """Which kernels grow a tree of classes, and how they want samples."""

    name: str  # steps that travel tell it: kernels do not
    kernels: Kernels
    id_bits: int  # of an entry; the class is in those above
    entry_type: type

    @property
    def most_samples(self) -> int:
        """How many samples entries can number."""
        return (1 << self.id_bits) - 1

    def make_entries(self, group: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        """Return samples of these groups and numbers as the kernels take them."""
        entries: np.ndarray = group.astype(self.entry_type)
        entries <<= self.entry_type(self.id_bits)
        entries |= numbers.astype(self.entry_type, copy=False)
        return entries

    def count_words(self, n_groups: int, n_statistics: int) -> int:
        """Return how many integers a cell of a histogram is: the counts of two classes are packed in one."""
        return 1 if self.name == "two" and n_statistics == 1 else n_groups * n_statistics

    def take_columns(self, columns: Columns) -> Any:
        """Return what the kernels have to know of columns: they are compiled for all that they are handed."""
        return pairs.Cuts(*(getattr(columns, name) for name in pairs.Cuts._fields)) if self.name == "two" else columns

    def make_work(self, tree: Tree, categories: Categories) -> Any:
        """Allocate what the search for a split writes to."""
        if self.name == "two":
            return ()
        return make_work(tree) if self.name == "plain" else AllWork(make_work(tree), categories.make_partition())


TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "two": Target("two", pairs.two_classes, int(pairs.CLASS_BIT), np.uint32),
        "plain": Target("plain", plain_classes, int(sides.GROUP_SHIFT), np.uint64),
        "all": Target("all", all_classes, int(sides.GROUP_SHIFT), np.uint64),
    }
)


def choose_target(plan: CodePlan, n_classes: int, monotonic: np.ndarray | None) -> Target:
    """Choose the kernels that can grow a tree; of several, the quickest."""
    reach, is_special = plan.reach, plan.bins.has_missing or bool(plan.categories.n_codes)
    hides = reach.attacks.any() and any(flags is not None and flags.any() for flags in (reach.blank, reach.fill))
    if is_special or hides or plan.bins.dtype != np.uint8:
        return TARGETS["all"]
    return TARGETS["two" if n_classes == 2 and monotonic is None else "plain"]


class GrownNodes(NamedTuple):
    """A tree as it was grown."""

    nodes: np.ndarray  # frame.nodes.NODE
    weight: np.ndarray  # float64 (node, class)
    sides: np.ndarray  # uint8 (node, code): of splits by categories


class Statistics(NamedTuple):
    """What samples of classes add to sums: rows and weight."""

    # int64 (sample, 2); (0, 1) where each sample is a row, and weighs what its class weighs
    of_samples: np.ndarray
    units: Units


def grow_classes(problem: Task, coded: CodedRows, options: GrowOptions, drawn: np.ndarray | None = None) -> GrownNodes:
    """Grow one robust tree of any number of classes on bins.

    drawn : the rows to grow it from, with repetitions; None: all, each once.
    """
    n_classes, stays = len(problem.classes), coded.stays
    target = choose_target(coded, n_classes, options.monotonic)
    if len(coded.codes) > target.most_samples:
        raise ValueError(
            f"X has {len(problem.class_index)} rows, {len(coded.codes)} samples; at most {target.most_samples} are "
            "supported."
        )
    statistics = weigh_classes(problem, stays, options.rho, drawn)
    staying = np.flatnonzero(stays[problem.class_index])
    group, of_chosen = np.concatenate([problem.class_index, problem.class_index[staying]]), statistics.of_samples
    if drawn is None:
        chosen = np.arange(len(group), dtype=np.uint32)
    else:
        chosen = draw_samples(drawn, staying, len(problem.class_index))
        group, of_chosen = group[chosen], take_statistics(statistics.of_samples, chosen)
    samples = make_samples(target, coded.codes, target.make_entries(group, chosen), statistics.of_samples)
    sums, n_codes = sum_up(group, of_chosen, n_classes), coded.categories.n_codes
    tree = make_root(sums, len(chosen), statistics.units, options.seed, n_codes)
    limits = limit_growth(options, coded.reach.attacks, tree, statistics.units)
    columns = make_columns(coded, n_classes, options.monotonic)
    n_words = target.count_words(*of_groups(tree))
    context = (samples, target.take_columns(columns), statistics.units, limits)
    histograms = make_histograms(coded.bins, tree, n_words, count_slots(limits, len(chosen), coded.bins, n_words))
    work, nothing = target.make_work(tree, coded.categories), ask_for(0)
    while target.kernels.grow(*context, tree, histograms, work, nothing) == FULL:
        tree = enlarge(tree)
    return harvest_nodes(tree, statistics.units)


def of_groups(tree: Tree) -> tuple[int, int]:
    """Return how many groups there are, and how many statistics each has."""
    n_groups = tree.takes.shape[1]
    return n_groups, tree.sums.shape[1] // n_groups


def ask_for(n_nodes: int) -> Asked:
    """Make room for the question whether the splits of some nodes are worth it; of none: for a whole tree."""
    return Asked(*(np.empty(n_nodes, dtype=dtype) for dtype in (np.int64, np.int64, bool)))


def harvest_nodes(tree: Tree, units: Units) -> GrownNodes:
    """Return the nodes of a finished tree."""
    n_nodes = int(tree.sizes[NODES])
    return GrownNodes(tree.nodes[:n_nodes], weigh_nodes(tree, units), tree.sides[:n_nodes])


def weigh_classes(problem: Task, stays: np.ndarray, rho: float, drawn: np.ndarray | None = None) -> Statistics:
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


def make_samples(target: Target, codes: np.ndarray, entries: np.ndarray, statistics: np.ndarray) -> Samples:
    """Put samples in one node; entries that cannot be written to are only read."""
    spill: np.ndarray = np.empty(len(entries) if entries.flags.writeable else 0, dtype=target.entry_type)
    return Samples(frozen(codes), entries, spill, frozen(statistics))


def take_statistics(of_samples: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return the statistics of some samples."""
    return of_samples if of_samples.shape[1] == 1 else of_samples[chosen]


def sum_up(group: np.ndarray, of_samples: np.ndarray, n_groups: int) -> np.ndarray:
    """Return the sums of the statistics of some samples (group, statistic)."""
    if of_samples.shape[1] == 1:
        return np.bincount(group, minlength=n_groups)[:, None]
    return np.stack([(group == k) @ of_samples for k in range(n_groups)])


def make_root(sums: np.ndarray, n_samples: int, units: Units, seed: int, n_codes: int = 0) -> Tree:
    """Make a tree that is a root, which holds all samples; `sums` (group, statistic) are theirs."""
    n_groups = len(sums)
    tree = Tree(
        nodes=np.zeros(FIRST_CAPACITY, dtype=NODE),
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


def count_slots(limits: Limits, n_samples: int, bins: Bins, n_words: int) -> int:
    """Return for how many histograms there is room: of all nodes that can wait to be split, or as memory allows."""
    waiting = min(limits.max_leaves if limits.best_first else limits.max_depth, n_samples) + 2
    return max(3, min(waiting, HISTOGRAM_BYTES // (8 * bins.n_columns * bins.width * n_words)))


def make_histograms(bins: Bins, tree: Tree, n_words: int, n_slots: int) -> Histograms:
    """Make room for histograms."""
    n_groups, n_statistics = of_groups(tree)
    return Histograms(
        cells=np.empty((n_slots, bins.n_columns * bins.width * n_words), dtype=np.int64),
        free=np.arange(n_slots, -1, -1, dtype=np.int64),  # n_slots of them: the slots n_slots - 1 to 0
        features=np.arange(len(bins.columns), dtype=np.int64),
        limits=np.empty(n_groups, dtype=np.int64),
        movable=np.empty((n_groups, bins.width, n_statistics), dtype=np.int64),
    )


def make_columns(plan: CodePlan, n_groups: int, monotonic: np.ndarray | None = None) -> Columns:
    """Say what codes mean, and whose values can be blanked or filled in; groups are classes."""
    bins, reach, categories = plan.bins, plan.reach, plan.categories
    none = np.zeros((len(bins.columns), n_groups), dtype=bool)
    blank, fill = (none if flags is None else flags[:, None] & reach.attacks for flags in (reach.blank, reach.fill))
    return Columns(
        columns=frozen(bins.columns),
        n_thresholds=frozen(bins.n_thresholds),
        below=frozen(bins.below),
        above=frozen(bins.above),
        width=bins.width,
        missing=bins.missing,
        blank=frozen(blank),
        fill=frozen(fill),
        n_categories=frozen(categories.n_categories),
        reach=frozen(categories.reach),
        reach_start=frozen(categories.reach_start),
        monotonic=frozen(np.zeros(0, dtype=np.int64) if monotonic is None else monotonic),
    )


def make_work(tree: Tree) -> Work:
    """Allocate what the search for a split writes to."""
    n_classes, n_sums = tree.takes.shape[1], tree.sums.shape[1]
    return Work(
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
