"""Sending a node's samples to its children, in every order at once."""

import numpy as np

from hardwood._kernels.compiling import inner, part
from hardwood._kernels.orders import GROUP, ID_MASK, TIE_TOLERANCE, position, tie_width


@inner
def partition(order, start, end, side, spill):
    """Move the samples with `side == 0` to the front of `order[start:end]`, keeping the order on both sides.

    ::

        before   a B c D E f          (capitals go right)
        after    a c f | B D E        left written in place, right through `spill`

    An entry that starts a group may leave while others of its group stay, so the mark is handed on: whatever is written
    next on a side starts a group there if any mark was passed since the last one written on that side.
    """
    write, spilled = start, 0
    mark_left, mark_right = np.uint32(0), np.uint32(0)
    for i in range(start, end):
        entry = order[i]
        right = np.uint32(side[entry & ID_MASK])
        mark_left |= entry & GROUP
        mark_right |= entry & GROUP
        entry &= ~GROUP
        order[write] = entry | mark_left
        spill[spilled] = entry | mark_right
        write += 1 - np.int64(right)
        spilled += np.int64(right)
        # 0 - right is all ones where the sample went right: keep the left mark, drop the right one
        mark_left &= np.uint32(0) - right
        mark_right &= right - np.uint32(1)
    for i in range(spilled):
        order[write + i] = spill[i]


@part
def _beside(at, threshold, size):
    gap = abs(at - threshold)
    return gap < np.inf and gap <= tie_width(TIE_TOLERANCE, size, at, threshold)


@part
def clip(order, start, middle, end, X, shift, feature, orientation, size, threshold):
    """Let the samples beyond a child's new bound on its split feature share one group.

    They sit at the bound, whatever their distance to it was: no threshold inside the child can part them.
    """
    for i in range(middle - 1, start, -1):
        at = position(X, shift, feature, orientation, order[i - 1])
        if not (at > threshold or _beside(at, threshold, size)):
            break
        order[i] &= ~GROUP
    for i in range(middle + 1, end):
        at = position(X, shift, feature, orientation, order[i])
        if not (at <= threshold or _beside(at, threshold, size)):
            break
        order[i] &= ~GROUP
