"""Attackers who make values missing (blank) or give missing ones a value (fill): in which columns."""

from typing import Any

import numpy as np

from hardwood.quoting import quote
from hardwood.table import Schema
from hardwood.table.columns import Label
from hardwood.threat.resolve import explain_column
from hardwood.threat.spelling import read_column

ALL = "all"
# Columns, or the word above; None for none.
Hidden = tuple[Label, ...] | str | None


def read_blank(columns: Any) -> Hidden:
    """Return the columns whose values can be made missing, each once."""
    return _read_columns(columns, "blank")


def read_fill(columns: Any) -> Hidden:
    """Return the columns whose missing values can be given a value, each once."""
    return _read_columns(columns, "fill")


def _read_columns(columns: Any, name: str) -> Hidden:
    if columns is None or (isinstance(columns, str) and columns == ALL):
        return columns
    if isinstance(columns, (str, bytes)) or not hasattr(columns, "__iter__"):
        raise ValueError(f"{name}={quote(columns)}: expected a list of columns (names or indices), 'all' or None")
    return tuple(dict.fromkeys(read_column(column, name) for column in columns)) or None


def compare_hidden(columns: Hidden) -> Any:
    """Return what is equal for columns that are the same."""
    return columns if columns is None or isinstance(columns, str) else set(map(str, columns))


def scale_hidden(columns: Hidden, factor: float) -> Hidden:
    """Return the columns for an attacker that many times as strong: what has no size is not scaled."""
    return columns if factor else None


def place_blank(columns: Hidden, schema: Schema) -> np.ndarray | None:
    """Say of each feature whether its values can be made missing; None if there is none."""
    if columns is not None and not schema.accepts_missing:
        shown = columns if isinstance(columns, str) else list(columns)
        raise ValueError(
            f"blank={quote(shown)}: the model takes no missing values, so nobody gains by making one; leave it out"
        )
    return _place(columns, schema, "blank")


def place_fill(columns: Hidden, schema: Schema) -> np.ndarray | None:
    """Say of each feature whether its missing values can be given any other; None if there is none."""
    return _place(columns, schema, "fill")


def _place(columns: Hidden, schema: Schema, name: str) -> np.ndarray | None:
    if columns is None:
        return None
    if isinstance(columns, str):
        return np.ones(schema.n_features, dtype=bool)
    positions = {str(schema.key(j)): j for j in range(schema.n_features)}
    hidden = np.zeros(schema.n_features, dtype=bool)
    for column in columns:
        if str(column) not in positions:
            raise ValueError(f"{name}: column {quote(column)}: {explain_column(column, schema)}")
        hidden[positions[str(column)]] = True
    return hidden
