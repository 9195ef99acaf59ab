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
# The 0/1 error has plateaus; among splits of equal error the purer one (by Gini) is preferred.
PLATEAU_WEIGHT = 1e-9


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
    gini = 2.0 * imbalance * imbalance / (node * left * right)
    if criterion == GINI:
        return gini
    right_zero, right_one = node_zero - left_zero, node_one - left_one
    if criterion == ENTROPY:
        saved = _entropy(node_zero, node_one) - _entropy(left_zero, left_one) - _entropy(right_zero, right_one)
        return saved if saved > 0.0 else 0.0
    wrong = left_one + right_zero if imbalance > 0.0 else left_zero + right_one
    saved = (node_zero if node_zero < node_one else node_one) - wrong
    return saved + PLATEAU_WEIGHT * gini if saved > ROUNDING * node else 0.0
