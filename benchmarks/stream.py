"""Measure fits from a Parquet file against fits of the same table in memory: memory and CPU time.

Each figure comes from a fresh process that has fitted a small table before, so that compiled code is loaded. The stream
reads the file twice; the table in memory is read before the clock starts. "beyond" is the peak of what is resident
beyond what was so before the fit, "in all" the peak of the whole process.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from hardwood import RobustBoostingClassifier, RobustTreeClassifier, RobustTreeRegressor, stream
from measure import RESULTS, make_table, print_table, run_fresh, verdict, write_csv
from memory import forget_peak, peak_resident_bytes

MODELS: dict[str, Any] = {
    "tree": lambda: RobustTreeClassifier(threat=0.02, max_depth=8, n_jobs=1, max_bins=255),
    "regression tree": lambda: RobustTreeRegressor(
        threat=0.02, max_depth=8, n_jobs=1, max_bins=255, refit_leaves=False
    ),
    "boosting, 10 trees": lambda: RobustBoostingClassifier(
        threat=0.02, n_estimators=10, early_stopping=False, n_jobs=1
    ),
}
# What the stream may need of the CPU time of the fit in memory, reading the file included.
CPU_BAR = 2.0
# What a tree may need beyond the codes, of two bytes a cell: 16 bytes a row and a quarter of a GiB.
ROW_BYTES, CONSTANT = 16, 1 << 28
# What a process that fits a tree to a stream of 4e7 rows of 20 columns may be resident with, in GiB.
RESIDENT_BAR = 3.0
BLOCK_ROWS = 500_000


def write_parquet(path: Path, rows: int, features: int, *, numbers: bool) -> None:
    """Write a table of float32 with classes or with numbers, block after block."""
    names = [f"x{number}" for number in range(features)]
    target = ("y", pyarrow.float32() if numbers else pyarrow.int8())
    fields = [*((name, pyarrow.float32()) for name in names), target]
    with pyarrow.parquet.ParquetWriter(path, pyarrow.schema(fields)) as writer:
        for seed, start in enumerate(range(0, rows, BLOCK_ROWS)):
            X, y = make_block(min(BLOCK_ROWS, rows - start), features, seed, numbers=numbers)
            writer.write_table(pyarrow.table([*X.T.astype(np.float32), y], schema=writer.schema))


def make_block(rows: int, features: int, seed: int, *, numbers: bool) -> tuple[np.ndarray, np.ndarray]:
    """Make some rows: classes, or numbers that are classes and noise."""
    X, y = make_table("smooth", rows, features, seed=seed)
    if not numbers:
        return X, y.astype(np.int8)
    return X, (y + X[:, 0] + np.random.default_rng(seed).normal(scale=0.1, size=rows)).astype(np.float32)


def child(name: str, how: str, path: Path) -> None:
    """Fit once, and print CPU seconds, bytes, and the thresholds of the trees."""
    model = MODELS[name]()
    model.fit(*make_block(1_000, 20, 1, numbers=name == "regression tree"))
    source: tuple[Any, ...] = (stream(path, "y"),)
    next(iter(source[0]))  # loads what reads Parquet
    if how == "in memory":
        y = pyarrow.parquet.read_table(path, columns=["y"])["y"].to_numpy()
        X = np.empty((len(y), pyarrow.parquet.read_schema(path).names.index("y")), dtype=np.float32)
        for number in range(X.shape[1]):
            X[:, number] = pyarrow.parquet.read_table(path, columns=[f"x{number}"])[0].to_numpy()
        source = (X, y)
    forget_peak()
    before, start = peak_resident_bytes(), time.process_time()
    model.fit(*source)
    seconds, peak = time.process_time() - start, peak_resident_bytes()
    thresholds = model.ensemble_.threshold[model.ensemble_.feature >= 0].tolist()
    print(json.dumps({"seconds": seconds, "extra": peak - before, "peak": peak, "thresholds": thresholds}))


def measure(name: str, rows: int, features: int, repeats: int) -> dict[str, dict[str, Any]]:
    """Fit a model in memory and to a stream, and return the figures, those of the fastest of the repeats."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        write_parquet(path, rows, features, numbers=name == "regression tree")
        found = {}
        for how in ("in memory", "stream"):
            runs = [run_fresh(__file__, "--child", name, how, str(path)) for _ in range(repeats)]
            found[how] = min(runs, key=lambda run: float(run["seconds"]))
    assert found["stream"]["thresholds"] == found["in memory"]["thresholds"], "the trees differ"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--models", nargs="*", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", nargs=3, metavar=("MODEL", "HOW", "PATH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        name, how, path = arguments.child
        child(name, how, Path(path))
        return
    rows, features = arguments.rows, arguments.features
    codes = 2 * rows * features
    found = {name: measure(name, rows, features, arguments.repeats) for name in arguments.models}
    print(f"{rows:,} x {features} float32, codes {codes / 2**30:.2f} GiB, CPU the least of {arguments.repeats}\n")
    records = [
        {"model": name, "fit": how, "seconds": f["seconds"], "beyond": f["extra"] / 2**30, "in_all": f["peak"] / 2**30}
        for name, both in found.items()
        for how, f in both.items()
    ]
    print_table(
        ["model", "fit", "CPU seconds", "GiB beyond the input", "GiB in all"],
        [[r["model"], r["fit"], f"{r['seconds']:.2f}", f"{r['beyond']:.2f}", f"{r['in_all']:.2f}"] for r in records],
    )
    print()
    for name, both in found.items():
        ratio = both["stream"]["seconds"] / both["in memory"]["seconds"]
        print(verdict(f"{name}: CPU, stream / in memory", ratio, CPU_BAR))
    if "tree" in found:
        tree = found["tree"]["stream"]
        allowed = (ROW_BYTES * rows + CONSTANT) / 2**30
        print(verdict("tree, stream: GiB beyond the codes", (tree["extra"] - codes) / 2**30, allowed))
        print(verdict("tree, stream: GiB resident in all", tree["peak"] / 2**30, RESIDENT_BAR))
    write_csv(RESULTS / "stream.csv", records)


if __name__ == "__main__":
    main()
