"""Regression trees on bins: few thresholds per feature, of which the best is found exactly. For large tables."""

from dataclasses import replace

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow import binned_numbers
from hardwood._kernels.grow.nodes import Limits
from hardwood._kernels.grow.sweep import Units
from hardwood.grow.bins import Bins, encode_rows, find_bins
from hardwood.grow.sweep import Roster, make_numbers, plant, raise_tree
from hardwood.grow.workers import Workers
from hardwood.threat import Reach

# Tables of more rows are binned unless the user says otherwise: up to here the exact grower takes a tenth of a second,
# for ten features and a depth of 8 (`benchmarks/regression.py`).
AUTO_REGRESSION_ROWS = 20_000
# More bins than codes of one byte can tell apart: bins for all ends of reach.
ALL_ENDS = 1 << 16


def encode_roster(
    X: np.ndarray, reach: Reach, roster: Roster, max_bins: int, workers: Workers
) -> tuple[Bins, np.ndarray]:
    """Choose the thresholds of every feature, and return them with the codes of all samples."""
    attacks, stays = not bool(roster.stays.all()), bool(roster.stays.any() and not roster.stays.all())
    nobody = np.zeros(len(X), dtype=np.uint8)
    # There are no classes: all rows are of the first of two, which both attack, or do not.
    reach = replace(reach, attacks=np.array([attacks, attacks]))
    halves = np.array([stays, stays])
    bins = find_bins(X, nobody, reach, halves, None if max_bins >= ALL_ENDS else max_bins)
    codes = encode_rows(X, nobody, reach, halves, bins, workers)
    if stays:  # the parts that stay come last, row by row
        return bins, codes[roster.row + len(X) * roster.stays]
    return bins, codes[roster.row]


def grow_on_bins(
    bins: Bins,
    codes: np.ndarray,
    weights: np.ndarray | None,
    target: np.ndarray,
    units: Units,
    limits: Limits,
    seed: int,
) -> np.ndarray:
    """Grow one tree on samples whose numbers ascend, and return its nodes."""
    n_samples, n_features = len(target), len(bins.columns)
    columns = binned_numbers.Columns(bins.columns, bins.n_thresholds, bins.below, bins.above, bins.width, bins.missing)
    samples = binned_numbers.BinnedNumberSamples(
        codes=frozen(codes),
        entries=np.arange(n_samples, dtype=np.uint32),
        spill=np.empty(n_samples, dtype=np.uint32),
        cells=np.empty(4 * bins.n_columns * bins.width, dtype=np.int64),
        bounds=np.zeros((n_features, 2, bins.width)),
        features=np.arange(n_features, dtype=np.int64),
    )
    numbers = make_numbers(target)
    tree = plant(binned_numbers.NODE, n_samples, weights, units, seed)
    return raise_tree(tree, lambda tree: binned_numbers.grow(samples, weights, columns, numbers, units, limits, tree))
