"""Changing a tree: what can become of a node, and tidying up afterwards."""

import numpy as np

from hardwood._kernels.compiling import inner, kernel, record_type
from hardwood._kernels.refine.tree import (
    FREE,
    N_CHANGES,
    N_FREE,
    N_LEAVES,
    NOWHERE,
    find_window,
    has_holes,
    trace_categories,
)

# What can become of a node.
KEEP, LEAF, CHILD, SPLIT = 0, 1, 2, 3

MOVE = record_type(
    [
        ("loss", np.float64),  # with the price of its leaves
        ("width", np.float64),  # of the plateau of thresholds with this loss
        ("kind", np.int64),
        ("label", np.int64),  # of the leaf; of the left leaf of a split whose children are leaves, otherwise -1
        ("right_label", np.int64),  # of the right one
        ("child", np.int64),  # that takes the node's place
        ("feature", np.int64),
        ("cut", np.int64),
        ("is_swapped", np.bool_),  # whether the subtrees change places
        ("missing_left", np.bool_),  # where a new split of a numerical feature sends missing values
    ],
    align=True,
)


@inner
def _copy_set(source, target):
    for word in range(target.shape[0]):
        target[word] = source[word]


@inner
def _release_below(tree, top, stack):
    """Make a node a leaf, and give up all nodes below it."""
    stack[0] = top
    size = 1
    while size:
        size -= 1
        node = stack[size]
        if tree.nodes[node].feature >= 0:
            stack[size] = tree.nodes[node].left
            stack[size + 1] = tree.nodes[node].right
            size += 2
            tree.nodes[node].feature = -1
            tree.sizes[N_LEAVES] -= 1
        if node != top:
            tree.nodes[node].parent = FREE
            tree.free[tree.sizes[N_FREE]] = node
            tree.sizes[N_FREE] += 1


@inner
def _lift(tree, node, child, stack):
    """Put the subtree at a child in the place of its parent."""
    other = tree.nodes[node].left if tree.nodes[node].right == child else tree.nodes[node].right
    _release_below(tree, other, stack)
    for gone in (other, child):
        tree.nodes[gone].parent = FREE
        tree.free[tree.sizes[N_FREE]] = gone
        tree.sizes[N_FREE] += 1
    tree.sizes[N_LEAVES] -= 1
    tree.nodes[node].feature = tree.nodes[child].feature
    tree.nodes[node].cut = tree.nodes[child].cut
    tree.nodes[node].missing_left = tree.nodes[child].missing_left
    tree.nodes[node].label = tree.nodes[child].label
    tree.nodes[node].left = tree.nodes[child].left
    tree.nodes[node].right = tree.nodes[child].right
    _copy_set(tree.left_set[child], tree.left_set[node])
    if tree.nodes[node].feature >= 0:
        tree.nodes[tree.nodes[node].left].parent = node
        tree.nodes[tree.nodes[node].right].parent = node


@inner
def _take(tree, parent):
    """Take a node that is not in use, as a leaf below `parent`."""
    tree.sizes[N_FREE] -= 1
    node = tree.free[tree.sizes[N_FREE]]
    tree.nodes[node].parent = parent
    tree.nodes[node].feature = -1
    tree.nodes[node].settled = -1
    return node


@inner
def apply_move(tree, node, move, move_set, stack):
    """Change a node as `move` says; `move_set` are the categories that a new split sends left."""
    tree.sizes[N_CHANGES] += 1
    if move.kind == LEAF:
        _release_below(tree, node, stack)
        tree.nodes[node].label = move.label
        return
    if move.kind == CHILD:
        _lift(tree, node, move.child, stack)
        return
    if tree.nodes[node].feature < 0:
        tree.nodes[node].left = _take(tree, node)
        tree.nodes[node].right = _take(tree, node)
        tree.sizes[N_LEAVES] += 1
    if move.is_swapped:
        left = tree.nodes[node].left
        tree.nodes[node].left = tree.nodes[node].right
        tree.nodes[node].right = left
    if move.label >= 0:
        tree.nodes[tree.nodes[node].left].label = move.label
        tree.nodes[tree.nodes[node].right].label = move.right_label
    tree.nodes[node].feature = move.feature
    tree.nodes[node].cut = move.cut
    tree.nodes[node].missing_left = move.missing_left
    _copy_set(move_set, tree.left_set[node])


@inner
def _only_child(samples, tree, node, words):
    """The child that everything goes to because the splits above leave nothing for the other; -1 if both get some."""
    here = tree.nodes[node]
    if samples.first_reach[here.feature] < 0:
        first, last, takes_missing = find_window(tree, node, here.feature, NOWHERE)
        if not has_holes(samples, here.feature):
            return here.left if here.cut >= last else (here.right if here.cut <= first else -1)
        # No number is right of the last cut.
        n_cuts = samples.first_cut[here.feature + 1] - samples.first_cut[here.feature]
        gets_left = first < min(here.cut, last) or (takes_missing and here.missing_left)
        gets_right = max(first, here.cut) < min(last, n_cuts - 1) or (takes_missing and not here.missing_left)
        return -1 if gets_left and gets_right else (here.left if gets_left else here.right)
    trace_categories(samples, tree, here.feature, node, NOWHERE, words)
    some_left, some_right = False, False
    for word in range(words.shape[0]):
        some_left |= (words[word] & tree.left_set[node, word]) != 0
        some_right |= (words[word] & ~tree.left_set[node, word]) != 0
    return -1 if some_left and some_right else (here.left if some_left else here.right)


@kernel(about="tidying up refined trees", seconds=0.5)
def drop_empty(samples, tree, top, words, stack, pending):
    """Drop the subtrees below (and at) a node that no value at all gets to."""
    pending[0] = top
    size = 1
    while size:
        size -= 1
        node = pending[size]
        if tree.nodes[node].feature < 0:
            continue
        child = _only_child(samples, tree, node, words)
        if child >= 0:
            _lift(tree, node, child, stack)
            pending[size] = node
            size += 1
        else:
            pending[size] = tree.nodes[node].left
            pending[size + 1] = tree.nodes[node].right
            size += 2


@kernel(about="merging equal leaves", seconds=0.3)
def merge_equals(tree, stack):
    """Turn every split between two leaves of the same class into a leaf; return how many there were."""
    n_merged = 0
    node = np.int64(0)
    while node < tree.nodes.shape[0]:
        here = tree.nodes[node]
        is_merged = False
        if here.parent != FREE and here.feature >= 0:
            left, right = tree.nodes[here.left], tree.nodes[here.right]
            is_merged = left.feature < 0 and right.feature < 0 and left.label == right.label
        if is_merged:
            label = tree.nodes[here.left].label
            _release_below(tree, node, stack)
            tree.nodes[node].label = label
            tree.sizes[N_CHANGES] += 1
            n_merged += 1
            above = np.int64(tree.nodes[node].parent)
            node = above if 0 <= above < node else node + 1  # the parent may have become such a split
        else:
            node += 1
    return n_merged
