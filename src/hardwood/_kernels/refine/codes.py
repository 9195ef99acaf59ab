"""Cuts, and the rows of a table as codes of them.

A cut of a feature is a threshold between two ends of reaches. A row can be moved to the left of cut ``k`` iff
``k >= low``, and to its right iff ``k < high``: two small numbers per value are all that refinement has to know.

A value that may be missing has a `state` besides: whether it can be a number, and whether it can be missing. The last
cut of such a feature has all numbers on its left, so that a split there parts what is missing from what is not. A
missing category is one more category.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel

MOST_CUTS = (1 << 16) - 1  # so that codes fit in 16 bits
# What a value can be, and whether the row's own value is missing: bits.
NUMBER, MISSING, OWN_MISSING = 1, 2, 4


class Samples(NamedTuple):
    """The rows that a tree is refined on. A row that counts in several ways (moved, unmoved) is several samples."""

    low: np.ndarray  # uint16 (feature, sample): the first cut that it can be left of; of a category, which reach it has
    high: np.ndarray  # uint16 (feature, sample): how many cuts it can be right of
    label: np.ndarray  # int32 per sample, the class
    weight: np.ndarray  # float64 per sample
    first_cut: np.ndarray  # int64 per feature and one more: where its cuts are in `cut`
    cut: np.ndarray  # float64, the thresholds, ascending feature by feature
    spread: np.ndarray  # float64 per feature: the unit in which gaps of different features are compared
    first_reach: np.ndarray  # int64 per feature: where its category sets are in `reach`; -1 = numerical
    reach: np.ndarray  # uint64 (set, word): the categories that a sample can be given
    known: np.ndarray  # uint64 (feature, word): all categories there are, the never seen included
    can_miss: np.ndarray  # bool per feature: whether it holds numbers, some of which may be missing
    state: np.ndarray  # uint8 (feature, sample): NUMBER, MISSING, OWN_MISSING; empty if no number can be missing
    targets: np.ndarray  # bool (class, class): which classes the attacker wants for each; empty if all others
    own: np.ndarray  # uint16 (feature, sample): the code of the row's own value, with `targets` only


@kernel(about="thresholds for refinement", seconds=0.4)
def find_cuts(ends, closeness, reach, wanted, most, first_cut, cut):
    """Put a cut in the middle of each gap between ends; return how many in all. With an empty `cut` only count.

    ends : float64 (feature, end), ascending; infinite ones at either side.
    closeness : float64, relative. Ends of a feature whose `reach` (float64 per feature) is positive that differ by no
        more count as equal: a threshold between them would be a bet on rounding.
    wanted : float64 (feature, threshold), ascending, NaN at the end: thresholds that must be among the cuts.
    most : the most cuts of a feature. If there are more gaps, some of them, evenly spread, are left out.
    """
    total = 0
    for feature in range(ends.shape[0]):
        first_cut[feature] = total
        n_gaps = 0
        for k in range(1, ends.shape[1]):
            n_gaps += _is_gap(ends[feature, k - 1], ends[feature, k], closeness, reach[feature])
        room = most - wanted.shape[1]
        n_kept = n_gaps if n_gaps < room else room
        next_wanted, seen = 0, 0
        for k in range(1, ends.shape[1]):
            below, above = ends[feature, k - 1], ends[feature, k]
            if not _is_gap(below, above, closeness, reach[feature]):
                continue
            seen += 1
            if seen * n_kept // n_gaps == (seen - 1) * n_kept // n_gaps:
                continue
            middle = 0.5 * below + 0.5 * above
            middle = middle if below <= middle < above else below
            while next_wanted < wanted.shape[1] and wanted[feature, next_wanted] <= middle:
                if wanted[feature, next_wanted] < middle:
                    total = _add(cut, total, first_cut[feature], wanted[feature, next_wanted])
                next_wanted += 1
            total = _add(cut, total, first_cut[feature], middle)
        while next_wanted < wanted.shape[1] and wanted[feature, next_wanted] == wanted[feature, next_wanted]:
            total = _add(cut, total, first_cut[feature], wanted[feature, next_wanted])
            next_wanted += 1
    first_cut[ends.shape[0]] = total
    return total


@inner
def _is_gap(below, above, closeness, reach):
    """Whether two neighbouring ends are finite and apart."""
    if not (below < above and below > -np.inf and above < np.inf):
        return False
    if reach == 0.0:
        return True
    size = abs(below) if abs(below) > abs(above) else abs(above)
    return above - below > closeness * (size if size > reach else reach)


@inner
def _add(cut, total, first, threshold):
    if cut.shape[0]:
        cut[total] = threshold
    return total + 1


@kernel(about="rows for refinement", seconds=0.2)
def encode(ends, order, first_cut, cut, codes):
    """Fill `codes` (feature, sample): how many cuts of its feature are below each of `ends` (sample, feature).

    order : int64 (feature, sample), the samples in the order of their ends, so that no cut has to be searched for.
    """
    for feature in range(codes.shape[0]):
        k, last = first_cut[feature], first_cut[feature + 1]
        for position in range(codes.shape[1]):
            sample = order[feature, position]
            end = ends[sample, feature]
            while k < last and cut[k] < end:
                k += 1
            codes[feature, sample] = k - first_cut[feature]
