"""Sending rows down trees."""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel

TOGETHER = 32  # rows that go down a tree side by side


class Trees(NamedTuple):
    """The arrays of a TreeEnsemble that decide where a row goes; all read-only."""

    root: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    missing_left: np.ndarray
    category_start: np.ndarray
    category_words: np.ndarray


@kernel
def in_left_set(trees, node, code):
    """Whether a categorical node sends this category left."""
    word = trees.category_words[trees.category_start[node] + (code >> 6)]
    return (word >> np.uint64(code & 63)) & np.uint64(1) != 0


@kernel
def goes_left(trees, node, x):
    """Whether a value goes to the left child of an inner node."""
    if x != x:
        return trees.missing_left[node]
    if trees.category_start[node] < 0:
        return x <= trees.threshold[node]
    return in_left_set(trees, node, np.int64(x))


@kernel
def find_leaf(trees, X, row, tree):
    """The leaf a row ends in."""
    node = trees.root[tree]
    while trees.feature[node] >= 0:
        left = goes_left(trees, node, X[row, trees.feature[node]])
        node = trees.left[node] if left else trees.right[node]
    return node


@inner
def _find_leaves(trees, X, start, tree, nodes):
    """The leaves of the rows from `start` on, one per entry of `nodes`, all going down together.

    Which way a row goes is hard for the processor to foresee. Without a branch each step has to wait for the one
    before, so several rows take theirs side by side.
    """
    for k in range(nodes.shape[0]):
        nodes[k] = trees.root[tree]
    if trees.category_words.shape[0]:
        for k in range(nodes.shape[0]):
            nodes[k] = find_leaf(trees, X, start + k, tree)
        return
    moved = True
    while moved:
        moved = False
        for k in range(nodes.shape[0]):
            node = nodes[k]
            feature = trees.feature[node]
            if feature >= 0:
                x = X[start + k, feature]
                left = (x <= trees.threshold[node]) | ((x != x) & trees.missing_left[node])
                nodes[k] = trees.left[node] if left else trees.right[node]
                moved = True


@kernel
def find_leaves(trees, X, leaves):
    """Fill `leaves` (tree, row)."""
    for tree in range(trees.root.shape[0]):
        for start in range(0, X.shape[0], TOGETHER):
            end = min(start + TOGETHER, X.shape[0])
            _find_leaves(trees, X, start, tree, leaves[tree, start:end])


@kernel
def add_values(trees, value, X, nodes, output):
    """Add every tree's leaf value to `output` (row, output). `nodes` is scratch: an int32 per row taken together."""
    for tree in range(trees.root.shape[0]):
        for start in range(0, X.shape[0], TOGETHER):
            size = min(TOGETHER, X.shape[0] - start)
            _find_leaves(trees, X, start, tree, nodes[:size])
            for k in range(size):
                for output_index in range(value.shape[1]):
                    output[start + k, output_index] += value[nodes[k], output_index]


@kernel
def trace(trees, X, ends, nodes):
    """Fill `nodes` with every node each row passes, row by row; `ends` is where each row's nodes end.

    Called twice: with an empty `nodes` it only counts.
    """
    at = 0
    for row in range(X.shape[0]):
        for tree in range(trees.root.shape[0]):
            node = trees.root[tree]
            while True:
                if nodes.shape[0]:
                    nodes[at] = node
                at += 1
                feature = trees.feature[node]
                if feature < 0:
                    break
                node = trees.left[node] if goes_left(trees, node, X[row, feature]) else trees.right[node]
        ends[row] = at
