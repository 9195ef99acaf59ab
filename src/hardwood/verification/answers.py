"""What the search and the solver say of rows."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from hardwood._kernels.search.branching import FOUND


class Answers(NamedTuple):
    """What was found out about rows."""

    status: np.ndarray  # FOUND, NONE or UNFINISHED
    bound: np.ndarray  # an upper bound of the lead of another class over the label; or of the sum
    example: np.ndarray
    certified: np.ndarray  # there is no example nearer than this (squared in the L2 norm)


def ask_where_right(
    ask: Callable[[np.ndarray, np.ndarray], Answers], matrix: np.ndarray, label: np.ndarray, predicted: np.ndarray
) -> Answers:
    """Ask about the rows that the model gets right; a row that is wrong as it stands is its own example."""
    right = predicted == label
    if right.all():
        return ask(matrix, label)
    n_rows = len(matrix)
    answers = Answers(np.full(n_rows, FOUND), np.full(n_rows, np.inf), matrix.copy(), np.zeros(n_rows))
    for of_all, of_some in zip(answers, ask(matrix[right], label[right]), strict=True):
        of_all[right] = of_some
    return answers
