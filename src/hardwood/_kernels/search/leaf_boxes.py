"""The boxes of leaves in sparse form: only the features that are split on above them."""

import numpy as np

from hardwood._kernels.compiling import kernel
from hardwood._kernels.predicting import in_left_set


@kernel(about="the boxes of leaves", seconds=0.3)
def bound_leaves(trees, parent, n_categories, leaves, entry, start, feature, low, high, set_start, sets):
    """Fill in the bounds of each leaf, one per feature above it, and where they start (leaf + 1).

    entry : int64 per feature, scratch, -1 on entry. Called twice: with an empty `feature` it only counts.
    Returns the room that `sets` needs: a bool per category for each categorical bound.
    """
    fill = feature.shape[0] > 0
    end, room = 0, 0
    for k in range(leaves.shape[0]):
        start[k] = end
        child, above = leaves[k], parent[leaves[k]]
        while above >= 0:
            j = trees.nodes[above].feature
            is_left = child == trees.nodes[above].left
            if entry[j] < 0:
                entry[j] = end
                end += 1
                if fill:
                    feature[entry[j]], low[entry[j]], high[entry[j]] = j, -np.inf, np.inf
                    set_start[entry[j]] = room if n_categories[j] else -1
                    for code in range(n_categories[j]):
                        sets[room + code] = True
                room += n_categories[j]
            if fill:
                at = entry[j]
                for code in range(n_categories[j]):
                    sets[set_start[at] + code] &= in_left_set(trees, above, code) == is_left
                if n_categories[j] == 0 and is_left:
                    high[at] = min(high[at], trees.nodes[above].threshold)
                elif n_categories[j] == 0:
                    low[at] = max(low[at], trees.nodes[above].threshold)
            child, above = above, parent[above]
        above = parent[leaves[k]]
        while above >= 0:
            entry[trees.nodes[above].feature] = -1
            above = parent[above]
    start[leaves.shape[0]] = end
    return room
