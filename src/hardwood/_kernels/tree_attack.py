"""The nearest adversarial example against one tree, by a depth-first search over the leaves within reach."""

import numpy as np

from hardwood._kernels.compiling import inner, kernel
from hardwood._kernels.predicting import find_leaf, in_left_set

INF = -1  # the norm's code; otherwise the power: 0, 1 or 2


@inner
def _price(norm, weight, change):
    """What changing one feature by so much costs; prices add up, except for L-infinity where the largest counts."""
    if change == 0.0:
        return 0.0
    if norm == 0:
        return weight
    if norm == 2:
        return weight * weight * change * change
    return weight * abs(change)


@inner
def _seat(trees, parent, child, allowed, own):
    """A category of feature `feature[parent]` that leads to `child` from the root and that the attacker can reach.

    The row's own category if possible, else the first; -1 if there is none.
    """
    feature = trees.feature[parent[child]]
    for trial in range(-1, allowed.shape[0]):
        code = own if trial < 0 else trial
        if not allowed[code]:
            continue
        node, open_way = child, True
        while open_way and parent[node] >= 0:
            above = parent[node]
            if trees.feature[above] == feature:
                open_way = in_left_set(trees, above, code) == (node == trees.left[above])
            node = above
        if open_way:
            return code
    return np.int64(-1)


@inner
def _enter(trees, parent, child, x, low, high, reach, reach_start, n_categories, moves):
    """The value a row must take to go on to `child`: the nearest one, NaN if it is out of reach."""
    node = parent[child]
    feature = trees.feature[node]
    is_left = child == trees.left[node]
    value = x[feature]
    if trees.category_start[node] >= 0:
        c = n_categories[feature]
        own = np.int64(value)
        begin = reach_start[feature] + own * c
        if not moves:
            return value if in_left_set(trees, node, own) == is_left else np.nan
        seat = _seat(trees, parent, child, reach[begin : begin + c], own)
        return np.float64(seat) if seat >= 0 else np.nan
    threshold = trees.threshold[node]
    if is_left:
        return value if value <= threshold else (threshold if threshold >= low[feature] else np.nan)
    if value > threshold:
        return value
    value = np.nextafter(threshold, np.inf)
    return value if value <= high[feature] else np.nan


@kernel
def attack_rows(
    trees, parent, dead, node_class, reach, reach_start, n_categories, X, low, high, moves, label, norm, weight, any_will_do,
    stack, stage, saved, spent, found, X_adv,
):  # fmt: skip
    """For each row, find the nearest point in reach that the tree gives another class than `label`.

    parent : int64 per node, -1 for the root. dead : bool per node, whether no input at all can get there.
    low, high : float64 (row, feature), the reach. moves : bool per row.
    stack, stage, saved, spent : scratch, one entry per level of the tree.
    found : bool per row. X_adv : float64 (row, feature), the examples; untouched where there is none.
    """
    current = np.empty(X.shape[1])
    for row in range(X.shape[0]):
        x = X[row]
        found[row] = node_class[find_leaf(trees, X, row, 0)] != label[row]
        if found[row]:
            X_adv[row] = x
            continue
        if not moves[row]:
            continue
        current[:] = x
        best = np.inf
        level = 0
        stack[0], stage[0], spent[0] = trees.root[0], 0, 0.0
        while level >= 0:
            node = stack[level]
            feature = trees.feature[node]
            if feature < 0:
                if node_class[node] != label[row]:
                    best = spent[level]
                    found[row] = True
                    X_adv[row] = current
                    if any_will_do:
                        break
                level -= 1
                continue
            if stage[level] > 0:
                current[feature] = saved[level]
            if stage[level] == 2:
                level -= 1
                continue
            # The child the row is in already costs nothing more: first.
            is_left = current[feature] <= trees.threshold[node]
            if trees.category_start[node] >= 0:
                is_left = in_left_set(trees, node, np.int64(current[feature]))
            child = trees.left[node] if is_left == (stage[level] == 0) else trees.right[node]
            stage[level] += 1
            saved[level] = current[feature]
            if dead[child]:
                continue
            value = current[feature]
            if trees.category_start[node] >= 0:
                own = current[feature]
                current[feature] = x[feature]
                value = _enter(trees, parent, child, current, low[row], high[row], reach, reach_start, n_categories, moves[row])
                current[feature] = own
            else:
                value = _enter(trees, parent, child, current, low[row], high[row], reach, reach_start, n_categories, moves[row])
            if value != value:
                continue
            if trees.category_start[node] >= 0:
                before = _price(norm, weight[feature], np.float64(current[feature] != x[feature]))
                after = _price(norm, weight[feature], np.float64(value != x[feature]))
            else:
                before = _price(norm, weight[feature], current[feature] - x[feature])
                after = _price(norm, weight[feature], value - x[feature])
            cost = max(spent[level], after) if norm == INF else spent[level] - before + after
            if cost >= best:
                continue
            current[feature] = value
            level += 1
            stack[level], stage[level], spent[level] = child, 0, cost
