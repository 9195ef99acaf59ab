"""Sums that do not depend on the order of numbers, against Python's own exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood.grow.exact_sums import add_up, read_sum

numbers = st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=30)


@given(numbers, st.integers(0, 30))
def test_nearest_to_the_exact_sum_however_it_is_cut(values: list[float], cut: int) -> None:
    exact = sum(map(Fraction, values), Fraction(0))
    try:
        expected = float(exact)
    except OverflowError:
        expected = np.inf if exact > 0 else -np.inf
    array = np.array(values, dtype=np.float64)
    assert read_sum(add_up(array)[0]) == expected
    assert read_sum(add_up(array[::-1][:cut], array[::-1][cut:]).sum(axis=0)) == expected


def test_many_numbers() -> None:
    values = np.random.default_rng(0).normal(size=100_000) * np.logspace(-200, 200, 100_000)
    expected = float(sum(map(Fraction, values.tolist()), Fraction(0)))
    assert read_sum(add_up(values)[0]) == expected
    assert read_sum(add_up(*np.array_split(values, 7)).sum(axis=0)) == expected


def test_none() -> None:
    assert add_up().shape[0] == 0
    assert read_sum(add_up(np.empty(0))[0]) == 0.0
    assert read_sum(add_up(np.array([-0.0, 5e-324, -5e-324]))[0]) == 0.0
    assert read_sum(add_up(np.full(3, -1e308))[0]) == pytest.approx(-np.inf)
