"""A tree that is being refined, and which of its leaves a sample can be moved into."""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel, record_type
from hardwood._kernels.refine.codes import MISSING, NUMBER, OWN_MISSING

FREE = -2  # the parent of a node that is not in use
NOWHERE, ROOT = np.int64(-1), np.int64(0)  # no node, and the first; typed, so that nothing is compiled for constants
BEYOND = np.int64(1 << 30)  # more than any cut
# What `Tree.sizes` holds.
N_FREE, N_LEAVES, N_CHANGES = 0, 1, 2

NODE = record_type(
    [
        ("parent", np.int64),  # -1 = root
        ("left", np.int64),
        ("right", np.int64),
        ("feature", np.int64),  # -1 = leaf
        ("cut", np.int64),  # of a numerical feature
        ("label", np.int64),  # of a leaf
        ("settled", np.int64),  # how often the tree had changed when no move of this node was found to help
        # What numbers of the parent's feature lead here: right of the first cut, left of the last. Kept up to date
        # where they may be missing.
        ("first", np.int64),
        ("last", np.int64),
        ("takes_missing", np.bool_),  # whether missing values of the parent's feature lead here
        ("missing_left", np.bool_),  # where missing values of a numerical feature go
    ],
    align=True,
)


class Tree(NamedTuple):
    """The root is node 0. Nodes that are not in use are in `free`, the last `sizes[N_FREE]` being the next to use."""

    nodes: np.ndarray  # NODE
    left_set: np.ndarray  # uint64 (node, word): the categories that a categorical split sends left
    passed: np.ndarray  # uint64 (node, word): the categories of its parent's feature that lead to a node
    free: np.ndarray  # int64
    sizes: np.ndarray  # int64


@inner
def has_holes(samples, feature):
    """Whether numbers of a feature may be missing."""
    return samples.state.shape[0] > 0 and samples.can_miss[feature]


@inner
def is_traced(samples, tree):
    """Whether nodes have to know what leads to them: with categories, and with missing values."""
    return tree.passed.shape[1] > 0 or samples.state.shape[0] > 0


@inner
def can_enter(samples, tree, child, sample):
    """Whether a sample that can be moved to the parent of `child` can be moved to `child`, too."""
    here = tree.nodes[tree.nodes[child].parent]
    if samples.first_reach[here.feature] >= 0:
        which = samples.first_reach[here.feature] + samples.low[here.feature, sample]
        common = np.uint64(0)
        for word in range(tree.passed.shape[1]):
            common |= samples.reach[which, word] & tree.passed[child, word]
        return common != np.uint64(0)
    if has_holes(samples, here.feature):
        there, state = tree.nodes[child], samples.state[here.feature, sample]
        if state & MISSING and there.takes_missing:
            return True
        return state & NUMBER != 0 and meets(samples, here.feature, sample, there.first, there.last)
    if here.left == child:
        return here.cut >= samples.low[here.feature, sample]
    return here.cut < samples.high[here.feature, sample]


@inner
def meets(samples, feature, sample, first, last):
    """Whether a sample can be given a number right of one cut and left of another."""
    return first < last and samples.low[feature, sample] <= last and samples.high[feature, sample] > first


@inner
def _loses(samples, sample, label):
    """Whether a sample is lost if it is moved into a leaf with this label."""
    if samples.targets.shape[0]:
        return samples.targets[samples.label[sample], label]
    return label != samples.label[sample]


@inner
def count_wanted(samples, tree, top, sample, stack):
    """Count the leaves under `top` that the attacker wants for a sample and can move it into, once it is at `top`."""
    count = 0
    stack[0] = top
    size = 1
    while size:
        size -= 1
        node = stack[size]
        if tree.nodes[node].feature < 0:
            count += _loses(samples, sample, tree.nodes[node].label)
            continue
        for child in (tree.nodes[node].left, tree.nodes[node].right):
            if can_enter(samples, tree, child, sample):
                stack[size] = child
                size += 1
    return count


@inner
def _goes_left(samples, tree, node, sample):
    """Where a sample goes that nobody moves."""
    feature = tree.nodes[node].feature
    own = np.int64(samples.own[feature, sample])
    if samples.first_reach[feature] >= 0:
        return (tree.left_set[node, own >> 6] >> np.uint64(own & 63)) & np.uint64(1) != np.uint64(0)
    if has_holes(samples, feature) and samples.state[feature, sample] & OWN_MISSING:
        return tree.nodes[node].missing_left
    return own <= tree.nodes[node].cut


@inner
def is_own(samples, tree, node, sample):
    """Whether a sample that nobody moves gets to a node."""
    above = tree.nodes[node].parent
    while above >= 0:
        if _goes_left(samples, tree, above, sample) != (tree.nodes[above].left == node):
            return False
        node, above = above, tree.nodes[above].parent
    return True


@inner
def is_misled(samples, tree, top, sample):
    """Whether a sample that nobody moves gets to a leaf of another class, once it is at `top`."""
    node = top
    while tree.nodes[node].feature >= 0:
        node = tree.nodes[node].left if _goes_left(samples, tree, node, sample) else tree.nodes[node].right
    return tree.nodes[node].label != samples.label[sample]


@inner
def count_wrong(samples, tree, top, sample, stack):
    """Count what loses a sample under `top`, which it can be moved to.

    That is every leaf of another class that it can be moved into. Where the attacker wants some classes only, it is
    the leaves of these, and the leaf that the sample is in if it is of another class, whether that is wanted or not.
    """
    count = count_wanted(samples, tree, top, sample, stack)
    if samples.targets.shape[0] and is_own(samples, tree, top, sample):
        count += is_misled(samples, tree, top, sample)
    return count


@kernel(about="the rows that a refined tree loses", seconds=0.5)
def count_all_wrong(samples, tree, stack, wrong):
    """Fill `wrong`: how many leaves lose each sample, see `count_wrong`."""
    for sample in range(wrong.shape[0]):
        wrong[sample] = count_wrong(samples, tree, ROOT, sample, stack)


@inner
def trace_categories(samples, tree, feature, node, ignored, words):
    """Fill `words` with the categories of a feature that lead to a node; the split at `ignored` does not count."""
    for word in range(words.shape[0]):
        words[word] = samples.known[feature, word]
    child, above = node, tree.nodes[node].parent
    while above >= 0:
        if tree.nodes[above].feature == feature and above != ignored:
            for word in range(words.shape[0]):
                left = tree.left_set[above, word]
                words[word] &= left if tree.nodes[above].left == child else ~left
        child, above = above, tree.nodes[above].parent


@inner
def find_window(tree, node, feature, ignored):
    """The cuts of a numerical feature between which a node lies: those at both ends lead to one child only.

    Also whether missing values of the feature lead there. The split at `ignored` does not count.
    """
    first, last, takes_missing = np.int64(-1), BEYOND, True
    child, above = node, tree.nodes[node].parent
    while above >= 0:
        if tree.nodes[above].feature == feature and above != ignored:
            cut, is_left = np.int64(tree.nodes[above].cut), tree.nodes[above].left == child
            if is_left:
                last = cut if cut < last else last
            else:
                first = cut if cut > first else first
            takes_missing &= is_left == tree.nodes[above].missing_left
        child, above = above, tree.nodes[above].parent
    return first, last, takes_missing


@kernel(about="categories and missing values in refinement", seconds=0.3)
def trace_below(samples, tree, top, ignored, stack):
    """Bring what leads to the nodes below a node up to date; as if the split at `ignored` (-1 = none) were not there.

    That is `passed` for categories, and for numbers that may be missing what NODE says of them.
    """
    stack[0] = top
    size = 1
    while size:
        size -= 1
        node = stack[size]
        feature = tree.nodes[node].feature
        if feature < 0:
            continue
        for child in (tree.nodes[node].left, tree.nodes[node].right):
            if samples.first_reach[feature] >= 0:
                trace_categories(samples, tree, feature, child, ignored, tree.passed[child])
            elif has_holes(samples, feature):
                there = tree.nodes[child]
                there.first, there.last, there.takes_missing = find_window(tree, child, feature, ignored)
            stack[size] = child
            size += 1
