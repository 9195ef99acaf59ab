"""Ensembles that tell two classes apart, and what an attacker may do who is asked for two."""

from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.threat import Reach
from hardwood.threat.priced_reach import PricedReach

AnyReach = TypeVar("AnyReach", bound=Reach | PricedReach)


def ask_for_two(reach: AnyReach) -> AnyReach:
    """Return what the attacker may do to rows of one class that attacks, if he is asked for two classes."""
    if isinstance(reach, PricedReach):
        return replace(reach, free=ask_for_two(reach.free))
    return replace(reach, targets=None, attacks=np.ones(2, dtype=bool))


def pair_classes(ensemble: TreeEnsemble, one: int, other: int) -> TreeEnsemble:
    """Return the ensemble as it tells two classes apart, in their order; whatever becomes of the others."""
    both = sorted([one, other])
    pair: TreeEnsemble = ensemble.remember((_make_pair, *both), partial(_make_pair, both=both))
    return pair


def merge_classes(tree: TreeEnsemble, wanted: np.ndarray) -> TreeEnsemble:
    """Return one tree as it is for an attacker: the best class that he does not want, and the best that he does."""
    merged: TreeEnsemble = tree.remember((_make_merged, wanted.tobytes()), partial(_make_merged, wanted=wanted))
    return merged


def _make_pair(ensemble: TreeEnsemble, both: list[int]) -> TreeEnsemble:
    link = "score" if ensemble.link == "probability" else ensemble.link
    return replace(
        ensemble, value=ensemble.value[:, both], base_score=ensemble.base_score[both], link=link, classes=np.arange(2)
    )


def _make_merged(tree: TreeEnsemble, wanted: np.ndarray) -> TreeEnsemble:
    """Merge classes. Of equal outputs the first wins; where he wants that one, it is raised by next to nothing."""
    output = tree.node_output.astype(np.float64)
    others, best = output[:, ~wanted].max(axis=1), output[:, wanted].max(axis=1)
    best = np.where((best == others) & wanted[tree.node_class], np.nextafter(best, np.inf), best)
    return replace(
        tree,
        value=np.column_stack([others, best]),
        base_score=np.zeros(2),
        link="score",
        classes=np.arange(2),
        precision="float64",
        divisor=1.0,
        cut=0.0,
    )
