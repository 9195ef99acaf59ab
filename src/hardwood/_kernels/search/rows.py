"""The rows of one call, what is asked about them, and what every kernel does with a row: set up, enclose, note.

Four kernels share the work, and each is compiled when a row first needs it. `decisions` and `distances` go from row to
row and try what is cheap; they come back with BRANCH at a row that needs branch and bound (`branching`), which comes
back with ASCEND at a box that needs multipliers (`dual_bounds`). The caller hands a row from one to the other.
"""

from typing import Any, NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, part, record_type
from hardwood._kernels.search.leaves import collect, list_active, locate, open_trees, predict_point
from hardwood._kernels.search.radius import SAFE_COST, limit_radius
from hardwood._kernels.search.state import (
    CHEAPEST,
    FOUND,
    LARGEST,
    NONE,
    begin,
    open_bounds,
    write_point,
)

ROW = record_type(
    [
        ("class_index", np.int64),
        ("status", np.int64),  # FOUND, NONE, or as it was
        ("bound", np.float64),  # an upper bound of the lead of another class over its own; or of the sum
        ("guess", np.float64),  # the cost to begin with
        ("certified", np.float64),  # a cost below which there is no example
        ("is_extreme", np.int64),  # whether the example costs so little or so much that costs near to it may be lost
        ("work", np.int64),  # leaves and cells that branch and bound has looked at
    ]
)


class Task(NamedTuple):
    """The rows of one call, encoded, what may become of them, what is asked, and what has been found."""

    x: np.ndarray  # float64 (row, feature)
    low: np.ndarray  # float64 (row, feature): low <= x <= high
    high: np.ndarray
    allowed: np.ndarray  # bool (row, category)
    each: np.ndarray  # ROW
    example: np.ndarray  # float64 (row, feature)
    weight: np.ndarray  # float64 per feature: what a unit of change costs, for distances
    scale: float  # a power of two that costs are multiplied by, to keep their squares in the range of numbers
    norm: int  # of distances: 0, 1, 2 or INFINITY_NORM
    limit: float  # only examples that cost less are looked for; infinite if all are
    any_will_do: bool  # whether any of these is enough, or the cheapest one is wanted
    goal: int  # ANY, CHEAPEST or LARGEST
    sign: int  # for LARGEST: 1 largest, -1 smallest output
    doubt: float  # how far float64 sums may be from the model's own
    step: float  # nearly all leaf values are multiples of this; 0 if there is no such number
    stride: float  # sums of those are `offset` plus a multiple of this, and leaf values `vote` plus one
    offset: float
    vote: float
    rounding: float  # what adding up may lose per leaf
    max_work: int  # leaves and cells looked at before the caller is asked whether to go on
    settings: Any  # SearchSettings, see verification/settings.py


@part
def set_up(model, task, class_index, rival, question):
    """Note how to ask whether `rival` can beat `class_index`: which outputs count, and the least sum of leaf values.

    Leaf values are multiples of the step, and their sums come in strides, so the least sum is the next one. What few
    leaves of other values there are count for more than they are worth: so much that sums with them come in strides,
    too, and that rounding cannot make more of them.
    """
    if model.base_score.shape[0] == 1:
        # One output: class 1 iff it is greater than the cut.
        question.plus, question.minus = (np.int64(0), np.int64(-1)) if class_index == 0 else (np.int64(-1), np.int64(0))
        limit, beats = (model.least_rise, False) if class_index == 0 else (model.least_fall, True)
    else:
        limit = model.base_score[class_index] - model.base_score[rival]
        question.plus, question.minus = np.int64(rival), np.int64(class_index)
        beats = rival < class_index  # of equal outputs the first wins
    question.limit, question.target, question.least_worth = limit, limit - task.doubt, -np.inf
    question.step, question.stride, question.vote = task.step, task.stride, task.vote
    question.excess = 2.0 * task.doubt
    if task.step > 0.0:
        least = task.offset + task.stride * np.ceil((limit - task.offset) / task.stride)
        question.target = least if beats or least > limit else least + task.stride
        # What counts for most is worth most, up to the excess.
        question.least_worth = limit - task.doubt - 2.0 * task.doubt * model.trees.root.shape[0]
    if task.goal == LARGEST:
        question.plus, question.minus = (np.int64(0), np.int64(-1)) if task.sign > 0 else (np.int64(-1), np.int64(0))
        question.target, question.step, question.least_worth = -np.inf, 0.0, -np.inf


@inner
def is_answer(model, x, search, class_index):
    """Write down the point of the chosen cells; whether the model gives it another class."""
    write_point(model, search.axes, x, search.point)
    return predict_point(model, search.point, search.output) != class_index


@inner
def enclose(model, task, row, search, radius):
    """Find the cells within reach, and within a radius of the row; whether that is all within reach."""
    axes = search.axes
    whole = True
    locate(model, task.x[row], task.low[row], task.high[row], task.allowed[row], axes)
    if task.goal == CHEAPEST:
        whole = limit_radius(model, task, row, radius, axes)
    search.progress[0].n_active = list_active(axes)
    open_trees(model, search)
    return whole


@inner
def list_leaves(model, task, search):
    """List the leaves of these cells; whether there is room for them."""
    slots, marks = search.slots, search.marks
    n_trees, bound = collect(model, search)
    if n_trees < 0 or 2 * marks[n_trees] > slots.shape[0] or 2 * n_trees + 2 > marks.shape[0]:
        return False
    # For the largest sum none is given up for rounding alone: the climb added up in another order than bounds are.
    search.question[0].rounding = task.rounding * marks[n_trees] if task.goal != LARGEST else 0.0
    begin(search, n_trees, bound)
    return True


@part
def find_last_rival(model, class_index):
    """The last class that may beat a class; 0 if there is one output."""
    n_outputs = model.base_score.shape[0]
    return n_outputs - 1 - (class_index == n_outputs - 1 and n_outputs > 1)


@inner
def note(task, search, status, is_last, row):
    """Write down what is known of a row. Nothing is known of rivals that have not been looked at."""
    question, progress, radius = search.question[0], search.progress[0], search.radius[0]
    bound, floor = open_bounds(search)
    here = task.each[row]
    if task.goal == LARGEST:
        here.bound = max(bound, np.nextafter(question.target, -np.inf))
    elif task.goal == CHEAPEST:
        free = max(radius.without, min(floor, radius.within)) if is_last else 0.0
        here.certified = max(free, here.certified)
        here.is_extreme = radius.best < np.inf and not 1.0 / SAFE_COST < radius.best < SAFE_COST
    else:
        # Of what has been given up it is known that it is below the target, and no more than the first bound.
        lead = min(max(bound, question.target), progress.first_bound) - question.limit
        if status == NONE:
            progress.earlier = max(progress.earlier, min(lead, 0.0))
            lead = progress.earlier
        here.bound = max(lead, progress.earlier) if is_last else np.inf


@part
def settle_rival(model, task, row, rival, status, search):
    """Write down that a rival can win (FOUND) or cannot (NONE); the row and rival that come next."""
    here = task.each[row]
    is_last = rival == find_last_rival(model, here.class_index)
    note(task, search, status, is_last, row)
    if status == FOUND:
        here.status = FOUND
    elif not is_last:
        return np.int64(row), np.int64(rival + 1)
    if task.goal == CHEAPEST:
        here.certified = np.inf
    if here.status != FOUND:
        here.status = NONE
    return np.int64(row + 1), np.int64(0)


@part
def begin_rival(model, task, row, rival, search):
    """Set up the question about a rival, the next one if this is the row's own class; which one it is."""
    progress, radius, class_index = search.progress[0], search.radius[0], task.each[row].class_index
    if rival == 0:
        radius.best, progress.earlier = task.limit, -np.inf
    if model.base_score.shape[0] > 1 and rival == class_index:
        rival += 1
    set_up(model, task, class_index, rival, search.question[0])
    radius.without = 0.0
    return np.int64(rival)
