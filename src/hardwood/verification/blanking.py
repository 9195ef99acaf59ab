"""The layer for attackers who blank or fill values: rows are asked about with a column more per such feature."""

from collections.abc import Callable
from typing import Any

import numpy as np

from hardwood.ensemble.missing_columns import Part
from hardwood.progress import Progress
from hardwood.verification.answers import UNFINISHED, Answers


def ask_in_parts(
    ask: Callable[[Part, dict[str, Any]], Answers], parts: list[Part], matrix: np.ndarray, progress: Progress | None
) -> Answers:
    """Ask about rows part by part, and return the answers in the order of the rows.

    ask : takes a part and the settings that are different for it. After Ctrl-C the rest get cheap bounds only.
    """
    n_rows = len(matrix)
    answers = Answers(
        status=np.full(n_rows, UNFINISHED),
        lower=np.full(n_rows, -np.inf),
        upper=np.full(n_rows, np.inf),
        example=np.full_like(matrix, np.nan),
        work=np.zeros(n_rows, dtype=np.int64),
    )
    done, interrupted = 0, False
    for part in parts:
        changes: dict[str, Any] = {} if progress is None else {"progress": _go_on_from(done, n_rows, progress)}
        some = ask(part, changes | {"time_limit": 0.0} if interrupted else changes)
        answers.status[part.rows], answers.lower[part.rows] = some.status, some.lower
        answers.upper[part.rows], answers.example[part.rows] = some.upper, part.hide(some.example)
        if some.work is not None and answers.work is not None:
            answers.work[part.rows] = some.work
        done += len(part.rows)
        interrupted |= some.interrupted
    return answers._replace(interrupted=interrupted)


def _go_on_from(before: int, n_rows: int, progress: Progress) -> Progress:
    """Return a progress that counts the rows of one part after those of the parts before."""
    return lambda done, _: progress(before + done, n_rows)
