"""Examples on their way out: checked once more, and as the table that the caller gave."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.table.likeness import WholeColumn, decode_like, find_whole_columns
from hardwood.threat import Reach
from hardwood.threat.priced_reach import PricedReach
from hardwood.verification.answers import UNFINISHED, Answers
from hardwood.verification.asked import Asked
from hardwood.verification.question import Question

# Says of some rows, given as positions and as changed, whether each is still an example.
StillWorks = Callable[[np.ndarray, np.ndarray], np.ndarray]


def find_wrong(asked: Asked, examples: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Say of examples, one per row, whether one is none: out of reach, or not lost if it is given these classes."""
    lost = find_lost(asked.ensemble, asked.reach, asked.matrix, asked.class_index, given, are_moved=asked.are_moved)
    return ~(lost & asked.reach.contains(asked.matrix, examples, asked.class_index))


def withdraw(asked: Asked, answers: Answers, rows: np.ndarray) -> Answers:
    """Take back what is said of rows whose examples are none: a fault of ours, for which others need not suffer."""
    if len(rows):
        warnings.warn(
            f"{len(rows)} adversarial example{'s' * (len(rows) > 1)} failed the check that each is held to, the first "
            f"in row {asked.clock.rows[rows[0]]}: the answer there is unknown; please report this with the model and "
            "the row",
            RuntimeWarning,
            stacklevel=2,
        )
        answers.status[rows], answers.example[rows] = UNFINISHED, np.nan
        answers.lower[rows], answers.upper[rows] = -np.inf, np.inf
    return answers


def find_lost(
    ensemble: TreeEnsemble,
    reach: Reach | PricedReach,
    matrix: np.ndarray,
    class_index: np.ndarray,
    given: np.ndarray,
    *,
    are_moved: bool = False,
) -> np.ndarray:
    """Say of rows whether they are lost if they are given these classes.

    If it matters which class that is, a row that is wrong as it stands is lost all the same; not so one that was moved.
    """
    lost = reach.wants(class_index, given)
    if reach.targets is not None and not are_moved and not lost.all():
        lost = lost | ((given != class_index) & (ensemble.decide(matrix) != class_index))
    return lost


def give_back(question: Question, examples: np.ndarray) -> Any:
    """Return examples, NaN where there is none, as the table that was asked about."""
    ensemble, reach = question.ensemble, question.reach

    def still_works(rows: np.ndarray, changed: np.ndarray) -> np.ndarray:
        class_index = question.class_index[rows]
        inside = reach.contains(question.matrix[rows], changed, class_index)
        return inside & find_lost(ensemble, reach, question.matrix[rows], class_index, ensemble.decide(changed))

    return restore(ensemble.schema, question.X, question.matrix, examples, still_works)


def restore(schema: Any, X: Any, matrix: np.ndarray, examples: np.ndarray, still_works: StillWorks) -> Any:
    """Return examples as a table like `X`, with its index, and with whole numbers where that leaves every example one.

    An attacker of numbers moves to a threshold or just past it. In a column of whole numbers that is rounded on, away
    from the row, unless one of the examples would not be an example any more; then the column stays as it was found.
    """
    whole = [column for column in find_whole_columns(X) if schema.categories[column.position] is None]
    if whole:
        examples, whole = _round_away(matrix, examples, whole, still_works)
    positions = [column.position for column in whole]
    return decode_like(schema, examples, X, whole=positions, same_rows=True)


def _round_away(
    matrix: np.ndarray, examples: np.ndarray, whole: list[WholeColumn], still_works: StillWorks
) -> tuple[np.ndarray, list[WholeColumn]]:
    """Round columns of whole numbers: the examples then, and the columns in which all of them could be rounded."""
    rounded = np.where(examples > matrix, np.ceil(examples), np.floor(examples))
    while whole:
        positions = [column.position for column in whole]
        trial = examples.copy()
        trial[:, positions] = rounded[:, positions]
        changed = (trial != examples) & ~np.isnan(examples)
        fits = ~np.isnan(examples)
        for column in whole:
            values = trial[:, column.position]
            fits[:, column.position] = np.isnan(values) | ((column.least <= values) & (values <= column.most))
        rows = np.flatnonzero(changed.any(axis=1))
        lost = rows[~still_works(rows, trial[rows])] if len(rows) else rows
        bad = changed[lost].any(axis=0)
        bad[positions] |= ~fits[:, positions].all(axis=0)
        if not bad.any():
            return trial, whole
        whole = [column for column in whole if not bad[column.position]]
    return examples, []
