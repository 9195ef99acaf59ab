"""scikit-learn estimators: validate, grow, store."""

from hardwood.estimators.boosting_classifier import RobustBoostingClassifier
from hardwood.estimators.boosting_regressor import RobustBoostingRegressor
from hardwood.estimators.forest import RobustForestClassifier
from hardwood.estimators.forest_regressor import RobustForestRegressor
from hardwood.estimators.hardened import HardenedClassifier
from hardwood.estimators.optimal import OptimalRobustTreeClassifier
from hardwood.estimators.regressor import RobustTreeRegressor
from hardwood.estimators.treant import TreantClassifier
from hardwood.estimators.tree import RobustTreeClassifier

__all__ = [
    "HardenedClassifier",
    "OptimalRobustTreeClassifier",
    "RobustBoostingClassifier",
    "RobustBoostingRegressor",
    "RobustForestClassifier",
    "RobustForestRegressor",
    "RobustTreeClassifier",
    "RobustTreeRegressor",
    "TreantClassifier",
]
