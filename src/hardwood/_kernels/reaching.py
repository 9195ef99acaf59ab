"""Which leaves of one tree each row can be moved into.

Going down the tree, a row takes both ways where the attacker can choose. A number within ``[low, high]`` gets to the
left iff ``low <= threshold`` and to the right iff ``high > threshold``, whatever was asked of it above, unless no
number at all passes (`contradicts`). A category has to pass all the splits on its feature: each category is tried.
"""

import numpy as np

from hardwood._kernels.compiling import inner, kernel
from hardwood._kernels.predicting import in_left_set


@inner
def _some_category_leads_to(trees, parent, child, feature, first_code, n_codes, allowed):
    """Whether one of the categories that a row can be given passes all splits on `feature` down to `child`."""
    for code in range(n_codes):
        leads_there = allowed[first_code + code]
        node, above = child, parent[child]
        while leads_there and above >= 0:
            if trees.nodes[above].feature == feature:
                leads_there = in_left_set(trees, above, np.int64(code)) == (node == trees.nodes[above].left)
            node, above = above, parent[above]
        if leads_there:
            return True
    return False


@inner
def can_enter(trees, parent, contradicts, first_code, n_codes, child, low, high, allowed):
    """Whether a row that can be moved to the parent of `child` can be moved to `child`, too."""
    node = parent[child]
    here = trees.nodes[node]
    to_left = child == here.left
    if low[here.feature] != low[here.feature]:  # what is missing stays missing
        return here.missing_left == to_left
    if contradicts[child]:
        return False
    if here.category_start >= 0:
        codes = first_code[here.feature], n_codes[here.feature]
        return _some_category_leads_to(trees, parent, child, here.feature, codes[0], codes[1], allowed)
    return low[here.feature] <= here.threshold if to_left else high[here.feature] > here.threshold


@kernel(about="the leaves of a tree that rows can reach", seconds=0.3)
def list_reachable(trees, root, parent, contradicts, first_code, n_codes, low, high, allowed, stack, start, leaf):
    """Fill ``leaf[start[i]:start[i + 1]]`` with the leaves that row ``i`` can be moved into, from left to right.

    low, high : float64 (row, feature), the reach; NaN where a value is missing.
    allowed : bool (row, code): the categories that a row can be given, those of all features side by side.
    first_code, n_codes : int64 per feature: where its categories are in `allowed`, and how many (0 = numerical).
    stack : int64, scratch: an entry per level and one more. Called twice: with an empty `leaf` it only counts.
    """
    n = 0
    for row in range(low.shape[0]):
        start[row] = n
        stack[0] = root
        size = 1
        while size:
            size -= 1
            node = stack[size]
            if trees.nodes[node].feature < 0:
                if leaf.shape[0]:
                    leaf[n] = node
                n += 1
                continue
            for child in (trees.nodes[node].right, trees.nodes[node].left):
                if can_enter(trees, parent, contradicts, first_code, n_codes, child, low[row], high[row], allowed[row]):
                    stack[size] = child
                    size += 1
    start[low.shape[0]] = n
