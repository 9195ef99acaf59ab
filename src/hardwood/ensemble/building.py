"""From the node arrays of any library to a TreeEnsemble."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from hardwood.ensemble.tree_ensemble import TreeEnsemble
from hardwood.table import Schema


class Nodes(NamedTuple):
    """The nodes of all trees, one tree after the other.

    Children are counted from the first node of their own tree; a node without a left child (-1) is a leaf. What the
    other arrays say of leaves, other than `value` and `cover`, does not matter.
    """

    size: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    cover: np.ndarray
    missing_left: np.ndarray


class LeftSets(NamedTuple):
    """The categories that nodes send left: `members` (node, category code), the last column for the unseen."""

    node: np.ndarray
    members: np.ndarray


def assemble(nodes: Nodes, schema: Schema, left_sets: Iterable[LeftSets] = (), **fields: Any) -> TreeEnsemble:
    """Join the trees of a model into one ensemble; `fields` say what its outputs are."""
    if not np.isfinite(nodes.value).all():
        raise ValueError("model: the value of a leaf is not finite")
    is_leaf = nodes.left < 0
    root = np.cumsum(nodes.size) - nodes.size
    first = np.repeat(root, nodes.size)
    left = np.where(is_leaf, -1, nodes.left + first)
    right = np.where(is_leaf, -1, nodes.right + first)
    start, words = _pack(len(is_leaf), left_sets)
    kept = _reached(root, left, right)
    number = np.append(np.cumsum(kept) - 1, -1)  # the last entry keeps -1 what it is
    return TreeEnsemble(
        root=number[root].astype(np.int32),
        feature=np.where(is_leaf, -1, nodes.feature)[kept].astype(np.int32),
        threshold=np.where(is_leaf | (start >= 0), 0.0, nodes.threshold)[kept],
        left=number[left][kept].astype(np.int32),
        right=number[right][kept].astype(np.int32),
        value=nodes.value[kept].astype(np.float64),
        cover=nodes.cover[kept].astype(np.float64),
        missing_left=nodes.missing_left.astype(bool)[kept] & ~is_leaf[kept],
        category_start=start[kept],
        category_words=words,
        schema=schema,
        **fields,
    )


def place_values(value: np.ndarray, size: np.ndarray, output: np.ndarray, n_outputs: int) -> np.ndarray:
    """Return one number per node as a row per node: a tree adds to one of the outputs, the one that `output` says."""
    placed = np.zeros((len(value), n_outputs))
    placed[np.arange(len(value)), np.repeat(output, size)] = value
    return placed


def _reached(root: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Say which nodes belong to a tree. Where a library prunes, it may leave cut-off nodes behind."""
    reached = np.zeros(len(left), dtype=bool)
    level = root
    while len(level):
        reached[level] = True
        level = level[left[level] >= 0]
        level = np.concatenate([left[level], right[level]])
    return reached


def _pack(n_nodes: int, left_sets: Iterable[LeftSets]) -> tuple[np.ndarray, np.ndarray]:
    """Return `category_start` and `category_words`; the sets of one feature at a time, all their nodes at once."""
    start = np.full(n_nodes, -1, dtype=np.int64)
    words: list[np.ndarray] = [np.empty(0, dtype=np.uint64)]
    offset = 0
    for node, members in left_sets:
        n_words = -(-members.shape[1] // 64)
        padded = np.zeros((len(node), 64 * n_words), dtype=bool)
        padded[:, : members.shape[1]] = members
        words.append(np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64).ravel())
        start[node] = offset + n_words * np.arange(len(node))
        offset += n_words * len(node)
    return start, np.concatenate(words)
