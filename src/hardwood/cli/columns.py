"""What the columns of a messy table hold: numbers, categories, or what nothing can be learned from."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, NamedTuple

from hardwood.cli.late import np, pd
from hardwood.quoting import list_some, shorten

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
_LONGEST = 80  # characters of a cell that is shown
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
    values: pd.Series | None = None  # numbers, or text with NaN where a value is missing
    remark: str = ""  # what the user should know
    problem: str = ""  # what has to be settled first
    dtype: str | None = None  # of numbers: the type that they are to have; None: their own
    categories: tuple[str, ...] = ()

    @property
    def is_used(self) -> bool:
        """Whether a model can be fitted to the column."""
        return self.kind in (Kind.number, Kind.category) and not self.problem

    def read(self, column: pd.Series) -> pd.Series:
        """Return some cells of the column as a model takes them."""
        if self.kind is Kind.category:
            values = column.astype(object)
            spelled = values.where(values.isna(), values.map(str))
            return pd.Series(pd.Categorical(spelled, categories=list(self.categories)), index=column.index)
        if column.dtype.kind not in "iufb":
            values = column.astype(object)
            column = pd.to_numeric(values.mask(values.map(_is_marker).astype(bool)), errors="coerce")
        return column if self.dtype is None else column.astype(self.dtype)


class Cells:
    """What the cells of a column hold, gathered part by part: a table in memory is one part, a stream has many.

    most : how many different texts are kept; None: all
    """

    def __init__(self, name: str, most: int | None = None) -> None:
        self.name, self.most = name, most
        self.shown = f'"{shorten(name)}"'
        self.n_rows = self.n_known = 0
        self.first_missing = -1  # row
        self.first: Any = None  # the first cell that holds something
        self.kinds: set[str] = set()  # those of `_tell_kind`
        self.is_whole_type = True  # whether the type of every part holds whole numbers only
        self.is_whole = True  # whether all numbers are whole, and few enough digits long to be told apart
        self.n_infinite, self.first_infinite = 0, -1
        self.counts_up = True  # whether every number is the one before it and 1
        self._last: Any = None
        self._values: list[np.ndarray] = []  # of whole numbers whose name says that they could be identifiers
        self.texts: dict[Any, list[int]] = {}  # how often a text is there, and its first row
        self.has_more_texts = False

    def add(self, column: pd.Series) -> None:
        """Look at more cells; their index says which rows they are in."""
        known = column.dropna()
        if len(known) < len(column) and self.n_known == self.n_rows:
            self.first_missing = int(column.index[column.isna().to_numpy().argmax()])
        self.n_rows += len(column)
        if column.dtype.kind not in "iu":
            self.is_whole_type = False
        if known.empty:
            return
        if not self.n_known:
            self.first = known.iloc[0]
        self.n_known += len(known)
        kind = _tell_kind(column)
        self.kinds.add(kind)
        if kind == "number":
            self._add_numbers(known)
        elif kind != "date" and not self.has_more_texts:
            self._add_texts(known)

    def _add_numbers(self, known: pd.Series) -> None:
        numbers = known.to_numpy(dtype="float64")
        infinite = np.isinf(numbers)
        if infinite.any():
            if not self.n_infinite:
                self.first_infinite = int(known.index[infinite.argmax()])
            self.n_infinite += int(infinite.sum())
        self.is_whole = self.is_whole and _are_whole(numbers)
        if self.counts_up and self.is_whole_type:
            before = known.iloc[:1] - 1 if self._last is None else [self._last]
            self.counts_up = bool((np.diff(np.concatenate([before, known])) == 1).all())
            self._last = known.iloc[-1]
        if self.is_whole_type and _names_rows(self.name):
            self._values.append(known.to_numpy())

    def _add_texts(self, known: pd.Series) -> None:
        values = known.astype(object)
        try:
            index, texts = pd.factorize(values)
        except TypeError:  # a list in a cell, say
            index, texts = pd.factorize(values.map(str))
        counts = np.bincount(index)
        first = np.empty(len(counts), dtype=np.int64)
        first[index[::-1]] = known.index.to_numpy()[::-1]
        for text, count, row in zip(texts.tolist(), counts.tolist(), first.tolist(), strict=True):
            self.texts.setdefault(text, [0, row])[0] += count
        self.has_more_texts = self.most is not None and len(self.texts) > self.most

    @property
    def all_different(self) -> bool:
        """Whether no two whole numbers are the same, if the name says that they could be identifiers."""
        values = np.sort(np.concatenate(self._values)) if self._values else np.empty(0)
        return len(values) == self.n_rows and bool((values[1:] != values[:-1]).all())


def classify(column: pd.Series) -> Found:
    """Tell what a column holds."""
    cells = Cells(str(column.name))
    cells.add(column)
    return _read_whole(judge(cells), column)


def read_numbers(column: pd.Series, remedy: str = "") -> Found:
    """Read a column that is known to hold numbers: markers of missing values aside, any other text is a problem."""
    cells = Cells(str(column.name))
    cells.add(column)
    return _read_whole(judge_numbers(cells, remedy), column)


def _read_whole(found: Found, column: pd.Series) -> Found:
    """Return what was found with the values of the column, if it can be used."""
    return found._replace(values=found.read(column)) if found.is_used else found


def judge(cells: Cells) -> Found:
    """Tell what a column holds by its cells."""
    if not cells.n_known:
        return Found(Kind.nothing)
    if cells.kinds <= {"category", "truth"}:
        return judge_categories(cells)
    if cells.kinds == {"date"}:
        return Found(Kind.date, remark=_show(cells))
    if cells.kinds == {"number"}:
        return _judge_number_type(cells)
    return _judge_texts(cells)


def judge_categories(cells: Cells) -> Found:
    """Take a column for categories."""
    if cells.has_more_texts:
        return Found(Kind.category, problem=_say_too_many(cells))
    return Found(Kind.category, categories=tuple(sorted(map(str, cells.texts))))


def judge_numbers(cells: Cells, remedy: str = "") -> Found:
    """Take a column for numbers: markers of missing values aside, any other text is a problem."""
    remedy = remedy or (
        f"correct it or leave the cell empty, say --categorical {cells.shown} if it holds categories, or --ignore "
        f"{cells.shown}"
    )
    if "text" not in cells.kinds and "category" not in cells.kinds:
        dtype = "int64" if cells.kinds == {"truth"} else None
        if cells.n_known < cells.n_rows and not cells.is_whole_type:
            dtype = "Int64" if cells.is_whole else "float64"
        return Found(Kind.number, dtype=dtype, problem=_refuse_infinite(cells))
    if cells.has_more_texts:
        return Found(Kind.number, problem=_say_too_many(cells))
    return _judge_spelled_numbers(cells, remedy)


def _judge_spelled_numbers(cells: Cells, remedy: str) -> Found:
    """Take a column of text for numbers."""
    texts = pd.Series(list(cells.texts), dtype=object)
    counts, rows = np.array(list(cells.texts.values()), dtype=np.int64).reshape(-1, 2).T
    markers = texts.map(_is_marker).to_numpy(dtype=bool)
    too_large = texts.map(_is_too_large).to_numpy(dtype=bool)
    numbers = pd.to_numeric(texts.mask(markers | too_large), errors="coerce").to_numpy(dtype="float64")
    wrong = np.flatnonzero(np.isnan(numbers) & ~markers)
    if len(wrong):
        first = wrong[rows[wrong].argmin()]
        size = "of at most 308 digits " if too_large[first] else ""
        n_wrong = int(counts[wrong].sum())
        many = f" ({n_wrong:,} such cells)" if n_wrong > 1 else ""
        return Found(Kind.number, problem=f'column {cells.shown} holds "{shorten(texts[first], _LONGEST)}" in row '
                     f"{rows[first] + 1}, where a number {size}belongs{many}: {remedy}")  # fmt: skip
    remark = ""
    if markers.any():
        spelled = ", ".join(f'"{text}"' for text in sorted(map(str, texts[markers])))
        remark = f"{spelled} counts as missing in {int(counts[markers].sum()):,} cells"
    infinite = np.isinf(numbers)
    if infinite.any():
        cells.n_infinite, cells.first_infinite = int(counts[infinite].sum()), int(rows[infinite].min())
    is_missing = cells.n_known < cells.n_rows or bool(markers.any())
    is_whole = is_missing and _are_whole(numbers[~markers])
    return Found(Kind.number, None, remark, _refuse_infinite(cells), "Int64" if is_whole else "float64")


def list_remarks(found: dict[str, Found]) -> Iterator[str]:
    """Go through what the user should know about the columns, a sentence each."""
    categories = [name for name, column in found.items() if column.kind is Kind.category]
    if categories:
        yield f"categories: {list_some(categories, 20, shorten)} (to say otherwise: --numeric COLUMN)"
    for kind, reason in (
        (Kind.identifier, "identifiers say nothing of new rows"),
        (Kind.date, "turn dates into numbers, such as days or hours, where they say something"),
        (Kind.nothing, "no cell has a value"),
    ):
        names = [f"{name} ({column.remark})" if column.remark else name for name, column in found.items()
                 if column.kind is kind]  # fmt: skip
        if names:
            yield (
                f"left out as {kind}: {list_some(names, 20, shorten)}: {reason} (to keep one: --categorical or "
                "--numeric COLUMN)"
            )
    for name, column in found.items():
        if column.kind is Kind.number and column.remark:
            yield f'column "{shorten(name)}": {column.remark}'


def _tell_kind(column: pd.Series) -> str:
    """Tell what the type of a column says that it holds."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "category"
    return {"b": "truth", "m": "date", "M": "date", "i": "number", "u": "number", "f": "number"}.get(
        column.dtype.kind, "text"
    )


def _judge_number_type(cells: Cells) -> Found:
    """Tell whether a column of numbers only names its rows."""
    if cells.is_whole_type and cells.n_known == cells.n_rows > 1:
        counts_rows = cells.counts_up and cells.n_rows >= _COUNTING_ROWS
        if counts_rows or (cells.n_rows > SURELY_CATEGORIES and _names_rows(cells.name) and cells.all_different):
            return Found(Kind.identifier, remark=_show(cells))
    return judge_numbers(cells)


def _judge_texts(cells: Cells) -> Found:
    """Tell what a column of text holds."""
    values = pd.Series(list(cells.texts), dtype=object)
    counts = np.array([count for count, _ in cells.texts.values()])
    text = values.map(str)
    is_value = ~text.isin(MISSING_MARKERS).to_numpy()
    too_large = values.map(_is_too_large).to_numpy(dtype=bool)
    numbers = pd.to_numeric(text.where(is_value), errors="coerce").notna().to_numpy() | too_large
    # Older pandas reads whole numbers that are too large as text, and all others of the column with them.
    is_text = bool(values.map(lambda value: isinstance(value, str)).all()) and not too_large.any()
    n_values = int(counts[is_value].sum())
    if n_values and counts[numbers].sum() >= _MOSTLY_NUMBERS * n_values and not (is_text and numbers.all()):
        return judge_numbers(cells)
    dates = text.map(lambda value: _DATE.fullmatch(value) is not None).to_numpy(dtype=bool)
    if counts[dates].sum() >= _MOSTLY_DATES * counts.sum():
        return Found(Kind.date, remark=_show(cells))
    n_different = text.nunique()
    names_rows = _names_rows(cells.name) and n_different > SURELY_CATEGORIES
    if names_rows or (
        n_different > max(SURELY_CATEGORIES, MOST_DIFFERENT * cells.n_known) and not cells.has_more_texts
    ):
        return Found(Kind.identifier, remark=_show(cells))
    return judge_categories(cells)


def _names_rows(name: str) -> bool:
    return _NAMES_ROWS.fullmatch(name) is not None


def _is_marker(value: Any) -> bool:
    return isinstance(value, str) and value.strip() in MISSING_MARKERS


def find_absent(targets: pd.Series, *, is_regression: bool) -> np.ndarray:
    """Say of each target whether it is missing: a marker, such as "n/a", is a label unless numbers are wanted."""
    absent: np.ndarray = targets.isna().to_numpy()
    if is_regression and targets.dtype.kind not in "iufb":
        absent = absent | targets.map(_is_marker).to_numpy(dtype=bool)
    return absent


def _are_whole(numbers: np.ndarray) -> bool:
    """Say whether numbers are whole, and so few digits long that a float tells them apart."""
    return bool((np.abs(numbers) < 2.0**53).all() and (numbers == np.floor(numbers)).all())


def _show(cells: Cells) -> str:
    return f"such as {shorten(cells.first, _LONGEST)}"


def _refuse_infinite(cells: Cells) -> str:
    if not cells.n_infinite:
        return ""
    return (
        f"column {cells.shown} is infinite in {cells.n_infinite:,} of {cells.n_rows:,} rows, first in row "
        f"{cells.first_infinite + 1}: replace these values, or say --ignore {cells.shown}"
    )


def _say_too_many(cells: Cells) -> str:
    return (
        f"column {cells.shown} holds more than {cells.most:,} different texts, more than are kept of a table that is "
        f"read part after part: store it as numbers if it holds numbers, or leave it out with --ignore {cells.shown}"
    )


def _is_too_large(value: Any) -> bool:
    """Say whether a value is a whole number that no float is as large as: an int to newer pandas, text to older."""
    if isinstance(value, str):
        digits = value.lstrip("+-")
        return digits.isdigit() and len(digits.lstrip("0")) > sys.float_info.max_10_exp
    return isinstance(value, int) and abs(value) > sys.float_info.max
