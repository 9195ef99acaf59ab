"""Compare TreantClassifier with the TREANT inside groot-trees, and with the GROOT paper's TREANT column.

The paper's protocol: raw units, epsilon 0.1 for both classes and every feature, depth 4, five stratified folds. The
radius is written as the paper wrote it for TREANT: two rules of cost 1 per feature, each feature once, and a budget
that is the depth of the tree. The original takes minutes per fold on the larger of its three tables.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from hardwood import TreantClassifier, adversarial_accuracy, load_dataset
from measure import RESULTS, make_table, print_table, verdict, write_csv
from paper.methods import radius_as_rules
from paper.published import DEPTH, EPSILON
from paper_protocol import read_paper_table
from peers import read_treant, treant_tree

SIDE_BY_SIDE = ("haberman", "blood-transfusion", "planning-relax")
RATIO_BAR, DIFFERENCE_BAR, MEAN_BAR, SPAMBASE_BAR = 100.0, -0.01, -0.02, 300.0

Record = dict[str, Any]


def read_folds(table: str) -> Iterator[tuple[np.ndarray, ...]]:
    """Yield the training and test parts of the paper's folds."""
    data = load_dataset(table)
    X, y = np.asarray(data.data, dtype=np.float64), np.asarray(data.target)
    for train, test in StratifiedKFold(5, shuffle=True, random_state=1).split(X, y):
        yield X[train], y[train], X[test], y[test]


def fit_ours(X: np.ndarray, y: np.ndarray, options: Record, repeats: int) -> tuple[TreantClassifier, float]:
    """Fit, and return the least CPU time of several fits."""
    seconds = []
    for _ in range(repeats):
        model = TreantClassifier(radius_as_rules(X.shape[1], DEPTH), max_depth=DEPTH, n_jobs=1, **options)
        start = time.process_time()
        model.fit(X, y)
        seconds.append(time.process_time() - start)
    return model, min(seconds)


def compare(table: str, folds: int) -> Record:
    """Fit both on the same folds, with the same rules."""
    figures: dict[str, list[float]] = {key: [] for key in ("theirs", "ours", "theirs_seconds", "ours_seconds")}
    for X, y, X_test, y_test in list(read_folds(table))[:folds]:
        model, seconds = fit_ours(X, y, {}, repeats=3)
        figures["ours_seconds"].append(seconds)
        figures["ours"].append(adversarial_accuracy(model, X_test, y_test, EPSILON))
        peer = treant_tree(EPSILON, DEPTH, X.shape[1])
        start = time.process_time()
        peer.fit(X, y, numerical_idx=[True] * X.shape[1])
        figures["theirs_seconds"].append(time.process_time() - start)
        tree = read_treant(peer, X.shape[1], np.unique(y))
        figures["theirs"].append(adversarial_accuracy(tree, X_test, y_test, EPSILON))
    record: Record = {"table": table, "folds": len(figures["ours"])}
    record |= {key: float(np.mean(values)) for key, values in figures.items()}
    record["ratio"] = record["theirs_seconds"] / record["ours_seconds"]
    return record


def run_protocol(table: str, paper: float, options: Record) -> Record:
    """Run the paper's protocol on one table."""
    adversarial, accuracy, seconds = [], [], []
    for X, y, X_test, y_test in read_folds(table):
        model, cpu = fit_ours(X, y, options, repeats=1)
        adversarial.append(adversarial_accuracy(model, X_test, y_test, EPSILON))
        accuracy.append(model.score(X_test, y_test))
        seconds.append(cpu)
    means = {"accuracy": np.mean(accuracy), "adversarial": np.mean(adversarial), "fit_seconds": np.mean(seconds)}
    return {"table": table, **means, "paper": paper, "difference": means["adversarial"] - paper}


def print_protocol(records: Sequence[Record]) -> None:
    """Print a line per table and the means."""
    keys = ("accuracy", "adversarial", "paper", "difference", "fit_seconds")
    means = {"table": "mean", **{key: np.mean([r[key] for r in records]) for key in keys}}
    lines = [
        [
            r["table"],
            *(f"{r[key]:.3f}" for key in keys[:3]),
            f"{r['difference']:+.3f}",
            f"{1000 * r['fit_seconds']:.1f}",
        ]
        for r in (*records, means)
    ]
    print_table(["table", "accuracy", "adversarial", "paper TREANT", "difference", "fit ms"], lines)


def print_comparison(records: Sequence[Record]) -> None:
    """Print a line per table that both were fitted on."""
    lines = [
        [
            *(r["table"], str(r["folds"]), f"{r['ours']:.3f}", f"{r['theirs']:.3f}"),
            *(f"{1000 * r['ours_seconds']:.1f}", f"{1000 * r['theirs_seconds']:.0f}", f"{r['ratio']:.0f}"),
        ]
        for r in records
    ]
    print_table(["table", "folds", "hardwood", "groot-trees", "fit ms", "groot-trees", "times faster"], lines)


def parse_arguments(known: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", choices=known, default=known, metavar="TABLE", help=", ".join(known))
    parser.add_argument("--folds", type=int, default=5, help="folds on which groot-trees is fitted too; 0 for none")
    parser.add_argument("--loss", choices=("squared", "log"), default="squared")
    parser.add_argument("--thresholds", choices=("values", "midway"), default="values")
    return parser.parse_args()


def main() -> None:
    paper = read_paper_table()
    arguments = parse_arguments(list(paper))
    options = {"loss": arguments.loss, "thresholds": arguments.thresholds}
    # This compiles, before any clock runs.
    fit_ours(*make_table("smooth", rows=200, features=3, seed=0), options, repeats=1)
    records = []
    for table in arguments.tables:
        try:
            records.append(run_protocol(table, paper[table]["treant"], options))
        except (OSError, ValueError) as error:
            print(f"{table} is left out: {error}")
    if not records:
        return
    print_protocol(records)
    write_csv(RESULTS / "treant_protocol.csv", records)
    print()
    difference = float(np.mean([r["difference"] for r in records]))
    what = f"mean adversarial accuracy over {len(records)} of {len(paper)} tables, less the paper's"
    print(verdict(what, difference, MEAN_BAR, at_least=True))
    for record in records:
        if record["table"] == "spambase":
            print(verdict("CPU seconds to fit spambase", record["fit_seconds"], SPAMBASE_BAR))
    if arguments.folds == 0:
        return
    try:
        print()
        tables = [table for table in SIDE_BY_SIDE if table in {r["table"] for r in records}]
        side_by_side = [compare(table, arguments.folds) for table in tables]
    except ImportError as error:
        print(f"groot-trees is left out: {error}")
        return
    if side_by_side:
        print_comparison(side_by_side)
        write_csv(RESULTS / "treant_comparison.csv", side_by_side)
        print()
    for record in side_by_side:
        print(verdict(f"times faster on {record['table']}", record["ratio"], RATIO_BAR, at_least=True))
        less = record["ours"] - record["theirs"]
        what = f"adversarial accuracy on {record['table']}, less that of groot-trees"
        print(verdict(what, less, DIFFERENCE_BAR, at_least=True))


if __name__ == "__main__":
    main()
