"""What boosting minimises: the certified loss, an upper bound on the loss that an attacker can cause.

After some trees, what a row's outputs can be made is bounded by `low` and `high`: the sums of the lowest and of the
highest leaf of each tree that the row can reach. Each loss says what it is at the worst ends, and how it changes with
the outputs there. What is said of a row does not depend on the rows beside it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# The smallest second derivative of a row, relative to its weight: rows that are settled still hold their leaf's value.
LEAST_HESSIAN = 1e-6
# The smallest share of a class that a constant model expects: classes of weight 0 have a finite base score, too.
LEAST_SHARE = 1e-10
# Errors that differ by less than this share of them count as equal.
TIE_TOLERANCE = 1e-9


class Derivatives(NamedTuple):
    """What the loss of every row says about one output."""

    group: np.ndarray  # uint8: 0 if a lower output hurts the row, 1 if a higher one does
    gradient: np.ndarray
    hessian: np.ndarray


class CertifiedLoss(ABC):
    """The loss of every row at the worst ends of what its outputs can be made."""

    n_outputs: int
    target: np.ndarray  # of every row: its class index, or a number

    @abstractmethod
    def weigh(self, weight: np.ndarray) -> list[np.ndarray]:
        """Return what the best constant model depends on: the total weight, and other totals over all rows."""

    @abstractmethod
    def find_base(self, totals: Sequence[float]) -> np.ndarray:
        """Return the outputs of the best constant model, by the totals of what `weigh` returns; knows no rows."""

    @abstractmethod
    def examine(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, list[Derivatives]]:
        """Return the loss of every row, and its derivatives by every output; `low` and `high` are (row, output).

        What is returned is the caller's to write to. Room is used again where that can be: on Dask's workers, which
        give memory back at once (their MALLOC_TRIM_THRESHOLD_), to allocate takes longer than to compute.
        """

    def measure(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the loss of every row."""
        return self.examine(low, high)[0]


def choose_loss(n_classes: int, target: np.ndarray) -> CertifiedLoss:
    """Return the loss of rows with these class indices, or numbers if there are no classes; rows may be none."""
    if n_classes == 0:
        return SquaredLoss(target)
    return LogisticLoss(target) if n_classes == 2 else SoftmaxLoss(target, n_classes)


class LogisticLoss(CertifiedLoss):
    """Of two classes: one output, the log-odds of the second."""

    n_outputs = 1

    def __init__(self, class_index: np.ndarray) -> None:
        self.target = class_index
        self._is_second = class_index == 1
        self._group = (class_index == 0).astype(np.uint8)

    def weigh(self, weight: np.ndarray) -> list[np.ndarray]:
        """Return what all rows weigh, and those of the second class."""
        return [weight, weight[self._is_second]]

    def find_base(self, totals: Sequence[float]) -> np.ndarray:
        """Return the log-odds of the second class."""
        share = np.clip(totals[1] / totals[0], LEAST_SHARE, 1.0 - LEAST_SHARE)
        return np.array([np.log(share / (1.0 - share))])

    def examine(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, list[Derivatives]]:
        """Return the logarithmic loss, and its derivatives by the log-odds."""
        margin = np.negative(high[:, 0])
        np.copyto(margin, low[:, 0], where=self._is_second)
        small = np.abs(margin)
        np.negative(small, out=small)
        np.exp(small, out=small)
        loss = np.log1p(small)
        loss -= np.minimum(margin, 0.0)
        wrong = np.where(margin >= 0.0, small, 1.0)
        small += 1.0
        wrong /= small  # the probability of the other class
        hessian = np.subtract(1.0, wrong, out=small)
        hessian *= wrong
        np.maximum(hessian, LEAST_HESSIAN, out=hessian)
        gradient = np.negative(wrong, out=wrong, where=self._is_second)
        return loss, [Derivatives(self._group, gradient, hessian)]


class SoftmaxLoss(CertifiedLoss):
    """Of several classes: an output each. The row's own class is at its low end, all others are at their high ends."""

    def __init__(self, class_index: np.ndarray, n_classes: int) -> None:
        self.target, self.n_outputs = class_index, n_classes
        self._is_own = class_index[:, None] == np.arange(n_classes)
        self._group = (~self._is_own).T.astype(np.uint8, order="C")

    def weigh(self, weight: np.ndarray) -> list[np.ndarray]:
        """Return what all rows weigh, and those of each class."""
        return [weight, *(weight[is_own] for is_own in self._is_own.T)]

    def find_base(self, totals: Sequence[float]) -> np.ndarray:
        """Return the logarithms of the class shares."""
        return np.log(np.maximum(np.array(totals[1:]) / totals[0], LEAST_SHARE))

    def _find_worst(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        worst = np.where(self._is_own, low, high)
        return worst - worst.max(axis=1, keepdims=True)

    def measure(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the logarithmic loss."""
        worst = self._find_worst(low, high)
        return np.log(np.exp(worst).sum(axis=1)) - worst[self._is_own]

    def examine(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, list[Derivatives]]:
        """Return the logarithmic loss, and its derivatives by the output of each class."""
        worst = self._find_worst(low, high)
        share = np.exp(worst)
        total = share.sum(axis=1)
        loss = np.log(total) - worst[self._is_own]
        share /= total[:, None]
        gradient, hessian = share - self._is_own, np.maximum(share * (1.0 - share), LEAST_HESSIAN)
        return loss, [
            Derivatives(group, np.ascontiguousarray(gradient[:, k]), np.ascontiguousarray(hessian[:, k]))
            for k, group in enumerate(self._group)
        ]


class SquaredLoss(CertifiedLoss):
    """Of a regression: half the square of the distance to the end that is further away."""

    n_outputs = 1

    def __init__(self, target: np.ndarray) -> None:
        self.target = target

    def weigh(self, weight: np.ndarray) -> list[np.ndarray]:
        """Return what all rows weigh, and their targets times that."""
        return [weight, weight * self.target]

    def find_base(self, totals: Sequence[float]) -> np.ndarray:
        """Return the mean."""
        return np.array([totals[1] / totals[0]])

    def examine(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, list[Derivatives]]:
        """Return half the largest square, and its derivatives by the end that is further away."""
        below, above = self.target - low[:, 0], high[:, 0] - self.target
        # Where both ends are equally far, rounding must not decide: the weights' last bits would choose the trees.
        higher_hurts = above - below > TIE_TOLERANCE * (np.abs(above) + np.abs(below))
        gradient = np.where(higher_hurts, above, -below)
        loss = 0.5 * np.maximum(below, above) ** 2
        return loss, [Derivatives(higher_hurts.astype(np.uint8), gradient, np.ones(len(gradient)))]
