"""Sending rows down trees."""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import kernel


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
    if trees.category_words.shape[0] == 0:
        while trees.feature[node] >= 0:
            x = X[row, trees.feature[node]]
            if x <= trees.threshold[node]:
                node = trees.left[node]
            elif x == x or not trees.missing_left[node]:
                node = trees.right[node]
            else:
                node = trees.left[node]
        return node
    while trees.feature[node] >= 0:
        left = goes_left(trees, node, X[row, trees.feature[node]])
        node = trees.left[node] if left else trees.right[node]
    return node


@kernel
def find_leaves(trees, X, leaves):
    """Fill `leaves` (row, tree)."""
    for row in range(X.shape[0]):
        for tree in range(trees.root.shape[0]):
            leaves[row, tree] = find_leaf(trees, X, row, tree)


@kernel
def add_values(trees, value, X, output):
    """Add every tree's leaf value to `output` (row, output)."""
    for tree in range(trees.root.shape[0]):
        for row in range(X.shape[0]):
            leaf = find_leaf(trees, X, row, tree)
            for k in range(value.shape[1]):
                output[row, k] += value[leaf, k]


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
