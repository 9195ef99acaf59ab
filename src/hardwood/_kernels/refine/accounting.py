"""What is at stake at one node: the samples whose fate it decides, and what they lose on either side of it.

A sample is lost if it can be moved into a leaf of another class. One that is lost in leaves outside the node is lost
whatever becomes of the node: it does not count. What remains are the *active* samples, and all there is to know about
them is whether they are lost once they enter the left subtree, and whether once they enter the right one. How many
classes there are does not matter.

Where the attacker wants some classes only, a sample is lost if it can be moved into a leaf of these, or if it goes to a
leaf of another class by itself. Then the two are told apart: what it loses by being moved to a side, and what it loses
if that is its own side.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner
from hardwood._kernels.refine.tree import (
    NOWHERE,
    can_enter,
    count_wanted,
    count_wrong,
    has_holes,
    is_misled,
    is_own,
    is_traced,
    trace_below,
)

# What a sample loses by: bits. The last three are for attackers who want some classes only.
LEFT, RIGHT, OWN_LEFT, OWN_RIGHT, OWN_HERE = 1, 2, 4, 8, 16


class Stakes(NamedTuple):
    """Scratch that is filled anew for every node."""

    reached: np.ndarray  # int32: the samples that can be moved to the node; `counts[0]` of them
    below: np.ndarray  # int32 per reached sample: how many leaves below the node lose it
    active: np.ndarray  # int32: those that are not lost elsewhere; `counts[1]` of them
    loses: np.ndarray  # uint8 per active sample: LEFT and RIGHT
    counts: np.ndarray  # int64; also how many samples lose on one side only, and whether that is said of new leaves
    by_class: np.ndarray  # float64 per class: the weight of the active samples that a leaf of the class keeps
    by_side: np.ndarray  # float64: of active samples; that are lost; that are lost on the left; on the right; of all
    path: np.ndarray  # int64: scratch


@inner
def _find_active(samples, tree, node, wrong, stack, stakes):
    """List the samples at a node that are not lost in leaves outside it."""
    n_active = 0
    for k in range(stakes.counts[0]):
        sample = np.int64(stakes.reached[k])
        stakes.below[k] = count_wrong(samples, tree, node, sample, stack) if wrong[sample] else 0
        if wrong[sample] == stakes.below[k]:
            stakes.active[n_active] = sample
            n_active += 1
    stakes.counts[1] = n_active


@inner
def _weigh_leaves(samples, sample, loses, stakes):
    """Add the weight of a sample to the classes that keep it if the node is a leaf."""
    label, weight = samples.label[sample], samples.weight[sample]
    if samples.targets.shape[0] == 0:
        stakes.by_class[label] += weight
        return
    for other in range(stakes.by_class.shape[0]):
        if not samples.targets[label, other] and (label == other or not loses & OWN_HERE):
            stakes.by_class[other] += weight


@inner
def weigh_stakes(samples, tree, node, wrong, stack, stakes):
    """Fill `stakes` for a node. For an inner node, what the subtrees lose is told as if its own split were not there.

    What its own split asks of a category is then not taken into account below it, where splits may ask the same
    category again; so what a subtree loses may be overestimated, never underestimated. The same holds for numbers.
    """
    _find_active(samples, tree, node, wrong, stack, stakes)
    stakes.by_class[:] = 0.0
    stakes.by_side[:] = 0.0
    left, right, feature = tree.nodes[node].left, tree.nodes[node].right, tree.nodes[node].feature
    is_leaf, has_targets = feature < 0, samples.targets.shape[0] > 0
    is_number = not is_leaf and samples.first_reach[feature] < 0 and not has_holes(samples, feature)
    if not is_leaf and is_traced(samples, tree):
        trace_below(samples, tree, node, node, stack)
    for k in range(stakes.counts[1]):
        sample = np.int64(stakes.active[k])
        weight = samples.weight[sample]
        loses, is_known = 0, 0
        if has_targets and is_own(samples, tree, node, sample):
            loses = OWN_HERE
        _weigh_leaves(samples, sample, loses, stakes)
        stakes.by_side[3] += weight
        stakes.loses[k] = loses
        if wrong[sample]:
            stakes.by_side[0] += weight
        if is_leaf:
            continue
        if is_number and not has_targets:  # a sample that is surely on one side loses there what it loses now
            gets_left, gets_right = can_enter(samples, tree, left, sample), can_enter(samples, tree, right, sample)
            is_known = LEFT if not gets_right else (RIGHT if not gets_left else 0)
            loses = is_known if wrong[sample] else 0
        if is_known != LEFT and count_wanted(samples, tree, left, sample, stack):
            loses |= LEFT
        if is_known != RIGHT and count_wanted(samples, tree, right, sample, stack):
            loses |= RIGHT
        if loses & OWN_HERE:
            loses |= OWN_LEFT if is_misled(samples, tree, left, sample) else 0
            loses |= OWN_RIGHT if is_misled(samples, tree, right, sample) else 0
        stakes.by_side[1] += weight if loses & (LEFT | OWN_LEFT) else 0.0
        stakes.by_side[2] += weight if loses & (RIGHT | OWN_RIGHT) else 0.0
        stakes.loses[k] = loses
    if not is_leaf and is_traced(samples, tree):
        trace_below(samples, tree, node, NOWHERE, stack)


@inner
def judge_labels(samples, sample, loses, first, second):
    """What a sample loses if the node is split into two leaves with these labels."""
    label = samples.label[sample]
    if samples.targets.shape[0] == 0:
        return (LEFT if label != first else 0) | (RIGHT if label != second else 0)
    said = (LEFT if samples.targets[label, first] else 0) | (RIGHT if samples.targets[label, second] else 0)
    if loses & OWN_HERE:
        said |= (OWN_LEFT if label != first else 0) | (OWN_RIGHT if label != second else 0)
    return said
