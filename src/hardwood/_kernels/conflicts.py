"""Which rows of one class can be moved onto the same point as which rows of another."""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import kernel


class Places(NamedTuple):
    """Where each row of a class can be moved to."""

    low: np.ndarray  # float64 (row, numerical feature)
    high: np.ndarray
    code: np.ndarray  # int64 (row, categorical feature)


class Categories(NamedTuple):
    """Which categories of one class can be turned into the same as which of another, feature by feature."""

    meets: np.ndarray  # bool: square matrices, all in a row
    start: np.ndarray  # int64 per feature: where its matrix starts
    size: np.ndarray  # int64 per feature: how many categories


@kernel
def list_meetings(ours, theirs, categories, first, last, most, start, partner):
    """Write down the partners of each of our rows: ``partner[start[i]:start[i + 1]]``.

    Only their rows from ``first[i]`` to ``last[i]`` are looked at, and no more than `most` are listed. If `partner` is
    empty they are only counted.
    """
    n = 0
    for i in range(ours.low.shape[0]):
        start[i] = n
        for j in range(first[i], last[i]):
            meet = True
            for f in range(ours.low.shape[1]):
                # Not the same as comparing the other way round: what is not a number meets nothing.
                if not (ours.low[i, f] <= theirs.high[j, f] and theirs.low[j, f] <= ours.high[i, f]):
                    meet = False
                    break
            if meet:
                for f in range(ours.code.shape[1]):
                    at = categories.start[f] + ours.code[i, f] * categories.size[f] + theirs.code[j, f]
                    if not categories.meets[at]:
                        meet = False
                        break
            if meet:
                if partner.shape[0]:
                    partner[n] = j
                n += 1
                if n - start[i] == most:
                    break
    start[ours.low.shape[0]] = n
