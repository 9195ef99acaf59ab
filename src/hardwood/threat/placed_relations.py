"""Relations between the columns of one table, by position, and the one definition of what breaks them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

# A row keeps a relation if its sides differ by no more than this times the sum of the sizes of their terms: that much
# is a sum of float32 columns off, or a ratio that was written with seven digits.
TOLERANCE = 1e-6
# What a row becomes may be off by as much as the row was, or by this times the same sum: 0.1 + 0.2 is 0.3.
ROUNDING = 1e-9
# Whole numbers that differ by less than this are equal, however large.
HALF = 0.5


class Increasing(NamedTuple):
    """A function that increases where it is defined: for arguments greater than `above`, or from `least` on."""

    compute: Any  # of an array
    inverse: Callable[[float], float]  # of a value that it takes
    infimum: float = -np.inf  # of its values
    above: float = -np.inf
    least: float = -np.inf


FUNCTIONS: dict[str, Increasing] = {
    "log": Increasing(np.log, np.exp, above=0.0),
    "log1p": Increasing(np.log1p, np.expm1, above=-1.0),
    "log2": Increasing(np.log2, np.exp2, above=0.0),
    "log10": Increasing(np.log10, lambda value: np.power(10.0, value), above=0.0),
    "sqrt": Increasing(np.sqrt, np.square, infimum=0.0, least=0.0),
    "exp": Increasing(np.exp, np.log, infimum=0.0),
    "expm1": Increasing(np.expm1, np.log1p, infimum=-1.0),
}


class PlacedExpression(NamedTuple):
    """A sum of columns, by position, with coefficients, and a constant."""

    columns: np.ndarray
    coefficients: np.ndarray
    constant: float

    def move(self, position: dict[int, int]) -> "PlacedExpression":
        """Return the same of a table in which columns have other positions."""
        return self._replace(columns=np.array([position[j] for j in self.columns.tolist()], dtype=np.intp))

    def compute(self, matrix: np.ndarray) -> np.ndarray:
        """Return the value for each row."""
        return np.asarray((matrix[:, self.columns] * self.coefficients).sum(axis=1) + self.constant)

    def find_range(self, low: np.ndarray, high: np.ndarray) -> tuple[float, float]:
        """Return the least and the largest value in a box."""
        ends = self.coefficients * np.stack([low, high])[:, self.columns]
        return float(ends.min(axis=0).sum() + self.constant), float(ends.max(axis=0).sum() + self.constant)

    def measure(self, matrix: np.ndarray) -> np.ndarray:
        """Return the sum of the sizes of the terms for each row."""
        return np.asarray(np.abs(matrix[:, self.columns] * self.coefficients).sum(axis=1) + abs(self.constant))


class Linear(NamedTuple):
    """A linear expression that is at most 0, or equal to it."""

    text: str
    left: PlacedExpression
    is_equality: bool
    is_exact: bool  # whole columns and coefficients: compared without tolerance

    @property
    def columns(self) -> np.ndarray:
        """The positions of all its columns."""
        return self.left.columns

    def move(self, position: dict[int, int]) -> "Linear":
        """Return the same of a table in which columns have other positions."""
        return self._replace(left=self.left.move(position))

    def measure_excess(self, matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return by how much each row is off, and the size of its terms."""
        value = self.left.compute(matrix)
        return np.abs(value) if self.is_equality else np.maximum(value, 0.0), self.left.measure(matrix)

    def allow(self, size: np.ndarray, share: float) -> np.ndarray:
        """Return by how much rows with terms of a size may be off."""
        return np.minimum(share * size, HALF) if self.is_exact else share * size


class Derived(NamedTuple):
    """A column that is ``scale * function(inner) + offset``, or ``inner / below`` where there is no function."""

    text: str
    target: int
    function: str | None
    inner: PlacedExpression
    below: PlacedExpression | None = None
    scale: float = 1.0
    offset: float = 0.0

    @property
    def sources(self) -> np.ndarray:
        """The positions of the columns that it is derived from."""
        return self.inner.columns if self.below is None else np.union1d(self.inner.columns, self.below.columns)

    @property
    def columns(self) -> np.ndarray:
        """The positions of all its columns."""
        return np.union1d([self.target], self.sources)

    def move(self, position: dict[int, int]) -> "Derived":
        """Return the same of a table in which columns have other positions."""
        below = None if self.below is None else self.below.move(position)
        return self._replace(target=position[self.target], inner=self.inner.move(position), below=below)

    def compute(self, matrix: np.ndarray) -> np.ndarray:
        """Return what the derived column should be in each row; NaN or infinite where that is not defined."""
        inner = self.inner.compute(matrix)
        with np.errstate(all="ignore"):
            if self.below is not None:
                return np.asarray(inner / self.below.compute(matrix))
            assert self.function is not None
            return np.asarray(self.scale * FUNCTIONS[self.function].compute(inner) + self.offset)

    def measure_excess(self, matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return by how much each row is off, infinite where nothing is defined (a / 0), and the size of its terms."""
        target, value = matrix[:, self.target], self.compute(matrix)
        with np.errstate(all="ignore"):
            if self.below is not None:
                size = self.inner.measure(matrix) / np.abs(self.below.compute(matrix)) + np.abs(target)
            else:
                size = np.abs(value) + 2.0 * abs(self.offset) + np.abs(target)
            excess = np.where(np.isfinite(value), np.abs(value - target), np.inf)
        missing = np.isnan(matrix[:, self.columns]).any(axis=1)
        return np.where(missing, np.nan, excess), np.where(np.isfinite(value), size, 0.0)

    def allow(self, size: np.ndarray, share: float) -> np.ndarray:
        """Return by how much rows with terms of a size may be off."""
        return share * size

    def find_range(self, low: np.ndarray, high: np.ndarray) -> tuple[float, float]:
        """Return two numbers that the derived column is between in a box, a trifle apart from the nearest such."""
        inner = self.inner.find_range(low, high)
        with np.errstate(all="ignore"):
            if self.below is not None:
                below = self.below.find_range(low, high)
                if below[0] <= 0.0 <= below[1]:
                    return -np.inf, np.inf
                ends = np.divide.outer(np.array(inner), np.array(below)).ravel()
            else:
                assert self.function is not None
                function = FUNCTIONS[self.function]
                inside = np.maximum(inner, max(function.least, function.above))
                ends = self.scale * function.compute(inside) + self.offset
        if np.isnan(ends).any():
            return -np.inf, np.inf
        slack = 2.0 * ROUNDING * (1.0 + abs(self.offset))
        return float(ends.min() - slack * np.abs(ends.min())), float(ends.max() + slack * np.abs(ends.max()))

    def find_interval(self, low: float, high: float) -> tuple[float, float]:
        """Return between which values `inner` gives a function value from `low` to `high`; reversed ends if none."""
        assert self.function is not None
        function = FUNCTIONS[self.function]
        least, most = sorted(((low - self.offset) / self.scale, (high - self.offset) / self.scale))
        if most < function.infimum or (most == function.infimum and function.least == -np.inf):
            return np.inf, -np.inf
        with np.errstate(all="ignore"):
            first = float(function.inverse(least)) if least > function.infimum else function.least
            last = float(function.inverse(most))
        return max(first, float(np.nextafter(function.above, np.inf))), last


@dataclass(frozen=True, eq=False)
class PlacedRelations:
    """All relations of a threat model, for one table.

    missing : pairs of columns, of which the second is 1 where the value of the first is missing, whatever stands there.
    """

    linear: tuple[Linear, ...]
    derived: tuple[Derived, ...]
    missing: tuple[tuple[int, int], ...] = ()

    @cached_property
    def all(self) -> tuple[Linear | Derived, ...]:
        """All of them: the linear ones, then those that derive a column otherwise."""
        return (*self.linear, *self.derived)

    @cached_property
    def columns(self) -> np.ndarray:
        """The positions of all columns that are related to others, and of those that say where these are missing."""
        related = np.unique(np.concatenate([relation.columns for relation in self.all]))
        return np.union1d(related, [teller for j, teller in self.missing if j in related]).astype(np.intp)

    def select(self, columns: np.ndarray) -> "PlacedRelations | None":
        """Return the relations between some columns, by their positions there; None if there are none."""
        position = {int(column): k for k, column in enumerate(columns)}
        linear = tuple(one.move(position) for one in self.linear if position.keys() >= set(one.columns.tolist()))
        derived = tuple(one.move(position) for one in self.derived if position.keys() >= set(one.columns.tolist()))
        pairs = ((position[j], position[teller]) for j, teller in self.missing if {j, teller} <= position.keys())
        return PlacedRelations(linear, derived, tuple(pairs)) if linear or derived else None

    def hide(self, matrix: np.ndarray) -> np.ndarray:
        """Return rows with NaN where another column says that a value is missing."""
        if not self.missing:
            return matrix
        hidden = matrix.copy()
        for j, teller in self.missing:
            hidden[matrix[:, teller] == 1.0, j] = np.nan
        return hidden

    def find_broken(self, matrix: np.ndarray) -> np.ndarray:
        """Say of each row, and each relation, whether the row breaks it; bool (row, relation).

        A relation with a missing term is not broken.
        """
        broken, matrix = [], self.hide(matrix)
        for relation in self.all:
            excess, size = relation.measure_excess(matrix)
            broken.append(excess > relation.allow(size, TOLERANCE))
        return np.stack(broken, axis=1)

    def are_kept(self, before: np.ndarray, after: np.ndarray, share: float = ROUNDING) -> np.ndarray:
        """Say of each row whether what it becomes keeps the relations: is no more off than the row, or than rounding.

        What a row breaks as it stands is not asked of what it becomes. `share` is what rounding may do; see ROUNDING.
        """
        before, after = self.hide(before), self.hide(after)
        kept = np.ones(len(before), dtype=bool)
        for relation in self.all:
            excess, size = relation.measure_excess(after)
            fails = np.flatnonzero(excess > relation.allow(size, share))
            if len(fails):
                own, own_size = relation.measure_excess(before[fails])
                waived = own > relation.allow(own_size, TOLERANCE)
                kept[fails] &= waived | (excess[fails] <= own)
        return kept
