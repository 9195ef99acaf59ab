"""Which rows can be moved onto a common point within a budget or by relations of columns, and the ceiling that follows.

Two rows meet if there is a point that both of them can become. Where only one of them moves, that point is the other
one. Where both move, it lies between them in every number: for a radius, all best points are on one path, the rows' own
mixture, kept within their limits (what is best for a weighted sum of both distances is in every column); for a number
of columns, each column that differs is changed in one of the rows, or in both. Linear relations that both rows keep are
kept between them. So it is certain whether two rows meet, except where whole numbers, categories, a second limit or
relations leave a gap between what is allowed and what was tried. Pairs that certainly meet give a ceiling that nobody
exceeds; pairs that may meet say how low it could be.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import maximum_bipartite_matching

from hardwood.threat import Reach
from hardwood.threat.column_budget import ColumnBudget, measure_changes

# Values of pairs of rows that are looked at at once: 8 bytes each, several times over.
PAIR_VALUES = 1 << 21
# Pairs that are remembered: 8 bytes each, twice. Beyond, the rest is not looked at, and the ceiling is a bound.
MOST_PAIRS = 1 << 24
# Halvings of the path between two rows: after these its points are as close as float64 numbers are.
HALVINGS = 50
# Points of the path that are tried where columns take whole steps.
STEPS = (0.0, 0.25, 0.5, 0.75, 1.0)
# A trifle, for what adding up in another order may do.
SLACK = 1e-8


class Conflicts(NamedTuple):
    """Pairs of rows, as (left, right) positions."""

    certain: np.ndarray  # these meet
    possible: np.ndarray  # all others do not
    finished: bool  # whether `possible` has all pairs that may meet


def bound_ceiling(
    matrix: np.ndarray, class_index: np.ndarray, reach: Reach, lasts: Callable[[], bool]
) -> tuple[float, float]:
    """Return two numbers between which the ceiling of adversarial accuracy is, for rows of at least two classes.

    lasts : says whether there is time left.
    """
    counts = np.bincount(class_index)
    present = np.flatnonzero(counts)
    is_doubled = len(present) > 2
    if is_doubled:  # every row on both sides: a matching is then twice a fractional matching
        left = right = np.arange(len(class_index))
    else:
        left, right = (np.flatnonzero(class_index == k) for k in present)
    conflicts = find_conflicts(matrix, class_index, reach, (left, right), lasts)
    n_rows, constant = len(class_index), counts.max() / len(class_index)
    matched = [_match(pairs, len(left), len(right)) for pairs in conflicts[:2]]
    upper, lower = ((n_rows - ((size + 1) // 2 if is_doubled else size)) / n_rows for size in matched)
    return (max(lower, constant) if conflicts.finished else constant), upper


def _match(pairs: np.ndarray, n_left: int, n_right: int) -> int:
    """Return the size of a maximum matching."""
    graph = sp.csr_array((np.ones(len(pairs), dtype=np.int8), pairs.T), shape=(n_left, n_right))
    return int((maximum_bipartite_matching(sp.csr_matrix(graph), perm_type="column") >= 0).sum())


def find_conflicts(
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: Reach,
    sides: tuple[np.ndarray, np.ndarray],
    lasts: Callable[[], bool],
) -> Conflicts:
    """Find the pairs of a row of the left and one of the right side that differ in class and can meet."""
    left, right = sides
    certain, possible = [np.empty((0, 2), dtype=np.int32)], [np.empty((0, 2), dtype=np.int32)]
    n_pairs, finished = 0, True
    step = max(1, PAIR_VALUES // (len(right) * matrix.shape[1]))
    for first in range(0, len(left), step):
        if n_pairs > MOST_PAIRS or not lasts():
            finished = False
            break
        pairs = _list_near(matrix, class_index, reach, left[first : first + step], right)
        pairs[:, 0] += first
        for some in _cut(pairs, max(1, PAIR_VALUES // matrix.shape[1])):
            rows = left[some[:, 0]], right[some[:, 1]]
            meet = _Pairs(matrix, class_index, reach, *rows).compare()
            certain.append(some[meet[0]].astype(np.int32))
            possible.append(some[meet[1]].astype(np.int32))
            n_pairs += len(possible[-1])
    # The box, and how far rows are apart, say nothing about values that can be blanked or filled in, or about groups.
    finished &= reach.blank is None and reach.fill is None and reach.groups is None
    return Conflicts(np.concatenate(certain), np.concatenate(possible), finished)


def _cut(pairs: np.ndarray, step: int) -> Iterator[np.ndarray]:
    for first in range(0, len(pairs), step):
        yield pairs[first : first + step]


def _list_near(
    matrix: np.ndarray, class_index: np.ndarray, reach: Reach, left: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Return the pairs of different classes that are no farther apart than both of them can go together."""
    budget = reach.budget
    n_moves = reach.attacks[class_index[left]][:, None] + reach.attacks[class_index[right]][None].astype(np.intp)
    apart = measure_changes(
        np.repeat(matrix[left], len(right), axis=0), np.tile(matrix[right], (len(left), 1)), reach.categorical
    )
    near = (class_index[left][:, None] != class_index[right]).ravel()
    if budget is not None and budget.max_changes is not None:
        near &= np.count_nonzero(apart, axis=1) <= budget.max_changes * n_moves.ravel()
    if budget is not None and budget.most is not None:
        near &= budget.spend(apart) <= n_moves.ravel().astype(np.float64) ** budget.norm * (1.0 + SLACK) + SLACK
    at = np.flatnonzero(near)
    return np.column_stack([at // len(right), at % len(right)])


class _Pairs:
    """Pairs of rows, the first and the second of each, and what lies between them."""

    def __init__(
        self, matrix: np.ndarray, class_index: np.ndarray, reach: Reach, first: np.ndarray, second: np.ndarray
    ) -> None:
        self.reach = reach
        self.budget = ColumnBudget(None) if reach.budget is None else reach.budget
        self.rows = matrix[first], matrix[second]
        self.classes = class_index[first], class_index[second]
        boxes = [reach.box(rows, own) for rows, own in zip(self.rows, self.classes, strict=True)]
        self.low = np.maximum(np.minimum(*self.rows), np.maximum(boxes[0][0], boxes[1][0]))
        self.high = np.minimum(np.maximum(*self.rows), np.minimum(boxes[0][1], boxes[1][1]))
        # Per categorical column: the codes that each row can be given.
        self.codes = [reach.open_codes(rows, own) for rows, own in zip(self.rows, self.classes, strict=True)]

    def compare(self) -> tuple[np.ndarray, np.ndarray]:
        """Say of each pair whether its rows certainly meet, and whether they may."""
        share, affordable = self._halve()
        possible = affordable & self._count() & self._can_meet_apart_from_budget()
        certain = np.zeros(len(possible), dtype=bool)
        for points in self._try_points(share):
            open_pairs = possible & ~certain
            if not open_pairs.any():
                break
            certain |= open_pairs & self._meet_at(points)
        return certain, possible

    def _meet_at(self, points: np.ndarray) -> np.ndarray:
        """Say of each pair whether both rows can become a point; categories that are not known are no point."""
        meet = np.ones(len(points), dtype=bool)
        for j in self.reach.categorical:
            table = self.reach.categories[j]
            assert table is not None
            meet &= points[:, j] != len(table) - 1
        for rows, own in zip(self.rows, self.classes, strict=True):
            meet &= self.reach.contains(rows, points, own)
        return meet

    def _can_meet_apart_from_budget(self) -> np.ndarray:
        """Say of each pair whether every column of its rows can be given a common value."""
        is_missing = [np.isnan(rows) for rows in self.rows]
        meet = (self.low <= self.high) | (is_missing[0] & is_missing[1])
        for j, common in self._common_codes():
            both_missing = is_missing[0][:, j] & is_missing[1][:, j]
            meet[:, j] = both_missing | (~(is_missing[0] | is_missing[1])[:, j] & common.any(axis=1))
        return np.asarray(meet.all(axis=1))

    def _common_codes(self) -> Iterator[tuple[int, np.ndarray]]:
        """Yield each categorical column, and the known categories that both rows can be given."""
        first = 0
        for j in self.reach.categorical:
            table = self.reach.categories[j]
            assert table is not None
            part = slice(first, first + len(table) - 1)
            first += len(table)
            yield j, self.codes[0][:, part] & self.codes[1][:, part]

    def _find_ends(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return how far the first row has to be moved at least and can be at most, and how far the rows are apart.

        Of categories that differ: 0 to 1, as far as the rows can take each other's; 1 to 0 if both have to change.
        """
        with np.errstate(invalid="ignore"):
            apart = np.nan_to_num(np.abs(self.rows[1] - self.rows[0]))
            up = self.rows[1] >= self.rows[0]
            least = np.nan_to_num(np.where(up, self.low - self.rows[0], self.rows[0] - self.high))
            most = np.nan_to_num(np.where(up, self.high - self.rows[0], self.rows[0] - self.low))
        at = np.arange(len(apart))
        for j, common in self._common_codes():
            own, other = (np.nan_to_num(rows[:, j]).astype(np.intp) for rows in self.rows)
            padded = np.column_stack([common, np.zeros(len(common), dtype=bool)])
            differs = apart[:, j] != 0.0
            apart[:, j] = differs
            least[:, j] = differs & ~padded[at, own]
            most[:, j] = differs & padded[at, other]
        return least, most, apart

    def _count(self) -> np.ndarray:
        """Say of each pair whether the columns that differ can be shared out so that neither row has too many."""
        limit = self.budget.max_changes
        if limit is None:
            return np.ones(len(self.rows[0]), dtype=bool)
        least, most, apart = self._find_ends()
        differs = apart > 0.0
        by_first, by_second = differs & (least > 0.0), differs & (most < apart)  # who has to change
        counts = [by_first.sum(axis=1), by_second.sum(axis=1)]
        either = (differs & ~by_first & ~by_second).sum(axis=1)
        return (counts[0] <= limit) & (counts[1] <= limit) & (counts[0] + counts[1] + either <= 2 * limit)

    def _halve(self) -> tuple[np.ndarray, np.ndarray]:
        """Find how far along the path the first row has to go for the second to be within the radius.

        Returns that share of the path, and whether the first row is then within the radius, too: all of it as if
        numbers were not whole, and categories could be mixed.
        """
        n_pairs = len(self.rows[0])
        if self.budget.most is None:
            return np.full(n_pairs, 0.5), np.ones(n_pairs, dtype=bool)
        ends = self._find_ends()
        low, high = np.zeros(n_pairs), np.ones(n_pairs)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            is_enough = self._spend(ends, middle, second=True) <= 1.0
            low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
        within = 1.0 + SLACK
        affordable = self._spend(ends, high, second=True) <= within
        return high, affordable & (self._spend(ends, high, second=False) <= within)

    def _spend(self, ends: tuple[np.ndarray, np.ndarray, np.ndarray], share: np.ndarray, *, second: bool) -> np.ndarray:
        """Return what one of the rows uses up of its radius at a share of the path."""
        least, most, apart = ends
        both = least > most  # categories that both have to change
        moved = np.clip(share[:, None] * apart, np.minimum(least, most), most)
        change = np.where(both, 1.0, apart - moved if second else moved)
        return self.budget.spend(change)

    def _try_points(self, share: np.ndarray) -> Iterator[np.ndarray]:
        """Yield points between the rows of each pair: on the path, and with the columns shared out by number."""
        for step in (share, *STEPS):
            yield self._mix(np.broadcast_to(np.reshape(step, (-1, 1)), self.rows[0].shape))
        if self.budget.max_changes is not None:
            least, most, apart = self._find_ends()
            differs = apart > 0.0
            by_first, by_second = differs & (least > 0.0), differs & (most < apart)
            either = differs & ~by_first & ~by_second
            left_over = self.budget.max_changes - by_first.sum(axis=1)
            yield self._mix(by_first | (either & (np.cumsum(either, axis=1) <= left_over[:, None])))

    def _mix(self, share: np.ndarray) -> np.ndarray:
        """Return the points that far, in each column, from the first row to the second one."""
        first, second = self.rows
        with np.errstate(invalid="ignore"):
            mixed = np.where(share == 1.0, second, first + share * (second - first))
            if self.reach.whole is not None:
                mixed = np.where(self.reach.whole, np.rint(mixed), mixed)
            points = np.clip(mixed, self.low, self.high)
        at = np.arange(len(points))
        for j, common in self._common_codes():
            padded = np.column_stack([common, np.zeros(len(common), dtype=bool)])
            own, other = (np.nan_to_num(rows[:, j]).astype(np.intp) for rows in self.rows)
            takes_other = padded[at, other] & ((share[:, j] > 0.5) | ~padded[at, own])
            code = np.where(takes_other, other, np.where(padded[at, own], own, common.argmax(axis=1)))
            points[:, j] = np.where(np.isnan(first[:, j]), first[:, j], code)
        return points
