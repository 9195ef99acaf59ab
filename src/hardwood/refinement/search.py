"""The search for the most robust tree: alternating optimisation from many starts, the choice by rows out of the bag.

Alternating optimisation ends where no single node can be improved, so where it starts matters. Each start is a greedy
tree grown on rows drawn with replacement, refined on those and then on all rows. What the rows that were not drawn lose
along the way tells, without a validation set, whether rows should also be counted at slightly larger reach
("smoothing"), and whether any tree is better than none.

On large tables starts are refined on some of the rows only, and the best of them on all.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from hardwood._kernels.refine.codes import Samples
from hardwood._kernels.refine.tree import FREE, N_LEAVES, Tree
from hardwood.ensemble import TreeEnsemble
from hardwood.progress import Progress
from hardwood.refinement.alternation import Settings, alternate, find_lost
from hardwood.refinement.refined import finish
from hardwood.refinement.rows import Rows, divide, find_grid, make_samples, take_samples
from hardwood.refinement.search_report import Candidate, SearchReport
from hardwood.refinement.working_tree import count_leaves, find_capacity, find_learned, harvest, plant

# Rows as they count: multiples of their reach, and the share of each row that moves so far.
SMOOTHINGS = {"none": ((1.0, 1.0),), "wider": ((1.0, 0.4), (1.1, 0.3), (1.2, 0.3))}

# On tables with more rows, each start is refined on about as many rows, drawn at random; then, on all rows, the greedy
# tree and as many others as are best: a tree of a few dozen leaves is found on some thousand rows as well.
MOST_ROWS, FINALISTS = 10_000, 2

# Grows a tree on some rows (their positions, repeated as often as they were drawn).
Grow = Callable[[np.ndarray], TreeEnsemble]


Result = TypeVar("Result")


@dataclass(frozen=True)
class SearchPlan:
    """How much is tried, and how it is chosen."""

    n_starts: int  # besides the start on all rows
    beat_constant: bool  # whether a tree must lose fewer rows out of the bag than a constant loses
    seed: int
    n_threads: int
    progress: Progress | None = None


class _Found(NamedTuple):
    """A tree, what is said of it, and what it lost of each row before it saw all rows (NaN: the row was seen)."""

    tree: Tree
    candidate: Candidate
    lost_unseen: np.ndarray


def search(
    start: TreeEnsemble, grow: Grow, rows: Rows, settings: Settings, plan: SearchPlan
) -> tuple[TreeEnsemble, SearchReport]:
    """Return the most robust tree that was found, and what was tried. `start` is the greedy tree on all rows.

    Of equals it prefers what columns come first: the caller puts them in an order that means nothing.
    """
    problem = _Problem(start, grow, rows, settings, plan.seed)
    found: dict[int, list[_Found]] = {}
    interrupted = False
    n_finals = min(FINALISTS, plan.n_starts) + 1 if problem.is_large else 0
    n_in_all = plan.n_starts + 1 + n_finals
    try:
        for number, trees in _run(problem.try_start, range(plan.n_starts + 1), plan.n_threads):
            found[number] = trees
            if plan.progress is not None:
                plan.progress(len(found), n_in_all)
    except KeyboardInterrupt:
        if not found:
            raise
        interrupted = True
    trees = [tree for number in sorted(found) for tree in found[number]]
    best, losses = _choose(trees, rows.weight)
    if n_finals and not interrupted:
        trees, interrupted = _finish_best(problem, trees, best.candidate.smoothing, plan, n_in_all)
        best, losses = _choose(trees, rows.weight)
    constant = problem.constant_loss
    out_of_bag = losses[best.candidate.smoothing]
    if plan.beat_constant and not out_of_bag < constant:  # NaN: nothing was out of the bag
        best = problem.make_constant()
        trees.append(best)
    candidates = tuple(tree.candidate._replace(chosen=tree is best) for tree in trees)
    report = SearchReport(candidates, losses, constant, interrupted)
    return problem.finish(best.tree), report


def _run(work: Callable[[int], Result], numbers: Iterable[int], n_threads: int) -> Iterator[tuple[int, Result]]:
    """Do pieces of work, in threads if there are several; yield each as it is done."""
    if n_threads == 1:
        for number in numbers:
            yield number, work(number)
        return
    with ThreadPoolExecutor(n_threads) as pool:
        futures = {pool.submit(work, number): number for number in numbers}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            for future in futures:
                future.cancel()


def _finish_best(
    problem: "_Problem", trees: list[_Found], smoothing: str, plan: SearchPlan, n_in_all: int
) -> tuple[list[_Found], bool]:
    """Refine the best trees of a smoothing on all rows; return all trees, and whether Ctrl-C came before the last."""
    rivals = [k for k, tree in enumerate(trees) if tree.candidate.smoothing == smoothing]
    order = sorted(rivals[1:], key=lambda k: trees[k].candidate.objective)
    chosen, trees = [rivals[0], *order[:FINALISTS]], list(trees)
    try:
        for done, (k, refined) in enumerate(_run(lambda k: problem.refine_on_all(trees[k]), chosen, plan.n_threads), 1):
            trees[k] = refined
            if plan.progress is not None:
                plan.progress(n_in_all - len(chosen) + done, n_in_all)
    except KeyboardInterrupt:
        return trees, True
    return trees, False


def _choose(trees: list[_Found], weight: np.ndarray) -> tuple[_Found, dict[str, float]]:
    """Return the best tree of the smoothing that loses least out of the bag, and what each smoothing loses."""
    losses: dict[str, float] = {}
    for smoothing in SMOOTHINGS:
        lost = np.array([tree.lost_unseen for tree in trees if tree.candidate.smoothing == smoothing])
        unseen = ~np.isnan(lost)
        times = unseen.sum(axis=0)
        counted = times > 0
        mean = np.where(unseen, lost, 0.0).sum(axis=0)[counted] / times[counted]
        losses[smoothing] = float(np.average(mean, weights=weight[counted])) if counted.any() else float("nan")
    best = "none"
    for smoothing, loss in losses.items():
        if loss < losses[best]:
            best = smoothing
    rivals = [tree for tree in trees if tree.candidate.smoothing == best]
    return min(rivals, key=lambda tree: tree.candidate.objective), losses


class _Problem:
    """What all starts have in common: the rows as codes, with every smoothing."""

    def __init__(self, start: TreeEnsemble, grow: Grow, rows: Rows, settings: Settings, seed: int) -> None:
        self.schema, self.classes = start.schema, start.labels
        self.rows, self.settings, self.seed, self.grow = rows, settings, seed, grow
        self.start = start
        grid = find_grid(rows, start)
        self.samples = {name: make_samples(rows, grid, spread) for name, spread in SMOOTHINGS.items()}
        self.row = {
            name: np.concatenate([part.which for part in divide(rows, spread)]) for name, spread in SMOOTHINGS.items()
        }
        self.total = float(rows.weight.sum())
        self.is_large = len(rows.label) > MOST_ROWS

    @property
    def constant_loss(self) -> float:
        """The share of the weight that the better constant loses."""
        return 1.0 - float(np.bincount(self.rows.label, self.rows.weight).max()) / self.total

    def try_start(self, number: int) -> list[_Found]:
        """Refine one start with every smoothing; 0 is the start on all rows, the others are drawn."""
        if number == 0:
            begin = self._begin_all if self.is_large else self._refine_all
            return [begin(name, self.start) for name in SMOOTHINGS]
        drawn = self._draw(number)
        if drawn is None:
            return []
        start = self.grow(np.repeat(np.arange(len(drawn)), drawn))
        return [self._refine_drawn(number, name, start, drawn) for name in SMOOTHINGS]

    def _draw(self, number: int) -> np.ndarray | None:
        """Return how often each row is drawn; None if that leaves but one class."""
        n_rows = len(self.rows.label)
        drawn = np.random.default_rng((self.seed, number)).poisson(min(1.0, MOST_ROWS / n_rows), n_rows)
        return drawn if len(np.unique(self.rows.label[drawn > 0])) > 1 else None

    def _refine_all(self, smoothing: str, start: TreeEnsemble) -> _Found:
        tree = self._plant(start, self.samples[smoothing])
        objective = alternate(self.samples[smoothing], tree, self.settings, self._generator(0, smoothing))
        return self._describe(tree, "all rows", smoothing, objective, np.full(len(self.rows.label), np.nan))

    def _begin_all(self, smoothing: str, start: TreeEnsemble) -> _Found:
        """Return the start on all rows as it is, to be refined if that smoothing is chosen."""
        tree = self._plant(start, self.samples[smoothing])
        return self._describe(tree, "all rows", smoothing, None, np.full(len(self.rows.label), np.nan))

    def refine_on_all(self, found: _Found) -> _Found:
        """Refine on all rows what was refined on some."""
        candidate, tree = found.candidate, found.tree
        number = 0 if candidate.start == "all rows" else int(candidate.start.split()[-1])
        copy = tree._replace(**{name: part.copy() for name, part in tree._asdict().items()})
        copy.nodes["settled"] = -1
        samples, generator = self.samples[candidate.smoothing], self._generator(number, candidate.smoothing)
        objective = alternate(samples, copy, self.settings, generator)
        return self._describe(copy, candidate.start, candidate.smoothing, objective, found.lost_unseen)

    def _refine_drawn(self, number: int, smoothing: str, start: TreeEnsemble, drawn: np.ndarray) -> _Found:
        samples, row = self.samples[smoothing], self.row[smoothing]
        generator = self._generator(number, smoothing)
        which = np.flatnonzero(drawn[row] > 0)
        bag = take_samples(samples, which, samples.weight[which] * drawn[row[which]])
        tree = self._plant(start, bag)
        alternate(bag, tree, self.settings, generator)
        lost = self._lost_by_row(tree)
        lost[drawn > 0] = np.nan
        if self.is_large:
            return self._describe(tree, f"bootstrap {number}", smoothing, None, lost)
        tree.nodes["settled"] = -1
        objective = alternate(samples, tree, self.settings, generator)
        return self._describe(tree, f"bootstrap {number}", smoothing, objective, lost)

    def _plant(self, start: TreeEnsemble, samples: Samples) -> Tree:
        return plant(start, samples, find_capacity(start, len(samples.weight), self.settings.max_depth))

    def _generator(self, number: int, smoothing: str) -> np.random.Generator:
        """Orders of visits: what `refine` draws from the same seed, for the start on all rows."""
        if number == 0 and smoothing == "none":
            return np.random.default_rng(self.seed)
        return np.random.default_rng((self.seed, number, list(SMOOTHINGS).index(smoothing)))

    def _lost_by_row(self, tree: Tree) -> np.ndarray:
        """Return the share of each row that a tree loses: 0 or 1, or what `rho` makes of it; NaN of what is no row."""
        samples, row = self.samples["none"], self.row["none"]
        lost = np.bincount(row, np.where(find_lost(samples, tree), samples.weight, 0.0), minlength=len(self.rows.label))
        weight = self.rows.weight  # a class may weigh nothing
        return np.divide(lost, weight, out=np.full(len(lost), np.nan), where=weight > 0.0)

    def _describe(
        self, tree: Tree, start: str, smoothing: str, objective: float | None, lost_unseen: np.ndarray
    ) -> _Found:
        if objective is None:
            own = self.samples[smoothing]
            objective = float(own.weight[find_lost(own, tree)].sum()) + self.settings.price * count_leaves(tree)
        samples = self.samples["none"]
        loss = float(samples.weight[find_lost(samples, tree)].sum()) / self.total
        counted = ~np.isnan(lost_unseen)
        out_of_bag = np.average(lost_unseen[counted], weights=self.rows.weight[counted]) if counted.any() else np.nan
        candidate = Candidate(
            start, smoothing, self.seed, loss, objective / self.total, float(out_of_bag), count_leaves(tree), False
        )
        return _Found(tree, candidate, lost_unseen)

    def make_constant(self) -> _Found:
        """Return the better constant as a tree."""
        label = int(np.bincount(self.rows.label, self.rows.weight).argmax())
        tree = self._plant(self.start, self.samples["none"])
        tree.nodes["parent"][1:], tree.sizes[N_LEAVES] = FREE, 1
        tree.nodes["feature"][0], tree.nodes["label"][0] = -1, label
        objective = self.constant_loss * self.total + self.settings.price
        return self._describe(tree, "constant", "none", objective, np.full(len(self.rows.label), np.nan))

    def finish(self, tree: Tree) -> TreeEnsemble:
        """Return a tree that was found as a TreeEnsemble."""
        samples = self.samples["none"]
        refined, learned = harvest(tree, samples, self.schema, self.classes), find_learned(samples, self.schema)
        return finish(refined, self.rows, learned, self.settings)
