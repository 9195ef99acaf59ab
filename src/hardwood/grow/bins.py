"""Bins: few thresholds per feature, and the codes of every row's reach between them.

A threshold lies midway between two neighbouring ends of reach, `lo` or `hi`, of the rows of a sample. Both ends of
every row are exact (`Reach.interval`) before they are coded, so what the attacker can do to a split at one of these
thresholds is counted exactly; only which thresholds there are is an approximation, unless they are all there are.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow.binning import CELLS, Guide, encode, place
from hardwood._kernels.grow.orders import TIE_TOLERANCE
from hardwood.grow.shifts import find_slots
from hardwood.grow.workers import Workers
from hardwood.rows.sampling import BLOCK_ROWS, Sample, take_sample
from hardwood.threat import Reach

# How many codes one byte tells apart.
BYTE_CODES = 256
# With codes of one byte: bins 0 to 254, between 254 thresholds, and the code of missing values.
MOST_BINS = BYTE_CODES - 1
# Thresholds that codes of two bytes can tell apart.
MOST_THRESHOLDS = np.iinfo(np.uint16).max
# Tables of more rows are binned unless the user says otherwise: where the exact grower takes as long, for ten features
# and a depth of 8 (`benchmarks/fit.py`). At ten times as many rows it takes four times as long.
AUTO_ROWS = 100_000
# Where values are missing or features are monotone, there is no exact grower but bins for all ends of reach: up to
# three per row, of which codes of two bytes tell 65,535 apart.
BINNED_ROWS = 20_000


@dataclass(frozen=True)
class Bins:
    """The thresholds of every feature, and the ends of reach beside them."""

    n_thresholds: np.ndarray  # int64 per feature
    below: np.ndarray  # float64 (feature, threshold): the last end that is not above the threshold
    above: np.ndarray  # float64 (feature, threshold): the first end that is
    columns: np.ndarray  # int64 (feature, end): the columns of codes for lo and hi, one and the same if nobody moves it
    largest: np.ndarray  # float64 per feature: the largest finite distance anybody moves
    has_missing: bool = False  # whether values are missing: they have the last code
    n_codes: int = 0  # codes that are needed for other reasons

    @property
    def width(self) -> int:
        """How many codes there are, at most, per feature."""
        return max(int(self.n_thresholds.max()) + 1 + self.has_missing, self.n_codes)

    @property
    def dtype(self) -> type:
        """The smallest type that holds all codes."""
        return choose_code_type(self.width)

    @property
    def missing(self) -> int:
        """The code of a missing value; -1 if none is missing."""
        return self.width - 1 if self.has_missing else -1

    @property
    def n_columns(self) -> int:
        """How many codes a row has."""
        return int(self.columns.max()) + 1


def find_bins(X: np.ndarray, class_index: np.ndarray, reach: Reach, stays: np.ndarray, max_bins: int | None) -> Bins:
    """Choose the thresholds of every feature of a table; see `choose_bins`."""
    return choose_bins(take_sample(X, class_index, reach, max_bins), reach, stays, max_bins)


def choose_bins(sample: Sample, reach: Reach, stays: np.ndarray, max_bins: int | None) -> Bins:
    """Choose the thresholds of every feature.

    Parameters
    ----------
    sample : Sample
        The rows to choose from.
    reach : Reach
        What the attacker may do, with the classes that attack.
    stays : ndarray of bool
        Which classes have rows of two samples, one that moves and one that does not.
    max_bins : int or None
        How many bins a feature may have; None: a threshold between every two ends, which refuses what codes of two
        bytes cannot tell apart.
    """
    slots, largest = find_slots(reach.widen(sample.farthest[None, :]), reach.attacks)
    X, class_index = sample.X, sample.class_index
    lo, hi = reach.box(X, class_index)
    most = MOST_THRESHOLDS if max_bins is None else max_bins - 1
    chosen = []
    for feature, (first, second) in enumerate(slots.tolist()):
        ends = [lo[:, feature]] if first == second else [lo[:, feature], hi[:, feature]]
        if first != second and stays.any():
            ends.append(X[stays[class_index], feature])
        below, above = find_gaps(ends, float(largest[feature]), most)
        if len(below) > most:
            raise ValueError(f"X: column {feature} has {len(below)} ends of reach; at most {most} can be told apart")
        chosen.append((below, above))
    n_thresholds = np.array([len(below) for below, _ in chosen])
    sides = np.full((2, len(chosen), max(1, int(n_thresholds.max()))), np.inf)
    for feature, both in enumerate(chosen):
        sides[:, feature, : n_thresholds[feature]] = both
    return Bins(n_thresholds, sides[0], sides[1], slots, largest, bool(sample.is_missing.any()))


def find_gaps(pieces: list[np.ndarray], largest: float, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what lies on both sides of each threshold: ends that do not count as equal, given in pieces.

    Ends count as equal as in the exact grower (`_kernels.grow.orders`). Nobody splits off those at infinity: they are
    all of one class, the one that is hurt there. If there are more gaps than `most`, those at quantiles are taken; with
    codes of two bytes the caller refuses instead.
    """
    ends = np.sort(np.concatenate([np.sort(piece) for piece in pieces]), kind="stable")  # merges what is sorted
    ends = ends[np.searchsorted(ends, -np.inf, side="right") : np.searchsorted(ends, np.inf)]
    below, above = ends[:-1], ends[1:]
    with np.errstate(over="ignore"):
        distance = above - below
    tolerance = TIE_TOLERANCE if largest > 0.0 else 0.0
    size = np.maximum(np.maximum(np.abs(below), np.abs(above)), largest)
    gaps = np.flatnonzero((distance > 0.0) & (distance > tolerance * size))
    if len(gaps) > most and most < MOST_THRESHOLDS:
        wanted = np.arange(1, most + 1) * (len(ends) / (most + 1))
        gaps = np.unique(gaps[np.minimum(np.searchsorted(gaps, wanted - 1.0), len(gaps) - 1)])
    return below[gaps], above[gaps]


def halve(below: np.ndarray, above: np.ndarray) -> np.ndarray:
    """Return the thresholds midway between their neighbours, as the exact grower rounds them."""
    middle = 0.5 * below + 0.5 * above
    return np.where((below <= middle) & (middle < above), middle, below)


def encode_rows(
    X: np.ndarray, class_index: np.ndarray, reach: Reach, stays: np.ndarray, bins: Bins, workers: Workers
) -> np.ndarray:
    """Return the codes of all samples: of every row, and then of the part that stays of those that have one."""
    writer = CodeWriter(bins, reach, stays, class_index)
    writer.write(X, workers)
    return writer.codes


def read_blocks(
    X: np.ndarray, first: int, last: int
) -> Iterator[tuple[slice, np.ndarray, tuple[np.ndarray, np.ndarray]]]:
    """Read rows, few at a time: which they are, they themselves in float64, and room for both ends of their reach.

    The room is the same for all of them. What is allocated anew for every block costs as much as coding it where memory
    is given back to the system at once, as on Dask's workers (their MALLOC_TRIM_THRESHOLD_).
    """
    own, lo, hi = np.empty((3, min(BLOCK_ROWS, last - first), X.shape[1]))
    for start in range(first, last, BLOCK_ROWS):
        block = slice(start, min(start + BLOCK_ROWS, last))
        size = block.stop - start
        own[:size] = X[block]
        yield block, own[:size], (lo[:size], hi[:size])


def choose_code_type(n_codes: int) -> type:
    """Return the smallest type that tells codes apart."""
    return np.uint8 if n_codes <= BYTE_CODES else np.uint16


class CodeWriter:
    """Writes the codes of all samples as rows come in, batch after batch.

    Parameters
    ----------
    bins, reach : what codes mean, and what the attacker may do
    stays : ndarray of bool
        Which classes have rows of two samples, one that moves and one that does not.
    class_index : ndarray, the classes of all rows that will come
    """

    def __init__(self, bins: Bins, reach: Reach, stays: np.ndarray, class_index: np.ndarray) -> None:
        n_staying = int(np.bincount(class_index, minlength=len(stays))[stays].sum())
        self.codes: np.ndarray = np.empty((len(class_index) + n_staying, bins.n_columns), dtype=bins.dtype)
        self._bins, self._guide, self._reach, self._stays = bins, make_guide(bins), reach, stays
        self._class_index = class_index
        self._next_row, self._next_part = 0, len(class_index)

    def write(self, X: np.ndarray, workers: Workers) -> tuple[slice, slice]:
        """Write the codes of the next rows; return where those of the rows are, and those of the parts that stay."""
        rows = slice(self._next_row, self._next_row + len(X))
        class_index, codes = self._class_index[rows], self.codes[rows]

        def encode_share(first: int, last: int) -> None:
            for block, own, ends in read_blocks(X, first, last):
                lo, hi = self._reach.box(own, class_index[block], ends)
                _encode(lo, hi, self._guide, self._bins, codes[block])

        workers.run(encode_share, workers.share(0, len(X)))
        staying = np.flatnonzero(self._stays[class_index])
        parts = slice(self._next_part, self._next_part + len(staying))
        for start in range(0, len(staying), BLOCK_ROWS):
            own = X[staying[start : start + BLOCK_ROWS]].astype(np.float64, copy=False)
            _encode(own, own, self._guide, self._bins, self.codes[parts][start : start + len(own)])
        self._next_row, self._next_part = rows.stop, parts.stop
        return rows, parts


def _encode(lo: np.ndarray, hi: np.ndarray, guide: Guide, bins: Bins, codes: np.ndarray) -> None:
    """Write the codes of both ends of some rows, and that of missing values where there is none."""
    columns = frozen(bins.columns)
    if not bins.has_missing:
        encode(frozen(lo), frozen(hi), guide, columns, codes)
        return
    is_missing = np.isnan(lo)
    encode(frozen(np.where(is_missing, 0.0, lo)), frozen(np.where(is_missing, 0.0, hi)), guide, columns, codes)
    row, feature = np.nonzero(is_missing)
    codes[row[:, None], bins.columns[feature]] = bins.missing


def make_guide(bins: Bins) -> Guide:
    """Lay a grid over every feature's thresholds."""
    thresholds = halve(bins.below, bins.above)
    n_features = len(thresholds)
    low, scale = np.zeros(n_features), np.zeros(n_features)
    grid = np.zeros((n_features, CELLS + 1), dtype=np.uint16)
    for feature, n in enumerate(bins.n_thresholds.tolist()):
        if n > 0:
            mine = thresholds[feature, :n]
            low[feature] = mine[0]
            with np.errstate(over="ignore", divide="ignore"):
                scale[feature] = (CELLS - 1.0) / (mine[-1] - mine[0]) if n > 1 else 0.0
            cells = place(mine, low[feature], scale[feature])
            grid[feature, 1:] = np.cumsum(np.bincount(cells, minlength=CELLS))
    return Guide(thresholds, low, scale, grid)
