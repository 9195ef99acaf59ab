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
from hardwood.threat.placed_relations import ROUNDING, TOLERANCE, Derived, Linear, PlacedExpression, PlacedRelations
from hardwood.verification.linear_program import NO_SOLUTION, Program, Row, Solution

# A point has to be inside open ends by this share of what is comparable: the cell's width, or the row's own margin.
LEAST_MARGIN = 1e-7
# A denominator is no closer to 0 than this share of the row's own.
LEAST_DENOMINATOR = 1e-6
# Sets of columns that are changed are tried one by one up to this many columns.
MOST_OPTIONAL = 10


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


class Metric(NamedTuple):
    """A norm and what a unit of change costs in each column.

    A changed category is a change by 1; so are a value that was blanked or filled in, and a one-hot group that changed.
    """

    norm: float
    weight: np.ndarray
    categorical: tuple[int, ...] = ()
    groups: tuple[np.ndarray, ...] = ()

    @property
    def share(self) -> np.ndarray:
        """What a unit of change costs, where a changed group is a change of two columns: no less if it is of one."""
        share = self.weight.copy()
        for columns in self.groups:
            share[columns] *= {np.inf: 1.0, 2: math.sqrt(0.5)}.get(self.norm, 0.5)
        return share

    def measure(self, point: np.ndarray, row: np.ndarray, columns: np.ndarray | None = None) -> float:
        """Return the distance of a point from a row, in some columns."""
        with np.errstate(over="ignore"):
            change = np.abs(point - row)
        categorical = list(self.categorical)
        change[categorical] = change[categorical] != 0.0
        is_missing = np.isnan(row), np.isnan(point)
        change[is_missing[0] | is_missing[1]] = 0.0
        change[is_missing[0] != is_missing[1]] = 1.0
        if self.norm == 0:
            change = (change != 0.0).astype(np.float64)
        for group in self.groups:
            change[group[0]] = change[group].any()
            change[group[1:]] = 0.0
        cost = self.weight * change if columns is None else (self.weight * change)[columns]
        if self.norm == np.inf:
            return float(cost.max(initial=0.0))
        return float(np.linalg.norm(cost)) if self.norm == 2 else float(cost.sum())

    def add(self, a: float, b: float) -> float:
        """Return the distance of changes in some columns and others."""
        return max(a, b) if self.norm == np.inf else math.hypot(a, b) if self.norm == 2 else a + b


@dataclass
class RowRelations:
    """The relations that a row keeps as it stands, and therefore has to keep.

    row : float64 per column, NaN where a value is missing. whole : which columns hold whole numbers only.
    """

    relations: PlacedRelations
    row: np.ndarray
    whole: np.ndarray
    besides: tuple[Linear, ...] = ()  # what has to hold of the row in addition

    def __post_init__(self) -> None:
        here = self.row[None]
        self.linear = [(relation, 0.0) for relation in self.besides]  # with how much the row is off
        self.derived: list[Derived] = []
        for relation in self.relations.all:
            excess, size = (float(number[0]) for number in relation.measure_excess(here))
            if excess <= relation.allow(np.array(size), TOLERANCE):  # not so where a term is missing
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
            left = relation.left
            ends = left.coefficients * np.stack([low, high])[:, left.columns]
            least, most = ends.min(axis=0).sum() + left.constant, ends.max(axis=0).sum() + left.constant
            doubt = slack + 1e-12 * float(left.measure(self.row[None])[0])
            if least > doubt or (relation.is_equality and most < -doubt):
                return True
        return False

    def find_point(self, cell: Cell, start: np.ndarray, seconds: float = np.inf) -> Solution:
        """Find a point of a cell that keeps the relations, with little change; a bound of infinity if there is none.

        start : the point of the cell that is nearest to the row, whatever the relations.
        """
        weight = 1.0 / np.maximum(np.nan_to_num(np.abs(self.row)), 1.0)
        return self.find_nearest(cell, start, Metric(1, weight), seconds)

    def find_nearest(self, cell: Cell, start: np.ndarray, metric: "Metric", seconds: float = np.inf) -> Solution:
        """Find the nearest point of a cell that keeps the relations, and a distance below which there is none."""
        if self.is_kept(start):
            return Solution(start, metric.measure(start, self.row))
        if self.excludes(cell.low, cell.high):
            return NO_SOLUTION
        if metric.norm == 0:
            return self._find_fewest_changes(cell, start, metric, seconds)
        best, lower = NO_SOLUTION, np.inf
        for program in self.write_programs(cell):
            found = self._ask(program, cell, start, metric, seconds)
            lower = min(lower, found.lower)
            if found.point is not None and (best.point is None or found.lower < best.lower):
                best = found
        return Solution(best.point, lower)

    def _ask(self, program: Program, cell: Cell, start: np.ndarray, metric: "Metric", seconds: float) -> Solution:
        """Find the nearest point of one program."""
        try:
            inner, margin = program.find_inner(seconds)
            if inner is None or margin < LEAST_MARGIN:
                return NO_SOLUTION
            others = np.setdiff1d(np.arange(len(start)), program.free)
            beside = metric.measure(start, self.row, others)
            weight = metric.share
            plain = program.minimise(1 if metric.norm == 2 else metric.norm, weight, beside, seconds)
            nearest = program.project(weight) if metric.norm == 2 else plain
        except TimeoutError:
            return Solution(None, metric.measure(start, self.row))
        lower = metric.add(nearest.lower, beside)
        candidates = [
            point
            for candidate in (nearest.point, plain.point, inner)
            if candidate is not None and (point := self._finish(candidate, cell, start)) is not None
        ]
        best = min(candidates, key=lambda point: metric.measure(point, self.row), default=None)
        return Solution(best, lower if best is None else min(lower, metric.measure(best, self.row)))

    def _finish(self, candidate: np.ndarray, cell: Cell, start: np.ndarray) -> np.ndarray | None:
        """Return a program's point as one of the cell, if it keeps the relations."""
        point = start.copy()
        point[self.columns] = candidate[self.columns]
        for trial in (self.complete(point, cell), point):
            if self.is_kept(trial, ROUNDING):
                return trial
        return None

    def _find_fewest_changes(self, cell: Cell, start: np.ndarray, metric: "Metric", seconds: float) -> Solution:
        """Find a point with the least weight of changed columns: sets of columns to change are tried, light ones first.

        Where there are too many columns only a bound is known.
        """
        row, weight, columns = self.row, metric.share, self.columns
        may_stay = (cell.low[columns] <= row[columns]) & (row[columns] <= cell.high[columns])
        may_move = cell.low[columns] < cell.high[columns]
        optional = columns[may_stay & may_move]
        any_metric = Metric(1, 1.0 / np.maximum(np.nan_to_num(np.abs(row)), 1.0))
        anywhere = self.find_nearest(cell, start, any_metric, seconds)
        if anywhere.lower == np.inf or len(optional) > MOST_OPTIONAL:
            return Solution(anywhere.point, np.inf if anywhere.lower == np.inf else metric.measure(start, row))
        lower = np.inf  # of sets that were neither found to do nor not to
        sets = sorted(product((False, True), repeat=len(optional)), key=lambda chosen: weight[optional] @ chosen)
        for chosen in sets:
            pinned = optional[~np.array(chosen, dtype=bool)]
            low, high = cell.low.copy(), cell.high.copy()
            low[pinned] = high[pinned] = row[pinned]
            part = Cell(low, high, cell.is_open & ~np.isin(np.arange(len(row)), pinned))
            found = self.find_nearest(part, start, any_metric, seconds)
            if found.point is not None:
                return Solution(found.point, min(lower, metric.measure(found.point, row)))
            if found.lower < np.inf:
                lower = min(lower, metric.measure(start, row) + float(weight[optional] @ chosen))
        return Solution(None, lower)

    def may_hold(self, cell: Cell, seconds: float = np.inf) -> bool:
        """Say whether some point of a cell may keep the relations."""
        if self.excludes(cell.low, cell.high):
            return False
        try:
            return any(program.find_inner(seconds)[1] >= LEAST_MARGIN for program in self.write_programs(cell))
        except TimeoutError:
            return True

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
