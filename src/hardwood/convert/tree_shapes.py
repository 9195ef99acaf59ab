"""Whether the nodes that a file lists are a tree."""

import numpy as np


def require(condition: bool, message: str) -> None:
    """Raise ``ValueError`` with a message unless a condition holds."""
    if not condition:
        raise ValueError(message)


def check_shape(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Raise ``ValueError`` unless the nodes that node 0 leads to are a tree, and say which ones they are.

    Parameters
    ----------
    left, right : ndarray of int
        The children of each node; -1 in leaves, in both.

    Examples
    --------
    >>> import numpy as np
    >>> check_shape(np.array([1, -1, -1, -1]), np.array([2, -1, -1, -1])).tolist()
    [True, True, True, False]
    """
    require(bool(((left < 0) == (right < 0)).all()), "a node has one child")
    reached = np.zeros(len(left), dtype=bool)
    level = np.zeros(1, dtype=np.int64)
    while len(level):
        require(not reached[level].any() and len(np.unique(level)) == len(level), "a node has two parents")
        reached[level] = True
        level = level[left[level] >= 0]
        level = np.concatenate([left[level], right[level]])
        require(bool((level < len(left)).all()), "a child is out of range")
    return reached
