"""`hardwood fit`: a table and a threat model in, a robust model out."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardwood.cli.learners import Learner, Task, check_can_stream, fit_model
from hardwood.cli.messages import (
    CommandError,
    explaining,
    run_beside,
    run_with_notice,
    say_error,
    showing_progress,
)
from hardwood.cli.streams import AsStream, choose_stream, open_stream, refuse_measured
from hardwood.cli.summary import Figures, FittedModel, describe_figures, print_summary
from hardwood.cli.tables import check_inputs, check_output, read_table, write_file
from hardwood.cli.threat import check_threat_options, read_threat, resolve_words
from hardwood.cli.training import TrainingTable, Wanted, read_training_stream, read_training_table
from hardwood.quoting import list_some, shorten

if TYPE_CHECKING:
    from hardwood import ThreatModel


class Criterion(StrEnum):
    """How the quality of a split is measured."""

    gini = "gini"
    entropy = "entropy"
    error = "error"
    squared_error = "squared_error"
    absolute_error = "absolute_error"


class Refinement(StrEnum):
    """What becomes of the greedy tree."""

    search = "search"
    alternate = "alternate"
    none = "none"


_TREE = "The tree"


MaxDepth = Annotated[int | None, typer.Option(metavar="N", min=1, rich_help_panel=_TREE, help="Levels of conditions.")]
MaxLeafNodes = Annotated[int | None, typer.Option(metavar="N", min=2, rich_help_panel=_TREE, help="Leaves at most.")]
MinSamplesSplit = Annotated[
    int | None, typer.Option(metavar="N", min=2, rich_help_panel=_TREE, help="Rows a split needs.")
]
MinSamplesLeaf = Annotated[
    int | None, typer.Option(metavar="N", min=1, rich_help_panel=_TREE, help="Rows a leaf needs.")
]
MinImpurityDecrease = Annotated[
    float | None, typer.Option(metavar="NUMBER", min=0, rich_help_panel=_TREE, help="Gain a split needs.")
]
Refine = Annotated[
    Refinement | None,
    typer.Option(
        rich_help_panel=_TREE,
        help="Improve the tree as a whole, from several starts or from one; none: the paper's greedy tree. By default "
        "search, where the table allows it.",
    ),
]
Measure = Annotated[
    Criterion | None,
    typer.Option(rich_help_panel=_TREE, help="Measure of a split; gini for classes, squared_error for numbers."),
]
Rho = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        min=0,
        max=1,
        rich_help_panel=_TREE,
        help="How many of the rows that can be moved are moved, when fitting.",
    ),
]
Balanced = Annotated[bool, typer.Option("--balanced", rich_help_panel=_TREE, help="Give classes equal weight.")]
Jobs = Annotated[int | None, typer.Option(metavar="N", rich_help_panel=_TREE, help="Threads; -1 for all cores.")]
Target = Annotated[str, typer.Option(metavar="COLUMN", help="What to predict: a column with classes, or numbers.")]
Model = Annotated[Learner, typer.Option(help="One tree, many, or a hardened XGBoost or LightGBM.")]
ToPredict = Annotated[Task, typer.Option(help="Predict a class or a number.")]
Trees = Annotated[
    int | None, typer.Option(metavar="N", min=1, rich_help_panel=_TREE, help="Trees of a forest, of boosting.")
]
LearningRate = Annotated[
    float | None, typer.Option(metavar="NUMBER", rich_help_panel=_TREE, help="How much a tree of boosting adds.")
]
MaxBins = Annotated[
    str | None,
    typer.Option(metavar="N", rich_help_panel=_TREE, help="Thresholds tried per column: auto, exact or 2 to 255."),
]
Output = Annotated[Path, typer.Option(metavar="FILE", help="Where to write the model (JSON).")]
Threat = Annotated[Path | None, typer.Option(metavar="FILE", help="TOML: what the attacker can do to each column.")]
Epsilon = Annotated[float | None, typer.Option(metavar="NUMBER", min=0, help="Or: how far every number can be moved.")]
AttackingClass = Annotated[
    list[str] | None, typer.Option(metavar="LABEL", help="A class that attacks, if not all do; repeatable.")
]
Categorical = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="A column of categories, not numbers; repeatable.")
]
Numeric = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="A column of numbers, whatever it looks like; repeatable.")
]
Ignore = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="A column to leave out, such as an id; repeatable.")
]


def fit(
    data: Annotated[Path, typer.Argument(help="The training table: .csv, .csv.gz, .parquet, or a folder of Parquet.")],
    *,
    target: Target,
    output: Output,
    threat: Threat = None,
    epsilon: Epsilon = None,
    attacking_class: AttackingClass = None,
    categorical: Categorical = None,
    numeric: Numeric = None,
    ignore: Ignore = None,
    model: Model = Learner.tree,
    task: ToPredict = Task.classification,
    trees: Trees = None,
    learning_rate: LearningRate = None,
    max_depth: MaxDepth = None,
    max_leaf_nodes: MaxLeafNodes = None,
    min_samples_split: MinSamplesSplit = None,
    min_samples_leaf: MinSamplesLeaf = None,
    min_impurity_decrease: MinImpurityDecrease = None,
    max_bins: MaxBins = None,
    refine: Refine = None,
    criterion: Measure = None,
    rho: Rho = None,
    balanced: Balanced = False,
    jobs: Jobs = None,
    stream: AsStream = None,
) -> None:
    """Fit a robust model to a table and save it.

    Distances are in the units of the table: nothing has to be scaled. Without --threat or
    --epsilon there is no attacker, and a tree is an ordinary decision tree.

    **Example:** hardwood fit mail.csv --target spam --epsilon 0.1 --max-depth 5 --output
    model.json
    """
    _check_files(data, threat, epsilon, output, target, ignore or [])
    threat_model = read_threat(threat, epsilon)
    is_regression = task is Task.regression
    wanted = Wanted(target, tuple(categorical or ()), tuple(numeric or ()), tuple(ignore or ()), is_regression)
    is_stream = choose_stream(data, stream)
    if is_stream:
        check_can_stream(model, data)
        _refuse_refinement(refine, data)
        refuse_measured(threat_model, data)
    table = _read(data, wanted, is_stream=is_stream)
    for remark in table.remarks:
        say_error(f"note: {remark}")
    chosen = {
        "attacking_classes": _labels(attacking_class, table, target),
        "n_estimators": trees,
        "learning_rate": learning_rate,
        "rho": rho,
        "criterion": None if criterion is None else criterion.value,
        "max_depth": max_depth,
        "max_leaf_nodes": max_leaf_nodes,
        "min_samples_split": min_samples_split,
        "min_samples_leaf": min_samples_leaf,
        "min_impurity_decrease": min_impurity_decrease,
        "max_bins": None if max_bins is None else _read_max_bins(max_bins),
        "class_weight": "balanced" if balanced else None,
        "refine": (
            _choose_refinement(refine, is_stream=is_stream) if model is Learner.tree and not is_regression else refine
        ),
        "n_jobs": jobs,
    }
    with explaining(f"fit a model to {data}"):
        if is_stream:
            fitted, figures = _fit_stream(model, task, threat_model, chosen, table)
        else:
            fitted = run_with_notice(lambda: fit_model(model, task, threat_model, chosen, table), "Fitting...")
            figures = run_with_notice(lambda: describe_figures(fitted), "Attacking the training rows...")
    text = fitted.ensemble.to_json(threat=resolve_words(fitted.threat).to_toml())
    write_file(output, lambda draft: draft.write_text(text, encoding="utf-8"))
    print_summary(fitted, figures, output)


def _read_max_bins(spelled: str) -> int | str:
    """Return the number of bins that the user typed; the estimator refuses what makes no sense."""
    try:
        return int(spelled)
    except ValueError:  # "auto", "exact", or thousands of digits
        return spelled


def _read(data: Path, wanted: Wanted, *, is_stream: bool) -> TrainingTable:
    """Read the table, or look at its columns, part after part."""
    if not is_stream:
        table = run_with_notice(lambda: read_table(data, wanted.categorical), f"Reading {data}...")
        return read_training_table(table, data, wanted)
    tables = open_stream(data, wanted.categorical)
    with explaining(f"read {data}"), showing_progress("Looking at the columns...") as progress:
        return run_beside(lambda: read_training_stream(tables, data, wanted, progress))


def _fit_stream(
    model: Learner, task: Task, threat: ThreatModel, chosen: dict[str, Any], table: TrainingTable
) -> tuple[FittedModel, Figures]:
    """Fit a model to a stream, and say how far it is."""
    with showing_progress("Choosing thresholds...", "Coding the rows...", "Growing...") as progress:
        fitted = run_beside(lambda: fit_model(model, task, threat, chosen | {"progress": progress}, table))
    with showing_progress("Attacking the training rows...") as progress:
        return fitted, run_beside(lambda: describe_figures(fitted, progress))


def _refuse_refinement(asked: Refinement | None, data: Path) -> None:
    if asked not in (None, Refinement.none):
        raise typer.BadParameter(
            f"--refine {asked.value} needs the whole table in memory, and {data} is read part after part: say --refine "
            "none, or refine a tree of some of the rows"
        )


def _choose_refinement(asked: Refinement | None, *, is_stream: bool) -> str | None:
    """Return how the tree is refined: as the user says, or by a search where that can be had; if not, say why."""
    if asked is Refinement.none:
        return None
    if is_stream:
        say_error("note: the tree is grown greedily and is not refined, which needs the whole table in memory")
        return None
    return (asked or Refinement.search).value


def _check_files(
    data: Path, threat: Path | None, epsilon: float | None, output: Path, target: str, ignore: Sequence[str]
) -> None:
    """Refuse what is wrong whatever the table says, before it is read."""
    if target in ignore:
        raise typer.BadParameter(f"--ignore leaves out the target, {target}")
    check_threat_options(threat, epsilon)
    inputs = [data, threat] if threat else [data]
    check_output(output, inputs)
    if output.suffix.lower() != ".json":
        raise typer.BadParameter(f"--output: models are written as JSON, so the name must end in .json, got {output}")
    check_inputs(inputs, data=data, folder=True)


def _labels(spelled: Sequence[str] | None, table: TrainingTable, target: str) -> list[Any] | None:
    """The class labels that the user typed, as they are in the table."""
    if not spelled:
        return None
    by_spelling = {str(label): label for label in table.classes}
    for name in spelled:
        if name not in by_spelling:
            known = list_some(by_spelling, 20, shorten)
            raise CommandError(f'"{shorten(name)}" is no class of column "{shorten(target)}", which holds {known}')
    return [by_spelling[name] for name in spelled]
