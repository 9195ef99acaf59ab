"""The points of a cell that keep a row's relations, and the nearest of them, by linear programs.

Between two thresholds no tree can tell values apart, so a cell is all that has to be looked at together: an interval of
each column in which a model's answer does not change. Linear relations cut a polytope out of it. A column that is
derived otherwise has an interval there, too, which is linear again: ``low <= log(a) <= high`` bounds ``a``, and
``low <= a / b <= high`` is ``low * b <= a <= high * b`` where ``b`` is positive. So a cell is one linear program, with
whole columns a mixed-integer one, and HiGHS, which comes with SciPy, answers it.

Cells are open on their left. A program knows no open ends and is true up to its tolerance only; therefore a cell
counts as one that can be reached only if there is a point a little inside all its open ends.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from hardwood.ensemble.whole_numbers import find_above
from hardwood.threat.placed_relations import TOLERANCE, Derived, Linear, PlacedExpression, PlacedRelations
from hardwood.verification.linear_program import Program, Row

# A point has to be inside open ends by this share of what is comparable: the cell's width, or the row's own margin.
LEAST_MARGIN = 1e-7
# How often the limits of columns are passed on from relation to relation.
PASSES = 3
# A denominator is no closer to 0 than this share of the row's own.
LEAST_DENOMINATOR = 1e-6


class Cell(NamedTuple):
    """Closed intervals of all columns in which the model's answer is the same, within a row's reach."""

    low: np.ndarray
    high: np.ndarray
    is_open: np.ndarray  # whether the low end is the first number past a threshold

    @classmethod
    def within(
        cls, thresholds: tuple[np.ndarray, np.ndarray], reach: tuple[np.ndarray, np.ndarray], whole: np.ndarray
    ) -> "Cell":
        """Return what a row can reach of the cell that begins past one threshold of each column and ends at another."""
        above = np.where(np.isneginf(thresholds[0]), -np.inf, find_above(thresholds[0], whole))
        low, high = np.maximum(reach[0], above), np.minimum(reach[1], thresholds[1])
        return cls(low, high, (above > reach[0]) & ~whole)


@dataclass
class RowRelations:
    """The relations that a row keeps as it stands, and therefore has to keep.

    row : float64 per column, NaN where a value is missing for good. whole : which columns hold whole numbers only.
    missing : the columns in which values are missing when the row has been changed; relations of these hold anyway.
    """

    relations: PlacedRelations
    row: np.ndarray
    whole: np.ndarray
    missing: np.ndarray
    besides: tuple[Linear, ...] = ()  # what has to hold of the row in addition

    def __post_init__(self) -> None:
        here = self.relations.hide(self.row[None])
        self.linear = [(relation, 0.0) for relation in self.besides]  # with how much the row is off
        self.derived: list[Derived] = []
        for relation in self.relations.all:
            if self.missing[relation.columns].any():
                continue
            excess, size = (float(number[0]) for number in relation.measure_excess(here))
            # A row that lacked a term has broken nothing: what is filled in has to fit.
            excess = 0.0 if math.isnan(excess) else excess
            if excess <= relation.allow(np.array(np.nan_to_num(size)), TOLERANCE):
                if isinstance(relation, Linear):
                    self.linear.append((relation, excess))
                else:
                    self.derived.append(relation)
        kept: list[Linear | Derived] = [*(relation for relation, _ in self.linear), *self.derived]
        used = np.concatenate([np.empty(0, np.intp), *(relation.columns for relation in kept)])
        self.columns = np.unique(used)
        targets = [relation.target for relation in self.derived]
        # Derived columns that nothing else depends on need not be chosen: they follow.
        self.follows = {target for target in targets if np.count_nonzero(used == target) == 1}

    def is_kept(self, point: np.ndarray, share: float = 0.0) -> bool:
        """Say whether a point keeps the relations, without any allowance for rounding unless a share is given."""
        besides = all(relation.measure_excess(point[None])[0][0] == 0.0 for relation in self.besides)
        return besides and bool(self.relations.are_kept(self.row[None], point[None], share)[0])

    def excludes(self, low: np.ndarray, high: np.ndarray) -> bool:
        """Say whether a linear relation alone already shows that no point of a box keeps it."""
        for relation, slack in self.linear:
            least, most = relation.left.find_range(low, high)
            doubt = slack + 1e-12 * float(relation.left.measure(self.row[None])[0])
            if least > doubt or (relation.is_equality and most < -doubt):
                return True
        return False

    def may_hold(self, cell: Cell, seconds: float = np.inf) -> bool:
        """Say whether some point of a cell may keep the relations."""
        if self.excludes(cell.low, cell.high):
            return False
        try:
            return any(program.find_inner(seconds)[1] >= LEAST_MARGIN for program in self.write_programs(cell))
        except TimeoutError:
            return True

    def limit_box(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a smaller box that holds all points of a box that keep the relations: one column limits the others.

        What rounding may do is allowed for. The row itself stays inside.
        """
        low, high = low.copy(), high.copy()
        for _ in range(PASSES):
            for relation, slack in self.linear:
                self._limit_by(relation, slack, 1.0, low, high)
                if relation.is_equality:
                    self._limit_by(relation, slack, -1.0, low, high)
            for derived in self.derived:
                ends, target = derived.find_range(low, high), derived.target
                low[target], high[target] = max(low[target], ends[0]), min(high[target], ends[1])
        low, high = (np.where(self.whole, np.round(end), end) if self.whole.any() else end for end in (low, high))
        return np.fmin(low, self.row), np.fmax(high, self.row)

    def _limit_by(self, relation: Linear, slack: float, sign: float, low: np.ndarray, high: np.ndarray) -> None:
        """Lower the high ends, and raise the low ends, that ``sign * left <= slack`` does not allow."""
        columns, coefficients = relation.left.columns, sign * relation.left.coefficients
        least = np.where(coefficients > 0.0, coefficients * low[columns], coefficients * high[columns])
        constant = sign * relation.left.constant
        size = np.abs(np.where(np.isfinite(least), least, 0.0)).sum() + abs(constant)
        for k, column in enumerate(columns.tolist()):
            rest = np.delete(least, k).sum() + constant
            if not np.isfinite(rest):
                continue
            end = (slack + 1e-9 * size - rest) / coefficients[k]
            if self.whole[column]:
                end = np.floor(end + 1e-6) if coefficients[k] > 0.0 else np.ceil(end - 1e-6)
            if coefficients[k] > 0.0:
                high[column] = min(high[column], end)
            else:
                low[column] = max(low[column], end)

    def narrow(self, cell: Cell) -> Cell:
        """Return the part of a cell whose derived columns are what the others can make of them."""
        low, high, is_open = cell.low.copy(), cell.high.copy(), cell.is_open.copy()
        for relation in self.derived:
            ends = relation.find_range(low, high)
            target = relation.target
            if ends[0] > low[target]:
                low[target], is_open[target] = ends[0], False
            high[target] = min(high[target], ends[1])
            if self.whole[target]:
                low[target], high[target] = math.ceil(low[target]), math.floor(high[target])
        return Cell(low, high, is_open)

    @property
    def sources(self) -> np.ndarray:
        """The columns that others are derived from, but not linearly."""
        return np.unique(np.concatenate([np.empty(0, np.intp), *(relation.sources for relation in self.derived)]))

    def write_programs(self, cell: Cell) -> Iterator[Program]:
        """Yield the programs whose points together are those of a cell: one for each sign of the denominators."""
        ratios = [relation for relation in self.derived if relation.below is not None]
        for signs in product((1.0, -1.0), repeat=len(ratios)):
            rows = [*self._linear_rows(), *self._function_rows(cell)]
            for relation, sign in zip(ratios, signs, strict=True):
                rows += self._ratio_rows(relation, sign, cell)
            free = np.array([j for j in self.columns if j not in self.follows], dtype=np.intp)
            yield Program(self.row, free, (cell.low, cell.high), cell.is_open, self.whole, rows)

    def _linear_rows(self) -> Iterator[Row]:
        for relation, slack in self.linear:
            yield Row(relation.left, -slack if relation.is_equality else -np.inf, slack)

    def _function_rows(self, cell: Cell) -> Iterator[Row]:
        for relation in self.derived:
            if relation.function is not None:
                target = relation.target
                low, high = relation.find_interval(float(cell.low[target]), float(cell.high[target]))
                margins = [0.0, 0.0]
                if cell.is_open[target]:
                    margins[relation.scale < 0.0] = self._find_margin(
                        relation.inner, high if relation.scale < 0.0 else low
                    )
                yield Row(relation.inner, low, high, *margins)

    def _ratio_rows(self, relation: Derived, sign: float, cell: Cell) -> Iterator[Row]:
        """Yield ``low * below <= inner <= high * below`` for a denominator of one sign, and that it has this sign."""
        below, target = relation.below, relation.target
        assert below is not None
        own = abs(float(below.compute(self.row[None])[0]))
        counts = bool(self.whole[below.columns].all()) and all(map(float.is_integer, below.coefficients.tolist()))
        least = 1.0 if counts and float(below.constant).is_integer() else 0.0
        yield Row(_combine(below, sign), max(least, LEAST_DENOMINATOR * own), np.inf)
        for end, direction in ((cell.low[target], sign), (cell.high[target], -sign)):
            if math.isfinite(end):
                difference = _combine(relation.inner, direction, below, -direction * float(end))
                is_open = bool(cell.is_open[target]) and direction == sign
                yield Row(difference, 0.0, np.inf, self._find_margin(difference, 0.0) if is_open else 0.0)

    def _find_margin(self, expression: PlacedExpression, end: float) -> float:
        """Return what to measure by how far an expression is inside an open end: the row's own margin, or its size."""
        own = abs(float(expression.compute(self.row[None])[0]) - end)
        return own if own > 0.0 else float(expression.measure(self.row[None])[0]) or 1.0

    def complete(self, point: np.ndarray, cell: Cell) -> np.ndarray:
        """Return a point with its derived columns written in, and sums made equal to the last digit where possible."""
        point = point.copy()
        for relation, _ in self.linear:
            if relation.is_equality and not relation.is_exact:
                self._equal_out(relation.left, point, cell)
        for derived in self.derived:
            value = float(derived.compute(point[None])[0])
            if math.isfinite(value):
                point[derived.target] = min(max(value, cell.low[derived.target]), cell.high[derived.target])
        return point

    def _equal_out(self, left: PlacedExpression, point: np.ndarray, cell: Cell) -> None:
        """Move the first column that can be moved so that an expression is 0."""
        off = float(left.compute(point[None])[0])
        for column, coefficient in zip(left.columns, left.coefficients, strict=True):
            if off != 0.0 and not self.whole[column] and cell.low[column] < cell.high[column]:
                moved = point[column] - off / coefficient
                if cell.low[column] <= moved <= cell.high[column]:
                    point[column] = moved
                    return


def _combine(
    a: PlacedExpression, factor: float, b: PlacedExpression | None = None, other_factor: float = 0.0
) -> PlacedExpression:
    """Return ``factor * a + other_factor * b``."""
    if b is None:
        return PlacedExpression(a.columns, factor * a.coefficients, factor * a.constant)
    columns = np.union1d(a.columns, b.columns)
    coefficients = np.zeros(len(columns))
    coefficients[np.searchsorted(columns, a.columns)] += factor * a.coefficients
    coefficients[np.searchsorted(columns, b.columns)] += other_factor * b.coefficients
    return PlacedExpression(columns, coefficients, factor * a.constant + other_factor * b.constant)
