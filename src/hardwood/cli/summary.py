"""What `hardwood fit` says of the model that it fitted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Table
from rich.text import Text

import hardwood
from hardwood.cli.late import np, pd
from hardwood.cli.messages import console

if TYPE_CHECKING:
    from hardwood import ThreatModel, TreeEnsemble

# Seconds per training row, for models of several trees.
_TIME_LIMIT = 1.0


class FittedModel(NamedTuple):
    """A model, and the table that it was fitted to."""

    ensemble: TreeEnsemble
    estimator: Any
    threat: ThreatModel  # what it was fitted against
    X: pd.DataFrame
    y: np.ndarray


def describe_figures(model: FittedModel) -> list[tuple[str, str]]:
    """Return how the model fares on its training rows: as they stand, and under attack."""
    if model.ensemble.classes is None:
        return _describe_errors(model)
    report = hardwood.evaluate(
        model.ensemble, model.X, model.y, model.threat, ceiling=False, time_limit=_TIME_LIMIT
    )  # fmt: skip
    return [
        ("accuracy", f"{report.accuracy:.1%} of the training rows"),
        ("under attack", f"{report.adversarial_accuracy} of the training rows"),
    ]


def _describe_errors(model: FittedModel) -> list[tuple[str, str]]:
    """Return how far predictions are off, and how far an attacker can make them be."""
    certificate = hardwood.verify(
        model.ensemble, model.X, model.y, model.threat, tolerance=np.inf, time_limit=_TIME_LIMIT
    )
    constant = np.median(model.y)
    off = np.abs(model.ensemble.predict(model.X) - model.y)
    worst = np.maximum(np.abs(certificate.lower - model.y), np.abs(certificate.upper - model.y))
    return [
        ("off by", f"{off.mean():.4g} on average, on the training rows"),
        ("under attack", f"at most {worst.mean():.4g} on average"),
        (
            "a constant",
            f"{np.abs(model.y - constant).mean():.4g} on average, always {constant:.4g}",
        ),
    ]


def print_summary(model: FittedModel, figures: list[tuple[str, str]], output: Path) -> None:
    """Print what was fitted to what."""
    n_rows, n_features = model.X.shape
    has_threat = model.threat.features is not None or model.threat.rules
    rows = [
        ("table", f"{n_rows:,} rows, {n_features} feature{'s' if n_features > 1 else ''}"),
        _describe_target(model),
        ("threat", repr(model.threat) if has_threat else "none"),
        *_describe_training(model.threat),
        ("tree" if model.ensemble.n_trees == 1 else "trees", _describe_trees(model)),
        *figures,
        ("saved to", str(output)),
    ]
    summary = Table.grid(padding=(0, 2))
    for name, text in rows:
        summary.add_row(Text(name, style="bold"), Text(text))
    console.print(summary)


def _describe_target(model: FittedModel) -> tuple[str, str]:
    if model.ensemble.classes is None:
        return "target", f"numbers from {model.y.min():g} to {model.y.max():g}"
    labels, counts = np.unique(model.y, return_counts=True)
    shares = [f"{label} ({count / len(model.y):.1%})" for label, count in zip(labels, counts, strict=True)]
    return "classes", ", ".join(shares if len(shares) <= 20 else [*shares[:20], f"and {len(shares) - 20} more"])


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
