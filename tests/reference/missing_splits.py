"""Splits of features whose values may be missing, blanked or filled in, the slow way: who can be where, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.threat import Reach
from reference.many_classes import answer, robust_gain

LARGEST = float(np.finfo(np.float64).max)


class Split(NamedTuple):
    """Where a split sends values: numbers up to a threshold left, or categories of a set; and missing ones."""

    feature: int
    threshold: float
    missing_left: bool
    left_set: tuple[bool, ...] = ()


class Turn(NamedTuple):
    """A split above a node, and which way the node is."""

    split: Split
    went_left: bool


@dataclass(frozen=True)
class Samples:
    """Rows of a table, or of one node, in the order of their numbers."""

    label: np.ndarray
    weight: np.ndarray
    low: np.ndarray  # (row, feature): both ends of its reach; NaN where a value is missing
    high: np.ndarray
    blank: np.ndarray  # (row, feature): whether it can be made missing
    fill: np.ndarray  # (row, feature): whether it can be given any value if it is missing
    moves: np.ndarray  # per row
    n_classes: int
    tables: tuple[np.ndarray | None, ...]  # per feature None, or which category can become which

    def __getitem__(self, chosen: np.ndarray) -> Samples:
        names = ("label", "weight", "low", "high", "blank", "fill", "moves")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})

    def add_up(self, member: np.ndarray) -> np.ndarray:
        """The weight per class of the rows that are members."""
        return np.bincount(self.label, self.weight * member, minlength=self.n_classes)


def make_samples(X: np.ndarray, label: np.ndarray, weight: np.ndarray, reach: Reach, n_classes: int) -> Samples:
    """Make the samples of a table."""
    low, high = reach.box(X, label)
    moves = reach.attacks[label][:, None]
    none = np.zeros(X.shape[1], dtype=bool)
    blank, fill = (moves & (none if flags is None else flags) for flags in (reach.blank, reach.fill))
    blank, fill = blank & ~np.isnan(X), fill & np.isnan(X)
    return Samples(label, weight, low, high, blank, fill, moves[:, 0], n_classes, reach.categories)


def find_sides(samples: Samples, turns: list[Turn], split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Which rows can be on the left of a split, and which on the right, given the splits above."""
    feature = split.feature
    above = [turn for turn in turns if turn.split.feature == feature]
    can_miss = all(turn.split.missing_left == turn.went_left for turn in above)
    may_miss = (np.isnan(samples.low[:, feature]) | samples.blank[:, feature]) & can_miss
    sides = _find_categories if split.left_set else _find_numbers
    left, right = sides(samples, above, split)
    return left | (may_miss & split.missing_left), right | (may_miss & (not split.missing_left))


def _find_numbers(samples: Samples, above: list[Turn], split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Who can be on either side by a number."""
    first = max((turn.split.threshold for turn in above if not turn.went_left), default=-np.inf)
    last = min((turn.split.threshold for turn in above if turn.went_left), default=np.inf)
    fill = samples.fill[:, split.feature]
    low = np.where(fill, -np.inf, samples.low[:, split.feature])
    high = np.where(fill, np.inf, samples.high[:, split.feature])
    below, beyond = min(last, split.threshold), max(first, split.threshold)
    with np.errstate(invalid="ignore"):
        left = (low <= below) & (high > first) & (first < below)
        right = (low <= last) & (high > beyond) & (beyond < min(last, LARGEST))
    return left, right


def _find_categories(samples: Samples, above: list[Turn], split: Split) -> tuple[np.ndarray, np.ndarray]:
    """Who can be on either side by a category."""
    table, own, goes_left = samples.tables[split.feature], samples.low[:, split.feature], np.array(split.left_set)
    assert table is not None
    is_open = np.ones(len(table), dtype=bool)
    for turn in above:
        is_open &= np.array(turn.split.left_set) == turn.went_left
    known = np.append(np.ones(len(table) - 1, dtype=bool), False)
    seats = np.zeros((len(own), len(table)), dtype=bool)
    for row, code in enumerate(own):
        if np.isnan(code):
            seats[row] = known & samples.fill[row, split.feature]
        else:
            seats[row] = table[int(code)] if samples.moves[row] else np.arange(len(table)) == int(code)
    seats &= is_open
    return (seats & goes_left).any(axis=1), (seats & ~goes_left).any(axis=1)


def measure_split(samples: Samples, turns: list[Turn], split: Split) -> tuple[np.ndarray, np.ndarray]:
    """What the attacker must and can leave on the left, per class."""
    left, right = find_sides(samples, turns, split)
    assert (left | right).all()
    return samples.add_up(left & ~right), samples.add_up(left)


def list_splits(samples: Samples, feature: int) -> Iterator[Split]:
    """List the splits of a feature: thresholds at all ends of reach, or all sets; missing values on both sides."""
    table = samples.tables[feature]
    for missing_left in (False, True):
        if table is not None:
            for left_set in product((False, True), repeat=len(table)):
                yield Split(feature, 0.0, missing_left, left_set)
            continue
        ends = np.concatenate([samples.low[:, feature], samples.high[:, feature]])
        for threshold in [*np.unique(ends[np.isfinite(ends)]), LARGEST]:
            yield Split(feature, float(threshold), missing_left)


@dataclass(frozen=True)
class Order:
    """Features with which the share of class 1 must not fall (1) or rise (-1), and its bounds in a node."""

    directions: tuple[int, ...]
    lower: float = -np.inf
    upper: float = np.inf

    def allows(self, feature: np.ndarray, move: np.ndarray, total: np.ndarray, slack: float) -> np.ndarray:
        """Whether splits that leave `move` on the left, (split, class), keep the order; up to a slack."""
        with np.errstate(invalid="ignore", divide="ignore"):
            left, right = (part[..., 1] / part.sum(axis=-1) for part in (move, total - move))
            rises = (right - left) * np.array(self.directions)[feature]
            low, high = np.minimum(left, right), np.maximum(left, right)
            return (low >= self.lower - slack) & (high <= self.upper + slack) & (rises >= -slack)

    def part(self, feature: int, left: float, right: float, went_left: bool) -> Order:
        """The order in a child whose feature splits the node into these shares."""
        direction = self.directions[feature]
        if direction == 0:
            return self
        is_low = went_left == (direction > 0)
        middle = 0.5 * (left + right)
        return replace(self, upper=middle) if is_low else replace(self, lower=middle)


def best_ordered_gain(samples: Samples, turns: list[Turn], criterion: str, order: Order) -> float:
    """The best robust gain of a node of two classes over all splits that clearly keep an order."""
    total = samples.add_up(np.ones(len(samples.label)))
    splits = [split for feature in range(samples.low.shape[1]) for split in list_splits(samples, feature)]
    measured = [measure_split(samples, turns, split) for split in splits]
    least, most = (np.array(part) for part in zip(*measured, strict=True))
    total = np.broadcast_to(total, least.shape)
    gains = robust_gain(criterion, least, most, total)
    feature = np.array([split.feature for split in splits])
    allowed = order.allows(feature, answer(criterion, least, most, total), total, -1e-9)
    return float(gains[allowed].max(initial=0.0))


def check_order(tree: TreeEnsemble, samples: Samples, criterion: str, order: Order) -> None:
    """Raise AssertionError unless every split of a tree keeps the order, and none that clearly does is better."""
    stack: list[tuple[int, Samples, list[Turn], Order]] = [(0, samples, [], order)]
    while stack:
        at, node, turns, here = stack.pop()
        total = node.add_up(np.ones(len(node.label)))
        best, noise = best_ordered_gain(node, turns, criterion, here), 1e-10 * total.sum()
        feature = int(tree.feature[at])
        if feature < 0:
            assert best <= noise, f"leaf {at} could gain {best}"
            continue
        split = Split(feature, float(tree.threshold[at]), bool(tree.missing_left[at]))
        least, most = measure_split(node, turns, split)
        assert float(robust_gain(criterion, least, most, total)) >= best * (1.0 - 1e-8) - noise
        left, right = (tree.value[child] * tree.cover[child] for child in (tree.left[at], tree.right[at]))
        assert here.allows(np.array(feature), left, left + right, 1e-9)
        goes_left = _send(node, turns, split, left)
        shares = left[1] / left.sum(), right[1] / right.sum()
        for child, members in ((tree.right[at], ~goes_left), (tree.left[at], goes_left)):
            went_left = bool(child == tree.left[at])
            below = here.part(feature, *shares, went_left)
            stack.append((int(child), node[members], [*turns, Turn(split, went_left)], below))


def best_gain(samples: Samples, turns: list[Turn], criterion: str) -> float:
    """The best robust gain of a node over all splits."""
    total = samples.add_up(np.ones(len(samples.label)))
    splits = [split for feature in range(samples.low.shape[1]) for split in list_splits(samples, feature)]
    measured = [measure_split(samples, turns, split) for split in splits]
    least, most = (np.array(part) for part in zip(*measured, strict=True))
    return float(robust_gain(criterion, least, most, np.broadcast_to(total, least.shape)).max(initial=0.0))


def check_splits(tree: TreeEnsemble, samples: Samples, criterion: str) -> None:
    """Raise AssertionError unless every split of a grown tree is the best there is and its children hold what they say.

    Of a class that is divided the rows that go left are the first by their lower ends, what is missing last.
    """
    left_sets = tree.left_sets()
    stack: list[tuple[int, Samples, list[Turn]]] = [(0, samples, [])]
    while stack:
        at, node, turns = stack.pop()
        total = node.add_up(np.ones(len(node.label)))
        np.testing.assert_allclose(tree.value[at] * tree.cover[at], total, atol=1e-9 * samples.weight.sum())
        best, noise = best_gain(node, turns, criterion), 1e-10 * total.sum()
        feature = int(tree.feature[at])
        if feature < 0:
            assert best <= noise, f"leaf {at} could gain {best}"
            continue
        left_set = tuple(left_sets[at].tolist()) if at in left_sets else ()
        split = Split(feature, float(tree.threshold[at]), bool(tree.missing_left[at]), left_set)
        least, most = measure_split(node, turns, split)
        found = float(robust_gain(criterion, least, most, total))
        assert found > 0.0
        np.testing.assert_allclose(found, best, rtol=1e-8, atol=noise)
        goes_left = _send(node, turns, split, tree.value[tree.left[at]] * tree.cover[tree.left[at]])
        for child, members in ((tree.right[at], ~goes_left), (tree.left[at], goes_left)):
            stack.append((int(child), node[members], [*turns, Turn(split, child == tree.left[at])]))


def _send(samples: Samples, turns: list[Turn], split: Split, left_weight: np.ndarray) -> np.ndarray:
    left, right = find_sides(samples, turns, split)
    goes_left = left & ~right
    for k in range(samples.n_classes):
        mine = np.flatnonzero(left & right & (samples.label == k))
        mine = mine[np.argsort(samples.low[mine, split.feature], kind="stable")]
        weight = samples.weight[goes_left & (samples.label == k)].sum() + np.cumsum(samples.weight[mine])
        goes_left[mine[weight <= left_weight[k] * (1.0 + 1e-9) + 1e-9]] = True
    return goes_left
