"""`verify`: robust, vulnerable or unknown, row by row, with proof."""

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from hardwood._kernels.search.branching import FOUND, NONE, UNFINISHED
from hardwood.convert import as_ensemble
from hardwood.ensemble import TreeEnsemble
from hardwood.results import Certificate
from hardwood.threads import count_threads
from hardwood.threat import Reach, ThreatModel
from hardwood.threat.priced_reach import PricedReach
from hardwood.verification.answers import ask_where_right
from hardwood.verification.labels import check_examples, find_reach, like, read_labels
from hardwood.verification.milp import Milp
from hardwood.verification.priced import attack_priced
from hardwood.verification.regression import verify_outputs
from hardwood.verification.search import RowSearch

# By the search's own status.
STATUS = np.empty(3, dtype="<U10")
STATUS[[FOUND, NONE, UNFINISHED]] = "vulnerable", "robust", "unknown"


def verify(
    model: Any,
    X: Any,
    y: Any,
    threat: Any,
    *,
    method: str = "search",
    tolerance: float | None = None,
    time_limit: float | None = None,
    n_jobs: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Certificate:
    """Prove for every row whether an attacker within the threat model can change its prediction.

    An exact search over the leaves of all trees, cheap bounds first. NP-hard in general, milliseconds in practice.

    Parameters
    ----------
    model : fitted tree model
        Anything :func:`as_ensemble` takes: hardwood's own, scikit-learn's, XGBoost's, LightGBM's, or a saved model.
    X : table of shape (n_samples, n_features)
        Values may be missing if the model takes missing values; the attacker can neither change nor make them.
    y : array-like of labels (of numbers for a regression), or None
        None: the model's own predictions, that is, any change of prediction counts.
    threat : ThreatModel or any of its spellings
    method : {"search", "milp"}, default="search"
        "milp" asks a mixed-integer solver (HiGHS, the extra `milp`) instead: slower by orders of magnitude, and
        independent of the search. It does not tell apart sums of leaf values that differ by less than a millionth of
        the largest leaf; a row that hinges on such a difference is "unknown".
    tolerance : float or None, default=None
        For regressions, and only for them: how far an output may be off from `y` for the row to count as robust.
    time_limit : float or None, default=None
        Seconds per row. A row that takes longer is "unknown". With 0 only the cheap bounds are tried. None: no limit.
    n_jobs : int or None, default=None
        Threads over rows; with attack rules there is one.
    progress : callable or None
        Called with (rows done, rows in all) as the work goes on.

    Returns
    -------
    Certificate
        If interrupted (Ctrl-C), with what had been decided by then; the rest is "unknown".

    Examples
    --------
    >>> from hardwood import RobustTreeClassifier, verify
    >>> model = RobustTreeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> verify(model, [[0.0], [1.0]], [0, 0], threat=1.0).status.tolist()
    ['robust', 'vulnerable']
    """
    ensemble = as_ensemble(model)
    limit = check_time_limit(time_limit)
    if ensemble.classes is None:
        if method != "search":
            raise ValueError(f"method={method!r}: the model is a regression; expected 'search'")
        return verify_outputs(ensemble, X, y, threat, tolerance, limit, count_threads(n_jobs), progress)
    if tolerance is not None:
        raise ValueError(f"tolerance={tolerance!r}: the model is a classifier; only a regression has a tolerance")
    matrix = ensemble.schema.encode(X)
    words = ThreatModel.coerce(threat)
    check_method(method, words, matrix)
    output = ensemble.output(matrix)
    predicted = ensemble.choose(output)
    label = predicted if y is None else read_labels(y, ensemble.labels, len(matrix))
    rows = (X, matrix, output, label)
    if words.rules:
        priced = words.price(ensemble.schema, ensemble.labels)
        known = attack_priced(ensemble, priced, matrix, label, limit, progress, any_will_do=True)
        return _certify(ensemble, priced, *rows, known.status, known.lower_margin, known.example, known.interrupted)
    reach = find_reach(ensemble, words)
    n_threads = count_threads(n_jobs, len(matrix))
    search: RowSearch | Milp
    if method == "milp":
        search = Milp(ensemble, reach, limit, n_threads, progress)
    else:
        search = RowSearch(ensemble, reach, np.ones(ensemble.schema.n_features), limit, n_threads, progress)
    answers = ask_where_right(search.decide, matrix, label, predicted)
    lower = answers.bound / -ensemble.divisor
    return _certify(ensemble, reach, *rows, answers.status, lower, answers.example, search.interrupted)


def _certify(
    ensemble: TreeEnsemble,
    reach: Reach | PricedReach,
    X: Any,
    matrix: np.ndarray,
    output: np.ndarray,
    label: np.ndarray,
    status: np.ndarray,
    lower: np.ndarray,
    example: np.ndarray,
    interrupted: bool,
) -> Certificate:
    """Check the examples, and say what has been found out about every row: the best margin known is an example's."""
    found = status == FOUND
    output[found] = check_examples(ensemble, reach, matrix, example, label, found)
    upper = margin(ensemble, output, label)
    lower = np.minimum(np.where(status == NONE, np.maximum(lower, 0.0), lower), upper)
    return Certificate(STATUS[status], lower, upper, like(X, ensemble.schema, example), interrupted)


def check_method(
    method: Any, threat: ThreatModel, matrix: np.ndarray, methods: Sequence[str] = ("search", "milp")
) -> None:
    """Make sure that the method exists, and can answer."""
    if method not in methods:
        raise ValueError(f"method={method!r}: expected {', '.join(map(repr, methods[:-1]))} or {methods[-1]!r}")
    if method != "search" and threat.rules:
        raise ValueError(f"method={method!r}: knows no attack rules; use method='search'")
    if method == "milp" and np.isnan(matrix).any():
        raise ValueError("method='milp': the solver knows no missing values, and X has some; use method='search'")


def check_time_limit(time_limit: Any, name: str = "time_limit") -> float:
    """Return the seconds that something may take."""
    if time_limit is None:
        return math.inf
    if not isinstance(time_limit, Real) or isinstance(time_limit, bool) or not float(time_limit) >= 0.0:
        raise ValueError(f"{name}={time_limit!r}: expected a number of seconds >= 0, or None for no limit")
    return float(time_limit)


def margin(ensemble: TreeEnsemble, output: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Return how far the output of each row's label is ahead of the best other one."""
    output = output.astype(np.float64)
    if output.shape[1] == 1:
        lead = output[:, 0] - ensemble.turning_point
        return np.where(label == 1, lead, -lead)
    rows = np.arange(len(output))
    own = output[rows, label]
    output[rows, label] = -np.inf
    return own - output.max(axis=1)
