"""A second opinion: the questions of `search.py`, asked of a mixed-integer solver.

Nothing of the search is used here but the words for its answers, so that the two can be held against each other. What
a solver says is true up to its tolerance only. Therefore:

* an example counts if the model itself gives it another class, whatever the solver thinks of it;
* a row is robust if the solver finds nothing although it was asked for a little less than what changes the class:
  less by TOLERANCE, relative to the largest leaf, and by what the model's own rounding can do;
* where neither holds, because the best that there is comes that close, the row is undecided.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.sums import find_largest_sum
from hardwood.threat import Reach
from hardwood.verification.answers import FOUND, NONE, UNFINISHED, SearchAnswers
from hardwood.verification.clock import Clock
from hardwood.verification.milp_problem import Box, Expression, Nodes, Problem
from hardwood.verification.milp_solver import Outcome, load_highs, minimise
from hardwood.verification.rounding import bound_rounding

# Sums of leaf values that differ by less than this, relative to the largest of them, are not told apart.
TOLERANCE = 1e-6
# Leaf values that are multiples of this, as votes are, add up without rounding.
GRID = 2.0**-20
# No sum is as large as this.
FARTHEST_CUT = 0.25 * float(np.finfo(np.float64).max)


class Rival(NamedTuple):
    """A class that may beat the class of a row."""

    lead: np.ndarray  # float64 per node: by how much it takes the rival ahead
    need: float  # the sum of leads that makes it equal to the class of the row
    fails: float  # with a sum below this it certainly does not win
    wins: float  # with a sum above this it certainly does
    scale: float  # the largest lead
    others: tuple["Rival", ...] = ()  # the same class against others that it has to beat besides


class Answer(NamedTuple):
    """What was found out about a row."""

    status: int  # FOUND, NONE or UNFINISHED
    bound: float  # an upper bound of the lead of another class over the row's own
    example: np.ndarray | None
    certified: float  # there is no example nearer than this


@dataclass
class Milp:
    """An ensemble and a reach, ready for the solver to be asked about rows."""

    ensemble: TreeEnsemble
    reach: Reach
    n_threads: int = 1
    progress: Callable[[int, int], object] | None = None
    wanted: np.ndarray | None = None  # bool per class: which are to be given to rows; None: any but their own
    nodes: Nodes = field(init=False)

    def __post_init__(self) -> None:
        load_highs()
        self.nodes = Nodes(self.ensemble)
        self._leaf = self.ensemble.feature < 0
        self._rounding = self._bound_rounding()
        self._stop = threading.Event()

    def decide(self, matrix: np.ndarray, class_index: np.ndarray, clock: Clock) -> SearchAnswers:
        """Ask of every row whether the attacker can give it another class."""
        return self.ask(self._decide, matrix, class_index, clock)

    def _decide(self, row: np.ndarray, class_index: int, clock: Clock) -> Answer:
        box = Box.of_row(self.reach, row, class_index)
        rivals = list(self.rivals(class_index))
        problem = Problem(self.nodes, box)
        most = np.array([problem.ceiling(rival.lead) - rival.need for rival in rivals]) + self._rounding
        status, example = NONE, None
        for k, rival in enumerate(rivals):
            if most[k] + rival.need < rival.fails:
                continue
            if clock.is_over():
                status = UNFINISHED
                break
            problem = Problem(self.nodes, box)
            objective = problem.sum_leaves(-rival.lead / rival.scale)
            outcome = self.solve(problem, rival, objective, clock, enough=-rival.wins / rival.scale)
            reached = max(rival.fails, (TOLERANCE - outcome.bound) * rival.scale)
            most[k] = min(most[k], reached - rival.need + self._rounding)
            example = self.flips(problem, outcome, class_index)
            if example is None and outcome.columns is not None and (self.reach.budget is not None or rival.others):
                problem = Problem(self.nodes, box)
                objective = problem.sum_leaves(-rival.lead / rival.scale)
                again = self.solve(problem, rival, objective, clock, surely=True)
                example = self.flips(problem, again, class_index)
            if example is not None:
                status = FOUND
                break
            if outcome.columns is not None or not outcome.finished:
                status = UNFINISHED
        return Answer(status, float(most.max(initial=-np.inf)), example, np.inf if status == NONE else 0.0)

    def rivals(self, class_index: int) -> Iterator[Rival]:
        """Yield the classes that may beat one."""
        ensemble = self.ensemble
        value, base = ensemble.value, ensemble.base_score
        if len(base) == 1 and len(ensemble.labels) == 2:
            # One output: the second class iff it is greater than the cut.
            cut = min(max(ensemble.cut * ensemble.divisor, -FARTHEST_CUT), FARTHEST_CUT)
            need, sign = cut - float(base[0]), 1.0 if class_index == 0 else -1.0
            yield self._rival(sign * value[:, 0], sign * need, wins_ties=class_index == 1)
        several = range(len(base)) if len(base) > 1 else ()
        for other in several:
            if other != class_index and (self.wanted is None or self.wanted[other]):
                rival = self._beat(other, class_index)
                if self.wanted is not None:
                    others = [self._beat(other, third) for third in several if third not in (other, class_index)]
                    rival = rival._replace(others=tuple(others))
                yield rival

    def _beat(self, rival: int, other: int) -> Rival:
        """Return what it takes that one class beats another. Of equal outputs the first wins."""
        value, base = self.ensemble.value, self.ensemble.base_score
        need = float(base[other] - base[rival])
        return self._rival(value[:, rival] - value[:, other], need, wins_ties=rival < other)

    def _rival(self, lead: np.ndarray, need: float, *, wins_ties: bool) -> Rival:
        scale = float(np.abs(lead[self._leaf]).max()) or 1.0
        doubt = self._rounding + TOLERANCE * scale
        step = _common_step(np.append(lead[self._leaf], need)) if self._rounding == 0.0 else 0.0
        if 0.5 * step > doubt:
            # Sums are multiples of the step: ask half-way between the last that fails and the first that wins.
            half = need + (-0.5 if wins_ties else 0.5) * step
            return Rival(lead, need, half, half, scale)
        return Rival(lead, need, need - doubt, need + doubt, scale)

    def _bound_rounding(self) -> float:
        """Return how far the model's own difference of two outputs may be from the exact one; 0 where it is exact."""
        ensemble = self.ensemble
        total = find_largest_sum(ensemble)
        roundoff = 0.5 * float(np.finfo(ensemble.precision).eps)
        step = _common_step(np.concatenate([ensemble.value[self._leaf].ravel(), ensemble.base_score]))
        # The step is GRID or more: what differs by it has different quotients.
        if roundoff * total < step and ensemble.divisor <= 1.0 / roundoff:
            return 0.0
        return bound_rounding(ensemble, total)

    def solve(
        self,
        problem: Problem,
        rival: Rival,
        objective: Expression,
        clock: Clock,
        *,
        surely: bool = False,
        enough: float = -np.inf,
    ) -> Outcome:
        """Minimise an expression over the points that are within reach and where a rival wins, perhaps or `surely`."""
        if clock.is_over() or self._stop.is_set():
            return Outcome(False, None, -np.inf)
        for each in (rival, *rival.others):
            lead = problem.sum_leaves(each.lead / each.scale)
            least = (each.wins if surely else each.fails) / each.scale
            problem.rows.add(lead.columns, lead.coefficients, least, np.inf)
        if self.reach.budget is not None:
            problem.limit_changes(self.reach.budget, -TOLERANCE if surely else TOLERANCE)
        return minimise(problem, objective, seconds=clock.left(), stop=self._stop, enough=enough)

    def flips(self, problem: Problem, outcome: Outcome, class_index: int) -> np.ndarray | None:
        """Return the point that the solver found, if it is within reach and the model gives it another class."""
        if outcome.columns is None:
            return None
        point = problem.point(outcome.columns)
        row, own = problem.box.row, np.array([class_index])
        if self.reach.budget is not None and not self.reach.contains(row[None], point[None], own)[0]:
            return None
        given = self.ensemble.decide(point[None])[0]
        return point if (given != class_index if self.wanted is None else self.wanted[given]) else None

    def ask(
        self, question: Callable[..., Answer], matrix: np.ndarray, class_index: np.ndarray, clock: Clock
    ) -> SearchAnswers:
        """Ask about every row, in threads; what was answered before an interruption is kept."""
        n_rows = len(matrix)
        answers = SearchAnswers(
            status=np.full(n_rows, UNFINISHED),
            bound=np.full(n_rows, np.inf),
            example=np.full_like(matrix, np.nan),
            certified=np.zeros(n_rows),
            work=np.zeros(n_rows, dtype=np.int64),
        )

        def ask_about(i: int) -> None:
            with clock.run(i) as own:
                answer = question(matrix[i], int(class_index[i]), own)
            answers.status[i], answers.bound[i], answers.certified[i] = answer.status, answer.bound, answer.certified
            if answer.example is not None:
                answers.example[i] = answer.example

        self._stop.clear()
        try:
            with ThreadPoolExecutor(self.n_threads) as pool:
                jobs = [pool.submit(ask_about, i) for i in range(n_rows)]
                try:
                    for done, job in enumerate(jobs, start=1):
                        job.result()
                        if self.progress is not None:
                            self.progress(done, n_rows)
                except BaseException:
                    self._stop.set()
                    for job in jobs:
                        job.cancel()
                    raise
        except KeyboardInterrupt:
            return answers._replace(interrupted=True)
        return answers


def _common_step(numbers: np.ndarray) -> float:
    """Return the largest number that all of them are multiples of, if that is a multiple of GRID; otherwise 0."""
    with np.errstate(over="ignore"):
        multiples = numbers / GRID
    if not (np.abs(multiples) < 2.0**52).all() or (multiples != np.floor(multiples)).any():
        return 0.0
    return float(np.gcd.reduce(multiples.astype(np.int64))) * GRID
