"""Exact search for the worst an attacker can do to one row of an ensemble.

Each tree contributes one leaf; leaves of different trees go together iff their boxes and the row's own box share a
point. The search maximises a sum of leaf values (a margin against the true class) over such tuples of leaves:

* collect the leaves of each tree that the row's box reaches, keeping only the bounds that cut the box;
* drop leaves that cannot be part of a sum above the target, even with every other tree at its best;
* depth first: take each tree's best leaf that is still alive. If these go together, that is the best of this branch.
If not,
  some two of them conflict: either one of the two is chosen (and whatever conflicts with it dies), or it is not.

Boxes have the Helly property (boxes that meet pairwise have a common point), so pairwise conflicts kept as bit sets are
enough for numerical features. For categorical ones they are only necessary; tuples are checked as a whole in any case.

Sums are added in float64 here and in the model's own precision by `predict`. Therefore a tuple whose sum is within
`doubt` of the target is evaluated as the model does, and a branch is given up only below the target minus `doubt`.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, part
from hardwood._kernels.predicting import Trees, in_left_set

FOUND, NONE, UNFINISHED, NO_ROOM = 0, 1, 2, 3


class Model(NamedTuple):
    """The ensemble; leaves are numbered tree by tree."""

    trees: Trees
    value: np.ndarray  # float64 (node, output)
    base_score: np.ndarray  # float64 (output)
    single: bool  # float32 sums
    divisor: float
    cut: float
    leaf_of_node: np.ndarray  # int64 per node; -1 for inner nodes
    bound_start: np.ndarray  # int64 per leaf + 1: its bounds are bound_*[start:end]
    bound_feature: np.ndarray  # int64
    bound_low: np.ndarray  # float64: low < x <= high
    bound_high: np.ndarray
    bound_set: np.ndarray  # int64: for a categorical feature, offset of its bool set in `sets`; -1 = numerical
    sets: np.ndarray  # bool
    category_start: np.ndarray  # int64 per feature: offset of its categories in a row's `allowed`
    n_categories: np.ndarray  # int64 per feature; 0 = numerical


class Box(NamedTuple):
    """What one row can become: low < x <= high, and the categories allowed."""

    low: np.ndarray  # float64 per feature
    high: np.ndarray
    allowed: np.ndarray  # bool, the categories of all categorical features


class Leaves(NamedTuple):
    """The reachable leaves of one row, tree by tree, best first. Filled by `collect`."""

    node: np.ndarray  # int64 per leaf
    value: np.ndarray  # float64 per leaf: the objective
    cost: np.ndarray  # float64 per leaf: its distance, in the L-infinity norm
    start: np.ndarray  # int64 per leaf: its bounds among the row's
    end: np.ndarray
    bound_feature: np.ndarray  # int64 per bound
    bound_low: np.ndarray
    bound_high: np.ndarray
    bound_set: np.ndarray
    tree_start: np.ndarray  # int64 per tree + 1
    sizes: np.ndarray  # int64 (2): leaves, bounds


class Search(NamedTuple):
    """The state of a search, and scratch."""

    alive: np.ndarray  # uint64 (level, word)
    conflict: np.ndarray  # uint64 (leaf, word): leaves that do not go with it
    known: np.ndarray  # bool per leaf: whether its conflicts have been worked out
    chosen: np.ndarray  # int64 per level: the leaf that was chosen there
    fixed: np.ndarray  # bool per tree
    top: np.ndarray  # int64 per tree: its best leaf alive
    low: np.ndarray  # float64 per feature: a running box
    high: np.ndarray
    allowed: np.ndarray  # bool: the running categories
    owner_low: np.ndarray  # int64 per feature: the tree that set the bound; -1 = the row's own
    owner_high: np.ndarray
    output: np.ndarray  # float64 per output
    stack: np.ndarray  # int64: nodes to visit
    state: np.ndarray  # int64 (2): level, steps so far


@part
def _reaches(model, box, node, to_left):
    """Whether some point of the box goes to the left (right) child of a node."""
    feature = model.trees.feature[node]
    if model.trees.category_start[node] < 0:
        threshold = model.trees.threshold[node]
        return box.low[feature] < threshold if to_left else box.high[feature] > threshold
    for code in range(model.n_categories[feature]):
        if box.allowed[model.category_start[feature] + code] and in_left_set(model.trees, node, code) == to_left:
            return True
    return False


@part
def _keep_bounds(model, box, leaf, leaves, count):
    """Copy the bounds of a leaf that cut the row's box; the new number of bounds, or -1 if the leaf is out of reach."""
    for k in range(model.bound_start[leaf], model.bound_start[leaf + 1]):
        feature, low, high = model.bound_feature[k], model.bound_low[k], model.bound_high[k]
        if model.bound_set[k] < 0:
            if low >= box.high[feature] or high <= box.low[feature] or low >= high:
                return np.int64(-1)
            if low <= box.low[feature] and high >= box.high[feature]:
                continue
        else:
            some, every = False, True
            for code in range(model.n_categories[feature]):
                if box.allowed[model.category_start[feature] + code]:
                    some |= model.sets[model.bound_set[k] + code]
                    every &= model.sets[model.bound_set[k] + code]
            if not some:
                return np.int64(-1)
            if every:
                continue
        leaves.bound_feature[count] = feature
        leaves.bound_low[count] = low
        leaves.bound_high[count] = high
        leaves.bound_set[count] = model.bound_set[k]
        count += 1
    return count


@inner
def _sort_leaves(leaves, first, last):
    """Put the leaves of one tree in decreasing order of value (insertion sort)."""
    for i in range(first + 1, last):
        node, value, cost, start, end = leaves.node[i], leaves.value[i], leaves.cost[i], leaves.start[i], leaves.end[i]
        j = i
        while j > first and leaves.value[j - 1] < value:
            leaves.node[j], leaves.value[j] = leaves.node[j - 1], leaves.value[j - 1]
            leaves.cost[j] = leaves.cost[j - 1]
            leaves.start[j], leaves.end[j] = leaves.start[j - 1], leaves.end[j - 1]
            j -= 1
        leaves.node[j], leaves.value[j], leaves.cost[j] = node, value, cost
        leaves.start[j], leaves.end[j] = start, end


@inner
def collect(model, box, rival, true, leaves, stack):
    """List the leaves that the box reaches; their value is output `rival` minus output `true` (-1: leave out).

    Returns the largest sum that could be if all leaves went together, or NaN if the arrays are too small.
    """
    n_leaves, n_bounds, total = 0, 0, 0.0
    for tree in range(model.trees.root.shape[0]):
        leaves.tree_start[tree] = n_leaves
        best = -np.inf
        stack[0] = model.trees.root[tree]
        depth = 1
        while depth > 0:
            depth -= 1
            node = stack[depth]
            leaf = model.leaf_of_node[node]
            if leaf < 0:
                if _reaches(model, box, node, True):
                    stack[depth] = model.trees.left[node]
                    depth += 1
                if _reaches(model, box, node, False):
                    stack[depth] = model.trees.right[node]
                    depth += 1
                continue
            width = model.bound_start[leaf + 1] - model.bound_start[leaf]
            if n_leaves >= leaves.node.shape[0] or n_bounds + width > leaves.bound_feature.shape[0]:
                return np.nan
            end = _keep_bounds(model, box, leaf, leaves, n_bounds)
            if end < 0:
                continue
            value = 0.0
            if rival >= 0:
                value += model.value[node, rival]
            if true >= 0:
                value -= model.value[node, true]
            leaves.node[n_leaves], leaves.value[n_leaves], leaves.cost[n_leaves] = node, value, 0.0
            leaves.start[n_leaves], leaves.end[n_leaves] = n_bounds, end
            best = max(best, value)
            n_bounds = end
            n_leaves += 1
        total += best
        _sort_leaves(leaves, leaves.tree_start[tree], n_leaves)
    leaves.tree_start[model.trees.root.shape[0]] = n_leaves
    leaves.sizes[0], leaves.sizes[1] = n_leaves, n_bounds
    return total


@inner
def _meets_sets(model, leaves, leaf, allowed):
    """Whether a leaf's categories meet the running ones."""
    for k in range(leaves.start[leaf], leaves.end[leaf]):
        if leaves.bound_set[k] >= 0:
            feature = leaves.bound_feature[k]
            some = False
            for code in range(model.n_categories[feature]):
                some |= allowed[model.category_start[feature] + code] and model.sets[leaves.bound_set[k] + code]
            if not some:
                return False
    return True


@inner
def _narrow(model, leaves, leaf, tree, search):
    """Cut the running box to a leaf's box; the feature on which nothing is left, or -1."""
    for k in range(leaves.start[leaf], leaves.end[leaf]):
        feature = leaves.bound_feature[k]
        if leaves.bound_set[k] < 0:
            if leaves.bound_low[k] >= search.high[feature] or leaves.bound_high[k] <= search.low[feature]:
                return feature
            if leaves.bound_low[k] > search.low[feature]:
                search.low[feature] = leaves.bound_low[k]
                search.owner_low[feature] = tree
            if leaves.bound_high[k] < search.high[feature]:
                search.high[feature] = leaves.bound_high[k]
                search.owner_high[feature] = tree
        else:
            some = False
            for code in range(model.n_categories[feature]):
                at = model.category_start[feature] + code
                search.allowed[at] &= model.sets[leaves.bound_set[k] + code]
                some |= search.allowed[at]
            if not some:
                return feature
    return np.int64(-1)


@inner
def _widen(model, leaves, leaf, box, search):
    """Undo what a leaf did to the running box: back to the row's own box on its features."""
    for k in range(leaves.start[leaf], leaves.end[leaf]):
        feature = leaves.bound_feature[k]
        search.low[feature], search.high[feature] = box.low[feature], box.high[feature]
        search.owner_low[feature] = search.owner_high[feature] = -1
        for code in range(model.n_categories[feature]):
            at = model.category_start[feature] + code
            search.allowed[at] = box.allowed[at]


@inner
def _find_conflicts(model, box, leaves, leaf, tree, search):
    """Work out which leaves do not go with this one: other leaves of its tree, and those whose boxes do not meet."""
    _narrow(model, leaves, leaf, tree, search)
    n_leaves = leaves.sizes[0]
    first, last = leaves.tree_start[tree], leaves.tree_start[tree + 1]
    # Arrays are fetched from their named tuples once: inside a loop each fetch would count references.
    start, end, feature = leaves.start, leaves.end, leaves.bound_feature
    bound_low, bound_high, low, high = leaves.bound_low, leaves.bound_high, search.low, search.high
    conflict, has_sets = search.conflict, model.sets.shape[0] > 0
    for word in range((n_leaves + 63) >> 6):
        bits = np.uint64(0)
        for other in range(word << 6, min((word + 1) << 6, n_leaves)):
            meets = other < first or other >= last or other == leaf
            if meets:
                for k in range(start[other], end[other]):
                    j = feature[k]
                    meets &= (bound_low[k] < high[j]) & (bound_high[k] > low[j])
                if has_sets and meets:
                    meets = _meets_sets(model, leaves, other, search.allowed)
            if not meets:
                bits |= np.uint64(1) << np.uint64(other & 63)
        conflict[leaf, word] = bits
    search.known[leaf] = True
    _widen(model, leaves, leaf, box, search)


@inner
def _next_alive(alive, level, leaf, last):
    """The first leaf from `leaf` on that is alive; `last` if there is none."""
    while leaf < last:
        word = alive[level, leaf >> 6] >> np.uint64(leaf & 63)
        if word != 0:
            while word & np.uint64(1) == 0:
                word >>= np.uint64(1)
                leaf += 1
            return min(leaf, last)
        leaf = ((leaf >> 6) + 1) << 6
    return last


@inner
def _find_tops(leaves, n_trees, search, level):
    """Each tree's best leaf alive, and the sum of their values; -inf if a tree has none left."""
    total = 0.0
    alive, tops, value, tree_start = search.alive, search.top, leaves.value, leaves.tree_start
    for tree in range(n_trees):
        last = tree_start[tree + 1]
        top = _next_alive(alive, level, tree_start[tree], last)
        if top == last:
            return -np.inf
        tops[tree] = top
        total += value[top]
    return total


@part
def _loss(leaves, search, level, tree):
    """How much the sum falls at least if a tree does not get its best leaf."""
    last = leaves.tree_start[tree + 1]
    following = _next_alive(search.alive, level, search.top[tree] + 1, last)
    return np.inf if following == last else leaves.value[search.top[tree]] - leaves.value[following]


@inner
def _find_conflict(model, box, leaves, n_trees, search, level):
    """Two trees whose best leaves do not go together: the one that loses more without its leaf; -1 if all go together.

    Leaves the running box at the common box of the best leaves in the second case, at the row's own in the first.
    """
    clash, feature = np.int64(-1), np.int64(-1)
    done = 0
    for tree in range(n_trees):
        if leaves.end[search.top[tree]] > leaves.start[search.top[tree]]:
            feature = _narrow(model, leaves, search.top[tree], tree, search)
            if feature >= 0:
                clash = np.int64(tree)
                done = tree + 1
                break
    if clash < 0:
        return clash
    best, best_loss = clash, _loss(leaves, search, level, clash)
    too_low = False
    for k in range(leaves.start[search.top[clash]], leaves.end[search.top[clash]]):
        too_low |= leaves.bound_feature[k] == feature and leaves.bound_high[k] <= search.low[feature]
    for tree in range(done - 1):
        if search.fixed[tree]:
            continue
        if model.n_categories[feature]:
            # Sets that meet pairwise may have nothing in common: any tree that narrowed this one may be to blame.
            to_blame = False
            for k in range(leaves.start[search.top[tree]], leaves.end[search.top[tree]]):
                to_blame |= leaves.bound_feature[k] == feature
        else:
            # The tree whose bound shuts this one out.
            to_blame = tree == (search.owner_low[feature] if too_low else search.owner_high[feature])
        if to_blame:
            loss = _loss(leaves, search, level, tree)
            if loss > best_loss or search.fixed[best]:
                best, best_loss = np.int64(tree), loss
    for tree in range(done):
        _widen(model, leaves, search.top[tree], box, search)
    return best


@inner
def evaluate(model, leaves, n_trees, search):
    """The class that the model gives to the best leaves, added up as the model does it."""
    for k in range(search.output.shape[0]):
        search.output[k] = model.base_score[k]
    for tree in range(n_trees):
        node = leaves.node[search.top[tree]]
        for k in range(search.output.shape[0]):
            total = search.output[k] + model.value[node, k]
            search.output[k] = np.float64(np.float32(total)) if model.single else total
    for k in range(search.output.shape[0]):
        ratio = search.output[k] / model.divisor
        search.output[k] = np.float64(np.float32(ratio)) if model.single else ratio
    if search.output.shape[0] == 1:
        return np.int64(search.output[0] > model.cut)
    best = np.int64(0)
    for k in range(1, search.output.shape[0]):
        if search.output[k] > search.output[best]:
            best = np.int64(k)
    return best


@inner
def prepare(box, leaves, n_trees, search, total, target, radius):
    """Start a search for a sum of at least `target` among leaves within `radius`: no others are alive."""
    for j in range(search.low.shape[0]):
        search.low[j], search.high[j] = box.low[j], box.high[j]
        search.owner_low[j] = search.owner_high[j] = -1
    for k in range(search.allowed.shape[0]):
        search.allowed[k] = box.allowed[k]
    n_leaves = leaves.sizes[0]
    alive, value, cost = search.alive, leaves.value, leaves.cost
    for word in range((n_leaves + 63) >> 6):
        alive[0, word] = 0
    for tree in range(n_trees):
        search.fixed[tree] = False
        first, last = leaves.tree_start[tree], leaves.tree_start[tree + 1]
        for leaf in range(first, last):
            if total - value[first] + value[leaf] >= target and cost[leaf] <= radius:
                alive[0, leaf >> 6] |= np.uint64(1) << np.uint64(leaf & 63)
    search.state[0] = search.state[1] = 0


@part
def _choose(model, box, leaves, tree, search, level):
    """Go down a level: choose the best leaf of a tree, and whatever conflicts with it dies."""
    leaf = search.top[tree]
    if not search.known[leaf]:
        _find_conflicts(model, box, leaves, leaf, tree, search)
    for word in range((leaves.sizes[0] + 63) >> 6):
        search.alive[level + 1, word] = search.alive[level, word] & ~search.conflict[leaf, word]
    search.chosen[level] = leaf
    search.fixed[tree] = True


@part
def _go_back(leaves, n_trees, search, level):
    """Go up a level: the leaf that was chosen there is now ruled out."""
    leaf = search.chosen[level]
    search.alive[level, leaf >> 6] &= ~(np.uint64(1) << np.uint64(leaf & 63))
    for tree in range(n_trees):
        if leaves.tree_start[tree] <= leaf < leaves.tree_start[tree + 1]:
            search.fixed[tree] = False


@inner
def seek(model, box, leaves, n_trees, search, target, label, max_steps):
    """Look for leaves that go together, sum up to `target` or more, and get another class than `label` from the model.

    FOUND: they are `search.top`, their common box is `search.low`, `search.high`, `search.allowed`. NONE: there are
    none. UNFINISHED: after `max_steps`; call again to go on.
    """
    level = search.state[0]
    steps = 0
    while level >= 0:
        if steps == max_steps:
            search.state[0] = level
            return UNFINISHED
        steps += 1
        search.state[1] += 1
        total = _find_tops(leaves, n_trees, search, level)
        tree = np.int64(-1)
        if total >= target:
            tree = _find_conflict(model, box, leaves, n_trees, search, level)
            if tree < 0:
                if evaluate(model, leaves, n_trees, search) != label:
                    search.state[0] = level
                    return FOUND
                # Within rounding of the target, and the model still says `label`: try without some leaf or other.
                for other in range(n_trees):
                    _widen(model, leaves, search.top[other], box, search)
                    if not search.fixed[other]:
                        tree = np.int64(other)
        if tree >= 0 and not search.fixed[tree]:
            _choose(model, box, leaves, tree, search, level)
            level += 1
        else:
            level -= 1
            if level >= 0:
                _go_back(leaves, n_trees, search, level)
    search.state[0] = level
    return NONE
