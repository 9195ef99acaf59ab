"""A cost model of the fit of one tree over Dask: seconds, bytes sent and bytes held, as sums of a few terms.

A term is a number of things, known before the fit, times what one of them costs. What one costs is fitted to part of
the measurements, by least squares of the relative errors, never below nothing; the model is judged by the rest.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import nnls

from hardwood.grow.blocks import FAN

FITTED_CELLS = 10_000_000  # no larger table is fitted
SAMPLE_ROWS = 50_000  # behind the thresholds
COUNT_BYTES = 8  # of a cell of a histogram
TASKS_PER_STEP = 2  # of a block: do the step, hand on its counts


@dataclass(frozen=True)
class Point:
    """One fit of a tree: the size of the table, of the tree and of the cluster."""

    rows: int
    features: int
    depth: int
    bins: int
    workers: int
    partitions: int

    @property
    def in_memory(self) -> "Point":
        """The same fit in one process."""
        return replace(self, workers=1, partitions=1)

    @property
    def cells(self) -> int:
        """Numbers in the table."""
        return self.rows * self.features

    @property
    def blocks(self) -> int:
        """The partitions on a worker are one block; workers have one thread."""
        return min(self.workers, self.partitions)

    @property
    def histogram_cells(self) -> int:
        """Cells of all histograms that a block counts: of the root, and of the smaller of every two children.

        A feature that can move has two codes, its lowest and its highest bin.
        """
        return 2 ** (self.depth - 1) * 2 * self.features * self.bins

    @property
    def tasks(self) -> int:
        """Tasks of all partitions and of all levels: those of blocks, and those that add up."""
        return self.partitions + self.depth * (TASKS_PER_STEP * self.blocks + count_merges(self.blocks))


def count_merges(handles: int) -> int:
    """Return how many tasks add up so many counts (`hardwood.grow.blocks.merge_all`)."""
    merges = 0
    while handles > 1:
        groups, left = divmod(handles, FAN)
        merges += groups + (left > 1)
        handles = groups + (left > 0)
    return merges


Terms = Mapping[str, Callable[[Point], float]]

# Of all workers together.
WORKER_CPU: Terms = {
    "s per cell, to read and to code it": lambda p: p.cells,
    "s per cell and level, to count it": lambda p: p.cells * p.depth,
    "s per row and level, to move it": lambda p: p.rows * p.depth,
    "s per cell of a histogram, to count, add and send it": lambda p: p.histogram_cells * p.blocks,
    "s per task": lambda p: p.tasks,
}
# Of the client and the scheduler, one process here.
CLIENT_CPU: Terms = {
    "s per value of the sample, to find thresholds": lambda p: min(p.rows, SAMPLE_ROWS) * p.features,
    "s per cell of a histogram, to receive and to search it": lambda p: p.histogram_cells,
    "s per task": lambda p: p.tasks,
    "s per fit": lambda p: 1,
}
TRAFFIC: Terms = {
    "bytes per value of the sample": lambda p: min(p.rows, SAMPLE_ROWS) * p.features,
    "bytes per cell of a histogram and block": lambda p: p.histogram_cells * p.blocks,
    "bytes per task": lambda p: p.tasks,
}
# Of one worker, beyond the rows it was given.
WORKER_MEMORY: Terms = {
    "bytes per cell": lambda p: p.cells / p.workers,
    "bytes per row": lambda p: p.rows / p.workers,
    "bytes per cell of the last level's histograms": lambda p: p.histogram_cells / 2,
    "bytes per worker": lambda p: 1,
}


@dataclass(frozen=True)
class Model:
    """Terms, and what one unit of each costs."""

    terms: Terms
    unit_costs: tuple[float, ...]

    def predict(self, point: Point) -> float:
        """Return what a fit costs."""
        return sum(cost * count(point) for cost, count in zip(self.unit_costs, self.terms.values(), strict=True))


def fit_model(terms: Terms, points: Sequence[Point], measured: Sequence[float]) -> Model:
    """Fit what one unit of every term costs, so that the sum of squares of the relative errors is least."""
    counts = np.array([[count(point) for count in terms.values()] for point in points], dtype=float)
    relative = counts / np.asarray(measured, dtype=float)[:, None]
    scale = relative.max(axis=0)
    unit_costs, _ = nnls(relative / scale, np.ones(len(points)))
    return Model(terms, tuple(float(cost) for cost in unit_costs / scale))


def split_points(points: Sequence[Point], never: Sequence[Point]) -> tuple[list[Point], list[Point]]:
    """Return the points that models are fitted to, a random half of the smaller tables, and all others."""
    small = [point for point in points if point.cells <= FITTED_CELLS and point not in never]
    random.Random(0).shuffle(small)
    fitted = small[: len(small) // 2]
    return fitted, [point for point in points if point not in fitted]


def wall_seconds(point: Point, worker_cpu: float, client_cpu: float, *, per_level: float, bandwidth: float) -> float:
    """Return the wall time of a fit on a cluster whose machines each send and receive `bandwidth` bytes a second.

    Blocks work side by side, the client does not; counts are added up FAN at a time, one round after another, and each
    round fetches FAN - 1 of them at most; the client fetches the sum.
    """
    rounds = math.ceil(math.log(point.blocks, FAN)) if point.blocks > 1 else 0
    fetched = rounds * (min(FAN, point.blocks) - 1) + 1
    moving = fetched * point.histogram_cells * COUNT_BYTES / bandwidth
    return worker_cpu / point.workers + client_cpu + moving + per_level * point.depth
