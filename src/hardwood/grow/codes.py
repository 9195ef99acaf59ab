"""A table in codes, for trees that are grown one after another: made once, read by all of them.

A number is two codes, of both ends of its row's reach, between the thresholds of its feature (`grow/bins.py`); one, if
nobody can move the feature. A category is its own code. What is missing has the code after the last.
"""

from dataclasses import dataclass

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow.binning import encode
from hardwood._kernels.grow.boosting import CodeColumns
from hardwood._kernels.grow.boosting_categories import Categories, make_categories
from hardwood.grow.bins import BLOCK_ROWS, SAMPLE_ROWS, Bins, draw_rows, find_gaps, halve, make_guide
from hardwood.grow.workers import Workers
from hardwood.threat import Reach


@dataclass(frozen=True)
class CodedTable:
    """The codes of all rows, and what they mean."""

    codes: np.ndarray  # uint8 or uint16 (row, column), read-only
    columns: CodeColumns
    categories: Categories | None  # None: all features are numbers
    n_cells: int  # of a histogram

    @property
    def n_rows(self) -> int:
        """How many rows."""
        return len(self.codes)

    @property
    def width(self) -> int:
        """How many codes a column has at most, that of missing values included."""
        return int(self.columns.n_codes.max()) + 1


def encode_table(X: np.ndarray, class_index: np.ndarray, reach: Reach, max_bins: int, workers: Workers) -> CodedTable:
    """Choose thresholds for every number, and encode all rows."""
    numbers = np.array([j for j, matrix in enumerate(reach.categories) if matrix is None], dtype=np.intp)
    moves = _find_movable(reach)
    is_number = np.zeros(X.shape[1], dtype=bool)
    is_number[numbers] = True
    last = np.cumsum(1 + (is_number & moves)) - 1
    columns = np.column_stack([last - (is_number & moves), last])
    bins = _find_bins(X[:, numbers], class_index, reach.select(numbers), columns[numbers], max_bins)
    categories = _pack_categories(reach, moves)
    n_codes = np.zeros(X.shape[1], dtype=np.int64)
    n_codes[numbers] = bins.n_thresholds + 1
    if categories is not None:
        n_codes[~is_number] = (categories.n_categories * (1 + moves))[~is_number]
    thresholds = np.full((X.shape[1], bins.below.shape[1]), np.inf)
    thresholds[numbers] = halve(bins.below, bins.above)
    first, offset, n_cells = _place_histograms(columns, n_codes, moves)
    code_columns = CodeColumns(
        columns=columns,
        n_codes=n_codes,
        first=first,
        counted=np.arange(columns.max() + 1),
        offset=offset,
        features=np.arange(X.shape[1]),
        thresholds=thresholds,
    )
    dtype = np.uint8 if n_codes.max() <= np.iinfo(np.uint8).max else np.uint16
    codes = np.empty((len(X), int(columns.max()) + 1), dtype=dtype)
    _encode_numbers(X, class_index, reach, numbers, bins, codes, workers)
    _encode_categories(X, class_index, reach, columns, moves, codes)
    is_missing = np.isnan(X)
    for feature in np.flatnonzero(is_missing.any(axis=0)).tolist():
        codes[np.ix_(is_missing[:, feature], columns[feature])] = n_codes[feature]
    return CodedTable(frozen(codes), code_columns, categories, n_cells)


def _find_movable(reach: Reach) -> np.ndarray:
    """Say of each feature whether some class can move it."""
    changes = [matrix is not None and bool(matrix.sum() > len(matrix)) for matrix in reach.categories]
    moves = (reach.left > 0.0) | (reach.right > 0.0) | np.array(changes)
    if reach.share is not None:
        moves = moves | (reach.share > 0.0).any(axis=0)
    return moves & bool(reach.attacks.any())


def _find_bins(X: np.ndarray, class_index: np.ndarray, reach: Reach, columns: np.ndarray, max_bins: int) -> Bins:
    """Choose the thresholds of all numbers from the ends of the reach of a sample of rows."""
    rows = draw_rows(len(X), SAMPLE_ROWS)
    lo, hi = reach.box(X[rows], class_index[rows])
    widest = reach.widen(X)
    largest = np.maximum(*(np.where(np.isfinite(end), end, 0.0) for end in (widest.left, widest.right)))
    largest *= bool(reach.attacks.any())
    gaps = []
    for feature, (first, second) in enumerate(columns.tolist()):
        ends = [lo[:, feature]] if first == second else [lo[:, feature], hi[:, feature]]
        gaps.append(find_gaps(ends, float(largest[feature]), max_bins - 1))
    n_thresholds = np.array([len(below) for below, _ in gaps], dtype=np.int64)
    sides = np.full((2, len(gaps), max(1, int(n_thresholds.max(initial=0)))), np.inf)
    for feature, both in enumerate(gaps):
        sides[:, feature, : n_thresholds[feature]] = both
    return Bins(n_thresholds, sides[0], sides[1], columns, largest)


def _pack_categories(reach: Reach, moves: np.ndarray) -> Categories | None:
    """Return what the attacker may do to categories."""
    matrices, start, size = reach.pack_categories()
    if not size.any():
        return None
    return make_categories(size, moves, start, matrices)


def _place_histograms(
    columns: np.ndarray, n_codes: np.ndarray, moves: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return each feature's first cells, where each group's codes are counted, and how many cells there are.

    The first histogram of a number is of the seats of direction 1: group 0 at the lower end, group 1 at the upper one
    (`_kernels.grow.boosting_splits`). Of categories that can be changed there is one histogram per group.
    """
    size = n_codes + 1
    total = np.cumsum(size * (1 + moves))
    begin = total - size * (1 + moves)
    first = np.column_stack([begin, begin + size * moves])
    offset = np.zeros((2, int(columns.max()) + 1), dtype=np.int64)
    for feature, (low, high) in enumerate(columns.tolist()):
        offset[:, high] = first[feature, ::-1]
        offset[:, low] = first[feature]
    return first, offset, int(total[-1])


def _encode_numbers(
    X: np.ndarray,
    class_index: np.ndarray,
    reach: Reach,
    numbers: np.ndarray,
    bins: Bins,
    codes: np.ndarray,
    workers: Workers,
) -> None:
    """Write the codes of both ends of all numbers."""
    if not len(numbers):
        return
    guide, reach = make_guide(bins), reach.select(numbers)

    def encode_share(first: int, last: int) -> None:
        for start in range(first, last, BLOCK_ROWS):
            block = slice(start, min(start + BLOCK_ROWS, last))
            lo, hi = reach.box(X[block][:, numbers], class_index[block])
            encode(lo, hi, guide, bins.columns, codes[block])

    workers.run(encode_share, workers.share(0, len(X)))


def _encode_categories(
    X: np.ndarray, class_index: np.ndarray, reach: Reach, columns: np.ndarray, moves: np.ndarray, codes: np.ndarray
) -> None:
    """Write the codes of categories: of rows that can change theirs, behind those of rows that cannot."""
    for feature in reach.categorical:
        matrix = reach.categories[feature]
        assert matrix is not None
        own = np.nan_to_num(X[:, feature]).astype(np.int64)
        codes[:, columns[feature, 0]] = own + len(matrix) * (reach.attacks[class_index] & moves[feature])
