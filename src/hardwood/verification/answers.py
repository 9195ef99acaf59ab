"""What is found out about rows: the answers of the door, and those of the search and the solver behind it."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hardwood._kernels.search.branching import FOUND, NONE, UNFINISHED
from hardwood.ensemble import TreeEnsemble

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
    ask: Callable[[np.ndarray, np.ndarray], SearchAnswers],
    matrix: np.ndarray,
    class_index: np.ndarray,
    predicted: np.ndarray,
) -> SearchAnswers:
    """Ask about the rows that the model gets right; a row that is wrong as it stands is its own example."""
    right = predicted == class_index
    if right.all():
        return ask(matrix, class_index)
    n_rows = len(matrix)
    answers = SearchAnswers(
        status=np.full(n_rows, FOUND),
        bound=np.full(n_rows, np.inf),
        example=matrix.copy(),
        certified=np.zeros(n_rows),
        work=np.zeros(n_rows, dtype=np.int64),
    )
    return answers.put(right, ask(matrix[right], class_index[right])) if right.any() else answers


def measure_margin(ensemble: TreeEnsemble, output: np.ndarray, class_index: np.ndarray) -> np.ndarray:
    """Return how far the output of each row's class is ahead of the best other one."""
    if output.shape[1] == 1:
        # In the precision that `choose` compares in: a margin has the sign that the class has.
        lead = output[:, 0].astype(np.float64) - float(output.dtype.type(ensemble.turning_point))
        return np.where(class_index == 1, lead, -lead)
    output = output.astype(np.float64)
    rows = np.arange(len(output))
    own = output[rows, class_index]
    output[rows, class_index] = -np.inf
    return own - output.max(axis=1)
