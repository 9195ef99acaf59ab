"""A one-hot group as arrays: 0/1 columns of which one is 1, and which of them an attacker can set instead."""

from typing import NamedTuple

import numpy as np


class GroupReach(NamedTuple):
    """What an attacker may do to the columns of one group.

    Code ``k`` of a row says that its column ``columns[k]`` is 1 and the others are 0. Where a row may have none that is
    1, that is the code after the last column.
    """

    columns: np.ndarray  # positions in the table
    allowed: np.ndarray  # bool (code, code): [a, b] says that a may become b; the diagonal is true

    @property
    def n_codes(self) -> int:
        """How many states the group has."""
        return len(self.allowed)

    def read_codes(self, matrix: np.ndarray) -> np.ndarray:
        """Return the code of every row; -1 where its values are none of the group's states, or missing."""
        part = matrix[:, self.columns]
        is_set = part == 1.0
        n_set = is_set.sum(axis=1)
        none_set = len(self.columns) if self.n_codes > len(self.columns) else -1
        code = np.where(n_set == 0, none_set, is_set.argmax(axis=1))
        return np.where((is_set | (part == 0.0)).all(axis=1) & (n_set <= 1), code, -1)

    def write_codes(self, matrix: np.ndarray, codes: np.ndarray) -> None:
        """Give the rows of a matrix other states."""
        matrix[:, self.columns] = codes[:, None] == np.arange(len(self.columns))

    def list_open(self, codes: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Say of each row which states it can be given: (row, code). `moves` says which rows can be moved at all."""
        return np.where(moves[:, None], self.allowed[codes], np.eye(self.n_codes, dtype=bool)[codes])

    def contains(self, X: np.ndarray, X_adv: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Say of each row whether its state can be turned into that of the same row of `X_adv`."""
        before, after = self.read_codes(X), self.read_codes(X_adv)
        inside = self.list_open(before, moves)[np.arange(len(X)), after]
        return np.asarray(inside & (before >= 0) & (after >= 0))

    def bound(self) -> tuple[np.ndarray, np.ndarray]:
        """Return how far each column can be moved down and up, whatever the row: 1 or 0."""
        changes = (self.allowed & ~np.eye(self.n_codes, dtype=bool)).astype(np.float64)
        n_columns = len(self.columns)
        return changes[:n_columns].max(axis=1), changes[:, :n_columns].max(axis=0)

    def round_off(self, points: np.ndarray, X: np.ndarray, moves: np.ndarray) -> None:
        """Give points whose columns are anywhere between 0 and 1 a state that their rows can be given: the nearest."""
        part = points[:, self.columns]
        share = np.column_stack([part, 1.0 - part.sum(axis=1)])[:, : self.n_codes]
        is_open = self.list_open(self.read_codes(X), moves)
        self.write_codes(points, np.where(is_open, share, -np.inf).argmax(axis=1))
