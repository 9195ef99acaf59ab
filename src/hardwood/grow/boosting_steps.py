"""What blocks of rows do while trees are boosted, see `grow/blocks.py`; `grow/boosting.py` says when.

A block remembers, for the model and for each of the models beside it that some rows are held out from, what the outputs
of its rows can be made so far, and the derivatives of the certified loss there. Losses and derivatives are added up
exactly (`grow/exact_sums.py`), so that no model depends on how rows are cut.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow.boosting import bound_values
from hardwood._kernels.grow.boosting_splits import SplitRule
from hardwood._kernels.grow.boosting_tree import CodeColumns
from hardwood.grow.blocks import Counts, Step
from hardwood.grow.codes import TablePlan
from hardwood.grow.exact_sums import add_up
from hardwood.grow.losses import CertifiedLoss, Derivatives
from hardwood.grow.row_draws import DrawnRows, Fold, Pieces
from hardwood.grow.workers import Workers

# Rows of a tile, at least, where there are several: a core has their codes and gradients at hand. A million rows of ten
# columns are then boosted in two thirds of the time.
TILE_ROWS = 1 << 17


@dataclass(frozen=True)
class BoostBlock:
    """Some rows of a table: their codes, targets and weights, and where in the table they are.

    Whoever has many rows has them in tiles: a sequence of such blocks.
    """

    plan: TablePlan
    codes: np.ndarray  # uint8 or uint16 (row, column)
    loss: CertifiedLoss  # knows the targets
    weight: np.ndarray  # float64 per row, positive
    pieces: Pieces  # of rows that weigh something

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return len(self.codes)


class Sums(NamedTuple):
    """What the outputs of each row can be made by the trees so far: (row, output)."""

    low: np.ndarray
    high: np.ndarray


class Standing(NamedTuple):
    """How a model stands with the rows of a block."""

    sums: Sums
    derivatives: list[Derivatives]  # per output, times the rows' weights


class GrowingTree(NamedTuple):
    """The rows of a tree that is grown level by level."""

    group: np.ndarray  # of the derivatives
    gradients: np.ndarray  # int64 (row, 2): gradient and hessian in fixed point
    rows: dict[int, np.ndarray]  # by node: the numbers of its rows in the block, uint32


class BoosterState(NamedTuple):
    """What a block remembers of one model."""

    held_out: np.ndarray | None  # bool per row; None: it learns from all
    now: Standing | None
    then: Standing | None  # with the trees that were bounded last
    trees: dict[int, GrowingTree]  # by output


class GrownTree(NamedTuple):
    """A tree as it was grown."""

    nodes: np.ndarray  # `_kernels.grow.boosting_tree.NODE`
    left_of: np.ndarray  # bool (node, code of lo): whether a row can go left
    right_of: np.ndarray  # bool (node, code of hi): whether a row can go right
    set_left: np.ndarray  # bool (node, category)


class TreeTask(NamedTuple):
    """Which tree is to be grown."""

    output: int
    drawn: DrawnRows | None  # the rows to grow it on; None: all that the booster learns from
    features: np.ndarray | None  # the features to grow it on; None: all
    rule: SplitRule

    def take_columns(self, plan: TablePlan) -> CodeColumns:
        """Return the columns of the features."""
        columns = plan.columns
        if self.features is not None:
            counted = np.unique(columns.columns[self.features])
            columns = columns._replace(features=self.features, counted=counted)
        return CodeColumns(*map(frozen, columns))

    def find_rows(self, block: BoostBlock, state: BoosterState) -> np.ndarray:
        """Return the numbers of its rows in a block."""
        if state.held_out is None and self.drawn is None:
            return np.arange(block.n_rows, dtype=np.uint32)
        is_mine = np.ones(block.n_rows, dtype=bool) if self.drawn is None else self.drawn.find(block.pieces)
        if state.held_out is not None:
            is_mine &= ~state.held_out
        return np.flatnonzero(is_mine).astype(np.uint32)

    def fix_point(self, derivatives: Derivatives) -> np.ndarray:
        """Return gradients and hessians as integers, in the units of the rule."""
        fixed = np.empty((len(derivatives.gradient), 2), dtype=np.int64)
        # Rows that are held out may be too heavy for integers in these units: nobody reads them.
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = derivatives.gradient * (1.0 / self.rule.gradient_unit)
            fixed[:, 0] = np.rint(scaled, out=scaled)
            np.multiply(derivatives.hessian, 1.0 / self.rule.hessian_unit, out=scaled)
            fixed[:, 1] = np.maximum(np.rint(scaled, out=scaled), 1.0, out=scaled)
        return fixed


class Weigh(Step):
    """Finds the rows to learn from, and adds up what the constant model depends on."""

    name = "weigh"

    def __init__(self, fold: Fold | None) -> None:
        self._fold = fold

    def do(self, block: BoostBlock, state: None) -> tuple[BoosterState, Counts]:
        """Count."""
        held_out = None if self._fold is None else self._fold.find(block.pieces)
        weight = block.weight if held_out is None else np.where(held_out, 0.0, block.weight)
        return BoosterState(held_out, now=None, then=None, trees={}), (add_up(*block.loss.weigh(weight)),)


class Begin(Step):
    """Begins with a constant, or with sums that are there for all rows of a table, and counts as `Bound` does."""

    name = "begin"

    def __init__(self, base: np.ndarray, start: Sums | None = None) -> None:
        self._base, self._start = base, start

    def do(self, block: BoostBlock, state: BoosterState) -> tuple[BoosterState, Counts]:
        """Count."""
        if self._start is None or not block.n_rows:
            level = np.broadcast_to(self._base, (block.n_rows, len(self._base)))
            sums = Sums(level.copy(), level.copy())
        else:
            ((first, n_rows),) = block.pieces
            sums = Sums(*(ends[first : first + n_rows] for ends in self._start))
        now, counts = _look(block, state, sums, [])
        return state._replace(now=now), counts


class Bound(Step):
    """Bounds the outputs with trees that are to be added, one per output at most.

    Counts the certified loss of the rows that are learnt from after each of the trees, and after the last one that of
    the rows held out and the absolute gradients of each output: all in one array.
    """

    name = "bound"

    def __init__(self, trees: Sequence[tuple[int, GrownTree]]) -> None:
        self._trees = trees

    def do(self, block: BoostBlock, state: BoosterState) -> tuple[BoosterState, Counts]:
        """Count."""
        assert state.now is not None
        before = state.now.sums
        sums = Sums(before.low.copy(), before.high.copy())
        codes, columns, losses = frozen(block.codes), frozen(block.plan.columns.columns), []
        for number, (output, tree) in enumerate(self._trees):
            if number > 0:
                losses.append(block.weight * block.loss.measure(sums.low, sums.high))
            tables = (frozen(array) for array in (tree.nodes, tree.left_of, tree.right_of))
            stack = np.empty(len(tree.nodes), dtype=np.int64)
            bound_values(codes, columns, *tables, stack, output, sums.low, sums.high)
        then, counts = _look(block, state, sums, losses)
        return state._replace(then=then, trees={}), counts


class Keep(Step):
    """Keeps the trees that were bounded last."""

    name = "keep"

    def do(self, block: BoostBlock, state: BoosterState) -> tuple[BoosterState, Counts]:
        """Count nothing."""
        return state._replace(now=state.then, then=None), ()


def _look(
    block: BoostBlock, state: BoosterState, sums: Sums, losses: list[np.ndarray]
) -> tuple[Standing, tuple[np.ndarray, ...]]:
    """Return how a model stands, and what is counted of that: see `Bound`; `losses` are those after earlier trees."""
    loss, derivatives = block.loss.examine(sums.low, sums.high)
    loss *= block.weight
    losses, held_out = [*losses, loss], loss[:0]
    if state.held_out is not None:
        held_out = losses[-1][state.held_out]
        losses = [each[~state.held_out] for each in losses]
    for each in derivatives:
        np.multiply(each.gradient, block.weight, out=each.gradient)
        np.multiply(each.hessian, block.weight, out=each.hessian)
    return Standing(sums, derivatives), (add_up(*losses, held_out, *(np.abs(each.gradient) for each in derivatives)),)


class Together(Step):
    """What several models have to do on the tiles of a block: each one step after another, in threads."""

    name = "boost"

    def __init__(self, steps: dict[int, list[Step]], workers: Workers) -> None:
        self._steps, self._workers = steps, workers
        self.name = next(iter(steps.values()))[-1].name  # type: ignore[misc]

    def do(self, block: Sequence[BoostBlock], state: Any) -> tuple[dict[int, Any], Any]:
        """Count for each of the models, and for each step."""
        states = {} if state is None else state

        def do_all(number: int, steps: list[Step]) -> tuple[list[Any], list[Counts]]:
            before, after, counts = states.get(number, [None] * len(block)), [], None
            for tile, state in zip(block, before, strict=True):
                state, counted = _do_steps(steps, tile, state)
                after.append(state)
                counts = counted if counts is None else _add_to(counts, counted)
            assert counts is not None
            return after, counts

        done = dict(zip(self._steps, self._workers.run(do_all, list(self._steps.items())), strict=True))
        after = states | {number: mine for number, (mine, _) in done.items()}
        return after, {number: counts for number, (_, counts) in done.items()}

    @staticmethod
    def merge(counts: Any, others: Any) -> Any:
        """Add up what both have counted."""
        return {
            number: [Step.merge(*pair) for pair in zip(mine, others[number], strict=True)]
            for number, mine in counts.items()
        }


def _do_steps(steps: list[Step], tile: BoostBlock, state: Any) -> tuple[Any, list[Counts]]:
    """Do one step after another on a tile."""
    counts = []
    for step in steps:
        state, counted = step.do(tile, state)
        counts.append(counted)
    return state, counts


def _add_to(counts: list[Counts], others: list[Counts]) -> list[Counts]:
    """Add to what was counted at each step."""
    for mine, theirs in zip(counts, others, strict=True):
        for array, other in zip(mine, theirs, strict=True):
            array += other
    return counts
