"""Objects of scikit-learn that hold a fitted model and predict what it predicts."""

from typing import Any

from hardwood.convert import read_model
from hardwood.convert.scikit_learn import name_of
from hardwood.convert.source import Source
from hardwood.ensemble import TreeEnsemble
from hardwood.quoting import quote


def read_search(model: Any) -> TreeEnsemble | Source:
    """Read the best estimator of a GridSearchCV, RandomizedSearchCV or one that halves."""
    if not hasattr(model, "best_estimator_"):
        raise ValueError(
            f"model: this {name_of(model)} kept no model (refit={quote(model.refit)}); set refit=True and fit it again"
        )
    return read_model(model.best_estimator_)


def read_frozen(model: Any) -> TreeEnsemble | Source:
    """Read the model that was frozen."""
    return read_model(model.estimator)
