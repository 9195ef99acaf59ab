"""`verify`: robust, vulnerable or unknown, row by row, with proof."""

from typing import Any

import numpy as np

from hardwood.convert import read_rows
from hardwood.progress import Progress, read_progress
from hardwood.quoting import quote
from hardwood.results import Certificate
from hardwood.threads import count_threads
from hardwood.verification.answers import FOUND, NONE, UNFINISHED
from hardwood.verification.ask import AskSettings, decide
from hardwood.verification.examples import give_back
from hardwood.verification.question import check_method, check_time_limit, read_question
from hardwood.verification.regression import verify_outputs

# By the status of an answer.
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
    progress: Progress | bool | None = None,
) -> Certificate:
    """Prove for every row whether an attacker within the threat model can change its prediction.

    One tree is read off the leaves that a row can be moved into. For several, an exact search over the leaves of all
    trees, cheap bounds first: NP-hard in general, milliseconds in practice.

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
        One tree needs none.
    n_jobs : int or None, default=None
        Threads over rows; with attack rules there is one.
    progress : callable, bool or None
        Called with (rows done, rows in all) as the work goes on. True: a line on stderr.

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
    rows = read_rows(model, X)
    settings = AskSettings(method, check_time_limit(time_limit), progress=read_progress(progress))
    if rows.ensemble.classes is None:
        if method != "search":
            raise ValueError(f"method={quote(method)}: the model is a regression; expected 'search'")
        return verify_outputs(rows, X, y, threat, tolerance, settings._replace(n_threads=count_threads(n_jobs)))
    if tolerance is not None:
        raise ValueError(f"tolerance={quote(tolerance)}: the model is a classifier; only a regression has a tolerance")
    question = read_question(rows, X, y, threat, predict_if_no_labels=True)
    check_method(method, question)
    settings = settings._replace(n_threads=count_threads(n_jobs, len(question.matrix)))
    ensemble, matrix, class_index, reach = question.ensemble, question.matrix, question.class_index, question.reach
    answers = decide(ensemble, matrix, class_index, reach, settings, question.outputs)
    return Certificate(
        status=STATUS[answers.status],
        lower=answers.lower,
        upper=answers.upper,
        witness=give_back(question, answers.example),
        interrupted=answers.interrupted,
    )
