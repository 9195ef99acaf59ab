"""What `sample_weight` means: reading weights, and a unit in which products of their sums are numbers."""

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from hardwood.quoting import quote
from hardwood.reals import read_reals

# Growing multiplies up to four sums of weights. Where the heaviest row weighs between 2^-180 and 2^180, that is a
# number; other weights are divided by a power of two, which changes none of their bits.
ORDINARY = 180
# What all rows weigh together stays below this power of two: covers are sums of weights, and have to be numbers.
MOST = 1021
# No row weighs less than this power of two, in units of the heaviest: it would have lost digits.
LEAST = -1000


class WeightRange(NamedTuple):
    """The least and the largest weight of the rows of each class that weigh something, and how many rows these are."""

    least: np.ndarray  # infinite where there are none
    largest: np.ndarray  # 0 where there are none
    n_rows: np.ndarray

    def merge(self, other: "WeightRange") -> "WeightRange":
        """Return the range of the rows of both."""
        least, largest = np.minimum(self.least, other.least), np.maximum(self.largest, other.largest)
        return WeightRange(least, largest, self.n_rows + other.n_rows)


def read_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """Return one finite weight per row, none of them negative; a single number is the weight of every row."""
    weight = read_reals(sample_weight, "sample_weight")
    if weight.ndim == 0:
        weight = np.full(n_rows, weight)
    if weight.shape != (n_rows,):
        raise ValueError(f"sample_weight: expected {n_rows} weights, one per row, got shape {weight.shape}")
    is_wrong = ~((weight >= 0.0) & (weight < np.inf))
    if is_wrong.any():
        row = int(is_wrong.argmax())
        raise ValueError(f"sample_weight: row {row} has {quote(float(weight[row]))}; expected finite weights >= 0")
    return weight


def find_weighted(weight: np.ndarray) -> np.ndarray:
    """Return which rows weigh something; refuse weights by which none does."""
    kept: np.ndarray = weight > 0.0
    refuse_no_weight(int(kept.sum()))
    return kept


def refuse_no_weight(n_kept: int, names: str = "sample_weight") -> None:
    """Refuse weights by which no row weighs anything."""
    if not n_kept:
        raise ValueError(f"{names}: the weights of all rows are zero; expected a positive one")


def measure_weights(weight: np.ndarray | None, class_index: np.ndarray, n_classes: int) -> WeightRange:
    """Return the range of weights that are positive, by class; None: each row weighs 1."""
    n_rows = np.bincount(class_index, minlength=n_classes)
    if weight is None:
        return WeightRange(np.where(n_rows > 0, 1.0, np.inf), np.where(n_rows > 0, 1.0, 0.0), n_rows)
    least, largest = np.full(n_classes, np.inf), np.zeros(n_classes)
    np.minimum.at(least, class_index, weight)
    np.maximum.at(largest, class_index, weight)
    return WeightRange(least, largest, n_rows)


def measure_all(weight: np.ndarray) -> WeightRange:
    """Return the range of weights that are positive, where there are no classes."""
    return WeightRange(weight.min(keepdims=True), weight.max(keepdims=True), np.array([len(weight)]))


def choose_weight_unit(found: WeightRange, class_weight: np.ndarray | None, names: str) -> float:
    """Return the power of two that weights are divided by: 1 for ordinary ones; refuse what no unit helps.

    Parameters
    ----------
    found : WeightRange
    class_weight : ndarray or None
        What rows weigh by their class, a factor; None: there are no classes.
    names : str
        The parameters that weights come from.

    Raises
    ------
    ValueError
        If rows may weigh more together than a number can be, or so little or so unequally that digits are lost.
    """
    by_class = np.ones(len(found.n_rows)) if class_weight is None else class_weight
    counts = np.flatnonzero((found.n_rows > 0) & (by_class > 0.0))
    n_rows = int(found.n_rows[counts].sum())
    refuse_no_weight(n_rows, names)
    most = max(math.log2(found.largest[k]) + math.log2(by_class[k]) for k in counts)
    least = min(math.log2(found.least[k]) + math.log2(by_class[k]) for k in counts)
    if most + math.log2(n_rows) > MOST:
        raise ValueError(
            f"{names}: {n_rows} rows that weigh up to {spell_power(most)} may weigh more together than float64 can "
            f"hold, which has room for {spell_power(MOST)}; divide all weights by the same number"
        )
    if most < LEAST:
        raise ValueError(
            f"{names}: the heaviest row weighs {spell_power(most)}, where float64 has few digits left; multiply all "
            "weights by the same number"
        )
    if least - most < LEAST:
        raise ValueError(
            f"{names}: rows weigh between {spell_power(least)} and {spell_power(most)}; expected weights of which "
            f"none is less than {spell_power(LEAST)} of the largest, or 0"
        )
    return 1.0 if abs(most) <= ORDINARY else math.ldexp(1.0, math.ceil(most))


def spell_power(exponent: float) -> str:
    """Return about what a power of two is in decimal, however large or small."""
    decimal = exponent * math.log10(2.0)
    whole = math.floor(decimal)
    return f"{10.0 ** (decimal - whole):.1f}e{whole:+d}"


def divide_classes(found: WeightRange, class_weight: np.ndarray, *, has_weight: bool) -> tuple[np.ndarray, float]:
    """Return what classes weigh in a unit for weights of this range, and the unit.

    What a row weighs is a product, so that the weights of single rows remain as they are.

    has_weight : whether rows have weights of their own
    """
    named = {"sample_weight": has_weight, "class_weight": bool((class_weight != 1.0).any())}
    if not any(named.values()):
        return class_weight, 1.0
    names = " and ".join(name for name, is_used in named.items() if is_used)
    unit = choose_weight_unit(found, class_weight, names)
    with np.errstate(over="ignore", under="ignore"):
        divided = class_weight / unit
    if not (divided * unit == class_weight).all():
        raise ValueError(f"{names}: one makes up for the other beyond what float64 can hold; expected ordinary weights")
    return divided, unit


def average(values: np.ndarray, sample_weight: Any) -> float:
    """Return the average of a number >= 0 per row, by weight, however large numbers and weights are.

    Examples
    --------
    >>> average(np.array([1.0, 2.0]), None), average(np.array([1.0, 2.0]), [1e308, 1e308])
    (1.5, 1.5)
    """
    weight = np.ones(len(values)) if sample_weight is None else read_weights(sample_weight, len(values))
    kept = find_weighted(weight)
    scaled, unit = scale_down(np.asarray(values, dtype=np.float64)[kept])
    return float(np.average(scaled, weights=scale_down(weight[kept])[0])) * unit


def add_weights(weight: np.ndarray) -> Fraction:
    """Return what rows weigh together, also where that is more than a float can hold.

    Examples
    --------
    >>> add_weights(np.array([1.0, 2.0])), float(add_weights(np.full(4, 1e308)) / add_weights(np.full(2, 1e308)))
    (Fraction(3, 1), 2.0)
    """
    scaled, unit = scale_down(weight)
    return Fraction(float(scaled.sum())) * Fraction(unit)


def scale_down(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Return numbers divided by a power of two by which none is 2 or more, and that power."""
    largest = float(np.abs(values).max(initial=0.0))
    if not 0.0 < largest < np.inf:
        return values, 1.0
    unit = math.ldexp(1.0, math.frexp(largest)[1] - 1)
    return values / unit, unit
