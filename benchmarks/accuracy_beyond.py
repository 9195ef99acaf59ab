"""Refinement beyond the paper's tables: more than two classes, and tables with tens of thousands of rows.

Tables of classes are scikit-learn's, features scaled to [0, 1], radius 0.1, depth 4, five folds, several ways to split.
The large tables are made: 17,000 rows of 14 columns, three of them categorical, one of which the attacker changes, and
100,000 rows of ten numbers; depth 6, CPU seconds of one fit on one thread.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import minmax_scale

from hardwood import RobustTreeClassifier, adversarial_accuracy
from measure import print_table, verdict
from paper.pieces import Piece, Record, Results, describe_table, do_pieces

LOADERS = {"iris": load_iris, "wine": load_wine, "digits": load_digits}
RADIUS, DEPTH, FOLDS = 0.1, 4, 5
LARGE_DEPTH = 6
LARGE_BARS = {"17,000 x 14, three categorical": 6.0, "100,000 x 10": 40.0}
REFINEMENTS = (None, "alternate", "search")


def plan_classes(table: str, seeds: Sequence[int]) -> Piece:
    """Return the piece of work that scores refined trees on one table of several classes."""
    X, y = LOADERS[table](return_X_y=True)
    X = minmax_scale(X)

    def work() -> Record:
        scores: dict[str, list[float]] = {str(refine): [] for refine in REFINEMENTS}
        for seed in seeds:
            for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(X, y):
                for refine in REFINEMENTS:
                    tree = RobustTreeClassifier(RADIUS, max_depth=DEPTH, refine=refine, random_state=0, n_jobs=1)
                    tree.fit(X[train], y[train])
                    scores[str(refine)].append(adversarial_accuracy(tree, X[test], y[test], RADIUS))
        return {name: float(np.mean(values)) for name, values in scores.items()}

    settings = f"{RADIUS} {DEPTH} {FOLDS} {list(seeds)} {describe_table(X, y)}"
    return Piece(f"classes/{table}", settings, work, cells=X.size)


def make_mixed(n_rows: int) -> tuple[pd.DataFrame, np.ndarray, dict[str, Any]]:
    """Return a table of numbers and categories, its classes, and what an attacker may do to it."""
    generator = np.random.default_rng(0)
    columns: dict[str, Any] = {f"x{j}": generator.normal(size=n_rows).round(1 + j % 3) for j in range(9)}
    columns["count"] = generator.integers(0, 50, n_rows).astype(float)
    columns["amount"] = generator.lognormal(3, 1, n_rows).round(2)
    codes = [generator.integers(0, size, n_rows) for size in (4, 8, 20)]
    score = columns["x0"] + 0.5 * columns["x1"] * columns["x2"] + 0.02 * columns["count"] + 0.8 * (codes[0] == 1)
    score += 0.5 * (codes[1] % 3 == 0) + (codes[2] % 4 == 0) * columns["x3"] + 0.7 * generator.normal(size=n_rows)
    for name, code in zip(("a", "b", "c"), codes, strict=True):
        columns[name] = pd.Categorical.from_codes(code, [f"{name}{k}" for k in range(code.max() + 1)])
    threat = {f"x{j}": 0.1 for j in range(6)} | {"amount": "10%", "count": 1, "c": {"c1": ["c2", "c3"], "c5": ["c6"]}}
    return pd.DataFrame(columns), (score > 0.8).astype(int), threat


def make_numbers(n_rows: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return a table of ten numbers, half of them rounded, its classes, and how far they are moved."""
    generator = np.random.default_rng(1)
    X = generator.normal(size=(n_rows, 10))
    X[:, 5:] = X[:, 5:].round(2)
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * X[:, 6] + 0.7 * generator.normal(size=n_rows)
    return X, (score > 0.3).astype(int), 0.1


def plan_large(table: str) -> Piece:
    """Return the piece of work that times fits to a large table."""

    def work() -> Record:
        X, y, threat = make_mixed(17_000) if table.startswith("17") else make_numbers(100_000)
        record: Record = {}
        for refine in REFINEMENTS:
            tree = RobustTreeClassifier(threat, max_depth=LARGE_DEPTH, refine=refine, random_state=0, n_jobs=1)
            tree.fit(X[:300], y[:300])  # compiles, or loads what is compiled
            begin = time.process_time()
            tree.fit(X, y)
            record[f"{refine} seconds"] = time.process_time() - begin
            record[f"{refine} kept"] = adversarial_accuracy(tree, X, y, threat)
        return record

    return Piece(f"large/{table}", str(LARGE_DEPTH), work, is_alone=True)


def report_beyond(results: Results, seeds: Sequence[int], *, times: bool) -> list[str]:
    """Print adversarial accuracies of trees of several classes, and what large tables cost; return verdicts."""
    names = [str(refine) for refine in REFINEMENTS]
    scores = {table: do_pieces([plan_classes(table, seeds)], results)[0] for table in LOADERS}
    print(f"\n== more than two classes: scaled to [0, 1], radius {RADIUS:g}, depth {DEPTH} ==")
    print(f"adversarial accuracy, mean of {FOLDS} folds; fold seeds {', '.join(map(str, seeds))}")
    print_table(
        ["table", "GROOT", *names[1:]],
        [[table, *(f"{score[name]:.3f}" for name in names)] for table, score in scores.items()],
    )
    verdicts = [
        verdict(f"search less GROOT on {table}", score["search"] - score["None"], 0.0, at_least=True)
        for table, score in scores.items()
    ]
    if times:
        verdicts += report_large({table: do_pieces([plan_large(table)], results)[0] for table in LARGE_BARS})
    return verdicts


def report_large(records: Mapping[str, Record]) -> list[str]:
    """Print what fits to large tables cost, and what is kept of their rows under attack."""
    names = [str(refine) for refine in REFINEMENTS]
    print(f"\n== large tables: CPU seconds of a fit of depth {LARGE_DEPTH}, one thread; rows kept under attack ==")
    lines = [
        [table, *(f"{record[f'{name} seconds']:.2f} s, {record[f'{name} kept']:.3f}" for name in names)]
        for table, record in records.items()
    ]
    print_table(["table", "GROOT", *names[1:]], lines)
    return [
        verdict(f"search, CPU s on {table}", record["search seconds"], LARGE_BARS[table])
        for table, record in records.items()
    ]
