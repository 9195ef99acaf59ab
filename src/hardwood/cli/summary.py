"""What `hardwood fit` says of the model that it fitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.table import Table
from rich.text import Text

from hardwood.cli.late import np
from hardwood.cli.messages import console

if TYPE_CHECKING:
    from hardwood import ThreatModel, TreeEnsemble
    from hardwood.cli.training import TrainingTable
    from hardwood.rows.sources import StreamSource, TableSource

# Seconds per training row, for models of several trees.
_TIME_LIMIT = 1.0


class FittedModel(NamedTuple):
    """A model, and the table that it was fitted to."""

    ensemble: TreeEnsemble
    estimator: Any
    threat: ThreatModel  # what it was fitted against
    table: TrainingTable
    source: TableSource | StreamSource | None = None  # the table as it was read then; None: it was not kept

    def list_questions(self, progress: Callable[[int, int], object] | None) -> Iterator[Any]:
        """Ask about the training rows, as they were read for the fit: all at once, or part after part of a stream."""
        from hardwood.verification.asked import Outputs
        from hardwood.verification.question import Question, read_question, resolve_threat
        from hardwood.verification.regression import RegressionQuestion

        ensemble, threat = self.ensemble, self.threat
        if self.source is None:
            yield read_question(ensemble, self.table.X, self.table.y, threat)
            return
        self.source.report_to(progress)
        for matrix, target in self.source.task.read_rows():
            if ensemble.classes is None:
                yield RegressionQuestion(ensemble, None, matrix, target, threat, threat.resolve(ensemble.schema))
            else:
                reach = resolve_threat(ensemble, threat)
                outputs = Outputs(ensemble, matrix)
                yield Question(ensemble, None, matrix, target.astype(np.intp), threat, reach, outputs)


class Figures(NamedTuple):
    """How a model fares on its training rows, in words."""

    lines: list[tuple[str, str]]
    target: tuple[str, str]  # what is predicted


def describe_figures(model: FittedModel, progress: Callable[[int, int], object] | None = None) -> Figures:
    """Return how the model fares on its training rows: as they stand, and under attack."""
    if model.ensemble.classes is None:
        return _describe_errors(model, progress)
    from hardwood.evaluation.robustness import Plan, measure
    from hardwood.results import Bounds
    from hardwood.verification.ask import AskSettings

    n_rows, settings, plan = model.table.n_rows, AskSettings(time_limit=_TIME_LIMIT), Plan(np.array([0.0, 1.0]))
    right = lower = upper = 0.0
    for question in model.list_questions(progress):
        report = measure(question, settings, plan)
        bounds, share = report.adversarial_accuracy, len(question.matrix) / n_rows
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
    from hardwood.verification.ask import AskSettings
    from hardwood.verification.regression import find_outputs

    targets, off, worst = [], 0.0, 0.0
    for question in model.list_questions(progress):
        outputs = find_outputs(question, AskSettings(time_limit=_TIME_LIMIT))
        low, high, y = outputs.lowest.lower, outputs.highest.upper, question.target
        off += float(np.abs(question.ensemble.output(question.matrix)[:, 0] - y).sum())
        worst += float(np.maximum(np.abs(low - y), np.abs(high - y)).sum())
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
