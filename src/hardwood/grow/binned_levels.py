"""The binned grower of two classes over blocks, level by level: the tree of `grow/binned.py`, to the last bit."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow import binned_levels
from hardwood._kernels.grow.binned_levels import Held, LevelSplits
from hardwood._kernels.grow.histograms import CLASS_BIT, ID_MASK, BinnedSamples, Units
from hardwood._kernels.grow.nodes import DROPPED, NODES
from hardwood.grow.binned import enlarge, make_columns, plant, sum_up
from hardwood.grow.block_samples import SampleRule
from hardwood.grow.blocks import Counts, Step
from hardwood.grow.class_blocks import ClassBlock, check_size
from hardwood.grow.coded_rows import CodePlan
from hardwood.grow.level_order import Moves, count_children, grow_levels
from hardwood.grow.limits import GrowOptions, make_limits

# Stands for the weights of samples where there are some, to say which of both forms histograms have.
WEIGHTED = frozen(np.empty((0, 2), dtype=np.int64))


def grow_two_classes(
    rule: SampleRule, plan: CodePlan, options: GrowOptions, n_slots: int
) -> Generator[Step, Counts, np.ndarray]:
    """Grow one tree of two classes on bins, as `BinnedGrower` does; return its nodes.

    n_slots : room for the histograms of this many nodes
    """
    tree = TwoClasses(rule, plan, options)
    numbered = yield from grow_levels(tree, n_slots)
    nodes = tree.nodes[numbered.order]
    nodes["left"] = numbered.left
    return nodes


class TwoClasses:
    """A tree of two classes that is grown level by level; see `LevelTree`."""

    def __init__(self, rule: SampleRule, plan: CodePlan, options: GrowOptions) -> None:
        self._rule, self._seed, self._bins, units = rule, options.seed, plan.bins, rule.units
        self._columns = make_columns(plan.bins)
        self._features = np.arange(len(plan.bins.columns))
        self._weights = None if units is None else WEIGHTED
        zero, one = rule.class_weight.tolist()
        self._units = Units(zero, one, 1.0) if units is None else Units(units.weight, units.weight, units.rows)
        self.n_cells = plan.bins.n_columns * plan.bins.width * (1 if units is None else 4)
        self.limits = make_limits(options, plan.reach.attacks)

    @property
    def nodes(self) -> np.ndarray:
        """The nodes, and room for more."""
        return self._tree.nodes

    def plant(self) -> Generator[Step, Counts, np.ndarray]:
        """Make the root; see `LevelTree`."""
        sums, histogram = yield PlantTwoClasses(self._rule, self._bins.width, self.n_cells)
        self._tree, self.limits = plant(sums.tolist(), self._units, self.limits, self._seed)
        return histogram

    def find_open(self, nodes: np.ndarray) -> np.ndarray:
        """Say which nodes may be split at all."""
        found = np.empty(len(nodes), dtype=bool)
        binned_levels.find_open(nodes, self.limits, self.nodes, found)
        return found

    def search(self, nodes: np.ndarray, cells: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """Find the best splits of nodes; see `LevelTree`."""
        is_worth = np.empty(len(nodes), dtype=bool)
        context = (self._weights, self._columns, self._units, self.limits)
        binned_levels.search(nodes, cells, slots, *context, self.nodes, self._features, is_worth)
        return is_worth

    def split(self, nodes: np.ndarray, segments: np.ndarray) -> Generator[Step, Counts, None]:
        """Make the children of nodes; that takes no step."""
        while self._tree.sizes[NODES] + 2 * len(nodes) > len(self.nodes):
            self._tree = enlarge(self._tree)
        binned_levels.split(nodes, self._units, self._tree)
        return
        yield

    def descend(self, nodes: np.ndarray, moves: Moves) -> Generator[Step, Counts, np.ndarray]:
        """Have samples moved; see `LevelTree`."""
        own = self.nodes[nodes]
        end = 1 - own["orientation"]
        columns = self._bins.columns[own["feature"]]
        zero, one = (np.take_along_axis(columns, which[:, None], axis=1)[:, 0] for which in (end, 1 - end))
        (histograms,) = yield Descend(LevelSplits(*moves, zero, one, own["cut"].copy()), self._bins.width, self.n_cells)
        return histograms


class HeldSamples(NamedTuple):
    """What a block keeps from one step to the next."""

    held: Held
    weights: np.ndarray | None  # int64 (sample, 2), as in `BinnedSamples`


@dataclass(frozen=True)
class PlantTwoClasses(Step):
    """Puts the samples of a block in one node, and makes its histogram."""

    name = "plant"
    rule: SampleRule
    width: int
    n_cells: int

    def do(self, block: ClassBlock, state: Any) -> tuple[HeldSamples, Counts]:
        """Leave the samples, in one node; the state before is which rows are drawn."""
        check_size(block, int(ID_MASK))
        chosen = self.rule.choose(block, state)
        numbers, fixed = chosen.numbers, chosen.fixed
        of_sample = chosen.classes[numbers]
        weights = None if fixed is None else np.column_stack([fixed.weight, fixed.rows])
        sums = sum_up(of_sample, None if weights is None else weights[numbers])
        entries = of_sample.astype(np.uint32) << CLASS_BIT
        entries |= numbers
        held = HeldSamples(Held(entries, np.array([0, len(entries)])), weights)
        cells = np.empty(self.n_cells, dtype=np.int64)
        samples = BinnedSamples(frozen(block.codes), entries, entries, freeze(weights))
        binned_levels.count_all(samples, samples.weights, self.width, cells)
        return held, (np.array(sums), cells)


@dataclass(frozen=True)
class Descend(Step):
    """Moves the samples of a block down by a level, and makes histograms."""

    name = "level"
    splits: LevelSplits
    width: int
    n_cells: int

    def do(self, block: ClassBlock, state: HeldSamples) -> tuple[HeldSamples, Counts]:
        """Leave the samples of the nodes that are not finished."""
        before, splits = state.held, LevelSplits(*map(frozen, self.splits))
        n_kept = int(np.diff(before.bounds)[splits.action != DROPPED].sum())
        entries, bounds = np.empty(n_kept, dtype=np.uint32), np.empty(2 * len(before.bounds), dtype=np.int64)
        cells = np.empty((count_children(splits.made), self.n_cells), dtype=np.int64)
        samples = BinnedSamples(frozen(block.codes), entries, entries, freeze(state.weights))
        held = Held(frozen(before.entries), frozen(before.bounds))
        n_held = binned_levels.descend(held, splits, samples, samples.weights, self.width, bounds, cells)
        bounds = bounds[: n_held + 1].copy()
        if 2 * bounds[-1] < len(entries):  # give back what was there for samples that are dropped
            entries = entries[: bounds[-1]].copy()
        return state._replace(held=Held(entries[: bounds[-1]], bounds)), (cells,)


def freeze(weights: np.ndarray | None) -> np.ndarray | None:
    """Return a read-only view of weights, if there are any."""
    return None if weights is None else frozen(weights)
