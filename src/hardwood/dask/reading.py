"""Reading a table of Dask into blocks: every step is a task where the rows are, and rows stay where they are.

Partitions are read once and kept in the memory of the cluster until they are coded. Those that are on one worker become
its blocks, one per thread, because a task costs milliseconds however little it does. Then the tasks per block follow
each other: what is there (`find`), which rows the thresholds are chosen from (`sample`), and the codes. Only the sample
reaches the client, some 50,000 rows.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import get_tags

from hardwood.dask.findings import Findings, FindRows, index_labels, merge_findings, read_weight
from hardwood.dask.run import DaskRun
from hardwood.dask.tables import Part, delay_parts, say_where
from hardwood.grow.blocks import merge_all
from hardwood.rows.refusals import refuse_measured, refuse_parameters
from hardwood.rows.sampling import SAMPLE_ROWS, Sample, hash_rows
from hardwood.rows.targets import read_numbers
from hardwood.table import Schema
from hardwood.threat import ThreatModel

MOST_HASH = int(np.iinfo(np.uint64).max)


class BlockedTable(NamedTuple):
    """A table whose partitions are on the workers of a cluster."""

    run: DaskRun
    handles: list[Any]  # of the `Part`s
    blocks: list[list[int]]  # the numbers of the partitions of each block

    def map(self, function: Callable[..., Any], *arguments: Any, name: str) -> list[Any]:
        """Submit a task per block, which is handed the block's parts, and return the handles."""
        run, handles = self.run, self.handles
        # What all tasks need is a task's result, too: it travels once, however many blocks there are.
        shared = run.submit(_hand_on, arguments, name="hardwood-tell")
        return [
            run.submit(_call, function, [handles[number] for number in block], shared, name=name)
            for block in self.blocks
        ]


def _hand_on(arguments: Any) -> Any:
    return arguments


def _call(function: Callable[..., Any], parts: list[Part], arguments: tuple[Any, ...]) -> Any:
    return function(parts, *arguments)


def place_table(run: DaskRun, X: Any, y: Any, sample_weight: Any) -> BlockedTable:
    """Read the partitions of a table, and group them into blocks by where they are."""
    handles = run.compute(delay_parts(X, y, sample_weight))
    run.wait(handles)
    where = run.client.who_has(handles)
    homes = [next(iter(where.get(handle.key, ())), None) for handle in handles]
    return BlockedTable(run, handles, group_parts(homes, run.client.nthreads()))


def group_parts(homes: Sequence[str | None], n_threads: dict[str, int]) -> list[list[int]]:
    """Share partitions out among the threads of workers, evenly, and at home where that goes.

    homes : the worker that has each partition; None: nobody knows
    """
    slots: dict[tuple[str, int], list[int]] = {
        (worker, thread): [] for worker, threads in n_threads.items() for thread in range(threads)
    }
    room = -(-len(homes) // max(1, len(slots)))
    rest: list[int] = []
    for number, home in enumerate(homes):
        own = [block for (worker, _), block in slots.items() if worker == home and len(block) < room]
        (min(own, key=len) if own else rest).append(number)
    for number in rest:
        min(slots.values(), key=len).append(number)
    return [sorted(block) for block in slots.values() if block]


def place_rows(
    estimator: Any, run: DaskRun, X: Any, y: Any, sample_weight: Any, *, has_classes: bool
) -> tuple[BlockedTable, Findings]:
    """Read a table into the memory of a cluster, and find what has to be known of all rows before one can be coded."""
    refuse_parameters(estimator)
    refuse_measured(ThreatModel.coerce(estimator.threat))
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    table = place_table(run, X, y, sample_weight)
    accepts_missing = bool(get_tags(estimator).input_tags.allow_nan)
    looked = table.map(FindRows(estimator.categorical_features, accepts_missing, has_classes), name="hardwood-find")
    found: Findings | None = run.result(merge_all(run, merge_findings, looked, name="hardwood-merge-findings"))
    if found is None:
        raise ValueError("X has no rows")
    return table, found


class Rows(NamedTuple):
    """Rows of a partition that weigh something, encoded."""

    X: np.ndarray  # float64 or float32
    target: np.ndarray  # the class index, of the smallest type that holds it, or float64
    sample_weight: np.ndarray | None
    start: int  # the number of the first among all rows of the table that weigh something


@dataclass(frozen=True)
class RowReader:
    """Reads rows of a table of which everything is known that has to be."""

    schema: Schema
    threat: ThreatModel
    classes: np.ndarray | None  # None: the target is numbers
    starts: dict[int, int]  # by partition: the number of its first row among those that weigh something

    def read(self, parts: list[Part]) -> Iterator[Rows]:
        """Read the rows of partitions, one after another."""
        for part in parts:
            n_rows = part.X.shape[0]
            if not n_rows:
                continue
            with say_where(part):
                matrix = self._encode(part.X)
                self.threat.settle(part.X, matrix, self.schema)  # checks the rows
            target, weight = self._read_target(part), read_weight(part)
            if weight is not None and not (kept := weight > 0.0).all():
                matrix, target, weight = matrix[kept], target[kept], weight[kept]
            yield Rows(matrix, target, weight, self.starts[part.number])

    def _encode(self, X: Any) -> np.ndarray:
        is_plain = type(X) is np.ndarray and X.dtype in (np.float32, np.float64) and X.flags.c_contiguous
        # Whether the numbers of an array are finite has been found before.
        return X if is_plain and not self.schema.categorical else self.schema.encode(X)

    def _read_target(self, part: Part) -> np.ndarray:
        if self.classes is None:
            return read_numbers(part.y, part.X.shape[0])
        own, index = index_labels(part)
        return np.searchsorted(self.classes, own).astype(np.min_scalar_type(len(self.classes) - 1))[index]

    def draw(self, parts: list[Part], bound: int) -> "DrawnRows":
        """Return the rows of partitions whose numbers have hashes up to a bound."""
        drawn = [DrawnRows.none(self.schema.n_features)]
        for part in parts:
            weight = read_weight(part)
            rows = np.arange(part.X.shape[0]) if weight is None else np.flatnonzero(weight > 0.0)
            start = self.starts[part.number]
            hashes = hash_rows(start, start + len(rows))
            near = np.flatnonzero(hashes <= np.uint64(bound))
            if len(near):
                X = part.X[rows[near]] if isinstance(part.X, np.ndarray) else part.X.iloc[rows[near]]
                index = np.zeros(len(near), np.uint8) if self.classes is None else self._read_target(part)[rows[near]]
                drawn.append(DrawnRows(hashes[near], near + start, self.schema.encode(X), index))
        return join_drawn(drawn)


class DrawnRows(NamedTuple):
    """Rows that may be of the sample behind the thresholds."""

    hashes: np.ndarray
    numbers: np.ndarray
    X: np.ndarray  # float64
    class_index: np.ndarray  # zeros where the target is numbers

    @classmethod
    def none(cls, n_features: int) -> "DrawnRows":
        """Return no rows."""
        return cls(np.zeros(0, np.uint64), np.zeros(0, np.int64), np.zeros((0, n_features)), np.zeros(0, np.uint8))


def join_drawn(parts: list[DrawnRows]) -> DrawnRows:
    """Return the rows of all parts."""
    return DrawnRows(*map(np.concatenate, zip(*parts, strict=True)))


def draw_sample(table: BlockedTable, reader: RowReader, found: Findings) -> Sample:
    """Draw the rows with the smallest hashes of their numbers: those that `draw_rows` draws from a table in memory.

    Hashes are as good as uniform, so a bound is known below which there are a few more than are wanted.
    """
    columns, n_rows = found.columns, int(found.n_kept.sum())
    wanted = min(n_rows, SAMPLE_ROWS)
    expected = wanted + 6.0 * np.sqrt(wanted)  # six standard deviations more
    bound = MOST_HASH if n_rows <= SAMPLE_ROWS else min(MOST_HASH, int(expected / n_rows * MOST_HASH))
    drawn = _draw(table, reader, bound)
    if len(drawn.hashes) < wanted:
        drawn = _draw(table, reader, MOST_HASH)
    chosen = np.argpartition(drawn.hashes, wanted - 1)[:wanted]
    chosen = chosen[np.argsort(drawn.numbers[chosen])]
    return Sample(drawn.X[chosen], drawn.class_index[chosen], columns.is_missing, columns.farthest)


def _draw(table: BlockedTable, reader: RowReader, bound: int) -> DrawnRows:
    drawn = table.map(_draw_from, reader, bound, name="hardwood-sample")
    rows: DrawnRows = table.run.result(merge_all(table.run, join_drawn, drawn, name="hardwood-join-sample"))
    return rows


def _draw_from(parts: list[Part], reader: RowReader, bound: int) -> DrawnRows:
    return reader.draw(parts, bound)
