"""The nearest adversarial example against one tree, by a depth-first search over the leaves within reach.

Going down the tree, the search keeps the point nearest to the row that satisfies every split so far; a split changes
at most one feature of it. A branch is left as soon as that point is out of reach or no nearer than the best example
known. A missing value stays missing, so it takes the one way that is for missing values.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel, part
from hardwood._kernels.predicting import Trees, find_leaf, goes_left, in_left_set

INF = -1  # the code of the L-infinity norm; the other norms go by their power: 0, 1 or 2


class Target(NamedTuple):
    """The tree under attack."""

    trees: Trees
    parent: np.ndarray  # int64 per node, -1 for the root
    contradicts: np.ndarray  # bool per node: whether no value of its parent's feature passes all the splits down to it
    class_index: np.ndarray  # int64 per node: the class it would predict
    above: np.ndarray  # float64 per node: the smallest value that is greater than its threshold


class CategoryReach(NamedTuple):
    """Which category can become which: a square matrix per categorical feature, one after another."""

    matrices: np.ndarray  # bool
    start: np.ndarray  # int64 per feature
    size: np.ndarray  # int64 per feature; 0 = numerical


class Path(NamedTuple):
    """Scratch: the way from the root to the node at hand, an entry per level."""

    node: np.ndarray  # int64
    visited: np.ndarray  # int64: how many children have been tried
    before: np.ndarray  # float64: the value of the node's feature before going down
    cost: np.ndarray  # float64: of the point so far


@inner
def _seat(target, categories, child, own):
    """The category a row must take to get to `child`, whose parent splits on a categorical feature.

    The row's own if that leads there, else the first that does and that the attacker can reach; -1 if there is none.
    """
    feature = target.trees.nodes[target.parent[child]].feature
    count = categories.size[feature]
    allowed = categories.start[feature] + own * count
    for trial in range(-1, count):
        code = own if trial < 0 else np.int64(trial)
        leads_there = categories.matrices[allowed + code]
        node, above = child, target.parent[child]
        while leads_there and above >= 0:
            if target.trees.nodes[above].feature == feature:
                leads_there = in_left_set(target.trees, above, code) == (node == target.trees.nodes[above].left)
            node, above = above, target.parent[above]
        if leads_there:
            return code
    return np.int64(-1)


@inner
def _step(target, categories, child, own, value, low, high):
    """The value nearest to `own` with which a point that had `value` so far gets to `child`; inf if out of reach."""
    trees, node = target.trees, target.parent[child]
    to_left = child == trees.nodes[node].left
    if own != own:
        return own if trees.nodes[node].missing_left == to_left else np.inf
    if target.contradicts[child]:
        return np.inf
    if trees.nodes[node].category_start >= 0:
        seat = _seat(target, categories, child, np.int64(own))
        return np.float64(seat) if seat >= 0 else np.inf
    threshold = trees.nodes[node].threshold
    if to_left:
        if value <= threshold:
            return value
        return threshold if threshold >= low else np.inf
    if value > threshold:
        return value
    above = target.above[node]  # the left end of a leaf is open
    return above if above <= high else np.inf


@inner
def _price(norm, weight, change, categorical):
    """What a change of one feature costs by itself."""
    if change == 0.0 or change != change:  # what is missing stays missing
        return 0.0
    return weight if norm == 0 or categorical else weight * abs(change)


@inner
def _cost(norm, weight, x, point, feature, price, before, so_far, n_categories):
    """What the point costs once `feature` costs `price` instead of `before`."""
    if norm == INF:
        return max(so_far, price)
    if norm != 2:
        return so_far - before + price
    # Squares of very large or very small changes are out of range; hypot is not.
    if before == 0.0:
        return np.hypot(so_far, price)
    total = price
    for j in range(x.shape[0]):
        if j != feature:
            total = np.hypot(total, _price(norm, weight[j], point[j] - x[j], n_categories[j] > 0))
    return total


@part
def _next_child(target, path, level, value):
    """The child to try next: first the one where the point is already, which costs nothing more."""
    trees, node = target.trees, path.node[level]
    is_left = goes_left(trees, node, value)
    return trees.nodes[node].left if is_left == (path.visited[level] == 0) else trees.nodes[node].right


@inner
def _search(target, categories, x, low, high, class_index, norm, weight, path, point, example):
    """Find the nearest example of one row; whether there is one. `point` is scratch and starts as the row."""
    trees = target.trees
    best, found = np.inf, False
    level = 0
    path.node[0], path.visited[0], path.cost[0] = trees.root[0], 0, 0.0
    while level >= 0:
        node = path.node[level]
        feature = trees.nodes[node].feature
        if feature < 0:
            if target.class_index[node] != class_index:
                best, found = path.cost[level], True
                for j in range(point.shape[0]):
                    example[j] = point[j]
            level -= 1
            continue
        if path.visited[level] > 0:
            point[feature] = path.before[level]
        if path.visited[level] == 2:
            level -= 1
            continue
        child = _next_child(target, path, level, point[feature])
        path.visited[level] += 1
        path.before[level] = point[feature]
        value = _step(target, categories, child, x[feature], point[feature], low[feature], high[feature])
        if value == np.inf:
            continue
        categorical = trees.nodes[node].category_start >= 0
        price = _price(norm, weight[feature], value - x[feature], categorical)
        before = _price(norm, weight[feature], point[feature] - x[feature], categorical)
        cost = _cost(norm, weight, x, point, feature, price, before, path.cost[level], categories.size)
        if cost < best or not found:  # a cost may be infinite
            point[feature] = value
            level += 1
            path.node[level], path.visited[level], path.cost[level] = child, 0, cost
    return found


@kernel(about="the exact attack on one tree", seconds=0.7)
def attack_rows(target, categories, X, low, high, moves, class_index, norm, weight, path, point, found, X_adv):
    """For each row, find the nearest point in reach that the tree gives another class than `class_index`.

    low, high : float64 (row, feature), the reach. moves : bool per row, whether the row may be moved at all.
    found : bool per row. X_adv : float64 (row, feature), the examples; untouched where there is none.
    """
    for row in range(X.shape[0]):
        for j in range(X.shape[1]):
            point[j] = X[row, j]
        if target.class_index[find_leaf(target.trees, X, row, 0)] != class_index[row]:
            found[row] = True
            for j in range(X.shape[1]):
                X_adv[row, j] = X[row, j]
        elif moves[row]:
            found[row] = _search(
                target,
                categories,
                X[row],
                low[row],
                high[row],
                class_index[row],
                norm,
                weight,
                path,
                point,
                X_adv[row],
            )
