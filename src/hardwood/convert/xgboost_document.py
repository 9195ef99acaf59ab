"""What XGBoost writes about a model in JSON, as arrays over the nodes of all trees."""

import json
from itertools import chain
from typing import Any

import numpy as np

from hardwood.convert.xgboost_labels import read_labels


class Document:
    """A booster's JSON document, of the first rounds of boosting or of all.

    Parameters
    ----------
    booster : xgboost.Booster
    n_rounds : int, optional
    """

    def __init__(self, booster: Any, n_rounds: int | None = None) -> None:
        self.document = json.loads(booster.save_raw("json"))
        learner = self.document["learner"]
        gradient_booster = learner["gradient_booster"]
        if gradient_booster["name"] == "gblinear":
            raise ValueError("model: booster='gblinear' is a linear model; only trees are supported")
        parameters = learner["learner_model_param"]
        if int(parameters["num_target"]) > 1:
            raise ValueError(f"model: it has {parameters['num_target']} targets; only one is supported")
        self.objective: str = learner["objective"]["name"]
        self.n_features = int(parameters["num_feature"])
        self.n_outputs = max(int(parameters["num_class"]), 1)
        self.feature_names: tuple[str, ...] | None = tuple(learner["feature_names"]) or None
        forest = gradient_booster.get("gbtree", gradient_booster)["model"]
        ends = forest["iteration_indptr"]
        n_trees = ends[-1] if n_rounds is None else ends[min(n_rounds, len(ends) - 1)]
        self._read_trees(forest, n_trees)
        # DART: the weight of the tree of each node.
        weights = gradient_booster.get("weight_drop", forest.get("weight_drop"))  # from version 3.4 on with the trees
        self.weight = None if weights is None else np.repeat(np.array(weights[:n_trees], dtype=np.float32), self.size)
        self.is_categorical = np.zeros(self.n_features, dtype=bool)
        self.is_categorical[[j for j, kind in enumerate(learner["feature_types"]) if kind == "c"]] = True
        self.is_categorical[self.feature[self.splits_categories]] = True
        version, columns = tuple(self.document["version"]), forest.get("cats", {}).get("enc", [])
        self.labels = {j: read_labels(column, version) for j, column in enumerate(columns) if column["values"]}

    def _read_trees(self, forest: dict[str, Any], n_trees: int) -> None:
        trees = forest["trees"][:n_trees]
        if not trees:
            raise ValueError("model: it has no trees")
        length = int(trees[0]["tree_param"]["size_leaf_vector"])
        if length > 1 and "leaf_weights" not in trees[0]:
            raise ValueError("model: its leaves are vectors; hardwood reads them as XGBoost 3.2 and later write them")

        def read(field: str, dtype: Any) -> np.ndarray:
            return np.array(list(chain.from_iterable(tree[field] for tree in trees)), dtype=dtype)

        self.size = np.array([len(tree["left_children"]) for tree in trees])
        self.output = np.array(forest["tree_info"][:n_trees])
        self.left, self.right = read("left_children", np.int64), read("right_children", np.int64)
        self.is_leaf = self.left < 0
        self.feature = np.where(self.is_leaf, -1, read("split_indices", np.int64))
        self.splits_categories = ~self.is_leaf & (read("split_type", np.int64) == 1)
        self.missing_left = read("default_left", bool)
        self.cover = read("sum_hessian", np.float64)
        # A leaf keeps its value where an inner node keeps its threshold. The "base weights" are something else.
        self.condition = np.where(self.splits_categories, np.float32(0.0), read("split_conditions", np.float32))
        self.leaf_vectors = None if length <= 1 else self._read_leaf_vectors(trees, length)
        # The categories that go right, each with the node that sends it there.
        first = np.repeat(np.cumsum(self.size) - self.size, [len(tree["categories_nodes"]) for tree in trees])
        self.right_node = np.repeat(first + read("categories_nodes", np.int64), read("categories_sizes", np.int64))
        self.right_code = read("categories", np.int64)

    def _read_leaf_vectors(self, trees: list[dict[str, Any]], length: int) -> np.ndarray:
        """Return a row of values per node, for trees that have several outputs at once."""
        vectors = [np.reshape(tree["leaf_weights"], (-1, length)).astype(np.float32) for tree in trees]
        first = np.repeat(np.cumsum([0, *map(len, vectors[:-1])]), self.size)
        row = np.where(self.is_leaf, first + self.right, 0)  # a leaf's right child is the number of its vector
        return np.where(self.is_leaf[:, None], np.concatenate(vectors)[row], np.float32(0.0))

    def without_trees(self) -> bytearray:
        """Return the document of a model that does everything this one does, except adding trees."""
        forest = {
            "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": "0"},
            "iteration_indptr": [0],
            "tree_info": [],
            "trees": [],
            "cats": {"enc": [], "feature_segments": [], "sorted_idx": []},
        }
        learner = self.document["learner"]
        changes = {
            # Otherwise a model without trees takes its base score for one that is still to be estimated.
            "learner_model_param": learner["learner_model_param"] | {"boost_from_average": "0"},
            "gradient_booster": {"name": "gbtree", "model": forest},
            "attributes": {},
            "feature_names": [],
            "feature_types": [],
        }
        return bytearray(json.dumps(self.document | {"learner": learner | changes}).encode())
