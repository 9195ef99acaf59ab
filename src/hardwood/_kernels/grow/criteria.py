"""What a split is worth once the attacker has moved.

Write `h(a, b)` for a concave, homogeneous impurity of class weights. The gain of a split is
`h(node) - h(left) - h(right)`; it counts only while the orientation holds (see `grow/tree.py`): for orientation 0 the
left side must stay richer in class 0 than the right one, for orientation 1 the other way round. Where the attacker
can level both sides the orientation fails and the gain is 0.
"""

import numpy as np

from hardwood._kernels.compiling import inner

GINI, ENTROPY, ERROR = 0, 1, 2

# Differences below this share of what they are differences of are rounding, not gain.
ROUNDING = 1e-13
# Gains are rounded to 34 significant bits, so that splits that are equally good have equal gains and the first of them
# is taken, whatever the order of the rows or the unit of the weights has done to the last bits of sums. Sums of weights
# are off by some 1e-15 of themselves, which rarely carries a gain across the boundary between two roundings.
SIGNIFICANT = 34
# Multiplied by this and taken away again, the other 53 - 34 bits of a number are rounded off (Veltkamp's splitting).
SPLITTER = 2.0 ** (53 - SIGNIFICANT) + 1.0
# The 0/1 error that is saved is a difference of sums, as exact as they are: added to 2^12 times the node's weight and
# taken away again, it is rounded to 2^-40 of that weight.
LIFT = 2.0**12
# The 0/1 error has plateaus; among splits of equal error the purer one (by Gini) is preferred.
PLATEAU_WEIGHT = 1e-9


@inner
def round_off(x):
    """Round a number to its leading bits."""
    scaled = x * SPLITTER
    return scaled - (scaled - x)


@inner
def _entropy(a, b):
    """Bits needed to tell the classes of a side, times its weight."""
    n = a + b
    bits = 0.0
    if a > 0.0:
        bits -= a * np.log2(a / n)
    if b > 0.0:
        bits -= b * np.log2(b / n)
    return bits


@inner
def gain(criterion, sign, left_zero, left_one, node_zero, node_one):
    """Weight times impurity decrease, or 0 where the orientation `sign` (+1, -1, or 0 for either) fails."""
    imbalance = left_zero * node_one - left_one * node_zero
    lead = imbalance * sign if sign != 0 else abs(imbalance)
    if not lead > ROUNDING * node_zero * node_one:
        return 0.0
    left = left_zero + left_one
    node = node_zero + node_one
    right = node - left
    gini = round_off(2.0 * imbalance * imbalance / (node * left * right))
    if criterion == GINI:
        return gini
    right_zero, right_one = node_zero - left_zero, node_one - left_one
    if criterion == ENTROPY:
        saved = _entropy(node_zero, node_one) - _entropy(left_zero, left_one) - _entropy(right_zero, right_one)
        return round_off(saved) if saved > 0.0 else 0.0
    wrong = left_one + right_zero if imbalance > 0.0 else left_zero + right_one
    saved = (node_zero if node_zero < node_one else node_one) - wrong
    saved = (saved + LIFT * node) - LIFT * node
    return saved + PLATEAU_WEIGHT * gini if saved > ROUNDING * node else 0.0
