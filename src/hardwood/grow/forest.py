"""Growing a forest: many trees from one table, each from rows and features of its own."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from joblib import Parallel, delayed

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.building import LeftSets, Nodes, assemble
from hardwood.ensemble.whole_numbers import floor_thresholds
from hardwood.grow.binned import BinnedGrower
from hardwood.grow.limits import GrowOptions
from hardwood.grow.problem import Problem
from hardwood.grow.tree import grow_tree, harvest, weigh_nodes
from hardwood.progress import Progress
from hardwood.threat import Reach

# The largest seed of a tree.
MOST_SEED = np.iinfo(np.int32).max


@dataclass(frozen=True)
class ForestOptions:
    """How the trees of a forest differ, and how many there are."""

    n_trees: int
    n_drawn: int | None  # rows that each tree is grown from, drawn with replacement; None: all rows, each once
    balance_draws: bool  # whether classes weigh the same in every draw
    seed: int
    n_jobs: int | None
    progress: Progress | None = None


class TreeGrower(Protocol):
    """Grows tree after tree from one table."""

    def grow(self, seed: int, drawn: np.ndarray | None, class_weight: np.ndarray | None) -> TreeEnsemble:
        """Grow a tree from some rows, with repetitions; None: from all. The class weights are the problem's if None."""


@dataclass(frozen=True)
class _FromCodes:
    """Grows trees of two classes from codes that are made once."""

    problem: Problem
    reach: Reach
    grower: BinnedGrower

    def grow(self, seed: int, drawn: np.ndarray | None, class_weight: np.ndarray | None) -> TreeEnsemble:
        nodes = self.grower.grow(seed, drawn, class_weight)
        return floor_thresholds(harvest(nodes, weigh_nodes(nodes), {}, self.problem), self.reach.whole)


@dataclass(frozen=True)
class _FromRows:
    """Grows trees of whatever a single tree can be grown from, each from the rows anew."""

    problem: Problem
    reach: Reach
    options: GrowOptions

    def grow(self, seed: int, drawn: np.ndarray | None, class_weight: np.ndarray | None) -> TreeEnsemble:
        problem = self.problem
        if drawn is not None:
            weight = problem.sample_weight
            problem = replace(
                problem, X=problem.X[drawn], class_index=problem.class_index[drawn],
                sample_weight=None if weight is None else weight[drawn],
            )  # fmt: skip
        if class_weight is not None:
            problem = replace(problem, class_weight=class_weight)
        return grow_tree(problem, self.reach, replace(self.options, seed=seed))


def prepare_grower(problem: Problem, reach: Reach, options: GrowOptions) -> TreeGrower:
    """Make a table ready for growing trees from it: in codes, where the grower of two classes takes it."""
    if options.max_bins is None or len(problem.classes) > 2 or problem.schema.categorical:
        return _FromRows(problem, reach, options)
    return _FromCodes(problem, reach, BinnedGrower(problem, reach, options, options.max_bins))


def grow_forest(
    problem: Problem, reach: Reach, options: GrowOptions, forest: ForestOptions, first: int = 0
) -> list[TreeEnsemble]:
    """Grow the trees of a forest from number `first` on; those before it are there already.

    A tree depends on its number and on the seed of the forest alone, so a forest that is enlarged is the one that would
    have been grown at once.
    """
    grower = prepare_grower(problem, reach, replace(options, n_threads=1))
    seeds = draw_seeds(forest)
    jobs = (delayed(_grow_one)(grower, problem, forest, seed) for seed in seeds[first:])
    grown: Iterator[TreeEnsemble] = Parallel(n_jobs=forest.n_jobs, prefer="threads", return_as="generator")(jobs)
    trees = []
    for number, tree in enumerate(grown, start=first + 1):
        trees.append(tree)
        if forest.progress is not None:
            forest.progress(number, forest.n_trees)
    return trees


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


def draw_rows(forest: ForestOptions, n_rows: int, seed: int) -> np.ndarray | None:
    """Return the rows of the tree with this seed, sorted, with repetitions; None for all, each once."""
    if forest.n_drawn is None:
        return None
    return np.sort(np.random.RandomState(seed).randint(n_rows, size=forest.n_drawn))


def find_unseen(forest: ForestOptions, n_rows: int) -> np.ndarray:
    """Say of each row (row, tree) whether the tree has not seen it: out of bag."""
    unseen = np.ones((n_rows, forest.n_trees), dtype=bool)
    for number, seed in enumerate(draw_seeds(forest)):
        drawn = draw_rows(forest, n_rows, seed)
        unseen[slice(None) if drawn is None else drawn, number] = False
    return unseen


def _grow_one(grower: TreeGrower, problem: Problem, forest: ForestOptions, seed: int) -> TreeEnsemble:
    drawn, class_weight = draw_rows(forest, len(problem.X), seed), None
    if forest.balance_draws:
        classes = problem.class_index if drawn is None else problem.class_index[drawn]
        count = np.bincount(classes, minlength=len(problem.classes))
        class_weight = len(classes) / (len(count) * np.maximum(count, 1.0))
    return grower.grow(seed, drawn, class_weight)
