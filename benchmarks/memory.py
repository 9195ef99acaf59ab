"""Measure the peak memory of fit beyond the table itself, as a multiple of the table.

Each figure comes from a fresh process that holds X and y and has fitted a small table before, so
that compiled code is loaded. "resident" is what the operating system saw, "traced" what Python's
allocator hooks saw: NumPy reports its arrays there, but compiled code that allocates by itself does
not, so the first is the one to trust.
"""

import argparse
import contextlib
import json
import resource
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from hardwood import RobustTreeClassifier
from measure import RESULTS, make_table, print_table, run_fresh, verdict, write_csv

METHODS: dict[str, Any] = {
    "scikit-learn": lambda: DecisionTreeClassifier(max_depth=8, random_state=0),
    "hardwood": lambda: RobustTreeClassifier(threat=0.02, max_depth=8, n_jobs=1),
    "hardwood rho=0.5": lambda: RobustTreeClassifier(threat=0.02, max_depth=8, n_jobs=1, rho=0.5),
}
BAR = 3.0
# A table of float32 is kept as it is: what a fit on bins may need beyond it, in GiB.
LARGE, LARGE_BAR = (10_000_000, 20), 1.0


def peak_resident_bytes() -> int:
    """Return the largest resident size so far.

    On Linux getrusage remembers how large the process was that started this one, so the kernel is asked another way;
    elsewhere, macOS counts in bytes, others in kilobytes.
    """
    with contextlib.suppress(OSError):
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def forget_peak() -> None:
    """Set the peak back to what is resident now, where the system allows it (Linux).

    Otherwise memory that compiling needed and gave back would hide as much of what fit needs.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def child(method: str, how: str, rows: int, features: int) -> None:
    """Fit once, measured in one of the two ways, and print the bytes needed beyond X and y."""
    make = METHODS[method]
    make().fit(*make_table("smooth", 1_000, features, seed=1))
    X, y = make_table("smooth", rows, features, seed=0)
    if how == "float32":
        X = X.astype(np.float32)
        make().fit(*make_table("smooth", 1_000, features, seed=1))
    if how == "traced":
        tracemalloc.start()
        make().fit(X, y)
        extra = tracemalloc.get_traced_memory()[1]
    else:
        forget_peak()
        before = peak_resident_bytes()
        make().fit(X, y)
        extra = peak_resident_bytes() - before
    print(json.dumps({"extra": extra, "table": X.nbytes}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--child", nargs=2, metavar=("METHOD", "HOW"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        method, how = arguments.child
        child(method, how, arguments.rows, arguments.features)
        return
    size = [f"--rows={arguments.rows}", f"--features={arguments.features}"]
    records = []
    for method in METHODS:
        record: dict[str, Any] = {"method": method}
        for how in ("resident", "traced"):
            found = run_fresh(__file__, *size, "--child", method, how)
            record[f"{how}_over_table"] = found["extra"] / found["table"]
        records.append(record)
    size_of_table = f"{arguments.rows:,} x {arguments.features} float64"
    print(f"peak memory of fit beyond X, over the size of X ({size_of_table})\n")
    print_table(
        ["method", "resident", "traced"],
        [[r["method"], f"{r['resident_over_table']:.2f}", f"{r['traced_over_table']:.2f}"] for r in records],
    )
    print()
    found = run_fresh(__file__, f"--rows={LARGE[0]}", f"--features={LARGE[1]}", "--child", "hardwood", "float32")
    print(verdict(f"hardwood, {LARGE[0]:,} x {LARGE[1]} float32: GiB beyond X", found["extra"] / 2**30, LARGE_BAR))
    for record in records[1:]:
        print(verdict(f"{record['method']}: resident / X", record["resident_over_table"], BAR))
    write_csv(RESULTS / "memory.csv", records)


if __name__ == "__main__":
    main()
