"""`evaluate` on a stream: a report per batch, joined."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from hardwood.convert import as_ensemble
from hardwood.progress import Progress, read_progress
from hardwood.quoting import quote
from hardwood.results import RegressionReport, RobustnessReport
from hardwood.rows.columns import make_template
from hardwood.rows.refusals import refuse_measured
from hardwood.table.batches import Stream
from hardwood.table.likeness import find_whole_columns
from hardwood.threat import ThreatModel

Report = RobustnessReport | RegressionReport


def evaluate_stream(evaluate: Callable[..., Report], model: Any, stream: Stream, threat: Any, progress: Any) -> Report:
    """Evaluate every batch, and return one report of all rows.

    After Ctrl-C, it is a report of the batches up to that one.

    evaluate : takes a model, a table, targets, a threat and a function that hears how far it is
    """
    settled, asked = settle_types(model, stream, ThreatModel.coerce(threat))
    reports: list[Report] = []
    rows = _RowsDone(read_progress(progress), stream)
    interrupted = False
    try:
        for X, y, weight in stream:
            if weight is not None:
                raise ValueError("sample_weight: evaluate counts rows; make the stream without weights")
            reports.append(evaluate(model, X, y, asked, progress=rows.begin(X.shape[0])))
            if reports[-1].interrupted:
                break
            rows.finish()
    except KeyboardInterrupt:  # while a batch was read
        if not reports:
            raise
        interrupted = True
    if not reports:
        raise ValueError(f"{quote(stream)} has no rows")
    joined = join_reports(reports)
    return replace(joined, threat=settled, interrupted=joined.interrupted or interrupted)


def settle_types(model: Any, stream: Stream, threat: ThreatModel) -> tuple[ThreatModel, ThreatModel]:
    """Return a threat model as a table in memory would have it, and one that no batch adds whole columns to."""
    settled = settle_heads(model, map(take_head, (batch.X for batch in stream)), threat)
    if settled is None:
        raise ValueError(f"{quote(stream)} has no rows")
    return settled


def take_head(X: Any) -> tuple[Any, set[int]]:
    """Return the first row of a part of a table, and the columns whose types hold whole numbers there."""
    return X[:1], {column.position for column in find_whole_columns(X)}


def settle_heads(
    model: Any, heads: Iterable[tuple[Any, set[int]]], threat: ThreatModel
) -> tuple[ThreatModel, ThreatModel] | None:
    """Do what `settle_types` does, by what `take_head` has taken from all parts of a table; None: there is no part.

    A column is whole if its type is in every part: one with missing values has another type where there are some.
    """
    refuse_measured(threat)
    if threat.whole_numbers != "from_dtype":
        return threat, threat
    first: Any = None
    common: set[int] = set()
    for head, whole in heads:
        first, common = (head, whole) if first is None else (first, common & whole)
        if not common:
            break
    if first is None:
        return None
    template, schema = make_template(first, common), as_ensemble(model, first).schema
    settled = threat.settle(template, schema.encode(template), schema)
    return settled, settled.replace(whole_numbers=None) if settled.whole_numbers == "from_dtype" else settled


class _RowsDone:
    """Says how many rows of a stream are done, from what the evaluation of each batch says."""

    def __init__(self, progress: Progress | None, stream: Stream) -> None:
        self._progress = progress
        self._total = 0 if progress is None else stream.count_rows()
        self._before = self._n_rows = self._said = 0

    def begin(self, n_rows: int) -> Progress | None:
        """Return what a batch says how far it is to: its steps count as rows."""
        self._n_rows = n_rows
        return None if self._progress is None else self._hear

    def finish(self) -> None:
        """Count a batch as done."""
        self._before += self._n_rows
        self._say(self._before)

    def _hear(self, done: int, total: int) -> None:
        self._say(self._before + self._n_rows * done // max(total, 1))

    def _say(self, rows: int) -> None:
        """Say how many rows are done, if they are more than before: a batch is evaluated in several parts."""
        if self._progress is not None and rows > self._said:
            self._said = rows
            self._progress(rows, self._total)


def join_reports(reports: list[Report]) -> Report:
    """Return the report of all rows; what is no sum over rows, it does not say."""
    last = reports[-1]
    named = dict.fromkeys(name for report in reports for name in report.seconds)
    seconds = {name: sum(report.seconds.get(name, 0.0) for report in reports) for name in named}
    unsaid: dict[str, Any] = {"index": None}
    if isinstance(last, RegressionReport):
        rows = ["target", "prediction", "lowest", "highest", "lowest_reached", "highest_reached"]
    else:
        rows = ["label", "prediction", "robust_to", "fooled_at"]
        unsaid |= dict.fromkeys(["distance", "distance_lower", "roc_auc", "adversarial_roc_auc"])
        if all(report.distance is not None for report in reports if isinstance(report, RobustnessReport)):
            rows += ["distance", "distance_lower"]
    joined = {name: np.concatenate([getattr(report, name) for report in reports], axis=-1) for name in rows}
    return replace(last, seconds=seconds, **(unsaid | joined))
