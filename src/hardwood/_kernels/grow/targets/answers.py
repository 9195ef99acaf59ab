"""What the attacker does to a split of many classes: how much of every class he leaves or puts on the left.

Of class k the weight `least[k]` is on the left whatever he does and `most[k]` is if he wants it there; the node has
`total[k]` of it, and `n` of all. His answer `move` lies between. Both impurities are concave, so his best answer is
where the derivative says so: `total[k] * theta + mu`, cut off at `least[k]` and `most[k]`, where theta is the share of
the node on the left, and mu is 0 for the entropy. Given which classes are cut off, the rest is a closed form; which are
is found by repetition, two or three times in all.

The sides are *levelled* if the same share of every class can be put left: then nothing is gained, and nothing is to be
solved. The functions that solve are not asked in that case.
"""

import numpy as np

from hardwood._kernels.compiling import inner, part
from hardwood._kernels.grow.criteria import ROUNDING

# Repetitions until it counts as going round in circles (0.2 to 0.6 % of random cases do).
PASSES = 12
# What a bracket is halved to, as a share of the node: a duality gap of some 1e-14.
NARROW = 1e-15
HALVINGS = 200


@inner
def is_levelled(least, most, total):
    """Whether the attacker can put the same share of every class on the left."""
    low, high = 0.0, 1.0
    for k in range(total.shape[0]):
        if total[k] > 0.0:
            least_share, most_share = least[k] / total[k], most[k] / total[k]
            low = least_share if least_share > low else low
            high = most_share if most_share < high else high
    return not low - high > ROUNDING


@inner
def _cut_off(least, most, total, theta, mu, move):
    """Put a share of every class on the left, as far as that can be."""
    for k in range(total.shape[0]):
        share = total[k] * theta + mu
        share = share if share < most[k] else most[k]
        move[k] = share if share > least[k] else least[k]


@part
def _settle_free(least, most, total, n, move):
    """Solve for the classes that are not cut off, given those that are: (theta, mu); theta < 0 if none is.

    The purity of both sides is `constant + g / s + h / (n - s)`, with s the weight on the left.
    """
    fixed_left, fixed_right, g, h, free_total, n_free = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(total.shape[0]):
        left, right = move[k], total[k] - move[k]
        if least[k] < left < most[k]:
            n_free += 1.0
            free_total += total[k]
        else:
            fixed_left, fixed_right = fixed_left + left, fixed_right + right
            g, h = g + left * left, h + right * right
    if n_free == 0.0:
        s = fixed_left
        mu = 0.5 * (g / (fixed_left * fixed_left) - h / (fixed_right * fixed_right)) * s * (n - s) / n
        return s / n, mu
    g = np.sqrt(g + fixed_left * fixed_left / n_free)
    h = np.sqrt(h + fixed_right * fixed_right / n_free)
    if not g + h > 0.0:
        return -1.0, 0.0
    s = n * g / (g + h)
    return s / n, (s - fixed_left - free_total * s / n) / n_free


@part
def _balance(least, most, total, n, theta, move):
    """Find mu so that as much is on the left as theta says: Newton's steps in a bracket, on a piecewise linear sum."""
    low, high, mu = -n, n, 0.0
    for _ in range(HALVINGS):
        _cut_off(least, most, total, theta, mu, move)
        missing, n_free = theta * n, 0.0
        for k in range(total.shape[0]):
            missing -= move[k]
            n_free += 1.0 if least[k] < move[k] < most[k] else 0.0
        if abs(missing) <= NARROW * n:
            break
        if missing > 0.0:
            low = mu
        else:
            high = mu
        if high - low <= NARROW * n:
            break
        step = mu + missing / n_free if n_free > 0.0 else low
        mu = step if low < step < high else 0.5 * (low + high)
    return mu


@part
def _bracket_gini(least, most, total, n, move):
    """Solve by halving: the purity that the attacker can reach with s on the left is convex in s."""
    low, high = 0.0, 0.0
    for k in range(total.shape[0]):
        low, high = low + least[k] / n, high + most[k] / n
    theta, mu = 0.5 * (low + high), 0.0
    for _ in range(HALVINGS):
        mu = _balance(least, most, total, n, theta, move)
        g, h, s = 0.0, 0.0, theta * n
        for k in range(total.shape[0]):
            right = total[k] - move[k]
            g, h = g + move[k] * move[k], h + right * right
        slope = h / ((n - s) * (n - s)) - g / (s * s) + 2.0 * mu * n / (s * (n - s))
        if slope < 0.0:
            low = theta
        else:
            high = theta
        if high - low <= NARROW:
            break
        theta = 0.5 * (low + high)
    return theta, mu


@inner
def answer_gini(least, most, total, n, theta, mu, move):
    """Find the answer to the Gini impurity, beginning at an earlier one: (theta, mu)."""
    for _ in range(PASSES):
        _cut_off(least, most, total, theta, mu, move)
        next_theta, next_mu = _settle_free(least, most, total, n, move)
        if next_theta == theta and next_mu == mu:  # the same classes are cut off
            return theta, mu
        if next_theta < 0.0:
            break
        theta, mu = next_theta, next_mu
    return _bracket_gini(least, most, total, n, move)


@inner
def answer_entropy(least, most, total, n, theta, move):
    """Find the answer to the entropy, beginning at an earlier one: theta, for mu is 0."""
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        _cut_off(least, most, total, theta, 0.0, move)
        fixed, free_total, s = 0.0, 0.0, 0.0
        for k in range(total.shape[0]):
            s += move[k]
            if least[k] < move[k] < most[k]:
                free_total += total[k]
            else:
                fixed += move[k]
        excess = s - n * theta
        if excess > 0.0:
            low = theta
        else:
            high = theta
        step = fixed / (n - free_total) if n > free_total else 0.5 * (low + high)
        if step == theta or high - low <= NARROW:
            break
        theta = step if low < step < high else 0.5 * (low + high)
    return theta
