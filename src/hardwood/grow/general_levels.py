"""The general grower level by level, over blocks of rows: what `grow/general.py` grows, node by node.

Who grows the tree keeps its nodes, and blocks their samples. A level is two steps::

    tally      blocks add up the movable samples of splits that divide those of a class between both sides, by the
               codes of their lower ends: then it is known who goes left
    descend    they send the samples of split nodes to the children, and count the histograms of the smaller ones

What blocks add up are integers, so the tree does not depend on how rows are cut into blocks.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow import general_levels
from hardwood._kernels.grow.general import EVERYBODY, ID_MASK, Samples
from hardwood._kernels.grow.general_levels import SPLIT, SPLIT_FIELDS, BlockColumns
from hardwood._kernels.grow.nodes import DROPPED, NODES, WAITS
from hardwood.grow.block_samples import SampleRule
from hardwood.grow.blocks import Counts, Step
from hardwood.grow.class_blocks import ClassBlock, check_size
from hardwood.grow.coded_rows import CodePlan
from hardwood.grow.fixed_point import ROW_EACH
from hardwood.grow.general import (
    GrownNodes,
    enlarge,
    harvest_nodes,
    limit_growth,
    make_columns,
    make_root,
    make_samples,
    make_special,
    make_units,
    make_work,
)
from hardwood.grow.level_order import Moves, Replay, count_children, grow_levels
from hardwood.grow.limits import GrowOptions


class Segments(NamedTuple):
    """The samples of a block, node by node: the state of a block while a tree is grown."""

    entries: np.ndarray  # uint64, as in `general.Samples`
    bounds: np.ndarray  # int64: segment k is entries[bounds[k] : bounds[k + 1]]
    statistics: np.ndarray  # as in `general.Samples`
    columns: BlockColumns

    def read(self, block: ClassBlock) -> Samples:
        """Return the samples as kernels that only read take them."""
        return _as_samples(block, frozen(self.entries), self.statistics)


def _as_samples(block: ClassBlock, entries: np.ndarray, statistics: np.ndarray) -> Samples:
    spill = np.empty(len(entries) if entries.flags.writeable else 0, dtype=np.uint64)
    return Samples(frozen(block.codes), entries, spill, frozen(statistics))


@dataclass(frozen=True)
class Plant(Step):
    """Chooses the samples of the tree, and counts the histogram of the root."""

    name = "plant"
    rule: SampleRule
    columns: BlockColumns

    def do(self, block: ClassBlock, state: np.ndarray | None) -> tuple[Segments, Counts]:
        """Leave a single segment; the state before it is the rows that are drawn, if a step has drawn them."""
        check_size(block, int(ID_MASK))
        chosen = self.rule.choose(block, state)
        fixed = chosen.fixed
        statistics = ROW_EACH if fixed is None else np.column_stack([fixed.rows, fixed.weight])
        entries = make_samples(block.codes, chosen.classes, statistics, chosen.numbers).entries
        segments = Segments(entries, np.array([0, len(entries)]), statistics, self.columns)
        cells = np.empty(_count_cells(self.columns, statistics), dtype=np.int64)
        general_levels.count(segments.read(block), _freeze(self.columns), cells)
        return segments, (cells,)


@dataclass(frozen=True)
class Tally(Step):
    """Adds up the movable samples of nodes by the codes of their lower ends, for classes that are divided."""

    name = "tally"
    segments: np.ndarray  # where the samples of the nodes are
    splits: np.ndarray  # SPLIT
    sides: np.ndarray  # uint8 (split, code)
    takes: np.ndarray  # int64 (split, group): see `general.Tree`

    def do(self, block: ClassBlock, state: Segments) -> tuple[Segments, Counts]:
        """Leave the segments as they are."""
        columns, n_groups = state.columns, self.takes.shape[1]
        shape = (len(self.splits), n_groups, columns.width, state.statistics.shape[1])
        movable = np.zeros(shape, dtype=np.int64)
        of_splits = map(frozen, (self.segments, self.splits, self.sides, self.takes))
        general_levels.tally_nodes(state.read(block), _freeze(columns), frozen(state.bounds), *of_splits, movable)
        return state, (movable,)


@dataclass(frozen=True)
class Descend(Step):
    """Sends the samples of split nodes to their children, and counts histograms of these."""

    name = "descend"
    moves: Moves
    splits: np.ndarray  # SPLIT
    sides: np.ndarray  # uint8 (split, code)
    limits: np.ndarray  # int64 (split, group): see `general.find_limits`

    def do(self, block: ClassBlock, state: Segments) -> tuple[Segments, Counts]:
        """Leave the segments of what waits, and of the children that are kept."""
        columns, moves = state.columns, Moves(*map(frozen, self.moves))
        n_held = int(np.diff(state.bounds)[moves.action != DROPPED].sum())
        n_segments = np.count_nonzero(moves.action == WAITS) + count_children(moves.keep)
        entries, bounds = np.empty(n_held, dtype=np.uint64), np.empty(n_segments + 1, dtype=np.int64)
        cells = np.empty((count_children(moves.made), _count_cells(columns, state.statistics)), dtype=np.int64)
        general_levels.descend(
            frozen(state.entries), frozen(state.bounds), _as_samples(block, entries, state.statistics),
            _freeze(columns), *map(frozen, (self.splits, self.sides, self.limits)), moves, bounds, cells,
        )  # fmt: skip
        entries = entries if bounds[-1] == len(entries) else entries[: bounds[-1]].copy()
        return state._replace(entries=entries, bounds=bounds), (cells,)


def _count_cells(columns: BlockColumns, statistics: np.ndarray) -> int:
    """Return how many cells a histogram has."""
    n_columns, n_groups = int(columns.columns.max()) + 1, columns.blank.shape[1]
    return n_columns * columns.width * n_groups * statistics.shape[1]


def _freeze(columns: BlockColumns) -> BlockColumns:
    """Return columns as kernels take them, whichever way they have come."""
    return columns._replace(columns=frozen(columns.columns), blank=frozen(columns.blank), fill=frozen(columns.fill))


class GeneralLevelTree:
    """A tree of any number of classes while it is grown level by level: a `LevelTree`.

    Parameters
    ----------
    rule : SampleRule
        Which samples it is grown from, and what they weigh; complete.
    plan : CodePlan
    options : GrowOptions
    """

    def __init__(self, rule: SampleRule, plan: CodePlan, options: GrowOptions) -> None:
        self._rule, self._options, self._attacks = rule, options, plan.reach.attacks
        n_groups = len(rule.class_weight)
        self._units, self._n_statistics = make_units(rule.units, rule.class_weight), 1 if rule.units is None else 2
        self._columns = make_columns(plan.bins, plan.reach, plan.categories, n_groups, options.monotonic)
        self._special, self._n_codes = make_special(self._columns, plan.categories), plan.categories.n_codes
        self._features = np.arange(len(plan.bins.columns), dtype=np.int64)
        self.n_cells = plan.bins.n_columns * plan.bins.width * n_groups * self._n_statistics

    @property
    def nodes(self) -> np.ndarray:
        """The nodes, and room for more."""
        return self._tree.nodes

    def plant(self) -> Generator[Step, Counts, np.ndarray]:
        """Make the root, settle the limits, and return the root's histogram."""
        own = self._columns
        (cells,) = yield Plant(self._rule, BlockColumns(own.columns, own.width, own.missing, own.blank, own.fill))
        n_groups = len(self._rule.class_weight)
        of_codes = cells.reshape(-1, own.width, n_groups, self._n_statistics)[0]  # of any column
        self._tree = make_root(of_codes.sum(axis=0), 0, self._units, self._options.seed, self._n_codes)
        self._ends = np.zeros(self._tree.takes.shape, dtype=np.int64)  # see `general.find_limits`
        self._work = make_work(self._tree)
        self.limits = limit_growth(self._options, self._attacks, self._tree, self._units)
        return cells

    def find_open(self, nodes: np.ndarray) -> np.ndarray:
        """Say which nodes may be split at all: `general.is_open`."""
        own, limits = self._tree.nodes[nodes], self.limits
        is_large = (own["count"] >= limits.min_split) & (own["count"] >= 2.0 * limits.min_leaf)
        return (own["mixed"] != 0) & (own["depth"] < limits.max_depth) & is_large

    def search(self, nodes: np.ndarray, cells: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """Find the best splits of nodes by their histograms, and say which are worth it."""
        is_worth = np.empty(len(nodes), dtype=bool)
        general_levels.search(
            nodes, cells, slots, self._columns, self._units, self.limits, self._tree, self._features,
            self._work, *self._special, is_worth,
        )  # fmt: skip
        return is_worth

    def split(self, nodes: np.ndarray, segments: np.ndarray) -> Generator[Step, Counts, None]:
        """Make the children of nodes, whose samples are in these segments."""
        takes = self._tree.takes[nodes]
        is_divided = ((takes != 0) & (takes != EVERYBODY)).any(axis=1)
        movable = np.empty((1, takes.shape[1], self._columns.width, self._n_statistics), dtype=np.int64)
        if is_divided.any():
            (movable,) = yield Tally(segments[is_divided], *self._tell(nodes[is_divided]), takes[is_divided])
        while self._tree.sizes[NODES] + 2 * len(nodes) > len(self._tree.nodes):
            self._tree, self._ends = enlarge(self._tree), np.concatenate([self._ends, np.zeros_like(self._ends)])
        tallied = np.where(is_divided, np.cumsum(is_divided) - 1, 0)
        general_levels.complete_splits(
            self._units, self._columns.monotonic, self._tree, nodes, tallied, frozen(movable), self._ends
        )

    def descend(self, nodes: np.ndarray, moves: Moves) -> Generator[Step, Counts, np.ndarray]:
        """Have samples moved, and return the histograms that were made."""
        (cells,) = yield Descend(moves, *self._tell(nodes), self._ends[nodes])
        return cells

    def _tell(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what blocks have to know of splits: records, and sides of categories."""
        splits = np.empty(len(nodes), dtype=SPLIT)
        for name in SPLIT_FIELDS:
            splits[name] = self._tree.nodes[name][nodes]
        return splits, self._tree.sides[nodes]

    def harvest(self, replay: Replay) -> GrownNodes:
        """Return the nodes as the grower in memory numbers them."""
        order, tree = replay.order, self._tree
        nodes = tree.nodes[order]
        nodes["left"] = replay.left
        has_children = np.flatnonzero(replay.left >= 0)
        for right in range(2):
            nodes["parent"][replay.left[has_children] + right] = has_children
        tree = tree._replace(nodes=nodes, sums=tree.sums[order], sides=tree.sides[order])
        tree.sizes[NODES] = len(order)
        return harvest_nodes(tree, self._units)


def grow_classes_in_levels(
    rule: SampleRule, plan: CodePlan, options: GrowOptions, n_slots: int
) -> Generator[Step, Counts, GrownNodes]:
    """Grow one robust tree of any number of classes on bins, as `grow_classes` does.

    n_slots : room for the histograms of this many nodes
    """
    tree = GeneralLevelTree(rule, plan, options)
    return tree.harvest((yield from grow_levels(tree, n_slots)))
