"""From blocks of a table, wherever they are, to a boosted TreeEnsemble: the same as from the table in one piece."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.grow.blocks import Counts, Grower, Run, Step, grow_over
from hardwood.grow.boosted import divide, harvest, make_loss, multiply, run_boosting
from hardwood.grow.boosting import Boosted, Booster, Boosting, BoostingOptions
from hardwood.grow.boosting_steps import BoostBlock
from hardwood.grow.boosting_trees import LevelTrees
from hardwood.grow.codes import TablePlan
from hardwood.grow.row_draws import Fold
from hardwood.grow.workers import hire
from hardwood.progress import Progress
from hardwood.rows.task import Task


def grow_boosted_over(
    run: Run,
    blocks: Sequence[Any],
    task: Task,
    plan: TablePlan,
    options: BoostingOptions,
    folds: Sequence[Fold] = (),
    progress: Progress | None = None,
) -> tuple[TreeEnsemble, Boosted]:
    """Boost trees over blocks, and return the ensemble and how it came about.

    Parameters
    ----------
    run, blocks : where tasks are run, and its handles of blocks, each in tiles (`make_tiles`)
    folds : sequence of Fold
        The rows that are held out, each time; without any, all rounds are kept.
    """
    options = divide(options, task)
    grower = LevelTrees(plan, options.max_depth)
    full, *parts = (Booster(plan, make_loss(task), options, grower, fold) for fold in (None, *folds))
    with hire(1) as workers:
        boosted = multiply(run_boosting(run, blocks, Boosting(full, parts, options, workers, progress)), task)
    return harvest(boosted, plan, task), boosted


def gather_classes(run: Run, blocks: Sequence[Any], n_rows: int) -> np.ndarray:
    """Return the class index of every row: for folds of small tables, in which classes are spread evenly."""

    def gather() -> Grower:
        (class_index,) = yield _ReadClasses(n_rows)
        return class_index

    (class_index,) = grow_over(run, blocks, [gather()])
    return np.asarray(class_index)


class _ReadClasses(Step):
    """Tells the class of every row, and 0 for those of other blocks."""

    name = "classes"

    def __init__(self, n_rows: int) -> None:
        self._n_rows = n_rows

    def do(self, block: Sequence[BoostBlock], state: None) -> tuple[None, Counts]:
        """Count."""
        class_index = np.zeros(self._n_rows, dtype=np.int64)
        for tile in block:
            start = 0
            for first, n_rows in tile.pieces:
                class_index[first : first + n_rows] = tile.loss.target[start : start + n_rows]
                start += n_rows
        return None, (class_index,)
