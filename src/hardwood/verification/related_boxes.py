"""Several trees whose columns are related: the reach of a row, searched box by box for points that keep relations.

What answers without relations can be asked about any box. If there is no example in a box, there is none that keeps the
relations. If there is one, but the relations rule out the cell that it lies in, that cell is grown into as large a box
as they still rule out, and what is left of the box around it is asked about next. There are finitely many cells, so
this ends, and every answer is exact. Only related columns are ever divided.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from hardwood.verification.answers import FOUND, NONE, UNFINISHED, Answers
from hardwood.verification.linear_program import Solution
from hardwood.verification.metric import Metric
from hardwood.verification.related_cells import Cell
from hardwood.verification.related_points import EQUAL, CellSearch
from hardwood.verification.related_row import RelatedRow

# A row is given up after this many boxes, which take a few milliseconds each.
MOST_BOXES = 20_000
# A solver's nearest example is known up to its tolerance. A point of the same cell may be nearer by as much; in L2,
# where squares add up, by twice as much; and that from the row as well as from the nearest point of a box.
GAPS = 4.0


class Box(NamedTuple):
    """The values of each column greater than one threshold and at most another."""

    above: np.ndarray
    up_to: np.ndarray


@dataclass
class BoxSearch:
    """The search for points of one row.

    ask : answers, for a point inside a box, a reach that is this box, and weights if distances are asked for, a
        question that knows no relations.
    """

    row: RelatedRow
    ask: Callable[..., Answers]
    n_boxes: int = 0
    is_unfinished: bool = False
    _count: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        ensemble, columns = self.row.ensemble, self.row.relations.columns
        numerical = ensemble.category_start < 0
        self._thresholds = {int(j): np.unique(ensemble.threshold[numerical & (ensemble.feature == j)]) for j in columns}

    def decide(self) -> tuple[int, np.ndarray | None]:
        """Say whether there is an example, and give it."""
        pending = [self._everything()]
        while pending:
            box = pending.pop()
            if self._is_over():
                return UNFINISHED, None
            within = self._limit(box)
            if not self._may_hold(within):
                continue
            said = self._ask(within)
            if said.status[0] != FOUND:
                self.is_unfinished |= said.status[0] == UNFINISHED
                continue
            found = self.row.repair(said.example[0])
            if found.point is not None:
                return FOUND, found.point
            cell = self._narrow(box, self.row.find_cell(said.example[0]))
            if found.lower < np.inf:
                self.is_unfinished = True
            else:
                cell = self._grow(cell, box, self._may_hold)
            pending += self._subtract(box, cell)
        return (UNFINISHED if self.is_unfinished else NONE), None

    def approach(self, metric: Metric) -> Solution:
        """Find the nearest example, and a distance below which there is none. Boxes that may be near come first."""
        near, upper, floor = None, np.inf, np.inf
        heap = [(0.0, 0, self._everything())]
        while heap and heap[0][0] < upper * (1.0 - EQUAL):
            bound, _, box = heapq.heappop(heap)
            if self._is_over():
                floor = min(floor, bound)
                break
            within = self._limit(box)
            bound = max(bound, self._bound(within, metric))
            if bound >= upper * (1.0 - EQUAL):
                continue
            said, distance = self._ask_nearest(within, metric)
            if said.status[0] == NONE:
                continue
            bound = max(bound, distance)
            if said.status[0] == UNFINISHED:
                floor = min(floor, bound)
                continue
            found = self.row.repair(said.example[0], metric)
            here = np.inf if found.point is None else metric.measure(found.point, self.row.row)
            if here < upper:
                near, upper = found.point, here
            # Unrelated columns may be changed by less than in this example, by as much as it may not be the nearest.
            lower = found.lower - GAPS * (said.upper[0] - said.lower[0])
            if lower < here * (1.0 - EQUAL):  # an infinite distance is a cell without points
                floor = min(floor, max(bound, lower))
            cell = self._narrow(box, self._find_fine_cell(said.example[0]))
            cell = self._grow(cell, box, partial(self._may_be_nearer, metric, upper))
            for part in self._subtract(box, cell):
                self._count += 1
                heapq.heappush(heap, (bound, self._count, part))
        lowest = min([floor, *(bound for bound, _, _ in heap)])
        return Solution(near, min(lowest, upper))

    def reach_furthest(self, sign: int) -> tuple[float, np.ndarray | None]:
        """Find the largest (sign 1) or smallest (-1) output: one that none exceeds, and the best point found."""
        best, point, beyond = -np.inf, None, -np.inf
        heap = [(-np.inf, 0, self._everything())]
        while heap and -heap[0][0] > best:
            bound, _, box = heapq.heappop(heap)
            if self._is_over():
                beyond = max(beyond, -bound)
                break
            within = self._limit(box)
            if not self._may_hold(within):
                continue
            said = self._ask(within)
            bound = max(bound, -sign * (said.upper if sign == 1 else said.lower)[0])
            value = sign * float(self.row.ensemble.output(said.example)[0, 0])
            found = self.row.repair(said.example[0])
            if found.point is not None:
                if value > best:
                    best, point = value, found.point
                beyond = max(beyond, -bound)
                continue
            cell = self._narrow(box, self.row.find_cell(said.example[0]))
            if found.lower < np.inf:
                beyond = max(beyond, value)
            else:
                cell = self._grow(cell, box, self._may_hold)
            for part in self._subtract(box, cell):
                self._count += 1
                heapq.heappush(heap, (bound, self._count, part))
        furthest = max([best, beyond, *(-bound for bound, _, _ in heap)])
        return sign * furthest, point

    def _everything(self) -> Box:
        n_features = len(self.row.row)
        return Box(np.full(n_features, -np.inf), np.full(n_features, np.inf))

    def _is_over(self) -> bool:
        """Count a box, and say whether time, or the number of boxes, is used up."""
        self.n_boxes += 1
        return self.row.seconds <= 0.0 or self.n_boxes > MOST_BOXES

    def _ask(self, within: Cell, weight: np.ndarray | None = None) -> Answers:
        """Ask about a box, whatever the relations: about its point nearest to the row, which can become all others.

        Groups are left out: a box may divide their columns, and the relations of the row know them.
        """
        reach, start = self.row.reach, np.clip(self.row.row, within.low, within.high)
        anywhere = np.where(within.low < within.high, np.inf, 0.0)
        values = np.stack([within.low, within.high])
        values = np.where(np.isnan(values), np.array([[-np.inf], [np.inf]]), values)
        box = replace(
            reach,
            left=anywhere,
            right=anywhere,
            within=values,
            share=None,
            relations=None,
            groups=None,
        )
        said = self.ask(start[None], box) if weight is None else self.ask(start[None], box, weight)
        if said.interrupted:
            raise KeyboardInterrupt
        return said

    def _ask_nearest(self, within: Cell, metric: Metric) -> tuple[Answers, float]:
        """Ask for an example near the row, in a box: what is said of the box's nearest point, and a lower bound.

        Where the row is outside the box, each of its points is as far from the row as the nearest one, and as that
        nearest one is from it, in all norms but the L0 norm, where these columns have been changed already.
        """
        row, start = self.row.row, np.clip(self.row.row, within.low, within.high)
        each = metric.split_groups()
        weight = np.where(start == row, each.weight, 0.0) if metric.norm == 0 else each.weight
        said = self._ask(within, weight)
        return said, metric.add(each.measure(start, row), float(said.lower[0]))

    def _limit(self, box: Box) -> Cell:
        """Return what the row can reach of a box."""
        return Cell.within(box, self.row.box, self.row.whole)

    def _may_hold(self, within: Cell) -> bool:
        """Say whether some point of a box may keep the relations."""
        columns = self.row.relations.columns
        is_empty = bool((within.low[columns] > within.high[columns]).any())
        return not is_empty and self.row.relations.may_hold(within, self.row.seconds)

    def _bound(self, within: Cell, metric: Metric) -> float:
        """Return a distance below which no point of a box keeps the relations."""
        if not self._may_hold(within):
            return np.inf
        start = np.clip(self.row.row, within.low, within.high)
        if metric.norm == 0:
            return metric.measure(start, self.row.row)
        return CellSearch(self.row.relations, metric, self.row.clock).find(within, start).lower

    def _may_be_nearer(self, metric: Metric, distance: float, within: Cell) -> bool:
        """Say whether some point of a box may keep the relations and be nearer than a distance."""
        return self._bound(within, metric) < distance

    def _find_fine_cell(self, point: np.ndarray) -> Box:
        """Return the thresholds next to a point in the related columns: no tree can tell values between them apart."""
        above, up_to = self._everything()
        for j, thresholds in self._thresholds.items():
            k = int(np.searchsorted(thresholds, point[j]))
            above[j] = thresholds[k - 1] if k > 0 else -np.inf
            up_to[j] = thresholds[k] if k < len(thresholds) else np.inf
        return Box(above, up_to)

    def _narrow(self, box: Box, cell: tuple[np.ndarray, np.ndarray]) -> Box:
        """Return the part of a cell that is in a box, in the related columns; of other columns all of the box."""
        above, up_to, columns = box.above.copy(), box.up_to.copy(), self.row.relations.columns
        above[columns] = np.maximum(above[columns], cell[0][columns])
        up_to[columns] = np.minimum(up_to[columns], cell[1][columns])
        return Box(above, up_to)

    def _grow(self, cell: Box, box: Box, is_open: Callable[[Cell], bool]) -> Box:
        """Return as much of a box around a cell as is no more open than the cell; the cell itself if that is open."""
        grown = Box(cell.above.copy(), cell.up_to.copy())
        if is_open(self._limit(grown)):
            return grown
        for ends, outer in zip(grown, box, strict=True):
            for column in self.row.relations.columns:
                if ends[column] != outer[column] and not self.row.clock.is_over():
                    before, ends[column] = ends[column], outer[column]
                    if is_open(self._limit(grown)):
                        ends[column] = before
        return grown

    def _subtract(self, box: Box, cell: Box) -> Iterator[Box]:
        """Yield boxes that together are a box without a cell in it."""
        above, up_to = box.above.copy(), box.up_to.copy()
        for column in self.row.relations.columns:
            if cell.above[column] > above[column]:
                part = up_to.copy()
                part[column] = cell.above[column]
                yield Box(above.copy(), part)
                above[column] = cell.above[column]
            if cell.up_to[column] < up_to[column]:
                part = above.copy()
                part[column] = cell.up_to[column]
                yield Box(part, up_to.copy())
                up_to[column] = cell.up_to[column]
