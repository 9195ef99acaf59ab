"""The columns of a caller's table and those of a model, brought together by their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.table import Schema
from hardwood.table.columns import column_names, open_table, take_columns


@dataclass(frozen=True)
class Alignment:
    """A caller's table, and the same table as a model knows it.

    Parameters
    ----------
    table : DataFrame or array
        The caller's, with the columns in the model's order and, if it is a DataFrame and the model has names, under
        those.
    positions : tuple of int
        Where each feature of the model is among the caller's columns.
    names : tuple of str
        By feature of the model, what the caller calls it; of a table or a model without names, what the model does.
    """

    table: Any
    positions: tuple[int, ...]
    names: tuple[str, ...] | None

    @property
    def is_reordered(self) -> bool:
        """Whether the caller's columns are in another order than the model's."""
        return self.positions != tuple(range(len(self.positions)))


def align(schema: Schema, X: Any, respell: Callable[[str], str] = str) -> Alignment:
    """Find the columns of a model in a table: by their names, or by position where one of the two has none.

    Parameters
    ----------
    schema : Schema
        The model's columns.
    X : table
    respell : callable
        How the model's library has respelt the names that it was given.

    Raises
    ------
    ValueError
        If a column of the model is not in the table, or one of the table not in the model.
    """
    table, own = open_table(X), schema.feature_names
    if own is None or isinstance(table, np.ndarray):
        schema.check_columns(table)
        return Alignment(X, tuple(range(schema.n_features)), own)
    given = column_names(table) or _numbered_names(table, own)
    if given is None:
        schema.check_columns(table)
        given = own
    positions = schema.find_features(_respell(given, own, respell))
    names = tuple(given[j] for j in positions)
    if tuple(table.columns) != own:
        table = take_columns(table, positions, own)
    return Alignment(table, tuple(positions), names)


def _numbered_names(table: Any, own: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the numbers that columns go by, as libraries write them that make names of them; None if none is known."""
    written = tuple(map(str, table.columns))
    return written if set(written) & set(own) else None


def _respell(given: Sequence[str], own: tuple[str, ...], respell: Callable[[str], str]) -> list[str]:
    """Return names as a model has them: as they are if it knows them so, otherwise respelt if it knows them then."""
    free = set(own) - set(given)
    known = []
    for name in given:
        respelt = respell(name)
        is_respelt = name not in own and respelt in free
        free.discard(respelt)
        known.append(respelt if is_respelt else name)
    return known


def arrange(ensemble: TreeEnsemble, alignment: Alignment) -> TreeEnsemble:
    """Return an ensemble that reads the caller's columns, as they stand in the table and under their names there."""
    schema = ensemble.schema
    if not alignment.is_reordered and alignment.names == schema.feature_names:
        return ensemble
    return ensemble.remember(
        (Alignment, alignment.positions, alignment.names), lambda known: _arrange(known, alignment)
    )


def _arrange(ensemble: TreeEnsemble, alignment: Alignment) -> TreeEnsemble:
    schema, positions = ensemble.schema, np.array(alignment.positions)
    feature_of = np.argsort(positions)
    names = alignment.names
    arranged = replace(
        schema,
        feature_names=None if names is None else tuple(names[feature] for feature in feature_of),
        categories=tuple(schema.categories[feature] for feature in feature_of),
    )
    is_leaf = ensemble.feature < 0
    return replace(ensemble, feature=np.where(is_leaf, -1, positions[ensemble.feature]), schema=arranged)
