"""Related columns that hold whole numbers only, or one-hot groups: their states are tried one by one.

What a linear program leaves open, such as how near in the L2 norm whole numbers are, or which points are within two
budgets at once, is settled this way where there are not too many states. In each the related columns are fixed, so that
the question is one without relations, with what is left of the budget.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hardwood.threat import Reach
from hardwood.threat.column_budget import ColumnBudget, measure_changes
from hardwood.verification.answers import FOUND, NONE, UNFINISHED, Answers
from hardwood.verification.asked import Ask, Asked, Decide, Nearest
from hardwood.verification.linear_program import Solution
from hardwood.verification.metric import Metric

# States of one row that are tried, a few hundred microseconds each.
MOST_STATES = 4096
# Points that are asked about at a time.
AT_ONCE = 64
# A share of the radius so small is nothing that could still be spent.
LEAST_SHARE = 1e-9


def list_states(reach: Reach, row: np.ndarray, class_index: np.ndarray) -> np.ndarray | None:
    """Return a row with all states of its related columns that keep the relations, within the budget.

    None if the related columns are not all whole numbers and groups, or have too many states.
    """
    assert reach.relations is not None
    columns, low_high = reach.relations.columns, reach.box(row[None], class_index)
    blocks = [*_list_group_states(reach, row, columns)]
    grouped = [j for own, _ in blocks for j in own]
    for j in np.setdiff1d(columns, grouped).tolist():
        low, high = (float(end[0, j]) for end in low_high)
        if reach.categories[j] is not None or np.isnan(row[j]):
            return None
        is_counted = reach.whole is not None and reach.whole[j] and high - low < MOST_STATES
        if low < high and not is_counted:
            return None
        values = np.arange(low, high + 1.0) if low < high else row[[j]]
        blocks.append(([j], values[:, None]))
    sizes = [len(states) for _, states in blocks]
    if np.prod(np.array(sizes, dtype=np.float64)) > MOST_STATES:
        return None
    picks = np.unravel_index(np.arange(int(np.prod(sizes))), sizes)
    points = np.repeat(row[None], len(picks[0]), axis=0)
    for (own, states), pick in zip(blocks, picks, strict=True):
        points[:, own] = states[pick]
    rows = np.repeat(row[None], len(points), axis=0)
    return points[reach.relations.are_kept(rows, points) & reach.affords(rows, points)]


def _list_group_states(reach: Reach, row: np.ndarray, columns: np.ndarray) -> Iterator[tuple[list[int], np.ndarray]]:
    """Yield the columns of each related group, and the states that it can be given."""
    if reach.groups is None:
        return
    codes = reach.groups.read_codes(row[None])[0]
    for own, allowed, code in zip(reach.groups.columns, reach.groups.allowed, codes.tolist(), strict=True):
        if np.isin(own, columns).any():
            yield own.tolist(), np.eye(len(allowed), len(own))[allowed[code]]


def fix_related(reach: Reach, row: np.ndarray, states: np.ndarray) -> Iterator[tuple[Reach, np.ndarray]]:
    """Yield states that leave equally much of the budget, and what can be done besides: the related columns stay."""
    assert reach.relations is not None
    columns, groups = reach.relations.columns, reach.groups
    if groups is not None:
        is_free = np.array([not np.isin(own, columns).any() for own in groups.columns])
        columns = np.unique([*columns, *(j for own in groups.columns if np.isin(own, columns).any() for j in own)])
        groups = groups.fix(is_free)
    left, right = reach.left.copy(), reach.right.copy()
    left[columns] = right[columns] = 0.0
    share = None if reach.share is None else np.where(np.isin(np.arange(len(left)), columns), 0.0, reach.share)
    rest = replace(reach, left=left, right=right, share=share, groups=groups, relations=None, budget=None)
    if reach.budget is None:
        yield rest, states
        return
    change = measure_changes(np.repeat(row[None], len(states), axis=0), states, reach.categorical)
    if reach.groups is not None:
        reach.groups.count_once(change)
    change = reach.budget.drop_free(change)
    n_changes = np.count_nonzero(change, axis=1)
    spent = np.zeros(len(states)) if reach.budget.most is None else reach.budget.spend(change)
    for n, used in sorted({*zip(n_changes.tolist(), spent.tolist(), strict=True)}):
        yield rest.under(_subtract(reach.budget, n, used)), states[(n_changes == n) & (spent == used)]


def _subtract(budget: ColumnBudget, n_changes: int, spent: float) -> ColumnBudget:
    """Return what is left of a budget."""
    max_changes = None if budget.max_changes is None else budget.max_changes - n_changes
    if budget.most is None:
        return replace(budget, max_changes=max_changes)
    if 1.0 - spent < LEAST_SHARE:
        return ColumnBudget(0)
    return replace(budget, max_changes=max_changes, most=budget.most * (1.0 - spent) ** (1.0 / budget.norm))


def decide_states(asked: Asked, ask: Ask) -> tuple[int, np.ndarray | None]:
    """Say whether there is an example of one row, and give it; unfinished if the states cannot be counted."""
    assert isinstance(asked.reach, Reach)
    states = list_states(asked.reach, asked.matrix[0], asked.class_index)
    if states is None:
        return UNFINISHED, None
    status = NONE
    for rest, rows in fix_related(asked.reach, asked.matrix[0], states):
        said = _ask_states(asked._replace(goal=Decide(), reach=rest), rows, ask)
        if (said.status == FOUND).any():
            return FOUND, said.example[int((said.status == FOUND).argmax())]
        if (said.status == UNFINISHED).any():
            status = UNFINISHED
        if asked.clock.is_over():
            return UNFINISHED, None
    return status, None


def approach_states(asked: Asked, ask: Ask, metric: Metric) -> Solution | None:
    """Find the nearest example, and a distance below which there is none; None if the states cannot be counted."""
    assert isinstance(asked.reach, Reach)
    row = asked.matrix[0]
    states = list_states(asked.reach, row, asked.class_index)
    if states is None:
        return None
    best, upper, lower = None, np.inf, np.inf
    for rest, rows in fix_related(asked.reach, row, states):
        part = np.array([metric.measure(state, row) for state in rows])
        rows, part = rows[part < upper], part[part < upper]
        if not len(rows):
            continue
        said = _ask_states(asked._replace(goal=Nearest(metric.norm, metric.weight), reach=rest), rows, ask)
        lower = min([lower, *map(metric.add, part.tolist(), said.lower.tolist())])
        for k in np.flatnonzero(said.status == FOUND).tolist():
            distance = metric.measure(said.example[k], row)
            if distance < upper:
                best, upper = said.example[k], distance
        if asked.clock.is_over():
            return Solution(best, 0.0)
    return Solution(best, min(lower, upper))


def _ask_states(asked: Asked, states: np.ndarray, ask: Ask) -> Answers:
    """Ask about the states of a row, all on its clock: those that it leaves no time for are unknown."""
    answers = Answers.unknown(states, lower=0.0)
    for first in range(0, len(states), AT_ONCE):
        if first > 0 and asked.clock.is_over():
            break
        rows = np.arange(first, min(first + AT_ONCE, len(states)))
        some = asked.select(np.zeros(len(rows), dtype=np.intp))
        answers = answers.put(rows, ask(some._replace(matrix=states[rows], are_moved=True)))
        if answers.interrupted:
            raise KeyboardInterrupt
    return answers
