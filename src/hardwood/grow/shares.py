"""Shares of a value in the exact grower, which shifts all rows of a class by the same: orders and thresholds anew.

Where a value can be moved by a share of itself, every row has a shift of its own. The kernels compare samples by their
places in orders that are sorted once, and need positions only there and for thresholds. So the orders of such features
are sorted here, before a tree is grown, and its thresholds are placed here, afterwards.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.grow.orders import CLASS_BIT, GROUP, ID_MASK, LAST, Shifts
from hardwood.grow.shifts import find_differences
from hardwood.threat import Reach


class SharedRows(NamedTuple):
    """The rows of a table, and what an attacker may do to them."""

    X: np.ndarray
    class_index: np.ndarray
    reach: Reach
    attacks: np.ndarray  # bool per class
    stays: np.ndarray  # bool per class: whether its rows have a second sample that does not move

    def list_features(self) -> list[int]:
        """Return the features that have a share."""
        assert self.reach.share is not None
        features: list[int] = np.flatnonzero(self.reach.share.any(axis=0)).tolist()
        return features

    def find_positions(self, feature: int, orientation: int) -> np.ndarray:
        """Return where the attacker puts every sample, by its id: rows that move, then those that stay."""
        column = np.ascontiguousarray(self.X[:, feature])
        low, high = self.reach.interval(column, feature)
        to_the_right = self.class_index == orientation  # in orientation 0 class 0 is sent right, see `grow/tree.py`
        moved = np.where(to_the_right, high, low)
        return np.concatenate([np.where(self.attacks[self.class_index], moved, column), column])


def sort_shares(orders: np.ndarray, rows: SharedRows, shifts: Shifts) -> None:
    """Sort the samples of every feature that has a share."""
    if rows.reach.share is None:
        return
    n_rows = len(rows.X)
    ids = np.append(np.arange(n_rows), n_rows + np.flatnonzero(rows.stays[rows.class_index])).astype(np.uint32)
    classes = rows.class_index[ids % n_rows].astype(np.uint32)
    for feature in rows.list_features():
        for orientation, slot in enumerate(shifts.slots[feature].tolist()):
            at = np.minimum(rows.find_positions(feature, orientation)[ids], LAST)
            order = np.lexsort((classes, at))
            starts = np.append(False, find_differences(at[order], float(shifts.largest[feature])))
            orders[slot] = ids[order] | classes[order] << CLASS_BIT | np.where(starts, GROUP, np.uint32(0))


def place_thresholds(nodes: np.ndarray, orders: np.ndarray, rows: SharedRows, shifts: Shifts) -> None:
    """Put the thresholds of features that have a share halfway between the samples on either side."""
    if rows.reach.share is None:
        return
    is_split = (nodes["left"] >= 0) & (nodes["first_right"] >= 0) & np.isin(nodes["feature"], rows.list_features())
    for node in np.flatnonzero(is_split).tolist():
        feature, orientation = int(nodes["feature"][node]), int(nodes["orientation"][node])
        start, middle, end = (int(nodes[name][node]) for name in ("start", "first_right", "end"))
        order = orders[shifts.slots[feature, orientation]] & ID_MASK
        at = rows.find_positions(feature, orientation)
        low, high = float(at[order[start:middle]].max()), float(at[order[middle:end]].min())
        half = 0.5 * low + 0.5 * high
        nodes["threshold"][node] = half if low <= half < high else low
