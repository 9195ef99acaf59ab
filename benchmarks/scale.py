"""Measure how a fit over Dask grows: CPU and wall time, memory and traffic, by rows, features, depth, bins and workers.

One factor at a time is varied around a centre; every fit is repeated, and the least CPU time kept. The same fits in
memory stand beside them. A cost model (scale_model.py) is fitted to a random half of the smaller tables, predicts all
the others, and is carried on to a billion rows on a hundred workers (scale_report.py).
"""

import argparse
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from dask.distributed import Client

from clusters import LEAST_MEMORY, Cost, cluster_of, dask_table, least, measure_call, numpy_table, settle_memory
from hardwood import RobustBoostingClassifier, RobustForestClassifier, RobustTreeClassifier
from hardwood.dask import DaskRobustBoostingClassifier, DaskRobustForestClassifier, DaskRobustTreeClassifier
from measure import RESULTS, write_csv
from memory import peak_resident_bytes
from scale_model import FITTED_CELLS, Point
from scale_report import judge_models, plot, print_ensembles, print_exponents, print_extrapolation, print_measured

EPSILON = 0.02
CENTRE = Point(rows=1_000_000, features=10, depth=8, bins=255, workers=2, partitions=2)
FACTORS: dict[str, tuple[int, ...]] = {
    "rows": (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000),
    "features": (1, 3, 10, 30, 100),
    "depth": (2, 4, 6, 8, 10, 12),
    "bins": (15, 31, 63, 127, 255),
    "workers": (1, 2, 4),
    "partitions": (2, 4, 8, 16),
}
# Away from the centre in several factors at once: predicted, never fitted.
ELSEWHERE = (
    Point(rows=50_000, features=40, depth=6, bins=127, workers=2, partitions=2),
    Point(rows=200_000, features=5, depth=10, bins=63, workers=2, partitions=6),
    Point(rows=200_000, features=20, depth=4, bins=255, workers=4, partitions=4),
    Point(rows=2_000_000, features=4, depth=6, bins=31, workers=4, partitions=8),
    Point(rows=2_000_000, features=20, depth=10, bins=255, workers=2, partitions=2),
    Point(rows=4_000_000, features=10, depth=8, bins=255, workers=1, partitions=1),
    Point(rows=4_000_000, features=10, depth=8, bins=255, workers=4, partitions=4),
)
ENSEMBLE_ROWS, N_TREES = (100_000, 300_000, 1_000_000), 10


class Kind(NamedTuple):
    """A kind of model: its estimator in memory, and its twin over Dask."""

    local: Callable[..., Any]
    over_dask: Callable[..., Any]


TREE = Kind(partial(RobustTreeClassifier, n_jobs=1), DaskRobustTreeClassifier)
ENSEMBLES = {
    f"forest of {N_TREES}": Kind(
        partial(RobustForestClassifier, n_estimators=N_TREES, random_state=0, n_jobs=1),
        partial(DaskRobustForestClassifier, n_estimators=N_TREES, random_state=0),
    ),
    f"boosting, {N_TREES} rounds": Kind(
        partial(RobustBoostingClassifier, n_estimators=N_TREES, n_jobs=1),
        partial(DaskRobustBoostingClassifier, n_estimators=N_TREES),
    ),
}


def points_of(factor: str, most_cells: int) -> list[Point]:
    """Return the points at which one factor is varied; a worker has one partition unless these are varied."""
    points = [replace(CENTRE, **{factor: value}) for value in FACTORS[factor]]
    if factor == "workers":
        points = [replace(point, partitions=point.workers) for point in points]
    return [point for point in points if point.cells <= most_cells]


def repeats_at(point: Point, repeats: int) -> int:
    """Return how often to fit: short fits vary more."""
    if point.cells <= 1_000_000:
        return repeats + 2
    return repeats if point.cells <= FITTED_CELLS else max(1, repeats - 1)


def options_at(point: Point) -> dict[str, Any]:
    """Return the parameters of a model."""
    return {"threat": EPSILON, "max_depth": point.depth, "max_bins": point.bins}


def measure_local(kind: Kind, points: Sequence[Point], repeats: int) -> dict[Point, tuple[float, int]]:
    """Return the CPU seconds of fits in this process and the bytes they need beyond the table."""

    def table(point: Point) -> tuple[int, int]:
        return point.rows, point.features

    kind.local(**options_at(CENTRE)).fit(*numpy_table(2_000, CENTRE.features, 1))
    found = {}
    for size, same in groupby(sorted({point.in_memory for point in points}, key=table), key=table):
        X, y = numpy_table(*size, 1)
        for point in same:
            costs = []
            for _ in range(repeats_at(point, repeats)):
                model = kind.local(**options_at(point))
                settle_memory()
                held, start = peak_resident_bytes(), time.process_time()
                model.fit(X, y)
                costs.append((time.process_time() - start, peak_resident_bytes() - held))
            found[point] = min(cost[0] for cost in costs), max(LEAST_MEMORY, *(cost[1] for cost in costs))
            print(f"  in memory, {point}: {found[point][0]:.2f} s CPU", flush=True)
    return found


def measure_over_dask(client: Client, kind: Kind, points: Sequence[Point], repeats: int) -> dict[Point, Cost]:
    """Return what fits cost on one cluster; the workers hold the table before a fit."""

    def table(point: Point) -> tuple[int, int, int]:
        return point.rows, point.features, point.partitions

    workers = len(client.scheduler_info()["workers"])
    kind.over_dask(**options_at(CENTRE), client=client).fit(*dask_table(client, 2_000, CENTRE.features, workers))
    found = {}
    for size, same in groupby(sorted(set(points), key=table), key=table):
        X, y = dask_table(client, *size)
        for point in same:
            costs = []
            for _ in range(repeats_at(point, repeats)):
                model = kind.over_dask(**options_at(point), client=client)
                costs.append(measure_call(client, partial(model.fit, X, y))[1])
            found[point] = least(costs)
            print(f"  over Dask, {point}: {found[point].cpu:.2f} s CPU", flush=True)
        del X, y
    return found


def measure_trees(points: Sequence[Point], repeats: int) -> dict[Point, Cost]:
    """Measure trees over Dask, one cluster after another."""
    found: dict[Point, Cost] = {}
    for workers in sorted({point.workers for point in points}):
        with cluster_of(workers) as client:
            mine = [point for point in points if point.workers == workers]
            found |= measure_over_dask(client, TREE, mine, repeats)
    return {point: found[point] for point in points}


def measure_ensembles(repeats: int) -> list[dict[str, Any]]:
    """Measure forests and boosting, in memory and over Dask."""
    points = [replace(CENTRE, rows=rows) for rows in ENSEMBLE_ROWS]
    records = []
    for name, kind in ENSEMBLES.items():
        local = measure_local(kind, points, repeats)
        with cluster_of(CENTRE.workers) as client:
            found = measure_over_dask(client, kind, points, repeats)
        for point, cost in found.items():
            figures = asdict(cost) | {"cpu": cost.cpu, "local_cpu": local[point.in_memory][0]}
            records.append({"model": name, "rows": point.rows} | figures)
    return records


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repeats, up to 1e7 cells, trees only: some minutes")
    parser.add_argument("--repeats", type=int, default=3, help="of a fit on 1e6 to 1e7 cells")
    parser.add_argument("--figure", type=Path, default=RESULTS / "scale.png", help="where to draw")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    most_cells, repeats = (FITTED_CELLS, 1) if arguments.quick else (100_000_000, arguments.repeats)
    series = {factor: points_of(factor, most_cells) for factor in FACTORS}
    points = dict.fromkeys(point for varied in series.values() for point in varied)
    points |= dict.fromkeys(point for point in ELSEWHERE if point.cells <= most_cells)
    start = time.perf_counter()
    print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} before")
    local = measure_local(TREE, list(points), repeats)
    found = measure_trees(list(points), repeats)
    records = print_measured(found, local)
    print_exponents(series, found, local)
    models = judge_models(found, ELSEWHERE)
    print_extrapolation(models, found, ELSEWHERE)
    write_csv(RESULTS / "scale.csv", records)
    plot(series, found, local, models, ELSEWHERE, arguments.figure)
    if not arguments.quick:
        ensembles = measure_ensembles(repeats)
        print_ensembles(ensembles)
        write_csv(RESULTS / "scale_ensembles.csv", ensembles)
    print(f"\n{time.perf_counter() - start:.0f} s in all, load average {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()
