"""Reading what a regressor is to learn from a stream: the twin of `estimators/numbers.py` for tables beyond memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardwood.estimators.numbers import count_added, refuse_columns, refuse_size
from hardwood.estimators.streamed import read_again, read_first
from hardwood.grow.limits import GrowOptions
from hardwood.grow.regression import RegressionProblem, code_batches
from hardwood.grow.regression_bins import CodedNumbers
from hardwood.rows.sampling import Sample
from hardwood.rows.targets import read_numbers, weigh_rows
from hardwood.table.batches import Stream
from hardwood.threat import Reach, ThreatModel


@dataclass(frozen=True)
class StreamedRegression:
    """What is learned from a stream of rows with numbers, after its first pass."""

    problem: RegressionProblem  # its table has no rows
    sample: Sample
    stream: Stream
    all_targets: np.ndarray  # of all rows, those that weigh nothing included
    kept: np.ndarray | None  # which of them weigh something; None: all

    def code(self, reach: Reach, options: GrowOptions) -> CodedNumbers:
        """Make the second pass, and return the codes of all rows."""
        return code_batches(self.read_batches(), self.sample, self.problem, reach, options)

    def read_batches(self) -> Iterator[np.ndarray]:
        """Read the stream again, and yield the rows that weigh something, encoded."""

        def is_same(rows: slice, y: Any, n_rows: int) -> bool:
            return np.array_equal(self.all_targets[rows], read_numbers(y, n_rows))

        return read_again(self.stream, self.problem, len(self.all_targets), self.kept, is_same)


class Numbers:
    """The numbers of batches."""

    def __init__(self) -> None:
        self._parts: list[np.ndarray] = []

    def add(self, y: Any, n_rows: int) -> None:
        """Read the numbers of the next batch."""
        self._parts.append(read_numbers(y, n_rows))

    def join(self) -> np.ndarray:
        """Return the numbers of all rows."""
        joined, self._parts = np.concatenate(self._parts), []
        return joined


def read_regression_stream(
    estimator: Any, stream: Stream, y: Any, sample_weight: Any, *, takes_any: bool = False
) -> StreamedRegression:
    """Make the first pass through a stream, as the parameters of a regressor say.

    takes_any : whether it takes any attacker and any columns, as boosting does and trees do not
    """
    numbers = Numbers()
    found = read_first(estimator, stream, numbers, y=y, sample_weight=sample_weight)
    threat = ThreatModel.coerce(estimator.threat)
    if not takes_any:
        refuse_columns(estimator, threat, found.columns.schema)
    schema, threat = found.columns.settle(threat)
    target = all_targets = numbers.join()
    weight, kept, unit = None, None, 1.0
    if found.weights:
        weight = np.concatenate(found.weights)
        kept = weight > 0.0
        _, target, weight, unit = weigh_rows(np.empty((len(weight), 0)), target, weight)
    if not takes_any:
        refuse_size(target, count_added(estimator))
    problem = RegressionProblem(np.empty((0, schema.n_features)), target, weight, schema, threat, unit)
    sample = found.make_sample(np.zeros(len(target), dtype=np.uint8))  # there are no classes
    return StreamedRegression(problem, sample, found.stream, all_targets, kept)
