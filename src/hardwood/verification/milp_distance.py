"""The nearest adversarial example by a mixed-integer solver, in any norm."""

from functools import partial

import numpy as np

from hardwood.verification.answers import FOUND, NONE, UNFINISHED, SearchAnswers
from hardwood.verification.clock import Clock
from hardwood.verification.distance import measure
from hardwood.verification.milp import TOLERANCE, Answer, Milp, Rival
from hardwood.verification.milp_problem import Box, Problem


def ask_nearest(
    milp: Milp, norm: float, weight: np.ndarray, matrix: np.ndarray, class_index: np.ndarray, clock: Clock
) -> SearchAnswers:
    """Find the nearest example of every row, and the distance below which there is none."""
    return milp.ask(partial(_attack_row, milp, norm, weight), matrix, class_index, clock)


def _attack_row(milp: Milp, norm: float, weight: np.ndarray, row: np.ndarray, class_index: int, clock: Clock) -> Answer:
    """Find the nearest example of one row over all other classes."""
    nearest = _NearestByMilp(milp, norm, weight, Box.of_row(milp.reach, row, class_index), class_index, clock)
    for rival in milp.rivals(class_index):
        nearest.approach(rival)
    status = FOUND if nearest.example is not None else NONE if nearest.lower == np.inf else UNFINISHED
    return Answer(status, np.inf, nearest.example, nearest.lower)


class _NearestByMilp:
    """The nearest example of a row so far, and the distance below which there is none."""

    def __init__(self, milp: Milp, norm: float, weight: np.ndarray, box: Box, class_index: int, clock: Clock) -> None:
        self.milp, self.norm, self.weight, self.box = milp, norm, weight, box
        self.class_index, self.clock = class_index, clock
        self.example: np.ndarray | None = None
        self.distance = np.inf
        self.lower = np.inf

    def approach(self, rival: Rival) -> None:
        """Look for examples of one other class, near the row first: small problems are solved much faster.

        An example no further than some limit changes no feature by more. So once the nearest example with such small
        changes is itself no further than that, there is no nearer one.
        """
        lower, surely = 0.0, False
        for step in self._limits():
            limit = min(step, self.distance)
            finished, bound, near_miss = self._minimise(rival, limit, surely=surely)
            if not surely:
                lower = max(lower, min(bound, limit))
            if near_miss and not surely:
                surely = True
                finished, _, _ = self._minimise(rival, limit, surely=True)
            if not finished or self.distance <= limit:
                break
        self.lower = min(self.lower, lower)

    def _limits(self) -> list[float]:
        """Return ever larger limits, each of which gives room to about twice as many leaves."""
        if self.distance < np.inf or self.norm == 0:
            return [self.distance]
        costs = np.sort(Problem(self.milp.nodes, self.box).costs(self.norm, self.weight))
        return [*costs[len(costs) // np.array([64, 32, 16, 8, 4, 2])], np.inf] if len(costs) else [np.inf]

    def _minimise(self, rival: Rival, limit: float, *, surely: bool) -> tuple[bool, float, bool]:
        """Find the nearest example that changes no feature by more than a limit.

        Returns whether the solver finished, a lower bound of the distance, and whether its solution is not an example.
        """
        milp, norm = self.milp, self.norm
        problem = Problem(milp.nodes, self.box.within(limit, norm, self.weight))
        if problem.ceiling(rival.lead) < rival.fails:
            return True, np.inf, False
        unit = max(problem.costs(norm, self.weight), default=1.0)
        objective = problem.distance(norm, self.weight, unit)
        outcome = milp.solve(problem, rival, objective, self.clock, surely=surely)
        example = milp.flips(problem, outcome, self.class_index)
        if example is not None:
            distance = measure(example[None], self.box.row[None], milp.ensemble.schema, norm, self.weight)[0]
            if distance < self.distance:
                self.example, self.distance = example, float(distance)
        bound = max(outcome.bound - TOLERANCE, 0.0)
        bound = unit * (bound**0.5 if norm == 2 else bound)
        return outcome.finished, bound, outcome.columns is not None and example is None
