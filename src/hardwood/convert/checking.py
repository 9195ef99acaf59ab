"""Every import is compared with the model it came from before anybody relies on it."""

from typing import Any

import numpy as np

from hardwood.convert.precision import LARGEST
from hardwood.convert.source import Source
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.bit_sets import unpack_set
from hardwood.quoting import list_some, quote, shorten
from hardwood.table import Schema
from hardwood.table.columns import get_column, open_table, read_codes, say_where

N_ROWS = 512
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
N_SHOWN = 5  # rows or labels that an error lists


def rows_near_thresholds(
    ensemble: TreeEnsemble,
    n_rows: int = N_ROWS,
    *,
    float32: bool = False,
    missing: bool = False,
    infinite: bool = False,
) -> np.ndarray:
    """Return rows that hug the thresholds: a value is a threshold of its feature or the float next to one.

    In half of the rows the values are drawn feature by feature, which mixes sides; each of the others goes to a leaf
    drawn at random and stands in a corner of the box that the leaf covers. With `float32`, the float32 numbers beside
    a threshold occur too, and nothing that is too large for float32. With `missing` and `infinite`, some values are
    NaN and infinite.
    """
    generator = np.random.default_rng(0)
    rows = np.zeros((n_rows, ensemble.schema.n_features))
    limit = LARGEST_FLOAT32 if float32 else LARGEST
    by_feature = np.argsort(ensemble.feature, kind="stable")
    ends = np.searchsorted(ensemble.feature[by_feature], np.arange(ensemble.schema.n_features + 1))
    for feature, labels in enumerate(ensemble.schema.categories):
        if labels is not None:
            rows[:, feature] = generator.integers(0, len(labels) + 1, n_rows)
            continue
        thresholds = np.unique(ensemble.threshold[by_feature[ends[feature] : ends[feature + 1]]])
        near = _neighbours(thresholds[np.abs(thresholds) < limit], float32)
        near = near[np.abs(near) <= limit]
        if infinite:
            near = np.append(near, [-np.inf, np.inf])
        if len(near):
            rows[:, feature] = generator.choice(near, n_rows)
    _go_to_leaves(ensemble, rows[: n_rows // 2], generator, limit)
    if missing:
        some = rows[::4]
        some[generator.random(some.shape) < 0.2] = np.nan
    return rows


def _neighbours(thresholds: np.ndarray, float32: bool) -> np.ndarray:
    """Return the thresholds and the floats on both sides of each, in float64 and, if asked to, in float32."""
    near = []
    with np.errstate(over="ignore"):
        for dtype in (np.float64, np.float32) if float32 else (np.float64,):
            rounded = thresholds.astype(dtype)
            near += [np.nextafter(rounded, dtype(-np.inf)), rounded, np.nextafter(rounded, dtype(np.inf))]
    return np.concatenate([numbers.astype(np.float64) for numbers in near])


def _go_to_leaves(ensemble: TreeEnsemble, rows: np.ndarray, generator: np.random.Generator, limit: float) -> None:
    """Move each row into a corner of the box of a leaf, which is a walk from the leaf up to its root."""
    inner = np.flatnonzero(ensemble.feature >= 0)
    parent = np.full(ensemble.n_nodes, -1)
    parent[ensemble.left[inner]] = parent[ensemble.right[inner]] = inner
    low, high = np.full(rows.shape, -np.inf), np.full(rows.shape, np.inf)
    node = generator.choice(np.flatnonzero(ensemble.feature < 0), len(rows))
    while (parent[node] >= 0).any():
        row = np.flatnonzero(parent[node] >= 0)
        child, node[row] = node[row], parent[node[row]]
        above = node[row]
        feature, goes_left = ensemble.feature[above], ensemble.left[above] == child
        is_number = ensemble.category_start[above] < 0
        at = row[is_number & goes_left], feature[is_number & goes_left]
        high[at] = np.minimum(high[at], ensemble.threshold[above[is_number & goes_left]])
        at = row[is_number & ~goes_left], feature[is_number & ~goes_left]
        low[at] = np.maximum(low[at], ensemble.threshold[above[is_number & ~goes_left]])
        for k in np.flatnonzero(~is_number).tolist():
            labels = ensemble.schema.categories[feature[k]]
            assert labels is not None
            left_set = unpack_set(ensemble.category_words, ensemble.category_start[above[k]], len(labels) + 1)
            codes = np.flatnonzero(left_set == goes_left[k])
            if len(codes):
                rows[row[k], feature[k]] = generator.choice(codes)
    upper = np.isfinite(high) & (generator.random(rows.shape) < 0.5) | np.isneginf(low)
    with np.errstate(over="ignore"):
        corner = np.where(upper, high, np.nextafter(low, np.inf))
    inside = (low < corner) & (corner <= high) & (np.abs(corner) <= limit)
    rows[inside] = corner[inside]


def check_import(source: Source) -> None:
    """Raise ``ValueError`` unless an import predicts what its source predicts, on rows that hug the thresholds."""
    ensemble = source.ensemble
    # A split between missing values and all numbers has an infinite threshold, brought down to the largest number on
    # import. Infinity itself then lies on the other side; but it is no number that a TreeEnsemble takes.
    infinite = source.infinite and bool((ensemble.threshold < LARGEST).all())
    missing = ensemble.schema.accepts_missing
    rows = rows_near_thresholds(ensemble, float32=source.float32, missing=missing, infinite=infinite)
    if not source.takes_unseen:
        for j in ensemble.schema.categorical:
            rows[:, j] = np.minimum(rows[:, j], len(ensemble.schema.categories[j] or ()) - 1)
    wrong, _, _ = _compare(source, ensemble.output(rows), source.as_table(rows), outputs=True)
    if wrong.any():
        raise ValueError(
            f"{source.name} could not be imported faithfully: the import predicts otherwise on {wrong.sum()} of "
            f"{len(rows)} rows near its thresholds. Please report this with the model."
        )


def check_rows(source: Source, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Raise ``ValueError`` unless an import predicts what its source predicts, on the rows of a table.

    Returns the rows, encoded, and what the import says of them, so that nobody has to work these out again.

    A pandas DataFrame is given to the source as it is, and so is an array of numbers for a model without categories:
    the source reads the table by itself. Anything else it is given as hardwood has read it.
    """
    schema = source.ensemble.schema
    matrix = schema.encode(X)
    as_it_is = _is_pandas(X) or (isinstance(X, np.ndarray) and X.dtype.kind in "biuf" and not schema.categorical)
    try:
        output = source.ensemble.output(matrix)
        table = X if as_it_is else source.as_table(matrix)
        wrong, ours, theirs = _compare(source, output, table, outputs=False)
    except Exception as error:  # a library may raise anything
        raise ValueError(
            f"X: {source.name} itself does not predict for this table: {_first_line(error)}{_name_odd_type(schema, X)}"
        ) from error
    if wrong.any():
        rows = np.flatnonzero(wrong)
        first = int(rows[0])
        shown = ", ".join(map(str, rows[:N_SHOWN])) + (", ..." if len(rows) > N_SHOWN else "")
        raise ValueError(
            f"X: {source.name} predicts otherwise than its import on {len(rows)} of {len(matrix)} rows (counted from "
            f"0: {shown}), so nothing can be said of it. In row {first} it says {quote(theirs[rows].tolist()[0])}, "
            f"the import {quote(ours[rows].tolist()[0])}{_name_unknown(schema, matrix[first], X, first)}. Where the "
            "columns and categories of X are those that the model was trained on, please report this with the model."
        )
    return matrix, output


def check_labels_known(schema: Schema, X: Any) -> None:
    """Raise ``ValueError`` if a categorical column of a table holds several labels and the model knows none of them.

    One row may well hold a category that is new to a model; a column of nothing but new ones is another spelling.
    """
    if not schema.categorical:
        return
    table = open_table(X)
    for j in schema.categorical:
        labels = schema.categories[j] or ()
        column = get_column(table, j)
        codes = read_codes(column, labels, say_where(schema.feature_names, j), keep_missing=True)
        if (codes[~np.isnan(codes)] != len(labels)).any():
            continue
        values = zip(_list_values(column), codes, strict=True)
        found = list(dict.fromkeys(value for value, code in values if code == code))
        if len(found) > 1:
            raise ValueError(
                f"X: {say_where(schema.feature_names, j)} holds the categories {list_some(found, N_SHOWN)}, and the "
                f"model knows none of them; it knows {list_some(labels, N_SHOWN)}"
            )


def _name_odd_type(schema: Schema, X: Any) -> str:
    """Name a column of a DataFrame that has categories for the model or for the table, but not for both."""
    for j, dtype in enumerate(map(str, getattr(X, "dtypes", ()))):
        is_categorical = schema.categories[j] is not None
        if is_categorical != dtype.startswith(("category", "Categorical", "Enum")):
            holds = "categories" if is_categorical else "numbers"
            return f" ({say_where(schema.feature_names, j)} holds {holds} for the model, and is {quote(dtype)} in X)"
    return ""


def _name_unknown(schema: Schema, codes: np.ndarray, X: Any, row: int) -> str:
    """Name a category of a row that the model does not know, of which libraries make different things."""
    for j in schema.categorical:
        if codes[j] == len(schema.categories[j] or ()):
            label = _list_values(get_column(open_table(X), j))[row]
            return f"; {say_where(schema.feature_names, j)} holds {quote(label)} there, which the model does not know"
    return ""


def _compare(
    source: Source, output: np.ndarray, table: Any, *, outputs: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which rows are predicted otherwise, what the import predicts, and what the source does.

    `output` is what the import says of them. With `outputs`, it has to be what the source says, up to rounding.
    """
    ensemble = source.ensemble
    # A copy each time: a model may write into its table, such as a pipeline with StandardScaler(copy=False).
    theirs = source.predict(table.copy())
    if np.shape(theirs) != (len(output),):
        raise ValueError(
            f"{source.name} predicts an array of shape {np.shape(theirs)} for {len(output)} rows, not one each"
        )
    if ensemble.classes is None:
        ours = output[:, 0]
        wrong = ~_same_up_to_rounding(ensemble, ours, theirs)
    else:
        decided = ensemble.choose(output)
        ours = ensemble.classes.take(decided)
        wrong = ours != theirs
        if source.probability is not None and wrong.any():
            likely = source.probability(table.copy())
            wrong &= likely[np.arange(len(output)), decided] < likely.max(axis=1)
    if outputs and source.output is not None:
        wrong |= ~_same_up_to_rounding(ensemble, output, source.output(table.copy()).reshape(output.shape)).all(axis=1)
    return wrong, ours, theirs


def _same_up_to_rounding(ensemble: TreeEnsemble, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    scale = max(np.abs(ours).max(), np.abs(theirs).max())
    return np.abs(ours - theirs) <= ensemble.n_trees * np.finfo(ensemble.precision).eps * scale


def _list_values(column: Any) -> list[Any]:
    return (column if isinstance(column, np.ndarray) else column.to_numpy()).tolist()


def _is_pandas(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] == "pandas" and hasattr(X, "columns")


def _first_line(error: Exception) -> str:
    return shorten((str(error).strip() or type(error).__name__).partition("\n")[0])
