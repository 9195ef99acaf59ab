"""Giving things one of two labels so that as little as possible is lost: a minimum cut.

Two questions of refinement are the same. Which leaf says which class, if a row is lost as soon as it can be moved into
a leaf of the other class? Which category goes to which side, if a row is lost as soon as it can be given a category of
the wrong side? In both there are *items* (leaves, categories), and *groups* of rows that want all items within their
reach to have the same label.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

# The solver counts in 32 bits. A capacity that is never the bottleneck, and the most that all others may add up to.
_UNLIMITED = np.iinfo(np.int32).max // 2
_MOST = 1 << 29


class Groups(NamedTuple):
    """Compressed: group ``g`` wants the items ``item[start[g]:start[g + 1]]`` to have the label `wish[g]`."""

    start: np.ndarray
    item: np.ndarray
    wish: np.ndarray  # bool
    weight: np.ndarray


def merge_groups(groups: Groups, n_items: int) -> Groups:
    """Make one group of all that want the same of the same items."""
    # Two sums of random numbers per group tell sets of items apart: 128 bits.
    keys = np.random.default_rng(0).integers(0, 1 << 63, size=(n_items, 2), dtype=np.uint64)
    sums = np.add.reduceat(keys[groups.item], groups.start[:-1], axis=0)
    kinds = np.column_stack([sums, groups.wish.astype(np.uint64)])
    _, first, group = np.unique(kinds, axis=0, return_index=True, return_inverse=True)
    weight = np.bincount(group.ravel(), groups.weight)
    sizes = np.diff(groups.start)[first]
    start = np.concatenate([[0], np.cumsum(sizes)])
    within = np.arange(start[-1]) - np.repeat(start[:-1], sizes)
    item = groups.item[np.repeat(groups.start[first], sizes) + within]
    return Groups(start, item, groups.wish[first], weight)


def choose_labels(groups: Groups, current: np.ndarray) -> np.ndarray:
    """Return the label of each item with which the groups that do not get their wish weigh least.

    Of equally good labels those that change fewest of the `current` ones (bool per item). Every group has an item.
    """
    n_items = len(current)
    if not len(groups.wish):
        return current.copy()
    groups = merge_groups(groups, n_items)
    lost, kept = _scale(groups.weight, n_items)
    # source -> groups that want True -> their items -> groups that want False -> sink. What stays with the source once
    # the cheapest edges are cut is labelled True: a group's edge is cut iff it does not get its wish.
    n_groups = len(groups.wish)
    source, sink = n_groups + n_items, n_groups + n_items + 1
    group, item = np.repeat(np.arange(n_groups), np.diff(groups.start)), n_groups + groups.item
    wants = groups.wish[group]
    ends = [
        (np.where(groups.wish, source, np.arange(n_groups)), np.where(groups.wish, np.arange(n_groups), sink), lost),
        (np.where(wants, group, item), np.where(wants, item, group), np.full(len(item), _UNLIMITED)),
    ]
    if kept:
        items = n_groups + np.arange(n_items)
        ends.append((np.where(current, source, items), np.where(current, items, sink), np.full(n_items, kept)))
    tail, head, capacity = (np.concatenate(column) for column in zip(*ends, strict=True))
    size = sink + 1
    graph = sp.csr_matrix((capacity.astype(np.int32), (tail, head)), shape=(size, size))
    residual = graph - maximum_flow(graph, source, sink).flow
    residual.data = np.maximum(residual.data, 0)
    residual.eliminate_zeros()
    labels = np.zeros(size, dtype=bool)
    labels[breadth_first_order(residual, source, return_predecessors=False)] = True
    return labels[n_groups : n_groups + n_items]


def _scale(weight: np.ndarray, n_items: int) -> tuple[np.ndarray, int]:
    """Return weights as whole numbers, and what it costs to change a label: less, for all labels, than any weight.

    Weights that are whole numbers stay exactly in proportion if there is room; others are rounded to 29 bits in all.
    """
    total = weight.sum()
    if (weight == np.rint(weight)).all():
        for kept in (1, 0):
            unit = n_items + 1 if kept else 1
            if total * unit <= _MOST:
                return np.rint(weight).astype(np.int64) * unit, kept
    unit = (_MOST - n_items) / total
    return np.maximum(np.rint(weight * unit), 1).astype(np.int64), 1
