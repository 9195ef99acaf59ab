"""The leaves of an ensemble that a row can be moved into.

Between two neighbouring thresholds of a feature no tree can tell values apart. So a row is a cell on every axis: a
numerical feature is an axis of as many cells as it has thresholds, and one more; each category of a categorical
feature is an axis of two cells, no and yes. What the attacker can do is a box of cells, and so is a leaf.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, part, record_type
from hardwood._kernels.predicting import Trees, goes_left, in_left_set

MISSING = -1  # the cell of a value that is missing
# Infinity is not a value that an attacker can give a row.
LARGEST_FLOAT = float(np.finfo(np.float64).max)


_CELLS = [("axis", np.int32), ("first", np.int32), ("last", np.int32)]
BOUND = record_type(_CELLS)  # a leaf's first and last cell
# The same before a row is known: the axis is a feature; for a categorical one, where its bool set is in `sets` (or -1).
SIDE = record_type([*_CELLS, ("set", np.int32)])
LEAF = record_type(
    [
        ("value", np.float64),  # what it counts for: its worth, maybe rounded up
        ("worth", np.float64),
        ("start", np.int32),  # its bounds
        ("end", np.int32),
        ("node", np.int32),
    ]
)
STEP = record_type([("node", np.int32), ("axis", np.int32)])  # a node to visit; see single_moves
FEATURE = record_type(
    [
        ("threshold_start", np.int64),  # where its thresholds are among those of all features
        ("threshold_end", np.int64),
        ("category_start", np.int64),  # where its categories are
        ("n_categories", np.int64),  # 0 = numerical
    ]
)


class Model(NamedTuple):
    """The ensemble; leaves are numbered tree by tree."""

    trees: Trees
    value: np.ndarray  # float64 (node, output)
    base_score: np.ndarray  # float64 (output)
    single: bool  # float32 sums
    divisor: float
    cut: float
    least_rise: float  # of one output: leaf values exceed this where it is of class 1,
    least_fall: float  # and minus their sum is no less than this where it is of class 0
    rank: np.ndarray  # int32 per node: which of its feature's thresholds it has; for leaves, the leaf's number
    side_start: np.ndarray  # int64 per leaf + 1: its bounds are sides[start:end]
    sides: np.ndarray  # SIDE
    sets: np.ndarray  # bool
    thresholds: np.ndarray  # float64: sorted, feature by feature
    above: np.ndarray  # float64 per threshold: the smallest value that is greater
    features: np.ndarray  # FEATURE


@inner
def find_cell(model, feature, value):
    """The cell of a value: how many thresholds are below it."""
    here, thresholds = model.features[feature], model.thresholds
    low, high = here.threshold_start, here.threshold_end
    while low < high:
        middle = (low + high) >> 1
        if thresholds[np.uintp(middle)] < value:
            low = middle + 1
        else:
            high = middle
    return np.int32(low - here.threshold_start)


@inner
def find_last_cell(model, feature, value):
    """The last cell that has a value which is no greater: a whole number may not be there where its cell begins."""
    here, above = model.features[feature], model.above
    low, high = here.threshold_start, here.threshold_end
    while low < high:
        middle = (low + high) >> 1
        if above[np.uintp(middle)] <= value:
            low = middle + 1
        else:
            high = middle
    return np.int32(low - here.threshold_start)


@inner
def locate(model, x, low, high, allowed, axes):
    """Find the cells of a row and of its reach."""
    n_features = x.shape[0]
    for j in range(n_features):
        here = model.features[j]
        axes[j].own = axes[j].low = axes[j].high = 0
        if x[j] != x[j]:
            axes[j].own = MISSING
        elif here.n_categories == 0 and here.threshold_end > here.threshold_start:
            axes[j].own = find_cell(model, j, x[j])
            axes[j].low = find_cell(model, j, max(low[j], -LARGEST_FLOAT))
            axes[j].high = find_cell(model, j, min(high[j], LARGEST_FLOAT))
        for code in range(here.n_categories):
            at = here.category_start + code
            axis = n_features + at
            axes[axis].own = x[j] == code
            axes[axis].high = axes[j].own != MISSING and allowed[at]
            axes[axis].low = 0


@inner
def choose_point(model, x, axes):
    """Choose the cells of a point, or the nearest ones of the box."""
    n_features = x.shape[0]
    for j in range(n_features):
        if axes[j].own != MISSING and model.features[j].n_categories == 0:
            axes[j].chosen = min(max(find_cell(model, j, x[j]), axes[j].low), axes[j].high)
        for code in range(model.features[j].n_categories):
            axis = n_features + model.features[j].category_start + code
            axes[axis].chosen = axes[axis].high if x[j] == code else axes[axis].low


@inner
def list_active(axes):
    """List the axes of several cells, and choose the only one of the others; how many there are."""
    count = np.int64(0)
    for axis in range(axes.shape[0]):
        axes[axis].chosen = axes[axis].low
        if axes[axis].low < axes[axis].high:
            axes[count].active = axis
            count += 1
    return count


@inner
def _reaches_sets(model, axes, node):
    """Whether some category goes to the left child of a node, and whether one goes to the right."""
    feature = model.trees.nodes[node].feature
    to_left, to_right = False, False
    for code in range(model.features[feature].n_categories):
        axis = model.features.shape[0] + model.features[feature].category_start + code
        if axes[axis].high == 1:
            is_left = in_left_set(model.trees, node, code)
            to_left |= is_left
            to_right |= not is_left
    return to_left, to_right


@inner
def _exclude(model, axes, k, bounds, count):
    """Bound a leaf to be without the categories that its set excludes: (how many bounds now, whether any is left)."""
    feature = model.sides[k].axis
    some = False
    for code in range(model.features[feature].n_categories):
        axis = model.features.shape[0] + model.features[feature].category_start + code
        if axes[axis].high == 1:
            if model.sets[model.sides[k].set + code]:
                some = True
            else:
                bounds[count].axis, bounds[count].first, bounds[count].last = axis, 0, 0
                count += 1
    return count, some


@part
def _bound_leaf(model, axes, leaf, bounds, count):
    """List the bounds of a leaf within the row's box: (how many bounds there are now, whether the leaf meets it)."""
    meets = True
    for k in range(model.side_start[np.uintp(leaf)], model.side_start[np.uintp(leaf + 1)]):
        side = model.sides[np.uintp(k)]
        axis = axes[np.uintp(side.axis)]
        if axis.own == MISSING:
            continue
        if side.set >= 0:
            count, some = _exclude(model, axes, k, bounds, count)
            meets &= some
            continue
        meets &= (side.first <= axis.high) & (side.last >= axis.low) & (side.first <= side.last)
        bound = bounds[np.uintp(count)]
        bound.axis, bound.first, bound.last = side.axis, side.first, side.last
        count += (side.first > axis.low) | (side.last < axis.high)
    return count, meets


@part
def appraise(model, node, question):
    """What a leaf counts for, and what it is worth."""
    gain = model.value[np.uintp(node), np.uintp(question.plus)] if question.plus >= 0 else 0.0
    cost = model.value[np.uintp(node), np.uintp(question.minus)] if question.minus >= 0 else 0.0
    value = worth = gain - cost
    if question.step > 0.0 and (
        np.floor(gain / question.step) != gain / question.step or np.floor(cost / question.step) != cost / question.step
    ):
        value = question.vote + question.stride * np.ceil((worth + question.excess - question.vote) / question.stride)
    return value, worth


@inner
def _is_better(one, other):
    """Whether a leaf comes before another one."""
    return one.value > other.value or (one.value == other.value and one.worth > other.worth)


@inner
def _sort(slots, first, last, each):
    """Put leaves in order, the best first (Shell sort)."""
    gap = 1
    while gap < (last - first) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(first + gap, last):
            slot = slots[np.uintp(i)]
            leaf, j = each[np.uintp(slot)], i
            while j - gap >= first and _is_better(leaf, each[np.uintp(slots[np.uintp(j - gap)])]):
                slots[np.uintp(j)] = slots[np.uintp(j - gap)]
                j -= gap
            slots[np.uintp(j)] = slot
        gap //= 3


@part
def which_sides(model, axes, node):
    """Whether the box reaches the left child of an inner node, and whether it reaches the right one."""
    here, at = model.trees.nodes[np.uintp(node)], model.rank[np.uintp(node)]
    axis = axes[np.uintp(here.feature)]
    to_left, to_right = axis.low <= at, axis.high > at
    if axis.own == MISSING:
        to_left, to_right = here.missing_left, not here.missing_left
    elif here.category_start >= 0:
        to_left, to_right = _reaches_sets(model, axes, node)
    return to_left, to_right


@inner
def open_trees(model, search):
    """Go down every tree to where the box is on both sides of a split, and list these nodes.

    Trees of which a single leaf is within reach are settled: what they count for is noted.
    """
    nodes, root, entries, axes = model.trees.nodes, model.trees.root, search.entries, search.axes
    question, progress = search.question[0], search.progress[0]
    progress.n_open, progress.settled, progress.settled_worth = 0, 0.0, 0.0
    for tree in range(root.shape[0]):
        node = root[np.uintp(tree)]
        here = nodes[np.uintp(node)]
        while here.feature >= 0:
            to_left, to_right = which_sides(model, axes, node)
            if to_left and to_right:
                break
            node = here.left if to_left else here.right
            here = nodes[np.uintp(node)]
        if here.feature >= 0:
            entries[np.uintp(progress.n_open)] = node
            progress.n_open += 1
        else:
            value, worth = appraise(model, node, question)
            progress.settled += value
            progress.settled_worth += worth


@inner
def collect(model, search):
    """List the leaves of open trees that are within reach, and their bounds within the row's box.

    Their value is output `plus` minus output `minus` (-1: leave out), as noted in the search. Tree by tree they are put
    in `slots`, best first, from `marks[t]` to `marks[t + 1]`; the others are settled at the first level. Returns (how
    many trees, the largest sum that could be); -1 trees if there is no room.
    """
    nodes, rank, axes, stack = model.trees.nodes, model.rank, search.axes, search.stack
    each, bounds, slots, marks = search.leaves, search.bounds, search.slots, search.marks
    room, widest, progress = bounds.shape[0], axes.shape[0], search.progress[0]
    n_leaves, n_bounds, n_trees = np.int64(0), np.int64(0), np.int64(0)
    settled, settled_worth, total = progress.settled, progress.settled_worth, progress.settled
    marks[0] = 0
    for tree in range(progress.n_open):
        best = -np.inf
        begin = n_leaves
        stack[0].node = search.entries[np.uintp(tree)]
        depth = 1
        while depth > 0:
            depth -= 1
            node = stack[np.uintp(depth)].node
            here = nodes[np.uintp(node)]
            if here.feature >= 0:
                to_left, to_right = which_sides(model, axes, node)
                if to_left:
                    stack[np.uintp(depth)].node = here.left
                    depth += 1
                if to_right:
                    stack[np.uintp(depth)].node = here.right
                    depth += 1
                continue
            if n_leaves >= each.shape[0] or n_bounds + widest > room:
                return np.int64(-1), total
            end, within = _bound_leaf(model, axes, rank[np.uintp(node)], bounds, n_bounds)
            if not within:
                continue
            value, worth = appraise(model, node, search.question[0])
            leaf = each[np.uintp(n_leaves)]
            leaf.value, leaf.worth, leaf.node, leaf.start, leaf.end = value, worth, node, n_bounds, end
            slots[np.uintp(n_leaves)] = n_leaves
            best = max(best, value)
            n_bounds = end
            n_leaves += 1
        total += best
        if n_leaves == begin + 1:
            settled += best
            settled_worth += each[begin].worth
            n_leaves = begin
        else:
            _sort(slots, begin, n_leaves, each)
            n_trees += 1
            marks[n_trees] = n_leaves
    search.levels[0].settled, search.levels[0].settled_worth = settled, settled_worth
    return n_trees, total


@inner
def predict_point(model, point, output):
    """The class that the model gives to a point, added up as the model does it."""
    trees = model.trees
    for k in range(output.shape[0]):
        output[k] = model.base_score[k]
    for tree in range(trees.root.shape[0]):
        node = trees.root[np.uintp(tree)]
        here = trees.nodes[np.uintp(node)]
        while here.feature >= 0:
            node = here.left if goes_left(trees, node, point[np.uintp(here.feature)]) else here.right
            here = trees.nodes[np.uintp(node)]
        for k in range(output.shape[0]):
            total = output[k] + model.value[np.uintp(node), k]
            output[k] = np.float64(np.float32(total)) if model.single else total
    for k in range(output.shape[0]):
        ratio = output[k] / model.divisor
        output[k] = np.float64(np.float32(ratio)) if model.single else ratio
    if output.shape[0] == 1:
        return np.int64(output[0] > model.cut)
    best = np.int64(0)
    for k in range(1, output.shape[0]):
        if output[k] > output[best]:
            best = np.int64(k)
    return best
