"""Splits by categories: the best set of categories to send left, exactly, by a minimum cut."""

from itertools import combinations

import numpy as np

from hardwood._kernels.refine.accounting import LEFT
from hardwood._kernels.refine.codes import Samples
from hardwood._kernels.refine.moves import SPLIT
from hardwood._kernels.refine.partitioning import weigh_kinds
from hardwood._kernels.refine.sweeping import Limits, Workspace, gather_pair, keeps_order
from hardwood._kernels.refine.tree import Tree
from hardwood.refinement.minimum_cut import Groups, choose_labels
from hardwood.refinement.rows import pack, unpack


def offer_partitions(samples: Samples, tree: Tree, node: int, limits: Limits, work: Workspace) -> None:
    """Look for a better split of a node among those by categories, and note it in `work.move`.

    Two new leaves are given every pair of classes that may pay, as the kernels do with numbers.
    """
    n_classes, of_leaves, n_leaves = len(work.stakes.by_class), bool(work.stakes.counts[3]), work.stakes.counts[4]
    if not of_leaves or n_classes == 2:
        _offer_pair(samples, tree, node, (0, 1) if of_leaves else (-1, -1), limits, work)
        return
    for labels in combinations(range(n_classes), 2):
        if gather_pair(samples, tree, node, labels, n_leaves, limits, work):
            _offer_pair(samples, tree, node, labels, limits, work)


def _offer_pair(
    samples: Samples, tree: Tree, node: int, labels: tuple[int, int], limits: Limits, work: Workspace
) -> None:
    """Do so for two new leaves of two classes, or with -1 for the subtrees there are.

    Every set of categories comes with its complement, so the subtrees need not be swapped.
    """
    n_undecided = int(work.stakes.counts[2])
    undecided = work.histograms.undecided[:n_undecided]
    loses_right = work.histograms.side[:n_undecided] & LEFT == 0
    # What is lost left of all cuts, where everything goes right, without what would not be lost on the left.
    always = float(work.base[0]) - float(samples.weight[undecided[loses_right]].sum())
    move = work.move[0]
    for feature in np.flatnonzero(samples.first_reach >= 0).tolist():
        n_kinds = weigh_kinds(samples, feature, n_undecided, work.histograms, work.lost)
        lost = work.lost[:, :n_kinds]
        least = move["loss"] - (limits.tolerance if move["kind"] == SPLIT else 0.0)
        if always + np.minimum(lost[0], lost[1]).sum() >= least + limits.tolerance:  # no set comes below that
            continue
        sets = _Sets(samples, tree, node, feature)
        goes_left = sets.divide(lost)
        if goes_left is None:
            continue
        loss = always + sets.weigh(lost, goes_left)
        if loss < least and _keeps_order(samples, tree, feature, goes_left, work):
            move["loss"], move["width"], move["kind"] = loss, 0.0, SPLIT
            move["feature"], move["cut"], move["is_swapped"] = feature, 0, False
            move["label"], move["right_label"] = labels
            work.move_set[:] = pack(goes_left[None], len(work.move_set))[0]


def _keeps_order(samples: Samples, tree: Tree, feature: int, goes_left: np.ndarray, work: Workspace) -> bool:
    """Whether monotone features stay so."""
    if not len(work.order.direction):
        return True
    work.order.left_set[:] = pack(goes_left[None], len(work.move_set))[0]
    return bool(keeps_order(samples, tree, feature, work))


class _Sets:
    """The categories of one feature at one node."""

    def __init__(self, samples: Samples, tree: Tree, node: int, feature: int) -> None:
        n_codes = int(unpack(samples.known[feature][None], 64 * samples.known.shape[1]).sum())
        first = int(samples.first_reach[feature])
        passed = _trace(samples, tree, node, feature)
        self.reach = unpack(samples.reach[first : first + 2 * n_codes] & passed, n_codes)
        self.open = unpack(passed[None], n_codes)[0]
        here = tree.nodes[node]
        self.before = None
        if here["feature"] == feature:
            self.before = unpack(tree.left_set[node : node + 1], n_codes)[0]

    def divide(self, lost: np.ndarray) -> np.ndarray | None:
        """Return which categories go left; None if that is all that get here, or none.

        `lost` is (2, reach): the weight of what is lost on the right, and on the left, of samples with each reach.
        """
        wish, which = np.nonzero(lost)  # lost on the right: wants all of its reach to be left
        sizes = self.reach[which].sum(axis=1)
        start = np.concatenate([[0], np.cumsum(sizes)])
        groups = Groups(start, np.nonzero(self.reach[which])[1], wish == 0, lost[wish, which])
        heavier = bool(lost[0].sum() >= lost[1].sum())
        current = np.full(len(self.open), heavier) if self.before is None else self.before
        goes_left = choose_labels(groups, current)
        idle = ~self.reach[which].any(axis=0)
        goes_left[idle] = heavier if self.before is None else self.before[idle]
        return goes_left if goes_left[self.open].any() and not goes_left[self.open].all() else None

    def weigh(self, lost: np.ndarray, goes_left: np.ndarray) -> float:
        """Return the weight of what a partition loses."""
        gets_left = (self.reach & goes_left).any(axis=1)
        gets_right = (self.reach & ~goes_left).any(axis=1)
        return float(lost[1, gets_left].sum() + lost[0, gets_right].sum())


def _trace(samples: Samples, tree: Tree, node: int, feature: int) -> np.ndarray:
    """Return the categories of a feature that lead to a node."""
    words = samples.known[feature].copy()
    above = int(tree.nodes["parent"][node])
    while above >= 0:
        if tree.nodes["feature"][above] == feature:
            left_set = tree.left_set[above]
            words &= left_set if tree.nodes["left"][above] == node else ~left_set
        node, above = above, int(tree.nodes["parent"][above])
    return words
