"""Nearest examples in every norm: how many distances are exact within a time limit, and what is known of the others.

Forests, whose distances are the hardest, on tables scaled to [0, 1]; the rows come after those that were learned from.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from hardwood import as_ensemble, attack, load_dataset
from measure import RESULTS, print_table, write_csv

MODELS: dict[str, Callable[[], Any]] = {
    "forest 80 full": lambda: RandomForestClassifier(80, random_state=5, n_jobs=1),
    "forest 120x8": lambda: RandomForestClassifier(120, max_depth=8, random_state=6, n_jobs=1),
    "extra trees 60x9": lambda: ExtraTreesClassifier(60, max_depth=9, random_state=3, n_jobs=1),
}
TABLES = ("ionosphere", "sonar", "parkinsons", "SPECTF", "wine", "diabetes", "spambase", "banknote-authentication")
NORMS = {"inf": np.inf, "2": 2, "1": 1, "0": 0}


def ask(ensemble: Any, X: np.ndarray, y: np.ndarray, norm: float, time_limit: float) -> dict[str, Any]:
    """Attack rows one by one, and sum up what is known of their distances."""
    milliseconds, exact, known = np.zeros(len(X)), np.zeros(len(X), dtype=bool), np.ones(len(X))
    for i in range(len(X)):
        start = time.process_time()
        result = attack(ensemble, X[i : i + 1], y[i : i + 1], 0.5, norm=norm, time_limit=time_limit)
        milliseconds[i] = 1e3 * (time.process_time() - start)
        exact[i] = result.lower[0] == result.distance[0]
        if not exact[i]:
            known[i] = result.lower[0] / result.distance[0]
    return {
        "rows": len(X),
        "exact": int(exact.sum()),
        "p50 ms": float(np.median(milliseconds)),
        "p95 ms": float(np.percentile(milliseconds, 95)),
        "lower / upper of others": float(np.mean(known[~exact])) if not exact.all() else np.nan,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--norms", nargs="+", default=list(NORMS), choices=NORMS)
    parser.add_argument("--rows", type=int, default=15)
    parser.add_argument("--time-limit", type=float, default=1.0, help="seconds per row")
    arguments = parser.parse_args()
    records: list[dict[str, Any]] = []
    for table in arguments.tables:
        data = load_dataset(table)
        X = np.asarray(data.data, dtype=np.float64)
        X = (X - X.min(axis=0)) / np.where(np.ptp(X, axis=0) > 0.0, np.ptp(X, axis=0), 1.0)
        order = np.random.default_rng(0).permutation(len(X))
        test, train = order[: 2 * arguments.rows], order[2 * arguments.rows :]
        for name in arguments.models:
            ensemble = as_ensemble(MODELS[name]().fit(X[train], data.target[train]))
            right = test[ensemble.predict(X[test]) == data.target[test]][: arguments.rows]
            attack(ensemble, X[right[:1]], data.target[right[:1]], 0.01)  # compiles
            for norm in arguments.norms:
                asked = ask(ensemble, X[right], data.target[right], NORMS[norm], arguments.time_limit)
                records.append({"table": table, "model": name, "norm": norm} | asked)
    header = list(records[0])
    print_table(header, [[f"{v:.2f}" if isinstance(v, float) else str(v) for v in r.values()] for r in records])
    for norm in arguments.norms:
        mine = [record for record in records if record["norm"] == norm]
        rows, exact = sum(record["rows"] for record in mine), sum(record["exact"] for record in mine)
        print(f"norm {norm}: {exact} of {rows} distances exact within {arguments.time_limit:g} s")
    write_csv(RESULTS / "norms.csv", records)


if __name__ == "__main__":
    main()
