"""Growing a robust tree the slow way: every candidate split of a node, scored by what each sample can reach.

Nothing here is sorted, shifted or partitioned. A *sample* is a row or, with rho below 1, the part of a row that moves
or the part that stays. It carries the ends of its reach; whether it can get to a side of a split is read off directly.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardwood import RobustTreeClassifier
from hardwood.ensemble import TreeEnsemble
from hardwood.threat import Reach

# Shifted values this close, relative to their size or to the reach, count as equal.
TIE_TOLERANCE = 1e-9
# What the Gini gain weighs beside the 0/1 loss: it only decides between equal losses.
PLATEAU_WEIGHT = 1e-9


@dataclass(frozen=True)
class Samples:
    """Samples of a table, or of one node."""

    label: np.ndarray  # 0 or 1
    weight: np.ndarray
    rows: np.ndarray  # the part of a row that the sample is
    low: np.ndarray  # (sample, feature): the lowest and the highest value it can take
    high: np.ndarray
    seats: dict[int, np.ndarray]  # categorical feature -> (sample, category): what it can be
    distance: np.ndarray  # per feature, the largest finite distance anybody can move

    def __getitem__(self, chosen: np.ndarray) -> Samples:
        return replace(
            self,
            **{name: getattr(self, name)[chosen] for name in ("label", "weight", "rows", "low", "high")},
            seats={feature: seats[chosen] for feature, seats in self.seats.items()},
        )

    def class_weights(self, member: np.ndarray) -> np.ndarray:
        """Weight per class of the samples in each of several subsets: (..., sample) -> (..., class)."""
        return np.stack([member @ (self.weight * (self.label == c)) for c in (0, 1)], axis=-1)


def make_samples(X: np.ndarray, label: np.ndarray, weight: np.ndarray, reach: Reach, rho: float = 1.0) -> Samples:
    """Make the samples of an encoded table; `weight` is per row, class weights included."""
    attacks = reach.attacks[label] & (rho > 0.0)
    share = np.where(attacks, rho, 0.0)  # the moving part of each row
    row = np.concatenate([np.flatnonzero(share > 0.0), np.flatnonzero(share < 1.0)])
    moves = np.arange(len(row)) < (share > 0.0).sum()
    part = np.where(moves, share[row], 1.0 - share[row])
    seats = {}
    for feature, allowed in enumerate(reach.categories):
        if allowed is not None:
            code = X[row, feature].astype(int)
            seats[feature] = np.where(moves[:, None], allowed[code], np.eye(len(allowed), dtype=bool)[code])
    widest = reach.widen(X)
    finite = np.where(np.isfinite([widest.left, widest.right]), [widest.left, widest.right], 0.0)
    low, high = (np.where(moves[:, None], end, X[row]) for end in reach.interval(X[row]))
    return Samples(
        label=label[row],
        weight=weight[row] * part,
        rows=part,
        low=low,
        high=high,
        seats=seats,
        distance=finite.max(axis=0) * attacks.any(),
    )


@dataclass(frozen=True)
class Node:
    """Samples and the part of the input space they are in: `lowest < x <= highest`, and `open` categories."""

    samples: Samples
    lowest: np.ndarray
    highest: np.ndarray
    open: dict[int, np.ndarray]

    @classmethod
    def root(cls, samples: Samples) -> Node:
        """The node that holds everything."""
        n_features = samples.low.shape[1]
        everything = {feature: np.ones(seats.shape[1], dtype=bool) for feature, seats in samples.seats.items()}
        return cls(samples, np.full(n_features, -np.inf), np.full(n_features, np.inf), everything)


@dataclass(frozen=True)
class Splits:
    """Several splits of one node: who can get to which side, and what they are worth under attack."""

    samples: Samples
    can_left: np.ndarray  # (split, sample)
    can_right: np.ndarray

    def gains(self, criterion: str, min_samples_leaf: int = 1) -> np.ndarray:
        """The robust gain of each split; 0 where a child would keep too few rows."""
        left = self.samples.class_weights(self.can_left & ~self.can_right)
        right = self.samples.class_weights(self.can_right & ~self.can_left)
        movable = self.samples.class_weights(self.can_left & self.can_right)
        gains = robust_gain(criterion, left, right, movable)
        rows_left = self.goes_left() @ self.samples.rows
        fewest = np.minimum(rows_left, self.samples.rows.sum() - rows_left)
        return np.where(fewest >= min_samples_leaf - 1e-6, gains, 0.0)

    def goes_left(self) -> np.ndarray:
        """Which samples the attacker leaves or puts on the left: (split, sample).

        He sends everybody who can choose to the side that is the other class's.
        """
        left = self.samples.class_weights(self.can_left & ~self.can_right)
        movable = self.samples.class_weights(self.can_left & self.can_right)
        node = self.samples.class_weights(np.ones(len(self.samples.label), dtype=bool))
        left_is_zeros = left[:, 0] * node[1] > (left[:, 1] + movable[:, 1]) * node[0]
        hurt_on_left = self.samples.label == left_is_zeros[:, None]
        return np.where(hurt_on_left, self.can_left, ~self.can_right)


def impurity(criterion: str, weights: np.ndarray) -> np.ndarray:
    """Weight times impurity of class weights (..., class)."""
    zero, one = weights[..., 0], weights[..., 1]
    tiny = np.finfo(float).tiny
    total = np.maximum(zero + one, tiny)
    if criterion == "gini":
        return 2.0 * zero * one / total
    return -zero * np.log2(np.maximum(zero / total, tiny)) - one * np.log2(np.maximum(one / total, tiny))


def robust_gain(criterion: str, left: np.ndarray, right: np.ndarray, movable: np.ndarray) -> np.ndarray:
    """What a split gains when the attacker has placed the movable weight; all arguments (..., class).

    The attacker's payoff is concave: at its best where both sides are alike, if he can get there (the gain is 0), and
    otherwise at a corner of what he can do. All four corners are tried.
    """
    node = left + right + movable
    if criterion == "error":
        wrong = [
            left[..., 1 - c] + right[..., c] + movable.sum(axis=-1)  # left predicts c
            for c in (0, 1)
        ]
        saved = node.min(axis=-1) - np.minimum(*wrong)
        plateau = PLATEAU_WEIGHT * robust_gain("gini", left, right, movable)
        return np.where(saved > 1e-12 * node.sum(axis=-1), saved + plateau, 0.0)
    noise = 1e-12 * node.prod(axis=-1)
    least = left[..., 0] * node[..., 1] - (left[..., 1] + movable[..., 1]) * node[..., 0]
    most = (left[..., 0] + movable[..., 0]) * node[..., 1] - left[..., 1] * node[..., 0]
    can_level = (least <= noise) & (most >= -noise)
    corners = [movable * np.array(corner) for corner in itertools.product((0.0, 1.0), repeat=2)]
    worst = np.max([impurity(criterion, left + c) + impurity(criterion, right + movable - c) for c in corners], axis=0)
    return np.where(can_level, 0.0, impurity(criterion, node) - worst)


def searched_gain(criterion: str, left: np.ndarray, right: np.ndarray, movable: np.ndarray) -> np.ndarray:
    """The same for Gini and entropy without any theorem: search over all the attacker can do, which is a box.

    A sum of impurities is concave in what he moves, so a ternary search along one side of the box, with a
    ternary search along the other side at every step, finds the maximum.
    """

    def payoff(zero: np.ndarray, one: np.ndarray) -> np.ndarray:
        moved = np.stack([movable[..., 0] * zero, movable[..., 1] * one], axis=-1)
        return impurity(criterion, left + moved) + impurity(criterion, right + movable - moved)

    def best_over_ones(zero: np.ndarray) -> np.ndarray:
        return _ternary_maximum(lambda one: payoff(zero, one), zero.shape)

    return impurity(criterion, left + right + movable) - _ternary_maximum(best_over_ones, left.shape[:-1])


def _ternary_maximum(function: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """The maximum of concave functions on [0, 1], one per entry of `shape`."""
    low, high = np.zeros(shape), np.ones(shape)
    best = np.maximum(function(low), function(high))
    for _ in range(32):
        first, second = (2.0 * low + high) / 3.0, (low + 2.0 * high) / 3.0
        at_first, at_second = function(first), function(second)
        rises = at_first < at_second
        low, high = np.where(rises, first, low), np.where(rises, high, second)
        best = np.maximum(best, np.maximum(at_first, at_second))
    return best


def thresholds(node: Node, feature: int) -> np.ndarray:
    """One threshold between every two neighbouring ends of reach, inside the node's interval.

    Ends that count as equal are not parted: the last of them stands for all.
    """
    samples, lowest, highest = node.samples, node.lowest[feature], node.highest[feature]
    ends = np.concatenate([samples.low[:, feature], samples.high[:, feature], [lowest, highest]])
    ends = np.unique(np.clip(ends, lowest, highest))
    size = np.maximum(np.abs(ends), samples.distance[feature])
    tolerance = TIE_TOLERANCE if samples.distance[feature] > 0.0 else 0.0
    with np.errstate(invalid="ignore"):
        equal = np.diff(ends) <= tolerance * np.maximum(size[1:], size[:-1])
    equal &= np.isfinite(ends[1:]) & np.isfinite(ends[:-1])
    tops = ends[:-1][~equal]
    return tops[np.isfinite(tops)]


def numerical_splits(node: Node, feature: int, at: np.ndarray) -> Splits:
    """The splits `x <= t` for every `t` of `at`."""
    samples = node.samples
    low, high = samples.low[:, feature], samples.high[:, feature]
    return Splits(samples, low <= at[:, None], high > at[:, None])


def categorical_splits(node: Node, feature: int, left_sets: np.ndarray) -> Splits:
    """The splits by sets of categories: bool (split, category)."""
    seats = node.samples.seats[feature] & node.open[feature]
    can_left, can_right = (sides.astype(float) @ seats.T > 0.0 for sides in (left_sets, ~left_sets))
    return Splits(node.samples, can_left, can_right)


def all_left_sets(in_play: np.ndarray) -> np.ndarray:
    """Every set of the categories in play but the mirrored ones: bool (set, category)."""
    active = np.flatnonzero(in_play)
    members = np.arange(1 << max(len(active) - 1, 0))[:, None] >> np.arange(len(active)) & 1
    sets = np.zeros((len(members), len(in_play)), dtype=bool)
    sets[:, active] = members == 1
    return sets


def candidate_splits(node: Node, feature: int) -> Splits:
    """All splits of a node on a feature."""
    if feature in node.samples.seats:
        in_play = (node.samples.seats[feature] & node.open[feature]).any(axis=0)
        return categorical_splits(node, feature, all_left_sets(in_play))
    return numerical_splits(node, feature, thresholds(node, feature))


def best_gain(node: Node, criterion: str, min_samples_leaf: int = 1) -> float:
    """The best robust gain over all features and all splits; 0 if none gains."""
    features = range(node.samples.low.shape[1])
    gains = [candidate_splits(node, feature).gains(criterion, min_samples_leaf) for feature in features]
    return float(np.concatenate([[0.0], *gains]).max())


def split_of(tree: TreeEnsemble, at: int, node: Node) -> Splits:
    """The split that node `at` of a grown tree makes of these samples."""
    feature = int(tree.feature[at])
    if feature in node.samples.seats:
        return categorical_splits(node, feature, tree.left_sets()[at][None])
    return numerical_splits(node, feature, tree.threshold[at : at + 1])


def children(tree: TreeEnsemble, at: int, node: Node) -> tuple[Node, Node]:
    """Send the samples of an inner node down as the attacker would."""
    feature = int(tree.feature[at])
    goes_left = split_of(tree, at, node).goes_left()[0]
    left, right = replace(node, samples=node.samples[goes_left]), replace(node, samples=node.samples[~goes_left])
    if feature in node.samples.seats:
        here, left_set = node.open[feature], tree.left_sets()[at]
        return (
            replace(left, open=node.open | {feature: here & left_set}),
            replace(right, open=node.open | {feature: here & ~left_set}),
        )
    own = np.arange(len(node.lowest)) == feature
    bound = tree.threshold[at]
    return (
        replace(left, highest=np.where(own, np.minimum(node.highest, bound), node.highest)),
        replace(right, lowest=np.where(own, np.maximum(node.lowest, bound), node.lowest)),
    )


def walk(tree: TreeEnsemble, samples: Samples) -> Iterator[tuple[int, int, Node]]:
    """Go through a grown tree with the samples that reach each node: (node id, depth, node)."""
    stack = [(int(tree.root[0]), 0, Node.root(samples))]
    while stack:
        at, depth, node = stack.pop()
        yield at, depth, node
        if tree.feature[at] >= 0:
            left, right = children(tree, at, node)
            stack += [(int(tree.right[at]), depth + 1, right), (int(tree.left[at]), depth + 1, left)]


def samples_of(model: RobustTreeClassifier, X: Any, y: Any, sample_weight: Any = None) -> Samples:
    """The samples of the data that a model was fitted on."""
    tree = model.ensemble_
    label = np.searchsorted(tree.classes, y)
    weight = np.ones(len(label)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    if model.class_weight is not None:
        weight = weight * np.array([model.class_weight[c] for c in tree.classes.tolist()])[label]
    reach = model.threat_.resolve(tree.schema, tree.classes)
    return make_samples(tree.schema.encode(X), label, weight, reach, model.rho)


def check_weights(tree: TreeEnsemble, samples: Samples) -> None:
    """Raise AssertionError unless every node holds the weight that the attacker leaves or puts there."""
    for at, _, node in walk(tree, samples):
        weight = node.samples.class_weights(np.ones(len(node.samples.label), dtype=bool))
        np.testing.assert_allclose(tree.cover[at], weight.sum(), rtol=1e-9, err_msg=f"node {at}")
        np.testing.assert_allclose(tree.value[at], weight / weight.sum(), rtol=0.0, atol=1e-9)


def check_fit(model: RobustTreeClassifier, X: Any, y: Any, sample_weight: Any = None) -> TreeEnsemble:
    """Fit a model; raise AssertionError unless every split is the best there is, and no leaf should have been split.

    The gain is compared, not the split: where several are equally good, any will do.
    """
    tree = model.fit(X, y, sample_weight).ensemble_
    samples = samples_of(model, X, y, sample_weight)
    check_weights(tree, samples)
    worthwhile = model.min_impurity_decrease * samples.weight.sum()
    for at, depth, node in walk(tree, samples):
        rows, noise = node.samples.rows.sum(), 1e-11 * node.samples.weight.sum()
        too_deep = model.max_depth is not None and depth >= model.max_depth
        closed = too_deep or rows < model.min_samples_split - 1e-6
        best = 0.0 if closed else best_gain(node, model.criterion, model.min_samples_leaf)
        if tree.feature[at] < 0:
            assert best <= worthwhile + noise, f"leaf {at} could gain {best}"
        else:
            gain = split_of(tree, at, node).gains(model.criterion, model.min_samples_leaf)[0]
            assert gain > 0.0, f"node {at} gains nothing"
            assert gain >= worthwhile - noise, f"node {at} gains only {gain}"
            np.testing.assert_allclose(gain, best, rtol=1e-9, atol=noise, err_msg=f"node {at}")
    return tree
