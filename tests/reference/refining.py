"""Refinement by enumeration: the best classes of leaves, the best move of one node, the best partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from hardwood import TreeEnsemble

# A tree as `reference.attacking.build` takes it: (feature, threshold or set of codes, left, right), or a class.
Branch = Any


def best_labels(loss: Any, tree: TreeEnsemble) -> float:
    """Return the least loss over all classes of all leaves; `loss` judges a tree."""
    leaves = np.flatnonzero(tree.feature < 0)
    best = np.inf
    for classes in product((0, 1), repeat=len(leaves)):
        value = np.zeros((tree.n_nodes, 2))
        value[leaves, classes] = 1.0
        relabelled = replace(
            tree, value=value, base_score=np.zeros(2), link="probability", divisor=1.0, precision="float64"
        )
        best = min(best, loss(relabelled))
    return best


def moves(branch: Branch, thresholds: list[list[float]], can_grow: bool) -> Iterator[Branch]:
    """Yield all that can become of the topmost node of a tree: simpler trees, and every other split."""
    yield 0
    yield 1
    is_leaf = not isinstance(branch, tuple)
    children = [(0, 1), (1, 0)] if is_leaf else [(branch[2], branch[3]), (branch[3], branch[2])]
    if not is_leaf:
        yield branch[2]
        yield branch[3]
        if not isinstance(branch[2], tuple) and not isinstance(branch[3], tuple):
            children += [(0, 1), (1, 0)]
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
