"""What the command line says, and how it says that something went wrong."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from hardwood.quoting import shorten

Result = TypeVar("Result")

console = Console(highlight=False, emoji=False)
error_console = Console(stderr=True, highlight=False, emoji=False)

# Where no bar can be drawn, such as in a log.
_SECONDS_BETWEEN_LINES = 10.0
_LONGEST = 2000  # characters of a sentence: a screen
LOADING = "Loading hardwood's kernels..."


class CommandError(Exception):
    """One sentence for the user: what is wrong, where, and what would be right. Several, if several things are."""

    def __init__(self, *sentences: str) -> None:
        super().__init__(*sentences)
        self.sentences = sentences


def say_error(sentence: object) -> None:
    """Print one line on stderr, whatever line breaks the sentence came with."""
    print("hardwood:", *shorten(" ".join(str(sentence).split()), _LONGEST).split(), file=sys.stderr, flush=True)


class LibraryNotices(logging.Handler):
    """Says what the library logs, such as what is being compiled: a line on stderr, above whatever is shown there."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message of a record."""
        error_console.print(Text(record.getMessage()), soft_wrap=True)


@contextmanager
def explaining(task: str) -> Iterator[None]:
    """Turn the library's complaints about what the user gave into a `CommandError`."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"cannot {shorten(task)}: {error.strerror or error}") from error
    except (ValueError, TypeError, ImportError) as error:
        raise CommandError(f"cannot {shorten(task)}: {error}") from error
    except MemoryError as error:
        raise CommandError(f"cannot {task}: not enough memory") from error


def run_with_notice(work: Callable[[], Result], notice: str, *, patience: float = 0.7) -> Result:
    """Run `work`, showing `notice` if it takes longer than `patience` seconds.

    The work is done in a thread; see `run_beside`.
    """
    outcome = _start(work)
    if not wait([outcome], timeout=patience).done:
        with _shown(notice):
            return _await(outcome)
    return outcome.result()


def run_beside(work: Callable[[], Result]) -> Result:
    """Run `work` in a thread, and wait for it in this one.

    Compiled code does not look for signals, so in the main thread Ctrl-C would have no effect before it returns.
    """
    return _await(_start(work))


def _start(work: Callable[[], Result]) -> Future[Result]:
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # it is raised again in the thread that waits
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome


def _await(outcome: Future[Result]) -> Result:
    while not outcome.done():
        wait([outcome], timeout=0.2)  # a wait without end ignores Ctrl-C on Windows
    return outcome.result()


@contextmanager
def _shown(notice: str) -> Iterator[None]:
    if error_console.is_terminal:
        with error_console.status(Text(notice)):
            yield
    else:
        print(notice, file=sys.stderr, flush=True)
        yield


class ProgressLines:
    """How far some work is, in words: part after part, each with a clock of its own.

    A part begins where the count of steps starts over. How long it will take is only said once a twentieth of it is
    done: what comes before, such as the first of a thousand rows, says nothing of the rest.
    """

    def __init__(self, *notices: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._notices, self._clock = notices, clock
        self._part, self._done, self._total = -1, 0, 0
        self._began = self._first = 0.0

    @property
    def notice(self) -> str:
        """What is being done; the last notice stands for all further parts."""
        return self._name(self._part)

    @property
    def following(self) -> str:
        """What is done once this part is."""
        return self._name(self._part + 1)

    def _name(self, part: int) -> str:
        return self._notices[min(max(part, 0), len(self._notices) - 1)]

    def begins_part(self, done: int, total: int) -> bool:
        """Take down how far it is, and say whether that is in another part than before."""
        is_new = self._part < 0 or done < self._done or total != self._total
        if is_new:
            self._part += 1
            self._began, self._first = self._clock(), done
        self._done, self._total = done, total
        return is_new

    def describe(self) -> str:
        """Return a line for people."""
        if not self._total:
            return f"{self.notice} {self._done:,} so far"
        share = self._done / self._total
        gained = self._done - self._first
        if gained < 0.05 * self._total:
            return f"{self.notice} {share:.0%} done"
        left = (self._clock() - self._began) * (self._total - self._done) / gained
        return f"{self.notice} {share:.0%} done, about {left:.0f} s left"


@contextmanager
def showing_progress(*notices: str, patience: float = 0.7) -> Iterator[Callable[[int, int], None]]:
    """Show how far some work in the main thread is, and how long it will take: call with (steps done, steps in all).

    There is a notice for each part of the work; a part begins where the count of steps starts over.
    """
    lines = ProgressLines(*notices)
    if error_console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        with Progress(*columns, console=error_console, transient=True) as bar:
            task = bar.add_task(escape(lines.notice), total=None)

            def move(done: int, total: int) -> None:
                if lines.begins_part(done, total):
                    bar.reset(task, total=total or None, description=escape(lines.notice))
                bar.update(task, completed=done)
                if 0 < total <= done:  # nobody knows how long it takes until the next part counts its steps
                    bar.reset(task, total=None, description=escape(lines.following))

            yield move
        return
    due = time.monotonic() + patience

    def say(done: int, total: int) -> None:
        nonlocal due
        lines.begins_part(done, total)
        now = time.monotonic()
        if now >= due and done > 0 and not 0 < total <= done:
            print(lines.describe(), file=sys.stderr, flush=True)
            due = now + _SECONDS_BETWEEN_LINES

    yield say
