"""Reading what a classifier is to learn from a stream: the twin of `estimators/target.py` for tables beyond memory.

A first pass reads what has to be known before a row can be coded: targets, weights, categories, types, whether values
are missing, and the sample behind the thresholds. A second one codes the rows. What is kept of a row is its class, its
weight and its codes. `estimators/streamed_numbers.py` makes the same passes for regressors.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sklearn.utils import get_tags

from hardwood.estimators.findings import ColumnFindings, find_columns, join_classes
from hardwood.estimators.refusals import refuse_many_classes
from hardwood.estimators.target import (
    read_class_weight,
    read_column,
    refuse_infinite,
    weigh,
)
from hardwood.grow.bins import Sample
from hardwood.grow.coded_rows import CodedRows, code_batches
from hardwood.grow.limits import GrowOptions
from hardwood.grow.problem import Problem
from hardwood.grow.row_sampler import RowSampler
from hardwood.progress import read_progress
from hardwood.quoting import quote
from hardwood.table.batches import Batch, Stream
from hardwood.table.columns import check_classes
from hardwood.threat import Reach, ThreatModel
from hardwood.weights import settle_weights


@dataclass(frozen=True)
class StreamedProblem:
    """What is learned from a stream, after its first pass."""

    problem: Problem  # its table has no rows
    sample: Sample
    stream: Stream
    all_classes: np.ndarray  # the class index of all rows, those that weigh nothing included
    kept: np.ndarray | None  # which of them weigh something; None: all

    def code(self, reach: Reach, options: GrowOptions) -> CodedRows:
        """Make the second pass, and return the codes of all rows."""
        return code_batches(self.read_batches(), self.sample, self.problem, reach, options, options.max_bins)

    def read_batches(self) -> Iterator[np.ndarray]:
        """Read the stream again, and yield the rows that weigh something, encoded."""
        problem = self.problem

        def is_same(rows: slice, y: Any, n_rows: int) -> bool:
            return np.array_equal(problem.classes[self.all_classes[rows]], read_column(y, n_rows))

        return read_again(self.stream, problem, len(self.all_classes), self.kept, is_same)


def read_again(
    stream: Stream,
    problem: Any,
    n_rows: int,
    kept: np.ndarray | None,
    is_same: Callable[[slice, Any, int], bool],
) -> Iterator[np.ndarray]:
    """Make the second pass, and yield the rows that weigh something, encoded.

    problem : Problem or RegressionProblem
    n_rows, kept : how many rows the first pass found, and which of them weigh something; None: all
    is_same : whether some rows have the targets that they had before: (rows, targets, how many rows)
    """
    start = 0
    for batch in stream:
        with _say_where(start):
            matrix = problem.schema.encode(batch.X)
            rows = slice(start, start + len(matrix))
            if rows.stop > n_rows or not is_same(rows, batch.y, len(matrix)):
                raise ValueError(f"{quote(stream)} gave other rows when it was read again; a fit reads it twice")
            problem.threat.settle(batch.X, matrix, problem.schema)  # checks the rows
        start = rows.stop
        if kept is not None:
            matrix = matrix[kept[rows]]
        if len(matrix):
            yield matrix
    if start < n_rows:
        raise ValueError(f"{quote(stream)} gave {n_rows} rows, and {start} when it was read again")


def read_stream(estimator: Any, stream: Stream, y: Any, sample_weight: Any) -> StreamedProblem:
    """Make the first pass through a stream, as the parameters of a tree say."""
    labels = Labels()
    found = read_first(estimator, stream, labels, y=y, sample_weight=sample_weight)
    classes, class_index = labels.join()
    refuse_many_classes(estimator, classes)
    schema, threat = found.columns.settle(ThreatModel.coerce(estimator.threat, estimator.attacking_classes))
    class_weight = read_class_weight(estimator.class_weight, classes, class_index)
    all_classes, weight, kept = class_index, None, None
    if found.weights:
        weight = np.concatenate(found.weights)
        kept = weight > 0.0
        _, class_index, weight = weigh(np.empty((len(weight), 0)), class_index, weight, classes)
    class_weight, unit = settle_weights(weight, class_index, class_weight)
    problem = Problem(
        X=np.empty((0, schema.n_features)),
        class_index=class_index,
        sample_weight=weight,
        class_weight=class_weight,
        schema=schema,
        classes=classes,
        threat=threat,
        weight_unit=unit,
    )
    return StreamedProblem(problem, found.make_sample(class_index), found.stream, all_classes, kept)


def read_first(estimator: Any, stream: Stream, target: "Target", **beside: Any) -> "FirstPass":
    """Make the first pass, and return what it found; what is given beside the stream is refused."""
    refuse_beside_stream(**beside)
    refuse_parameters(estimator)
    refuse_measured(ThreatModel.coerce(estimator.threat))
    found, start = FirstPass(estimator, stream.report_to(read_progress(estimator.progress)), target), 0
    for batch in found.stream:
        with _say_where(start):
            start += found.add(batch)
    if not start:
        raise ValueError(f"{quote(stream)} has no rows")
    return found


def refuse_beside_stream(**values: Any) -> None:
    """Refuse labels and weights beside those that a stream brings."""
    for name, value in values.items():
        if value is not None:
            raise ValueError(f"{name}: a stream brings its own; name it where you call hardwood.stream")


def refuse_parameters(estimator: Any) -> None:
    """Refuse parameters of growers that need all rows at hand."""
    refused = {
        "max_bins": ("exact", "an integer from 2 to 255"),
        "refine": (("alternate", "search"), "None"),
        "attacker": (("chen", "chen-greedy"), "'groot'"),
        "oob_score": (True, "False"),
        "criterion": (("absolute_error",), "'squared_error'"),
        "refit_leaves": (True, "False"),
    }
    for name, (values, expected) in refused.items():
        value = getattr(estimator, name, None)
        if value is not None and (value in values if isinstance(values, tuple) else value == values):
            raise ValueError(
                f"{name}={quote(value)}: needs all rows in memory at once; for a stream or a cluster, expected "
                f"{expected}"
            )


def refuse_measured(threat: ThreatModel) -> None:
    """Refuse a threat model that leaves numbers to the values of a whole table."""
    if threat.is_measured:
        raise ValueError(
            "threat: distances in 'std' or 'iqr', within='from_data' and groups='from_table' are measured on a whole "
            "table, and this one is read in parts; write them out with ThreatModel.settle on rows that fit in memory"
        )


@contextmanager
def _say_where(start: int) -> Iterator[None]:
    """Say which batch an error is about: it counts rows from its beginning."""
    try:
        yield
    except (ValueError, TypeError) as error:
        error.add_note(f"In the batch of the stream that begins with row {start}, counted from 0.")
        raise


class Target(Protocol):
    """Keeps the targets of batches."""

    def add(self, y: Any, n_rows: int) -> None:
        """Read the targets of the next batch."""


class Labels:
    """The labels of batches."""

    def __init__(self) -> None:
        self._parts: list[tuple[np.ndarray, np.ndarray]] = []  # per batch: its classes, and the index of each row

    def add(self, y: Any, n_rows: int) -> None:
        """Read the labels of the next batch."""
        labels = read_column(y, n_rows)
        check_classes(labels)
        refuse_infinite(labels)
        classes, index = np.unique(labels, return_inverse=True)
        if self._parts and (classes.dtype.kind in "biuf") != (self._parts[0][0].dtype.kind in "biuf"):
            raise ValueError(f"y: labels are {self._parts[0][0].dtype} in the first batch, here {classes.dtype}")
        self._parts.append((classes, index.astype(np.min_scalar_type(len(classes) - 1))))

    def join(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the class labels, sorted, and the class index of each row, of the smallest type that holds it."""
        classes = join_classes([own for own, _ in self._parts])
        dtype = np.min_scalar_type(len(classes) - 1)
        parts = [np.searchsorted(classes, own).astype(dtype)[index] for own, index in self._parts]
        self._parts = []
        return classes, np.concatenate(parts)


class FirstPass:
    """What the first pass finds."""

    def __init__(self, estimator: Any, stream: Stream, target: Target) -> None:
        self._categorical = estimator.categorical_features
        self._accepts_missing = bool(get_tags(estimator).input_tags.allow_nan)
        self._target = target
        self.stream = stream
        self._n_batches = 0
        self._columns: ColumnFindings | None = None
        self._sampler = RowSampler()
        self.weights: list[np.ndarray] = []

    @property
    def columns(self) -> ColumnFindings:
        """What the columns are."""
        assert self._columns is not None, "nothing has been added"
        return self._columns

    def add(self, batch: Batch) -> int:
        """Look at a batch; return how many rows it has."""
        if batch.y is None:
            raise ValueError("y: requires y, and the stream has no labels; name the target in hardwood.stream")
        n_rows, kept = batch.X.shape[0], None
        if batch.sample_weight is not None:
            weight = np.asarray(batch.sample_weight, dtype=np.float64)
            if weight.shape != (n_rows,):
                raise ValueError(f"sample_weight: expected {n_rows} weights, one per row, got shape {weight.shape}")
            self.weights.append(weight)
            kept = weight > 0.0
        own, matrix = find_columns(batch.X, self._categorical, accepts_missing=self._accepts_missing, kept=kept)
        self._columns = own if self._columns is None else self._columns.merge(own)
        self._target.add(batch.y, n_rows)
        self._n_batches += 1
        if len(self.weights) not in (0, self._n_batches):
            raise ValueError("sample_weight: some batches have weights and some have not; give them to all, or to none")
        self._sampler.add(matrix)
        return n_rows

    def make_sample(self, class_index: np.ndarray) -> Sample:
        """Return the sample behind the thresholds; `class_index` is of all rows that weigh something."""
        numbers, rows = self._sampler.finish()
        columns = self.columns
        return Sample(rows.astype(np.float64, copy=False), class_index[numbers], columns.is_missing, columns.farthest)
