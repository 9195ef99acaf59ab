"""The sample of rows that thresholds are chosen from: those whose numbers have the smallest hashes.

So it is the same whether rows are in memory, come in batches, or are somewhere else.
"""

from typing import NamedTuple

import numpy as np

from hardwood.threat import Reach

# Rows whose ends the thresholds are chosen from. A quantile of theirs is off by 0.2 % of all rows (one standard
# deviation, in the middle), half of what a bin holds.
SAMPLE_ROWS = 50_000
# Rows that are coded at a time: both ends of ten features then fit in a core's cache.
BLOCK_ROWS = 4096


class Sample(NamedTuple):
    """The rows whose ends thresholds are chosen from, and what has to be known of all the others."""

    X: np.ndarray  # float64
    class_index: np.ndarray
    is_missing: np.ndarray  # bool per feature: whether a value of any row is
    farthest: np.ndarray  # float64 per feature: the largest absolute value of any row, where reach is a share of it


def take_sample(X: np.ndarray, class_index: np.ndarray, reach: Reach, max_bins: int | None) -> Sample:
    """Draw the rows of a table that thresholds are chosen from; all of them for a threshold between every two ends."""
    is_missing, farthest = np.zeros((2, X.shape[1]))
    for start in range(0, len(X), BLOCK_ROWS):
        rows = X[start : start + BLOCK_ROWS]
        block = np.isnan(rows)
        if block.any():
            is_missing += block.any(axis=0)
        if reach.share is not None:
            farthest = np.fmax.reduce(np.abs(rows), axis=0, initial=0.0).clip(min=farthest)
    rows = np.arange(len(X)) if max_bins is None else draw_rows(len(X), SAMPLE_ROWS)
    return Sample(X[rows].astype(np.float64, copy=False), class_index[rows], is_missing > 0.0, farthest)


def draw_rows(n_rows: int, size: int) -> np.ndarray:
    """Return the rows whose numbers have the smallest hashes: whoever has some of the rows can find his share."""
    if n_rows <= size:
        return np.arange(n_rows)
    return np.sort(np.argpartition(hash_rows(0, n_rows), size)[:size])


def hash_rows(first: int, last: int) -> np.ndarray:
    """Return the hashes of the numbers of rows, all different: uint64."""
    hashes = np.arange(first + 1, last + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # splitmix64
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    hashes ^= hashes >> np.uint64(31)
    return hashes


class RowSampler:
    """Keeps the rows whose numbers have the smallest hashes: those that `draw_rows` draws once all are there."""

    def __init__(self, size: int = SAMPLE_ROWS) -> None:
        self._size = size
        self._n_rows = 0
        self._bound = np.iinfo(np.uint64).max  # rows with larger hashes are out
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # hashes, numbers, rows

    def add(self, X: np.ndarray) -> None:
        """Look at the next rows."""
        hashes = hash_rows(self._n_rows, self._n_rows + len(X))
        near = np.flatnonzero(hashes <= self._bound)
        self._parts.append((hashes[near], near + self._n_rows, X[near]))
        self._n_rows += len(X)
        if sum(len(part[0]) for part in self._parts) > 2 * self._size:
            self._parts = [self._choose()]

    def _choose(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        hashes, numbers, X = map(np.concatenate, zip(*self._parts, strict=True))
        if len(hashes) <= self._size:
            return hashes, numbers, X
        chosen = np.sort(np.argpartition(hashes, self._size)[: self._size])
        self._bound = hashes[chosen].max()
        return hashes[chosen], numbers[chosen], X[chosen]

    def finish(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the rows that were drawn, sorted, and the rows."""
        _, numbers, X = self._choose()
        return numbers, X
