"""What an attacker can do to one row of an ensemble, as a mixed-integer linear program.

The formulation of Kantchelian, Tygar and Joseph (2016). Its variables:

* for each threshold of a numerical feature that the row can be moved across, whether the value is at most that (0 or 1;
  what is at most a threshold is at most the next one);
* for each category that a value may take, whether it does (0 or 1; one of them);
* for each leaf within reach, how much of its tree's output it gives, between 0 and 1. The leaves of a tree sum to 1,
  and those to the left of a split to no more than whether the row goes left there, so that they are 0 or 1 as well.

Between two neighbouring thresholds the nearest value to the row is a known number, so every norm is linear in these
variables: L2 by its square, L-infinity by one more variable that no feature's change exceeds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.whole_numbers import find_above, find_whole
from hardwood.threat import Reach
from hardwood.threat.column_budget import RADIUS_TOLERANCE, ColumnBudget

LARGEST = np.finfo(np.float64).max


class Box(NamedTuple):
    """What one row can become: every number from `low` to `high`, every category in `codes` (by feature)."""

    row: np.ndarray
    low: np.ndarray
    high: np.ndarray
    codes: dict[int, np.ndarray]
    whole: np.ndarray | None = None  # which numbers are whole, as the ends are then

    @classmethod
    def of_row(cls, reach: Reach, row: np.ndarray, class_index: int) -> "Box":
        """Return what the attacker may turn a row into; infinity is not a value that a row can have."""
        low, high = reach.box(row[None], np.array([class_index]))
        codes = {}
        for j, allowed in enumerate(reach.categories):
            if allowed is not None:
                own = int(row[j])
                codes[j] = np.flatnonzero(allowed[own]) if reach.attacks[class_index] else np.array([own])
        return cls(row, np.maximum(low[0], -LARGEST), np.minimum(high[0], LARGEST), codes, reach.whole)

    def within(self, distance: float, norm: float, weight: np.ndarray) -> "Box":
        """Return the part where no single feature is changed by more than a distance, or a trifle more."""
        if distance == np.inf:
            return self
        dear = weight > distance
        if norm == 0:
            change = np.where(dear, 0.0, np.inf)
        else:
            change = distance * (1.0 + 1e-9) / np.where(weight > 0.0, weight, np.nan)
            change = np.where(weight > 0.0, change, np.inf)
        codes = {j: np.array([int(self.row[j])]) if dear[j] else allowed for j, allowed in self.codes.items()}
        low, high = np.maximum(self.low, self.row - change), np.minimum(self.high, self.row + change)
        if self.whole is not None:
            low, high = np.where(self.whole, np.ceil(low), low), np.where(self.whole, np.floor(high), high)
        return Box(self.row, low, high, codes, self.whole)


class Rows:
    """The constraints, row by row: `lower <= sum of coefficient * column <= upper`."""

    def __init__(self) -> None:
        self.start: list[int] = [0]
        self.column: list[int] = []
        self.coefficient: list[float] = []
        self.lower: list[float] = []
        self.upper: list[float] = []

    def add(self, columns: Sequence[int], coefficients: Sequence[float], lower: float, upper: float) -> None:
        """Append a constraint."""
        self.column += columns
        self.coefficient += coefficients
        self.start.append(len(self.column))
        self.lower.append(lower)
        self.upper.append(upper)


@dataclass
class Split:
    """A node that the row can pass either way; the leaves below it stand next to each other."""

    node: int
    first: int
    ends: list[int] = field(default_factory=list)  # where its left, then its right leaves end


class Expression(NamedTuple):
    """A constant plus a sum of columns."""

    columns: list[int]
    coefficients: list[float]
    constant: float


class Nodes:
    """The nodes of an ensemble as plain lists, which are read one by one much faster than arrays."""

    def __init__(self, ensemble: TreeEnsemble) -> None:
        self.root = ensemble.root.tolist()
        self.feature = ensemble.feature.tolist()
        self.threshold = ensemble.threshold.tolist()
        self.left = ensemble.left.tolist()
        self.right = ensemble.right.tolist()
        self.left_sets = ensemble.left_sets()
        whole = find_whole(ensemble)
        self.whole = np.zeros(ensemble.schema.n_features, dtype=bool) if whole is None else whole

    def leaves(self, root: int) -> Iterator[int]:
        """Yield the leaves of a tree."""
        pending = [root]
        while pending:
            node = pending.pop()
            if self.feature[node] < 0:
                yield node
            else:
                pending += [self.left[node], self.right[node]]

    def goes(self, node: int, box: Box) -> tuple[bool, bool]:
        """Say whether some point of a box goes left at a node, and whether some goes right."""
        feature = self.feature[node]
        if node in self.left_sets:
            goes_left = self.left_sets[node][box.codes[feature]]
            return bool(goes_left.any()), not goes_left.all()
        threshold = self.threshold[node]
        return bool(box.low[feature] <= threshold), bool(box.high[feature] > threshold)


class Problem:
    """The trees within a box as columns and constraints; objectives are added to it.

    Attributes
    ----------
    leaves : list of int
        The nodes that the leaf columns stand for, trees with a single leaf within reach included.
    """

    def __init__(self, nodes: Nodes, box: Box) -> None:
        self.nodes, self.box = nodes, box
        self.leaves: list[int] = []
        self.splits: list[Split] = []
        self.tree_ends: list[int] = []
        for root in nodes.root:
            self._collect(root)
        self._number_columns()
        self.rows = Rows()
        self._constrain()

    def _collect(self, root: int) -> None:
        """Append the leaves of a tree that the box reaches, and the splits that part them."""
        nodes = self.nodes
        pending: list[tuple[int, Split | None]] = [(root, None)]
        while pending:
            node, split = pending.pop()
            if split is not None:
                split.ends.append(len(self.leaves))
                continue
            while nodes.feature[node] >= 0:
                left, right = nodes.goes(node, self.box)
                if left and right:
                    break
                node = nodes.left[node] if left else nodes.right[node]
            if nodes.feature[node] < 0:
                self.leaves.append(node)
            else:
                split = Split(node, len(self.leaves))
                self.splits.append(split)
                pending += [(node, split), (nodes.right[node], None), (node, split), (nodes.left[node], None)]
        self.tree_ends.append(len(self.leaves))

    def _number_columns(self) -> None:
        """Give every threshold and category a column; those of the leaves follow."""
        nodes = self.nodes
        thresholds: dict[int, set[float]] = {}
        self.code_column: dict[int, dict[int, int]] = {}
        self.n_choices = 0
        for split in self.splits:
            feature = nodes.feature[split.node]
            if split.node not in nodes.left_sets:
                thresholds.setdefault(feature, set()).add(nodes.threshold[split.node])
            elif feature not in self.code_column:
                codes = self.box.codes[feature].tolist()
                self.code_column[feature] = {code: self.n_choices + k for k, code in enumerate(codes)}
                self.n_choices += len(codes)
        self.thresholds: dict[int, list[float]] = {}
        self.threshold_column: dict[tuple[int, float], int] = {}
        for feature, values in thresholds.items():
            self.thresholds[feature] = sorted(values)
            for threshold in self.thresholds[feature]:
                self.threshold_column[feature, threshold] = self.n_choices
                self.n_choices += 1
        self.n_columns = self.n_choices + len(self.leaves)

    def _constrain(self) -> None:
        """Tie leaves to splits, splits to thresholds and categories, and these to each other."""
        for feature, values in self.thresholds.items():
            columns = [self.threshold_column[feature, threshold] for threshold in values]
            for this, following in pairwise(columns):
                self.rows.add([this, following], [1.0, -1.0], -np.inf, 0.0)
        for columns_of_code in self.code_column.values():
            self.rows.add([*columns_of_code.values()], [1.0] * len(columns_of_code), 1.0, 1.0)
        first = 0
        for end in self.tree_ends:
            self.rows.add([*self._leaf_columns(first, end)], [1.0] * (end - first), 1.0, 1.0)
            first = end
        for split in self.splits:
            choice = self._goes_left(split.node)
            middle, end = split.ends
            left, right = self._leaf_columns(split.first, middle), self._leaf_columns(middle, end)
            self.rows.add([*left, *choice], [1.0] * len(left) + [-1.0] * len(choice), -np.inf, 0.0)
            self.rows.add([*right, *choice], [1.0] * (len(right) + len(choice)), -np.inf, 1.0)

    def _leaf_columns(self, first: int, end: int) -> range:
        return range(self.n_choices + first, self.n_choices + end)

    def _goes_left(self, node: int) -> list[int]:
        """Return the columns whose sum is 1 if the row goes left at a split and 0 if it goes right."""
        feature = self.nodes.feature[node]
        if node not in self.nodes.left_sets:
            return [self.threshold_column[feature, self.nodes.threshold[node]]]
        goes_left = self.nodes.left_sets[node]
        return [column for code, column in self.code_column[feature].items() if goes_left[code]]

    def sum_leaves(self, value: np.ndarray) -> Expression:
        """Return the sum of the values, given by node, of the leaves that the row ends in."""
        return Expression([*self._leaf_columns(0, len(self.leaves))], value[self.leaves].tolist(), 0.0)

    def ceiling(self, lead: np.ndarray) -> float:
        """Return the sum of every tree's largest lead: more than that is not to be had."""
        starts = [0, *self.tree_ends[:-1]]
        return float(np.maximum.reduceat(lead[self.leaves], starts).sum())

    def _cells(self, feature: int) -> list[float]:
        """Return, from left to right between the thresholds of a feature, the value nearest to the row's own."""
        own, thresholds = self.box.row[feature], np.array(self.thresholds[feature])
        low = np.append(self.box.low[feature], find_above(thresholds, self.nodes.whole[feature]))
        high = np.append(thresholds, self.box.high[feature])
        nearest: list[float] = np.clip(own, low, high).tolist()
        return nearest

    def _cell_costs(self, feature: int, norm: float, weight: np.ndarray) -> np.ndarray:
        """Return what it costs to move a feature to each of these values."""
        with np.errstate(over="ignore"):  # the difference of two huge numbers may be infinite
            change = np.abs(np.array(self._cells(feature)) - self.box.row[feature])
            return np.minimum(weight[feature] * (change != 0.0 if norm == 0 else change), LARGEST)

    def _feature_costs(self, norm: float, weight: np.ndarray, unit: float) -> Iterator[Expression]:
        """Yield what the change of each feature costs, in units of a distance; the squares for the L2 norm."""
        power = 2.0 if norm == 2 else 1.0
        for feature, thresholds in self.thresholds.items():
            cost = (self._cell_costs(feature, norm, weight) / unit) ** power
            columns = [self.threshold_column[feature, threshold] for threshold in thresholds]
            yield Expression(columns, (cost[:-1] - cost[1:]).tolist(), float(cost[-1]))
        for feature, columns_of_code in self.code_column.items():
            price = float((weight[feature] / unit) ** power)
            others = [column for code, column in columns_of_code.items() if code != self.box.row[feature]]
            yield Expression(others, [price] * len(others), 0.0)

    def distance(self, norm: float, weight: np.ndarray, unit: float) -> Expression:
        """Return the distance from the row, in units of `unit`; its square for the L2 norm.

        The L-infinity norm adds a column, and a constraint for every feature.
        """
        costs = list(self._feature_costs(norm, weight, unit))
        if norm == np.inf:
            radius, self.n_columns = self.n_columns, self.n_columns + 1
            for columns, coefficients, constant in costs:
                self.rows.add([*columns, radius], [*coefficients, -1.0], -np.inf, -constant)
            return Expression([radius], [1.0], 0.0)
        columns = [column for cost in costs for column in cost.columns]
        coefficients = [coefficient for cost in costs for coefficient in cost.coefficients]
        return Expression(columns, coefficients, sum(cost.constant for cost in costs))

    def limit_changes(self, budget: ColumnBudget, slack: float) -> None:
        """Let all changes together cost no more than a budget pays for, and a little more: a share of its radius."""
        limits = []
        counted, share = budget.weigh(len(self.box.row))
        if budget.max_changes is not None:
            limits.append((0.0, counted, budget.max_changes + 0.5))
        if share is not None:
            limits.append((float(budget.norm), share, 1.0 + RADIUS_TOLERANCE + slack))
        for norm, weight, limit in limits:
            cost = self.distance(norm, weight, 1.0)
            self.rows.add(cost.columns, cost.coefficients, -np.inf, limit - cost.constant)

    def costs(self, norm: float, weight: np.ndarray) -> list[float]:
        """Return what every possible change of a single feature costs, where that is anything."""
        costs = [float(weight[feature]) for feature in self.code_column]
        for feature in self.thresholds:
            costs += self._cell_costs(feature, norm, weight).tolist()
        return [cost for cost in costs if cost > 0.0]

    def point(self, columns: np.ndarray) -> np.ndarray:
        """Return the point nearest to the row that the values of the columns stand for."""
        point = self.box.row.copy()
        for feature, thresholds in self.thresholds.items():
            above = sum(columns[self.threshold_column[feature, threshold]] < 0.5 for threshold in thresholds)
            point[feature] = self._cells(feature)[above]
        for feature, columns_of_code in self.code_column.items():
            codes, chosen = [*columns_of_code], np.argmax(columns[[*columns_of_code.values()]])
            point[feature] = codes[chosen]
        return point
