"""Decide and attack tree ensembles, row by row, beside Veritas and a mixed-integer solver.

One process, one thread, CPU time of every single row: median and 95th percentile. The verifiers take turns; a row that
is answered at once is asked again, and the least time counts. Every witness is predicted again by the model's own
library, and where answers differ the witnesses say who is wrong.
"""

import argparse
import itertools
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from hardwood import as_ensemble, attack, verify
from measure import RESULTS, fastest_cpu_seconds, write_csv
from verifiers import MILP, OURS, Answer, Hardwood, Solver, Verifier, Veritas
from verify_report import Record, print_line, print_report, summarise
from verify_tasks import RADIUS, RECIPES, TABLES, Task, list_tasks, load, rows_to_ask

# Answers within this time are timed again, up to REPEATS times in all.
QUICK_SECONDS = 0.05
REPEATS = 5
# What the bracket of Veritas can be off by: its examples keep 1e-4 away from thresholds, and its box is half open.
BRACKET_SLACK = 2e-4


def ask(
    task: Task, X: NDArray[np.float64], labels: Sequence[int], asked: Sequence[tuple[Verifier, Sequence[int]]]
) -> list[dict[str, tuple[Answer, float]]]:
    """Ask every verifier about its rows: for each row the answers, and the least CPU seconds of several turns.

    A turn goes through all rows, one call for each, before the next verifier has one: as in use, caches are warm.
    """
    said: list[dict[str, tuple[Answer, float]]] = [{} for _ in labels]
    for _ in range(REPEATS):
        for verifier, rows in asked:
            for i in rows:
                least = said[i][verifier.name][1] if verifier.name in said[i] else np.inf
                if QUICK_SECONDS < least < np.inf:
                    continue
                start = time.process_time()
                if task.epsilon is None:
                    answer = verifier.distance(X[i], labels[i])
                else:
                    answer = verifier.decide(X[i], labels[i], task.epsilon)
                said[i][verifier.name] = (answer, min(least, time.process_time() - start))
    return said


def flips(task: Task, model: Any, row: NDArray[np.float64], label: int, answer: Answer) -> bool:
    """Say whether a witness is within reach and has another class, by the model's own library."""
    if answer.witness is None:
        return False
    # Brackets are searched in a box that is a little larger than asked for.
    radius = RADIUS + 1e-3 if task.epsilon is None else task.epsilon
    low, high = row - radius, row + radius
    if task.recipe.single:  # the model sees float32, so the ends are rounded as it rounds them
        low, high = low.astype(np.float32), high.astype(np.float32)
    inside = bool(np.all((low <= answer.witness) & (answer.witness <= high)))
    return inside and bool(model.predict(answer.witness[None])[0] != label)


def judge_decisions(answers: dict[str, Answer], flipped: dict[str, bool]) -> dict[str, str]:
    """Name what is wrong with answers; a witness that flips outweighs any claim."""
    wrong = {}
    for name, answer in answers.items():
        if answer.status == "robust" and any(flipped.values()):
            wrong[name] = "says robust, a witness flips"
        elif answer.status == "vulnerable" and not any(flipped.values()):
            wrong[name] = "says vulnerable, no witness flips"
    return wrong


def judge_distances(row: NDArray[np.float64], answers: dict[str, Answer], flipped: dict[str, bool]) -> dict[str, str]:
    """Name what is wrong with distances; the nearest witness that flips outweighs any claim."""
    distances = {name: np.abs(a.witness - row).max() for name, a in answers.items() if a.witness is not None}
    nearest = min((distance for name, distance in distances.items() if flipped[name]), default=np.inf)
    ours = answers[OURS]
    wrong = {}
    for name, answer in answers.items():
        slack = BRACKET_SLACK if answer.status == "bracket" else 1e-6
        if answer.lower > nearest + slack:
            wrong[name] = f"says at least {answer.lower:.6g}, a witness flips at {nearest:.6g}"
        elif ours.status == "exact" and answer.upper < ours.lower - slack:
            wrong[name] = f"says at most {answer.upper:.6g}, the nearest that flips is at {nearest:.6g}"
    return wrong


def judge(task: Task, row: NDArray[np.float64], answers: dict[str, Answer], flipped: dict[str, bool]) -> dict[str, str]:
    """Name what is wrong with answers to the task's question."""
    return judge_decisions(answers, flipped) if task.epsilon is not None else judge_distances(row, answers, flipped)


def rows_for_solver(
    task: Task, ensemble: Any, X: NDArray[np.float64], y: NDArray[np.int64], arguments: argparse.Namespace
) -> list[int]:
    """Return the first rows that the solver is really needed for: those that a sum of leaves does not settle."""
    if "milp" not in arguments.beside or task.recipe.hard:
        return []
    rows = np.arange(len(X))
    if task.epsilon is not None:
        rows = np.flatnonzero(verify(ensemble, X, y, task.epsilon, method="milp", time_limit=0).status == "unknown")
    kept: list[int] = rows[: arguments.milp_rows].tolist()
    return kept


def run(task: Task, model: Any, ensemble: Any, arguments: argparse.Namespace) -> list[Record]:
    """Ask all verifiers about the rows of one task; one record per row and verifier."""
    X, y = rows_to_ask(load(task.table), model, arguments.hard_rows if task.recipe.hard else arguments.rows)
    verifiers: list[Verifier] = [Hardwood(ensemble, arguments.time_limit)]
    if "veritas" in arguments.beside:
        verifiers.append(Veritas(model, arguments.time_limit, single=task.recipe.single))
    solver = Solver(ensemble, arguments.milp_limit)
    for_solver = rows_for_solver(task, ensemble, X, y, arguments)
    asked: list[tuple[Verifier, Sequence[int]]] = [(verifier, range(len(X))) for verifier in verifiers]
    everything = ask(task, X, y.tolist(), [*asked, (solver, for_solver)])
    records = []
    for i, (row, label, said) in enumerate(zip(X, y.tolist(), everything, strict=True)):
        answers = {name: answer for name, (answer, _) in said.items()}
        flipped = {name: flips(task, model, row, label, answer) for name, answer in answers.items()}
        wrong = judge(task, row, answers, flipped)
        for name in wrong:
            if task.epsilon is None and "milp" in arguments.beside:
                wrong[name] += f"; the solver says {solver.decide(row, label, answers[name].upper).status} there"
        for name, (answer, seconds) in said.items():
            records.append(
                {
                    "table": task.table,
                    "model": task.recipe.name,
                    "question": task.question,
                    "row": i,
                    "verifier": name,
                    "status": answer.status,
                    "lower": answer.lower,
                    "upper": answer.upper,
                    "milliseconds": 1e3 * seconds,
                    "wrong": wrong.get(name, ""),
                    "witness_fails": answer.witness is not None and not flipped[name],
                }
            )
    return records


def time_calls(task: Task, model: Any, ensemble: Any, arguments: argparse.Namespace) -> dict[str, float]:
    """Return hardwood's CPU milliseconds: per row, with all rows in one call (`batch`); of a public call with one row
    and nothing to search (`call`); and of the same question asked as rows are (`empty`): the least that one can take.
    """
    X, y = rows_to_ask(load(task.table), model, arguments.hard_rows if task.recipe.hard else arguments.rows)
    question = attack if task.epsilon is None else verify
    epsilon = RADIUS if task.epsilon is None else task.epsilon
    seconds = fastest_cpu_seconds(
        {
            "rows": lambda: question(ensemble, X, y, epsilon, time_limit=arguments.time_limit),
            "call": lambda: question(ensemble, X[:1], y[:1], 0.0),
        },
        repeats=1 if task.recipe.hard else 3,
    )
    ours = Hardwood(ensemble, arguments.time_limit)
    nothing = ask(replace(task, epsilon=0.0), X, y.tolist(), [(ours, range(len(X)))])
    empty = np.median([said[OURS][1] for said in nothing])
    return {"batch": 1e3 * seconds["rows"] / len(X), "call": 1e3 * seconds["call"], "empty": 1e3 * float(empty)}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help=f"words that a task must have, e.g. 'wine 100x6 decide'; of {', '.join(TABLES)}")
    parser.add_argument("--rows", type=int, default=50)
    parser.add_argument("--hard-rows", type=int, default=20, help="for models of which a row can take seconds")
    parser.add_argument("--milp-rows", type=int, default=20)
    parser.add_argument("--time-limit", type=float, default=10.0, help="seconds per row; more on a busy machine")
    parser.add_argument("--milp-limit", type=float, default=30.0)
    parser.add_argument("--beside", nargs="*", choices=["veritas", "milp"], default=["veritas", "milp"])
    parser.add_argument("--quick", action="store_true", help="diabetes and wine, small models, ten rows")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rows = min(arguments.rows, 10)
    for name, package in (("veritas", "veritas"), (MILP, "highspy")):
        try:
            __import__(package)
        except ImportError as error:
            print(f"{name} is left out: {error}")
            arguments.beside = [other for other in arguments.beside if other != name]
    return arguments


def main() -> None:
    arguments = parse_arguments()
    records: list[Record] = []
    lines: list[Record] = []
    tasks = list_tasks(arguments.only, arguments.quick)
    for (table, name), group in itertools.groupby(tasks, key=lambda task: (task.table, task.recipe.name)):
        data = load(table)
        recipe = next(recipe for recipe in RECIPES if recipe.name == name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = recipe.make().fit(data.X_train, data.y_train)
            ensemble = as_ensemble(model)
            for question in (verify, attack):
                question(ensemble, data.X_test[:1], None, 0.01)  # compiles, before any clock runs
            for task in group:
                of_task = run(task, model, ensemble, arguments)
                lines.append(summarise(of_task, time_calls(task, model, ensemble, arguments)))
                print_line(lines[-1], first=len(lines) == 1)
                records += of_task
    print_report(lines, records)
    write_csv(RESULTS / "verify.csv", lines)
    write_csv(RESULTS / "verify_rows.csv", records)


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
