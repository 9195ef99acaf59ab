"""From a table and a threat to a boosted TreeEnsemble, where all rows are in this process."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.building import Nodes, assemble
from hardwood.ensemble.whole_numbers import floor_thresholds
from hardwood.grow.blocks import LocalRun, Run, grow_over
from hardwood.grow.boosting import Boosted, BoostedTree, Booster, Boosting, BoostingOptions
from hardwood.grow.boosting_steps import TILE_ROWS, BoostBlock, Sums
from hardwood.grow.boosting_trees import LevelTrees, WholeTrees
from hardwood.grow.codes import TablePlan
from hardwood.grow.losses import CertifiedLoss, choose_loss
from hardwood.grow.row_draws import Fold, Pieces
from hardwood.grow.workers import hire
from hardwood.progress import Progress
from hardwood.rows.task import Task


def make_loss(task: Task) -> CertifiedLoss:
    """Return the loss of what is learned, of no rows."""
    return choose_loss(_count_classes(task), np.empty(0))


def _count_classes(task: Task) -> int:
    return 0 if task.classes is None else len(task.classes)


def _name_link(task: Task) -> str:
    """Say what the outputs are."""
    return "value" if task.classes is None else "logistic" if make_loss(task).n_outputs == 1 else "softmax"


def divide(options: BoostingOptions, task: Task) -> BoostingOptions:
    """Return what is said in weights and in squares of numbers, in the units of a task."""
    return replace(
        options,
        l2=options.l2 / task.weight_unit,
        min_child_weight=options.min_child_weight / task.weight_unit,
        min_gain=options.min_gain / task.weight_unit / task.target_unit / task.target_unit,
    )


def multiply(boosted: Boosted, task: Task) -> Boosted:
    """Return what was boosted in the units of a task as whoever gave it counts."""
    weight, target = task.weight_unit, task.target_unit
    if weight == 1.0 and target == 1.0:
        return boosted
    for tree in (tree for trees in boosted.rounds for tree in trees):
        tree.nodes["value"] *= target
        tree.nodes["cover"] *= weight
    return replace(
        boosted,
        base=boosted.base * target,
        train_loss=[loss * target * target for loss in boosted.train_loss],
        held_out_loss=[loss * weight * target * target for loss in boosted.held_out_loss],
        total_weight=boosted.total_weight * weight,
    )


class Begun(NamedTuple):
    """What boosting goes on from, in the units of a problem."""

    base: np.ndarray
    sums: Sums


@dataclass(frozen=True)
class WarmStart:
    """A model that more trees are added to."""

    ensemble: TreeEnsemble
    sums: Sums  # what its outputs of the rows can be made
    directions: np.ndarray  # of its features, in ordered mode

    def divide(self, target_unit: float) -> Begun:
        """Return where boosting goes on, in a unit."""
        low, high = self.sums
        return Begun(self.ensemble.base_score / target_unit, Sums(low / target_unit, high / target_unit))


def code_tiles(
    plan: TablePlan, task: Task, batches: Iterable[np.ndarray], pieces: Pieces, n_threads: int = 1
) -> list[BoostBlock]:
    """Code the rows of a task, and cut them into tiles: at least one.

    batches : the rows, some at a time
    pieces : where in the table they are, see `BoostBlock`
    """
    class_index, codes, start = task.class_index, plan.make_room(task.n_rows), 0
    with hire(n_threads) as workers:
        for X in batches:
            rows = slice(start, start + len(X))
            plan.encode(X, class_index[rows], codes[rows], workers)
            start = rows.stop
    n_classes, weight, n_tiles, tiles = _count_classes(task), task.row_weight, max(1, len(codes) // TILE_ROWS), []
    for begin, end in pairwise(len(codes) * k // n_tiles for k in range(n_tiles + 1)):
        rows, own = slice(begin, end), _find_pieces(pieces, begin, end)
        tiles.append(BoostBlock(plan, codes[rows], choose_loss(n_classes, task.target[rows]), weight[rows], own))
    return tiles


def _find_pieces(pieces: Pieces, begin: int, end: int) -> Pieces:
    """Return where in the table some rows of pieces are."""
    found, start = [], 0
    for first, n_rows in pieces:
        low, high = max(begin - start, 0), min(end - start, n_rows)
        if low < high:
            found.append((first + low, high - low))
        start += n_rows
    return tuple(found)


def grow_boosted(
    task: Task,
    tiles: Sequence[BoostBlock],
    options: BoostingOptions,
    folds: Sequence[Fold],
    n_threads: int,
    progress: Progress | None = None,
    start: WarmStart | None = None,
) -> tuple[TreeEnsemble, Boosted]:
    """Boost trees on a table that is in this process, and return the ensemble and how it came about.

    folds : the rows that are held out, each time; without any, all rounds are kept.
    """
    plan, loss, options = tiles[0].plan, make_loss(task), divide(options, task)
    boosters = []
    for fold in (None, *folds):
        depth, is_whole = options.max_depth, len(tiles) == 1
        grower = WholeTrees(plan, tiles[0].n_rows, depth) if is_whole else LevelTrees(plan, depth)
        boosters.append(Booster(plan, loss, options, grower, fold))
    if start is not None:
        boosters[0].directions[:] = start.directions
    with hire(n_threads) as workers:
        boosting = Boosting(boosters[0], boosters[1:], options, workers, progress)
        begun = None if start is None else start.divide(task.target_unit)
        boosted = multiply(run_boosting(LocalRun(), [tiles], boosting, begun), task)
    return harvest(boosted, plan, task, None if start is None else start.ensemble), boosted


def run_boosting(run: Run, blocks: Sequence[Any], boosting: Boosting, begun: Begun | None = None) -> Boosted:
    """Boost over blocks, from what has begun on if something has; Ctrl-C ends with what there is."""
    grower = boosting.grow() if begun is None else boosting.grow(begun.base, begun.sums)
    try:
        grow_over(run, blocks, [grower])
    except KeyboardInterrupt:
        if not boosting.has_begun:
            raise
        return boosting.finish(interrupted=True)
    return boosting.finish(interrupted=False)


def harvest(boosted: Boosted, plan: TablePlan, task: Task, before: TreeEnsemble | None = None) -> TreeEnsemble:
    """Return the trees as an ensemble, behind those of an ensemble that was there before."""
    pieces, left_sets = [], {}
    n_before = 0
    if before is not None and before.n_nodes > 1:
        pieces.append(_read_nodes(before))
        left_sets.update(before.left_sets())
        n_before = before.n_nodes
    n_outputs = make_loss(task).n_outputs
    for tree in (tree for trees in boosted.rounds for tree in trees):
        pieces.append(_make_nodes(tree, plan, n_outputs))
        for node in np.flatnonzero(tree.nodes["feature"] >= 0).tolist():
            labels = task.schema.categories[tree.nodes["feature"][node]]
            if labels is not None:
                left_sets[n_before + node] = tree.set_left[node, : len(labels) + 1]
        n_before += len(tree.nodes)
    if not pieces:
        pieces.append(_make_constant(n_outputs, boosted.total_weight))
    ensemble = assemble(
        Nodes(*(np.concatenate(parts) for parts in zip(*pieces, strict=True))),
        task.schema,
        left_sets,
        base_score=boosted.base,
        link=_name_link(task),
        classes=task.classes,
    )
    return floor_thresholds(ensemble, plan.reach.whole)


def _make_nodes(tree: BoostedTree, plan: TablePlan, n_outputs: int) -> Nodes:
    nodes = tree.nodes
    feature, cut = np.maximum(nodes["feature"], 0), np.maximum(nodes["cut"], 0)
    # A cut behind the last threshold sends all numbers left, and what is missing right.
    all_left = cut >= plan.columns.n_codes[feature] - 1
    threshold = plan.columns.thresholds[feature, np.where(all_left, 0, cut)]
    value = np.zeros((len(nodes), n_outputs))
    value[:, tree.output] = nodes["value"]
    return Nodes(
        size=np.array([len(nodes)]),
        feature=nodes["feature"],
        threshold=np.where(all_left, np.finfo(np.float64).max, threshold),
        left=nodes["left"],
        right=nodes["left"] + 1,
        value=value,
        cover=nodes["cover"],
        missing_left=nodes["missing_left"],
    )


def _read_nodes(ensemble: TreeEnsemble) -> Nodes:
    """Return the nodes of an ensemble, tree by tree."""
    size = np.diff(np.append(ensemble.root, ensemble.n_nodes))
    first = np.repeat(ensemble.root, size)
    inner = ensemble.feature >= 0
    return Nodes(
        size=size,
        feature=ensemble.feature,
        threshold=ensemble.threshold,
        left=np.where(inner, ensemble.left - first, -1),
        right=np.where(inner, ensemble.right - first, -1),
        value=ensemble.value,
        cover=ensemble.cover,
        missing_left=ensemble.missing_left,
    )


def _make_constant(n_outputs: int, weight: float) -> Nodes:
    """Return one leaf that adds nothing: an ensemble has a tree."""
    leaf, none = np.array([-1]), np.zeros(1, dtype=bool)
    return Nodes(np.array([1]), leaf, np.zeros(1), leaf, leaf, np.zeros((1, n_outputs)), np.array([weight]), none)
