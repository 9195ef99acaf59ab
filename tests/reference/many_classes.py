"""Splits of many classes the slow way: by bisection over what the attacker can do, and by enumerating it.

`least` and `most` are what he must and what he can leave on the left, class by class, `total` what the node has:
arrays (..., class).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.threat import Reach

HALVINGS = 70


def impurity(criterion: str, weight: np.ndarray) -> np.ndarray:
    """Weight times impurity of class weights (..., class); of the 0/1 error, what is not of the largest class."""
    n = weight.sum(axis=-1)
    share = weight / np.where(n > 0.0, n, 1.0)[..., None]
    if criterion == "gini":
        return n - n * (share**2).sum(axis=-1)
    if criterion == "error":
        return n - weight.max(axis=-1)
    return -(weight * np.log2(np.where(share > 0.0, share, 1.0))).sum(axis=-1)


def gain(criterion: str, move: np.ndarray, total: np.ndarray) -> np.ndarray:
    """What a split gains that leaves `move` on the left."""
    return impurity(criterion, total) - impurity(criterion, move) - impurity(criterion, total - move)


def bound_by_values(criterion: str, move: np.ndarray, least: np.ndarray, most: np.ndarray, total: np.ndarray) -> float:
    """Bound from above what the attacker can leave, by leaf values alone: those that fit his answer `move`.

    Every row loses by the values of its leaf, a movable one by the worse of both: whatever he does, the sum is at least
    the impurity that he reaches.
    """
    left, right = move / move.sum(), (total - move) / (total - move).sum()
    if criterion == "gini":
        losses = [(value**2).sum() - 2.0 * value + 1.0 for value in (left, right)]
    else:
        with np.errstate(divide="ignore"):
            losses = [-np.log2(value) for value in (left, right)]
    worse = np.maximum(*losses)
    parts = [(least, losses[0]), (total - most, losses[1]), (most - least, worse)]
    return float(sum((weight[weight > 0.0] * loss[weight > 0.0]).sum() for weight, loss in parts))


def enumerate_moves(criterion: str, least: np.ndarray, most: np.ndarray, total: np.ndarray) -> float:
    """The least gain that the attacker can leave by moving whole rows, all of them tried."""
    moves = np.array(list(itertools.product(*[np.arange(a, b + 1) for a, b in zip(least, most, strict=True)])))
    return float(gain(criterion, moves, total).min())


def _spread(least: np.ndarray, most: np.ndarray, total: np.ndarray, s: np.ndarray) -> np.ndarray:
    """The purest answer with `s` in all on the left: a common share and a common addition, cut off.

    What is left grows with the addition, in straight lines between those at which a class is cut off.
    """
    share = total * (s / total.sum(axis=-1))[..., None]
    bends = np.sort(np.concatenate([least - share, most - share], axis=-1), axis=-1)
    left = np.clip(share[..., None, :] + bends[..., None], least[..., None, :], most[..., None, :]).sum(axis=-1)
    last = np.clip((left < s[..., None]).sum(axis=-1), 1, bends.shape[-1] - 1)[..., None]
    low, high = (np.take_along_axis(bends, at, axis=-1)[..., 0] for at in (last - 1, last))
    below, above = (np.take_along_axis(left, at, axis=-1)[..., 0] for at in (last - 1, last))
    part = (s - below) / np.where(above > below, above - below, 1.0)
    addition = low + (high - low) * np.clip(part, 0.0, 1.0)
    return np.clip(share + addition[..., None], least, most)


def answer(criterion: str, least: np.ndarray, most: np.ndarray, total: np.ndarray) -> np.ndarray:
    """The attacker's answer to Gini impurity or entropy, by ternary search over how much is left in all."""
    low, high = least.sum(axis=-1), most.sum(axis=-1)

    def spread(s: np.ndarray) -> np.ndarray:
        if criterion == "gini":
            return _spread(least, most, total, s)
        return np.clip(total * (s / total.sum(axis=-1))[..., None], least, most)

    for _ in range(HALVINGS):
        first, second = (2.0 * low + high) / 3.0, (low + 2.0 * high) / 3.0
        falls = gain(criterion, spread(first), total) > gain(criterion, spread(second), total)
        low, high = np.where(falls, first, low), np.where(falls, high, second)
    return spread(0.5 * (low + high))


def can_level(least: np.ndarray, most: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Whether the same share of every class can be put left."""
    present = np.where(total > 0.0, total, 1.0)
    low = np.where(total > 0.0, least / present, 0.0).max(axis=-1)
    high = np.where(total > 0.0, most / present, 1.0).min(axis=-1)
    return low <= high + 1e-12


def robust_gain(criterion: str, least: np.ndarray, most: np.ndarray, total: np.ndarray) -> np.ndarray:
    """What a split gains once the attacker has answered."""
    if criterion == "error":
        saved = least.max(axis=-1) + (total - most).max(axis=-1) - total.max(axis=-1)
        plateau = 1e-9 * robust_gain("gini", least, most, total)
        return np.where(saved > 1e-12 * total.sum(axis=-1), saved + plateau, 0.0)
    found = gain(criterion, answer(criterion, least, most, total), total)
    return np.where(can_level(least, most, total), 0.0, np.maximum(found, 0.0))


@dataclass(frozen=True)
class Samples:
    """Samples of a table, or of one node, in the order of their numbers."""

    label: np.ndarray
    weight: np.ndarray
    rows: np.ndarray  # the part of a row that a sample is
    low: np.ndarray  # (sample, feature): both ends of its reach
    high: np.ndarray
    n_classes: int

    def __getitem__(self, chosen: np.ndarray) -> Samples:
        names = ("label", "weight", "rows", "low", "high")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})

    def add_up(self, member: np.ndarray, amount: np.ndarray) -> np.ndarray:
        """Amounts per class of the samples in each of several subsets: (..., sample) -> (..., class)."""
        return np.stack([member @ (amount * (self.label == k)) for k in range(self.n_classes)], axis=-1)


def make_samples(
    X: np.ndarray, label: np.ndarray, weight: np.ndarray, reach: Reach, rho: float, n_classes: int
) -> Samples:
    """Make the samples of a table: every row, or its part that moves, and then the parts that stay."""
    moves = reach.attacks[label] & (rho > 0.0)
    staying = np.flatnonzero(moves & (rho < 1.0))
    part = np.where(moves, rho, 1.0)
    low, high = reach.box(X, label)
    low, high = (np.where(moves[:, None], end, X) for end in (low, high))
    return Samples(
        label=np.concatenate([label, label[staying]]),
        weight=np.concatenate([weight * part, weight[staying] * (1.0 - rho)]),
        rows=np.concatenate([part, np.full(len(staying), 1.0 - rho)]),
        low=np.concatenate([low, X[staying]]),
        high=np.concatenate([high, X[staying]]),
        n_classes=n_classes,
    )


def measure_splits(samples: Samples, feature: int, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the attacker must and can leave left of each threshold, and what there is: (threshold, class) each."""
    surely, possibly = (end[:, feature] <= at[:, None] for end in (samples.high, samples.low))
    total = samples.add_up(np.ones(len(samples.label)), samples.weight)
    least, most = (samples.add_up(member.astype(float), samples.weight) for member in (surely, possibly))
    return least, most, np.broadcast_to(total, least.shape)


def best_gain(samples: Samples, criterion: str) -> float:
    """The best robust gain of a node, over all features and a threshold at every end of reach."""
    splits = []
    for feature in range(samples.low.shape[1]):
        ends = np.unique(np.concatenate([samples.low[:, feature], samples.high[:, feature]]))
        splits.append(measure_splits(samples, feature, ends[np.isfinite(ends)]))
    least, most, total = map(np.concatenate, zip(*splits, strict=True))
    return float(robust_gain(criterion, least, most, total).max(initial=0.0))


def check_splits(tree: TreeEnsemble, samples: Samples, criterion: str) -> None:
    """Raise AssertionError unless every split of a grown tree is the best there is and its children hold what they say.

    Where rows are divided into parts each child needs a whole row, so the best split may not be allowed.

    Who of a class that is divided goes left is checked by how much: the samples that do are the first by their lower
    ends.
    """
    stack = [(0, samples)]
    while stack:
        at, node = stack.pop()
        total = node.add_up(np.ones(len(node.label)), node.weight)
        np.testing.assert_allclose(tree.value[at] * tree.cover[at], total, atol=1e-9 * samples.weight.sum())
        best, noise = best_gain(node, criterion), 1e-10 * total.sum()
        feature, any_leaf = int(tree.feature[at]), bool((samples.rows == 1.0).all())
        if feature < 0:
            assert best <= noise or not any_leaf, f"leaf {at} could gain {best}"
            continue
        least, most, whole = (part[0] for part in measure_splits(node, feature, tree.threshold[at : at + 1]))
        found = float(robust_gain(criterion, least, most, whole))
        assert found > 0.0
        assert found <= best * (1.0 + 1e-8) + noise
        assert found >= best * (1.0 - 1e-8) - noise or not any_leaf
        left = tree.value[tree.left[at]] * tree.cover[tree.left[at]]
        goes_left = send(node, feature, tree.threshold[at], left)
        stack += [(int(tree.right[at]), node[~goes_left]), (int(tree.left[at]), node[goes_left])]


def send(samples: Samples, feature: int, threshold: float, left: np.ndarray) -> np.ndarray:
    """Which samples go left, if the classes weigh `left` there: the first ones of those that can."""
    low, high = samples.low[:, feature], samples.high[:, feature]
    surely, movable = high <= threshold, (low <= threshold) & (high > threshold)
    goes_left = surely.copy()
    for k in range(samples.n_classes):
        mine = np.flatnonzero(movable & (samples.label == k))
        mine = mine[np.argsort(low[mine], kind="stable")]
        weight = samples.weight[surely & (samples.label == k)].sum() + np.cumsum(samples.weight[mine])
        goes_left[mine[weight <= left[k] * (1.0 + 1e-9) + 1e-9]] = True
    return goes_left
