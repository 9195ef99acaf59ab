"""What has to be known of all rows before one can be coded: found by tasks where the rows are, and merged."""

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from hardwood.dask.tables import Part, say_where
from hardwood.rows.columns import ColumnFindings, find_columns
from hardwood.rows.targets import index_two, read_column, read_numbers, refuse_infinite
from hardwood.table.columns import check_classes
from hardwood.weights import WeightRange, measure_weights, read_weights


@dataclass(frozen=True)
class Findings:
    """What was found in some partitions."""

    columns: ColumnFindings
    classes: np.ndarray | None  # the labels, sorted; None: the target is numbers
    n_rows: np.ndarray  # int64: the rows of each class; of all where there are no classes
    weights: WeightRange  # of those of them that weigh something
    largest_target: float  # without its sign, of rows that weigh something; 0 where there are classes
    kept_by_part: dict[int, int]  # how many rows of each partition weigh something
    has_weight: bool

    @property
    def n_kept(self) -> np.ndarray:
        """How many rows of each class weigh something."""
        return self.weights.n_rows

    @property
    def first(self) -> int:
        """The first of the partitions."""
        return min(self.kept_by_part)

    def merge(self, other: "Findings") -> "Findings":
        """Return what was found in the partitions of both."""
        mine, theirs = (self, other) if self.first < other.first else (other, self)
        n_rows, weights = [mine.n_rows, theirs.n_rows], [mine.weights, theirs.weights]
        classes = None
        if mine.classes is not None and theirs.classes is not None:
            if (mine.classes.dtype.kind in "biuf") != (theirs.classes.dtype.kind in "biuf"):
                raise ValueError(
                    f"y: labels are {mine.classes.dtype} in partition {mine.first} and {theirs.classes.dtype} in "
                    f"partition {theirs.first}; give them one type"
                )
            classes = np.union1d(mine.classes, theirs.classes)
            where = [np.searchsorted(classes, own) for own in (mine.classes, theirs.classes)]
            n_rows = [_spread(each, at, len(classes)) for each, at in zip(n_rows, where, strict=True)]
            weights = [_spread_range(each, at, len(classes)) for each, at in zip(weights, where, strict=True)]
        return Findings(
            columns=mine.columns.merge(theirs.columns),
            classes=classes,
            n_rows=n_rows[0] + n_rows[1],
            weights=weights[0].merge(weights[1]),
            largest_target=max(mine.largest_target, theirs.largest_target),
            kept_by_part=mine.kept_by_part | theirs.kept_by_part,
            has_weight=mine.has_weight,
        )

    def number_rows(self, n_parts: int) -> dict[int, int]:
        """Return, by partition, the number of its first row among all rows that weigh something."""
        sizes = [self.kept_by_part.get(part, 0) for part in range(n_parts)]
        return dict(enumerate(accumulate(sizes[:-1], initial=0)))


def _spread(values: np.ndarray, where: np.ndarray, n_classes: int, absent: float = 0.0) -> np.ndarray:
    """Return what is known of some classes among all."""
    spread = np.full(n_classes, absent, dtype=values.dtype)
    spread[where] = values
    return spread


def _spread_range(weights: WeightRange, where: np.ndarray, n_classes: int) -> WeightRange:
    """Return the weights of some classes among those of all."""
    return WeightRange(
        least=_spread(weights.least, where, n_classes, np.inf),
        largest=_spread(weights.largest, where, n_classes),
        n_rows=_spread(weights.n_rows, where, n_classes),
    )


def merge_findings(parts: list[Findings | None]) -> Findings | None:
    """Merge what was found in some blocks; None: no rows."""
    merged: Findings | None = None
    for part in parts:
        merged = part if merged is None else merged if part is None else merged.merge(part)
    return merged


@dataclass(frozen=True)
class FindRows:
    """Looks at the rows of a block."""

    categorical_features: Any
    accepts_missing: bool
    has_classes: bool

    def __call__(self, parts: list[Part]) -> Findings | None:
        """Look at the partitions of a block; None: they have no rows."""
        found: Findings | None = None
        for part in parts:
            if part.X.shape[0]:
                with say_where(part):
                    own = self._look(part)
                    found = own if found is None else found.merge(own)
        return found

    def _look(self, part: Part) -> Findings:
        weight = read_weight(part)
        kept = None if weight is None else weight > 0.0
        columns, _ = find_columns(part.X, self.categorical_features, accepts_missing=self.accepts_missing, kept=kept)
        if self.has_classes:
            classes, index = index_labels(part)
            refuse_infinite(classes)
            largest = 0.0
        else:
            target = read_numbers(part.y, part.X.shape[0])
            classes, index = None, np.zeros(len(target), dtype=np.intp)
            largest = float(np.abs(target if kept is None else target[kept]).max(initial=0.0))
        n_classes = 1 if classes is None else len(classes)
        if weight is not None and kept is not None:
            weights = measure_weights(weight[kept], index[kept], n_classes)
        else:
            weights = measure_weights(None, index, n_classes)
        return Findings(
            columns=columns,
            classes=classes,
            n_rows=np.bincount(index, minlength=n_classes),
            weights=weights,
            largest_target=largest,
            kept_by_part={part.number: int(weights.n_rows.sum())},
            has_weight=weight is not None,
        )


def index_labels(part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels of a partition, sorted, and the index of each row among them."""
    labels = read_column(part.y, part.X.shape[0])
    if (two := index_two(labels)) is not None:
        return two
    check_classes(labels)
    classes, index = np.unique(labels, return_inverse=True)
    return classes, index


def read_weight(part: Part) -> np.ndarray | None:
    """Return the weights of a partition's rows, checked; None where there are none."""
    if part.sample_weight is None:
        return None
    return read_weights(part.sample_weight, part.X.shape[0])
