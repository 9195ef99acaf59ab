"""Adversarial accuracy, as a function and as a scikit-learn scorer."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from hardwood.convert import read_rows
from hardwood.ensemble import TreeEnsemble
from hardwood.evaluation.detection import find_roc_auc, read_positive_class
from hardwood.evaluation.regression import score_regression
from hardwood.evaluation.streamed import settle_types
from hardwood.quoting import quote
from hardwood.rows.refusals import refuse_beside_stream
from hardwood.table.batches import Stream
from hardwood.threat import ThreatModel
from hardwood.verification.answers import NONE
from hardwood.verification.ask import AskSettings, decide, decide_all
from hardwood.verification.question import Question, check_time_limit, read_question
from hardwood.weights import add_weights, average, read_weights

REGRESSION_METRICS = ("neg_worst_squared_error", "neg_worst_absolute_error")
CLASSIFIER_METRICS = ("accuracy", "precision", "recall", "neg_false_alarm_rate", "roc_auc")
METRICS = (*CLASSIFIER_METRICS, *REGRESSION_METRICS)


def adversarial_accuracy(
    model: Any, X: Any, y: Any, threat: Any, *, sample_weight: Any = None, time_limit: float | None = None
) -> float:
    """Return the share of rows that the model classifies correctly whatever the attacker does: exact.

    Parameters
    ----------
    model : fitted tree model
        Anything :func:`as_ensemble` takes: hardwood's own, scikit-learn's, XGBoost's, LightGBM's, or a saved model.
    X : table of shape (n_samples, n_features), or a stream
        See :func:`hardwood.stream`; it brings labels and weights with it, and `y` is None.
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
    limit = check_time_limit(time_limit)
    if isinstance(X, Stream):
        refuse_beside_stream(y=y, sample_weight=sample_weight)
        _, asked = settle_types(model, X, ThreatModel.coerce(threat))
        return _average(X, lambda X, y, weight: _find_accuracy(read_question(model, X, y, asked), weight, limit))
    return _find_accuracy(read_question(model, X, y, threat), sample_weight, limit)


def make_adversarial_scorer(
    threat: Any, *, metric: str = "accuracy", positive_class: Any = None, time_limit: float | None = None
) -> "AdversarialScorer":
    """Return a scorer for scikit-learn's model selection: what is left under a threat model.

    For ``GridSearchCV(..., scoring=make_adversarial_scorer(threat))`` and whatever else takes a scorer. The estimators
    must be models :func:`as_ensemble` takes, such as a Pipeline of scalers before trees; a threat model speaks of the
    table that goes in.

    Parameters
    ----------
    threat : ThreatModel or any of its spellings
    metric : str, default="accuracy"
        What is measured under attack. "accuracy"; "precision", "recall", "neg_false_alarm_rate", "roc_auc", which are
        about `positive_class`; for regressions "neg_worst_squared_error" or "neg_worst_absolute_error", the mean error
        once the attacker has made each row as bad as it gets, negative so that more is better.
    positive_class : label or None
        The class to be detected. None: the second of two.
    time_limit : float or None, default=None
        Seconds per row, for models of several trees. Rows that are not decided by then count as lost, so that the score
        is a share of rows that is proved. None: no limit, and the score is exact.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from hardwood import RobustTreeClassifier, load_dataset, make_adversarial_scorer
    >>> table = load_dataset("diabetes")
    >>> threat = 0.05 * table.data.std(axis=0)
    >>> search = GridSearchCV(
    ...     RobustTreeClassifier(threat), {"max_depth": [1, 2, 3]}, scoring=make_adversarial_scorer(threat)
    ... )
    >>> search.fit(table.data, table.target).best_params_
    {'max_depth': 3}
    """
    check_time_limit(time_limit)
    if metric not in METRICS:
        raise ValueError(f"metric={quote(metric)}: expected {', '.join(map(repr, METRICS[:-1]))} or {METRICS[-1]!r}")
    if metric == "accuracy" and positive_class is not None:
        raise ValueError("positive_class: accuracy is about all classes; choose another metric, or leave it out")
    return AdversarialScorer(ThreatModel.coerce(threat), time_limit, metric, positive_class)


@dataclass(frozen=True)
class AdversarialScorer:
    """What :func:`make_adversarial_scorer` returns: called with an estimator, a table and labels, it gives a score."""

    threat: ThreatModel
    time_limit: float | None = None
    metric: str = "accuracy"
    positive_class: Any = None

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return what a fitted estimator keeps under attack."""
        if isinstance(X, Stream):
            return self._score_stream(estimator, X, y, sample_weight)
        rows = read_rows(estimator, X)
        if self.metric in REGRESSION_METRICS or rows.ensemble.classes is None:
            return self._score_regression(rows.ensemble, X, y, sample_weight)
        question = read_question(rows, X, y, self.threat)
        if self.metric != "accuracy":
            if sample_weight is not None:
                raise ValueError(f"sample_weight: metric={quote(self.metric)} counts rows; expected None")
            return self._detect(question)
        if self.time_limit is None:
            return _find_accuracy(question, sample_weight)
        return _share(self._decide(question) == NONE, sample_weight)

    def _score_stream(self, estimator: Any, stream: Stream, y: Any, sample_weight: Any) -> float:
        """Return what is left on a stream: the average over its batches, of metrics that are averages over rows."""
        refuse_beside_stream(y=y, sample_weight=sample_weight)
        if self.metric not in (averages := ("accuracy", *REGRESSION_METRICS)):
            raise ValueError(f"metric={quote(self.metric)}: takes all rows at once; of a stream, expected {averages}")
        _, asked = settle_types(estimator, stream, self.threat)
        return _average(stream, partial(replace(self, threat=asked), estimator))

    def _score_regression(self, ensemble: TreeEnsemble, X: Any, y: Any, sample_weight: Any) -> float:
        """Return the mean error under attack, negative."""
        is_regression = ensemble.classes is None
        if is_regression != (self.metric in REGRESSION_METRICS):
            kind, others = ("regression", REGRESSION_METRICS) if is_regression else ("classifier", CLASSIFIER_METRICS)
            raise ValueError(f"metric={quote(self.metric)}: the model is a {kind}; expected one of {', '.join(others)}")
        settings = AskSettings(time_limit=check_time_limit(self.time_limit))
        squared = self.metric == "neg_worst_squared_error"
        return -score_regression(
            ensemble, X, y, self.threat, squared=squared, settings=settings, sample_weight=sample_weight
        )

    def _decide(self, question: Question) -> np.ndarray:
        """Return what is known of each row."""
        settings = AskSettings(time_limit=check_time_limit(self.time_limit))
        ensemble, matrix, class_index, reach = question.ensemble, question.matrix, question.class_index, question.reach
        answers = decide(ensemble, matrix, class_index, reach, settings, question.outputs)
        if answers.interrupted:
            raise KeyboardInterrupt
        return answers.status

    def _detect(self, question: Question) -> float:
        """Return how well the positive class is detected under attack, at worst."""
        classes = question.ensemble.labels
        if len(classes) != 2:
            raise ValueError(f"metric={quote(self.metric)}: the model has {len(classes)} classes; expected two")
        positive = read_positive_class(self.positive_class, classes)
        positive = 1 if positive is None else positive
        if self.metric == "roc_auc":
            settings = AskSettings(time_limit=check_time_limit(self.time_limit))
            _, bounds, interrupted = find_roc_auc(question, positive, settings)
            if interrupted:
                raise KeyboardInterrupt
            if bounds is None:
                raise ValueError("metric='roc_auc': not known for attackers with rules; choose another metric")
            return bounds.lower
        robust = self._decide(question) == NONE
        is_positive = question.class_index == positive
        hits, alarms = int((robust & is_positive).sum()), int((~robust & ~is_positive).sum())
        if self.metric == "precision":
            return hits / (hits + alarms) if hits + alarms else 0.0
        if self.metric == "recall":
            return hits / max(1, int(is_positive.sum()))
        return -alarms / max(1, int((~is_positive).sum()))


def _find_accuracy(question: Question, sample_weight: Any, time_limit: float = math.inf) -> float:
    ensemble, matrix, class_index, reach = question.ensemble, question.matrix, question.class_index, question.reach
    fooled = decide_all(ensemble, matrix, class_index, reach, time_limit, question.outputs)
    return _share(~fooled, sample_weight)


def _average(stream: Stream, score: Callable[[Any, Any, Any], float]) -> float:
    """Return the average over the batches of a stream of what a function of (X, y, sample_weight) says, by weight."""
    summed, total = Fraction(0), Fraction(0)
    for X, y, weight in stream:
        own = Fraction(X.shape[0]) if weight is None else add_weights(read_weights(weight, X.shape[0]))
        if own:
            summed += own * Fraction(score(X, y, weight))
        total += own
    if not total:
        raise ValueError(f"{quote(stream)} has no rows that weigh anything")
    return float(summed / total)


def _share(survives: np.ndarray, sample_weight: Any) -> float:
    """Return the share of rows that survive, by weight."""
    return float(survives.mean()) if sample_weight is None else average(survives, sample_weight)
