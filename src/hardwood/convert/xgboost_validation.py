"""Checking a document before XGBoost sees it: its own reader trusts what it reads, and may take the process along."""

from typing import Any

import numpy as np

from hardwood.convert.tree_shapes import check_shape, require
from hardwood.quoting import quote

_ROOT = 2_147_483_647  # what XGBoost writes for the parent of a root; in trees with vectors for leaves it is -1
_MOST_CATEGORIES = 2**24  # XGBoost's own limit: codes are kept as float32
_MOST_FEATURES = 2**31 - 1

# The arrays of a tree that have an entry per node.
_PER_NODE = (
    "left_children",
    "right_children",
    "parents",
    "split_indices",
    "split_conditions",
    "split_type",
    "default_left",
    "loss_changes",
    "sum_hessian",
)


def check_document(document: Any) -> None:
    """Raise ``ValueError`` unless everything that a reader follows blindly is in place: lengths, indices, trees."""
    learner = _get(document, "learner", dict)
    version = _get(document, "version", list)
    require(len(version) == 3 and all(type(part) is int for part in version), "its version is not three numbers")
    parameters = _get(learner, "learner_model_param", dict)
    n_features = _number(parameters, "num_feature", 1, _MOST_FEATURES)
    n_classes = _number(parameters, "num_class", 0, _MOST_CATEGORIES)
    n_targets = _number(parameters, "num_target", 1, 1) if "num_target" in parameters else 1
    base_score = _get(parameters, "base_score", str).strip("[]").split(",")
    n_outputs = max(n_classes, n_targets)
    require(len(base_score) in (1, n_outputs), f"it has {len(base_score)} base scores")
    for number in base_score:
        require(np.isfinite(float(number)), "its base score is not finite")
    _check_objective(_get(learner, "objective", dict), n_classes)
    for field in ("feature_names", "feature_types"):
        words = learner.get(field, [])
        require(isinstance(words, list) and all(isinstance(word, str) for word in words), f"{field} is not text")
        require(len(words) in (0, n_features), f"{field} has {len(words)} entries for {n_features} features")
    attributes = learner.get("attributes", {})
    require(isinstance(attributes, dict) and all(isinstance(value, str) for value in attributes.values()), "attributes")
    _check_booster(_get(learner, "gradient_booster", dict), n_features, n_outputs)


def _check_objective(objective: dict[str, Any], n_classes: int) -> None:
    name = _get(objective, "name", str)
    own = objective.get("softmax_multiclass_param", {}).get("num_class", str(n_classes))
    require(own == str(n_classes), f"its objective has {own} classes, the model {n_classes}")
    require(name.startswith("multi:") == (n_classes > 1), f"its objective is {name} for {n_classes} classes")


def _check_booster(booster: dict[str, Any], n_features: int, n_outputs: int) -> None:
    name = _get(booster, "name", str)
    require(name != "gblinear", "booster='gblinear' is a linear model; only trees are supported")
    require(name in ("gbtree", "dart"), f"its booster is {quote(name)}")
    inner = _get(booster, "gbtree", dict) if "gbtree" in booster else booster
    forest = _get(inner, "model", dict)
    trees = _get(forest, "trees", list)
    parameters = _get(forest, "gbtree_model_param", dict)
    require(_number(parameters, "num_trees", 0, _MOST_FEATURES) == len(trees), f"it has {len(trees)} trees")
    _number(parameters, "num_parallel_tree", 0, _MOST_FEATURES)
    info = _integers(forest, "tree_info", len(trees))
    require(bool(((info >= 0) & (info < n_outputs)).all()), "tree_info names an output that the model does not have")
    if "iteration_indptr" in forest:
        ends = _integers(forest, "iteration_indptr")
        ordered = len(ends) > 0 and ends[0] == 0 and ends[-1] == len(trees) and bool((np.diff(ends) >= 0).all())
        require(ordered, "iteration_indptr does not divide the trees into rounds")
    for where in (booster, inner, forest):
        if "weight_drop" in where:
            _floats(where, "weight_drop", len(trees))
    for number, tree in enumerate(trees):
        require(isinstance(tree, dict), f"tree {number} is not an object")
        try:
            _check_tree(tree, n_features, n_outputs)
        except ValueError as error:
            raise ValueError(f"tree {number}: {error}") from None
    n_labels = _count_labels(_get(forest, "cats", dict), n_features) if "cats" in forest else []
    for number, tree in enumerate(trees if n_labels else []):
        largest = np.zeros(n_features, dtype=np.int64)
        feature = np.array(tree["split_indices"])[np.array(tree["categories_nodes"], dtype=np.int64)]
        np.maximum.at(
            largest, np.repeat(feature, tree["categories_sizes"]), np.array(tree["categories"], dtype=np.int64)
        )
        known = np.array(n_labels) > 0
        require(bool((largest < n_labels)[known].all()), f"tree {number} names a category that has no label")


def _check_tree(tree: dict[str, Any], n_features: int, n_outputs: int) -> None:
    parameters = _get(tree, "tree_param", dict)
    n_nodes = _number(parameters, "num_nodes", 1, _MOST_FEATURES)
    length = max(_number(parameters, "size_leaf_vector", 0, _MOST_CATEGORIES), 1)
    require(length in (1, n_outputs), f"its leaves hold {length} values, the model has {n_outputs} outputs")
    require(_number(parameters, "num_feature", 0, _MOST_FEATURES) == n_features, "it has another number of features")
    # Until version 3.0 the threshold of a split on categories is NaN.
    arrays = {field: _array(tree, field, n_nodes, finite=field != "split_conditions") for field in _PER_NODE}
    for field in ("left_children", "right_children", "parents", "split_indices", "split_type", "default_left"):
        require(arrays[field].dtype.kind in "bi", f"{field} holds something other than whole numbers")
    _floats(tree, "base_weights", n_nodes * length)
    left, right, parents = arrays["left_children"], arrays["right_children"], arrays["parents"]
    require(bool((left >= -1).all()), "a child is out of range")
    is_leaf = left == -1
    require(bool(((parents >= -1) & (parents < n_nodes) | (parents == _ROOT)).all()), "a parent is out of range")
    if length == 1:
        require(bool((right[is_leaf] == -1).all()), "a leaf has a child")
    else:
        n_vectors, remainder = divmod(len(_floats(tree, "leaf_weights")), length)  # as XGBoost 3.2 and later write it
        inside = (right[is_leaf] >= 0) & (right[is_leaf] < n_vectors)
        require(remainder == 0 and bool(inside.all()), "a leaf has no value")
    reached = check_shape(left, np.where(is_leaf, -1, right))
    inner = reached & ~is_leaf
    feature = arrays["split_indices"][inner]
    require(bool(((feature >= 0) & (feature < n_features)).all()), "a split is on a feature that does not exist")
    kinds = arrays["split_type"]
    require(bool(((kinds == 0) | (kinds == 1)).all()), "a split is of an unknown kind")
    number = arrays["split_conditions"]
    require(bool(np.isfinite(number[reached & is_leaf]).all()), "the value of a leaf is not finite")
    require(not np.isnan(number[inner & (kinds == 0)]).any(), "a threshold is not a number")
    _check_sets(tree, np.flatnonzero(inner & (kinds == 1)), n_nodes)


def _check_sets(tree: dict[str, Any], categorical: np.ndarray, n_nodes: int) -> None:
    nodes = _integers(tree, "categories_nodes")
    starts = _integers(tree, "categories_segments", len(nodes))
    sizes = _integers(tree, "categories_sizes", len(nodes))
    codes = _integers(tree, "categories")
    require(bool(((nodes >= 0) & (nodes < n_nodes)).all()), "a set of categories belongs to no node")
    require(len(np.unique(nodes)) == len(nodes), "a node has two sets of categories")
    require(bool(np.isin(categorical, nodes).all()), "a split on categories has no set of them")
    divided = (
        bool((sizes >= 0).all()) and np.array_equal(starts, np.cumsum(sizes) - sizes) and sizes.sum() == len(codes)
    )
    require(divided, "the sets of categories do not divide the list of them")
    require(bool(((codes >= 0) & (codes < _MOST_CATEGORIES)).all()), "the code of a category is out of range")


def _count_labels(cats: dict[str, Any], n_features: int) -> list[int]:
    """Check the labels of categories, and count those of each feature."""
    columns = _get(cats, "enc", list)
    require(len(columns) in (0, n_features), f"it has the labels of {len(columns)} features, of {n_features}")
    counts = []
    for column in columns:
        require(isinstance(column, dict), "the labels of a feature are not an object")
        values = _get(column, "values", list)
        if "offsets" in column:
            ends = _integers(column, "offsets")
            whole = len(ends) == 0 or (ends[0] == 0 and ends[-1] == len(values) and bool((np.diff(ends) >= 0).all()))
            require(whole and (len(ends) > 0 or not values), "the labels of a feature do not end where they should")
            letters = _integers(column, "values")
            require(bool(((letters >= -128) & (letters < 256)).all()), "the label of a category is not text")
            counts.append(max(len(ends) - 1, 0))
        else:
            _array(column, "values")
            counts.append(len(values))
    segments = _integers(cats, "feature_segments")
    expected = np.cumsum([0, *counts]) if columns else np.empty(0)
    require(len(segments) == 0 or np.array_equal(segments, expected), "feature_segments does not fit the labels")
    order = _integers(cats, "sorted_idx", sum(counts))
    bound = np.repeat(counts, counts)
    require(bool(((order >= 0) & (order < bound)).all()), "sorted_idx is out of range")
    return counts


def _get(record: Any, field: str, kind: type) -> Any:
    require(isinstance(record, dict), f"{field} is missing")
    require(isinstance(record.get(field), kind), f"{field} is missing, or not what it should be")
    return record[field]


def _number(record: dict[str, Any], field: str, least: int, most: int) -> int:
    number = int(_get(record, field, str))
    require(least <= number <= most, f"{field} is {number}, expected {least} to {most}")
    return number


def _array(record: dict[str, Any], field: str, length: int | None = None, *, finite: bool = True) -> np.ndarray:
    items = _get(record, field, list)
    require(all(type(item) in (int, float, bool) for item in items), f"{field} holds something other than numbers")
    require(length is None or len(items) == length, f"{field} has {len(items)} entries, expected {length}")
    array = np.array(items) if items else np.empty(0, dtype=np.int64)
    in_range = array.dtype.kind in "bif" and (not finite or bool(np.isfinite(array).all()))
    require(in_range, f"{field} holds a number out of range")
    return array


def _floats(record: dict[str, Any], field: str, length: int | None = None) -> np.ndarray:
    return _array(record, field, length).astype(np.float64)


def _integers(record: dict[str, Any], field: str, length: int | None = None) -> np.ndarray:
    array = _array(record, field, length)
    require(array.dtype.kind in "bi", f"{field} holds something other than whole numbers")
    require(bool((np.abs(array) <= _MOST_FEATURES).all()), f"{field} holds a number out of range")
    return array.astype(np.int64)
