"""`evaluate` on a stream: a report per batch, joined."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from hardwood.estimators.streamed import refuse_measured
from hardwood.results import RobustnessReport
from hardwood.table.batches import Stream
from hardwood.threat import ThreatModel


def evaluate_stream(evaluate: Callable[[Any, Any], Any], stream: Stream, threat: Any) -> RobustnessReport:
    """Evaluate every batch by a function of tables and labels, and return one report of all rows.

    After Ctrl-C, it is a report of the batches up to that one.
    """
    refuse_measured(ThreatModel.coerce(threat))
    reports: list[RobustnessReport] = []
    for X, y, weight in stream:
        if weight is not None:
            raise ValueError("sample_weight: evaluate counts rows; make the stream without weights")
        report = evaluate(X, y)
        if not isinstance(report, RobustnessReport):
            raise ValueError("model: a regression is evaluated on tables in memory only")
        reports.append(report)
        if report.interrupted:
            break
    if not reports:
        raise ValueError(f"{stream!r} has no rows")
    return _join(reports)


def _join(reports: list[RobustnessReport]) -> RobustnessReport:
    """Return the report of all rows; what is no sum over rows, it does not say."""
    last = reports[-1]
    rows = ["label", "prediction", "robust_to", "fooled_at"]
    if all(report.distance is not None for report in reports):
        rows += ["distance", "distance_lower"]
    joined: dict[str, Any] = {name: np.concatenate([getattr(report, name) for report in reports]) for name in rows}
    seconds = {name: sum(report.seconds.get(name, 0.0) for report in reports) for name in last.seconds}
    unsaid: dict[str, Any] = dict.fromkeys(["distance", "distance_lower", "roc_auc", "adversarial_roc_auc", "index"])
    return replace(last, seconds=seconds, **(unsaid | joined))
