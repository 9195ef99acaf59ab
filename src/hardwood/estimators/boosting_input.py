"""Reading what robust boosting is to learn from: a table in memory, or a stream."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.estimators.streamed import read_stream
from hardwood.estimators.streamed_numbers import read_regression_stream
from hardwood.grow.boosted import BoostingProblem, make_tiles
from hardwood.grow.boosting_steps import BoostBlock, Sums
from hardwood.grow.codes import plan_table
from hardwood.grow.workers import hire
from hardwood.rows.columns import read_columns
from hardwood.rows.sampling import Sample, take_sample
from hardwood.rows.targets import choose_target_unit, read_class_weight, read_numbers, read_target, weigh, weigh_rows
from hardwood.table.batches import Stream
from hardwood.threat import ThreatModel
from hardwood.verification.cheap import sum_extremes
from hardwood.weights import settle_weights


@dataclass(frozen=True)
class BoostingInput:
    """Rows with their targets and weights, without those that weigh nothing, and what an attacker may do to them."""

    problem: BoostingProblem
    threat: ThreatModel
    class_index: np.ndarray  # per row; zeros for a regression
    target: np.ndarray  # per row: the class index, or a number
    weight: np.ndarray  # float64 per row, positive
    sample: Sample | None  # of a stream; None: there is one batch, the table
    batches: Iterable[np.ndarray]  # all rows, encoded; a stream is read once more

    def code(self, max_bins: int, n_threads: int, before: TreeEnsemble | None) -> tuple[list[BoostBlock], Sums | None]:
        """Code all rows, return them in tiles, and say what an ensemble makes of them, if there was one before."""
        problem, sample, batches = self.problem, self.sample, self.batches
        if sample is None:
            batches = list(batches)
            sample = take_sample(batches[0], self.class_index, problem.reach, max_bins)
        plan = plan_table(sample, problem.reach, max_bins)
        codes, start, extremes = plan.make_room(len(self.target)), 0, []
        with hire(n_threads) as workers:
            for X in batches:
                rows = slice(start, start + len(X))
                plan.encode(X, self.class_index[rows], codes[rows], workers)
                if before is not None:
                    wide = X.astype(np.float64, copy=False)
                    extremes.append(sum_extremes(before, wide, self.class_index[rows], problem.reach))
                start = rows.stop
        n_classes = 0 if problem.classes is None else len(problem.classes)
        tiles = make_tiles(plan, codes, n_classes, self.target, self.weight, [(0, len(codes))])
        return tiles, Sums(*map(np.concatenate, zip(*extremes, strict=True))) if extremes else None


def read_classes(estimator: Any, X: Any, y: Any, sample_weight: Any) -> BoostingInput:
    """Read rows of two classes or more."""
    if isinstance(X, Stream):
        streamed = read_stream(estimator, X, y, sample_weight)
        found, sample = streamed.problem, streamed.sample
        batches: Iterable[np.ndarray] = streamed.read_batches()
        schema, threat, classes = replace(found.schema, accepts_missing=True), found.threat, found.classes
        class_index, row_weight, unit = found.class_index, found.row_weight, found.weight_unit
    else:
        threat, schema = read_columns(estimator, X, accepts_missing=True)
        matrix = schema.encode_narrow(X)
        threat = threat.settle(X, matrix, schema)
        classes, class_index = read_target(y, len(matrix))
        class_weight = read_class_weight(estimator.class_weight, classes, class_index)
        if sample_weight is not None:
            matrix, class_index, sample_weight = weigh(matrix, class_index, sample_weight, classes)
        class_weight, unit = settle_weights(sample_weight, class_index, class_weight)
        row_weight = class_weight[class_index] * (1.0 if sample_weight is None else sample_weight)
        sample, batches = None, [matrix]
    problem = BoostingProblem(schema, classes, threat.resolve(schema, classes), unit)
    return BoostingInput(problem, threat, class_index, class_index, row_weight, sample, batches)


def read_values(estimator: Any, X: Any, y: Any, sample_weight: Any) -> BoostingInput:
    """Read rows with numbers."""
    if isinstance(X, Stream):
        streamed = read_regression_stream(estimator, X, y, sample_weight, takes_any=True)
        found, sample = streamed.problem, streamed.sample
        batches: Iterable[np.ndarray] = streamed.read_batches()
        schema, threat = replace(found.schema, accepts_missing=True), found.threat
        target, weight, unit = found.target, found.row_weight, found.weight_unit
    else:
        threat, schema = read_columns(estimator, X, accepts_missing=True)
        matrix = schema.encode_narrow(X)
        threat = threat.settle(X, matrix, schema)
        target, weight, unit = read_numbers(y, len(matrix)), np.ones(len(matrix)), 1.0
        if sample_weight is not None:
            matrix, target, weight, unit = weigh_rows(matrix, target, sample_weight)
        sample, batches = None, [matrix]
    target_unit = choose_target_unit(float(np.abs(target).max()), float(weight.max()) * len(target), unit)
    if target_unit != 1.0:
        target = target / target_unit
    problem = BoostingProblem(schema, None, threat.resolve(schema), unit, target_unit)
    no_class = np.zeros(len(target), dtype=np.uint8)
    return BoostingInput(problem, threat, no_class, target, weight, sample, batches)
