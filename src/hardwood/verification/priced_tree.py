"""One tree against an attacker with a budget: what it costs at least to get each row into each leaf."""

from typing import NamedTuple

import numpy as np

from hardwood.ensemble.tree_ensemble import LeafBoxes, TreeEnsemble
from hardwood.threat.priced_reach import Pieces, PricedReach
from hardwood.verification.answers import measure_margin

# Rows at a time, so that the pieces of their features need not fit in memory all at once.
CHUNK = 1 << 12


class Cheapest(NamedTuple):
    """The cheapest adversarial example of every row."""

    found: np.ndarray  # bool
    example: np.ndarray  # float64 (row, feature); NaN where there is none
    cost: np.ndarray  # float64; inf where there is none
    worst: np.ndarray  # float64: the smallest margin that the attacker can force


def attack_priced_tree(tree: TreeEnsemble, reach: PricedReach, matrix: np.ndarray, class_index: np.ndarray) -> Cheapest:
    """Find the cheapest example of every row of an encoded matrix, and the worst margin within the budget."""
    boxes = tree.leaf_boxes()
    margin = _leaf_margins(tree, boxes)
    n_rows = len(matrix)
    answer = Cheapest(
        np.zeros(n_rows, dtype=bool), np.full_like(matrix, np.nan), np.full(n_rows, np.inf), np.empty(n_rows)
    )
    for start in range(0, n_rows, CHUNK):
        part = slice(start, start + CHUNK)
        rows = _PricedRows(boxes, reach, matrix[part], class_index[part])
        costs = np.column_stack([rows.leaf_cost(k) for k in range(len(boxes.leaf))])
        affordable = costs <= reach.limit
        answer.worst[part] = np.where(affordable, margin[:, class_index[part]].T, np.inf).min(axis=1)
        costs[~affordable | (tree.node_class[boxes.leaf] == class_index[part][:, None])] = np.inf
        nearest = costs.argmin(axis=1)
        answer.cost[part] = costs[np.arange(len(costs)), nearest]
        answer.found[part] = np.isfinite(answer.cost[part])
        for k in np.unique(nearest[answer.found[part]]).tolist():
            chosen = np.flatnonzero(answer.found[part] & (nearest == k))
            answer.example[part][chosen] = rows.example(k, chosen)
    return answer


def _leaf_margins(tree: TreeEnsemble, boxes: LeafBoxes) -> np.ndarray:
    """Return how far each class is ahead of the others in each leaf: (leaf, class)."""
    output = tree.node_output[boxes.leaf]
    classes = range(len(tree.labels))
    return np.column_stack([measure_margin(tree, output, np.full(len(output), k)) for k in classes])


class _PricedRows:
    """Rows whose features are priced when a leaf first asks."""

    def __init__(self, boxes: LeafBoxes, reach: PricedReach, matrix: np.ndarray, class_index: np.ndarray) -> None:
        self.boxes, self.reach, self.matrix, self.class_index = boxes, reach, matrix, class_index
        self._pieces: dict[int, Pieces] = {}
        self._prices: dict[int, np.ndarray] = {}

    def _bounded(self, leaf: int) -> list[int]:
        """The features that the splits above a leaf ask about."""
        boxes = self.boxes
        bounded = (boxes.low[leaf] > -np.inf) | (boxes.high[leaf] < np.inf)
        for feature, allowed in boxes.allowed.items():
            bounded[feature] = not allowed[leaf].all()
        return np.flatnonzero(bounded).tolist()

    def _feature_cost(self, leaf: int, feature: int) -> np.ndarray:
        """What it costs each row to satisfy a leaf in one feature."""
        if feature in self.boxes.allowed:
            if feature not in self._prices:
                self._prices[feature] = self.reach.category_prices(self.matrix, self.class_index, feature)
            return np.where(self.boxes.allowed[feature][leaf], self._prices[feature], np.inf).min(axis=1)
        if feature not in self._pieces:
            self._pieces[feature] = self.reach.pieces(self.matrix, self.class_index, feature)
        return self._pieces[feature].least_cost(self.boxes.low[leaf, feature], self.boxes.high[leaf, feature])

    def leaf_cost(self, leaf: int) -> np.ndarray:
        """Return what it costs each row at least to get into a leaf; inf if it cannot."""
        costs = (self._feature_cost(leaf, feature) for feature in self._bounded(leaf))
        return sum(costs, np.zeros(len(self.matrix)))

    def example(self, leaf: int, rows: np.ndarray) -> np.ndarray:
        """Return, for rows that can get there, the point of a leaf that costs least."""
        point = self.matrix[rows].copy()
        for feature in self._bounded(leaf):
            if feature in self.boxes.allowed:
                prices = np.where(self.boxes.allowed[feature][leaf], self._prices[feature][rows], np.inf)
                own = prices[np.arange(len(rows)), point[:, feature].astype(np.intp)]
                point[:, feature] = np.where(own > prices.min(axis=1), prices.argmin(axis=1), point[:, feature])
            else:
                cost = self._feature_cost(leaf, feature)[rows]
                pieces = Pieces(*(array[rows] for array in self._pieces[feature]))
                low, high = float(self.boxes.low[leaf, feature]), float(self.boxes.high[leaf, feature])
                point[:, feature] = pieces.nearest_value(point[:, feature], low, high, cost)
        return point
