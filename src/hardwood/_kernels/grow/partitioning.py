"""Sending a node's samples to its children, in every order at once."""

from numpy import uint32, uint64

from hardwood._kernels.compiling import inner
from hardwood._kernels.grow.orders import GROUP, ID_MASK


@inner
def partition(order, start, end, side, spill):
    """Move the samples whose bit in `side` is 0 to the front of `order[start:end]`, keeping the order on both sides.

    ::

        before   a B c D E f          (capitals go right)
        after    a c f | B D E        left written in place, right through `spill`

    An entry that starts a group may leave while others of its group stay, so the mark is handed on: an entry starts a
    group on its side if it is the first of its group there. Every entry is written to both sides: a branch that nobody
    can predict costs more. Indices are unsigned, which spares a check for negative ones.
    """
    write, spilled, step = uint64(start), uint64(0), uint64(1)
    group_left, group_right = write, spilled
    for i in range(uint64(start), uint64(end)):
        entry = order[i]
        sample = entry & ID_MASK
        right = uint64((side[sample >> uint32(5)] >> (sample & uint32(31))) & uint32(1))
        if entry & GROUP:
            group_left, group_right = write, spilled  # where this group begins on either side
            order[write] = entry
            spill[spilled] = entry
        else:
            order[write] = entry | GROUP if write == group_left else entry
            spill[spilled] = entry | GROUP if spilled == group_right else entry
        write += step - right
        spilled += right
    for i in range(spilled):
        order[write + i] = spill[i]
