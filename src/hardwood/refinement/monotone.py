"""Monotone features of a finished tree: which leaves are ordered, and class shares that keep that order."""

from dataclasses import replace

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.refinement.rows import LARGEST


def order_values(ensemble: TreeEnsemble, direction: np.ndarray, learned: np.ndarray) -> TreeEnsemble:
    """Return a tree of two classes with shares that keep the order which its classes keep.

    The share of the second class becomes the mean of the largest of the leaves that come before a leaf, and the least
    of those that come after it: of leaves that are in order already nothing changes, and none changes its class.
    """
    leaves = np.flatnonzero(ensemble.feature < 0)
    before = find_ordered(ensemble, direction, learned)
    share = ensemble.value[leaves, 1]
    highest = np.where(before, share[:, None], -np.inf).max(axis=0)
    lowest = np.where(before, share[None, :], np.inf).min(axis=1)
    is_moved = (highest > share) | (lowest < share)
    value = ensemble.value.copy()
    value[leaves[is_moved], 1] = (0.5 * (highest + lowest))[is_moved]
    value[leaves[is_moved], 0] = 1.0 - value[leaves[is_moved], 1]
    return replace(ensemble, value=value)


def find_ordered(ensemble: TreeEnsemble, direction: np.ndarray, learned: np.ndarray) -> np.ndarray:
    """Say of each two leaves whether the first comes before the second, directly or by others; each before itself.

    A point of the one becomes a point of the other by a larger value of a monotone feature, if its direction is 1.
    Points may lack values of the features where it has been `learned` where these go.
    """
    boxes = ensemble.leaf_boxes()
    n_leaves, n_features = boxes.low.shape
    highest = np.minimum(boxes.high, LARGEST)  # what is right of that is missing
    takes_missing = _find_takers(ensemble, learned)[boxes.leaf]
    apart = np.zeros((n_leaves, n_leaves), dtype=np.int64)
    separate = []
    for feature in range(n_features):
        sets = boxes.allowed.get(feature)
        if sets is None:
            low, high = boxes.low[:, feature], highest[:, feature]
            meet = np.maximum(low[:, None], low) < np.minimum(high[:, None], high)
        else:
            meet = (sets.astype(np.int64) @ sets.T.astype(np.int64)) > 0
        meet |= takes_missing[:, None, feature] & takes_missing[None, :, feature]
        separate.append(~meet)
        apart += ~meet
    before = np.eye(n_leaves, dtype=bool)
    for feature in np.flatnonzero(direction).tolist():
        low, high = boxes.low[:, feature], highest[:, feature]
        follows = (low[:, None] < high[None, :]) & (low < high)[:, None] & (low < high)[None, :]
        follows &= (apart == 0) | ((apart == 1) & separate[feature])
        before |= follows if direction[feature] > 0 else follows.T
    while True:
        further = (before.astype(np.float32) @ before.astype(np.float32)) > 0.0
        if (further == before).all():
            return before
        before = further


def _find_takers(ensemble: TreeEnsemble, learned: np.ndarray) -> np.ndarray:
    """Say of each node and feature whether missing values of the feature, where some are, lead to the node."""
    takes = np.tile(learned, (ensemble.n_nodes, 1))
    for level in ensemble.levels:
        inner = level[ensemble.feature[level] >= 0]
        left, right, feature = ensemble.left[inner], ensemble.right[inner], ensemble.feature[inner]
        takes[left], takes[right] = takes[inner], takes[inner]
        takes[left, feature] &= ensemble.missing_left[inner]
        takes[right, feature] &= ~ensemble.missing_left[inner]
    return takes
