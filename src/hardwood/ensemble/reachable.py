"""Rows x reachable leaves of one tree: all that an attacker can do to a row, as far as that tree can tell."""

from typing import NamedTuple

import numpy as np

from hardwood._kernels import reaching
from hardwood._kernels.compiling import frozen
from hardwood.ensemble.missing_columns import Part, part_rows
from hardwood.ensemble.tree_ensemble import TreeEnsemble
from hardwood.threat.reach import Reach

# Rows are looked at in chunks, so that their reach (two numbers per value) need not fit in memory at once.
CHUNK = 1 << 14


class ReachableLeaves(NamedTuple):
    """Compressed rows: row ``i`` can be moved into the leaves ``leaf[start[i]:start[i + 1]]``, which are node ids."""

    start: np.ndarray
    leaf: np.ndarray

    @property
    def row(self) -> np.ndarray:
        """The row that each entry of `leaf` is about."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))


def find_parents(ensemble: TreeEnsemble) -> np.ndarray:
    """Return each node's parent; -1 for roots."""
    parent = np.full(ensemble.n_nodes, -1, dtype=np.int64)
    inner = np.flatnonzero(ensemble.feature >= 0)
    parent[ensemble.left[inner]] = parent[ensemble.right[inner]] = inner
    return parent


def list_reachable(
    ensemble: TreeEnsemble, reach: Reach, matrix: np.ndarray, class_index: np.ndarray, tree: int = 0
) -> ReachableLeaves:
    """List the leaves of one tree that each row of an encoded matrix can be moved into.

    A row that cannot be moved reaches the one leaf that it is in.
    """
    parts = part_rows(ensemble, matrix, class_index, reach)
    if parts is not None:
        return _list_in_parts(ensemble.n_nodes, parts, class_index, tree)
    n_codes = np.array([0 if matrix is None else len(matrix) for matrix in reach.categories], dtype=np.int64)
    about_tree = (
        ensemble.trees, int(ensemble.root[tree]), ensemble.remember("parents", find_parents),
        ensemble.remember("contradictions", TreeEnsemble.contradictions), np.cumsum(n_codes) - n_codes, n_codes,
    )  # fmt: skip
    stack = np.empty(ensemble.max_depth + 2, dtype=np.int64)
    starts, leaves, n_before = [np.zeros(1, dtype=np.int64)], [], 0
    for first in range(0, len(matrix), CHUNK):
        rows = slice(first, first + CHUNK)
        low, high = reach.box(matrix[rows], class_index[rows])
        np.minimum(high, np.finfo(np.float64).max, out=high)  # infinity is no value that a row can have
        allowed = reach.open_codes(matrix[rows], class_index[rows])
        start = np.empty(len(low) + 1, dtype=np.int64)
        about_rows = (frozen(low), frozen(high), frozen(allowed), stack, start)
        reaching.list_reachable(*about_tree, *about_rows, np.empty(0, dtype=np.int32))
        leaf = np.empty(start[-1], dtype=np.int32)
        reaching.list_reachable(*about_tree, *about_rows, leaf)
        starts.append(start[1:] + n_before)
        leaves.append(leaf)
        n_before += len(leaf)
    return ReachableLeaves(np.concatenate(starts), np.concatenate([np.empty(0, dtype=np.int32), *leaves]))


def _list_in_parts(n_nodes: int, parts: list[Part], class_index: np.ndarray, tree: int) -> ReachableLeaves:
    """List leaves where values can be blanked or filled: each leaf once for each row, in the order of their numbers."""
    pairs = []
    for part in parts:
        found = list_reachable(part.ensemble, part.reach, part.matrix, class_index[part.rows], tree)
        pairs.append(part.rows[found.row] * n_nodes + part.columns.origin[found.leaf])
    row, leaf = np.divmod(np.unique(np.concatenate([np.empty(0, dtype=np.int64), *pairs])), n_nodes)
    start = np.searchsorted(row, np.arange(len(class_index) + 1))
    return ReachableLeaves(start, leaf.astype(np.int32))
