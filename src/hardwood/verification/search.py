"""Running the kernels over all rows: threads, time limits, room that grows when a row needs more."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hardwood._kernels import ensemble_nearest, ensemble_rows
from hardwood._kernels import ensemble_search as kernels
from hardwood.ensemble import TreeEnsemble
from hardwood.reach import Reach
from hardwood.verification.engine import Workspace, find_trees, make_model, make_workspace

# Steps between two looks at the clock: a few milliseconds.
STEPS = 2000
# Rows handed to a thread at a time.
CHUNK = 32


def rounding_doubt(ensemble: TreeEnsemble) -> float:
    """Return how far sums of leaf values added in float64, in any order, may be from the model's own sums.

    0 where every sum is exact, as for forests of pure leaves: values that are multiples of one power of two and small
    enough. Otherwise the standard bound on the error of summing, for both ways of adding.
    """
    leaf = ensemble.feature < 0
    largest = np.zeros(ensemble.n_trees)
    np.maximum.at(largest, find_trees(ensemble)[leaf], np.abs(ensemble.value[leaf]).max(axis=1))
    total = float(largest.sum() + np.abs(ensemble.base_score).max())
    numbers = np.concatenate([ensemble.value[leaf].ravel(), ensemble.base_score])
    digits = 53 if ensemble.precision == "float64" else 24
    unit = 2.0 ** (np.floor(np.log2(max(total, 1e-300))) - digits + 2)
    if bool((np.remainder(numbers, unit) == 0.0).all()):
        return 0.0
    roundoff = 0.5 * float(np.finfo(ensemble.precision).eps)
    return 2.0 * (ensemble.n_trees + 2) * roundoff * total


@dataclass
class RowSearch:
    """An ensemble and a reach, ready to be asked about rows."""

    ensemble: TreeEnsemble
    reach: Reach
    weight: np.ndarray
    time_limit: float
    n_threads: int = 1
    progress: Callable[[int, int], object] | None = None
    model: kernels.Model = field(init=False)
    doubt: float = field(init=False)

    def __post_init__(self) -> None:
        self.model = make_model(self.ensemble)
        self.doubt = rounding_doubt(self.ensemble)
        self._stop = threading.Event()
        self._spare: list[Workspace] = []

    def decide(self, matrix: np.ndarray, label: np.ndarray) -> ensemble_rows.Answers:
        """Ask of every row whether the attacker can give it another class."""
        return self._run(ensemble_rows.decide_rows, matrix, label, np.zeros(len(matrix)))

    def nearest(self, matrix: np.ndarray, label: np.ndarray, guess: np.ndarray) -> ensemble_rows.Answers:
        """Find the nearest example of every row, in the L-infinity norm."""
        return self._run(ensemble_nearest.nearest_rows, matrix, label, guess)

    def _run(
        self, kernel: Callable[..., Any], matrix: np.ndarray, label: np.ndarray, guess: np.ndarray
    ) -> ensemble_rows.Answers:
        n_rows = len(matrix)
        answers = ensemble_rows.Answers(
            status=np.full(n_rows, kernels.UNFINISHED),
            bound=np.full(n_rows, np.inf),
            example=np.full_like(matrix, np.nan),
            distance=guess.astype(np.float64),
            certified=np.zeros(n_rows),
        )
        starts = range(0, n_rows, CHUNK)
        self._stop.clear()
        done = 0
        try:
            with ThreadPoolExecutor(self.n_threads) as pool:
                jobs = [pool.submit(self._run_chunk, kernel, matrix, label, answers, start) for start in starts]
                try:
                    for job in jobs:
                        done += job.result()
                        if self.progress is not None:
                            self.progress(done, n_rows)
                except BaseException:
                    self._stop.set()
                    for job in jobs:
                        job.cancel()
                    raise
        except KeyboardInterrupt:
            pass  # what has been decided is kept; the rest stays unknown
        return answers

    def _rows(self, matrix: np.ndarray, label: np.ndarray, part: slice) -> ensemble_rows.Rows:
        x, index = matrix[part], label[part]
        low, high = self.reach.box(x, index)
        n_codes = int(self.model.n_categories.sum())
        allowed = np.zeros((len(x), n_codes), dtype=bool)
        for j, table in enumerate(self.reach.categories):
            if table is not None:
                own = x[:, j].astype(np.intp)
                begin = self.model.category_start[j]
                stay = np.eye(len(table), dtype=bool)[own]
                moves = self.reach.attacks[index][:, None]
                allowed[:, begin : begin + len(table)] = np.where(moves, table[own], stay)
        high = np.minimum(high, np.finfo(np.float64).max)  # infinity is not a value a row can have
        return ensemble_rows.Rows(x, np.nextafter(low, -np.inf), high, allowed, index)

    def _run_chunk(
        self,
        kernel: Callable[..., Any],
        matrix: np.ndarray,
        label: np.ndarray,
        answers: ensemble_rows.Answers,
        start: int,
    ) -> int:
        """Work through the rows of one chunk; how many there are."""
        part = slice(start, min(start + CHUNK, len(matrix)))
        rows = self._rows(matrix, label, part)
        mine = ensemble_rows.Answers(*(array[part] for array in answers))
        question = ensemble_rows.Question(self.doubt, 0 if self.time_limit == 0 else STEPS, self.weight)
        work = self._spare.pop() if self._spare else make_workspace(self.ensemble, 1024, 8192)
        row, rival, resume = 0, 0, False
        since = time.monotonic()
        current = -1
        while row < len(rows.x) and not self._stop.is_set():
            extra = (work.ball,) if kernel is ensemble_nearest.nearest_rows else ()
            reason, row, rival = kernel(
                self.model, rows, row, rival, resume, question, work.leaves, work.search, *extra, mine
            )
            resume = False
            if reason == kernels.NO_ROOM:
                work = make_workspace(self.ensemble, 2 * len(work.leaves.node), 2 * len(work.leaves.bound_feature))
            elif reason == kernels.UNFINISHED:
                now = time.monotonic()
                if row != current:
                    current, since = row, now
                if now - since >= self.time_limit:
                    self._give_up(mine, work, row, rival)
                    row, rival = row + 1, 0
                else:
                    resume = True
        self._spare.append(work)
        return len(rows.x)

    def _give_up(self, answers: ensemble_rows.Answers, work: Workspace, row: int, rival: int) -> None:
        """Keep what is known of a row that took too long."""
        found, without = work.ball.state[ensemble_nearest.WITH], work.ball.state[ensemble_nearest.WITHOUT]
        last = rival == len(self.ensemble.base_score) - 1
        answers.distance[row] = found if answers.status[row] == kernels.FOUND else np.inf
        answers.certified[row] = max(without, 0.0) if last else 0.0
