"""Several trees within any budget over columns: an exact branch and bound whose questions are plain boxes.

Between two thresholds no tree can tell values apart, so a column of a row has few options: its own value, on either
side the nearest value beyond each threshold, and other categories. A *choice* keeps some options of every column. What
it costs is at least the sum of its cheapest ones; where these exceed a limit it is closed. Otherwise the exact search
is asked about the box around it. If that holds no example, the choice is closed, too. An example that is too dear, or
not the best, splits the choice at a column where the example costs more than the choice has to.

This is what answers when the kernels' own search for the cheapest example does not: two limits at once, or the nearest
example in another norm than the budget's.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.threat import Reach
from hardwood.threat.column_budget import RADIUS_TOLERANCE
from hardwood.verification.answers import FOUND, NONE, UNFINISHED
from hardwood.verification.clock import Clock
from hardwood.verification.search import Box, RowSearch

# What adding up in another order may do to costs: choices that exceed a limit by no more are looked at.
ADDING_UP = 1e-12
# The limit of a radius, in shares of it.
WHOLE_RADIUS = (1.0 + RADIUS_TOLERANCE) * (1.0 + ADDING_UP)
# No change costs more, whatever it costs: sums over columns remain numbers.
FARTHEST = 2.0**900


class Examined(NamedTuple):
    """What is known of a choice: its status, an example among its points, and the parts that are left to look at."""

    status: int
    point: np.ndarray | None = None
    chosen: np.ndarray | None = None  # the options that the point is made of
    parts: tuple[np.ndarray, ...] = ()


class Found(NamedTuple):
    """What is known of one row: the best point so far, what it is worth, and what no point is better than."""

    point: np.ndarray | None
    value: float
    bound: float
    finished: bool


@dataclass
class Options:
    """What each column of a row can become, all columns one after the other."""

    value: np.ndarray  # float64
    column: np.ndarray  # the column that each is of, among those that the ensemble looks at
    start: np.ndarray  # where those of each column begin
    change: np.ndarray  # float64: how far it is; 1 for another category
    code: np.ndarray  # of a category its place among all of the row's, otherwise -1
    cost: np.ndarray  # float64 (limit, option)
    limit: np.ndarray  # float64 per limit
    objective: np.ndarray  # float64: what is to be least in sum; 0 if any point will do
    distance: tuple[float, np.ndarray, float] | None  # the norm, the weights and the unit of the objective

    @property
    def every(self) -> np.ndarray:
        """The choice that keeps all of them."""
        return np.ones(len(self.value), dtype=bool)

    def find_cheapest(self, kept: np.ndarray, cost: np.ndarray) -> np.ndarray:
        """Return the least cost of a kept option, column by column."""
        return np.minimum.reduceat(np.where(kept, cost, np.inf), self.start)

    def drop_dear(self, kept: np.ndarray, best: float) -> np.ndarray | None:
        """Drop options that are too dear even if all other columns take their cheapest; None if nothing is left."""
        for cost, limit in [*zip(self.cost, self.limit, strict=True), (self.objective, best)]:
            cheapest = self.find_cheapest(kept, cost)
            rest = cheapest.sum() - cheapest
            kept = kept & (rest[self.column] + cost <= limit)
            if not np.logical_or.reduceat(kept, self.start).all():
                return None
        return kept

    def promise(self, kept: np.ndarray) -> float:
        """Return what a choice costs at least, by the objective."""
        return float(self.find_cheapest(kept, self.objective).sum())

    def share(self, kept: np.ndarray) -> float:
        """Return which share of a limit a choice uses up at least."""
        shares = (float(self.find_cheapest(kept, c).sum()) / b for c, b in zip(self.cost, self.limit, strict=True))
        return max(shares, default=0.0)

    def choose(self, point: np.ndarray) -> np.ndarray:
        """Return the options that a point is made of, one per column."""
        is_same = (self.value == point[self.column]) | (np.isnan(self.value) & np.isnan(point[self.column]))
        chosen = np.flatnonzero(is_same)
        return chosen[np.searchsorted(self.column[chosen], np.arange(len(self.start)))]

    def split(self, kept: np.ndarray, chosen: np.ndarray, *, is_affordable: bool) -> tuple[np.ndarray, ...]:
        """Split a choice in two at the column where a point of it costs most beyond what it has to; () if nowhere."""
        if is_affordable:
            excess = self.objective[chosen] - self.find_cheapest(kept, self.objective)
        else:
            excess = np.zeros(len(chosen))
            for cost, limit in zip(self.cost, self.limit, strict=True):
                if cost[chosen].sum() > limit:
                    excess += (cost[chosen] - self.find_cheapest(kept, cost)) / limit
        column = int(excess.argmax())
        if not excess[column] > 0.0:
            return ()
        option = chosen[column]
        own = int(np.flatnonzero((self.column == column) & (self.change == 0.0))[0])
        if self.code[option] >= 0:
            inner = self.change == 0.0
        else:
            inner = self.value < self.value[option] if option > own else self.value > self.value[option]
        return self.part(kept, column, inner)

    def part(self, kept: np.ndarray, column: int, inner: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the parts of a choice with some of the options of a column, and with its other ones."""
        return kept & ((self.column != column) | inner), kept & ((self.column != column) | ~inner)


class BudgetSearch:
    """An ensemble and a reach with a budget, ready to be asked about rows."""

    def __init__(self, ensemble: TreeEnsemble, reach: Reach) -> None:
        self.ensemble, self.reach = ensemble, reach
        self.search = RowSearch(ensemble, reach, np.ones(ensemble.schema.n_features))
        self._narrow = reach.select(self.search.used)

    def find_any(self, row: np.ndarray, class_index: int, options: Options, kept: np.ndarray, clock: Clock) -> Found:
        """Find some example within the budget among the options that are kept; its value is 0."""
        order = count()
        pending = [(0.0, next(order), kept)]
        while pending:
            _, number, kept = heapq.heappop(pending)
            if number > 0 and clock.is_over():
                return Found(None, math.inf, 0.0, False)
            affordable = options.drop_dear(kept, math.inf)
            if affordable is None:
                continue
            said = self.examine(row, class_index, options, affordable, clock)
            if said.status == UNFINISHED:
                return Found(None, math.inf, 0.0, False)
            if said.point is not None:
                return Found(said.point, 0.0, 0.0, True)
            for part in said.parts:
                heapq.heappush(pending, (options.share(part), next(order), part))
        return Found(None, math.inf, math.inf, True)

    def find_nearest(self, row: np.ndarray, class_index: int, options: Options, best: Found, clock: Clock) -> Found:
        """Find the example within the budget that is best by the objective of the options, if one beats `best`."""
        order = count()
        pending = [(best.bound, next(order), options.every)]
        point, value = best.point, best.value
        while pending:
            promised, number, kept = heapq.heappop(pending)
            if promised >= value:
                break  # the best choice that is left cannot do better
            if number > 0 and clock.is_over():
                return Found(point, value, promised, False)
            affordable = options.drop_dear(kept, value)
            if affordable is None:
                continue
            said = self.examine(row, class_index, options, affordable, clock, value)
            if said.status == UNFINISHED:
                return Found(point, value, promised, False)
            if said.point is not None and (reached := float(options.objective[said.chosen].sum())) < value:
                point, value = said.point, reached
            for part in said.parts:
                heapq.heappush(pending, (max(promised, options.promise(part)), next(order), part))
        return Found(point, value, value, True)

    def find_extreme(self, row: np.ndarray, sign: int, clock: Clock) -> Found:
        """Find the largest (sign 1) or smallest (-1) sum of leaf values within the budget, times the sign.

        The extreme of the box around a choice bounds that of the choice, and is it if its point is within the budget.
        The choice with the best bound is always looked at first, so the first such point is the answer.
        """
        options, order = self.list_options(row, 0), count()
        pending: list[tuple[float, int, np.ndarray, np.ndarray]] = []
        halves: Sequence[np.ndarray] = [options.every]
        bound = -math.inf
        while True:
            for half in halves:
                kept = options.drop_dear(half, math.inf)
                if kept is None:
                    continue
                said = self.search.extreme(row[None], sign, clock, self.surround(row, options, kept))
                if said.interrupted:
                    raise KeyboardInterrupt
                chosen = options.choose(said.example[0][self.search.used])
                heapq.heappush(pending, (-float(said.bound[0]), next(order), kept, chosen))
                if said.status[0] != NONE:
                    # Of the other half no more is known than of both together.
                    return Found(None, math.nan, -(bound if math.isfinite(bound) else pending[0][0]), False)
            bound, _, kept, chosen = heapq.heappop(pending)
            point = self._write(row, options, chosen)
            if self._can_become(row, 0, point):
                return Found(point, -bound, -bound, True)
            if clock.is_over():
                return Found(None, math.nan, -bound, False)
            halves = options.split(kept, chosen, is_affordable=False)

    def list_options(
        self,
        row: np.ndarray,
        class_index: int,
        norm: float = 1.0,
        weight: np.ndarray | None = None,
        unit: float = 1.0,
    ) -> Options:
        """List what each column of a row can become, what that costs, and what the limits are.

        norm, weight, unit : the distance that is the objective, and what it is measured in; without weights there is
            none.
        """
        used, own = self.search.used, np.array([class_index])
        x = row[None, used]
        low, high = self._narrow.box(x, own)
        allowed = self._narrow.open_codes(x, own)[0]
        values, codes, first_code = [], [], 0
        for j, table in enumerate(self._narrow.categories):
            if table is None:
                values.append(self._list_values(j, float(x[0, j]), float(low[0, j]), float(high[0, j])))
                codes.append(np.full(len(values[-1]), -1))
                continue
            known = np.flatnonzero(allowed[first_code : first_code + len(table)])
            known = np.array([np.nan]) if np.isnan(x[0, j]) else known.astype(np.float64)
            values.append(known)
            codes.append(np.full(1, -1) if np.isnan(x[0, j]) else first_code + known.astype(np.intp))
            first_code += len(table)
        size = np.array([len(option) for option in values])
        value, column = np.concatenate(values), np.repeat(np.arange(len(size)), size)
        code = np.concatenate(codes)
        change = np.nan_to_num(np.abs(value - x[0, column]), nan=0.0)
        change[code >= 0] = change[code >= 0] != 0.0
        cost, limit = self._price(change, column)
        return Options(
            value, column, np.cumsum(size) - size, change, code, cost, limit,
            _measure_objective(change, norm, None if weight is None else weight[used[column]], unit),
            None if weight is None else (norm, weight, unit),
        )  # fmt: skip

    def _list_values(self, j: int, own: float, low: float, high: float) -> np.ndarray:
        """Return a row's own value, and the nearest ones beyond each threshold that are within reach, in order."""
        model = self.search.model
        here = slice(int(model.features[j]["threshold_start"]), int(model.features[j]["threshold_end"]))
        below, above = model.thresholds[here], model.above[here]
        below = below[(low <= below) & (below < own)]
        above = above[(above <= high) & (model.thresholds[here] >= own) & np.isfinite(above)]
        return np.concatenate([below, [own], above])

    def _price(self, change: np.ndarray, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return what changes cost by every limit, and the limits."""
        budget = self._narrow.budget
        costs, limits = [], []
        if budget is None:
            return np.empty((0, len(change))), np.empty(0)
        counted, share = budget.weigh(len(self._narrow.left))
        if budget.max_changes is not None:
            costs.append((change != 0.0) * counted[column])
            limits.append(float(budget.max_changes))
        if share is not None:
            with np.errstate(over="ignore"):
                costs.append(np.minimum((change * share[column]) ** budget.norm, FARTHEST))
            limits.append(WHOLE_RADIUS)
        return np.array(costs), np.array(limits)

    def surround(self, row: np.ndarray, options: Options, kept: np.ndarray) -> Box:
        """Return the box around a choice."""
        low = np.minimum.reduceat(np.where(kept, options.value, np.inf), options.start)[None]
        high = np.maximum.reduceat(np.where(kept, options.value, -np.inf), options.start)[None]
        sizes = [len(table) for table in self._narrow.categories if table is not None]
        allowed = np.zeros((1, sum(sizes)), dtype=bool)
        allowed[0, options.code[kept & (options.code >= 0)]] = True
        for j in self._narrow.categorical:
            low[0, j] = high[0, j] = row[self.search.used[j]]
        return low, high, allowed

    def examine(
        self,
        row: np.ndarray,
        class_index: int,
        options: Options,
        kept: np.ndarray,
        clock: Clock,
        best: float = math.inf,
    ) -> Examined:
        """Ask the exact search about the box around a choice; an example that is too dear splits it.

        best : examples that are worth no less by the objective need not be found.
        """
        said = self.search.decide(row[None], np.array([class_index]), clock, self.surround(row, options, kept))
        if said.interrupted:
            raise KeyboardInterrupt
        if said.status[0] != FOUND:
            return Examined(int(said.status[0]))
        return self._split_at(row, class_index, options, kept, said.example[0], clock)

    def _split_at(
        self, row: np.ndarray, class_index: int, options: Options, kept: np.ndarray, example: np.ndarray, clock: Clock
    ) -> Examined:
        """Bring an example nearer, and split the choice at it."""
        chosen = options.choose(example[self.search.used])
        chosen = self._bring_nearer(row, class_index, options, kept, chosen, clock)
        point = self._write(row, options, chosen)
        is_affordable = self._can_become(row, class_index, point)
        parts = options.split(kept, chosen, is_affordable=is_affordable)
        return Examined(FOUND, point if is_affordable else None, chosen, parts)

    def _is_lost(self, class_index: int, given: np.ndarray) -> np.ndarray:
        """Say of points that are given these classes whether they are examples."""
        return given != class_index

    def _can_become(self, row: np.ndarray, class_index: int, point: np.ndarray) -> bool:
        return bool(self.reach.contains(row[None], point[None], np.array([class_index]))[0])

    def _bring_nearer(
        self,
        row: np.ndarray,
        class_index: int,
        options: Options,
        kept: np.ndarray,
        chosen: np.ndarray,
        clock: Clock,
    ) -> np.ndarray:
        """Make an example of a choice cheaper, column by column: each goes as near to the row as leaves it one."""
        chosen = chosen.copy()
        for column in np.flatnonzero(options.change[chosen]).tolist():
            if clock.is_over():
                break
            nearer = np.flatnonzero(
                kept & (options.column == column) & (options.change < options.change[chosen[column]])
            )
            if not len(nearer):
                continue
            nearer = nearer[np.argsort(options.change[nearer], kind="stable")]
            points = np.repeat(self._write(row, options, chosen)[None], len(nearer), axis=0)
            points[:, self.search.used[column]] = options.value[nearer]
            works = np.flatnonzero(self._is_lost(class_index, self.ensemble.decide(points)))
            if len(works):
                chosen[column] = nearer[works[0]]
        return chosen

    def _write(self, row: np.ndarray, options: Options, chosen: np.ndarray) -> np.ndarray:
        """Return the point that options make."""
        point = row.copy()
        point[self.search.used] = options.value[chosen]
        return point


def _measure_objective(change: np.ndarray, norm: float, weight: np.ndarray | None, unit: float) -> np.ndarray:
    """Return what each change contributes to a distance in some unit; to its square in the L2 norm."""
    if weight is None:
        return np.zeros(len(change))
    with np.errstate(over="ignore", invalid="ignore"):
        if norm == 0:
            distance = (change != 0.0) * (weight / unit)
        else:
            # Whichever of the two is nearer to 1 is divided: a product of extremes may be an ordinary number.
            distance = np.fmax((change / unit) * weight, change * (weight / unit))
        distance = distance * distance if norm == 2 else distance
    return np.minimum(np.nan_to_num(distance, nan=0.0), FARTHEST)
