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
