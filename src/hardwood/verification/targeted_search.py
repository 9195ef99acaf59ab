"""Several trees, and a class that has to beat all others: exact branch and bound, by questions about two classes.

A class is given to a row where it beats every other one at the same point. Whether it can beat a single one among the
options that a choice keeps is a question that others answer (`search`, `budgeted`). If it cannot, the choice holds no
example. If it can, but a third class is ahead at the point that is found, it is asked to beat that one next. So in the
end there is an example, or a class that cannot be beaten, or two points: at one of them a class is ahead that is beaten
at the other. Between these the choice is split. There are finitely many cells, so this ends, and every answer is exact.
"""

import math

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.whole_numbers import round_thresholds
from hardwood.threat import Reach
from hardwood.verification.answers import FOUND, NONE, UNFINISHED
from hardwood.verification.budget_search import BudgetSearch, Examined, Found, Options
from hardwood.verification.budgeted import Budgeted
from hardwood.verification.clock import Clock
from hardwood.verification.search import RowSearch
from hardwood.verification.two_classes import ask_for_two, pair_classes


class TargetedSearch(BudgetSearch):
    """An ensemble, a reach and a class, ready to be asked about rows that the attacker wants to be given this class.

    Of the other classes that he wants an example will do, too, where one is come across.
    """

    def __init__(self, ensemble: TreeEnsemble, reach: Reach, rival: int) -> None:
        super().__init__(round_thresholds(ensemble, reach.whole), reach)
        self._full, self._rival, self._free = ensemble, rival, ask_for_two(reach)

    def examine(
        self,
        row: np.ndarray,
        class_index: int,
        options: Options,
        kept: np.ndarray,
        clock: Clock,
        best: float = math.inf,
    ) -> Examined:
        """Ask whether the class can beat the row's own among the options of a choice, and then whoever is ahead."""
        other, points = class_index, dict[int, np.ndarray]()
        while True:
            found = self._ask_to_beat(other, row, options, kept, clock, best)
            if found.point is None:
                return Examined(NONE if found.finished else UNFINISHED)
            given = self.ensemble.decide(found.point[None])
            if self._is_lost(class_index, given)[0]:
                return self._split_at(row, class_index, options, kept, found.point, clock)
            points[other], other = found.point, int(given[0])
            if other in points:
                return Examined(FOUND, parts=self._split_between(options, kept, found.point, points[other], other))

    def _is_lost(self, class_index: int, given: np.ndarray) -> np.ndarray:
        assert self.reach.targets is not None
        return self.reach.targets[class_index, given]

    def _ask_to_beat(
        self, other: int, row: np.ndarray, options: Options, kept: np.ndarray, clock: Clock, best: float
    ) -> Found:
        """Look for a point of a choice where the class beats another one, whatever becomes of the rest."""
        reach, own = self._free, int(self._rival < other)
        pair = round_thresholds(pair_classes(self._full, other, self._rival), reach.whole)
        if reach.budget is not None:
            return Budgeted(pair, reach).decide_options(row, own, options, kept, clock)
        about, box = (row[None], np.array([own]), clock), self.surround(row, options, kept)
        norm, weight, unit = options.distance or (np.inf, np.ones(len(row)), 1.0)
        search = RowSearch(pair, reach, weight, norm=norm)
        if norm < np.inf and best < math.inf:
            said = search.find_within(*about, unit * (best ** (1.0 / norm) if norm else best), box)
        else:
            said = search.decide(*about, box)
        if said.interrupted:
            raise KeyboardInterrupt
        return Found(said.example[0] if said.status[0] == FOUND else None, 0.0, 0.0, said.status[0] != UNFINISHED)

    def _split_between(
        self, options: Options, kept: np.ndarray, behind: np.ndarray, ahead: np.ndarray, other: int
    ) -> tuple[np.ndarray, ...]:
        """Split a choice between two points: at the column that helps the class most against one that it is behind."""
        used = self.search.used
        first, second = options.choose(behind[used]), options.choose(ahead[used])
        differs = np.flatnonzero(first != second)
        points = np.repeat(behind[None], len(differs), axis=0)
        points[np.arange(len(differs)), used[differs]] = options.value[second[differs]]
        output = self.ensemble.output(points).astype(np.float64)
        column = int(differs[(output[:, self._rival] - output[:, other]).argmax()])
        middle = (first[column] + second[column]) // 2
        return options.part(kept, column, np.arange(len(kept)) <= middle)
