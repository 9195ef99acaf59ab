"""What is known of all rows before one is coded, and the task that follows from it."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hardwood.quoting import quote
from hardwood.rows.columns import ColumnSummary, summarize_columns
from hardwood.rows.parts import Part, ReadRows
from hardwood.rows.request import Request
from hardwood.rows.targets import choose_target_unit, refuse_classes, weigh_classes
from hardwood.rows.task import Task
from hardwood.table import Schema
from hardwood.threat import ThreatModel
from hardwood.weights import WeightRange, choose_weight_unit, divide_classes, measure_weights, refuse_no_weight


@dataclass(frozen=True)
class TargetSummary:
    """What the targets of some rows are, and what these weigh."""

    name: str  # of the part that they are in, or of the first
    classes: np.ndarray | None  # the labels, sorted; None: the target is numbers
    n_rows: np.ndarray  # int64: the rows of each class; of all where there are no classes
    weights: WeightRange  # of those of them that weigh something
    largest: float  # of numbers that weigh something, without their sign; 0 where there are classes
    has_weight: bool  # whether rows have weights of their own

    @property
    def n_kept(self) -> np.ndarray:
        """How many rows of each class weigh something."""
        return self.weights.n_rows

    def merge(self, later: "TargetSummary") -> "TargetSummary":
        """Return what is known of the targets of these rows and later ones."""
        if self.has_weight != later.has_weight:
            raise ValueError("sample_weight: some batches have weights and some have not; give them to all, or to none")
        mine, theirs, classes = self, later, None
        if self.classes is not None and later.classes is not None:
            if (self.classes.dtype.kind in "biuf") != (later.classes.dtype.kind in "biuf"):
                raise ValueError(
                    f"y: labels are {self.classes.dtype} in {self.name} and {later.classes.dtype} in {later.name}; "
                    "give them one type"
                )
            classes = np.union1d(self.classes, later.classes)
            mine, theirs = self._spread(classes), later._spread(classes)
        return TargetSummary(
            name=self.name,
            classes=classes,
            n_rows=mine.n_rows + theirs.n_rows,
            weights=mine.weights.merge(theirs.weights),
            largest=max(self.largest, later.largest),
            has_weight=self.has_weight,
        )

    def _spread(self, classes: np.ndarray) -> "TargetSummary":
        """Return the same among more classes."""
        where = np.searchsorted(classes, np.asarray(self.classes))

        def place(values: np.ndarray, absent: float = 0.0) -> np.ndarray:
            placed = np.full(len(classes), absent, dtype=values.dtype)
            placed[where] = values
            return placed

        weights = WeightRange(place(self.weights.least, np.inf), place(self.weights.largest), place(self.n_kept))
        return TargetSummary(self.name, classes, place(self.n_rows), weights, self.largest, self.has_weight)

    def make_task(self, request: Request, schema: Schema, threat: ThreatModel) -> Task:
        """Return what is learned, without rows."""
        weights, target_unit = self.weights, 1.0
        if self.has_weight:
            refuse_no_weight(int(self.n_kept.sum()))
        if self.classes is None:
            classes, class_weight, dtype = None, np.ones(1), np.dtype(np.float64)
            unit = choose_weight_unit(weights, None, "sample_weight")
            if request.divides_target:
                total = float(weights.largest[0]) / unit * int(self.n_kept[0])
                target_unit = choose_target_unit(self.largest, total, unit)
        else:
            classes = self.classes
            refuse_classes(classes)
            if np.count_nonzero(self.n_kept) < 2:
                raise ValueError(
                    f"sample_weight: only one of the classes {quote(classes.tolist())} has rows with a positive weight"
                )
            class_weight = weigh_classes(request.class_weight, classes, self.n_rows)
            class_weight, unit = divide_classes(weights, class_weight, has_weight=self.has_weight)
            dtype = np.min_scalar_type(len(classes) - 1)
        return Task(
            X=np.empty((0, schema.n_features)),
            target=np.empty(0, dtype=dtype),
            sample_weight=np.empty(0) if self.has_weight else None,
            class_weight=class_weight,
            schema=schema,
            classes=classes,
            threat=threat,
            weight_unit=unit,
            target_unit=target_unit,
        )


def summarize_target(part: Part, read: ReadRows) -> TargetSummary:
    """Say what the targets of a part are, and what its rows weigh."""
    kept, n_classes = read.choose(read.kept), 1 if read.classes is None else len(read.classes)
    largest = float(np.abs(kept.target).max(initial=0.0)) if read.classes is None else 0.0
    weights = measure_weights(kept.weight, _find_classes(kept), n_classes)
    n_rows = weights.n_rows if kept is read else np.bincount(_find_classes(read), minlength=n_classes)
    return TargetSummary(part.name, read.classes, n_rows, weights, largest, read.weight is not None)


def _find_classes(read: ReadRows) -> np.ndarray:
    """Return the class of each row; the first where there are no classes."""
    return np.zeros(len(read.target), dtype=np.uint8) if read.classes is None else read.target


class Summary(NamedTuple):
    """What is known of all rows before one is coded."""

    schema: Schema
    any_missing: bool  # whether a value of any row is
    targets: TargetSummary


@dataclass(frozen=True)
class PartSummary:
    """What is known of the rows of some parts."""

    columns: ColumnSummary
    targets: TargetSummary

    def merge(self, later: "PartSummary") -> "PartSummary":
        """Return what is known of these rows and later ones."""
        return PartSummary(self.columns.merge(later.columns), self.targets.merge(later.targets))

    def sum_up(self) -> Summary:
        """Return what a source says when these are all rows."""
        return Summary(self.columns.schema, self.columns.any_missing, self.targets)


def summarize_part(part: Part, read: ReadRows) -> PartSummary:
    """Say what is known of the rows of a part."""
    return PartSummary(summarize_columns(part.X, read.X, read.kept, read.schema), summarize_target(part, read))
