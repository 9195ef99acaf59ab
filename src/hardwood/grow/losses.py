"""What boosting minimises: the certified loss, an upper bound on the loss that an attacker can cause.

After some trees, what a row's outputs can be made is bounded by `low` and `high`: the sums of the lowest and of the
highest leaf of each tree that the row can reach. Each loss says what it is at the worst ends, and how it changes with
the outputs there.
"""

from abc import ABC, abstractmethod
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

    @abstractmethod
    def find_base(self, weight: np.ndarray) -> np.ndarray:
        """Return the outputs of the best constant model."""

    @abstractmethod
    def measure(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the loss of every row; `low` and `high` are of shape (row, output)."""

    @abstractmethod
    def derive(self, low: np.ndarray, high: np.ndarray) -> list[Derivatives]:
        """Return the derivatives by every output."""


class LogisticLoss(CertifiedLoss):
    """Of two classes: one output, the log-odds of the second."""

    n_outputs = 1

    def __init__(self, class_index: np.ndarray) -> None:
        self._is_second = class_index == 1
        self._group = (class_index == 0).astype(np.uint8)

    def find_base(self, weight: np.ndarray) -> np.ndarray:
        """Return the log-odds of the second class."""
        share = np.clip(weight[self._is_second].sum() / weight.sum(), LEAST_SHARE, 1.0 - LEAST_SHARE)
        return np.array([np.log(share / (1.0 - share))])

    def _find_margin(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        return np.where(self._is_second, low[:, 0], -high[:, 0])

    def measure(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the logarithmic loss."""
        margin = self._find_margin(low, high)
        return np.log1p(np.exp(-np.abs(margin))) - np.minimum(margin, 0.0)

    def derive(self, low: np.ndarray, high: np.ndarray) -> list[Derivatives]:
        """Return the derivatives by the log-odds."""
        margin = self._find_margin(low, high)
        small = np.exp(-np.abs(margin))
        wrong = np.where(margin >= 0.0, small, 1.0) / (1.0 + small)  # the probability of the other class
        gradient = np.where(self._is_second, -wrong, wrong)
        return [Derivatives(self._group, gradient, np.maximum(wrong * (1.0 - wrong), LEAST_HESSIAN))]


class SoftmaxLoss(CertifiedLoss):
    """Of several classes: an output each. The row's own class is at its low end, all others are at their high ends."""

    def __init__(self, class_index: np.ndarray, n_classes: int) -> None:
        self.n_outputs = n_classes
        self._is_own = class_index[:, None] == np.arange(n_classes)
        self._group = (~self._is_own).T.astype(np.uint8)

    def find_base(self, weight: np.ndarray) -> np.ndarray:
        """Return the logarithms of the class shares."""
        return np.log(np.maximum((weight[:, None] * self._is_own).sum(axis=0) / weight.sum(), LEAST_SHARE))

    def _find_worst(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        worst = np.where(self._is_own, low, high)
        return worst - worst.max(axis=1, keepdims=True)

    def measure(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the logarithmic loss."""
        worst = self._find_worst(low, high)
        return np.log(np.exp(worst).sum(axis=1)) - worst[self._is_own]

    def derive(self, low: np.ndarray, high: np.ndarray) -> list[Derivatives]:
        """Return the derivatives by the output of each class."""
        share = np.exp(self._find_worst(low, high))
        share /= share.sum(axis=1, keepdims=True)
        gradient, hessian = share - self._is_own, np.maximum(share * (1.0 - share), LEAST_HESSIAN)
        return [
            Derivatives(group, np.ascontiguousarray(gradient[:, k]), np.ascontiguousarray(hessian[:, k]))
            for k, group in enumerate(self._group)
        ]


class SquaredLoss(CertifiedLoss):
    """Of a regression: half the square of the distance to the end that is further away."""

    n_outputs = 1

    def __init__(self, target: np.ndarray) -> None:
        self._target = target

    def find_base(self, weight: np.ndarray) -> np.ndarray:
        """Return the mean."""
        return np.array([np.average(self._target, weights=weight)])

    def measure(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return half the largest square."""
        return 0.5 * np.maximum(self._target - low[:, 0], high[:, 0] - self._target) ** 2

    def derive(self, low: np.ndarray, high: np.ndarray) -> list[Derivatives]:
        """Return the derivatives by the end that is further away."""
        below, above = self._target - low[:, 0], high[:, 0] - self._target
        # Where both ends are equally far, rounding must not decide: the weights' last bits would choose the trees.
        higher_hurts = above - below > TIE_TOLERANCE * (np.abs(above) + np.abs(below))
        gradient = np.where(higher_hurts, above, -below)
        return [Derivatives(higher_hurts.astype(np.uint8), gradient, np.ones(len(gradient)))]
