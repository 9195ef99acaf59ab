"""`as_ensemble`: any tree model as a TreeEnsemble."""

import os
from typing import Any

from sklearn.tree import DecisionTreeClassifier

from hardwood.convert.scikit_learn import import_tree
from hardwood.ensemble import TreeEnsemble

__all__ = ["as_ensemble"]


def as_ensemble(model: Any) -> TreeEnsemble:
    """Return a model as a :class:`TreeEnsemble` that predicts exactly the same.

    Parameters
    ----------
    model : TreeEnsemble, fitted hardwood estimator, scikit-learn tree classifier, or path of a hardwood JSON file

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
    if isinstance(model, DecisionTreeClassifier):
        return import_tree(model)
    if isinstance(model, (str, os.PathLike)):
        return TreeEnsemble.from_json(model)
    if hasattr(model, "fit") and type(model).__module__.startswith("hardwood"):
        raise ValueError(f"{type(model).__name__} is not fitted; call fit first")
    raise TypeError(
        f"model: a {type(model).__name__} is not a tree model hardwood knows; give a fitted hardwood estimator, a "
        "TreeEnsemble, a scikit-learn DecisionTreeClassifier or ExtraTreeClassifier, or the path of a saved model"
    )
