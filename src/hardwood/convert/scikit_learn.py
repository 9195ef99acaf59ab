"""Importing scikit-learn's trees and the ensembles it builds from them."""

import copy
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hardwood.convert.precision import float32_cutoffs
from hardwood.convert.source import Answer, Source
from hardwood.ensemble.building import Nodes, assemble, place_values
from hardwood.table import Schema

_CONSTANT_STRATEGIES = ("prior", "most_frequent", "constant", "mean", "median", "quantile")


def read_tree(model: Any) -> Source:
    """Read a DecisionTree or ExtraTree."""
    return _read_average(model, [model])


def read_forest(model: Any) -> Source:
    """Read a RandomForest or ExtraTrees: what the trees predict, averaged."""
    return _read_average(model, model.estimators_)


def _read_average(model: Any, trees: Sequence[Any]) -> Source:
    """Read a model that adds up what its trees predict and divides the sum by their number."""
    if getattr(model, "n_outputs_", 1) != 1:
        raise ValueError(f"{name_of(model)} has {model.n_outputs_} outputs; only one is supported")
    classes = getattr(model, "classes_", None)
    n_outputs = 1 if classes is None else len(classes)
    return _finish(
        model,
        _read_trees(trees, (tree.tree_.value[:, 0] for tree in trees)),
        base_score=np.zeros(n_outputs),
        link="value" if classes is None else "probability",
        divisor=float(len(trees)),
        output="predict_proba",
    )


def read_gradient_boosting(model: Any) -> Source:
    """Read GradientBoosting: a constant plus the trees' values times the learning rate."""
    init = model.init_
    if not isinstance(init, str) and getattr(init, "strategy", None) not in _CONSTANT_STRATEGIES:
        raise ValueError(
            f"{name_of(model)} starts from a {name_of(init)}, which is not a constant; only init=None, init='zero' and "
            "a constant DummyClassifier or DummyRegressor are supported"
        )
    n_rounds, n_outputs = model.estimators_.shape
    # With exponential loss the raw prediction is half the log-odds. To double a number does not round it.
    factor = 2.0 if model.loss == "exponential" else 1.0
    trees = model.estimators_.ravel()
    nodes = _read_trees(trees, (factor * (model.learning_rate * tree.tree_.value[:, 0, 0]) for tree in trees))
    value = place_values(nodes.value, nodes.size, np.tile(np.arange(n_outputs), n_rounds), n_outputs)
    is_classifier = hasattr(model, "classes_")
    return _finish(
        model,
        nodes._replace(value=value),
        base_score=factor * model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32))[0],
        link="value" if not is_classifier else "logistic" if n_outputs == 1 else "softmax",
        cut=float(np.nextafter(0.0, -1.0)) if is_classifier else 0.0,  # 0 is the second class already
        output="decision_function",
        factor=factor,
    )


def name_of(model: Any) -> str:
    """Return what errors call a model."""
    return type(model).__name__


def schema_of(model: Any, *, accepts_missing: bool) -> Schema:
    """Return the columns that a scikit-learn model of numbers reads."""
    names = getattr(model, "feature_names_in_", None)
    n_features = model.n_features_in_
    return Schema(n_features, None if names is None else tuple(names), (None,) * n_features, accepts_missing)


def run_quietly(function: Answer, table: Any) -> np.ndarray:
    """Call a method of a model without a warning where just one of table and model has names of columns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X (does not have valid|has) feature names")
        return np.asarray(function(table))


def _read_trees(trees: Sequence[Any], values: Iterable[np.ndarray]) -> Nodes:
    """Return the nodes of fitted trees."""
    parts = []
    for tree, value in zip(trees, values, strict=True):
        nodes = tree.tree_
        parts.append(
            Nodes(
                size=np.array([nodes.node_count]),
                feature=nodes.feature,
                threshold=nodes.threshold,
                left=nodes.children_left,
                right=nodes.children_right,
                value=value,
                cover=nodes.weighted_n_node_samples,
                missing_left=nodes.missing_go_to_left,
            )
        )
    joined = Nodes(*map(np.concatenate, zip(*parts, strict=True)))
    return joined._replace(threshold=float32_cutoffs(joined.threshold))


def _finish(model: Any, nodes: Nodes, *, output: str, factor: float = 1.0, **fields: Any) -> Source:
    """Put the ensemble together; `output` is a classifier's method for its outputs, less a factor."""
    classes = getattr(model, "classes_", None)
    single = in_one_thread(model)
    ensemble = assemble(nodes, schema_of(model, accepts_missing=takes_missing(single)), classes=classes, **fields)
    return Source(
        ensemble=ensemble,
        name=name_of(model),
        predict=quiet(single.predict),
        output=None if classes is None else lambda table: factor * run_quietly(getattr(single, output), table),
        float32=True,
    )


def in_one_thread(model: Any) -> Any:
    """Return the model with one job: several would add up the trees in whatever order they finish."""
    single = copy.copy(model)
    if hasattr(model, "n_jobs"):
        single.n_jobs = 1
    return single


def takes_missing(model: Any) -> bool:
    """Ask the model itself: which ones do differs between versions, and those that never saw a missing value may."""
    try:
        run_quietly(model.predict, np.full((1, model.n_features_in_), np.nan))
    except ValueError:
        return False
    return True


def quiet(method: Answer) -> Answer:
    """Return a method of a model that does not complain about names of columns."""
    return lambda table: run_quietly(method, table)
