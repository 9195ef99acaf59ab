"""A tree while it grows: its nodes, whether one may be split, and the features it tries."""

from typing import NamedTuple

import numpy as np
from numpy import int64, uint64

from hardwood._kernels.compiling import inner, part, record_type

# One record instead of many arrays: what a kernel is handed is what it has to be compiled for.
NODE = record_type(
    [
        ("feature", np.int64),  # the split found; -1 where none is worth it
        ("threshold", np.float64),
        ("orientation", np.int64),
        ("first_right", np.int64),  # the first position of its order on the right; -1 for a split by categories
        ("gain", np.float64),
        ("left", np.int64),  # the right child is the next node; -1 while unsplit
        ("parent", np.int64),
        ("depth", np.int64),
        ("start", np.int64),  # the node's samples are orders[:, start:end]
        ("end", np.int64),
        ("zero", np.float64),  # weight of class 0, of class 1, and rows
        ("one", np.float64),
        ("count", np.float64),
        ("seed", np.uint64),
    ]
)


class Totals(NamedTuple):
    """What a node holds. A named tuple of numbers travels in registers; a record, or a tuple of arrays, does not."""

    zero: float  # weight of class 0
    one: float  # weight of class 1
    rows: float


class Tree(NamedTuple):
    """The nodes of a tree, and which of them are still to be split."""

    nodes: np.ndarray  # NODE
    sides: np.ndarray  # uint8 (node, category): what splits by categories do, see category_search.py
    heap: np.ndarray  # int64: the frontier, nodes that are worth splitting
    sizes: np.ndarray  # int64: nodes, those of them that are evaluated, frontier, leaves


NODES, EVALUATED, WAITING, LEAVES = 0, 1, 2, 3  # what `Tree.sizes` counts

# What becomes of the samples of a node in trees that are grown level by level, where they do not go to its children.
WAITS, DROPPED = -1, -2
LEFT, RIGHT = 1, 2  # children, as bits


class Splits(NamedTuple):
    """Nodes and what their splits by categories do: those there are, or where a search writes what it finds."""

    nodes: np.ndarray  # NODE
    sides: np.ndarray  # uint8 (node, category)


class Limits(NamedTuple):
    """When to stop, and how to choose."""

    criterion: int
    max_depth: int
    min_split: float
    min_leaf: float  # 0: any child will do
    min_gain: float  # weight times impurity decrease
    max_features: int
    max_leaves: int
    best_first: bool


NEXT = uint64(0x9E3779B97F4A7C15)  # from one number drawn by `mix` to the next


@inner
def is_open(nodes, limits, node):
    """Whether the node may be split at all."""
    here = nodes[node]
    return (
        here.depth < limits.max_depth
        and here.count >= limits.min_split
        and here.count >= 2.0 * limits.min_leaf
        and here.zero > 0.0
        and here.one > 0.0
    )


@part
def mix(state):
    """One step of splitmix64."""
    state = (state ^ (state >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> uint64(27))) * uint64(0x94D049BB133111EB)
    return state ^ (state >> uint64(31))


@inner
def draw_features(seed, max_features, features):
    """Put the features in the order they are tried: as they are, or shuffled by the node's own seed."""
    n_features = features.shape[0]
    if max_features < n_features:
        for i in range(n_features):
            seed = mix(seed + NEXT)
            j = int64(seed % uint64(i + 1))
            features[i] = features[j]
            features[j] = i
