"""The least adversarial error of trees of a depth, by trying every tree; for a handful of rows."""

import numpy as np


def least_loss(
    low: np.ndarray,
    high: np.ndarray,
    n_cuts: np.ndarray,
    class_index: np.ndarray,
    weight: np.ndarray,
    n_classes: int,
    depth: int,
):
    """Return the least loss of all trees of at most `depth` levels, by the sets of rows that they lose.

    A row can be moved left of cut ``k`` iff ``low <= k``, right of it iff ``k < high``: arrays of (feature, row).
    """
    lost = np.array([class_index != label for label in range(n_classes)])  # by a leaf of each class
    for _ in range(depth):
        more = [lost]
        for feature, count in enumerate(n_cuts):
            for cut in range(count):
                left, right = low[feature] <= cut, cut < high[feature]
                pairs = (lost & left)[:, None, :] | (lost & right)[None, :, :]
                more.append(pairs.reshape(-1, pairs.shape[-1]))
        lost = np.unique(np.concatenate(more), axis=0)
    return float((lost @ weight).min())


def least_loss_of_points(
    points: list[np.ndarray], tests: list, class_index: np.ndarray, weight: np.ndarray, n_classes: int, depth: int
) -> float:
    """Return the least loss of all trees of up to two levels, by the points that each row can be turned into.

    A test says of points whether they go left. Trees below a test are told apart by the points that they lose.
    """
    row = np.repeat(np.arange(len(points)), [len(some) for some in points])
    every = np.concatenate(points)
    sides = np.unique(np.array([test(every) for test in tests]), axis=0)
    wrong = np.array([class_index[row] != label for label in range(n_classes)])
    stumps = [wrong]
    if depth:
        for left in sides:
            pairs = np.where(left, wrong[:, None, :], wrong[None, :, :])
            stumps.append(pairs.reshape(-1, len(row)))
    below = np.unique(np.concatenate(stumps), axis=0)
    best = _weigh(below, row, weight).min()
    for left in sides if depth == 2 else ():
        on_left, on_right = (_collect(below & part, row, len(points)) for part in (left, ~left))
        for one in np.unique(on_left, axis=0):
            best = min(best, ((one | on_right) @ weight).min())
    return float(best)


def _collect(wrong: np.ndarray, row: np.ndarray, n_rows: int) -> np.ndarray:
    lost = np.zeros((len(wrong), n_rows), dtype=bool)
    for k in range(n_rows):
        lost[:, k] = wrong[:, row == k].any(axis=1)
    return np.unique(lost, axis=0)


def _weigh(wrong: np.ndarray, row: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return _collect(wrong, row, len(weight)) @ weight
