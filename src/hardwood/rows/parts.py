"""Parts of a table: a table in memory is one, a stream has batches, a table on many machines has partitions.

A part is read by what it says itself of its columns and targets, because nobody knows the others yet (`read_part`).
Once all have been seen, what was read is put in the terms of the whole table (`finish_rows`)::

    Part -> ReadRows -> Rows
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from hardwood.rows.request import Request
from hardwood.rows.targets import index_labels, read_numbers
from hardwood.rows.task import Task
from hardwood.table import Schema
from hardwood.weights import read_weights


class Part(NamedTuple):
    """Some rows of a table, as the user has them."""

    number: int  # counted from 0
    X: Any  # an array or a DataFrame
    y: Any  # None where none was given
    sample_weight: Any  # None where none was given
    name: str = "the table"
    note: str = ""  # added to errors about the part


@contextmanager
def say_where(part: Part) -> Iterator[None]:
    """Say which part an error is about: it counts rows from its beginning."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if part.note:
            error.add_note(part.note)
        raise


class ReadRows(NamedTuple):
    """The rows of a part, by what the part itself says of its columns and targets."""

    X: np.ndarray  # encoded
    schema: Schema  # by which they are
    target: np.ndarray  # per row: the index of its class, or a number
    classes: np.ndarray | None  # the labels, sorted; None: the target is numbers
    weight: np.ndarray | None  # float64 per row, which may be 0; None: all the same

    @property
    def kept(self) -> np.ndarray | None:
        """Which rows weigh something; None: all."""
        return None if self.weight is None or (self.weight > 0.0).all() else self.weight > 0.0

    def choose(self, rows: Any) -> "ReadRows":
        """Return some of the rows; None: all."""
        if rows is None:
            return self
        weight = None if self.weight is None else self.weight[rows]
        return self._replace(X=self.X[rows], target=self.target[rows], weight=weight)


def read_part(part: Part, request: Request) -> ReadRows:
    """Read the rows of a part: each of them is encoded once, here."""
    schema, matrix = Schema.read(
        part.X, request.categorical_features, accepts_missing=request.accepts_missing, narrow=request.is_narrow
    )
    if request.has_classes:
        classes, target = index_labels(part.y, len(matrix))
    else:
        classes, target = None, read_numbers(part.y, len(matrix))
    weight = None if part.sample_weight is None else read_weights(part.sample_weight, len(matrix))
    return ReadRows(matrix, schema, target, classes, weight)


class Rows(NamedTuple):
    """Rows that weigh something, in the terms of the whole table."""

    X: np.ndarray  # float64 or float32
    target: np.ndarray  # as in `Task`
    sample_weight: np.ndarray | None  # as in `Task`


def finish_rows(read: ReadRows, task: Task) -> Rows:
    """Put rows in the terms of the whole table, without those that weigh nothing."""
    read = read.choose(read.kept)
    return Rows(place_categories(read.X, read.schema, task.schema), *finish_targets(read, task))


def finish_targets(read: ReadRows, task: Task) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the targets and weights of rows that weigh something, in the units of the whole table."""
    read = read.choose(read.kept)
    target, weight = place_target(read, task), read.weight
    if task.classes is None:
        target = target if task.target_unit == 1.0 else target / task.target_unit
        weight = weight if weight is None or task.weight_unit == 1.0 else weight / task.weight_unit
    return target, weight


def place_target(read: ReadRows, task: Task) -> np.ndarray:
    """Return the index of the class of each row among those of all rows; numbers as they are."""
    if read.classes is None:
        return read.target
    dtype = np.min_scalar_type(len(task.classes) - 1)
    if len(read.classes) == len(task.classes):
        return read.target.astype(dtype, copy=False)
    return np.asarray(np.searchsorted(task.classes, read.classes).astype(dtype)[read.target])


def place_categories(X: np.ndarray, own: Schema, schema: Schema) -> np.ndarray:
    """Return encoded rows with the codes that categories have among those of all rows."""
    others = [j for j in own.categorical if not _begins_with(schema.categories[j], own.categories[j])]
    if not others:
        return X
    X = X.copy()
    for j in others:
        code_of = {label: code for code, label in enumerate(schema.categories[j] or ())}
        mine = [code_of[label] for label in own.categories[j] or ()]
        X[:, j] = np.array([*mine, np.nan])[np.where(np.isnan(X[:, j]), len(mine), X[:, j]).astype(np.intp)]
    return X


def _begins_with(labels: tuple[Any, ...] | None, first: tuple[Any, ...] | None) -> bool:
    """Say whether labels have the codes that the first of them have by themselves."""
    return first is None or (labels or ())[: len(first)] == first
