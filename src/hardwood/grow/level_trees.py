"""Growing trees of classes level by level, over blocks of rows (`grow/blocks.py`).

What is grown is what is grown from the same rows in memory (`grow/tree.py`, `grow/forest.py`), to the last bit, however
the rows are cut into blocks::

    grow_tree_over(run, blocks, problem, plan, options, n_rows) -> TreeEnsemble
    grow_forest_over(run, blocks, problem, plan, options, forest, balance_draws=False, first=0) -> list[TreeEnsemble]

    run       a `Run`: where blocks are
    blocks    handles of the run, each of a `ClassBlock`; some may have no rows, or rows of one class
    problem   what is learned; its arrays per row have no rows, and `sample_weight` is None where no row of the table
              has a weight of its own, else an array without rows
    plan      what the codes of all blocks mean: `plan_codes`
    options   GrowOptions, with `max_bins`
    n_rows    rows of all blocks together
    forest    ForestOptions; its `n_rows` are those of all blocks, its `n_jobs` is not asked
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hardwood.ensemble import TreeEnsemble
from hardwood.grow import classes
from hardwood.grow.block_samples import SampleRule, settle_samples
from hardwood.grow.blocks import Grower, Run, grow_over
from hardwood.grow.bootstrap import Draw
from hardwood.grow.class_levels import grow_classes_in_levels
from hardwood.grow.coded_rows import CodePlan
from hardwood.grow.forest import ForestOptions, draw_seeds
from hardwood.grow.limits import GrowOptions
from hardwood.grow.tree import finish
from hardwood.rows.task import Task

# Rows that a histogram of two classes can count in one word; of more, it adds up weights.
MOST_COUNTED = classes.TARGETS["two"].most_samples
# Trees of a forest that grow side by side: blocks keep the samples of each, 4 bytes a sample, 20 with weights.
SIDE_BY_SIDE = 8
WEIGHTED_SIDE_BY_SIDE = 2
# Histograms that a tree needs room for, at least: of two nodes that are split, and of their children.
FEWEST_SLOTS = 4


def grow_tree_over(
    run: Run, blocks: Sequence[Any], problem: Task, plan: CodePlan, options: GrowOptions, n_rows: int
) -> TreeEnsemble:
    """Grow one robust tree over blocks."""
    rule = SampleRule(problem.class_weight, plan.stays, options.rho, None)
    n_slots = _count_slots(problem, plan, options, 1)
    (tree,) = grow_over(run, blocks, [_grow(problem, rule, plan, options, n_rows, n_slots)])
    return tree


def grow_forest_over(
    run: Run,
    blocks: Sequence[Any],
    problem: Task,
    plan: CodePlan,
    options: GrowOptions,
    forest: ForestOptions,
    *,
    balance_draws: bool = False,
    first: int = 0,
) -> list[TreeEnsemble]:
    """Grow the trees of a forest over blocks from number `first` on; see `grow_forest`."""
    at_once = WEIGHTED_SIDE_BY_SIDE if _is_weighted(problem, plan, options, forest.n_rows) else SIDE_BY_SIDE
    n_slots, n_rows = _count_slots(problem, plan, options, at_once), forest.n_rows
    rule, trees = SampleRule(problem.class_weight, plan.stays, options.rho, None), []
    seeds = draw_seeds(forest)[first:]
    for start in range(0, len(seeds), at_once):
        growers = []
        for seed in seeds[start : start + at_once]:
            draw = None if forest.n_drawn is None else Draw(seed, n_rows, forest.n_drawn)
            own = replace(rule, draw=draw), plan, replace(options, seed=seed), n_rows, n_slots
            growers.append(_grow(problem, *own, balance=balance_draws))
        trees += grow_over(run, blocks, growers)
        if forest.progress is not None:
            forest.progress(first + len(trees), forest.n_trees)
    return trees


def _grow(
    problem: Task,
    rule: SampleRule,
    plan: CodePlan,
    options: GrowOptions,
    n_rows: int,
    n_slots: int,
    *,
    balance: bool = False,
) -> Grower:
    """Grow one tree."""
    is_weighted = _is_weighted(problem, plan, options, n_rows)
    rule = yield from settle_samples(rule, n_rows, is_weighted=is_weighted, balance=balance)
    return finish((yield from grow_classes_in_levels(rule, plan, options, n_slots)), problem, plan.reach)


def _is_weighted(problem: Task, plan: CodePlan, options: GrowOptions, n_rows: int) -> bool:
    """Say whether samples need weights of their own."""
    if problem.sample_weight is not None or bool(plan.stays.any()):
        return True
    return n_rows > MOST_COUNTED and classes.choose_target(plan, len(problem.classes), options.monotonic).name == "two"


def _count_slots(problem: Task, plan: CodePlan, options: GrowOptions, at_once: int) -> int:
    """Return for how many histograms each of some trees has room, or can use."""
    n_bytes = 2 * 8 * len(problem.classes) * plan.bins.n_columns * plan.bins.width  # at most: weight and rows
    largest_level = 1 << min(options.size.max_depth, 40)
    return max(FEWEST_SLOTS, min(largest_level, classes.HISTOGRAM_BYTES // (n_bytes * at_once)))
