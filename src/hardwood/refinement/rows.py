"""The rows that a tree is refined on: what is counted, and as what the kernels see it."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.refine import codes
from hardwood._kernels.refine.codes import MISSING, MOST_CUTS, NUMBER, OWN_MISSING, Samples
from hardwood.ensemble import TreeEnsemble
from hardwood.table import Schema
from hardwood.threat import Reach

# Ends of reaches that differ by no more, relative to their size, count as equal, as they do when trees are grown.
CLOSENESS = 1e-9
# The last cut of a feature with missing values: all numbers are on its left.
LARGEST = float(np.finfo(np.float64).max)


class Rows(NamedTuple):
    """Encoded rows, what an attacker may do to them, and how much each of them counts.

    The loss of a tree is the weight of the rows that the attacker can have misclassified, `rho` times, plus that of
    the rows it misclassifies as they stand, `1 - rho` times.
    """

    matrix: np.ndarray
    label: np.ndarray  # the class index of each row
    weight: np.ndarray
    reach: Reach
    rho: float = 1.0

    def take(self, which: np.ndarray, weight: np.ndarray) -> "Rows":
        """Return some of the rows, with other weights."""
        return self._replace(matrix=self.matrix[which], label=self.label[which], weight=weight)


class Part(NamedTuple):
    """Rows in one of the ways in which they count: how far they move then, and what share of them does."""

    which: np.ndarray
    reach: Reach
    moves: bool
    share: float


def order_columns(rows: Rows) -> np.ndarray:
    """Return the columns in an order that depends on what is in them, not on where they are.

    Where two splits are equally good in every respect, the one whose column comes first is taken. So that the order of
    the columns in the table does not decide, they are put in the order of a few moments of their values, and of their
    contents where these are the same.
    """
    share = rows.weight / rows.weight.sum()
    of_one = np.where(rows.label == 1, share, 0.0)
    is_missing = np.isnan(rows.matrix)
    matrix = np.where(is_missing, 0.0, rows.matrix) if is_missing.any() else rows.matrix
    with np.errstate(over="ignore", invalid="ignore"):  # of values near the largest float64
        kinds = [matrix, matrix**2, *([is_missing] if is_missing.any() else [])]
        moments = np.column_stack([w @ values for w in (share, of_one) for values in kinds])
    keys = [tuple(f"{moment:.8e}" for moment in column) for column in moments.tolist()]
    widest, categories = rows.reach.widen(matrix), rows.reach.categories

    def key(j: int) -> tuple[Any, ...]:
        if keys.count(keys[j]) == 1:
            return keys[j], b""
        relation = categories[j]
        reach = repr((widest.left[j], widest.right[j])).encode() + (b"" if relation is None else relation.tobytes())
        return keys[j], rows.matrix[:, j].tobytes() + reach

    return np.array(sorted(range(len(keys)), key=key), dtype=np.intp)


def select_columns(schema: Schema, columns: np.ndarray) -> Schema:
    """Return what some columns are, in the order given."""
    names = schema.feature_names
    return replace(
        schema,
        n_features=len(columns),
        feature_names=None if names is None else tuple(names[j] for j in columns),
        categories=tuple(schema.categories[j] for j in columns),
    )


def divide(rows: Rows, spread: Sequence[tuple[float, float]] = ((1.0, 1.0),)) -> list[Part]:
    """Return the ways in which rows count: as the attacker moves them, and as they stand.

    `spread` divides the former further: pairs of a multiple of the reach and the share of rows that move so far.
    """
    attacks = rows.reach.attacks & (rows.rho > 0.0)
    moving, standing = np.flatnonzero(attacks[rows.label]), np.flatnonzero(~attacks[rows.label])
    parts = []
    reach = rows.reach
    for multiple, share in spread:
        parts.append(Part(moving, reach.multiply(multiple), True, rows.rho * share))
    parts.append(Part(moving, reach, False, 1.0 - rows.rho))
    parts.append(Part(standing, reach, False, 1.0))
    return [part for part in parts if len(part.which) and part.share > 0.0]


def _find_box(rows: Rows, part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Return both ends of what each number can become, NaN where one is missing.

    They are the same in categorical columns, where they mean nothing.
    """
    matrix = rows.matrix[part.which]
    low, high = part.reach.interval(matrix) if part.moves else (matrix, matrix)
    return np.ascontiguousarray(low), np.ascontiguousarray(high)


def find_gaps(rows: Rows) -> np.ndarray:
    """Say of each feature whether values of the rows are missing, or can be made so."""
    gaps = np.isnan(rows.matrix).any(axis=0)
    if rows.reach.blank is not None and rows.rho > 0.0 and rows.reach.attacks[rows.label].any():
        gaps |= rows.reach.blank
    return np.asarray(gaps)


class Grid(NamedTuple):
    """The cuts of every feature, and the sets of categories that samples can be given."""

    first_cut: np.ndarray
    cut: np.ndarray
    spread: np.ndarray
    first_reach: np.ndarray
    reach: np.ndarray
    known: np.ndarray
    can_miss: np.ndarray


def _round_cuts(first_cut: np.ndarray, cut: np.ndarray, whole: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round the cuts of whole numbers down; those that part the same numbers become one."""
    cuts = [cut[start:end] for start, end in pairwise(first_cut.tolist())]
    cuts = [np.unique(np.floor(values)) if is_whole else values for values, is_whole in zip(cuts, whole, strict=True)]
    sizes = np.array([0, *map(len, cuts)], dtype=np.int64)
    return np.cumsum(sizes), np.concatenate(cuts)


def find_grid(rows: Rows, ensemble: TreeEnsemble | None = None) -> Grid:
    """Find the cuts of every feature: in the middle of each gap between ends of reaches, and where a tree has some."""
    n_features = rows.matrix.shape[1]
    boxes = [end for part in divide(rows) for end in _find_box(rows, part)]
    ends = np.concatenate(boxes).T.copy()
    is_categorical = np.array([matrix is not None for matrix in rows.reach.categories])
    ends[is_categorical] = np.inf
    gaps = find_gaps(rows)
    can_miss = gaps & ~is_categorical
    ends[np.isnan(ends)] = np.inf
    ends.sort(axis=1)
    widest = rows.reach.widen(rows.matrix)
    distances = np.stack([widest.left, widest.right])
    reach = np.where(np.isfinite(distances), distances, 0.0).max(axis=0)
    if not rows.reach.attacks.any() or rows.rho == 0.0:
        reach[:] = 0.0
    wanted = _list_thresholds(ensemble, can_miss)
    first_cut = np.empty(n_features + 1, dtype=np.int64)
    about_cuts = (frozen(ends), CLOSENESS, reach, wanted, MOST_CUTS, first_cut)
    cut = np.empty(codes.find_cuts(*about_cuts, np.empty(0)))
    if len(cut):
        codes.find_cuts(*about_cuts, cut)
    if rows.reach.whole is not None:
        first_cut, cut = _round_cuts(first_cut, cut, rows.reach.whole)
    return Grid(first_cut, cut, _find_spread(rows), *_list_category_sets(rows.reach, gaps), can_miss)


def _find_spread(rows: Rows) -> np.ndarray:
    """Return the standard deviation of each feature, without what is missing; 1 where there is none."""
    share = rows.weight / rows.weight.sum()
    is_missing = np.isnan(rows.matrix)
    with np.errstate(over="ignore", invalid="ignore"):
        if is_missing.any():
            there = np.where(is_missing, 0.0, share[:, None])
            there /= np.where(is_missing.all(axis=0), 1.0, there.sum(axis=0))
            filled = np.where(is_missing, 0.0, rows.matrix)
            spread = np.sqrt((there * (filled - (there * filled).sum(axis=0)) ** 2).sum(axis=0))
        else:
            spread = np.sqrt(share @ (rows.matrix - share @ rows.matrix) ** 2)
    spread[~((spread > 0.0) & np.isfinite(spread))] = 1.0
    return np.asarray(spread)


def _list_thresholds(ensemble: TreeEnsemble | None, can_miss: np.ndarray) -> np.ndarray:
    """Return the thresholds of a tree, feature by feature, filled up with NaN; the largest number where some miss."""
    n_features = len(can_miss)
    pairs = np.column_stack([np.flatnonzero(can_miss), np.full(can_miss.sum(), LARGEST)])
    if ensemble is not None:
        numerical = np.flatnonzero((ensemble.feature >= 0) & (ensemble.category_start < 0))
        feature, threshold = ensemble.feature[numerical], ensemble.threshold[numerical]
        threshold = np.where(can_miss[feature], np.minimum(threshold, LARGEST), threshold)
        pairs = np.concatenate([np.column_stack([feature, threshold]), pairs])
    pairs = np.unique(pairs, axis=0)
    feature = pairs[:, 0].astype(np.intp)
    counts = np.bincount(feature, minlength=n_features)
    wanted = np.full((n_features, int(counts.max(initial=0))), np.nan)
    wanted[feature, np.arange(len(pairs)) - (np.cumsum(counts) - counts)[feature]] = pairs[:, 1]
    return wanted


def _relate(reach: Reach, feature: int, gaps: np.ndarray) -> np.ndarray:
    """Return which category may become which; where values may be missing, that is one category more, the last.

    A missing category that can be filled in becomes any that is known.
    """
    matrix = reach.categories[feature]
    assert matrix is not None
    if not gaps[feature]:
        return matrix
    wide = np.zeros((len(matrix) + 1, len(matrix) + 1), dtype=bool)
    wide[:-1, :-1] = matrix
    wide[:-1, -1] = reach.blank is not None and reach.blank[feature]
    wide[-1, : len(matrix) - 1] = reach.fill is not None and reach.fill[feature]
    wide[-1, -1] = True
    return wide


def _list_category_sets(reach: Reach, gaps: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where the sets of each feature begin, and all sets: of each category what it can become, and itself."""
    sizes = [0 if matrix is None else len(matrix) + gaps[j] for j, matrix in enumerate(reach.categories)]
    n_words = -(-max(sizes) // 64)
    first, sets = np.full(len(sizes), -1, dtype=np.int64), [np.empty((0, n_words), dtype=np.uint64)]
    known, n_before = np.zeros((len(sizes), n_words), dtype=np.uint64), 0
    for feature in reach.categorical:
        matrix = _relate(reach, feature, gaps)
        first[feature] = n_before
        sets.append(pack(np.concatenate([matrix, np.eye(len(matrix), dtype=bool)]), n_words))
        known[feature] = pack(np.ones((1, len(matrix)), dtype=bool), n_words)[0]
        n_before += 2 * len(matrix)
    return first, np.concatenate(sets), known


def pack(members: np.ndarray, n_words: int) -> np.ndarray:
    """Pack sets of categories, bool (set, code), into words."""
    padded = np.zeros((len(members), 64 * n_words), dtype=bool)
    padded[:, : members.shape[1]] = members
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64)


def unpack(words: np.ndarray, n_codes: int) -> np.ndarray:
    """Return sets of categories, bool (set, code), from words (set, word)."""
    bits = np.unpackbits(np.ascontiguousarray(words).astype("<u8").view(np.uint8), axis=-1, bitorder="little")
    return bits[..., :n_codes].astype(bool)


def make_samples(rows: Rows, grid: Grid, spread: Sequence[tuple[float, float]] = ((1.0, 1.0),)) -> Samples:
    """Return the rows as codes of the cuts of a grid, a sample for each of the ways in which a row counts."""
    parts = divide(rows, spread)
    codes = [_encode_part(rows, part, grid) for part in parts]
    targets = np.zeros((0, 0), dtype=bool) if rows.reach.targets is None else rows.reach.targets.copy()
    low, high, state, own = (np.concatenate(part, axis=1) for part in zip(*codes, strict=True))
    return Samples(
        low=low,
        high=high,
        label=np.concatenate([rows.label[part.which] for part in parts]).astype(np.int32),
        weight=np.concatenate([rows.weight[part.which] * part.share for part in parts]),
        **grid._asdict(),
        state=state,
        targets=targets,
        own=own,
    )


def _encode_part(rows: Rows, part: Part, grid: Grid) -> tuple[np.ndarray, ...]:
    """Return the codes of both ends of what values can become, their states, and the codes of the values themselves."""
    low, high = _find_box(rows, part)
    order = np.argsort(rows.matrix[part.which].T, axis=1)  # both ends are in the order of the values
    both = [_encode(np.minimum(ends, LARGEST) if grid.can_miss.any() else ends, order, grid) for ends in (low, high)]
    own = np.empty((0, len(low)), dtype=np.uint16)
    if rows.reach.targets is not None:
        own = _encode(np.ascontiguousarray(rows.matrix[part.which]), order, grid)
    for feature in rows.reach.categorical:
        values = rows.matrix[part.which, feature]
        gaps = np.diff(np.append(grid.first_reach[grid.first_reach >= 0], len(grid.reach)))
        n_codes = int(gaps[rows.reach.categorical.index(feature)]) // 2
        code = np.where(np.isnan(values), n_codes - 1, values)
        both[0][feature] = code + (0 if part.moves else n_codes)
        if len(own):
            own[feature] = code
    state = np.empty((0, len(low)), dtype=np.uint8)
    if grid.can_miss.any():
        state = _find_states(rows, part, grid, both)
    return (*both, state, own)


def _encode(ends: np.ndarray, order: np.ndarray, grid: Grid) -> np.ndarray:
    found = np.empty(order.shape, dtype=np.uint16)
    codes.encode(frozen(ends), order, grid.first_cut, grid.cut, found)
    return found


def _find_states(rows: Rows, part: Part, grid: Grid, both: list[np.ndarray]) -> np.ndarray:
    """Return whether values can be numbers, and can be missing; what is filled in is given both ends of its domain."""
    is_missing = np.isnan(rows.matrix[part.which]).T
    state = np.where(is_missing, MISSING | OWN_MISSING, NUMBER).astype(np.uint8)
    if not part.moves:
        return state
    blank, fill, within = part.reach.blank, part.reach.fill, part.reach.within
    if blank is not None:
        state[blank] |= MISSING
    for feature in np.flatnonzero(grid.can_miss & (False if fill is None else fill)).tolist():
        cut = grid.cut[grid.first_cut[feature] : grid.first_cut[feature + 1]]
        domain = (-LARGEST, LARGEST) if within is None else np.clip(within[:, feature], -LARGEST, LARGEST)
        is_filled = is_missing[feature]
        for codes_of_end, end in zip(both, np.searchsorted(cut, domain, side="left"), strict=True):
            codes_of_end[feature, is_filled] = end
        state[feature, is_filled] |= NUMBER
    return state


def take_samples(samples: Samples, which: np.ndarray, weight: np.ndarray) -> Samples:
    """Return some of the samples, with other weights."""
    return samples._replace(
        low=np.ascontiguousarray(samples.low[:, which]),
        high=np.ascontiguousarray(samples.high[:, which]),
        label=samples.label[which],
        weight=weight,
        state=np.ascontiguousarray(samples.state[:, which]),
        own=np.ascontiguousarray(samples.own[:, which]),
    )
