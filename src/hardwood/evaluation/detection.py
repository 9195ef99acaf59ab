"""How well a model detects one class: its decision threshold, and the order of its scores under attack."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import logit
from scipy.stats import rankdata

from hardwood.ensemble import TreeEnsemble
from hardwood.quoting import quote
from hardwood.reals import to_float
from hardwood.results.records import Bounds
from hardwood.threat.priced_reach import PricedReach
from hardwood.verification.ask import AskSettings, extreme
from hardwood.verification.question import Question


def read_positive_class(positive_class: Any, classes: np.ndarray) -> int | None:
    """Return the index of the class to be detected."""
    if positive_class is None:
        return None
    for index, label in enumerate(classes.tolist()):
        if label == positive_class:
            return index
    raise ValueError(
        f"positive_class={quote(positive_class)}: not a class of the model; its classes are {quote(classes.tolist())}"
    )


def set_threshold(ensemble: TreeEnsemble, positive: int | None, threshold: Any) -> TreeEnsemble:
    """Return a model of two classes that says the positive one where its probability is above the threshold.

    Where the first class is the positive one, a probability that equals the threshold counts, too.
    """
    if threshold is None:
        return ensemble
    if not 0.0 < to_float(threshold) < 1.0:
        raise ValueError(f"decision_threshold={quote(threshold)}: expected a probability between 0 and 1")
    if positive is None:
        raise ValueError("decision_threshold: say the probability of which class, by positive_class")
    if len(ensemble.labels) != 2:
        raise ValueError(
            f"decision_threshold={quote(threshold)}: the model has {len(ensemble.labels)} classes; expected two"
        )
    if ensemble.link == "score":
        raise ValueError(
            f"decision_threshold={quote(threshold)}: the model's outputs are no probabilities; leave it out"
        )
    share = float(threshold) if positive == 1 else 1.0 - float(threshold)
    scores = make_scores(ensemble)
    cut = share if ensemble.link == "probability" else float(logit(share))
    link = "logistic" if ensemble.link == "softmax" else ensemble.link
    return replace(scores, classes=ensemble.classes, link="score" if link == "probability" else link, cut=cut)


def make_scores(ensemble: TreeEnsemble) -> TreeEnsemble:
    """Return a regression that grows with the probability that a model of two classes gives the second one."""
    value, base_score = ensemble.value, ensemble.base_score
    if ensemble.link == "probability" and len(base_score) == 2:
        value, base_score = value[:, 1:], base_score[1:]
    elif len(base_score) == 2:
        value, base_score = value[:, 1:] - value[:, :1], base_score[1:] - base_score[:1]
    return replace(ensemble, value=value, base_score=base_score, classes=None, link="value", cut=0.0)


def find_roc_auc(question: Question, positive: int, settings: AskSettings) -> tuple[float, Bounds | None, bool]:
    """Return the area under the ROC curve: as things stand, under attack, and whether Ctrl-C cut it short.

    Under attack every row of the positive class that can be moved has the lowest score that the attacker can give it,
    every other one that can be moved the highest. Of one tree that is exact; the sums of several trees are known up to
    rounding, so scores that are equal may count as different, and the area is an interval. None for attack rules, of
    which no extremes are known.
    """
    scores = make_scores(question.ensemble)
    own = scores.output(question.matrix)[:, 0].astype(np.float64)
    is_positive = question.class_index == positive
    sign = 1.0 if positive == 1 else -1.0
    natural = _measure_area(sign * own, is_positive)
    if isinstance(question.reach, PricedReach):
        return natural, None, False
    low, high, interrupted = own.copy(), own.copy(), False
    moves = question.reach.attacks[question.class_index]
    everybody = replace(question.reach, attacks=np.ones(1, dtype=bool))
    for rows, direction in ((moves & is_positive, -sign), (moves & ~is_positive, sign)):
        if rows.any():
            answers = extreme(scores, question.matrix[rows], everybody, int(direction), settings)
            low[rows], high[rows] = answers.lower, answers.upper
            interrupted |= answers.interrupted
    least, most = np.minimum(sign * low, sign * high), np.maximum(sign * low, sign * high)
    lower = _measure_area(np.where(is_positive, least, most), is_positive)
    upper = _measure_area(np.where(is_positive, most, least), is_positive)
    return natural, Bounds(lower, upper), interrupted


def _measure_area(score: np.ndarray, is_positive: np.ndarray) -> float:
    """Return how often a positive row has a higher score than another one; equal scores count half."""
    n_positive = int(is_positive.sum())
    n_other = len(score) - n_positive
    above = rankdata(score)[is_positive].sum() - n_positive * (n_positive + 1) / 2.0
    return float(above / (n_positive * n_other))
