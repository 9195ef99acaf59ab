"""Where training rows come from: every source is looked at, settles what is left to a table, and brings its rows.

::

    source --look--> Summary --settle--> threat, schema --> Task --bring--> Task with its rows

A table in memory is one part. A stream is read in two passes: the first one looks at its batches, the second one yields
the encoded rows to whoever codes them (`Task.read_batches`). A third source, the partitions of a table on a cluster, is
in `hardwood.dask`.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from hardwood.progress import Progress, read_progress
from hardwood.quoting import quote
from hardwood.rows.columns import hides, is_missing_somewhere
from hardwood.rows.parts import Part, ReadRows, finish_rows, finish_targets, place_target, read_part, say_where
from hardwood.rows.refusals import refuse_beside_stream, refuse_measured, refuse_parameters
from hardwood.rows.request import Request
from hardwood.rows.sampling import RowSampler, Sample
from hardwood.rows.summary import PartSummary, Summary, summarize_part, summarize_target
from hardwood.rows.targets import read_column, read_numbers
from hardwood.rows.task import Task
from hardwood.table import Schema
from hardwood.table.batches import Stream
from hardwood.threat import ThreatModel


class Source(Protocol):
    """Rows somewhere."""

    def look(self, request: Request) -> Summary:
        """Look at all rows, and say what has to be known of them before one is coded."""

    def settle(self, threat: ThreatModel, schema: Schema) -> ThreatModel:
        """Return the threat model with what it leaves to a table written out; see `ThreatModel.settle`."""

    def bring(self, task: Task) -> Task:
        """Return a task with as many of its rows as are here."""


def read_task(source: Source, request: Request) -> Task:
    """Read what is learned: the only place that knows in which order a source is asked."""
    summary, threat = source.look(request), request.threat
    schema = threat.extend(summary.schema)
    if schema.accepts_missing and not (request.is_open or summary.any_missing or hides(threat)):
        schema = replace(schema, accepts_missing=False)
    return source.bring(summary.targets.make_task(request, schema, source.settle(threat, schema)))


def open_rows(estimator: Any, X: Any, y: Any, sample_weight: Any) -> "TableSource | StreamSource":
    """Return the source of the rows that an estimator is fitted to: a table in memory, or a stream.

    X : also a source, of which somebody wants to know later what was read
    """
    if not isinstance(X, (Stream, StreamSource)):
        return open_table(X, y, sample_weight)
    refuse_beside_stream(y=y, sample_weight=sample_weight)
    refuse_parameters(estimator)
    source = StreamSource(X) if isinstance(X, Stream) else X
    source.report_to(read_progress(estimator.progress))
    return source


def open_table(X: Any, y: Any, sample_weight: Any) -> "TableSource":
    """Return the source of the rows of a table in memory."""
    return X if isinstance(X, TableSource) else TableSource(X, y, sample_weight)


class TableSource:
    """A table in memory."""

    def __init__(self, X: Any, y: Any, sample_weight: Any) -> None:
        self.X = X  # as the user has it
        self._table = Part(0, X, y, sample_weight)
        self._read: ReadRows
        self.task: Task  # once it has been read

    def report_to(self, progress: Progress | None) -> None:
        """Tell nothing: a table in memory is there at once."""

    def look(self, request: Request) -> Summary:
        """Read the table; see `Source`."""
        self._read = read_part(self._table, request)
        targets = summarize_target(self._table, self._read)
        return Summary(self._read.schema, is_missing_somewhere(self._read.X), targets)

    def settle(self, threat: ThreatModel, schema: Schema) -> ThreatModel:
        """Read distances and domains off the table, and check its rows."""
        return threat.settle(self._table.X, self._read.X, schema)

    def bring(self, task: Task) -> Task:
        """Return the task with all rows."""
        rows = finish_rows(self._read, task)
        self.task = replace(task, X=rows.X, target=rows.target, sample_weight=rows.sample_weight)
        return self.task


class StreamSource:
    """A table that is read batch after batch, twice. What is kept of a row is its target and its weight."""

    def __init__(self, stream: Stream) -> None:
        self.task: Task  # once the first pass has been made
        self._stream = self._told = stream
        self._seen: PartSummary
        self._sampler: RowSampler
        self._parts: list[ReadRows]  # as they were read in the first pass, without their values
        self._target: np.ndarray  # of all rows, those that weigh nothing included
        self._kept: np.ndarray | None  # which rows weigh something; None: all

    def report_to(self, progress: Progress | None) -> None:
        """Tell how far each of the following passes is."""
        self._told = self._stream.report_to(progress)

    def look(self, request: Request) -> Summary:
        """Make the first pass; see `Source`."""
        refuse_measured(request.threat)
        self._sampler, self._parts, request = RowSampler(), [], replace(request, is_narrow=True)
        for part in self._read_parts():
            with say_where(part):
                if part.y is None:
                    raise ValueError("y: requires y, and the stream has no labels; name the target in hardwood.stream")
                rows = read_part(part, request)
                seen = summarize_part(part, rows)
                self._seen = self._seen.merge(seen) if self._parts else seen
            self._sampler.add(rows.choose(rows.kept).X)
            self._parts.append(rows._replace(X=np.empty((len(rows.X), 0))))
        if not self._parts:
            raise ValueError(f"{quote(self._stream)} has no rows")
        return self._seen.sum_up()

    def settle(self, threat: ThreatModel, schema: Schema) -> ThreatModel:
        """Settle a threat that leaves nothing to values; rows are checked in the second pass."""
        return self._seen.columns.settle(threat, schema)

    def bring(self, task: Task) -> Task:
        """Return the task with all targets and weights, and rows that are read once more."""
        targets = np.concatenate([place_target(each, task) for each in self._parts])
        weights = [each.weight for each in self._parts if each.weight is not None]
        given = np.concatenate(weights) if weights else None
        read = ReadRows(np.empty((len(targets), 0)), task.schema, targets, task.classes, given)
        self._target, self._kept, self._parts = targets, read.kept, []
        target, weight = finish_targets(read, task)
        self.task = replace(task, target=target, sample_weight=weight, stream=self)
        return self.task

    def make_sample(self, task: Task) -> Sample:
        """Return the rows that were drawn in the first pass; no category in them means anything."""
        numbers, rows = self._sampler.finish()
        return Sample(
            rows.astype(np.float64, copy=False),
            task.class_index[numbers],
            self._seen.columns.is_missing,
            self._seen.columns.farthest,
        )

    def read_batches(self, task: Task) -> Iterator[np.ndarray]:
        """Make the second pass, and yield the rows that weigh something, encoded."""
        start, n_rows, kept = 0, len(self._target), self._kept
        for part in self._read_parts():
            with say_where(part):
                matrix = task.schema.encode(part.X)
                rows = slice(start, start + len(matrix))
                if rows.stop > n_rows or not self._has_targets(task, rows, part.y):
                    raise ValueError(
                        f"{quote(self._stream)} gave other rows when it was read again; a fit reads it twice"
                    )
                task.threat.settle(matrix, matrix, task.schema)  # checks the rows
            start = rows.stop
            if kept is not None:
                matrix = matrix[kept[rows]]
            if len(matrix):
                yield matrix
        if start < n_rows:
            raise ValueError(f"{quote(self._stream)} gave {n_rows} rows, and {start} when it was read again")

    def _has_targets(self, task: Task, rows: slice, y: Any) -> bool:
        """Say whether some rows have the targets that they had in the first pass."""
        before = self._target[rows]
        if task.classes is None:
            return np.array_equal(before, read_numbers(y, len(before)))
        return np.array_equal(task.classes[before], read_column(y, len(before)))

    def _read_parts(self) -> Iterator[Part]:
        """Read the stream, from the first row on."""
        start = 0
        for number, batch in enumerate(self._told):
            name = "the first batch" if not number else f"batch {number}"
            note = f"In the batch of the stream that begins with row {start}, counted from 0."
            yield Part(number, *batch, name, note)
            start += batch.X.shape[0]
