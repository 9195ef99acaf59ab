"""Linear programs over a few columns of one row, solved by the HiGHS that comes with SciPy."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog, nnls

from hardwood.threat.placed_relations import PlacedExpression

# How far a constraint may be from holding; the smallest that HiGHS takes. Rows and columns are scaled to about 1.
PRECISION = 1e-10
# By this much a bound of a distance is lowered, relative to it, for what the solver may be off.
DOUBT = 1e-8


class Row(NamedTuple):
    """A constraint: an expression from `low` to `high`; margins say in which units it is inside an open end."""

    expression: PlacedExpression
    low: float
    high: float
    low_margin: float = 0.0
    high_margin: float = 0.0


class Solution(NamedTuple):
    """A point, and a bound that no point is below; no point and infinity if there is none."""

    point: np.ndarray | None
    lower: float


NO_SOLUTION = Solution(None, np.inf)


class Program:
    """The points of a box that satisfy rows; `row` is where distances are measured from.

    Columns other than `columns`, and those whose interval is a point, stay where they are nearest to the row.
    """

    def __init__(
        self,
        row: np.ndarray,
        columns: np.ndarray,
        box: tuple[np.ndarray, np.ndarray],
        is_open: np.ndarray,
        whole: np.ndarray,
        rows: list[Row],
    ) -> None:
        low, high = box
        self.row, self.start = row, np.clip(row, low, high)
        self.free = free = columns[low[columns] < high[columns]]
        self.low, self.high, self.whole = low[free], high[free], whole[free]
        size = np.abs(np.stack([row[free], self.low, self.high]))
        size = np.where(np.isfinite(size), size, 0.0).max(axis=0)
        width = self.high - self.low
        self.scale = np.where(self.whole, 1.0, np.where(np.isfinite(width), width, np.maximum(size, 1.0)))
        self.margin = self._find_margins(is_open[free])
        self.rows = rows
        self.is_empty = bool((low[columns] > high[columns]).any())
        self._write()

    def _find_margins(self, is_open: np.ndarray) -> np.ndarray:
        """Return in which units columns are inside their open ends: the row's own margin, or the width; else 0."""
        own = self.row[self.free] - self.low
        inside = (own > 0.0) & (self.row[self.free] <= self.high)
        return np.where(is_open, np.where(inside, np.minimum(own, self.scale), self.scale), 0.0)

    def _write(self) -> None:
        """Write the rows as ``matrix @ step <= limit``, where a point is `start` plus `scale` times a step.

        `inside` is what each row has to be inside by, in its own scale, for each unit of margin.
        """
        matrix, limit, inside = [], [], []
        for expression, low, high, low_margin, high_margin in self.rows:
            value = float(expression.compute(self.start[None])[0])
            coefficients = np.zeros(len(self.free))
            at = {int(column): k for k, column in enumerate(self.free)}
            for column, coefficient in zip(expression.columns.tolist(), expression.coefficients, strict=True):
                if column in at:
                    coefficients[at[column]] = coefficient * self.scale[at[column]]
            largest = np.abs(coefficients).max(initial=0.0)
            if largest == 0.0:
                doubt = PRECISION * float(expression.measure(self.start[None])[0])
                is_inside = low - doubt <= value <= high + doubt and not (low_margin and value <= low)
                self.is_empty |= not (is_inside and not (high_margin and value >= high))
                continue
            if high < np.inf:
                matrix.append(coefficients / largest)
                limit.append((high - value) / largest)
                inside.append(high_margin / largest)
            if low > -np.inf:
                matrix.append(-coefficients / largest)
                limit.append((value - low) / largest)
                inside.append(low_margin / largest)
        self.matrix = np.array(matrix).reshape(len(limit), len(self.free))
        self.limit, self.inside = np.array(limit), np.array(inside)
        self.bounds = np.stack([self.low - self.start[self.free], self.high - self.start[self.free]]) / self.scale

    def find_inner(self, seconds: float) -> tuple[np.ndarray | None, float]:
        """Return the point that is furthest inside all open ends, and by how many of their units, at most 1."""
        if self.is_empty:
            return None, -np.inf
        n = len(self.free)
        if n == 0:
            return self.start, 1.0
        opened = np.flatnonzero(self.margin > 0.0)
        # Open columns: step >= bound + margin * unit.
        extra = np.zeros((len(opened), n + 1))
        extra[np.arange(len(opened)), opened] = -1.0
        extra[:, n] = self.margin[opened] / self.scale[opened]
        matrix = np.concatenate([np.column_stack([self.matrix, self.inside]), extra])
        limit = np.concatenate([self.limit, -self.bounds[0, opened]])
        bounds = np.column_stack([self.bounds, [0.0, 1.0]])
        cost = np.append(np.zeros(n), -1.0)
        step = self._solve(cost, matrix, limit, bounds, seconds)
        return (None, -np.inf) if step is None else (self._read(step[:n]), float(step[n]))

    def minimise(self, norm: float, weight: np.ndarray, beside: float, seconds: float) -> Solution:
        """Find the point with the least weighted change, the L1 or the L-infinity norm.

        beside : what the changes of all other columns come to: the L-infinity norm is no less.
        """
        if self.is_empty:
            return NO_SOLUTION
        n = len(self.free)
        if n == 0:
            return Solution(self.start, beside if norm == np.inf else 0.0)
        price = weight[self.free] * self.scale
        unit = float(price.max(initial=0.0)) or 1.0
        offset = weight[self.free] * (self.start - self.row)[self.free]
        # The change of each column is at most a further one: its own, or in the L-infinity norm the largest.
        n_more = 1 if norm == np.inf else n
        change = np.diag(price / unit)
        which = -np.ones((n, 1)) if norm == np.inf else -np.eye(n)
        matrix = np.block(
            [[self.matrix, np.zeros((len(self.limit), n_more))], [change, which], [-change, which]]
        )  # fmt: skip
        limit = np.concatenate([self.limit, -offset / unit, offset / unit])
        least = beside / unit if norm == np.inf else 0.0
        more = np.repeat([[least], [np.inf]], n_more, axis=1)
        cost = np.append(np.zeros(n), np.ones(n_more))
        step = self._solve(cost, matrix, limit, np.column_stack([self.bounds, more]), seconds)
        if step is None:
            return NO_SOLUTION
        return Solution(self._read(step[:n]), float(cost @ step) * unit * (1.0 - DOUBT))

    def project(self, weight: np.ndarray) -> Solution:
        """Find the nearest point in the weighted L2 norm; whole columns count as any others.

        A least-distance problem, by Lawson and Hanson's reduction to non-negative least squares. Returns no point, and
        no bound, where a column costs nothing.
        """
        if self.is_empty:
            return NO_SOLUTION
        price = weight[self.free] * self.scale
        if not (price > 0.0).all():
            return Solution(None, 0.0)
        n = len(self.free)
        if n == 0:
            return Solution(self.start, 0.0)
        # Steps from the row, in costs: change = price * (step - own).
        own = (self.row - self.start)[self.free] / self.scale
        finite = np.isfinite(self.bounds)
        matrix = np.concatenate([-self.matrix, np.eye(n)[finite[0]], -np.eye(n)[finite[1]]])
        least = np.concatenate([-self.limit, self.bounds[0, finite[0]], -self.bounds[1, finite[1]]]) - matrix @ own
        unit = float(price.max(initial=0.0)) or 1.0
        matrix = matrix / (price / unit)
        size = np.abs(matrix).max(axis=1, initial=0.0)
        matrix, least = matrix / size[:, None], least / size
        target = np.append(np.zeros(n), 1.0)
        system = np.vstack([matrix.T, least])
        try:
            residual = system @ nnls(system, target)[0] - target
        except RuntimeError:  # it did not converge
            return Solution(None, 0.0)
        if np.linalg.norm(residual) <= PRECISION:
            return NO_SOLUTION
        change = -residual[:n] / residual[n]
        step = own + change * unit / price
        return Solution(self._read(step), float(np.linalg.norm(change)) * unit * (1.0 - DOUBT))

    def _solve(
        self, cost: np.ndarray, matrix: np.ndarray, limit: np.ndarray, bounds: np.ndarray, seconds: float
    ) -> np.ndarray | None:
        """Return the best step, None if there is none; TimeoutError if that is not known."""
        options = {"primal_feasibility_tolerance": PRECISION, "dual_feasibility_tolerance": PRECISION}
        if seconds < np.inf:
            options["time_limit"] = max(seconds, 0.0)
        is_whole = np.zeros(len(cost), dtype=int)
        is_whole[: len(self.free)] = self.whole
        if self.whole.any():
            options["mip_rel_gap"] = 0.0
        found = linprog(
            cost, matrix, limit, bounds=bounds.T, method="highs", options=options,
            integrality=is_whole if self.whole.any() else None,
        )  # fmt: skip
        if found.status == 2:  # there is none
            return None
        if found.x is None:
            raise TimeoutError
        return np.asarray(found.x)

    def _read(self, step: np.ndarray) -> np.ndarray:
        """Return the point that a step leads to, inside its intervals, with whole columns whole."""
        value = self.start[self.free] + self.scale * step
        value = np.where(self.whole, np.round(value), value)
        point = self.start.copy()
        point[self.free] = np.clip(value, self.low, self.high)
        return point
