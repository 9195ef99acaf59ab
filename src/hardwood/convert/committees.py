"""Models of scikit-learn that put tree models together: Bagging, AdaBoost, Voting, one against the rest."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier

from hardwood.convert import read_ensemble
from hardwood.convert.joining import Member, join
from hardwood.convert.scikit_learn import in_one_thread, name_of, quiet, run_quietly, schema_of, takes_missing
from hardwood.convert.source import Answer, Source
from hardwood.ensemble import TreeEnsemble
from hardwood.quoting import quote
from hardwood.table import Schema


def read_bagging(model: Any) -> Source:
    """Read Bagging of trees: what the trees predict, each from columns of its own, averaged."""
    classes = getattr(model, "classes_", None)
    ensembles = _read_members(model)
    members = []
    for ensemble, columns in zip(ensembles, model.estimators_features_, strict=True):
        value = _predicted(model, ensemble)
        if classes is not None and value.shape[1] < len(classes):
            placed = np.zeros((len(value), len(classes)))  # a member may not have seen all classes
            placed[:, ensemble.labels] = value
            value = placed
        members.append(Member(ensemble, value, np.asarray(columns)))
    return _finish_average(model, members, classes, float(len(members)))


def read_voting(model: Any) -> Source:
    """Read a Voting of trees: what they predict, averaged with weights, or each one's vote for a class."""
    if getattr(model, "voting", "soft") == "hard":
        return _read_hard_voting(model)
    classes = getattr(model, "classes_", None)
    weights, columns = model._weights_not_none, np.arange(model.n_features_in_)
    members = []
    for index, ensemble in enumerate(_read_members(model)):
        value = _predicted(model, ensemble)
        members.append(Member(ensemble, value if weights is None else value * weights[index], columns))
    divisor = float(len(members) if weights is None else np.sum(weights, dtype=np.float64))
    return _finish_average(model, members, classes, divisor)


def _finish_average(model: Any, members: Sequence[Member], classes: np.ndarray | None, divisor: float) -> Source:
    if not divisor > 0.0:
        raise ValueError(f"{name_of(model)} has weights that add up to {quote(divisor)}; expected a positive sum")
    single = in_one_thread(model)
    ensemble = join(
        members,
        _schema(model, members),
        base_score=np.zeros(members[0].value.shape[1]),
        link="value" if classes is None else "probability",
        classes=classes,
        divisor=divisor,
    )
    return _source(model, ensemble, single, None if classes is None else quiet(single.predict_proba))


def _read_hard_voting(model: Any) -> Source:
    weights, columns = model._weights_not_none, np.arange(model.n_features_in_)
    codes = np.arange(len(model.classes_))
    members = []
    for index, ensemble in enumerate(_read_members(model)):
        weight = 1.0 if weights is None else float(weights[index])
        votes = ensemble.labels[_winner(model, ensemble)]
        members.append(Member(ensemble, np.where(votes[:, None] == codes, weight, 0.0), columns))
    ensemble = join(
        members,
        _schema(model, members),
        base_score=np.zeros(len(codes)),
        link="score",
        classes=model.classes_,
    )
    return _source(model, ensemble, in_one_thread(model), None)


def read_ada_boost(model: Any) -> Source:
    """Read an AdaBoostClassifier of trees: each tree votes for a class, with its weight."""
    if len(model.classes_) == 1:
        raise ValueError(f"{name_of(model)} saw one class only; there is nothing to vote on")
    codes, columns = np.arange(len(model.classes_)), np.arange(model.n_features_in_)
    members = []
    # Boosting may stop before all the weights are used.
    for ensemble, weight in zip(_read_members(model), model.estimator_weights_.tolist(), strict=False):
        winner = np.searchsorted(model.classes_, ensemble.labels)[_winner(model, ensemble)]
        if len(codes) == 2:
            # The second class' share less the first's: the same number twice, and to double it does not round.
            value = np.where(winner == 1, 2 * weight, -2 * weight)[:, None]
        else:
            value = np.where(winner[:, None] == codes, weight, -1 / (len(codes) - 1) * weight)
        members.append(Member(ensemble, value, columns))
    ensemble = join(
        members,
        _schema(model, members),
        base_score=np.zeros(members[0].value.shape[1]),
        link="score",
        classes=model.classes_,
        divisor=float(model.estimator_weights_.sum()),
    )
    return _source(model, ensemble, model, quiet(model.decision_function))


def read_one_against_the_rest(model: Any) -> Source:
    """Read a OneVsRestClassifier: a model per class, of which the one that is surest of its class wins.

    With two classes there is one model, which has to be surer than its cut.
    """
    if model.multilabel_:
        raise ValueError(f"{name_of(model)} gives a row several labels; only one is supported")
    is_single = len(model.estimators_) == 1
    ensembles, columns = _read_members(model), np.arange(model.n_features_in_)
    alike = {(ensemble.precision, ensemble.divisor) for ensemble in ensembles}
    if len(alike) > 1 or ensembles[0].precision != "float64":
        raise ValueError(
            f"{name_of(model)} compares numbers that {name_of(model.estimators_[0])} computes in float32 or divides by "
            "different sums; only members that add up float64 and divide by the same number are supported"
        )
    n_outputs = 1 if is_single else len(ensembles)
    members, base_score = [], np.zeros(n_outputs)
    for index, (estimator, ensemble) in enumerate(zip(model.estimators_, ensembles, strict=True)):
        scored = hasattr(estimator, "decision_function")
        if scored != (len(ensemble.base_score) == 1):
            raise ValueError(
                f"{name_of(model)} compares what {name_of(estimator)}.predict_proba says of two classes, which is no "
                "sum of trees"
            )
        value = np.zeros((ensemble.n_nodes, n_outputs))
        value[:, index] = ensemble.value[:, -1]
        base_score[index] = ensemble.base_score[-1]
        members.append(Member(ensemble, value, columns))
    # Of equal scores the first or the last wins, which differs between versions of scikit-learn.
    order = slice(None, None, 1 if is_single or _first_wins(model) else -1)
    scores = [_scores(estimator) for estimator in model.estimators_]
    factor = 2.0 if getattr(model.estimators_[0], "loss", None) == "exponential" else 1.0
    ensemble = join(
        [member._replace(value=member.value[:, order]) for member in members],
        _schema(model, members),
        base_score=base_score[order],
        link="score",
        classes=model.classes_[order],
        divisor=ensembles[0].divisor,
        cut=0.5 if is_single and not hasattr(model.estimators_[0], "decision_function") else 0.0,
    )
    return _source(
        model,
        ensemble,
        in_one_thread(model),
        lambda table: factor * np.column_stack([score(table) for score in scores][order]),
    )


def _scores(estimator: Any) -> Answer:
    """Return what one model of a OneVsRestClassifier is asked: how sure it is of its class."""
    single = in_one_thread(estimator)
    if hasattr(estimator, "decision_function"):
        return quiet(single.decision_function)
    return lambda table: run_quietly(single.predict_proba, table)[:, 1]


def _first_wins(model: Any) -> bool:
    """Ask a OneVsRestClassifier whose members are all equally sure."""
    undecided = copy.copy(model)
    constant = DummyClassifier(strategy="constant", constant=1).fit([[0.0], [0.0]], [0, 1])
    undecided.estimators_ = [constant] * len(model.estimators_)
    return bool(undecided.predict(np.zeros((1, 1)))[0] == model.classes_[0])


def _read_members(model: Any) -> list[TreeEnsemble]:
    """Return the ensembles of the members, and refuse what is no tree model."""
    ensembles = []
    for member in model.estimators_:
        try:
            ensembles.append(read_ensemble(member))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{name_of(model)} holds a {name_of(member)}; only tree models are supported in it ({error})"
            ) from None
    return ensembles


def _predicted(model: Any, ensemble: TreeEnsemble) -> np.ndarray:
    """Return what each node of a member's tree would predict: probabilities or values that are to be averaged."""
    if ensemble.link not in ("probability", "value") or ensemble.precision != "float64":
        raise ValueError(
            f"{name_of(model)} averages probabilities that are a function of a sum, or float32 numbers; only members "
            "whose leaves hold float64 probabilities or values are supported"
        )
    if ensemble.n_trees > 1:
        raise ValueError(
            f"{name_of(model)} averages members of several trees each, such as forests; an average of averages rounds "
            "otherwise than a sum of trees, so only members of one tree are supported"
        )
    return (ensemble.base_score + ensemble.value) / ensemble.divisor


def _winner(model: Any, ensemble: TreeEnsemble) -> np.ndarray:
    """Return the class index that each node of a member's tree would vote for."""
    if ensemble.n_trees > 1:
        raise ValueError(
            f"{name_of(model)} counts the votes of members of several trees each; such a vote is no sum of trees, so "
            "only members of one tree are supported"
        )
    return ensemble.node_class


def _schema(model: Any, members: Sequence[Member]) -> Schema:
    """Return the columns; values may be missing if the model and all its members say so."""
    accepts = all(member.ensemble.schema.accepts_missing for member in members) and takes_missing(model)
    return schema_of(model, accepts_missing=accepts)


def _source(model: Any, ensemble: TreeEnsemble, single: Any, output: Answer | None) -> Source:
    schema = ensemble.schema
    return Source(
        ensemble=ensemble,
        name=name_of(model),
        predict=quiet(single.predict),
        output=output,
        as_table=schema.decode if schema.categorical else lambda rows: rows,
        float32=True,
    )
