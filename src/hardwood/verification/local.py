"""Examples by local moves, for models of any size: one is found or not, and nothing is proved.

The moves know the box around a row and any other class. What else an attacker is held to, or wants, is left to chance:
examples that are none of his are dropped.
"""

from dataclasses import dataclass, replace

import numpy as np

from hardwood._kernels.search.coordinates import change_coordinates
from hardwood._kernels.search.distances import approach_rows
from hardwood._kernels.search.nearing import bring_nearer
from hardwood._kernels.search.radius import INFINITY_NORM
from hardwood._kernels.search.rows import Task, find_last_rival
from hardwood._kernels.search.state import ANY, BRANCH, CHEAPEST, CROWDED, NONE, UNFINISHED, Search
from hardwood.threat import Reach
from hardwood.verification.answers import FOUND, Answers, SearchAnswers, ask_where_right
from hardwood.verification.asked import Asked, Nearest
from hardwood.verification.clock import Clock
from hardwood.verification.distance import first_radius, measure
from hardwood.verification.examples import find_wrong
from hardwood.verification.search import RowSearch


@dataclass
class LocalSearch(RowSearch):
    """The search without what follows where local moves fail; and the attacks that change one feature at a time."""

    method: str = "heuristic"  # or "coordinate", or "lowest"

    def attack(self, matrix: np.ndarray, class_index: np.ndarray, clock: Clock) -> SearchAnswers:
        """Look for an example of every row that the model gets right: FOUND, or anything else."""
        if self.method != "heuristic":
            return self._run(self.make_task(ANY, matrix, class_index), matrix, clock)
        guess = first_radius(self.ensemble, self.weight, np.inf)
        if self._norm == INFINITY_NORM:
            return self.nearest(matrix, class_index, clock, guess)
        # What is near in the L-infinity norm is where the moves of other norms begin.
        answers = replace(self, norm=np.inf, progress=None).attack(matrix, class_index, clock)
        if answers.interrupted:
            return answers
        task = self.make_task(CHEAPEST, matrix, class_index, guess=guess)
        task.each["status"], task.example[:] = answers.status, answers.example[:, self.used]
        return self._run(task, matrix, clock)

    def _run_chunk(self, task: Task, first: int, last: int, clock: Clock) -> int:
        """Work through the rows of one chunk; nobody looks at the clock, as a row takes milliseconds."""
        prepared, model = self._prepared, self._prepared.model
        scale, work = prepared.take_workspace(self.settings)
        if task.goal == ANY:
            prepared.run(change_coordinates, model, task, first, last, self.method == "lowest", work)
        else:
            if task.norm == INFINITY_NORM:
                scale, work = self._approach(task, first, last, scale, work)
            prepared.run(bring_nearer, model, task, first, last, work)
        prepared.spare.append((scale, work))
        return last - first

    def _approach(self, task: Task, first: int, last: int, scale: int, work: Search) -> tuple[int, Search]:
        """Find examples the easy way, of one rival after the other; returns the room that this took."""
        prepared, model, is_open = self._prepared, self._prepared.model, np.zeros(last, dtype=bool)
        row, rival = first, 0
        while row < last and not self._stop:
            reason, row, rival = prepared.run(approach_rows, model, task, row, last, rival, work)
            if reason == CROWDED:
                scale, work = prepared.enlarge(scale, work, self.settings)
            elif reason == BRANCH:  # that would be the hard way
                is_open[row] = True
                is_last = rival == find_last_rival(model, task.each[row]["class_index"])
                row, rival = (row + 1, 0) if is_last else (row, rival + 1)
        status = task.each["status"][:last]
        status[is_open & (status == NONE)] = UNFINISHED
        return scale, work


def attack_locally(asked: Asked) -> Answers:
    """Look for an example of every row."""
    ensemble, matrix, class_index, reach, settings, clock = asked[1:7]
    assert isinstance(reach, Reach)
    assert isinstance(asked.goal, Nearest)
    norm, weight, method = asked.goal.norm, asked.goal.weight, settings.method
    # Those that lower margins pay no heed to how distances are measured.
    own = norm if method == "heuristic" else np.inf
    search = LocalSearch(ensemble, reach, weight, settings.n_threads, None, own, settings.search, method)
    said = ask_where_right(search.attack, matrix, class_index, clock, ensemble.decide(matrix))
    found = said.status == FOUND
    if found.any() and not (reach.budget is None and reach.relations is None and reach.targets is None):
        rows = asked.select(np.flatnonzero(found))
        found[found] = ~find_wrong(rows, said.example[found], ensemble.decide(said.example[found]))
    answers = Answers.unknown(matrix, lower=0.0)
    answers.status[found], answers.example[found] = FOUND, said.example[found]
    answers.upper[found] = measure(said.example[found], matrix[found], ensemble.schema, norm, weight)
    if settings.progress is not None:
        settings.progress(len(matrix), len(matrix))
    return answers._replace(interrupted=said.interrupted)
