"""Reading numbers that a user gave beside a table, such as targets, weights and parameters."""

import math
import sys
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from hardwood.quoting import quote

# Trees, rounds, starts: nobody can wait for more.
MOST_COUNTED = 2**31 - 1
LARGEST = sys.float_info.max


def read_reals(values: Any, name: str) -> np.ndarray:
    """Return numbers as float64, infinite where they are larger than that; refuse what only reads as a number.

    Examples
    --------
    >>> read_reals([1, 2.5, True], "y")
    array([1. , 2.5, 1. ])
    """
    try:
        given = np.asarray(values)
    except ValueError:  # lists of different lengths
        raise ValueError(f"{name}: expected numbers, got {quote(values)}") from None
    if given.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            return np.asarray(given, dtype=np.float64)
    if given.dtype.kind != "O":
        shown = quote(given.ravel()[0].item()) if given.dtype.kind in "US" else given.dtype
        raise ValueError(f"{name}: expected numbers, got {shown}")
    return np.array([read_real(each, name) for each in given.ravel().tolist()], dtype=np.float64).reshape(given.shape)


def read_real(value: Any, name: str) -> float:
    """Return a single number as float64, infinite where it is larger than that."""
    if not isinstance(value, (str, bytes, complex, np.complexfloating, np.datetime64, np.timedelta64)):
        try:
            with np.errstate(over="ignore"):
                return float(value)
        except OverflowError:
            raise ValueError(f"{name}: expected numbers up to 1.8e308, got {quote(value)}") from None
        except (TypeError, ValueError):
            pass
    raise ValueError(f"{name}: expected numbers, got {quote(value)}")


def to_float(value: Any) -> float:
    """Return a real number as float64; NaN, which no comparison accepts, for what is none or too large.

    Examples
    --------
    >>> to_float(1), to_float("1"), to_float(True), to_float(10**400)
    (1.0, nan, nan, nan)
    """
    if not isinstance(value, Real) or isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def is_integer(value: Any) -> bool:
    """Say whether a value is a whole number (a bool is not)."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_number(name: str, value: Any, low: float, high: float = math.inf) -> float:
    """Return a real number within [low, high], or say what is wrong with it."""
    number = to_float(value)
    if not low <= number <= high:
        upper = f" and <= {high:g}" if high < math.inf else ""
        raise ValueError(f"{name}={quote(value)}: expected a number >= {low:g}{upper}")
    return number


def check_count(name: str, value: Any, low: int, high: int = MOST_COUNTED) -> int:
    """Return a whole number from `low` to `high`, or say what is wrong with it."""
    if not (is_integer(value) and low <= value <= high):
        is_many = is_integer(value) and value > high == MOST_COUNTED
        wanted = f"an integer from {low} to {high}" if is_many or high < MOST_COUNTED else f"an integer >= {low}"
        raise ValueError(f"{name}={quote(value)}: expected {wanted}")
    return int(value)


def read_generator(random_state: Any) -> np.random.RandomState:
    """Return what draws random numbers."""
    try:
        generator: np.random.RandomState = check_random_state(random_state)
    except (ValueError, TypeError):
        raise ValueError(
            f"random_state={quote(random_state)}: expected None, an integer from 0 to {2**32 - 1} or a RandomState"
        ) from None
    return generator


def read_seed(random_state: Any) -> int:
    """Return a number to draw random numbers from."""
    return int(read_generator(random_state).randint(np.iinfo(np.int32).max))
