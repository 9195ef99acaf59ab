"""`attack`: the nearest adversarial example of every row."""

from typing import Any

import numpy as np

from hardwood.attacks.largest_error import attack_regression
from hardwood.convert import read_rows
from hardwood.progress import Progress, read_progress
from hardwood.quoting import quote
from hardwood.results import AttackResult
from hardwood.threads import count_threads
from hardwood.verification.answers import FOUND
from hardwood.verification.ask import decide_all, nearest
from hardwood.verification.asked import LOCAL_METHODS, AskSettings
from hardwood.verification.distance import read_weight
from hardwood.verification.examples import give_back
from hardwood.verification.folding import check_group_weights
from hardwood.verification.question import check_method, check_time_limit, read_question
from hardwood.verification.tree_distance import NORMS

METHODS = ("search", "milp", *LOCAL_METHODS)


def attack(
    model: Any,
    X: Any,
    y: Any = None,
    threat: Any = None,
    *,
    norm: float = np.inf,
    feature_weight: Any = None,
    method: str = "search",
    time_limit: float | None = None,
    n_jobs: int | None = None,
    progress: Progress | bool | None = None,
) -> Any:
    """Find the nearest adversarial example of every row: exactly, or fast.

    Of a regression: the example whose prediction is furthest off from `y`, exactly.

    An adversarial example of a row is a point that the threat model lets the attacker reach and that the model gives
    another class than `y`. A row the model gets wrong as it stands is its own example, at distance 0; the result tells
    such rows from those that can be made wrong.

    Parameters
    ----------
    model : fitted tree model
        Anything :func:`as_ensemble` takes: hardwood's own, scikit-learn's, XGBoost's, LightGBM's, or a saved model.
    X : table of shape (n_samples, n_features)
        Values may be missing if the model takes missing values; the attacker can neither change nor make them.
    y : array-like of labels (of numbers for a regression), or None
        None: the model's own predictions, that is, any change of prediction counts.
    threat : ThreatModel or any of its spellings, or None
        None: every feature may take any value, so that `distance` is how far the row is from another class. With
        attack rules, the cheapest example is found, and its `distance` is what it costs; `norm` and `feature_weight`
        are then left alone.
    norm : {inf, 2, 1, 0}, default=inf
        How the size of a change is measured. A changed category counts as a change by 1, and so does a changed one-hot
        group: it is one feature, though two of its columns change.
    feature_weight : array-like of shape (n_features,), or None
        What a change of one unit in each feature costs; the same for all columns of a one-hot group. None: 1 for all.
    method : {"search", "milp", "heuristic", "coordinate", "lowest"}, default="search"
        "search" is exact. "milp" asks a mixed-integer solver (HiGHS, the extra `milp`) instead, in any norm: slower by
        orders of magnitude, and independent of the search. Its `lower` is a millionth below `distance` even where it
        finished, as much as its tolerance.

        The others prove nothing, so their `lower` is 0, and may miss an example. They take milliseconds per row, for
        large models too. "heuristic": local moves; its examples are near, mostly nearest. "coordinate": the
        approximate attack of Kantchelian et al. for the L0 norm, which changes one feature at a time, each to the
        value that lowers the margin of the true class most, until the class changes. "lowest": the same moves, but on
        until none lowers the margin any more, for an example deep in the wrong class. With these two, `norm` only
        says how the result is measured.
    time_limit : float or None, default=None
        Seconds per row, for models of several trees and for "milp"; None: no limit. A row that takes longer keeps the
        best example found, if any, and the distance below which there is none.
    n_jobs : int or None, default=None
        Threads over rows, for models of several trees and for "milp"; with attack rules there is one.
    progress : callable, bool or None
        Called with (rows done, rows in all) as the work goes on. True: a line on stderr.

    Returns
    -------
    AttackResult, or RegressionAttackResult for a regression
        If interrupted (Ctrl-C), with what had been found by then; the rest is not found, with `lower` 0.

    Notes
    -----
    Leaves are open on their left end. An example that has to cross a threshold to the right takes the next float64
    after it, so the distance is the smallest there is among floating point numbers. Every example is predicted again
    before it is returned.

    References
    ----------
    A. Kantchelian, J. D. Tygar and A. D. Joseph, "Evasion and Hardening of Tree Ensemble Classifiers", ICML 2016.

    Examples
    --------
    >>> from hardwood import RobustTreeClassifier, attack
    >>> model = RobustTreeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> attack(model, [[1.0], [3.0]], [0, 1]).distance.tolist()
    [0.5000000000000002, 1.5]
    >>> attack(model, [[1.0], [3.0]], [0, 1], norm=0, method="coordinate").distance.tolist()
    [1.0, 1.0]
    >>> attack(model, [[1.0], [3.0], [3.0]], [0, 1, 0], threat=1.0)
    AttackResult(was_wrong=1, made_wrong=1, holds=1, undecided=0)
    """
    limit, report = check_time_limit(time_limit), read_progress(progress)
    check_norm(norm)
    rows, threat = read_rows(model, X), "<>" if threat is None else threat
    if rows.ensemble.classes is None:
        settings = AskSettings(method, limit, count_threads(n_jobs), report)
        return attack_regression(rows, X, y, threat, norm=norm, feature_weight=feature_weight, settings=settings)
    question = read_question(rows, X, y, threat, predict_if_no_labels=True)
    check_method(method, question, METHODS)
    if question.threat.rules and (norm != np.inf or feature_weight is not None):
        raise ValueError(
            f"norm={quote(norm)}, feature_weight={quote(feature_weight)}: with attack rules, costs are the distance"
        )
    settings = AskSettings(method, limit, count_threads(n_jobs, len(question.matrix)), report)
    weight = read_weight(feature_weight, question.ensemble.schema)
    check_group_weights(weight, question.reach)
    ensemble, matrix, class_index, reach = question.ensemble, question.matrix, question.class_index, question.reach
    answers = nearest(ensemble, matrix, class_index, reach, norm, weight, settings, question.outputs)
    return AttackResult(
        found=answers.status == FOUND,
        was_wrong=ensemble.choose(question.outputs.of(ensemble, matrix)) != class_index,
        X_adv=give_back(question, answers.example),
        distance=answers.upper,
        lower=answers.lower,
        interrupted=answers.interrupted,
    )


def check_norm(norm: Any) -> None:
    """Make sure that there is such a norm."""
    if not isinstance(norm, (int, float)) or norm not in NORMS:
        raise ValueError(f"norm={quote(norm)}: expected inf, 2, 1 or 0")


def is_vulnerable(model: Any, X: Any, y: Any, threat: Any, *, time_limit: float | None = None) -> np.ndarray:
    """Say of each row whether the attacker can make the model give it another class than `y`.

    Rows the model gets wrong as they stand count as vulnerable. Faster than :func:`attack`, which looks for the nearest
    example; :func:`verify` says more.

    Raises
    ------
    TimeoutError
        If a row cannot be decided within `time_limit` seconds; None: no limit.

    Examples
    --------
    >>> from hardwood import RobustTreeClassifier, is_vulnerable
    >>> model = RobustTreeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> is_vulnerable(model, [[1.0], [3.0]], [0, 1], threat=1.0).tolist()
    [True, False]
    """
    limit = check_time_limit(time_limit)
    question = read_question(model, X, y, threat)
    ensemble, matrix, class_index, reach = question.ensemble, question.matrix, question.class_index, question.reach
    return decide_all(ensemble, matrix, class_index, reach, limit, question.outputs)
