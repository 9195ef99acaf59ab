"""Growing a robust regression tree the slow way: every threshold, every pair of leaf values that could be best.

What an attacker leaves of a split is the least, over the leaf values `a` and `b`, of a sum in which a movable sample
counts by the leaf that hurts it more. The sum is convex, and between the values at which some sample changes its mind
it is smooth (squared error) or linear (absolute error). So its minimum is at one of a few pairs, and all of them are
tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardwood import RobustTreeRegressor, TreeEnsemble
from hardwood.threat import Reach
from reference.growing import TIE_TOLERANCE


@dataclass(frozen=True)
class Samples:
    """Samples of a table, or of one node; with rho below 1, parts of rows."""

    target: np.ndarray
    weight: np.ndarray
    rows: np.ndarray
    low: np.ndarray  # (sample, feature): the lowest and the highest value it can take
    high: np.ndarray
    distance: np.ndarray  # per feature, the largest finite distance anybody can move
    seats: dict[int, np.ndarray]  # categorical feature -> (sample, category): what it can be in the node

    def __getitem__(self, chosen: np.ndarray) -> Samples:
        names = ("target", "weight", "rows", "low", "high")
        seats = {feature: places[chosen] for feature, places in self.seats.items()}
        return replace(self, **{name: getattr(self, name)[chosen] for name in names}, seats=seats)


def make_samples(X: np.ndarray, y: np.ndarray, weight: np.ndarray, reach: Reach, rho: float = 1.0) -> Samples:
    """Make the samples of an encoded table."""
    share = np.array([rho, 1.0 - rho])
    row = np.concatenate([np.arange(len(X)) for part in share if part > 0.0])
    moves = np.concatenate([np.full(len(X), k == 0) for k, part in enumerate(share) if part > 0.0])
    part = np.where(moves, rho, 1.0 - rho)
    finite = np.where(np.isfinite([reach.left, reach.right]), [reach.left, reach.right], 0.0)
    low, high = (np.where(moves[:, None], end, X[row]) for end in reach.interval(X[row]))
    seats = {}
    for feature, allowed in enumerate(reach.categories):
        if allowed is not None:
            code, is_missing = np.nan_to_num(X[row, feature]).astype(int), np.isnan(X[row, feature])
            places = np.where(moves[:, None], allowed[code], np.eye(len(allowed), dtype=bool)[code])
            seats[feature] = places & ~is_missing[:, None]
    return Samples(y[row], weight[row] * part, part, low, high, finite.max(axis=0) * (rho > 0.0), seats)


def measure(samples: Samples, values: np.ndarray, squared: bool) -> np.ndarray:
    """The error of each sample with each value: (value, sample)."""
    off = np.abs(samples.target - values[:, None])
    return samples.weight * (off * off if squared else off)


def error_of(samples: Samples, squared: bool) -> float:
    """The least error of one value for all."""
    if not len(samples.target):
        return 0.0
    values = np.array([np.average(samples.target, weights=samples.weight)]) if squared else samples.target
    return float(measure(samples, values, squared).sum(axis=1).min())


@dataclass(frozen=True)
class Split:
    """Who is surely left, who surely right, and who can be moved."""

    samples: Samples
    left: np.ndarray
    right: np.ndarray

    @property
    def movable(self) -> np.ndarray:
        """Who can be moved."""
        return ~self.left & ~self.right

    def left_over(self, values: np.ndarray, squared: bool) -> np.ndarray:
        """The error that the attacker leaves with pairs of leaf values (pair, 2)."""
        on_left, on_right = (measure(self.samples, values[:, k], squared) for k in (0, 1))
        either = np.maximum(on_left, on_right)
        return np.select([self.left, self.right], [on_left, on_right], either).sum(axis=1)

    def settle(self, squared: bool) -> tuple[float, np.ndarray]:
        """The error that the attacker leaves with the best leaf values, and these."""
        pairs = np.array(list(self._squared_pairs() if squared else self._absolute_pairs()))
        errors = self.left_over(pairs, squared)
        best = int(errors.argmin())
        return float(errors[best]), pairs[best]

    def gain(self, squared: bool) -> float:
        """What the split takes off the error of the node, whatever the attacker does."""
        return error_of(self.samples, squared) - self.settle(squared)[0]

    def assignments(self) -> Iterator[tuple[int, np.ndarray]]:
        """Every way to send movable samples above some number to one side, those below it to the other."""
        target = self.samples.target
        for turn, sign in itertools.product([*np.unique(target[self.movable]), np.inf], (1, -1)):
            goes_left = (target >= turn) == (sign > 0)
            yield sign, np.where(self.movable, goes_left, self.left)

    def _squared_pairs(self) -> Iterator[tuple[float, float]]:
        target, weight = self.samples.target, self.samples.weight
        mean = float(np.average(target, weights=weight))
        yield mean, mean
        for _, goes_left in self.assignments():
            if goes_left.any() and not goes_left.all():
                a, b = (float(np.average(target[side], weights=weight[side])) for side in (goes_left, ~goes_left))
                yield a, b
        # Where `a + b = 2 c` and samples at c can be divided: b = 2 c - a, and a minimises what is left.
        for c, sign in itertools.product(np.unique(target[self.movable]), (1, -1)):
            goes_left = np.where(self.movable, (target > c) == (sign > 0), self.left) & (target != c)
            goes_left |= self.left
            at = self.movable & (target == c)
            wanted = np.where(goes_left | at, target, 2.0 * c - target)
            a = float(np.average(wanted, weights=weight))
            yield a, 2.0 * float(c) - a

    def _absolute_pairs(self) -> Iterator[tuple[float, float]]:
        values = np.unique(self.samples.target).tolist()
        yield from itertools.product(values, repeat=2)
        for a, c in itertools.product(values, repeat=2):
            yield a, 2.0 * c - a
            yield 2.0 * c - a, a


def split_at(samples: Samples, feature: int, threshold: float, missing_left: bool = False) -> Split:
    """The split `x <= threshold`; what is missing goes to one side, and stays missing."""
    is_missing = np.isnan(samples.low[:, feature])
    left, right = samples.high[:, feature] <= threshold, samples.low[:, feature] > threshold
    return Split(samples, left | (is_missing & missing_left), right | (is_missing & (not missing_left)))


def split_by(samples: Samples, feature: int, left_set: np.ndarray, missing_left: bool = False) -> Split:
    """The split by a set of categories."""
    is_missing = np.isnan(samples.low[:, feature])
    can_left, can_right = ((samples.seats[feature] & side).any(axis=1) for side in (left_set, ~left_set))
    left, right = can_left & ~can_right, can_right & ~can_left
    return Split(samples, left | (is_missing & missing_left), right | (is_missing & (not missing_left)))


def all_splits(samples: Samples, feature: int) -> Iterator[Split]:
    """Every split of a node on a feature; what is missing on either side."""
    sides = (False, True) if np.isnan(samples.low[:, feature]).any() else (False,)
    if feature not in samples.seats:
        for at, missing_left in itertools.product(thresholds(samples, feature).tolist(), sides):
            yield split_at(samples, feature, at, missing_left)
        return
    n = samples.seats[feature].shape[1]
    for members, missing_left in itertools.product(itertools.product((False, True), repeat=n), sides):
        yield split_by(samples, feature, np.array(members), missing_left)


def thresholds(samples: Samples, feature: int) -> np.ndarray:
    """One threshold between every two neighbouring ends of reach that do not count as equal."""
    ends = np.concatenate([samples.low[:, feature], samples.high[:, feature]])
    ends = np.unique(ends[~np.isnan(ends)])
    size = np.maximum(np.abs(ends), samples.distance[feature])
    tolerance = TIE_TOLERANCE if samples.distance[feature] > 0.0 else 0.0
    with np.errstate(invalid="ignore"):
        equal = np.diff(ends) <= tolerance * np.maximum(size[1:], size[:-1])
    equal &= np.isfinite(ends[1:]) & np.isfinite(ends[:-1])
    tops = ends[:-1][~equal]
    tops = tops[np.isfinite(tops)]
    is_missing = np.isnan(samples.low[:, feature]).any()
    return np.append(tops, np.finfo(float).max) if is_missing else tops  # the last parts what is missing


def best_gain(samples: Samples, squared: bool, surely: float = 0.0) -> float:
    """The best robust gain over all features and thresholds; 0 if none gains.

    surely : how many rows have to be on either side of a threshold, whatever the attacker does.
    """
    best = 0.0
    for feature in range(samples.low.shape[1]):
        for split in all_splits(samples, feature):
            if min(samples.rows[split.left].sum(), samples.rows[split.right].sum()) >= surely:
                best = max(best, split.gain(squared))
    return best


def values_of(samples: Samples, squared: bool) -> tuple[float, float]:
    """The least and the largest value that is best for a node: the mean, or the medians."""
    if squared:
        mean = float(np.average(samples.target, weights=samples.weight))
        return mean, mean
    order = np.argsort(samples.target)
    target, below = samples.target[order], np.cumsum(samples.weight[order])
    middle = 0.5 * below[-1] * np.array([1.0 - 1e-12, 1.0 + 1e-12])
    lower, upper = np.minimum(np.searchsorted(below, middle), len(target) - 1)
    return float(target[lower]), float(target[upper])


def _fits(tree: TreeEnsemble, node: int, samples: Samples, squared: bool) -> bool:
    if not len(samples.target):
        return False
    value, slack = float(tree.value[node, 0]), 1e-9 * float(np.abs(samples.target).max())
    low, high = values_of(samples, squared)
    return bool(np.isclose(tree.cover[node], samples.weight.sum(), rtol=1e-9)) and low - slack <= value <= high + slack


def children(tree: TreeEnsemble, node: int, split: Split, squared: bool) -> Iterator[tuple[Samples, Samples]]:
    """Send samples down as the attacker might, in every way that agrees with what the tree says of the children."""
    _, (a, b) = split.settle(squared)
    middle, near = 0.5 * (a + b), 1e-7 * max(1.0, float(np.abs(split.samples.target).max()))
    left, right = int(tree.left[node]), int(tree.right[node])
    for sign, goes_left in split.assignments():
        parts = split.samples[goes_left], split.samples[~goes_left]
        if not (_fits(tree, left, parts[0], squared) and _fits(tree, right, parts[1], squared)):
            continue
        if squared:
            is_high = goes_left == (sign > 0)
            off = split.samples.target - middle
            if (a < b) != (sign > 0) and a != b:
                continue
            if (split.movable & (is_high != (off > 0.0)) & (np.abs(off) > near)).any():
                continue
        feature = int(tree.feature[node])
        if feature in split.samples.seats:  # what is on the other side of the set is out of reach from here
            inside = tree.left_sets()[node]
            parts = tuple(  # type: ignore[assignment]
                replace(part, seats=part.seats | {feature: part.seats[feature] & side})
                for part, side in zip(parts, (inside, ~inside), strict=True)
            )
        yield parts


def samples_of(model: RobustTreeRegressor, X: Any, y: Any, sample_weight: Any = None) -> Samples:
    """The samples of the data that a model was fitted on."""
    schema = model.ensemble_.schema
    weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    reach = model.threat_.resolve(schema)
    rho = 0.0 if reach.is_empty else model.rho
    return make_samples(schema.encode(X), np.asarray(y, dtype=float), weight, reach, rho)


def check_fit(model: RobustTreeRegressor, X: Any, y: Any, sample_weight: Any = None) -> TreeEnsemble:
    """Fit a model; raise AssertionError unless every split is the best there is, and no leaf should have been split.

    Where the attacker can change categories, not every set of them is tried: splits have to gain, and no more.

    A threshold is passed over if it leaves a child fewer rows than `min_samples_leaf`. Where that might be, a split is
    only asked to be as good as those that are allowed whatever the attacker does.
    """
    tree = model.fit(X, y, sample_weight).ensemble_
    samples, squared = samples_of(model, X, y, sample_weight), model.criterion == "squared_error"
    worthwhile = model.min_impurity_decrease * samples.weight.sum()
    size = float(np.abs(samples.target).max()) ** (2 if squared else 1)
    noise = 1e-10 * error_of(samples, squared) + 1e-14 * float(samples.weight.sum()) * size
    every_set = all(bool((places.sum(axis=1) <= 1).all()) for places in samples.seats.values())
    whole = model.min_samples_leaf == 1 and bool((samples.rows == 1.0).all())

    def check(at: int, depth: int, node: Samples) -> None:
        assert _fits(tree, at, node, squared), f"node {at}"
        too_deep = model.max_depth is not None and depth >= model.max_depth
        closed = too_deep or node.rows.sum() < model.min_samples_split - 1e-6
        best = 0.0 if closed else best_gain(node, squared)
        allowed = best if whole else (0.0 if closed else best_gain(node, squared, model.min_samples_leaf))
        allowed = allowed if every_set else 0.0
        if tree.feature[at] < 0:
            assert allowed <= worthwhile + noise, f"leaf {at} could gain {best}"
            return
        feature, missing_left = int(tree.feature[at]), bool(tree.missing_left[at])
        if feature in node.seats:
            split = split_by(node, feature, tree.left_sets()[at], missing_left)
        else:
            split = split_at(node, feature, float(tree.threshold[at]), missing_left)
        gain = split.gain(squared)
        assert gain > 0.0, f"node {at} gains nothing"
        assert gain >= worthwhile - noise
        assert allowed * (1.0 - 1e-8) - noise <= gain <= best * (1.0 + 1e-8) + noise, f"node {at}"
        problem = AssertionError(f"node {at}: no answer of the attacker gives its children")
        for left, right in children(tree, at, split, squared):
            try:
                check(int(tree.left[at]), depth + 1, left)
                check(int(tree.right[at]), depth + 1, right)
                return
            except AssertionError as error:
                problem = error
        raise problem

    check(int(tree.root[0]), 0, samples)
    return tree
