"""What verify.py prints: a line per task, who was wrong, and how the figures stand to the project's bars."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from measure import verdict
from verifiers import MILP, OURS, PEER

Record = dict[str, Any]

SECONDS_TO_DECIDE = 10.0
TASK_WIDTH = 38
# So many of the tasks that miss a bar are named.
SHOWN = 5
# What is printed of a task: title and width, by key of its summary.
COLUMNS = {
    "rows": ("rows", 4),
    "robust": ("robust", 6),
    "p50": ("p50", 7),
    "p95": ("p95", 7),
    "max": ("max", 7),
    "batch": ("batch", 7),
    "call": ("call", 6),
    "unknown": ("unknown", 7),
    "veritas_p50": ("veritas p50", 11),
    "veritas_p95": ("p95", 7),
    "veritas_unknown": ("unknown", 7),
    "milp_p50": ("milp p50", 8),
    "ratio_p50": ("x p50", 6),
    "ratio_p95": ("x p95", 6),
    "ratio_batch": ("x batch", 7),
    "ratio_milp": ("x milp", 6),
}


def summarise(records: Sequence[Record], calls: dict[str, float]) -> Record:
    """Return the figures of one task; `calls` is what `time_calls` measured."""
    first = records[0]
    ours, peer, solver = (_of(records, name) for name in (OURS, PEER, MILP))
    beside_solver = {record["row"] for record in solver}
    same_rows = _milliseconds(record for record in ours if record["row"] in beside_solver)
    mine, theirs, solvers = _milliseconds(ours), _milliseconds(peer), _milliseconds(solver)
    return {
        "table": first["table"],
        "model": first["model"],
        "question": first["question"],
        "rows": len(ours),
        "robust": sum(record["status"] == "robust" for record in ours),
        "p50": _percentile(mine, 50),
        "p95": _percentile(mine, 95),
        "max": _percentile(mine, 100),
        **calls,
        "unknown": sum(record["status"] == "unknown" for record in ours),
        "decided": float(np.mean([_is_decided(record) for record in ours])),
        "veritas_p50": _percentile(theirs, 50),
        "veritas_p95": _percentile(theirs, 95),
        "veritas_unknown": sum(record["status"] == "unknown" for record in peer),
        "milp_p50": _percentile(solvers, 50),
        "ratio_p50": _percentile(theirs, 50) / _percentile(mine, 50),
        "ratio_p95": _percentile(theirs, 95) / _percentile(mine, 95),
        "ratio_batch": float(theirs.mean()) / calls["batch"] if len(theirs) else np.nan,
        "ratio_milp": _percentile(solvers, 50) / _percentile(same_rows, 50),
        "ratio_milp_p95": _percentile(solvers, 95) / _percentile(same_rows, 95),
    }


def print_line(line: Record, *, first: bool) -> None:
    """Print the figures of a task as soon as they are there."""
    if first:
        print(
            "CPU milliseconds per row; x: how many times faster hardwood is. p50, p95 and max are of single rows; batch"
        )
        print("is a public call with all rows, per row; call is a public call with one row and nothing to search.\n")
        print(f"{'task':<{TASK_WIDTH}}" + "".join(f"  {title:>{width}}" for title, width in COLUMNS.values()))
    cells = "".join(f"  {_cell(line[key]):>{width}}" for key, (_, width) in COLUMNS.items())
    print(f"{_name(line):<{TASK_WIDTH}}{cells}", flush=True)


def print_report(lines: Sequence[Record], records: Sequence[Record]) -> None:
    """Print the disagreements and how the figures stand to the bars."""
    _print_faults(records)
    print()
    decide = [line for line in lines if line["question"] != "distance"]
    distance = [line for line in lines if line["question"] == "distance"]
    for key in ("ratio_p50", "ratio_p95"):
        share = key.removeprefix("ratio_")
        _print_worst(f"decide, veritas / hardwood, {share}: the worst task", decide, key, 1.0)
        _print_worst(f"distance, veritas / hardwood, {share}: the worst task", distance, key, 10.0)
    for what, group in (
        ("wine xgboost 100x6", _pick(decide, "wine", "xgboost 100x6")),
        ("full", _pick(decide, "", "full")),
    ):
        _print_worst(f"decide {what}, veritas / hardwood, p95: the worst task", group, "ratio_p95", 5.0)
    _print_worst("milp / hardwood, p50: the worst task", lines, "ratio_milp", 100.0)
    _print_worst("milp / hardwood, p95: the worst task", lines, "ratio_milp_p95", 100.0)
    for line in lines:
        if line["ratio_milp"] < 100.0:
            share, least = 10.0 * line["milp_p50"], 1e3 * line["empty"]
            print(f"        {_name(line)}: a hundredth is {share:.0f} us, nothing to search takes {least:.0f} us")
    forests = _pick(decide, "", "forest 300")
    for question in dict.fromkeys(line["question"] for line in forests):
        share = np.mean([line["decided"] for line in forests if line["question"] == question])
        what = f"300-tree forests, {question}: share of rows within {SECONDS_TO_DECIDE:g} s"
        print(verdict(what, float(share), 0.9, at_least=True))
    large = _pick(lines, "", "1000x6")
    if large:
        slowest = max(line["max"] for line in large) / 1e3
        print(verdict("xgboost 1000x6: slowest row, seconds", slowest, SECONDS_TO_DECIDE))


def _print_faults(records: Sequence[Record]) -> None:
    """Print every wrong answer, and how many there are of each verifier."""
    print("\nanswers held against each other, witnesses predicted by the model's own library:")
    for record in records:
        if record["wrong"]:
            where = f"{record['table']}, {record['model']}, {record['question']}, row {record['row']}"
            print(f"  {where}: {record['verifier']} {record['wrong']}")
    for name in dict.fromkeys(record["verifier"] for record in records):
        mine = _of(records, name)
        wrong, fails = sum(bool(r["wrong"]) for r in mine), sum(r["witness_fails"] for r in mine)
        unknown = sum(r["status"] == "unknown" for r in mine)
        print(f"  {name}: {len(mine)} answers, {unknown} unknown, {wrong} wrong, {fails} witnesses that do not flip")
    ours = _of(records, OURS)
    print(verdict("hardwood: wrong answers", sum(bool(r["wrong"]) for r in ours), 0))
    print(verdict("hardwood: witnesses that do not flip", sum(r["witness_fails"] for r in ours), 0))


def _print_worst(what: str, lines: Sequence[Record], key: str, bar: float) -> None:
    """Print how the task with the smallest ratio stands to a bar, and which tasks miss it."""
    measured = [line for line in lines if np.isfinite(line[key])]
    if not measured:
        return
    print(verdict(what, min(line[key] for line in measured), bar, at_least=True))
    misses = sorted((line for line in measured if line[key] < bar), key=lambda line: line[key])
    if misses:
        worst = ", ".join(f"{_name(line)} {line[key]:.2f}" for line in misses[:SHOWN])
        print(
            f"        {len(misses)} of {len(measured)} tasks miss it: {worst}{', ...' if len(misses) > SHOWN else ''}"
        )


def _name(line: Record) -> str:
    return f"{line['table']} {line['model']} {line['question']}"


def _of(records: Sequence[Record], verifier: str) -> list[Record]:
    return [record for record in records if record["verifier"] == verifier]


def _pick(lines: Sequence[Record], table: str, model: str) -> list[Record]:
    return [line for line in lines if table in line["table"] and model in line["model"]]


def _milliseconds(records: Iterable[Record]) -> NDArray[np.float64]:
    return np.array([record["milliseconds"] for record in records])


def _percentile(values: NDArray[np.float64], share: float) -> float:
    return float(np.percentile(values, share)) if len(values) else np.nan


def _is_decided(record: Record) -> bool:
    return bool(record["status"] != "unknown" and record["milliseconds"] <= 1e3 * SECONDS_TO_DECIDE)


def _cell(value: float) -> str:
    if isinstance(value, int):
        return str(value)
    return "-" if np.isnan(value) else f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"
