"""An attacker described in plain Python: every point that it can turn a row into, and whether it may make a change.

Nothing here reads the arrays of `hardwood.threat`; `Attacker.threat` says the same in a user's words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hardwood.threat import OneHotGroup, ThreatModel

# Says of rows of a matrix whether a relation between their columns holds.
Holds = Callable[[np.ndarray], np.ndarray]


@dataclass
class Attacker:
    """What an attacker may do to the columns of a matrix, by their positions; columns that are not mentioned stay.

    Whole numbers that can be moved without limit have a domain, so that they can be counted.
    """

    n_columns: int
    left: dict[int, float] = field(default_factory=dict)
    right: dict[int, float] = field(default_factory=dict)
    spelled: dict[int, str] = field(default_factory=dict)  # "10%", "0.5 std", "1 iqr" in place of the two
    whole: list[int] = field(default_factory=list)
    within: dict[int, tuple[float, float]] = field(default_factory=dict)
    categories: dict[int, dict[int, list[int]]] = field(default_factory=dict)  # code: the codes it may become
    groups: list[OneHotGroup] = field(default_factory=list)  # by positions
    max_changes: int | None = None
    radius: float | None = None
    norm: int = 2
    units: dict[int, float] = field(default_factory=dict)
    relations: dict[str, Holds] = field(default_factory=dict)
    derived: dict[int, list[float]] = field(default_factory=dict)  # all values that relations leave to such a column
    options: dict[str, Any] = field(default_factory=dict)  # of ThreatModel, beside
    names: list[str] | None = None
    labels: dict[int, list[str]] = field(default_factory=dict)  # of categorical columns

    def threat(self) -> ThreatModel:
        """Return the same in the words of a user."""
        features: dict[Any, Any] = {
            self._name(j): (self.left.get(j, 0.0), self.right.get(j, 0.0)) for j in {*self.left, *self.right}
        }
        features |= {self._name(j): text for j, text in self.spelled.items()}
        for j, moves in self.categories.items():
            label = self.labels[j]
            features[self._name(j)] = {label[a]: [label[b] for b in targets] for a, targets in moves.items()}
        budget: dict[str, Any] = {"max_changes": self.max_changes}
        if self.radius is not None:
            budget |= {"radius": self.radius, "norm": self.norm}
            budget["units"] = {self._name(j): unit for j, unit in self.units.items()} or None
        if self.relations:
            budget["relations"] = list(self.relations)
        return ThreatModel(
            features or None,
            whole_numbers=[self._name(j) for j in self.whole],
            within={self._name(j): pair for j, pair in self.within.items()},
            groups=[self._name_group(group) for group in self.groups] or None,
            **budget,
            **self.options,
        )

    def _name(self, j: int) -> Any:
        return j if self.names is None else self.names[j]

    def _name_group(self, group: OneHotGroup) -> OneHotGroup:
        relation = group.may_become
        if isinstance(relation, dict):
            spell = {**{j: self._name(j) for j in range(self.n_columns)}, "": ""}
            relation = {spell[a]: [spell[b] for b in targets] for a, targets in relation.items()}
        return OneHotGroup([self._name(int(j)) for j in group.columns], group.at_most_one, relation)

    def points(self, row: np.ndarray, thresholds: list[np.ndarray], table: np.ndarray | None = None) -> np.ndarray:
        """Return all points: of whole numbers, categories and groups every value, of others the nearest of each cell.

        table : the rows that are asked about, by which spreads are measured.
        """
        grouped = {j for group in self.groups for j in group.columns}
        blocks = [
            ([j], self._list_values(j, row[j], thresholds[j], table)) for j in range(self.n_columns) if j not in grouped
        ]
        blocks += [(list(group.columns), _list_states(group, row)) for group in self.groups]
        sizes = [len(states) for _, states in blocks]
        picks = np.unravel_index(np.arange(int(np.prod(sizes))), sizes)
        points = np.empty((len(picks[0]), self.n_columns))
        for (columns, states), pick in zip(blocks, picks, strict=True):
            points[:, columns] = np.array(states)[pick]
        return points[self.affords(row, points) & self.relate(points)]

    def _find_sides(self, j: int, own: float, table: np.ndarray | None) -> tuple[float, float]:
        if j not in self.spelled:
            return self.left.get(j, 0.0), self.right.get(j, 0.0)
        text = self.spelled[j]
        if text.endswith("%"):
            both = float(text[:-1]) / 100.0 * abs(own)
        else:
            assert table is not None
            number, unit = text.split()
            low, high = np.quantile(table[:, j], [0.25, 0.75])
            both = float(number) * float(np.std(table[:, j]) if unit == "std" else high - low)
        return both, both

    def _list_values(self, j: int, own: float, thresholds: np.ndarray, table: np.ndarray | None) -> list[list[float]]:
        if np.isnan(own):
            return [[own]]  # what is missing stays missing
        if j in self.categories:
            return [[float(code)] for code in sorted({int(own), *self.categories[j].get(int(own), [])})]
        least, most = self.within.get(j, (-np.inf, np.inf))
        left, right = self._find_sides(j, own, table)
        low, high = max(own - left, least), min(own + right, most)
        if j in self.whole:
            # Distances so little below a whole number count as that number.
            low, high = max(own - np.floor(left + 1e-9), least), min(own + np.floor(right + 1e-9), most)
            edges = np.append(thresholds, own)
            last = min(high, np.ceil(edges.max()) + 1.0) if np.isinf(high) else high
            first = max(low, np.floor(edges.min()) - 1.0) if np.isinf(low) else low
            return [[value] for value in np.arange(np.ceil(first), np.floor(last) + 1.0).tolist()]
        values = np.concatenate([[own], thresholds, np.nextafter(thresholds, np.inf), self.derived.get(j, [])])
        return [[value] for value in np.unique(values[(low <= values) & (values <= high)]).tolist()]

    def measure_changes(self, row: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Return how far each column was moved, by 1 for a category; then a column per group, 1 if it was changed."""
        change = np.where(np.isnan(row), 0.0, np.abs(points - row))
        for j in self.categories:
            change[:, j] = change[:, j] != 0.0
        grouped = [j for group in self.groups for j in group.columns]
        parts = [change[:, list(group.columns)].max(axis=1, keepdims=True) for group in self.groups]
        change[:, grouped] = 0.0
        return np.hstack([change, *parts])

    def affords(self, row: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Say of points whether the number of changes and their length together are within the budget."""
        change = self.measure_changes(row, points)
        fits = np.ones(len(points), dtype=bool)
        if self.max_changes is not None:
            fits &= (change > 0.0).sum(axis=1) <= self.max_changes
        if self.radius is not None:
            unit = np.array([self.units.get(j, 1.0) for j in range(self.n_columns)])
            unit = np.append(unit, [self.units.get(int(group.columns[0]), 1.0) for group in self.groups])
            fits &= ((change / unit) ** self.norm).sum(axis=1) <= self.radius**self.norm * (1.0 + 1e-9)
        return fits

    def relate(self, points: np.ndarray) -> np.ndarray:
        """Say of points whether every relation holds."""
        return np.all([holds(points) for holds in self.relations.values()] or [np.ones(len(points), bool)], axis=0)

    def permits(self, row: np.ndarray, point: np.ndarray, table: np.ndarray | None = None) -> bool:
        """Say whether a row may be turned into a point that need not be one of `points`."""
        grouped = {j for group in self.groups for j in group.columns}
        for j in range(self.n_columns):
            own, value = row[j], point[j]
            if j in grouped or own == value or (np.isnan(own) and np.isnan(value)):
                continue
            if j in self.categories or j in self.whole:
                if [value] not in self._list_values(j, own, np.array([value]), table):
                    return False
                continue
            left, right = self._find_sides(j, own, table)
            least, most = self.within.get(j, (-np.inf, np.inf))
            if not max(own - left, least) <= value <= min(own + right, most):
                return False
        for group in self.groups:
            if point[list(group.columns)].tolist() not in _list_states(group, row):
                return False
        return bool(self.affords(row, point[None])[0] and self.relate(point[None])[0])

    def distances(self, row: np.ndarray, points: np.ndarray, norm: float) -> np.ndarray:
        """Return how far points are from a row; a changed category or group is one change by 1."""
        change = self.measure_changes(row, points)
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
