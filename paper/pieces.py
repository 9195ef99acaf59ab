"""Pieces of work whose results are kept: what has been done is never done again, what has changed is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import sklearn

import hardwood
from paper.files import write_whole

Record = dict[str, Any]
Progress = Callable[[int, int], None]

_CELLS_BEFORE_THE_FIRST = 50_000  # that could be read while a piece gets started

# What is done with results leaves them as they are.
_SHOWING_IN_HARDWOOD = {"cli", "plot"}
_SHOWING_HERE = {"__main__.py", "comparison.py", "figures", "page.py", "page_studies.py", "ranks.py", "report.py"}


@dataclass(frozen=True)
class Piece:
    """A piece of work.

    Attributes
    ----------
    name : str
        What its result is kept by.
    settings : str
        What the result depends on. If it is not what it was, the piece is done again.
    work : callable
        Does it, and returns a record of numbers and texts.
    cells : int
        How many numbers its fits read, roughly: for the time left.
    is_alone : bool
        Whether nothing else should run meanwhile, because it measures time.
    """

    name: str
    settings: str
    work: Callable[[], Record]
    cells: int = 0
    is_alone: bool = False

    @property
    def effort(self) -> int:
        """How long it takes beside others, as cells."""
        return _CELLS_BEFORE_THE_FIRST + self.cells


class Results:
    """Results of pieces, kept in one JSON file that is whole at any time.

    Parameters
    ----------
    path : path
        The file; it need not exist.

    Raises
    ------
    ValueError
        If the file holds something else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._kept: dict[str, Record] = {}
        if not path.exists():
            return
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            for entry in kept.values():
                entry["settings"], entry["result"]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path} holds no results of this command: move it away, or choose another") from error
        self._kept = kept

    def find(self, piece: Piece) -> Record | None:
        """Return the result of a piece, if it is known and still holds."""
        entry = self._kept.get(piece.name)
        return entry["result"] if entry and entry["settings"] == _digest(piece.settings) else None

    def keep(self, piece: Piece, result: Record) -> None:
        """Keep a result, on disk before this returns."""
        self._kept[piece.name] = {"settings": _digest(piece.settings), "result": result}
        text = json.dumps(self._kept, indent=0)
        write_whole(self.path, lambda draft: draft.write_text(text, encoding="utf-8"))


def do_pieces(
    pieces: Sequence[Piece], results: Results, *, jobs: int = 1, progress: Progress | None = None
) -> list[Record]:
    """Do what has not been done, several pieces at a time, and return all results in order.

    On Ctrl-C, or if a piece fails, what is finished has been kept.
    """
    pending = [piece for piece in pieces if results.find(piece) is None]
    total = sum(piece.effort for piece in pending)
    done = 0
    together = [piece for piece in pending if not piece.is_alone]
    alone = [piece for piece in pending if piece.is_alone]
    for batch, threads in ((together, jobs), (alone, 1)):
        for piece, result in _do_batch(batch, threads):
            results.keep(piece, result)
            done += piece.effort
            if progress is not None:
                progress(done, total)
    found = [results.find(piece) for piece in pieces]
    return [record for record in found if record is not None]


def _do_batch(pieces: Sequence[Piece], threads: int) -> Iterable[tuple[Piece, Record]]:
    """Yield pieces with their results as they are finished. The threads share one core only where Python runs."""
    pool = ThreadPoolExecutor(threads)
    waiting: dict[Future[Record], Piece] = {pool.submit(piece.work): piece for piece in pieces}
    try:
        while waiting:
            # A wait without end ignores Ctrl-C on Windows.
            finished = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED).done
            # Failures last: what has been finished beside them is kept.
            for future in sorted(finished, key=lambda future: future.exception() is not None):
                yield waiting.pop(future), future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def describe_table(X: np.ndarray, y: np.ndarray) -> str:
    """Return a text that differs if the table does."""
    return f"{X.shape} {hashlib.sha256(X.tobytes() + y.tobytes()).hexdigest()}"


def _digest(settings: str) -> str:
    return hashlib.sha256(f"{_describe_software()} {settings}".encode()).hexdigest()[:16]


@cache
def _describe_software() -> str:
    """Return a text that differs if anything that makes a result does: a version, or the code itself."""
    code = hashlib.sha256()
    for folder, showing in ((hardwood.__file__, _SHOWING_IN_HARDWOOD), (__file__, _SHOWING_HERE)):
        home = Path(folder).parent
        for path in sorted(home.rglob("*.py")):
            if path.relative_to(home).parts[0] not in showing:
                code.update(path.read_bytes())
    return f"{hardwood.__version__} {sklearn.__version__} {code.hexdigest()}"
