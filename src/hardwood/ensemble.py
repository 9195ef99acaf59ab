"""TreeEnsemble: the model. Flat arrays for one tree or a thousand."""

import json
import os
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from hardwood._kernels import predicting
from hardwood._kernels.compiling import frozen
from hardwood.files import write_whole
from hardwood.table import Schema

FORMAT = "hardwood.TreeEnsemble"
VERSION = 1
LINKS = ("probability",)

_NODE_ARRAYS = {
    "feature": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "missing_left": np.bool_,
    "cover": np.float64,
    "value": np.float64,
}


class LeafBoxes(NamedTuple):
    """The part of the input space that ends in each leaf.

    A row belongs to leaf ``k`` iff ``low[k] < x <= high[k]`` in every numerical feature and
    ``allowed[j][k, code]`` in every categorical feature ``j``.
    """

    leaf: np.ndarray
    low: np.ndarray
    high: np.ndarray
    allowed: dict[int, np.ndarray]


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeEnsemble:
    """A sum of decision trees, as flat arrays over all nodes of all trees.

    An inner node sends a row left iff ``x <= threshold`` (numerical) or its category is in the node's set
    (categorical); a missing value goes left iff ``missing_left``. The output is ``base_score`` plus the values of the
    leaves reached, one per tree; the predicted class is the first with the largest output.

    Parameters
    ----------
    root : ndarray of int32, one per tree
    feature : ndarray of int32, one per node; -1 marks a leaf
    threshold : ndarray of float64, one per node
    left, right : ndarray of int32, one per node; -1 in leaves
    value : ndarray of float64, (n_nodes, n_outputs)
    cover : ndarray of float64, training weight that reached the node
    missing_left : ndarray of bool, one per node
    category_start : ndarray of int64, offset of the node's set in `category_words`; -1 for numerical splits and leaves
    category_words : ndarray of uint64, the sets, a bit per category code; the last bit is for categories never seen
    base_score : ndarray of float64, (n_outputs,)
    link : {"probability"}, what the outputs are
    classes : ndarray, the class labels
    schema : Schema, the columns the model reads

    Examples
    --------
    >>> from hardwood import RobustTreeClassifier, TreeEnsemble
    >>> model = RobustTreeClassifier(threat=0.1).fit([[0.0], [1.0]], ["low", "high"])
    >>> model.ensemble_.predict([[0.2], [0.9]]).tolist()
    ['low', 'high']
    """

    root: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    cover: np.ndarray
    missing_left: np.ndarray
    category_start: np.ndarray
    category_words: np.ndarray
    base_score: np.ndarray
    link: str
    classes: np.ndarray
    schema: Schema

    def __post_init__(self) -> None:
        for field in fields(self):
            array = getattr(self, field.name)
            if isinstance(array, np.ndarray):
                object.__setattr__(self, field.name, frozen(np.ascontiguousarray(array)))

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()  # a pickle forgets that arrays are read-only

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __repr__(self) -> str:
        trees = "1 tree" if self.n_trees == 1 else f"{self.n_trees} trees"
        return f"TreeEnsemble({trees}, {self.n_leaves} leaves, {self.schema.n_features} features)"

    @property
    def n_trees(self) -> int:
        """How many trees."""
        return len(self.root)

    @property
    def n_nodes(self) -> int:
        """How many nodes in all trees together."""
        return len(self.feature)

    @property
    def n_leaves(self) -> int:
        """How many leaves in all trees together."""
        return int((self.feature < 0).sum())

    @property
    def max_depth(self) -> int:
        """The depth of the deepest leaf; 0 for a tree that is only a root."""
        return len(self._levels) - 1

    @cached_property
    def trees(self) -> predicting.Trees:
        """What kernels take: the arrays that decide where a row goes."""
        return predicting.Trees(**{name: getattr(self, name) for name in predicting.Trees._fields})

    @cached_property
    def _levels(self) -> list[np.ndarray]:
        """The nodes of all trees, level by level."""
        levels = [self.root]
        while True:
            inner = levels[-1][self.feature[levels[-1]] >= 0]
            if not len(inner):
                return levels
            levels.append(np.concatenate([self.left[inner], self.right[inner]]))

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted class label of every row of a table."""
        return self.classes.take(self.decide(self.schema.encode(X)))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities, one column per class."""
        return self.output(self.schema.encode(X))

    def apply(self, X: Any) -> np.ndarray:
        """Return the node id of the leaf each row reaches, one column per tree."""
        return self.leaves(self.schema.encode(X))

    def decision_path(self, X: Any) -> sp.csr_matrix:
        """Return a sparse indicator (rows, nodes) of the nodes each row passes."""
        matrix = frozen(self.schema.encode(X))
        ends = np.zeros(len(matrix), dtype=np.int64)
        predicting.trace(self.trees, matrix, ends, np.empty(0, dtype=np.int32))
        nodes = np.empty(ends[-1] if len(ends) else 0, dtype=np.int32)
        predicting.trace(self.trees, matrix, ends, nodes)
        starts = np.concatenate([[0], ends])
        ones = np.ones(len(nodes), dtype=np.int64)
        return sp.csr_matrix((ones, nodes, starts), shape=(len(matrix), self.n_nodes))

    def output(self, matrix: np.ndarray) -> np.ndarray:
        """Return the summed outputs for an encoded matrix."""
        output = np.tile(self.base_score, (len(matrix), 1))
        nodes = np.empty(predicting.TOGETHER, dtype=np.int32)
        predicting.add_values(self.trees, self.value, frozen(matrix), nodes, output)
        return output

    def decide(self, matrix: np.ndarray) -> np.ndarray:
        """Return the index of the predicted class for each row of an encoded matrix."""
        if self.n_trees == 1:
            return self.node_class[self.leaves(matrix)[:, 0]]
        return self.output(matrix).argmax(axis=1)

    def leaves(self, matrix: np.ndarray) -> np.ndarray:
        """Return the leaf of each row of an encoded matrix, one column per tree."""
        leaves = np.empty((self.n_trees, len(matrix)), dtype=np.int32)
        predicting.find_leaves(self.trees, frozen(matrix), leaves)
        return leaves.T

    @cached_property
    def node_class(self) -> np.ndarray:
        """The class index each node would predict if its tree stood alone."""
        return (self.value + self.base_score).argmax(axis=1)

    def left_sets(self) -> dict[int, np.ndarray]:
        """Return, for each categorical node, a bool array over category codes: which of them go left."""
        sets = {}
        for node in np.flatnonzero(self.category_start >= 0).tolist():
            labels = self.schema.categories[self.feature[node]]
            assert labels is not None
            codes = np.arange(len(labels) + 1)
            words = self.category_words[self.category_start[node] + codes // 64]
            sets[node] = (words >> (codes % 64).astype(np.uint64) & np.uint64(1)).astype(bool)
        return sets

    def node_boxes(self) -> LeafBoxes:
        """Return the box of every node, inner nodes included, indexed by node."""
        n_features = self.schema.n_features
        low = np.full((self.n_nodes, n_features), -np.inf)
        high = np.full((self.n_nodes, n_features), np.inf)
        allowed = {
            j: np.ones((self.n_nodes, len(labels) + 1), dtype=bool)
            for j, labels in enumerate(self.schema.categories)
            if labels is not None
        }
        left_sets = self.left_sets()
        for level in self._levels:
            parents = level[self.feature[level] >= 0]
            left, right, feature = self.left[parents], self.right[parents], self.feature[parents]
            for child in (left, right):
                low[child], high[child] = low[parents], high[parents]
                for sets in allowed.values():
                    sets[child] = sets[parents]
            numerical = self.category_start[parents] < 0
            threshold = self.threshold[parents]
            at = (left[numerical], feature[numerical])
            high[at] = np.minimum(high[at], threshold[numerical])
            at = (right[numerical], feature[numerical])
            low[at] = np.maximum(low[at], threshold[numerical])
            for node in parents[~numerical].tolist():
                sets = allowed[int(self.feature[node])]
                sets[self.left[node]] &= left_sets[node]
                sets[self.right[node]] &= ~left_sets[node]
        return LeafBoxes(np.arange(self.n_nodes, dtype=np.int32), low, high, allowed)

    def empty_nodes(self) -> np.ndarray:
        """Say of each node whether no input at all can get there, because two splits above it contradict each other."""
        boxes = self.node_boxes()
        empty = np.asarray((boxes.low >= boxes.high).any(axis=1))
        for sets in boxes.allowed.values():
            empty |= ~sets.any(axis=1)
        return empty

    def leaf_boxes(self) -> LeafBoxes:
        """Return the box of every leaf of every tree.

        Examples
        --------
        >>> from hardwood import RobustTreeClassifier
        >>> model = RobustTreeClassifier().fit([[0.0], [1.0]], [0, 1])
        >>> model.ensemble_.leaf_boxes().high.tolist()
        [[0.5], [inf]]
        """
        boxes = self.node_boxes()
        leaf = np.flatnonzero(self.feature < 0).astype(np.int32)
        allowed = {j: sets[leaf] for j, sets in boxes.allowed.items()}
        return LeafBoxes(leaf, boxes.low[leaf], boxes.high[leaf], allowed)

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the model as JSON text, and write it to `path` if one is given.

        The file holds all that is needed to predict: no pickle, no code.
        """
        document = {
            "format": FORMAT,
            "version": VERSION,
            "link": self.link,
            "classes": self.classes.tolist(),
            "base_score": self.base_score.tolist(),
            "schema": self.schema.to_dict(),
            "root": self.root.tolist(),
            "nodes": {name: getattr(self, name).tolist() for name in _NODE_ARRAYS},
            "left_categories": {str(node): np.flatnonzero(codes).tolist() for node, codes in self.left_sets().items()},
        }
        text = json.dumps(document, allow_nan=False)
        if path is not None:
            write_whole(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
        return text

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> "TreeEnsemble":
        """Read a model from a JSON file that :meth:`to_json` wrote.

        Raises
        ------
        ValueError
            If the file is not such a model, is damaged, or was written by a later version.
        """
        return cls.parse_json(Path(path).read_bytes(), source=os.fspath(path))

    @classmethod
    def parse_json(cls, text: str | bytes, source: str = "the text") -> "TreeEnsemble":
        """Read a model from JSON text; `source` names it in errors."""
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{source} is not a JSON file: {error}") from None
        try:
            return cls._from_document(document)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise ValueError(f"{source} is not a valid hardwood model: {what}") from None

    @classmethod
    def _from_document(cls, document: Any) -> "TreeEnsemble":
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError(f"its 'format' is not {FORMAT!r}")
        if document["version"] != VERSION:
            raise ValueError(f"its version is {document['version']!r}; this hardwood reads version {VERSION}")
        if document["link"] not in LINKS:
            raise ValueError(f"unknown link {document['link']!r}; known: {', '.join(LINKS)}")
        schema = Schema.from_dict(document["schema"])
        nodes = {name: _read_array(document["nodes"][name], name, dtype) for name, dtype in _NODE_ARRAYS.items()}
        left_sets = {}
        for key, codes in document["left_categories"].items():
            node = int(key)
            _require(0 <= node < len(nodes["feature"]), f"left_categories names node {node}, which does not exist")
            feature = int(nodes["feature"][node])
            _require(0 <= feature < schema.n_features, f"node {node} splits on feature {feature}, which does not exist")
            labels = schema.categories[feature]
            _require(labels is not None, f"node {node} has categories, but {schema.name(feature)} is numerical")
            assert labels is not None
            members = np.zeros(len(labels) + 1, dtype=bool)
            _require(
                all(isinstance(code, int) and 0 <= code < len(members) for code in codes),
                f"left_categories of node {node} has a code out of range",
            )
            members[codes] = True
            left_sets[node] = members
        start, words = pack_categories(len(nodes["feature"]), left_sets)
        ensemble = cls(
            root=_read_array(document["root"], "root", np.int32),
            category_start=start,
            category_words=words,
            base_score=_read_array(document["base_score"], "base_score", np.float64),
            link=document["link"],
            classes=np.asarray(document["classes"]),
            schema=schema,
            **nodes,
        )
        ensemble.validate()
        return ensemble

    def validate(self) -> None:
        """Raise ``ValueError`` if the arrays do not describe trees."""
        n_nodes, n_outputs = self.n_nodes, len(self.classes)
        for name in _NODE_ARRAYS:
            shape = (n_nodes, n_outputs) if name == "value" else (n_nodes,)
            array = getattr(self, name)
            _require(array.shape == shape, f"{name} has shape {array.shape}, expected {shape}")
        _require(self.classes.ndim == 1 and n_outputs >= 2, "classes must list at least two labels")
        _require(len(np.unique(self.classes)) == n_outputs, "classes has a label twice")
        _require(self.base_score.shape == (n_outputs,), f"base_score must have {n_outputs} entries")
        _require(self.root.ndim == 1 and len(self.root) > 0, "root must list at least one tree")
        for name in ("threshold", "cover", "value", "base_score"):
            _require(bool(np.isfinite(getattr(self, name)).all()), f"{name} has an entry that is not finite")
        inner = np.flatnonzero(self.feature >= 0)
        leaf = np.flatnonzero(self.feature < 0)
        _require(bool((self.feature >= -1).all()), "feature has an entry below -1")
        _require(
            bool((self.feature < self.schema.n_features).all()),
            f"feature has an entry out of range; the model has {self.schema.n_features} features",
        )
        _require(bool((self.left[leaf] == -1).all() and (self.right[leaf] == -1).all()), "a leaf has children")
        children = np.concatenate([self.left[inner], self.right[inner], self.root])
        _require(bool(((children >= 0) & (children < n_nodes)).all()), "a root or child is out of range")
        # One parent each, and as many nodes reached from the roots as there are: no cycle, nothing shared, nothing
        # lost.
        _require(bool((np.bincount(children, minlength=n_nodes) == 1).all()), "a node has no parent, or several")
        _require(sum(map(len, self._levels)) == n_nodes, "some nodes form a cycle")
        is_categorical = np.array([labels is not None for labels in self.schema.categories])
        _require(
            bool((is_categorical[self.feature[inner]] == (self.category_start[inner] >= 0)).all()),
            "left_categories must name exactly the nodes that split on a categorical feature",
        )


def pack_categories(n_nodes: int, left_sets: dict[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
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


def _read_array(items: Any, name: str, dtype: Any) -> np.ndarray:
    """Turn a JSON list into an array without letting anything be cast silently."""
    array = np.asarray(items)
    kinds = {np.int32: "i", np.bool_: "b"}.get(dtype, "if")
    _require(array.dtype.kind in kinds, f"{name} holds something that is not {np.dtype(dtype).name}")
    if dtype is np.int32:
        _require(bool((np.abs(array) <= np.iinfo(np.int32).max).all()), f"{name} has an entry out of range")
    return array.astype(dtype)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
