"""What the benchmark scripts share: tables to fit, clocks, fresh processes, printed tables."""

import csv
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RESULTS = Path(__file__).parent / "results"

LABEL_NOISE = {"smooth": 0.05, "noise": 0.30, "decimal": 0.05}
ROWS_PER_BLOCK = 10_000


def make_table(shape: str, rows: int, features: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Make a two-class table in [0, 1] on which a tree keeps finding splits.

    The label is the sign of a sum of sine waves, one per feature and each weaker than the one
    before, so that every feature matters, no single split is enough, and a tree of depth 8 grows
    hundreds of nodes with or without an attacker. Then a share of the labels is flipped.

    Parameters
    ----------
    shape : {"smooth", "noise", "decimal"}
        ``"smooth"`` flips 5 % of the labels, ``"noise"`` 30 %. ``"decimal"`` flips 5 % and rounds
        every value to two decimals, which makes ties, and shifted values that differ in the last
        bit only.
    rows, features, seed : int
        Size of the table, and the seed it is drawn with.

    Returns
    -------
    X : ndarray of shape (rows, features)
    y : ndarray of shape (rows,)

    Examples
    --------
    >>> X, y = make_table("decimal", rows=1000, features=10, seed=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((1000, 10), [0, 1])
    """
    generator = np.random.default_rng(seed)
    wave_height = 1 / np.sqrt(np.arange(1, features + 1))
    X = np.empty((rows, features))
    y = np.empty(rows, dtype=np.int64)
    # Block by block: temporaries as large as X would leave their mark on what memory.py measures.
    for start in range(0, rows, ROWS_PER_BLOCK):
        block = X[start : start + ROWS_PER_BLOCK]
        generator.random(out=block)
        if shape == "decimal":
            np.round(block, 2, out=block)
        signal = np.sin(2 * np.pi * block) @ wave_height
        flipped = generator.random(len(block)) < LABEL_NOISE[shape]
        y[start : start + ROWS_PER_BLOCK] = (signal > 0) != flipped
    return X, y


def fastest_cpu_seconds(tasks: Mapping[str, Callable[[], object]], repeats: int, calls: int = 1) -> dict[str, float]:
    """Return, per task, the least CPU time of one call.

    The tasks take turns, in a new order every round, so that a slow spell of the machine or a cold
    cache hits all of them alike. ``calls`` is the number of calls between two looks at the clock,
    for tasks of microseconds.
    """
    fastest = dict.fromkeys(tasks, np.inf)
    order = list(tasks)
    shuffle = random.Random(0).shuffle
    for _ in range(repeats):
        shuffle(order)
        for name in order:
            task = tasks[name]
            start = time.process_time()
            for _ in range(calls):
                task()
            fastest[name] = min(fastest[name], (time.process_time() - start) / calls)
    return fastest


def growth_exponent(rows: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the least-squares slope of log time on log rows; NaN for fewer than two sizes."""
    if len(rows) < 2:
        return np.nan
    slope, _ = np.polyfit(np.log(rows), np.log(seconds), 1)
    return float(slope)


def run_fresh(script: str, *arguments: str, **environment: str) -> dict[str, Any]:
    """Run a script in a new Python process and return the JSON object on its last line."""
    done = subprocess.run(
        [sys.executable, script, *arguments],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def write_csv(path: Path, records: Sequence[Mapping[str, object]]) -> None:
    """Write records that share their keys as a CSV file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(records[0]))
        writer.writeheader()
        writer.writerows(records)
    print(f"\nwrote {path}")


def print_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Print a table: the first column to the left, the others to the right."""
    widths = [max(len(line[column]) for line in (header, *lines)) for column in range(len(header))]
    for line in (header, *lines):
        first, *others = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        print("  ".join([first, *others]))


def verdict(what: str, value: float, bar: float, *, at_least: bool = False) -> str:
    """Say in one line how a figure stands to its bar."""
    holds = value >= bar if at_least else value <= bar
    return f"{'ok  ' if holds else 'MISS'}  {what}: {value:.3f} (bar {bar:g})"
