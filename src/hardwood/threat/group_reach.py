"""One-hot groups as arrays: 0/1 columns of which one is 1, and which of them an attacker can set instead."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np


@dataclass(frozen=True, eq=False)
class GroupReach:
    """What an attacker may do to the one-hot groups of a table.

    Code ``k`` of a row in a group says that the group's column ``k`` is 1 and its others are 0. Where a row may have
    none that is 1, that is the code after the last column.

    Parameters
    ----------
    columns : tuple of ndarray
        Per group, the positions of its columns in the table.
    allowed : tuple of ndarray
        Per group, a bool matrix (code, code): ``[a, b]`` says that ``a`` may become ``b``. The diagonal is true.
    """

    columns: tuple[np.ndarray, ...]
    allowed: tuple[np.ndarray, ...]

    @property
    def n_codes(self) -> list[int]:
        """How many states each group has."""
        return [len(allowed) for allowed in self.allowed]

    @cached_property
    def grouped(self) -> np.ndarray:
        """The columns of all groups, one group after the other."""
        return np.concatenate(self.columns)

    @cached_property
    def _start(self) -> np.ndarray:
        """Where each group starts in `grouped`."""
        sizes = np.array([len(columns) for columns in self.columns])
        return np.cumsum(sizes) - sizes

    @cached_property
    def _group(self) -> np.ndarray:
        """The group of each of these columns."""
        return np.repeat(np.arange(len(self.columns)), [len(columns) for columns in self.columns])

    @cached_property
    def _rank(self) -> np.ndarray:
        """The code that each of these columns stands for."""
        return np.concatenate([np.arange(len(columns)) for columns in self.columns])

    @cached_property
    def _sums(self) -> np.ndarray:
        """What the columns are multiplied with for how many of each group are 1, and for the sum of their codes."""
        belongs = self._group[:, None] == np.arange(len(self.columns))
        return np.hstack([belongs, belongs * self._rank[:, None]]).astype(np.float64)

    @cached_property
    def _none_set(self) -> np.ndarray:
        """The code of no column of each group being 1; -1 if there is none."""
        pairs = zip(self.columns, self.allowed, strict=True)
        return np.array([len(columns) if len(allowed) > len(columns) else -1 for columns, allowed in pairs])

    @cached_property
    def first(self) -> np.ndarray:
        """The first column of every group, which stands for the group where one column has to."""
        return self.grouped[self._start]

    def fix(self, can_change: np.ndarray) -> "GroupReach":
        """Return the groups, with nothing that the attacker can do to those that cannot be changed."""
        pairs = zip(self.allowed, can_change.tolist(), strict=True)
        return replace(self, allowed=tuple(a if change else np.eye(len(a), dtype=bool) for a, change in pairs))

    def count_once(self, change: np.ndarray) -> None:
        """Make one change of the changes of each group's columns: by 1, and of its first column."""
        changed = np.logical_or.reduceat(change[:, self.grouped] != 0.0, self._start, axis=1)
        change[:, self.grouped] = 0.0
        change[:, self.first] = changed

    def read_codes(self, matrix: np.ndarray) -> np.ndarray:
        """Return the code of every row in every group; -1 where its values are none of the group's states."""
        part = matrix[:, self.grouped]
        other = part * part != part  # neither 0 nor 1
        if other.any():
            part = np.where(other, 2.0, part)  # one such value, and the group has more than one set
        sums = (part @ self._sums).astype(np.intp)
        n_set, codes = sums[:, : len(self.columns)], sums[:, len(self.columns) :]
        if (n_set != 1).any():
            codes = np.where(n_set == 1, codes, np.where(n_set == 0, self._none_set, -1))
        return codes

    def write_codes(self, matrix: np.ndarray, codes: np.ndarray) -> None:
        """Give the rows of a matrix these states; a code that is NaN makes the columns of its group NaN."""
        spread = codes[:, self._group]
        matrix[:, self.grouped] = np.where(np.isnan(spread), np.nan, spread == self._rank)

    def contains(self, X: np.ndarray, X_adv: np.ndarray, moves: np.ndarray) -> np.ndarray:
        """Say of each row whether its states can be turned into those of the same row of `X_adv`.

        moves : which rows can be moved at all.
        """
        codes = self.read_codes(np.concatenate([X, X_adv]))
        before, after = codes[: len(X)], codes[len(X) :]
        inside = (before == after) & (before >= 0)
        for k in np.flatnonzero(~inside.all(axis=0)).tolist():
            changed = self.allowed[k][before[:, k], after[:, k]] & moves
            inside[:, k] |= changed & (before[:, k] >= 0) & (after[:, k] >= 0)
        return np.asarray(inside.all(axis=1))

    def bound(self) -> tuple[np.ndarray, np.ndarray]:
        """Return how far each of the columns of `grouped` can be moved down and up, whatever the row: 1 or 0."""
        left, right = [], []
        for columns, allowed in zip(self.columns, self.allowed, strict=True):
            changes = (allowed & ~np.eye(len(allowed), dtype=bool)).astype(np.float64)
            left.append(changes[: len(columns)].max(axis=1))
            right.append(changes[:, : len(columns)].max(axis=0))
        return np.concatenate(left), np.concatenate(right)

    def round_off(self, points: np.ndarray, X: np.ndarray, moves: np.ndarray) -> None:
        """Give points whose columns are anywhere between 0 and 1 the nearest states that their rows can be given."""
        before = self.read_codes(X)
        after = np.empty(before.shape)
        for k, (columns, allowed) in enumerate(zip(self.columns, self.allowed, strict=True)):
            part = points[:, columns]
            share = np.column_stack([part, 1.0 - part.sum(axis=1)])[:, : len(allowed)]
            stay = np.eye(len(allowed), dtype=bool)[before[:, k]]
            is_open = np.where(moves[:, None], allowed[before[:, k]], stay)
            after[:, k] = np.where(is_open, share, -np.inf).argmax(axis=1)
        self.write_codes(points, after)

    def drop(self, columns: np.ndarray) -> "GroupReach | None":
        """Return the groups that have none of some columns; None if there is none."""
        chosen = [k for k, own in enumerate(self.columns) if not np.isin(own, columns).any()]
        if len(chosen) == len(self.columns):
            return self
        return (
            GroupReach(tuple(self.columns[k] for k in chosen), tuple(self.allowed[k] for k in chosen))
            if chosen
            else None
        )

    def open_states(self, row: np.ndarray) -> tuple[np.ndarray, list[bool]]:
        """Say of each column of `grouped` whether a row that moves can have it as 1; of each group, whether none is."""
        codes = self.read_codes(row[None])[0]
        states = [allowed[code] for allowed, code in zip(self.allowed, codes, strict=True)]
        can_be_set = [state[: len(columns)] for state, columns in zip(states, self.columns, strict=True)]
        can_be_none = [len(s) > len(columns) and bool(s[-1]) for s, columns in zip(states, self.columns, strict=True)]
        return np.concatenate(can_be_set), can_be_none

    def select(self, columns: np.ndarray) -> "GroupReach | None":
        """Return the groups all of whose columns are among some, by their positions there; None if there is none."""
        position = {int(column): k for k, column in enumerate(columns)}
        chosen = [k for k, own in enumerate(self.columns) if all(column in position for column in own.tolist())]
        if not chosen:
            return None
        moved = tuple(np.array([position[j] for j in self.columns[k].tolist()]) for k in chosen)
        return GroupReach(moved, tuple(self.allowed[k] for k in chosen))
