"""Comparisons of other libraries, as the float64 numbers that decide the same."""

from collections.abc import Callable

import numpy as np

LARGEST = np.finfo(np.float64).max
BEYOND_FLOAT32 = 2.0**128  # what infinity stands for when float64 is rounded to float32


def float32_cutoffs(threshold: np.ndarray, *, strict: bool = False) -> np.ndarray:
    """Return for each t the largest float64 c such that `float32(x) <= t` is the same as `x <= c` for every float64 x.

    Rounding to float32 is monotone, so such a number exists: it lies halfway between the last float32 that is
    `<= t` and the next one. The halfway point itself rounds to whichever of the two is even. With `strict` the
    comparison is `float32(x) < t`. A threshold of infinity, which every number is below, becomes the largest float64.

    Examples
    --------
    >>> import numpy as np
    >>> cutoff = float32_cutoffs(np.array([0.5]))[0]
    >>> bool(np.float32(cutoff) <= 0.5), bool(np.float32(np.nextafter(cutoff, 1.0)) <= 0.5)
    (True, False)
    """
    with np.errstate(over="ignore"):
        below = threshold.astype(np.float32)
        too_large = below >= threshold if strict else below > threshold
        below = np.where(too_large, np.nextafter(below, np.float32(-np.inf)), below)
        above = np.nextafter(below, np.float32(np.inf))
        ends = np.clip(np.stack([below, above]).astype(np.float64), -BEYOND_FLOAT32, BEYOND_FLOAT32)
        halfway = 0.5 * ends[0] + 0.5 * ends[1]
        cutoff = np.where(halfway.astype(np.float32) <= below, halfway, np.nextafter(halfway, -np.inf))
    cutoff = np.where(np.isposinf(below), LARGEST, cutoff)
    return np.where(np.isneginf(threshold), -LARGEST, cutoff) if strict else cutoff


def find_cut(is_second: Callable[[np.floating], bool], dtype: type[np.floating]) -> np.floating:
    """Return the largest number of a float type for which `is_second` is still false, between -1 and 1.

    `is_second` is the rule by which a model turns its output into the second class: false at -1, true at 1, and
    true above wherever it is true.

    Examples
    --------
    >>> import numpy as np
    >>> cut = find_cut(lambda x: bool(x >= 0.25), np.float32)
    >>> bool(cut < 0.25), float(np.nextafter(cut, np.float32(1.0)))
    (True, 0.25)
    """
    low, high = dtype(-1.0), dtype(1.0)
    while True:
        middle = dtype((low + high) / 2)
        if not low < middle < high:
            return low
        if is_second(middle):
            high = middle
        else:
            low = middle


def largest_not_above(function: Callable[[np.ndarray], np.ndarray], bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each bound the largest finite float64 that a function brings to it at most, and whether there is one.

    The function works on every number by itself and never decreases. The floats are halved, not the numbers: between
    any two of them there are less than 2**64 others.

    Examples
    --------
    >>> import numpy as np
    >>> x, some = largest_not_above(lambda x: x + 0.1, np.array([3.0]))
    >>> bool(x[0] + 0.1 <= 3.0 < np.nextafter(x[0], 4.0) + 0.1), bool(some[0])
    (True, True)
    """
    low = np.full(bound.shape, _rank(np.float64(-LARGEST)))
    high = np.full(bound.shape, _rank(np.float64(LARGEST)))
    some = function(_unrank(low)) <= bound
    while (low < high).any():
        middle = low // 2 + high // 2 + (low % 2 + high % 2 + 1) // 2  # rounded up, without a sum that overflows
        inside = function(_unrank(middle)) <= bound
        low = np.where(inside, middle, low)
        high = np.where(inside, high, middle - 1)
    return _unrank(low), some


def _rank(number: np.float64) -> np.int64:
    """Number the floats in their order."""
    bits = number.view(np.int64)
    return bits if bits >= 0 else np.int64(np.iinfo(np.int64).min) - bits


def _unrank(rank: np.ndarray) -> np.ndarray:
    return np.where(rank >= 0, rank, np.iinfo(np.int64).min - rank).view(np.float64)
