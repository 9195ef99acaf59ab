"""Questions about rows whose columns are related: asked without the relations first, and what that leaves open then.

A row that is robust without relations is robust. An example that keeps the relations is one. Where the relations rule
the first example out, the cell that it lies in is searched for a point that keeps them (`related_cells`); then, of one
tree, every other leaf within reach; of several, the rest of the reach, box by box (`related_boxes`). Where values can
be hidden, that is done for each of the ways in which related ones can be missing: relations between the others hold.
All of it is exact where every relation is linear in a cell; otherwise what is neither found nor ruled out is unknown.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from hardwood.ensemble.whole_numbers import round_thresholds
from hardwood.threat import Reach
from hardwood.threat.column_budget import RADIUS_TOLERANCE
from hardwood.threat.priced_reach import PricedReach
from hardwood.verification import one_tree
from hardwood.verification.answers import FOUND, NONE, UNFINISHED, Answers, measure_margin
from hardwood.verification.asked import Ask, Asked, Decide, Extreme, Nearest
from hardwood.verification.linear_program import NO_SOLUTION, Solution
from hardwood.verification.metric import Metric
from hardwood.verification.related_boxes import BoxSearch
from hardwood.verification.related_counts import approach_states, decide_states
from hardwood.verification.related_row import RelatedRow, list_cases

# An example is the nearest if there is none nearer by more than this share of its distance: the tolerance of the
# mixed-integer solver, which may be asked about boxes, and what follows from it.
SETTLED = 1e-5
# What is known of a row: its status, its example, and what nothing that it can become is below.
Verdict = tuple[int, np.ndarray | None, float]


def keep_relations(asked: Asked, ask: Ask) -> Answers | None:
    """Ask without relations between columns, and then about the rows whose examples break them.

    Local moves know nothing of relations, and drop examples that break them themselves.
    """
    if isinstance(asked.reach, PricedReach) or asked.reach.relations is None or asked.settings.is_local:
        return None
    answers = ask(asked._replace(reach=replace(asked.reach, relations=None)))
    if isinstance(asked.goal, Decide):
        # The worst that the attacker could force without relations is no longer known to be had.
        answers.upper[answers.status != FOUND] = np.inf
        return _settle_open(answers, asked, _Decided(asked, ask, answers).settle)
    if isinstance(asked.goal, Nearest):
        return _settle_open(answers, asked, _Approached(asked, ask, answers, asked.goal).settle)
    return _settle_open(answers, asked, _Reached(asked, ask, answers, asked.goal).settle)


def _settle_open(answers: Answers, asked: Asked, settle: Callable[[int], None]) -> Answers:
    """Settle the rows whose examples break relations; those that Ctrl-C comes before are unknown."""
    opened = _find_open(answers, asked.matrix, asked.reach)
    try:
        for n_settled, i in enumerate(opened.tolist()):  # noqa: B007 -- read if the loop is interrupted
            with asked.clock.run(i):
                settle(i)
    except KeyboardInterrupt:
        left = opened[n_settled:]
        answers.status[left] = UNFINISHED
        if isinstance(asked.goal, Extreme):
            reached = answers.lower if asked.goal.sign == 1 else answers.upper
            reached[left], answers.example[left] = -asked.goal.sign * np.inf, asked.matrix[left]
        else:
            answers.upper[left], answers.example[left] = np.inf, np.nan
        return answers._replace(interrupted=True)
    return answers


def _find_open(answers: Answers, matrix: np.ndarray, reach: Reach | PricedReach) -> np.ndarray:
    """Return the rows whose examples break relations, however little: what rounding allows is not asked of a cell."""
    assert isinstance(reach, Reach)
    assert reach.relations is not None
    some = np.flatnonzero(~np.isnan(answers.example).all(axis=1))
    return some[~reach.relations.are_kept(matrix[some], answers.example[some], share=0.0)]


class _Related:
    """Rows with relations, whose first answers did not know of them."""

    def __init__(self, asked: Asked, ask: Ask, answers: Answers) -> None:
        assert isinstance(asked.reach, Reach)
        self.asked, self.ask, self.answers, self.reach = asked.silent(), ask, answers, asked.reach
        self.ensemble = round_thresholds(asked.ensemble, asked.reach.whole)

    def ask_about(self, i: int) -> Asked:
        """Return the question about one row; what its relations leave of boxes is asked by one thread."""
        one = self.asked.select(np.array([i]))
        return one._replace(settings=one.settings._replace(n_threads=1))

    def list_cases(self, i: int, reach: Reach) -> Iterator[RelatedRow] | None:
        """Go through the cases of a row; None if there are too many."""
        asked = self.ask_about(i)
        return list_cases(self.ensemble, reach, asked.matrix[0], int(asked.class_index[0]), asked.clock)

    def make_ask_box(self, i: int, goal: Decide | Extreme | Metric) -> Callable[..., Answers]:
        """Return what asks about boxes of a row: about the point of the box that is nearest to it."""
        one = self.ask_about(i)

        def ask_box(start: np.ndarray, box: Reach, weight: np.ndarray | None = None) -> Answers:
            asked = Nearest(goal.norm, goal.weight if weight is None else weight) if isinstance(goal, Metric) else goal
            return self.ask(one._replace(goal=asked, matrix=start, reach=box, are_moved=True))

        return ask_box

    def accept(self, i: int, point: np.ndarray | None) -> tuple[int, np.ndarray | None]:
        """Return a point as an example if it is one of the attacker, whatever it was searched for as."""
        one = self.ask_about(i)
        if point is None or not self.reach.contains(one.matrix, point[None], one.class_index)[0]:
            return UNFINISHED, None
        if not self.reach.wants(one.class_index, self.asked.ensemble.decide(point[None]))[0]:
            return UNFINISHED, None
        return FOUND, point

    def spend(self, i: int, row: RelatedRow) -> tuple[int, np.ndarray | None]:
        """Say whether there is an example within a budget: one is if the nearest is near enough, as the budget has it.

        Of two limits, the number of columns and the radius, each is asked about by itself. An example that is within
        one but not the other leaves the row open.
        """
        for metric, limit in _list_limits(self.reach):
            best = self.approach(i, row, metric)
            if best.lower > limit:
                return NONE, None
            status, point = self.accept(i, best.point)
            if status == FOUND:
                return FOUND, point
        return UNFINISHED, None

    def approach(self, i: int, row: RelatedRow, metric: Metric) -> Solution:
        """Find the nearest example of one row, and a distance below which there is none."""
        if row.ensemble.n_trees == 1:
            return _approach_tree(row, metric)
        return BoxSearch(row, self.make_ask_box(i, metric)).approach(metric)


class _Decided(_Related):
    """Whether rows with relations can be given another class."""

    def settle(self, i: int) -> None:
        """Settle one row."""
        answers, one = self.answers, self.ask_about(i)
        status, point, lower = self._decide(i)
        if status == UNFINISHED and not one.clock.is_over():
            status, point = decide_states(one, self.ask)
        answers.status[i], answers.lower[i] = status, max(answers.lower[i], lower)
        answers.example[i] = np.nan if point is None else point
        answers.upper[i] = np.inf

    def _decide(self, i: int) -> Verdict:
        cases = self.list_cases(i, replace(self.reach, budget=None))
        if cases is None:
            return UNFINISHED, None, -np.inf
        status, least = NONE, np.inf
        for row in cases:
            if row.clock.is_over():
                return UNFINISHED, None, -np.inf
            if self.reach.budget is not None:
                said, point = self.spend(i, row)
                lower = -np.inf
            elif row.ensemble.n_trees == 1:
                said, point, lower = _decide_tree(row, self.asked.reach)
            else:
                said, point = BoxSearch(row, self.make_ask_box(i, Decide())).decide()
                lower = -np.inf
            least = min(least, lower)
            if said == FOUND and point is not None:
                return FOUND, point, -np.inf
            status = UNFINISHED if said == UNFINISHED else status
        return status, None, least


class _Approached(_Related):
    """The nearest examples of rows with relations."""

    def __init__(self, asked: Asked, ask: Ask, answers: Answers, goal: Nearest) -> None:
        super().__init__(asked, ask, answers)
        groups = () if self.reach.groups is None else self.reach.groups.columns
        self.metric = Metric(goal.norm, goal.weight, asked.ensemble.schema.categorical, groups)

    def settle(self, i: int) -> None:
        """Settle one row."""
        answers, metric, row = self.answers, self.metric, self.asked.matrix[i]
        best = self._approach(i)
        if not self._is_settled(i, best):
            one, best = self.ask_about(i), best._replace(point=self.accept(i, best.point)[1])
            counted = None if one.clock.is_over() else approach_states(one, self.ask, metric)
            if counted is not None:
                best = self._choose(i, best, counted)
            elif self.reach.budget is not None and best.point is None:
                best = self._spend(i, best)
        found = best.point is not None
        answers.status[i] = FOUND if found else NONE if best.lower == np.inf else UNFINISHED
        answers.example[i] = np.nan if best.point is None else best.point
        answers.upper[i] = np.inf if best.point is None else metric.measure(best.point, row)
        answers.lower[i] = min(max(answers.lower[i], best.lower), answers.upper[i])

    def _approach(self, i: int) -> Solution:
        """Find the nearest example in any case, within the budget or not."""
        cases = self.list_cases(i, replace(self.reach, budget=None))
        if cases is None:
            return Solution(None, 0.0)
        best, upper, lower = NO_SOLUTION, np.inf, np.inf
        for row in cases:
            if row.clock.is_over():
                lower = 0.0
                break
            found = self.approach(i, row, self.metric)
            lower = min(lower, found.lower)
            if found.point is not None and (here := self.metric.measure(found.point, row.row)) < upper:
                best, upper = found, here
        return Solution(best.point, lower)

    def _choose(self, i: int, one: Solution, other: Solution) -> Solution:
        """Return the nearer point of two, and the better of the bounds."""
        row, points = self.asked.matrix[i], [found.point for found in (one, other) if found.point is not None]
        nearer = min(points, key=lambda point: self.metric.measure(point, row), default=None)
        return Solution(nearer, max(one.lower, other.lower))

    def _spend(self, i: int, best: Solution) -> Solution:
        """Find any example within the budget, no nearer than what is known; or that there is none."""
        cases, status = self.list_cases(i, replace(self.reach, budget=None)), NONE
        if cases is None:
            return Solution(None, best.lower)
        for row in cases:
            if row.clock.is_over():
                return Solution(None, best.lower)
            said, point = self.spend(i, row)
            if said == FOUND:
                return Solution(point, best.lower)
            status = UNFINISHED if said == UNFINISHED else status
        return NO_SOLUTION if status == NONE else Solution(None, best.lower)

    def _is_settled(self, i: int, best: Solution) -> bool:
        """Say whether there is no example, or the nearest one is known, and within the budget."""
        if best.point is None:
            return best.lower == np.inf
        distance = self.metric.measure(best.point, self.asked.matrix[i])
        is_nearest = best.lower >= distance * (1.0 - SETTLED)
        return is_nearest and (self.reach.budget is None or self.accept(i, best.point)[1] is not None)


class _Reached(_Related):
    """The most extreme outputs of a regression that rows with relations can be given."""

    def __init__(self, asked: Asked, ask: Ask, answers: Answers, goal: Extreme) -> None:
        super().__init__(asked, ask, answers)
        self.goal = goal

    def settle(self, i: int) -> None:
        """Settle one row."""
        answers, sign = self.answers, self.goal.sign
        # What is reached: at least `lower` of the largest output, at most `upper` of the smallest.
        reached, beyond = (answers.lower, answers.upper) if sign == 1 else (answers.upper, answers.lower)
        bound, point = self._reach(i, float(beyond[i]))
        point = self.asked.matrix[i] if point is None else point
        answers.example[i] = point
        reached[i] = float(self.ensemble.output(point[None])[0, 0])
        beyond[i] = sign * max(sign * bound, sign * reached[i])
        answers.status[i] = NONE if reached[i] == beyond[i] else UNFINISHED

    def _reach(self, i: int, without_relations: float) -> tuple[float, np.ndarray | None]:
        """Return an output that none exceeds, and the point with the furthest output that was found."""
        sign, example = self.goal.sign, self.answers.example[i].copy()
        cases = self.list_cases(i, self.reach)
        bounds: list[float] = []
        best, point = -np.inf, None
        for row in cases or ():
            if row.clock.is_over():
                bounds.append(sign * without_relations)
                break
            if self.reach.budget is not None:
                bound, candidate = without_relations, row.repair(example).point
            elif row.ensemble.n_trees == 1:
                bound, candidate = _reach_furthest(row, sign)
            else:
                bound, candidate = BoxSearch(row, self.make_ask_box(i, self.goal)).reach_furthest(sign)
            bounds.append(sign * bound)
            if candidate is not None and (here := sign * float(self.ensemble.output(candidate[None])[0, 0])) > best:
                best, point = here, candidate
        return sign * max(bounds) if bounds else without_relations, point


def _decide_tree(row: RelatedRow, reach: Reach | PricedReach) -> Verdict:
    """Try the leaves that the attacker wants, the worst first; and note the smallest margin where that gets known."""
    tree, leaves = row.ensemble, row.list_leaves()
    own = np.repeat(row.class_index, len(leaves))
    margin = measure_margin(tree, tree.node_output[leaves], own, reach.targets)
    is_wanted = row.wants(leaves)
    status, lower = NONE, -np.inf
    for k in np.lexsort((~is_wanted, margin)).tolist():
        if not is_wanted[k]:
            continue
        if row.clock.is_over():
            return UNFINISHED, None, lower
        found = row.enter(int(leaves[k]))
        if found.point is not None:
            return FOUND, found.point, lower
        if found.lower < np.inf:
            status = UNFINISHED
        elif status == NONE:
            lower = float(margin[k])  # no leaf before this one can be entered
    return status, None, lower


def _approach_tree(row: RelatedRow, metric: Metric) -> Solution:
    """Go through the leaves that the attacker wants, near ones first, until none is nearer than the best point."""
    tree, leaves = row.ensemble, row.list_leaves()
    leaves = leaves[row.wants(leaves)]
    boxes, n = one_tree.find_boxes(tree), len(leaves)
    rows = np.repeat(row.row[None], n, axis=0)
    starts = one_tree.find_nearest(boxes, leaves, rows, np.repeat(row.class_index, n), row.reach)
    distance = np.array([metric.measure(start, row.row) for start in starts])
    best, upper, lower = NO_SOLUTION, np.inf, np.inf
    for k in np.argsort(distance, kind="stable").tolist():
        if distance[k] >= upper:
            break
        if row.clock.is_over():
            lower = min(lower, float(distance[k]))
            break
        found = row.enter(int(leaves[k]), metric)
        lower = min(lower, found.lower)
        if found.point is not None and (here := metric.measure(found.point, row.row)) < upper:
            best, upper = found, here
    return Solution(best.point, lower)


def _reach_furthest(row: RelatedRow, sign: int) -> tuple[float, np.ndarray | None]:
    """Try all leaves, the most extreme first: the output that none exceeds, and the point of the first that is one."""
    tree, leaves = row.ensemble, row.list_leaves()
    output = tree.node_output[leaves, 0].astype(np.float64)
    bound: float | None = None
    for k in np.argsort(-sign * output, kind="stable").tolist():
        if row.clock.is_over():
            return float(output[k]) if bound is None else bound, None
        found = row.enter(int(leaves[k]))
        if found.lower < np.inf and bound is None:
            bound = float(output[k])
        if found.point is not None:
            return float(output[k]) if bound is None else bound, found.point
    return -sign * np.inf if bound is None else bound, None


def _list_limits(reach: Reach) -> list[tuple[Metric, float]]:
    """Return the distances that a budget bounds, and by what."""
    budget, groups = reach.budget, () if reach.groups is None else reach.groups.columns
    assert budget is not None
    limits, paid = [], np.ones(len(reach.left)) if budget.free is None else (~budget.free).astype(np.float64)
    if budget.most is not None:
        # A column that cannot be moved at all costs nothing.
        weight = paid / np.where(budget.most > 0.0, budget.most, np.inf)
        limit = (1.0 + RADIUS_TOLERANCE) ** (1.0 / budget.norm)
        limits.append((Metric(budget.norm, weight, reach.categorical, groups), limit))
    if budget.max_changes is not None:
        limits.append((Metric(0, paid, reach.categorical, groups), budget.max_changes + 0.5))
    return limits
