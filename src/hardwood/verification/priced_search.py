"""Several trees against an attacker with a budget: an exact branch and bound whose questions are plain boxes.

A *choice* keeps some of the pieces of every feature. What it costs is at least the sum of the cheapest kept pieces;
what it reaches lies in the box around the kept ones. The exact search for boxes is asked about that box. If there is no
example, the choice is closed. If there is one, it is made as cheap as the cell of the model around it allows; a
cell that is dearer than the choice promised, or lies between the pieces, splits the choice in two at that feature:
the pieces that are cheaper and the rest, or those on either side.
"""

import heapq
import math
from dataclasses import replace
from itertools import count
from typing import NamedTuple

import numpy as np

from hardwood.threat.priced_reach import Pieces, PricedReach
from hardwood.verification.answers import FOUND, NONE, Answers
from hardwood.verification.asked import Ask, Asked, Decide
from hardwood.verification.clock import Clock


class Answer(NamedTuple):
    """What is known of one row."""

    example: np.ndarray | None
    cost: float
    lower_cost: float
    lower_margin: float
    finished: bool


class _Options(NamedTuple):
    """What one feature of a row can become: pieces or, with all ends NaN, categories."""

    low: np.ndarray
    high: np.ndarray
    cost: np.ndarray


class PricedSearch:
    """An ensemble and a priced reach, ready to be asked about rows."""

    def __init__(self, asked: Asked, door: Ask, *, any_will_do: bool = False) -> None:
        assert isinstance(asked.reach, PricedReach)
        self.asked, self.ensemble, self.reach = asked.silent(), asked.ensemble, asked.reach
        self.door, self.any_will_do = door, any_will_do
        self.boxes = asked.ensemble.node_boxes()
        self.used = np.unique(asked.ensemble.feature[asked.ensemble.feature >= 0])

    def ask(self, x: np.ndarray, class_index: int, clock: Clock) -> Answer:
        """Find the cheapest example of one row, or any within the budget."""
        if self.ensemble.decide(x[None])[0] != class_index:
            return Answer(x, 0.0, 0.0, -math.inf, True)
        options = self._options(x, class_index)
        order = count()
        best, example, lower_margin = math.inf, None, -math.inf
        pending = [(0.0, next(order), [np.ones(len(o.cost), dtype=bool) for o in options])]
        while pending:
            promised, number, kept = heapq.heappop(pending)
            if promised >= best:
                break  # the cheapest choice that is left cannot do better
            if number > 0 and clock.is_over():
                return Answer(example, best, promised, lower_margin, False)
            kept = _affordable(options, kept, self.reach.limit, best)
            if not kept:
                continue
            said = self._ask_box(x, class_index, options, kept, clock)
            if number == 0:
                lower_margin = float(said.lower[0])
            status, point = said.status[0], said.example[0]
            if status == NONE:
                continue
            if status != FOUND:
                return Answer(example, best, promised, lower_margin, False)
            cell = _Cell(self, point)
            pairs = list(zip(options, kept, strict=True))
            costs = np.array([cell.cost(j, o, k) for j, (o, k) in enumerate(pairs)])
            if costs.sum() <= self.reach.limit and costs.sum() < best:
                best = float(costs.sum())
                example = np.array([cell.value(j, o, k, x[j]) for j, (o, k) in enumerate(pairs)])
                if self.any_will_do:
                    break
            for half in _branch(options, kept, costs, cell):
                heapq.heappush(pending, (_promise(options, half), next(order), half))
        return Answer(example, best, best, lower_margin, True)

    def _options(self, x: np.ndarray, class_index: int) -> list[_Options]:
        row, own = x[None], np.array([class_index])
        options = []
        for feature, matrix in enumerate(self.reach.category_cost):
            if matrix is None:
                options.append(_Options(*(array[0] for array in self.reach.pieces(row, own, feature))))
            else:
                cost = self.reach.category_prices(row, own, feature)[0]
                options.append(_Options(np.full(len(cost), np.nan), np.full(len(cost), np.nan), cost))
        return options

    def _ask_box(
        self, x: np.ndarray, class_index: int, options: list[_Options], kept: list[np.ndarray], clock: Clock
    ) -> Answers:
        """Ask about the box around the kept pieces: about its point nearest to the row, which can become all others."""
        free = self.reach.free
        low, high, start, categories = x.copy(), x.copy(), x.copy(), list(free.categories)
        for feature in self.used.tolist():
            option, keep = options[feature], kept[feature]
            if self.reach.category_cost[feature] is None:
                low[feature], high[feature] = option.low[keep].min(), option.high[keep].max()
                start[feature] = min(max(x[feature], low[feature]), high[feature])
            else:
                start[feature] = x[feature] if keep[int(x[feature])] else float(keep.argmax())
                allowed = np.eye(len(keep), dtype=bool)
                allowed[int(start[feature])] = keep
                categories[feature] = allowed
        far = np.where(low < high, np.inf, 0.0)
        ends = np.where(np.isnan(x), np.array([[-np.inf], [np.inf]]), np.stack([low, high]))
        box = replace(free, left=far, right=far, within=ends, whole=None, share=None, categories=tuple(categories))
        said = self.door(
            self.asked._replace(
                goal=Decide(), matrix=start[None], class_index=np.array([class_index]), reach=box, clock=clock,
                are_moved=True,
            )
        )  # fmt: skip
        if said.interrupted:
            raise KeyboardInterrupt
        return said


class _Cell:
    """The part of the input space around a point on which the model is constant."""

    def __init__(self, search: PricedSearch, point: np.ndarray) -> None:
        leaves = search.ensemble.leaves(point[None])[0]
        boxes = search.boxes
        self.low, self.high = boxes.low[leaves].max(axis=0), boxes.high[leaves].min(axis=0)
        self.allowed = {feature: sets[leaves].all(axis=0) for feature, sets in boxes.allowed.items()}

    def meets(self, feature: int, option: _Options) -> np.ndarray:
        """Say of each piece whether part of it is in the cell."""
        if feature in self.allowed:
            return self.allowed[feature]
        return (option.high > self.low[feature]) & (option.low <= self.high[feature])

    def cost(self, feature: int, option: _Options, kept: np.ndarray) -> float:
        """Return what a kept piece in the cell costs at least; inf if there is none."""
        return float(np.where(kept & self.meets(feature, option), option.cost, np.inf).min())

    def value(self, feature: int, option: _Options, kept: np.ndarray, own: float) -> float:
        """Return the value in the cell that costs least, the nearest to the row's own among equals."""
        cost = np.where(kept & self.meets(feature, option), option.cost, np.inf)
        if feature in self.allowed:
            return own if cost[int(own)] == cost.min() else float(cost.argmin())
        pieces = Pieces(option.low[None], option.high[None], cost[None])
        low, high = float(self.low[feature]), float(self.high[feature])
        return float(pieces.nearest_value(np.array([own]), low, high, cost.min(keepdims=True))[0])


def _cheapest(options: list[_Options], kept: list[np.ndarray]) -> np.ndarray:
    return np.array([o.cost[k].min() for o, k in zip(options, kept, strict=True)])


def _promise(options: list[_Options], kept: list[np.ndarray]) -> float:
    """Return what a choice costs at least."""
    return float(_cheapest(options, kept).sum())


def _affordable(options: list[_Options], kept: list[np.ndarray], limit: float, best: float) -> list[np.ndarray]:
    """Drop pieces that cost too much even if all other features take their cheapest; [] if nothing is left."""
    cheapest = _cheapest(options, kept)
    total = cheapest.sum()
    if total > limit:
        return []
    tightened = []
    for option, keep, least in zip(options, kept, cheapest, strict=True):
        price = total - least + option.cost
        tightened.append(keep & (price <= limit) & (price < best))
    return tightened if all(keep.any() for keep in tightened) else []


def _branch(options: list[_Options], kept: list[np.ndarray], costs: np.ndarray, cell: _Cell) -> list[list[np.ndarray]]:
    """Split a choice at the feature where the cell costs most beyond what was promised; nothing to split if nowhere."""
    excess = costs - _cheapest(options, kept)
    feature = int(excess.argmax())
    if not excess[feature] > 0.0:
        return []
    option, keep = options[feature], kept[feature]
    if math.isfinite(costs[feature]):
        first = keep & (option.cost < costs[feature])
    else:  # the cell lies between the pieces
        first = keep & (option.high <= cell.low[feature])
    halves = []
    for half in (first, keep & ~first):
        if half.any():
            halves.append([*kept[:feature], half, *kept[feature + 1 :]])
    return halves
