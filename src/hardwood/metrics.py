"""Adversarial accuracy."""

from typing import Any

import numpy as np

from hardwood.attacks import is_vulnerable


def adversarial_accuracy(
    model: Any, X: Any, y: Any, threat: Any, *, sample_weight: Any = None, time_limit: float | None = None
) -> float:
    """Return the share of rows that the model classifies correctly whatever the attacker does: exact.

    Parameters
    ----------
    model : fitted tree model
        Anything :func:`as_ensemble` takes: hardwood's own, scikit-learn's, XGBoost's, LightGBM's, or a saved model.
    X : table of shape (n_samples, n_features)
    y : array-like of labels
    threat : ThreatModel or any of its spellings
    sample_weight : array-like of shape (n_samples,), or None
    time_limit : float or None, default=None
        Seconds per row, for models of several trees. TimeoutError if that is not enough: no figure is made up.

    Examples
    --------
    >>> from hardwood import RobustTreeClassifier, adversarial_accuracy
    >>> model = RobustTreeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> adversarial_accuracy(model, [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], threat=1.0)
    0.5
    """
    survives = ~is_vulnerable(model, X, y, threat, time_limit=time_limit)
    if sample_weight is None:
        return float(survives.mean())
    try:
        weight = np.asarray(sample_weight, dtype=np.float64)
    except (ValueError, TypeError):
        raise ValueError(f"sample_weight: expected numbers, got {sample_weight!r}") from None
    if weight.shape != survives.shape:
        raise ValueError(f"sample_weight: expected {len(survives)} weights, one per row, got shape {weight.shape}")
    if not ((weight >= 0.0) & np.isfinite(weight)).all() or not weight.any():
        raise ValueError("sample_weight: expected finite weights >= 0 that are not all 0")
    return float(np.average(survives, weights=weight))
