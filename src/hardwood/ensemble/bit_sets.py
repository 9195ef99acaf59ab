"""Sets of categories as bits, the way `TreeEnsemble` keeps them."""

import numpy as np


def pack_sets(n_nodes: int, left_sets: dict[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Pack sets of category codes (bool arrays by node) into ``category_start`` and ``category_words``."""
    start = np.full(n_nodes, -1, dtype=np.int64)
    words: list[np.ndarray] = [np.empty(0, dtype=np.uint64)]
    offset = 0
    for node, members in left_sets.items():
        codes = np.flatnonzero(members)
        packed = np.zeros(-(-len(members) // 64), dtype=np.uint64)
        np.bitwise_or.at(packed, codes // 64, np.uint64(1) << (codes % 64).astype(np.uint64))
        start[node] = offset
        offset += len(packed)
        words.append(packed)
    return start, np.concatenate(words)


def unpack_set(words: np.ndarray, start: int, size: int) -> np.ndarray:
    """Return the set of `size` category codes that begins at a word, as a bool array."""
    codes = np.arange(size)
    return (words[start + codes // 64] >> (codes % 64).astype(np.uint64) & np.uint64(1)).astype(bool)
