"""Reading the columns of whatever table a user has: names, numbers, labels."""

import math
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from hardwood.quoting import list_some, quote, shorten, shortening

Label = str | int | float | bool


class MissingValueError(ValueError):
    """A value is missing where none may be.

    Parameters
    ----------
    place : which one
    reason : why it may not be
    remedy : what to do about it
    """

    def __init__(self, place: str, reason: str, remedy: str) -> None:
        super().__init__(f"{place}, and {reason}; {remedy}")
        self.place, self.remedy = place, remedy


def say_where(names: Sequence[str] | None, j: int) -> str:
    """Name a column for an error message."""
    return f"feature {quote(j if names is None else names[j])}"


def open_table(X: Any) -> Any:
    """Return a DataFrame as it is and anything else as a two-dimensional array of its own dtype."""
    if type(X) is np.ndarray and X.ndim == 2 and X.size and X.dtype.kind in "biuf":
        return X  # nothing to check: small tables should not wait for check_array
    if not (hasattr(X, "columns") and hasattr(X, "dtypes")):
        if isinstance(X, (list, tuple)) and np.asarray(X).dtype.kind in "US":
            # Left to itself, NumPy turns the numbers of a mixed list into text.
            X = np.asarray(X, dtype=object)
        with shortening():
            X = check_array(X, dtype=None, ensure_all_finite=False, ensure_min_samples=0, input_name="X")
    if X.shape[0] == 0:
        raise ValueError(f"X has 0 sample(s) (shape={X.shape}): expected a table of at least one row")
    return X


def get_column(table: Any, j: int) -> Any:
    """Return column `j`."""
    return table[:, j] if isinstance(table, np.ndarray) else table[table.columns[j]]


def take_columns(table: Any, positions: Sequence[int], names: Sequence[str]) -> Any:
    """Return some columns of a DataFrame, in that order and under these names."""
    taken = table[[table.columns[j] for j in positions]]
    taken.columns = list(names)
    return taken


def _values(column: Any) -> np.ndarray:
    if isinstance(column, np.ndarray):
        return column
    if str(column.dtype) in ("Int128", "UInt128"):  # of polars; NumPy has no integers of that size
        return np.array(column.to_list(), dtype=object)
    return np.asarray(column.to_numpy())


def column_names(table: Any) -> tuple[str, ...] | None:
    """Return the names of a DataFrame's columns if they are strings."""
    if isinstance(table, np.ndarray):
        return None
    names = list(table.columns)
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"X: column name {quote(twice)} occurs more than once; rename a column")
    strings = [isinstance(name, str) for name in names]
    if any(strings) and not all(strings):
        raise TypeError(
            f"X: column names must all be strings or none, got {quote(names[strings.index(False)])} "
            f"beside {quote(names[strings.index(True)])}; X.columns = X.columns.astype(str) helps"
        )
    return tuple(map(str, names)) if names and all(strings) else None


def is_plain_numbers(table: Any) -> bool:
    """Say whether the table is numbers in NumPy dtypes throughout: `check_array` can have it."""
    dtypes = [table.dtype] if isinstance(table, np.ndarray) else list(table.dtypes)
    return all(isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in dtypes)


def chosen_columns(table: Any, categorical_features: Any) -> set[int]:
    """Return the indices of the columns that `categorical_features` speaks of."""
    if categorical_features is None:
        return set()
    n_features, names = table.shape[1], column_names(table)
    if isinstance(categorical_features, str) and categorical_features == "from_dtype":
        if isinstance(table, np.ndarray):
            return set()
        dtypes = [str(get_column(table, j).dtype) for j in range(n_features)]
        return {j for j, d in enumerate(dtypes) if d.startswith(("category", "Categorical", "Enum"))}
    if isinstance(categorical_features, (str, bytes)) or not hasattr(categorical_features, "__iter__"):
        raise ValueError(
            f"categorical_features: {quote(categorical_features)} is neither 'from_dtype' nor None nor "
            "a list of names or indices nor a boolean mask"
        )
    items = [item.item() if isinstance(item, np.generic) else item for item in categorical_features]
    if items and all(isinstance(item, bool) for item in items):
        if len(items) != n_features:
            raise ValueError(
                f"categorical_features: the mask has {len(items)} entries, but X has {n_features} features"
            )
        return {j for j, item in enumerate(items) if item}
    return {_position(item, names, n_features) for item in items}


def _position(item: Any, names: tuple[str, ...] | None, n_features: int) -> int:
    if isinstance(item, str):
        if names is None or item not in names:
            known = "X has no column names" if names is None else f"the columns are {list_some(names)}"
            raise ValueError(f"categorical_features: unknown column {quote(item)}; {known}")
        return names.index(item)
    if isinstance(item, bool) or not isinstance(item, int) or not 0 <= item < n_features:
        raise ValueError(
            f"categorical_features: {quote(item)} is neither a column name nor an index from 0 to {n_features - 1}"
        )
    return item


def _is_missing(value: Any) -> bool:
    """Recognise None, NaN and the markers of pandas, which may not be installed."""
    if isinstance(value, (float, np.floating)):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def read_numbers(column: Any, where: str) -> np.ndarray:
    """Return a numerical column; NaN where a value is missing."""
    values = _values(column)
    if values.dtype.kind in "biuf":
        return values
    if set(map(type, values)) <= {bool, int, float}:
        with suppress(OverflowError):  # the column is then gone through value by value, to name the one
            return values.astype(np.float64)
    return np.fromiter((_number(value, where) for value in values), np.float64, len(values))


def _number(value: Any, where: str) -> float:
    remedy = "declare the column in categorical_features or convert it to numbers"
    # Text is refused even where it reads as a number: it may be a code, such as '01234'.
    if isinstance(value, (str, bytes, complex, np.complexfloating, np.datetime64, np.timedelta64)):
        shown = value if isinstance(value, bytes) else str(value)
        raise ValueError(f"X: {where} holds {quote(shown)}, which is not a number; {remedy}")
    if _is_missing(value):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"X: {where} holds {quote(value)}, expected numbers up to 1.8e308; {remedy}") from None
    except (TypeError, ValueError) as error:
        raise TypeError(f"X: {where} holds {quote(value)}: {shorten(error)}; {remedy}") from None


def read_codes(column: Any, labels: tuple[Label, ...], where: str, *, keep_missing: bool = False) -> np.ndarray:
    """Return a categorical column as codes; what is not among the labels gets one past the last.

    With `keep_missing` a missing value is NaN, otherwise it is not among the labels.
    """
    unseen = len(labels)
    code_of = {label: code for code, label in enumerate(labels)}
    if str(column.dtype) == "category":
        # pandas: look each category up once, not each row. A missing value has code -1: the last.
        codes = [code_of.get(category, unseen) for category in column.cat.categories]
        return np.array([*codes, math.nan if keep_missing else unseen])[column.cat.codes.to_numpy()]
    values = _values(column).tolist()
    try:
        found = np.fromiter((code_of.get(v, unseen) for v in values), np.float64, len(values))
    except TypeError as error:
        raise TypeError(f"X: {where} holds a value that is no category: {shorten(error)}") from None
    if keep_missing:
        found[[row for row in np.flatnonzero(found == unseen).tolist() if _is_missing(values[row])]] = math.nan
    return found


def labels_of(codes: np.ndarray, labels: tuple[Label, ...], unseen: Label | None) -> np.ndarray:
    """Return the labels of codes: None for NaN, `unseen` for the code of categories that are not among the labels."""
    label_of = np.array([*labels, unseen, None], dtype=object)
    return label_of[np.where(np.isnan(codes), len(labels) + 1, codes).astype(np.intp)]


def name_unseen(labels: tuple[Label, ...]) -> Label:
    """Return something that is not among the labels, but like them: the next number, or a word."""
    numbers = [label for label in labels if not isinstance(label, str)]
    if len(numbers) == len(labels):
        return math.floor(max(numbers, default=-1)) + 1
    name = "unseen"
    while name in labels:
        name = f"({name})"
    return name


def read_labels(column: Any, where: str, *, keep_missing: bool = False) -> tuple[Label, ...]:
    """Return the labels that occur in a column or that its dtype declares, sorted; what is missing is none of them."""
    values = _values(column)
    if values.dtype.kind not in "biufOUS":
        raise ValueError(f"X: {where} is {values.dtype}; convert its categories to text or numbers")
    declares = str(column.dtype).startswith(("category", "Enum"))
    try:
        distinct = {(type(value), value) for value in values.tolist()}
        plain = [value.item() if isinstance(value, np.generic) else value for _, value in distinct]
        known = [value for value in plain if not _is_missing(value)]
        if len(known) < len(plain) and not keep_missing:
            raise MissingValueError(
                f"X: {where} is categorical and has a missing value",
                "this model has no place for missing values",
                "give them a category of their own, such as 'missing', or leave out such rows",
            )
        known += list(column.dtype.categories) if declares else []
        # Equal labels of different types (1, True) are one; the type's name decides which stays.
        labels = sorted({(type(value).__name__, value) for value in known})
    except TypeError as error:
        raise TypeError(f"X: {where} holds a value that is no category: {shorten(error)}") from None
    return tuple(dict.fromkeys(value for _, value in labels))


def is_label(value: Any) -> bool:
    """Say whether a value is a label: text, a truth value, or a number within what a float64 can hold."""
    return isinstance(value, str) or (isinstance(value, (int, float)) and abs(value) <= sys.float_info.max)


def check_labels(labels: Any, where: str) -> None:
    """Refuse labels that JSON cannot hold, and labels that occur twice."""
    if not isinstance(labels, (list, tuple)):
        raise ValueError(f"{where}: expected None or a list of labels, got {quote(labels)}")
    for label in labels:
        if not is_label(label):
            raise ValueError(f"{where}: {quote(label)} is not a str, bool, or number up to 1.8e308; convert it to text")
    if len(set(labels)) != len(labels):
        raise ValueError(f"{where}: a label occurs more than once in {quote(labels)}")


def check_classes(labels: np.ndarray, name: str = "y") -> None:
    """Refuse labels of classes that JSON cannot hold, such as dates: a model of them could not be saved."""
    # `check_estimator` looks for the first three words.
    remedy = (
        f"Unknown label type; expected text, whole numbers or truth values: {name}.astype(str) makes text of labels, "
        f"{name}.astype(int) numbers"
    )
    if labels.dtype.kind != "O":
        if labels.dtype.kind not in "biufU" or labels.dtype == np.longdouble != np.float64:
            raise ValueError(f"{name} is {shorten(labels.dtype)}. {remedy}")
        return
    if set(map(type, labels)) <= {str, np.str_}:
        if any(label.endswith("\0") for label in set(labels)):
            raise ValueError(f"{name}: a label ends with a zero character, which is lost in arrays; strip it")
        return
    for row, label in enumerate(labels):
        if _is_missing(label):
            raise ValueError(f"{name}[{row}] is {quote(label)}: a label is missing; leave such rows out")
    for row, label in enumerate(labels):
        if not isinstance(label, str):
            raise ValueError(f"{name}[{row}] is {quote(label)}, an object of type {type(label).__name__}. {remedy}")
