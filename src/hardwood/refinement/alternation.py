"""Alternating optimisation of the exact adversarial loss.

The tree is improved node by node, in random order, until nothing moves: tree alternating optimisation
(Carreira-Perpiñán and Tavallali, 2018) with the attacker in the loss. What counts at a node are the samples that can be
moved there and are not lost elsewhere anyway; each of them is lost if it enters the left subtree, or the right one, or
both, or neither, however many classes there are. So every other split is judged by two histograms per feature, and the
node may as well become a leaf, give way to one of its subtrees, or have them swapped. `_kernels.refine.sweeping` does
it.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.refine.accounting import Stakes
from hardwood._kernels.refine.codes import Samples
from hardwood._kernels.refine.moves import MOVE, merge_equals
from hardwood._kernels.refine.order import Order
from hardwood._kernels.refine.reached import EPOCH, Lists
from hardwood._kernels.refine.scanning import BLOCK, Histograms
from hardwood._kernels.refine.sweeping import Limits, Workspace, accept, sweep
from hardwood._kernels.refine.tree import FREE, N_CHANGES, Tree, count_all_wrong
from hardwood.refinement.partitions import offer_partitions
from hardwood.refinement.working_tree import count_leaves

# Losses that differ by no more than this share of the weight of all samples count as equal.
TOLERANCE = 1e-10
# Room for lists of samples, in samples per sample: those of the nodes of some levels.
LISTED = 16


class Settings(NamedTuple):
    """What is minimised, and how far a tree may go."""

    price: float  # of a leaf, in units of the weight of rows
    max_sweeps: int
    max_depth: int
    max_leaves: int
    monotonic: np.ndarray | None = None  # int64 per feature: 1, 0 or -1


def alternate(samples: Samples, tree: Tree, settings: Settings, generator: np.random.Generator) -> float:
    """Improve a tree until no node can be improved; return its loss with the price of its leaves."""
    tolerance = TOLERANCE * float(samples.weight.sum())
    limits = Limits(settings.price, tolerance, settings.max_depth, settings.max_leaves)
    work = make_workspace(samples, tree, settings.monotonic)
    has_categories = bool((samples.first_reach >= 0).any())
    count_all_wrong(samples, tree, work.stack, work.wrong)
    for number in range(settings.max_sweeps):
        n_changes = tree.sizes[N_CHANGES]
        order = generator.permutation(np.flatnonzero(tree.nodes["parent"] != FREE))
        if number == 0:  # from the bottom up, lest a node high up that is not worth its price takes better ones along
            order = order[np.argsort(-_find_depths(tree, order), kind="stable")]
        position = sweep(samples, tree, order, 0, has_categories, limits, work)
        while position < len(order):
            offer_partitions(samples, tree, order[position], limits, work)
            accept(samples, tree, order[position], limits, work)
            position = sweep(samples, tree, order, position + 1, has_categories, limits, work)
        if merge_equals(tree, work.stack):
            count_all_wrong(samples, tree, work.stack, work.wrong)
            tree.nodes["settled"] = -1
            work.lists.present[EPOCH] += 1
        if tree.sizes[N_CHANGES] == n_changes:
            break
    return float(samples.weight[work.wrong > 0].sum()) + settings.price * count_leaves(tree)


def _find_depths(tree: Tree, nodes: np.ndarray) -> np.ndarray:
    """Return how deep some nodes are in the tree."""
    depth = np.zeros(len(nodes), dtype=np.int64)
    above = tree.nodes["parent"][nodes]
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, tree.nodes["parent"][above], above)
    return depth


def find_lost(samples: Samples, tree: Tree) -> np.ndarray:
    """Say of each sample whether it can be moved into a leaf of another class."""
    wrong = np.empty(len(samples.weight), dtype=np.int32)
    count_all_wrong(samples, tree, np.empty(len(tree.nodes) + 2, dtype=np.int64), wrong)
    return wrong > 0


def make_workspace(samples: Samples, tree: Tree, monotonic: np.ndarray | None = None) -> Workspace:
    """Return room for the notes of the kernels."""
    n_samples, n_nodes, n_words = len(samples.weight), len(tree.nodes), samples.known.shape[1]
    n_cuts = int(np.diff(samples.first_cut).max()) + 2
    n_classes = int(max(samples.label.max(), tree.nodes["label"].max())) + 1
    return Workspace(
        wrong=np.empty(n_samples, dtype=np.int32),
        stakes=Stakes(
            reached=np.empty(n_samples, dtype=np.int32),
            below=np.empty(n_samples, dtype=np.int32),
            active=np.empty(n_samples, dtype=np.int32),
            loses=np.empty(n_samples, dtype=np.uint8),
            counts=np.zeros(5, dtype=np.int64),
            by_class=np.empty(max(n_classes, 2)),
            by_side=np.empty(4),
            path=np.empty(n_nodes + 2, dtype=np.int64),
        ),
        lists=Lists(
            pool=np.empty(LISTED * n_samples, dtype=np.int32),
            start=np.zeros(n_nodes, dtype=np.int64),
            length=np.zeros(n_nodes, dtype=np.int64),
            epoch=np.full(n_nodes, -1, dtype=np.int64),
            present=np.zeros(2, dtype=np.int64),
            touched=np.zeros(n_nodes, dtype=np.int64),
            changed=np.zeros(n_samples, dtype=np.int64),
        ),
        histograms=Histograms(
            plain=np.zeros(n_cuts),
            swapped=np.zeros(n_cuts),
            used=np.zeros((n_cuts >> BLOCK) + 2, dtype=np.bool_),
            undecided=np.empty(n_samples, dtype=np.int32),
            side=np.empty(n_samples, dtype=np.uint8),
            ends=np.zeros(4),
        ),
        order=_make_order(samples, n_nodes, monotonic),
        move=np.zeros(1, dtype=MOVE),
        move_set=np.zeros(n_words, dtype=np.uint64),
        words=np.empty(n_words, dtype=np.uint64),
        lost=np.empty((2, len(samples.reach))),
        base=np.empty(2),
        stack=np.empty(n_nodes + 2, dtype=np.int64),
        pending=np.empty(n_nodes + 2, dtype=np.int64),
    )


def _make_order(samples: Samples, n_nodes: int, monotonic: np.ndarray | None) -> Order:
    """Return room for the boxes of leaves; none where no feature is monotone."""
    direction = np.zeros(0, dtype=np.int64) if monotonic is None else monotonic.astype(np.int64)
    n_words, size = samples.known.shape[1], 0 if monotonic is None else n_nodes // 2 + 3
    shape = size, len(direction)
    return Order(
        direction=direction,
        leaf=np.zeros(size, dtype=np.int64),
        side=np.zeros(size, dtype=np.int8),
        first=np.zeros(shape, dtype=np.int64),
        last=np.zeros(shape, dtype=np.int64),
        takes_missing=np.zeros(shape, dtype=np.bool_),
        categories=np.zeros((*shape, n_words), dtype=np.uint64),
        left_set=np.zeros(n_words, dtype=np.uint64),
        entry=np.zeros(size, dtype=np.int64),
        part=np.zeros(size, dtype=np.int8),
        label=np.zeros(size, dtype=np.int64),
        tried=np.full(3, -1, dtype=np.int64),
    )
