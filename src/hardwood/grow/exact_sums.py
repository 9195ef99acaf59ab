"""Sums of numbers that do not depend on their order, nor on who has which of them: no bit is lost until the end."""

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow.exact_sums import LIMBS, add_to

_UNIT = 1 << 1075  # of the lowest limb: one over this


def add_up(*parts: np.ndarray) -> np.ndarray:
    """Return the sums of float64 numbers, finite ones, as integers (part, limb), which are added to add up sums."""
    limbs = np.zeros((len(parts), LIMBS), dtype=np.int64)
    for values, own in zip(parts, limbs, strict=True):
        add_to(frozen(np.ascontiguousarray(values).view(np.uint64)), own)
    return limbs


def read_sum(limbs: np.ndarray) -> float:
    """Return the float64 that is nearest to a sum; infinity beyond the largest."""
    total = 0
    for k in limbs.nonzero()[0].tolist():
        total += int(limbs[k]) << (32 * k)
    try:
        return total / _UNIT
    except OverflowError:
        return float("inf") if total > 0 else float("-inf")
