"""An ensemble and a threat made ready for searching, row by row."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hardwood._kernels.ensemble_leaves import Leaves, Model, Place
from hardwood._kernels.ensemble_search import Search
from hardwood._kernels.leaf_bounds import bound_leaves
from hardwood.ensemble import TreeEnsemble
from hardwood.table import Schema


class Workspace(NamedTuple):
    """Arrays for one thread's searches; enlarged when a row needs more."""

    leaves: Leaves
    place: Place
    search: Search


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


def drop_unused(ensemble: TreeEnsemble) -> tuple[TreeEnsemble, np.ndarray]:
    """Return the ensemble as one of the columns alone that it looks at, and these columns; at least one."""
    schema, looks = ensemble.schema, ensemble.feature >= 0
    used = np.unique(ensemble.feature[looks]) if looks.any() else np.zeros(1, dtype=np.intp)
    if len(used) == schema.n_features:
        return ensemble, used
    feature = np.where(looks, np.searchsorted(used, ensemble.feature), ensemble.feature).astype(np.int32)
    narrow = Schema(len(used), None, tuple(schema.categories[j] for j in used.tolist()), schema.accepts_missing)
    return replace(ensemble, feature=feature, schema=narrow), used


def make_model(ensemble: TreeEnsemble) -> Model:
    """Lay an ensemble out for the search: its thresholds, its leaves and their boxes in sparse form."""
    n_features = ensemble.schema.n_features
    n_categories = np.array([0 if c is None else len(c) + 1 for c in ensemble.schema.categories], dtype=np.int64)
    category_start = np.cumsum(n_categories) - n_categories
    leaves = np.flatnonzero(ensemble.feature < 0)
    leaf_of_node = np.full(ensemble.n_nodes, -1, dtype=np.int64)
    leaf_of_node[leaves] = np.arange(len(leaves))
    start = np.empty(len(leaves) + 1, dtype=np.int64)
    entry = np.full(n_features, -1, dtype=np.int64)
    context = (ensemble.trees, find_parents(ensemble), n_categories, leaves, entry, start)
    none = np.empty(0, dtype=np.int64)
    room = bound_leaves(*context, none, np.empty(0), np.empty(0), none, np.empty(0, dtype=bool))
    size = max(1, int(start[-1]))  # never empty: that would mean counting
    feature, set_start = np.zeros(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    low, high, sets = np.zeros(size), np.zeros(size), np.empty(room, dtype=bool)
    bound_leaves(*context, feature, low, high, set_start, sets)
    thresholds, rank = [], np.zeros(ensemble.n_nodes, dtype=np.int32)
    first, last = np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.int32)
    inner = (ensemble.feature >= 0) & (ensemble.category_start < 0)
    for j in range(n_features):
        nodes = np.flatnonzero(inner & (ensemble.feature == j))
        values, index = np.unique(ensemble.threshold[nodes], return_inverse=True)
        rank[nodes] = index
        thresholds.append(values)
        at = feature == j
        first[at] = np.where(np.isneginf(low[at]), 0, np.searchsorted(values, low[at]) + 1)
        last[at] = np.searchsorted(values, high[at])
    sizes = np.array([len(values) for values in thresholds], dtype=np.int64)
    cells = np.concatenate([sizes + 2, np.full(n_categories.sum(), 3)])  # a spare one each
    return Model(
        trees=ensemble.trees,
        value=ensemble.value,
        base_score=ensemble.base_score,
        single=ensemble.precision == "float32",
        divisor=float(ensemble.divisor),
        cut=float(ensemble.cut),
        leaf_of_node=leaf_of_node,
        rank=rank,
        bound_start=start,
        bound_feature=feature.astype(np.int32),
        bound_first=first,
        bound_last=last,
        bound_set=set_start,
        sets=sets,
        thresholds=np.concatenate(thresholds),
        threshold_start=np.concatenate([[0], np.cumsum(sizes)]),
        cell_start=np.concatenate([[0], np.cumsum(cells)]),
        category_start=category_start,
        n_categories=n_categories,
    )


def make_workspace(ensemble: TreeEnsemble, model: Model, scale: int) -> Workspace:
    """Allocate for rows that reach some `scale` thousand leaves."""
    n_trees, n_axes, n_cells = ensemble.n_trees, len(model.cell_start) - 1, int(model.cell_start[-1])
    n_leaves, n_levels = 1024 * scale, 64 * scale
    n_bounds = 8 * n_leaves + n_axes

    def integers(size: int) -> np.ndarray:
        return np.zeros(size, dtype=np.int32)

    leaves = Leaves(
        value=np.empty(n_leaves),
        start=integers(n_leaves),
        end=integers(n_leaves),
        axis=integers(n_bounds),
        first=integers(n_bounds),
        last=integers(n_bounds),
    )
    own, low, high, active = (integers(n_axes) for _ in range(4))
    place = Place(own, low, high, active, integers(1))
    n_changes = 64 * scale + 4 * n_axes
    search = Search(
        slots=integers(4 * n_leaves),
        marks=integers(4 * (n_trees + 2) * scale),
        mark=np.zeros(n_levels, np.int64),
        n_trees=np.zeros(n_levels, np.int64),
        **{name: np.zeros(n_levels) for name in ("settled", "bound", "floor", "other_bound", "other_floor")},
        **{name: integers(n_levels) for name in ("axis", "cell", "side")},
        trail=np.zeros(n_levels, np.int64),
        **{name: integers(n_changes) for name in ("changed", "old_low", "old_high")},
        **{name: np.zeros(n_cells) for name in ("cost", "loss", "least")},
        **{name: integers(n_axes) for name in ("first", "last", "touched", "is_touched", "front", "back", "pending")},
        seen=np.zeros(n_axes, np.int64),
        **{name: integers(n_axes) for name in ("seen_first", "seen_last", "chosen")},
        cheapest=np.zeros(n_axes),
        point=np.empty(ensemble.schema.n_features),
        output=np.empty(len(ensemble.base_score)),
        stack=np.empty(ensemble.max_depth + 2, np.int64),
        state=np.zeros(5, np.int64),
        numbers=np.zeros(5),
    )
    return Workspace(leaves, place, search)
