"""`as_ensemble`: any tree model as a TreeEnsemble."""

import os
import warnings
from importlib import import_module
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from hardwood.convert.alignment import align, arrange
from hardwood.convert.checking import check_import, check_labels_known, check_rows
from hardwood.convert.libraries import load_library
from hardwood.convert.remembering import Known, read_once
from hardwood.convert.source import Source
from hardwood.ensemble import TreeEnsemble

__all__ = ["as_ensemble"]

# The one thing that a module keeps from call to call. Its entries go with their models, and are known to be out of date
# when these have changed.
_KNOWN: Known = WeakKeyDictionary()

# Which function reads which class, by package and name: no library is imported only to recognise its models.
_READERS = {
    ("sklearn", "DecisionTreeClassifier"): "scikit_learn.read_tree",
    ("sklearn", "DecisionTreeRegressor"): "scikit_learn.read_tree",
    ("sklearn", "RandomForestClassifier"): "scikit_learn.read_forest",
    ("sklearn", "RandomForestRegressor"): "scikit_learn.read_forest",
    ("sklearn", "ExtraTreesClassifier"): "scikit_learn.read_forest",
    ("sklearn", "ExtraTreesRegressor"): "scikit_learn.read_forest",
    ("sklearn", "GradientBoostingClassifier"): "scikit_learn.read_gradient_boosting",
    ("sklearn", "GradientBoostingRegressor"): "scikit_learn.read_gradient_boosting",
    ("sklearn", "HistGradientBoostingClassifier"): "hist_gradient_boosting.read_hist_gradient_boosting",
    ("sklearn", "HistGradientBoostingRegressor"): "hist_gradient_boosting.read_hist_gradient_boosting",
    ("sklearn", "BaggingClassifier"): "committees.read_bagging",
    ("sklearn", "BaggingRegressor"): "committees.read_bagging",
    ("sklearn", "AdaBoostClassifier"): "committees.read_ada_boost",
    ("sklearn", "VotingClassifier"): "committees.read_voting",
    ("sklearn", "VotingRegressor"): "committees.read_voting",
    ("sklearn", "OneVsRestClassifier"): "committees.read_one_against_the_rest",
    ("sklearn", "BaseSearchCV"): "wrappers.read_search",
    ("sklearn", "FrozenEstimator"): "wrappers.read_frozen",
    ("sklearn", "Pipeline"): "pipelines.read_pipeline",
    ("xgboost", "Booster"): "xgboost_models.read_booster",
    ("xgboost", "XGBModel"): "xgboost_models.read_estimator",
    ("lightgbm", "Booster"): "lightgbm_models.read_booster",
    ("lightgbm", "LGBMModel"): "lightgbm_models.read_estimator",
}

# What scikit-learn builds around models that is no sum of trees, and why.
_REFUSED = {
    "AdaBoostRegressor": "predicts a weighted median of its trees",
    "CalibratedClassifierCV": "bends the probabilities of a model, which is no sum of trees; give the model inside it, "
    "model.calibrated_classifiers_[0].estimator",
    "StackingClassifier": "feeds what its members predict into another model",
    "StackingRegressor": "feeds what its members predict into another model",
    "TransformedTargetRegressor": "predicts a function of what the model inside it predicts; give model.regressor_",
    "TunedThresholdClassifierCV": "moves the cut of a model's probabilities; give the model inside it, "
    "model.estimator_",
    "FixedThresholdClassifier": "moves the cut of a model's probabilities; give the model inside it, model.estimator_",
    "SelfTrainingClassifier": "is a model around a model; give the one inside it, model.estimator_",
    "OneVsOneClassifier": "counts the duels that each class wins; OneVsRestClassifier is supported",
    "OutputCodeClassifier": "compares what its members predict with a code book",
    "MultiOutputClassifier": "has several outputs; give one of model.estimators_",
    "MultiOutputRegressor": "has several outputs; give one of model.estimators_",
    "ClassifierChain": "has several outputs",
    "RegressorChain": "has several outputs",
}

# Lists have no names to go by: which column an entry is meant for must not be left to a guess that nobody hears of.
_REORDERED = (
    "X: its columns are those of the model in another order, and are told apart by their names; what has one entry per "
    "column, such as threat=[...], is read in the order of X. Give the columns in the model's order to silence this"
)


def as_ensemble(model: Any, X: Any = None) -> TreeEnsemble:
    """Return a model as a :class:`TreeEnsemble` that predicts exactly the same.

    Every import is compared with what the model itself predicts, on rows that hug its thresholds and on those of `X`,
    and is refused if a single one differs. What cannot be said as a sum of trees is refused with a reason.

    Parameters
    ----------
    model : object or path
        A TreeEnsemble or a fitted hardwood estimator; from scikit-learn a DecisionTree, ExtraTree, RandomForest,
        ExtraTrees, GradientBoosting or HistGradientBoosting; Bagging, AdaBoost, Voting or OneVsRest of trees, also of
        hardwood's; from XGBoost or LightGBM a Booster or an estimator; a search such as GridSearchCV around one of
        these; a Pipeline of steps that treat every column by itself and keep its order (scalers, imputers with fixed
        values, selections of columns) before one of these; or the path of a saved model: hardwood's JSON, XGBoost's
        JSON or UBJ, LightGBM's text.
        Of models that stopped early, the rounds are imported that their own ``predict`` uses.
    X : table, optional
        The rows that the import is meant for. Its columns are those of the model, by their names where both have some;
        one too few or too many is an error. The model predicts the rows once, and so does the import, and both have to
        agree. What only the table knows is taken from it: names of columns that LightGBM has respelt, labels of
        categories that XGBoost has forgotten. A categorical column none of whose labels the model knows is an error.

    Returns
    -------
    TreeEnsemble
        Its columns are named and labelled as the model's, in the order of `X` (with a warning if that is another), and
        values may be missing (`schema.accepts_missing`) iff the model takes missing values. Where a model knows the
        codes of categories only, such as XGBoost before version 3.1, the codes are the labels.

    Raises
    ------
    TypeError
        If the model is of a kind hardwood does not know.
    ValueError
        If it is not fitted, if a file is damaged, if the model does something a TreeEnsemble cannot do, or if it
        predicts otherwise than its import.
    ImportError
        If a file needs a library that is not installed, or a version that is too old.

    Notes
    -----
    XGBoost and LightGBM turn the outputs of several classes into probabilities and take the largest. Where two outputs
    are so close that their probabilities are the same number (within about 1e-7 of each other in XGBoost, 1e-16 in
    LightGBM), they take the first class, and the import the one with the larger output.

    A model that has been read is not read again for as long as pickling it writes the same, to the last bit: one that
    was fitted again, or changed by whatever means, is read anew.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> as_ensemble(DecisionTreeClassifier().fit([[0.0], [1.0]], ["no", "yes"]))
    TreeEnsemble(1 tree, 2 leaves, 1 features)
    """
    return read_rows(model, X).ensemble


class ModelRows(NamedTuple):
    """A model as a TreeEnsemble, and what has been found out about rows while it was compared with the model."""

    ensemble: TreeEnsemble
    matrix: np.ndarray | None = None  # the rows, encoded, if that has been done
    output: np.ndarray | None = None  # what the ensemble says of them


def read_rows(model: Any, X: Any) -> ModelRows:
    """Read a model, and rows as far as comparing it takes; see `as_ensemble`."""
    reading = _read(model)
    source = None if isinstance(reading, TreeEnsemble) else reading
    ensemble = reading if isinstance(reading, TreeEnsemble) else reading.ensemble
    alignment = None if X is None else align(ensemble.schema, X, str if source is None else source.respell)
    if source is not None:
        if alignment is not None and source.adapt is not None:
            source = source.adapt(alignment.table)
        if source.warning is not None:
            warnings.warn(source.warning, stacklevel=3)
        if source is not reading or source.adapt is not None:
            check_import(source)
        ensemble = source.ensemble
    if alignment is None:
        return ModelRows(ensemble)
    check_labels_known(ensemble.schema, alignment.table)
    matrix, output = (None, None) if source is None else check_rows(source, alignment.table)
    if alignment.is_reordered:
        warnings.warn(_REORDERED, stacklevel=3)
        matrix = None
    return ModelRows(arrange(ensemble, alignment), matrix, output)


def _read(model: Any) -> TreeEnsemble | Source:
    """Read a model, or take what it was read as before; one of another library is compared with its import.

    Not so one that has yet to be adapted to a table.
    """
    if isinstance(model, (TreeEnsemble, str, os.PathLike)) or hasattr(model, "ensemble_"):
        return _compared(read_model(model))
    return read_once(_KNOWN, model, lambda one: _compared(read_model(one)))


def _compared(reading: TreeEnsemble | Source) -> TreeEnsemble | Source:
    if isinstance(reading, Source) and reading.adapt is None:
        check_import(reading)
    return reading


def read_model(model: Any) -> TreeEnsemble | Source:
    """Read a model or a file; a model of another library comes unchecked, together with what checks it."""
    if isinstance(model, TreeEnsemble):
        return model
    if isinstance(getattr(model, "ensemble_", None), TreeEnsemble):
        return model.ensemble_
    if isinstance(model, (str, os.PathLike)):
        from hardwood.convert.saved import read_file

        return read_file(model)
    if hasattr(model, "fit") and type(model).__module__.startswith("hardwood"):
        raise ValueError(f"model: this {type(model).__name__} is not fitted; call fit first")
    for ancestor in type(model).__mro__:
        package, name = ancestor.__module__.partition(".")[0], ancestor.__name__
        if package == "sklearn" and name in _REFUSED:
            raise ValueError(f"model: a {type(model).__name__} {_REFUSED[name]}; only sums of trees are supported")
        reader = _READERS.get((package, name))
        if reader is not None:
            load_library(package)
            _require_fitted(model)
            module, function = reader.split(".")
            return getattr(import_module(f"hardwood.convert.{module}"), function)(model)
    what = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
    raise TypeError(
        f"model: {what} is not a tree model hardwood knows; give a fitted hardwood estimator, a "
        "TreeEnsemble, a tree, forest, boosting, bagging or voting of scikit-learn, a model of XGBoost or LightGBM, or "
        "the path of a saved model"
    )


def read_ensemble(model: Any) -> TreeEnsemble:
    """Return the ensemble of a part of a larger model, which is checked as a whole."""
    reading = read_model(model)
    return reading if isinstance(reading, TreeEnsemble) else reading.ensemble


def _require_fitted(model: Any) -> None:
    """Refuse an estimator that was not fitted; a booster is no estimator."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if hasattr(model, "fit"):
        try:
            check_is_fitted(model)
        except NotFittedError:
            raise ValueError(f"model: this {type(model).__name__} is not fitted; call fit first") from None
