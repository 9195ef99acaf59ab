"""Tables that are Dask collections: which they are, and their partitions as tasks."""

import math
from typing import Any
from uuid import uuid4

from hardwood.extras import explain_missing
from hardwood.quoting import list_some, quote
from hardwood.rows.parts import Part


def is_collection(X: Any) -> bool:
    """Say whether something is a collection of Dask."""
    return hasattr(X, "__dask_graph__")


def is_frame(X: Any) -> bool:
    """Say whether something is a DataFrame of Dask; of its type, because delayed objects have any attribute."""
    return is_collection(X) and hasattr(type(X), "npartitions") and hasattr(type(X), "columns") and X.ndim == 2


def is_array(X: Any) -> bool:
    """Say whether something is an array of Dask."""
    return is_collection(X) and hasattr(type(X), "chunks")


def check_table(X: Any) -> Any:
    """Return a table whose partitions have all columns, or say what it should be."""
    if is_frame(X):
        return X
    if not is_array(X):
        raise ValueError(
            f"X: expected a Dask array or DataFrame, got {type(X).__name__!r}; for tables in memory there are the "
            "estimators and functions of hardwood itself"
        )
    if X.ndim != 2:
        raise ValueError(f"X: expected rows and columns, got an array of {X.ndim} dimension(s)")
    return X if len(X.chunks[1]) == 1 else X.rechunk({1: -1})


def delay_parts(X: Any, y: Any = None, sample_weight: Any = None) -> list[Any]:
    """Return a task for each partition of a table that gives a `Part`.

    X : Dask array or DataFrame
    y, sample_weight : Dask array or Series with the same partitions, or the name of a column of X
    """
    try:
        from dask import delayed
    except ImportError:
        raise ImportError(explain_missing("hardwood.dask", "dask", "distributed")) from None
    X = check_table(X)
    given = {name: value for name, value in (("y", y), ("sample_weight", sample_weight)) if value is not None}
    named = {name: _check_name(name, value, X) for name, value in given.items() if not is_collection(value)}
    beside = {name: _check_column(name, value, X) for name, value in given.items() if is_collection(value)}
    table, *others = map(_delay, (X, *beside.values()))
    columns = list(X.columns) if is_frame(X) else None
    if columns is not None and len(columns) == len(set(named.values())):
        raise ValueError(f"X: the columns {columns} are the target and weights; there is none to learn from")
    token, take = uuid4().hex, delayed(_take_part, pure=False)
    return [
        take(
            number,
            part,
            {name: parts[number] for name, parts in zip(beside, others, strict=True)},
            named,
            columns,
            dask_key_name=f"hardwood-read-{token}-{number}",
        )
        for number, part in enumerate(table)
    ]


def _delay(collection: Any) -> list[Any]:
    """Return the partitions of a collection.

    Arrays are not optimized: where X and y come from one source, optimizing each of them would have it read twice.
    """
    return (
        list(collection.to_delayed(optimize_graph=False).ravel()) if is_array(collection) else collection.to_delayed()
    )


def _check_name(name: str, value: Any, X: Any) -> Any:
    """Return the name of a column, or say that there is no such column."""
    if not is_frame(X):
        raise ValueError(f"{name}: expected a Dask array of one dimension, with the chunks of X, got {_show(value)}")
    if isinstance(value, (str, int, tuple)) and value in list(X.columns):
        return value
    if isinstance(value, str):
        raise ValueError(f"{name}={quote(value)}: there is no such column; the columns are {list_some(X.columns)}")
    raise ValueError(f"{name}: expected a Dask Series or array, or the name of a column of X, got {_show(value)}")


def _show(value: Any) -> str:
    return quote(value) if isinstance(value, (str, int)) else repr(type(value).__name__)


def _check_column(name: str, column: Any, X: Any) -> Any:
    """Return a column once its partitions are known to be those of X, as far as anybody can tell yet."""
    if not hasattr(type(column), "npartitions") or not hasattr(type(column), "ndim"):
        raise ValueError(f"{name}: expected a Dask array or Series, got {_show(column)}")
    if column.ndim != 1:
        raise ValueError(f"{name}: expected one dimension, got {column.ndim}")
    mine, theirs = _find_lengths(X), _find_lengths(column)
    if len(mine) != len(theirs):
        raise ValueError(
            f"{name}: has {len(theirs)} partitions and X has {len(mine)}; expected the same, cut at the same rows"
        )
    for number, (rows, others) in enumerate(zip(mine, theirs, strict=True)):
        if rows != others and not math.isnan(rows) and not math.isnan(others):
            raise ValueError(
                f"{name}: has {others} rows in partition {number} and X has {rows}; expected the same everywhere"
            )
    are_known = not is_array(X) and not is_array(column) and X.known_divisions and column.known_divisions
    if are_known and X.divisions != column.divisions:
        raise ValueError(f"{name}: its divisions are {column.divisions} and those of X {X.divisions}; align them")
    return column


def _find_lengths(collection: Any) -> list[float]:
    """Return how many rows the partitions of a collection have; NaN where nobody knows yet."""
    return list(collection.chunks[0]) if is_array(collection) else [math.nan] * collection.npartitions


def _take_part(
    number: int, table: Any, beside: dict[str, Any], named: dict[str, Any], columns: list[Any] | None
) -> Part:
    """Return a partition, its target and its weights."""
    if columns is not None and list(table.columns) != columns:
        raise ValueError(
            f"X: partition {number} has the columns {list_some(list(table.columns))}, and the table has "
            f"{list_some(columns)}; give all partitions the same columns in the same order"
        )
    taken = {name: table[column] for name, column in named.items()} | beside
    X = table.drop(columns=list(named.values())) if named else table
    note = f"In partition {number} of the table, counted from 0; rows are counted from its beginning."
    return Part(number, X, taken.get("y"), taken.get("sample_weight"), f"partition {number}", note)
