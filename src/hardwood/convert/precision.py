"""Thresholds of models that compare in float32, as the float64 numbers that decide the same."""

import numpy as np


def float32_cutoffs(threshold: np.ndarray) -> np.ndarray:
    """Return for each t the largest float64 c such that `float32(x) <= t` is the same as `x <= c` for every float64 x.

    Rounding to float32 is monotone, so such a number exists: it lies halfway between the last float32 that is
    `<= t` and the next one. The halfway point itself rounds to whichever of the two is even.

    Examples
    --------
    >>> import numpy as np
    >>> cutoff = float32_cutoffs(np.array([0.5]))[0]
    >>> bool(np.float32(cutoff) <= 0.5), bool(np.float32(np.nextafter(cutoff, 1.0)) <= 0.5)
    (True, False)
    """
    below = threshold.astype(np.float32)
    below = np.where(below > threshold, np.nextafter(below, np.float32(-np.inf)), below)
    above = np.nextafter(below, np.float32(np.inf))
    halfway = 0.5 * below.astype(np.float64) + 0.5 * above.astype(np.float64)
    return np.where(halfway.astype(np.float32) <= below, halfway, np.nextafter(halfway, -np.inf))
