"""Thresholds on features that hold whole numbers only.

A whole number is at most ``t`` iff it is at most ``floor(t)``, so such thresholds are rounded down before anything is
asked. Between two neighbouring thresholds there is then always a value, and the first is the next whole number.
"""

from dataclasses import replace

import numpy as np

from hardwood.ensemble.tree_ensemble import TreeEnsemble

_WHOLE = "whole features"


def round_thresholds(ensemble: TreeEnsemble, whole: np.ndarray | None) -> TreeEnsemble:
    """Return an ensemble to ask about whole numbers: it predicts the same for these, by whole thresholds.

    Which features they are on is kept with it (`find_whole`), so that points are written in whole numbers. The last
    one is kept with the ensemble it was made of.

    whole : bool per feature, or None for none.
    """
    if whole is None:
        return ensemble
    last: list[TreeEnsemble] = ensemble.remember("in whole numbers", lambda _: [])
    for rounded in last:
        if (rounded.remember(_WHOLE, lambda _: whole) == whole).all():
            return rounded
    rounded = floor_thresholds(ensemble, whole)
    rounded.remember(_WHOLE, lambda _: whole)
    last[:] = [rounded]
    return rounded


def floor_thresholds(ensemble: TreeEnsemble, whole: np.ndarray | None) -> TreeEnsemble:
    """Return the same model of whole numbers with its thresholds on these rounded down."""
    if whole is None:
        return ensemble
    counts = (ensemble.feature >= 0) & whole[ensemble.feature]
    return replace(ensemble, threshold=np.where(counts, np.floor(ensemble.threshold), ensemble.threshold))


def find_whole(ensemble: TreeEnsemble) -> np.ndarray | None:
    """Return on which features the thresholds have been rounded; None for none."""
    whole: np.ndarray | None = ensemble.remember(_WHOLE, lambda _: None)
    return whole


def find_above(threshold: np.ndarray, whole: np.ndarray | None) -> np.ndarray:
    """Return the smallest value greater than each threshold: the next float64, or the next whole number.

    From 2**53 on every float64 is whole, and some whole numbers are no float64.
    """
    with np.errstate(over="ignore"):  # past the largest float64 there is no value
        above = np.nextafter(threshold, np.inf)
        return above if whole is None else np.where(whole, np.maximum(above, threshold + 1.0), above)


def above_thresholds(ensemble: TreeEnsemble) -> np.ndarray:
    """Return, for each node, the smallest value greater than its threshold; meaningless for leaves."""
    whole = find_whole(ensemble)
    return find_above(ensemble.threshold, None if whole is None else whole[ensemble.feature])
