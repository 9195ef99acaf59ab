"""Growing one tree: evaluate a node, split it, evaluate its children, until nothing is left to split.

The caller (`grow/tree.py`) owns all arrays. `grow` returns when the frontier is empty, when the node array is full (the
caller enlarges it and calls again), or when the next node is large enough to be worth the caller's threads.
"""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.categories import Partition
from hardwood._kernels.compiling import inner, kernel, part
from hardwood._kernels.nominal import category_side, is_categorical, lay_sides, remember, search_categories, settle_idle
from hardwood._kernels.orders import CLASS_BIT, ID_MASK, position
from hardwood._kernels.partitioning import partition
from hardwood._kernels.scanning import scan_counts, scan_weights

DONE, FULL, LARGE = 0, 1, 2

# One record instead of many arrays: what a kernel is handed is what it has to be compiled for.
NODE = np.dtype(
    [
        ("feature", np.int64),  # the split found; -1 where none is worth it
        ("threshold", np.float64),
        ("orientation", np.int64),
        ("cut", np.int64),  # where the split divides its order (numerical)
        ("gain", np.float64),
        ("left", np.int64),  # the right child is the next node; -1 while unsplit
        ("parent", np.int64),
        ("depth", np.int64),
        ("start", np.int64),  # the node's samples are orders[:, start:end]
        ("end", np.int64),
        ("zero", np.float64),  # weight of class 0, of class 1, and rows
        ("one", np.float64),
        ("count", np.float64),
        ("seed", np.uint64),
    ]
)


class Samples(NamedTuple):
    """The training samples. With rho < 1 there are up to two samples per row; ids from n on are those that stay."""

    X: np.ndarray
    orders: np.ndarray  # uint32 (slot, sample), see orders.py
    weight: np.ndarray  # float64 per id; empty where class and kind say it all
    class_weight: np.ndarray  # float64 (class, kind)
    class_count: np.ndarray  # float64 (class, kind): what part of a row a sample is
    tied: np.ndarray  # bool per slot: whether many of its entries share a group
    side: np.ndarray  # uint32, a bit per id: scratch, which child a sample goes to; small enough to stay in cache


class Moves(NamedTuple):
    """What the attacker can do, per feature."""

    shift: np.ndarray  # float64 (feature, orientation, class)
    size: np.ndarray  # float64 per feature: the largest finite shift
    slots: np.ndarray  # int64 (feature, orientation)


class Limits(NamedTuple):
    """When to stop, and how to choose."""

    criterion: int
    max_depth: int
    min_split: float
    min_leaf: float  # 0: any child will do
    min_gain: float  # weight times impurity decrease
    max_features: int
    max_leaves: int
    best_first: bool


class Workspace(NamedTuple):
    """Scratch for one thread."""

    features: np.ndarray  # int64: the features in the order they are tried
    goes_left: np.ndarray  # uint8 per category
    counts: np.ndarray  # int64 (block + 1, 4); the first row stays 0
    bounds: np.ndarray  # float64 per block
    tally: np.ndarray  # float64 (side, class, kind, [rows, weight])
    spill: np.ndarray  # uint32 per sample
    partition: Partition | None  # None for a table without categorical features


class Frontier(NamedTuple):
    """The nodes still to be split: a heap, and how many there are."""

    heap: np.ndarray  # int64
    sizes: np.ndarray  # int64: nodes, frontier, leaves


@part
def _mix(state):
    """One step of splitmix64."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@part
def _draw_features(seed, n_features, max_features, features):
    """Put the features in the order they are tried: as they come, or shuffled by the node's own seed."""
    for i in range(n_features):
        features[i] = i
    if max_features < n_features:
        for i in range(n_features - 1):
            seed = _mix(seed + np.uint64(0x9E3779B97F4A7C15))
            j = i + np.int64(seed % np.uint64(n_features - i))
            features[i], features[j] = features[j], features[i]


@part
def _is_open(nodes, limits, node):
    """Whether the node may be split at all."""
    here = nodes[node]
    return (
        here.depth < limits.max_depth
        and here.count >= limits.min_split
        and here.count >= 2.0 * limits.min_leaf
        and here.zero > 0.0
        and here.one > 0.0
    )


@part
def _threshold(X, order, shift, here):
    """Halfway between the samples on either side of the cut.

    A sample that reaches the node reaches into its interval (low, high], so only those that the attacker would move
    away from the cut can sit beyond it: class 1 below and class 0 above, in orientation 0. A cut that had nothing
    else on one side would have the wrong orientation. So both neighbours of a cut that gains lie inside, and nothing
    has to be clipped.
    """
    low = position(X, shift, here.feature, here.orientation, order[here.cut - 1])
    high = position(X, shift, here.feature, here.orientation, order[here.cut])
    middle = 0.5 * low + 0.5 * high
    return middle if low <= middle < high else low


@inner
def _search(samples, moves, categories, limits, nodes, node, first, last, work):
    """Best split over `work.features[first:last]`: (gain, feature, orientation, cut).

    A categorical winner's set of categories goes into `work.goes_left`.
    """
    best, best_feature, best_orientation, best_cut = 0.0, np.int64(-1), np.int64(0), np.int64(-1)
    here = nodes[node]
    start, end, zero, one, rows = here.start, here.end, here.zero, here.one, here.count
    criterion, min_leaf = limits.criterion, limits.min_leaf
    n = samples.X.shape[0]
    class_weight, class_count = samples.class_weight, samples.class_count
    weights = (class_weight[0, 0], class_weight[0, 1], class_weight[1, 0], class_weight[1, 1])
    parts = (class_count[0, 0], class_count[0, 1], class_count[1, 0], class_count[1, 1])
    for k in range(first, last):
        if best_feature >= 0 and k >= limits.max_features:
            break
        feature = work.features[k]
        if is_categorical(categories, feature):
            score, orientation = search_categories(
                categories, samples, moves, limits, nodes, node, feature, best, work.partition, work.goes_left
            )
            if score > best:
                best, best_feature, best_orientation, best_cut = score, feature, orientation, np.int64(-1)
            continue
        both = moves.slots[feature, 0] == moves.slots[feature, 1]
        for orientation in range(1 if both else 2):
            sign = 0.0 if both else 1.0 - 2.0 * orientation
            slot = moves.slots[feature, orientation]
            if samples.weight.shape[0]:
                score, cut = scan_weights(
                    samples.orders, slot, start, end, n, samples.weight, parts, zero, one, rows, sign, criterion,
                    min_leaf, best,
                )  # fmt: skip
            else:
                score, cut = scan_counts(
                    samples.orders, slot, start, end, n, weights, parts, zero, one, rows, sign, criterion, min_leaf,
                    best, work.counts, work.bounds,
                )  # fmt: skip
            if cut >= 0:
                best, best_feature, best_orientation, best_cut = score, feature, np.int64(orientation), cut
    return best, best_feature, best_orientation, best_cut


@inner
def _settle(samples, moves, categories, limits, nodes, frontier, node, score, feature, orientation, cut, goes_left):
    """Record the split that was found and put the node on the frontier, if the gain is worth it."""
    if feature < 0 or score < limits.min_gain:
        return
    here = nodes[node]
    here.feature = feature
    here.orientation = orientation
    here.gain = score
    here.cut = cut
    if is_categorical(categories, feature):
        remember(categories, node, goes_left)
    else:
        order = samples.orders[moves.slots[feature, orientation]]
        here.threshold = _threshold(samples.X, order, moves.shift, here)
    heap = frontier.heap
    at = frontier.sizes[1]
    frontier.sizes[1] += 1
    while at > 0 and _before(nodes, limits, node, heap[(at - 1) // 2]):
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = node


@part
def _before(nodes, limits, a, b):
    """Whether node a leaves the frontier before node b: by gain, or the newest first (depth first)."""
    if limits.best_first and nodes[a].gain != nodes[b].gain:
        return nodes[a].gain > nodes[b].gain
    return a > b


@part
def _pop(nodes, limits, frontier):
    heap = frontier.heap
    top = heap[0]
    frontier.sizes[1] -= 1
    size = frontier.sizes[1]
    node = heap[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _before(nodes, limits, heap[child + 1], heap[child]):
            child += 1
        if not _before(nodes, limits, heap[child], node):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = node
    return top


@part
def _send(samples, moves, categories, nodes, node, work):
    """Mark which child every sample of a node goes to and add up the children's weights; how many go left."""
    here = nodes[node]
    n = samples.X.shape[0]
    order = samples.orders[moves.slots[here.feature, here.orientation]]
    tally = work.tally
    categorical = is_categorical(categories, here.feature)
    if categorical:
        lay_sides(categories, nodes, node, work.partition)
    for cell in range(tally.size):
        tally.flat[cell] = 0.0
    n_left = 0
    for i in range(here.start, here.end):
        sample = np.int64(order[i] & ID_MASK)
        label = np.int64(order[i] >> CLASS_BIT)
        kind = np.int64(sample >= n)
        side = np.int64(i >= here.cut)
        if categorical:
            side = category_side(categories, samples.X[sample - n * kind, here.feature], label, kind)
        word, bit = np.uint64(sample >> 5), np.uint32(1) << np.uint32(sample & 31)
        samples.side[word] = samples.side[word] | bit if side else samples.side[word] & ~bit
        n_left += 1 - side
        tally[side, label, kind, 0] += 1.0
        if samples.weight.shape[0]:
            tally[side, label, kind, 1] += samples.weight[sample]
    for side in range(2):
        child = nodes[here.left + side]
        child.zero = child.one = child.count = 0.0
        for kind in range(2):
            zeros, ones = tally[side, 0, kind, 0], tally[side, 1, kind, 0]
            child.count += zeros * samples.class_count[0, kind] + ones * samples.class_count[1, kind]
            if samples.weight.shape[0]:
                child.zero += tally[side, 0, kind, 1]
                child.one += tally[side, 1, kind, 1]
            else:
                child.zero += zeros * samples.class_weight[0, kind]
                child.one += ones * samples.class_weight[1, kind]
    return n_left


@inner
def _split(samples, moves, categories, limits, nodes, frontier, node, work):
    """Make a frontier node's two children; whether their samples still have to be partitioned."""
    here = nodes[node]
    here.left = frontier.sizes[0]
    frontier.sizes[0] += 2
    frontier.sizes[2] += 1
    n_left = _send(samples, moves, categories, nodes, node, work)
    for side in range(2):
        child = nodes[here.left + side]
        child.feature = -1
        child.left = -1
        child.parent = node
        child.depth = here.depth + 1
        child.seed = _mix(here.seed + np.uint64(side + 1))
        child.start = here.start + side * n_left
        child.end = here.end if side else here.start + n_left
    if is_categorical(categories, here.feature):
        left, right = nodes[here.left], nodes[here.left + 1]
        settle_idle(categories, node, left.zero + left.one >= right.zero + right.one)
    return _is_open(nodes, limits, here.left) or _is_open(nodes, limits, here.left + 1)


@inner
def _divide(samples, moves, categories, nodes, node, first, last, spill):
    """Partition the orders of features `first` to `last` between a node's children."""
    here = nodes[node]
    for feature in range(first, last):
        own = feature == here.feature and not is_categorical(categories, feature)
        for orientation in range(1 if moves.slots[feature, 0] == moves.slots[feature, 1] else 2):
            if own and orientation == here.orientation:
                continue  # the cut divides this order already
            slot = moves.slots[feature, orientation]
            order = samples.orders[slot]
            partition(order, here.start, here.end, samples.side, spill, samples.tied[slot])


@kernel
def grow(samples, moves, categories, limits, nodes, frontier, large, work):
    """Split nodes until done, or until the caller is needed: (reason, node).

    Starts with the root where that has not been evaluated.
    """
    n_features = samples.X.shape[1]
    first_child, n_children = np.int64(0), np.int64(frontier.sizes[0] == 1 and frontier.sizes[1] == 0)
    while True:
        for node in range(first_child, first_child + n_children):
            if _is_open(nodes, limits, node):
                _draw_features(nodes[node].seed, n_features, limits.max_features, work.features)
                score, feature, orientation, cut = _search(
                    samples, moves, categories, limits, nodes, node, np.int64(0), n_features, work
                )
                _settle(
                    samples,
                    moves,
                    categories,
                    limits,
                    nodes,
                    frontier,
                    node,
                    score,
                    feature,
                    orientation,
                    cut,
                    work.goes_left,
                )
        n_children = np.int64(0)
        if frontier.sizes[1] == 0 or frontier.sizes[2] >= limits.max_leaves:
            return DONE, np.int64(-1)
        if frontier.sizes[0] + 2 > nodes.shape[0]:
            return FULL, np.int64(-1)
        node = _pop(nodes, limits, frontier)
        if nodes[node].end - nodes[node].start >= large:
            return LARGE, node
        if _split(samples, moves, categories, limits, nodes, frontier, node, work):
            _divide(samples, moves, categories, nodes, node, np.int64(0), n_features, work.spill)
            first_child, n_children = nodes[node].left, np.int64(2)


# The same steps one by one, for a caller that shares a large node out among threads.


@kernel
def search(samples, moves, categories, limits, nodes, node, first, last, work):
    """Best split of a node over features `first` to `last` in the order drawn: (gain, feature, orientation, cut)."""
    if not _is_open(nodes, limits, node):
        return 0.0, np.int64(-1), np.int64(0), np.int64(-1)
    _draw_features(nodes[node].seed, samples.X.shape[1], limits.max_features, work.features)
    return _search(samples, moves, categories, limits, nodes, node, first, last, work)


@kernel
def settle(samples, moves, categories, limits, nodes, frontier, node, score, feature, orientation, cut, goes_left):
    """Record the split that was found."""
    _settle(samples, moves, categories, limits, nodes, frontier, node, score, feature, orientation, cut, goes_left)


@kernel
def split(samples, moves, categories, limits, nodes, frontier, node, work):
    """Make a node's two children; whether their samples still have to be partitioned."""
    return _split(samples, moves, categories, limits, nodes, frontier, node, work)


@kernel
def divide(samples, moves, categories, nodes, node, first, last, work):
    """Partition the orders of features `first` to `last` between a node's children."""
    _divide(samples, moves, categories, nodes, node, first, last, work.spill)
