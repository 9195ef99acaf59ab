"""Single moves: what can be told of a point without listing any leaf, by one pass over the trees.

For every axis at once it tells how the sum changes if the point moves to another cell of that axis: by leaves whose
path leaves the point's own on one axis at most. And, where that is asked for, the sum of every tree's best leaf within
the box, by all the others.
"""

import numpy as np

from hardwood._kernels.compiling import inner, part
from hardwood._kernels.predicting import in_left_set
from hardwood._kernels.search.leaves import MISSING, appraise, which_sides
from hardwood._kernels.search.state import touch, touch_none

# The axis on which a path has left the point's own: none so far, or several.
NO_AXIS, SEVERAL = np.int32(-1), np.int32(-2)
# Whether leaves are visited that no single move comes to. (Of one type with what they stand in for: see compiling.)
EVERYWHERE, NEARBY = np.bool_(True), np.bool_(False)


@inner
def _open_gains(search, axis):
    """Begin to note gains on an axis, unless there are some."""
    here = search.axes[axis]
    if here.is_touched:
        return
    touch(search, axis)
    for cell in range(here.start + here.low, here.start + here.high + 2):
        search.cells[np.uintp(cell)].gain = 0.0


@inner
def _note_gain(model, search, leaf, feature, gain):
    """Note what is gained wherever a leaf reaches along a feature."""
    axes, cells = search.axes, search.cells
    k = model.side_start[np.uintp(leaf)]
    while model.sides[np.uintp(k)].axis != feature:
        k += 1
    side, here = model.sides[np.uintp(k)], axes[np.uintp(feature)]
    if side.set < 0:
        first, last = max(side.first, here.low), min(side.last, here.high)
        if first <= last:
            _open_gains(search, feature)
            cells[np.uintp(here.start + first)].gain += gain
            cells[np.uintp(here.start + last + 1)].gain -= gain
        return
    for code in range(model.features[feature].n_categories):
        axis = np.int32(model.features.shape[0] + model.features[feature].category_start + code)
        if axes[axis].high == 1 and model.sets[side.set + code]:
            _open_gains(search, axis)
            cells[axes[axis].start + 1].gain += gain


@part
def _is_left(model, axis, here, node):
    """On which side of a split the chosen cell of its axis is."""
    is_left = axis.chosen <= model.rank[np.uintp(node)]
    if axis.own == MISSING:
        is_left = here.missing_left
    elif here.category_start >= 0:
        is_left = in_left_set(model.trees, node, np.int64(axis.chosen))
    return is_left


@inner
def add_up(model, search):
    """The sum at the chosen cells."""
    nodes, axes, progress = model.trees.nodes, search.axes, search.progress[0]
    total = progress.settled
    for tree in range(progress.n_open):
        node = search.entries[np.uintp(tree)]
        here = nodes[np.uintp(node)]
        while here.feature >= 0:
            node = here.left if _is_left(model, axes[np.uintp(here.feature)], here, node) else here.right
            here = nodes[np.uintp(node)]
        value, _ = appraise(model, node, search.question[0])
        total += value
    return total


@inner
def measure_moves(model, search, everywhere):
    """The sum at the chosen cells, the sum of every tree's best leaf (if `everywhere`), and how many leaves were seen.

    The cells' `gain` is filled with what each move gains, as differences between cells.
    """
    nodes, rank, axes, stack = model.trees.nodes, model.rank, search.axes, search.stack
    question, progress = search.question[0], search.progress[0]
    touch_none(search)
    total = bound = progress.settled
    n_leaves = 0
    for tree in range(progress.n_open):
        stack[0].node, stack[0].axis = search.entries[np.uintp(tree)], NO_AXIS
        depth = 1
        best, own = -np.inf, 0.0
        while depth > 0:
            depth -= 1
            node, off = stack[np.uintp(depth)].node, stack[np.uintp(depth)].axis
            here = nodes[np.uintp(node)]
            while here.feature >= 0:
                # The point's own side comes first, so that the first leaf of a tree is the point's own.
                is_left = _is_left(model, axes[np.uintp(here.feature)], here, node)
                is_near = off == NO_AXIS or off == here.feature
                if everywhere or is_near:
                    to_left, to_right = which_sides(model, axes, node)
                    if to_right if is_left else to_left:
                        step = stack[np.uintp(depth)]
                        step.node = here.right if is_left else here.left
                        step.axis = here.feature if is_near else SEVERAL
                        depth += 1
                node = here.left if is_left else here.right
                here = nodes[np.uintp(node)]
            value, _ = appraise(model, node, question)
            n_leaves += 1
            best = max(best, value)
            if off == NO_AXIS:
                own = value
                total += value
            elif off >= 0:
                _note_gain(model, search, rank[np.uintp(node)], off, value - own)
        bound += best
    progress.work += n_leaves
    return total, bound, n_leaves
