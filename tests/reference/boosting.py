"""Boosted trees the slow way: which rows can reach a node, and what every split of it is worth, by definition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from hardwood.threat import Reach


@dataclass
class Rows:
    """Rows with both ends of their reach, and what the loss says about them."""

    X: np.ndarray
    class_index: np.ndarray
    reach: Reach
    group: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray

    def __post_init__(self) -> None:
        self.low, self.high = self.reach.box(self.X, self.class_index)
        self.high = np.minimum(self.high, np.finfo(np.float64).max)  # infinity is no value that a row can have

    def categories(self, row: int, feature: int) -> np.ndarray:
        """Which categories a row can be given."""
        allowed = self.reach.categories[feature]
        assert allowed is not None
        own = int(self.X[row, feature])
        if self.reach.attacks[self.class_index[row]]:
            return allowed[own]
        return np.arange(len(allowed)) == own


@dataclass
class Question:
    """A split: numbers up to a threshold go left, or the categories of a set, and missing values where it says."""

    feature: int
    threshold: float
    members: np.ndarray | None
    missing_left: bool


@dataclass
class Place:
    """A node: the questions above it, and on which side of each it is."""

    path: list[tuple[Question, bool]]

    def open_categories(self, feature: int, n: int) -> np.ndarray:
        """Which categories pass all questions above."""
        is_open = np.ones(n, dtype=bool)
        for question, on_left in self.path:
            if question.feature == feature:
                assert question.members is not None
                is_open &= question.members == on_left
        return is_open

    def interval(self, feature: int) -> tuple[float, float]:
        """Between which thresholds numbers pass."""
        above = [q.threshold for q, on_left in self.path if q.feature == feature and not on_left]
        below = [q.threshold for q, on_left in self.path if q.feature == feature and on_left]
        return max(above, default=-np.inf), min(below, default=np.inf)


def can_go(rows: Rows, place: Place, question: Question, row: int) -> tuple[bool, bool]:
    """Whether a row of a node can go left, and whether it can go right: by a value it can have there, or by none."""
    j = question.feature
    reach, attacks = rows.reach, rows.reach.attacks[rows.class_index[row]]
    is_missing = bool(np.isnan(rows.X[row, j]))
    fills = is_missing and attacks and reach.fill is not None and bool(reach.fill[j])
    blanks = not is_missing and attacks and reach.blank is not None and bool(reach.blank[j])
    left = right = False
    if (is_missing or blanks) and all(q.missing_left == side for q, side in place.path if q.feature == j):
        left, right = question.missing_left, not question.missing_left
    if is_missing and not fills:
        return left, right
    if question.members is None:
        after, before = place.interval(j)
        low, high = rows.low[row, j], rows.high[row, j]
        if fills:
            low, high = (-np.inf, np.finfo(np.float64).max) if reach.within is None else reach.within[:, j]
            high = min(high, np.finfo(np.float64).max)
        # Of the numbers within [low, high] and (after, before]: some up to the threshold, some above it?
        threshold = min(before, question.threshold)
        left |= low <= threshold and high > after
        right |= low <= before and high > max(after, question.threshold)
        return bool(left), bool(right)
    n = len(question.members)
    can_be = np.arange(n) < n - 1 if fills else rows.categories(row, j)
    can_be = can_be & place.open_categories(j, n)
    return bool(left or (can_be & question.members).any()), bool(right or (can_be & ~question.members).any())


def divide(rows: Rows, place: Place, question: Question, held: list[int], direction: int) -> tuple[list[int], bool]:
    """Which rows of a node the attacker puts left if the lower value is there (1) or not, and whether he can choose."""
    left, chooses = [], False
    for row in held:
        can_left, can_right = can_go(rows, place, question, row)
        left_hurts = (rows.group[row] == 0) == (direction > 0)
        chooses |= can_left and can_right
        if can_left and (left_hurts or not can_right):
            left.append(row)
    return left, chooses


def score(rows: Rows, left: list[int], held: list[int], l2: float) -> tuple[float, float, float]:
    """What a split takes off the loss, and the values of both children."""
    total, values = 0.0, []
    right = [row for row in held if row not in set(left)]
    for part in (left, right):
        gradient, hessian = rows.gradient[part].sum(), rows.hessian[part].sum()
        values.append(-gradient / (hessian + l2))
        total += 0.5 * gradient**2 / (hessian + l2)
    return total, values[0], values[1]


def judge(
    rows: Rows, place: Place, question: Question, held: list[int], l2: float, min_weight: float, direction: int
) -> float:
    """What a split in one direction is worth; -inf if it is not allowed, or if its values are in the other order."""
    left, chooses = divide(rows, place, question, held, direction)
    hessian = rows.hessian[left].sum(), rows.hessian[held].sum() - rows.hessian[left].sum()
    if not left or len(left) == len(held) or min(hessian) < min_weight:
        return -np.inf
    worth, a, b = score(rows, left, held, l2)
    in_order = (a < b) if direction > 0 else (a > b)
    return worth if in_order or (not chooses and a != b) else -np.inf


def all_questions(rows: Rows, place: Place, held: list[int], thresholds: list[np.ndarray]) -> Iterator[Question]:
    """Every question that can be asked in a node."""
    for j, allowed in enumerate(rows.reach.categories):
        hides = any(flags is not None and flags[j] for flags in (rows.reach.blank, rows.reach.fill))
        asked = [(question, on_left) for question, on_left in place.path if question.feature == j]
        if hides and asked and all(question.missing_left == on_left for question, on_left in asked):
            continue  # a rule of the grower: not again where missing values have come along
        if allowed is None:
            after, before = place.interval(j)
            inside = [t for t in thresholds[j].tolist() if after < t < before]
            if before == np.inf and (hides or np.isnan(rows.X[held, j]).any()) and not (hides and asked):
                inside.append(np.finfo(np.float64).max)
            for threshold in inside:
                for missing_left in (False, True):
                    yield Question(j, threshold, None, missing_left)
        else:
            is_open = np.flatnonzero(place.open_categories(j, len(allowed))).tolist()
            for size in range(1, len(is_open)):
                for chosen in combinations(is_open, size):
                    members = np.isin(np.arange(len(allowed)), chosen)
                    for missing_left in (False, True):
                        yield Question(j, 0.0, members, missing_left)
