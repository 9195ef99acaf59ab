"""Examples by local moves, for models of any size: one is found or not, and nothing is proved.

The moves know the box around a row and any other class. What else an attacker is held to, or wants, is left to chance:
examples that are none of his are dropped.
"""

from dataclasses import dataclass, replace

import numpy as np

from hardwood._kernels.search.coordinates import change_coordinates
from hardwood._kernels.search.nearing import bring_nearer
from hardwood._kernels.search.radius import INFINITY_NORM
from hardwood._kernels.search.rows import Task
from hardwood._kernels.search.state import ANY, CHEAPEST, Walk
from hardwood.threat import Reach
from hardwood.verification.answers import FOUND, Answers, SearchAnswers, ask_where_right
from hardwood.verification.asked import Asked, Nearest
from hardwood.verification.clock import Clock
from hardwood.verification.distance import first_radius, measure
from hardwood.verification.examples import find_wrong
from hardwood.verification.search import RowSearch


@dataclass
class LocalSearch(RowSearch):
    """Local moves instead of the search, in threads and in room that it has as well."""

    method: str = "heuristic"  # or "coordinate", or "lowest"

    def attack(self, matrix: np.ndarray, class_index: np.ndarray, clock: Clock) -> SearchAnswers:
        """Look for an example of every row that the model gets right: FOUND, or anything else."""
        if self.method != "heuristic":
            return self._run(self.make_task(ANY, matrix, class_index), matrix, clock)
        guess = first_radius(self.ensemble, self.weight, np.inf)
        if self._norm == INFINITY_NORM:
            return self._run(self.make_task(CHEAPEST, matrix, class_index, guess=guess), matrix, clock)
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
        walk = Walk.of(work)
        if task.goal == ANY:
            prepared.run(change_coordinates, model, task, first, last, self.method == "lowest", walk)
        else:
            prepared.run(bring_nearer, model, task, first, last, walk)
        prepared.spare.append((scale, work))
        return last - first


def attack_locally(asked: Asked) -> Answers:
    """Look for an example of every row."""
    ensemble, matrix, class_index, reach, settings, clock = asked[1:7]
    assert isinstance(reach, Reach)
    assert isinstance(asked.goal, Nearest)
    norm, weight, method = asked.goal.norm, asked.goal.weight, settings.method
    # Those that lower margins pay no heed to how distances are measured.
    own = norm if method == "heuristic" else np.inf
    search = LocalSearch(ensemble, reach, weight, settings.n_threads, None, own, settings.search, method)
    said = ask_where_right(search.attack, matrix, class_index, clock, asked.predict())
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
