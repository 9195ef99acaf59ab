"""The splits of Chen et al. (2019): a threshold between two neighbouring values, scored by what an attacker does there.

The rows whose reach meets both sides of a threshold are ambiguous; together they are the paper's ambiguity set. The
attacker's answer is either the worst of four cases (nobody moves, all ambiguous rows go left, all go right, all change
sides), or he moves ambiguous rows one by one. The rows themselves go down the tree by their own values.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64

from hardwood._kernels.compiling import inner, kernel
from hardwood._kernels.grow.criteria import gain
from hardwood._kernels.grow.nodes import draw_features, is_open
from hardwood._kernels.grow.orders import CLASS_BIT, GROUP, ID_MASK

UP, DOWN, OWN = 0, 1, 2  # where a row may be: moved up, moved down, at its own value


class ChenThreat(NamedTuple):
    """How far each class can be moved, and how the attacker answers."""

    shift: np.ndarray  # float64 (feature, up or down, class)
    greedy: bool


class Tally(NamedTuple):
    """What lies left of a threshold while it moves on."""

    left: np.ndarray  # float64 (where, class): weights, or rows where all of a class weigh the same
    reached: np.ndarray  # int64 (up or down, class): the first sample of the order that does not


def make_tally() -> Tally:
    """Allocate."""
    return Tally(left=np.zeros((3, 2)), reached=np.zeros((2, 2), dtype=np.int64))


@inner
def _weight_of(weight, sample):
    """1 where all of a class weigh the same."""
    if weight.shape[0] == 0:
        return 1.0
    return weight[sample]


@inner
def _advance(samples, order, feature, end, threshold, shift, tally):
    """Add the samples that are left of the threshold when they are moved up, or down."""
    X, weight, left, reached = samples.X, samples.weight, tally.left, tally.reached
    for move in range(2):
        for class_index in range(2):
            k = reached[move, class_index]
            while k < end:
                sample = int64(order[k] & ID_MASK)
                if int64(order[k] >> CLASS_BIT) == class_index:
                    if X[sample, feature] + shift[feature, move, class_index] > threshold:
                        break
                    left[move, class_index] += _weight_of(weight, sample)
                k += 1
            reached[move, class_index] = k


@inner
def _worst_of_four(left, weights, here, criterion, enough):
    """The least gain of the four cases, or something not above `enough`."""
    worst = np.inf
    for case in range(4):
        zero, one = left[OWN, 0], left[OWN, 1]
        if case == 3:
            zero, one = left[UP, 0] + left[DOWN, 0] - zero, left[UP, 1] + left[DOWN, 1] - one
        elif case > 0:
            zero, one = left[case - 1, 0], left[case - 1, 1]
        score = gain(criterion, 0.0, zero * weights[0], one * weights[1], here.zero, here.one)
        worst = score if score < worst else worst
        if worst <= enough:
            break
    return worst


@inner
def _move_greedily(left, weights, here, criterion):
    """The gain after ambiguous rows have moved one by one, always the one that brings both sides' class mix nearest.

    With `a` of `n_zero` zeros and `b` of `n_one` ones on the left, the mix is the same where the gap
    `a n_one - b n_zero` is 0. A zero changes the gap by `n_one`, a one by `n_zero`; of two that are equally good the
    zero goes. The same move is made again and again until the gap is less than a step, so all of them are made at once.
    """
    n_zero, n_one = int64(np.rint(here.zero / weights[0])), int64(np.rint(here.one / weights[1]))
    a, b = int64(left[OWN, 0]), int64(left[OWN, 1])
    while True:
        gap = a * n_one - b * n_zero
        size = abs(gap)
        richer = gap > 0  # in zeros, on the left: zeros go right, ones left
        zeros = a - int64(left[UP, 0]) if richer else int64(left[DOWN, 0]) - a
        ones = int64(left[DOWN, 1]) - b if richer else b - int64(left[UP, 1])
        moves_zero = zeros > 0 and (ones == 0 or abs(size - n_one) <= abs(size - n_zero))
        step, available = (n_one, zeros) if moves_zero else (n_zero, ones)
        if available == 0 or abs(size - step) >= size:
            break
        times = size // step if size > step else int64(1)
        times = times if times < available else available
        times = times if richer else -times
        if moves_zero:
            a -= times
        else:
            b += times
    return gain(criterion, 0.0, a * weights[0], b * weights[1], here.zero, here.one)


@inner
def _scan(samples, order, feature, weights, here, limits, threat, tally, floor):
    """Best threshold of a node on one feature: (gain, index of the first sample on the right, or -1).

    The index is -1 where no threshold gains more than `floor`.
    """
    X, weight, left, reached = samples.X, samples.weight, tally.left, tally.reached
    best, best_first_right = floor, int64(-1)
    start, end, criterion = here.start, here.end, limits.criterion
    for class_index in range(2):
        left[OWN, class_index] = 0.0
        for move in range(2):
            left[move, class_index] = 0.0
            reached[move, class_index] = start
    for first_right in range(start + 1, end):
        before, after = order[first_right - 1], order[first_right]
        sample = int64(before & ID_MASK)
        left[OWN, int64(before >> CLASS_BIT)] += _weight_of(weight, sample)
        if not after & GROUP or first_right - start < limits.min_leaf or end - first_right < limits.min_leaf:
            continue
        low, high = X[sample, feature], X[int64(after & ID_MASK), feature]
        middle = 0.5 * low + 0.5 * high
        threshold = middle if low <= middle < high else low
        _advance(samples, order, feature, end, threshold, threat.shift, tally)
        if threat.greedy:
            score = _move_greedily(left, weights, here, criterion)
        else:
            score = _worst_of_four(left, weights, here, criterion, best)
        if score > best:
            best, best_first_right = score, first_right
    return best, best_first_right


@inner
def _class_weights(weight, kinds):
    """What a row of either class weighs; 1 where the rows have weights of their own."""
    if weight.shape[0] == 0:
        return kinds.weight[0], kinds.weight[2]
    return 1.0, 1.0


@kernel(about="the split search of Chen et al.", seconds=0.6)
def search(samples, slots, threat, limits, tree, node, first, last, features, tally, found):
    """Find the best splits of `node` and those that follow it, one for each record of `found`.

    Tries the features `first` to `last` in the order drawn. `tree` and `found` are `Splits`.
    """
    weights, nodes = _class_weights(samples.weight, samples.kinds), tree.nodes
    for row in range(found.nodes.shape[0]):
        here, top = nodes[node + row], found.nodes[row]
        top.feature, top.orientation, top.gain = -1, 0, 0.0
        if not is_open(nodes, limits, node + row):
            continue
        draw_features(here.seed, limits.max_features, features)
        for k in range(first, last):
            if top.feature >= 0 and k >= limits.max_features:
                break
            feature = features[k]
            order = samples.orders[slots[feature, 0]]
            score, first_right = _scan(samples, order, feature, weights, here, limits, threat, tally, top.gain)
            if first_right >= 0:
                top.feature, top.first_right, top.gain = feature, first_right, score
