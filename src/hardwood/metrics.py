"""Adversarial accuracy."""

from typing import Any

import numpy as np

from hardwood.attacks import is_vulnerable


def adversarial_accuracy(model: Any, X: Any, y: Any, threat: Any, *, sample_weight: Any = None) -> float:
    """Return the share of rows that the model classifies correctly whatever the attacker does: exact.

    Parameters
    ----------
    model : fitted tree
        A :class:`RobustTreeClassifier`, a :class:`TreeEnsemble` of one tree, a scikit-learn decision tree, or the
        path of a saved model.
    X : table of shape (n_samples, n_features)
    y : array-like of labels
    threat : ThreatModel or any of its spellings
    sample_weight : array-like of shape (n_samples,), or None

    Examples
    --------
    >>> from hardwood import RobustTreeClassifier, adversarial_accuracy
    >>> model = RobustTreeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> adversarial_accuracy(model, [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], threat=1.0)
    0.5
    """
    return float(np.average(~is_vulnerable(model, X, y, threat), weights=sample_weight))
