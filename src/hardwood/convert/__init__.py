"""`as_ensemble`: any tree model as a TreeEnsemble."""

import os
from importlib import import_module
from typing import Any

from hardwood.convert.libraries import load_library
from hardwood.ensemble import TreeEnsemble

__all__ = ["as_ensemble"]

# Which function reads which class, by package and name: no library is imported only to recognise its models.
_IMPORTERS = {
    ("sklearn", "DecisionTreeClassifier"): "scikit_learn.import_tree",
    ("sklearn", "DecisionTreeRegressor"): "scikit_learn.import_tree",
    ("sklearn", "RandomForestClassifier"): "scikit_learn.import_forest",
    ("sklearn", "RandomForestRegressor"): "scikit_learn.import_forest",
    ("sklearn", "ExtraTreesClassifier"): "scikit_learn.import_forest",
    ("sklearn", "ExtraTreesRegressor"): "scikit_learn.import_forest",
    ("sklearn", "BaggingClassifier"): "scikit_learn.import_bagging",
    ("sklearn", "BaggingRegressor"): "scikit_learn.import_bagging",
    ("sklearn", "GradientBoostingClassifier"): "scikit_learn.import_gradient_boosting",
    ("sklearn", "GradientBoostingRegressor"): "scikit_learn.import_gradient_boosting",
    ("sklearn", "HistGradientBoostingClassifier"): "hist_gradient_boosting.import_hist_gradient_boosting",
    ("sklearn", "HistGradientBoostingRegressor"): "hist_gradient_boosting.import_hist_gradient_boosting",
    ("sklearn", "AdaBoostClassifier"): "scikit_learn.import_ada_boost",
    ("sklearn", "AdaBoostRegressor"): "scikit_learn.refuse_ada_boost_regressor",
    ("sklearn", "Pipeline"): "pipelines.import_pipeline",
    ("xgboost", "Booster"): "xgboost_models.import_booster",
    ("xgboost", "XGBModel"): "xgboost_models.import_estimator",
    ("lightgbm", "Booster"): "lightgbm_models.import_booster",
    ("lightgbm", "LGBMModel"): "lightgbm_models.import_estimator",
}


def as_ensemble(model: Any) -> TreeEnsemble:
    """Return a model as a :class:`TreeEnsemble` that predicts exactly the same.

    Every import is compared with what the model itself predicts, on rows that hug its thresholds, and is refused if a
    single one differs. What cannot be said as a sum of trees is refused with a reason.

    Parameters
    ----------
    model : object or path
        A TreeEnsemble or a fitted hardwood estimator; from scikit-learn a DecisionTree, ExtraTree, RandomForest,
        ExtraTrees, GradientBoosting, HistGradientBoosting, AdaBoost or Bagging of trees; from XGBoost or LightGBM a
        Booster or an estimator; a Pipeline of which only the last step does something, and that is one of these; or the
        path of a saved model: hardwood's JSON, XGBoost's JSON or UBJ, LightGBM's text.
        Of models that stopped early, the rounds are imported that their own ``predict`` uses.

    Returns
    -------
    TreeEnsemble
        Its columns are named and labelled as the model's, and values may be missing (`schema.accepts_missing`) iff the
        model takes missing values. Where a model knows the codes of categories only, such as XGBoost before version
        3.1, the codes are the labels.

    Raises
    ------
    TypeError
        If the model is of a kind hardwood does not know.
    ValueError
        If it is not fitted, if a file is damaged, or if the model does something a TreeEnsemble cannot do.
    ImportError
        If a file needs a library that is not installed, or a version that is too old.

    Notes
    -----
    XGBoost and LightGBM turn the outputs of several classes into probabilities and take the largest. Where two outputs
    are so close that their probabilities are the same number (within about 1e-7 of each other in XGBoost, 1e-16 in
    LightGBM), they take the first class, and the import the one with the larger output.

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> as_ensemble(DecisionTreeClassifier().fit([[0.0], [1.0]], ["no", "yes"]))
    TreeEnsemble(1 tree, 2 leaves, 1 features)
    """
    if isinstance(model, TreeEnsemble):
        return model
    if isinstance(getattr(model, "ensemble_", None), TreeEnsemble):
        return model.ensemble_
    if isinstance(model, (str, os.PathLike)):
        from hardwood.convert.saved import import_file

        return import_file(model)
    if hasattr(model, "fit") and type(model).__module__.startswith("hardwood"):
        raise ValueError(f"model: this {type(model).__name__} is not fitted; call fit first")
    for ancestor in type(model).__mro__:
        package = ancestor.__module__.partition(".")[0]
        importer = _IMPORTERS.get((package, ancestor.__name__))
        if importer is not None:
            load_library(package)
            _require_fitted(model)
            module, function = importer.split(".")
            return getattr(import_module(f"hardwood.convert.{module}"), function)(model)
    what = f"the class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
    raise TypeError(
        f"model: {what} is not a tree model hardwood knows; give a fitted hardwood estimator, a "
        "TreeEnsemble, a tree, forest, boosting or bagging of scikit-learn, a model of XGBoost or LightGBM, or the "
        "path of a saved model"
    )


def _require_fitted(model: Any) -> None:
    """Refuse an estimator that was not fitted; a booster is no estimator."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if hasattr(model, "fit"):
        try:
            check_is_fitted(model)
        except NotFittedError:
            raise ValueError(f"model: this {type(model).__name__} is not fitted; call fit first") from None
