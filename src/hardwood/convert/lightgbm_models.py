"""Importing LightGBM's models."""

import math
from typing import Any

import numpy as np

from hardwood.convert.libraries import load_library
from hardwood.convert.lightgbm_text import Text
from hardwood.convert.lightgbm_validation import check_text
from hardwood.convert.precision import LARGEST, find_cut
from hardwood.convert.scikit_learn import quiet
from hardwood.convert.source import Answer, Source
from hardwood.ensemble.building import LeftSets, Nodes, assemble, place_values
from hardwood.quoting import quote, shorten
from hardwood.table import Schema
from hardwood.texts import decode

# Objectives that predict the sum of the trees as it is.
_IDENTITY = ["regression", "regression_l1", "huber", "fair", "quantile", "mape", "lambdarank", "rank_xendcg", "custom"]

_CLASSIFICATION = ("binary", "multiclass")

# Up to here LightGBM takes a number for zero: 1e-35 as a float32.
_ZERO = float(np.float32(1e-35))

_MISSING_IS_ZERO, _MISSING_IS_NAN = 1, 2


def read_text(raw: bytes, source: str) -> Source:
    """Read what a text file holds."""
    lightgbm = load_library("lightgbm")
    try:
        booster = lightgbm.Booster(model_str=check_text(decode(raw)))
    except (lightgbm.basic.LightGBMError, ValueError, OverflowError) as error:
        raise ValueError(f"{shorten(source)} is not a valid LightGBM model: {shorten(error)}") from None
    return read_booster(booster)


def read_booster(booster: Any) -> Source:
    """Read a Booster. The classes of a classifier are 0, 1 and so on."""
    text = Text(booster.model_to_string())
    is_classifier = text.objective.split()[0] in _CLASSIFICATION

    def predict(table: Any) -> np.ndarray:
        predicted = np.asarray(booster.predict(table))
        if not is_classifier:
            return predicted
        return predicted > 1.0 - predicted if predicted.ndim == 1 else predicted.argmax(axis=1)

    classes = np.arange(max(text.n_outputs, 2)) if is_classifier else None
    return _read(text, booster, classes, predict, "Booster")


def read_estimator(estimator: Any) -> Source:
    """Read an estimator of LightGBM's scikit-learn API, with the rounds that its predict uses."""
    booster = estimator.booster_
    name = type(estimator).__name__
    classes = getattr(estimator, "classes_", None)
    text = Text(booster.model_to_string())
    if classes is not None and text.objective.split()[0] not in _CLASSIFICATION:
        raise ValueError(
            f"{name} has the objective {quote(text.objective)}; a classifier's must be 'binary' or 'multiclass'"
        )
    return _read(text, booster, classes, quiet(estimator.predict), name)


def _read(text: Text, booster: Any, classes: np.ndarray | None, predict: Answer, name: str) -> Source:
    if classes is None and (text.objective not in _IDENTITY or text.n_outputs > 1):
        raise ValueError(
            f"{name} with objective={quote(text.objective)} predicts not the sum of its trees but a function of "
            "the sum; only classifiers and objectives such as 'regression' are supported"
        )
    sigmoid = float(dict(word.split(":") for word in text.objective.split() if ":" in word).get("sigmoid", 1.0))
    n_rounds = len(text.size) // text.n_outputs
    divisor = float(n_rounds) if text.takes_average else 1.0
    is_single = classes is not None and text.n_outputs == 1
    values, schema = _categories(text)
    ensemble = assemble(
        _nodes(text, n_rounds),
        schema,
        _left_sets(text, values),
        base_score=np.zeros(text.n_outputs),
        link="value" if classes is None else _link(is_single, sigmoid),
        classes=classes,
        divisor=divisor,
        cut=_cut(sigmoid) if is_single else 0.0,
    )

    def as_source(rows: np.ndarray) -> np.ndarray:
        table = rows.copy()
        for j, category in values.items():
            known = ~np.isnan(rows[:, j])
            table[known, j] = category[rows[known, j].astype(np.intp)]
        return table

    return Source(
        ensemble=ensemble,
        name=name,
        predict=predict,
        output=lambda table: np.asarray(booster.predict(table, raw_score=True)) / divisor,
        probability=(lambda table: np.asarray(booster.predict(table))) if text.n_outputs > 1 else None,
        as_table=as_source,
        infinite=True,
        respell=lambda column: column.replace(" ", "_"),
    )


def _link(is_single: bool, sigmoid: float) -> str:
    if not is_single:
        return "softmax"
    return "logistic" if sigmoid == 1.0 else "score"


def _cut(sigmoid: float) -> float:
    """Return the largest output that is still of the first class: its probability is as LightGBM computes it."""

    def is_second(output: np.floating) -> bool:
        probability = 1.0 / (1.0 + math.exp(min(-sigmoid * float(output), 700.0)))
        return probability > 1.0 - probability

    return float(find_cut(is_second, np.float64))


def _nodes(text: Text, n_rounds: int) -> Nodes:
    """Return the nodes. LightGBM takes a tiny number for zero before it compares."""
    threshold = np.minimum(text.threshold, LARGEST)
    default_left, missing = text.decision & 2 != 0, text.decision >> 2 & 3
    is_number = (text.left >= 0) & (text.decision & 1 == 0)
    zero_left = threshold >= 0.0
    if (is_number & (missing == _MISSING_IS_ZERO) & (default_left != zero_left)).any():
        raise ValueError(
            "model: it takes zero for a missing value (zero_as_missing=True) and sends it where neither smaller nor "
            "larger numbers go; a split of a TreeEnsemble has no such exception"
        )
    threshold = np.where((threshold >= -_ZERO) & (threshold < 0.0), np.nextafter(-_ZERO, -1.0), threshold)
    threshold = np.where((threshold >= 0.0) & (threshold < _ZERO), _ZERO, threshold)
    return Nodes(
        size=text.size,
        feature=text.feature,
        threshold=threshold,
        left=text.left,
        right=text.right,
        value=place_values(text.value, text.size, np.tile(np.arange(text.n_outputs), n_rounds), text.n_outputs),
        cover=text.cover,
        # What is not known as missing counts as zero; a missing category goes right.
        missing_left=is_number & np.where(missing == _MISSING_IS_NAN, default_left, zero_left),
    )


def _categories(text: Text) -> tuple[dict[int, np.ndarray], Schema]:
    """Return the number by which the model knows each category, the last for the unseen, and the columns."""
    bits: dict[int, list[np.ndarray]] = {}
    for node, left in text.left_bits.items():
        bits.setdefault(int(text.feature[node]), []).append(left)
    seen = {j: info.split(":") for j, info in enumerate(text.feature_infos) if info[0] != "[" and info != "none"}
    features = sorted({*bits, *seen, *text.declared_categorical})
    if text.pandas_labels and len(text.pandas_labels) != len(features):
        raise ValueError(
            f"model: it was trained on {len(text.pandas_labels)} columns of categories, but {len(features)} of its "
            "features are categorical, and it does not say which; ordered categories are not supported"
        )
    values: dict[int, np.ndarray] = {}
    categories: list[tuple | None] = [None] * text.n_features
    for position, j in enumerate(features):
        numbers = {int(number) for number in seen.get(j, ()) if int(number) >= 0}
        numbers.update(code for left in bits.get(j, ()) for code in np.flatnonzero(left).tolist())
        labels = tuple(text.pandas_labels[position]) if text.pandas_labels else tuple(sorted(numbers))
        known = range(len(labels)) if text.pandas_labels else labels
        values[j] = np.array([*known, max(numbers, default=-1) + 1 + len(labels)])
        categories[j] = labels
    is_unnamed = text.feature_names == [f"Column_{j}" for j in range(text.n_features)]
    names = None if is_unnamed else tuple(text.feature_names)
    return values, Schema(text.n_features, names, tuple(categories), accepts_missing=True)


def _left_sets(text: Text, values: dict[int, np.ndarray]) -> list[LeftSets]:
    """Return the sets of categorical nodes, one entry per feature. What a set does not name goes right."""
    nodes: dict[int, list[int]] = {}
    for node in text.left_bits:
        nodes.setdefault(int(text.feature[node]), []).append(node)
    sets = []
    for j, own in nodes.items():
        members = np.zeros((len(own), len(values[j])), dtype=bool)
        for row, node in enumerate(own):
            left = text.left_bits[node]
            inside = values[j] < len(left)
            members[row, inside] = left[values[j][inside]]
        members[:, -1] = False
        sets.append(LeftSets(np.array(own), members))
    return sets
