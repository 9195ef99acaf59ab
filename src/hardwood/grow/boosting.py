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

How many trees there are is decided by the certified loss of rows that were held out (`boost`), from 0 trees on.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardwood._kernels.grow import boosting as kernels
from hardwood._kernels.grow import boosting_tree
from hardwood._kernels.grow.boosting_categories import make_categories
from hardwood._kernels.grow.boosting_splits import SplitRule
from hardwood.grow.codes import CodedTable
from hardwood.grow.fixed_point import spare_bits
from hardwood.grow.losses import CertifiedLoss, Derivatives
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


@dataclass
class Sums:
    """What the outputs of each row can be made by the trees so far: (row, output)."""

    low: np.ndarray
    high: np.ndarray


class Booster:
    """Trees that are added one by one, on some of the rows of a table; what all its rows can be made is kept."""

    def __init__(
        self, table: CodedTable, loss: CertifiedLoss, weight: np.ndarray, options: BoostingOptions,
        train: np.ndarray | None = None, start: Sums | None = None,
    ) -> None:  # fmt: skip
        """Begin with a constant model, or go on from sums; `train` are the numbers of the rows to learn from."""
        self._table, self._loss, self._options = table, loss, options
        self._rows = np.arange(table.n_rows, dtype=np.uint32) if train is None else train.astype(np.uint32)
        self._weight = weight
        self._train_weight = weight if train is None else np.where(np.isin(np.arange(len(weight)), train), weight, 0.0)
        self.base = loss.find_base(self._train_weight)
        if start is None:
            level = np.broadcast_to(self.base, (table.n_rows, loss.n_outputs))
            start = Sums(level.copy(), level.copy())
        self.sums = start
        self.rounds: list[list[BoostedTree]] = []
        self.is_done = False
        self.directions = np.zeros(len(table.columns.columns), dtype=np.int8)
        self._generator = np.random.default_rng(options.seed)
        self._loss_now = self._measure(start)
        self._make_room()

    def _make_room(self) -> None:
        """Allocate what a tree is grown in."""
        table, depth = self._table, self._options.max_depth
        n_nodes = 2 ** (depth + 1) - 1
        n_slots = depth + 2
        n_categories = 0 if table.categories is None else int(table.categories.n_categories.max())
        self._tree = boosting_tree.BoostedTree(
            nodes=np.zeros(n_nodes, dtype=boosting_tree.NODE),
            left_of=np.zeros((n_nodes, table.width), dtype=bool),
            right_of=np.zeros((n_nodes, table.width), dtype=bool),
            set_left=np.zeros((n_nodes, n_categories), dtype=bool),
            cells=np.empty((n_slots, 2 * table.n_cells), dtype=np.int64),
            free=np.arange(n_slots, -1, -1),  # n_slots of them: the slots n_slots - 1 to 0
            stack=np.zeros(depth + 2, dtype=np.int64),
            directions=self.directions,
        )
        self._entries = np.empty(len(self._rows) * (depth + 1), dtype=np.uint32)
        self._spill = np.empty(len(self._rows), dtype=np.uint32)
        self._low, self._high = np.empty((2, table.n_rows))
        known = table.categories
        self._categories = None if known is None else make_categories(*known[:5])  # scratch of its own

    def _measure(self, sums: Sums) -> float:
        return float((self._train_weight * self._loss.measure(sums.low, sums.high)).sum())

    @property
    def train_loss(self) -> float:
        """The mean certified loss of the rows it learns from."""
        return self._loss_now / float(self._train_weight.sum())

    def measure_rows(self, rows: np.ndarray) -> float:
        """Return the summed certified loss of some rows."""
        return float((self._weight * self._loss.measure(self.sums.low, self.sums.high))[rows].sum())

    def add_round(self) -> None:
        """Grow a tree per output, and add those that lower the certified loss; where none ever will, be done."""
        if self.is_done:
            return
        grown = []
        for output, derivatives in enumerate(self._loss.derive(self.sums.low, self.sums.high)):
            tree = self._grow(derivatives, output)
            if tree is not None:
                grown.append(tree)
        samples = self._options.subsample < 1.0 or self._options.max_features < len(self._table.columns.columns)
        if grown or samples:
            self.rounds.append(grown)
        else:
            self.is_done = True

    def _grow(self, derivatives: Derivatives, output: int) -> BoostedTree | None:
        """Grow a tree for one output, and add it to the sums; None if no split lowers the loss."""
        options, table, tree = self._options, self._table, self._tree
        gradient, gradient_unit = _fix_point(derivatives.gradient * self._weight)
        hessian, hessian_unit = _fix_point(derivatives.hessian * self._weight)
        rule = SplitRule(
            options.l2, options.min_child_weight, options.min_gain, options.max_depth, options.ordered, gradient_unit,
            hessian_unit,
        )  # fmt: skip
        rows = boosting_tree.GradientRows(
            codes=table.codes,
            group=derivatives.group,
            gradients=np.column_stack([gradient, np.maximum(hessian, 1)]),
            entries=self._entries,
            spill=self._spill,
        )
        self._plant()
        n_nodes = kernels.grow(rows, self._draw_columns(), self._categories, rule, tree)
        nodes = tree.nodes[:n_nodes]
        nodes["value"] *= options.learning_rate
        if n_nodes == 1 or not self._add(nodes, output):
            return None
        return BoostedTree(nodes.copy(), tree.set_left[:n_nodes].copy(), output)

    def _plant(self) -> None:
        """Give the root its rows: all, or some drawn at random."""
        rows, share = self._rows, self._options.subsample
        if share < 1.0:
            rows = np.sort(self._generator.choice(rows, max(1, int(share * len(rows))), replace=False))
        self._entries[: len(rows)] = rows
        root = self._tree.nodes[0]
        root["feature"] = root["left"] = root["parent"] = root["slot"] = -1
        root["depth"] = root["start"] = 0
        root["end"], root["value"] = len(rows), 0.0
        root["lower"], root["upper"] = -np.inf, np.inf

    def _draw_columns(self) -> boosting_tree.CodeColumns:
        """Return the columns of all features, or of some drawn at random."""
        columns, n_features = self._table.columns, self._options.max_features
        if n_features == len(columns.features):
            return columns
        features = np.sort(self._generator.choice(columns.features, n_features, replace=False))
        return columns._replace(features=features, counted=np.unique(columns.columns[features]))

    def _add(self, nodes: np.ndarray, output: int) -> bool:
        """Add a tree to the sums, without those of its last splits that do not lower the certified loss."""
        table, tree, sums = self._table, self._tree, self.sums
        while nodes[0]["feature"] >= 0:
            kernels.bound_values(
                table.codes,
                table.columns.columns,
                nodes,
                tree.left_of,
                tree.right_of,
                tree.stack,
                self._low,
                self._high,
            )
            low, high = sums.low.copy(), sums.high.copy()
            low[:, output] += self._low
            high[:, output] += self._high
            loss = self._measure(new := Sums(low, high))
            if loss < (1.0 - LEAST_DECREASE) * self._loss_now:
                self.sums, self._loss_now = new, loss
                return True
            _cut_last_splits(nodes)
        return False


def _fix_point(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Return numbers as multiples of a unit, a power of two, whose sum an integer holds, and that unit."""
    bits = min(spare_bits(float(np.abs(values).sum())), MOST_BITS)
    return np.rint(values * math.ldexp(1.0, bits)).astype(np.int64), math.ldexp(1.0, -bits)


def _cut_last_splits(nodes: np.ndarray) -> None:
    """Make leaves of all splits whose children are leaves."""
    inner = nodes["feature"] >= 0
    last = np.flatnonzero(inner)
    last = last[~inner[nodes["left"][last]] & ~inner[nodes["left"][last] + 1]]
    nodes["feature"][last] = nodes["left"][last] = -1


def boost(
    full: Booster,
    parts: Sequence[tuple[Booster, np.ndarray]],
    options: BoostingOptions,
    workers: Workers,
    progress: Progress | None,
) -> Boosted:
    """Add rounds until there are enough, and keep as many as rows held out say.

    Parameters
    ----------
    full : Booster
        The model, on all rows.
    parts : sequence of (Booster, rows)
        The same on parts of the rows, and the rows that each of them has not seen. They grow side by side, so that an
        interruption (Ctrl-C) finds a model. Nothing is held out if there are none.
    """
    boosters = [full, *(booster for booster, _ in parts)]
    train_loss, held_out_loss = [full.train_loss], [_measure_parts(parts)]
    interrupted, n_done = False, 0
    try:
        for n_done in range(1, options.n_rounds + 1):
            workers.run(Booster.add_round, [(booster,) for booster in boosters])
            train_loss.append(full.train_loss)
            held_out_loss.append(_measure_parts(parts))
            if progress is not None:
                progress(n_done, options.n_rounds)
            best = int(np.argmin(held_out_loss))
            if parts and options.patience is not None and n_done - best >= options.patience:
                break
            if full.is_done:
                break
    except KeyboardInterrupt:
        interrupted = True
    n_kept = int(np.argmin(held_out_loss)) if parts else len(full.rounds)
    return Boosted(
        base=full.base,
        rounds=full.rounds[:n_kept],
        n_done=n_done,
        train_loss=train_loss,
        held_out_loss=held_out_loss if parts else [],
        interrupted=interrupted,
        directions=full.directions,
    )


def _measure_parts(parts: Sequence[tuple[Booster, np.ndarray]]) -> float:
    """Return the summed certified loss of all rows held out."""
    return sum(booster.measure_rows(rows) for booster, rows in parts)
