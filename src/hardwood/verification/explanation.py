"""Why a tree says what it says of one row, and where an attacker can push the row to, by which change."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.reachable import find_parents
from hardwood.threat import Reach
from hardwood.threat.priced_reach import PricedReach
from hardwood.verification.answers import FOUND, UNFINISHED
from hardwood.verification.ask import AskSettings, nearest


class Push(NamedTuple):
    """A leaf that an attacker can push a row to."""

    leaf: int  # its node
    point: np.ndarray  # the row as it is then, encoded
    changed: np.ndarray  # int: the features that differ


class RowExplanation(NamedTuple):
    """The path of one row down one tree, and the other leaves within its reach."""

    path: list[int]  # nodes from the root to the leaf
    pushes: list[Push]  # the fewest changes first
    undecided: int  # leaves of which it is not known whether the row can get there


def explain_row(
    ensemble: TreeEnsemble, row: np.ndarray, class_index: int, reach: Reach | PricedReach, settings: AskSettings
) -> RowExplanation:
    """Explain an encoded row of shape (1, n_features) to a model of one tree.

    Each leaf is asked about by itself: a tree that has one class there and another everywhere else is attacked, so
    whatever the threat says is honoured.
    """
    parent = find_parents(ensemble)
    own = int(ensemble.leaves(row)[0, 0])
    path = [own]
    while parent[path[0]] >= 0:
        path.insert(0, int(parent[path[0]]))
    reach = _attack_as(reach, class_index)
    pushes, undecided = [], 0
    for leaf in np.flatnonzero(ensemble.feature < 0).tolist():
        if leaf == own:
            continue
        answer = nearest(
            _single_out(ensemble, leaf), row, np.zeros(1, dtype=np.intp), reach, 0, np.ones(row.shape[1]), settings
        )
        undecided += int(answer.status[0] == UNFINISHED)
        if answer.status[0] == FOUND:
            point = answer.example[0]
            same = (point == row[0]) | (np.isnan(point) & np.isnan(row[0]))
            pushes.append(Push(leaf, point, np.flatnonzero(~same)))
    return RowExplanation(path, sorted(pushes, key=lambda push: len(push.changed)), undecided)


def _single_out(ensemble: TreeEnsemble, leaf: int) -> TreeEnsemble:
    """Return the tree with a class of its own for one leaf."""
    value = np.tile([1.0, 0.0], (ensemble.n_nodes, 1))
    value[leaf] = 0.0, 1.0
    return replace(
        ensemble, value=value, base_score=np.zeros(2), link="probability", classes=np.arange(2), precision="float64",
        divisor=1.0, cut=0.0,
    )  # fmt: skip


def _attack_as(reach: Reach | PricedReach, class_index: int) -> Reach | PricedReach:
    """Return the reach of rows of one class, for a model whose first class stands for it."""
    if isinstance(reach, PricedReach):
        free = _attack_as(reach.free, class_index)
        assert isinstance(free, Reach)
        return replace(reach, free=free)
    # Every other leaf is asked about, also one whose class nobody wants.
    return replace(reach, attacks=reach.attacks[[class_index, class_index]], targets=None)
