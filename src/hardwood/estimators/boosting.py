"""What robust boosting of classes and of numbers share: fitting, warm starts, and predictions by stages."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.estimators.boosting_parameters import check_boosting_options, check_ordered, draw_folds
from hardwood.estimators.fitted import SingleTree
from hardwood.grow.boosted import WarmStart, code_tiles, grow_boosted
from hardwood.grow.boosting import Boosted, BoostingOptions
from hardwood.grow.boosting_steps import BoostBlock, Sums
from hardwood.grow.codes import plan_table
from hardwood.grow.row_draws import Fold
from hardwood.progress import read_progress
from hardwood.rows.request import Request, read_request
from hardwood.rows.sources import open_rows, read_task
from hardwood.rows.task import Task
from hardwood.threads import count_threads
from hardwood.threat import Reach, ThreatModel
from hardwood.verification.cheap import sum_extremes


def code_task(
    task: Task, reach: Reach, max_bins: int, n_threads: int, before: TreeEnsemble | None = None
) -> tuple[list[BoostBlock], Sums | None]:
    """Code all rows, return them in tiles, and say what an ensemble makes of them, if there was one before."""
    plan, class_index, extremes = plan_table(task.draw_sample(reach, max_bins), reach, max_bins), task.class_index, []

    def read() -> Iterator[np.ndarray]:
        start = 0
        for X in task.read_batches():
            yield X
            if before is not None:
                wide, rows = X.astype(np.float64, copy=False), slice(start, start + len(X))
                extremes.append(sum_extremes(before, wide, class_index[rows], reach))
            start += len(X)

    tiles = code_tiles(plan, task, read(), ((0, task.n_rows),), n_threads)
    return tiles, Sums(*map(np.concatenate, zip(*extremes, strict=True))) if extremes else None


class RobustBoosting(SingleTree):
    """What boosting of classes and of values share."""

    n_estimators_: int
    train_loss_: np.ndarray
    held_out_loss_: np.ndarray
    interrupted_: bool

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Boost trees and keep them."""
        estimator: Any = self
        task = read_task(open_rows(self, X, y, sample_weight), self._make_request())
        reach, options = self._prepare(task)
        counts = np.bincount(task.class_index, minlength=1 if task.classes is None else len(task.classes))
        folds = self._draw_folds(task, counts, options.seed, lambda: task.class_index)
        before, n_before = self._find_start(task, bool(folds)), 0
        if before is not None:
            n_before = self.n_estimators_
            if options.n_rounds < n_before:
                raise ValueError(
                    f"n_estimators={options.n_rounds}: with warm_start=True, expected at least the {n_before} there are"
                )
            options = replace(options, n_rounds=options.n_rounds - n_before, seed=options.seed + n_before)
        n_threads = count_threads(estimator.n_jobs)
        progress = read_progress(estimator.progress)
        tiles, sums = code_task(task, reach, options.max_bins, n_threads, before)
        start = None if before is None or sums is None else WarmStart(before, sums, self._directions)
        ensemble, boosted = grow_boosted(task, tiles, options, folds, n_threads, progress, start)
        ends = np.empty(0, dtype=np.int64) if start is None else self._round_ends
        self._keep_boosted(ensemble, task.threat, boosted, ends)
        return self

    def _make_request(self) -> Request:
        """Say how rows are read: boosting has a place for missing values even if it has seen none."""
        return read_request(self, is_open=True, is_narrow=True, divides_target=True)

    def _prepare(self, task: Task) -> tuple[Reach, BoostingOptions]:
        """Return what the attacker may do to a table, and the parameters for it."""
        reach, options = task.resolve(), check_boosting_options(self, task.schema.n_features)
        if options.ordered:
            check_ordered(reach, task.schema)
        return reach, options

    def _draw_folds(
        self, task: Task, n_rows: np.ndarray, seed: int, read_classes: Callable[[], np.ndarray]
    ) -> list[Fold]:
        """Draw the rows that are held out; see `draw_folds`.

        n_rows : of each class, or of all where there are no classes
        """
        estimator: Any = self
        n_per_class = None if task.classes is None else n_rows
        return draw_folds(estimator.early_stopping, n_per_class, int(n_rows.sum()), seed, read_classes)

    def _keep_boosted(self, ensemble: TreeEnsemble, threat: ThreatModel, boosted: Boosted, before: np.ndarray) -> None:
        """Store what was grown; see `_store`.

        before : the number of trees after each round that was there before
        """
        ends = np.cumsum([len(trees) for trees in boosted.rounds], dtype=np.int64)
        ends = np.concatenate([before, ends + (before[-1] if len(before) else 0)])
        self._store(ensemble, threat)
        self._round_ends = ends
        self._directions = boosted.directions
        self.n_estimators_ = len(ends)
        self.train_loss_ = np.array(boosted.train_loss)
        self.held_out_loss_ = np.array(boosted.held_out_loss)
        self.interrupted_ = boosted.interrupted

    def _find_start(self, task: Task, holds_out: bool) -> TreeEnsemble | None:
        """Return the model that more trees are added to, or None to begin anew."""
        if not getattr(self, "warm_start", False) or not hasattr(self, "ensemble_"):
            return None
        before = self.ensemble_
        if holds_out:
            raise ValueError("early_stopping: with warm_start=True, all trees are kept; expected False")
        if before.schema != task.schema:
            raise ValueError("X: with warm_start=True, expected the columns and categories of the first fit")
        known = None if before.classes is None else before.classes.tolist()
        if known != (None if task.classes is None else task.classes.tolist()):
            raise ValueError(f"y: with warm_start=True, expected the classes {known} of the first fit")
        return before

    def apply(self, X: Any) -> np.ndarray:
        """Return the id of the leaf that each row reaches, one column per tree."""
        return self._fitted_on(X).apply(X)

    def _stage_outputs(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the outputs after each round: (row, output)."""
        ensemble = self._fitted_on(X)
        leaves = ensemble.leaves(ensemble.schema.encode(X))
        output = np.tile(ensemble.base_score, (len(leaves), 1))
        done = 0
        for end in self._round_ends.tolist():
            for tree in range(done, end):
                output = output + ensemble.value[leaves[:, tree]]
            done = end
            yield output
