"""Reading what a classifier is to learn from a stream: the twin of `estimators/target.py` for tables beyond memory.

A first pass reads what has to be known before a row can be coded: labels, weights, categories, types, whether values
are missing, and the sample behind the thresholds. A second one codes the rows. What is kept of a row is its class, its
weight and its codes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite, get_tags
from sklearn.utils.multiclass import check_classification_targets

from hardwood.estimators.target import hides, read_class_weight, read_column, refuse_many_classes, weigh
from hardwood.grow.bins import Sample
from hardwood.grow.coded_rows import CodedRows, code_batches
from hardwood.grow.limits import GrowOptions
from hardwood.grow.problem import Problem
from hardwood.grow.row_sampler import RowSampler
from hardwood.table import Schema
from hardwood.table.batches import Batch, Stream
from hardwood.table.likeness import find_whole_columns, is_polars
from hardwood.threat import Reach, ThreatModel


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
        return code_batches(self._read_batches(), self.sample, self.problem, reach, options, options.max_bins)

    def _read_batches(self) -> Iterator[np.ndarray]:
        """Read the stream again, and yield the rows that weigh something, encoded."""
        problem, start = self.problem, 0
        for batch in self.stream:
            with _say_where(start):
                matrix = problem.schema.encode(batch.X)
                labels = read_column(batch.y, len(matrix))
                expected = problem.classes[self.all_classes[start : start + len(matrix)]]
                if len(expected) < len(labels) or not np.array_equal(expected, labels):
                    raise ValueError(f"{self.stream!r} gave other rows when it was read again; a fit reads it twice")
                problem.threat.settle(batch.X, matrix, problem.schema)  # checks the rows
            start += len(matrix)
            if self.kept is not None:
                matrix = matrix[self.kept[start - len(matrix) : start]]
            if len(matrix):
                yield matrix
        if start < len(self.all_classes):
            raise ValueError(f"{self.stream!r} gave {len(self.all_classes)} rows, and {start} when it was read again")


def read_stream(estimator: Any, stream: Stream, y: Any, sample_weight: Any) -> StreamedProblem:
    """Make the first pass through a stream, as the parameters of a tree say."""
    refuse_beside_stream(y=y, sample_weight=sample_weight)
    _refuse(estimator)
    threat = ThreatModel.coerce(estimator.threat, estimator.attacking_classes)
    refuse_measured(threat)
    found = _FirstPass(estimator)
    start = 0
    for batch in stream:
        with _say_where(start):
            start += found.add(batch)
    if found.schema is None:
        raise ValueError(f"{stream!r} has no rows")
    classes, class_index = found.join_labels()
    refuse_many_classes(estimator, classes)
    schema = threat.extend(found.schema)
    if schema.accepts_missing and not hides(threat) and not found.any_missing:
        schema = replace(schema, accepts_missing=False)
    template = found.make_template()
    threat = threat.settle(template, schema.encode(template), schema)
    class_weight = read_class_weight(estimator.class_weight, classes, class_index)
    all_classes, weight, kept = class_index, None, None
    if found.weights:
        weight = np.concatenate(found.weights)
        kept = weight > 0.0
        _, class_index, weight = weigh(np.empty((start, 0)), class_index, weight, classes)
    problem = Problem(
        X=np.empty((0, schema.n_features)),
        class_index=class_index,
        sample_weight=weight,
        class_weight=class_weight,
        schema=schema,
        classes=classes,
        threat=threat,
    )
    numbers, rows = found.sampler.finish()
    sample = Sample(rows, class_index[numbers], found.is_missing, found.farthest)
    return StreamedProblem(problem, sample, stream, all_classes, kept)


def refuse_beside_stream(**values: Any) -> None:
    """Refuse labels and weights beside those that a stream brings."""
    for name, value in values.items():
        if value is not None:
            raise ValueError(f"{name}: a stream brings its own; name it where you call hardwood.stream")


def _refuse(estimator: Any) -> None:
    """Refuse parameters of growers that need all rows at hand."""
    refused = {
        "max_bins": ("exact", "an integer from 2 to 255"),
        "refine": (("alternate", "search"), "None"),
        "attacker": (("chen", "chen-greedy"), "'groot'"),
        "oob_score": (True, "False"),
    }
    for name, (values, expected) in refused.items():
        value = getattr(estimator, name, None)
        if value is not None and (value in values if isinstance(values, tuple) else value == values):
            raise ValueError(f"{name}={value!r}: needs all rows in memory at once; for a stream, expected {expected}")


def refuse_measured(threat: ThreatModel) -> None:
    """Refuse a threat model that leaves numbers to the values of a whole table."""
    if threat.is_measured:
        raise ValueError(
            "threat: distances in 'std' or 'iqr', within='from_data' and groups='from_table' are measured on a whole "
            "table, and a stream is read in batches; write them out with ThreatModel.settle on rows that fit in memory"
        )


@contextmanager
def _say_where(start: int) -> Iterator[None]:
    """Say which batch an error is about: it counts rows from its beginning."""
    try:
        yield
    except (ValueError, TypeError) as error:
        error.add_note(f"In the batch of the stream that begins with row {start}, counted from 0.")
        raise


class _FirstPass:
    """What the first pass finds."""

    def __init__(self, estimator: Any) -> None:
        self._categorical = estimator.categorical_features
        self._accepts_missing = bool(get_tags(estimator).input_tags.allow_nan)
        self.schema: Schema | None = None
        self.sampler = RowSampler()
        self.weights: list[np.ndarray] = []
        self._labels: list[tuple[np.ndarray, np.ndarray]] = []  # per batch: its classes, and the index of each row

    def add(self, batch: Batch) -> int:
        """Look at a batch; return how many rows it has."""
        if batch.y is None:
            raise ValueError("y: requires y, and the stream has no labels; name the target in hardwood.stream")
        schema = Schema.from_table(batch.X, self._categorical, accepts_missing=self._accepts_missing)
        whole = {column.position for column in find_whole_columns(batch.X)}
        if self.schema is None:
            self.schema, self._head, self._whole = schema, batch.X[:1], whole
            self.is_missing, self.farthest = np.zeros(schema.n_features, dtype=bool), np.zeros(schema.n_features)
            self.any_missing = False
        self.schema = _join_schemas(self.schema, schema)
        self._whole &= whole
        matrix = self.schema.encode(batch.X)
        self._add_labels(read_column(batch.y, len(matrix)))
        n_rows = len(matrix)
        if (batch.sample_weight is not None) != bool(self.weights) and len(self._labels) > 1:
            raise ValueError("sample_weight: some batches have weights and some have not; give them to all, or to none")
        self.any_missing |= bool(np.isnan(matrix).any())
        if batch.sample_weight is not None:
            weight = np.asarray(batch.sample_weight, dtype=np.float64)
            if weight.shape != (n_rows,):
                raise ValueError(f"sample_weight: expected {n_rows} weights, one per row, got shape {weight.shape}")
            self.weights.append(weight)
            matrix = matrix[weight > 0.0]
        self.sampler.add(matrix)
        self.is_missing |= np.isnan(matrix).any(axis=0)
        self.farthest = np.fmax.reduce(np.abs(matrix), axis=0, initial=0.0).clip(min=self.farthest)
        return n_rows

    def _add_labels(self, labels: np.ndarray) -> None:
        assert_all_finite(labels, input_name="y")
        classes, index = np.unique(labels, return_inverse=True)
        if self._labels and (classes.dtype.kind in "biuf") != (self._labels[0][0].dtype.kind in "biuf"):
            raise ValueError(f"y: labels are {self._labels[0][0].dtype} in the first batch, here {classes.dtype}")
        self._labels.append((classes, index.astype(np.min_scalar_type(len(classes) - 1))))

    def join_labels(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the class labels, sorted, and the class index of each row, of the smallest type that holds it."""
        classes = np.unique(np.concatenate([own for own, _ in self._labels]))
        check_classification_targets(np.repeat(classes, 3))  # a class of one row each would be warned about
        if len(classes) < 2:
            raise ValueError(f"y has only one class, {classes[:1].tolist()}; a classifier needs two")
        dtype = np.min_scalar_type(len(classes) - 1)
        parts = [np.searchsorted(classes, own).astype(dtype)[index] for own, index in self._labels]
        self._labels = []
        return classes, np.concatenate(parts)

    def make_template(self) -> Any:
        """Return the first row, with types that hold whole numbers only where those of all batches do."""
        lost = [column.position for column in find_whole_columns(self._head) if column.position not in self._whole]
        if lost and is_polars(self._head):
            raise ValueError(f"X: column {self._head.columns[lost[0]]!r} has whole numbers in some batches only")
        return self._head.astype({self._head.columns[j]: np.float64 for j in lost}) if lost else self._head


def _join_schemas(schema: Schema, other: Schema) -> Schema:
    """Return the schema with the categories that only a later batch has; other columns are refused by `encode`."""
    if schema.categories == other.categories or schema.n_features != other.n_features:
        return schema
    categories: list[Any] = []
    for j, (mine, theirs) in enumerate(zip(schema.categories, other.categories, strict=True)):
        if (mine is None) != (theirs is None):
            raise ValueError(f"X: column {schema.key(j)!r} is categorical in some batches only; give it one type")
        # In the order in which `Schema.from_table` has the labels of a whole table.
        labels = sorted({(type(label).__name__, label) for label in (*(mine or ()), *(theirs or ()))})
        categories.append(None if mine is None else tuple(dict.fromkeys(label for _, label in labels)))
    return replace(schema, categories=tuple(categories))
