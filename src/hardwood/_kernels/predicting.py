"""Sending rows down trees."""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel, record_type

TOGETHER = 32  # rows that go down a tree side by side


# What decides where a row goes, as the fields of the same names of a TreeEnsemble: of a node all in one place.
NODE = record_type(
    [
        ("threshold", np.float64),
        ("feature", np.int32),
        ("left", np.int32),
        ("right", np.int32),
        ("category_start", np.int32),
        ("missing_left", np.bool_),
    ],
    align=True,
)


class Trees(NamedTuple):
    """The nodes of a TreeEnsemble, where each tree begins, and the sets of splits by categories; all read-only."""

    nodes: np.ndarray  # NODE
    root: np.ndarray
    category_words: np.ndarray


@inner
def in_left_set(trees, node, code):
    """Whether a categorical node sends this category left."""
    word = trees.category_words[trees.nodes[node].category_start + (code >> 6)]
    return (word >> np.uint64(code & 63)) & np.uint64(1) != 0


@inner
def goes_left(trees, node, x):
    """Whether a value goes to the left child of an inner node."""
    here = trees.nodes[np.uintp(node)]
    if x != x:
        return here.missing_left
    if here.category_start < 0:
        return x <= here.threshold
    return in_left_set(trees, node, np.int64(x))


@inner
def find_leaf(trees, X, row, tree):
    """The leaf a row ends in."""
    node = trees.root[tree]
    while trees.nodes[node].feature >= 0:
        left = goes_left(trees, node, X[row, trees.nodes[node].feature])
        node = trees.nodes[node].left if left else trees.nodes[node].right
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
            here = trees.nodes[nodes[k]]
            if here.feature >= 0:
                x = X[start + k, here.feature]
                left = (x <= here.threshold) | ((x != x) & here.missing_left)
                nodes[k] = here.left if left else here.right
                moved = True


@kernel(about="the search for the leaf of each row", seconds=0.1)
def find_leaves(trees, X, leaves):
    """Fill `leaves` (tree, row)."""
    for tree in range(trees.root.shape[0]):
        for start in range(0, X.shape[0], TOGETHER):
            end = min(start + TOGETHER, X.shape[0])
            _find_leaves(trees, X, start, tree, leaves[tree, start:end])


@kernel(about="predictions", seconds=0.3)
def add_values(trees, value, X, nodes, output):
    """Add every tree's leaf value to `output` (row, output). `nodes` is scratch: an int32 per row taken together."""
    for tree in range(trees.root.shape[0]):
        for start in range(0, X.shape[0], TOGETHER):
            size = min(TOGETHER, X.shape[0] - start)
            _find_leaves(trees, X, start, tree, nodes[:size])
            for k in range(size):
                for output_index in range(value.shape[1]):
                    output[start + k, output_index] += value[nodes[k], output_index]


@kernel(about="the paths of rows through trees", seconds=0.1)
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
                feature = trees.nodes[node].feature
                if feature < 0:
                    break
                node = trees.nodes[node].left if goes_left(trees, node, X[row, feature]) else trees.nodes[node].right
        ends[row] = at
