"""Deciding and attacking row after row: the loops around `ensemble_search`.

A kernel works through rows until it is done or needs the caller: more room, or a word on whether to go on with a hard
row.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel, part
from hardwood._kernels.ensemble_search import FOUND, NO_ROOM, NONE, Box, collect, prepare, seek

DONE = -1


class Rows(NamedTuple):
    """The rows of one call, encoded, and what may become of them."""

    x: np.ndarray  # float64 (row, feature)
    low: np.ndarray  # float64 (row, feature): low < x <= high
    high: np.ndarray
    allowed: np.ndarray  # bool (row, category)
    label: np.ndarray  # int64 per row


class Question(NamedTuple):
    """What is asked of every row."""

    doubt: float  # how far float64 sums may be from the model's own
    max_steps: int  # before the caller is asked
    weight: np.ndarray  # float64 per feature: what a unit of change costs, for distances


class Answers(NamedTuple):
    """What was found, row by row."""

    status: np.ndarray  # int64: FOUND, NONE, or as it was
    bound: np.ndarray  # float64: an upper bound of the lead of another class over the label
    example: np.ndarray  # float64 (row, feature)
    distance: np.ndarray  # float64: to the example
    certified: np.ndarray  # float64: there is none nearer than, or at, this distance


@part
def write_example(model, x, box, search, example):
    """The point of the common box that is nearest to the row, feature by feature."""
    for j in range(x.shape[0]):
        if model.n_categories[j]:
            own = np.int64(x[j])
            seat = own
            if not search.allowed[model.category_start[j] + own]:
                seat = np.int64(0)
                while not search.allowed[model.category_start[j] + seat]:
                    seat += 1
            example[j] = np.float64(seat)
        elif x[j] <= search.low[j]:
            example[j] = np.nextafter(search.low[j], np.inf)
        else:
            example[j] = min(x[j], search.high[j])


@part
def set_up(model, label, rival, doubt):
    """How to ask whether `rival` can beat `label`: (plus output, minus output, least sum of leaf values)."""
    if model.base_score.shape[0] == 1:
        # One output: class 1 iff it is greater than the cut.
        limit = model.cut * model.divisor - model.base_score[0]
        if label == 0:
            return np.int64(0), np.int64(-1), (np.nextafter(limit, np.inf) if doubt == 0.0 else limit - doubt)
        return np.int64(-1), np.int64(0), -limit - doubt
    limit = model.base_score[label] - model.base_score[rival]
    if doubt == 0.0 and rival > label:
        limit = np.nextafter(limit, np.inf)  # of two equal outputs the first wins
    return np.int64(rival), np.int64(label), limit - doubt


@inner
def _ask(model, box, label, rival, question, leaves, search):
    """Collect leaves and prepare a search: FOUND, yet to be seen; NONE if the best leaves cannot do it; or NO_ROOM."""
    plus, minus, target = set_up(model, label, rival, question.doubt)
    total = collect(model, box, plus, minus, leaves, search.stack)
    if np.isnan(total):
        return NO_ROOM, 0.0, target
    lead = total - target - question.doubt
    if total < target:
        return NONE, lead, target
    if leaves.sizes[0] > search.known.shape[0]:
        return NO_ROOM, lead, target
    for leaf in range(leaves.sizes[0]):
        search.known[leaf] = False
    prepare(box, leaves, model.trees.root.shape[0], search, total, target, np.inf)
    return FOUND, lead, target


@kernel
def decide_rows(model, rows, first, rival, resume, question, leaves, search, answers):
    """Decide rows from `first` on: can the attacker give it another class?

    Returns (reason, row, rival): DONE, or NO_ROOM or UNFINISHED at a row and rival to come back to; the latter with
    `resume`.
    """
    n_trees = model.trees.root.shape[0]
    n_outputs = model.base_score.shape[0]
    for row in range(first, rows.x.shape[0]):
        label = rows.label[row]
        box = Box(rows.low[row], rows.high[row], rows.allowed[row])
        if not resume:
            answers.bound[row] = -np.inf
        for other in range(rival, max(n_outputs, 1)):
            if n_outputs > 1 and other == label:
                continue
            status = FOUND
            target = 0.0
            if resume:
                target = set_up(model, label, other, question.doubt)[2]
                resume = False
            else:
                status, lead, target = _ask(model, box, label, other, question, leaves, search)
                if status == NO_ROOM:
                    return NO_ROOM, np.int64(row), np.int64(other)
                answers.bound[row] = max(answers.bound[row], lead)
            if status == FOUND:
                status = seek(model, box, leaves, n_trees, search, target, label, question.max_steps)
                if status == FOUND:
                    write_example(model, rows.x[row], box, search, answers.example[row])
                    answers.status[row] = FOUND
                    if n_outputs - 1 - (label == n_outputs - 1) > other:
                        answers.bound[row] = np.inf  # nothing is known of the rivals that were not looked at
                    break
                if status != NONE:
                    return status, np.int64(row), np.int64(other)
        if answers.status[row] != FOUND:
            answers.status[row] = NONE
        rival = np.int64(0)
    return DONE, np.int64(rows.x.shape[0]), np.int64(0)
