"""How long rows may take: a question has one clock, and whoever works on its rows asks that.

It stands still while kernels are compiled: a row that needs one for the first time has as much time as any other.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hardwood._kernels.compiling import count_compiling


class Clock:
    """The time that the rows of a question have, each its own, over all means together that are tried on it.

    A row's time runs while somebody works on the row. Clocks of some of the rows, and clocks with a share of their
    time, are views of one: time that runs on one of them runs on all.
    """

    def __init__(self, seconds: float, n_rows: int = 1) -> None:
        self._limit = np.full(n_rows, seconds)  # what is spent of a row's time is no more
        self.rows = np.arange(n_rows)  # the positions of these rows in the question, and in arrays that all views share
        self._spent = np.zeros(n_rows)
        self._since = np.full(n_rows, np.nan)  # when the work on a row began; NaN while there is none

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, rows: Any) -> "Clock":
        """Return the clock of some of the rows; a row may be there several times."""
        return self._view(self._limit[rows], self.rows[rows])

    def share(self, part: float) -> "Clock":
        """Return a clock that gives each row a part of the time that it has left."""
        if np.isinf(self._limit).all():
            return self
        since = self._since[self.rows]
        spent = self._spent[self.rows] + np.where(np.isnan(since), 0.0, _now() - since)
        return self._view(spent + part * np.maximum(self._limit - spent, 0.0), self.rows)

    def stop(self) -> "Clock":
        """Return a clock of the same rows without any time left."""
        return self._view(np.zeros(len(self)), self.rows)

    def _view(self, limit: np.ndarray, rows: np.ndarray) -> "Clock":
        view = object.__new__(Clock)
        view._limit, view.rows, view._spent, view._since = limit, rows, self._spent, self._since
        return view

    def left(self, row: int = 0) -> float:
        """Return how many seconds a row has left; 0 if its time is over."""
        limit, at = float(self._limit[row]), self.rows[row]
        if limit == np.inf:
            return limit
        since = float(self._since[at])
        running = 0.0 if since != since else _now() - since
        return max(limit - float(self._spent[at]) - running, 0.0)

    def is_over(self, row: int = 0) -> bool:
        """Say whether the time of a row is over."""
        return self.left(row) <= 0.0

    def begin(self, row: int = 0) -> bool:
        """Let a row's time run; whether it did not do so already, in which case somebody else ends it."""
        at = self.rows[row]
        is_first = bool(np.isnan(self._since[at]))
        if is_first:
            self._since[at] = _now()
        return is_first

    def end(self, row: int = 0) -> None:
        """Let a row's time stand still."""
        at = self.rows[row]
        self._spent[at] += _now() - self._since[at]
        self._since[at] = np.nan

    @contextmanager
    def run(self, row: int = 0) -> Iterator["Clock"]:
        """Let a row's time run while it is worked on; gives the clock of that row alone."""
        is_first = self.begin(row)
        try:
            yield self.select([row])
        finally:
            if is_first:
                self.end(row)


def _now() -> float:
    return time.monotonic() - count_compiling()
