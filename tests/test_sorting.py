"""The radix argsort against NumPy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numba import njit

from hardwood._kernels.sorting import DIGITS, LOW_HALF, PASSES, argsort_column

FINITE = st.floats(allow_nan=False, allow_infinity=False)
LARGEST, SMALLEST = np.finfo(np.float64).max, 5e-324


@njit(error_model="numpy")
def _argsort(column, bits, payload, packed, buffer, values, counts):
    argsort_column(column, bits, payload, packed, buffer, values, counts)


def check_argsort(column: np.ndarray) -> None:
    """Sort, with something in the top bit of every third row's payload, and compare with NumPy."""
    n = len(column)
    column = column.astype(np.float64)
    rows = np.arange(n, dtype=np.uint32)
    payload = rows | np.where(rows % 3 == 0, np.uint32(1 << 31), np.uint32(0))
    packed, buffer = np.empty(n, dtype=np.uint64), np.empty(n, dtype=np.uint64)
    values = packed.view(np.float64)  # they may share memory, as they do in the grower
    counts = np.empty((PASSES, DIGITS), dtype=np.uint64)
    _argsort(column, column.view(np.uint64), payload, packed, buffer, values, counts)
    expected = np.argsort(column, kind="stable")
    np.testing.assert_array_equal(values, column[expected])
    np.testing.assert_array_equal(buffer & LOW_HALF, payload[expected])


def random_finite_bits(n: int) -> np.ndarray:
    """Floats of every magnitude: random bit patterns, those that are no finite number left out."""
    bits = np.random.default_rng(0).integers(0, 2**64, size=2 * n, dtype=np.uint64).view(np.float64)
    return bits[np.isfinite(bits)][:n]


RNG = np.random.default_rng(1)
COLUMNS = {
    "one row": np.array([3.0]),
    "two rows": np.array([2.0, 1.0]),
    "two equal rows": np.array([1.0, 1.0]),
    "constant": np.full(1000, 7.0),
    "constant zero": np.zeros(1000),
    "all equal but the last": np.array([7.0] * 999 + [6.0]),
    "all equal but the first": np.array([6.0] + [7.0] * 999),
    "all equal but one, by one bit": np.where(np.arange(1000) == 500, np.nextafter(7.0, 0.0), 7.0),
    "one huge outlier": np.append(RNG.random(1000), 1e300),
    "outliers on both ends": np.concatenate([[1e300], RNG.random(1000), [-1e300]]),
    "subnormal": RNG.integers(-50, 50, 1000) * SMALLEST,
    "subnormal range around one": 1.0 + RNG.integers(0, 4, 1000) * 2.0**-52,
    "signed zeros": np.where(RNG.random(1000) < 0.5, 0.0, -0.0),
    "signed zeros among numbers": RNG.choice([-1.0, -0.0, 0.0, 1.0], 1000),
    "signed zeros beside the smallest": RNG.choice([-SMALLEST, -0.0, 0.0, SMALLEST], 1000),
    "negative": -RNG.random(1000) - 5.0,
    "the range overflows": RNG.choice([-LARGEST, -1.0, 0.0, 1.0, LARGEST], 1000),
    "the range just fits": RNG.choice([-LARGEST / 2, 0.0, LARGEST / 2], 1000),
    "every magnitude": random_finite_bits(2000),
    "sorted": np.sort(RNG.random(3000)),
    "reversed": np.sort(RNG.random(3000))[::-1],
    "crowded by a logarithm": np.exp(RNG.normal(0.0, 30.0, 3000)),
    "integers with ties": RNG.integers(0, 20, 3000).astype(float),
    "timestamps": 1.7e9 + RNG.integers(0, 10**6, 3000) / 1000.0,
    "large": RNG.normal(size=200_000),
    "large with ties": RNG.integers(0, 1000, 200_000).astype(float),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_equals_a_stable_argsort(name: str) -> None:
    check_argsort(COLUMNS[name])


@given(hnp.arrays(np.float64, st.integers(1, 60), elements=FINITE))
def test_equals_a_stable_argsort_on_any_floats(column: np.ndarray) -> None:
    check_argsort(column)
