"""scikit-learn estimators: validate, grow, store."""

from hardwood.estimators.treant import TreantClassifier
from hardwood.estimators.tree import RobustTreeClassifier

__all__ = ["RobustTreeClassifier", "TreantClassifier"]
