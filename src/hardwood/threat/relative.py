"""Relative distances: shares of a row's own value ("10%"), spreads of a training column ("0.5 std", "2 iqr")."""

import math
import re
from typing import Any

import numpy as np

from hardwood.quoting import quote

# Squares of numbers between these are numbers.
ORDINARY = 1e-100, 1e100
# Nothing that has been taken is given back: a text of a million digits would be gone through a million times.
_SPELLING = re.compile(
    r"\s*+(?P<number>[+-]?(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][+-]?\d++)?+)\s*+(?P<unit>%|std|iqr)\s*+"
)


def read_relative(text: str, where: str) -> str | float | None:
    """Return the shortest spelling of a relative distance, 0.0 if it is nothing; None if the text is none."""
    found = _SPELLING.fullmatch(text)
    if found is None:
        return None
    number = float(found["number"])
    if number < 0.0:
        raise ValueError(f"{where}: {quote(text)} is negative; give a distance >= 0")
    if math.isinf(number):
        raise ValueError(f"{where}: {quote(text)} is too large for a float64; '<>' is without limit")
    return _spell(number, found["unit"])


def _spell(number: float, unit: str) -> str | float:
    if number == 0.0 or math.isinf(number):
        return number
    shown = repr(number).removesuffix(".0")
    return f"{shown}%" if unit == "%" else f"{shown} {unit}"


def _parse(text: str) -> tuple[float, str]:
    found = _SPELLING.fullmatch(text)
    assert found is not None, text
    return float(found["number"]), found["unit"]


def scale_relative(text: str, factor: float) -> str | float:
    """Return a relative distance multiplied by a factor > 0; infinity has no unit."""
    number, unit = _parse(text)
    return _spell(number * factor, unit)


def find_share(side: Any) -> tuple[float, float]:
    """Return a distance as a number plus a share of the value: one of the two is 0."""
    if not isinstance(side, str):
        return side, 0.0
    number, unit = _parse(side)
    if unit != "%":
        raise ValueError(f"{quote(side)} is measured on a table, and here is none; give a number, or call settle first")
    return 0.0, number / 100.0


def is_measured(side: Any) -> bool:
    """Say whether a distance is measured on the column of a table."""
    return isinstance(side, str) and side.endswith(("std", "iqr"))


def write_out(side: Any, column: np.ndarray) -> Any:
    """Return a distance with spreads of a column as numbers; a share of the value stays, as every row has its own."""
    if not is_measured(side):
        return side
    number, unit = _parse(side)
    known = column[~np.isnan(column)].astype(np.float64)  # a table of float32 may stay so
    if len(known) < 2:
        raise ValueError(f"{quote(side)}: the table has {len(known)} values of it, too few to measure how they spread")
    return number * _find_spread(known, unit)


def _find_spread(values: np.ndarray, unit: str) -> float:
    """Return a standard deviation or an interquartile range; very large and very small numbers are scaled meanwhile."""
    largest = float(np.abs(values).max())
    scale = 1.0 if largest == 0.0 or ORDINARY[0] < largest < ORDINARY[1] else 2.0 ** (math.frexp(largest)[1] - 1)
    find = _find_standard_deviation if unit == "std" else _find_interquartile_range
    return find(values / scale) * scale


def _find_interquartile_range(values: np.ndarray) -> float:
    low, high = np.quantile(values, [0.25, 0.75])
    return float(high - low)


def _find_standard_deviation(values: np.ndarray) -> float:
    """Return the standard deviation by which scikit-learn's StandardScaler divides."""
    return float(np.std(values))
