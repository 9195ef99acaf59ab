"""Growing one boosted tree on codes, against the certified loss.

A node holds every row that can reach it. A split divides them in three: those that can only go left, those that can go
both ways, and those that can only go right; the first two are the left child's rows, the last two the right child's,
and both children share one stretch of memory::

    entries:  ... node ... | only left | both | only right |
                             left child ------|
                                         right child ------|

Histograms are sums of integers, so they can be subtracted: with the rows `only` of the child with fewer of these,
counted, ``larger = parent - only`` and ``smaller = only + both``. The tree is grown depth first, the right child before
the left, so that entries and histograms are stacks. In ordered mode no row goes both ways.

The caller (`grow/boosting_trees.py`) owns all arrays. Over blocks, trees are grown level by level from the same parts:
`boosting_levels`.
"""

import numpy as np
from numpy import int64, uint32, uint64

from hardwood._kernels.compiling import inner, kernel
from hardwood._kernels.grow.boosting_categories import find_open, scan_categories, take_set, write_sides
from hardwood._kernels.grow.boosting_splits import Node, Split, clip, find_middle, judge, scan_hidden, scan_numbers
from hardwood._kernels.grow.boosting_tree import BLOCKED, FRESH, find_interval, find_state


@inner
def count(rows, columns, start, end, cells):
    """Add some rows to a histogram."""
    codes, group, gradients, entries = rows.codes, rows.group, rows.gradients, rows.entries
    counted, offset = columns.counted, columns.offset
    n_counted = uint64(counted.shape[0])
    for k in range(uint64(start), uint64(end)):
        row = uint64(entries[k])
        mine = uint64(group[row])
        gradient, hessian = gradients[row, 0], gradients[row, 1]
        for c in range(n_counted):
            column = uint64(counted[c])
            at = (uint64(offset[mine, column]) + uint64(codes[row, column])) << uint64(1)
            cells[at] += gradient
            cells[at + uint64(1)] += hessian


@inner
def _take_slot(tree):
    free = tree.free
    slot = free[free[0]]
    free[0] -= 1
    cells = tree.cells[slot]
    for cell in range(cells.shape[0]):
        cells[cell] = 0
    return slot


@inner
def _give_slot_back(tree, slot):
    if slot >= 0:
        tree.free[0] += 1
        tree.free[tree.free[0]] = slot


@inner
def _find_split(columns, categories, rule, tree, node):
    """Find the best split of a node by its histogram."""
    here = tree.nodes[node]
    cells = tree.cells[here.slot]
    gradient, hessian = here.gradient * rule.gradient_unit, here.hessian * rule.hessian_unit
    floor = judge(gradient, hessian, here.lower, here.upper, rule.l2) + rule.min_gain
    whole = Node(here.gradient, here.hessian, here.lower, here.upper)
    best = Split(floor, int64(-1), int64(0), int64(0), False, int64(0), int64(0))
    for k in range(columns.features.shape[0]):
        feature = columns.features[k]
        n_codes, first, second = columns.n_codes[feature], columns.first[feature, 0], columns.first[feature, 1]
        hides, fresh = columns.hides[feature], True
        if hides:
            state = find_state(tree.nodes, node, feature)
            if state == BLOCKED:
                continue
            fresh = state == FRESH
        if categories is not None and categories.n_categories[feature] > 0:
            find_open(feature, node, tree.nodes, tree.set_left, categories)
            best = scan_categories(
                cells, (first, second), n_codes, hides, fresh, feature, whole, rule, categories, best
            )
            continue
        begin, end = find_interval(tree.nodes, node, feature, n_codes - 1)
        if hides:
            firsts = (first, second, columns.first[feature, 2], columns.first[feature, 3])
            for direction in (int64(1), int64(-1)):
                best = scan_hidden(cells, firsts, n_codes, begin, end, fresh, feature, direction, whole, rule, best)
            continue
        for turn in range(1 + (first != second)):
            direction = int64(1 - 2 * turn) if first != second else int64(0)
            if rule.ordered and direction * tree.directions[feature] < 0:
                continue
            at = second if turn == 1 else first
            best = scan_numbers(cells, at, n_codes, begin, end, feature, direction, whole, rule, best)
    return best, floor


@inner
def _has_missing(columns, tree, node, feature):
    """Whether a row of a node can be missing in a feature."""
    cells = tree.cells[tree.nodes[node].slot]
    n_codes = columns.n_codes[feature]
    for k in range(2):
        first = columns.first[feature, k]
        if cells[2 * (first + n_codes) + 1] != 0:
            return True
    return columns.hides[feature]


@inner
def _write_split(columns, categories, tree, node, best):
    """Write down how a node is split: for numbers at a threshold in the middle of the empty cells behind the best."""
    here = tree.nodes[node]
    cells = tree.cells[here.slot]
    feature, cut = best.feature, best.cut
    n_codes, first, second = columns.n_codes[feature], columns.first[feature, 0], columns.first[feature, 1]
    left_of, right_of = tree.left_of[node], tree.right_of[node]
    hides = columns.hides[feature]
    fresh = not hides or find_state(tree.nodes, node, feature) == FRESH
    left_is_heavier = 2 * best.left_hessian >= here.hessian
    missing_left = best.missing_left if fresh and _has_missing(columns, tree, node, feature) else left_is_heavier
    here.feature, here.direction, here.missing_left = feature, best.direction, missing_left
    if categories is not None and categories.n_categories[feature] > 0:
        find_open(feature, node, tree.nodes, tree.set_left, categories)
        take_set(cells, (first, second), feature, cut, hides, categories)
        here.cut = -1
        is_hidden = hides and fresh
        write_sides(
            feature, n_codes, missing_left, left_is_heavier, is_hidden, categories, tree.set_left[node], left_of,
            right_of,
        )  # fmt: skip
        return
    low = high = first if best.direction > 0 else second
    shift = int64(0)
    if hides:
        shift = n_codes + 1
        high = columns.first[feature, 3 if best.direction > 0 else 2]
    if cut < n_codes - 1:  # else all numbers go left, and what is missing goes right
        _, end = find_interval(tree.nodes, node, feature, n_codes - 1)
        cut = find_middle(cells, low, high, shift, columns.thresholds[feature], cut, end)
    here.cut = cut
    for code in range(n_codes):
        left_of[code], right_of[code] = code <= cut, code > cut
        if hides:
            left_of[shift + code] = code <= cut or (fresh and missing_left)
            right_of[shift + code] = code > cut or (fresh and not missing_left)
    left_of[n_codes], right_of[n_codes] = missing_left, not missing_left


@inner
def _make_children(rule, tree, node, best, n_nodes):
    """Make a node's two children, with their values and without their rows."""
    nodes = tree.nodes
    here = nodes[node]
    here.left = n_nodes
    for side in range(2):
        child = nodes[n_nodes + side]
        child.feature = child.left = child.slot = -1
        child.parent, child.depth = node, here.depth + 1
        gradient = here.gradient - best.left_gradient if side else best.left_gradient
        hessian = here.hessian - best.left_hessian if side else best.left_hessian
        value = -gradient * rule.gradient_unit / (hessian * rule.hessian_unit + rule.l2)
        child.value = clip(value, here.lower, here.upper)
        child.cover = hessian * rule.hessian_unit
        child.lower, child.upper = here.lower, here.upper
        child.gradient = child.hessian = 0
        child.start = child.end = 0


@inner
def _keep_apart(left, right, direction):
    """Keep the values below two children on either side of the middle between theirs."""
    middle = 0.5 * left.value + 0.5 * right.value
    if direction > 0:
        left.upper = right.lower = middle
    else:
        left.lower = right.upper = middle


@inner
def split_node(columns, categories, rule, tree, node, n_nodes):
    """Split a node at the best split by its histogram, if that gains enough; whether it has children now."""
    here = tree.nodes[node]
    best, floor = _find_split(columns, categories, rule, tree, node)
    if best.feature < 0:
        return False
    here.gain = best.score - floor + rule.min_gain
    _write_split(columns, categories, tree, node, best)
    _make_children(rule, tree, node, best, n_nodes)
    if rule.ordered and columns.first[here.feature, 0] != columns.first[here.feature, 1]:
        tree.directions[here.feature] = best.direction
        _keep_apart(tree.nodes[n_nodes], tree.nodes[n_nodes + 1], best.direction)
    return True


@inner
def divide(rows, columns, rule, tree, node):
    """Divide a node's rows among its children, which come to lie behind it.

    Returns how many can only go left, and how many both ways.
    """
    here = tree.nodes[node]
    left, right = tree.nodes[here.left], tree.nodes[here.left + 1]
    codes, entries, spill, gradients = rows.codes, rows.entries, rows.spill, rows.gradients
    left_of, right_of = tree.left_of[node], tree.right_of[node]
    low, high = uint64(columns.columns[here.feature, 0]), uint64(columns.columns[here.feature, 1])
    write, n_right, n_both = uint64(here.end), uint64(0), uint64(0)
    last = uint64(spill.shape[0] - 1)
    lower_left = uint64(here.direction > 0)
    for k in range(uint64(here.start), uint64(here.end)):
        row = uint64(entries[k])
        can_left, can_right = left_of[uint64(codes[row, low])], right_of[uint64(codes[row, high])]
        if rule.ordered and can_left and can_right:  # the side that hurts
            can_left = uint64(rows.group[row]) != lower_left
            can_right = not can_left
        gradient, hessian = gradients[row, 0], gradients[row, 1]
        if can_left:
            left.gradient += gradient
            left.hessian += hessian
            if can_right:
                right.gradient += gradient
                right.hessian += hessian
                spill[last - n_both] = uint32(row)
                n_both += uint64(1)
            else:
                entries[write] = uint32(row)
                write += uint64(1)
        else:
            right.gradient += gradient
            right.hessian += hessian
            spill[n_right] = uint32(row)
            n_right += uint64(1)
    n_left = int64(write) - here.end
    for k in range(n_both):
        entries[write + k] = spill[last - k]
    for k in range(n_right):
        entries[write + n_both + k] = spill[k]
    left.start, right.start = here.end, here.end + n_left
    left.end = right.start + int64(n_both)
    right.end = left.end + int64(n_right)
    return n_left, int64(n_both)


@inner
def _is_open(rule, node):
    return node.depth < rule.max_depth and node.hessian * rule.hessian_unit >= 2.0 * rule.min_child_weight


@inner
def _share_histogram(rows, columns, rule, tree, node, n_left, n_both):
    """Give the children that can be split their histograms, the parent's among them."""
    nodes = tree.nodes
    here = nodes[node]
    slot = here.slot
    here.slot = -1
    left, right = nodes[here.left], nodes[here.left + 1]
    n_right = right.end - right.start - n_both
    left_is_smaller = n_left <= n_right
    smaller, larger = here.left + (1 - left_is_smaller), here.left + left_is_smaller
    if _is_open(rule, nodes[larger]):
        counted = _take_slot(tree)
        start = left.start if left_is_smaller else left.end
        count(rows, columns, start, start + (n_left if left_is_smaller else n_right), tree.cells[counted])
        cells, others = tree.cells[slot], tree.cells[counted]
        for cell in range(cells.shape[0]):
            cells[cell] -= others[cell]
        nodes[larger].slot = slot
        if _is_open(rule, nodes[smaller]):
            count(rows, columns, right.start, right.start + n_both, tree.cells[counted])
            nodes[smaller].slot = counted
        else:
            _give_slot_back(tree, counted)
    else:
        _give_slot_back(tree, slot)
        if _is_open(rule, nodes[smaller]):
            counted = _take_slot(tree)
            count(rows, columns, nodes[smaller].start, nodes[smaller].end, tree.cells[counted])
            nodes[smaller].slot = counted


@kernel(about="the grower of boosted trees", seconds=2.5)
def grow(rows, columns, categories, rule, tree):
    """Grow a tree from its root, which has been given its rows; how many nodes it has."""
    nodes, stack = tree.nodes, tree.stack
    n_nodes, waiting = int64(1), int64(0)
    root = nodes[0]
    root.gradient = root.hessian = 0
    for k in range(root.start, root.end):
        root.gradient += rows.gradients[rows.entries[k], 0]
        root.hessian += rows.gradients[rows.entries[k], 1]
    root.cover = root.hessian * rule.hessian_unit
    if _is_open(rule, root):
        root.slot = _take_slot(tree)
        count(rows, columns, root.start, root.end, tree.cells[root.slot])
        stack[0] = 0
        waiting = int64(1)
    while waiting > 0:
        waiting -= 1
        node = stack[waiting]
        here = nodes[node]
        if not split_node(columns, categories, rule, tree, node, n_nodes):
            _give_slot_back(tree, here.slot)
            here.slot = -1
            continue
        left = n_nodes
        n_nodes += 2
        if here.depth + 1 == rule.max_depth:
            _give_slot_back(tree, here.slot)
            here.slot = -1
            continue
        n_left, n_both = divide(rows, columns, rule, tree, node)
        _share_histogram(rows, columns, rule, tree, node, n_left, n_both)
        for child in range(left, left + 2):
            if nodes[child].slot >= 0:
                stack[waiting] = child
                waiting += 1
    return n_nodes


@kernel(about="the certified margins of boosting", seconds=0.4)
def bound_values(codes, columns, nodes, left_of, right_of, stack, output, low, high):
    """Add the lowest and the highest value among the leaves of a tree that each row can reach to one of its outputs."""
    for row in range(codes.shape[0]):
        least, most = np.inf, -np.inf
        stack[0] = 0
        waiting = 1
        while waiting > 0:
            waiting -= 1
            node = stack[waiting]
            here = nodes[node]
            while here.feature >= 0:
                lo, hi = codes[row, columns[here.feature, 0]], codes[row, columns[here.feature, 1]]
                if left_of[node, lo]:
                    if right_of[node, hi]:
                        stack[waiting] = here.left + 1
                        waiting += 1
                    node = here.left
                else:
                    node = here.left + 1
                here = nodes[node]
            least = here.value if here.value < least else least
            most = here.value if here.value > most else most
        low[row, output] += least
        high[row, output] += most
