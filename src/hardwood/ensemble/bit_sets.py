"""Sets of categories as bits, the way `TreeEnsemble` keeps them."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

WORD = 64  # bits


class LeftSets(NamedTuple):
    """The categories that nodes send left: `members` (node, category code), the last column for the unseen."""

    node: np.ndarray
    members: np.ndarray


def pack_sets(n_nodes: int, left_sets: Mapping[int, np.ndarray] | Iterable[LeftSets]) -> tuple[np.ndarray, np.ndarray]:
    """Pack sets of category codes into ``category_start`` and ``category_words``.

    The sets are given node by node (a mapping from nodes to bool arrays over the codes) or, which is faster for
    many nodes, as `LeftSets`, each of which holds nodes that split on features with equally many labels.
    """
    start = np.full(n_nodes, -1, dtype=np.int64)
    words: list[np.ndarray] = [np.empty(0, dtype=np.uint64)]
    offset = 0
    for node, members in left_sets.items() if isinstance(left_sets, Mapping) else left_sets:
        rows = np.atleast_2d(members)
        n_words = -(-rows.shape[1] // WORD)
        padded = np.zeros((len(rows), WORD * n_words), dtype=bool)
        padded[:, : rows.shape[1]] = rows
        words.append(np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64).ravel())
        start[np.atleast_1d(node)] = offset + n_words * np.arange(len(rows))
        offset += n_words * len(rows)
    return start, np.concatenate(words)


def unpack_set(words: np.ndarray, start: int, size: int) -> np.ndarray:
    """Return the set of `size` category codes that begins at a word, as a bool array."""
    codes = np.arange(size)
    return (words[start + codes // WORD] >> (codes % WORD).astype(np.uint64) & np.uint64(1)).astype(bool)
