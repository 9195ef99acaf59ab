"""Reading real numbers that a user gave beside a table, such as targets and weights: what is no number has no sense."""

from typing import Any

import numpy as np

from hardwood.quoting import quote


def read_reals(values: Any, name: str) -> np.ndarray:
    """Return numbers as float64, infinite where they are larger than that; refuse what only reads as a number.

    Examples
    --------
    >>> read_reals([1, 2.5, True], "y")
    array([1. , 2.5, 1. ])
    """
    given = np.asarray(values)
    if given.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            return np.asarray(given, dtype=np.float64)
    if given.dtype.kind != "O":
        raise ValueError(f"{name}: expected numbers, got {given.dtype}, such as {_quote_first(given)}")
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


def _quote_first(values: np.ndarray) -> str:
    return quote(values.ravel()[:1].tolist()[0]) if values.size else "none"
