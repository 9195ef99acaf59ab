"""What is learned from some rows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from hardwood.rows.sampling import Sample, take_sample
from hardwood.table import Schema
from hardwood.threat import Reach, ThreatModel


class Batches(Protocol):
    """Rows that are not in memory, and can be read once more."""

    def read_batches(self, task: "Task") -> Iterable[np.ndarray]:
        """Read all rows that weigh something, some at a time, encoded."""

    def make_sample(self, task: "Task") -> Sample:
        """Return the rows that thresholds are chosen from."""


@dataclass(frozen=True)
class Task:
    """Classes or numbers, the rows that they are learned from, what these weigh, and what an attacker may do to them.

    Where rows are in a stream they are read again (`read_batches`), and `X` has none. Where they are on other machines,
    `target` and `sample_weight` have none either.
    """

    # float64 (row, feature), as `Schema.encode` makes it, without rows that weigh nothing; for growers on bins float32,
    # too
    X: np.ndarray
    target: np.ndarray  # per row: the index of its class, uint8 for up to 256 classes; or a number, float64
    sample_weight: np.ndarray | None  # float64 per row, positive; None: all the same
    class_weight: np.ndarray  # float64 per class; of numbers a single 1
    schema: Schema
    classes: Any  # an array of the labels; None: numbers are learned
    threat: ThreatModel
    weight_unit: float = 1.0  # what a weight of 1 stands for, as `hardwood.weights` has chosen it
    target_unit: float = 1.0  # what a number of 1 stands for: a power of two, too
    stream: Batches | None = None  # None: the rows are in `X`

    @property
    def n_rows(self) -> int:
        """How many rows are here, or in the stream."""
        return len(self.target)

    @property
    def class_index(self) -> np.ndarray:
        """The class of each row; the first where there are no classes."""
        return self.target if self.classes is not None else np.zeros(len(self.target), dtype=np.uint8)

    @property
    def row_weight(self) -> np.ndarray:
        """Return what each row weighs, by itself and by its class."""
        by_class = self.class_weight[self.class_index]
        return by_class if self.sample_weight is None else self.sample_weight * by_class

    def resolve(self) -> Reach:
        """Return what the attacker may do, as arrays."""
        return self.threat.resolve(self.schema, self.classes)

    def read_batches(self) -> Iterable[np.ndarray]:
        """Read all rows, encoded: at once, or those of a stream some at a time."""
        return [self.X] if self.stream is None else self.stream.read_batches(self)

    def read_rows(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Read all rows, encoded, with the indices of their classes, or with their numbers as the user gave them."""
        start = 0
        for X in self.read_batches():
            target = self.target[start : start + len(X)]
            yield X, target if self.classes is not None else target * self.target_unit
            start += len(X)

    def draw_sample(self, reach: Reach, max_bins: int | None) -> Sample:
        """Return the rows that thresholds are chosen from; without `max_bins`, all that are in memory."""
        if self.stream is None:
            return take_sample(self.X, self.class_index, reach, max_bins)
        return self.stream.make_sample(self)

    def drop_rows(self) -> Self:
        """Return the task without rows that nobody reads any more, and which would travel."""
        return replace(self, X=self.X[:0], stream=None)
