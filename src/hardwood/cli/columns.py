"""What the columns of a messy table hold: numbers, categories, or what nothing can be learned from."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from hardwood.cli.late import np, pd

# How a missing number is often written, besides leaving the cell empty.
MISSING_MARKERS = frozenset({"NA", "N/A", "n/a", "#N/A", "NULL", "null", "None", "none", "?", "-", "--", "."})
# A text column counts as identifiers if more than half of its values, and more than twenty, are different: a category
# needs rows to be learned from.
MOST_DIFFERENT, SURELY_CATEGORIES = 0.5, 20
# Whole numbers that go up by one from row to row are row numbers, if there are enough rows for that to be no accident.
_COUNTING_ROWS = 20
# Of a column of text, how many cells must read as numbers before the others count as mistakes.
_MOSTLY_NUMBERS = 0.9
_MOSTLY_DATES = 0.95
_NAMES_ROWS = re.compile(r".*[a-z](Id|ID)|(?i:.*[_ .-](id|uuid|guid|key)|id|uuid|guid|index|row|key|unnamed: 0)")
_DATE = re.compile(r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))([T ]\d{1,2}:\d{2}.*)?")


class Kind(StrEnum):
    """What a column holds."""

    number = "numbers"
    category = "categories"
    identifier = "identifiers"
    date = "dates"
    nothing = "no values"


class Found(NamedTuple):
    """What was found out about one column."""

    kind: Kind
    values: pd.Series | None  # numbers, or text with NaN where a value is missing
    remark: str = ""  # what the user should know
    problem: str = ""  # what has to be settled first


def classify(column: pd.Series) -> Found:
    """Tell what a column holds."""
    name, known = str(column.name), column.dropna()
    if known.empty:
        return Found(Kind.nothing, None)
    if isinstance(column.dtype, pd.CategoricalDtype) or column.dtype.kind == "b":
        return Found(Kind.category, as_text(column))
    if column.dtype.kind in "mM":
        return Found(Kind.date, None, _show(known))
    if column.dtype.kind in "iuf":
        return _classify_numbers(column, known, name)
    return _classify_text(column, known, name)


def read_numbers(column: pd.Series, remedy: str = "") -> Found:
    """Read a column that is known to hold numbers: markers of missing values aside, any other text is a problem."""
    remedy = remedy or (
        f'correct it or leave the cell empty, say --categorical "{column.name}" if it holds categories, or --ignore '
        f'"{column.name}"'
    )
    if column.dtype.kind in "iuf":
        return Found(Kind.number, keep_whole(column), problem=_refuse_infinite(column))
    if column.dtype.kind == "b":
        return Found(Kind.number, column.astype("int64"))
    values = column.astype(object)
    markers = values.map(lambda value: isinstance(value, str) and value.strip() in MISSING_MARKERS).astype(bool)
    too_large = values.map(_is_too_large).astype(bool)
    numbers = pd.to_numeric(values.mask(markers | too_large), errors="coerce")
    wrong = (numbers.isna() & values.notna() & ~markers).to_numpy()
    if wrong.any():
        return Found(Kind.number, None, problem=_say_wrong(column, wrong, too_large.to_numpy(), remedy))
    remark = ""
    if markers.any():
        spelled = ", ".join(f'"{value}"' for value in sorted({str(value) for value in values[markers]}))
        remark = f"{spelled} counts as missing in {int(markers.sum()):,} cells"
    numbers = numbers.astype("float64")
    return Found(Kind.number, keep_whole(numbers), remark, _refuse_infinite(numbers))


def as_text(column: pd.Series) -> pd.Series:
    """Return a column of categories as text, NaN where one is missing."""
    values = column.astype(object)
    return values.where(values.isna(), values.map(str)).astype("category")


def keep_whole(column: pd.Series) -> pd.Series:
    """Return numbers as whole ones where the column is of a whole type, or would be if nothing were missing."""
    if column.dtype.kind in "iu" or not column.isna().any():
        return column
    known = column.dropna().to_numpy(dtype="float64")
    is_whole = bool((np.abs(known) < 2.0**53).all() and (known == np.floor(known)).all())
    return column.astype("Int64") if is_whole else column.astype("float64")


def looks_like_identifiers(known: pd.Series) -> bool:
    """Say whether the values of a text column name rows rather than categories: most of them differ."""
    return known.nunique() > max(SURELY_CATEGORIES, MOST_DIFFERENT * len(known))


def list_remarks(found: dict[str, Found]) -> Iterator[str]:
    """Go through what the user should know about the columns, a sentence each."""
    categories = [name for name, column in found.items() if column.kind is Kind.category]
    if categories:
        yield f"categories: {_list(categories)} (to say otherwise: --numeric COLUMN)"
    for kind, reason in (
        (Kind.identifier, "identifiers say nothing of new rows"),
        (Kind.date, "turn dates into numbers, such as days or hours, where they say something"),
        (Kind.nothing, "no cell has a value"),
    ):
        names = [f"{name} ({column.remark})" if column.remark else name for name, column in found.items()
                 if column.kind is kind]  # fmt: skip
        if names:
            yield f"left out as {kind}: {_list(names)}: {reason} (to keep one: --categorical or --numeric COLUMN)"
    for name, column in found.items():
        if column.kind is Kind.number and column.remark:
            yield f'column "{name}": {column.remark}'


def _classify_numbers(column: pd.Series, known: pd.Series, name: str) -> Found:
    if column.dtype.kind in "iu" and len(known) == len(column) and known.is_unique and len(known) > 1:
        counts_up = len(known) >= _COUNTING_ROWS and bool((known.diff().iloc[1:] == 1).all())
        if counts_up or (len(known) > SURELY_CATEGORIES and _names_rows(name)):
            return Found(Kind.identifier, None, _show(known))
    return read_numbers(column)


def _classify_text(column: pd.Series, known: pd.Series, name: str) -> Found:
    text = known.map(str)
    numbers = pd.to_numeric(text.where(~text.isin(MISSING_MARKERS)), errors="coerce").notna()
    n_values = int((~text.isin(MISSING_MARKERS)).sum())
    # Older pandas reads whole numbers that are too large as text, and all others of the column with them.
    is_text = bool(known.map(lambda value: isinstance(value, str)).all()) and not known.map(_is_too_large).any()
    if n_values and numbers.sum() >= _MOSTLY_NUMBERS * n_values and not (is_text and numbers.all()):
        return read_numbers(column)
    if text.map(lambda value: _DATE.fullmatch(value) is not None).mean() >= _MOSTLY_DATES:
        return Found(Kind.date, None, _show(text))
    if looks_like_identifiers(text) or (_names_rows(name) and text.nunique() > SURELY_CATEGORIES):
        return Found(Kind.identifier, None, _show(text))
    return Found(Kind.category, as_text(column))


def _names_rows(name: str) -> bool:
    return _NAMES_ROWS.fullmatch(name) is not None


def _show(known: pd.Series) -> str:
    return f"such as {_shorten(known.iloc[0])}"


def _refuse_infinite(column: pd.Series) -> str:
    infinite = np.isinf(column.to_numpy(dtype="float64", na_value=np.nan))
    if not infinite.any():
        return ""
    first = int(infinite.argmax()) + 1
    return (
        f'column "{column.name}" is infinite in {infinite.sum():,} of {len(column):,} rows, first in row {first}: '
        f'replace these values, or say --ignore "{column.name}"'
    )


def _say_wrong(column: pd.Series, wrong: np.ndarray, too_large: np.ndarray, remedy: str) -> str:
    row = int(wrong.argmax())
    size = "of at most 308 digits " if too_large[row] else ""
    many = f" ({wrong.sum():,} such cells)" if wrong.sum() > 1 else ""
    shown = _shorten(column.iloc[row])
    return f'column "{column.name}" holds "{shown}" in row {row + 1}, where a number {size}belongs{many}: {remedy}'


def _is_too_large(value: Any) -> bool:
    """Say whether a value is a whole number that no float is as large as: an int to newer pandas, text to older."""
    if isinstance(value, str):
        digits = value.lstrip("+-")
        return digits.isdigit() and len(digits.lstrip("0")) > sys.float_info.max_10_exp
    return isinstance(value, int) and abs(value) > sys.float_info.max


def _shorten(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:40]}... ({len(text)} characters)"


def _list(names: Collection[str]) -> str:
    shown = list(names)
    return ", ".join(shown if len(shown) <= 20 else [*shown[:20], f"and {len(shown) - 20} more"])
