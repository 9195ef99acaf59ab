"""What scale.py prints and draws of its measurements."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from clusters import Cost
from measure import growth_exponent, print_table
from scale_model import (
    CLIENT_CPU,
    FITTED_CELLS,
    TRAFFIC,
    WORKER_CPU,
    WORKER_MEMORY,
    Model,
    Point,
    fit_model,
    split_points,
    wall_seconds,
)

MIB, GIB = 2**20, 2**30
# The extrapolation. Nobody has measured the machines it speaks of: the bandwidth, in bytes a second, is an assumption.
WORKERS_AFAR, ROWS_AFAR, FEATURES_AFAR, BANDWIDTH = 100, 1_000_000_000, (10, 100), 1e9

QUANTITIES = {
    "worker_cpu": ("CPU of the workers", WORKER_CPU),
    "client_cpu": ("CPU of the client and the scheduler", CLIENT_CPU),
    "traffic": ("bytes sent", TRAFFIC),
    "worker_memory": ("peak of a worker beyond the table", WORKER_MEMORY),
}

Record = dict[str, Any]
Costs = Mapping[Point, Cost]
LocalCosts = Mapping[Point, tuple[float, int]]  # CPU seconds, bytes
Models = Mapping[str, Model]
Series = Mapping[str, Sequence[Point]]  # by factor


def print_measured(found: Costs, local: LocalCosts) -> list[Record]:
    """Print every measurement of a tree, and return the records."""
    records = []
    for point, cost in found.items():
        seconds, extra = local[point.in_memory]
        figures = asdict(cost) | {"cpu": cost.cpu, "local_cpu": seconds, "local_memory": extra}
        records.append(asdict(point) | {"cells": point.cells} | figures)
    print("\none tree over Dask, and in memory; MiB are the peak of one process beyond the table")
    columns: dict[str, Callable[[Record], str]] = {
        "rows": lambda r: f"{r['rows']:,}",
        "features": lambda r: f"{r['features']}",
        "depth": lambda r: f"{r['depth']}",
        "bins": lambda r: f"{r['bins']}",
        "workers": lambda r: f"{r['workers']}",
        "partitions": lambda r: f"{r['partitions']}",
        "CPU s": lambda r: f"{r['cpu']:.2f}",
        "of it client": lambda r: f"{r['client_cpu']:.2f}",
        "wall s": lambda r: f"{r['wall']:.2f}",
        "tasks": lambda r: f"{r['tasks']}",
        "MiB sent": lambda r: f"{r['traffic'] / MIB:.1f}",
        "MiB of a worker": lambda r: f"{r['worker_memory'] / MIB:.0f}",
        "in memory CPU s": lambda r: f"{r['local_cpu']:.2f}",
        "MiB": lambda r: f"{r['local_memory'] / MIB:.0f}",
        "Dask / in memory": lambda r: f"{r['cpu'] / r['local_cpu']:.2f}",
    }
    print_table(list(columns), [[column(record) for column in columns.values()] for record in records])
    return records


def print_ensembles(records: Sequence[Record]) -> None:
    """Print what forests and boosting cost, over Dask and in memory."""
    columns: dict[str, Callable[[Record], str]] = {
        "model": lambda r: r["model"],
        "rows": lambda r: f"{r['rows']:,}",
        "CPU s": lambda r: f"{r['cpu']:.2f}",
        "of it client": lambda r: f"{r['client_cpu']:.2f}",
        "wall s": lambda r: f"{r['wall']:.2f}",
        "MiB sent": lambda r: f"{r['traffic'] / MIB:.0f}",
        "in memory CPU s": lambda r: f"{r['local_cpu']:.2f}",
        "Dask / in memory": lambda r: f"{r['cpu'] / r['local_cpu']:.2f}",
    }
    print("\nensembles over Dask, and in memory")
    print_table(list(columns), [[column(record) for column in columns.values()] for record in records])


def print_exponents(series: Series, found: Costs, local: LocalCosts) -> None:
    """Print how everything grows with each factor: slopes of logarithms, by least squares."""
    lines = []
    for factor, points in series.items():
        at = [getattr(point, factor) for point in points]
        alone = [local[point.in_memory][0] for point in points]
        line = [factor, f"{at[0]:,} to {at[-1]:,}", "-" if len(set(alone)) == 1 else _slope(at, alone)]
        for quantity in ("cpu", "wall", "traffic", "worker_memory"):
            line.append(_slope(at, [getattr(found[point], quantity) for point in points]))
        lines.append(line)
    print("\ngrowth exponents: slope of the logarithm on the logarithm of the factor, by least squares")
    print_table(["factor", "from", "CPU in memory", "CPU over Dask", "wall", "traffic", "memory of a worker"], lines)


def _slope(at: Sequence[int], measured: Sequence[float]) -> str:
    return f"{growth_exponent(at, np.maximum(measured, 1).tolist() if min(measured) <= 0 else measured):.2f}"


def judge_models(found: Costs, never: Sequence[Point]) -> Models:
    """Fit a model of each quantity to some points, and print what a unit costs and how well it predicts all others."""
    fitted, rest = split_points(list(found), never)
    groups = {
        f"{len(rest)} fits it has not seen": rest,
        f"of them up to {FITTED_CELLS:,} cells": [point for point in rest if point.cells <= FITTED_CELLS],
        "of them larger": [point for point in rest if point.cells > FITTED_CELLS],
    }
    models = {}
    print(f"\ncost model, fitted to {len(fitted)} fits on up to {FITTED_CELLS:,} cells")
    for name, (title, terms) in QUANTITIES.items():
        models[name] = fit_model(terms, fitted, [getattr(found[point], name) for point in fitted])
        print(f"  {title}")
        for term, cost in zip(terms, models[name].unit_costs, strict=True):
            print(f"    {cost:8.1e} {term}")
    predictions: dict[str, tuple[Callable[[Point], float], Callable[[Cost], float]]] = {
        "CPU of all processes": (lambda point: predict_cpu(models, point), lambda cost: cost.cpu)
    }
    for name, (title, _) in QUANTITIES.items():
        predictions[title] = models[name].predict, lambda cost, name=name: getattr(cost, name)
    per_level = latency_per_level(fitted, found)
    print(f"  {per_level:.3f} s of every level in which nobody computes, where every worker has a core")
    predictions[f"wall, up to {_cores()} workers"] = (
        lambda point: predict_wall(models, point, per_level),
        lambda cost: cost.wall,
    )
    lines = []
    for title, (predict, read) in predictions.items():
        for where, points in groups.items():
            counted = [point for point in points if point.workers <= _cores() or not title.startswith("wall")]
            errors = np.abs([predict(point) / read(found[point]) - 1 for point in counted])
            if len(errors):
                lines.append([title, where, f"{np.median(errors):.0%}", f"{errors.max():.0%}"])
    print()
    print_table(["error of the prediction", "at", "median", "worst"], lines)
    return models


def predict_cpu(models: Models, point: Point) -> float:
    """Return the CPU seconds of all processes, as the model has it."""
    return models["worker_cpu"].predict(point) + models["client_cpu"].predict(point)


def predict_wall(models: Models, point: Point, per_level: float, bandwidth: float = math.inf) -> float:
    """Return the wall seconds, as the model has it; moving bytes within this machine costs CPU time alone."""
    worker_cpu, client_cpu = (models[name].predict(point) for name in ("worker_cpu", "client_cpu"))
    return wall_seconds(point, worker_cpu, client_cpu, per_level=per_level, bandwidth=bandwidth)


def _cores() -> int:
    return os.cpu_count() or 1


def latency_per_level(points: Sequence[Point], found: Costs) -> float:
    """Return the seconds of a level in which nobody computes: the median where every worker has a core."""
    idle = []
    for point in points:
        if point.workers <= _cores():
            busy = found[point].worker_cpu / point.workers + found[point].client_cpu
            idle.append((found[point].wall - busy) / point.depth)
    return max(0.0, float(np.median(idle)))


def print_extrapolation(models: Models, found: Costs, never: Sequence[Point]) -> None:
    """Print what the model says of clusters that nobody has measured."""
    per_level = latency_per_level(split_points(list(found), never)[0], found)
    print(f"\nEXTRAPOLATION, not measured: {ROWS_AFAR:,} rows, depth 8, 255 bins, {WORKERS_AFAR} workers of one thread")
    print(f"assumed: every machine sends and receives {BANDWIDTH / 1e9:g} GB/s")
    lines = []
    for features in FEATURES_AFAR:
        point = Point(ROWS_AFAR, features, 8, 255, WORKERS_AFAR, WORKERS_AFAR)
        wall = predict_wall(models, point, per_level, BANDWIDTH)
        cpu = models["worker_cpu"].predict(point) / WORKERS_AFAR, models["client_cpu"].predict(point)
        line = [f"{features}", *(f"{seconds:.1f}" for seconds in cpu), f"{wall:.0f}"]
        line += [f"{models[name].predict(point) / GIB:.1f}" for name in ("traffic", "worker_memory")]
        lines.append(line)
    header = ["features", "CPU s of a worker", "CPU s of client and scheduler", "wall s", "GiB sent", "GiB of a worker"]
    print_table(header, lines)


def plot(series: Series, found: Costs, local: LocalCosts, models: Models, never: Sequence[Point], path: Path) -> None:
    """Draw CPU seconds against every factor, and what the model predicts against what was measured."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import EngFormatter, StrMethodFormatter

    seconds = (0.5 * min(cpu for cpu, *_ in local.values()), 2.0 * max(cost.cpu for cost in found.values()))
    figure, panels = plt.subplots(2, 4, figsize=(14, 6.5), layout="constrained")
    for panel, (factor, points) in zip(panels.flat, series.items(), strict=False):
        at = [getattr(point, factor) for point in points]
        panel.loglog(at, [found[point].cpu for point in points], "o-", label="over Dask, all processes")
        panel.loglog(at, [found[point].client_cpu for point in points], "v-", label="of it client and scheduler")
        panel.loglog(at, [local[point.in_memory][0] for point in points], "s-", label="in memory")
        panel.loglog(at, [predict_cpu(models, point) for point in points], "k:", label="cost model")
        panel.set_xticks(at, [EngFormatter(sep="")(value) for value in at])
        panel.set(xlabel=factor, ylabel="CPU seconds", ylim=seconds)
    panels.flat[0].legend(fontsize=7)
    panel = panels.flat[len(series)]
    for name, points in zip(("fitted", "predicted"), split_points(list(found), never), strict=True):
        measured = [found[point].cpu for point in points]
        panel.loglog(measured, [predict_cpu(models, point) for point in points], "o", label=name)
    span = [min(cost.cpu for cost in found.values()), max(cost.cpu for cost in found.values())]
    panel.loglog(span, span, "k-", linewidth=0.8)
    panel.set(xlabel="CPU seconds, measured", ylabel="CPU seconds, cost model")
    panel.legend(fontsize=7)
    panel = panels.flat[len(series) + 1]
    for factor in ("features", "depth", "workers"):
        points = series[factor]
        cells = [point.histogram_cells * point.blocks for point in points]
        panel.loglog(cells, [found[point].traffic / MIB for point in points], "o", label=f"by {factor}")
    panel.set(xlabel="cells of histograms, of all blocks", ylabel="MiB sent")
    panel.legend(fontsize=7)
    for panel in panels.flat:
        panel.grid(alpha=0.25)
        panel.minorticks_off()
        panel.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)
    print(f"wrote {path}")
