"""How near black-box attacks come to the exact minimum, in the L-infinity norm.

HopSkipJump and the boundary attack see nothing but predictions; the transfer attack learns a surrogate from the
predictions on the training rows. Each distance is divided by that of the nearest example, found by the exact attack.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from xgboost import XGBClassifier

from hardwood import AttackResult, RobustTreeClassifier, attack, black_box_attack, load_dataset, transfer_attack
from measure import RESULTS, print_table, write_csv

EPSILON = 0.05  # for the robust tree, as a share of each feature's range
MODELS: dict[str, Any] = {
    "natural tree": RobustTreeClassifier(max_depth=4),
    "robust tree": RobustTreeClassifier(threat=EPSILON, max_depth=4),
    "forest": RandomForestClassifier(50, max_depth=6, n_jobs=1, random_state=0),
    "xgboost": XGBClassifier(n_estimators=50, max_depth=4, n_jobs=1, random_state=0),
}


def attacks_on(model: Any, X: np.ndarray, rows: np.ndarray, max_queries: int) -> dict[str, Callable[[], AttackResult]]:
    """Return the attacks on some rows of a table."""
    settings = {"max_queries": max_queries, "random_state": 0}
    return {
        "hopskipjump": lambda: black_box_attack(model, X[rows], **settings),
        "boundary": lambda: black_box_attack(model, X[rows], method="boundary", **settings),
        "transfer": lambda: transfer_attack(model, X[rows], X_surrogate=X, random_state=0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", default=["banknote-authentication", "diabetes"])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--rows", type=int, default=30)
    parser.add_argument("--max-queries", type=int, default=1000)
    arguments = parser.parse_args()
    records: list[dict[str, Any]] = []
    for table in arguments.tables:
        data = load_dataset(table)
        X = np.asarray(data.data, dtype=np.float64)
        X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
        rows = np.random.default_rng(0).choice(len(X), arguments.rows, replace=False)
        for name in arguments.models:
            model = MODELS[name].fit(X, data.target)
            exact = attack(model, X[rows])
            for method, run in attacks_on(model, X, rows, arguments.max_queries).items():
                start = time.process_time()
                result = run()
                ratio = result.distance[result.found] / exact.distance[result.found]
                records.append(
                    {
                        "table": table,
                        "model": name,
                        "attack": method,
                        "found": f"{result.found.sum()} of {len(rows)}",
                        "exact median": float(np.median(exact.distance)),
                        "median ratio": float(np.median(ratio)),
                        "95th percentile": float(np.quantile(ratio, 0.95)),
                        "ms per row": 1000 * (time.process_time() - start) / len(rows),
                    }
                )
    lines = [[f"{v:.3f}" if isinstance(v, float) else str(v) for v in record.values()] for record in records]
    print_table(list(records[0]), lines)
    write_csv(RESULTS / "black_box.csv", records)


if __name__ == "__main__":
    main()
