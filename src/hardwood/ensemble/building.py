"""From the nodes of trees, grown here or by any library, to a TreeEnsemble."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from hardwood.ensemble.bit_sets import LeftSets, pack_sets
from hardwood.ensemble.tree_ensemble import TreeEnsemble
from hardwood.table import Schema

__all__ = ["LeftSets", "Nodes", "assemble", "place_values"]


class Nodes(NamedTuple):
    """The nodes of all trees, one tree after the other.

    Children are counted from the first node of their own tree; a node without a left child (-1) is a leaf. What the
    other arrays say of leaves, other than `value` and `cover`, does not matter, nor does the value of inner nodes as
    long as it is finite. `size` has an entry per tree, `value` a row per node with a column per output.
    """

    size: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    cover: np.ndarray
    missing_left: np.ndarray


def assemble(
    nodes: Nodes,
    schema: Schema,
    left_sets: Mapping[int, np.ndarray] | Iterable[LeftSets] = (),
    *,
    base_score: np.ndarray,
    link: str,
    classes: np.ndarray | None,
    precision: str = "float64",
    divisor: float = 1.0,
    cut: float = 0.0,
) -> TreeEnsemble:
    """Join the trees of a model into one ensemble: what every grower and every importer ends in.

    Parameters
    ----------
    nodes : Nodes
        The nodes of all trees, in whatever order within a tree, its root first. Nodes that no root leads to are left
        out: where a library prunes, it may leave cut-off nodes behind.
    schema : Schema
        The columns of the table.
    left_sets : mapping from nodes to bool arrays over category codes, or iterable of LeftSets
        The categories that the categorical nodes send left (see `pack_sets`); nodes are counted over all trees.
        The nodes that are not in there compare a number with a threshold.
    base_score, link, classes, precision, divisor, cut
        What the outputs are: see :class:`TreeEnsemble`.

    Raises
    ------
    ValueError
        If the value of a leaf is not finite, or if leaves may add up to what is not.

    Examples
    --------
    >>> import numpy as np
    >>> from hardwood.table import Schema
    >>> stump = Nodes(
    ...     size=np.array([3]),
    ...     feature=np.array([0, -1, -1]),
    ...     threshold=np.array([0.5, 0.0, 0.0]),
    ...     left=np.array([1, -1, -1]),
    ...     right=np.array([2, -1, -1]),
    ...     value=np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]]),
    ...     cover=np.array([8.0, 4.0, 4.0]),
    ...     missing_left=np.zeros(3, dtype=bool),
    ... )
    >>> classes = np.array(["low", "high"])
    >>> ensemble = assemble(stump, Schema.numeric(1), base_score=np.zeros(2), link="probability", classes=classes)
    >>> ensemble.predict([[0.5], [0.6]]).tolist()
    ['low', 'high']
    """
    is_leaf = nodes.left < 0
    root = np.cumsum(nodes.size) - nodes.size
    first = np.repeat(root, nodes.size)
    left = np.where(is_leaf, -1, nodes.left + first)
    right = np.where(is_leaf, -1, nodes.right + first)
    start, words = pack_sets(len(is_leaf), left_sets)
    kept = _reached(root, left, right)
    if not np.isfinite(nodes.value[kept]).all():
        raise ValueError("model: the value of a leaf is not finite")
    number = np.append(np.cumsum(kept) - 1, -1)  # the last entry keeps -1 what it is
    try:
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
            base_score=base_score,
            link=link,
            classes=classes,
            precision=precision,
            divisor=divisor,
            cut=cut,
        )
    except ValueError as error:
        raise ValueError(f"model: {error}") from None


def place_values(value: np.ndarray, size: np.ndarray, output: np.ndarray, n_outputs: int) -> np.ndarray:
    """Return one number per node as a row per node: a tree adds to one of the outputs, the one that `output` says."""
    placed = np.zeros((len(value), n_outputs))
    placed[np.arange(len(value)), np.repeat(output, size)] = value
    return placed


def _reached(root: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Say which nodes belong to a tree. Where a library prunes, it may leave cut-off nodes behind."""
    if len(left) == len(root) + 2 * np.count_nonzero(left >= 0):  # each is a root or a child: nothing was cut off
        return np.ones(len(left), dtype=bool)
    reached = np.zeros(len(left), dtype=bool)
    level = root
    while len(level):
        reached[level] = True
        level = level[left[level] >= 0]
        level = np.concatenate([left[level], right[level]])
    return reached
