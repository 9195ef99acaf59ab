"""Distances of one point from one row, over all columns or some, as `distance.measure` has them."""

import math
from typing import NamedTuple

import numpy as np


class Metric(NamedTuple):
    """A norm and what a unit of change costs in each column.

    A changed category is a change by 1; so are a value that was blanked or filled in, and a one-hot group that changed.
    """

    norm: float
    weight: np.ndarray
    categorical: tuple[int, ...] = ()
    groups: tuple[np.ndarray, ...] = ()

    @property
    def share(self) -> np.ndarray:
        """What a unit of change costs, where a changed group is a change of two columns: no less if it is of one."""
        share = self.weight.copy()
        for columns in self.groups:
            share[columns] *= {np.inf: 1.0, 2: math.sqrt(0.5)}.get(self.norm, 0.5)
        return share

    def measure(self, point: np.ndarray, row: np.ndarray, columns: np.ndarray | None = None) -> float:
        """Return the distance of a point from a row, in some columns."""
        with np.errstate(over="ignore"):
            change = np.abs(point - row)
        categorical = list(self.categorical)
        change[categorical] = change[categorical] != 0.0
        is_missing = np.isnan(row), np.isnan(point)
        change[is_missing[0] | is_missing[1]] = 0.0
        change[is_missing[0] != is_missing[1]] = 1.0
        if self.norm == 0:
            change = (change != 0.0).astype(np.float64)
        for group in self.groups:
            change[group[0]] = change[group].any()
            change[group[1:]] = 0.0
        cost = self.weight * change if columns is None else (self.weight * change)[columns]
        if self.norm == np.inf:
            return float(cost.max(initial=0.0))
        return math.hypot(*cost.tolist()) if self.norm == 2 else float(cost.sum())  # whose squares are no numbers, too

    def split_groups(self) -> "Metric":
        """Return the metric by which each column of a group counts by itself: distances are no greater."""
        return self._replace(weight=self.share, groups=()) if self.groups else self

    def add(self, a: float, b: float) -> float:
        """Return the distance of changes in some columns and others."""
        return max(a, b) if self.norm == np.inf else math.hypot(a, b) if self.norm == 2 else a + b
