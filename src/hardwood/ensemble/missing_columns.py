"""Missing values as columns of their own: what an attacker who blanks or fills values does, said in numbers.

A feature whose values can be blanked or filled gets one more column: 1 where its value is missing, else 0. A split on
such a feature becomes a split on the new column first. Where the value is there, the split follows as it was; where it
is missing, the child that missing values go to follows at once. Below, it is known whether the value is there, and no
more is asked. So every leaf of the new trees is a box of numbers again, and what moves numbers need not know of missing
ones. A leaf that takes missing and other values becomes several.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hardwood.ensemble.tree_ensemble import TreeEnsemble
from hardwood.table import Schema
from hardwood.threat.reach import Reach

# Nodes of the trees with more columns; a node takes some 60 bytes, and several times that in a search.
MOST_NODES = 1 << 24
# What is known of a feature at a node: nothing yet, that its value is there, or that it is missing.
UNKNOWN, THERE, MISSING = 0, 1, 2


class MissingColumns(NamedTuple):
    """An ensemble that is told by further columns, one for each of `features`, which values are missing."""

    ensemble: TreeEnsemble
    features: np.ndarray
    origin: np.ndarray  # per node: the node of the first ensemble that it stands for


class Part(NamedTuple):
    """Rows that are asked about together, without a missing value among them."""

    rows: np.ndarray  # their positions
    matrix: np.ndarray
    reach: Reach
    columns: MissingColumns
    filled: np.ndarray  # the features in which they lack a value that can be filled in: any value costs the same

    @property
    def ensemble(self) -> TreeEnsemble:
        """The trees that take these columns."""
        return self.columns.ensemble

    def weigh(self, weight: np.ndarray) -> np.ndarray:
        """Return what a change of each column costs: to fill in a value costs the same, whatever it is."""
        wide = np.concatenate([weight, weight[self.columns.features]])
        wide[self.filled] = 0.0
        return wide

    def hide(self, wide: np.ndarray) -> np.ndarray:
        """Return points of these columns as rows of the table again, with what is missing left out."""
        features = self.columns.features
        points = wide[:, : -len(features)].copy()
        points[:, features] = np.where(wide[:, -len(features) :] == 1.0, np.nan, points[:, features])
        return points


def part_rows(
    ensemble: TreeEnsemble, matrix: np.ndarray, class_index: np.ndarray, reach: Reach, *, missing: bool = False
) -> list[Part] | None:
    """Part rows by what can be filled in; None if no value that the ensemble looks at can be blanked or filled.

    missing : whether columns are wanted for all features with missing values, also where nobody can do anything.
    """
    features = _find_features(ensemble, matrix, reach, missing)
    if not len(features):
        return None
    columns = add_columns(ensemble, features)
    gone = np.isnan(matrix[:, features])
    fill = np.zeros(len(features), dtype=bool) if reach.fill is None else reach.fill[features]
    filled = gone & fill & reach.attacks[class_index][:, None]
    wide = np.concatenate([matrix, gone], axis=1)
    wide[:, features] = np.where(gone, _find_stand_ins(reach, features), matrix[:, features])
    patterns, which = np.unique(filled, axis=0, return_inverse=True)
    return [
        Part(rows, wide[rows], _widen(reach, features, features[pattern]), columns, features[pattern])
        for rows, pattern in _go_through(patterns, which.ravel())
    ]


def _go_through(patterns: np.ndarray, which: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for k, pattern in enumerate(patterns):
        yield np.flatnonzero(which == k), pattern


def _find_features(ensemble: TreeEnsemble, matrix: np.ndarray, reach: Reach, missing: bool) -> np.ndarray:
    """Return the features that need a column: somebody can change, and the ensemble or a relation looks at them."""
    if reach.blank is None and reach.fill is None and not missing:
        return np.empty(0, dtype=np.intp)
    wanted = np.zeros(ensemble.schema.n_features, dtype=bool)
    gone = np.isnan(matrix).any(axis=0)
    if reach.blank is not None:
        wanted |= reach.blank
    if reach.fill is not None:
        wanted |= reach.fill & gone
    used = np.zeros(len(wanted), dtype=bool)
    used[ensemble.feature[ensemble.feature >= 0]] = True
    if reach.relations is not None:
        used[reach.relations.columns] = True
    return np.flatnonzero((wanted & used) | (gone & missing))


def _find_stand_ins(reach: Reach, features: np.ndarray) -> np.ndarray:
    """Return a value for each feature that a missing one could have: a number of its domain, or a category."""
    if reach.within is None:
        return np.zeros(len(features))
    return np.clip(0.0, *reach.within[:, features])


def _widen(reach: Reach, features: np.ndarray, filled: np.ndarray) -> Reach:
    """Return what the attacker may do to rows with these further columns, who lack values that can be filled in."""
    n_more = len(features)
    none = np.zeros(len(reach.left), dtype=bool)
    fill, blank = (none if flags is None else flags for flags in (reach.fill, reach.blank))
    left, right = np.append(reach.left, fill[features]), np.append(reach.right, blank[features])
    categories = [*reach.categories, *[None] * n_more]
    for j in filled.tolist():
        table = categories[j]
        if table is None:
            left[j] = right[j] = np.inf
        else:
            categories[j] = np.ones_like(table)
            categories[j][:, -1] = False  # the categories that are not known
            categories[j][-1, -1] = True
    whole = np.append(none if reach.whole is None else reach.whole, np.ones(n_more, dtype=bool))
    ends = np.repeat([[-np.inf], [np.inf]], len(none), axis=1) if reach.within is None else reach.within
    within = np.concatenate([ends, np.repeat([[0.0], [1.0]], n_more, axis=1)], axis=1)
    share = None if reach.share is None else np.concatenate([reach.share, np.zeros((2, n_more))], axis=1)
    tellers = zip(features.tolist(), range(len(none), len(none) + n_more), strict=True)
    return replace(
        reach,
        left=left,
        right=right,
        categories=tuple(categories),
        whole=whole,
        within=within,
        share=share,
        blank=None,
        fill=None,
        budget=None if reach.budget is None else reach.budget.widen(len(none), features, filled),
        relations=None if reach.relations is None else replace(reach.relations, missing=tuple(tellers)),
    )


def add_columns(ensemble: TreeEnsemble, features: np.ndarray) -> MissingColumns:
    """Return the ensemble with a column more for each of some features; the last one is kept with it."""
    last: list[MissingColumns] = ensemble.remember("missing columns", lambda _: [])
    for known in last:
        if np.array_equal(known.features, features):
            return known
    made = _add_columns(ensemble, features)
    last[:] = [made]
    return made


def _add_columns(ensemble: TreeEnsemble, features: np.ndarray) -> MissingColumns:
    """Copy the trees from their roots down, level by level."""
    schema, n_more = ensemble.schema, len(features)
    column = np.full(schema.n_features, -1, dtype=np.intp)
    column[features] = np.arange(n_more)
    node, known = ensemble.root.astype(np.intp), np.zeros((ensemble.n_trees, n_more), dtype=np.int8)
    tree = np.arange(ensemble.n_trees)
    levels: list[_Level] = []
    n_nodes = 0
    while len(node):
        node = _skip_missing(ensemble, column, node, known)
        at = column[ensemble.feature[node]]
        is_inner = ensemble.feature[node] >= 0
        asks = is_inner & (at >= 0) & (known[np.arange(len(node)), at] == UNKNOWN)
        first_child = n_nodes + len(node) + 2 * np.cumsum(is_inner) - 2
        levels.append(_Level(node, tree, asks, np.where(is_inner, first_child, -1)))
        n_nodes += len(node)
        if n_nodes > MOST_NODES:
            raise ValueError(
                f"blank, fill: trees that tell all missing values of {n_more} columns apart would have more than "
                f"{MOST_NODES} nodes; name fewer columns that can be blanked or filled"
            )
        inner = np.flatnonzero(is_inner)
        below = np.repeat(node[inner], 2)
        goes_on, is_left = ~np.repeat(asks[inner], 2), np.arange(len(below)) % 2 == 0
        known = np.repeat(known[inner], 2, axis=0)
        rows = np.flatnonzero(~goes_on)
        known[rows, np.repeat(at[inner], 2)[rows]] = np.where(is_left[rows], THERE, MISSING)
        node = np.where(goes_on, np.where(is_left, ensemble.left[below], ensemble.right[below]), below)
        tree = np.repeat(tree[inner], 2)
    return _join_levels(ensemble, features, column, levels)


class _Level(NamedTuple):
    """Nodes of the new trees that are equally far from their roots."""

    origin: np.ndarray
    tree: np.ndarray
    asks: np.ndarray  # bool: whether it asks if a value is missing
    first_child: np.ndarray  # the left one; the right one is the next; -1 in leaves


def _skip_missing(ensemble: TreeEnsemble, column: np.ndarray, node: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Go down from nodes whose feature is known to be missing to where missing values go."""
    node, at = node.copy(), np.arange(len(node))
    while len(at):
        feature = ensemble.feature[node[at]]
        is_gone = (feature >= 0) & (column[feature] >= 0)
        is_gone[is_gone] = known[at[is_gone], column[feature[is_gone]]] == MISSING
        at = at[is_gone]
        here = node[at]
        node[at] = np.where(ensemble.missing_left[here], ensemble.left[here], ensemble.right[here])
    return node


def _join_levels(
    ensemble: TreeEnsemble, features: np.ndarray, column: np.ndarray, levels: list[_Level]
) -> MissingColumns:
    """Put the nodes of all levels together, tree by tree."""
    origin, tree, asks, first_child = (np.concatenate(part) for part in zip(*levels, strict=True))
    order = np.argsort(tree, kind="stable")
    number = np.append(np.empty(len(order), dtype=np.int32), np.int32(-1))
    number[order] = np.arange(len(order))
    origin, asks, first_child = origin[order], asks[order], first_child[order]
    feature = ensemble.feature[origin]
    schema, n_more = ensemble.schema, len(features)
    categories = (*schema.categories, *(None,) * n_more)
    wide = replace(
        ensemble,
        root=number[: ensemble.n_trees],
        feature=np.where(asks, schema.n_features + column[feature], feature).astype(np.int32),
        threshold=np.where(asks, 0.0, ensemble.threshold[origin]),
        left=number[first_child],
        right=number[np.where(first_child < 0, -1, first_child + 1)],
        value=ensemble.value[origin],
        cover=ensemble.cover[origin],
        missing_left=ensemble.missing_left[origin] & ~asks,
        category_start=np.where(asks, -1, ensemble.category_start[origin]),
        schema=Schema(schema.n_features + n_more, None, categories, schema.accepts_missing),
    )
    return MissingColumns(wide, features, origin)
