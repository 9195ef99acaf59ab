"""The nodes that are worth splitting and still wait for it, as a heap."""

from hardwood._kernels.compiling import inner, part
from hardwood._kernels.grow.nodes import WAITING


@part
def _before(nodes, best_first, a, b):
    """Whether node a leaves the frontier before node b: by gain, or the newest first (depth first)."""
    if best_first and nodes[a].gain != nodes[b].gain:
        return nodes[a].gain > nodes[b].gain
    return a > b


@inner
def push(tree, best_first, node):
    """Put a node on the frontier."""
    nodes, heap, sizes = tree.nodes, tree.heap, tree.sizes
    at = sizes[WAITING]
    sizes[WAITING] += 1
    while at > 0 and _before(nodes, best_first, node, heap[(at - 1) // 2]):
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = node


@part
def pop(tree, best_first):
    """Take the node that is split next off the frontier."""
    nodes, heap, sizes = tree.nodes, tree.heap, tree.sizes
    top = heap[0]
    sizes[WAITING] -= 1
    size = sizes[WAITING]
    node = heap[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _before(nodes, best_first, heap[child + 1], heap[child]):
            child += 1
        if not _before(nodes, best_first, heap[child], node):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = node
    return top
