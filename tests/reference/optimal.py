"""The least adversarial error of trees of a depth, by trying every tree; for a handful of rows."""

import numpy as np


def least_loss(
    low: np.ndarray, high: np.ndarray, n_cuts: np.ndarray, class_index: np.ndarray, weight: np.ndarray, depth: int
):
    """Return the least loss of all trees of at most `depth` levels, by the sets of rows that they lose.

    A row can be moved left of cut ``k`` iff ``low <= k``, right of it iff ``k < high``: arrays of (feature, row).
    """
    lost = np.array([class_index == 1, class_index == 0])  # by a leaf of the first class, and of the second
    for _ in range(depth):
        more = [lost]
        for feature, count in enumerate(n_cuts):
            for cut in range(count):
                left, right = low[feature] <= cut, cut < high[feature]
                pairs = (lost & left)[:, None, :] | (lost & right)[None, :, :]
                more.append(pairs.reshape(-1, pairs.shape[-1]))
        lost = np.unique(np.concatenate(more), axis=0)
    return float((lost @ weight).min())
