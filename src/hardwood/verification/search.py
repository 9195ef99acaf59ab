"""Running the kernels over all rows: threads, time limits, room that grows when a row needs more."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from hardwood._kernels import ensemble_rows
from hardwood._kernels.ensemble_leaves import Model
from hardwood._kernels.ensemble_search import ANY, CHEAPEST, LARGEST, NO_ROOM, UNFINISHED
from hardwood.ensemble import TreeEnsemble
from hardwood.reach import Reach
from hardwood.verification.engine import Workspace, find_trees, make_model, make_workspace

# Leaves looked at between two looks at the clock: some ten milliseconds.
WORK = 1_000_000
# Infinity is not a value that an attacker can give a row.
LARGEST_FLOAT = float(np.finfo(np.float64).max)
# Rows handed to a thread at a time.
CHUNK = 16


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
    unit = 2.0 ** (np.floor(np.log2(max(total, 1e-300))) - digits + 6)
    if bool((np.remainder(numbers, unit) == 0.0).all()):
        return 0.0
    roundoff = 0.5 * float(np.finfo(ensemble.precision).eps)
    return 2.0 * (ensemble.n_trees + 2) * roundoff * total


@dataclass
class Prepared:
    """What searching an ensemble takes, made once for each."""

    model: Model
    doubt: float
    spare: list[tuple[int, Workspace]]  # of threads that are done, with their scale


_prepared: WeakKeyDictionary[TreeEnsemble, Prepared] = WeakKeyDictionary()


def prepare(ensemble: TreeEnsemble) -> Prepared:
    """Lay an ensemble out for searching, or take what was laid out before."""
    if ensemble not in _prepared:
        _prepared[ensemble] = Prepared(make_model(ensemble), rounding_doubt(ensemble), [])
    return _prepared[ensemble]


@dataclass
class RowSearch:
    """An ensemble and a reach, ready to be asked about rows."""

    ensemble: TreeEnsemble
    reach: Reach
    weight: np.ndarray
    time_limit: float
    n_threads: int = 1
    progress: Callable[[int, int], object] | None = None
    norm: float = np.inf

    def __post_init__(self) -> None:
        prepared = prepare(self.ensemble)
        self.model, self.doubt, self._spare = prepared.model, prepared.doubt, prepared.spare
        self._stop = threading.Event()

    def decide(self, matrix: np.ndarray, label: np.ndarray) -> ensemble_rows.Answers:
        """Ask of every row whether the attacker can give it another class."""
        return self._run(ANY, matrix, label)

    def nearest(self, matrix: np.ndarray, label: np.ndarray, guess: float) -> ensemble_rows.Answers:
        """Find the nearest example of every row; `guess` is a radius to begin with."""
        return self._run(CHEAPEST, matrix, label, guess)

    def extreme(self, matrix: np.ndarray, sign: int) -> ensemble_rows.Answers:
        """Find the largest (sign 1) or smallest (-1) sum of leaf values that every row can be given."""
        return self._run(LARGEST, matrix, np.zeros(len(matrix), dtype=np.intp), sign=sign)

    def _run(
        self, goal: int, matrix: np.ndarray, label: np.ndarray, guess: float = 0.0, sign: int = 1
    ) -> ensemble_rows.Answers:
        n_rows = len(matrix)
        question = self._question(goal, sign)
        answers = ensemble_rows.Answers(
            status=np.full(n_rows, UNFINISHED),
            bound=np.full(n_rows, np.inf),
            example=np.full_like(matrix, np.nan),
            distance=np.full(n_rows, guess),
            certified=np.zeros(n_rows),
        )
        chunks = [(question, matrix, label, answers, start) for start in range(0, n_rows, CHUNK)]
        self._stop.clear()
        done = 0
        try:
            for size in self._run_chunks(chunks):
                done += size
                if self.progress is not None:
                    self.progress(done, n_rows)
        except KeyboardInterrupt:
            pass  # what has been decided is kept; the rest stays unknown
        return answers

    def _run_chunks(self, chunks: list[tuple[Any, ...]]) -> Iterator[int]:
        """Run all chunks, in threads if that is worth it."""
        if self.n_threads == 1 or len(chunks) == 1:
            for chunk in chunks:
                yield self._run_chunk(*chunk)
            return
        with ThreadPoolExecutor(self.n_threads) as pool:
            jobs = [pool.submit(self._run_chunk, *chunk) for chunk in chunks]
            try:
                for job in jobs:
                    yield job.result()
            except BaseException:
                self._stop.set()
                for job in jobs:
                    job.cancel()
                raise

    def _rows(self, matrix: np.ndarray, label: np.ndarray, part: slice) -> ensemble_rows.Rows:
        x, index = matrix[part], label[part]
        low, high = self.reach.box(x, index)
        allowed = np.zeros((len(x), self.model.n_categories.sum()), dtype=bool)
        for j in np.flatnonzero(self.model.n_categories).tolist():
            table = self.reach.categories[j]
            assert table is not None
            own = np.nan_to_num(x[:, j]).astype(np.intp)  # what is missing stays so; the kernels see to that
            begin = self.model.category_start[j]
            stay = np.eye(len(table), dtype=bool)[own]
            moves = self.reach.attacks[index][:, None]
            allowed[:, begin : begin + len(table)] = np.where(moves, table[own], stay)
        return ensemble_rows.Rows(x, np.maximum(low, -LARGEST_FLOAT), np.minimum(high, LARGEST_FLOAT), allowed, index)

    def _question(self, goal: int, sign: int) -> ensemble_rows.Question:
        # The search adds and subtracts in float64, the model perhaps in float32: each has its own rounding.
        ratio = 1.0 if self.ensemble.precision == "float64" else 2.0**-29
        return ensemble_rows.Question(
            doubt=self.doubt,
            rounding=2.0 * self.doubt * ratio / (self.ensemble.n_trees + 2),
            max_work=0 if self.time_limit == 0 else WORK,
            norm=ensemble_rows.INFINITY_NORM if self.norm == np.inf else int(self.norm),
            weight=self.weight,
            goal=goal,
            sign=sign,
        )

    def _run_chunk(
        self,
        question: ensemble_rows.Question,
        matrix: np.ndarray,
        label: np.ndarray,
        answers: ensemble_rows.Answers,
        start: int,
    ) -> int:
        """Work through the rows of one chunk; how many there are."""
        part = slice(start, min(start + CHUNK, len(matrix)))
        rows = self._rows(matrix, label, part)
        mine = ensemble_rows.Answers(*(array[part] for array in answers))
        scale, work = self._spare.pop() if self._spare else (1, make_workspace(self.ensemble, self.model, 1))
        row, rival, resume = 0, 0, False
        since, current = time.monotonic(), -1
        while row < len(rows.x) and not self._stop.is_set():
            reason, row, rival = ensemble_rows.search_rows(self.model, rows, row, rival, resume, question, *work, mine)
            resume = False
            if reason == NO_ROOM:
                scale *= 2
                numbers = work.search.numbers
                work = make_workspace(self.ensemble, self.model, scale)
                work.search.numbers[:] = numbers
            elif reason == UNFINISHED:
                now = time.monotonic()
                if row != current:
                    current, since = row, now
                if now - since >= self.time_limit:
                    row, rival = row + 1, 0
                else:
                    resume = True
        self._spare.append((scale, work))
        return len(rows.x)
