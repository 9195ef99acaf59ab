"""Alternating optimisation: one node after the other gets the best there is for it, while the rest of the tree stays.

The objective is the weight of the samples that can be moved into a leaf of another class, plus a price per leaf. A
move is made only if it is strictly better, so the objective falls with every move.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel
from hardwood._kernels.refine.accounting import LEFT, RIGHT, Stakes, weigh_stakes
from hardwood._kernels.refine.moves import CHILD, KEEP, LEAF, SPLIT, apply_move, drop_empty
from hardwood._kernels.refine.scanning import Histograms, scan_feature
from hardwood._kernels.refine.tree import FREE, N_CHANGES, N_FREE, N_LEAVES, NOWHERE, ROOT, count_wrong, trace_below


class Limits(NamedTuple):
    """What the objective is, and what a tree may become."""

    price: float  # of a leaf
    tolerance: float  # losses that differ by no more are equal
    max_depth: int
    max_leaves: int


class Workspace(NamedTuple):
    """What the kernels take notes in."""

    wrong: np.ndarray  # int32 per sample: how many leaves of another class it can be moved into
    stakes: Stakes
    histograms: Histograms
    move: np.ndarray  # MOVE, one
    move_set: np.ndarray  # uint64 per word: the categories that the move sends left
    words: np.ndarray  # uint64 per word
    base: np.ndarray  # float64 (2,)
    stack: np.ndarray  # int64, longer than there are nodes
    pending: np.ndarray  # the same


@inner
def _find_depth(tree, node):
    depth = 0
    while tree.nodes[node].parent >= 0:
        node = tree.nodes[node].parent
        depth += 1
    return depth


@inner
def _count_leaves(tree, top, stack):
    """Count the leaves under a node."""
    count = 0
    stack[0] = top
    size = 1
    while size:
        size -= 1
        here = tree.nodes[stack[size]]
        if here.feature < 0:
            count += 1
        else:
            stack[size] = here.left
            stack[size + 1] = here.right
            size += 2
    return count


@inner
def _offer(move, kind, loss, label, child):
    """Note a move that is simpler than a split if it is better than what is known."""
    if loss < move.loss:
        move.loss = loss
        move.kind = kind
        move.label = label
        move.child = child


@inner
def _offer_simpler(tree, node, limits, work):
    """Look at what makes the tree smaller: the node as a leaf, or one of its subtrees in its place."""
    move, stakes, here = work.move[0], work.stakes, tree.nodes[node]
    n_leaves = _count_leaves(tree, node, work.stack)
    move.kind, move.width = KEEP, 0.0
    move.loss = stakes.by_side[0] + limits.price * n_leaves - limits.tolerance
    total = 0.0
    for label in range(stakes.by_class.shape[0]):
        total += stakes.by_class[label]
    for label in range(stakes.by_class.shape[0]):
        _offer(move, LEAF, total - stakes.by_class[label] + limits.price, label, NOWHERE)
    if here.feature >= 0:
        n_left = _count_leaves(tree, here.left, work.stack)
        _offer(move, CHILD, stakes.by_side[1] + limits.price * n_left, NOWHERE, here.left)
        _offer(move, CHILD, stakes.by_side[2] + limits.price * (n_leaves - n_left), NOWHERE, here.right)
    return n_leaves


@inner
def _gather(samples, stakes, of_leaves, labels, histograms, base):
    """List the samples that lose on one side only; return how many. Those that lose on both are in `base`."""
    base[0], base[1] = 0.0, 0.0
    n = 0
    for k in range(stakes.counts[1]):
        sample = stakes.active[k]
        loses = stakes.loses[k]
        if of_leaves:
            loses = 0
            if samples.label[sample] != labels[0]:
                loses |= LEFT
            if samples.label[sample] != labels[1]:
                loses |= RIGHT
        if loses == 0:
            continue
        weight = samples.weight[sample]
        if loses == LEFT | RIGHT:
            base[0] += weight
            base[1] += weight
            continue
        # Left of all cuts everything goes right.
        base[0 if loses == RIGHT else 1] += weight
        histograms.undecided[n] = sample
        histograms.side[n] = loses
        n += 1
    return n


@inner
def _offer_splits(samples, tree, node, n_leaves, limits, work):
    """Look at every cut of every numerical feature, for the subtrees there are or for two new leaves."""
    move, here = work.move[0], tree.nodes[node]
    is_leaf = here.feature < 0
    of_leaves = is_leaf or (tree.nodes[here.left].feature < 0 and tree.nodes[here.right].feature < 0)
    n = _gather(samples, work.stakes, of_leaves, (0, 1), work.histograms, work.base)
    work.stakes.counts[2] = n
    work.stakes.counts[3] = of_leaves
    price = limits.price * (n_leaves + is_leaf)
    work.base[0] += price
    work.base[1] += price
    for feature in range(samples.low.shape[0]):
        if samples.first_reach[feature] < 0:
            scan_feature(samples, tree, node, feature, n, work.base, limits.tolerance, work.histograms, move)
    if move.kind == SPLIT:
        _label_children(move, of_leaves)


@inner
def _label_children(move, of_leaves):
    """Two new leaves are labelled (0, 1), or (1, 0) if that is what was scanned; they need not be swapped."""
    move.label = -1
    if of_leaves:
        move.label = 1 if move.is_swapped else 0
        move.right_label = 1 - move.label
        move.is_swapped = False


@inner
def _is_settled_above(tree, node, limits):
    """Whether a node is a leaf that cannot be split and whose sibling is a leaf: its parent's moves give it a class."""
    parent = tree.nodes[node].parent
    if parent < 0 or tree.nodes[node].feature >= 0 or _can_be_split(tree, node, limits):
        return False
    return tree.nodes[tree.nodes[parent].left].feature < 0 and tree.nodes[tree.nodes[parent].right].feature < 0


@inner
def _can_be_split(tree, leaf, limits):
    """Whether there is room for two more leaves."""
    has_room = tree.sizes[N_FREE] >= 2 and tree.sizes[N_LEAVES] < limits.max_leaves
    return has_room and _find_depth(tree, leaf) < limits.max_depth


@inner
def propose(samples, tree, node, limits, work):
    """Find the best move of a node, without categorical splits; return whether it can be split."""
    weigh_stakes(samples, tree, node, work.wrong, work.stack, work.stakes)
    n_leaves = _offer_simpler(tree, node, limits, work)
    if tree.nodes[node].feature < 0 and not _can_be_split(tree, node, limits):
        return False
    _offer_splits(samples, tree, node, n_leaves, limits, work)
    return True


@kernel(about="moves of refinement", seconds=0.8)
def accept(samples, tree, node, work):
    """Make the move that was found for a node, if any."""
    move = work.move[0]
    if move.kind == KEEP:
        tree.nodes[node].settled = tree.sizes[N_CHANGES]
        return
    apply_move(tree, node, move, work.move_set, work.stack)
    drop_empty(samples, tree, node, work.words, work.stack, work.pending)
    if tree.passed.shape[1]:
        trace_below(samples, tree, node, NOWHERE, work.stack)
    for k in range(work.stakes.counts[0]):
        sample = np.int64(work.stakes.reached[k])
        work.wrong[sample] = count_wrong(samples, tree, ROOT, sample, work.stack)


@kernel(about="the sweeps of refinement", seconds=2.5)
def sweep(samples, tree, order, start, has_categories, limits, work):
    """Visit the nodes of `order` from `start` on; return where it stopped.

    That is the end, or, for tables with categories, the position of a node whose move is found but for splits by
    categories: the caller looks for those, calls `accept`, and goes on behind it.
    """
    for position in range(start, order.shape[0]):
        node = order[position]
        if tree.nodes[node].parent == FREE or tree.nodes[node].settled == tree.sizes[N_CHANGES]:
            continue
        if _is_settled_above(tree, node, limits):
            continue
        can_split = propose(samples, tree, node, limits, work)
        if can_split and has_categories:
            return position
        accept(samples, tree, node, work)
    return order.shape[0]
