"""Which values of a column exist: whole numbers only, between a smallest and a largest one."""

import math
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from hardwood.quoting import quote
from hardwood.table import Schema
from hardwood.table.columns import Label, say_where
from hardwood.table.likeness import find_whole_columns
from hardwood.threat.resolve import explain_column
from hardwood.threat.spelling import plain, read_column, read_real

FROM_DTYPE = "from_dtype"
# Columns, or the words above.
WholeNumbers = tuple[Label, ...] | str
FROM_DATA = "from_data"
# A domain is (smallest, largest); with the words above after it, it was seen in a table rather than said.
Domain = tuple[float, float] | tuple[float, float, str]
# Before a table has been seen: the words alone, or with a margin; for all columns, or instead of a domain.
Unseen = str | tuple[str, float]
Within = dict[Label, Any] | Unseen


def read_whole_numbers(columns: Any) -> WholeNumbers:
    """Return which columns hold whole numbers only, each once."""
    if columns is None:
        return ()
    if isinstance(columns, str) and columns == FROM_DTYPE:
        return columns
    if isinstance(columns, (str, bytes)) or not hasattr(columns, "__iter__"):
        raise ValueError(
            f"whole_numbers={quote(columns)}: expected a list of columns (names or indices), 'from_dtype' or None"
        )
    return tuple(dict.fromkeys(read_column(column, "whole_numbers") for column in columns))


def read_within(within: Any) -> Within:
    """Return the smallest and the largest value of columns, or that a table is to say."""
    if within is None:
        return {}
    unseen = _read_unseen(within, "within")
    if unseen is not None:
        return unseen
    if not callable(getattr(within, "items", None)):
        raise ValueError(
            f"within={quote(within)}: expected a dict {{column: (smallest, largest)}}, 'from_data' or "
            "('from_data', margin)"
        )
    domains: dict[Label, Any] = {}
    seen: set[str] = set()
    for key, domain in within.items():
        column = read_column(key, "within")
        if str(column) in seen:
            raise ValueError(f"within: column {quote(column)} is given more than once")
        seen.add(str(column))
        where = f"within for column {quote(column)}"
        unseen = _read_unseen(domain, where)
        domains[column] = _read_domain(domain, where) if unseen is None else unseen
    return domains


def _read_unseen(value: Any, where: str) -> Unseen | None:
    """Return the words by which a table is to say, with a margin that is not 0; None if it is something else."""
    if isinstance(value, str) and value == FROM_DATA:
        return FROM_DATA
    if not isinstance(value, (list, tuple)) or len(value) != 2 or value[0] != FROM_DATA:
        return None
    margin = read_real(value[1], f"{where}: the margin")
    if not 0.0 <= margin < math.inf:
        raise ValueError(f"{where}: the margin {quote(value[1])}: expected a share >= 0 of the range of the column")
    return (FROM_DATA, margin) if margin else FROM_DATA


def _is_unseen(domain: Any) -> bool:
    return domain == FROM_DATA or (isinstance(domain, tuple) and domain[0] == FROM_DATA)


def is_left_to_table(within: Within) -> bool:
    """Say whether a table is to say a domain."""
    return not isinstance(within, dict) or any(map(_is_unseen, within.values()))


def _read_domain(domain: Any, where: str) -> Domain:
    if isinstance(domain, (list, tuple)) and len(domain) == 3 and domain[2] == FROM_DATA:
        return *_read_pair(domain[:2], where), FROM_DATA
    return _read_pair(domain, where)


def _read_pair(pair: Any, where: str) -> tuple[float, float]:
    if isinstance(pair, (str, bytes, Mapping)) or not hasattr(pair, "__len__") or len(pair) != 2:
        raise ValueError(f"{where}: {quote(pair)} is not a pair (smallest, largest)")
    accepted = "give None or infinity where there is no limit"
    low, high = (
        unsaid if end is None else read_real(end, where, accepted)
        for end, unsaid in zip(pair, (-math.inf, math.inf), strict=True)
    )
    for end, number in zip(pair, (low, high), strict=True):
        if math.isnan(number):
            raise ValueError(f"{where}: {quote(plain(end))} is not a number; {accepted}")
    if not low <= high or low == math.inf or high == -math.inf:
        raise ValueError(f"{where}: there is no value from {low:g} to {high:g}")
    return low, high


def see_domains(within: Within, matrix: np.ndarray, schema: Schema, ruled: Collection[str]) -> Within:
    """Return the domains with those that a table is to say as numbers; the same object if there are none.

    Where all columns are meant, those that have rules are passed over, and so are those without any value.
    """
    if not isinstance(within, dict):
        keys = [schema.key(j) for j in range(schema.n_features) if schema.categories[j] is None]
        everywhere: dict[Label, Any] = {key: within for key in keys if str(key) not in ruled}
        return see_domains(everywhere, matrix, schema, ruled)
    if not any(map(_is_unseen, within.values())):
        return within
    seen = {column: _see_domain(domain, column, matrix, schema) for column, domain in within.items()}
    return {column: domain for column, domain in seen.items() if domain is not None}


def _see_domain(domain: Any, column: Label, matrix: np.ndarray, schema: Schema) -> Any:
    if not _is_unseen(domain):
        return domain
    values = matrix[:, _find_position(column, schema, "within")]
    if np.isnan(values).all():
        return None
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    margin = 0.0 if isinstance(domain, str) else domain[1] * (high - low)
    return low - margin, high + margin, FROM_DATA


def read_dtypes(X: Any, schema: Schema, domains: Within) -> tuple[tuple[Label, ...], Within]:
    """Return the columns of a DataFrame whose types hold whole numbers or truth values, and the domains.

    A truth value is 0 or 1, unless its domain is said. An array has no such columns.
    """
    found = [column for column in find_whole_columns(X) if schema.categories[column.position] is None]
    assert isinstance(domains, dict)
    truths = {schema.key(column.position): (0.0, 1.0) for column in found if column.most == 1.0}
    said = set(map(str, domains))
    domains = domains | {column: pair for column, pair in truths.items() if str(column) not in said}
    return tuple(schema.key(column.position) for column in found), domains


def place_whole(columns: WholeNumbers, schema: Schema) -> np.ndarray | None:
    """Say of each feature whether it holds whole numbers only; None if none does, as where no DataFrame says."""
    if columns == FROM_DTYPE or not columns:
        return None
    whole = np.zeros(schema.n_features, dtype=bool)
    for column in columns:
        whole[_find_position(column, schema, "whole_numbers")] = True
    return whole


def place_within(domains: Within, schema: Schema, whole: np.ndarray | None, *, seen: bool = True) -> np.ndarray | None:
    """Return the smallest and the largest value of each feature, whole where the feature is; None if all exist.

    seen : whether domains that were only seen in a table count.
    """
    if not domains:
        return None
    if not isinstance(domains, dict) or any(map(_is_unseen, domains.values())):
        raise ValueError("within: 'from_data' is left to a table, and here is none; give numbers, or call settle first")
    within = np.repeat([[-np.inf], [np.inf]], schema.n_features, axis=1)
    for column, (low, high, *source) in domains.items():
        if source and not seen:
            continue
        j = _find_position(column, schema, "within")
        is_whole = whole is not None and whole[j]
        within[:, j] = (np.ceil(low), np.floor(high)) if is_whole else (low, high)
        if within[0, j] > within[1, j]:
            raise ValueError(f"within for column {quote(column)}: there is no whole number from {low:g} to {high:g}")
    return within


def _find_position(column: Label, schema: Schema, where: str) -> int:
    positions = schema.positions
    if str(column) not in positions:
        raise ValueError(f"{where}: column {quote(column)}: {explain_column(column, schema)}")
    j = positions[str(column)]
    if schema.categories[j] is not None:
        raise ValueError(
            f"{where}: column {quote(column)} is categorical; only numbers are whole, or lie between others"
        )
    return j


def check_rows(matrix: np.ndarray, schema: Schema, whole: np.ndarray | None, within: np.ndarray | None) -> None:
    """Refuse rows with values that do not exist: the first is named. A missing value is no such value."""
    if whole is not None:
        part = matrix[:, whole]
        if not (part == np.floor(part)).all():
            _refuse((part != np.floor(part)) & ~np.isnan(part), np.flatnonzero(whole), matrix, schema, "whole_numbers")
    if within is not None:
        outside = (matrix < within[0]) | (matrix > within[1])
        if outside.any():
            _refuse(outside, np.arange(schema.n_features), matrix, schema, "within")


def _refuse(bad: np.ndarray, columns: np.ndarray, matrix: np.ndarray, schema: Schema, option: str) -> None:
    if not bad.any():
        return
    row, k = map(int, np.argwhere(bad)[0])
    j = int(columns[k])
    remedy = {
        "whole_numbers": "which is not a whole number; round the column, or leave it out of whole_numbers",
        "within": "which is not within what the threat model says; correct the row, or widen within",
    }[option]
    raise ValueError(
        f"X: {say_where(schema.feature_names, j)} is {matrix[row, j]:g} in row {row} (counted from 0), {remedy}"
    )
