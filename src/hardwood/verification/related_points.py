"""The nearest point of a cell that keeps a row's relations.

One linear program answers for most cells. Where a derived column costs something that is not linear, where one derived
column depends on another, and for whole columns in the L2 norm, or where they have to be whole to the last digit, a
program only bounds the distance; such a cell is divided, and the part that may hold the nearest point comes next.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from hardwood.threat.placed_relations import ROUNDING
from hardwood.verification.clock import Clock
from hardwood.verification.linear_program import NO_SOLUTION, Program, Solution
from hardwood.verification.metric import Metric
from hardwood.verification.related_cells import LEAST_MARGIN, Cell, RowRelations

# A cell is divided into this many parts at most; each takes a few milliseconds.
MOST_PARTS = 100
# Distances that differ by less than this, relative to them, are not told apart.
EQUAL = 1e-9
# A part that is narrower than this, relative to the row's value, is not divided.
NARROW = 1e-7
# Sets of columns that are changed are tried one by one up to this many columns.
MOST_OPTIONAL = 10


@dataclass
class CellSearch:
    """The search for a point of one cell: the nearest, or with `any_will_do` the first that is found."""

    relations: RowRelations
    metric: Metric
    clock: Clock = field(default_factory=lambda: Clock(np.inf))
    any_will_do: bool = False

    @classmethod
    def for_any(cls, relations: RowRelations, clock: Clock) -> "CellSearch":
        """Return a search for any point, with little change."""
        weight = 1.0 / np.maximum(np.nan_to_num(np.abs(relations.row)), 1.0)
        return cls(relations, Metric(1, weight), clock, any_will_do=True)

    def __post_init__(self) -> None:
        self.row = self.relations.row
        self.each = self.metric.split_groups()

    @property
    def seconds(self) -> float:
        """How much time is left."""
        return self.clock.left()

    def find(self, cell: Cell, start: np.ndarray) -> Solution:
        """Find the nearest point, and a distance below which there is none; infinite if there is no point at all.

        start : the point of the cell that is nearest to the row, whatever the relations.
        """
        if self.relations.is_kept(start):
            return Solution(start, self.metric.measure(start, self.row))
        if self.relations.excludes(cell.low, cell.high):
            return NO_SOLUTION
        if self.metric.norm == 0:
            return self._find_fewest_changes(cell, start)
        return self._divide_and_find(cell, start)

    def _divide_and_find(self, cell: Cell, start: np.ndarray) -> Solution:
        """Look at a cell, and at parts of it as long as they may hold a nearer point than the best."""
        best, upper, floor, n_parts = None, np.inf, np.inf, 0
        pending = [self.relations.narrow(cell)]
        heap: list[tuple[float, int, Cell]] = []
        while pending or heap:
            if not pending:
                lower, _, part = heapq.heappop(heap)
                if lower >= upper * (1.0 - EQUAL):
                    floor = min(floor, lower)
                    break
                pending = [*self._divide(part)] if n_parts < MOST_PARTS and self.seconds > 0.0 else []
                if not pending:
                    floor = min(floor, lower)
                continue
            part, n_parts = pending.pop(), n_parts + 1
            found = self._ask(part, start)
            if found.point is not None and (here := self.metric.measure(found.point, self.row)) < upper:
                best, upper = found.point, here
                if self.any_will_do:
                    return Solution(best, 0.0)
            if found.lower < upper * (1.0 - EQUAL):
                heapq.heappush(heap, (found.lower, n_parts, part))
            else:
                floor = min(floor, found.lower)
        return Solution(best, min([floor, upper, *(lower for lower, _, _ in heap)]))

    def _divide(self, cell: Cell) -> Iterator[Cell]:
        """Yield the two halves of a cell, if that may help: along the column that is widest for its size."""
        related = self.relations.columns
        columns = np.union1d(self.relations.sources, related[self.relations.whole[related]]).astype(np.intp)
        low, high = cell.low[columns], cell.high[columns]
        size = np.maximum(np.abs(self.row[columns]), 1.0)
        width = (high - low) / size
        if not len(columns) or not width.max() > NARROW:
            return
        k = int(width.argmax())
        column, middle = int(columns[k]), 0.5 * (low[k] + high[k])
        if not np.isfinite(middle):  # twice as far as the end that is known, or as the row
            middle = low[k] + size[k] if np.isfinite(low[k]) else high[k] - size[k] if np.isfinite(high[k]) else 0.0
        is_whole = self.relations.whole[column]
        ends = (np.floor(middle), np.floor(middle) + 1.0) if is_whole else (middle, middle)
        for side, end in ((cell.high, ends[0]), (cell.low, ends[1])):
            changed = side.copy()
            changed[column] = end
            is_open = cell.is_open.copy()
            is_open[column] &= side is cell.high
            part = cell._replace(high=changed) if side is cell.high else cell._replace(low=changed, is_open=is_open)
            yield self.relations.narrow(part)

    def _ask(self, cell: Cell, start: np.ndarray) -> Solution:
        """Look at a cell as a whole: one program, or one for each sign of a denominator."""
        start, related = start.copy(), self.relations.columns
        if (cell.low[related] > cell.high[related]).any():
            return NO_SOLUTION
        start[related] = np.clip(self.row[related], cell.low[related], cell.high[related])
        if self.relations.is_kept(start):
            return Solution(start, self.metric.measure(start, self.row))
        best, lower = NO_SOLUTION, np.inf
        for program in self.relations.write_programs(cell):
            try:
                found = self._solve(program, cell, start)
            except TimeoutError:
                found = Solution(None, self.each.measure(start, self.row))
            lower = min(lower, found.lower)
            if found.point is not None and (best.point is None or found.lower < best.lower):
                best = found
        return Solution(best.point, lower)

    def _solve(self, program: Program, cell: Cell, start: np.ndarray) -> Solution:
        """Find the nearest point of one program."""
        inner, margin = program.find_inner(self.seconds)
        if inner is None or margin < LEAST_MARGIN:
            return NO_SOLUTION
        norm, weight = self.metric.norm, self.each.weight
        others = np.setdiff1d(np.arange(len(start)), program.free)
        beside = self.each.measure(start, self.row, others)
        plain = program.minimise(1 if norm == 2 else norm, weight, beside, self.seconds)
        nearest = program.project(weight) if norm == 2 else plain
        candidates = [
            point
            for candidate in (nearest.point, plain.point, inner)
            if candidate is not None and (point := self._finish(candidate, cell, start)) is not None
        ]
        best = min(candidates, key=lambda point: self.metric.measure(point, self.row), default=None)
        return Solution(best, self.metric.add(nearest.lower, beside))

    def _finish(self, candidate: np.ndarray, cell: Cell, start: np.ndarray) -> np.ndarray | None:
        """Return a program's point as one of the cell, if it keeps the relations."""
        point = start.copy()
        point[self.relations.columns] = candidate[self.relations.columns]
        for trial in (self.relations.complete(point, cell), point):
            if self.relations.is_kept(trial, ROUNDING):
                return trial
        return None

    def _find_fewest_changes(self, cell: Cell, start: np.ndarray) -> Solution:
        """Find a point with the least weight of changed columns: sets of columns to change are tried, light ones first.

        Where there are too many columns only a bound is known.
        """
        row, columns = self.row, self.relations.columns
        may_stay = (cell.low[columns] <= row[columns]) & (row[columns] <= cell.high[columns])
        may_move = cell.low[columns] < cell.high[columns]
        optional = columns[may_stay & may_move]
        weight = self.each.weight[optional]
        search = CellSearch.for_any(self.relations, self.clock)
        anywhere, least = search.find(cell, start), self.each.measure(start, row)
        if anywhere.lower == np.inf or len(optional) > MOST_OPTIONAL:
            return Solution(anywhere.point, np.inf if anywhere.lower == np.inf else least)
        lower = np.inf  # of sets that were neither found to do nor not to
        for chosen in sorted(product((False, True), repeat=len(optional)), key=lambda chosen: weight @ chosen):
            if self.clock.is_over():
                lower = min(lower, least + float(weight @ chosen))
                break
            pinned = optional[~np.array(chosen, dtype=bool)]
            low, high, is_open = cell.low.copy(), cell.high.copy(), cell.is_open.copy()
            low[pinned] = high[pinned] = row[pinned]
            is_open[pinned] = False
            found = search.find(Cell(low, high, is_open), start)
            if found.point is not None:
                return Solution(found.point, min(lower, self.metric.measure(found.point, row)))
            if found.lower < np.inf:
                lower = min(lower, least + float(weight @ chosen))
        return Solution(None, lower)
