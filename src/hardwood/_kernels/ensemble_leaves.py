"""The leaves of an ensemble that a row can be moved into.

Between two neighbouring thresholds of a feature no tree can tell values apart. So a row is a cell on every axis: a
numerical feature is an axis of as many cells as it has thresholds, and one more; each category of a categorical
feature is an axis of two cells, no and yes. What the attacker can do is a box of cells, and so is a leaf.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner
from hardwood._kernels.predicting import Trees, goes_left, in_left_set

MISSING = -1  # the cell of a value that is missing
# Infinity is not a value that an attacker can give a row.
LARGEST_FLOAT = float(np.finfo(np.float64).max)


class Model(NamedTuple):
    """The ensemble; leaves are numbered tree by tree."""

    trees: Trees
    value: np.ndarray  # float64 (node, output)
    base_score: np.ndarray  # float64 (output)
    single: bool  # float32 sums
    divisor: float
    cut: float
    leaf_of_node: np.ndarray  # int64 per node; -1 for inner nodes
    rank: np.ndarray  # int32 per node: which of its feature's thresholds it has
    bound_start: np.ndarray  # int64 per leaf + 1: its bounds are bounds[start:end]
    bounds: np.ndarray  # BOUND, the axis is a feature
    bound_set: np.ndarray  # int64: for a categorical feature, offset of its bool set in `sets`; -1 = numerical
    sets: np.ndarray  # bool
    thresholds: np.ndarray  # float64: sorted, feature by feature
    threshold_start: np.ndarray  # int64 per feature + 1
    category_start: np.ndarray  # int64 per feature: offset of its categories
    n_categories: np.ndarray  # int64 per feature; 0 = numerical


LEAF = np.dtype([("value", np.float64), ("start", np.int32), ("end", np.int32)])  # its objective, and its bounds
BOUND = np.dtype([("axis", np.int32), ("first", np.int32), ("last", np.int32)])  # a leaf's first and last cell


class Leaves(NamedTuple):
    """The leaves that a row can be moved into, except those of trees with a single one. Filled by `collect`."""

    each: np.ndarray  # LEAF
    bounds: np.ndarray  # BOUND: those that cut the row's box


@inner
def find_cell(model, feature, value):
    """The cell of a value: how many thresholds are below it."""
    low, high = model.threshold_start[feature], model.threshold_start[feature + 1]
    thresholds = model.thresholds
    while low < high:
        middle = (low + high) >> 1
        if thresholds[middle] < value:
            low = middle + 1
        else:
            high = middle
    return np.int32(low - model.threshold_start[feature])


@inner
def locate(model, x, low, high, allowed, axes):
    """Find the cells of a row and of its reach."""
    n_features = x.shape[0]
    for j in range(n_features):
        axes[j].own = axes[j].low = axes[j].high = 0
        if x[j] != x[j]:
            axes[j].own = MISSING
        elif model.n_categories[j] == 0 and model.threshold_start[j + 1] > model.threshold_start[j]:
            axes[j].own = find_cell(model, j, x[j])
            axes[j].low = find_cell(model, j, max(low[j], -LARGEST_FLOAT))
            axes[j].high = find_cell(model, j, min(high[j], LARGEST_FLOAT))
        for code in range(model.n_categories[j]):
            at = model.category_start[j] + code
            axis = n_features + at
            axes[axis].own = x[j] == code
            axes[axis].high = axes[j].own != MISSING and allowed[at]
            axes[axis].low = 0


@inner
def list_active(axes):
    """List the axes of several cells; how many there are."""
    count = np.int64(0)
    for axis in range(axes.shape[0]):
        if axes[axis].low < axes[axis].high:
            axes[count].active = axis
            count += 1
    return count


@inner
def _reaches_sets(model, axes, node):
    """Whether some category goes to the left child of a node, and whether one goes to the right."""
    feature = model.trees.feature[node]
    to_left, to_right = False, False
    for code in range(model.n_categories[feature]):
        axis = model.n_categories.shape[0] + model.category_start[feature] + code
        if axes[axis].high == 1:
            is_left = in_left_set(model.trees, node, code)
            to_left |= is_left
            to_right |= not is_left
    return to_left, to_right


@inner
def _exclude(model, axes, k, bounds, count):
    """Bound a leaf to be without the categories that its set excludes: (how many bounds now, whether any is left)."""
    feature = model.bounds[k].axis
    some = False
    for code in range(model.n_categories[feature]):
        axis = model.n_categories.shape[0] + model.category_start[feature] + code
        if axes[axis].high == 1:
            if model.sets[model.bound_set[k] + code]:
                some = True
            else:
                bounds[count].axis, bounds[count].first, bounds[count].last = axis, 0, 0
                count += 1
    return count, some


@inner
def _sort(slots, first, last, each):
    """Put leaves in decreasing order of value (Shell sort)."""
    gap = 1
    while gap < (last - first) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(first + gap, last):
            slot = slots[i]
            j = i
            while j - gap >= first and each[slots[j - gap]].value < each[slot].value:
                slots[j] = slots[j - gap]
                j -= gap
            slots[j] = slot
        gap //= 3


@inner
def collect(model, axes, plus, minus, leaves, slots, marks, stack):
    """List the leaves within reach; their value is output `plus` minus output `minus` (-1: leave out).

    Tree by tree they are put in `slots`, best first, from `marks[t]` to `marks[t + 1]`. Returns (how many trees, the
    sum of the values of trees with a single leaf, the largest sum that could be); -1 trees if there is no room.
    """
    # Arrays are fetched from their named tuples once: inside a loop each fetch would count references.
    feature, left, right, rank = model.trees.feature, model.trees.left, model.trees.right, model.rank
    category_start, bound_start, bound_set = model.trees.category_start, model.bound_start, model.bound_set
    all_bounds, leaf_of_node, each, bounds = model.bounds, model.leaf_of_node, leaves.each, leaves.bounds
    room, widest = bounds.shape[0], axes.shape[0]
    n_leaves, n_bounds, n_trees = np.int64(0), np.int64(0), np.int64(0)
    settled, total = 0.0, 0.0
    marks[0] = 0
    for tree in range(model.trees.root.shape[0]):
        best = -np.inf
        begin = n_leaves
        stack[0] = model.trees.root[tree]
        depth = 1
        while depth > 0:
            depth -= 1
            node = stack[depth]
            j = feature[node]
            if j >= 0:
                if axes[j].own == MISSING:
                    to_left = model.trees.missing_left[node]
                    to_right = not to_left
                elif category_start[node] >= 0:
                    to_left, to_right = _reaches_sets(model, axes, node)
                else:
                    to_left, to_right = axes[j].low <= rank[node], axes[j].high > rank[node]
                if to_left:
                    stack[depth] = left[node]
                    depth += 1
                if to_right:
                    stack[depth] = right[node]
                    depth += 1
                continue
            if n_leaves >= each.shape[0] or n_bounds + widest > room:
                return np.int64(-1), settled, total
            leaf = leaf_of_node[node]
            end, within = n_bounds, True
            for k in range(bound_start[leaf], bound_start[leaf + 1]):
                j, first, last = all_bounds[k].axis, all_bounds[k].first, all_bounds[k].last
                low, high = axes[j].low, axes[j].high
                if axes[j].own == MISSING:
                    continue
                if bound_set[k] >= 0:
                    end, some = _exclude(model, axes, k, bounds, end)
                    within &= some
                    continue
                within &= (first <= high) & (last >= low) & (first <= last)
                bounds[end].axis, bounds[end].first, bounds[end].last = j, first, last
                end += (first > low) | (last < high)
            if not within:
                continue
            value = 0.0
            if plus >= 0:
                value += model.value[node, plus]
            if minus >= 0:
                value -= model.value[node, minus]
            each[n_leaves].value, each[n_leaves].start, each[n_leaves].end = value, n_bounds, end
            slots[n_leaves] = n_leaves
            best = max(best, value)
            n_bounds = end
            n_leaves += 1
        total += best
        if n_leaves == begin + 1:
            settled += best
            n_leaves = begin
        else:
            _sort(slots, begin, n_leaves, each)
            n_trees += 1
            marks[n_trees] = n_leaves
    return n_trees, settled, total


@inner
def predict_point(model, point, output):
    """The class that the model gives to a point, added up as the model does it."""
    trees = model.trees
    for k in range(output.shape[0]):
        output[k] = model.base_score[k]
    for tree in range(trees.root.shape[0]):
        node = trees.root[tree]
        while trees.feature[node] >= 0:
            left = goes_left(trees, node, point[trees.feature[node]])
            node = trees.left[node] if left else trees.right[node]
        for k in range(output.shape[0]):
            total = output[k] + model.value[node, k]
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
