"""TREANT by its definition: every split, every row, constraints on the loss of rows, all candidate values tried.

The tree under test says which split each node takes; everything else is worked out anew, and the split must be as
good as the best that there is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from hardwood import TreeEnsemble
from hardwood.threat.priced_reach import PricedReach

TOLERANCE = 1e-9


def loss(kind: str, label: int, value: float) -> float:
    if kind == "squared":
        return (label - value) ** 2
    value = min(max(value, 1e-15), 1.0 - 1e-15)
    return -math.log(value if label else 1.0 - value)


@dataclass
class Box:
    """A part of the input space: an interval or a set of categories per feature."""

    low: list[float]
    high: list[float]
    codes: list[set[int]]
    known: dict[int, bool] = field(default_factory=dict)  # whether a row can get here, once that was asked

    def halve(self, feature: int, threshold: float, left_codes: set[int] | None) -> tuple[Box, Box]:
        left = Box(list(self.low), list(self.high), [set(c) for c in self.codes])
        right = Box(list(self.low), list(self.high), [set(c) for c in self.codes])
        if left_codes is None:
            left.high[feature] = right.low[feature] = threshold
        else:
            left.codes[feature] &= left_codes
            right.codes[feature] -= left_codes
        return left, right


@dataclass
class Constraint:
    """The loss of a row must be at least, or at most, what it would be for a value."""

    row: int
    at_least: bool
    bound: float


@dataclass
class Node:
    box: Box
    value: float
    rows: list[int]
    constraints: list[Constraint] = field(default_factory=list)


@dataclass
class Table:
    """The training table, and what the attacker can do to it."""

    X: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    reach: PricedReach
    kind: str

    def __post_init__(self) -> None:
        self.options = []  # by feature: the pieces of every row, or what every category costs it
        for feature, matrix in enumerate(self.reach.category_cost):
            if matrix is None:
                pieces = np.stack(self.reach.pieces(self.X, self.y, feature), axis=2)
                self.options.append(pieces.tolist())
            else:
                self.options.append(self.reach.category_prices(self.X, self.y, feature).tolist())

    def cost(self, row: int, box: Box) -> float:
        """What it costs at least to get a row into a box."""
        total = 0.0
        for feature, matrix in enumerate(self.reach.category_cost):
            mine = self.options[feature][row]
            if matrix is None:
                low, high = box.low[feature], box.high[feature]
                costs = [cost for start, end, cost in mine if end > low and start <= high]
            else:
                costs = [mine[code] for code in box.codes[feature]]
            total += min(costs, default=math.inf)
        return total

    def can(self, row: int, box: Box) -> bool:
        if row not in box.known:
            box.known[row] = self.cost(row, box) <= self.reach.limit
        return box.known[row]

    def under_attack(self, rows: list[int], boxes: tuple[Box, Box], values: tuple[float, float]) -> float:
        """The loss after the attacker has sent every row to the worse of the boxes it can get to."""
        total = 0.0
        for row in rows:
            options = [
                loss(self.kind, self.y[row], v) for v, box in zip(values, boxes, strict=True) if self.can(row, box)
            ]
            total += self.weight[row] * max(options)
        return total

    def allows(self, constraints: list[Constraint], boxes: tuple[Box, Box], values: tuple[float, float]) -> bool:
        for constraint in constraints:
            label = self.y[constraint.row]
            bound = loss(self.kind, label, constraint.bound)
            for value, box in zip(values, boxes, strict=True):
                if not self.can(constraint.row, box):
                    continue
                excess = loss(self.kind, label, value) - bound
                if excess < -TOLERANCE if constraint.at_least else excess > TOLERANCE:
                    return False
        return True

    def best_values(self, node: Node, boxes: tuple[Box, Box], min_leaf: int) -> float:
        """The least loss under attack of a split, over all pairs of values that could be the best."""
        torn = [[r for r in node.rows if self.y[r] == k and all(self.can(r, b) for b in boxes)] for k in (0, 1)]
        sure = [[r for r in node.rows if not self.can(r, boxes[1 - side])] for side in (0, 1)]
        candidates: list[set[float]] = [{c.bound for c in node.constraints} for _ in boxes]
        for side, with_zero, with_one in product((0, 1), (False, True), (False, True)):
            group = sure[side] + torn[0] * with_zero + torn[1] * with_one
            if group:
                candidates[side].add(float(np.average(self.y[group], weights=self.weight[group])))
        best = math.inf
        for values in product(*candidates):
            left_class = int(values[0] < values[1])
            sizes = [len(sure[0]) + len(torn[left_class]), len(sure[1]) + len(torn[1 - left_class])]
            if values[0] != values[1] and min(sizes) >= min_leaf and self.allows(node.constraints, boxes, values):
                best = min(best, self.under_attack(node.rows, boxes, values))
        return best

    def divide(self, node: Node, boxes: tuple[Box, Box], values: tuple[float, float]) -> tuple[Node, Node]:
        """The children: rows where the attacker sends them, and what keeps them there."""
        children = tuple(Node(box, value, []) for box, value in zip(boxes, values, strict=True))
        for constraint in node.constraints:
            for child in children:
                if self.can(constraint.row, child.box):
                    child.constraints.append(constraint)
        for row in node.rows:
            reached = [child for child in children if self.can(row, child.box)]
            worst = max(reached, key=lambda child: loss(self.kind, self.y[row], child.value))
            worst.rows.append(row)
            if len(reached) == 2:
                other = children[1 - children.index(worst)]
                worst.constraints.append(Constraint(row, True, other.value))
                other.constraints.append(Constraint(row, False, other.value))
        return children  # type: ignore[return-value]


def candidate_splits(table: Table, tree: TreeEnsemble) -> list[tuple[int, float, set[int] | None]]:
    """Every split that TREANT considers: a value of the table, or one category against the others."""
    splits: list[tuple[int, float, set[int] | None]] = []
    for feature, labels in enumerate(tree.schema.categories):
        if labels is None:
            splits += [(feature, value, None) for value in np.unique(table.X[:, feature]).tolist()]
        else:
            splits += [(feature, 0.0, {code}) for code in range(len(labels) + 1)]
    return splits


def check_tree(tree: TreeEnsemble, table: Table, max_depth: int, min_split: int, min_leaf: int) -> dict[int, int]:
    """Follow a tree from its root, hold every node against its definition, and say in which leaf each row ends."""
    n_features = tree.schema.n_features
    codes = [set() if labels is None else set(range(len(labels) + 1)) for labels in tree.schema.categories]
    everything = Box([-math.inf] * n_features, [math.inf] * n_features, codes)
    root = Node(everything, float(np.average(table.y, weights=table.weight)), list(range(len(table.y))))
    left_sets = tree.left_sets()
    ends: dict[int, int] = {}
    pending = [(0, root, 0)]
    while pending:
        number, node, depth = pending.pop()
        assert abs(tree.value[number, 1] - node.value) < TOLERANCE
        assert abs(tree.cover[number] - table.weight[node.rows].sum()) < 1e-6
        own = sum(table.weight[row] * loss(table.kind, table.y[row], node.value) for row in node.rows)
        best = math.inf
        if depth < max_depth and len(node.rows) >= min_split:
            for split in candidate_splits(table, tree):
                best = min(best, table.best_values(node, node.box.halve(*split), min_leaf))
        feature = int(tree.feature[number])
        if feature < 0:
            assert best > own - 1e-8 * len(table.y)
            ends |= dict.fromkeys(node.rows, number)
            continue
        members = left_sets.get(number)
        left_codes = None if members is None else set(np.flatnonzero(members).tolist())
        boxes = node.box.halve(feature, float(tree.threshold[number]), left_codes)
        numbers = (int(tree.left[number]), int(tree.right[number]))
        values = (float(tree.value[numbers[0], 1]), float(tree.value[numbers[1], 1]))
        assert table.allows(node.constraints, boxes, values)
        assert abs(table.under_attack(node.rows, boxes, values) - best) < 1e-8 * (1.0 + best)
        assert best < own
        children = table.divide(node, boxes, values)
        pending += [(n, child, depth + 1) for n, child in zip(numbers, children, strict=True)]
    return ends
