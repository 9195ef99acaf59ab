"""The sample behind the thresholds, drawn while rows come in and nobody knows how many there will be."""

import numpy as np

from hardwood.grow.bins import SAMPLE_ROWS, hash_rows


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
