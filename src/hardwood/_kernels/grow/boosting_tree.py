"""A boosted tree while it grows: its nodes, what it is grown from, and what the splits above a node say."""

from typing import NamedTuple

import numpy as np
from numpy import int64

from hardwood._kernels.compiling import inner, record_type

NODE = record_type(
    [
        ("feature", np.int64),  # -1 in leaves
        ("cut", np.int64),  # of numbers: the last code on the left
        ("direction", np.int64),  # 1: the left value is the lower one, -1: the higher one
        ("missing_left", np.bool_),
        ("left", np.int64),  # the right child is the next node; -1 in leaves
        ("parent", np.int64),
        ("depth", np.int64),
        ("value", np.float64),  # what the split above gives it, which is what it predicts if it is a leaf
        ("cover", np.float64),  # the sum of hessians that this value was made of
        ("gain", np.float64),
        ("lower", np.float64),  # what values below it are kept within
        ("upper", np.float64),
        ("gradient", np.int64),  # sums over all rows that can reach it
        ("hessian", np.int64),
        ("start", np.int64),  # its rows are entries[start:end]
        ("end", np.int64),
        ("slot", np.int64),  # where its histogram is; -1: nowhere
    ]
)


class GradientRows(NamedTuple):
    """The training rows, and what the certified loss says about them."""

    codes: np.ndarray  # uint8 or uint16 (row, column)
    group: np.ndarray  # uint8 per row: 0 if a lower value hurts it, 1 if a higher one does
    gradients: np.ndarray  # int64 (row, 2): gradient and hessian in fixed point
    entries: np.ndarray  # uint32: rows, node by node
    spill: np.ndarray  # uint32 per row: scratch


class CodeColumns(NamedTuple):
    """Where the codes of a feature are, where they are counted, and what they mean."""

    columns: np.ndarray  # int64 (feature, end): the columns of codes of lo and hi, one and the same for one code
    n_codes: np.ndarray  # int64 per feature; the code of a missing value is the next one
    first: np.ndarray  # int64 (feature, 4): the first cells of its histograms, see `grow/codes.py`
    hides: np.ndarray  # bool per feature: whether an attacker can blank or fill in its values
    counted: np.ndarray  # int64: the columns that are counted
    offset: np.ndarray  # int64 (group, column): the first cell where rows of a group are counted
    features: np.ndarray  # int64: the features that are tried
    thresholds: np.ndarray  # float64 (feature, threshold)


class BoostedTree(NamedTuple):
    """A tree while it grows."""

    nodes: np.ndarray  # NODE
    left_of: np.ndarray  # bool (node, code of lo): whether a row can go left
    right_of: np.ndarray  # bool (node, code of hi): whether a row can go right
    set_left: np.ndarray  # bool (node, category): the left set
    cells: np.ndarray  # int64 (slot, 2 * cell): gradient and hessian
    free: np.ndarray  # int64: how many slots are free, and which
    stack: np.ndarray  # int64: nodes that wait
    directions: np.ndarray  # int8 per feature, in ordered mode: the direction of all its splits; 0: none so far


@inner
def find_interval(nodes, node, feature, n_thresholds):
    """Between which thresholds of a feature a node lies: (the first inside, the first that is not)."""
    begin, end = int64(0), n_thresholds
    above = nodes[node].parent
    while above >= 0:
        here = nodes[above]
        if here.feature == feature:
            if here.left == node:
                end = here.cut if here.cut < end else end
            else:
                begin = here.cut + 1 if here.cut >= begin else begin
        node = above
        above = here.parent
    return begin, end


ASKED, FRESH, BLOCKED = 0, 1, 2  # what `find_state` tells apart


@inner
def find_state(nodes, node, feature):
    """Whether splits above have asked for a feature, and whether its missing values have come along.

    FRESH: none has. ASKED: one has, and missing values went elsewhere, so those who can hide a value are there with it
    or not at all. BLOCKED: missing values have come along; whether somebody is there with a value then depends on both
    of its ends, which no code says: the feature is not asked for again.
    """
    state = int64(FRESH)
    above = nodes[node].parent
    while above >= 0:
        here = nodes[above]
        if here.feature == feature:
            if here.missing_left != (here.left == node):
                return int64(ASKED)
            state = int64(BLOCKED)
        node = above
        above = here.parent
    return state
