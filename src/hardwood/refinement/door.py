"""Reading what a tree is to be improved on, and handing back what came of it."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.whole_numbers import floor_thresholds
from hardwood.quoting import quote
from hardwood.reals import check_number
from hardwood.refinement.rows import Rows
from hardwood.threat import Reach, ThreatModel
from hardwood.verification.question import read_question
from hardwood.weights import choose_weight_unit, find_weighted, measure_all, read_weights


class Training(NamedTuple):
    """A classifier, and the rows it is to be improved on."""

    ensemble: TreeEnsemble
    rows: Rows
    threat: ThreatModel
    weight_unit: float  # what a weight of 1 stands for, as `hardwood.weights` has chosen it


def read_training(
    model: Any,
    X: Any,
    y: Any,
    threat: Any,
    rho: Any,
    sample_weight: Any,
    *,
    several: bool = False,
    targets: bool = False,
) -> Training:
    """Read a model, which may have several trees if `several`, a table, labels, weights and the attacker.

    targets : whether the attacker may want certain classes only.
    """
    words = _read_threat(model, threat)
    question = read_question(model, X, y, words)
    ensemble, matrix, words = question.ensemble, question.matrix, question.threat
    if ensemble.n_trees != 1 and not several:
        raise ValueError(f"model: it has {ensemble.n_trees} trees; expected a single tree")
    if not isinstance(question.reach, Reach):
        raise ValueError("threat: attack rules with a budget are not known here; give distances instead")
    if not len(matrix):
        raise ValueError("X: expected at least one row")
    if question.reach.targets is not None and not targets:
        raise ValueError(
            f"attacking_classes={quote(words.attacking_classes)}: refine knows attackers who want "
            "certain classes, this does not; give the list of classes that attack"
        )
    ensemble = floor_thresholds(ensemble, question.reach.whole)
    weight, unit = _read_weight(sample_weight, len(matrix))
    share = check_number("rho", rho, 0.0, 1.0)
    counts = weight > 0.0
    rows = Rows(matrix[counts], question.class_index[counts], weight[counts], question.reach, share)
    return Training(ensemble, rows, words, unit)


def _read_threat(model: Any, threat: Any) -> ThreatModel:
    """Return what the attacker may do; None: what the model was trained against."""
    if threat is None:
        threat = getattr(model, "threat_", None)
        if threat is None:
            raise ValueError(
                "threat=None: this model does not know what it was trained against; say what the attacker may do "
                "(0: nothing)"
            )
    return ThreatModel.coerce(threat)


def _read_weight(sample_weight: Any, n_rows: int) -> tuple[np.ndarray, float]:
    """Return the weight of every row in a unit, and the unit."""
    if sample_weight is None:
        return np.ones(n_rows), 1.0
    weight = read_weights(sample_weight, n_rows)
    unit = choose_weight_unit(measure_all(weight[find_weighted(weight)]), None, "sample_weight")
    return weight / unit, unit


def hand_back(model: Any, ensemble: TreeEnsemble, weight_unit: float = 1.0) -> Any:
    """Return what came of a model: an estimator for an estimator that is nothing but its tree, otherwise the tree.

    weight_unit : what covers of 1 stand for
    """
    ensemble = count_covers(ensemble, weight_unit)
    with_tree = getattr(model, "_with_tree", None)
    return ensemble if with_tree is None else with_tree(ensemble)


def count_covers(ensemble: TreeEnsemble, weight_unit: float) -> TreeEnsemble:
    """Return a tree whose covers are weights in a unit, with the weights themselves."""
    return ensemble if weight_unit == 1.0 else replace(ensemble, cover=ensemble.cover * weight_unit)
