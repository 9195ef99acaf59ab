"""What LightGBM writes about a model as text, as arrays over the nodes of all trees."""

import json
import re
from typing import Any

import numpy as np


class Text:
    """The text of a LightGBM model.

    The nodes of a tree are numbered anew: its inner nodes first, as in the text, then its leaves.

    Parameters
    ----------
    text : str
    """

    def __init__(self, text: str) -> None:
        head, *blocks = text.partition("\nend of trees")[0].split("\nTree=")
        if not blocks:
            raise ValueError("model: it has no trees")
        self.header = _read_fields(head)
        self.objective = self.header.get("objective", "custom")
        self.n_features = int(self.header["max_feature_idx"]) + 1
        self.n_outputs = int(self.header["num_tree_per_iteration"])
        self.takes_average = "average_output" in head.split()
        self.feature_names = self.header["feature_names"].split()
        self.feature_infos = self.header["feature_infos"].split()
        declared = re.search(r"^\[categorical_feature: ([\d,]+)\]", text, re.MULTILINE)
        self.declared_categorical = [] if declared is None else [int(j) for j in declared[1].split(",")]
        labels = re.search(r"^pandas_categorical:(.*)$", text, re.MULTILINE)
        self.pandas_labels: list[list[Any]] = (labels and json.loads(labels[1])) or []
        self._read_trees([_read_fields(block) for block in blocks])

    def _read_trees(self, trees: list[dict[str, str]]) -> None:
        if any(tree.get("is_linear", "0") != "0" for tree in trees):
            raise ValueError("model: its leaves are linear models (linear_tree=True); only constants are supported")

        def read(field: str, dtype: Any) -> np.ndarray:
            words = " ".join(tree.get(field, "") for tree in trees).split()
            return np.array(list(map(float if dtype is np.float64 else int, words)), dtype=dtype)

        n_leaves = np.array([int(tree["num_leaves"]) for tree in trees])
        n_inner = n_leaves - 1
        self.size = n_leaves + n_inner
        root = np.cumsum(self.size) - self.size
        inner = np.repeat(root, n_inner) + _count(n_inner)
        leaf = np.repeat(root + n_inner, n_leaves) + _count(n_leaves)
        first_leaf = np.repeat(n_inner, n_inner)

        def scatter(at: np.ndarray, values: np.ndarray, fill: float) -> np.ndarray:
            scattered = np.full(self.size.sum(), fill, dtype=values.dtype)
            scattered[at] = values
            return scattered

        def children(field: str) -> np.ndarray:
            child = read(field, np.int64)  # leaf k is written as -1 - k
            return scatter(inner, np.where(child < 0, first_leaf - 1 - child, child), -1)

        self.left, self.right = children("left_child"), children("right_child")
        self.feature = scatter(inner, read("split_feature", np.int64), -1)
        self.threshold = scatter(inner, read("threshold", np.float64), 0.0)
        self.decision = scatter(inner, read("decision_type", np.int64), 0)
        self.value = scatter(leaf, read("leaf_value", np.float64), 0.0)
        counts = [tree.get("leaf_count") or "0" for tree in trees]  # a tree that is only a root may have none
        self.cover = scatter(leaf, np.array(" ".join(counts).split(), dtype=np.float64), 0.0)
        self.cover[inner] = read("internal_count", np.float64)
        self._read_sets(trees, root)

    def _read_sets(self, trees: list[dict[str, str]], root: np.ndarray) -> None:
        """Read the sets of categories that go left, as bits: one array of them per categorical node."""
        self.left_bits: dict[int, np.ndarray] = {}
        is_categorical = (self.decision & 1 == 1) & (self.left >= 0)
        for tree, first, size in zip(trees, root.tolist(), self.size.tolist(), strict=True):
            if tree.get("num_cat", "0") == "0":
                continue
            ends = np.array(tree["cat_boundaries"].split(), dtype=np.int64)
            words = np.array(tree["cat_threshold"].split(), dtype="<u4")
            for node in (first + np.flatnonzero(is_categorical[first : first + size])).tolist():
                index = int(self.threshold[node])
                own = words[ends[index] : ends[index + 1]]
                self.left_bits[node] = np.unpackbits(own.view(np.uint8), bitorder="little").astype(bool)


def _read_fields(block: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in block.splitlines() if "=" in line)


def _count(counts: np.ndarray) -> np.ndarray:
    """Return 0, 1, ... for each count, one after the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
