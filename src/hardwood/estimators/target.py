"""What estimators take: rows as their parameters and tags say, and what they refuse of them."""

from typing import Any

import numpy as np
from sklearn.utils import get_tags

from hardwood.ensemble.sums import LARGEST_OUTPUT
from hardwood.quoting import quote
from hardwood.reals import MOST_COUNTED, is_integer
from hardwood.rows.columns import hides
from hardwood.rows.request import read_request
from hardwood.rows.sources import StreamSource, TableSource, open_rows, open_table, read_task
from hardwood.rows.task import Task
from hardwood.table.columns import chosen_columns, column_names
from hardwood.table.columns import open_table as open_columns
from hardwood.threat import ThreatModel


def read_problem(estimator: Any, X: Any, y: Any, sample_weight: Any, **asked: Any) -> Task:
    """Read a table in memory; `asked` is what the request says beyond parameters and tags."""
    return _read(estimator, open_table(X, y, sample_weight), asked)


def read_rows(estimator: Any, X: Any, y: Any, sample_weight: Any, **asked: Any) -> Task:
    """Read a table in memory, or make the first pass through a stream."""
    return _read(estimator, open_rows(estimator, X, y, sample_weight), asked)


def _read(estimator: Any, source: TableSource | StreamSource, asked: dict[str, Any]) -> Task:
    request = read_request(estimator, **asked)
    if request.has_classes:
        task = read_task(source, request)
        refuse_many_classes(estimator, task.classes)
        return task
    refuse_hiding(estimator, request.threat)
    if isinstance(source, TableSource):
        refuse_categories(estimator, source.X)
    task = read_task(source, request)
    refuse_size(task.target, count_added(estimator))
    return task


def refuse_many_classes(estimator: Any, classes: np.ndarray) -> None:
    """Refuse more than two classes if this estimator, with its parameters, takes only two."""
    if len(classes) <= 2 or get_tags(estimator).classifier_tags.multi_class:
        return
    shown = ", ".join(map(quote, classes[:5].tolist())) + (", ..." if len(classes) > 5 else "")
    raise ValueError(
        f"Only binary classification is supported: y has {len(classes)} classes ({shown}); {quote(estimator)} "
        "takes two. Merge classes into two, or fit one tree per class with sklearn.multiclass.OneVsRestClassifier."
    )


def refuse_hiding(estimator: Any, threat: ThreatModel) -> None:
    """Refuse an attacker that a regression tree does not take."""
    if hides(threat):
        raise ValueError(
            f"threat: {type(estimator).__name__} cannot be trained against an attacker who blanks values or fills them "
            "in; leave out blank and fill"
        )


def refuse_categories(estimator: Any, X: Any) -> None:
    """Refuse columns that an estimator with these parameters does not take."""
    if get_tags(estimator).input_tags.categorical:
        return
    table = open_columns(X)
    if chosen := sorted(chosen_columns(table, estimator.categorical_features)):
        names = column_names(table)
        raise ValueError(
            f"X: column {quote(chosen[0] if names is None else names[chosen[0]])} is categorical; "
            f"{type(estimator).__name__} takes numbers only with these parameters: choose criterion='squared_error', "
            "or encode the column"
        )


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
