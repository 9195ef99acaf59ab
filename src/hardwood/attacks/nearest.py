"""`attack`: the nearest adversarial example of every row."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from hardwood._kernels.search.branching import FOUND, NONE
from hardwood.attacks.local import LOCAL_METHODS, attack_locally
from hardwood.convert import as_ensemble
from hardwood.results import AttackResult
from hardwood.threads import count_threads
from hardwood.threat import ThreatModel
from hardwood.verification.answers import ask_where_right
from hardwood.verification.certify import check_method, check_time_limit
from hardwood.verification.distance import first_radius, measure, read_weight
from hardwood.verification.labels import check_examples, find_reach, like, read_labels
from hardwood.verification.milp import Milp
from hardwood.verification.milp_distance import attack_by_milp
from hardwood.verification.priced import attack_priced
from hardwood.verification.search import RowSearch
from hardwood.verification.tree_distance import NORMS, attack_tree

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
    progress: Callable[[int, int], object] | None = None,
) -> AttackResult:
    """Find the nearest adversarial example of every row: exactly, or fast.

    An adversarial example of a row is a point that the threat model lets the attacker reach and that the model gives
    another class than `y`. A row the model gets wrong as it stands is its own example, at distance 0.

    Parameters
    ----------
    model : fitted tree model
        Anything :func:`as_ensemble` takes: hardwood's own, scikit-learn's, XGBoost's, LightGBM's, or a saved model.
    X : table of shape (n_samples, n_features)
        Values may be missing if the model takes missing values; the attacker can neither change nor make them.
    y : array-like of labels, or None
        None: the model's own predictions, that is, any change of prediction counts.
    threat : ThreatModel or any of its spellings, or None
        None: every feature may take any value, so that `distance` is how far the row is from another class. With
        attack rules, the cheapest example is found, and its `distance` is what it costs; `norm` and `feature_weight`
        are then left alone.
    norm : {inf, 2, 1, 0}, default=inf
        How the size of a change is measured. A changed category counts as a change by 1.
    feature_weight : array-like of shape (n_features,), or None
        What a change of one unit in each feature costs. None: 1 for all.
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
    progress : callable or None
        Called with (rows done, rows in all) as the work goes on, for models of several trees.

    Returns
    -------
    AttackResult
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
    """
    ensemble = as_ensemble(model)
    if not isinstance(norm, (int, float)) or norm not in NORMS:
        raise ValueError(f"norm={norm!r}: expected inf, 2, 1 or 0")
    limit = check_time_limit(time_limit)
    matrix = ensemble.schema.encode(X)
    label = ensemble.decide(matrix) if y is None else read_labels(y, ensemble.labels, len(matrix))
    words = ThreatModel.coerce("<>" if threat is None else threat)
    check_method(method, words, matrix, METHODS)
    if words.rules:
        if norm != np.inf or feature_weight is not None:
            raise ValueError(
                f"norm={norm!r}, feature_weight={feature_weight!r}: with attack rules, costs are the distance"
            )
        priced = words.price(ensemble.schema, ensemble.labels)
        answers = attack_priced(ensemble, priced, matrix, label, limit, any_will_do=False)
        found = answers.status == FOUND
        check_examples(ensemble, priced, matrix, answers.example, label, found)
        examples = like(X, ensemble.schema, answers.example)
        return AttackResult(found, examples, answers.cost, answers.lower_cost, answers.interrupted)
    reach = find_reach(ensemble, words)
    weight = read_weight(feature_weight, ensemble.schema)
    distance, lower = np.full(len(matrix), np.inf), np.full(len(matrix), np.inf)
    n_threads, interrupted = count_threads(n_jobs, len(matrix)), False
    if method == "milp":
        milp = Milp(ensemble, reach, limit, n_threads)
        found, examples, lower = attack_by_milp(milp, matrix, label, norm, weight)
        interrupted = milp.interrupted
    elif method in LOCAL_METHODS:
        guess = first_radius(ensemble, weight, np.inf)
        found, examples = attack_locally(ensemble, matrix, label, reach, norm, weight, method, guess, n_threads)
        lower = np.zeros(len(matrix))
    elif ensemble.n_trees == 1:
        found, examples = attack_tree(ensemble, matrix, label, reach, norm, weight)
    else:
        search = RowSearch(ensemble, reach, weight, limit, n_threads, progress, norm)
        found, examples, lower = _attack_ensemble(search, matrix, label)
        interrupted = search.interrupted
    check_examples(ensemble, reach, matrix, examples, label, found)
    distance[found] = measure(examples[found], matrix[found], ensemble.schema, norm, weight)
    lower = np.minimum(lower, distance)
    return AttackResult(found, like(X, ensemble.schema, examples), distance, lower, interrupted)


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
    ensemble = as_ensemble(model)
    limit = check_time_limit(time_limit)
    matrix = ensemble.schema.encode(X)
    label = read_labels(y, ensemble.labels, len(matrix))
    words = ThreatModel.coerce(threat)
    if words.rules:
        priced = words.price(ensemble.schema, ensemble.labels)
        answers = attack_priced(ensemble, priced, matrix, label, limit, any_will_do=True)
        found = answers.status == FOUND
        check_examples(ensemble, priced, matrix, answers.example, label, found)
        if answers.interrupted:
            raise KeyboardInterrupt
        _refuse_undecided(answers.status, limit)
        return found
    reach = find_reach(ensemble, words)
    weight = np.ones(ensemble.schema.n_features)
    if ensemble.n_trees == 1:
        found, examples = attack_tree(ensemble, matrix, label, reach, np.inf, weight, any_will_do=True)
    else:
        found, examples = _decide_ensemble(RowSearch(ensemble, reach, weight, limit), matrix, label)
    check_examples(ensemble, reach, matrix, examples, label, found)
    return found


def _decide_ensemble(search: RowSearch, matrix: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Decide every row: (vulnerable, examples)."""
    answers = ask_where_right(search.decide, matrix, label, search.ensemble.decide(matrix))
    if search.interrupted:
        raise KeyboardInterrupt
    _refuse_undecided(answers.status, search.time_limit)
    return answers.status == FOUND, answers.example


def _refuse_undecided(status: np.ndarray, time_limit: float) -> None:
    undecided = int(((status != FOUND) & (status != NONE)).sum())
    if undecided:
        raise TimeoutError(
            f"{undecided} of {len(status)} rows are undecided after time_limit={time_limit:g} seconds each; "
            "give them more time, or use verify, which says what is known"
        )


def _attack_ensemble(
    search: RowSearch, matrix: np.ndarray, label: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Attack every row: (found, examples, distance below which there is none)."""
    ask = partial(search.nearest, guess=first_radius(search.ensemble, search.weight, search.norm))
    answers = ask_where_right(ask, matrix, label, search.ensemble.decide(matrix))
    lower = np.sqrt(answers.certified) if search.norm == 2 else answers.certified
    return answers.status == FOUND, answers.example, lower
