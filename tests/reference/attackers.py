"""An attacker described in plain Python, and every point that it can turn a row into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from hardwood.threat import OneHotGroup, ThreatModel


@dataclass
class Attacker:
    """What an attacker may do to the columns of an array, by their indices; columns that are not named stay.

    A whole number has few values if it can be moved without limit: its domain is said then.
    """

    n_columns: int
    left: dict[int, float] = field(default_factory=dict)
    right: dict[int, float] = field(default_factory=dict)
    whole: list[int] = field(default_factory=list)
    within: dict[int, tuple[float, float]] = field(default_factory=dict)
    groups: list[OneHotGroup] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)  # of ThreatModel, beside
    allows: list[Callable[[np.ndarray, np.ndarray], np.ndarray]] = field(default_factory=list)  # row, points -> bool

    def threat(self) -> ThreatModel:
        """Return the same in the words of a user."""
        pairs = {j: (self.left.get(j, 0.0), self.right.get(j, 0.0)) for j in {*self.left, *self.right}}
        return ThreatModel(
            pairs or None, whole_numbers=self.whole, within=self.within, groups=self.groups or None, **self.options
        )

    def points(self, row: np.ndarray, thresholds: list[np.ndarray]) -> np.ndarray:
        """Return all points: of whole numbers and groups every value, of other numbers the nearest of every cell."""
        grouped = {j for group in self.groups for j in group.columns}
        blocks = [([j], self._values(j, row[j], thresholds[j])) for j in range(self.n_columns) if j not in grouped]
        blocks += [(list(group.columns), _list_states(group, row)) for group in self.groups]
        picks = list(product(*(range(len(states)) for _, states in blocks)))
        points = np.empty((len(picks), self.n_columns))
        for k, (columns, states) in enumerate(blocks):
            points[:, columns] = np.array(states)[[pick[k] for pick in picks]]
        for allow in self.allows:
            points = points[allow(row, points)]
        return points

    def _values(self, j: int, own: float, thresholds: np.ndarray) -> list[list[float]]:
        if np.isnan(own):
            return [[own]]  # what is missing stays missing
        least, most = self.within.get(j, (-np.inf, np.inf))
        low, high = max(own - self.left.get(j, 0.0), least), min(own + self.right.get(j, 0.0), most)
        if j in self.whole:
            edges = np.append(thresholds, own)
            values = np.arange(max(np.ceil(low), np.floor(edges.min()) - 1), min(high, np.ceil(edges.max()) + 1) + 1)
        else:
            values = np.concatenate([[own], thresholds, np.nextafter(thresholds, np.inf)])
        return [[value] for value in np.unique(values[(low <= values) & (values <= high)]).tolist()]

    def distances(self, row: np.ndarray, points: np.ndarray, norm: float) -> np.ndarray:
        """Return how far points are from a row; a changed group is one change by 1."""
        change = np.where(np.isnan(row), 0.0, np.abs(points - row))
        grouped = [j for group in self.groups for j in group.columns]
        parts = [np.delete(change, grouped, axis=1)]
        parts += [change[:, list(group.columns)].max(axis=1, keepdims=True) for group in self.groups]
        change = np.hstack(parts)
        if norm == 0:
            return (change > 0.0).sum(axis=1).astype(float)
        if norm == 2:
            return np.hypot.reduce(change, axis=1)  # squares of very small numbers are 0
        return change.sum(axis=1) if norm == 1 else change.max(axis=1)


def _list_states(group: OneHotGroup, row: np.ndarray) -> list[list[float]]:
    """Return the values that the columns of a group can be given, its own among them."""
    columns = list(group.columns)
    own = tuple(row[columns].tolist())
    labels: list[Any] = [*columns, ""] if group.at_most_one else columns
    states = {label: tuple(float(label == column) for column in columns) for label in labels}
    before = next(label for label, state in states.items() if state == own)
    after = labels if group.may_become == "<>" else (group.may_become or {}).get(before, [])
    return [list(state) for state in sorted({own, *(states[label] for label in after)})]
