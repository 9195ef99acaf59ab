"""What a split of many classes is worth once the attacker has answered, and what is remembered of the best one."""

from typing import NamedTuple

import numpy as np
from numpy import int64

from hardwood._kernels.compiling import inner, part
from hardwood._kernels.grow.criteria import ENTROPY, ERROR, LIFT, PLATEAU_WEIGHT, ROUNDING, round_off
from hardwood._kernels.grow.frame.nodes import EVERYBODY
from hardwood._kernels.grow.targets.answers import answer_entropy, answer_gini, is_levelled

# A bound this much below the best gain known cannot be a tie that rounding hides; and sums of purities are exact to
# some 1e-15 of themselves.
BOUND_SLACK = 1.0 - 1e-9
PURITY_SLACK = 1.0 - 1e-13


class Work(NamedTuple):
    """Scratch for one node: what is known of a cut, class by class."""

    total: np.ndarray  # float64: the weight of each class in the node,
    least: np.ndarray  # surely left of the cut,
    most: np.ndarray  # possibly left of it,
    move: np.ndarray  # and left of it once the attacker has answered
    answer: np.ndarray  # float64 (2): theta and mu of the last answer
    lows: np.ndarray  # int64 (class * statistic): sums over lower ends up to the cut,
    highs: np.ndarray  # over upper ends
    scale: np.ndarray  # float64: see `grow/general_sweep.py`
    takes: np.ndarray  # int64: what goes left of those that are movable, as in `nodes.Tree`


@part
def weigh_classes(sums, units, weights):
    """Write what each class weighs: its rows, or its weight where it has one beside them."""
    if sums.shape[0] == weights.shape[0]:
        for k in range(weights.shape[0]):
            weights[k] = sums[k] * units.weight[k]
    else:
        for k in range(weights.shape[0]):
            weights[k] = sums[2 * k + 1] * units.weight[k]


@inner
def weigh_node(sums, units, weights):
    """Write what each class of a node weighs: (what all weigh, the sum of the squares by that)."""
    weigh_classes(sums, units, weights)
    n, purity = 0.0, 0.0
    for k in range(weights.shape[0]):
        n += weights[k]
    for k in range(weights.shape[0]):
        purity += weights[k] * weights[k] / n
    return n, purity


@inner
def _exceeds(least, most, total, n, base, theta, mu, floor):
    """Whether an earlier answer leaves more Gini gain than `floor`; `base` is the purity of the node."""
    s, left, right = 0.0, 0.0, 0.0
    for k in range(total.shape[0]):
        share = total[k] * theta + mu
        share = share if share < most[k] else most[k]
        share = share if share > least[k] else least[k]
        rest = total[k] - share
        s, left, right = s + share, left + share * share, right + rest * rest
    return left * (n - s) + right * s >= (floor * BOUND_SLACK + base) * (s * (n - s)) * PURITY_SLACK


@inner
def gain_gini(move, total, n):
    """Weight times the decrease of the Gini impurity. A sum of squares: nothing cancels."""
    s, squares = 0.0, 0.0
    for k in range(total.shape[0]):
        s += move[k]
    for k in range(total.shape[0]):
        imbalance = move[k] * n - total[k] * s
        squares += imbalance * imbalance
    return round_off(squares / (n * s * (n - s)))


@part
def _add_entropy(bits, part, whole):
    """Take off the bits that part of a side needs."""
    return bits - part * np.log2(part / whole) if part > 0.0 else bits


@inner
def gain_entropy(move, total, n):
    """Weight times the decrease of the entropy, in bits."""
    s, node, left, right = 0.0, 0.0, 0.0, 0.0
    for k in range(total.shape[0]):
        s += move[k]
    for k in range(total.shape[0]):
        node = _add_entropy(node, total[k], n)
        left = _add_entropy(left, move[k], s)
        right = _add_entropy(right, total[k] - move[k], n - s)
    saved = node - left - right
    return round_off(saved) if saved > 0.0 else 0.0


@inner
def _mark_ends(work, theta, mu):
    """Say of every class at which end of their reach the attacker wants its samples: `takes`, as if none was divided.

    Where nobody of a class is movable at this cut somebody may be behind it: to find out how far the threshold can be
    moved without changing his answer, it has to be known which ends count.
    """
    for k in range(work.total.shape[0]):
        work.takes[k] = EVERYBODY if work.total[k] * theta + mu > work.least[k] else 0


@part
def _find_labels(least, most, total):
    """Find the classes that keep most on either side, whatever the attacker does: (left, right)."""
    left, right = int64(0), int64(0)
    for k in range(1, total.shape[0]):
        left = k if least[k] > least[left] else left
        right = k if total[k] - most[k] > total[right] - most[right] else right
    return left, right


@part
def _rate_error(work, n, base, floor, is_fixed):
    """The rows that a cut saves from being lost, with a trifle of Gini gain that decides between equals."""
    least, most, total, move = work.least, work.most, work.total, work.move
    left, right = _find_labels(least, most, total)
    largest = total[0]
    for k in range(1, total.shape[0]):
        largest = total[k] if total[k] > largest else largest
    saved = least[left] + (total[right] - most[right]) - largest
    saved = (saved + LIFT * n) - LIFT * n
    # The Gini gain is n at most. If both classes are one and the same, nothing is saved.
    if not saved > ROUNDING * n or saved + PLATEAU_WEIGHT * n < floor or is_levelled(least, most, total):
        return 0.0
    gini = _rate_gini(work, n, base, 0.0, is_fixed)
    move[left], move[right] = least[left], most[right]
    work.takes[left], work.takes[right] = 0, EVERYBODY
    return saved + PLATEAU_WEIGHT * gini


@inner
def _rate_gini(work, n, base, floor, is_fixed):
    least, most, total, move, answer = work.least, work.most, work.total, work.move, work.answer
    if not _exceeds(least, most, total, n, base, answer[0], answer[1], floor) or is_levelled(least, most, total):
        return 0.0
    if is_fixed:
        for k in range(total.shape[0]):
            move[k] = least[k]
    else:
        answer[0], answer[1] = answer_gini(least, most, total, n, answer[0], answer[1], move)
    _mark_ends(work, answer[0], answer[1])
    return gain_gini(move, total, n)


@part
def _rate_entropy(work, n, floor, is_fixed):
    least, most, total, move, answer = work.least, work.most, work.total, work.move, work.answer
    if is_levelled(least, most, total):
        return 0.0
    for k in range(total.shape[0]):
        share = total[k] * answer[0]
        share = share if share < most[k] else most[k]
        move[k] = share if share > least[k] else least[k]
    score = gain_entropy(move, total, n)
    if score < floor * BOUND_SLACK:
        return score
    if not is_fixed:
        answer[0] = answer_entropy(least, most, total, n, answer[0], move)
    _mark_ends(work, answer[0], 0.0)
    return gain_entropy(move, total, n)


@part
def rate(criterion, work, n, base, floor, is_fixed):
    """What a cut gains once the attacker has answered, as `work.move` says; what is less than `floor` is a bound."""
    if criterion == ERROR:
        return _rate_error(work, n, base, floor, is_fixed)
    if criterion == ENTROPY:
        return _rate_entropy(work, n, floor, is_fixed)
    return _rate_gini(work, n, base, floor, is_fixed)


@inner
def rate_sums(criterion, units, work, n, base, floor, is_fixed):
    """Rate what `work.lows` and `work.highs` add up, as `rate` does, which is long, and is pasted in here for many."""
    weigh_classes(work.lows, units, work.most)
    weigh_classes(work.highs, units, work.least)
    return rate(criterion, work, n, base, floor, is_fixed)


@inner
def obeys(monotonic, feature, here, work, n):
    """Whether a split of two classes keeps the shares of class 1 in order, and within the node's bounds."""
    if monotonic.shape[0] == 0:
        return True
    s = work.move[0] + work.move[1]
    left, right = work.move[1] / s, (work.total[1] - work.move[1]) / (n - s)
    within = here.lower <= left <= here.upper and here.lower <= right <= here.upper
    return within and (right - left) * monotonic[feature] >= 0.0


@inner
def divide(units, work, n_statistics):
    """Find how much of each class is taken; the fewest and the most rows that are left then, in units.

    Of a class that is divided it is known only later who goes left (`nodes.find_limits`).
    """
    least, most, move, takes = work.least, work.most, work.move, work.takes
    fewest, largest = int64(0), int64(0)
    for k in range(takes.shape[0]):
        surely, possibly = work.highs[k * n_statistics], work.lows[k * n_statistics]
        if least[k] < move[k] < most[k]:
            takes[k] = int64(np.ceil(round_off(2.0 * (move[k] - least[k])) / units.weight[k]))
            fewest, largest = fewest + surely, largest + possibly
        else:
            rows = possibly if takes[k] == EVERYBODY else surely
            fewest, largest = fewest + rows, largest + rows
    return fewest, largest


@inner
def keep(work, n_statistics, takes, left_sums):
    """Remember what the cut leaves on the left; of a class that is divided, what is surely there."""
    for k in range(takes.shape[0]):
        takes[k] = work.takes[k]
        for s in range(n_statistics):
            cell = k * n_statistics + s
            left_sums[cell] = work.lows[cell] if takes[k] == EVERYBODY else work.highs[cell]


@inner
def is_poor(work, n):
    """Whether the left side is not the richer one in class 0."""
    s = 0.0
    for k in range(work.total.shape[0]):
        s += work.move[k]
    return not work.move[0] * n > work.total[0] * s
