"""Which rows of different classes can be moved onto a common point, as arrays in which a matching is found.

Only the order of the ends of reach matters, so they become ranks, as coarse as the other side allows: an end moves
up a rank only where it passes an end that it is compared with. Features that keep no two rows apart are left out. Under
a strong attacker thousands of rows so become equal, and equal rows are dealt with once.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from hardwood._kernels.conflicts import BoxTree, Categories, Places
from hardwood.threat import Reach

# Rows in a leaf of the box tree. For 100,000 rows of spambase 64 takes as long as 32, and 16 a sixth longer.
LEAF_SIZE = 32
# Rows that stand for all when the features are compared by how well they keep rows apart.
SAMPLE = 256


class ConflictGraph(NamedTuple):
    """Rows of a left and a right side, which are in conflict if they meet and their classes differ."""

    left: Places
    right: Places
    boxes: BoxTree
    categories: Categories


def order_rows(
    matrix: np.ndarray, rows: np.ndarray, class_index: np.ndarray, reach: Reach
) -> tuple[np.ndarray, BoxTree]:
    """Return the rows of the right side in the order of a box tree, and that tree, whose boxes are still empty.

    Each class has a tree of its own. A node is cut in two where rows like its own can best be told apart.
    """
    low, high = reach.box(np.nan_to_num(matrix[rows]), class_index[rows])
    for j, table in enumerate(reach.categories):
        if table is not None and not _is_fixed(table):  # codes are no order, and a node is not cut by them
            low[:, j], high[:, j] = -np.inf, np.inf
    order: list[np.ndarray] = []
    nodes: list[tuple[int, ...]] = []  # class, first, last, parent
    for k in np.unique(class_index[rows]).tolist():
        members = np.flatnonzero(class_index[rows] == k)
        _cut_in_two(low, high, members, k, sum(map(len, order)), nodes)
        order.append(members)
    class_of, first, last, parent = np.array(nodes, dtype=np.int32).T.copy()
    after = np.arange(1, len(nodes) + 1, dtype=np.int32)
    for node in range(len(nodes) - 1, 0, -1):
        if parent[node] >= 0:
            after[parent[node]] = max(after[parent[node]], after[node])
    empty = np.empty((0, 0), dtype=np.int32)
    return rows[np.concatenate(order)], BoxTree(empty, empty, class_of, first, last, after, parent)


def _cut_in_two(
    low: np.ndarray, high: np.ndarray, members: np.ndarray, class_index: int, start: int, nodes: list[tuple[int, ...]]
) -> None:
    """Append the nodes of one class's tree, and put its rows into their order."""
    waiting = [(0, len(members), -1)]
    while waiting:
        first, last, parent = waiting.pop()
        if last - first > LEAF_SIZE:
            rows = members[first:last]
            goes_left = _choose_left(low, high, rows)
            middle = first + int(goes_left.sum())
            members[first:last] = np.concatenate([rows[goes_left], rows[~goes_left]])
            waiting += [(middle, last, len(nodes)), (first, middle, len(nodes))]
        nodes.append((class_index, start + first, start + last, parent))


def _choose_left(low: np.ndarray, high: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Say which of these rows go left: by the median of the feature whose halves the fewest rows reach both of."""
    sample = _take_sample(rows)
    bottom, top = low[sample], high[sample]
    with np.errstate(invalid="ignore"):  # from -inf to inf, the middle is nowhere
        middle = np.nan_to_num(0.5 * (bottom + top), nan=0.0)
    median = np.sort(middle, axis=0)[(len(sample) - 1) // 2]
    is_left = middle <= median
    is_left = np.where(is_left.all(axis=0), middle < median, is_left)
    end = np.where(is_left, top, -np.inf).max(axis=0)  # of the left half
    begin = np.where(is_left, np.inf, bottom).min(axis=0)  # of the right half
    share = is_left.mean(axis=0)
    cost = share * (bottom <= end).mean(axis=0) + (1.0 - share) * (top >= begin).mean(axis=0)
    best = int(np.where(is_left.any(axis=0), cost, np.inf).argmin())
    with np.errstate(invalid="ignore"):
        value = np.nan_to_num(0.5 * (low[rows, best] + high[rows, best]), nan=0.0)
    goes_left = value <= median[best]
    if goes_left.all():
        goes_left = value < median[best]
    if not goes_left.any() or goes_left.all():  # all the same: anywhere will do
        goes_left = np.arange(len(rows)) < len(rows) // 2
    return goes_left


def build_graph(
    matrix: np.ndarray, sides: tuple[np.ndarray, np.ndarray], class_index: np.ndarray, reach: Reach, boxes: BoxTree
) -> ConflictGraph:
    """Return the conflicts between two sets of rows of a matrix; those of the second are in the order of `boxes`."""
    features: list[Ends] = []
    codes: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    relations = []
    for j, table in enumerate(reach.categories):
        blank, fill = (flags is not None and bool(flags[j]) for flags in (reach.blank, reach.fill))
        if table is None:
            low, high = (end[:, 0] for end in reach.select(np.array([j])).box(matrix[:, [j]], class_index))
            if blank or fill:
                features += _rank_hidden(low, high, reach.attacks[class_index], sides, blank=blank, fill=fill)
            else:
                features.append(_rank_ends(*(end[rows] for rows in sides for end in (low, high))))
            continue
        columns, attacks = [matrix[rows, j] for rows in sides], [reach.attacks[class_index[rows]] for rows in sides]
        (ours, theirs), own_codes, relation = _relate_categories(columns, attacks, table, blank=blank, fill=fill)
        features.append(Ends(ours, ours, theirs, theirs))
        if relation is not None:
            relations.append(relation)
            for side, code in zip(codes, own_codes, strict=True):
                side.append(code)
    # Those first that keep the most rows apart.
    features = sorted((ends for ends in features if ends.keep_apart()), key=Ends.share_together)
    size = np.array([len(relation) for relation in relations], dtype=np.int64)
    flat = np.concatenate([relation.ravel() for relation in relations]) if relations else np.empty(0, dtype=bool)
    categories = Categories(flat, np.cumsum(size**2) - size**2, size)
    left = _make_places([ends[:2] for ends in features], codes[0], class_index[sides[0]])
    right = _make_places([ends[2:] for ends in features], codes[1], class_index[sides[1]])
    return ConflictGraph(left, right, _fit_boxes(boxes, right), categories)


class Ends(NamedTuple):
    """Where the rows of both sides can be moved to in one feature, as ranks."""

    low_left: np.ndarray
    high_left: np.ndarray
    low_right: np.ndarray
    high_right: np.ndarray

    def keep_apart(self) -> bool:
        """Say whether any two rows are apart."""
        return bool(self.low_left.max() > self.high_right.min() or self.low_right.max() > self.high_left.min())

    def share_together(self) -> float:
        """Return the share of pairs that are not apart, by a sample."""
        low_left, high_left, low_right, high_right = (_take_sample(end) for end in self)
        together = (low_left[:, None] <= high_right) & (low_right <= high_left[:, None])
        return float(together.mean())


def _take_sample(rows: np.ndarray) -> np.ndarray:
    """Return some rows that stand for all."""
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), SAMPLE)).astype(np.intp)]


def _make_places(features: Sequence[tuple], codes: Sequence[np.ndarray], class_index: np.ndarray) -> Places:
    """Put the rows of one side together, feature by feature."""
    none = np.empty((len(class_index), 0), dtype=np.int32)
    low, high, code = (
        np.column_stack(columns).astype(np.int32) if columns else none
        for columns in ([low for low, _ in features], [high for _, high in features], codes)
    )
    class_index = class_index.astype(np.int32)
    return Places(low, high, code, class_index, _number_groups(np.column_stack([low, high, code, class_index])))


def _rank_ends(low_left: np.ndarray, high_left: np.ndarray, low_right: np.ndarray, high_right: np.ndarray) -> Ends:
    """Return both ends of the reach of both sides as ranks; missing values meet missing ones."""
    low_left_rank, high_right_rank = _rank(low_left, high_right)
    low_right_rank, high_left_rank = _rank(low_right, high_left)
    ends = [low_left_rank, high_left_rank, low_right_rank, high_right_rank]
    missing = [np.isnan(low_left), np.isnan(low_right)]
    if missing[0].any() or missing[1].any():
        beyond = max(int(end.max()) for end in ends) + 1
        ends = [np.where(missing[k // 2], beyond, end) for k, end in enumerate(ends)]
    return Ends(*ends)


def _rank_hidden(
    low: np.ndarray,
    high: np.ndarray,
    attacks: np.ndarray,
    sides: tuple[np.ndarray, np.ndarray],
    *,
    blank: bool,
    fill: bool,
) -> list[Ends]:
    """Return the ends of reach of numbers that can be blanked or filled in, as those of two features.

    Two rows meet if both can lack the value, or if the numbers that they can have meet. The first feature keeps rows
    on the left that have a value in any case apart from others, the second such rows on the right.
    """
    largest = np.finfo(np.float64).max
    is_missing = np.isnan(low)
    can_miss = is_missing | (attacks & blank)
    can_have = ~is_missing | (attacks & fill)
    # What is missing for good is beyond all numbers.
    low = np.where(is_missing, np.where(can_have, -np.inf, np.inf), np.clip(low, -largest, largest))
    high = np.where(is_missing, np.inf, np.clip(high, -largest, largest))
    free_low, free_high = np.where(can_miss, -np.inf, low), np.where(can_miss, np.inf, high)
    left, right = sides
    any_low, any_high = np.where(can_miss, low, -np.inf), np.where(can_miss, high, np.inf)
    return [
        _rank_ends(free_low[left], free_high[left], low[right], high[right]),
        _rank_ends(any_low[left], any_high[left], free_low[right], free_high[right]),
    ]


def _rank(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the fewest whole numbers that compare as these do: ``low <= high`` says the same of every pair."""
    lows = np.unique(low[~np.isnan(low)])
    at_or_below = np.searchsorted(lows, high, side="right")  # how many lows are no larger than each high
    steps = np.unique(at_or_below[~np.isnan(high)])
    position = np.searchsorted(lows, low, side="left")
    return np.searchsorted(steps, position, side="right"), np.searchsorted(steps, at_or_below, side="left")


def _is_fixed(table: np.ndarray) -> bool:
    """Say whether no category can become another."""
    return bool(table.sum() == len(table))


def _relate_categories(
    columns: Sequence[np.ndarray], attacks: Sequence[np.ndarray], table: np.ndarray, *, blank: bool, fill: bool
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray | None]:
    """Return which rows can be given the same known category: (component, code of each row of both sides, relation).

    Rows of different components are apart. In most components all are in conflict with all; for the codes of the others
    there is a relation, a square matrix. A missing value is in conflict with missing ones and those that can be so, a
    category that is not known with none, because it may stand for several.
    """
    unseen, missing = len(table) - 1, len(table)
    size = len(table) + 1
    category = [np.nan_to_num(column, nan=missing).astype(np.int64) for column in columns]
    if _is_fixed(table) and not (blank or fill):
        # A category is its own component; those that are not known have different ones on the two sides.
        left, right = (np.where(own == unseen, size + k, own) for k, own in enumerate(category))
        return [left, right], [], None
    named = np.concatenate(category) + size * ~np.concatenate(attacks)  # rows that do not move are named apart
    present, name = np.unique(named, return_inverse=True)
    becomes = np.zeros((2 * size, size), dtype=bool)
    becomes[: len(table), : len(table)] = table
    becomes[size:] = np.eye(size, dtype=bool)
    becomes[missing, missing] = True
    becomes[: len(table), missing] = blank
    becomes[missing, :unseen] |= fill
    becomes[:, unseen] = False
    # Categories that can become the same ones are of one kind.
    kinds, kind = np.unique(np.packbits(becomes[present], axis=1), axis=0, return_inverse=True)
    kind = kind.ravel()[name.ravel()]
    options = sp.csr_array(np.unpackbits(kinds, axis=1).astype(np.int32))
    conflict = ((options @ options.T) > 0).tocsr()
    component = connected_components(conflict, directed=False)[1]
    n_partners = np.diff(conflict.indptr)
    is_complete = np.bincount(component, weights=n_partners) == np.bincount(component) ** 2
    # Code 0 stands for complete components, which need no relation.
    partial = np.flatnonzero(~is_complete[component])
    code, relation = np.zeros(len(kinds), dtype=np.int32), np.ones((len(partial) + 1,) * 2, dtype=bool)
    code[partial] = 1 + np.arange(len(partial))
    relation[1:, 1:] = conflict[partial][:, partial].toarray()
    sides = np.split(kind, [len(columns[0])])
    return [component[side] for side in sides], [code[side] for side in sides], relation if len(partial) else None


def _number_groups(table: np.ndarray) -> np.ndarray:
    """Return a number for each row; rows of the same number are equal."""
    factors = np.random.default_rng(0).integers(1, 2**63, (table.shape[1],)).astype(np.uint64)
    digest = np.zeros(len(table), dtype=np.uint64)
    for j, factor in enumerate(factors):
        digest ^= digest >> np.uint64(29)  # so that the order of the columns matters
        digest += (table[:, j].astype(np.uint64) + np.uint64(1)) * factor
        digest *= np.uint64(0x9E3779B97F4A7C15)  # an odd number that spreads bits: 2**64 over the golden ratio
    _, example, group = np.unique(digest, return_index=True, return_inverse=True)
    # Rows of the same digest that are not equal, if ever there are any, are on their own.
    strangers = np.flatnonzero((table != table[example[group]]).any(axis=1))
    group[strangers] = len(example) + np.arange(len(strangers))
    return group.astype(np.int32)


def _fit_boxes(boxes: BoxTree, right: Places) -> BoxTree:
    """Return the tree with the bounding boxes of its rows."""
    n_nodes = len(boxes.after)
    low, high = (np.empty((n_nodes, right.low.shape[1]), dtype=np.int32) for _ in range(2))
    leaves = np.flatnonzero(boxes.after == np.arange(n_nodes) + 1)
    low[leaves] = np.minimum.reduceat(right.low, boxes.first[leaves], axis=0)
    high[leaves] = np.maximum.reduceat(right.high, boxes.first[leaves], axis=0)
    is_leaf = np.zeros(n_nodes, dtype=bool)
    is_leaf[leaves] = True
    for node in np.flatnonzero(~is_leaf)[::-1].tolist():
        one, other = node + 1, boxes.after[node + 1]
        low[node] = np.minimum(low[one], low[other])
        high[node] = np.maximum(high[one], high[other])
    return boxes._replace(low=low, high=high)
