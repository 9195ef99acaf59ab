"""Measure a fit from a Parquet file against the fit of the same table in memory: memory and CPU time.

Each figure comes from a fresh process that has fitted a small table before, so that compiled code is loaded. The stream
reads the file twice; the table in memory is read before the clock starts. Memory is the peak of what is resident beyond
what was so before the fit.
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

from hardwood import RobustTreeClassifier, stream
from measure import RESULTS, make_table, print_table, run_fresh, verdict, write_csv
from memory import forget_peak, peak_resident_bytes

# What the stream may need of the CPU time of the fit in memory, reading the file included.
CPU_BAR = 2.0
# What it may need beyond the codes, of two bytes a cell: 16 bytes a row and a quarter of a GiB.
ROW_BYTES, CONSTANT = 16, 1 << 28
BLOCK_ROWS = 500_000


def write_parquet(path: Path, rows: int, features: int) -> None:
    """Write a table of float32, block after block."""
    names = [f"x{number}" for number in range(features)]
    fields = [*((name, pyarrow.float32()) for name in names), ("y", pyarrow.int8())]
    with pyarrow.parquet.ParquetWriter(path, pyarrow.schema(fields)) as writer:
        for seed, start in enumerate(range(0, rows, BLOCK_ROWS)):
            X, y = make_table("smooth", min(BLOCK_ROWS, rows - start), features, seed=seed)
            columns = [*X.T.astype(np.float32), y.astype(np.int8)]
            writer.write_table(pyarrow.table(columns, schema=writer.schema))


def child(how: str, path: Path) -> None:
    """Fit once, and print CPU seconds, bytes, and the thresholds of the tree."""
    model = RobustTreeClassifier(threat=0.02, max_depth=8, n_jobs=1, max_bins=255)
    model.fit(*make_table("smooth", 1_000, 20, seed=1))
    source: tuple[Any, ...] = (stream(path, "y"),)
    if how == "in memory":
        y = pyarrow.parquet.read_table(path, columns=["y"])["y"].to_numpy()
        X = np.empty((len(y), pyarrow.parquet.read_schema(path).names.index("y")), dtype=np.float32)
        for number in range(X.shape[1]):
            X[:, number] = pyarrow.parquet.read_table(path, columns=[f"x{number}"])[0].to_numpy()
        source = (X, y)
    forget_peak()
    before, start = peak_resident_bytes(), time.process_time()
    model.fit(*source)
    seconds, extra = time.process_time() - start, peak_resident_bytes() - before
    thresholds = model.ensemble_.threshold[model.ensemble_.feature >= 0].tolist()
    print(json.dumps({"seconds": seconds, "extra": extra, "thresholds": thresholds}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--child", nargs=2, metavar=("HOW", "PATH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child[0], Path(arguments.child[1]))
        return
    rows, features = arguments.rows, arguments.features
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        write_parquet(path, rows, features)
        found = {how: run_fresh(__file__, "--child", how, str(path)) for how in ("in memory", "stream")}
    codes = 2 * rows * features
    print(f"one tree of depth 8, {rows:,} x {features} float32, codes {codes / 2**30:.2f} GiB\n")
    records = [{"fit": how, "seconds": f["seconds"], "gib": f["extra"] / 2**30} for how, f in found.items()]
    print_table(
        ["fit", "CPU seconds", "GiB beyond the input"],
        [[r["fit"], f"{r['seconds']:.2f}", f"{r['gib']:.2f}"] for r in records],
    )
    print()
    assert found["stream"]["thresholds"] == found["in memory"]["thresholds"], "the trees differ"
    print(verdict("CPU, stream / in memory", found["stream"]["seconds"] / found["in memory"]["seconds"], CPU_BAR))
    beyond = found["stream"]["extra"] - codes
    print(verdict("stream: GiB beyond the codes", beyond / 2**30, (ROW_BYTES * rows + CONSTANT) / 2**30))
    write_csv(RESULTS / "stream.csv", records)


if __name__ == "__main__":
    main()
