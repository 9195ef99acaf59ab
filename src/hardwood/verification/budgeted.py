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
from hardwood.verification.budget_search import WHOLE_RADIUS, BudgetSearch, Found, Options
from hardwood.verification.clock import Clock
from hardwood.verification.distance import first_radius, measure
from hardwood.verification.nearest_search import NearestSearch
from hardwood.verification.search import RowSearch
from hardwood.verification.settings import SETTINGS, SearchSettings

# The share of a row's time that goes to limits one by one; the rest goes to both at once.
SHARE_OF_LIMITS = 0.5


@dataclass
class Budgeted:
    """An ensemble of several trees and a reach with a budget, ready to be asked about rows that it gets right."""

    ensemble: TreeEnsemble
    reach: Reach
    n_threads: int = 1
    progress: Progress | None = None
    settings: SearchSettings = SETTINGS

    def __post_init__(self) -> None:
        self._boxes = BudgetSearch(self.ensemble, self.reach)
        self._limits = self._list_limits()

    def decide(self, matrix: np.ndarray, class_index: np.ndarray, clock: Clock) -> SearchAnswers:
        """Ask of every row whether there is an example within the budget; bounds are those of the box around it."""
        answers = self._search(np.inf, None).decide(matrix, class_index, clock.stop())
        outside = (answers.status == FOUND) & ~self.reach.contains(matrix, answers.example, class_index)
        answers.status[outside], answers.example[outside] = UNFINISHED, np.nan
        for norm, weight, limit in self._limits:
            rows = np.flatnonzero(answers.status == UNFINISHED)
            if not len(rows) or answers.interrupted:
                break
            hurried = clock.select(rows).share(SHARE_OF_LIMITS / len(self._limits))
            said = self._search(norm, weight).find_within(matrix[rows], class_index[rows], hurried, limit)
            answers = self._put(answers, rows, said, matrix[rows], class_index[rows])

        def ask(i: int, own: Clock) -> None:
            options = self._boxes.list_options(matrix[i], int(class_index[i]))
            found = self._boxes.find_any(matrix[i], int(class_index[i]), options, options.every, own)
            if found.point is not None:
                answers.example[i], answers.status[i] = found.point, FOUND
            elif found.finished:
                answers.status[i] = NONE

        return self._ask_each(answers, np.flatnonzero(answers.status == UNFINISHED), ask, clock)

    def nearest(
        self, matrix: np.ndarray, class_index: np.ndarray, clock: Clock, norm: float, weight: np.ndarray
    ) -> SearchAnswers:
        """Find the nearest example of every row within the budget; `certified`: there is no nearer one.

        The nearest example in the box around the budget is the answer if it is within the budget.
        """
        part = replace(self, progress=None)
        answers = part.decide(matrix, class_index, clock.share(1.0 / 3.0))
        answers.certified[:] = np.where(answers.status == NONE, np.inf, 0.0)
        rows = np.flatnonzero(answers.status != NONE)
        if not len(rows) or answers.interrupted:
            return self._ask_each(answers, rows[:0], lambda i, own: None, clock)
        guess, hurried = first_radius(self.ensemble, weight, norm), clock.select(rows).share(0.5)
        said = part._search(norm, weight).nearest(matrix[rows], class_index[rows], hurried, guess)
        is_finished = said.certified == np.inf
        answers.certified[rows] = said.certified
        answers = part._put(answers, rows, said, matrix[rows], class_index[rows])
        inside = (said.status == FOUND) & self.reach.contains(matrix[rows], said.example, class_index[rows])
        left = is_finished & ~inside & (said.status == FOUND)
        answers.certified[rows[left]] = measure(
            said.example[left], matrix[rows[left]], self.ensemble.schema, norm, weight
        )
        nearest = NearestSearch(self._boxes, norm, weight, part.decide_options)
        left = rows[~(is_finished & (inside | (said.status == NONE)))]

        def ask(i: int, own: Clock) -> None:
            known = answers.example[i] if answers.status[i] == FOUND else None
            found = nearest.find(matrix[i], int(class_index[i]), known, float(answers.certified[i]), own)
            answers.certified[i] = found.bound
            if found.point is not None:
                answers.example[i], answers.status[i] = found.point, FOUND
            elif found.finished:
                answers.status[i] = NONE

        return self._ask_each(answers, left, ask, clock)

    def extreme(self, matrix: np.ndarray, sign: int, clock: Clock) -> SearchAnswers:
        """Find the largest (sign 1) or smallest (-1) sum of leaf values that every row can be given, times the sign."""
        n_rows = len(matrix)
        answers = SearchAnswers(
            status=np.full(n_rows, UNFINISHED),
            bound=np.full(n_rows, np.inf),
            example=matrix.copy(),
            certified=np.zeros(n_rows),
            work=np.zeros(n_rows, dtype=np.int64),
        )

        def ask(i: int, own: Clock) -> None:
            found = self._boxes.find_extreme(matrix[i], sign, own)
            answers.bound[i] = found.bound
            if found.point is not None:
                answers.example[i], answers.status[i] = found.point, NONE

        return self._ask_each(answers, np.arange(n_rows), ask, clock)

    def decide_options(
        self, row: np.ndarray, class_index: int, options: Options, kept: np.ndarray, clock: Clock
    ) -> Found:
        """Look for any example of one row within the budget, among some of the options of its columns."""
        box = self._boxes.surround(row, options, kept)
        for norm, weight, limit in self._limits:
            hurried = clock.share(SHARE_OF_LIMITS / len(self._limits))
            said = self._search(norm, weight).find_within(row[None], np.array([class_index]), hurried, limit, box)
            if said.interrupted:
                raise KeyboardInterrupt
            if said.status[0] == NONE:
                return Found(None, math.inf, math.inf, True)
            inside = self.reach.contains(row[None], said.example, np.array([class_index]))
            if said.status[0] == FOUND and inside[0]:
                return Found(said.example[0], 0.0, 0.0, True)
        return self._boxes.find_any(row, class_index, options, kept, clock)

    def _list_limits(self) -> list[tuple[float, np.ndarray, float]]:
        """Return norm, weights and limit of the distances that the budget bounds.

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
        return limits

    def _search(self, norm: float, weight: np.ndarray | None) -> RowSearch:
        weight = np.ones(len(self.reach.left)) if weight is None else weight
        return RowSearch(self.ensemble, self.reach, weight, self.n_threads, None, norm, self.settings)

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

    def _ask_each(
        self, answers: SearchAnswers, rows: np.ndarray, ask: Callable[[int, Clock], None], clock: Clock
    ) -> SearchAnswers:
        """Ask about the rows that are left one by one, until Ctrl-C."""
        n_rows = len(answers.status)
        for done, i in enumerate([] if answers.interrupted else rows.tolist(), start=n_rows - len(rows)):
            if self.progress is not None:
                self.progress(done, n_rows)
            try:
                with clock.run(i) as own:
                    ask(i, own)
            except KeyboardInterrupt:
                return answers._replace(interrupted=True)
        if self.progress is not None and not answers.interrupted:
            self.progress(n_rows, n_rows)
        return answers
