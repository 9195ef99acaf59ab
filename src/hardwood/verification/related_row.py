"""One row whose columns are related, and what its relations leave of a leaf or a cell."""

from collections.abc import Iterator
from itertools import product

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.reachable import find_parents, list_reachable
from hardwood.threat import Reach
from hardwood.threat.placed_relations import Linear, PlacedExpression
from hardwood.verification import one_tree
from hardwood.verification.clock import Clock
from hardwood.verification.linear_program import NO_SOLUTION, Solution
from hardwood.verification.metric import Metric
from hardwood.verification.related_cells import Cell, RowRelations
from hardwood.verification.related_points import CellSearch

# A row is given up where its related columns can be missing, or not, in more ways than this.
MOST_CASES = 256


class RelatedRow:
    """A row, and what its relations leave of the leaves or cells within its reach.

    Parameters
    ----------
    told : dict
        The values of the columns that say which values are missing. Relations between those that are there hold.
    """

    def __init__(
        self,
        ensemble: TreeEnsemble,
        reach: Reach,
        row: np.ndarray,
        class_index: int,
        clock: Clock,
        told: dict[int, float] | None = None,
    ) -> None:
        assert reach.relations is not None
        self.ensemble, self.reach, self.row, self.clock = ensemble, reach, row, clock
        self.told = {} if told is None else told
        self.class_index = np.array([class_index])
        self.whole = np.zeros(len(row), dtype=bool) if reach.whole is None else reach.whole
        low, high = reach.box(row[None], self.class_index)
        self.box = low[0], high[0]
        missing = np.isnan(row)
        missing[[j for j, teller in reach.relations.missing if self.told.get(teller) == 1.0]] = True
        self.relations = RowRelations(reach.relations, row, self.whole, missing, self._read_groups())
        self.box = self.relations.limit_box(*self.box)
        for column, value in self.told.items():
            self.box[0][column] = self.box[1][column] = value

    def _read_groups(self) -> tuple[Linear, ...]:
        """Return what one-hot groups ask of the row, as relations; columns that it cannot have as 1 are fixed."""
        groups = self.reach.groups
        if groups is None or not self.reach.attacks[self.class_index[0]]:
            return ()
        can_be_set, can_be_none = groups.open_states(self.row)
        self.box[1][groups.grouped[~can_be_set]] = 0.0
        sums = [PlacedExpression(columns, np.ones(len(columns)), -1.0) for columns in groups.columns]
        return tuple(Linear("", total, not none, True) for total, none in zip(sums, can_be_none, strict=True))

    @property
    def seconds(self) -> float:
        """How much time is left."""
        return self.clock.left()

    def repair(self, example: np.ndarray, metric: Metric | None = None) -> Solution:
        """Find a point in the cell of an example that keeps the relations: any, or the nearest."""
        cell = Cell.within(self.find_cell(example), self.box, self.whole)
        start = np.where(np.isnan(example), example, np.clip(self.row, cell.low, cell.high))
        for feature in self.reach.categorical:
            start[feature] = example[feature]
        return self._find(cell, start, metric)

    def find_cell(self, point: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return past and up to which thresholds no number of a point makes a tree leave its leaf."""
        ensemble = self.ensemble
        above, up_to = np.full(len(point), -np.inf), np.full(len(point), np.inf)
        parent = ensemble.remember("parents", find_parents)
        node = ensemble.leaves(point[None])[0].astype(np.intp)
        while len(node):
            over = parent[node]
            node, over = node[over >= 0], over[over >= 0]
            feature = ensemble.feature[over]
            counts = (ensemble.category_start[over] < 0) & ~np.isnan(point[feature])
            is_left = ensemble.left[over] == node
            left, right = counts & is_left, counts & ~is_left
            np.minimum.at(up_to, feature[left], ensemble.threshold[over[left]])
            np.maximum.at(above, feature[right], ensemble.threshold[over[right]])
            node = over
        return above, up_to

    def list_leaves(self) -> np.ndarray:
        """Return the leaves of the first tree that the row can be moved into, whatever the relations."""
        return list_reachable(self.ensemble, self.reach, self.row[None], self.class_index).leaf

    def wants(self, node: np.ndarray) -> np.ndarray:
        """Say of leaves of the first tree whether the attacker wants their class."""
        return self.reach.wants(np.repeat(self.class_index, len(node)), self.ensemble.node_class[node])

    def enter(self, leaf: int, metric: Metric | None = None) -> Solution:
        """Find a point of a leaf that keeps the relations: any, or the nearest."""
        boxes, at = one_tree.find_boxes(self.ensemble), np.array([leaf])
        start = one_tree.find_nearest(boxes, at, self.row[None], self.class_index, self.reach)[0]
        for column, value in self.told.items():
            start[column] = value
        cell = Cell.within((boxes.low[leaf], boxes.high[leaf]), self.box, self.whole)
        return self._find(cell, start, metric)

    def _find(self, cell: Cell, start: np.ndarray, metric: Metric | None) -> Solution:
        if (cell.low > cell.high).any():
            return NO_SOLUTION
        if self.clock.is_over():
            return Solution(None, 0.0)
        if metric is None:
            search = CellSearch.for_any(self.relations, self.clock)
        else:
            search = CellSearch(self.relations, metric, self.clock)
        found = search.find(cell, start)
        if found.point is None or self.reach.contains(self.row[None], found.point[None], self.class_index)[0]:
            return found
        return Solution(None, found.lower)


def list_cases(
    ensemble: TreeEnsemble, reach: Reach, row: np.ndarray, class_index: int, clock: Clock
) -> Iterator[RelatedRow] | None:
    """Go through a row's cases: which of its related values are missing. None if there are too many of them."""
    assert reach.relations is not None
    tellers = [teller for _, teller in reach.relations.missing if teller in reach.relations.columns]
    low, high = (end[0] for end in reach.box(row[None], np.array([class_index])))
    values = [[value for value in (row[t], 1.0 - row[t]) if low[t] <= value <= high[t]] for t in tellers]
    if np.prod(np.array(list(map(len, values)), dtype=np.float64)) > MOST_CASES:
        return None
    told = (dict(zip(tellers, case, strict=True)) for case in product(*values))
    return (RelatedRow(ensemble, reach, row, class_index, clock, case) for case in told)
