"""Questions about rows whose columns are related: asked without the relations first, and what that leaves open then.

A row that is robust without relations is robust. An example that keeps the relations is one. Where the relations rule
the first example out, the cell that it lies in is searched for a point that keeps them (`related_cells`); then, of one
tree, every other leaf within reach; of several, the rest of the reach, box by box (`related_boxes`). Both are exact
where every relation is linear in a cell; otherwise what is neither found nor ruled out is unknown.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.whole_numbers import round_thresholds
from hardwood.threat import Reach
from hardwood.threat.column_budget import RADIUS_TOLERANCE
from hardwood.verification import one_tree
from hardwood.verification.answers import FOUND, NONE, UNFINISHED, Answers, measure_margin
from hardwood.verification.examples import check_examples
from hardwood.verification.linear_program import NO_SOLUTION, Solution
from hardwood.verification.metric import Metric
from hardwood.verification.related_boxes import BoxSearch
from hardwood.verification.related_counts import approach_states, decide_states
from hardwood.verification.related_row import RelatedRow

# An example is the nearest if there is none nearer by more than this share of its distance: the tolerance of the
# mixed-integer solver, which may be asked about boxes, and what follows from it.
SETTLED = 1e-5
# A question of `ask`, which knows relations itself, but is asked without.
Ask = Callable[..., Answers]


def decide(
    ask: Ask,
    ask_nearest: Ask,
    source: TreeEnsemble,
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: Reach,
    settings: Any,
) -> Answers:
    """Ask of every row whether the attacker can give it another class; bounds are of the smallest margin.

    ask, ask_nearest : the doors to this question, and to that for the nearest example.
    """
    answers = ask(source, matrix, class_index, replace(reach, relations=None), settings)
    ensemble = round_thresholds(source, reach.whole)
    unlimited = replace(reach, budget=None)
    own = measure_margin(ensemble, ensemble.output(matrix), class_index)
    # The worst that the attacker could force without relations is no longer known to be had.
    answers.upper[:] = np.where(answers.status == FOUND, answers.upper, own)

    def ask_box(start: np.ndarray, class_index: np.ndarray, box: Reach, seconds: float) -> Answers:
        return ask(source, start, class_index, box, _hurry(settings, seconds))

    def settle(i: int) -> None:
        row = RelatedRow(ensemble, unlimited, matrix[i], int(class_index[i]), settings.time_limit)
        if not row.is_exact:
            status, point = _accept(row.repair(answers.example[i]).point, row, reach)
        elif reach.budget is not None:
            status, point = _spend(ask_nearest, source, row, reach, settings)
        elif ensemble.n_trees == 1:
            status, point = _decide_tree(row, answers, i)
        else:
            status, point = BoxSearch(row, ask_box).decide()
        if status == UNFINISHED and row.seconds > 0.0:
            hurried = _hurry(settings, row.seconds)
            status, point = decide_states(ask, source, reach, matrix[i], row.class_index, hurried)
        answers.status[i] = status
        answers.example[i] = np.nan if point is None else point
        answers.upper[i] = own[i]
        if point is not None:
            margin = measure_margin(ensemble, ensemble.output(point[None]), class_index[i : i + 1])
            answers.upper[i] = min(own[i], margin[0])
        elif status == NONE:
            answers.lower[i] = max(answers.lower[i], 0.0)
        answers.lower[i] = min(answers.lower[i], answers.upper[i])

    interrupted = _settle_open(answers, matrix, reach, settle)
    check_examples(ensemble, reach, matrix, answers.example, class_index, answers.status == FOUND)
    return answers._replace(interrupted=answers.interrupted or interrupted)


def _decide_tree(row: RelatedRow, answers: Answers, i: int) -> tuple[int, np.ndarray | None]:
    """Try the leaves of other classes, the worst first; and note the smallest margin where that gets known."""
    tree, leaves = row.ensemble, row.list_leaves()
    own = np.repeat(row.class_index, len(leaves))
    margin = measure_margin(tree, tree.node_output[leaves], own)
    is_other = tree.node_class[leaves] != own
    status = NONE
    for k in np.lexsort((~is_other, margin)).tolist():
        if not is_other[k]:
            continue
        found = row.enter(int(leaves[k]))
        if found.point is not None:
            return FOUND, found.point
        if found.lower < np.inf:
            status = UNFINISHED
        elif status == NONE:
            answers.lower[i] = margin[k]  # no leaf before this one can be entered
    return status, None


def nearest(
    ask: Ask,
    source: TreeEnsemble,
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: Reach,
    metric: Metric,
    settings: Any,
) -> Answers:
    """Find the nearest example of every row; bounds are of its distance, infinite where there is none."""
    plain = replace(reach, relations=None)
    if reach.groups is not None:
        metric = metric._replace(groups=reach.groups.columns)
    answers = ask(source, matrix, class_index, plain, metric.norm, metric.weight, settings)
    ensemble = round_thresholds(source, reach.whole)

    unlimited = replace(reach, budget=None)

    def settle(i: int) -> None:
        row = RelatedRow(ensemble, unlimited, matrix[i], int(class_index[i]), settings.time_limit)
        if not row.is_exact:
            _, point = _accept(row.repair(answers.example[i], metric).point, row, reach)
            best = Solution(point, 0.0)
        else:
            best = _approach(ask, source, row, metric, settings)
            if not _is_settled(best, row, reach, metric):
                hurried = _hurry(settings, row.seconds)
                counted = approach_states(ask, source, reach, matrix[i], row.class_index, metric, hurried)
                if counted is not None:
                    best = counted
                elif reach.budget is not None and _accept(best.point, row, reach)[1] is None:
                    status, point = _spend(ask, source, row, reach, settings)
                    best = NO_SOLUTION if status == NONE else Solution(point, best.lower)
        found = best.point is not None
        answers.status[i] = FOUND if found else NONE if best.lower == np.inf else UNFINISHED
        answers.example[i] = np.nan if best.point is None else best.point
        answers.upper[i] = np.inf if best.point is None else metric.measure(best.point, matrix[i])
        answers.lower[i] = min(max(answers.lower[i], best.lower), answers.upper[i])

    interrupted = _settle_open(answers, matrix, reach, settle)
    check_examples(ensemble, reach, matrix, answers.example, class_index, answers.status == FOUND)
    return answers._replace(interrupted=answers.interrupted or interrupted)


def _is_settled(best: Solution, row: RelatedRow, reach: Reach, metric: Metric) -> bool:
    """Say whether there is no example, or the nearest one is known, and within the budget."""
    if best.point is None:
        return best.lower == np.inf
    is_nearest = best.lower >= metric.measure(best.point, row.row) * (1.0 - SETTLED)
    return is_nearest and (reach.budget is None or _accept(best.point, row, reach)[1] is not None)


def _accept(point: np.ndarray | None, row: RelatedRow, reach: Reach) -> tuple[int, np.ndarray | None]:
    """Return a point as an example if it is one of the attacker who has a budget."""
    if point is None or not reach.contains(row.row[None], point[None], row.class_index)[0]:
        return UNFINISHED, None
    return FOUND, point


def _spend(
    ask: Ask, source: TreeEnsemble, row: RelatedRow, reach: Reach, settings: Any
) -> tuple[int, np.ndarray | None]:
    """Say whether there is an example within a budget: one is if the nearest is near enough, as the budget measures.

    Of two limits, the number of columns and the radius, each is asked about by itself. An example that is within one
    but not the other leaves the row open.
    """
    for metric, limit in _list_limits(reach):
        best = _approach(ask, source, row, metric, settings)
        if best.lower > limit:
            return NONE, None
        status, point = _accept(best.point, row, reach)
        if status == FOUND:
            return FOUND, point
    return UNFINISHED, None


def _list_limits(reach: Reach) -> list[tuple[Metric, float]]:
    """Return the distances that a budget bounds, and by what."""
    budget, groups = reach.budget, () if reach.groups is None else reach.groups.columns
    assert budget is not None
    limits = []
    if budget.most is not None:
        # A column that cannot be moved at all costs nothing.
        weight = 1.0 / np.where(budget.most > 0.0, budget.most, np.inf)
        limit = (1.0 + RADIUS_TOLERANCE) ** (1.0 / budget.norm)
        limits.append((Metric(budget.norm, weight, reach.categorical, groups), limit))
    if budget.max_changes is not None:
        weight = np.ones(len(reach.left))
        limits.append((Metric(0, weight, reach.categorical, groups), budget.max_changes + 0.5))
    return limits


def _approach(ask: Ask, source: TreeEnsemble, row: RelatedRow, metric: Metric, settings: Any) -> Solution:
    """Find the nearest example of one row, and a distance below which there is none."""
    if row.ensemble.n_trees == 1:
        return _approach_tree(row, metric)

    def ask_box(start: np.ndarray, class_index: np.ndarray, box: Reach, seconds: float, weight: np.ndarray) -> Answers:
        return ask(source, start, class_index, box, metric.norm, weight, _hurry(settings, seconds))

    return BoxSearch(row, ask_box).approach(metric)


def _approach_tree(row: RelatedRow, metric: Metric) -> Solution:
    """Go through the leaves of other classes, near ones first, until none is nearer than the best point."""
    tree, leaves = row.ensemble, row.list_leaves()
    leaves = leaves[tree.node_class[leaves] != row.class_index[0]]
    boxes, n = one_tree.find_boxes(tree), len(leaves)
    rows = np.repeat(row.row[None], n, axis=0)
    starts = one_tree.find_nearest(boxes, leaves, rows, np.repeat(row.class_index, n), row.reach)
    distance = np.array([metric.measure(start, row.row) for start in starts])
    best, upper, lower = NO_SOLUTION, np.inf, np.inf
    for k in np.argsort(distance, kind="stable").tolist():
        if distance[k] >= upper:
            break
        found = row.enter(int(leaves[k]), metric)
        lower = min(lower, found.lower)
        if found.point is not None and (here := metric.measure(found.point, row.row)) < upper:
            best, upper = found, here
    return Solution(best.point, lower)


def extreme(ask: Ask, source: TreeEnsemble, matrix: np.ndarray, reach: Reach, sign: int, settings: Any) -> Answers:
    """Find the largest (sign 1) or smallest (-1) output of a regression that each row can be given, and its point."""
    answers = ask(source, matrix, replace(reach, relations=None), sign, settings)
    ensemble = round_thresholds(source, reach.whole)
    # What is reached: at least `lower` of the largest output, at most `upper` of the smallest.
    reached, beyond = (answers.lower, answers.upper) if sign == 1 else (answers.upper, answers.lower)
    own = ensemble.output(matrix)[:, 0].astype(np.float64)

    def ask_box(start: np.ndarray, class_index: np.ndarray, box: Reach, seconds: float) -> Answers:
        return ask(source, start, box, sign, _hurry(settings, seconds))

    def settle(i: int) -> None:
        row = RelatedRow(ensemble, reach, matrix[i], 0, settings.time_limit)
        if not row.is_exact:
            bound, point = float(beyond[i]), row.repair(answers.example[i]).point
        elif ensemble.n_trees == 1:
            bound, point = _reach_furthest(row, sign)
        else:
            bound, point = BoxSearch(row, ask_box).reach_furthest(sign)
        answers.example[i] = matrix[i] if point is None else point
        reached[i] = own[i] if point is None else float(ensemble.output(point[None])[0, 0])
        beyond[i] = bound
        answers.status[i] = NONE if reached[i] == beyond[i] else UNFINISHED

    interrupted = _settle_open(answers, matrix, reach, settle)
    return answers._replace(interrupted=answers.interrupted or interrupted)


def _reach_furthest(row: RelatedRow, sign: int) -> tuple[float, np.ndarray | None]:
    """Try all leaves, the most extreme first: the output that none exceeds, and the point of the first that is one."""
    tree, leaves = row.ensemble, row.list_leaves()
    output = tree.node_output[leaves, 0].astype(np.float64)
    bound: float | None = None
    for k in np.argsort(-sign * output, kind="stable").tolist():
        found = row.enter(int(leaves[k]))
        if found.lower < np.inf and bound is None:
            bound = float(output[k])
        if found.point is not None:
            return float(output[k]) if bound is None else bound, found.point
    return float(tree.output(row.row[None])[0, 0]) if bound is None else bound, None


def _hurry(settings: Any, seconds: float) -> Any:
    """Return the settings of a question about one box, which may take the seconds that are left."""
    return settings._replace(time_limit=max(seconds, 0.0), n_threads=1, progress=None)


def _settle_open(answers: Answers, matrix: np.ndarray, reach: Reach, settle: Callable[[int], None]) -> bool:
    """Settle the rows whose examples break relations; whether Ctrl-C came before the last."""
    opened = _find_open(answers, matrix, reach)
    try:
        for n_settled, i in enumerate(opened.tolist()):  # noqa: B007 -- read if the loop is interrupted
            settle(i)
    except KeyboardInterrupt:
        left = opened[n_settled:]
        answers.status[left] = UNFINISHED
        answers.example[left] = np.nan
        return True
    return False


def _find_open(answers: Answers, matrix: np.ndarray, reach: Reach) -> np.ndarray:
    """Return the rows whose examples break relations, however little: what rounding allows is not asked of a cell."""
    some = np.flatnonzero(~np.isnan(answers.example).all(axis=1))
    assert reach.relations is not None
    return some[~reach.relations.are_kept(matrix[some], answers.example[some], share=0.0)]
