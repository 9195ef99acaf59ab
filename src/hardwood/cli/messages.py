"""What the command line says, and how it says that something went wrong."""

from __future__ import annotations

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

from hardwood.warm import warm_up

Result = TypeVar("Result")

console = Console(highlight=False, emoji=False)
error_console = Console(stderr=True, highlight=False, emoji=False)

# Where no bar can be drawn, such as in a log.
_SECONDS_BETWEEN_LINES = 10.0
COMPILING = "Compiling hardwood's kernels (once per installation, some seconds)..."


class CommandError(Exception):
    """One sentence for the user: what is wrong, where, and what would be right."""


def say_error(sentence: object) -> None:
    """Print one line on stderr, whatever line breaks the sentence came with."""
    print("hardwood:", *str(sentence).split(), file=sys.stderr, flush=True)


@contextmanager
def explaining(task: str) -> Iterator[None]:
    """Turn the library's complaints about what the user gave into a `CommandError`."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"cannot {task}: {error.strerror or error}") from error
    except (ValueError, TypeError, ImportError) as error:
        raise CommandError(f"cannot {task}: {error}") from error
    except MemoryError as error:
        raise CommandError(f"cannot {task}: not enough memory") from error


def run_with_notice(work: Callable[[], Result], notice: str, *, patience: float = 0.7) -> Result:
    """Run `work`, showing `notice` if it takes longer than `patience` seconds.

    The work is done in a thread. Compiled code does not look for signals, so in the main thread
    Ctrl-C would have no effect before it returns.
    """
    outcome: Future[Result] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # it is raised again below, in the thread that waits
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    if not wait([outcome], timeout=patience).done:
        with _shown(notice):
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


@contextmanager
def showing_progress(notice: str, *, patience: float = 0.7) -> Iterator[Callable[[int, int], None]]:
    """Show how far some work in the main thread is, and how long it will take: call with (steps done, steps in all)."""
    if error_console.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        with Progress(*columns, console=error_console, transient=True) as bar:
            task = bar.add_task(escape(notice), total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
        return
    start = time.monotonic()
    due = start + patience

    def say(done: int, total: int) -> None:
        nonlocal due
        now = time.monotonic()
        if now >= due and 0 < done < total:
            left = (now - start) * (total - done) / done
            print(f"{notice} {done / total:.0%} done, about {left:.0f} s left", file=sys.stderr, flush=True)
            due = now + _SECONDS_BETWEEN_LINES

    yield say


def prepare_kernels() -> None:
    """Load the compiled kernels, and say so when they have to be compiled first."""
    run_with_notice(warm_up, COMPILING)
