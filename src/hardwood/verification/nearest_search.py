"""The nearest example of one row among choices of options (`budget_search`), in any norm.

In the L-infinity norm it is found by bisection, as all that is within a distance is a box; in other norms by branch and
bound. Distances are in units of the nearest example that is known, so that they and their squares are numbers. Where a
much nearer one turns up, it is the unit of another attempt.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hardwood.verification.budget_search import ADDING_UP, FARTHEST, BudgetSearch, Found, Options
from hardwood.verification.clock import Clock
from hardwood.verification.distance import measure

# Squares of distances that are a smaller share of the unit begin to lose digits.
LEAST_SHARE = 2.0**-400
# Finds any example of a row of a class among some of its options.
Decide = Callable[[np.ndarray, int, Options, np.ndarray, Clock], Found]


@dataclass
class NearestSearch:
    """A search among options, ready to be asked for the nearest example of rows.

    decide : what looks for any example; the search itself can.
    """

    search: BudgetSearch
    norm: float
    weight: np.ndarray
    decide: Decide

    def find(
        self, row: np.ndarray, class_index: int, known: np.ndarray | None, certified: float, clock: Clock
    ) -> Found:
        """Find the nearest example of a row: its distance, and one below which there is none, if that gets known.

        known : an example, if there is one. certified : there is none nearer than this. The bound is infinite once the
        search has finished, whether there is an example or not.
        """
        power = 2 if self.norm == 2 else 1
        unit = (0.0 if known is None else self._measure(known, row)) or certified or 1.0
        while True:
            options = self.search.list_options(row, class_index, self.norm, self.weight, unit)
            bound = min((certified / unit) ** power, FARTHEST) * (1.0 - ADDING_UP)
            best = Found(known, math.inf if known is None else self._rate(options, known), bound, False)
            if self.norm == np.inf:
                found = self._bisect(row, class_index, options, best, clock)
            else:
                found = self.search.find_nearest(row, class_index, options, best, clock)
            known = found.point
            size = unit if known is None else self._measure(known, row)
            if not found.finished or size == 0.0 or LEAST_SHARE <= size / unit <= 1.0 / LEAST_SHARE:
                break
            unit = size
        bound = math.inf if found.finished else unit * found.bound ** (1.0 / power)
        return Found(known, math.inf if known is None else size, max(certified, bound), found.finished)

    def _bisect(self, row: np.ndarray, class_index: int, options: Options, best: Found, clock: Clock) -> Found:
        """Find the least distance such that the box within it holds an example."""
        distances = np.unique(options.objective)  # 0 among them: changes of columns without weight cost nothing
        point = best.point
        first = int(np.searchsorted(distances, best.bound))
        last = len(distances)  # there is an example within the distance before this one
        if point is not None:
            last = int(np.searchsorted(distances, self._rate(options, point), side="right"))
        while first < last - (point is not None):
            middle = (first + last - 1) // 2
            kept = options.objective <= distances[middle]
            found = self.decide(row, class_index, options, kept, clock)
            if not found.finished:
                value = math.inf if point is None else self._rate(options, point)
                return Found(point, value, float(distances[first]), False)
            if found.point is None:
                first = middle + 1
            else:
                point = found.point
                last = int(np.searchsorted(distances, self._rate(options, point), side="right"))
        return Found(point, 0.0, 0.0, True)

    def _rate(self, options: Options, point: np.ndarray) -> float:
        """Return what a point is worth by the objective of its options."""
        own = options.objective[options.choose(point[self.search.search.used])]
        return float(own.max() if self.norm == np.inf else own.sum())

    def _measure(self, point: np.ndarray, row: np.ndarray) -> float:
        schema = self.search.ensemble.schema
        return float(measure(point[None], row[None], schema, self.norm, self.weight)[0])
