"""Running the kernels over all rows: threads, time limits, room that grows when a row needs more."""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from hardwood._kernels.compiling import settle_types
from hardwood._kernels.search import rows as search_kernels
from hardwood._kernels.search.branching import CROWDED, FOUND, UNFINISHED
from hardwood._kernels.search.leaves import Model
from hardwood._kernels.search.state import ANY, CHEAPEST, LARGEST, Search
from hardwood.ensemble import TreeEnsemble
from hardwood.threat import Reach
from hardwood.verification.answers import SearchAnswers
from hardwood.verification.engine import drop_unused, find_trees, make_model, make_workspace, measure_leaves

# Leaves looked at between two looks at the clock: some ten milliseconds.
WORK = 1_000_000
# After so many leaves a distance is not an easy one: a millisecond or less.
PATIENCE = 60_000
# After so many boxes a search is not an easy one, and tolls are worth their while.
EASY = 100
# The share of leaves whose values may be others than multiples of a step.
ODD = 0.02
# What rows can be moved to, in the columns that the ensemble looks at: see search_kernels.Task.
Box = tuple[np.ndarray, np.ndarray, np.ndarray]
_UNKNOWN = np.array([(0, UNFINISHED, np.inf, 0.0, 0.0)], dtype=search_kernels.ROW)
# Rows handed to a thread at a time.
CHUNK = 16


class Rounding(NamedTuple):
    """What rounding can do to sums of leaf values.

    Attributes
    ----------
    doubt : float
        How far sums added in float64, in any order, may be from the model's own sums; 0 where every sum is exact.
    step : float
        A power of two that (nearly) all leaf values are multiples of, so that sums of these are, and are exact; else 0.
    stride, offset, vote : float
        The lead of one class over the other that such leaves add up to is `offset` plus a multiple of `stride`, and
        that of a single one is `vote` plus one. The stride is the step, or twice as much: where each tree leads by an
        odd number of steps, as one that votes does.
    """

    doubt: float
    step: float
    stride: float
    offset: float
    vote: float


def measure_rounding(ensemble: TreeEnsemble) -> Rounding:
    """Return what rounding can do to sums of leaf values, by the standard bound on the error of summing.

    Forests of pure leaves have exact sums: multiples of one power of two that are small enough. Most full-grown forests
    have some leaves that are not pure, where rows of different classes cannot be told apart.
    """
    leaf = ensemble.feature < 0
    value, base = np.abs(ensemble.value[leaf]), np.abs(ensemble.base_score)
    largest = np.zeros(ensemble.n_trees)
    np.maximum.at(largest, find_trees(ensemble)[leaf], value.max(axis=1))
    total = float(largest.sum() + base.max())
    digits = 53 if ensemble.precision == "float64" else 24
    unit = 2.0 ** (math.floor(math.log2(max(total, 1e-300))) - digits + 6)
    # The largest powers of two that divide leaves and base scores, in units: 0 if the unit does not divide them.
    counts = np.concatenate([value, base[None]]) / unit
    whole = counts == np.floor(counts)
    bits = np.where(whole, counts, 0.0).astype(np.int64)
    divisors = np.where(bits == 0, np.where(whole, np.iinfo(np.int64).max, 0), bits & -bits).min(axis=1)
    common = min(int(np.quantile(divisors[:-1], ODD, method="lower")), int(divisors[-1]))
    step = unit * common if 0 < common < np.iinfo(np.int64).max else 0.0
    doubt = 2.0 * (ensemble.n_trees + 2) * 0.5 * float(np.finfo(ensemble.precision).eps) * total
    if bool((divisors > 0).all()):
        doubt, step = 0.0, step or unit
    lead = value[:, 0] if value.shape[1] == 1 else value[:, 1] - value[:, 0]
    is_vote = (np.remainder(lead, 2.0 * step) == step) if step > 0.0 else np.zeros(len(lead), dtype=bool)
    if value.shape[1] <= 2 and bool((is_vote | (divisors[:-1] < common)).all()) and is_vote.any():
        return Rounding(doubt, step, 2.0 * step, step * (ensemble.n_trees % 2), step)
    return Rounding(doubt, step, step, 0.0, 0.0)


@dataclass
class Prepared:
    """What searching an ensemble takes, made once for each."""

    ensemble: TreeEnsemble  # of the columns alone that it looks at
    used: np.ndarray  # these columns
    model: Model
    rounding: Rounding
    widths: tuple[np.ndarray, np.ndarray]  # of some leaves: feature, and how wide the leaf is there
    spare: list[tuple[int, Search]]  # of threads that are done, with their scale
    search_rows: Callable | None = None  # the kernel, for the types that it is always called with
    # Whoever asks row by row asks with the same threat and the same weights every time.
    asked: tuple[Reach, Reach] | None = None  # the last reach, and what is left of it in these columns
    width: tuple[bytes, float] | None = None  # the last weights, and what it costs to go through a narrow leaf

    def narrow(self, reach: Reach) -> Reach:
        """Return what an attacker may do to the columns that the ensemble looks at."""
        if len(self.used) == len(reach.left):
            return reach
        known = self.asked  # another thread may ask about another one
        if known is None or known[0] is not reach:
            known = self.asked = reach, reach.select(self.used)
        return known[1]


_prepared: WeakKeyDictionary[TreeEnsemble, Prepared] = WeakKeyDictionary()


def prepare(ensemble: TreeEnsemble) -> Prepared:
    """Lay an ensemble out for searching, or take what was laid out before."""
    if ensemble not in _prepared:
        narrow, used = drop_unused(ensemble)
        model = make_model(narrow)
        _prepared[ensemble] = Prepared(narrow, used, model, measure_rounding(narrow), measure_leaves(model), [])
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
        self._prepared = prepare(self.ensemble)
        used = self._prepared.used
        self._narrow = len(used) < self.ensemble.schema.n_features
        self._reach = self._prepared.narrow(self.reach)
        self._weight = self.weight[used]
        self._norm = search_kernels.INFINITY_NORM if self.norm == np.inf else int(self.norm)
        # The search adds and subtracts in float64, the model perhaps in float32: each has its own rounding.
        ratio = 1.0 if self.ensemble.precision == "float64" else 2.0**-29
        self._rounding = 2.0 * self.doubt * ratio / (self.ensemble.n_trees + 2)
        self._stop = False  # tells threads to leave off
        self.interrupted = False

    @property
    def used(self) -> np.ndarray:
        """The columns that the ensemble looks at."""
        return self._prepared.used

    @property
    def doubt(self) -> float:
        """How far sums of leaf values may be from the model's own."""
        return self._prepared.rounding.doubt

    def decide(self, matrix: np.ndarray, label: np.ndarray, box: Box | None = None) -> SearchAnswers:
        """Ask of every row whether the attacker can give it another class; or whether some point of its box has one."""
        return self._run(ANY, matrix, label, box=box)

    def nearest(self, matrix: np.ndarray, label: np.ndarray, guess: float) -> SearchAnswers:
        """Find the nearest example of every row; `guess` is a radius to begin with."""
        return self._run(CHEAPEST, matrix, label, guess)

    def extreme(self, matrix: np.ndarray, sign: int) -> SearchAnswers:
        """Find the largest (sign 1) or smallest (-1) sum of leaf values that every row can be given."""
        return self._run(LARGEST, matrix, np.zeros(len(matrix), dtype=np.intp), sign=sign)

    def _run(
        self,
        goal: int,
        matrix: np.ndarray,
        label: np.ndarray,
        guess: float = 0.0,
        sign: int = 1,
        box: Box | None = None,
    ) -> SearchAnswers:
        n_rows = len(matrix)
        x = matrix.take(self.used, axis=1)  # the caller's own may be read-only, which is another type to the kernel
        low, high, allowed = box or (*self._reach.box(x, label), self._reach.open_codes(x, label))
        each = _UNKNOWN.repeat(n_rows)
        each["label"], each["distance"] = label, guess
        example = np.empty(x.shape)
        example.fill(np.nan)
        task = search_kernels.Task(
            x, low, high, allowed, each, example, self._weight, self._norm, goal, sign,
            *self._prepared.rounding, self._rounding,
            max_work=0 if self.time_limit == 0 else WORK,
            patience=PATIENCE,
            easy=EASY,
        )  # fmt: skip
        self._stop = self.interrupted = False
        done = 0
        try:
            for size in self._run_chunks(task, n_rows):
                done += size
                if self.progress is not None:
                    self.progress(done, n_rows)
        except KeyboardInterrupt:
            self.interrupted = True  # what has been decided is kept; the rest stays unknown
        status = each["status"]
        if self._narrow:
            example = self._widen(matrix, example, (status == FOUND) | (goal == LARGEST))
        return SearchAnswers(status, each["bound"], example, each["certified"])

    def _widen(self, matrix: np.ndarray, narrow: np.ndarray, found: np.ndarray) -> np.ndarray:
        """Return the examples that were found with the columns that the ensemble does not look at, as they are."""
        if not found.any():
            return np.full(matrix.shape, np.nan)
        example = matrix.copy()
        example[:, self.used] = narrow
        if not found.all():
            example[~found] = np.nan
        return example

    def _run_chunks(self, task: search_kernels.Task, n_rows: int) -> Iterator[int]:
        """Run all chunks, in threads if that is worth it."""
        starts = range(0, n_rows, CHUNK)
        if self.n_threads == 1 or len(starts) == 1:
            for start in starts:
                yield self._run_chunk(task, start, min(start + CHUNK, n_rows))
            return
        with ThreadPoolExecutor(self.n_threads) as pool:
            jobs = [pool.submit(self._run_chunk, task, start, min(start + CHUNK, n_rows)) for start in starts]
            try:
                for job in jobs:
                    yield job.result()
            except BaseException:
                self._stop = True
                for job in jobs:
                    job.cancel()
                raise

    def _run_chunk(self, task: search_kernels.Task, first: int, last: int) -> int:
        """Work through the rows of one chunk; how many there are."""
        prepared = self._prepared
        ensemble, model, spare = prepared.ensemble, prepared.model, prepared.spare
        scale, work = spare.pop() if spare else (1, make_workspace(ensemble, model, 1))
        if prepared.search_rows is None:
            prepared.search_rows = settle_types(search_kernels.search_rows, model, task, first, last, 0, False, work)
        row, rival, resume, current, since = first, 0, False, -1, 0.0
        while row < last and not self._stop:
            reason, row, rival = prepared.search_rows(model, task, row, last, rival, resume, work)
            resume = False
            if reason in (search_kernels.NO_ROOM, CROWDED):
                scale, before = 2 * scale, work
                work = make_workspace(ensemble, model, scale)
                if reason == CROWDED:  # the search goes on where it was
                    resume = True
                    for larger, array in zip(work, before, strict=True):
                        larger[: len(array)] = array
                work.now[:] = before.now
            elif reason == UNFINISHED:
                now = time.monotonic()
                if row != current:
                    current, since = row, now
                if now - since >= self.time_limit:
                    row, rival = row + 1, 0
                else:
                    resume = True
        spare.append((scale, work))
        return last - first
