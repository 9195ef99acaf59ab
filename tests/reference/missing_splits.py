"""Splits of features whose values may be missing, blanked or filled in, the slow way: who can be where, one by one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.threat import Reach
from reference.many_classes import robust_gain

LARGEST = float(np.finfo(np.float64).max)


class Turn(NamedTuple):
    """A split above a node, and which way the node is."""

    feature: int
    threshold: float
    missing_left: bool
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
    n_classes: int

    def __getitem__(self, chosen: np.ndarray) -> Samples:
        names = ("label", "weight", "low", "high", "blank", "fill")
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
    return Samples(label, weight, low, high, blank & ~np.isnan(X), fill & np.isnan(X), n_classes)


def find_sides(
    samples: Samples, turns: list[Turn], feature: int, threshold: float, missing_left: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Which rows can be on the left of a split, and which on the right, given the splits above."""
    above = [turn for turn in turns if turn.feature == feature]
    first = max((turn.threshold for turn in above if not turn.went_left), default=-np.inf)
    last = min((turn.threshold for turn in above if turn.went_left), default=np.inf)
    can_miss = all(turn.missing_left == turn.went_left for turn in above)
    low, high = samples.low[:, feature], samples.high[:, feature]
    is_missing = np.isnan(low)
    low = np.where(samples.fill[:, feature], -np.inf, low)
    high = np.where(samples.fill[:, feature], np.inf, high)
    below, beyond = min(last, threshold), max(first, threshold)
    with np.errstate(invalid="ignore"):
        left = (low <= below) & (high > first) & (first < below)
        right = (low <= last) & (high > beyond) & (beyond < min(last, LARGEST))
    may_miss = (is_missing | samples.blank[:, feature]) & can_miss
    return left | (may_miss & missing_left), right | (may_miss & (not missing_left))


def measure_split(
    samples: Samples, turns: list[Turn], feature: int, threshold: float, missing_left: bool
) -> tuple[np.ndarray, np.ndarray]:
    """What the attacker must and can leave on the left, per class."""
    left, right = find_sides(samples, turns, feature, threshold, missing_left)
    assert (left | right).all()
    return samples.add_up(left & ~right), samples.add_up(left)


def best_gain(samples: Samples, turns: list[Turn], criterion: str) -> float:
    """The best robust gain of a node, over all features, a threshold at every end of reach, and both sides."""
    total, splits = samples.add_up(np.ones(len(samples.label))), []
    for feature in range(samples.low.shape[1]):
        ends = np.concatenate([samples.low[:, feature], samples.high[:, feature]])
        for threshold in [*np.unique(ends[np.isfinite(ends)]), LARGEST]:
            for missing_left in (False, True):
                splits.append(measure_split(samples, turns, feature, threshold, missing_left))
    least, most = (np.array(part) for part in zip(*splits, strict=True))
    return float(robust_gain(criterion, least, most, np.broadcast_to(total, least.shape)).max(initial=0.0))


def check_splits(tree: TreeEnsemble, samples: Samples, criterion: str) -> None:
    """Raise AssertionError unless every split of a grown tree is the best there is and its children hold what they say.

    Of a class that is divided the rows that go left are the first by their lower ends, what is missing last.
    """
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
        threshold, missing_left = float(tree.threshold[at]), bool(tree.missing_left[at])
        least, most = measure_split(node, turns, feature, threshold, missing_left)
        found = float(robust_gain(criterion, least, most, total))
        assert found > 0.0
        np.testing.assert_allclose(found, best, rtol=1e-8, atol=noise)
        goes_left = _send(
            node, turns, feature, threshold, missing_left, tree.value[tree.left[at]] * tree.cover[tree.left[at]]
        )
        for child, members in ((tree.right[at], ~goes_left), (tree.left[at], goes_left)):
            turn = Turn(feature, threshold, missing_left, child == tree.left[at])
            stack.append((int(child), node[members], [*turns, turn]))


def _send(
    samples: Samples, turns: list[Turn], feature: int, threshold: float, missing_left: bool, left_weight: np.ndarray
) -> np.ndarray:
    left, right = find_sides(samples, turns, feature, threshold, missing_left)
    goes_left = left & ~right
    for k in range(samples.n_classes):
        mine = np.flatnonzero(left & right & (samples.label == k))
        mine = mine[np.argsort(samples.low[mine, feature], kind="stable")]
        weight = samples.weight[goes_left & (samples.label == k)].sum() + np.cumsum(samples.weight[mine])
        goes_left[mine[weight <= left_weight[k] * (1.0 + 1e-9) + 1e-9]] = True
    return goes_left
