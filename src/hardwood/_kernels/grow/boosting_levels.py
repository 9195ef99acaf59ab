"""Growing a boosted tree level by level, from the parts of the grower that goes depth first (`boosting`).

Whoever has some of the rows counts them in histograms, and divides those of nodes that are split among their children.
Whoever has the sums of all histograms searches for splits. Rows that can only go to the lighter child are counted, and
rows that can go both ways: `boosting` says how the histograms of both children follow.
"""

from numpy import int64

from hardwood._kernels.compiling import kernel
from hardwood._kernels.grow.boosting import count, divide, split_node


@kernel(about="the root of boosted trees over blocks", seconds=0.3)
def count_root(rows, columns, cells, sums):
    """Count all entries, and add up their gradients and hessians."""
    for k in range(rows.entries.shape[0]):
        row = rows.entries[k]
        sums[0] += rows.gradients[row, 0]
        sums[1] += rows.gradients[row, 1]
    count(rows, columns, int64(0), rows.entries.shape[0], cells)


@kernel(about="the levels of boosted trees over blocks", seconds=0.5)
def divide_nodes(rows, columns, rule, tree, count_left, both, cells):
    """Divide the rows of the first nodes among their children, which come to lie behind each.

    `count_left` says which child's rows, those that can only go there, are counted in the cells with the node's number;
    `both` in which cells those are counted that can go both ways, -1: in none.
    """
    for node in range(count_left.shape[0]):
        n_left, n_both = divide(rows, columns, rule, tree, node)
        here = tree.nodes[node]
        left, right = tree.nodes[here.left], tree.nodes[here.left + 1]
        if count_left[node]:
            count(rows, columns, left.start, left.start + n_left, cells[node])
        else:
            count(rows, columns, left.end, right.end, cells[node])
        if both[node] >= 0:
            count(rows, columns, right.start, right.start + n_both, cells[both[node]])


@kernel(about="the splits of boosted trees over blocks", seconds=2.5)
def split_nodes(columns, categories, rule, tree, waiting, n_nodes):
    """Search for the best split of each node by its histogram, and make its children; how many nodes there are then."""
    for k in range(waiting.shape[0]):
        if split_node(columns, categories, rule, tree, waiting[k], n_nodes):
            n_nodes += 2
    return n_nodes
