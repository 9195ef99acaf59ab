"""Trees of classes level by level, over blocks of rows: what `grow/classes.py` grows in memory, node by node.

Who grows the tree keeps its nodes, and blocks their samples. A level is two steps::

    tally      blocks add up the movable samples of splits that divide those of a class between both sides, by the
               codes of their lower ends: then it is known who goes left. Of two classes none is ever divided
    descend    they send the samples of split nodes to the children, and count the histograms of the smaller ones

What blocks add up are integers, so the tree does not depend on how rows are cut into blocks.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow.frame.kernels import SPLIT, SPLIT_FIELDS, BlockColumns, complete_splits, find_open
from hardwood._kernels.grow.frame.nodes import EVERYBODY, Samples
from hardwood._kernels.grow.nodes import DROPPED, NODES, WAITS
from hardwood.grow.block_samples import SampleRule
from hardwood.grow.blocks import Counts, Step
from hardwood.grow.class_blocks import ClassBlock, check_size
from hardwood.grow.classes import (
    TARGETS,
    GrownNodes,
    Target,
    ask_for,
    choose_target,
    enlarge,
    harvest_nodes,
    limit_growth,
    make_columns,
    make_histograms,
    make_root,
    make_samples,
    make_units,
    sum_up,
    take_statistics,
)
from hardwood.grow.coded_rows import CodePlan
from hardwood.grow.fixed_point import ROW_EACH
from hardwood.grow.level_order import Moves, Replay, count_children, grow_levels
from hardwood.grow.limits import GrowOptions


class Layout(NamedTuple):
    """What blocks have to know of a tree to be grown."""

    target: str  # its name: kernels do not travel
    n_classes: int
    columns: BlockColumns

    def count_cells(self, statistics: np.ndarray) -> int:
        """Return how many cells a histogram has."""
        n_words = TARGETS[self.target].count_words(self.n_classes, statistics.shape[1])
        return (int(self.columns.columns.max()) + 1) * self.columns.width * n_words

    def take_columns(self) -> BlockColumns:
        """Return columns as kernels take them, whichever way they have come."""
        own = self.columns
        return own._replace(columns=frozen(own.columns), blank=frozen(own.blank), fill=frozen(own.fill))


class Segments(NamedTuple):
    """The samples of a block, node by node: the state of a block while a tree is grown."""

    entries: np.ndarray  # as in `frame.nodes.Samples`
    bounds: np.ndarray  # int64: segment k is entries[bounds[k] : bounds[k + 1]]
    statistics: np.ndarray  # as in `frame.nodes.Samples`
    layout: Layout

    @property
    def target(self) -> Target:
        """Which kernels grow the tree."""
        return TARGETS[self.layout.target]

    def read(self, block: ClassBlock) -> Samples:
        """Return the samples as kernels that only read take them."""
        return make_samples(self.target, block.codes, frozen(self.entries), self.statistics)


@dataclass(frozen=True)
class Plant(Step):
    """Chooses the samples of the tree, and counts what the root holds and its histogram."""

    name = "plant"
    rule: SampleRule
    layout: Layout

    def do(self, block: ClassBlock, state: np.ndarray | None) -> tuple[Segments, Counts]:
        """Leave a single segment; the state before it is the rows that are drawn, if a step has drawn them."""
        target = TARGETS[self.layout.target]
        check_size(block, target.most_samples)
        chosen = self.rule.choose(block, state)
        numbers, fixed = chosen.numbers, chosen.fixed
        statistics = ROW_EACH if fixed is None else np.column_stack([fixed.rows, fixed.weight])
        group = chosen.classes[numbers]
        entries = target.make_entries(group, numbers)
        segments = Segments(entries, np.array([0, len(entries)]), statistics, self.layout)
        cells = np.empty(self.layout.count_cells(statistics), dtype=np.int64)
        target.kernels.count_all(segments.read(block), self.layout.take_columns(), cells)
        return segments, (sum_up(group, take_statistics(statistics, numbers), self.layout.n_classes), cells)


@dataclass(frozen=True)
class Tally(Step):
    """Adds up the movable samples of nodes by the codes of their lower ends, for classes that are divided."""

    name = "tally"
    segments: np.ndarray  # where the samples of the nodes are
    splits: np.ndarray  # SPLIT
    sides: np.ndarray  # uint8 (split, code)
    takes: np.ndarray  # int64 (split, group): see `frame.nodes.Tree`

    def do(self, block: ClassBlock, state: Segments) -> tuple[Segments, Counts]:
        """Leave the segments as they are."""
        n_splits, n_groups = self.takes.shape
        shape = (n_splits, n_groups, state.layout.columns.width, state.statistics.shape[1])
        movable = np.zeros(shape, dtype=np.int64)
        of_splits = map(frozen, (self.segments, self.splits, self.sides, self.takes))
        samples, columns = state.read(block), state.layout.take_columns()
        state.target.kernels.tally_nodes(samples, columns, frozen(state.bounds), *of_splits, movable)
        return state, (movable,)


@dataclass(frozen=True)
class Descend(Step):
    """Sends the samples of split nodes to their children, and counts histograms of these."""

    name = "descend"
    moves: Moves
    splits: np.ndarray  # SPLIT
    sides: np.ndarray  # uint8 (split, code)
    limits: np.ndarray  # int64 (split, group): see `frame.nodes.find_limits`

    def do(self, block: ClassBlock, state: Segments) -> tuple[Segments, Counts]:
        """Leave the segments of what waits, and of the children that are kept."""
        target, moves = state.target, Moves(*map(frozen, self.moves))
        n_held = int(np.diff(state.bounds)[moves.action != DROPPED].sum())
        n_segments = np.count_nonzero(moves.action == WAITS) + count_children(moves.keep)
        entries: np.ndarray = np.empty(n_held, dtype=target.entry_type)
        bounds = np.empty(n_segments + 1, dtype=np.int64)
        n_cells = state.layout.count_cells(state.statistics)
        cells = np.empty((count_children(moves.made), n_cells), dtype=np.int64)
        target.kernels.descend(
            frozen(state.entries), frozen(state.bounds), make_samples(target, block.codes, entries, state.statistics),
            state.layout.take_columns(), *map(frozen, (self.splits, self.sides, self.limits)), moves, bounds, cells,
        )  # fmt: skip
        if 2 * bounds[-1] < n_held:  # give back what was there for samples that are dropped
            entries = entries[: bounds[-1]].copy()
        return state._replace(entries=entries[: bounds[-1]], bounds=bounds), (cells,)


class ClassLevelTree:
    """A tree of any number of classes while it is grown level by level: a `LevelTree`.

    Parameters
    ----------
    rule : SampleRule
        Which samples it is grown from, and what they weigh; complete.
    plan : CodePlan
    options : GrowOptions
    """

    def __init__(self, rule: SampleRule, plan: CodePlan, options: GrowOptions) -> None:
        self._rule, self._options, self._plan = rule, options, plan
        n_classes, self._n_statistics = len(rule.class_weight), 1 if rule.units is None else 2
        self._units = make_units(rule.units, rule.class_weight)
        self._target = choose_target(plan, n_classes, options.monotonic)
        self._columns = make_columns(plan, n_classes, options.monotonic)
        self._n_words = self._target.count_words(n_classes, self._n_statistics)
        self.n_cells = plan.bins.n_columns * plan.bins.width * self._n_words

    @property
    def nodes(self) -> np.ndarray:
        """The nodes, and room for more."""
        return self._tree.nodes

    def plant(self) -> Generator[Step, Counts, np.ndarray]:
        """Make the root, settle the limits, and return the root's histogram."""
        own, plan = self._columns, self._plan
        columns = BlockColumns(own.columns, own.width, own.missing, own.blank, own.fill)
        sums, cells = yield Plant(self._rule, Layout(self._target.name, len(self._rule.class_weight), columns))
        self._tree = make_root(sums, 0, self._units, self._options.seed, plan.categories.n_codes)
        self._ends = np.zeros(self._tree.takes.shape, dtype=np.int64)  # see `frame.nodes.find_limits`
        self._work = self._target.make_work(self._tree, plan.categories)
        self.limits = limit_growth(self._options, plan.reach.attacks, self._tree, self._units)
        nobody = self._target.make_entries(np.empty(0), np.empty(0))
        codes: np.ndarray = np.empty((0, plan.bins.n_columns), dtype=plan.bins.dtype)
        self._samples = make_samples(self._target, codes, nobody, ROW_EACH)
        self._histograms = make_histograms(plan.bins, self._tree, self._n_words, 0)
        return cells

    def find_open(self, nodes: np.ndarray) -> np.ndarray:
        """Say which nodes may be split at all."""
        found = np.empty(len(nodes), dtype=bool)
        find_open(nodes, self.limits, self._tree, found)
        return found

    def search(self, nodes: np.ndarray, cells: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """Find the best splits of nodes by their histograms, and say which are worth it."""
        asked = ask_for(len(nodes))._replace(nodes=nodes, slots=slots)
        self._target.kernels.grow(
            self._samples, self._target.take_columns(self._columns), self._units, self.limits, self._tree,
            self._histograms._replace(cells=cells), self._work, asked,
        )  # fmt: skip
        return asked.is_worth

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
        complete_splits(self._units, self._columns.monotonic, self._tree, nodes, tallied, frozen(movable), self._ends)

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
    tree = ClassLevelTree(rule, plan, options)
    return tree.harvest((yield from grow_levels(tree, n_slots)))
