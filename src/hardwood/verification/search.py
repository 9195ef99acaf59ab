"""Running the kernels over all rows: threads, time limits, room that grows when a row needs more."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hardwood._kernels.compiling import settle_types
from hardwood._kernels.search import branching, decisions, distances, dual_bounds
from hardwood._kernels.search.leaves import Model
from hardwood._kernels.search.radius import INFINITY_NORM
from hardwood._kernels.search.rows import ROW, Task
from hardwood._kernels.search.state import (
    ANY,
    ASCEND,
    BRANCH,
    CHEAPEST,
    CROWDED,
    FOUND,
    LARGEST,
    UNFINISHED,
    WIDEN,
    Search,
)
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.whole_numbers import find_whole
from hardwood.threat import Reach
from hardwood.verification.answers import SearchAnswers
from hardwood.verification.clock import Clock
from hardwood.verification.engine import drop_unused, make_model, make_workspace, measure_leaves
from hardwood.verification.rounding import Rounding, measure_rounding
from hardwood.verification.settings import SETTINGS, SearchSettings

# What rows can be moved to, in the columns that the ensemble looks at: see Task.
Box = tuple[np.ndarray, np.ndarray, np.ndarray]
_UNKNOWN = np.array([(0, UNFINISHED, np.inf, 0.0, 0.0, 0, 0)], dtype=ROW)
# Powers of two that distances are scaled by; larger ones would not be numbers.
LARGEST_EXPONENT = 1000


@dataclass
class Prepared:
    """What searching an ensemble takes, made once for each and kept with it."""

    used: np.ndarray  # the columns that the ensemble looks at
    model: Model  # the ensemble of these columns alone
    max_depth: int
    rounding: Rounding
    widths: tuple[np.ndarray, np.ndarray]  # of some leaves: feature, and how wide the leaf is there
    spare: list[tuple[int, Search]] = field(default_factory=list)  # of threads that are done, with their scale
    kernels: dict[Any, Callable] = field(default_factory=dict)  # as compiled for the types they are always called with
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

    def run(self, kernel: Any, *arguments: Any) -> Any:
        """Call a kernel, compiled or loaded if this is the first time."""
        compiled = self.kernels.get(kernel)
        if compiled is None:
            compiled = self.kernels[kernel] = settle_types(kernel, *arguments)
        return compiled(*arguments)

    def take_workspace(self, settings: SearchSettings) -> tuple[int, Search]:
        """Return room to search in, and its scale: one that a thread has left, or a new one."""
        try:  # not "if there is one": another thread may take the last one in between
            return self.spare.pop()
        except IndexError:
            return 1, make_workspace(self.model, self.max_depth, settings, 1)

    def enlarge(self, scale: int, search: Search, settings: SearchSettings) -> tuple[int, Search]:
        """Return twice the room, with all that was in it."""
        larger = make_workspace(self.model, self.max_depth, settings, 2 * scale)
        for array, before in zip(larger, search, strict=True):
            array[: len(before)] = before
        return 2 * scale, larger


def prepare(ensemble: TreeEnsemble, settings: SearchSettings = SETTINGS) -> Prepared:
    """Make what searching an ensemble needs, or take what was made before."""
    odd_share = settings.odd_share

    def make(ensemble: TreeEnsemble) -> Prepared:
        narrow, used = drop_unused(ensemble)
        whole = find_whole(ensemble)
        model = make_model(narrow, None if whole is None else whole[used])
        return Prepared(used, model, narrow.max_depth, measure_rounding(narrow, odd_share), measure_leaves(model))

    prepared: Prepared = ensemble.remember((Prepared, odd_share), make)
    return prepared


@dataclass
class RowSearch:
    """An ensemble and a reach, ready to be asked about rows."""

    ensemble: TreeEnsemble
    reach: Reach
    weight: np.ndarray
    n_threads: int = 1
    progress: Callable[[int, int], object] | None = None
    norm: float = np.inf
    settings: SearchSettings = SETTINGS

    def __post_init__(self) -> None:
        self._prepared = prepare(self.ensemble, self.settings)
        used = self._prepared.used
        self._narrow = len(used) < self.ensemble.schema.n_features
        self._reach = self._prepared.narrow(self.reach)
        self._weight = self.weight[used]
        self._norm = INFINITY_NORM if self.norm == np.inf else int(self.norm)
        # What a subtraction or an addition of the search's own may lose, in float64.
        self._per_leaf = 2.0**-51 * self.rounding.largest if self.rounding.doubt > 0.0 else 0.0
        self._stop = False  # tells threads to leave off

    @property
    def used(self) -> np.ndarray:
        """The columns that the ensemble looks at."""
        return self._prepared.used

    @property
    def model(self) -> Model:
        """The ensemble of these columns alone, as kernels take it."""
        return self._prepared.model

    @property
    def rounding(self) -> Rounding:
        """What rounding can do to sums of leaf values."""
        return self._prepared.rounding

    def bound_margin(self, bound: np.ndarray) -> np.ndarray:
        """Return what no margin of the model's own outputs is below, from bounds of another class's lead.

        Bounds are of sums in float64; the model adds up and divides in its own precision.
        """
        return -self.rounding.bound_outputs(self.ensemble, bound)

    def decide(
        self, matrix: np.ndarray, class_index: np.ndarray, clock: Clock, box: Box | None = None
    ) -> SearchAnswers:
        """Ask of every row whether the attacker can give it another class; or whether some point of its box has one."""
        return self._run(self.make_task(ANY, matrix, class_index, box=box), matrix, clock)

    def extreme(self, matrix: np.ndarray, sign: int, clock: Clock, box: Box | None = None) -> SearchAnswers:
        """Find the largest (sign 1) or smallest (-1) sum of leaf values that every row can be given, or its box has."""
        class_index = np.zeros(len(matrix), dtype=np.intp)
        return self._run(self.make_task(LARGEST, matrix, class_index, sign=sign, box=box), matrix, clock)

    def nearest(self, matrix: np.ndarray, class_index: np.ndarray, clock: Clock, guess: float) -> SearchAnswers:
        """Find the nearest example of every row; `guess` is a distance to begin with.

        Costs are scaled so that the guess is about 1. Where an example turns out to be so near or so far that costs
        next to its own leave the range of numbers, the row is asked about again, scaled to the example.
        """
        task = self.make_task(CHEAPEST, matrix, class_index, guess=guess)
        answers = self._run(task, matrix, clock)
        for row in np.flatnonzero(task.each["is_extreme"]) if task.each["is_extreme"].any() else ():
            here, size = slice(row, row + 1), np.inf
            nearer = self._measure_size(matrix[here], answers.example[here])
            while 0.0 < nearer < size and not answers.interrupted:
                size = nearer
                task = self.make_task(CHEAPEST, matrix[here], class_index[here], guess=size)
                again = self._run(task, matrix[here], clock.select(here))
                answers = answers.put(here, again)
                is_extreme = task.each["is_extreme"][0]
                nearer = self._measure_size(matrix[here], again.example) if is_extreme else 0.0
        return answers

    def find_within(
        self, matrix: np.ndarray, class_index: np.ndarray, clock: Clock, limit: float, box: Box | None = None
    ) -> SearchAnswers:
        """Find any example that is nearer than a limit, in the norm of the search: FOUND, or there is NONE.

        Of the points of a box, if there is one; the row itself is among them.
        """
        task = self.make_task(CHEAPEST, matrix, class_index, guess=limit, box=box, limit=limit, any_will_do=True)
        return self._run(task, matrix, clock)

    def _measure_size(self, row: np.ndarray, example: np.ndarray) -> float:
        """Return the largest weighted change of a row: its distance, but for a small factor."""
        with np.errstate(over="ignore", invalid="ignore"):
            change = np.nan_to_num(np.abs(example - row))[0]
            categorical = list(self.ensemble.schema.categorical)
            change[categorical] = change[categorical] != 0.0
            return float(np.nan_to_num(change * self.weight).max())

    def make_task(
        self,
        goal: int,
        matrix: np.ndarray,
        class_index: np.ndarray,
        *,
        guess: float = 1.0,
        sign: int = 1,
        box: Box | None = None,
        limit: float = math.inf,
        any_will_do: bool = False,
    ) -> Task:
        """Put a question as kernels take it."""
        x = matrix.take(self.used, axis=1)  # the caller's own may be read-only, which is another type to the kernel
        low, high, allowed = box or (*self._reach.box(x, class_index), self._reach.open_codes(x, class_index))
        scale = 2.0 ** find_exponent(guess)
        each = _UNKNOWN.repeat(len(x))
        power = 2 if self._norm == 2 else 1
        each["class_index"], each["guess"] = class_index, math.prod([guess * scale] * power)
        example = np.empty(x.shape)
        example.fill(np.nan)
        rounding = self.rounding
        return Task(
            x=x,
            low=low,
            high=high,
            allowed=allowed,
            each=each,
            example=example,
            weight=self._weight,
            scale=scale,
            norm=self._norm,
            limit=math.prod([limit * scale] * power),
            any_will_do=any_will_do,
            goal=goal,
            sign=sign,
            doubt=rounding.doubt,
            step=rounding.step,
            stride=rounding.stride,
            offset=rounding.offset,
            vote=rounding.vote,
            rounding=self._per_leaf,
            max_work=self.settings.clock_work,
            settings=self.settings,
        )

    def _run(self, task: Task, matrix: np.ndarray, clock: Clock) -> SearchAnswers:
        """Ask about all rows of a task; `matrix` has all columns of them."""
        n_rows, done, interrupted = len(matrix), 0, False
        self._stop = False
        try:
            for size in self._run_chunks(task, n_rows, clock):
                done += size
                if self.progress is not None:
                    self.progress(done, n_rows)
        except KeyboardInterrupt:
            interrupted = True  # what has been decided is kept; the rest stays unknown
        status, certified, example = task.each["status"], task.each["certified"], task.example
        if self._narrow:
            example = self._widen(matrix, example, (status == FOUND) | (task.goal == LARGEST))
        if task.goal == CHEAPEST:
            certified = (np.sqrt(certified) if self._norm == 2 else certified) / task.scale
        return SearchAnswers(status, task.each["bound"], example, certified, task.each["work"], interrupted)

    def _widen(self, matrix: np.ndarray, narrow: np.ndarray, found: np.ndarray) -> np.ndarray:
        """Return the examples that were found with the columns that the ensemble does not look at, as they are."""
        if not found.any():
            return np.full(matrix.shape, np.nan)
        example = matrix.copy()
        example[:, self.used] = narrow
        if not found.all():
            example[~found] = np.nan
        return example

    def _run_chunks(self, task: Task, n_rows: int, clock: Clock) -> Iterator[int]:
        """Run all chunks, in threads if that is worth it."""
        step = self.settings.rows_per_call
        starts = range(0, n_rows, step)
        if self.n_threads == 1 or len(starts) == 1:
            for start in starts:
                yield self._run_chunk(task, start, min(start + step, n_rows), clock)
            return
        with ThreadPoolExecutor(self.n_threads) as pool:
            chunks = [(start, min(start + step, n_rows)) for start in starts]
            jobs = [pool.submit(self._run_chunk, task, *chunk, clock) for chunk in chunks]
            try:
                for job in jobs:
                    yield job.result()
            except BaseException:
                self._stop = True
                for job in jobs:
                    job.cancel()
                raise

    def _run_chunk(self, task: Task, first: int, last: int, clock: Clock) -> int:
        """Work through the rows of one chunk, each by the kernels that it needs; how many there are.

        A row that one kernel does not settle is on the clock until it is settled, or given up. A row without time is
        given up once its box has been bounded.
        """
        prepared, model = self._prepared, self._prepared.model
        scale, work = prepared.take_workspace(self.settings)
        begin = distances.approach_rows if task.goal == CHEAPEST else decisions.decide_rows
        has_price = task.goal == CHEAPEST and task.norm != INFINITY_NORM
        hurried = task._replace(max_work=0)
        row, rival, step, timed = first, 0, None, -1
        while row < last and not self._stop:
            if step == BRANCH:
                about = hurried if clock.is_over(row) else task
                reason, row, rival = prepared.run(branching.branch_row, model, about, row, rival, work)
            elif step == ASCEND:
                reason = prepared.run(dual_bounds.bound_box, work, self.settings, has_price)
            elif step == WIDEN:
                reason = prepared.run(distances.widen_row, model, task, row, work)
            else:
                reason, row, rival = prepared.run(begin, model, task, row, last, rival, work)
            if reason == CROWDED:  # the same once more, with more room
                scale, work = prepared.enlarge(scale, work, self.settings)
                continue
            is_open = reason in (UNFINISHED, WIDEN)
            if is_open and (clock.is_over(row) or task.each[row]["work"] >= self.settings.row_work):
                row, rival, step = row + 1, 0, None
            elif reason == ASCEND and clock.is_over(row):
                step = BRANCH  # without multipliers, which take long: all it does is to note what is known
            elif reason in (BRANCH, ASCEND, WIDEN):
                step = reason
            else:
                step = BRANCH if reason == UNFINISHED or step == ASCEND else None
            if timed >= 0 and timed != row:
                clock.end(timed)
                timed = -1
            if step is not None and timed < 0 and clock.begin(row):
                timed = row
        prepared.spare.append((scale, work))
        return last - first


def find_exponent(distance: float) -> int:
    """Return the power of two that scales a distance to about 1; 0 for one that is 0 or infinite."""
    if not 0.0 < distance < math.inf:
        return 0
    return max(min(-math.frexp(distance)[1], LARGEST_EXPONENT), -LARGEST_EXPONENT)
