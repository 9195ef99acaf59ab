"""Growing over blocks of rows, on this machine or on many: whoever grows sees counts, never rows.

A table is cut into blocks. A grower is a generator of steps. Every block does the step, with what earlier steps have
left there, its state; what all blocks have counted is merged, and the grower is sent it::

    grower  --- step --->  every block:  step.do(block, state) -> (new state, counts)
            <-- counts --  merged over the blocks

To do a step is a pure function: it writes to nothing that it is handed, so that it can be done again where a machine is
lost. Counts are integers, or are merged by what depends on no order either (a maximum): a model does not depend on how
the rows are cut. Where blocks are and who adds up is the business of a `Run`.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

# How many counts one task merges. A task costs milliseconds, however little it does.
FAN = 8

Counts = tuple[np.ndarray, ...]
# What a block has done: its states and what it has counted, by the number of the grower.
Done = tuple[dict[int, Any], dict[int, Counts]]


class Step:
    """Something that every block does. It travels to all of them, so it holds what they need and no more."""

    name: ClassVar[str]  # of its tasks, for whoever watches them

    def do(self, block: Any, state: Any) -> tuple[Any, Counts]:
        """Return the new state of a block, and what it has counted; the state is None at first."""
        raise NotImplementedError

    @staticmethod
    def merge(counts: Counts, others: Counts) -> Counts:
        """Return what two parts of the table have counted together."""
        return tuple(mine + theirs for mine, theirs in zip(counts, others, strict=True))


Grower = Generator[Step, Counts, Any]


class Run(Protocol):
    """Where tasks are run: all that growing over blocks knows of it."""

    def submit(self, function: Callable[..., Any], *arguments: Any, name: str) -> Any:
        """Have a pure function called and return a handle; arguments, and what lists hold, may be handles, too."""

    def result(self, handle: Any) -> Any:
        """Wait for what a handle stands for, and return it."""


class LocalRun:
    """Runs tasks at once, in this process."""

    def submit(self, function: Callable[..., Any], *arguments: Any, name: str) -> Any:
        """Call the function."""
        return function(*arguments)

    def result(self, handle: Any) -> Any:
        """Return what was handed in: a handle is the result."""
        return handle


def grow_over(run: Run, blocks: Sequence[Any], growers: Sequence[Grower]) -> list[Any]:
    """Let growers grow side by side, each from all blocks, and return what each of them returns.

    blocks : handles of the run
    """
    results: list[Any] = [None] * len(growers)
    counts: dict[int, Any] = dict.fromkeys(range(len(growers)))  # of those that still grow
    done: list[Any] = [None] * len(blocks)  # what each block did last
    while True:
        steps = advance(growers, counts, results)
        if not steps:
            return results
        name = f"hardwood-{next(iter(steps.values())).name}"
        done = [run.submit(_do, steps, *pair, name=name) for pair in zip(blocks, done, strict=True)]
        counted_by_block = [run.submit(_get_counts, each, name="hardwood-counts") for each in done]
        merge = _MergeCounts({number: type(step) for number, step in steps.items()})
        counts = run.result(merge_all(run, merge, counted_by_block, name="hardwood-add-up"))


def advance(growers: Sequence[Generator[Any, Any, Any]], counts: dict[int, Any], results: list[Any]) -> dict[int, Any]:
    """Send growers what was counted for them, None at first, and return what each of them wants next.

    Those that have finished want nothing; what they return is put among the results.
    """
    wanted: dict[int, Any] = {}
    for number, counted in counts.items():
        try:
            wanted[number] = growers[number].send(counted)
        except StopIteration as finished:
            results[number] = finished.value
    return wanted


def merge_all(run: Run, merge: Callable[[list[Any]], Any], handles: Sequence[Any], name: str) -> Any:
    """Merge what handles stand for, some at a time, and return the handle of what comes out."""
    while len(handles) > 1:
        groups = [list(handles[first : first + FAN]) for first in range(0, len(handles), FAN)]
        handles = [group[0] if len(group) == 1 else run.submit(merge, group, name=name) for group in groups]
    return handles[0]


def _do(steps: dict[int, Step], block: Any, before: Done | None) -> Done:
    """Do the steps of all growers on one block."""
    states = {} if before is None else before[0]
    done = {number: step.do(block, states.get(number)) for number, step in steps.items()}
    return {number: each[0] for number, each in done.items()}, {number: each[1] for number, each in done.items()}


def _get_counts(done: Done) -> dict[int, Counts]:
    return done[1]


class _MergeCounts:
    """Merges what blocks have counted, grower by grower."""

    def __init__(self, kinds: dict[int, type[Step]]) -> None:
        self._kinds = kinds

    def __call__(self, parts: list[dict[int, Counts]]) -> dict[int, Counts]:
        merged = dict(parts[0])
        for part in parts[1:]:
            for number, kind in self._kinds.items():
                merged[number] = kind.merge(merged[number], part[number])
        return merged
