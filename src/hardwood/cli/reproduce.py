"""`hardwood reproduce`: the paper's experiments, on one page beside its figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from hardwood.cli.messages import LOADING, console, explaining, run_with_notice, say_error, showing_progress
from hardwood.cli.tables import check_output

if TYPE_CHECKING:
    from hardwood.reproduction.experiment import Outcome


def reproduce(
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where to write the page, the figures and the numbers.")
    ] = Path("reproduction"),
    quick: Annotated[bool, typer.Option("--quick", help="Bundled tables and small studies only.")] = False,
    table: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A table of the paper, or several; by default all."),
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", help="Folds at a time; -1 for all cores.")] = -1,
) -> None:
    """Run the experiments of the GROOT paper again, beside its published figures.

    Cross-validates natural trees, Chen et al., GROOT and TREANT on the paper's tables, and refined trees beside them,
    measures how fast they are, draws the figures, and writes it all on one page. What is done is kept: after Ctrl-C the
    same command goes on where it stopped.

    **Example:** hardwood reproduce --quick --output reproduction
    """
    from hardwood.plot import check_can_draw
    from hardwood.reproduction.experiment import RESULTS, Experiment
    from hardwood.reproduction.report import PAGE, write_report
    from hardwood.threads import count_threads

    with explaining(f"make the folder {output}"):
        output.mkdir(parents=True, exist_ok=True)
    for name in (PAGE, RESULTS):
        check_output(output / name, [])
    with explaining("draw figures"):
        check_can_draw(output / "figure.svg")
    with explaining("reproduce the paper"):
        experiment = Experiment(output, table or None, quick, count_threads(jobs))
        run_with_notice(experiment.compile_kernels, LOADING)
        try:
            with showing_progress("Measuring...") as progress:
                outcome = experiment.run(progress)
        except KeyboardInterrupt:
            say_error(f"interrupted: what is done is kept in {output}, and the same command goes on from there")
            raise typer.Exit(130) from None
    with explaining(f"write to {output}"):
        page = run_with_notice(lambda: write_report(outcome, output), "Drawing...")
    _print_summary(outcome)
    console.print(f"\nThe page: {page}", markup=False, soft_wrap=True)


def _print_summary(outcome: Outcome) -> None:
    from hardwood.reproduction.comparison import conclude_refinement, judge, mean_refined, mean_scores, signed
    from hardwood.reproduction.methods import REFINED

    table = Table("", box=None, pad_edge=False, padding=(0, 2))
    for heading in ("adversarial accuracy", "in the paper", "difference"):
        table.add_column(heading, justify="right")
    for method in outcome.methods:
        ours, published = mean_scores(outcome, method)
        table.add_row(method.title, f"{ours:.3f}", f"{published:.3f}", signed(ours - published))
    constant = sum(t.constant_accuracy for t in outcome.tables) / len(outcome.tables)
    ceiling = sum(outcome.ceilings.values()) / len(outcome.ceilings)
    beside = {learner.title: mean_refined(outcome, learner) for learner in REFINED}
    for name, mean in ({"Constant": constant} | beside | {"Ceiling, any classifier": ceiling}).items():
        table.add_row(name, f"{mean:.3f}", "", "")
    console.print(f"Means over {len(outcome.tables)} tables", markup=False)
    console.print(table)
    for verdict in judge(outcome):
        console.print(f"{'ok  ' if verdict.holds else 'MISS'}  {verdict.sentence}", markup=False, soft_wrap=True)
    console.print(f"      {conclude_refinement(outcome)}", markup=False, soft_wrap=True)
    for name, reason in outcome.skipped.items():
        console.print(f"left out: {name}: {reason}", markup=False, soft_wrap=True)
