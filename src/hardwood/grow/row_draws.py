"""Rows that are drawn by hashes of their numbers: whoever has some of the rows finds his share of those drawn."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardwood.rows.sampling import hash_rows

# Where rows are, in a table that is cut into pieces: (number of the first row, how many there are) each.
Pieces = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class DrawnRows:
    """Rows whose hashes, as shares of the largest, lie between bounds; other seeds and numbers have other hashes."""

    seed: int
    number: int
    low: float
    high: float

    def find(self, pieces: Pieces) -> np.ndarray:
        """Say of every row of some pieces whether it is drawn."""
        key = np.random.SeedSequence((self.seed, self.number)).generate_state(1, np.uint64)[0]
        low, high = (int(share * 2.0**64) for share in (self.low, self.high))
        found = [np.zeros(0, dtype=bool)]
        for first, n_rows in pieces:
            hashes = _hash_again(hash_rows(first, first + n_rows) ^ key)
            is_drawn = hashes >= np.uint64(low)
            found.append(is_drawn if high >= 2**64 else is_drawn & (hashes < np.uint64(high)))
        return np.concatenate(found)


@dataclass(frozen=True)
class ListedRows:
    """Rows whose numbers are written down."""

    numbers: np.ndarray

    def find(self, pieces: Pieces) -> np.ndarray:
        """Say of every row of some pieces whether it is one of them."""
        found = [np.zeros(0, dtype=bool)]
        for first, n_rows in pieces:
            mine = self.numbers[(self.numbers >= first) & (self.numbers < first + n_rows)]
            found.append(np.zeros(n_rows, dtype=bool))
            found[-1][mine - first] = True
        return np.concatenate(found)


# The rows that a booster does not learn from.
Fold = DrawnRows | ListedRows


def _hash_again(hashes: np.ndarray) -> np.ndarray:
    """Return other hashes, all different: the last two steps of splitmix64."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    hashes ^= hashes >> np.uint64(31)
    return hashes
