"""What rows can become in features that can be asked in several ways: missing values, categories that change.

A cut of the search is a test with two sides, and a row gets to a side or not. Two tests of one number may be looked at
independently: an interval that meets two sides meets what they have in common. A value that may be either a number or
missing is no interval, and categories are no order: what a row can still become depends on the tests above. So each
such feature has `Choices`, what every row can become, which are narrowed down on the way, and columns of cuts made of
them: one per set of categories, or one per side that missing values go to.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np


class Column(NamedTuple):
    """What the cuts of one column stand for: thresholds, or a single set of categories that go left."""

    feature: int
    threshold: np.ndarray
    left_set: np.ndarray | None
    missing_left: bool = False

    @property
    def n_cuts(self) -> int:
        """How many cuts there are."""
        return len(self.threshold) if self.left_set is None else 1

    @property
    def goes_left(self) -> np.ndarray:
        """Which categories go left."""
        assert self.left_set is not None
        return self.left_set


@dataclass(frozen=True)
class Categories:
    """The categories that each row can be given; a missing value is the last, if some are."""

    codes: np.ndarray  # bool (row, category)

    def can_change(self) -> bool:
        """Say whether some row can be given several."""
        return bool((self.codes.sum(axis=1) > 1).any())

    def select(self, rows: np.ndarray) -> "Categories":
        """Return some of the rows."""
        return Categories(self.codes[rows])

    def encode(self, column: Column) -> tuple[np.ndarray, np.ndarray]:
        """Return the first cut of a column that each row can be left of, and how many it can be right of."""
        gets_left = (self.codes & column.goes_left).any(axis=1)
        gets_right = (self.codes & ~column.goes_left).any(axis=1)
        return (~gets_left).astype(np.uint16), gets_right.astype(np.uint16)

    def enter(self, column: Column, cut: int, *, is_left: bool) -> "Categories":
        """Return what can be given on one side of a cut."""
        del cut  # there is one
        return Categories(self.codes & (column.goes_left if is_left else ~column.goes_left))

    def measure_change(self, _weight: np.ndarray, size: int) -> np.ndarray:
        """Return the weight of rows that change from cut to cut besides those whose codes do: none."""
        return np.zeros(size)


@dataclass(frozen=True)
class Numbers:
    """The interval of numbers that each row can be given, as cuts, and whether that is so and the value can miss."""

    low: np.ndarray
    high: np.ndarray
    is_number: np.ndarray  # bool per row
    is_missing: np.ndarray

    def can_change(self) -> bool:
        """Say whether a value can be either a number or missing."""
        return bool((self.is_number & self.is_missing).any())

    def select(self, rows: np.ndarray) -> "Numbers":
        """Return some of the rows."""
        return Numbers(self.low[rows], self.high[rows], self.is_number[rows], self.is_missing[rows])

    def encode(self, column: Column) -> tuple[np.ndarray, np.ndarray]:
        """Return the first cut of a column that each row can be left of, and how many it can be right of."""
        n_cuts = column.n_cuts
        low, high = np.where(self.is_number, self.low, n_cuts), np.where(self.is_number, self.high, 0)
        if column.missing_left:
            low = np.where(self.is_missing, 0, low)
        else:
            high = np.where(self.is_missing, n_cuts, high)
        return low.astype(np.uint16), high.astype(np.uint16)

    def enter(self, column: Column, cut: int, *, is_left: bool) -> "Numbers":
        """Return what can be given on one side of a cut."""
        passes = self.low <= cut if is_left else cut < self.high
        goes_on = self.is_missing & (column.missing_left == is_left)
        return replace(self, is_number=self.is_number & passes, is_missing=goes_on)

    def measure_change(self, weight: np.ndarray, size: int) -> np.ndarray:
        """Return the weight of rows whose numbers change sides from cut to cut, while what is missing does not."""
        both = self.is_number & self.is_missing
        low, high = (np.bincount(code[both], weight[both], minlength=size) for code in (self.low, self.high))
        return np.asarray(low + high)


Choices = Categories | Numbers


@dataclass(frozen=True)
class Link:
    """The columns of all features, and the choices of those that can be asked in several ways."""

    columns: list[Column]
    choices: dict[int, Choices]  # by feature

    def select(self, rows: np.ndarray) -> "Link":
        """Return some of the rows."""
        return Link(self.columns, {feature: choices.select(rows) for feature, choices in self.choices.items()})

    def enter(
        self, low: np.ndarray, high: np.ndarray, at: int, cut: int, *, is_left: bool
    ) -> tuple[np.ndarray, np.ndarray, "Link"]:
        """Return the codes of all columns on one side of a cut of a column, and what is left of the choices."""
        feature = self.columns[at].feature
        left_over = self.choices[feature].enter(self.columns[at], cut, is_left=is_left)
        low, high = low.copy(), high.copy()
        for k, column in enumerate(self.columns):
            if column.feature == feature:
                low[k], high[k] = left_over.encode(column)
        return low, high, Link(self.columns, self.choices | {feature: left_over})
