"""Compare the heuristic attack with the exact one: examples found, distances and CPU time, norm by norm.

XGBoost models and full-depth forests on tables scaled to [0, 1]. A ratio of 1 is a nearest example. Rows on which the
exact search runs into its time limit are counted, and left out of the ratios.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBClassifier

from hardwood import as_ensemble, attack, load_dataset
from measure import RESULTS, print_table, write_csv

MODELS: dict[str, Callable[[], Any]] = {
    "xgboost 50x4": lambda: XGBClassifier(n_estimators=50, max_depth=4, n_jobs=1),
    "xgboost 100x6": lambda: XGBClassifier(n_estimators=100, max_depth=6, n_jobs=1),
    "forest 100": lambda: RandomForestClassifier(100, random_state=0, n_jobs=1),
}


def compare(ensemble: Any, X: np.ndarray, norm: float, time_limit: float) -> dict[str, Any]:
    """Attack rows both ways."""
    start = time.process_time()
    exact = attack(ensemble, X, norm=norm, time_limit=time_limit)
    middle = time.process_time()
    heuristic = attack(ensemble, X, norm=norm, method="heuristic")
    end = time.process_time()
    done = exact.lower == exact.distance
    ratio = heuristic.distance[done] / exact.distance[done]
    return {
        "rows": len(X),
        "found": np.mean(heuristic.found),
        "unfinished": int((~done).sum()),
        "exact ms": 1000 * (middle - start) / len(X),
        "heuristic ms": 1000 * (end - middle) / len(X),
        "median ratio": np.median(ratio),
        "mean ratio": np.mean(ratio),
        "95th percentile": np.quantile(ratio, 0.95),
        "nearest": np.mean(ratio <= 1.0 + 1e-9),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", default=["wine", "diabetes", "spambase"])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--norms", nargs="+", type=float, default=[np.inf, 2, 1, 0])
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--time-limit", type=float, default=5.0)
    arguments = parser.parse_args()
    records = []
    for table in arguments.tables:
        data = load_dataset(table)
        X = np.asarray(data.data, dtype=np.float64)
        X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
        rows = np.random.default_rng(0).choice(len(X), min(arguments.rows, len(X)), replace=False)
        for name in arguments.models:
            ensemble = as_ensemble(MODELS[name]().fit(X, data.target))
            for norm in arguments.norms:
                compare(ensemble, X[rows[:2]], norm, arguments.time_limit)  # compiles
                figures = compare(ensemble, X[rows], norm, arguments.time_limit)
                records.append({"table": table, "model": name, "norm": norm} | figures)
    header = list(records[0])
    print_table(header, [[f"{v:.3f}" if isinstance(v, float) else str(v) for v in r.values()] for r in records])
    write_csv(RESULTS / "heuristic.csv", records)


if __name__ == "__main__":
    main()
