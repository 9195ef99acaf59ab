"""One tree over Dask beside XGBoost and LightGBM on the same cluster, and beside hardwood's own fit in memory.

Two worker processes of one thread each hold the table before the clock starts, one block each. CPU time is that of the
client, the scheduler and the workers together, the least of several repeats that take turns. Every method has first
fitted a small table.
"""

import argparse
import logging
import os
import random
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

from dask.distributed import Client
from lightgbm import DaskLGBMClassifier, register_logger
from xgboost.dask import DaskXGBClassifier

from clusters import Cost, cluster_of, dask_table, least, measure_call, numpy_table, silence_workers
from hardwood import RobustTreeClassifier
from hardwood.dask import DaskRobustTreeClassifier
from measure import RESULTS, fastest_cpu_seconds, print_table, verdict, write_csv

WORKERS, FEATURES, DEPTH, EPSILON = 2, 10, 8, 0.02
# What a fit over Dask may cost of the CPU time of the fit in memory.
BARS = {1_000_000: 3.0, 4_000_000: 2.0}
NATURAL, ROBUST, XGBOOST, LIGHTGBM = "hardwood, no threat", "hardwood", "XGBoost (hist)", "LightGBM"


def fit_xgboost(client: Client, X: Any, y: Any) -> Any:
    model = DaskXGBClassifier(n_estimators=1, max_depth=DEPTH, tree_method="hist", max_bin=256, verbosity=0)
    model.client = client
    return model.fit(X, y)


def fit_lightgbm(client: Client, X: Any, y: Any) -> Any:
    options = {"n_estimators": 1, "max_depth": DEPTH, "num_leaves": 2**DEPTH, "verbosity": -1}
    return DaskLGBMClassifier(client=client, **options).fit(X, y)


def fit_ours(threat: float | None, client: Client, X: Any, y: Any) -> Any:
    return DaskRobustTreeClassifier(threat=threat, max_depth=DEPTH, max_bins=255, client=client).fit(X, y)


METHODS: dict[str, Callable[[Client, Any, Any], Any]] = {
    ROBUST: partial(fit_ours, EPSILON),
    NATURAL: partial(fit_ours, None),
    XGBOOST: fit_xgboost,
    LIGHTGBM: fit_lightgbm,
}


def count_leaves(model: Any) -> int:
    """Return how many leaves the one tree has: a method that stops early is fast for the wrong reason."""
    if hasattr(model, "get_booster"):
        return sum("Leaf" in feature for feature in model.get_booster().trees_to_dataframe()["Feature"])
    if hasattr(model, "booster_"):
        return int(model.booster_.dump_model()["tree_info"][0]["num_leaves"])
    return int(model.to_local().get_n_leaves())


def compare(client: Client, rows: int, repeats: int) -> list[dict[str, Any]]:
    """Fit every method on one table that the workers hold."""
    X, y = dask_table(client, rows, FEATURES, WORKERS)
    costs: dict[str, list[Cost]] = {name: [] for name in METHODS}
    leaves: dict[str, int] = {}
    order = list(METHODS)
    for turn in range(repeats):
        random.Random(turn).shuffle(order)
        for name in order:
            model, cost = measure_call(client, partial(METHODS[name], client, X, y))
            leaves[name] = count_leaves(model)
            costs[name].append(cost)
    best = {name: least(mine) for name, mine in costs.items()}
    return [
        {
            "rows": rows,
            "method": name,
            "cpu_s": best[name].cpu,
            "client_cpu_s": best[name].client_cpu,
            "wall_s": best[name].wall,
            "worker_mib": best[name].worker_memory / 2**20,
            "leaves": leaves[name],
        }
        for name in METHODS
    ]


def fit_in_memory(rows: int, repeats: int) -> dict[str, float]:
    """Return the CPU seconds of fits in this process, of the same tables."""
    tables = {"small": numpy_table(1_000, FEATURES, WORKERS), "large": numpy_table(rows, FEATURES, WORKERS)}
    models = {
        name: RobustTreeClassifier(threat=threat, max_depth=DEPTH, max_bins=255, n_jobs=1)
        for name, threat in ((ROBUST, EPSILON), (NATURAL, None))
    }
    for model in models.values():
        model.fit(*tables["small"])
    return fastest_cpu_seconds({name: partial(model.fit, *tables["large"]) for name, model in models.items()}, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=list(BARS))
    parser.add_argument("--repeats", type=int, default=4)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("distributed").setLevel(logging.ERROR)
    register_logger(logging.getLogger("distributed"))  # LightGBM tells of every port
    names = ("hardwood", "xgboost-cpu", "lightgbm", "dask", "distributed")
    print(", ".join(f"{name} {version(name)}" for name in names))
    load = f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores"
    print(f"one tree of depth {DEPTH}, {WORKERS} workers of one thread; {load}")
    in_memory = {rows: fit_in_memory(rows, arguments.repeats) for rows in arguments.rows}
    records = []
    with cluster_of(WORKERS) as client:
        silence_workers(client)
        small = dask_table(client, 1_000, FEATURES, WORKERS)
        for method in METHODS.values():
            method(client, *small)
        for rows in arguments.rows:
            found = compare(client, rows, arguments.repeats)
            records += [record | {"in_memory_s": in_memory[rows].get(record["method"], "")} for record in found]
            print_found(rows, records[-len(found) :])
    write_csv(RESULTS / "dask_peers.csv", records)


def print_found(rows: int, records: list[dict[str, Any]]) -> None:
    """Print one table side by side, and how hardwood stands to its bars."""
    ours = next(record["cpu_s"] for record in records if record["method"] == NATURAL)
    print(f"\n{rows:,} rows x {FEATURES} features")
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "method": lambda r: r["method"],
        "leaves": lambda r: f"{r['leaves']}",
        "CPU s": lambda r: f"{r['cpu_s']:.2f}",
        "/ hardwood, no threat": lambda r: f"{r['cpu_s'] / ours:.2f}",
        "of it client": lambda r: f"{r['client_cpu_s']:.2f}",
        "wall s": lambda r: f"{r['wall_s']:.2f}",
        "MiB of a worker": lambda r: f"{r['worker_mib']:.0f}",
        "in memory CPU s": lambda r: f"{r['in_memory_s']:.2f}" if r["in_memory_s"] else "-",
    }
    print_table(list(columns), [[column(record) for column in columns.values()] for record in records])
    for record in records:
        if record["in_memory_s"] and rows in BARS:
            ratio = record["cpu_s"] / record["in_memory_s"]
            print(verdict(f"{record['method']}, {rows:,} rows: CPU over Dask / in memory", ratio, BARS[rows]))


if __name__ == "__main__":
    main()
