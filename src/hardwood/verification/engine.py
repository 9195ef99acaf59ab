"""An ensemble and a threat made ready for searching, row by row."""

from typing import NamedTuple

import numpy as np

from hardwood._kernels import ensemble_search as kernels
from hardwood._kernels.ensemble_nearest import Ball
from hardwood._kernels.leaf_bounds import bound_leaves
from hardwood.ensemble import TreeEnsemble


class Workspace(NamedTuple):
    """Arrays for one thread's searches; enlarged when a row needs more."""

    leaves: kernels.Leaves
    search: kernels.Search
    ball: Ball


def find_parents(ensemble: TreeEnsemble) -> np.ndarray:
    """Return each node's parent; -1 for roots."""
    parent = np.full(ensemble.n_nodes, -1, dtype=np.int64)
    inner = np.flatnonzero(ensemble.feature >= 0)
    parent[ensemble.left[inner]] = parent[ensemble.right[inner]] = inner
    return parent


def find_trees(ensemble: TreeEnsemble) -> np.ndarray:
    """Return the tree that each node belongs to."""
    tree = np.empty(ensemble.n_nodes, dtype=np.int64)
    level = ensemble.root
    tree[level] = np.arange(ensemble.n_trees)
    while len(level):
        level = level[ensemble.feature[level] >= 0]
        for child in (ensemble.left[level], ensemble.right[level]):
            tree[child] = tree[level]
        level = np.concatenate([ensemble.left[level], ensemble.right[level]])
    return tree


def make_model(ensemble: TreeEnsemble) -> kernels.Model:
    """Lay an ensemble out for the search: its leaves and their boxes in sparse form."""
    n_categories = np.array([0 if c is None else len(c) + 1 for c in ensemble.schema.categories], dtype=np.int64)
    leaves = np.flatnonzero(ensemble.feature < 0)
    leaf_of_node = np.full(ensemble.n_nodes, -1, dtype=np.int64)
    leaf_of_node[leaves] = np.arange(len(leaves))
    start = np.empty(len(leaves) + 1, dtype=np.int64)
    entry = np.full(ensemble.schema.n_features, -1, dtype=np.int64)
    context = (ensemble.trees, find_parents(ensemble), n_categories, leaves, entry, start)
    none = np.empty(0, dtype=np.int64)
    room = bound_leaves(*context, none, np.empty(0), np.empty(0), none, np.empty(0, dtype=bool))
    size = max(1, int(start[-1]))  # never empty: that would mean counting
    feature, set_start = np.empty(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    low, high, sets = np.empty(size), np.empty(size), np.empty(room, dtype=bool)
    bound_leaves(*context, feature, low, high, set_start, sets)
    return kernels.Model(
        trees=ensemble.trees,
        value=ensemble.value,
        base_score=ensemble.base_score,
        single=ensemble.precision == "float32",
        divisor=float(ensemble.divisor),
        cut=float(ensemble.cut),
        leaf_of_node=leaf_of_node,
        bound_start=start,
        bound_feature=feature,
        bound_low=low,
        bound_high=high,
        bound_set=set_start,
        sets=sets,
        category_start=np.cumsum(n_categories) - n_categories,
        n_categories=n_categories,
    )


def make_workspace(ensemble: TreeEnsemble, n_leaves: int, n_bounds: int) -> Workspace:
    """Allocate for rows that reach so many leaves, with so many bounds between them."""
    n_trees, n_features, n_outputs = ensemble.n_trees, ensemble.schema.n_features, len(ensemble.base_score)
    n_codes = sum(len(labels) + 1 for labels in ensemble.schema.categories if labels is not None)
    n_words = (n_leaves + 63) // 64
    integers = np.int64
    leaves = kernels.Leaves(
        node=np.empty(n_leaves, integers),
        value=np.empty(n_leaves),
        cost=np.empty(n_leaves),
        start=np.empty(n_leaves, integers),
        end=np.empty(n_leaves, integers),
        bound_feature=np.empty(n_bounds, integers),
        bound_low=np.empty(n_bounds),
        bound_high=np.empty(n_bounds),
        bound_set=np.empty(n_bounds, integers),
        tree_start=np.empty(n_trees + 1, integers),
        sizes=np.zeros(2, integers),
    )
    search = kernels.Search(
        alive=np.zeros((n_trees + 2, n_words), np.uint64),
        conflict=np.empty((n_leaves, n_words), np.uint64),
        known=np.zeros(n_leaves, dtype=bool),
        chosen=np.empty(n_trees + 2, integers),
        fixed=np.zeros(n_trees, dtype=bool),
        top=np.empty(n_trees, integers),
        low=np.empty(n_features),
        high=np.empty(n_features),
        allowed=np.empty(n_codes, dtype=bool),
        owner_low=np.empty(n_features, integers),
        owner_high=np.empty(n_features, integers),
        output=np.empty(n_outputs),
        stack=np.empty(ensemble.max_depth + 2, integers),
        state=np.zeros(2, integers),
    )
    ball = Ball(
        low=np.empty(n_features),
        high=np.empty(n_features),
        allowed=np.empty(n_codes, dtype=bool),
        costs=np.empty(n_leaves),
        state=np.zeros(5),
    )
    return Workspace(leaves, search, ball)
