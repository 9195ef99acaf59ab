"""A maximum matching of rows that are in conflict, without a list of the conflicts.

Rows of the left side are matched with rows of the right side that they can be moved onto a common point with. There may
be billions of such pairs, so none is stored: the rows of the right side are in a tree of bounding boxes, and whoever
looks for partners of a row walks down the tree, past every box that is out of reach or holds nothing that is still
open.

First each row is matched with the first partner that is left. Then, phase by phase, the matching is improved.
A phase is a breadth-first search from all unmatched rows of the left side at once. Every row of the right side is
taken by the first tree of the search that gets to it, and a tree ends as soon as it gets to an unmatched row. The paths
from roots to such rows have no row in common, and along each the matching gains one pair. When a phase gains nothing
the matching is a maximum one (Berge).
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel


class Places(NamedTuple):
    """Where the rows of one side can be moved to, in ranks: rows are apart where ``low > high`` of the other side."""

    low: np.ndarray  # int32 (row, feature)
    high: np.ndarray  # int32 (row, feature)
    code: np.ndarray  # int32 (row, categorical feature that ranks do not settle)
    class_index: np.ndarray  # int32 per row: the class
    group: np.ndarray  # int32 per row: rows of equal number are in conflict with the same rows


class Categories(NamedTuple):
    """Which categories can be turned into the same one, feature by feature."""

    conflict: np.ndarray  # bool: square matrices, all in a row
    start: np.ndarray  # int64 per feature: where its matrix starts
    size: np.ndarray  # int64 per feature: how many categories


class BoxTree(NamedTuple):
    """Bounding boxes of the rows of the right side; nodes in the order of a depth-first walk."""

    low: np.ndarray  # int32 (node, feature): the least of its rows
    high: np.ndarray  # int32 (node, feature): the largest of its rows
    class_index: np.ndarray  # int32: the class of all its rows
    first: np.ndarray  # int32: its first row
    last: np.ndarray  # int32: one past its last row
    after: np.ndarray  # int32: the node that follows its last descendant; a leaf's is the next one
    parent: np.ndarray  # int32: -1 for a root


class Matching(NamedTuple):
    """Who is matched with whom."""

    right_of: np.ndarray  # int32 per row of the left side: its partner, or -1
    left_of: np.ndarray  # int32 per row of the right side: its partner, or -1


class Forest(NamedTuple):
    """The trees of one phase."""

    queue: np.ndarray  # int32: rows of the left side in the order in which they were reached
    root: np.ndarray  # int32 per row of the left side: the root of its tree
    end: np.ndarray  # int32 per row of the left side, for roots: the unmatched row its tree has found, or -1
    reached_from: np.ndarray  # int32 per row of the right side: the row of the left side it was reached from
    is_open: np.ndarray  # bool per row of the right side: not reached yet
    n_open: np.ndarray  # int32 per node of the box tree
    exhausted: np.ndarray  # bool per group of the left side: no open row is in conflict with it


@inner
def find_partner(left, right, boxes, categories, forest, row, node, partner, open_only):
    """Return the next row (or open row) in conflict with `row`: (its leaf, it or -1, how many boxes were looked at).

    The search goes on in leaf `node` behind `partner`; if that is -1, it begins at the node.
    """
    looked = 0
    while node < boxes.after.shape[0]:
        if partner < 0:
            looked += 1
            apart = (open_only and forest.n_open[node] == 0) or boxes.class_index[node] == left.class_index[row]
            if not apart:
                for f in range(left.low.shape[1]):
                    if left.low[row, f] > boxes.high[node, f] or boxes.low[node, f] > left.high[row, f]:
                        apart = True
                        break
            if apart:
                node = boxes.after[node]
                continue
            if boxes.after[node] != node + 1:
                node += 1
                continue
            partner = boxes.first[node] - 1
        partner += 1
        while partner < boxes.last[node]:
            if forest.is_open[partner] or not open_only:
                looked += 1
                apart = False
                for f in range(left.low.shape[1]):
                    if left.low[row, f] > right.high[partner, f] or right.low[partner, f] > left.high[row, f]:
                        apart = True
                        break
                if not apart:
                    for f in range(left.code.shape[1]):
                        at = categories.start[f] + left.code[row, f] * categories.size[f] + right.code[partner, f]
                        if not categories.conflict[at]:
                            apart = True
                            break
                if not apart:
                    return node, partner, looked
            partner += 1
        node = boxes.after[node]
        partner = -1
    return node, -1, looked


@inner
def close_row(boxes, forest, node, row):
    """Take a row of the right side, which is in this leaf, out of the open ones."""
    forest.is_open[row] = False
    while node >= 0:
        forest.n_open[node] -= 1
        node = boxes.parent[node]


@kernel(about="the ceiling: a first matching", seconds=0.5)
def match_greedily(left, right, boxes, categories, forest, matching, rows, alone, begin, most):
    """Match each of these rows of the left side with the first unmatched row that is in conflict with it.

    The unmatched rows of the right side are open. `alone` is set for groups that are in conflict with no row at all.
    Begins at ``rows[begin]``, stops after looking at some `most` boxes, and returns where to begin next.
    """
    looked = 0
    while begin < rows.shape[0] and looked < most:
        row = rows[begin]
        begin += 1
        group = left.group[row]
        if forest.exhausted[group]:
            continue
        node, partner, more = find_partner(left, right, boxes, categories, forest, row, 0, -1, False)
        looked += more
        alone[group] = partner < 0
        if partner >= 0 and not forest.is_open[partner]:
            node, partner, more = find_partner(left, right, boxes, categories, forest, row, node, partner, True)
            looked += more
        if partner < 0:
            forest.exhausted[group] = True
        else:
            close_row(boxes, forest, node, partner)
            matching.right_of[row] = partner
            matching.left_of[partner] = row
    return begin


@kernel(about="the ceiling: a phase of the matching", seconds=0.4)
def grow_forest(left, right, boxes, categories, forest, matching, begin, length, most):
    """Go on with the search from ``queue[begin:length]``; return the new (begin, length).

    Stops after looking at some `most` boxes. The phase is over when `begin` has caught up with `length`.
    """
    looked = 0
    while begin < length and looked < most:
        row = forest.queue[begin]
        begin += 1
        root = forest.root[row]
        if forest.end[root] >= 0 or forest.exhausted[left.group[row]]:
            continue
        node, partner, more = find_partner(left, right, boxes, categories, forest, row, 0, -1, True)
        looked += more
        while partner >= 0:
            forest.reached_from[partner] = row
            close_row(boxes, forest, node, partner)
            mate = matching.left_of[partner]
            if mate < 0:
                forest.end[root] = partner
                break
            forest.root[mate] = root
            forest.queue[length] = mate
            length += 1
            node, partner, more = find_partner(left, right, boxes, categories, forest, row, node, partner, True)
            looked += more
        if partner < 0:
            forest.exhausted[left.group[row]] = True
    return begin, length


@kernel(about="the ceiling: longer matchings", seconds=0.1)
def augment(forest, matching, roots):
    """Match along the paths that a phase has found, and return how many there were."""
    gained = 0
    for i in range(roots.shape[0]):
        root = roots[i]
        partner = forest.end[root]
        if partner < 0:
            continue
        gained += 1
        while True:
            row = forest.reached_from[partner]
            previous = matching.right_of[row]
            matching.right_of[row] = partner
            matching.left_of[partner] = row
            if row == root:
                break
            partner = previous
    return gained
