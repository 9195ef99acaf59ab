"""What a tree is grown from."""

from dataclasses import dataclass

import numpy as np

from hardwood.table import Schema
from hardwood.threat import ThreatModel


@dataclass(frozen=True)
class Problem:
    """Rows of two or more classes, what they weigh, and what an attacker may do to them."""

    # float64 (row, feature), as `Schema.encode` makes it, without rows that weigh nothing; for growers on bins float32,
    # too; without rows where they come from a stream and are coded as they come
    X: np.ndarray
    class_index: np.ndarray  # unsigned integers, one per row: uint8 for up to 256 classes
    sample_weight: np.ndarray | None  # float64 per row, positive; None: all the same
    class_weight: np.ndarray  # float64 per class
    schema: Schema
    classes: np.ndarray  # the labels
    threat: ThreatModel
    weight_unit: float = 1.0  # what a weight of 1 stands for, as `hardwood.weights` has chosen it

    @property
    def row_weight(self) -> np.ndarray:
        """Return what each row weighs, by itself and by its class."""
        by_class = self.class_weight[self.class_index]
        return by_class if self.sample_weight is None else self.sample_weight * by_class
