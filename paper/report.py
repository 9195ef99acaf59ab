"""The outcome on disk: CSV files, figures, and one page that holds it all."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hardwood.plot import plot_threat_models
from paper.black_box import ASKING, list_susceptibilities, weigh_attackers
from paper.comparison import explain_difference, mean_scores
from paper.experiment import LearnerScore, Outcome
from paper.figures import (
    plot_adversarial_gini,
    plot_average_scores,
    plot_black_box,
    plot_concavity,
    plot_critical_differences,
    plot_rho,
    plot_run_times,
    save_picture,
)
from paper.figures.style import new_figure
from paper.files import write_whole
from paper.hardening import list_hardening
from paper.methods import EXACT_HARDENING, GREEDY, L0_HARDENING, REFINED
from paper.page import write_page
from paper.pieces import Record

PAGE = "index.html"
_FORMATS = ("png", "svg")


def write_report(outcome: Outcome, folder: Path) -> Path:
    """Write an outcome as CSV files, figures and a page, and return the path of the page.

    Parameters
    ----------
    outcome : Outcome
        What :meth:`Experiment.run` returned.
    folder : path
        Where to write; it must exist.

    Examples
    --------
    >>> from paper.experiment import Experiment
    >>> from paper.report import write_report
    >>> write_report(Experiment(folder).run(), folder)  # doctest: +SKIP
    """
    for name, records in list_records(outcome).items():
        if records:
            write_whole(folder / f"{name}.csv", partial(_fill_csv, records=records))
    figures = list_figures(outcome)
    for name, draw in figures.items():
        figure = draw()
        for suffix in _FORMATS:
            write_whole(folder / f"{name}.{suffix}", partial(save_picture, figure))
    pictures = {name: (folder / f"{name}.svg").read_bytes() for name in figures}
    page = folder / PAGE
    text = write_page(outcome, pictures)
    write_whole(page, lambda draft: draft.write_text(text, encoding="utf-8"))
    return page


def list_records(outcome: Outcome) -> dict[str, list[Record]]:
    """Return the lines of each CSV file, by its name."""
    return {
        "scores": [
            {
                "table": table.name,
                "method": method.key,
                "accuracy": score.accuracy.mean,
                "accuracy_std": score.accuracy.deviation,
                "adversarial_accuracy": score.adversarial.mean,
                "adversarial_accuracy_std": score.adversarial.deviation,
                "published": score.published.mean,
                "published_std": score.published.deviation,
                "difference": score.difference,
                "fit_seconds": score.fit_seconds,
                "authors_code_least": "" if score.authors_code is None else score.authors_code[0],
                "authors_code_greatest": "" if score.authors_code is None else score.authors_code[1],
                "reason": explain_difference(outcome, table.name, method) or "",
            }
            for table in outcome.tables
            for method in outcome.methods
            for score in [outcome.scores[table.name, method.key]]
        ],
        "refined": [
            {
                "table": table.name,
                "method": learner.key,
                "accuracy": score.accuracy.mean,
                "accuracy_std": score.accuracy.deviation,
                "adversarial_accuracy": score.adversarial.mean,
                "adversarial_accuracy_std": score.adversarial.deviation,
                "constant": table.constant_accuracy,
                "ceiling": outcome.ceilings[table.name],
                "fit_seconds": score.fit_seconds,
            }
            for table in outcome.tables
            for learner in REFINED
            for score in [outcome.refined[table.name, learner.key]]
        ],
        "folds": [
            {"table": table, "method": method, "fold": fold, **record}
            for (table, method), score in [*outcome.scores.items(), *outcome.refined.items()]
            for fold, record in enumerate(score.folds, start=1)
        ],
        "growth": outcome.growth,
        "rho": outcome.rho,
        "transfer": outcome.transfer,
        "black_box": list_susceptibilities(outcome.black_box),
        "hardening": list_hardening(outcome.hardening),
        "column_orders": [
            {"table": table, "method": method, "order": order, "adversarial_accuracy": value}
            for (table, method), values in outcome.column_orders.items()
            for order, value in enumerate(values, start=1)
        ],
    }


def list_figures(outcome: Outcome) -> dict[str, Callable[[], Any]]:
    """Return the figures, by the names of their files."""
    figures: dict[str, Callable[[], Any]] = {
        "average_scores": partial(_draw_average_scores, outcome),
        "run_times": partial(_draw_run_times, outcome),
        "threat_models": lambda: plot_threat_models(new_figure((9.0, 7.8))),
        "adversarial_gini": plot_adversarial_gini,
        "concavity": plot_concavity,
    }
    if len(outcome.tables) > 1:
        figures["critical_differences"] = partial(_draw_ranks, outcome)
    curves: dict[str, Any] = {}
    for record in outcome.rho:
        rho, accuracy, adversarial = curves.setdefault(record["table"], ([], [], []))
        rho.append(record["rho"])
        accuracy.append(record["accuracy"])
        adversarial.append(record["adversarial_accuracy"])
    if curves:
        figures["rho"] = partial(plot_rho, curves)
    if any(name in ASKING for _, (name, _) in outcome.black_box):
        figures["black_box"] = partial(_draw_black_box, outcome)
    return figures


def _draw_average_scores(outcome: Outcome) -> Any:
    columns = [[outcome.scores[table.name, method.key] for table in outcome.tables] for method in outcome.methods]
    return plot_average_scores(
        [method.title for method in outcome.methods],
        [float(np.mean([score.accuracy.mean for score in column])) for column in columns],
        [float(np.mean([score.adversarial.mean for score in column])) for column in columns],
        [mean_scores(outcome, method)[1] for method in outcome.methods],
        len(outcome.tables),
    )


def _draw_ranks(outcome: Outcome) -> Any:
    scores = {"constant": [table.constant_accuracy for table in outcome.tables]}
    found: dict[tuple[str, str], LearnerScore] = {**outcome.scores, **outcome.refined}
    for learner in (*outcome.methods, *REFINED):
        scores[learner.title] = [found[table.name, learner.key].adversarial.mean for table in outcome.tables]
    return plot_critical_differences({f"{len(outcome.tables)} tables": scores})


def _draw_run_times(outcome: Outcome) -> Any:
    rows = [len(table.y) for table in outcome.tables]
    on_tables = {
        method.title: (rows, [outcome.scores[table.name, method.key].fit_seconds for table in outcome.tables])
        for method in outcome.methods
    }
    growing = {}
    for learner in (*outcome.methods, GREEDY, EXACT_HARDENING, L0_HARDENING):
        records = [r for r in outcome.growth if r["method"] == learner.key and r["varies"] == "rows"]
        if records:
            growing[learner.title] = ([r["rows"] for r in records], [r["fit_seconds"] for r in records])
    return plot_run_times(on_tables, growing)


def _draw_black_box(outcome: Outcome) -> Any:
    weighed = weigh_attackers(outcome.black_box)
    titles = {method.key: method.title for method in outcome.methods}
    asking: dict[str, dict[str, Any]] = {}
    for (name, queries), models in weighed.items():
        for key, figures in models.items() if name in ASKING else ():
            series = asking.setdefault(ASKING[name], {}).setdefault(titles[key], ([], [], []))
            for values, value in zip(series, (queries, figures.accuracy, figures.ratio), strict=True):
                values.append(value)
    surrogate = {titles[key]: (f.accuracy, f.ratio) for key, f in weighed["transfer", None].items()}
    exact = {titles[key]: figures.accuracy for key, figures in weighed["exact", None].items()}
    return plot_black_box(asking, exact, {"surrogate": surrogate})


def _fill_csv(path: Path, records: Sequence[Mapping[str, object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(records[0]))
        writer.writeheader()
        writer.writerows(records)
