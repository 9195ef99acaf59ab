"""Which samples of a block a tree is grown from, and what they weigh: the rule is the same for all blocks.

With weights, units of fixed point come first: what all rows weigh together (`grow/fixed_point.py`).
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from hardwood.grow.blocks import Counts, Step
from hardwood.grow.bootstrap import Draw
from hardwood.grow.class_blocks import ClassBlock
from hardwood.grow.coded_rows import draw_samples
from hardwood.grow.exact_sums import add_up
from hardwood.grow.fixed_point import FixedSamples, FixedUnits, fit_units, weigh_samples


class BlockSamples(NamedTuple):
    """The samples of a block that a tree is grown from: their numbers, with repetitions, and what all samples are."""

    numbers: np.ndarray  # uint32
    classes: np.ndarray  # of every sample of the block
    fixed: FixedSamples | None  # of every sample of the block; None where each is a row and weighs what its class does


@dataclass(frozen=True)
class SampleRule:
    """Which samples a tree is grown from, and what they weigh."""

    class_weight: np.ndarray
    stays: np.ndarray  # bool per class, as in `CodePlan`
    rho: float
    draw: Draw | None  # None: all rows, each once
    units: FixedUnits | None = None  # None where every sample is a row, and weighs what its class weighs

    def draw_rows(self, block: ClassBlock, drawn: np.ndarray | None) -> np.ndarray | None:
        """Return the drawn rows of a block; `drawn` if an earlier step has done so. None: all, each once."""
        return self.draw.draw_pieces(block.pieces) if drawn is None and self.draw is not None else drawn

    def weigh_rows(self, block: ClassBlock) -> np.ndarray:
        """Return what each row of a block weighs, by itself and by its class."""
        by_class = self.class_weight[block.class_index]
        return by_class if block.sample_weight is None else block.sample_weight * by_class

    def choose(self, block: ClassBlock, drawn: np.ndarray | None) -> BlockSamples:
        """Choose and weigh the samples of a block; `drawn` as for `draw_rows`."""
        drawn = self.draw_rows(block, drawn)
        staying = np.flatnonzero(self.stays[block.class_index])
        classes = np.concatenate([block.class_index, block.class_index[staying]])
        numbers = np.arange(len(classes), dtype=np.uint32)
        if drawn is not None:
            numbers = draw_samples(drawn, staying, block.n_rows).astype(np.uint32)
        fixed = None
        if self.units is not None:
            fixed = weigh_samples(self.weigh_rows(block), staying, self.rho, self.units)
        return BlockSamples(numbers, classes, fixed)


@dataclass(frozen=True)
class CountClasses(Step):
    """Counts the rows of each class that are drawn."""

    name = "classes"
    rule: SampleRule

    def do(self, block: ClassBlock, state: Any) -> tuple[Any, Counts]:
        """Leave the rows that are drawn."""
        drawn = self.rule.draw_rows(block, state)
        chosen = block.class_index if drawn is None else block.class_index[drawn]
        return drawn, (np.bincount(chosen, minlength=len(self.rule.class_weight)),)


@dataclass(frozen=True)
class AddWeights(Step):
    """Adds up what rows weigh: all of them, and those that are drawn."""

    name = "weights"
    rule: SampleRule

    def do(self, block: ClassBlock, state: Any) -> tuple[Any, Counts]:
        """Leave the rows that are drawn."""
        drawn, weight = self.rule.draw_rows(block, state), self.rule.weigh_rows(block)
        return drawn, (add_up(weight, weight if drawn is None else weight[drawn]),)


def settle_samples(
    rule: SampleRule, n_rows: int, *, is_weighted: bool, balance: bool
) -> Generator[Step, Counts, SampleRule]:
    """Complete the rule of a tree by steps, of which blocks keep the rows that are drawn.

    is_weighted : whether samples need weights of their own
    balance : whether classes are to weigh the same in what is drawn
    """
    if balance:
        (count,) = yield CountClasses(rule)
        rule = replace(rule, class_weight=rule.class_weight * balance_classes(count))
    if not is_weighted:
        return rule
    (totals,) = yield AddWeights(rule)
    most_rows = max(n_rows, 0 if rule.draw is None else rule.draw.n_drawn)
    return replace(rule, units=fit_units(totals, most_rows))


def balance_classes(count: np.ndarray) -> np.ndarray:
    """Return weights by which all classes weigh the same; `count` is how many rows each has."""
    return count.sum() / (len(count) * np.maximum(count, 1.0))
