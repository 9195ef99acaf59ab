"""Importing scikit-learn's decision trees."""

from typing import Any

import numpy as np

from hardwood.convert.checking import check_import
from hardwood.convert.precision import float32_cutoffs
from hardwood.ensemble import TreeEnsemble
from hardwood.table import Schema


def import_tree(model: Any) -> TreeEnsemble:
    """Turn a fitted DecisionTreeClassifier or ExtraTreeClassifier into a TreeEnsemble."""
    if not hasattr(model, "tree_"):
        raise ValueError(f"{type(model).__name__} is not fitted; call fit first")
    if model.n_outputs_ != 1:
        raise ValueError(f"{type(model).__name__} has {model.n_outputs_} outputs; only one is supported")
    tree = model.tree_
    is_leaf = tree.children_left < 0
    weight = tree.value[:, 0, :]
    names = getattr(model, "feature_names_in_", None)
    ensemble = TreeEnsemble(
        root=np.zeros(1, dtype=np.int32),
        feature=np.where(is_leaf, -1, tree.feature).astype(np.int32),
        threshold=np.where(is_leaf, 0.0, float32_cutoffs(np.where(is_leaf, 0.0, tree.threshold))),
        left=tree.children_left.astype(np.int32),
        right=tree.children_right.astype(np.int32),
        value=weight / weight.sum(axis=1, keepdims=True),
        cover=tree.weighted_n_node_samples,
        missing_left=tree.missing_go_to_left.astype(bool) & ~is_leaf,
        category_start=np.full(tree.node_count, -1, dtype=np.int64),
        category_words=np.empty(0, dtype=np.uint64),
        base_score=np.zeros(len(model.classes_)),
        link="probability",
        classes=model.classes_,
        schema=Schema.numeric(model.n_features_in_, None if names is None else list(names)),
    )

    def predict(rows: np.ndarray) -> np.ndarray:
        proba = tree.predict(rows.astype(np.float32))[:, : len(model.classes_)]
        return model.classes_.take(proba.argmax(axis=1))

    check_import(ensemble, predict, type(model).__name__)
    return ensemble
