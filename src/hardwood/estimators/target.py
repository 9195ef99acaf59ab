"""What estimators take: rows as their parameters and tags say, and what they refuse of them."""

from typing import Any

import numpy as np
from sklearn.utils import get_tags

from hardwood.ensemble.sums import LARGEST_OUTPUT
from hardwood.estimators.refusals import explaining_missing, refuse_categories, refuse_hiding, refuse_many_classes
from hardwood.quoting import quote
from hardwood.reals import MOST_COUNTED, is_integer
from hardwood.rows.request import read_request
from hardwood.rows.sources import StreamSource, TableSource, open_rows, open_table, read_task
from hardwood.rows.task import Task


def read_problem(estimator: Any, X: Any, y: Any, sample_weight: Any, **asked: Any) -> Task:
    """Read a table in memory; `asked` is what the request says beyond parameters and tags."""
    return _read(estimator, open_table(X, y, sample_weight), asked)


def read_rows(estimator: Any, X: Any, y: Any, sample_weight: Any, **asked: Any) -> Task:
    """Read a table in memory, or make the first pass through a stream."""
    return _read(estimator, open_rows(estimator, X, y, sample_weight), asked)


def _read(estimator: Any, source: TableSource | StreamSource, asked: dict[str, Any]) -> Task:
    request = read_request(estimator, **asked)
    refuse_hiding(estimator, request.threat)
    with explaining_missing(estimator):
        task = read_task(source, request)
    if request.has_classes:
        refuse_many_classes(estimator, task.classes)
    else:
        if not get_tags(estimator).input_tags.categorical:
            refuse_categories(estimator, task.schema, "criterion")
        refuse_size(task.target, count_added(estimator))
    return task


def count_added(estimator: Any) -> int:
    """Return how many numbers as large as targets a model of this estimator adds up: one per tree of a forest."""
    n_trees = getattr(estimator, "n_estimators", 1)
    return min(int(n_trees), MOST_COUNTED) if is_integer(n_trees) and n_trees >= 1 else 1  # others are refused later


def refuse_size(target: np.ndarray, n_added: int) -> None:
    """Refuse targets so large that as many of them, added up, are no number."""
    most = LARGEST_OUTPUT / n_added
    too_large = np.abs(target) > most
    if too_large.any():
        row = int(too_large.argmax())
        added = "" if n_added == 1 else f", as n_estimators={n_added} predictions are added up"
        raise ValueError(
            f"y: {quote(float(target[row]))} is too large; expected numbers up to {most:.3g}{added}. Scale the target"
        )
