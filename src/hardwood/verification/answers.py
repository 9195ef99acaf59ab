"""What is found out about rows: the answers of the door, and those of the search and the solver behind it."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hardwood._kernels.search.branching import FOUND, NONE, UNFINISHED
from hardwood.ensemble import TreeEnsemble
from hardwood.verification.clock import Clock

__all__ = ["FOUND", "NONE", "UNFINISHED", "Answers", "SearchAnswers", "ask_where_right", "measure_margin"]


class Answers(NamedTuple):
    """What the door says of rows.

    The number asked about lies between `lower` and `upper`, which are equal where the work was finished: the smallest
    margin that the attacker can force, the distance of the nearest example, or the most extreme output of a regression.
    """

    status: np.ndarray  # FOUND an example, there is NONE, or UNFINISHED
    lower: np.ndarray
    upper: np.ndarray
    example: np.ndarray  # float64 (row, feature); NaN where none was found
    interrupted: bool = False  # by Ctrl-C: what had been found by then is kept
    work: np.ndarray | None = None  # leaves looked at, per row, where that is known

    @classmethod
    def unknown(cls, matrix: np.ndarray, lower: float = -np.inf) -> "Answers":
        """Return the answers that say nothing of any row, but that what is asked about is no less than a number."""
        n_rows = len(matrix)
        return cls(
            status=np.full(n_rows, UNFINISHED),
            lower=np.full(n_rows, lower),
            upper=np.full(n_rows, np.inf),
            example=np.full_like(matrix, np.nan),
            work=np.zeros(n_rows, dtype=np.int64),
        )

    def put(self, rows: np.ndarray, some: "Answers") -> "Answers":
        """Write in what is said of some rows."""
        for of_all, of_some in zip(self[:4], some[:4], strict=True):
            of_all[rows] = of_some
        if self.work is not None and some.work is not None:
            self.work[rows] += some.work
        return self._replace(interrupted=self.interrupted or some.interrupted)


class SearchAnswers(NamedTuple):
    """What the search and the solver say of rows, in sums of leaf values."""

    status: np.ndarray  # FOUND, NONE or UNFINISHED
    bound: np.ndarray  # an upper bound of the lead of another class over the row's own; or of the sum
    example: np.ndarray
    certified: np.ndarray  # there is no example nearer than this
    work: np.ndarray  # leaves and cells looked at in branch and bound
    interrupted: bool = False  # by Ctrl-C: what had been found by then is kept

    def put(self, rows: np.ndarray | slice, some: "SearchAnswers") -> "SearchAnswers":
        """Write in what is said of some rows."""
        for of_all, of_some in zip(self[:-1], some[:-1], strict=True):
            of_all[rows] = of_some
        return self._replace(interrupted=self.interrupted or some.interrupted)


def ask_where_right(
    ask: Callable[[np.ndarray, np.ndarray, Clock], SearchAnswers],
    matrix: np.ndarray,
    class_index: np.ndarray,
    clock: Clock,
    predicted: np.ndarray,
) -> SearchAnswers:
    """Ask about the rows that the model gets right; a row that is wrong as it stands is its own example."""
    right = predicted == class_index
    if right.all():
        return ask(matrix, class_index, clock)
    n_rows = len(matrix)
    answers = SearchAnswers(
        status=np.full(n_rows, FOUND),
        bound=np.full(n_rows, np.inf),
        example=matrix.copy(),
        certified=np.zeros(n_rows),
        work=np.zeros(n_rows, dtype=np.int64),
    )
    if not right.any():
        return answers
    return answers.put(right, ask(matrix[right], class_index[right], clock.select(right)))


def measure_margin(
    ensemble: TreeEnsemble, output: np.ndarray, class_index: np.ndarray, targets: np.ndarray | None = None
) -> np.ndarray:
    """Return how far the output of each row's class is ahead of the best other one.

    targets : which classes the rows of each class want; of those that want some, the margin is that of the best class
        that they do not want over the best that they do.
    """
    if targets is not None:
        wanted = targets[class_index]
        rest = np.where(wanted, -np.inf, output).max(axis=1).astype(np.float64)
        best = np.where(wanted, output, -np.inf).max(axis=1).astype(np.float64)
        return np.where(wanted.any(axis=1), rest - best, measure_margin(ensemble, output, class_index))
    if output.shape[1] == 1:
        # In the precision that `choose` compares in: a margin has the sign that the class has.
        lead = output[:, 0].astype(np.float64) - float(output.dtype.type(ensemble.turning_point))
        return np.where(class_index == 1, lead, -lead)
    output = output.astype(np.float64)
    rows = np.arange(len(output))
    own = output[rows, class_index]
    output[rows, class_index] = -np.inf
    return own - output.max(axis=1)
