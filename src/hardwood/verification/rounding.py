"""What rounding can do to the sums of an ensemble: the doubt that every bound on outputs has to allow for.

Of n trees in a precision with unit roundoff u, with no sum larger than S, and divided by d:

* An output is the base score, rounded, and n additions. Each result is off by a share u of itself or, where float32 has
  only denormal numbers left, by half of the least of them, t. (The addition of two float64 is exact there.) So an
  output is off by ((1 + u)^(n + 1) - 1) S + (n + 1) (1 + u)^n t/2, the standard bound on the error of summing.
* Dividing keeps the order of outputs, but may make equals of two that differ: of s and s' with s - s' up to
  2 (u S + d t/2), as a quotient is off by a share u or by t/2. No quotient overflows: `check_sums` sees to that.
* Whoever bounds sums adds leads up in float64, in an order of his own.

A lead is the difference of two outputs, hence a factor 2. Sums are exact if all leaves and base scores are multiples of
a unit of at least t such that S is no more than 2^(digits - 5) units. Then two sums that differ do so by a unit, and
u S is at most 1/32 of it: they remain different after the division if d t is at most half a unit.
"""

import math
from typing import NamedTuple

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.sums import find_largest_sum
from hardwood.verification.settings import SETTINGS


class Rounding(NamedTuple):
    """What rounding can do to sums of leaf values.

    Attributes
    ----------
    doubt : float
        How far leads added up in float64, in any order, may be from those of the model's own outputs, multiplied by the
        divisor; 0 where every sum is exact, and sums that differ do so after the division.
    step : float
        A power of two that (nearly) all leaf values are multiples of, so that sums of these are, and are exact; else 0.
    stride, offset, vote : float
        The lead of one class over the other that such leaves add up to is `offset` plus a multiple of `stride`, and
        that of a single one is `vote` plus one. The stride is the step, or twice as much: where each tree leads by an
        odd number of steps, as one that votes does.
    largest : float
        No output is larger before the division.
    """

    doubt: float
    step: float
    stride: float
    offset: float
    vote: float
    largest: float

    def bound_outputs(self, ensemble: TreeEnsemble, sums: np.ndarray) -> np.ndarray:
        """Return what no output of the model (or lead of one) exceeds, from what no sum before the division does.

        Infinite bounds remain what they are.
        """
        divisor = ensemble.divisor
        if self.doubt == 0.0 and divisor == 1.0:
            return sums
        number = np.finfo(ensemble.precision)
        bound = (sums + self.doubt) / divisor
        with np.errstate(invalid="ignore"):
            spread = float(number.eps) * (np.abs(bound) + 2.0 * self.largest / divisor)
            return np.where(np.isinf(bound), bound, bound + spread + 2.0 * float(number.smallest_subnormal))


def measure_rounding(ensemble: TreeEnsemble, odd_share: float = SETTINGS.odd_share) -> Rounding:
    """Return what rounding can do to sums of leaf values.

    Forests of pure leaves have exact sums: multiples of one power of two that are small enough. Most full-grown forests
    have some leaves that are not pure, where rows of different classes cannot be told apart.
    """
    number, total = np.finfo(ensemble.precision), find_largest_sum(ensemble)
    leaf = ensemble.feature < 0
    value, base = np.abs(ensemble.value[leaf]), np.abs(ensemble.base_score)
    digits, least = number.nmant + 1, float(number.smallest_subnormal)
    unit = max(2.0 ** (math.floor(math.log2(max(total, float(number.tiny)))) - digits + 6), least)
    # The largest powers of two that divide leaves and base scores, in units: 0 if the unit does not divide them.
    values = np.concatenate([value, base[None]])
    counts = values / unit
    whole = (counts == np.floor(counts)) & ((counts > 0.0) == (values > 0.0))  # a tiny one divided may come to 0
    bits = np.where(whole, counts, 0.0).astype(np.int64)
    divisors = np.where(bits == 0, np.where(whole, np.iinfo(np.int64).max, 0), bits & -bits).min(axis=1)
    if ensemble.divisor != 1.0 and not ensemble.divisor * least <= 0.5 * unit:
        divisors[:] = 0  # sums that differ may have the same quotient
    common = min(int(np.quantile(divisors[:-1], odd_share, method="lower")), int(divisors[-1]))
    step = unit * common if 0 < common < np.iinfo(np.int64).max else 0.0
    doubt = bound_rounding(ensemble, total)
    if bool((divisors > 0).all()):
        doubt, step = 0.0, step or unit
    elif ensemble.divisor == 1.0 and not value.any():
        doubt = 0.0  # all that is added up is nothing: outputs are the base score
    lead = value[:, 0] if value.shape[1] == 1 else value[:, 1] - value[:, 0]
    is_vote = (np.remainder(lead, 2.0 * step) == step) if step > 0.0 else np.zeros(len(lead), dtype=bool)
    if value.shape[1] <= 2 and bool((is_vote | (divisors[:-1] < common)).all()) and is_vote.any():
        return Rounding(doubt, step, 2.0 * step, step * (ensemble.n_trees % 2), step, total)
    return Rounding(doubt, step, step, 0.0, 0.0, total)


def bound_rounding(ensemble: TreeEnsemble, total: float) -> float:
    """Return how far the lead of one output over another may be from one added up in float64, as derived above."""
    number, n_trees = np.finfo(ensemble.precision), ensemble.n_trees
    roundoff, least = 0.5 * float(number.eps), float(number.smallest_subnormal)
    output = math.expm1((n_trees + 2) * math.log1p(roundoff)) * total
    if ensemble.precision == "float32":
        output += 0.5 * (n_trees + 1) * math.exp(n_trees * roundoff) * least
    if ensemble.divisor != 1.0:
        output += ensemble.divisor * least
    other_order = math.expm1((n_trees + 3) * math.log1p(2.0**-53)) * total
    return 2.0 * (output + other_order)
