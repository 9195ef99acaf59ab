"""Related columns by trying everything: all whole points, or one linear program for every combination of cells."""

import re
from itertools import pairwise, product

import numpy as np
from scipy.optimize import linprog

from hardwood.ensemble import TreeEnsemble
from reference import attacking

FUNCTIONS = {"log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "exp": np.exp}
CLOSE = 1e-9


def holds(relation: str, names: list[str], points: np.ndarray) -> np.ndarray:
    """Say of each point whether a relation holds; Python itself works out both sides."""
    parts = re.split(r"(<=|>=|=)", relation)
    columns = {name: points[:, j] for j, name in enumerate(names)}
    with np.errstate(all="ignore"):
        sides = [np.broadcast_to(eval(part, dict(FUNCTIONS), columns), len(points)) for part in parts[::2]]
        kept = np.ones(len(points), dtype=bool)
        for (a, b), sign in zip(pairwise(sides), parts[1::2], strict=True):
            slack = CLOSE * (np.abs(a) + np.abs(b) + np.abs(points).max(axis=1))
            kept &= {"<=": a <= b + slack, ">=": a >= b - slack, "=": np.abs(a - b) <= slack}[sign]
    return kept


def whole_points(row: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Return all whole points of a box."""
    return np.array(list(product(*(np.arange(a, b + 1.0) for a, b in zip(low, high, strict=True)))))


def keep_related(relations: list[str], names: list[str], row: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the points that keep all relations that the row keeps."""
    kept = np.ones(len(points), dtype=bool)
    for relation in relations:
        if holds(relation, names, row[None])[0]:
            kept &= holds(relation, names, points)
    return points[kept]


def distance_by_cells(
    trees: TreeEnsemble,
    row: np.ndarray,
    own: int,
    box: tuple[np.ndarray, np.ndarray],
    rows: list[tuple[np.ndarray, float, bool]],
    norm: float,
) -> float:
    """Return the distance of the nearest example, L1 or L-infinity, by a program for every cell of another class.

    rows : (coefficients, limit, is_equality): coefficients @ point is at most the limit, or equal to it.
    """
    axes = []
    for j in range(len(row)):
        cuts = np.unique(trees.threshold[trees.feature == j])
        ends = np.concatenate([[-np.inf], cuts, [np.inf]])
        axes.append([(a, b) for a, b in pairwise(ends) if max(a, box[0][j]) <= min(b, box[1][j]) and a < box[1][j]])
    nearest = np.inf
    for cell in product(*axes):
        low = np.array([max(a, end) for (a, _), end in zip(cell, box[0], strict=True)])
        high = np.array([min(b, end) for (_, b), end in zip(cell, box[1], strict=True)])
        is_open = np.array([a >= end for (a, _), end in zip(cell, box[0], strict=True)])
        inside = np.where(is_open, np.nextafter(low, np.inf), low)
        middle = np.clip(row, inside, high)
        if attacking.predict(trees, middle) != own and _has_inner_point(low, high, is_open, rows):
            nearest = min(nearest, _find_least(row, low, high, rows, norm))
    return nearest


def _split(
    rows: list[tuple[np.ndarray, float, bool]], n_more: int
) -> tuple[list[np.ndarray], list[float], list[np.ndarray], list[float]]:
    wide = [(np.append(coefficients, np.zeros(n_more)), limit, equal) for coefficients, limit, equal in rows]
    upper = [(a, b) for a, b, equal in wide if not equal]
    equal = [(a, b) for a, b, equal in wide if equal]
    return [a for a, _ in upper], [b for _, b in upper], [a for a, _ in equal], [b for _, b in equal]


def _has_inner_point(
    low: np.ndarray, high: np.ndarray, is_open: np.ndarray, rows: list[tuple[np.ndarray, float, bool]]
) -> bool:
    """Say whether a point keeps all rows that is past all open ends by something that can be told from nothing."""
    n = len(low)
    upper, limit, equal, target = _split(rows, 1)
    for j in np.flatnonzero(is_open & np.isfinite(low)):
        upper.append(np.append(-np.eye(n)[j], 1.0))
        limit.append(-low[j])
    found = linprog(
        np.append(np.zeros(n), -1.0), upper or None, limit or None, equal or None, target or None,
        bounds=[*zip(low, high, strict=True), (0.0, 1.0)],
    )  # fmt: skip
    return found.status == 0 and found.x[-1] > 1e-6


def _find_least(
    row: np.ndarray, low: np.ndarray, high: np.ndarray, rows: list[tuple[np.ndarray, float, bool]], norm: float
) -> float:
    n = len(row)
    n_more = n if norm == 1 else 1
    upper, limit, equal, target = _split(rows, n_more)
    for j in range(n):
        which = np.eye(n)[j] if norm == 1 else np.ones(1)
        for sign in (1.0, -1.0):
            upper.append(np.concatenate([sign * np.eye(n)[j], -which]))
            limit.append(sign * row[j])
    found = linprog(
        np.append(np.zeros(n), np.ones(n_more)), upper, limit, equal or None, target or None,
        bounds=[*zip(low, high, strict=True), *[(0.0, None)] * n_more],
    )  # fmt: skip
    return float(found.fun) if found.status == 0 else np.inf
