"""scikit-learn estimators: validate, grow, store."""

from hardwood.estimators.forest import RobustForestClassifier
from hardwood.estimators.hardened import HardenedClassifier
from hardwood.estimators.optimal import OptimalRobustTreeClassifier
from hardwood.estimators.regressor import RobustTreeRegressor
from hardwood.estimators.treant import TreantClassifier
from hardwood.estimators.tree import RobustTreeClassifier

__all__ = [
    "HardenedClassifier",
    "OptimalRobustTreeClassifier",
    "RobustForestClassifier",
    "RobustTreeClassifier",
    "RobustTreeRegressor",
    "TreantClassifier",
]
