"""Which samples can be moved to a node: lists that are kept as long as nothing above the node changes.

And what has changed since a node was found to be the best it can be: where nothing has that the node could see, it is
not looked at again.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner
from hardwood._kernels.refine.tree import N_CHANGES, can_enter

EPOCH, TOP = 0, 1


class Lists(NamedTuple):
    """The samples that can be moved to nodes, and when nodes and samples have changed."""

    pool: np.ndarray  # int32: lists one after the other
    start: np.ndarray  # int64 per node: where its list is
    length: np.ndarray  # int64 per node
    epoch: np.ndarray  # int64 per node: its list is of use if this is the present epoch
    present: np.ndarray  # int64: the epoch, and how much of the pool is taken
    touched: np.ndarray  # int64 per node: at which change of the tree something above or below it changed
    changed: np.ndarray  # int64 per sample: at which change of the tree it came to be lost in more or fewer leaves


@inner
def _filter(samples, tree, child, source, target):
    """Keep the samples of a list that can be moved on to a child; return how many."""
    n = 0
    for k in range(source.shape[0]):
        sample = np.int64(source[k])
        if can_enter(samples, tree, child, sample):
            target[n] = sample
            n += 1
    return n


@inner
def _list_anew(samples, tree, length, path, reached):
    """List the samples that can be moved down a path, without lists of other nodes."""
    n_reached = 0
    for sample in range(samples.weight.shape[0]):
        step = length
        while step > 0 and can_enter(samples, tree, path[step - 1], sample):
            step -= 1
        if step == 0:
            reached[n_reached] = sample
            n_reached += 1
    return n_reached


@inner
def _trace_path(tree, node, lists, path):
    """Fill `path` with a node and those above it that have no list; return how many, and the node that has one."""
    length = 0
    while node > 0 and lists.epoch[node] != lists.present[EPOCH]:
        path[length] = node
        length += 1
        node = tree.nodes[node].parent
    return length, node


@inner
def find_reached(samples, tree, node, lists, path, reached):
    """List the samples that can be moved to a node in `reached`, in ascending order; return how many."""
    n_samples = samples.weight.shape[0]
    if node == 0:
        for sample in range(n_samples):
            reached[sample] = sample
        return n_samples
    length, above = _trace_path(tree, node, lists, path)
    n = lists.length[above] if above > 0 else n_samples
    if lists.present[TOP] + length * n > lists.pool.shape[0]:  # there may be no room
        lists.present[EPOCH] += 1
        lists.present[TOP] = 0
        length, above = _trace_path(tree, node, lists, path)
        n = n_samples
        if length * n > lists.pool.shape[0]:
            return _list_anew(samples, tree, length, path, reached)
    if above == 0 and length:
        for sample in range(n_samples):
            reached[sample] = sample
    source = reached[:n] if above == 0 else lists.pool[lists.start[above] : lists.start[above] + n]
    for step in range(length - 1, -1, -1):
        child, top = path[step], lists.present[TOP]
        n = _filter(samples, tree, child, source, lists.pool[top:])
        lists.start[child], lists.length[child], lists.epoch[child] = top, n, lists.present[EPOCH]
        lists.present[TOP] = top + n
        source = lists.pool[top : top + n]
    for k in range(n):
        reached[k] = source[k]
    return n


@inner
def touch_around(tree, node, lists, stack):
    """Note that a node has changed: for all above and below it, whose lists are of no use any more if below."""
    now = tree.sizes[N_CHANGES]
    above = node
    while above >= 0:
        lists.touched[above] = now
        above = tree.nodes[above].parent
    stack[0] = node
    size = 1
    while size:
        size -= 1
        here = stack[size]
        if here != node:
            lists.touched[here] = now
            lists.epoch[here] = -1
        if tree.nodes[here].feature >= 0:
            stack[size] = tree.nodes[here].left
            stack[size + 1] = tree.nodes[here].right
            size += 2


@inner
def is_unchanged(tree, node, n_reached, reached, lists):
    """Whether nothing has changed since a node was settled that it could see."""
    settled = tree.nodes[node].settled
    if settled < 0 or lists.touched[node] > settled:
        return False
    k = 0
    while k < n_reached and lists.changed[reached[k]] <= settled:
        k += 1
    return k == n_reached
