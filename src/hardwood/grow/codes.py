"""A table in codes, for trees that are grown one after another: made once, read by all of them.

A number is two codes, of both ends of its row's reach, between the thresholds of its feature (`grow/bins.py`); one, if
nobody can move the feature. A category is its own code. What is missing has the code after the last.

What codes mean, the plan, is made from a sample of the rows. Rows are then coded by it one by one: whoever has some of
the rows can code them.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow.binning import Guide, encode
from hardwood._kernels.grow.boosting_categories import Categories, make_categories
from hardwood._kernels.grow.boosting_tree import CodeColumns
from hardwood.grow.bins import Bins, Sample, choose_code_type, find_gaps, halve, make_guide, read_blocks, take_sample
from hardwood.grow.workers import Workers
from hardwood.threat import Reach


@dataclass(frozen=True)
class TablePlan:
    """What the codes of a table mean."""

    reach: Reach
    columns: CodeColumns
    categories: Categories | None  # None: all features are numbers
    n_cells: int  # of a histogram
    bins: Bins  # of those features that are numbers

    @property
    def width(self) -> int:
        """How many codes a column has at most, that of missing values included."""
        return int(_count_codes(self.columns.n_codes, self.columns.hides & self.is_number).max())

    @property
    def is_number(self) -> np.ndarray:
        """Which features are numbers."""
        return _find_numbers(self.reach)

    @property
    def is_moved(self) -> np.ndarray:
        """Which features some class can change in some way, so that a row can go both ways at a split."""
        return _find_movable(self.reach) | _find_hidden(self.reach)

    @cached_property
    def _guide(self) -> Guide:
        return make_guide(self.bins)

    @cached_property
    def _number_reach(self) -> Reach:
        return self.reach.select(np.flatnonzero(self.is_number))

    def make_room(self, n_rows: int) -> np.ndarray:
        """Return room for the codes of rows."""
        return np.empty((n_rows, int(self.columns.columns.max()) + 1), dtype=choose_code_type(self.width))

    def encode(self, X: np.ndarray, class_index: np.ndarray, codes: np.ndarray, workers: Workers) -> None:
        """Write the codes of rows."""

        def encode_share(first: int, last: int) -> None:
            for block, own, ends in read_blocks(X, first, last):
                self._encode(own, class_index[block], codes[block], ends)

        if len(X):
            workers.run(encode_share, workers.share(0, len(X)))

    def _encode(
        self, X: np.ndarray, class_index: np.ndarray, codes: np.ndarray, ends: tuple[np.ndarray, np.ndarray]
    ) -> None:
        """Write the codes of few rows; `ends` is room for both ends of their reach."""
        columns = self.columns
        is_number, attacks = self.is_number, self.reach.attacks[class_index]
        if is_number.any():
            lo, hi = (
                self._number_reach.box(X, class_index, ends)
                if is_number.all()
                else self._number_reach.box(np.compress(is_number, X, axis=1), class_index)  # a mask gives columns
            )
            encode(frozen(lo), frozen(hi), self._guide, frozen(self.bins.columns), codes)
        for feature in self.reach.categorical:
            # Rows that can change their category have codes behind those of rows that cannot.
            assert self.categories is not None
            n_categories, moves = self.categories.n_categories[feature], self.categories.moves[feature]
            own = np.nan_to_num(X[:, feature]).astype(np.int64)
            codes[:, columns.columns[feature, 0]] = own + n_categories * (attacks & moves)
        is_missing = np.isnan(X)
        for feature in np.flatnonzero(is_missing.any(axis=0)).tolist():
            codes[np.ix_(is_missing[:, feature], columns.columns[feature])] = columns.n_codes[feature]
        for feature in np.flatnonzero(columns.hides).tolist():
            self._encode_hidden(feature, is_missing[:, feature], attacks, codes)

    def _encode_hidden(self, feature: int, is_missing: np.ndarray, attacks: np.ndarray, codes: np.ndarray) -> None:
        """Write the codes of those who can hide a value, or show a missing one: behind those of missing values.

        What is filled in can be anything that exists: any number of the domain, or any known category.
        """
        reach, n_codes = self.reach, int(self.columns.n_codes[feature])
        is_number, (low, high) = reach.categories[feature] is None, self.columns.columns[feature]
        if reach.fill is not None and reach.fill[feature]:
            filled = attacks & is_missing
            if is_number:
                domain = (-np.inf, np.inf) if reach.within is None else reach.within[:, feature]
                ends = np.searchsorted(self.columns.thresholds[feature, : n_codes - 1], domain, side="left")
                codes[filled, low], codes[filled, high] = n_codes + 1 + ends
            else:
                codes[filled, low] = n_codes - 1
        if is_number and reach.blank is not None and reach.blank[feature]:
            shown = np.flatnonzero(attacks & ~is_missing)
            codes[np.ix_(shown, (low, high))] += codes.dtype.type(n_codes + 1)


@dataclass(frozen=True)
class CodedTable:
    """The codes of rows, and what they mean."""

    plan: TablePlan
    codes: np.ndarray  # uint8 or uint16 (row, column), read-only


def encode_table(X: np.ndarray, class_index: np.ndarray, reach: Reach, max_bins: int, workers: Workers) -> CodedTable:
    """Choose thresholds for every number of a table in memory, and encode all rows."""
    plan = plan_table(take_sample(X, class_index, reach, max_bins), reach, max_bins)
    codes = plan.make_room(len(X))
    plan.encode(X, class_index, codes, workers)
    return CodedTable(plan, frozen(codes))


def plan_table(sample: Sample, reach: Reach, max_bins: int) -> TablePlan:
    """Choose thresholds for every number by a sample of the rows, and say what codes mean."""
    is_number = _find_numbers(reach)
    numbers = np.flatnonzero(is_number)
    moves, hides = _find_movable(reach), _find_hidden(reach)
    two_codes = is_number & (moves | hides)
    last = np.cumsum(1 + two_codes) - 1
    columns = np.column_stack([last - two_codes, last])
    bins = _find_bins(sample, reach, numbers, columns[numbers], max_bins)
    categories = _pack_categories(reach, moves | hides)
    n_codes = np.zeros(len(is_number), dtype=np.int64)
    n_codes[numbers] = bins.n_thresholds + 1
    if categories is not None:
        n_codes[~is_number] = (categories.n_categories * (1 + (moves | hides)) + hides)[~is_number]
    thresholds = np.full((len(is_number), bins.below.shape[1]), np.inf)
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
        features=np.arange(len(is_number)),
        thresholds=thresholds,
    )
    return TablePlan(reach, CodeColumns(*map(frozen, code_columns)), categories, n_cells, bins)


def _find_numbers(reach: Reach) -> np.ndarray:
    """Say of each feature whether it is a number."""
    return np.array([matrix is None for matrix in reach.categories])


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


def _find_bins(sample: Sample, reach: Reach, numbers: np.ndarray, columns: np.ndarray, max_bins: int) -> Bins:
    """Choose the thresholds of all numbers from the ends of the reach of a sample of rows."""
    reach = reach.select(numbers)
    lo, hi = reach.box(sample.X[:, numbers], sample.class_index)
    widest = reach.widen(sample.farthest[None, numbers])
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
    return make_categories(size, moves, frozen(blanks), start, matrices)


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
