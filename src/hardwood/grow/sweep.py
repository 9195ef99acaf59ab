"""The exact grower for targets that are not two classes: every threshold, by a sweep over the ends of reach.

Samples are numbered by their targets, so that whoever goes through them in ascending order goes through the targets in
ascending order, too (`_kernels.grow.sweep`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow import sweep
from hardwood._kernels.grow.nodes import LEAVES, NODES, Limits
from hardwood._kernels.grow.numbers import END_BIT
from hardwood._kernels.grow.orders import GROUP, ID_MASK, MAX_ROWS
from hardwood.grow.bins import halve
from hardwood.grow.exact import FIRST_CAPACITY
from hardwood.grow.fixed_point import ROW_EACH, choose_units, fix_point
from hardwood.grow.shifts import find_differences
from hardwood.grow.workers import Workers
from hardwood.threat import Reach

# A tree while it grows: named arrays with an entry per node, and `sizes`.
GrowingTree = TypeVar("GrowingTree", bound=Any)
UPPER = np.uint32(1) << END_BIT


class Roster(NamedTuple):
    """The samples of a table in the order of their targets."""

    row: np.ndarray  # of each sample
    stays: np.ndarray  # bool: whether it is the part of its row that does not move
    weight: np.ndarray  # float64
    share: np.ndarray  # of its row: 1, rho or 1 - rho


def make_roster(target: np.ndarray, sample_weight: np.ndarray | None, rho: float, moves: bool) -> Roster:
    """Make one sample of each row, or two if its attacker attacks in a share `rho` of the cases only.

    moves : whether anybody can move anything.
    """
    # Rows of the same target by weight: so sums do not depend on the order of the table.
    order = np.argsort(target, kind="stable") if sample_weight is None else np.lexsort((sample_weight, target))
    if rho == 1.0 or rho == 0.0 or not moves:
        everyone = np.broadcast_to(1.0, len(order))  # takes no memory
        stays = np.broadcast_to(rho == 0.0 or not moves, len(order))
        return Roster(order, stays, everyone if sample_weight is None else sample_weight[order], everyone)
    row, stays = np.repeat(order, 2), np.tile([False, True], len(order))
    share = np.where(stays, 1.0 - rho, rho)
    return Roster(row, stays, share if sample_weight is None else sample_weight[row] * share, share)


def weigh_roster(
    roster: Roster, sample_weight: np.ndarray | None, drawn: np.ndarray | None = None
) -> tuple[np.ndarray, sweep.Units]:
    """Return what samples weigh and count as integers, ROW_EACH where each is a row of weight 1, and the units.

    drawn : samples, with repetitions, whose sums are to be exact; None: all, each once
    """
    if sample_weight is None and (roster.share == 1.0).all():
        return ROW_EACH, sweep.Units(1.0, 1.0)
    units = choose_units(roster.weight, drawn)
    rows = np.rint(np.ldexp(roster.share, units.row_bits)).astype(np.int64)
    weight = fix_point(roster.weight, units.weight_bits)
    return frozen(np.column_stack([weight, rows])), sweep.Units(units.weight, units.rows)


def sort_ends(X: np.ndarray, reach: Reach, roster: Roster, workers: Workers) -> sweep.SweepSamples:
    """Sort the ends of reach of every feature: the events of `_kernels.grow.sweep`."""
    n_samples, n_features = len(roster.row), X.shape[1]
    if n_samples > MAX_ROWS:
        raise ValueError(f"X has {len(X)} rows, {n_samples} samples; at most {MAX_ROWS} are supported.")
    furthest = np.column_stack([(wide := reach.widen(X)).left, wide.right])
    is_movable = (furthest > 0.0).any(axis=1) & ~roster.stays.all()
    largest = np.where(np.isfinite(furthest), furthest, 0.0).max(axis=1) * is_movable
    ends = np.append(np.where(is_movable, 2, 1), 1)
    first = np.cumsum(ends * n_samples) - ends * n_samples
    events = np.empty(int(ends.sum()) * n_samples, dtype=np.uint32)
    events[first[-1] :] = np.arange(n_samples, dtype=np.uint32)

    def sort_share(begin: int, end: int) -> None:
        for feature in range(begin, end):
            entry, at = _sort_feature(X, reach, roster, feature, ends[feature] == 2)
            starts = np.append(False, find_differences(at, float(largest[feature])))
            events[first[feature] : first[feature] + len(entry)] = entry | np.where(starts, GROUP, np.uint32(0))

    workers.run(sort_share, workers.share(0, n_features))
    return sweep.SweepSamples(
        events=events,
        first=first,
        ends=ends,
        side=np.zeros(n_samples // 32 + 1, dtype=np.uint32),
        spill=np.empty(2 * n_samples, dtype=np.uint32),
        features=np.arange(n_features, dtype=np.int64),
    )


def _sort_feature(
    X: np.ndarray, reach: Reach, roster: Roster, feature: int, is_movable: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the events of one feature, and where they lie."""
    x = X[:, feature][roster.row]
    order = np.argsort(x, kind="stable").astype(np.uint32)
    x = x[order]
    if not is_movable:
        return order | UPPER, x
    low, high = place_ends(x, roster.stays[order], reach, feature)
    at = np.concatenate([low, high])
    merged = np.argsort(at, kind="stable")  # two sorted runs, which are merged
    return np.concatenate([order, order | UPPER])[merged], at[merged]


def place_ends(x: np.ndarray, stays: np.ndarray, reach: Reach, feature: int) -> tuple[np.ndarray, np.ndarray]:
    """Return both ends of the reach of samples on one feature; those that stay have one."""
    low, high = reach.interval(x, feature)
    return (np.where(stays, x, low), np.where(stays, x, high)) if stays.any() else (low, high)


def find_thresholds(nodes: np.ndarray, X: np.ndarray, reach: Reach, roster: Roster) -> np.ndarray:
    """Return the threshold of every split: midway between the last end of reach on its left and the first on its right.

    Both are finite, as somebody is surely on the left of a threshold that gains, and somebody on the right.
    """
    threshold = np.zeros(len(nodes))
    for feature in np.unique(nodes["feature"][nodes["left"] >= 0]).tolist():
        mine = np.flatnonzero((nodes["left"] >= 0) & (nodes["feature"] == feature))
        beside = []
        for side in ("below", "above"):
            event = nodes[side][mine].astype(np.uint32)
            sample = event & ID_MASK
            low, high = place_ends(X[roster.row[sample], feature], roster.stays[sample], reach, feature)
            beside.append(np.where(event & UPPER, high, low))
        threshold[mine] = halve(*beside)
    return threshold


def grow_nodes(
    samples: sweep.SweepSamples,
    weights: np.ndarray,
    target: np.ndarray,
    units: sweep.Units,
    limits: Limits,
    seed: int,
    *,
    squared: bool,
) -> np.ndarray:
    """Grow one tree on samples whose numbers ascend, and return its nodes."""
    fenwick = None if squared else sweep.absolute.Fenwick(np.zeros((len(target) + 1, 7), dtype=np.int64))
    numbers = make_numbers(target)
    tree = plant(sweep.NODE, len(target), weights, units, seed)
    tree = raise_tree(tree, lambda tree: sweep.grow(samples, weights, numbers, fenwick, units, limits, tree))
    return tree.nodes[: int(tree.sizes[NODES])]


def make_numbers(target: np.ndarray) -> sweep.numbers.Numbers:
    """Return the numbers of samples, which ascend, and room for what nodes make of them."""
    n_samples, n_ranks = len(target), 1 + int(np.count_nonzero(target[1:] != target[:-1]))
    return sweep.numbers.Numbers(
        target=target,
        value=np.empty(n_samples, dtype=np.int64),
        rank=np.empty(n_samples, dtype=np.int32),
        height=np.empty(n_ranks),
        first=np.empty(n_ranks, dtype=np.int32),
        held=np.zeros((n_ranks, 3), dtype=np.int64),
    )


def plant(node: np.dtype, n_samples: int, weights: np.ndarray, units: sweep.Units, seed: int) -> sweep.SweepTree:
    """Make a tree that is a root, which holds all samples."""
    tree = sweep.SweepTree(
        nodes=np.zeros(FIRST_CAPACITY, dtype=node),
        heap=np.zeros(FIRST_CAPACITY, dtype=np.int64),
        sizes=np.zeros(4, dtype=np.int64),
    )
    root = tree.nodes[0]
    root["feature"] = root["left"] = -1
    sums = (n_samples, n_samples) if weights.shape[1] == 1 else weights.sum(axis=0).tolist()
    root["end"], root["weight"], root["count"], root["seed"] = n_samples, sums[0], sums[1] * units.rows, seed
    tree.sizes[[NODES, LEAVES]] = 1
    return tree


def raise_tree(tree: GrowingTree, grow: Callable[[GrowingTree], int]) -> GrowingTree:
    """Call a kernel until nothing is left to split, with twice the room whenever it needs some."""
    while grow(tree) == sweep.FULL:
        arrays = {name: array for name, array in tree._asdict().items() if name != "sizes"}
        tree = tree._replace(**{name: np.concatenate([old, np.zeros_like(old)]) for name, old in arrays.items()})
    return tree
