"""Rows drawn with replacement, the same however the table is cut.

Rows are cut into stretches by their numbers. How many draws fall into each stretch is drawn first, then each stretch
draws its own: whoever has some rows of a table need not draw for the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

# Rows of a stretch. A table of one stretch draws all at once.
STRETCH_ROWS = 1 << 16


@dataclass(frozen=True)
class Draw:
    """Rows drawn for one tree."""

    seed: int
    n_rows: int  # of the table
    n_drawn: int

    def draw_all(self) -> np.ndarray:
        """Return the numbers of the rows that are drawn, sorted, with repetitions."""
        return self.draw_pieces([(0, self.n_rows)])

    def draw_pieces(self, pieces: Sequence[tuple[int, int]]) -> np.ndarray:
        """Return those of some pieces of the table, each its first row and how many it has, counted in the pieces."""
        starts = np.arange(0, self.n_rows, STRETCH_ROWS)
        sizes = np.diff(np.append(starts, self.n_rows))
        n_drawn = np.array([self.n_drawn])
        if len(sizes) > 1:
            n_drawn = np.random.RandomState(self.seed).multinomial(self.n_drawn, sizes / self.n_rows)
        drawn: dict[int, np.ndarray] = {}  # by stretch
        parts, before = [np.empty(0, dtype=np.int64)], 0
        for first, n_rows in pieces:
            for stretch in range(first // STRETCH_ROWS, -(-(first + n_rows) // STRETCH_ROWS)):
                if stretch not in drawn:
                    seed = self.seed if len(sizes) == 1 else (self.seed, stretch)
                    own = np.random.RandomState(seed).randint(sizes[stretch], size=n_drawn[stretch])
                    drawn[stretch] = starts[stretch] + np.sort(own)
                begin, end = np.searchsorted(drawn[stretch], (first, first + n_rows))
                parts.append(drawn[stretch][begin:end] - first + before)
            before += n_rows
        return np.concatenate(parts)
