"""Every point that an attacker can make of a row, as far as trees tell points apart, by asking the threat itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from fuzz.tables import COLORS, PAY, TIER, make_frame, make_matrix
from hardwood import ThreatModel, TreeEnsemble

# So many points of a row are tried at most: of more, a sample.
MOST = 1500


def contains(
    threat: ThreatModel, trees: TreeEnsemble, before: pd.DataFrame, after: pd.DataFrame, y: np.ndarray | None
) -> np.ndarray:
    """Ask of a threat that has been settled whether rows can become others."""
    return threat.contains(before, after, y, replace(trees.schema, accepts_missing=True))


def list_points(
    threat: ThreatModel, trees: TreeEnsemble, table: pd.DataFrame, y: np.ndarray | None
) -> list[np.ndarray]:
    """Return, row by row, points that an attacker can make of it: all that matter, or many.

    Of every interval that no tree can tell apart the points at its ends, and whole numbers around; columns by
    themselves first, then all that the columns allow together.
    """
    columns, matrix = list(table.columns), make_matrix(table)
    unlimited = threat.replace(max_changes=None, radius=None, units=None, relations=None)
    grouped = [] if not threat.groups else [PAY, TIER]
    blocks = [*([name] for name in columns if not any(name in group for group in grouped)), *grouped]
    found = []
    for row in range(len(table)):
        own = None if y is None else y[[row]]
        states = []
        for block in blocks:
            at = [columns.index(name) for name in block]
            values = _list_states(trees, matrix, row, at, columns)
            points = np.repeat(matrix[[row]], len(values), axis=0)
            points[:, at] = values
            states.append(values[_ask(unlimited, trees, table, row, points, own)])
        found.append(_combine(threat, trees, table, row, own, blocks, states))
    return found


def _list_states(trees: TreeEnsemble, matrix: np.ndarray, row: int, at: list[int], columns: list[str]) -> np.ndarray:
    """Return all values that one column, or the columns of a group, could be given."""
    if len(at) > 1:
        return np.vstack([matrix[row, at], np.eye(len(at)), np.zeros(len(at))])
    j = at[0]
    if columns[j] == "color":
        return np.array([matrix[row, j], *range(len(COLORS) + 1), np.nan])[:, None]
    is_split = (trees.feature == j) & (trees.category_start < 0)
    edges = np.unique(trees.threshold[is_split])
    ends = np.array([matrix[row, j], np.nanmin(matrix[:, j], initial=np.inf), np.nanmax(matrix[:, j], initial=-np.inf)])
    values = np.concatenate(
        [edges, np.nextafter(edges, np.inf), np.floor(edges), np.floor(edges) + 1.0, ends, [0.0, 1.0, 3.0]]
    )
    return np.append(np.unique(values[np.isfinite(values)]), [matrix[row, j], np.nan])[:, None]


def _ask(
    threat: ThreatModel, trees: TreeEnsemble, table: pd.DataFrame, row: int, points: np.ndarray, own: np.ndarray | None
) -> np.ndarray:
    before = table.iloc[np.full(len(points), row)]
    after = make_frame(points, list(table.columns))
    return contains(threat, trees, before, after, None if own is None else np.repeat(own, len(points)))


def _combine(
    threat: ThreatModel,
    trees: TreeEnsemble,
    table: pd.DataFrame,
    row: int,
    own: np.ndarray | None,
    blocks: list[list[str]],
    states: list[np.ndarray],
) -> np.ndarray:
    """Return the points that blocks of columns make together, if the threat allows them."""
    sizes = [len(each) for each in states]
    count = int(np.prod(sizes))
    picks = np.arange(count) if count <= MOST else np.random.default_rng(row).integers(0, count, MOST)
    points = np.empty((len(picks), table.shape[1]))
    columns = list(table.columns)
    for block, values, pick in zip(blocks, states, np.unravel_index(picks, sizes), strict=True):
        points[:, [columns.index(name) for name in block]] = values[pick]
    return points[_ask(threat, trees, table, row, points, own)]


def measure(threat: ThreatModel, before: np.ndarray, after: np.ndarray, columns: list[str], norm: float) -> np.ndarray:
    """Return how far points are from a row: categories, groups and hidden values change by 1."""
    change = np.abs(after - before)
    change[np.isnan(before) & np.isnan(after)] = 0.0
    change[np.isnan(before) != np.isnan(after)] = 1.0
    if "color" in columns:
        change[:, columns.index("color")] = change[:, columns.index("color")] != 0.0
    for group in [PAY, TIER] if threat.groups else []:
        at = [columns.index(name) for name in group]
        change[:, at[0]], change[:, at[1:]] = change[:, at].max(axis=1), 0.0
    if norm == 0:
        return (change != 0.0).sum(axis=1).astype(float)
    return np.linalg.norm(change, ord=norm, axis=1)
