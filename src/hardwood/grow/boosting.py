"""Robust boosting: trees that are added one after another, each grown against the certified loss of those before.

A row's certified margin is the sum, over trees, of the worst leaf that it can reach: a lower bound on what an attacker,
who has to fool all trees with one and the same point, can bring its margin down to. Each tree is grown by second-order
steps on the loss of these margins (`_kernels.grow.boosting_splits` says how a split is judged, `grow/losses.py` what
the losses are)::

    codes of both ends of every row's reach, made once
    repeat: gradients and hessians of the certified loss
            a tree by histograms of both; a node holds every row that can reach it
            while the certified loss does not fall: the last splits of all branches go
            low, high += learning rate * lowest, highest leaf that each row can reach

How many trees there are is decided by the certified loss of rows that were held out (`Boosting`), from 0 trees on.

Whoever boosts sees no rows. They are in one block or in many, which do the steps of `grow/boosting_steps.py` and
`grow/boosting_trees.py`, and a model does not depend on how they are cut.
"""

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardwood._kernels.grow.boosting_splits import SplitRule
from hardwood.grow.blocks import Counts, Grower, Step, advance
from hardwood.grow.boosting_steps import Begin, Bound, GrownTree, Keep, Sums, Together, TreeTask, Weigh
from hardwood.grow.boosting_trees import TreeGrower, TreeSteps
from hardwood.grow.codes import TablePlan
from hardwood.grow.exact_sums import read_sum
from hardwood.grow.fixed_point import spare_bits
from hardwood.grow.losses import CertifiedLoss
from hardwood.grow.row_draws import DrawnRows, Fold
from hardwood.grow.workers import Workers
from hardwood.progress import Progress

# Scales stay below this power of two, which is a float64.
MOST_BITS = 1000
# A tree lowers the certified loss by at least this share of it. What lowers it less changes no prediction, and on large
# tables such trees would go on for hundreds of rounds.
LEAST_DECREASE = 1e-6


@dataclass(frozen=True)
class BoostingOptions:
    """How trees are grown, every default already resolved to a number."""

    n_rounds: int
    max_depth: int
    learning_rate: float
    l2: float
    min_gain: float
    min_child_weight: float
    subsample: float
    max_features: int
    ordered: bool
    max_bins: int
    seed: int
    patience: int | None  # rounds without a lower loss of held-out rows; None: nothing stops early


@dataclass(frozen=True)
class BoostedTree:
    """One tree as it was grown, for one of the outputs."""

    nodes: np.ndarray  # `_kernels.grow.boosting_tree.NODE`
    set_left: np.ndarray  # bool (node, category)
    output: int


@dataclass(frozen=True)
class Boosted:
    """What boosting came to."""

    base: np.ndarray  # per output
    rounds: list[list[BoostedTree]]  # those that were kept
    n_done: int  # how many rounds were tried
    train_loss: list[float]  # the certified loss after 0, 1, ... rounds
    held_out_loss: list[float]  # the same of rows held out; empty if none were
    interrupted: bool
    directions: np.ndarray  # int8 per feature, in ordered mode: that of all its splits; 0: none
    total_weight: float  # of all rows


# Each time one step after another; what each of them has counted comes back.
_Steps = Generator[list[Step], list[Counts], Any]


class Booster:
    """Trees that are added one by one, of a model that learns from all rows or from those that are not held out.

    Parameters
    ----------
    plan, loss, options : what codes mean, what is minimised (its rows are not looked at), how trees are grown
    grower : TreeGrower
        How trees are grown.
    fold : Fold or None
        The rows that are held out.
    """

    def __init__(
        self, plan: TablePlan, loss: CertifiedLoss, options: BoostingOptions, grower: TreeGrower,
        fold: Fold | None = None,
    ) -> None:  # fmt: skip
        self._plan, self._loss, self._options, self._grower, self._fold = plan, loss, options, grower, fold
        self.rounds: list[list[BoostedTree]] = []
        self.is_done = False
        self.directions = np.zeros(len(plan.columns.columns), dtype=np.int8)
        self._generator = np.random.default_rng(options.seed)
        self._n_grown = 0
        self._first_steps: list[Step] = []  # of the next round

    def begin(self, base: np.ndarray | None = None, start: Sums | None = None) -> _Steps:
        """Begin with a constant model, or go on from a base and sums."""
        [(totals,)] = yield [Weigh(self._fold)]
        weights = [read_sum(limbs) for limbs in totals]
        self.total_weight = weights[0]
        self.base = self._loss.find_base(weights) if base is None else base
        [(counted,)] = yield [Begin(self.base, start)]
        self._loss_now = read_sum(counted[0])
        self._look(counted[1:])

    def _look(self, counted: np.ndarray) -> None:
        """Read what was counted of the trees that are there now: the loss of rows held out, and gradients."""
        self.held_out_loss, *self._total_gradient = (read_sum(limbs) for limbs in counted)

    @property
    def train_loss(self) -> float:
        """The mean certified loss of the rows it learns from."""
        return self._loss_now / self.total_weight

    def add_round(self) -> _Steps:
        """Grow a tree per output, and add those that lower the certified loss; where none ever will, be done."""
        if self.is_done:
            return
        options = self._options
        tasks = [self._make_task(output) for output in range(self._loss.n_outputs)]
        growers = [self._grower.grow(task, self.directions) for task in tasks]
        # In ordered mode each tree depends on the splits of those before.
        groups = [[grower] for grower in growers] if options.ordered else [growers]
        trees = []
        for group in groups:
            trees += yield from self._grow_in_lockstep(group)
        grown = []
        for output, tree in enumerate(trees):
            tree.nodes["value"] *= options.learning_rate
            if len(tree.nodes) > 1:
                grown.append((output, tree))
        added = yield from self._add(grown)
        is_sampled = options.subsample < 1.0 or options.max_features < len(self.directions)
        if added or is_sampled:
            self.rounds.append([BoostedTree(tree.nodes, tree.set_left, output) for output, tree in added])
        else:
            self.is_done = True

    def _make_task(self, output: int) -> TreeTask:
        """Draw the rows and the features of the next tree, and choose the units of its integers.

        No hessian is larger than its row's weight.
        """
        options, n_features = self._options, len(self.directions)
        drawn, features = None, None
        if options.subsample < 1.0:
            drawn = DrawnRows(options.seed, self._n_grown, 0.0, options.subsample)
        if options.max_features < n_features:
            features = np.sort(self._generator.choice(n_features, options.max_features, replace=False))
        self._n_grown += 1
        rule = SplitRule(
            options.l2, options.min_child_weight, options.min_gain, options.max_depth, options.ordered,
            _choose_unit(self._total_gradient[output]), _choose_unit(self.total_weight),
        )  # fmt: skip
        return TreeTask(output, drawn, features, rule)

    def _grow_in_lockstep(self, growers: Sequence[TreeSteps]) -> Generator[list[Step], list[Counts], list[GrownTree]]:
        """Grow trees side by side."""
        grown: list[Any] = [None] * len(growers)
        counts: dict[int, Any] = dict.fromkeys(range(len(growers)))
        while True:
            steps = advance(growers, counts, grown)
            if not steps:
                return grown
            first, self._first_steps = self._first_steps, []
            counted_by_step = yield [*first, *steps.values()]
            counts = dict(zip(steps, counted_by_step[len(first) :], strict=True))

    def _add(
        self, grown: list[tuple[int, GrownTree]]
    ) -> Generator[list[Step], list[Counts], list[tuple[int, GrownTree]]]:
        """Add trees, without those of their last splits that do not lower the certified loss; return what is left."""
        n_added = 0
        while grown:
            [(counted,)] = yield [Bound(grown)]
            for k in range(n_added, len(grown)):
                loss = read_sum(counted[k])
                if not loss < (1.0 - LEAST_DECREASE) * self._loss_now:
                    output, tree = grown[k]
                    shorter = _cut_last_splits(tree)
                    grown = grown[:k] + ([] if shorter is None else [(output, shorter)]) + grown[k + 1 :]
                    break
                self._loss_now, n_added = loss, n_added + 1
            else:
                self._look(counted[len(grown) :])
                self._first_steps = [Keep()]
                break
        return grown


def _choose_unit(total: float) -> float:
    """Return a power of two, such that an integer holds the sum of numbers in that unit."""
    return math.ldexp(1.0, -min(spare_bits(total), MOST_BITS))


def _cut_last_splits(tree: GrownTree) -> GrownTree | None:
    """Make leaves of all splits whose children are leaves; None: the root is one."""
    nodes = tree.nodes.copy()
    is_split = nodes["feature"] >= 0
    last = np.flatnonzero(is_split)
    last = last[~is_split[nodes["left"][last]] & ~is_split[nodes["left"][last] + 1]]
    nodes["feature"][last] = nodes["left"][last] = -1
    return tree._replace(nodes=nodes) if nodes["feature"][0] >= 0 else None


class Boosting:
    """Adds rounds until there are enough, and keeps as many as rows held out say.

    Parameters
    ----------
    full : Booster
        The model, on all rows.
    parts : sequence of Booster
        The same on parts of the rows. They grow side by side, so that an interruption (Ctrl-C) finds a model. Nothing
        is held out if there are none.
    workers : Workers
        Threads over boosters, where blocks are in this process.
    """

    def __init__(
        self, full: Booster, parts: Sequence[Booster], options: BoostingOptions, workers: Workers,
        progress: Progress | None,
    ) -> None:  # fmt: skip
        self._full, self._parts, self._options = full, parts, options
        self._workers, self._progress = workers, progress
        self._train_loss: list[float] = []
        self._held_out_loss: list[float] = []
        self._n_done = 0

    @property
    def has_begun(self) -> bool:
        """Whether there is a model: the constant one at least."""
        return bool(self._held_out_loss)

    def grow(self, base: np.ndarray | None = None, start: Sums | None = None) -> Grower:
        """Boost, by steps; from a base and sums on, if they are there."""
        options = self._options
        yield from self._go_on([self._full.begin(base, start), *(part.begin() for part in self._parts)])
        self._note()
        for self._n_done in range(1, options.n_rounds + 1):
            yield from self._go_on([booster.add_round() for booster in (self._full, *self._parts)])
            self._note()
            if self._progress is not None:
                self._progress(self._n_done, options.n_rounds)
            best = int(np.argmin(self._held_out_loss))
            if self._parts and options.patience is not None and self._n_done - best >= options.patience:
                return
            if self._full.is_done:
                return

    def _note(self) -> None:
        self._train_loss.append(self._full.train_loss)
        self._held_out_loss.append(sum(part.held_out_loss for part in self._parts))

    def _go_on(self, boosters: Sequence[_Steps]) -> Grower:
        """Let boosters go on side by side, until all are through."""
        counts: dict[int, Any] = dict.fromkeys(range(len(boosters)))
        results: list[Any] = [None] * len(boosters)  # boosters know what they have come to
        while steps := advance(boosters, counts, results):
            counts = yield Together(steps, self._workers)  # type: ignore[assignment]

    def finish(self, *, interrupted: bool) -> Boosted:
        """Return what it has come to."""
        full = self._full
        n_kept = int(np.argmin(self._held_out_loss)) if self._parts else len(full.rounds)
        return Boosted(
            base=full.base,
            rounds=full.rounds[:n_kept],
            n_done=self._n_done,
            train_loss=self._train_loss,
            held_out_loss=self._held_out_loss if self._parts else [],
            interrupted=interrupted,
            directions=full.directions,
            total_weight=full.total_weight,
        )
