"""A table in codes, for trees that are grown one after another: made once, read by all of them.

A number is two codes, of both ends of its row's reach, between the thresholds of its feature (`grow/bins.py`); one, if
nobody can move the feature. A category is its own code. What is missing has the code after the last.
"""

from dataclasses import dataclass

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow.binning import encode
from hardwood._kernels.grow.boosting_categories import Categories, make_categories
from hardwood._kernels.grow.boosting_tree import CodeColumns
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
        return int(_count_codes(self.columns.n_codes, self.columns.hides & self.is_number).max())

    @property
    def is_number(self) -> np.ndarray:
        """Which features are numbers."""
        if self.categories is None:
            return np.ones(len(self.columns.n_codes), dtype=bool)
        return self.categories.n_categories == 0


def encode_table(X: np.ndarray, class_index: np.ndarray, reach: Reach, max_bins: int, workers: Workers) -> CodedTable:
    """Choose thresholds for every number, and encode all rows."""
    is_number = np.array([matrix is None for matrix in reach.categories])
    numbers = np.flatnonzero(is_number)
    moves, hides = _find_movable(reach), _find_hidden(reach)
    two_codes = is_number & (moves | hides)
    last = np.cumsum(1 + two_codes) - 1
    columns = np.column_stack([last - two_codes, last])
    bins = _find_bins(X[:, numbers], class_index, reach.select(numbers), columns[numbers], max_bins)
    categories = _pack_categories(reach, moves | hides)
    n_codes = np.zeros(X.shape[1], dtype=np.int64)
    n_codes[numbers] = bins.n_thresholds + 1
    if categories is not None:
        n_codes[~is_number] = (categories.n_categories * (1 + (moves | hides)) + hides)[~is_number]
    thresholds = np.full((X.shape[1], bins.below.shape[1]), np.inf)
    thresholds[numbers] = halve(bins.below, bins.above)
    width = _count_codes(n_codes, hides & is_number)
    first, offset, n_cells = _place_histograms(columns, width, moves | hides, hides & is_number)
    code_columns = CodeColumns(
        columns=columns,
        n_codes=n_codes,
        first=first,
        hides=hides,
        counted=np.arange(columns.max() + 1),
        offset=offset,
        features=np.arange(X.shape[1]),
        thresholds=thresholds,
    )
    dtype = np.uint8 if width.max() <= 1 + np.iinfo(np.uint8).max else np.uint16
    codes = np.empty((len(X), int(columns.max()) + 1), dtype=dtype)
    _encode_numbers(X, class_index, reach, numbers, bins, codes, workers)
    _encode_categories(X, class_index, reach, columns, moves | hides, codes)
    is_missing = np.isnan(X)
    for feature in np.flatnonzero(is_missing.any(axis=0)).tolist():
        codes[np.ix_(is_missing[:, feature], columns[feature])] = n_codes[feature]
    _encode_hidden(X, class_index, reach, code_columns, codes)
    return CodedTable(frozen(codes), code_columns, categories, n_cells)


def _count_codes(n_codes: np.ndarray, twice: np.ndarray) -> np.ndarray:
    """Return how many codes each feature has, that of missing values included; some have all numbers twice."""
    return n_codes * (1 + twice) + 1


def _find_movable(reach: Reach) -> np.ndarray:
    """Say of each feature whether some class can move it."""
    changes = [matrix is not None and bool(matrix.sum() > len(matrix)) for matrix in reach.categories]
    moves = (reach.left > 0.0) | (reach.right > 0.0) | np.array(changes)
    if reach.share is not None:
        moves = moves | (reach.share > 0.0).any(axis=0)
    return moves & bool(reach.attacks.any())


def _find_hidden(reach: Reach) -> np.ndarray:
    """Say of each feature whether some class can blank it or fill it in."""
    hides = np.zeros(len(reach.left), dtype=bool)
    for flags in (reach.blank, reach.fill):
        if flags is not None:
            hides |= flags
    return hides & bool(reach.attacks.any())


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
    blanks = np.zeros(len(size), dtype=bool) if reach.blank is None else reach.blank
    return make_categories(size, moves, blanks, start, matrices)


def _place_histograms(
    columns: np.ndarray, width: np.ndarray, moves: np.ndarray, hides: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return each feature's first cells, where each group's codes are counted, and how many cells there are.

    The first histogram of a number is of the seats of direction 1: group 0 at the lower end, group 1 at the upper one;
    the second is of direction -1 (`_kernels.grow.boosting_splits`). Of numbers that can be hidden there are four: group
    0 and 1 at the lower end, group 0 and 1 at the upper one. Of categories that can be changed there is one per group.
    """
    n_histograms = np.where(hides, 4, 1 + moves)
    total = np.cumsum(width * n_histograms)
    begin = total - width * n_histograms
    first = begin[:, None] + width[:, None] * np.minimum(np.arange(4), n_histograms[:, None] - 1)
    offset = np.zeros((2, int(columns.max()) + 1), dtype=np.int64)
    for feature, (low, high) in enumerate(columns.tolist()):
        offset[:, high] = first[feature, 2:] if hides[feature] else first[feature, 1::-1]
        offset[:, low] = first[feature, :2]
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


def _encode_hidden(
    X: np.ndarray, class_index: np.ndarray, reach: Reach, columns: CodeColumns, codes: np.ndarray
) -> None:
    """Move the codes of rows that can hide a number or show a missing one behind those of rows that cannot.

    What is filled in can be anything that exists: any number of the domain, or any known category.
    """
    attacks = reach.attacks[class_index]
    for feature in np.flatnonzero(columns.hides).tolist():
        is_missing = np.isnan(X[:, feature])
        n_codes, is_number = int(columns.n_codes[feature]), reach.categories[feature] is None
        low, high = columns.columns[feature]
        if reach.fill is not None and reach.fill[feature]:
            filled = attacks & is_missing
            if is_number:
                domain = (-np.inf, np.inf) if reach.within is None else reach.within[:, feature]
                ends = np.searchsorted(columns.thresholds[feature, : n_codes - 1], domain, side="left")
                codes[filled, low], codes[filled, high] = n_codes + 1 + ends
            else:
                codes[filled, low] = n_codes - 1
        if is_number and reach.blank is not None and reach.blank[feature]:
            shown = np.flatnonzero(attacks & ~is_missing)
            codes[np.ix_(shown, (low, high))] += codes.dtype.type(n_codes + 1)
