"""The first kernel: decide rows by single moves and a climb, without listing any leaf. Most rows need no more."""

import numpy as np

from hardwood._kernels.compiling import kernel, part
from hardwood._kernels.search.climbing import FROM_THE_ROW, climb, start
from hardwood._kernels.search.rows import begin_rival, enclose, is_answer, settle_rival
from hardwood._kernels.search.single_moves import EVERYWHERE, measure_moves
from hardwood._kernels.search.state import (
    BRANCH,
    DONE,
    FOUND,
    LARGEST,
    LISTING,
    NONE,
    UNFINISHED,
    begin,
    copy_point,
    write_point,
)


@part
def _look(model, task, row, search):
    """Decide whether there is any example, if possible: NONE, FOUND, or UNFINISHED.

    For LARGEST, the point that the climb comes to is where branch and bound begins.
    """
    question = search.question[0]
    start(model, search, FROM_THE_ROW)
    total, bound, n_leaves = measure_moves(model, search, EVERYWHERE)
    begin(search, np.int64(0), bound)
    question.rounding = task.rounding * n_leaves
    if task.goal != LARGEST and bound < question.target - question.rounding:
        return NONE
    reached = climb(model, search, total, bound if task.goal == LARGEST else question.target, 0.0)
    if task.goal == LARGEST:
        question.target = np.nextafter(reached, np.inf)
        write_point(model, search.axes, task.x[row], task.example[row])
        return UNFINISHED
    if reached < question.target or not is_answer(model, task.x[row], search, task.each[row].class_index):
        return UNFINISHED
    copy_point(search.point, task.example[row])
    return FOUND


@kernel(about="decisions about ensembles (single moves)", seconds=3.9)
def decide_rows(model, task, row, end, rival, search):
    """Answer for rows from `row` and `rival` on, up to `end`: can the attacker give it another class?

    Or, for LARGEST, what is the largest sum (times the sign)? Returns (reason, row, rival): DONE, or BRANCH at a row
    and rival that branch and bound has to go on with.
    """
    while row < end:
        rival = begin_rival(model, task, row, rival, search)
        enclose(model, task, row, search, np.inf)
        status = _look(model, task, row, search)
        if status == UNFINISHED:
            search.progress[0].stage = LISTING
            return BRANCH, np.int64(row), np.int64(rival)
        row, rival = settle_rival(model, task, row, rival, status, search)
    return DONE, np.int64(end), np.int64(0)
