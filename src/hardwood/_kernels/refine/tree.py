"""A tree that is being refined, and which of its leaves a sample can be moved into."""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel, record_type

FREE = -2  # the parent of a node that is not in use
NOWHERE, ROOT = np.int64(-1), np.int64(0)  # no node, and the first; typed, so that nothing is compiled for constants
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
def can_enter(samples, tree, child, sample):
    """Whether a sample that can be moved to the parent of `child` can be moved to `child`, too."""
    here = tree.nodes[tree.nodes[child].parent]
    if samples.first_reach[here.feature] >= 0:
        which = samples.first_reach[here.feature] + samples.low[here.feature, sample]
        common = np.uint64(0)
        for word in range(tree.passed.shape[1]):
            common |= samples.reach[which, word] & tree.passed[child, word]
        return common != np.uint64(0)
    if here.left == child:
        return here.cut >= samples.low[here.feature, sample]
    return here.cut < samples.high[here.feature, sample]


@inner
def count_wrong(samples, tree, top, sample, stack):
    """Count the leaves under `top` with another class that a sample can be moved into, once it is at `top`."""
    count = 0
    stack[0] = top
    size = 1
    while size:
        size -= 1
        node = stack[size]
        if tree.nodes[node].feature < 0:
            count += tree.nodes[node].label != samples.label[sample]
            continue
        for child in (tree.nodes[node].left, tree.nodes[node].right):
            if can_enter(samples, tree, child, sample):
                stack[size] = child
                size += 1
    return count


@kernel(about="the rows that a refined tree loses", seconds=0.5)
def count_all_wrong(samples, tree, stack, wrong):
    """Fill `wrong`: how many leaves with another class each sample can be moved into."""
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


@kernel(about="categories in refinement", seconds=0.3)
def trace_below(samples, tree, top, ignored, stack):
    """Bring `passed` up to date below a node; as if the split at `ignored` (-1 = none) were not there."""
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
            stack[size] = child
            size += 1
