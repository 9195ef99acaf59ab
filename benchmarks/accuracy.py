"""How robust are trees of the same depth? Every method of the paper, and what refinement makes of them.

Two protocols (see accuracy_folds.py), fourteen tables each, five stratified folds, fold seeds 1 to 6: seed 1 gives the
folds of the paper. Adversarial accuracy is exact, on test rows; the constant and the ceiling of the same rows stand
beside. Every choice is made on training rows, and how often which was made is printed. Then tables of more than two
classes, and large ones (see accuracy_beyond.py; `--beyond` does only these). What is done is kept in
results/accuracy.json: the script goes on where it stopped, unless the code of hardwood has changed.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from accuracy_beyond import report_beyond
from accuracy_folds import METHODS, PROTOCOLS, Task, list_tables, load_task, plan_folds, plan_optimum, plan_times
from measure import RESULTS, print_table, verdict, write_csv
from paper.figures import plot_critical_differences, save_picture
from paper.pieces import Record, Results, do_pieces
from paper.published import read_published
from paper.ranks import compare_ranks, wilcoxon_p

PAPER_SEED = 1
SEEDS = (1, 2, 3, 4, 5, 6)
MEAN_BAR = {"raw": 0.785, "scaled": 0.728}
PAPER_BAR, CONSTANT_BAR = 11, -0.015  # tables at or above the paper's best; the worst difference to the constant
ALTERNATE_BAR, SEARCH_BAR = 10.0, 3.0  # times the plain fit; CPU seconds
PROVED_BAR, PROOF_SECONDS = 8, 60.0
RANKED = tuple(method for method in METHODS if method not in ("gated", "ceiling"))
JUDGED = ("alternate", "search", "gated")
TITLES = {"raw": "raw units, radius 0.1 (the paper's protocol)", "scaled": "scaled to [0, 1], a radius per table"}

Found = Mapping[tuple[str, int], Sequence[Record]]  # folds by table and seed


def list_scores(found: Found, table: str, method: str, seeds: Sequence[int]) -> np.ndarray:
    """Return the scores of a method on a table: one line per seed, one column per fold."""
    return np.array([[fold["scores"][method] for fold in found[table, seed]] for seed in seeds])


def average(found: Found, table: str, method: str, seeds: Sequence[int]) -> float:
    return float(list_scores(found, table, method, seeds).mean())


def print_scores(found: Found, tables: Sequence[str], seeds: Sequence[int], paper: Mapping[str, float]) -> None:
    """Print a line per table: means, and the standard error of a mean over the five folds of one seed."""
    lines = []
    for table in tables:
        cells = []
        for method in METHODS:
            scores = list_scores(found, table, method, seeds)
            error = np.sqrt((scores.var(axis=1, ddof=1) / scores.shape[1]).mean())
            cells.append(f"{scores.mean():.3f} ±{error:.3f}")
        lines.append([table, *([f"{paper[table]:.3f}"] if paper else []), *cells])
    means = [f"{np.mean([average(found, table, method, seeds) for table in tables]):.3f}       " for method in METHODS]
    lines.append(["mean", *([f"{np.mean([paper[table] for table in tables]):.3f}"] if paper else []), *means])
    print_table(["table", *(["paper's best"] if paper else []), *METHODS], lines)


def print_tests(found: Found, tables: Sequence[str], seeds: Sequence[int]) -> dict[str, list[float]]:
    """Print how likely the differences between methods are chance; return the scores that were ranked."""
    scores = {method: [average(found, table, method, seeds) for table in tables] for method in RANKED}
    gains = {method: np.subtract(scores[method], scores["GROOT"]).round(9) for method in RANKED}
    print("\nagainst GROOT over the tables: mean difference; tables better, equal, worse; Wilcoxon's p")
    for method in RANKED:
        if method != "GROOT":
            gain = gains[method]
            counts = f"{(gain > 0).sum():2d} {(gain == 0).sum():2d} {(gain < 0).sum():2d}"
            print(f"  {method:10s}  {gain.mean():+.4f}  {counts}  p = {wilcoxon_p(gain):.4f}")
    if len(tables) > 1:
        ranks = compare_ranks(scores)
        print(
            f"mean ranks over {ranks.n_tables} tables (Friedman's p = {ranks.friedman_p:.1g}; Nemenyi's critical "
            f"difference at 0.05: {ranks.critical_difference:.2f})"
        )
        print("  " + ", ".join(f"{name} {rank:.2f}" for name, rank in ranks.mean_ranks.items()))
        print("  not told apart by Wilcoxon's test with Holm's correction at 0.05:")
        print("  " + "; ".join(" - ".join(group) for group in ranks.groups))
    return scores


def print_choices(found: Found, tables: Sequence[str]) -> None:
    """Print what the search chose, from training rows, over all folds."""
    print("\nwhat the search chose on training rows: share of folds")
    lines = []
    for table in tables:
        choices = [fold["choice"] for (name, _), folds in found.items() if name == table for fold in folds]
        shares = [
            np.mean([choice["smoothing"] == "wider" for choice in choices]),
            np.mean([choice["start"] == "all rows" for choice in choices]),
            np.mean([choice["gate"] for choice in choices]),
        ]
        lines.append([table, *(f"{share:.2f}" for share in shares), f"{np.mean([c['leaves'] for c in choices]):.1f}"])
    print_table(["table", "smoothing wider", "start all rows", "gate: constant", "leaves"], lines)
    starts = Counter(fold["choice"]["start"] for folds in found.values() for fold in folds)
    print("starts: " + ", ".join(f"{start} {count}" for start, count in starts.most_common()))


def judge_scores(protocol: str, found: Found, tables: Sequence[str], seeds: Sequence[int], method: str) -> list[str]:
    """Say how a method stands to the bars of the search."""
    others = [seed for seed in seeds if seed != PAPER_SEED]
    verdicts = []
    for which in ([PAPER_SEED] if PAPER_SEED in seeds else [], others):
        if which:
            mean = float(np.mean([average(found, table, method, which) for table in tables]))
            what = f"{protocol}: {method}, mean of {len(tables)} tables, fold seeds {', '.join(map(str, which))}"
            verdicts.append(verdict(what, mean, MEAN_BAR[protocol], at_least=True))
    if protocol == "raw" and PAPER_SEED in seeds:
        verdicts.append(judge_paper(found, tables, method))
    if others:
        gaps = {t: average(found, t, method, others) - average(found, t, "constant", others) for t in tables}
        worst = min(gaps, key=lambda table: gaps[table])
        what = f"{protocol}: {method} less the constant where that is least ({worst}), mean of seeds"
        verdicts.append(verdict(what, gaps[worst], CONSTANT_BAR, at_least=True))
    return verdicts


def read_paper_best() -> dict[str, float]:
    """Return the best of the paper's four columns, by table."""
    return {name: max(mean for mean, _ in table.scores.values()) for name, table in read_published().items()}


def judge_paper(found: Found, tables: Sequence[str], method: str) -> str:
    """Count the tables on which a method is at or above the best of the paper's four columns, to its three digits."""
    best = read_paper_best()
    gains = np.array([round(average(found, t, method, [PAPER_SEED]), 3) - best[t] for t in tables]).round(3)
    wins, ties, losses = (gains > 0).sum(), (gains == 0).sum(), (gains < 0).sum()
    what = f"raw: {method} beside the best of the paper's four columns, {wins} wins, {ties} ties, {losses} losses"
    return verdict(f"{what}; tables at or above", float(wins + ties), PAPER_BAR, at_least=True)


def report_times(times: Mapping[tuple[str, str], Record]) -> list[str]:
    """Print what fits cost on whole tables, and say how they stand to their bars."""
    print("\nCPU of a fit on the whole table, one thread")
    lines = [
        [f"{protocol}: {table}", *(f"{1000 * t[key]:.2f}" for key in ("None", "alternate", "search"))]
        for (protocol, table), t in times.items()
    ]
    for line, t in zip(lines, times.values(), strict=True):
        line.append(f"{t['alternate'] / t['None']:.1f}")
    print_table(["table", "plain, ms", "alternate, ms", "search, ms", "alternate/plain"], lines)
    slowest = max(times, key=lambda key: times[key]["alternate"] / times[key]["None"])
    ratio = times[slowest]["alternate"] / times[slowest]["None"]
    longest = max(times, key=lambda key: times[key]["search"])
    return [
        verdict(f"alternate, times the plain fit where that is most ({': '.join(slowest)})", ratio, ALTERNATE_BAR),
        verdict(f"search, CPU s where it is most ({': '.join(longest)})", times[longest]["search"], SEARCH_BAR),
    ]


def report_optima(optima: Mapping[tuple[str, str], Record]) -> list[str]:
    """Print the best trees of depth 2 for whole tables, and say how many are proved."""
    print("\ntrees of depth 2, adversarial accuracy on the rows they were fitted to, the whole table")
    lines = [
        [f"{protocol}: {table}", *(f"{o[key]:.3f}" for key in ("None", "search", "optimum", "bound", "seconds"))]
        for (protocol, table), o in optima.items()
    ]
    print_table(["table", "GROOT", "search", "best found", "no tree exceeds", "CPU s"], lines)
    proved = {protocol: sum(o["proved"] for (p, _), o in optima.items() if p == protocol) for protocol, _ in optima}
    what = f"optimal trees of depth 2 proved within {PROOF_SECONDS:g} s each"
    return [
        verdict(f"{protocol}: {what}", float(count), PROVED_BAR, at_least=True) for protocol, count in proved.items()
    ]


def run_folds(tasks: Sequence[Task], seeds: Sequence[int], results: Results) -> dict[tuple[str, int], list[Record]]:
    """Do the folds of a protocol, one seed after another, and say where it stands."""
    found = {}
    for seed in seeds:
        for task in tasks:
            (record,) = do_pieces([plan_folds(task, seed)], results)
            found[task.table, seed] = record["folds"]
        means = {m: np.mean([average(found, task.table, m, [seed]) for task in tasks]) for m in METHODS}
        summary = ", ".join(f"{method} {mean:.3f}" for method, mean in means.items())
        print(f"{tasks[0].protocol}, seed {seed}: {summary}", file=sys.stderr, flush=True)
    return found


def load_tasks(protocol: str, tables: Sequence[str] | None) -> list[Task]:
    """Load the tables of a protocol; name those that cannot be had."""
    tasks = []
    for table in list_tables(protocol):
        if tables is None or table in tables:
            try:
                tasks.append(load_task(protocol, table))
            except (OSError, ValueError) as error:
                print(f"{table} is left out: {error}")
    return tasks


def report_protocol(protocol: str, found: Found, tables: Sequence[str], seeds: Sequence[int]) -> dict[str, list[float]]:
    """Print all tables of a protocol; return the scores that were ranked."""
    print(f"\n== {protocol}: {TITLES[protocol]} ==")
    others = [seed for seed in seeds if seed != PAPER_SEED]
    for which in ([PAPER_SEED] if PAPER_SEED in seeds else [], others):
        if which:
            is_paper = protocol == "raw" and which == [PAPER_SEED]
            print(f"\nadversarial accuracy, mean ± standard error over folds; fold seeds {', '.join(map(str, which))}")
            print_scores(found, tables, which, read_paper_best() if is_paper else {})
    scores = print_tests(found, tables, seeds)
    print_choices(found, tables)
    return scores


def list_lines(protocol: str, found: Found) -> list[Record]:
    """Return the lines of the CSV file: one per table, seed and fold."""
    return [
        {"protocol": protocol, "table": table, "seed": seed, "fold": k, **fold["scores"], **fold["choice"]}
        for (table, seed), folds in found.items()
        for k, fold in enumerate(folds, start=1)
    ]


def parse_arguments() -> argparse.Namespace:
    known = sorted({table for protocol in PROTOCOLS for table in list_tables(protocol)})
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--protocols", nargs="+", choices=PROTOCOLS, default=PROTOCOLS)
    parser.add_argument("--tables", nargs="+", choices=known, metavar="TABLE", help=", ".join(known))
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS, help="of the folds; 1 gives the paper's")
    parser.add_argument("--folds-only", action="store_true", help="no times and no optimal trees")
    parser.add_argument("--beyond", action="store_true", help="only tables of more classes, and large ones")
    parser.add_argument("--figure", type=Path, default=RESULTS / "accuracy.png", help="the diagram of ranks")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    results = Results(RESULTS / "accuracy.json")
    RESULTS.mkdir(parents=True, exist_ok=True)
    others = [seed for seed in arguments.seeds if seed != PAPER_SEED] or list(arguments.seeds)
    if arguments.beyond:
        print("\n" + "\n".join(report_beyond(results, others, times=not arguments.folds_only)))
        return
    tasks = {protocol: load_tasks(protocol, arguments.tables) for protocol in arguments.protocols}
    tasks = {protocol: loaded for protocol, loaded in tasks.items() if loaded}
    found = {protocol: run_folds(loaded, arguments.seeds, results) for protocol, loaded in tasks.items()}
    lines: list[Record] = []
    verdicts: list[str] = []
    panels: dict[str, Any] = {}
    for protocol, folds in found.items():
        tables = [task.table for task in tasks[protocol]]
        panels[TITLES[protocol]] = report_protocol(protocol, folds, tables, arguments.seeds)
        for method in JUDGED:
            verdicts += judge_scores(protocol, folds, tables, arguments.seeds, method)
        lines += list_lines(protocol, folds)
    if not arguments.folds_only:
        pairs = [(protocol, task) for protocol, loaded in tasks.items() for task in loaded]
        times = {(p, task.table): do_pieces([plan_times(task)], results)[0] for p, task in pairs}
        optima = {(p, task.table): do_pieces([plan_optimum(task, PROOF_SECONDS)], results)[0] for p, task in pairs}
        verdicts += [*report_times(times), *report_optima(optima)]
    verdicts += report_beyond(results, others, times=not arguments.folds_only)
    print("\n" + "\n".join(verdicts))
    write_csv(RESULTS / "accuracy.csv", lines)
    if all(len(loaded) > 1 for loaded in tasks.values()):
        save_picture(plot_critical_differences(panels), arguments.figure)
        print(f"wrote {arguments.figure}")


if __name__ == "__main__":
    main()
