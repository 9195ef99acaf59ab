"""Bounds on what the outputs of a sum of trees can be made: the sum of each tree's worst leaf within reach.

The attacker has to fool all trees with one and the same point; here he may choose another one for each tree. So the
bound is never wrong, cheap, and exact where one point is the worst for all trees.
"""

import numpy as np

from hardwood._kernels.compiling import kernel
from hardwood._kernels.reaching import can_enter


@kernel(about="bounds on sums of trees", seconds=0.5)
def add_worst_leaves(
    trees, value, parent, contradicts, first_code, n_codes, low, high, allowed, own, stack, largest, total
):
    """Add to ``total[row, k]``, tree by tree, the largest value of output k among the leaves that the row can reach.

    If ``own[row]`` is not -1, the largest lead over output ``own[row]`` instead. `largest` is scratch, an entry per
    output; the other arguments are those of `reaching.list_reachable`.
    """
    n_outputs = value.shape[1]
    for row in range(low.shape[0]):
        mine = own[row]
        for tree in range(trees.root.shape[0]):
            largest[:] = -np.inf
            stack[0] = trees.root[tree]
            size = 1
            while size:
                size -= 1
                node = stack[size]
                here = trees.nodes[node]
                if here.feature < 0:
                    base = value[node, mine] if mine >= 0 else 0.0
                    for k in range(n_outputs):
                        lead = value[node, k] - base
                        largest[k] = lead if lead > largest[k] else largest[k]
                    continue
                for child in (here.right, here.left):
                    if can_enter(
                        trees, parent, contradicts, first_code, n_codes, child, low[row], high[row], allowed[row]
                    ):
                        stack[size] = child
                        size += 1
            for k in range(n_outputs):
                total[row, k] += largest[k]
