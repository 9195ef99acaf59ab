"""Weights in fixed point: sums of integers are exact, and do not depend on the order of the rows."""

import math
from typing import NamedTuple

import numpy as np

# Sums in fixed point stay below this power of two.
SUM_BITS = 61


class FixedSamples(NamedTuple):
    """What samples weigh and how many rows they are, as integers: of every row, and then of the parts that stay."""

    weight: np.ndarray  # int64 per sample
    rows: np.ndarray  # int64 per sample
    weight_unit: float  # what one unit of weight stands for
    whole_row: int  # units of a row


def weigh_samples(row_weight: np.ndarray, staying: np.ndarray, rho: float, drawn_weight: float = 0.0) -> FixedSamples:
    """Weigh the samples of a table; the rows `staying` are two samples: a part rho that moves and one that does not.

    `drawn_weight` is what rows drawn from them weigh together, if that can be more than all of them.
    """
    part = np.ones(len(row_weight))
    part[staying] = rho
    parts = np.concatenate([row_weight * part, row_weight[staying] * (1.0 - rho)])
    weight, weight_unit = fix_point(parts, drawn_weight)
    whole_row = 1 << spare_bits(len(row_weight))
    rows = np.rint(part * whole_row).astype(np.int64)
    rows = np.concatenate([rows, whole_row - rows[staying]])
    return FixedSamples(weight, rows, weight_unit, whole_row)


def spare_bits(total: float) -> int:
    """Return by which power of two a total can be multiplied without outgrowing the integers."""
    return SUM_BITS - math.frexp(total)[1]


def fix_point(values: np.ndarray, total: float = 0.0) -> tuple[np.ndarray, float]:
    """Return positive numbers as multiples of a unit, a power of two, for sums up to a total; none becomes 0."""
    bits = spare_bits(max(float(values.sum()), total))
    return np.maximum(np.rint(np.ldexp(values, bits)), 1.0).astype(np.int64), math.ldexp(1.0, -bits)
