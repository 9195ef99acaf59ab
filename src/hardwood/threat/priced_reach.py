"""PricedReach: what an attacker with a budget may do to the rows of one table, as arrays.

The one definition of what attack rules mean. Each feature of a row has *pieces*: closed intervals of values, each with
the least cost of getting there.

* The value itself is a piece of cost 0. Where the threat model has a reach, that interval is a piece of cost 0.
* A rule whose condition meets a piece in ``[low, high]`` makes a piece ``[low + least, high + most]``, or the value
  it sets, and its cost is added. With `repeat` rules apply to pieces that rules have made; without, at most one rule
  is applied to a feature.
* The costs of a row's features are added up, and the sum must not exceed the budget. The budget counts as a
  billionth larger than it is, so that ten steps of 0.1 fit into a budget of 1.

Categories are the same with sets: a matrix per feature says what it costs to turn one category into another.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.rule_pieces import NumberRules, expand_column
from hardwood.threat.reach import Reach, read_codes

# More pieces than this for one value mean that the budget pays for a great many small steps.
MAX_PIECES = 1 << 12


class Pieces(NamedTuple):
    """What the numbers of a column can become: float64 (row, piece); unused entries run from inf to -inf."""

    low: np.ndarray
    high: np.ndarray
    cost: np.ndarray

    def least_cost(self, low: np.ndarray | float, high: np.ndarray | float) -> np.ndarray:
        """Return what it costs each row at least to get above `low` and not above `high`."""
        low, high = np.asarray(low)[..., None], np.asarray(high)[..., None]
        return np.where((self.high > low) & (self.low <= high) & (low < high), self.cost, np.inf).min(axis=1)

    def nearest_value(self, column: np.ndarray, low: float, high: float, cost: np.ndarray) -> np.ndarray:
        """Return what is nearest to each row's own value above `low`, not above `high`, at no more than this cost."""
        start, end = np.maximum(self.low, np.nextafter(low, np.inf)), np.minimum(self.high, high)
        own = column[:, None]
        value = np.clip(own, start, end)
        usable = (start <= end) & (self.cost <= cost[:, None])
        best = np.where(usable, np.abs(value - own), np.inf).argmin(axis=1)
        return value[np.arange(len(column)), best]


@dataclass(frozen=True, eq=False)
class PricedReach:
    """What an attacker with a budget may do to the rows of one table.

    Parameters
    ----------
    free : Reach
        What can be done at no cost.
    rules : tuple
        Per feature None or its rules, if it is numerical.
    category_cost : tuple
        Per feature None (numerical) or a float64 matrix of shape (c + 1, c + 1): ``[a, b]`` is what it costs to turn
        category ``a`` into ``b``; inf where it cannot be done. The last row and column stand for categories that are
        not in the schema.
    budget : float
    repeat : bool

    Examples
    --------
    >>> from hardwood import AttackRule, ThreatModel
    >>> from hardwood.table import Schema
    >>> rules = [AttackRule(0, add=1.0), AttackRule(0, when=(2, 3), add=-5.0, cost=2.0)]
    >>> reach = ThreatModel(rules=rules, budget=3.0).price(Schema.numeric(1))
    >>> pieces = reach.pieces(np.array([[1.5]]), None, 0)
    >>> [(low, high, cost) for low, high, cost in zip(*(array[0].tolist() for array in pieces))]
    [(1.5, 1.5, 0.0), (1.5, 2.5, 1.0), (1.5, 3.5, 2.0), (-3.0, 2.5, 3.0), (1.5, 4.5, 3.0)]
    """

    free: Reach
    rules: tuple[NumberRules | None, ...]
    category_cost: tuple[np.ndarray | None, ...]
    budget: float
    repeat: bool

    @property
    def targets(self) -> np.ndarray | None:
        """Which classes the rows of each class want to be given; None: any other."""
        return self.free.targets

    def wants(self, class_index: np.ndarray, given: np.ndarray) -> np.ndarray:
        """Say of rows whether a class that they are given is what the attacker wants for them."""
        return self.free.wants(class_index, given)

    @property
    def limit(self) -> float:
        """What a sum of costs is compared with."""
        return self.budget * (1.0 + 1e-9)

    @property
    def attacks(self) -> np.ndarray:
        """Which classes attack."""
        return self.free.attacks

    def moves(self, n_rows: int, class_index: np.ndarray | None) -> np.ndarray:
        """Say of each row whether it may be changed at all."""
        return np.ones(n_rows, dtype=bool) if class_index is None else self.attacks[class_index]

    def pieces(self, X: np.ndarray, class_index: np.ndarray | None, feature: int) -> Pieces:
        """Return the pieces of a numerical feature of every row, the cheapest first; their ends are finite."""
        low, high, cost = self._pieces(X, class_index, feature)
        largest = np.finfo(np.float64).max  # infinity is not a value a row can have
        return Pieces(np.maximum(low, -largest), np.minimum(high, largest), cost)

    def _pieces(self, X: np.ndarray, class_index: np.ndarray | None, feature: int) -> Pieces:
        rules, column, moves = self.rules[feature], np.ascontiguousarray(X[:, feature]), self.moves(len(X), class_index)
        if rules is None:
            low, high = self.free.interval(column, feature)
            low, high = np.where(moves, low, column), np.where(moves, high, column)
            return Pieces(low[:, None], high[:, None], np.zeros((len(X), 1)))
        room = len(rules.cost) + 2
        while room <= MAX_PIECES:
            pieces = Pieces(*(np.empty((len(X), room)) for _ in Pieces._fields))
            most = expand_column(rules, frozen(column), moves, self.limit, self.repeat, *pieces)
            if most > 0:
                return Pieces(*(np.ascontiguousarray(array[:, :most]) for array in pieces))
            room *= 2
        raise ValueError(
            f"budget={self.budget:g}: it pays for too many steps of the rules for feature {feature}; "
            "make the steps larger or the budget smaller"
        )

    def category_prices(self, X: np.ndarray, class_index: np.ndarray | None, feature: int) -> np.ndarray:
        """Return what each category costs each row: (row, category), inf where it cannot be had."""
        cost = self.category_cost[feature]
        assert cost is not None
        own = read_codes(X[:, feature])
        stay = np.where(np.eye(len(cost), dtype=bool), 0.0, np.inf)
        return np.where(self.moves(len(X), class_index)[:, None], cost[own], stay[own])

    def box(self, X: np.ndarray, class_index: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the lowest and the highest value that each number can be moved to if all is spent on it."""
        low, high = X.copy(), X.copy()
        for feature, matrix in enumerate(self.category_cost):
            if matrix is None:
                pieces = self.pieces(X, class_index, feature)
                low[:, feature] = np.where(pieces.cost <= self.limit, pieces.low, np.inf).min(axis=1)
                high[:, feature] = np.where(pieces.cost <= self.limit, pieces.high, -np.inf).max(axis=1)
        return low, high

    def open_codes(self, X: np.ndarray, class_index: np.ndarray | None) -> np.ndarray:
        """Say of each row which categories the budget pays for: a column per category of every categorical feature."""
        columns = [
            self.category_prices(X, class_index, feature) <= self.limit
            for feature, matrix in enumerate(self.category_cost)
            if matrix is not None
        ]
        return np.concatenate(columns, axis=1) if columns else np.empty((len(X), 0), dtype=bool)

    def price(self, X: np.ndarray, X_adv: np.ndarray, class_index: np.ndarray | None) -> np.ndarray:
        """Return what it costs at least to turn each row into the same row of `X_adv`; inf if it cannot be done.

        What is missing stays missing, and nothing becomes so.
        """
        total = np.zeros(len(X))
        is_missing = np.isnan(X), np.isnan(X_adv)
        total[(is_missing[0] != is_missing[1]).any(axis=1)] = np.inf
        for feature, matrix in enumerate(self.category_cost):
            value = X_adv[:, feature]
            if matrix is not None:
                prices = self.category_prices(X, class_index, feature)
                cost = prices[np.arange(len(X)), read_codes(value)]
            else:
                low, high, prices = self.pieces(X, class_index, feature)
                inside = (low <= value[:, None]) & (value[:, None] <= high)
                cost = np.where(inside, prices, np.inf).min(axis=1)
            total += np.where(is_missing[0][:, feature], 0.0, cost)
        return total

    def contains(self, X: np.ndarray, X_adv: np.ndarray, class_index: np.ndarray) -> np.ndarray:
        """Say of each row of a matrix whether it can be turned into the same row of `X_adv`."""
        return self.price(X, X_adv, class_index) <= self.limit
