"""The nearest adversarial example of a row, in the L-infinity norm.

The distance from a point to the common box of some leaves is the largest of its distances to their boxes. So an
example within a radius uses leaves within that radius only, and the smallest distance is the distance of some leaf:
widen the radius until there is an example, then halve the leaf distances between the largest radius without and the
smallest with one.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel
from hardwood._kernels.ensemble_rows import DONE, set_up, write_example
from hardwood._kernels.ensemble_search import FOUND, NO_ROOM, NONE, UNFINISHED, Box, collect, prepare, seek

WIDEN, HALVE = 0, 1


class Ball(NamedTuple):
    """Scratch: the part of a row's reach within a radius, and the state of its search."""

    low: np.ndarray  # float64 per feature
    high: np.ndarray
    allowed: np.ndarray  # bool
    costs: np.ndarray  # float64 per leaf
    state: np.ndarray  # float64 (5): phase, radius, none within, found at, least sum


PHASE, RADIUS, WITHOUT, WITH, TARGET = 0, 1, 2, 3, 4


@inner
def _cut_ball(model, rows, row, weight, radius, ball):
    """Cut the row's reach to a radius; whether that changed anything."""
    smaller = False
    for j in range(weight.shape[0]):
        low, high = rows.low[row, j], rows.high[row, j]
        if model.n_categories[j]:
            for code in range(model.n_categories[j]):
                at = model.category_start[j] + code
                allowed = rows.allowed[row, at]
                ball.allowed[at] = allowed and (weight[j] <= radius or code == np.int64(rows.x[row, j]))
                smaller |= allowed != ball.allowed[at]
        elif weight[j] > 0.0:
            # A trifle more than the radius: what counts is the distance of the leaves, computed below.
            reach = radius / weight[j] * (1.0 + 1e-9) + 1e-300
            least, most = np.nextafter(rows.x[row, j] - reach, -np.inf), rows.x[row, j] + reach
            smaller |= least > low or most < high
            low, high = max(low, least), min(high, most)
        ball.low[j], ball.high[j] = low, high
    return smaller


@inner
def _measure(leaves, x, weight):
    """Work out how far each leaf is from the row."""
    cost, start, end, feature = leaves.cost, leaves.start, leaves.end, leaves.bound_feature
    bound_low, bound_high, bound_set = leaves.bound_low, leaves.bound_high, leaves.bound_set
    for leaf in range(leaves.sizes[0]):
        largest = 0.0
        for k in range(start[leaf], end[leaf]):
            j = feature[k]
            change = 0.0
            if bound_set[k] >= 0:
                change = -1.0  # whether the row's own category is in the set is seen below
            elif x[j] <= bound_low[k]:
                change = np.nextafter(bound_low[k], np.inf) - x[j]
            elif x[j] > bound_high[k]:
                change = x[j] - bound_high[k]
            if change > 0.0:
                largest = max(largest, weight[j] * change)
        cost[leaf] = largest


@inner
def _measure_sets(model, leaves, x, weight):
    """Add what a change of category costs."""
    for leaf in range(leaves.sizes[0]):
        for k in range(leaves.start[leaf], leaves.end[leaf]):
            j = leaves.bound_feature[k]
            if leaves.bound_set[k] >= 0 and not model.sets[leaves.bound_set[k] + np.int64(x[j])]:
                leaves.cost[leaf] = max(leaves.cost[leaf], weight[j])


@inner
def _next_radius(leaves, ball):
    """The middle one of the leaf distances that are still open; NaN if there is none."""
    without, upto = ball.state[WITHOUT], ball.state[WITH]
    costs, cost = ball.costs, leaves.cost
    n = 0
    for leaf in range(leaves.sizes[0]):
        if without < cost[leaf] < upto:
            costs[n] = cost[leaf]
            n += 1
    if n == 0:
        return np.nan
    # Quickselect of the median.
    low, high, middle = 0, n - 1, n // 2
    while low < high:
        pivot = costs[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while costs[i] < pivot:
                i += 1
            while costs[j] > pivot:
                j -= 1
            if i <= j:
                costs[i], costs[j] = costs[j], costs[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            break
    return costs[middle]


@inner
def _largest_cost(leaves, n_trees, search):
    largest = 0.0
    for tree in range(n_trees):
        largest = max(largest, leaves.cost[search.top[tree]])
    return largest


@inner
def _widen(model, rows, row, label, rival, question, leaves, search, ball):
    """Collect the leaves within the radius: FOUND, yet to be seen, NONE or NO_ROOM; and if a larger one may help."""
    plus, minus, target = set_up(model, label, rival, question.doubt)
    smaller = _cut_ball(model, rows, row, question.weight, ball.state[RADIUS], ball)
    box = Box(ball.low, ball.high, ball.allowed)
    total = collect(model, box, plus, minus, leaves, search.stack)
    if np.isnan(total) or leaves.sizes[0] > search.known.shape[0]:
        return NO_ROOM, smaller
    ball.state[TARGET] = target
    if total < target:
        return NONE, smaller
    _measure(leaves, rows.x[row], question.weight)
    if model.sets.shape[0]:
        _measure_sets(model, leaves, rows.x[row], question.weight)
    for leaf in range(leaves.sizes[0]):
        search.known[leaf] = False
    prepare(box, leaves, model.trees.root.shape[0], search, total, target, ball.state[RADIUS])
    return FOUND, smaller


@kernel
def nearest_rows(model, rows, first, rival, resume, question, leaves, search, ball, answers):
    """Find the nearest example of rows from `first` on; `answers.distance` holds a first guess of the radius.

    Returns (reason, row, rival) as `decide_rows` does. When a row is given up, its best example so far, its distance
    and the radius that is certainly free of examples stay in `answers`.
    """
    n_trees = model.trees.root.shape[0]
    n_outputs = model.base_score.shape[0]
    state = ball.state
    for row in range(first, rows.x.shape[0]):
        label = rows.label[row]
        if not resume and rival == 0:
            state[WITH] = np.inf
            answers.certified[row] = np.inf
        for other in range(rival, n_outputs):
            if n_outputs > 1 and other == label:
                continue
            status, smaller = FOUND, True
            if not resume:
                state[PHASE], state[WITHOUT] = WIDEN, -1.0
                state[RADIUS] = min(answers.distance[row], state[WITH])
                status, smaller = _widen(model, rows, row, label, other, question, leaves, search, ball)
                if status == NO_ROOM:
                    return NO_ROOM, np.int64(row), np.int64(other)
            resume = False
            box = Box(ball.low, ball.high, ball.allowed)
            while True:
                if status == FOUND:
                    status = seek(model, box, leaves, n_trees, search, state[TARGET], label, question.max_steps)
                if status == UNFINISHED:
                    return UNFINISHED, np.int64(row), np.int64(other)
                if status == FOUND:
                    state[WITH] = _largest_cost(leaves, n_trees, search)
                    state[PHASE] = HALVE
                    answers.status[row] = FOUND
                    write_example(model, rows.x[row], box, search, answers.example[row])
                else:
                    state[WITHOUT] = state[RADIUS]
                if state[PHASE] == WIDEN:
                    if not smaller or state[RADIUS] >= state[WITH]:
                        break
                    state[RADIUS] = min(2.0 * state[RADIUS], state[WITH])
                    status, smaller = _widen(model, rows, row, label, other, question, leaves, search, ball)
                    if status == NO_ROOM:
                        return NO_ROOM, np.int64(row), np.int64(other)
                else:
                    state[RADIUS] = _next_radius(leaves, ball)
                    if np.isnan(state[RADIUS]):
                        break
                    prepare(box, leaves, n_trees, search, np.inf, state[TARGET], state[RADIUS])
                    status = FOUND
        answers.certified[row] = state[WITH]
        answers.distance[row] = state[WITH]
        if answers.status[row] != FOUND:
            answers.status[row] = NONE
        rival = np.int64(0)
    return DONE, np.int64(rows.x.shape[0]), np.int64(0)
