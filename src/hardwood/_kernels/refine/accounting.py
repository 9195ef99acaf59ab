"""What is at stake at one node: the samples whose fate it decides, and what they lose on either side of it.

A sample is lost if it can be moved into a leaf of another class. One that is lost in leaves outside the node is lost
whatever becomes of the node: it does not count. What remains are the *active* samples, and all there is to know about
them is whether they are lost once they enter the left subtree, and whether once they enter the right one.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner
from hardwood._kernels.refine.tree import NOWHERE, can_enter, count_wrong, trace_below

# What a sample loses by: bits.
LEFT, RIGHT = 1, 2


class Stakes(NamedTuple):
    """Scratch that is filled anew for every node."""

    reached: np.ndarray  # int32: the samples that can be moved to the node; `counts[0]` of them
    active: np.ndarray  # int32: those that are not lost elsewhere; `counts[1]` of them
    loses: np.ndarray  # uint8 per active sample: LEFT and RIGHT
    counts: np.ndarray  # int64; also how many samples lose on one side only, and whether that is said of new leaves
    by_class: np.ndarray  # float64 per class: the weight of its active samples
    by_side: np.ndarray  # float64: of active samples that are lost; that are lost on the left; on the right
    path: np.ndarray  # int64: scratch


@inner
def _find_reached(samples, tree, node, stakes):
    """List the samples that can be moved to a node."""
    length = 0
    while node > 0:
        stakes.path[length] = node
        length += 1
        node = tree.nodes[node].parent
    n_reached = 0
    for sample in range(samples.weight.shape[0]):
        step = length
        while step > 0 and can_enter(samples, tree, stakes.path[step - 1], sample):
            step -= 1
        if step == 0:
            stakes.reached[n_reached] = sample
            n_reached += 1
    stakes.counts[0] = n_reached


@inner
def _find_active(samples, tree, node, wrong, stack, stakes):
    """List the samples at a node that are not lost in leaves outside it."""
    n_active = 0
    for k in range(stakes.counts[0]):
        sample = np.int64(stakes.reached[k])
        if wrong[sample] == 0 or wrong[sample] == count_wrong(samples, tree, node, sample, stack):
            stakes.active[n_active] = sample
            n_active += 1
    stakes.counts[1] = n_active


@inner
def weigh_stakes(samples, tree, node, wrong, stack, stakes):
    """Fill `stakes` for a node. For an inner node, what the subtrees lose is told as if its own split were not there.

    What its own split asks of a category is then not taken into account below it, where splits may ask the same
    category again; so what a subtree loses may be overestimated, never underestimated. The same holds for numbers.
    """
    _find_reached(samples, tree, node, stakes)
    _find_active(samples, tree, node, wrong, stack, stakes)
    stakes.by_class[:] = 0.0
    stakes.by_side[:] = 0.0
    left, right = tree.nodes[node].left, tree.nodes[node].right
    is_leaf = tree.nodes[node].feature < 0
    is_number = not is_leaf and samples.first_reach[tree.nodes[node].feature] < 0
    if not is_leaf and tree.passed.shape[1]:
        trace_below(samples, tree, node, node, stack)
    for k in range(stakes.counts[1]):
        sample = np.int64(stakes.active[k])
        weight = samples.weight[sample]
        stakes.by_class[samples.label[sample]] += weight
        if wrong[sample]:
            stakes.by_side[0] += weight
        if is_leaf:
            continue
        loses, is_known = 0, 0
        if is_number:  # a sample that is surely on one side loses there what it loses now
            gets_left, gets_right = can_enter(samples, tree, left, sample), can_enter(samples, tree, right, sample)
            is_known = LEFT if not gets_right else (RIGHT if not gets_left else 0)
            loses = is_known if wrong[sample] else 0
        if is_known != LEFT and count_wrong(samples, tree, left, sample, stack):
            loses |= LEFT
        if is_known != RIGHT and count_wrong(samples, tree, right, sample, stack):
            loses |= RIGHT
        stakes.by_side[1] += weight if loses & LEFT else 0.0
        stakes.by_side[2] += weight if loses & RIGHT else 0.0
        stakes.loses[k] = loses
    if not is_leaf and tree.passed.shape[1]:
        trace_below(samples, tree, node, NOWHERE, stack)
