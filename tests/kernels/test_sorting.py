"""The shifted orders of columns of every kind, where nobody moves, against NumPy's sort."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hardwood._kernels.grow.orders import CLASS_BIT, GROUP, ID_MASK
from hardwood.grow.shifts import find_shifts, sort_shifted
from hardwood.grow.workers import Workers, run_in_turn
from hardwood.threat import Reach

FINITE = st.floats(allow_nan=False, allow_infinity=False)
LARGEST, SMALLEST = np.finfo(np.float64).max, 5e-324


def check_orders(X: np.ndarray, n_shares: int = 1) -> None:
    """Sort rows of both classes by every column: by value, then class, then row."""
    n, n_features = X.shape
    class_index = (np.arange(n) % 3 == 0).astype(np.uint8)
    nobody = np.zeros(2, dtype=bool)
    shifts = find_shifts(Reach(np.zeros(n_features), np.zeros(n_features), [None] * n_features, nobody), nobody)
    orders = sort_shifted(X, class_index, nobody, shifts, Workers(n_shares, run_in_turn))
    for column, order in zip(X.T, orders, strict=True):
        expected = np.lexsort([np.arange(n), class_index, column])
        np.testing.assert_array_equal(order & ID_MASK, expected)
        np.testing.assert_array_equal(order >> CLASS_BIT, class_index[expected])
        np.testing.assert_array_equal((order & GROUP)[1:] > 0, column[expected[1:]] > column[expected[:-1]])


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
def test_orders(name: str) -> None:
    check_orders(COLUMNS[name][:, None])


@pytest.mark.parametrize("n_shares", [1, 2])
def test_crowded_columns_among_others(n_shares: int) -> None:
    crowded = ["subnormal", "constant", "timestamps", "constant zero", "signed zeros beside the smallest"]
    tables = [COLUMNS[name][:1000] for name in ["negative", *crowded, "large", "one huge outlier"]]
    check_orders(np.column_stack(tables), n_shares)


@given(hnp.arrays(np.float64, st.integers(1, 60), elements=FINITE))
def test_orders_of_any_floats(column: np.ndarray) -> None:
    check_orders(column[:, None])
