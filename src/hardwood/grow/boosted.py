"""From a table and a threat to a boosted TreeEnsemble."""

from dataclasses import dataclass

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.building import Nodes, assemble
from hardwood.ensemble.whole_numbers import floor_thresholds
from hardwood.grow.boosting import Boosted, BoostedTree, Booster, BoostingOptions, Sums, boost
from hardwood.grow.codes import CodedTable, encode_table
from hardwood.grow.losses import CertifiedLoss
from hardwood.grow.workers import hire
from hardwood.progress import Progress
from hardwood.table import Schema
from hardwood.threat import Reach

Folds = list[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class BoostingProblem:
    """Rows with their targets and weights, and what an attacker may do to them."""

    X: np.ndarray  # float64 (row, feature), as `Schema.encode` makes it; NaN where a value is missing
    class_index: np.ndarray  # per row; zeros for a regression
    weight: np.ndarray  # per row, positive
    loss: CertifiedLoss
    schema: Schema
    classes: np.ndarray | None  # the labels; None for a regression
    reach: Reach

    @property
    def link(self) -> str:
        """What the outputs are."""
        return "value" if self.classes is None else "logistic" if self.loss.n_outputs == 1 else "softmax"


@dataclass(frozen=True)
class WarmStart:
    """A model that more trees are added to."""

    ensemble: TreeEnsemble
    sums: Sums  # what its outputs of the rows can be made
    directions: np.ndarray  # of its features, in ordered mode


def grow_boosted(
    problem: BoostingProblem,
    options: BoostingOptions,
    folds: Folds,
    n_threads: int,
    progress: Progress | None = None,
    start: WarmStart | None = None,
) -> tuple[TreeEnsemble, Boosted]:
    """Boost trees on a table, and return the ensemble and how it came about.

    folds : (train rows, held-out rows) each; without any, all rounds are kept.
    """
    with hire(n_threads) as workers:
        table = encode_table(problem.X, problem.class_index, problem.reach, options.max_bins, workers)
        arguments = (table, problem.loss, problem.weight, options)
        full = Booster(*arguments, start=None if start is None else start.sums)
        if start is not None:
            full.base = start.ensemble.base_score
            full.directions[:] = start.directions
        parts = [(Booster(*arguments, train=train), held_out) for train, held_out in folds]
        boosted = boost(full, parts, options, workers, progress)
    trees = [tree for trees in boosted.rounds for tree in trees]
    return harvest(trees, table, problem, boosted.base, None if start is None else start.ensemble), boosted


def harvest(
    trees: list[BoostedTree],
    table: CodedTable,
    problem: BoostingProblem,
    base: np.ndarray,
    before: TreeEnsemble | None = None,
) -> TreeEnsemble:
    """Return the trees as an ensemble, behind those of an ensemble that was there before."""
    pieces, left_sets = [], {}
    n_before = 0
    if before is not None and before.n_nodes > 1:
        pieces.append(_read_nodes(before))
        left_sets.update(before.left_sets())
        n_before = before.n_nodes
    for tree in trees:
        pieces.append(_make_nodes(tree, table, problem.loss.n_outputs))
        for node in np.flatnonzero(tree.nodes["feature"] >= 0).tolist():
            labels = problem.schema.categories[tree.nodes["feature"][node]]
            if labels is not None:
                left_sets[n_before + node] = tree.set_left[node, : len(labels) + 1]
        n_before += len(tree.nodes)
    if not pieces:
        pieces.append(_make_constant(problem.loss.n_outputs, float(problem.weight.sum())))
    ensemble = assemble(
        Nodes(*(np.concatenate(parts) for parts in zip(*pieces, strict=True))),
        problem.schema,
        left_sets,
        base_score=base,
        link=problem.link,
        classes=problem.classes,
    )
    return floor_thresholds(ensemble, problem.reach.whole)


def _make_nodes(tree: BoostedTree, table: CodedTable, n_outputs: int) -> Nodes:
    nodes = tree.nodes
    feature, cut = np.maximum(nodes["feature"], 0), np.maximum(nodes["cut"], 0)
    # A cut behind the last threshold sends all numbers left, and what is missing right.
    all_left = cut >= table.columns.n_codes[feature] - 1
    threshold = table.columns.thresholds[feature, np.where(all_left, 0, cut)]
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
