"""The partitions of a table on a cluster: a source of rows whose every step is a task where the rows are.

Partitions are computed once. Those that are on one worker become its blocks, one per thread, because a task costs
milliseconds however little it does. A block is read once (`look`) and kept encoded in the memory of the cluster until
its rows are coded; what is known of all rows is merged, and the sample behind the thresholds is drawn. Only the sample
reaches the client, some 50,000 rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from hardwood.dask.run import DaskRun
from hardwood.dask.tables import delay_parts
from hardwood.grow.blocks import merge_all
from hardwood.rows.parts import Part, ReadRows, finish_rows, place_categories, read_part, say_where
from hardwood.rows.refusals import refuse_measured, refuse_parameters
from hardwood.rows.request import Request
from hardwood.rows.sampling import SAMPLE_ROWS, Sample, hash_rows
from hardwood.rows.summary import PartSummary, Summary, summarize_part
from hardwood.rows.task import Task
from hardwood.table import Schema
from hardwood.threat import ThreatModel

# Codes rows: a task with their targets and weights, the rows, and where in the table they are.
Coder = Callable[[Task, list[np.ndarray], tuple[tuple[int, int], ...]], Any]

MOST_HASH = int(np.iinfo(np.uint64).max)


class ReadPart(NamedTuple):
    """The rows of a partition, as they were read."""

    part: Part  # without its rows
    rows: ReadRows


class Found(NamedTuple):
    """What is known of some partitions."""

    first: int  # of the partitions
    seen: PartSummary
    n_kept: dict[int, int]  # how many rows of each partition weigh something

    def merge(self, other: "Found") -> "Found":
        """Return what is known of the partitions of both."""
        mine, theirs = (self, other) if self.first < other.first else (other, self)
        return Found(mine.first, mine.seen.merge(theirs.seen), mine.n_kept | theirs.n_kept)


class PartitionSource:
    """A table whose partitions are on the workers of a cluster; see `hardwood.rows.sources.Source`."""

    def __init__(self, run: DaskRun, estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
        refuse_parameters(estimator)
        refuse_measured(ThreatModel.coerce(estimator.threat))
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        self._run = run
        handles = run.compute(delay_parts(X, y, sample_weight))
        run.wait(handles)
        where = run.client.who_has(handles)
        homes = [next(iter(where.get(handle.key, ())), None) for handle in handles]
        groups = group_parts(homes, run.client.nthreads())
        self._blocks: list[Any] = [[handles[number] for number in group] for group in groups]
        self._n_parts = len(handles)
        self._found: Found

    @property
    def n_kept(self) -> np.ndarray:
        """How many rows of each class weigh something; of all where there are no classes."""
        return self._found.seen.targets.n_kept

    def look(self, request: Request) -> Summary:
        """Read all partitions, and say what has to be known of them; see `Source`."""
        looked = self._map(_look, replace(request, is_narrow=True), name="hardwood-find")
        known = [self._run.submit(_take_found, block, name="hardwood-found") for block in looked]
        self._blocks = [self._run.submit(_take_rows, block, name="hardwood-rows") for block in looked]
        merged = merge_all(self._run, _merge_found, known, name="hardwood-merge-findings")
        found: Found | None = self._run.result(merged)
        if found is None:
            raise ValueError("X has no rows")
        self._found = found
        return found.seen.sum_up()

    def settle(self, threat: ThreatModel, schema: Schema) -> ThreatModel:
        """Settle a threat that leaves nothing to values; rows are checked where they are coded."""
        return self._found.seen.columns.settle(threat, schema)

    def bring(self, task: Task) -> Task:
        """Return the task as it is: no row is here."""
        return task

    def draw_sample(self, task: Task) -> Sample:
        """Draw the rows with the smallest hashes of their numbers: those that `draw_rows` draws from a table in memory.

        Hashes are as good as uniform, so a bound is known below which there are a few more than are wanted.
        """
        n_rows, columns = int(self.n_kept.sum()), self._found.seen.columns
        wanted = min(n_rows, SAMPLE_ROWS)
        expected = wanted + 6.0 * np.sqrt(wanted)  # six standard deviations more
        bound = MOST_HASH if n_rows <= SAMPLE_ROWS else min(MOST_HASH, int(expected / n_rows * MOST_HASH))
        drawn = self._draw(task, bound)
        if len(drawn.hashes) < wanted:
            drawn = self._draw(task, MOST_HASH)
        chosen = np.argpartition(drawn.hashes, wanted - 1)[:wanted]
        chosen = chosen[np.argsort(drawn.numbers[chosen])]
        return Sample(drawn.X[chosen], drawn.class_index[chosen], columns.is_missing, columns.farthest)

    def code(self, task: Task, code: Coder) -> list[Any]:
        """Have the rows of every block coded, and return the handles of what comes out."""
        return self._map(_code, task, self._number_rows(), code, name="hardwood-code")

    def _draw(self, task: Task, bound: int) -> "DrawnRows":
        drawn = self._map(_draw, task, self._number_rows(), bound, name="hardwood-sample")
        rows: DrawnRows = self._run.result(merge_all(self._run, join_drawn, drawn, name="hardwood-join-sample"))
        return rows

    def _number_rows(self) -> dict[int, int]:
        """Return, by partition, the number of its first row among all rows that weigh something."""
        sizes = [self._found.n_kept.get(part, 0) for part in range(self._n_parts)]
        return dict(enumerate(accumulate(sizes[:-1], initial=0)))

    def _map(self, function: Callable[..., Any], *arguments: Any, name: str) -> list[Any]:
        """Submit a task per block, which is handed the block, and return the handles."""
        # What all tasks need is a task's result, too: it travels once, however many blocks there are.
        shared = self._run.submit(_hand_on, arguments, name="hardwood-tell")
        return [self._run.submit(_call, function, block, shared, name=name) for block in self._blocks]


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


def _hand_on(arguments: Any) -> Any:
    return arguments


def _call(function: Callable[..., Any], block: Any, arguments: tuple[Any, ...]) -> Any:
    return function(block, *arguments)


def _look(parts: list[Part], request: Request) -> tuple[Found | None, list[ReadPart]]:
    """Read the partitions of a block, and say what they are; None: they have no rows."""
    found: Found | None = None
    read: list[ReadPart] = []
    for part in parts:
        if not part.X.shape[0]:
            continue
        with say_where(part):
            rows = read_part(part, request)
            seen = summarize_part(part, rows)
            own = Found(part.number, seen, {part.number: int(seen.targets.n_kept.sum())})
            found = own if found is None else found.merge(own)
        read.append(ReadPart(part._replace(X=None, y=None, sample_weight=None), rows))
    return found, read


def _take_found(looked: tuple[Found | None, list[ReadPart]]) -> Found | None:
    return looked[0]


def _take_rows(looked: tuple[Found | None, list[ReadPart]]) -> list[ReadPart]:
    return looked[1]


def _merge_found(parts: list[Found | None]) -> Found | None:
    """Merge what is known of some blocks; None: they have no rows."""
    merged: Found | None = None
    for part in parts:
        merged = part if merged is None else merged if part is None else merged.merge(part)
    return merged


def _code(block: list[ReadPart], task: Task, starts: dict[int, int], code: Coder) -> Any:
    """Code the rows of a block, once they are found to be what the threat says exists."""
    rows, pieces = [], []
    for part, read in block:
        read = read._replace(X=place_categories(read.X, read.schema, task.schema), schema=task.schema)
        with say_where(part):
            task.threat.settle(read.X, read.X, task.schema)  # checks the rows
        rows.append(finish_rows(read, task))
        pieces.append((starts[part.number], len(rows[-1].X)))
    target = np.concatenate([task.target, *(each.target for each in rows)])
    weight = None
    if task.sample_weight is not None:
        weight = np.concatenate([task.sample_weight, *(each.sample_weight for each in rows)])
    own = replace(task, target=target, sample_weight=weight)
    return code(own, [each.X for each in rows if len(each.X)], tuple(pieces))


class DrawnRows(NamedTuple):
    """Rows that may be of the sample behind the thresholds."""

    hashes: np.ndarray
    numbers: np.ndarray
    X: np.ndarray  # float64
    class_index: np.ndarray  # zeros where the target is numbers


def join_drawn(parts: list[DrawnRows]) -> DrawnRows:
    """Return the rows of all parts."""
    return DrawnRows(*map(np.concatenate, zip(*parts, strict=True)))


def _draw(block: list[ReadPart], task: Task, starts: dict[int, int], bound: int) -> DrawnRows:
    """Return the rows of a block whose numbers have hashes up to a bound."""
    none = np.zeros((0, task.schema.n_features))
    drawn = [DrawnRows(np.zeros(0, np.uint64), np.zeros(0, np.int64), none, np.zeros(0, np.uint8))]
    for part, read in block:
        rows, start = np.arange(len(read.X)) if read.kept is None else np.flatnonzero(read.kept), starts[part.number]
        hashes = hash_rows(start, start + len(rows))
        near = np.flatnonzero(hashes <= np.uint64(bound))
        own = finish_rows(read.choose(rows[near]), task)
        X = own.X.astype(np.float64, copy=False)
        drawn.append(DrawnRows(hashes[near], near + start, X, replace(task, target=own.target).class_index))
    return join_drawn(drawn)
