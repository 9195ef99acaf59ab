"""How a regression fares under attack: intervals of its predictions, and the errors they allow."""

from typing import Any

import numpy as np

from hardwood.evaluation.timing import timed
from hardwood.results import RegressionReport
from hardwood.table.likeness import is_frame, is_polars
from hardwood.verification.ask import AskSettings
from hardwood.verification.regression import find_outputs, read_regression_question
from hardwood.weights import average


def evaluate_regression(
    model: Any, X: Any, y: Any, threat: Any, epsilons: np.ndarray, settings: AskSettings
) -> RegressionReport:
    """Find between which predictions each row can be moved under multiples of a threat model."""
    if y is None:
        raise ValueError("y: expected a number per row, got None")
    question = read_regression_question(model, X, y, threat)
    prediction = question.ensemble.output(question.matrix)[:, 0].astype(np.float64)
    shape = (len(epsilons), len(prediction))
    lowest, highest, lowest_reached, highest_reached = (np.empty(shape) for _ in range(4))
    seconds: dict[str, float] = {}
    interrupted = False
    with timed("search", seconds):
        for k, epsilon in enumerate(epsilons.tolist()):
            if epsilon == 0.0:
                lowest[k] = highest[k] = lowest_reached[k] = highest_reached[k] = prediction
                continue
            asked = settings._replace(progress=_shift(settings, k, len(epsilons)))
            if interrupted:
                asked = asked._replace(time_limit=0.0)  # cheap bounds only: what has been found need not wait
            outputs = find_outputs(question.under(question.threat.scaled(epsilon)), asked)
            interrupted |= outputs.interrupted
            lowest[k], highest[k] = outputs.lowest.lower, outputs.highest.upper
            lowest_reached[k], highest_reached[k] = outputs.lowest.upper, outputs.highest.lower
    return RegressionReport(
        threat=question.threat,
        target=question.target,
        prediction=prediction,
        epsilons=epsilons,
        lowest=lowest,
        highest=highest,
        lowest_reached=lowest_reached,
        highest_reached=highest_reached,
        seconds=seconds,
        interrupted=interrupted,
        index=getattr(X, "index", None) if is_frame(X) else None,
        frame="polars" if is_polars(X) else "pandas",
    )


def _shift(settings: AskSettings, k: int, total: int) -> Any:
    """Return what tells how far the work has come, the rows of all epsilons together."""
    report = settings.progress
    return None if report is None else lambda done, rows: report(k * rows + done, total * rows)


def score_regression(
    model: Any, X: Any, y: Any, threat: Any, *, squared: bool, settings: AskSettings, sample_weight: Any = None
) -> float:
    """Return the mean error under attack, as large as it may be for rows that time was not enough for."""
    question = read_regression_question(model, X, y, threat)
    outputs = find_outputs(question, settings)
    if outputs.interrupted:
        raise KeyboardInterrupt
    _, limit = outputs.bound_errors(question.target)
    with np.errstate(over="ignore"):
        mean = average(limit**2 if squared else limit, sample_weight)
    if not np.isfinite(mean):
        raise ValueError(
            f"y: under attack the model is off by up to {limit.max():.3g}, and the square of that is more than float64 "
            "can hold; choose metric='neg_worst_absolute_error', or scale the target"
        )
    return mean
