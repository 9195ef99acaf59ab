"""Budgets over columns in the user's words: how many may change, and a radius in units per column."""

import math
import sys
from numbers import Integral
from typing import Any

import numpy as np

from hardwood.quoting import quote
from hardwood.table import Schema
from hardwood.table.columns import Label
from hardwood.threat.column_budget import ColumnBudget
from hardwood.threat.resolve import explain_column
from hardwood.threat.spelling import plain, read_column, read_real

# What counts as a distance of 1: by column, or for all of them. None: 1.
Units = dict[Label, float] | float | None


def read_max_changes(value: Any) -> int | None:
    """Return how many columns may be changed."""
    if value is None:
        return None
    if not isinstance(value, Integral) or isinstance(value, bool) or not 0 <= int(value) <= sys.maxsize:
        raise ValueError(
            f"max_changes={quote(value)}: expected how many columns may be changed, a whole number >= 0 of at most "
            "18 digits; None is no limit"
        )
    return int(value)


def read_radius(value: Any) -> float | None:
    """Return how far all changes may go together; infinity is no limit."""
    if plain(value) is None:
        return None
    radius = read_real(value, "radius")
    if not radius >= 0.0:
        raise ValueError(f"radius={quote(value)}: expected how far all changes may go together, a number >= 0")
    return radius


def read_norm(value: Any) -> int:
    """Return in which norm a radius is measured."""
    if isinstance(value, bool) or value not in (1, 2):
        raise ValueError(
            f"norm={quote(value)}: expected 1 or 2; how far each column can be moved on its own is said in `features`"
        )
    return int(value)


def read_units(units: Any) -> Units:
    """Return what counts as a distance of 1."""
    if not callable(getattr(units, "items", None)):
        return None if units is None else _read_unit(units, "units")
    named: dict[Label, float] = {}
    seen: set[str] = set()
    for key, unit in units.items():
        column = read_column(key, "units")
        if str(column) in seen:
            raise ValueError(f"units: column {quote(column)} is given more than once")
        seen.add(str(column))
        named[column] = _read_unit(unit, f"units for column {quote(column)}")
    return named or None


def _read_unit(value: Any, where: str) -> float:
    unit = read_real(value, where)
    if not 0.0 < unit < math.inf:
        raise ValueError(
            f"{where}: {quote(value)} is no distance > 0 that could count as 1; leave out columns that do not vary"
        )
    return unit


def scale_radius(radius: float | None, factor: float) -> float | None:
    """Return the radius of an attacker that many times as strong; one who can do nothing has none."""
    return None if radius is None or not factor else radius * factor if radius else 0.0


def check_column_budget(max_changes: int | None, radius: float | None, units: Units, *, has_rules: bool) -> None:
    """Refuse words that mean nothing together."""
    if units is not None and radius is None:
        raise ValueError("units: they say what a radius is measured in; give a radius, or leave them out")
    if has_rules and (max_changes is not None or radius is not None):
        raise ValueError(
            "max_changes, radius: attack rules have costs and a budget of their own; give rules where moves have "
            "prices, and `features` with max_changes or radius where only their number or their length counts"
        )


def place_budget(
    max_changes: int | None, radius: float | None, norm: int, units: Units, schema: Schema
) -> ColumnBudget | None:
    """Turn words into arrays for one table; None where they set no limit."""
    radius = None if radius == math.inf else radius
    if max_changes is None and radius is None:
        return None
    if radius is None:
        return ColumnBudget(max_changes)
    unit = np.full(schema.n_features, units if isinstance(units, float) else 1.0)
    if isinstance(units, dict):
        positions = {str(schema.key(j)): j for j in range(schema.n_features)}
        for column, size in units.items():
            if str(column) not in positions:
                raise ValueError(f"units: column {quote(column)}: {explain_column(column, schema)}")
            unit[positions[str(column)]] = size
    return ColumnBudget(max_changes, norm, unit * radius)
