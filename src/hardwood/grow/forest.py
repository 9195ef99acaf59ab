"""Growing a forest: many trees from one table, each from rows and features of its own."""

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from joblib import Parallel, delayed

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.building import LeftSets, Nodes, assemble
from hardwood.grow.block_samples import balance_classes
from hardwood.grow.bootstrap import Draw
from hardwood.grow.classes import grow_classes
from hardwood.grow.coded_rows import CodedRows, code_rows
from hardwood.grow.limits import GrowOptions
from hardwood.grow.regression import code_table, grow_coded_numbers, grow_regression
from hardwood.grow.regression_bins import CodedNumbers
from hardwood.grow.tree import finish, grow_tree
from hardwood.progress import Progress
from hardwood.rows.task import Task
from hardwood.threat import Reach

# The largest seed of a tree.
MOST_SEED = np.iinfo(np.int32).max


@dataclass(frozen=True)
class ForestOptions:
    """How the trees of a forest differ, and how many there are."""

    n_trees: int
    n_rows: int  # of the table
    n_drawn: int | None  # rows that each tree is grown from, drawn with replacement; None: all rows, each once
    seed: int
    n_jobs: int | None
    progress: Progress | None = None


class TreeGrower(Protocol):
    """Grows tree after tree from one table."""

    def grow(self, seed: int, drawn: np.ndarray | None) -> TreeEnsemble:
        """Grow a tree from some rows, with repetitions; None: from all, each once."""


@dataclass(frozen=True)
class FromCodes:
    """Grows trees of any number of classes, with categories and missing values, from codes that are made once."""

    problem: Task
    coded: CodedRows
    options: GrowOptions
    balance_draws: bool

    def grow(self, seed: int, drawn: np.ndarray | None) -> TreeEnsemble:
        """Grow a tree; see `TreeGrower`."""
        problem = self.problem
        if self.balance_draws:
            problem = replace(problem, class_weight=_balance(problem, drawn))
        grown = grow_classes(problem, self.coded, replace(self.options, seed=seed), drawn)
        return finish(grown, problem, self.coded.reach)


@dataclass(frozen=True)
class FromRows:
    """Grows trees of whatever a single tree of classes can be grown from, each from the rows anew."""

    problem: Task
    reach: Reach
    options: GrowOptions
    balance_draws: bool

    def grow(self, seed: int, drawn: np.ndarray | None) -> TreeEnsemble:
        """Grow a tree; see `TreeGrower`."""
        problem = self.problem
        if self.balance_draws:
            problem = replace(problem, class_weight=_balance(problem, drawn))
        if drawn is not None:
            problem = _draw(problem, drawn)
        return grow_tree(problem, self.reach, replace(self.options, seed=seed))


@dataclass(frozen=True)
class NumbersFromRows:
    """Grows regression trees, each from the rows anew."""

    problem: Task
    reach: Reach
    options: GrowOptions

    def grow(self, seed: int, drawn: np.ndarray | None) -> TreeEnsemble:
        """Grow a tree; see `TreeGrower`."""
        problem = self.problem
        if drawn is not None:
            problem = _draw(problem, drawn)
        return grow_regression(problem, self.reach, replace(self.options, seed=seed)).ensemble


@dataclass(frozen=True)
class NumbersFromCodes:
    """Grows regression trees from codes that are made once."""

    problem: Task
    coded: CodedNumbers
    reach: Reach
    options: GrowOptions

    def grow(self, seed: int, drawn: np.ndarray | None) -> TreeEnsemble:
        """Grow a tree; see `TreeGrower`."""
        options = replace(self.options, seed=seed)
        return grow_coded_numbers(self.problem, self.coded, self.reach, options, drawn).ensemble


def prepare_number_grower(problem: Task, reach: Reach, options: GrowOptions) -> TreeGrower:
    """Make a table with numbers ready for growing trees from it: in codes, unless every threshold is wanted."""
    if options.max_bins is None:
        return NumbersFromRows(problem, reach, replace(options, n_threads=1))
    coded = code_table(problem, reach, options)
    return NumbersFromCodes(problem.drop_rows(), coded, reach, replace(options, n_threads=1))


def _draw(problem: Task, drawn: np.ndarray) -> Task:
    """Return what is learned from some rows of a table."""
    weight = None if problem.sample_weight is None else problem.sample_weight[drawn]
    return replace(problem, X=problem.X[drawn], target=problem.target[drawn], sample_weight=weight)


def _balance(problem: Task, drawn: np.ndarray | None) -> np.ndarray:
    """Return weights by which all classes of some rows weigh the same, in the unit of the problem."""
    classes = problem.class_index if drawn is None else problem.class_index[drawn]
    return problem.class_weight * balance_classes(np.bincount(classes, minlength=len(problem.classes)))


def prepare_grower(problem: Task, reach: Reach, options: GrowOptions, *, balance_draws: bool) -> TreeGrower:
    """Make a table ready for growing trees from it: in codes, unless every threshold is wanted."""
    coded = None if options.max_bins is None else code_rows(problem, reach, options, options.max_bins)
    options = replace(options, n_threads=1)  # threads are for trees side by side
    if coded is None:
        return FromRows(problem, reach, options, balance_draws)
    return take_codes(problem, coded, options, balance_draws=balance_draws)


def take_codes(problem: Task, coded: CodedRows, options: GrowOptions, *, balance_draws: bool) -> TreeGrower:
    """Make a table that is in codes ready for growing trees from it."""
    return FromCodes(problem.drop_rows(), coded, options, balance_draws)


def grow_forest(grower: TreeGrower, forest: ForestOptions, first: int = 0) -> list[TreeEnsemble]:
    """Grow the trees of a forest from number `first` on; those before it are there already.

    A tree depends on its number and on the seed of the forest alone, so a forest that is enlarged is the one that would
    have been grown at once.
    """
    shared, quiet = _Shared(grower), replace(forest, progress=None)
    jobs = (delayed(_grow_one)(shared, quiet, seed) for seed in draw_seeds(forest)[first:])
    grown: Iterator[TreeEnsemble] = Parallel(n_jobs=forest.n_jobs, prefer="threads", return_as="generator")(jobs)
    trees = []
    for number, tree in enumerate(grown, start=first + 1):
        trees.append(tree)
        if forest.progress is not None:
            forest.progress(number, forest.n_trees)
    return trees


@dataclass(frozen=True)
class _Shared:
    """A grower that says how large it is: joblib sends what is large to the workers of a cluster once, not per tree."""

    grower: TreeGrower

    def __sizeof__(self) -> int:
        sizes: list[int] = []
        rest = pickle.dumps(self, protocol=5, buffer_callback=lambda buffer: sizes.append(buffer.raw().nbytes))
        return len(rest) + sum(sizes)


def _grow_one(shared: _Shared, forest: ForestOptions, seed: int) -> TreeEnsemble:
    return shared.grower.grow(seed, draw_rows(forest, seed))


def join_trees(members: list[TreeEnsemble]) -> TreeEnsemble:
    """Return the forest of all trees of some ensembles of the same columns; what they say is averaged."""
    model, nodes, left_sets, first = members[0], [], [], 0
    for member in members:
        is_leaf = member.feature < 0
        size = np.diff(np.append(member.root, member.n_nodes))
        before = np.repeat(member.root, size)
        nodes.append(
            Nodes(
                size=size,
                feature=member.feature,
                threshold=member.threshold,
                left=np.where(is_leaf, -1, member.left - before),
                right=np.where(is_leaf, -1, member.right - before),
                value=member.value,
                cover=member.cover,
                missing_left=member.missing_left,
            )
        )
        left_sets += [LeftSets(np.array([first + node]), left[None, :]) for node, left in member.left_sets().items()]
        first += member.n_nodes
    joined = Nodes(*map(np.concatenate, zip(*nodes, strict=True)))
    return assemble(
        joined, model.schema, left_sets, base_score=model.base_score, link=model.link, classes=model.classes,
        divisor=float(len(joined.size)),
    )  # fmt: skip


def draw_seeds(forest: ForestOptions) -> list[int]:
    """Return a seed per tree; the first ones do not depend on how many there are."""
    return np.random.RandomState(forest.seed).randint(MOST_SEED, size=forest.n_trees).tolist()


def draw_rows(forest: ForestOptions, seed: int) -> np.ndarray | None:
    """Return the rows of the tree with this seed, sorted, with repetitions; None for all, each once."""
    if forest.n_drawn is None:
        return None
    return Draw(seed, forest.n_rows, forest.n_drawn).draw_all()


def find_unseen(forest: ForestOptions) -> np.ndarray:
    """Say of each row (row, tree) whether the tree has not seen it: out of bag."""
    unseen = np.ones((forest.n_rows, forest.n_trees), dtype=bool)
    for number, seed in enumerate(draw_seeds(forest)):
        drawn = draw_rows(forest, seed)
        unseen[slice(None) if drawn is None else drawn, number] = False
    return unseen
