"""Exact attacks on a model of one tree, by a depth-first search over its leaves."""

import numpy as np

from hardwood._kernels import tree_attack
from hardwood._kernels.compiling import frozen
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.reachable import find_parents
from hardwood.ensemble.whole_numbers import above_thresholds
from hardwood.threat import Reach

NORMS = {np.inf: tree_attack.INF, 0: 0, 1: 1, 2: 2}

# Rows are attacked in chunks, so that their reach (two numbers per value) need not fit in memory at once.
CHUNK = 1 << 14


def attack_tree(
    tree: TreeEnsemble,
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: Reach,
    norm: float,
    weight: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Find the nearest example of every row of an encoded matrix: (found, examples)."""
    target = tree_attack.Target(
        tree.trees,
        tree.remember("parents", find_parents),
        tree.remember("contradictions", TreeEnsemble.contradictions),
        tree.node_class,
        tree.remember("above thresholds", above_thresholds),
    )
    categories = tree_attack.CategoryReach(*reach.pack_categories())
    n_levels = tree.max_depth + 1
    path = tree_attack.Path(
        np.empty(n_levels, np.int64), np.empty(n_levels, np.int64), np.empty(n_levels), np.empty(n_levels)
    )
    point = np.empty(matrix.shape[1])
    found = np.zeros(len(matrix), dtype=bool)
    X_adv = np.full_like(matrix, np.nan)
    for start in range(0, len(matrix), CHUNK):
        rows = slice(start, start + CHUNK)
        own = class_index[rows]
        low, high = reach.box(matrix[rows], own)
        tree_attack.attack_rows(
            target, categories, frozen(matrix[rows]), low, high, reach.attacks[own], own, NORMS[norm],
            weight, path, point, found[rows], X_adv[rows],
        )  # fmt: skip
    return found, X_adv
