"""The door of every public function that asks about rows: what the caller gave, checked once and turned into arrays."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hardwood.convert import ModelRows, read_rows
from hardwood.ensemble import TreeEnsemble
from hardwood.quoting import quote
from hardwood.reals import to_float
from hardwood.threat import Reach, ThreatModel
from hardwood.threat.priced_reach import PricedReach
from hardwood.verification.asked import Outputs


class Question(NamedTuple):
    """Rows of a table, the classes they belong to, and an attacker."""

    ensemble: TreeEnsemble
    X: Any  # the table as the caller gave it
    matrix: np.ndarray  # the same, encoded
    class_index: np.ndarray
    threat: ThreatModel
    reach: Reach | PricedReach
    outputs: Outputs  # what the ensemble says of the rows

    def under(self, threat: ThreatModel) -> "Question":
        """Return the same rows with another attacker."""
        return self._replace(threat=threat, reach=resolve_threat(self.ensemble, threat))


def read_question(model: Any, X: Any, y: Any, threat: Any, *, predict_if_no_labels: bool = False) -> Question:
    """Read what a public function was given about a classifier, as a model or as it has been read already.

    Without labels the model's own predictions stand for them, if the caller says so.
    """
    rows = model if isinstance(model, ModelRows) else read_rows(model, X)
    ensemble = rows.ensemble
    matrix = ensemble.schema.encode(X) if rows.matrix is None else rows.matrix
    outputs = Outputs(ensemble, matrix, rows.output)
    classes, words = ensemble.labels, ThreatModel.coerce(threat).settle(X, matrix, ensemble.schema)
    if words.rules and np.isnan(matrix).any():
        raise ValueError("X has missing values; attack rules say nothing about those")
    if y is None and predict_if_no_labels:
        class_index = ensemble.choose(outputs.of(ensemble, matrix))
    else:
        class_index = read_class_index(y, classes, len(matrix))
    return Question(ensemble, X, matrix, class_index, words, resolve_threat(ensemble, words), outputs)


def read_class_index(y: Any, classes: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the position of every label among the classes."""
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        got = "None" if y is None else f"shape {labels.shape}"
        raise ValueError(f"y: expected {n_rows} labels, one per row of X, got {got}")
    index = np.full(n_rows, -1)
    for k, name in enumerate(classes.tolist()):
        index[labels == name] = k
    if (index < 0).any():
        label = labels[index < 0].tolist()[0]
        raise ValueError(f"y: {quote(label)} is not a class of the model; its classes are {quote(classes.tolist())}")
    return index


def resolve_threat(ensemble: TreeEnsemble, threat: ThreatModel) -> Reach | PricedReach:
    """Return what the attacker may do to the rows that an ensemble classifies.

    The last one is kept with the ensemble: whoever asks row by row repeats it every time.
    """
    last: list[tuple[ThreatModel, Reach | PricedReach]] = ensemble.remember("last threat", lambda _: [])
    for known, reach in last:
        if known == threat:
            return reach
    reach = (threat.price if threat.rules else threat.resolve)(ensemble.schema, ensemble.labels)
    last[:] = [(threat, reach)]
    return reach


def check_method(method: Any, question: Question, methods: Sequence[str] = ("search", "milp")) -> None:
    """Make sure that the method exists, and can answer."""
    if method not in methods:
        raise ValueError(f"method={quote(method)}: expected {', '.join(map(repr, methods[:-1]))} or {methods[-1]!r}")
    if method != "search" and question.threat.rules:
        raise ValueError(f"method={quote(method)}: knows no attack rules; use method='search'")


def check_time_limit(time_limit: Any, name: str = "time_limit") -> float:
    """Return the seconds that something may take."""
    seconds = math.inf if time_limit is None else to_float(time_limit)
    if not seconds >= 0.0:
        raise ValueError(f"{name}={quote(time_limit)}: expected a number of seconds >= 0, or None for no limit")
    return seconds
