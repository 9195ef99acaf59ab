"""What the columns of a table are, found part by part where nobody has all rows at hand, and merged."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardwood.quoting import quote
from hardwood.table import Schema
from hardwood.table.columns import open_table
from hardwood.table.likeness import find_whole_columns, is_polars
from hardwood.threat import ThreatModel

# Rows that count as one while something is found of each column.
WIDE_ROWS = 64


@dataclass(frozen=True)
class ColumnSummary:
    """What the columns of some rows are."""

    schema: Schema
    head: Any  # the first row, for the types
    whole: frozenset[int]  # the columns whose types hold whole numbers
    any_missing: bool  # whether a value of any row is
    is_missing: np.ndarray  # bool per feature: whether one is of a row that weighs something
    farthest: np.ndarray  # float64 per feature: the largest absolute value of rows that weigh something

    def merge(self, later: "ColumnSummary") -> "ColumnSummary":
        """Return what the columns of these rows and later ones are."""
        schema = _join_schemas(self.schema, later.schema)
        schema.check_columns(open_table(later.head))
        return ColumnSummary(
            schema=schema,
            head=self.head,
            whole=self.whole & later.whole,
            any_missing=self.any_missing or later.any_missing,
            is_missing=self.is_missing | later.is_missing,
            farthest=np.maximum(self.farthest, later.farthest),
        )

    def settle(self, threat: ThreatModel, schema: Schema) -> ThreatModel:
        """Return the threat model in numbers, as a table in memory would have it."""
        template = make_template(self.head, self.whole)
        return threat.settle(template, schema.encode(template), schema)


def summarize_columns(X: Any, matrix: np.ndarray, kept: np.ndarray | None, schema: Schema) -> ColumnSummary:
    """Say what the columns of some rows are.

    matrix : the rows, encoded by the schema
    kept : bool per row, whether it weighs something; None: all do
    """
    any_missing = is_missing_somewhere(matrix)
    if kept is not None:
        matrix = matrix[kept]
    return ColumnSummary(
        schema=schema,
        head=X[:1],
        whole=frozenset(column.position for column in find_whole_columns(X)),
        any_missing=any_missing,
        is_missing=np.isnan(matrix).any(axis=0) if any_missing else np.zeros(schema.n_features, dtype=bool),
        farthest=np.maximum(_reduce(np.fmax, matrix), -_reduce(np.fmin, matrix), dtype=np.float64),
    )


def make_template(head: Any, whole: Collection[int]) -> Any:
    """Return the first row of a table, with types that hold whole numbers only where those of all its parts do."""
    lost = [column.position for column in find_whole_columns(head) if column.position not in whole]
    if lost and is_polars(head):
        raise ValueError(f"X: column {quote(head.columns[lost[0]])} has whole numbers in some batches only")
    return head.astype({head.columns[j]: np.float64 for j in lost}) if lost else head


def _reduce(function: np.ufunc, matrix: np.ndarray) -> np.ndarray:
    """Return the largest, or smallest, of 0 and the values of each column.

    Many rows are taken as one long row first: NumPy is ten times as fast with it as with the few values of a row.
    """
    n_features = matrix.shape[1]
    whole = len(matrix) // WIDE_ROWS * WIDE_ROWS
    wide = function.reduce(matrix[:whole].reshape(-1, WIDE_ROWS * n_features), axis=0, initial=0.0)
    parts = np.concatenate([wide.reshape(WIDE_ROWS, n_features), matrix[whole:]])
    return np.asarray(function.reduce(parts, axis=0, initial=0.0))


def _join_schemas(schema: Schema, other: Schema) -> Schema:
    """Return the schema with the categories that only a later part has."""
    if schema.categories == other.categories or schema.n_features != other.n_features:
        return schema
    categories: list[Any] = []
    for j, (mine, theirs) in enumerate(zip(schema.categories, other.categories, strict=True)):
        if (mine is None) != (theirs is None):
            raise ValueError(f"X: column {quote(schema.key(j))} is categorical in some batches only; give it one type")
        # In the order in which `Schema.from_table` has the labels of a whole table.
        labels = sorted({(type(label).__name__, label) for label in (*(mine or ()), *(theirs or ()))})
        categories.append(None if mine is None else tuple(dict.fromkeys(label for _, label in labels)))
    return replace(schema, categories=tuple(categories))


def hides(threat: ThreatModel) -> bool:
    """Say whether an attacker makes values missing, or fills in missing ones."""
    return threat.blank is not None or threat.fill is not None


def is_missing_somewhere(matrix: np.ndarray) -> bool:
    """Say whether a value of an encoded matrix is missing; there is no infinity in it."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isnan(matrix.sum(dtype=np.float64))) and bool(np.isnan(matrix).any())
