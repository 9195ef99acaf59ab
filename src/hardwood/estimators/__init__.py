"""scikit-learn estimators: validate, grow, store."""

from hardwood.estimators.tree import RobustTreeClassifier

__all__ = ["RobustTreeClassifier"]
