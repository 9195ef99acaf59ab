"""`hardwood evaluate`: a model, a table and a threat model in, a robustness report out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

import hardwood
from hardwood.cli.late import np
from hardwood.cli.messages import (
    LOADING,
    console,
    explaining,
    run_beside,
    run_with_notice,
    say_error,
    showing_progress,
)
from hardwood.cli.models import (
    MODEL,
    ModelColumns,
    TrustPickle,
    adopt_table,
    open_rows,
    read_model,
    read_rows,
    read_target,
    stream_rows,
)
from hardwood.cli.streams import AsStream, choose_stream, make_stream, refuse_measured
from hardwood.cli.tables import check_inputs, check_output, check_table_name, write_file, write_table
from hardwood.cli.threat import EPSILON, THREAT, check_threat_options, read_threat, settle_threat

if TYPE_CHECKING:
    from hardwood import RobustnessReport, ThreatModel, TreeEnsemble
    from hardwood.table.batches import Batch

_POINTS = 9
_UP_TO = 2.0


PositiveClass = Annotated[
    str | None,
    typer.Option(metavar="LABEL", help="The class to detect: adds precision, recall, false alarms, ROC AUC."),
]
DecisionThreshold = Annotated[
    float | None, typer.Option(metavar="SHARE", help="The probability from which it counts as detected.")
]
Target = Annotated[str, typer.Option(metavar="COLUMN", help="The column with the true classes, or numbers.")]
Curve = Annotated[
    float | None, typer.Option(metavar="FACTOR", min=0, help="Also under multiples of the threat, up to this one.")
]
Ceiling = Annotated[
    bool, typer.Option("--ceiling/--no-ceiling", help="Whether to work out what no classifier can exceed.")
]
CeilingTimeLimit = Annotated[
    float, typer.Option(metavar="SECONDS", min=0, help="For the ceiling; then it is an interval.")
]
Distances = Annotated[
    bool, typer.Option("--distances", help="Also find the nearest adversarial examples; takes longer.")
]
TimeLimit = Annotated[float, typer.Option(metavar="SECONDS", min=0, help="Per row and multiple of the threat.")]
Jobs = Annotated[int | None, typer.Option(metavar="N", help="Threads; -1 for all cores.")]
Output = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Where to write what is known of each row: .csv or .parquet.")
]
Plot = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Where to save a picture of the curve: .png, .svg or .pdf.")
]


def evaluate(
    model: Annotated[Path, typer.Argument(help=MODEL)],
    data: Annotated[Path, typer.Argument(help="The rows to attack: .csv, .csv.gz, .parquet, or a folder of Parquet.")],
    *,
    target: Target,
    threat: Annotated[Path | None, typer.Option(metavar="FILE", help=THREAT)] = None,
    epsilon: Annotated[float | None, typer.Option(metavar="NUMBER", min=0, help=EPSILON)] = None,
    curve: Curve = None,
    ceiling: Ceiling = True,
    ceiling_time_limit: CeilingTimeLimit = 60.0,
    distances: Distances = False,
    positive_class: PositiveClass = None,
    decision_threshold: DecisionThreshold = None,
    time_limit: TimeLimit = 1.0,
    jobs: Jobs = None,
    output: Output = None,
    plot: Plot = None,
    trust_pickle: TrustPickle = False,
    stream: AsStream = None,
) -> None:
    """Measure how a model fares under attack.

    Prints accuracy, adversarial accuracy, that of a constant classifier, and the ceiling that no
    classifier can exceed; of a model that predicts numbers the errors. What is not decided within
    the time limits makes intervals of the figures. Ctrl-C ends the search and keeps what has been decided.

    **Example:** hardwood evaluate model.json mail.csv --target spam --threat threat.toml
    """
    _check_options(threat, epsilon, curve)
    _check_files([model, data, *([threat] if threat else [])], output, plot)
    threat_model = read_threat(threat, epsilon)
    ensemble = read_model(model, trust_pickle=trust_pickle)
    is_stream = choose_stream(data, stream)
    ensemble, threat_model, X, y, rows = (_open if is_stream else _read)(ensemble, threat_model, data, target)
    up_to = _UP_TO if curve is None and plot is not None else curve
    epsilons = None if up_to is None else np.linspace(0.0, up_to, _POINTS)
    has_ceiling = ceiling and not is_stream and not threat_model.rules and ensemble.classes is not None
    measure = partial(
        hardwood.evaluate, ensemble, threat=threat_model, ceiling=has_ceiling, ceiling_time_limit=ceiling_time_limit,
        distances=distances, n_jobs=jobs, positive_class=_find_label(positive_class, ensemble),
        decision_threshold=decision_threshold,
    )  # fmt: skip
    with explaining(f"evaluate {model} on {data}"):
        if not is_stream:
            run_with_notice(lambda: measure(X.iloc[:1], y[:1], time_limit=0.0), LOADING)
        # In the main thread, where Ctrl-C arrives: the search itself has threads of its own.
        with showing_progress(*["Ceiling..."] * has_ceiling, "Attacking...", "Measuring...") as progress:
            report = measure(X, y, epsilons=epsilons, time_limit=time_limit, progress=progress)
    console.print(str(report), markup=False, soft_wrap=True)
    _save(report, rows, output, plot, name=model.stem)
    if report.interrupted:
        say_error("interrupted: these are the figures of what had been decided by then")
        raise typer.Exit(130)


class _Asked(NamedTuple):
    """What is asked about a table."""

    ensemble: TreeEnsemble  # with the names of the table
    threat: ThreatModel  # in its numbers
    X: Any  # a DataFrame or a Stream
    y: Any  # an array; None: a stream brings its own
    rows: np.ndarray  # those that have a target, counted from 0


def _read(ensemble: TreeEnsemble, threat: ThreatModel, data: Path, target: str) -> _Asked:
    """Read a table."""
    X, labels = read_rows(data, ensemble, target)
    ensemble = adopt_table(ensemble, X)
    with explaining(f"evaluate the model on {data}"):
        threat = settle_threat(threat, ensemble, X)
    assert labels is not None
    return _Asked(ensemble, threat, X, read_target(labels, ensemble, data), X.index.to_numpy())


def _open(ensemble: TreeEnsemble, threat: ThreatModel, data: Path, target: str) -> _Asked:
    """Open a table as a stream."""
    refuse_measured(threat, data)
    if ensemble.classes is not None:
        say_error("note: there is neither a ceiling nor a ROC AUC, which take all rows at once")
    columns = ModelColumns(ensemble, data, target)
    tables = open_rows(data, ensemble.schema)
    with explaining(f"read {data}"), showing_progress("Looking at the columns...") as progress:
        run_beside(lambda: columns.look(tables.report_to(progress)))
    rows = stream_rows(tables, columns)
    adopted = adopt_table(ensemble, next(iter(rows)).X)

    def read() -> Iterator[Batch]:
        for batch in rows:
            yield batch._replace(y=read_target(batch.y, adopted, data))

    return _Asked(adopted, threat, make_stream(data, read, rows.count_rows()), None, columns.rows)


def _find_label(spelled: str | None, ensemble: TreeEnsemble) -> Any:
    """Return a class as the model spells it."""
    if spelled is None or ensemble.classes is None:
        return spelled
    return {str(label): label for label in ensemble.classes.tolist()}.get(spelled, spelled)


def _check_options(threat: Path | None, epsilon: float | None, curve: float | None) -> None:
    if threat is None and epsilon is None:
        raise typer.BadParameter("say what the attacker can do: --threat FILE or --epsilon NUMBER")
    if curve is not None and not math.isfinite(curve):
        raise typer.BadParameter(f"--curve must be a finite number, got {curve}")
    check_threat_options(threat, epsilon)


def _check_files(inputs: list[Path], output: Path | None, plot: Path | None) -> None:
    """Refuse files that cannot be read or written, before any work is done. The second input is the table."""
    if output is not None:
        check_table_name(output)
        check_output(output, inputs)
    if plot is not None:
        from hardwood.plot import check_can_draw

        check_output(plot, inputs)
        with explaining(f"draw {plot}"):
            check_can_draw(plot)
    check_inputs(inputs, data=inputs[1], folder=True)


def _save(report: RobustnessReport, rows: np.ndarray, output: Path | None, plot: Path | None, name: str) -> None:
    if output is not None:
        frame = report.to_frame()
        frame.insert(0, "row", rows + 1)
        write_table(frame, output)
        console.print(f"\nWhat is known of each row: {output}", markup=False, soft_wrap=True)
    if plot is not None:
        from hardwood.plot import save_robustness_curve

        draw = partial(save_robustness_curve, report, name=name)
        run_with_notice(lambda: write_file(plot, draw), "Drawing...")
        console.print(f"\nThe curve: {plot}", markup=False, soft_wrap=True)
