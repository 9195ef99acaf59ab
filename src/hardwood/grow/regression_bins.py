"""Regression trees on bins: few thresholds per feature, of which the best is found exactly. For large tables.

Samples are numbered by their targets. All targets are known before a row is coded, so the codes of a row, from a table
in memory or from a batch of a stream, are written where they belong.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow import binned_numbers
from hardwood._kernels.grow.nodes import NODES, Limits
from hardwood._kernels.grow.number_categories import IDLE, Categories
from hardwood._kernels.grow.sweep import Units
from hardwood.grow.bins import Bins, Sample, choose_bins, choose_code_type, encode_rows, take_sample
from hardwood.grow.sweep import Roster, make_numbers, plant, raise_tree
from hardwood.grow.workers import Workers
from hardwood.table import Schema
from hardwood.threat import Reach

# Tables of more rows are binned unless the user says otherwise: up to here the exact grower takes a tenth of a second,
# for ten features and a depth of 8 (`benchmarks/regression.py`).
AUTO_REGRESSION_ROWS = 20_000
# More bins than codes of one byte can tell apart: bins for all ends of reach.
ALL_ENDS = 1 << 16
# Rows that are coded at a time.
BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class CodedNumbers:
    """All samples in the order of their targets, in codes: what regression trees on bins are grown from."""

    codes: np.ndarray  # uint8 or uint16 (sample, column), read-only
    columns: binned_numbers.Columns
    categories: Categories | None  # None: all features are numbers
    roster: Roster
    rank: np.ndarray  # uint32 per row: its number in the order of the targets

    @property
    def n_parts(self) -> int:
        """How many samples a row is: one, or a part that moves and one that does not."""
        return len(self.roster.row) // len(self.rank)

    def draw(self, drawn: np.ndarray) -> np.ndarray:
        """Return the samples of rows, with repetitions, ascending."""
        first = np.sort(self.rank[drawn]) * np.uint32(self.n_parts)
        return first if self.n_parts == 1 else np.repeat(first, 2) + np.tile(np.arange(2, dtype=np.uint32), len(drawn))


def cut_batches(X: np.ndarray) -> Iterator[np.ndarray]:
    """Cut a table in memory into batches, so that no second copy of all its codes is made."""
    return (X[start : start + BATCH_ROWS] for start in range(0, len(X), BATCH_ROWS))


def sample_numbers(X: np.ndarray, reach: Reach, max_bins: int) -> Sample:
    """Draw the rows of a table in memory that thresholds are chosen from."""
    return take_sample(X, _name_no_class(len(X)), reach, None if max_bins >= ALL_ENDS else max_bins)


def code_numbers(
    batches: Iterable[np.ndarray], sample: Sample, reach: Reach, roster: Roster, max_bins: int, workers: Workers
) -> CodedNumbers:
    """Choose thresholds by a sample, and put the codes of the rows of batches where their targets say.

    batches : all rows that the roster knows, in their own order
    """
    coding = _plan(sample, reach, roster, max_bins)
    n_parts = 1 + coding.stays
    n_rows = len(roster.row) // n_parts
    rank = np.empty(n_rows, dtype=np.uint32)
    rank[roster.row[::n_parts]] = np.arange(n_rows, dtype=np.uint32)
    codes: np.ndarray = np.empty((n_rows, n_parts, coding.n_columns), dtype=coding.dtype)
    start = 0
    for X in batches:
        own = coding.code(X, workers).reshape(n_parts, len(X), coding.n_columns)
        codes[rank[start : start + len(X)]] = own.swapaxes(0, 1)
        start += len(X)
    codes = frozen(codes.reshape(len(roster.row), coding.n_columns))
    return CodedNumbers(codes, coding.columns, coding.categories, roster, rank)


@dataclass(frozen=True)
class _Coding:
    """How rows become codes."""

    bins: Bins  # of numbers, in their order
    reach: Reach  # of all features, with whether anybody attacks
    stays: bool  # whether a row is two samples, one that moves and one that does not
    columns: binned_numbers.Columns
    categories: Categories | None

    @property
    def n_columns(self) -> int:
        """How many codes a sample has."""
        return int(self.columns.columns.max()) + 1

    @property
    def dtype(self) -> type:
        """The smallest type that holds all codes."""
        return choose_code_type(self.columns.width)

    def code(self, X: np.ndarray, workers: Workers) -> np.ndarray:
        """Return the codes of some rows, and then of the parts of them that stay."""
        categorical = self.columns.categorical
        numbers = np.flatnonzero(~categorical)
        halves = np.array([self.stays, self.stays])
        codes = np.empty((len(X) * (1 + self.stays), 0), dtype=np.uint8)
        if len(numbers):
            own = X if self.categories is None else X[:, numbers]
            codes = encode_rows(own, _name_no_class(len(X)), self.reach.select(numbers), halves, self.bins, workers)
        return codes if self.categories is None else self._add_categories(X, codes, self.categories)

    def _add_categories(self, X: np.ndarray, codes: np.ndarray, categories: Categories) -> np.ndarray:
        """Return the codes of numbers and of categories, which have a column each."""
        columns, size = self.columns.columns, categories.n_categories
        coded: np.ndarray = np.empty((len(codes), self.n_columns), dtype=self.dtype)
        coded[:, : codes.shape[1]] = codes
        for feature in np.flatnonzero(size).tolist():
            own = np.nan_to_num(X[:, feature]).astype(np.int64)
            coded[: len(X), columns[feature, 0]] = own + size[feature] * categories.moves[feature]
            if self.stays:
                coded[len(X) :, columns[feature, 0]] = own
        is_missing = np.isnan(X)
        for feature in np.flatnonzero(is_missing.any(axis=0)).tolist():
            rows = np.tile(is_missing[:, feature], 1 + self.stays)
            coded[np.ix_(rows, columns[feature])] = self.columns.missing
        return coded


def _plan(sample: Sample, reach: Reach, roster: Roster, max_bins: int) -> _Coding:
    """Choose the thresholds of every number, and which column of codes belongs to which feature."""
    attacks, stays = not bool(roster.stays.all()), bool(roster.stays.any() and not roster.stays.all())
    # There are no classes: all rows are of the first of two, which both attack, or do not.
    reach = replace(reach, attacks=np.array([attacks, attacks]))
    is_number = np.array([matrix is None for matrix in reach.categories])
    numbers = np.flatnonzero(is_number)
    bins = _choose_bins(sample, reach, numbers, stays, max_bins)
    if is_number.all():
        columns = (bins.columns, bins.n_thresholds, bins.below, bins.above, bins.width, bins.missing)
        return _Coding(bins, reach, stays, binned_numbers.Columns(*columns, ~is_number), None)
    return _Coding(bins, reach, stays, *_plan_categories(sample, reach, bins, numbers))


def _choose_bins(sample: Sample, reach: Reach, numbers: np.ndarray, stays: bool, max_bins: int) -> Bins:
    """Choose the thresholds of the features that are numbers."""
    if not len(numbers):
        none = np.empty((2, 0, 1))
        return Bins(np.zeros(0, dtype=np.int64), none[0], none[1], np.empty((0, 2), dtype=np.int64), np.zeros(0))
    own = Sample(
        sample.X[:, numbers], sample.class_index, sample.is_missing[numbers], sample.farthest[numbers]
    )  # fmt: skip
    most = None if max_bins >= ALL_ENDS else max_bins
    return choose_bins(own, reach.select(numbers), np.array([stays, stays]), most)


def _plan_categories(
    sample: Sample, reach: Reach, bins: Bins, numbers: np.ndarray
) -> tuple[binned_numbers.Columns, Categories]:
    """Return where the codes of numbers and of categories are, what they mean, and what can be done to categories."""
    n_features = len(reach.categories)
    matrices, start, size = reach.pack_categories()
    moves = np.array([m is not None and bool(m.sum() > len(m)) for m in reach.categories])
    moves &= bool(reach.attacks.any())
    has_missing = bool(sample.is_missing.any())
    width = max(2 * int(size.max()), int(bins.n_thresholds.max(initial=0)) + 1) + 1 + has_missing
    columns = np.empty((n_features, 2), dtype=np.int64)
    columns[numbers] = bins.columns
    named = np.flatnonzero(size > 0)
    columns[named] = (int(bins.columns.max(initial=-1)) + 1 + np.arange(len(named)))[:, None]
    n_thresholds = size + 1  # of categories: how many there are, what is missing included
    n_thresholds[numbers] = bins.n_thresholds
    sides = np.full((2, n_features, bins.below.shape[1]), np.inf)
    sides[:, numbers] = bins.below, bins.above
    missing = width - 1 if has_missing else -1
    meaning = binned_numbers.Columns(columns, n_thresholds, sides[0], sides[1], width, missing, size > 0)
    return meaning, _make_categories(size, moves, start, matrices)


def _name_no_class(n_rows: int) -> np.ndarray:
    """Return the class of rows where there are no classes: the first."""
    return np.zeros(n_rows, dtype=np.uint8)


def _make_categories(size: np.ndarray, moves: np.ndarray, start: np.ndarray, allowed: np.ndarray) -> Categories:
    """Return what the attacker may do to categories, and room to work on one node and feature."""
    most = int(size.max())
    return Categories(
        n_categories=size,
        moves=moves,
        start=start,
        allowed=allowed,
        open=np.zeros(most, dtype=bool),
        order=np.zeros(most + 1, dtype=np.int64),
        keys=np.zeros(most + 1),
        n_open=np.zeros(most, dtype=np.int64),
        n_left=np.zeros(most, dtype=np.int64),
        in_left=np.zeros(most + 1, dtype=np.uint8),
        sides=np.zeros(2 * most, dtype=np.int8),
    )


def _copy_scratch(categories: Categories) -> Categories:
    """Return what the attacker may do to categories, with other room to work on."""
    return _make_categories(categories.n_categories, categories.moves, categories.start, categories.allowed)


class GrownOnBins(NamedTuple):
    """A tree as it was grown."""

    nodes: np.ndarray  # binned_numbers.NODE
    sets: np.ndarray  # uint8 (node, category), see `binned_numbers.BinnedNumberTree`


def grow_on_bins(
    coded: CodedNumbers,
    entries: np.ndarray,
    weights: np.ndarray,
    target: np.ndarray,
    units: Units,
    limits: Limits,
    *,
    seed: int,
) -> GrownOnBins:
    """Grow one tree on some samples, ascending; a sample may be there several times.

    weights, target : of all samples
    """
    n_features = len(coded.columns.n_thresholds)
    samples = binned_numbers.BinnedNumberSamples(
        codes=coded.codes,
        entries=entries,
        spill=np.empty(len(entries), dtype=np.uint32),
        cells=np.empty(4 * coded.codes.shape[1] * coded.columns.width, dtype=np.int64),
        bounds=np.zeros((n_features, 2, coded.columns.width)),
        features=np.arange(n_features, dtype=np.int64),
        sums=np.zeros(8, dtype=np.int64),
    )
    numbers = make_numbers(target)
    root = plant(binned_numbers.NODE, len(entries), weights if weights.shape[1] == 1 else weights[entries], units, seed)
    root.nodes["parent"][0] = -1
    # Trees may be grown side by side, so each works on categories of its own.
    categories = None if coded.categories is None else _copy_scratch(coded.categories)
    most = 0 if categories is None else int(categories.n_categories.max())
    sets = np.zeros((len(root.nodes), most), dtype=np.uint8)
    tree = binned_numbers.BinnedNumberTree(root.nodes, root.heap, root.sizes, sets)
    known = (samples, weights, coded.columns, categories, numbers, units, limits)
    tree = raise_tree(tree, lambda tree: binned_numbers.grow(*known, tree))
    n_nodes = int(tree.sizes[NODES])
    return GrownOnBins(tree.nodes[:n_nodes], tree.sets[:n_nodes])


def read_left_sets(grown: GrownOnBins, schema: Schema) -> dict[int, np.ndarray]:
    """Return which categories go left, by the number of the node that asks for them.

    Categories that no row of the node has, and that nobody can be given, go to the child with more training weight.
    """
    nodes, left_sets = grown.nodes, {}
    for node in np.flatnonzero(nodes["left"] >= 0).tolist():
        labels = schema.categories[nodes["feature"][node]]
        if labels is not None:
            left, right = nodes["weight"][nodes["left"][node] + np.array([0, 1])]
            chosen = grown.sets[node, : len(labels) + 1]
            left_sets[node] = np.where(chosen == IDLE, left >= right, chosen == 1)
    return left_sets
