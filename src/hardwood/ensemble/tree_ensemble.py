"""TreeEnsemble: the model. Flat arrays for one tree or a thousand."""

import os
from collections.abc import Callable, Hashable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit, softmax

from hardwood._kernels import predicting
from hardwood._kernels.compiling import frozen
from hardwood.ensemble.bit_sets import unpack_set
from hardwood.ensemble.document import read_document, write_document
from hardwood.ensemble.sums import check_sums
from hardwood.files import write_whole
from hardwood.quoting import shorten
from hardwood.table import Schema
from hardwood.texts import read_bytes


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
    (categorical); a missing value goes left iff ``missing_left``, and tables may hold some iff the schema accepts them.
    The output is ``base_score`` plus the values of the leaves reached, added tree by tree in ``precision`` and divided
    by ``divisor``. With one output per class the predicted class is the first with the largest output; with a single
    output it is the second class iff the output is greater than ``cut``.

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
    link : {"probability", "logistic", "softmax", "score", "value"}
        What the outputs are: class probabilities; log-odds of the second class; log-odds of every class; scores of
        classes that are not probabilities; predicted values of a regression.
    classes : ndarray, the class labels; None for a regression
    schema : Schema, the columns the model reads, and whether their values may be missing
    precision : {"float64", "float32"}, default="float64", what the outputs are added up in
    divisor : float, default=1.0, what the sum is divided by
    cut : float, default=0.0, where a single output turns from the first to the second class

    Raises
    ------
    ValueError
        If outputs might not be numbers in `precision`: leaves that may add up to more than an eighth of the largest
        one, before or after the division, a divisor or a cut that it cannot hold.

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
    classes: np.ndarray | None
    schema: Schema
    precision: str = "float64"
    divisor: float = 1.0
    cut: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            array = getattr(self, field.name)
            if isinstance(array, np.ndarray):
                object.__setattr__(self, field.name, frozen(np.ascontiguousarray(array)))
        number = np.dtype(self.precision).type
        with np.errstate(over="ignore"):  # what is no number there is refused by `check_sums`
            for name in ("divisor", "cut"):  # as outputs are divided and compared
                object.__setattr__(self, name, float(number(getattr(self, name))))
            base_score = self.base_score.astype(number).astype(np.float64)  # as outputs begin with it
        object.__setattr__(self, "base_score", frozen(base_score))
        object.__setattr__(self, "_known", {})
        check_sums(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()  # a pickle forgets that arrays are read-only

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def remember(self, key: Hashable, make: Callable[["TreeEnsemble"], Any]) -> Any:
        """Return what `make` makes of this ensemble: made once for every key, and kept as long as the ensemble is.

        For what others work out about an ensemble. It is neither pickled nor copied, and must not hold the ensemble
        itself. Of two threads that make it at the same time both are given the same one.
        """
        known: dict[Hashable, Any] = self.__dict__["_known"]
        if key not in known:
            known.setdefault(key, make(self))
        return known[key]

    def __repr__(self) -> str:
        trees = "1 tree" if self.n_trees == 1 else f"{self.n_trees} trees"
        return f"TreeEnsemble({trees}, {self.n_leaves} leaves, {self.schema.n_features} features)"

    @property
    def labels(self) -> np.ndarray:
        """The class labels of a classifier."""
        if self.classes is None:
            raise TypeError("model: this one is a regression, which has no classes; expected a classifier")
        return self.classes

    @property
    def turning_point(self) -> float:
        """Where a single output turns from the first to the second class; infinity if there is no second one."""
        return np.inf if len(self.labels) == 1 else self.cut

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
        return len(self.levels) - 1

    @cached_property
    def trees(self) -> predicting.Trees:
        """What kernels take: all that decides where a row goes."""
        nodes = np.empty(self.n_nodes, dtype=predicting.NODE)
        for name in predicting.NODE.names or ():
            nodes[name] = getattr(self, name)
        return predicting.Trees(frozen(nodes), self.root, self.category_words)

    @cached_property
    def levels(self) -> list[np.ndarray]:
        """The nodes of all trees, level by level."""
        levels = [self.root]
        while True:
            inner = levels[-1][self.feature[levels[-1]] >= 0]
            if not len(inner):
                return levels
            levels.append(np.concatenate([self.left[inner], self.right[inner]]))

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted class label, or value, of every row of a table."""
        matrix = self.schema.encode(X)
        if self.classes is None:
            return self.output(matrix)[:, 0]
        return self.classes.take(self.decide(matrix))

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities, one column per class."""
        output = self.output(self.schema.encode(X)).astype(np.float64, copy=False)
        if self.link == "probability":
            return output
        if self.link == "logistic":
            return np.column_stack([expit(-output), expit(output)])
        if self.link == "softmax":
            return softmax(output, axis=1)
        raise ValueError(f"this model has no class probabilities: each of its outputs is a {self.link}")

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
        output = np.empty((len(matrix), len(self.base_score)), dtype=self.precision)
        output[:] = self.base_score
        nodes = np.empty(predicting.TOGETHER, dtype=np.int32)
        predicting.add_values(self.trees, self.value, frozen(matrix), nodes, output)
        if self.divisor != 1.0:
            output /= self.divisor
        return output

    def decide(self, matrix: np.ndarray) -> np.ndarray:
        """Return the index of the predicted class for each row of an encoded matrix."""
        if self.n_trees == 1:
            return self.node_class[self.leaves(matrix)[:, 0]]
        return self.choose(self.output(matrix))

    def choose(self, output: np.ndarray) -> np.ndarray:
        """Return the index of the class that outputs stand for."""
        if output.shape[1] == 1:
            return (output[:, 0] > self.turning_point).astype(np.intp)
        return output.argmax(axis=1)

    def leaves(self, matrix: np.ndarray) -> np.ndarray:
        """Return the leaf of each row of an encoded matrix, one column per tree."""
        leaves = np.empty((self.n_trees, len(matrix)), dtype=np.int32)
        predicting.find_leaves(self.trees, frozen(matrix), leaves)
        return leaves.T

    @cached_property
    def node_output(self) -> np.ndarray:
        """What `output` would be for each node if its tree stood alone and the node were its leaf: (node, output)."""
        with np.errstate(over="ignore"):  # inner nodes may hold any value
            output = (self.base_score + self.value).astype(self.precision)
            if self.divisor != 1.0:
                output /= self.divisor
        return frozen(output)

    @cached_property
    def node_class(self) -> np.ndarray:
        """The class index each node would predict if its tree stood alone."""
        return self.choose(self.node_output)

    def left_sets(self) -> dict[int, np.ndarray]:
        """Return, for each categorical node, a bool array over category codes: which of them go left."""
        sets = {}
        for node in np.flatnonzero(self.category_start >= 0).tolist():
            labels = self.schema.categories[self.feature[node]]
            assert labels is not None
            sets[node] = unpack_set(self.category_words, self.category_start[node], len(labels) + 1)
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
        for level in self.levels:
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

    def contradictions(self) -> np.ndarray:
        """Say of each node whether the split that leads to it contradicts splits on the same feature above.

        No value of that feature gets to such a node; only a missing one may.
        """
        boxes = self.node_boxes()
        contradicts = np.zeros(self.n_nodes, dtype=bool)
        inner = np.flatnonzero(self.feature >= 0)
        feature = self.feature[inner]
        for child in (self.left[inner], self.right[inner]):
            contradicts[child] = boxes.low[child, feature] >= boxes.high[child, feature]
            for j, sets in boxes.allowed.items():
                own = child[feature == j]
                contradicts[own] = ~sets[own].any(axis=1)
        return contradicts

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

    def to_json(self, path: str | os.PathLike[str] | None = None, *, threat: str | None = None) -> str:
        """Return the model as JSON text, and write it to `path` if one is given.

        The file holds all that is needed to predict: no pickle, no code.

        threat : TOML text of what the model was trained against (`ThreatModel.to_toml`), which is kept in the file for
            people and for ``hardwood --threat``; it has no effect on predictions.
        """
        text = write_document(self, self.left_sets(), threat)
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
        return cls.parse_json(read_bytes(path), source=os.fspath(path))

    @classmethod
    def parse_json(cls, text: str | bytes, source: str = "the text") -> "TreeEnsemble":
        """Read a model from JSON text; `source` names it in errors."""
        fields = read_document(text, source)
        try:
            return cls(**fields)
        except ValueError as error:
            raise ValueError(f"{shorten(source)} is not a valid hardwood model: {error}") from None
