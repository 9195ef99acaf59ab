"""Importing scikit-learn's HistGradientBoosting."""

from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from hardwood.convert.precision import LARGEST
from hardwood.convert.scikit_learn import name_of, run_quietly, schema_of
from hardwood.convert.source import Answer, Source
from hardwood.ensemble.building import LeftSets, Nodes, assemble, place_values
from hardwood.quoting import quote
from hardwood.table import Schema


def read_hist_gradient_boosting(model: Any) -> Source:
    """Read HistGradientBoosting; its thresholds are numbers of the table, not of the bins."""
    classes = getattr(model, "classes_", None)
    if classes is None and model.loss in ("poisson", "gamma"):
        raise ValueError(
            f"{name_of(model)} with loss={quote(model.loss)} predicts the exponential of a sum of trees; only "
            "losses that predict the sum itself are supported"
        )
    predictors = [predictor for members in model._predictors for predictor in members]
    records = np.concatenate([predictor.nodes for predictor in predictors])
    size = np.array([len(predictor.nodes) for predictor in predictors])
    n_outputs = model.n_trees_per_iteration_
    is_leaf = records["is_leaf"].astype(bool)
    # Categorical columns come first in the table that the trees see.
    is_categorical = (
        np.zeros(model.n_features_in_, dtype=bool) if model.is_categorical_ is None else model.is_categorical_
    )
    column = np.argsort(~is_categorical, kind="stable")
    feature = column[records["feature_idx"]]
    nodes = Nodes(
        size=size,
        feature=feature,
        # A split that only parts missing values from others has an infinite threshold.
        threshold=np.minimum(records["num_threshold"], LARGEST),
        left=np.where(is_leaf, -1, records["left"].astype(np.int64)),
        right=np.where(is_leaf, -1, records["right"].astype(np.int64)),
        value=place_values(records["value"], size, np.tile(np.arange(n_outputs), len(model._predictors)), n_outputs),
        cover=records["count"],
        missing_left=records["missing_go_to_left"],
    )
    schema = _schema(model, is_categorical)
    ensemble = assemble(
        nodes,
        schema,
        _left_sets(predictors, records, size, feature, schema),
        classes=classes,
        base_score=model._baseline_prediction.ravel(),
        link="value" if classes is None else "logistic" if n_outputs == 1 else "softmax",
    )
    return Source(
        ensemble=ensemble,
        name=name_of(model),
        predict=_in_one_thread(model.predict),
        output=None if classes is None else _in_one_thread(model.decision_function),
        as_table=lambda rows: _table(rows, schema),
        infinite=True,
    )


def _in_one_thread(method: Answer) -> Answer:
    """Call a method on one thread: threads that wait for each other cost more than they gain."""

    def answer(table: Any) -> np.ndarray:
        with threadpool_limits(limits=1, user_api="openmp"):
            return run_quietly(method, table)

    return answer


def _schema(model: Any, is_categorical: np.ndarray) -> Schema:
    """Return the columns with the labels that the model's own encoder learned."""
    plain = schema_of(model, accepts_missing=True)
    if not is_categorical.any():
        return plain
    categories: list[tuple | None] = [None] * plain.n_features
    encoder = model._preprocessor.named_transformers_["encoder"]
    for feature, labels in zip(np.flatnonzero(is_categorical).tolist(), encoder.categories_, strict=True):
        categories[feature] = tuple(label for label in labels.tolist() if label == label)  # the last may be NaN
    return replace(plain, categories=tuple(categories))


def _left_sets(
    predictors: list[Any], records: np.ndarray, size: np.ndarray, feature: np.ndarray, schema: Schema
) -> list[LeftSets]:
    """Return the sets of categorical nodes, one entry per feature; what is not known goes where NaN goes."""
    node = np.flatnonzero(records["is_categorical"].astype(bool) & ~records["is_leaf"].astype(bool))
    if not len(node):
        return []
    n_sets = np.array([len(predictor.raw_left_cat_bitsets) for predictor in predictors])
    words = np.concatenate([predictor.raw_left_cat_bitsets for predictor in predictors])
    tree = np.repeat(np.arange(len(size)), size)[node]
    own = words[(np.cumsum(n_sets) - n_sets)[tree] + records["bitset_idx"][node]]
    bits = np.unpackbits(np.ascontiguousarray(own, dtype="<u4").view(np.uint8), axis=1, bitorder="little").astype(bool)
    sets = []
    for j, labels in enumerate(schema.categories):
        if labels is not None:
            mine = feature[node] == j
            unseen = records["missing_go_to_left"][node[mine]].astype(bool)
            sets.append(LeftSets(node[mine], np.column_stack([bits[mine, : len(labels)], unseen])))
    return sets


def _table(rows: np.ndarray, schema: Schema) -> Any:
    """Return encoded rows as the model takes them: with labels for codes."""
    if not schema.categorical:
        return rows
    table = schema.decode(rows)
    has_text = any(isinstance(label, str) for labels in schema.categories for label in labels or ())
    return table if schema.feature_names is not None or has_text else table.astype(np.float64)
