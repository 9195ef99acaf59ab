"""Regression trees on bins: few thresholds per feature, of which the best is found exactly. For large tables."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow import binned_numbers
from hardwood._kernels.grow.nodes import NODES, Limits
from hardwood._kernels.grow.number_categories import IDLE, Categories
from hardwood._kernels.grow.sweep import Units
from hardwood.grow.bins import Bins, encode_rows, find_bins
from hardwood.grow.sweep import Roster, make_numbers, plant, raise_tree
from hardwood.grow.workers import Workers
from hardwood.table import Schema
from hardwood.threat import Reach

# Tables of more rows are binned unless the user says otherwise: up to here the exact grower takes a tenth of a second,
# for ten features and a depth of 8 (`benchmarks/regression.py`).
AUTO_REGRESSION_ROWS = 20_000
# More bins than codes of one byte can tell apart: bins for all ends of reach.
ALL_ENDS = 1 << 16


class CodedRoster(NamedTuple):
    """The codes of all samples, and what they mean."""

    codes: np.ndarray  # uint8 or uint16 (sample, column)
    columns: binned_numbers.Columns
    categories: Categories | None  # None: all features are numbers

    @property
    def n_columns(self) -> int:
        """How many codes a sample has."""
        return self.codes.shape[1]


def encode_roster(X: np.ndarray, reach: Reach, roster: Roster, max_bins: int, workers: Workers) -> CodedRoster:
    """Choose the thresholds of every number, and encode all samples."""
    is_number = np.array([matrix is None for matrix in reach.categories])
    numbers = np.flatnonzero(is_number)
    bins, codes = _encode_numbers(X[:, numbers], reach.select(numbers), roster, max_bins, workers)
    if is_number.all():
        columns = (bins.columns, bins.n_thresholds, bins.below, bins.above, bins.width, bins.missing)
        return CodedRoster(frozen(codes), binned_numbers.Columns(*columns, np.zeros(len(numbers), dtype=bool)), None)
    return _add_categories(X, reach, roster, bins, codes)


def _encode_numbers(
    X: np.ndarray, reach: Reach, roster: Roster, max_bins: int, workers: Workers
) -> tuple[Bins, np.ndarray]:
    """Choose the thresholds of every feature, and return them with the codes of all samples."""
    n_rows, n_features = X.shape
    if not n_features:
        none = np.empty((2, 0, 1))
        bins = Bins(np.zeros(0, dtype=np.int64), none[0], none[1], np.empty((0, 2), dtype=np.int64), np.zeros(0))
        return bins, np.empty((len(roster.row), 0), dtype=np.uint8)
    attacks, stays = not bool(roster.stays.all()), bool(roster.stays.any() and not roster.stays.all())
    nobody = np.zeros(n_rows, dtype=np.uint8)
    # There are no classes: all rows are of the first of two, which both attack, or do not.
    reach = replace(reach, attacks=np.array([attacks, attacks]))
    halves = np.array([stays, stays])
    bins = find_bins(X, nobody, reach, halves, None if max_bins >= ALL_ENDS else max_bins)
    codes = encode_rows(X, nobody, reach, halves, bins, workers)
    # The parts that stay come last, row by row.
    return bins, codes[roster.row + n_rows * roster.stays if stays else roster.row]


def _add_categories(X: np.ndarray, reach: Reach, roster: Roster, bins: Bins, codes: np.ndarray) -> CodedRoster:
    """Return the codes of numbers and of categories, which have a column each."""
    n_features = X.shape[1]
    matrices, start, size = reach.pack_categories()
    moves = np.array([m is not None and bool(m.sum() > len(m)) for m in reach.categories])
    moves &= bool(reach.attacks.any()) and not roster.stays.all()
    is_missing = np.isnan(X)
    n_codes = max(2 * int(size.max()), int(bins.n_thresholds.max(initial=0)) + 1) + 1
    width = n_codes + int(is_missing.any())
    numbers, named = np.flatnonzero(size == 0), np.flatnonzero(size > 0)
    n_columns = codes.shape[1] + len(named)
    coded = np.empty((len(codes), n_columns), dtype=np.uint8 if width <= 256 else np.uint16)
    coded[:, : codes.shape[1]] = codes
    columns = np.empty((n_features, 2), dtype=np.int64)
    columns[numbers] = bins.columns
    n_thresholds = size + 1  # of categories: how many there are, what is missing included
    n_thresholds[numbers] = bins.n_thresholds
    sides = np.full((2, n_features, bins.below.shape[1]), np.inf)
    sides[:, numbers] = bins.below, bins.above
    for k, feature in enumerate(named.tolist()):
        columns[feature] = codes.shape[1] + k
        own = np.nan_to_num(X[roster.row, feature]).astype(np.int64)
        coded[:, codes.shape[1] + k] = own + size[feature] * (moves[feature] & ~roster.stays)
    for feature in np.flatnonzero(is_missing.any(axis=0)).tolist():
        coded[np.ix_(is_missing[roster.row, feature], columns[feature])] = width - 1
    missing = width - 1 if is_missing.any() else -1
    return CodedRoster(
        frozen(coded),
        binned_numbers.Columns(columns, n_thresholds, sides[0], sides[1], width, missing, size > 0),
        _make_categories(size, moves, start, matrices),
    )


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


class GrownOnBins(NamedTuple):
    """A tree as it was grown."""

    nodes: np.ndarray  # binned_numbers.NODE
    sets: np.ndarray  # uint8 (node, category), see `binned_numbers.BinnedNumberTree`


def grow_on_bins(
    coded: CodedRoster, weights: np.ndarray | None, target: np.ndarray, units: Units, limits: Limits, seed: int
) -> GrownOnBins:
    """Grow one tree on samples whose numbers ascend."""
    n_samples, n_features = len(target), len(coded.columns.n_thresholds)
    samples = binned_numbers.BinnedNumberSamples(
        codes=coded.codes,
        entries=np.arange(n_samples, dtype=np.uint32),
        spill=np.empty(n_samples, dtype=np.uint32),
        cells=np.empty(4 * coded.n_columns * coded.columns.width, dtype=np.int64),
        bounds=np.zeros((n_features, 2, coded.columns.width)),
        features=np.arange(n_features, dtype=np.int64),
        sums=np.zeros(8, dtype=np.int64),
    )
    numbers = make_numbers(target)
    root = plant(binned_numbers.NODE, n_samples, weights, units, seed)
    root.nodes["parent"][0] = -1
    most = 0 if coded.categories is None else int(coded.categories.n_categories.max())
    sets = np.zeros((len(root.nodes), most), dtype=np.uint8)
    tree = binned_numbers.BinnedNumberTree(root.nodes, root.heap, root.sizes, sets)
    known = (samples, weights, coded.columns, coded.categories, numbers, units, limits)
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
