"""Several trees within a budget over columns: exact answers, each found by the cheapest means that finds it.

1. The box around the budget: a row that is robust there is robust, and an example there may be within the budget.
2. Each limit for itself, the number of columns or the radius: the kernels find the cheapest example in any norm, so
   they can look for one that is cheaper than a limit.
3. Both at once, and distances in another norm: branch and bound over boxes (`budget_search`). The nearest example in
   the L-infinity norm is found by bisection, as all that is within a distance is a box.

One tree needs none of this: see `one_tree`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.progress import Progress
from hardwood.threat import Reach
from hardwood.verification.answers import FOUND, NONE, UNFINISHED, SearchAnswers
from hardwood.verification.budget_search import ADDING_UP, WHOLE_RADIUS, BudgetSearch, Found, Options
from hardwood.verification.distance import first_radius, measure
from hardwood.verification.search import RowSearch
from hardwood.verification.settings import SETTINGS, SearchSettings


@dataclass
class Budgeted:
    """An ensemble of several trees and a reach with a budget, ready to be asked about rows that it gets right."""

    ensemble: TreeEnsemble
    reach: Reach
    time_limit: float = math.inf  # seconds per row, over all means together
    n_threads: int = 1
    progress: Progress | None = None
    settings: SearchSettings = SETTINGS

    def decide(self, matrix: np.ndarray, class_index: np.ndarray) -> SearchAnswers:
        """Ask of every row whether there is an example within the budget; bounds are those of the box around it."""
        answers = self._search(np.inf, None, 0.0).decide(matrix, class_index)
        outside = (answers.status == FOUND) & ~self.reach.contains(matrix, answers.example, class_index)
        answers.status[outside], answers.example[outside] = UNFINISHED, np.nan
        for norm, weight, limit, seconds in self._list_limits():
            rows = np.flatnonzero(answers.status == UNFINISHED)
            if not len(rows) or answers.interrupted:
                break
            said = self._search(norm, weight, seconds).find_within(matrix[rows], class_index[rows], limit)
            answers = self._put(answers, rows, said, matrix[rows], class_index[rows])
        search = BudgetSearch(self.ensemble, self.reach, 0.5 * self.time_limit)

        def ask(i: int) -> None:
            options = search.list_options(matrix[i], int(class_index[i]))
            every = np.ones(len(options.value), dtype=bool)
            found = search.find_any(matrix[i], int(class_index[i]), options, every)
            if found.point is not None:
                answers.example[i], answers.status[i] = found.point, FOUND
            elif found.finished:
                answers.status[i] = NONE

        return self._ask_each(answers, np.flatnonzero(answers.status == UNFINISHED), ask)

    def nearest(self, matrix: np.ndarray, class_index: np.ndarray, norm: float, weight: np.ndarray) -> SearchAnswers:
        """Find the nearest example of every row within the budget; `certified`: there is no nearer one.

        The nearest example in the box around the budget is the answer if it is within the budget.
        """
        part = replace(self, time_limit=self.time_limit / 3.0, progress=None)
        answers = part.decide(matrix, class_index)
        answers.certified[:] = np.where(answers.status == NONE, np.inf, 0.0)
        rows = np.flatnonzero(answers.status != NONE)
        if not len(rows) or answers.interrupted:
            return self._ask_each(answers, rows[:0], lambda i: None)
        search = part._search(norm, weight, part.time_limit)
        said = search.nearest(matrix[rows], class_index[rows], first_radius(self.ensemble, weight, norm))
        is_finished = said.certified == np.inf
        answers.certified[rows] = said.certified
        answers = part._put(answers, rows, said, matrix[rows], class_index[rows])
        inside = (said.status == FOUND) & self.reach.contains(matrix[rows], said.example, class_index[rows])
        left = is_finished & ~inside & (said.status == FOUND)
        answers.certified[rows[left]] = measure(
            said.example[left], matrix[rows[left]], self.ensemble.schema, norm, weight
        )
        nearest = _Nearest(part, norm, weight, answers)
        left = rows[~(is_finished & (inside | (said.status == NONE)))]
        return self._ask_each(answers, left, lambda i: nearest.ask(i, matrix[i], int(class_index[i])))

    def extreme(self, matrix: np.ndarray, sign: int) -> SearchAnswers:
        """Find the largest (sign 1) or smallest (-1) sum of leaf values that every row can be given, times the sign."""
        n_rows = len(matrix)
        answers = SearchAnswers(
            status=np.full(n_rows, UNFINISHED),
            bound=np.full(n_rows, np.inf),
            example=matrix.copy(),
            certified=np.zeros(n_rows),
            work=np.zeros(n_rows, dtype=np.int64),
        )
        search = BudgetSearch(self.ensemble, self.reach, self.time_limit)

        def ask(i: int) -> None:
            found = search.find_extreme(matrix[i], sign)
            answers.bound[i] = found.bound
            if found.point is not None:
                answers.example[i], answers.status[i] = found.point, NONE

        return self._ask_each(answers, np.arange(n_rows), ask)

    def decide_options(self, row: np.ndarray, class_index: int, options: Options, kept: np.ndarray) -> Found:
        """Look for any example of one row within the budget, among some of the options of its columns."""
        search = BudgetSearch(self.ensemble, self.reach, 0.5 * self.time_limit)
        box = search.surround(row, options, kept)
        for norm, weight, limit, seconds in self._list_limits():
            said = self._search(norm, weight, seconds).find_within(row[None], np.array([class_index]), limit, box)
            if said.interrupted:
                raise KeyboardInterrupt
            if said.status[0] == NONE:
                return Found(None, math.inf, math.inf, True)
            inside = self.reach.contains(row[None], said.example, np.array([class_index]))
            if said.status[0] == FOUND and inside[0]:
                return Found(said.example[0], 0.0, 0.0, True)
        return search.find_any(row, class_index, options, kept)

    def _list_limits(self) -> list[tuple[float, np.ndarray, float, float]]:
        """Return norm, weights and limit of the distances that the budget bounds, and seconds per row for each.

        Limits are a trifle above what the budget allows, for what adding up in another order may do.
        """
        budget, limits = self.reach.budget, []
        assert budget is not None
        counted, share = budget.weigh(len(self.reach.left))
        if share is not None:
            limit = math.sqrt(WHOLE_RADIUS) if budget.norm == 2 else WHOLE_RADIUS
            limits.append((float(budget.norm), share, limit))
        if budget.max_changes is not None:
            limits.append((0.0, counted, budget.max_changes + 0.5))
        return [(*limit, 0.5 * self.time_limit / len(limits)) for limit in limits]

    def _search(self, norm: float, weight: np.ndarray | None, time_limit: float) -> RowSearch:
        weight = np.ones(len(self.reach.left)) if weight is None else weight
        return RowSearch(self.ensemble, self.reach, weight, time_limit, self.n_threads, None, norm, self.settings)

    def _put(
        self,
        answers: SearchAnswers,
        rows: np.ndarray,
        said: SearchAnswers,
        matrix: np.ndarray,
        class_index: np.ndarray,
    ) -> SearchAnswers:
        """Write in what is said of some rows: examples that are within the budget, and that there are none."""
        inside = (said.status == FOUND) & self.reach.contains(matrix, said.example, class_index)
        answers.example[rows[inside]], answers.status[rows[inside]] = said.example[inside], FOUND
        answers.status[rows[said.status == NONE]] = NONE
        answers.work[rows] += said.work
        return answers._replace(interrupted=answers.interrupted or said.interrupted)

    def _ask_each(self, answers: SearchAnswers, rows: np.ndarray, ask: Callable[[int], None]) -> SearchAnswers:
        """Ask about the rows that are left one by one, until Ctrl-C."""
        n_rows = len(answers.status)
        for done, i in enumerate([] if answers.interrupted else rows.tolist(), start=n_rows - len(rows)):
            if self.progress is not None:
                self.progress(done, n_rows)
            try:
                ask(i)
            except KeyboardInterrupt:
                return answers._replace(interrupted=True)
        if self.progress is not None and not answers.interrupted:
            self.progress(n_rows, n_rows)
        return answers


@dataclass
class _Nearest:
    """The nearest examples of rows whose nearest one in the box around the budget is outside of the budget."""

    budgeted: Budgeted
    norm: float
    weight: np.ndarray
    answers: SearchAnswers

    def __post_init__(self) -> None:
        self.search = BudgetSearch(self.budgeted.ensemble, self.budgeted.reach, self.budgeted.time_limit)

    def ask(self, i: int, row: np.ndarray, class_index: int) -> None:
        """Find the nearest example of a row, and write down what is known of it."""
        options = self.search.list_options(row, class_index, self.norm, self.weight)
        power = 2 if self.norm == 2 else 1
        known = Found(None, math.inf, self.answers.certified[i] ** power * (1.0 - ADDING_UP), False)
        if self.answers.status[i] == FOUND:
            point = self.answers.example[i].copy()
            value = float(options.objective[options.choose(point[self.search.search.used])].sum())
            known = known._replace(point=point, value=value)
        if self.norm == np.inf:
            found = self._bisect(row, class_index, options, known)
        else:
            found = self.search.find_nearest(row, class_index, options, known)
        if found.point is not None:
            self.answers.example[i], self.answers.status[i] = found.point, FOUND
        elif found.finished:
            self.answers.status[i] = NONE
        bound = np.inf if found.finished else found.bound ** (1.0 / power)
        self.answers.certified[i] = max(self.answers.certified[i], bound)

    def _bisect(self, row: np.ndarray, class_index: int, options: Options, known: Found) -> Found:
        """Find the least distance such that the box within it holds an example that the budget pays for."""
        distances = np.unique(options.objective[options.objective > 0.0])
        point = known.point
        first = int(np.searchsorted(distances, known.bound))
        last = len(distances)  # there is an example within the distance before this one
        if point is not None:
            last = int(np.searchsorted(distances, self._measure(options, point), side="right"))
        while first < last - (point is not None):
            middle = (first + last - 1) // 2
            kept = options.objective <= distances[middle]
            found = self.budgeted.decide_options(row, class_index, options, kept)
            if not found.finished:
                value = math.inf if point is None else self._measure(options, point)
                return Found(point, value, float(distances[first]), False)
            if found.point is None:
                first = middle + 1
            else:
                point = found.point
                last = int(np.searchsorted(distances, self._measure(options, point), side="right"))
        return Found(point, 0.0, 0.0, True)

    def _measure(self, options: Options, point: np.ndarray) -> float:
        return float(options.objective[options.choose(point[self.search.search.used])].max())
