"""Importing XGBoost's models.

What XGBoost makes of a sum of trees (where it starts, what the objective does to it) differs between versions, so it is
not worked out again here: the model itself is asked, by way of a copy of it that has no trees.
"""

import json
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from hardwood.convert.checking import Rows, check_import
from hardwood.convert.libraries import load_library
from hardwood.convert.precision import find_cut, float32_cutoffs
from hardwood.convert.xgboost_document import Document
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.building import LeftSets, Nodes, assemble, place_values
from hardwood.table import Schema

_ESTIMATORS = {"classifier": "XGBClassifier", "regressor": "XGBRegressor", "ranker": "XGBRanker"}


def import_bytes(raw: bytes, source: str) -> TreeEnsemble:
    """Read what a JSON or UBJ file holds; it predicts like the object that was saved, booster or estimator."""
    xgboost = load_library("xgboost")
    booster = xgboost.Booster()
    try:
        booster.load_model(bytearray(raw))
    except xgboost.core.XGBoostError as error:
        first_line = str(error).partition("\n")[0]
        raise ValueError(f"{source} is not a valid XGBoost model: {first_line}") from None
    kind = json.loads(booster.attr("scikit_learn") or "{}").get("_estimator_type")
    if kind not in _ESTIMATORS:
        return import_booster(booster)
    estimator = getattr(xgboost, _ESTIMATORS[kind])()
    estimator.load_model(bytearray(raw))
    return import_estimator(estimator)


def import_booster(booster: Any) -> TreeEnsemble:
    """Turn a Booster into a TreeEnsemble with all its trees. The classes of a classifier are 0, 1 and so on."""
    xgboost = load_library("xgboost")
    document = Document(booster)
    types = np.where(document.is_categorical, "c", "q").tolist()
    is_classifier = document.objective.startswith(("binary:", "multi:"))
    cut = 0.0 if document.objective == "binary:logitraw" else 0.5

    def run(rows: np.ndarray, **options: Any) -> np.ndarray:
        data = xgboost.DMatrix(rows, feature_types=types, enable_categorical=True, nthread=1)
        return booster.predict(data, validate_features=False, **options)

    def predict(rows: np.ndarray) -> np.ndarray:
        predicted = run(rows)
        if not is_classifier or document.objective == "multi:softmax":
            return predicted
        return predicted > cut if predicted.ndim == 1 else predicted.argmax(axis=1)

    return _import(
        document,
        "Booster",
        is_classifier=is_classifier,
        cut=cut,
        weigh=lambda value, base, weight: value * weight,
        predict=predict,
        output=lambda rows: run(rows, output_margin=True),
        probability=run,
    )


def import_estimator(estimator: Any) -> TreeEnsemble:
    """Turn an estimator of XGBoost's scikit-learn API into a TreeEnsemble, with the rounds that its predict uses."""
    name = type(estimator).__name__
    if not math.isnan(estimator.missing):
        raise ValueError(f"{name} takes {estimator.missing!r} for a missing value; only NaN is supported")
    booster = estimator.get_booster()
    best = booster.attr("best_iteration")
    is_classifier = hasattr(estimator, "n_classes_")
    return _import(
        Document(booster, None if best is None else int(best) + 1),
        name,
        is_classifier=is_classifier,
        cut=0.5,
        # Estimators predict in place. There every tree of DART starts at the base score, which is taken off again.
        weigh=lambda value, base, weight: ((base + value) - base) * weight,
        predict=estimator.predict,
        output=lambda rows: estimator.predict(rows, output_margin=True),
        probability=estimator.predict_proba if is_classifier else None,
        infinite=True,
    )


def _import(
    document: Document,
    name: str,
    *,
    is_classifier: bool,
    cut: float,
    weigh: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
    predict: Rows,
    output: Rows,
    probability: Rows | None,
    infinite: bool = False,
) -> TreeEnsemble:
    """Import a model. One with a single output predicts the second class where it says more than `cut`."""
    xgboost = load_library("xgboost")
    bare = xgboost.Booster({"nthread": 1})
    bare.load_model(document.without_trees())

    def transform(margin: np.ndarray) -> np.ndarray:
        rows = np.zeros((len(margin), document.n_features), dtype=np.float32)
        return bare.predict(xgboost.DMatrix(rows, base_margin=margin, nthread=1))

    row = xgboost.DMatrix(np.zeros((1, document.n_features), dtype=np.float32), nthread=1)
    base_score = np.ravel(bare.predict(row, output_margin=True))
    is_single = is_classifier and document.n_outputs == 1
    if not is_classifier:
        _require_identity(document, transform)
    schema = _schema(document)
    ensemble = assemble(
        _nodes(document, base_score, weigh),
        schema,
        _left_sets(document, schema),
        base_score=base_score.astype(np.float64),
        link=_link(document, is_classifier),
        classes=np.arange(max(document.n_outputs, 2)) if is_classifier else None,
        precision="float32",
        cut=float(find_cut(lambda margin: bool(transform(np.array([margin]))[0] > cut), np.float32))
        if is_single
        else 0.0,
    )
    check_import(
        ensemble,
        predict,
        name,
        output=output,
        probability=probability if document.objective == "multi:softprob" else None,
        float32=True,
        infinite=infinite,
    )
    return ensemble


def _link(document: Document, is_classifier: bool) -> str:
    if not is_classifier:
        return "value"
    if document.n_outputs > 1:
        return "softmax"
    return "logistic" if document.objective.startswith(("binary:logi", "reg:logi")) else "score"


def _require_identity(document: Document, transform: Callable[[np.ndarray], np.ndarray]) -> None:
    """Refuse a regression that predicts something other than the sum of its trees."""
    margin = np.linspace(-20.0, 20.0, 41, dtype=np.float32)
    if document.n_outputs > 1 or not np.array_equal(transform(margin), margin):
        raise ValueError(
            f"model: with objective={document.objective!r} it predicts not the sum of its trees but a function of the "
            "sum; only classifiers and objectives such as 'reg:squarederror' are supported"
        )


def _nodes(
    document: Document,
    base_score: np.ndarray,
    weigh: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
) -> Nodes:
    """Return the nodes; what XGBoost compares and adds up is float32."""
    value = document.leaf_vectors
    if value is None:
        single = np.where(document.is_leaf, document.condition, np.float32(0.0))
        if document.weight is not None:
            single = weigh(single, np.repeat(base_score[document.output], document.size), document.weight)
        value = place_values(single, document.size, document.output, document.n_outputs)
    return Nodes(
        size=document.size,
        feature=document.feature,
        threshold=float32_cutoffs(document.condition.astype(np.float64), strict=True),
        left=document.left,
        right=document.right,
        value=value,
        cover=document.cover,
        missing_left=document.missing_left,
    )


def _schema(document: Document) -> Schema:
    """Return the columns. Where the model knows the codes of categories only, these are the labels."""
    categories: list[tuple | None] = [None] * document.n_features
    for j in np.flatnonzero(document.is_categorical).tolist():
        codes = document.right_code[document.feature[document.right_node] == j]
        labels = document.labels.get(j)
        categories[j] = tuple(range(codes.max(initial=-1) + 1)) if labels is None else labels
        if labels is None and document.feature_names is not None:
            warnings.warn(
                f"the model does not hold the labels of feature {document.feature_names[j]!r}, so its codes (0, 1, "
                "...) are the labels of the import; XGBoost keeps labels from version 3.1 on, if they are ASCII",
                stacklevel=5,  # who called as_ensemble
            )
    return Schema(document.n_features, document.feature_names, tuple(categories), accepts_missing=True)


def _left_sets(document: Document, schema: Schema) -> list[LeftSets]:
    """Return the sets of categorical nodes, one entry per feature. What a node does not send right goes left."""
    sets = []
    position = np.zeros(len(document.feature), dtype=np.int64)
    for j in np.flatnonzero(document.is_categorical).tolist():
        labels = schema.categories[j]
        assert labels is not None
        node = np.flatnonzero(document.splits_categories & (document.feature == j))
        position[node] = np.arange(len(node))
        mine = document.feature[document.right_node] == j
        members = np.ones((len(node), len(labels) + 1), dtype=bool)
        members[position[document.right_node[mine]], document.right_code[mine]] = False
        sets.append(LeftSets(node, members))
    return sets
