"""Reach: what an attacker may do to the rows of one table, as arrays. The one definition that everything else uses."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from hardwood.threat.column_budget import ColumnBudget, check_group_units, measure_changes
from hardwood.threat.group_reach import GroupReach
from hardwood.threat.placed_relations import PlacedRelations

# Distances so little below a whole number count as that number: 4.35 * 100 is 434.99999999999994.
WHOLE_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Reach:
    """What an attacker may do to the rows of one table, as read-only arrays.

    Parameters
    ----------
    left, right : ndarray of shape (n_features,)
        How far a value can be moved down and up; 0 where it is fixed or categorical.
    categories : tuple
        Per feature None (numerical) or a bool matrix of shape (c + 1, c + 1) for its c labels:
        ``[a, b]`` says that category ``a`` may become ``b``. The last row and column stand for
        the categories that are not in the schema; the diagonal is true.
    attacks : ndarray of shape (n_classes,)
        Which classes attack. A single True where there is no class information.
    whole : ndarray of shape (n_features,) or None
        Which features hold whole numbers only; `left` and `right` are whole there. None: none.
    within : ndarray of shape (2, n_features) or None
        The smallest and the largest value of each feature that exists; whole where the feature is. None: all do.
    share : ndarray of shape (2, n_features) or None
        How much further a value can be moved down and up: this share of its own absolute value. None: not at all.
    groups : GroupReach or None
        One-hot groups; None: none. What the other arrays say of their columns, whole numbers within 0 and 1 that can be
        moved by 1, is true of every move, but not every such move can be made: `box` encloses what `contains` has
        exactly.
    blank : ndarray of shape (n_features,) or None
        In which features a value can be made missing. None: in none.
    fill : ndarray of shape (n_features,) or None
        In which features a missing value can be given any value that exists: any number within `within`, whole where
        the feature is, or any known category. None: in none.
    budget : ColumnBudget or None
        How many features may be changed, and how far together. `left`, `right` and `categories` say what can be done to
        each on its own. None: each is changed whatever becomes of the others.
    relations : PlacedRelations or None
        What holds between features, and has to hold after a move. The box knows nothing of it. None: nothing.
    targets : ndarray of shape (n_classes, n_classes) or None
        Which classes the rows of each class want to be given. None: any other than their own.

    Examples
    --------
    >>> from hardwood import ThreatModel
    >>> from hardwood.table import Schema
    >>> reach = ThreatModel([0.5, ">"]).resolve(Schema.numeric(2), ["ham", "spam"])
    >>> reach.left, reach.right, reach.attacks
    (array([0.5, 0. ]), array([0.5, inf]), array([ True,  True]))
    """

    left: np.ndarray
    right: np.ndarray
    categories: tuple[np.ndarray | None, ...]
    attacks: np.ndarray
    whole: np.ndarray | None = None
    within: np.ndarray | None = None
    share: np.ndarray | None = None
    groups: GroupReach | None = None
    blank: np.ndarray | None = None
    fill: np.ndarray | None = None
    budget: ColumnBudget | None = None
    relations: PlacedRelations | None = None
    targets: np.ndarray | None = None
    _all_attack: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name, dtype in (("left", np.float64), ("right", np.float64), ("attacks", np.bool_)):
            object.__setattr__(self, name, _read_only(getattr(self, name), dtype))
        optional: dict[str, Any] = {
            "whole": np.bool_,
            "within": np.float64,
            "share": np.float64,
            "blank": np.bool_,
            "fill": np.bool_,
            "targets": np.bool_,
        }
        for name, dtype in optional.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _read_only(getattr(self, name), dtype))
        if self.categorical:
            matrices = (None if m is None else _read_only(m, np.bool_) for m in self.categories)
            object.__setattr__(self, "categories", tuple(matrices))
        object.__setattr__(self, "_all_attack", bool(self.attacks.all()))

    @property
    def is_empty(self) -> bool:
        """Whether no row can be changed at all."""
        off_diagonal = (m.sum() > len(m) for m in self.categories if m is not None)
        hides = (flags.any() for flags in (self.blank, self.fill) if flags is not None)
        movable = self.left.any() or self.right.any() or self.share is not None or any(off_diagonal) or any(hides)
        return not (movable and self.attacks.any())

    @cached_property
    def categorical(self) -> tuple[int, ...]:
        """The positions of the categorical features."""
        if set(map(type, self.categories)) == {type(None)}:  # faster than one by one
            return ()
        return tuple(j for j, matrix in enumerate(self.categories) if matrix is not None)

    def under(self, budget: ColumnBudget | None) -> "Reach":
        """Return what an attacker may do who has a budget over columns besides."""
        if budget is None:
            return self
        can_change = budget.can_change(len(self.left))
        groups = self.groups
        if groups is not None:
            check_group_units(budget, groups)
            groups = groups.fix(can_change[groups.first])
        categories = tuple(
            table if table is None or can_change[j] else np.eye(len(table), dtype=bool)
            for j, table in enumerate(self.categories)
        )
        most = budget.find_most(slice(None))
        left, right = np.minimum(self.left, most), np.minimum(self.right, most)
        share, blank, fill = self.share, self.blank, self.fill
        if budget.max_changes == 0:
            left, right, share, blank, fill = np.zeros_like(left), np.zeros_like(right), None, None, None
        if self.whole is not None:
            left, right = round_distances(left, self.whole), round_distances(right, self.whole)
        limited = replace(
            self, left=left, right=right, categories=categories, share=share, groups=groups, blank=blank, fill=fill
        )
        return replace(limited, budget=budget.drop_implied(limited._find_farthest()))

    def _find_farthest(self) -> np.ndarray:
        """Return how far each column can be moved at most; 1 for categories, and for the first column of a group."""
        farthest = np.maximum(self.left, self.right)
        if self.share is not None:
            farthest = np.where(self.share.any(axis=0), np.inf, farthest)
        for j in self.categorical:
            table = self.categories[j]
            assert table is not None
            farthest[j] = float(table.sum() > len(table))
        for hidden in (self.blank, self.fill):
            if hidden is not None:
                farthest[hidden] = np.maximum(farthest[hidden], 1.0)
        if self.groups is not None:
            farthest[self.groups.grouped] = 0.0
            farthest[self.groups.first] = [float(allowed.sum() > len(allowed)) for allowed in self.groups.allowed]
        return farthest

    def select(self, columns: np.ndarray) -> "Reach":
        """Return what an attacker may do to some columns; of a group that is not among them whole, only its box.

        Relations with other columns are left out.
        """
        return replace(
            self,
            left=self.left[columns],
            right=self.right[columns],
            categories=tuple(map(self.categories.__getitem__, columns.tolist())),
            whole=None if self.whole is None else self.whole[columns],
            within=None if self.within is None else self.within[:, columns],
            share=None if self.share is None else self.share[:, columns],
            groups=None if self.groups is None else self.groups.select(columns),
            blank=None if self.blank is None else self.blank[columns],
            fill=None if self.fill is None else self.fill[columns],
            budget=None if self.budget is None else self.budget.select(columns),
            relations=None if self.relations is None else self.relations.select(columns),
        )

    def multiply(self, factor: float) -> "Reach":
        """Return what an attacker may do whose distances are multiplied by a factor."""
        ends = (self.left * factor, self.right * factor)
        if self.whole is not None:
            ends = round_distances(ends[0], self.whole), round_distances(ends[1], self.whole)
        share = None if self.share is None else self.share * factor
        budget = None if self.budget is None else self.budget.multiply(factor)
        return replace(self, left=ends[0], right=ends[1], share=share, budget=budget)

    def widen(self, X: np.ndarray) -> "Reach":
        """Return what an attacker may do who moves every value as far as the farthest of a table: without shares."""
        if self.share is None:
            return self
        left, right = self._find_distances(np.nanmax(np.abs(X), axis=0, initial=0.0), slice(None))
        return replace(self, left=left, right=right, share=None)

    def box(
        self, X: np.ndarray, class_index: np.ndarray | None, out: tuple[np.ndarray, np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the lowest and the highest value that each number can be moved to.

        These two numbers, rounded to float64 as they are here, are the definition of reach: ``x``
        can be moved to every ``v`` with ``lo <= v <= hi``, of whole numbers to every whole one, and to
        nothing else; the columns of a one-hot group to some of these, and with a budget over columns
        several at once only as far as it goes, as `contains` says. A missing value, a
        number or a category, stays missing unless it can be filled in (`fill`), and a feature of which values
        can be made missing (`blank`) has that one more: the box says nothing about either.

        Parameters
        ----------
        X : ndarray of shape (n_rows, n_features)
            A float64 matrix, as `Schema.encode` returns it.
        class_index : ndarray of shape (n_rows,), or None
            The position of each row's class among the classes. None: every row moves.
        out : two arrays of the shape of X, or None
            Room for both ends, so that none has to be allocated for every few rows.

        Returns
        -------
        lo, hi : ndarray of shape (n_rows, n_features)
            Both equal to `X` in categorical columns and in rows of classes that do not attack, and
            NaN where `X` is.

        Examples
        --------
        >>> from hardwood import ThreatModel
        >>> from hardwood.table import Schema
        >>> reach = ThreatModel(0.5, attacking_classes=1).resolve(Schema.numeric(1), [0, 1])
        >>> lo, hi = reach.box(np.array([[2.0], [2.0]]), np.array([0, 1]))
        >>> lo.ravel(), hi.ravel()
        (array([2. , 1.5]), array([2. , 2.5]))
        """
        lo, hi = self.interval(X, out=out)
        if class_index is not None and not self._all_attack:
            still = ~self.attacks[class_index]
            lo[still] = hi[still] = X[still]
        return lo, hi

    def interval(
        self, values: np.ndarray, feature: int | None = None, out: tuple[np.ndarray, np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return both ends of the reach of rows that move: of a whole matrix, or of one column of it."""
        left, right = self._find_distances(values, slice(None) if feature is None else feature)
        low, high = (None, None) if out is None else out
        with np.errstate(over="ignore"):  # past the largest float64 lies infinity, as it should
            low, high = np.subtract(values, left, out=low), np.add(values, right, out=high)
        if self.within is None:
            return low, high
        least, most = self.within if feature is None else self.within[:, feature]
        return np.minimum(values, np.maximum(low, least)), np.maximum(values, np.minimum(high, most))

    def _find_distances(self, values: np.ndarray, feature: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return how far values can be moved to either side."""
        left, right = self.left[feature], self.right[feature]
        if self.share is None:
            return left, right
        size = np.abs(values)
        with np.errstate(over="ignore"):
            left, right = (side + part[feature] * size for side, part in zip((left, right), self.share, strict=True))
        if self.budget is not None:
            most = self.budget.find_most(feature)
            left, right = np.minimum(left, most), np.minimum(right, most)
        if self.whole is None:
            return left, right
        return round_distances(left, self.whole[feature]), round_distances(right, self.whole[feature])

    def contains(self, X: np.ndarray, X_adv: np.ndarray, class_index: np.ndarray) -> np.ndarray:
        """Say of each row of a matrix whether it can be turned into the same row of `X_adv`."""
        inside = self._contains_each(X, X_adv, class_index)
        if self.relations is not None:
            inside &= self.relations.are_kept(X, X_adv)
        return inside if self.budget is None else inside & self.affords(X, X_adv)

    def wants(self, class_index: np.ndarray, given: np.ndarray) -> np.ndarray:
        """Say of rows whether a class that they are given is what the attacker wants for them."""
        return np.asarray(given != class_index if self.targets is None else self.targets[class_index, given])

    def affords(self, X: np.ndarray, X_adv: np.ndarray) -> np.ndarray:
        """Say of each row whether the budget over columns, if there is one, pays for all of its changes together."""
        if self.budget is None:
            return np.ones(len(X), dtype=bool)
        change = measure_changes(X, X_adv, self.categorical)
        if self.groups is not None:
            self.groups.count_once(change)
        return self.budget.allows(change)

    def _contains_each(self, X: np.ndarray, X_adv: np.ndarray, class_index: np.ndarray) -> np.ndarray:
        """Say the same of an attacker who has no budget and knows no relations: of each value by itself."""
        lo, hi = self.box(X, class_index)
        inside = (lo <= X_adv) & (X_adv <= hi)
        if self.whole is not None:
            inside &= ~self.whole | (X_adv == np.floor(X_adv))
        if not self.categorical and inside.all():  # the rule, and nothing is missing: comparisons with NaN are false
            return inside[:, 0] if self.groups is None else self.groups.contains(X, X_adv, self.attacks[class_index])
        is_missing = np.isnan(X), np.isnan(X_adv)
        inside |= is_missing[0] & is_missing[1]
        is_known = ~(is_missing[0] | is_missing[1])
        for j in self.categorical:
            allowed, row = self.categories[j], np.flatnonzero(is_known[:, j])
            assert allowed is not None
            a, b = X[row, j].astype(np.intp), X_adv[row, j].astype(np.intp)
            inside[row, j] = np.where(self.attacks[class_index[row]], allowed[a, b], a == b)
        moves = self.attacks[class_index][:, None]
        if self.blank is not None:
            inside |= moves & self.blank & ~is_missing[0] & is_missing[1]
        if self.fill is not None:
            inside |= moves & self.fill & is_missing[0] & self._exists(X_adv)
        contained = inside.all(axis=1)
        if self.groups is not None:
            contained &= self.groups.contains(X, X_adv, moves[:, 0])
        return np.asarray(contained)

    def _exists(self, X: np.ndarray) -> np.ndarray:
        """Say of each value whether a missing one can be given it: a number of the domain, or a known category."""
        exists = np.isfinite(X)
        if self.whole is not None:
            exists &= ~self.whole | (np.floor(X) == X)
        if self.within is not None:
            exists &= (self.within[0] <= X) & (self.within[1] >= X)
        for j in self.categorical:
            allowed = self.categories[j]
            assert allowed is not None
            exists[:, j] = (X[:, j] >= 0.0) & (X[:, j] < len(allowed) - 1)
        return exists

    def open_codes(self, X: np.ndarray, class_index: np.ndarray) -> np.ndarray:
        """Say of each row which categories it can be given: a column per category of every categorical feature.

        What is said of a category that is missing means nothing.
        """
        if not self.categorical:
            return np.empty((len(X), 0), dtype=bool)
        columns = []
        for own, j in zip(read_codes(X[:, self.categorical]).T, self.categorical, strict=True):
            allowed = self.categories[j]
            assert allowed is not None
            codes = allowed[own]
            if not self._all_attack:
                stay = np.eye(len(allowed), dtype=bool)[own]
                codes = np.where(self.attacks[class_index][:, None], codes, stay)
            columns.append(codes)
        return np.concatenate(columns, axis=1)

    def pack_categories(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the category matrices for kernels: all in a row, where each starts, and its size (0 = numerical)."""
        matrices = [np.empty((0, 0), dtype=bool) if m is None else m for m in self.categories]
        count = np.array([len(m) for m in matrices], dtype=np.int64)
        return np.concatenate([m.ravel() for m in matrices]), np.cumsum(count**2) - count**2, count


def read_codes(values: np.ndarray) -> np.ndarray:
    """Return the codes of categorical columns as integers; 0 where one is missing."""
    return np.where(np.isnan(values), 0.0, values).astype(np.intp)


def round_distances(distance: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Return how far whole numbers can be moved: down to a whole number, but 2.9999999999 is 3."""
    return np.where(whole, np.floor(distance + WHOLE_TOLERANCE), distance)


def _read_only(array: Any, dtype: Any) -> np.ndarray:
    copied = np.array(array, dtype=dtype, order="C")
    copied.setflags(write=False)
    return copied
