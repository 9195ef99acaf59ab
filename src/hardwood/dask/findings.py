"""What has to be known of all rows before one can be coded: found by tasks where the rows are, and merged."""

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite

from hardwood.dask.tables import Part, say_where
from hardwood.estimators.findings import ColumnFindings, find_columns
from hardwood.estimators.numbers import read_numbers
from hardwood.estimators.target import index_two, read_column


@dataclass(frozen=True)
class Findings:
    """What was found in some partitions."""

    columns: ColumnFindings
    classes: np.ndarray | None  # the labels, sorted; None: the target is numbers
    n_rows: np.ndarray  # int64: the rows of each class; of all where there are no classes
    n_kept: np.ndarray  # int64: those of them that weigh something
    kept_by_part: dict[int, int]  # how many rows of each partition weigh something
    has_weight: bool

    @property
    def first(self) -> int:
        """The first of the partitions."""
        return min(self.kept_by_part)

    def merge(self, other: "Findings") -> "Findings":
        """Return what was found in the partitions of both."""
        mine, theirs = (self, other) if self.first < other.first else (other, self)
        counts = [np.stack([each.n_rows, each.n_kept]) for each in (mine, theirs)]
        classes = None
        if mine.classes is not None and theirs.classes is not None:
            if (mine.classes.dtype.kind in "biuf") != (theirs.classes.dtype.kind in "biuf"):
                raise ValueError(
                    f"y: labels are {mine.classes.dtype} in partition {mine.first} and {theirs.classes.dtype} in "
                    f"partition {theirs.first}; give them one type"
                )
            classes = np.union1d(mine.classes, theirs.classes)
            counts = [_spread(mine.classes, counts[0], classes), _spread(theirs.classes, counts[1], classes)]
        n_rows, n_kept = counts[0] + counts[1]
        return Findings(
            columns=mine.columns.merge(theirs.columns),
            classes=classes,
            n_rows=n_rows,
            n_kept=n_kept,
            kept_by_part=mine.kept_by_part | theirs.kept_by_part,
            has_weight=mine.has_weight,
        )

    def number_rows(self, n_parts: int) -> dict[int, int]:
        """Return, by partition, the number of its first row among all rows that weigh something."""
        sizes = [self.kept_by_part.get(part, 0) for part in range(n_parts)]
        return dict(enumerate(accumulate(sizes[:-1], initial=0)))


def _spread(own: np.ndarray, counts: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Return the counts of some classes among those of all."""
    spread = np.zeros((len(counts), len(classes)), dtype=np.int64)
    spread[:, np.searchsorted(classes, own)] = counts
    return spread


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
            assert_all_finite(classes, input_name="y")
        else:
            classes, index = None, np.zeros(len(read_numbers(part.y, part.X.shape[0])), dtype=np.intp)
        n_classes = 1 if classes is None else len(classes)
        n_kept = np.bincount(index if kept is None else index[kept], minlength=n_classes)
        return Findings(
            columns=columns,
            classes=classes,
            n_rows=np.bincount(index, minlength=n_classes),
            n_kept=n_kept,
            kept_by_part={part.number: int(n_kept.sum())},
            has_weight=weight is not None,
        )


def index_labels(part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels of a partition, sorted, and the index of each row among them."""
    labels = read_column(part.y, part.X.shape[0])
    if (two := index_two(labels)) is not None:
        return two
    classes, index = np.unique(labels, return_inverse=True)
    return classes, index


def read_weight(part: Part) -> np.ndarray | None:
    """Return the weights of a partition's rows, checked; None where there are none."""
    if part.sample_weight is None:
        return None
    n_rows = part.X.shape[0]
    weight = np.asarray(part.sample_weight, dtype=np.float64)
    if weight.shape != (n_rows,):
        raise ValueError(f"sample_weight: expected {n_rows} weights, one per row, got shape {weight.shape}")
    assert_all_finite(weight, input_name="sample_weight")
    if (weight < 0.0).any():
        row = int((weight < 0.0).argmax())
        raise ValueError(f"sample_weight: row {row} has {float(weight[row])!r}; expected weights >= 0")
    return weight
