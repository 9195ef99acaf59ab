"""Refinement by enumeration: what a tree loses, the best classes of leaves, the best move of one node."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np

from hardwood import TreeEnsemble
from hardwood.threat import Reach
from reference import attacking

# A tree as `reference.attacking.build` takes it: (feature, threshold or set of codes, left, right), or a class.
Branch = Any


def loss_by_points(tree: TreeEnsemble, rows: Any) -> float:
    """Return the loss by its definition: every point that the attacker can turn each row into is classified."""
    loss = 0.0
    for row, label, weight in zip(rows.matrix, rows.label.tolist(), rows.weight.tolist(), strict=True):
        is_wrong = attacking.predict(tree, row) != label
        share = (1.0 - rows.rho) * is_wrong
        if rows.rho > 0.0:
            given = {attacking.predict(tree, np.array(point)) for point in list_points(tree, row, label, rows.reach)}
            wanted = {k for k in given if (k != label if rows.reach.targets is None else rows.reach.targets[label, k])}
            share += rows.rho * bool(is_wrong or wanted)
        loss += weight * share
    return loss


def list_points(tree: TreeEnsemble, row: np.ndarray, label: int, reach: Reach) -> Iterator[tuple[float, ...]]:
    """Yield points that a row can be turned into: of values that the tree does not tell apart, one."""
    if not reach.attacks[label]:
        yield tuple(row.tolist())
        return
    used = set(tree.feature.tolist())
    values = [list_values(tree, j, x, reach) if j in used else [x] for j, x in enumerate(row.tolist())]
    yield from product(*values)


def list_values(tree: TreeEnsemble, feature: int, x: float, reach: Reach) -> list[float]:
    """List what one value can be turned into."""
    nodes = np.flatnonzero(tree.feature == feature).tolist()
    allowed, is_missing = reach.categories[feature], np.isnan(x)
    hidden = reach.fill if is_missing else reach.blank
    is_open = hidden is not None and bool(hidden[feature])
    if allowed is not None:
        codes = np.flatnonzero(allowed[int(x)]).tolist() if not is_missing else []
        codes += list(range(len(allowed) - 1)) if is_missing and is_open else []
        kinds = {tuple(attacking.goes_left(tree, node, code) for node in nodes): float(code) for code in codes}
        found = list(kinds.values())
    else:
        low, high = (x - reach.left[feature], x + reach.right[feature]) if not is_missing else (-np.inf, np.inf)
        if reach.within is not None and (not is_missing or is_open):
            low, high = max(low, reach.within[0, feature]), min(high, reach.within[1, feature])
            low, high = (min(low, x), max(high, x)) if not is_missing else (low, high)
        ends = [low, *(math.nextafter(t, math.inf) for t in tree.threshold[nodes].tolist())]
        found = [] if is_missing and not is_open else [end for end in ends if low <= end <= high]
        found = [min(max(end, -1e300), 1e300) for end in found] + ([] if is_missing else [x])
    return [*found, *([np.nan] if is_missing or is_open else [])]


def best_labels(loss: Any, tree: TreeEnsemble, n_classes: int = 2) -> float:
    """Return the least loss over all classes of all leaves; `loss` judges a tree."""
    leaves = np.flatnonzero(tree.feature < 0)
    best = np.inf
    for classes in product(range(n_classes), repeat=len(leaves)):
        value = np.zeros((tree.n_nodes, n_classes))
        value[leaves, classes] = 1.0
        relabelled = replace(
            tree, value=value, base_score=np.zeros(n_classes), link="probability", divisor=1.0, precision="float64"
        )
        best = min(best, loss(relabelled))
    return best


def moves(branch: Branch, thresholds: list[list[float]], can_grow: bool, n_classes: int = 2) -> Iterator[Branch]:
    """Yield all that can become of the topmost node of a tree: simpler trees, and every other split."""
    yield from range(n_classes)
    is_leaf, pairs = not isinstance(branch, tuple), list(permutations(range(n_classes), 2))
    children = pairs if is_leaf else [(branch[2], branch[3]), (branch[3], branch[2])]
    if not is_leaf:
        yield branch[2]
        yield branch[3]
        if not isinstance(branch[2], tuple) and not isinstance(branch[3], tuple):
            children += pairs
    if is_leaf and not can_grow:
        return
    for feature, values in enumerate(thresholds):
        for threshold in values:
            for left, right in children:
                yield feature, threshold, left, right


def count_leaves(branch: Branch) -> int:
    """Return the number of leaves of a tree."""
    return count_leaves(branch[2]) + count_leaves(branch[3]) if isinstance(branch, tuple) else 1


def fewest_lost(tree: TreeEnsemble, low: np.ndarray, high: np.ndarray, class_index: np.ndarray) -> int:
    """Return how many rows are lost by the best classes of all leaves of a tree of numbers: all of them are tried.

    A row is lost if a leaf of another class meets its box, ``low`` to ``high``.
    """
    boxes = tree.leaf_boxes()
    meets = (high[:, None, :] > boxes.low) & (low[:, None, :] <= boxes.high)
    n_leaves = len(boxes.leaf)
    pattern = meets.all(axis=2) @ (1 << np.arange(n_leaves))  # a bit per leaf that the row can be moved into
    says_one = np.arange(1 << n_leaves)  # a bit per leaf: its class
    lost = np.zeros(1 << n_leaves, dtype=int)
    for class_of_rows, wrong in ((0, says_one), (1, ~says_one)):
        for reached, n_rows in zip(*np.unique(pattern[class_index == class_of_rows], return_counts=True), strict=True):
            lost += n_rows * ((reached & wrong) != 0)
    return int(lost.min())
