"""What `hardwood fit` says of the model that it fitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Table
from rich.text import Text

import hardwood
from hardwood.cli.late import np, pd
from hardwood.cli.messages import console

if TYPE_CHECKING:
    from hardwood import ThreatModel, TreeEnsemble
    from hardwood.cli.training import TrainingTable

# Seconds per training row, for models of several trees.
_TIME_LIMIT = 1.0


class FittedModel(NamedTuple):
    """A model, and the table that it was fitted to."""

    ensemble: TreeEnsemble
    estimator: Any
    threat: ThreatModel  # what it was fitted against
    table: TrainingTable

    def list_parts(self, progress: Callable[[int, int], object] | None) -> Iterator[tuple[pd.DataFrame, np.ndarray]]:
        """Go through the training rows: all at once, or part after part of a stream."""
        X, y = self.table.X, self.table.y
        if y is not None:
            yield X, y
            return
        for batch in X.report_to(progress):
            yield batch.X, batch.y


class Figures(NamedTuple):
    """How a model fares on its training rows, in words."""

    lines: list[tuple[str, str]]
    target: tuple[str, str]  # what is predicted


def describe_figures(model: FittedModel, progress: Callable[[int, int], object] | None = None) -> Figures:
    """Return how the model fares on its training rows: as they stand, and under attack."""
    if model.ensemble.classes is None:
        return _describe_errors(model, progress)
    from hardwood.results import Bounds

    n_rows = model.table.n_rows
    right = lower = upper = 0.0
    for X, y in model.list_parts(progress):
        report = hardwood.evaluate(model.ensemble, X, y, model.threat, ceiling=False, time_limit=_TIME_LIMIT)
        bounds, share = report.adversarial_accuracy, len(y) / n_rows
        right, lower, upper = (
            right + share * report.accuracy,
            lower + share * bounds.lower,
            upper + share * bounds.upper,
        )
    lines = [
        ("accuracy", f"{right:.1%} of the training rows"),
        ("under attack", f"{Bounds(lower, upper)} of the training rows"),
    ]
    shares = [f"{label} ({count / n_rows:.1%})" for label, count in model.table.classes.items()]
    classes = ", ".join(shares if len(shares) <= 20 else [*shares[:20], f"and {len(shares) - 20} more"])
    return Figures(lines, ("classes", classes))


def _describe_errors(model: FittedModel, progress: Callable[[int, int], object] | None) -> Figures:
    """Return how far predictions are off, and how far an attacker can make them be."""
    targets, off, worst = [], 0.0, 0.0
    for X, y in model.list_parts(progress):
        certificate = hardwood.verify(model.ensemble, X, y, model.threat, tolerance=np.inf, time_limit=_TIME_LIMIT)
        off += float(np.abs(model.ensemble.predict(X) - y).sum())
        worst += float(np.maximum(np.abs(certificate.lower - y), np.abs(certificate.upper - y)).sum())
        targets.append(y)
    y = np.concatenate(targets)
    constant = np.median(y)
    lines = [
        ("off by", f"{off / len(y):.4g} on average, on the training rows"),
        ("under attack", f"at most {worst / len(y):.4g} on average"),
        ("a constant", f"{np.abs(y - constant).mean():.4g} on average, always {constant:.4g}"),
    ]
    return Figures(lines, ("target", f"numbers from {y.min():g} to {y.max():g}"))


def print_summary(model: FittedModel, figures: Figures, output: Path) -> None:
    """Print what was fitted to what."""
    n_features = model.table.n_features
    has_threat = model.threat.features is not None or model.threat.rules
    rows = [
        ("table", f"{model.table.n_rows:,} rows, {n_features} feature{'s' if n_features > 1 else ''}"),
        figures.target,
        ("threat", repr(model.threat) if has_threat else "none"),
        *_describe_training(model.threat),
        ("tree" if model.ensemble.n_trees == 1 else "trees", _describe_trees(model)),
        *figures.lines,
        ("saved to", str(output)),
    ]
    summary = Table.grid(padding=(0, 2))
    for name, text in rows:
        summary.add_row(Text(name, style="bold"), Text(text))
    console.print(summary)


def _describe_training(threat: ThreatModel) -> list[tuple[str, str]]:
    """Say where training guards against more than the threat model says."""
    if threat.max_changes is None and threat.radius is None:
        return []
    return [("trained against", "the box around the budget over columns; the figures below honour the budget itself")]


def _describe_trees(model: FittedModel) -> str:
    ensemble = model.ensemble
    leaves = f"{ensemble.n_leaves:,} {'leaf' if ensemble.n_leaves == 1 else 'leaves'}, depth {ensemble.max_depth}"
    if ensemble.n_trees > 1:
        return f"{ensemble.n_trees} trees, {leaves}"
    report = getattr(model.estimator, "search_report_", None)
    return leaves if report is None else f"{leaves}, the best of {len(report.candidates)}"
