"""Categories on bins: codes of samples, and which category can become which."""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.grow.targets.categories import CATEGORY, IDLE, ON_LEFT, Partition
from hardwood.table import Schema
from hardwood.threat import Reach


class Categories(NamedTuple):
    """The categories of every feature: those of the schema, those never seen and, if values may be missing, that."""

    n_categories: np.ndarray  # int64 per feature; 0 = numerical
    reach: np.ndarray  # bool: which can become which, a square matrix per categorical feature, one after another
    reach_start: np.ndarray  # int64 per feature

    @property
    def n_codes(self) -> int:
        """How many codes the feature with the most categories has: one for movers and one for others each."""
        return 2 * int(self.n_categories.max(initial=0))

    def make_partition(self) -> Partition:
        """Allocate for the feature that has the most categories."""
        size = int(self.n_categories.max(initial=0))
        return Partition(np.zeros(size, dtype=CATEGORY), np.zeros(size, dtype=np.int64))


def read_categories(reach: Reach, schema: Schema) -> Categories:
    """Return which category can become which; what is missing can be filled in, and others blanked, as reach says."""
    tables = [np.empty((0, 0), dtype=bool)] * schema.n_features
    for j in reach.categorical:
        table = reach.categories[j]
        assert table is not None
        if schema.accepts_missing:
            blank, fill = (flags is not None and bool(flags[j]) for flags in (reach.blank, reach.fill))
            table = np.pad(table, (0, 1), constant_values=False)
            table[:-1, -1], table[-1, :-2], table[-1, -1] = blank, fill, True
        tables[j] = table
    size = np.array([len(table) for table in tables], dtype=np.int64)
    return Categories(size, np.concatenate([table.ravel() for table in tables]), np.cumsum(size**2) - size**2)


def write_codes(
    codes: np.ndarray, columns: np.ndarray, categories: Categories, X: np.ndarray, moves: np.ndarray
) -> None:
    """Write the codes of categories of some samples; `moves` says which of them the attacker moves."""
    for j in np.flatnonzero(categories.n_categories).tolist():
        size = int(categories.n_categories[j])
        own = np.nan_to_num(X[:, j], nan=size - 1).astype(np.int64)
        codes[:, columns[j, 0]] = np.where(moves, own, own + size)


def read_left_sets(
    nodes: np.ndarray, sides: np.ndarray, heavier_left: np.ndarray, schema: Schema
) -> tuple[dict[int, np.ndarray], np.ndarray]:
    """Return which categories go left, by node, and which nodes send missing ones left.

    Where nobody could sit, as in categories never seen, the heavier child is the better guess.
    """
    left_sets, missing_left = {}, heavier_left.copy()
    for node in np.flatnonzero((nodes["left"] >= 0) & (nodes["cut"] < 0)).tolist():
        labels = schema.categories[nodes["feature"][node]]
        assert labels is not None
        own = sides[node, : len(labels) + 1 + schema.accepts_missing]
        goes_left = np.where(own & IDLE != 0, heavier_left[node], own & ON_LEFT != 0)
        left_sets[node] = goes_left[: len(labels) + 1]
        if schema.accepts_missing:
            missing_left[node] = goes_left[-1]
    return left_sets, missing_left
