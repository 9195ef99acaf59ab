"""Alternating optimisation: one node after the other gets the best there is for it, while the rest of the tree stays.

The objective is the weight of the samples that can be moved into a leaf of another class, plus a price per leaf. A
move is made only if it is strictly better, so the objective falls with every move.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel
from hardwood._kernels.refine.accounting import LEFT, OWN_LEFT, OWN_RIGHT, RIGHT, Stakes, judge_labels, weigh_stakes
from hardwood._kernels.refine.moves import CHILD, KEEP, LEAF, SPLIT, apply_move, drop_empty
from hardwood._kernels.refine.order import (
    Order,
    keeps_order_as_child,
    keeps_order_as_leaf,
    keeps_order_as_split,
    list_boxes,
)
from hardwood._kernels.refine.partitioning import may_partition
from hardwood._kernels.refine.reached import Lists, find_reached, is_unchanged, touch_around
from hardwood._kernels.refine.scanning import BY_ITSELF, Histograms, scan_feature
from hardwood._kernels.refine.tree import (
    FREE,
    N_CHANGES,
    N_FREE,
    N_LEAVES,
    NOWHERE,
    count_wrong,
    is_traced,
    trace_below,
)


class Limits(NamedTuple):
    """What the objective is, and what a tree may become."""

    price: float  # of a leaf
    tolerance: float  # losses that differ by no more are equal
    max_depth: int
    max_leaves: int


class Workspace(NamedTuple):
    """What the kernels take notes in."""

    wrong: np.ndarray  # int32 per sample: how many leaves lose it
    stakes: Stakes
    lists: Lists
    histograms: Histograms
    order: Order
    move: np.ndarray  # MOVE, one
    move_set: np.ndarray  # uint64 per word: the categories that the move sends left
    words: np.ndarray  # uint64 per word
    lost: np.ndarray  # float64 (2, kind): what kinds of samples lose by a split by categories
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
    """Note a move that is simpler than a split."""
    move.loss = loss
    move.kind = kind
    move.label = label
    move.child = child


@inner
def _sum_classes(samples, stakes):
    """The weight of all active samples."""
    if samples.targets.shape[0]:
        return stakes.by_side[3]
    total = 0.0
    for label in range(stakes.by_class.shape[0]):
        total += stakes.by_class[label]
    return total


@inner
def _offer_simpler(samples, tree, node, limits, work):
    """Look at what makes the tree smaller: the node as a leaf, or one of its subtrees in its place."""
    move, stakes, here = work.move[0], work.stakes, tree.nodes[node]
    n_leaves = _count_leaves(tree, node, work.stack)
    move.kind, move.width = KEEP, 0.0
    move.loss = stakes.by_side[0] + limits.price * n_leaves - limits.tolerance
    total = _sum_classes(samples, stakes)
    for label in range(stakes.by_class.shape[0]):
        loss = total - stakes.by_class[label] + limits.price
        if loss < move.loss and keeps_order_as_leaf(samples, tree, label, work.order):
            _offer(move, LEAF, loss, label, NOWHERE)
    if here.feature >= 0:
        n_left = _count_leaves(tree, here.left, work.stack)
        for child in (here.left, here.right):
            is_left = child == here.left
            loss = stakes.by_side[1 if is_left else 2] + limits.price * (n_left if is_left else n_leaves - n_left)
            if loss < move.loss and keeps_order_as_child(samples, tree, is_left, work.order):
                _offer(move, CHILD, loss, NOWHERE, child)
    return n_leaves


@inner
def _tell_sides(loses):
    """On which sides a sample is lost for sure once it gets there, and on which if that is where it goes by itself."""
    left, right = loses & (LEFT | OWN_LEFT) != 0, loses & (RIGHT | OWN_RIGHT) != 0
    if left and right:
        return LEFT | RIGHT  # wherever it goes, or is sent, is one of them
    if left:
        return LEFT | (0 if loses & LEFT else BY_ITSELF)
    if right:
        return RIGHT | (0 if loses & RIGHT else BY_ITSELF)
    return 0


@inner
def _gather(samples, stakes, labels, histograms, base):
    """List the samples that lose on one side only; return how many. Those that lose on both are in `base`.

    labels : of two new leaves; -1 for the subtrees there are
    """
    base[0], base[1] = 0.0, 0.0
    n = 0
    for k in range(stakes.counts[1]):
        sample = stakes.active[k]
        loses = np.int64(stakes.loses[k])
        if labels[0] >= 0:
            loses = judge_labels(samples, sample, loses, labels[0], labels[1])
        side = _tell_sides(loses)
        if side == 0:
            continue
        weight = samples.weight[sample]
        if side == LEFT | RIGHT:
            base[0] += weight
            base[1] += weight
            continue
        # Left of all cuts everything goes right.
        base[0 if side & RIGHT else 1] += weight
        histograms.undecided[n] = sample
        histograms.side[n] = side
        n += 1
    return n


@inner
def _prepare_scan(samples, tree, node, labels, n_leaves, limits, work):
    """List the samples that a split decides, and what is lost anyway, with the price of leaves; return how many."""
    n = _gather(samples, work.stakes, labels, work.histograms, work.base)
    work.stakes.counts[2] = n
    work.order.tried[1], work.order.tried[2] = labels
    price = limits.price * (n_leaves + (tree.nodes[node].feature < 0))
    work.base[0] += price
    work.base[1] += price
    return n


@inner
def _label_children(move, labels):
    """Two new leaves are labelled as they were scanned, or the other way round; they need not be swapped."""
    if labels[0] < 0:
        move.label = NOWHERE
    elif move.label < 0:  # it was found just now
        move.label, move.right_label = (labels[1], labels[0]) if move.is_swapped else labels
        move.is_swapped = False


@inner
def _offer_splits(samples, tree, node, n_leaves, limits, work):
    """Look at every cut of every numerical feature, for the subtrees there are or for two new leaves."""
    move, here = work.move[0], tree.nodes[node]
    is_leaf = here.feature < 0
    of_leaves = is_leaf or (tree.nodes[here.left].feature < 0 and tree.nodes[here.right].feature < 0)
    work.stakes.counts[3] = of_leaves
    n_classes = work.stakes.by_class.shape[0]
    for first in range(n_classes if of_leaves else 1):
        for second in range(first + 1, n_classes if of_leaves else 2):
            labels = (np.int64(first), np.int64(second)) if of_leaves else (NOWHERE, NOWHERE)
            if of_leaves and n_classes > 2 and not can_pay(samples, tree, node, labels, n_leaves, limits, work):
                continue
            n = _prepare_scan(samples, tree, node, labels, n_leaves, limits, work)
            for feature in range(samples.low.shape[0]):
                if samples.first_reach[feature] < 0:
                    scan_feature(
                        samples, tree, node, feature, n, work.base, limits.tolerance, work.histograms, work.order, move
                    )
            if move.kind == SPLIT:
                _label_children(move, labels)


@inner
def can_pay(samples, tree, node, labels, n_leaves, limits, work):
    """Whether two leaves with these labels may be better than the best move known: neither keeps more than it can."""
    kept = work.stakes.by_class[labels[0]] + work.stakes.by_class[labels[1]]
    price = limits.price * (n_leaves + (tree.nodes[node].feature < 0))
    return _sum_classes(samples, work.stakes) - kept + price <= work.move[0].loss + limits.tolerance


@kernel(about="monotone features in refinement", seconds=0.3)
def keeps_order(samples, tree, feature, work):
    """Whether the order is kept by a test of categories, those in ``order.left_set`` left."""
    return keeps_order_as_split(samples, tree, feature, NOWHERE, False, False, work.order)


@kernel(about="pairs of classes in refinement", seconds=0.3)
def gather_pair(samples, tree, node, labels, n_leaves, limits, work):
    """Tell what samples lose by two new leaves with these labels; return whether that may be the best move."""
    if not can_pay(samples, tree, node, labels, n_leaves, limits, work):
        return False
    _prepare_scan(samples, tree, node, labels, n_leaves, limits, work)
    return True


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
    return _has_room(tree, limits) and _find_depth(tree, leaf) < limits.max_depth


@inner
def propose(samples, tree, node, limits, work):
    """Find the best move of a node, without categorical splits; return whether it can be split."""
    weigh_stakes(samples, tree, node, work.wrong, work.stack, work.stakes)
    list_boxes(samples, tree, node, work.stack, work.order)
    n_leaves = _offer_simpler(samples, tree, node, limits, work)
    work.stakes.counts[4] = n_leaves
    if tree.nodes[node].feature < 0 and not _can_be_split(tree, node, limits):
        return False
    _offer_splits(samples, tree, node, n_leaves, limits, work)
    return True


@inner
def _has_room(tree, limits):
    return tree.sizes[N_FREE] >= 2 and tree.sizes[N_LEAVES] < limits.max_leaves


@kernel(about="moves of refinement", seconds=0.8)
def accept(samples, tree, node, limits, work):
    """Make the move that was found for a node, if any."""
    move = work.move[0]
    if move.kind == KEEP:
        # A leaf that there was no room to split may be split later.
        is_final = tree.nodes[node].feature >= 0 or _has_room(tree, limits)
        tree.nodes[node].settled = tree.sizes[N_CHANGES] if is_final else -1
        return
    apply_move(tree, node, move, work.move_set, work.stack)
    drop_empty(samples, tree, node, work.words, work.stack, work.pending)
    if is_traced(samples, tree):
        trace_below(samples, tree, node, NOWHERE, work.stack)
    touch_around(tree, node, work.lists, work.stack)
    for k in range(work.stakes.counts[0]):
        sample = np.int64(work.stakes.reached[k])
        more = count_wrong(samples, tree, node, sample, work.stack) - work.stakes.below[k]
        if more != 0:
            work.wrong[sample] += more
            work.lists.changed[sample] = tree.sizes[N_CHANGES]


@kernel(about="the sweeps of refinement", seconds=2.5)
def sweep(samples, tree, order, start, has_categories, limits, work):
    """Visit the nodes of `order` from `start` on; return where it stopped.

    That is the end, or, for tables with categories, the position of a node whose move is found but for splits by
    categories, one of which may be better: the caller looks for it, calls `accept`, and goes on behind it.
    """
    stakes = work.stakes
    for position in range(start, order.shape[0]):
        node = order[position]
        if tree.nodes[node].parent == FREE or tree.nodes[node].settled == tree.sizes[N_CHANGES]:
            continue
        if _is_settled_above(tree, node, limits):
            continue
        stakes.counts[0] = find_reached(samples, tree, node, work.lists, stakes.path, stakes.reached)
        has_room = tree.nodes[node].feature >= 0 or _has_room(tree, limits)
        if has_room and is_unchanged(tree, node, stakes.counts[0], stakes.reached, work.lists):
            tree.nodes[node].settled = tree.sizes[N_CHANGES]
            continue
        can_split = propose(samples, tree, node, limits, work)
        if can_split and has_categories:
            # Of pairs of classes the last one is at hand, and others may do better.
            has_pairs = stakes.counts[3] and stakes.by_class.shape[0] > 2
            if has_pairs or may_partition(samples, limits.tolerance, work):
                return position
        accept(samples, tree, node, limits, work)
    return order.shape[0]
