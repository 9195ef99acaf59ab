"""The splits of Chen et al. (2019) the slow way: every threshold of a node, every row looked at one by one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from hardwood import RobustTreeClassifier
from hardwood.ensemble import TreeEnsemble
from reference.growing import impurity


def midway(values: np.ndarray) -> np.ndarray:
    """A threshold between every two neighbouring values."""
    low, high = np.unique(values)[:-1], np.unique(values)[1:]
    middle = 0.5 * low + 0.5 * high
    return np.where((low <= middle) & (middle < high), middle, low)


def gain_of(criterion: str, weight: np.ndarray, label: np.ndarray, is_left: np.ndarray) -> float:
    """The natural gain of a split, given the side of every row."""
    sides = [[weight[side & (label == c)].sum() for c in (0, 1)] for side in (is_left, ~is_left)]
    left, right = np.array(sides)
    gain = impurity(criterion, left + right) - impurity(criterion, left) - impurity(criterion, right)
    return float(np.maximum(gain, 0.0))


def gain_under_attack(attacker: str, criterion: str, weight: np.ndarray, label: np.ndarray, rows: Rows) -> float:
    """What a split gains when the attacker has answered."""
    low, own, high, threshold = rows
    is_left, can_left, can_right = own <= threshold, low <= threshold, high > threshold
    in_doubt = can_left & can_right
    if attacker == "chen":
        cases = [is_left, is_left | in_doubt, is_left & ~in_doubt, is_left ^ in_doubt]
        return min(gain_of(criterion, weight, label, case) for case in cases)
    while True:
        ambiguous = np.flatnonzero(in_doubt)[np.argsort(label[in_doubt], kind="stable")]  # zeros first
        gaps = [mix_gap(label, is_left ^ (np.arange(len(label)) == row)) for row in ambiguous]
        if not gaps or min(gaps) >= mix_gap(label, is_left):
            return gain_of(criterion, weight, label, is_left)
        is_left[ambiguous[int(np.argmin(gaps))]] ^= True


def mix_gap(label: np.ndarray, is_left: np.ndarray) -> int:
    """How far the class mixes of two sides are apart: 0 if the same share of either class is left."""
    zeros, ones = label == 0, label == 1
    return abs(int((zeros & is_left).sum() * ones.sum()) - int((ones & is_left).sum() * zeros.sum()))


def least_gain(criterion: str, weight: np.ndarray, label: np.ndarray, rows: Rows) -> float:
    """What a split gains after the worst of all ways to put the ambiguous rows."""
    low, own, high, threshold = rows
    is_left, in_doubt = own <= threshold, (low <= threshold) & (high > threshold)
    ambiguous = [np.flatnonzero(in_doubt & (label == c)) for c in (0, 1)]
    worst = np.inf
    for counts in itertools.product(*(range(len(rows) + 1) for rows in ambiguous)):
        moved = is_left & ~in_doubt
        for doubt, count in zip(ambiguous, counts, strict=True):
            moved[doubt[:count]] = True
        worst = min(worst, gain_of(criterion, weight, label, moved))
    return worst


Rows = tuple[np.ndarray, np.ndarray, np.ndarray, float]


def check_chen(model: RobustTreeClassifier, X: Any, y: Any, sample_weight: Any = None) -> TreeEnsemble:
    """Fit a model; raise AssertionError unless every split is the best there is, and no leaf should have been split."""
    tree = model.fit(X, y, sample_weight).ensemble_
    X, label = np.asarray(X, dtype=float), np.searchsorted(tree.classes, y)
    weight = np.ones(len(label)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    if model.class_weight is not None:
        weight = weight * np.array([model.class_weight[c] for c in tree.classes.tolist()])[label]
    low, high = model.threat_.resolve(tree.schema, tree.classes).box(X, label)
    stack = [(int(tree.root[0]), 0, np.ones(len(label), dtype=bool))]
    while stack:
        at, depth, here = stack.pop()
        of_class = np.array([weight[here & (label == c)].sum() for c in (0, 1)])
        np.testing.assert_allclose(tree.value[at] * tree.cover[at], of_class, rtol=1e-9, atol=1e-9)

        def gain(feature: int, threshold: float, here: np.ndarray = here) -> float:
            rows = (low[here, feature], X[here, feature], high[here, feature], threshold)
            return gain_under_attack(model.attacker, model.criterion, weight[here], label[here], rows)

        best, closed = 0.0, model.max_depth is not None and depth >= model.max_depth
        closed |= here.sum() < model.min_samples_split
        for feature in range(0 if closed else X.shape[1]):
            for threshold in midway(X[here, feature]):
                n_left = (X[here, feature] <= threshold).sum()
                if min(n_left, here.sum() - n_left) >= model.min_samples_leaf:
                    best = max(best, gain(feature, threshold))
        noise, worthwhile = 1e-11 * weight[here].sum(), model.min_impurity_decrease * weight.sum()
        if tree.feature[at] < 0:
            assert best <= worthwhile + noise, f"leaf {at} could gain {best}"
            continue
        feature, threshold = int(tree.feature[at]), float(tree.threshold[at])
        assert threshold in midway(X[here, feature])
        np.testing.assert_allclose(gain(feature, threshold), best, rtol=1e-9, atol=noise, err_msg=f"node {at}")
        is_left = X[:, feature] <= threshold
        stack += [(int(tree.left[at]), depth + 1, here & is_left), (int(tree.right[at]), depth + 1, here & ~is_left)]
    return tree
