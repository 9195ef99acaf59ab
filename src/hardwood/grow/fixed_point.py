"""Weights in fixed point: sums of integers are exact, and do not depend on the order of the rows.

The unit of fixed point is chosen by the total of what is added up, which does not depend on the order of the rows
either, nor on how they are cut into blocks: it is an exact sum (`grow/exact_sums.py`).
"""

import math
from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood.grow.exact_sums import add_up, read_sum

# Sums in fixed point stay below this power of two.
SUM_BITS = 61
# What kernels are handed in place of the rows and weights of samples that are one row each: nothing is to be looked up.
ROW_EACH = frozen(np.empty((0, 1), dtype=np.int64))


class FixedUnits(NamedTuple):
    """What integers stand for: weights in units of 2 ** -weight_bits, and rows in units of 2 ** -row_bits."""

    weight_bits: int
    row_bits: int

    @property
    def weight(self) -> float:
        """What one unit of weight stands for."""
        return math.ldexp(1.0, -self.weight_bits)

    @property
    def rows(self) -> float:
        """What one unit of rows stands for."""
        return math.ldexp(1.0, -self.row_bits)


class FixedSamples(NamedTuple):
    """What samples weigh and how many rows they are, as integers: of every row, and then of the parts that stay."""

    weight: np.ndarray  # int64 per sample
    rows: np.ndarray  # int64 per sample


def choose_units(row_weight: np.ndarray, drawn: np.ndarray | None = None) -> FixedUnits:
    """Choose units for the samples of a table in memory, and for rows drawn from it, with repetitions."""
    parts = (row_weight,) if drawn is None else (row_weight, row_weight[drawn])
    return fit_units(add_up(*parts), max(map(len, parts)))


def fit_units(totals: np.ndarray, n_rows: int) -> FixedUnits:
    """Choose units by exact sums of weights, of all rows and of those that are drawn; the most of them are `n_rows`."""
    return FixedUnits(spare_bits(max(map(read_sum, totals))), spare_bits(n_rows))


def weigh_samples(row_weight: np.ndarray, staying: np.ndarray, rho: float, units: FixedUnits) -> FixedSamples:
    """Weigh the samples of some rows; the rows `staying` are two samples: a part rho that moves and one that stays."""
    part = np.ones(len(row_weight))
    part[staying] = rho
    weight = fix_point(np.concatenate([row_weight * part, row_weight[staying] * (1.0 - rho)]), units.weight_bits)
    whole_row = 1 << units.row_bits
    rows = np.rint(part * whole_row).astype(np.int64)
    return FixedSamples(weight, np.concatenate([rows, whole_row - rows[staying]]))


def spare_bits(total: float) -> int:
    """Return by which power of two a total can be multiplied without outgrowing the integers."""
    return SUM_BITS - math.frexp(total)[1]


def fix_point(values: np.ndarray, bits: int) -> np.ndarray:
    """Return positive numbers in units of 2 ** -bits, as integers; none becomes 0."""
    return np.maximum(np.rint(np.ldexp(values, bits)), 1.0).astype(np.int64)
