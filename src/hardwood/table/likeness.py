"""Giving a table back: encoded rows as a table of the kind, the columns and the types that the caller has."""

import sys
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from hardwood.table.columns import get_column, labels_of
from hardwood.table.schema import Schema


class WholeColumn(NamedTuple):
    """A column of whole numbers, or of truth values as 0 and 1: where it is, and what its type can hold."""

    position: int
    least: float
    most: float


def is_frame(X: Any) -> bool:
    """Say whether a table is a DataFrame, of whichever library."""
    return hasattr(X, "columns") and hasattr(X, "dtypes")


def is_polars(X: Any) -> bool:
    """Say whether a table is a DataFrame of polars, which may not be installed."""
    return is_frame(X) and type(X).__module__.partition(".")[0] == "polars"


def find_whole_columns(X: Any) -> list[WholeColumn]:
    """Return the columns of a DataFrame whose types hold whole numbers or truth values; an array has none."""
    if not is_frame(X):
        return []
    names = list(map(str, X.dtypes))
    limits = {name: _find_limits(name) for name in set(names)}
    return [WholeColumn(j, *ends) for j, name in enumerate(names) if (ends := limits[name]) is not None]


def _find_limits(dtype: str) -> tuple[float, float] | None:
    """Return the least and the most that a type of whole numbers or truth values can hold; None of other types."""
    name = dtype.lower().partition("[")[0]  # int64, Int64, UInt8, boolean, uint8[pyarrow]
    if name.startswith("bool"):
        return 0.0, 1.0
    if not (name.startswith(("int", "uint")) and name[-1].isdigit()):
        return None
    limits = np.iinfo(name)
    # The largest int64 is no float64, and the next one that is does not fit.
    most = float(limits.max) if int(float(limits.max)) <= limits.max else np.nextafter(limits.max, 0.0)
    return float(limits.min), float(most)


def decode_like(
    schema: Schema, matrix: np.ndarray, X: Any, *, whole: Collection[int] = (), same_rows: bool = False
) -> Any:
    """Turn encoded rows into a table like `X`.

    Parameters
    ----------
    schema : Schema, by which `X` was encoded
    matrix : ndarray of shape (n_rows, n_features)
        Rows as `Schema.encode` returns them; NaN is a missing value.
    X : the table that the rows come from
        An array (or whatever becomes one) gives an array. A DataFrame gives a DataFrame of the same library, with its
        names and its types of categories.
    whole : positions of columns of whole numbers or truth values that get their type back
        The values in `matrix` are whole there. All other numbers are float64. A type that cannot hold missing values,
        as those of NumPy cannot, stays float64 where there are some.
    same_rows : bool, default=False
        Whether the rows are those of `X`, changed or not: they get its index, and whole numbers that did not change are
        the caller's own, though they may be too large for a float64.
    """
    if not is_frame(X):
        table = matrix.astype(object) if schema.categorical else matrix
        for j in schema.categorical:
            table[:, j] = _read_labels(schema, matrix, j)
        return table
    if is_polars(X):
        return _make_polars(schema, matrix, X, whole, same_rows=same_rows)
    return _make_pandas(schema, matrix, X, whole, same_rows=same_rows)


def _read_labels(schema: Schema, matrix: np.ndarray, j: int) -> np.ndarray:
    labels = schema.categories[j]
    assert labels is not None
    return labels_of(matrix[:, j], labels, schema.unseen(j))


def _make_pandas(schema: Schema, matrix: np.ndarray, X: Any, whole: Collection[int], *, same_rows: bool) -> Any:
    import pandas

    frame = pandas.DataFrame(matrix, columns=X.columns, index=X.index if same_rows else None)
    for j in schema.categorical:
        name, dtype = X.columns[j], get_column(X, j).dtype
        values = _read_labels(schema, matrix, j)
        if isinstance(dtype, pandas.CategoricalDtype):
            known = dtype.categories
            new = [label for label in dict.fromkeys(values.tolist()) if label is not None and label not in known]
            if new:
                dtype = pandas.CategoricalDtype([*known, *new], dtype.ordered)
            frame[name] = pandas.Categorical(values, dtype=dtype)
        elif getattr(dtype, "kind", "O") in "iufb":
            frame[name] = pandas.Series(values.tolist(), index=frame.index)  # as pandas reads labels that are numbers
        else:
            frame[name] = pandas.Series(values, index=frame.index, dtype=dtype)
    for j in whole:
        own, values = get_column(X, j), matrix[:, j]
        if not isinstance(own.dtype, np.dtype):
            cells = _as_whole(values, own, same_rows=same_rows)
            frame[X.columns[j]] = pandas.Series(cells, index=frame.index, dtype=own.dtype)
        elif not np.isnan(values).any():
            column, before = values.astype(own.dtype), own.to_numpy()
            if same_rows:
                column = np.where(before.astype(np.float64) == values, before, column)
            frame[X.columns[j]] = column
    return frame


def _make_polars(schema: Schema, matrix: np.ndarray, X: Any, whole: Collection[int], *, same_rows: bool) -> Any:
    polars = sys.modules["polars"]
    columns = []
    for j, name in enumerate(X.columns):
        dtype = X[name].dtype
        if schema.categories[j] is not None:
            values = _read_labels(schema, matrix, j).tolist()
            try:
                columns.append(polars.Series(name, values, dtype=dtype))
            except (TypeError, polars.exceptions.PolarsError):  # a label that this type does not know
                columns.append(polars.Series(name, values))
        elif j in whole:
            cells = _as_whole(matrix[:, j], X[name], same_rows=same_rows)
            columns.append(polars.Series(name, cells, dtype=dtype))
        else:
            columns.append(polars.Series(name, matrix[:, j], nan_to_null=True))
    return polars.DataFrame(columns)


def _as_whole(values: np.ndarray, own: Any, *, same_rows: bool) -> list[Any]:
    """Return whole numbers, or truth values, as Python has them; None where one is missing."""
    kind = bool if str(own.dtype).lower().startswith("bool") else int
    cells = [None if value != value else kind(value) for value in values.tolist()]
    if not same_rows:
        return cells
    pairs = zip(cells, own.to_list(), values.tolist(), strict=True)
    return [cell if cell is None or float(old) != value else old for cell, old, value in pairs]
