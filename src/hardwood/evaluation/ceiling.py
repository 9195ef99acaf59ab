"""What no classifier can beat under attack: the model-free ceiling of adversarial accuracy."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from hardwood._kernels.compiling import working_time
from hardwood._kernels.conflicts import BoxTree, Forest, Matching, augment, grow_forest, match_greedily
from hardwood.evaluation.common_points import bound_ceiling
from hardwood.evaluation.conflict_graph import ConflictGraph, build_graph, order_rows
from hardwood.threat import Reach
from hardwood.verification.folding import Folding

# Boxes that are looked at between two looks at the clock: a tenth of a second or so, and Ctrl-C is heard.
STEP = 1 << 21


@dataclass
class Budget:
    """Seconds that several pieces of work share: what a piece leaves over goes to those after it."""

    seconds: float | None = None
    clock: Callable[[], float] = working_time
    _started: float = field(init=False)
    _until: float = field(init=False, default=math.inf)

    def __post_init__(self) -> None:
        self._started = self.clock()

    def begin(self, pieces_left: int) -> None:
        """Begin a piece of work; `pieces_left` are still to be done, this one included."""
        if self.seconds is not None:
            now = self.clock()
            self._until = now + (self._started + self.seconds - now) / pieces_left

    def lasts(self) -> bool:
        """Say whether the piece of work may go on."""
        return self.clock() < self._until


def find_ceilings(
    matrix: np.ndarray,
    class_index: np.ndarray,
    reaches: Sequence[Reach],
    *,
    budget: Budget | None = None,
    step: int = STEP,
    progress: Callable[[int, int], object] | None = None,
) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return the adversarial accuracy on these rows that no classifier whatsoever can exceed.

    Two rows of different classes that can be moved onto one common point are in conflict: whatever a classifier says
    of that point, it is wrong about one of them. So the rows it gets right under attack have no conflict among them.
    With two classes the largest such set is what a maximum matching leaves over (König's theorem), and a classifier
    that knew the rows would attain it. With more classes finding the largest set is NP-hard; a maximum fractional
    matching gives a bound that still nobody can exceed but that need not be attained.

    Parameters
    ----------
    matrix : ndarray of shape (n_rows, n_features), as `Schema.encode` returns it
    class_index : ndarray of shape (n_rows,), the class of each row
    reaches : sequence of Reach
        Attackers, each at least as strong as the one before. A category that is not in the schema is in conflict with
        nothing: it may stand for several. For budgets over columns and relations
        see `common_points`.
    budget : Budget or None
        When it is used up, any matching still proves a ceiling, and rows that have not been dealt with might lower it
        by no more than their number: so there is an interval.
    step : int
        How many boxes are looked at before the budget is asked again.
    progress : callable or None
        Called with (rows done, rows in all).

    Returns
    -------
    lower, upper : ndarray of float, one per attacker
        The ceiling is between the two, and equal to both where the time was enough, and budgets over columns leave
        nothing open.
    interrupted : bool
        Whether Ctrl-C ended the work early.
    """
    groups, relations = reaches[0].groups, reaches[0].relations
    is_related = groups is not None and relations is not None and np.isin(relations.columns, groups.grouped).any()
    if groups is not None and not is_related:  # two rows meet if their categories do
        folding = Folding(matrix.shape[1], groups)
        matrix, reaches = folding.fold_rows(matrix), [folding.fold_reach(reach) for reach in reaches]
    n_rows = len(class_index)
    counts = np.bincount(class_index)
    if np.count_nonzero(counts) < 2:
        if progress is not None:
            progress(len(reaches) * n_rows, len(reaches) * n_rows)
        return np.ones(len(reaches)), np.ones(len(reaches)), False
    budget = Budget() if budget is None else budget
    constant = counts.max() / n_rows
    lower, upper = np.full(len(reaches), constant), np.ones(len(reaches))
    search = _MatchingSearch(matrix, class_index, reaches[len(reaches) // 2], budget, step)
    for k, reach in enumerate(reaches):
        budget.begin(len(reaches) - k)
        if progress is not None:
            search.progress = partial(_tell, progress, k * n_rows, n_rows, len(reaches) * n_rows)
        if reach.budget is None and reach.relations is None:
            search.run(reach)
            lower[k], upper[k] = search.bounds()
        else:
            search.compare_pairs(reach)
            lower[k], upper[k] = search.by_pairs
        # A constant classifier attains it, so it is as low as it gets.
        if search.interrupted or upper[k] == constant:
            break
    # A stronger attacker never raises the ceiling.
    return np.maximum.accumulate(lower[::-1])[::-1], np.minimum.accumulate(upper), search.interrupted


def _tell(progress: Callable[[int, int], object], before: int, n_rows: int, total: int, share: float) -> None:
    progress(before + int(share * n_rows), total)


class _MatchingSearch:
    """A matching of rows in conflict that grows with the attacker's strength, and what it proves.

    With two classes the rows of the smaller one are matched with those of the other. With more every row is on both
    sides: a matching is then twice a fractional matching of the rows.
    """

    def __init__(self, matrix: np.ndarray, class_index: np.ndarray, typical: Reach, budget: Budget, step: int) -> None:
        self.matrix, self.class_index, self.typical, self.budget, self.step = matrix, class_index, typical, budget, step
        self.progress: Callable[[float], object] = lambda share: None
        counts = np.bincount(class_index)
        present = np.flatnonzero(counts)
        self.is_doubled = len(present) > 2
        if self.is_doubled:
            left = right = np.arange(len(class_index))
        else:
            few, many = present[np.argsort(counts[present], kind="stable")]
            left, right = np.flatnonzero(class_index == few), np.flatnonzero(class_index == many)
        self.sides = left, right
        self.boxes: BoxTree | None = None
        self.matching = Matching(*(np.full(len(rows), -1, dtype=np.int32) for rows in self.sides))
        self.isolated = np.zeros(len(left), dtype=bool)
        self.is_maximum = self.interrupted = False
        self.by_pairs = 0.0, 1.0  # bounds of the ceiling for the last attacker with a budget over columns or relations

    def bounds(self) -> tuple[float, float]:
        """Return the ceiling, or two numbers between which it is, for the last attacker that was looked at."""
        n_rows, matched = len(self.class_index), int((self.matching.right_of >= 0).sum())
        most = matched if self.is_maximum else min(len(self.isolated) - int(self.isolated.sum()), len(self.sides[1]))
        if self.is_doubled:
            matched, most = (matched + 1) // 2, (most + 1) // 2
        constant = np.bincount(self.class_index).max() / n_rows
        return max((n_rows - most) / n_rows, constant), (n_rows - matched) / n_rows

    def compare_pairs(self, reach: Reach) -> None:
        """Bound the ceiling for an attacker with a budget over columns, or relations: pair by pair."""
        constant = np.bincount(self.class_index).max() / len(self.class_index)
        self.by_pairs = constant, 1.0
        try:
            self.progress(0.0)
            self.by_pairs = bound_ceiling(self.matrix, self.class_index, reach, self.budget.lasts)
            self.progress(1.0)
        except KeyboardInterrupt:
            self.interrupted = True

    def run(self, reach: Reach) -> None:
        """Make the matching a maximum one for this attacker, as far as the budget lasts and until Ctrl-C."""
        self.is_maximum = False
        self.isolated = np.zeros_like(self.isolated)
        try:
            self.progress(0.0)
            self.is_maximum = self._improve(reach)
            if self.is_maximum:
                self.progress(1.0)
        except KeyboardInterrupt:
            self.interrupted = True

    def _improve(self, reach: Reach) -> bool:
        """Match more rows; say whether no more can be matched."""
        if not self.budget.lasts():
            return False
        if self.boxes is None:
            left, right = self.sides
            right, self.boxes = order_rows(self.matrix, right, self.class_index, self.typical)
            self.sides = left, right
        graph = build_graph(self.matrix, self.sides, self.class_index, reach, self.boxes)
        forest = _make_forest(graph)
        if not self._match_greedily(graph, forest):
            return False
        while True:
            roots = np.flatnonzero((self.matching.right_of < 0) & ~self.isolated).astype(np.int32)
            _open(forest, graph, np.ones(len(self.sides[1]), dtype=bool))
            forest.queue[: len(roots)] = forest.root[roots] = roots
            forest.end[roots] = -1
            finished = self._grow(graph, forest, roots)
            gained = augment(forest, self.matching, roots)
            self._tell()
            if not finished or not gained:
                return finished

    def _match_greedily(self, graph: ConflictGraph, forest: Forest) -> bool:
        """Match rows with the first partner at hand, and note who has none; say whether the budget was enough."""
        rows = np.flatnonzero(self.matching.right_of < 0).astype(np.int32)
        group, alone = graph.left.group[rows], np.zeros(len(forest.exhausted), dtype=bool)
        _open(forest, graph, self.matching.left_of < 0)
        begin = 0
        while begin < len(rows):
            if not self.budget.lasts():
                return False
            begin = match_greedily(*graph, forest, self.matching, rows, alone, begin, self.step)
            self.isolated[rows] = alone[group]
            self._tell()
        return True

    def _grow(self, graph: ConflictGraph, forest: Forest, roots: np.ndarray) -> bool:
        """Search for paths from these roots; say whether the budget was enough."""
        begin, length = 0, len(roots)
        while begin < length:
            if not self.budget.lasts():
                return False
            begin, length = grow_forest(*graph, forest, self.matching, begin, length, self.step)
            self._tell()
        return True

    def _tell(self) -> None:
        self.progress(float((self.isolated | (self.matching.right_of >= 0)).mean()))


def _make_forest(graph: ConflictGraph) -> Forest:
    """Return the arrays of a search."""
    n_left, n_right = len(graph.left.low), len(graph.right.low)
    return Forest(
        queue=np.empty(n_left, dtype=np.int32),
        root=np.empty(n_left, dtype=np.int32),
        end=np.full(n_left, -1, dtype=np.int32),
        reached_from=np.full(n_right, -1, dtype=np.int32),
        is_open=np.empty(n_right, dtype=bool),
        n_open=np.empty(len(graph.boxes.after), dtype=np.int32),
        exhausted=np.empty(int(graph.left.group.max()) + 1, dtype=bool),
    )


def _open(forest: Forest, graph: ConflictGraph, rows: np.ndarray) -> None:
    """Begin a search in which these rows of the right side are open."""
    before = np.concatenate([[0], np.cumsum(rows)])
    forest.is_open[:] = rows
    forest.n_open[:] = before[graph.boxes.last] - before[graph.boxes.first]
    forest.exhausted[:] = False
