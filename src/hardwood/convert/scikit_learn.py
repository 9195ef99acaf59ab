"""Importing scikit-learn's trees and the ensembles it builds from them."""

import copy
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from hardwood.convert.checking import Rows, check_import
from hardwood.convert.precision import float32_cutoffs
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.building import Nodes, assemble, place_values
from hardwood.table import Schema

_CONSTANT_STRATEGIES = ("prior", "most_frequent", "constant", "mean", "median", "quantile")


def import_tree(model: Any) -> TreeEnsemble:
    """Turn a DecisionTree or ExtraTree into a TreeEnsemble."""
    return _import_average(model, [model], 1)


def import_forest(model: Any) -> TreeEnsemble:
    """Turn a RandomForest or ExtraTrees into a TreeEnsemble: what the trees predict, averaged."""
    return _import_average(model, model.estimators_, len(model.estimators_))


def import_bagging(model: Any) -> TreeEnsemble:
    """Turn Bagging of trees into a TreeEnsemble: what the trees predict, each from columns of its own, averaged."""
    _require_trees(model)
    return _import_average(model, model.estimators_, model.n_estimators, model.estimators_features_)


def _import_average(
    model: Any, trees: Sequence[Any], divisor: int, columns: Sequence[np.ndarray] | None = None
) -> TreeEnsemble:
    """Import a model that adds up what its trees predict and divides the sum."""
    if getattr(model, "n_outputs_", 1) != 1:
        raise ValueError(f"{name_of(model)} has {model.n_outputs_} outputs; only one is supported")
    classes = getattr(model, "classes_", None)
    n_outputs = 1 if classes is None else len(classes)

    def predicts(tree: Any) -> np.ndarray:
        own = tree.tree_.value[:, 0]
        if own.shape[1] == n_outputs:
            return own
        placed = np.zeros((len(own), n_outputs))  # a tree of a bagging may not have seen all classes
        placed[:, tree.classes_] = own
        return placed

    return _finish(
        model,
        _read_trees(trees, map(predicts, trees), columns),
        base_score=np.zeros(n_outputs),
        link="value" if classes is None else "probability",
        divisor=float(divisor),
        output="predict_proba",
    )


def import_gradient_boosting(model: Any) -> TreeEnsemble:
    """Turn GradientBoosting into a TreeEnsemble: a constant plus the trees' values times the learning rate."""
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


def import_ada_boost(model: Any) -> TreeEnsemble:
    """Turn an AdaBoostClassifier of trees into a TreeEnsemble: each tree votes for a class, with its weight."""
    _require_trees(model)
    if len(model.classes_) == 1:
        raise ValueError(f"{name_of(model)} saw one class only; there is nothing to vote on")
    codes = np.arange(len(model.classes_))

    def votes(tree: Any, weight: float) -> np.ndarray:
        winner = np.searchsorted(model.classes_, tree.classes_)[tree.tree_.value[:, 0].argmax(axis=1)]
        if len(codes) == 2:
            # The second class' share less the first's: the same number twice, and to double it does not round.
            return np.where(winner == 1, 2 * weight, -2 * weight)[:, None]
        return np.where(winner[:, None] == codes, weight, -1 / (len(codes) - 1) * weight)

    nodes = _read_trees(model.estimators_, map(votes, model.estimators_, model.estimator_weights_.tolist()))
    return _finish(
        model,
        nodes,
        base_score=np.zeros(nodes.value.shape[1]),
        link="score",
        divisor=float(model.estimator_weights_.sum()),
        output="decision_function",
    )


def refuse_ada_boost_regressor(model: Any) -> TreeEnsemble:
    """Say why an AdaBoostRegressor cannot be imported."""
    raise ValueError(f"{name_of(model)} predicts a weighted median of its trees; only sums of trees are supported")


def name_of(model: Any) -> str:
    """Return what errors call a model."""
    return type(model).__name__


def schema_of(model: Any, *, accepts_missing: bool) -> Schema:
    """Return the columns that a scikit-learn model of numbers reads."""
    names = getattr(model, "feature_names_in_", None)
    n_features = model.n_features_in_
    return Schema(n_features, None if names is None else tuple(names), (None,) * n_features, accepts_missing)


def run_quietly(function: Callable[[Any], np.ndarray], table: Any) -> np.ndarray:
    """Call a method of a model whose column names are known with a table that has none, without the warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return np.asarray(function(table))


def _require_trees(model: Any) -> None:
    """Refuse an ensemble of anything other than trees."""
    for member in model.estimators_:
        if not hasattr(member, "tree_"):
            raise ValueError(f"{name_of(model)} holds a {name_of(member)}; only decision trees are supported in it")


def _read_trees(
    trees: Sequence[Any], values: Iterable[np.ndarray], columns: Sequence[np.ndarray] | None = None
) -> Nodes:
    """Return the nodes of fitted trees; `columns` says, per tree, which columns of the table its features are."""
    parts = []
    for index, (tree, value) in enumerate(zip(trees, values, strict=True)):
        nodes = tree.tree_
        feature = nodes.feature
        parts.append(
            Nodes(
                size=np.array([nodes.node_count]),
                feature=feature if columns is None else np.where(feature < 0, -1, columns[index][feature]),
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


def _finish(model: Any, nodes: Nodes, *, output: str, factor: float = 1.0, **fields: Any) -> TreeEnsemble:
    """Put the ensemble together and check it; `output` is a classifier's method for its outputs, less a factor."""
    classes = getattr(model, "classes_", None)
    single = copy.copy(model)
    if hasattr(model, "n_jobs"):
        single.n_jobs = 1  # several threads would add up the trees in whatever order they finish
    ensemble = assemble(nodes, schema_of(model, accepts_missing=_takes_missing(single)), classes=classes, **fields)
    check_import(
        ensemble,
        _quiet(single.predict),
        name_of(model),
        output=None if classes is None else lambda rows: factor * _quiet(getattr(single, output))(rows),
        float32=True,
    )
    return ensemble


def _takes_missing(model: Any) -> bool:
    """Ask the model itself: which ones do differs between versions, and those that never saw a missing value may."""
    try:
        run_quietly(model.predict, np.full((1, model.n_features_in_), np.nan))
    except ValueError:
        return False
    return True


def _quiet(method: Callable[[Any], np.ndarray]) -> Rows:
    return lambda rows: run_quietly(method, rows)
