"""What robust boosting of classes and of numbers share: fitting, warm starts, and predictions by stages."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.estimators.boosting_input import BoostingInput
from hardwood.estimators.boosting_parameters import check_boosting_options, check_ordered, draw_folds
from hardwood.estimators.fitted import SingleTree
from hardwood.grow.boosted import BoostingProblem, WarmStart, grow_boosted
from hardwood.grow.boosting import Boosted
from hardwood.progress import read_progress
from hardwood.threads import count_threads
from hardwood.threat import ThreatModel


class RobustBoosting(SingleTree):
    """What boosting of classes and of values share."""

    n_estimators_: int
    train_loss_: np.ndarray
    held_out_loss_: np.ndarray
    interrupted_: bool

    def _fit(self, rows: BoostingInput) -> Self:
        """Boost trees and keep them."""
        estimator: Any = self
        problem = rows.problem
        options = check_boosting_options(estimator, problem.schema.n_features)
        if options.ordered:
            check_ordered(problem.reach, problem.schema)
        n_per_class = None if problem.classes is None else np.bincount(rows.class_index, minlength=len(problem.classes))
        folds = draw_folds(
            estimator.early_stopping, n_per_class, len(rows.target), options.seed, lambda: rows.class_index
        )
        before, n_before = self._find_start(problem, bool(folds)), 0
        if before is not None:
            n_before = self.n_estimators_
            if options.n_rounds < n_before:
                raise ValueError(
                    f"n_estimators={options.n_rounds}: with warm_start=True, expected at least the {n_before} there are"
                )
            options = replace(options, n_rounds=options.n_rounds - n_before, seed=options.seed + n_before)
        n_threads = count_threads(estimator.n_jobs)
        progress = read_progress(estimator.progress)
        tiles, sums = rows.code(options.max_bins, n_threads, before)
        start = None if before is None or sums is None else WarmStart(before, sums, self._directions)
        ensemble, boosted = grow_boosted(problem, tiles, options, folds, n_threads, progress, start)
        ends = np.empty(0, dtype=np.int64) if start is None else self._round_ends
        self._keep_boosted(ensemble, rows.threat, boosted, ends)
        return self

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

    def _find_start(self, problem: BoostingProblem, holds_out: bool) -> TreeEnsemble | None:
        """Return the model that more trees are added to, or None to begin anew."""
        if not getattr(self, "warm_start", False) or not hasattr(self, "ensemble_"):
            return None
        before = self.ensemble_
        if holds_out:
            raise ValueError("early_stopping: with warm_start=True, all trees are kept; expected False")
        if before.schema != problem.schema:
            raise ValueError("X: with warm_start=True, expected the columns and categories of the first fit")
        known = None if before.classes is None else before.classes.tolist()
        if known != (None if problem.classes is None else problem.classes.tolist()):
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
