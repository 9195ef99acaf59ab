"""Budgets over columns: how many an attacker may change, and how far all changes may go together.

A budget has one definition: `ColumnBudget.allows`, of changes as `measure_changes` has them. Training only knows the
box around what is within a budget; attacks and proofs honour the budget itself.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardwood.threat.group_reach import GroupReach

# Changes that use up a billionth more than the radius are within it: 0.1 + 0.2 is within 0.3.
RADIUS_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class ColumnBudget:
    """How many columns of a row may be changed, and how far together.

    Parameters
    ----------
    max_changes : int or None
        How many columns may be changed; None: any number.
    norm : int
        How changes are measured together: 1 or 2.
    most : ndarray of shape (n_features,) or None
        How far each column can be moved if no other is: the radius in its units. A change of category is a change by 1.
        None: there is no radius.
    free : ndarray of shape (n_features,) or None
        Columns whose changes cost nothing and are not counted; None: there are none.

    Examples
    --------
    >>> from hardwood.threat.column_budget import ColumnBudget
    >>> budget = ColumnBudget(1, 2, np.array([0.5, 0.5]))
    >>> budget.allows(np.array([[0.5, 0.0], [0.1, 0.1]]))
    array([ True, False])
    """

    max_changes: int | None
    norm: int = 2
    most: np.ndarray | None = None
    free: np.ndarray | None = None

    def allows(self, change: np.ndarray) -> np.ndarray:
        """Say of each row whether the budget pays for its changes, as `measure_changes` has them.

        Each change is divided by `most`, in float64, and squared in the L2 norm; a sum up to ``1 + RADIUS_TOLERANCE``
        is within the radius.
        """
        allowed, change = np.ones(len(change), dtype=bool), self.drop_free(change)
        if self.max_changes is not None:
            allowed &= np.count_nonzero(change, axis=1) <= self.max_changes
        if self.most is not None:
            allowed &= self.spend(change) <= 1.0 + RADIUS_TOLERANCE
        return allowed

    def can_change(self, n_features: int) -> np.ndarray:
        """Say of each column whether the budget pays for a change by 1, such as that of a category."""
        if self.max_changes == 0 or self.most is None:
            return np.full(n_features, self.max_changes != 0)
        return self.find_most(np.arange(n_features)) * (1.0 + RADIUS_TOLERANCE) >= 1.0

    def find_most(self, columns: Any) -> Any:
        """Return how far each of some columns, or a single one, can be moved if no other is; infinity for free ones."""
        if self.most is None:
            return np.inf
        return self.most[columns] if self.free is None else np.where(self.free[columns], np.inf, self.most[columns])

    def drop_free(self, change: np.ndarray) -> np.ndarray:
        """Return changes, row by row or of one row, with 0 for those that cost nothing."""
        return change if self.free is None else np.where(self.free, 0.0, change)

    def drop_implied(self, farthest: np.ndarray) -> "ColumnBudget | None":
        """Return the budget without limits that cannot be exceeded by moving each column as far as it can be moved."""
        max_changes, most, farthest = self.max_changes, self.most, self.drop_free(farthest)
        if max_changes is not None and np.count_nonzero(farthest) <= max_changes:
            max_changes = None
        moving = farthest > 0.0
        if most is not None and self.select(moving).spend(farthest[None, moving])[0] <= 1.0:
            most = None
        return None if max_changes is None and most is None else replace(self, max_changes=max_changes, most=most)

    def spend(self, change: np.ndarray) -> np.ndarray:
        """Return which share of the radius, or of its square in the L2 norm, changes that cost something use up."""
        assert self.most is not None
        with np.errstate(over="ignore"):  # what is out of the range of numbers is out of the radius
            used = change / self.most
            return np.asarray((used * used if self.norm == 2 else used).sum(axis=1))

    def select(self, columns: np.ndarray) -> "ColumnBudget":
        """Return the budget for rows of which only these columns can be changed."""
        most, free = (None if array is None else array[columns] for array in (self.most, self.free))
        return replace(self, most=most, free=free)

    def widen(self, n_features: int, features: np.ndarray, filled: np.ndarray) -> "ColumnBudget":
        """Return the budget for rows with a further column for some features, which says whether a value is missing.

        To fill in or to blank a value is a change by 1 of that column; what is filled in is then free.
        """
        free = np.zeros(n_features + len(features), dtype=bool)
        free[filled] = True
        most = None if self.most is None else np.where(free, np.inf, np.append(self.most, self.most[features]))
        return replace(self, most=most, free=free)

    def weigh(self, n_features: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Return what a change of each column counts as, and which share of the radius a change by 1 uses up."""
        paid = np.ones(n_features) if self.free is None else (~self.free).astype(np.float64)
        return paid, None if self.most is None else paid / self.most

    def multiply(self, factor: float) -> "ColumnBudget | None":
        """Return the budget with its radius multiplied by a factor greater than 0; None if no limit is left."""
        most = None if self.most is None or factor == math.inf else self.most * factor
        return None if most is None and self.max_changes is None else replace(self, most=most)


def measure_changes(X: np.ndarray, X_adv: np.ndarray, categorical: tuple[int, ...]) -> np.ndarray:
    """Return how far each value was moved: 1 for another category, and for a value that became missing or known."""
    with np.errstate(over="ignore"):
        change = np.abs(X_adv - X)
    for feature in categorical:
        change[:, feature] = change[:, feature] != 0.0
    is_missing = np.isnan(X), np.isnan(X_adv)
    if is_missing[0].any() or is_missing[1].any():
        change = np.where(is_missing[0] | is_missing[1], is_missing[0] != is_missing[1], change)
    return change


def check_group_units(budget: ColumnBudget, groups: GroupReach) -> None:
    """Refuse units that differ within a one-hot group: a change of it is one change, which has one length."""
    for columns in groups.columns if budget.most is not None else ():
        assert budget.most is not None
        if (budget.most[columns] != budget.most[columns[0]]).any():
            raise ValueError(
                f"units: the columns {columns.tolist()} (counted from 0) are a one-hot group, whose change is one "
                "change; give them the same unit"
            )
