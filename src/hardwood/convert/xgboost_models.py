"""Importing XGBoost's models.

What XGBoost makes of a sum of trees (where it starts, what the objective does to it) differs between versions, so it is
not worked out again here: the model itself is asked, by way of a copy of it that has no trees.
"""

import json
import math
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import numpy as np

from hardwood.convert.libraries import load_library, version_of
from hardwood.convert.precision import find_cut, float32_cutoffs
from hardwood.convert.source import Source
from hardwood.convert.ubj import UBJ_LENGTHS, parse_ubj
from hardwood.convert.xgboost_document import Document
from hardwood.convert.xgboost_labels import restore_labels
from hardwood.convert.xgboost_validation import check_document
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.building import LeftSets, Nodes, assemble, place_values
from hardwood.quoting import list_some, quote, shorten
from hardwood.table import Schema
from hardwood.texts import parse_json

# What a node of DART adds: from its value, the base score and the weight of its tree.
Weigh = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

_ESTIMATORS = {"classifier": "XGBClassifier", "regressor": "XGBRegressor", "ranker": "XGBRanker"}


def read_bytes(raw: bytes, source: str) -> Source:
    """Read what a JSON or UBJ file holds; it predicts like the object that was saved, booster or estimator."""
    xgboost = load_library("xgboost")
    try:
        # What XGBoost is given was written here: its reader trusts what it reads.
        document = parse_ubj(raw) if raw[1:2] in UBJ_LENGTHS else parse_json(raw)
        check_document(document)
        written = bytearray(json.dumps(document).encode())
        booster = xgboost.Booster()
        booster.load_model(written)
        facts = json.loads(booster.attr("scikit_learn") or "{}")
        kind = facts.get("_estimator_type") if isinstance(facts, dict) else None
    except (ValueError, RecursionError, OverflowError, xgboost.core.XGBoostError) as error:
        first_line = shorten(str(error).partition("\n")[0])
        raise ValueError(f"{shorten(source)} is not a valid XGBoost model: {first_line}") from None
    if kind not in _ESTIMATORS:
        return read_booster(booster)
    estimator = getattr(xgboost, _ESTIMATORS[kind])()
    estimator.load_model(written)
    return read_estimator(estimator)


def read_booster(booster: Any) -> Source:
    """Read a Booster with all its trees. The classes of a classifier are 0, 1 and so on."""
    xgboost = load_library("xgboost")
    document = Document(booster)
    types = np.where(document.is_categorical, "c", "q").tolist()
    is_classifier = document.objective.startswith(("binary:", "multi:"))
    cut = 0.0 if document.objective == "binary:logitraw" else 0.5

    def run(table: Any, **options: Any) -> np.ndarray:
        if not isinstance(table, np.ndarray):
            return booster.predict(xgboost.DMatrix(table, enable_categorical=True, nthread=1), **options)
        data = xgboost.DMatrix(table, feature_types=types, enable_categorical=True, nthread=1)
        return booster.predict(data, validate_features=False, **options)

    def predict(table: Any) -> np.ndarray:
        predicted = run(table)
        if not is_classifier or document.objective == "multi:softmax":
            return predicted
        return predicted > cut if predicted.ndim == 1 else predicted.argmax(axis=1)

    return _read(
        document,
        lambda ensemble: Source(
            ensemble=ensemble,
            name="Booster",
            predict=predict,
            output=lambda table: run(table, output_margin=True),
            probability=run if document.objective == "multi:softprob" else None,
            float32=True,
        ),
        is_classifier=is_classifier,
        cut=cut,
        weigh=_weigh,
    )


def read_estimator(estimator: Any) -> Source:
    """Read an estimator of XGBoost's scikit-learn API, with the rounds that its predict uses."""
    name = type(estimator).__name__
    if not math.isnan(estimator.missing):
        raise ValueError(f"{name} takes {quote(estimator.missing)} for a missing value; only NaN is supported")
    booster = estimator.get_booster()
    best = booster.attr("best_iteration")
    is_classifier = hasattr(estimator, "n_classes_")
    document = Document(booster, None if best is None else int(best) + 1)
    has_ties = is_classifier and document.objective == "multi:softprob"
    return _read(
        document,
        lambda ensemble: Source(
            ensemble=ensemble,
            name=name,
            predict=estimator.predict,
            output=lambda table: estimator.predict(table, output_margin=True),
            probability=estimator.predict_proba if has_ties else None,
            float32=True,
            infinite=True,
        ),
        is_classifier=is_classifier,
        cut=0.5,
        weigh=_weigh_in_place,
    )


def _weigh(value: np.ndarray, base: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return value * weight


def _weigh_in_place(value: np.ndarray, base: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Weigh as estimators do, which predict in place: before XGBoost 3.3, a tree there starts at the base score."""
    if version_of(load_library("xgboost")) >= (3, 3):
        return _weigh(value, base, weight)
    return ((base + value) - base) * weight


def _read(
    document: Document,
    as_source: Callable[[TreeEnsemble], Source],
    *,
    is_classifier: bool,
    cut: float,
    weigh: Weigh,
) -> Source:
    """Read a model. One with a single output predicts the second class where it says more than `cut`."""
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

    def build(labels: dict[int, tuple]) -> TreeEnsemble:
        schema = _schema(document, labels)
        return assemble(
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

    labels = {j: labels for j, labels in document.labels.items() if isinstance(labels, tuple)}
    source = as_source(build(labels))
    unknown = [j for j in np.flatnonzero(document.is_categorical).tolist() if j not in labels]
    if not unknown:
        return source

    def adapt(table: Any) -> Source:
        found = labels | restore_labels(document, unknown, table)
        return replace(as_source(build(found)), warning=_warn_of_codes(document, set(unknown) - set(found)))

    return replace(source, adapt=adapt, warning=_warn_of_codes(document, unknown))


def _warn_of_codes(document: Document, unknown: Collection[int]) -> str | None:
    """Say that codes are the labels, unless the model was trained on codes."""
    if not unknown or document.feature_names is None:
        return None
    names = list_some([document.feature_names[j] for j in sorted(unknown)])
    return (
        f"the model does not hold the labels of {names}, so its codes (0, 1, ...) are the labels of the import; give "
        "as_ensemble a pandas table with the model's categories as well, or train with XGBoost 3.4 or later"
    )


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
            f"model: with objective={quote(document.objective)} it predicts not the sum of its trees but a "
            "function of the sum; only classifiers and objectives such as 'reg:squarederror' are supported"
        )


def _nodes(document: Document, base_score: np.ndarray, weigh: Weigh) -> Nodes:
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


def _schema(document: Document, labels: dict[int, tuple]) -> Schema:
    """Return the columns. Where the model knows the codes of categories only, these are the labels."""
    categories: list[tuple | None] = [None] * document.n_features
    for j in np.flatnonzero(document.is_categorical).tolist():
        codes = document.right_code[document.feature[document.right_node] == j]
        categories[j] = labels.get(j, tuple(range(codes.max(initial=-1) + 1)))
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
