"""What no classifier can beat under attack: the model-free ceiling of adversarial accuracy."""

from itertools import combinations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import maximum_bipartite_matching

from hardwood._kernels.conflicts import Categories, Places, list_meetings
from hardwood.threat import Reach

# So many conflicts are listed per pair of classes, which takes a gigabyte. Tables of up to 20,000 rows never have more.
MOST_CONFLICTS = 10**8
# Rows of each class that are compared to see which features keep rows apart best.
SAMPLE = 64


def find_ceiling(matrix: np.ndarray, label: np.ndarray, reach: Reach) -> float:
    """Return the adversarial accuracy on these rows that no classifier whatsoever can exceed.

    Two rows of different classes that can be moved onto one common point are in conflict: whatever a classifier says
    of that point, it is wrong about one of them. So the rows it gets right under attack have no conflict among them.
    With two classes the largest such set is what a maximum matching leaves over (König's theorem), and a classifier
    that knew the rows would attain it. With more classes finding the largest set is NP-hard; a maximum fractional
    matching gives a bound that still nobody can exceed but that need not be attained. The same holds for tables with
    more than `MOST_CONFLICTS` conflicts, some of which are then left out.

    Parameters
    ----------
    matrix : ndarray of shape (n_rows, n_features), as `Schema.encode` returns it
    label : ndarray of shape (n_rows,), the class index of each row
    reach : Reach
        A category that is not in the schema is in conflict with nothing: it may stand for several.
    """
    rows = {k: np.flatnonzero(label == k) for k in np.unique(label).tolist()}
    pairs = list(combinations(rows, 2))
    if not pairs:
        return 1.0
    ends = [_find_conflicts(matrix, rows[a], rows[b], (a, b), reach) for a, b in pairs]
    ours, theirs = (np.concatenate(side) for side in zip(*ends, strict=True))
    if len(pairs) == 1:
        return (len(label) - _matching(ours, theirs, len(label))) / len(label)
    # With every row on both sides, a matching is twice a fractional matching of the rows.
    twice = _matching(np.concatenate([ours, theirs]), np.concatenate([theirs, ours]), len(label))
    return (len(label) - (twice + 1) // 2) / len(label)


def _matching(ours: np.ndarray, theirs: np.ndarray, n_rows: int) -> int:
    """Return the size of a maximum matching between the rows on the one side and those on the other."""
    graph = sp.coo_array((np.ones(len(ours), dtype=bool), (ours, theirs)), shape=(n_rows, n_rows)).tocsr()
    return int((maximum_bipartite_matching(graph, perm_type="column") >= 0).sum())


def _find_conflicts(
    matrix: np.ndarray, ours: np.ndarray, theirs: np.ndarray, classes: tuple[int, int], reach: Reach
) -> tuple[np.ndarray, np.ndarray]:
    """Return the two ends of every conflict between the rows of two classes."""
    features = _most_telling_first(matrix, ours, theirs, classes, reach)
    if len(features):
        # All rows of a class move equally far: sorted by value they are sorted by both ends of their reach.
        theirs = theirs[np.argsort(matrix[theirs, features[0]], kind="stable")]
    here, there = (_places(matrix, rows, k, reach, features) for rows, k in zip((ours, theirs), classes, strict=True))
    first, last = np.zeros(len(ours), dtype=np.int64), np.full(len(ours), len(theirs), dtype=np.int64)
    if len(features):
        first = np.searchsorted(there.high[:, 0], here.low[:, 0], side="left")
        last = np.searchsorted(there.low[:, 0], here.high[:, 0], side="right")
    categories = _meeting_categories(reach, classes)
    start = np.empty(len(ours) + 1, dtype=np.int64)
    most = max(1, MOST_CONFLICTS // len(ours))
    partner = np.empty(0, dtype=np.int32)
    list_meetings(here, there, categories, first, last, most, start, partner)
    if start[-1]:
        partner = np.empty(start[-1], dtype=np.int32)
        list_meetings(here, there, categories, first, last, most, start, partner)
    return ours.repeat(np.diff(start)).astype(np.int32), theirs.astype(np.int32)[partner]


def _places(matrix: np.ndarray, rows: np.ndarray, k: int, reach: Reach, features: np.ndarray) -> Places:
    """Return where the rows of class `k` can be moved to, with the numerical features in the given order."""
    low, high = reach.box(matrix[rows], np.full(len(rows), k))
    categorical = np.array([j for j, table in enumerate(reach.categories) if table is not None], dtype=np.intp)
    code = matrix[rows][:, categorical].astype(np.int64)
    return Places(np.ascontiguousarray(low[:, features]), np.ascontiguousarray(high[:, features]), code)


def _most_telling_first(
    matrix: np.ndarray, ours: np.ndarray, theirs: np.ndarray, classes: tuple[int, int], reach: Reach
) -> np.ndarray:
    """Return the numerical features, those first that keep the most pairs of rows apart."""
    numerical = np.array([j for j, table in enumerate(reach.categories) if table is None], dtype=np.intp)
    here, there = (
        _places(matrix, rows[np.linspace(0, len(rows) - 1, SAMPLE).astype(np.intp)], k, reach, numerical)
        for rows, k in zip((ours, theirs), classes, strict=True)
    )
    meet = (here.low[:, None] <= there.high) & (there.low <= here.high[:, None])
    return numerical[np.argsort(meet.mean(axis=(0, 1)), kind="stable")]


def _meeting_categories(reach: Reach, classes: tuple[int, int]) -> Categories:
    """Return which categories of two classes can be turned into the same known one."""
    tables = [table for table in reach.categories if table is not None]
    meets = []
    for table in tables:
        ours, theirs = ((table if reach.attacks[k] else np.eye(len(table), dtype=bool))[:, :-1] for k in classes)
        meets.append(ours @ theirs.T)
    size = np.array([len(table) for table in tables], dtype=np.int64)
    flat = np.concatenate([m.ravel() for m in meets]) if meets else np.empty(0, dtype=bool)
    return Categories(flat, np.cumsum(size**2) - size**2, size)
