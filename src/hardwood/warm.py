"""Compiling everything once, so that a program can say that it is doing so."""

import numpy as np

from hardwood.attacks import attack
from hardwood.estimators import RobustTreeClassifier


def warm_up(categories: bool = False) -> None:
    """Compile the kernels behind fitting, predicting and attacking, or load them if they have been compiled before.

    Those that only a table with categories needs are left out unless asked for.

    Takes some seconds the first time hardwood is used after it was installed, and a fraction of a second afterwards.
    Whoever times anything calls it first.
    """
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    y = np.array([0, 0, 1, 1])
    model = RobustTreeClassifier(threat=0.1).fit(X, y)
    model.predict_proba(X)
    attack(model, X, y, threat=0.1)
    if categories:
        RobustTreeClassifier(categorical_features=[0]).fit(X, y)


if __name__ == "__main__":
    warm_up(categories=True)
