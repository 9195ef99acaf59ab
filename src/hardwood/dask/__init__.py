"""hardwood on a Dask cluster: its estimators and functions, for Dask collections."""

from hardwood.dask.answers import adversarial_accuracy, attack, evaluate, verify
from hardwood.dask.boosting import DaskRobustBoostingClassifier, DaskRobustBoostingRegressor
from hardwood.dask.trees import DaskRobustForestClassifier, DaskRobustTreeClassifier

__all__ = [
    "DaskRobustBoostingClassifier",
    "DaskRobustBoostingRegressor",
    "DaskRobustForestClassifier",
    "DaskRobustTreeClassifier",
    "adversarial_accuracy",
    "attack",
    "evaluate",
    "verify",
]
