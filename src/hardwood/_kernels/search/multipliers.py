"""A stronger bound on what a box can give: tolls.

The sum of every tree's best leaf is too good to be true where these leaves have no point in common. So let every tree
ask a toll for each cell of each axis, any number at all. A leaf pays on every axis the lowest toll of its cells, and a
point collects, from all trees, the tolls of the cells that it is in. No leaf pays more than the points in it collect,
so the sum of leaf values at a point is no more than

    the sum over trees of the best leaf, tolls paid, plus the sum over axes of the most that a cell collects.

Tolls are Lagrange multipliers, and the least such bound is that of a linear program. One pass over the axes comes
nearer to it: for every cell of an axis each tree tells the most it can get there, apart from tolls on this axis, and
tolls are set so that each gets the same share of what all trees together get in that cell. That never makes the
bound worse. What they get in a cell also tells which cells cannot be part of an answer.

Where changes cost something, and the costs of axes add up, a point also pays a price for what it costs. An answer has a
sum of at least the target and costs less than `within`; so its sum, less the price times its cost, is at least the
target less the price times `within`, whatever the price. A box whose bound is below that has no answer.

Tolls are good for any box, and best for the one they were set in. The search keeps them as it goes from box to box.
Each (tree, axis) is a gate, and the cells that its tree can tell apart there are its lanes.
"""

import numpy as np

from hardwood._kernels.compiling import inner, part
from hardwood._kernels.search.state import MAX_LANES, narrow

HIGHEST = MAX_LANES * MAX_LANES  # where the second table begins


@inner
def _open_gates(search, begin, stop, n_gates):
    """Make the gates of a tree, from the bounds of its leaves; how many gates there are now.

    A gate's `high` counts its bounds, and the axis' `front` is its gate.
    """
    axes, each, bounds, gates, now = search.axes, search.leaves, search.bounds, search.gates, search.now[0]
    now.tick += 1
    for i in range(begin, stop):
        leaf = search.slots[i]
        for k in range(each[leaf].start, each[leaf].end):
            axis = bounds[k].axis
            if axes[axis].seen != now.tick:
                if n_gates == gates.shape[0]:
                    return np.int64(-1)
                axes[axis].seen, axes[axis].front = now.tick, n_gates
                gates[n_gates].axis, gates[n_gates].high = axis, 0
                gates[n_gates].following, axes[axis].gate = axes[axis].gate, n_gates
                n_gates += 1
            gates[axes[axis].front].high += 1
    return n_gates


@inner
def _add_lane(lanes, gate, first):
    """Let a lane begin at a cell, unless one does or there are enough: then tolls are a little coarser."""
    at = gate.end
    while lanes[at - 1].first > first:
        at -= 1
    if lanes[at - 1].first == first or gate.end - gate.start == MAX_LANES:
        return
    for i in range(gate.end, at, -1):
        lanes[i].first = lanes[i - 1].first
    lanes[at].first = first
    gate.end += 1


@inner
def _draw_lanes(search, begin, stop, first_gate, n_gates, n_lanes):
    """Draw the lanes of a tree's gates; how many lanes there are now, or -1 if there is no room."""
    axes, each, bounds, gates, lanes = search.axes, search.leaves, search.bounds, search.gates, search.lanes
    end = n_lanes
    for g in range(first_gate, n_gates):
        room = min(2 * gates[g].high + 2, MAX_LANES)
        if end + room > lanes.shape[0]:
            return np.int64(-1)
        lanes[end].first = 0
        gates[g].start, gates[g].end = end, end + 1
        end += room
    for i in range(begin, stop):
        leaf = search.slots[i]
        for k in range(each[leaf].start, each[leaf].end):
            gate = gates[axes[bounds[k].axis].front]
            _add_lane(lanes, gate, bounds[k].first)
            _add_lane(lanes, gate, bounds[k].last + 1)
    for g in range(first_gate, n_gates):
        start = n_lanes
        for i in range(gates[g].start, gates[g].end):
            lanes[n_lanes].first, lanes[n_lanes].toll = lanes[i].first, 0.0
            n_lanes += 1
        gates[g].start, gates[g].end = start, n_lanes
    return n_lanes


@inner
def _find_lane(lanes, gate, cell):
    """Which lane of a gate a cell is in, counted from the gate's first."""
    at = gate.end - 1
    while lanes[at].first > cell:
        at -= 1
    return np.int32(at - gate.start)


@inner
def lay_out(search):
    """Make gates and lanes for the leaves of the first level, with no tolls; whether there is room."""
    axes, each, bounds, gates, lanes = search.axes, search.leaves, search.bounds, search.gates, search.lanes
    trees, ways, accounts, slots, marks = search.trees, search.ways, search.accounts, search.slots, search.marks
    here, now = search.levels[0], search.now[0]
    n_gates, n_lanes, n_ways = np.int64(0), np.int64(0), np.int64(0)
    largest = 0.0
    for axis in range(axes.shape[0]):
        axes[axis].gate = -1
    for t in range(here.n_trees):
        begin, stop, first_gate = marks[here.mark + t], marks[here.mark + t + 1], n_gates
        n_gates = _open_gates(search, begin, stop, n_gates)
        if n_gates < 0:
            return False
        n_lanes = _draw_lanes(search, begin, stop, first_gate, n_gates, n_lanes)
        if n_lanes < 0 or n_ways + (stop - begin) * (n_gates - first_gate) > ways.shape[0]:
            return False
        trees[t].gate_start, trees[t].gate_end = first_gate, n_gates
        for g in range(first_gate, n_gates):
            gates[g].tree = t
        for i in range(begin, stop):
            leaf = slots[i]
            accounts[leaf].tree, accounts[leaf].way = t, n_ways
            largest = max(largest, abs(each[leaf].value))
            for g in range(first_gate, n_gates):
                way = ways[n_ways + g - first_gate]
                way.first, way.last = 0, gates[g].end - gates[g].start - 1
            for k in range(each[leaf].start, each[leaf].end):
                g = axes[bounds[k].axis].front
                way = ways[n_ways + g - first_gate]
                way.first = _find_lane(lanes, gates[g], bounds[k].first)
                way.last = _find_lane(lanes, gates[g], bounds[k].last)
            n_ways += n_gates - first_gate
    now.has_tolls, now.largest, now.n_lanes = 1, largest, n_lanes
    return True


@inner
def _tabulate(search, gate):
    """Work out the lowest toll from any lane within the box to any other."""
    lanes, table = search.lanes, search.table
    n = gate.high - gate.low + 1
    for i in range(n):
        lowest = np.inf
        for k in range(i, n):
            toll = lanes[np.uintp(gate.low + k)].toll
            lowest = toll if toll < lowest else lowest
            table[np.uintp(i * n + k)] = lowest


@inner
def _enter(search, level):
    """Take the tolls off the leaves of a level's box; the sum of every tree's best leaf, tolls paid."""
    axes, each, gates, lanes, ways = search.axes, search.leaves, search.gates, search.lanes, search.ways
    accounts, slots, marks, table = search.accounts, search.slots, search.marks, search.table
    here, now = search.levels[level], search.now[0]
    total = here.settled
    now.tick += 1
    for t in range(here.n_trees):
        begin, stop = marks[here.mark + t], marks[here.mark + t + 1]
        tree = search.trees[accounts[slots[begin]].tree]
        tree.begin, tree.stop, tree.seen = begin, stop, now.tick
        for i in range(begin, stop):
            leaf = np.uintp(slots[np.uintp(i)])
            accounts[leaf].net = each[leaf].value
        for g in range(tree.gate_start, tree.gate_end):
            gate = gates[np.uintp(g)]
            axis = axes[np.uintp(gate.axis)]
            low, high = gate.start, gate.end - 1
            while low < high and lanes[np.uintp(low + 1)].first <= axis.low:
                low += 1
            while lanes[np.uintp(high)].first > axis.high:
                high -= 1
            n, at, shift = high - low + 1, g - tree.gate_start, low - gate.start
            parts = False
            for i in range(begin, stop if n > 1 else begin):
                way = ways[np.uintp(accounts[np.uintp(slots[np.uintp(i)])].way + at)]
                first, last = way.first - shift, way.last - shift
                first, last = first if first > 0 else 0, last if last < n else n - 1
                way.spot = first * n + last
                parts |= way.spot != n - 1
            # Where no leaf is kept off any lane, there is nothing to ask a toll for.
            gate.low, gate.high = low, high if parts else low
            if parts:
                _tabulate(search, gate)
                for i in range(begin, stop):
                    account = accounts[np.uintp(slots[np.uintp(i)])]
                    account.net -= table[np.uintp(ways[np.uintp(account.way + at)].spot)]
        best = -np.inf
        for i in range(begin, stop):
            net = accounts[np.uintp(slots[np.uintp(i)])].net
            best = net if net > best else best
        tree.best = best
        total += best
    return total


@inner
def _find_most_left(search, here):
    """The most that a cell of an axis collects, less what it costs, from what is collected as differences."""
    cells, takings, price = search.cells, search.takings, search.now[0].price
    running, most = 0.0, -np.inf
    for cell in range(here.start + here.low, here.start + here.high + 1):
        running += takings[np.uintp(cell)].share
        left = running - price * cells[np.uintp(cell)].cost if price > 0.0 else running
        most = left if left > most else most
    return most


@inner
def _collect_tolls(search, axis):
    """The most that a cell of an axis collects within the box, less what it costs."""
    here, gates, lanes, takings = search.axes[axis], search.gates, search.lanes, search.takings
    tick = search.now[0].tick
    for cell in range(here.start + here.low, here.start + here.high + 1):
        takings[cell].share = 0.0
    g = here.gate
    while g >= 0:
        gate = gates[np.uintp(g)]
        if search.trees[np.uintp(gate.tree)].seen == tick and gate.low < gate.high:
            before = 0.0
            for i in range(gate.low, gate.high + 1):
                lane = lanes[np.uintp(i)]
                first = lane.first if lane.first > here.low else here.low
                takings[np.uintp(here.start + first)].share += lane.toll - before
                before = lane.toll
        g = gate.following
    return _find_most_left(search, here)


@inner
def _ask_tree(search, gate, g):
    """Ask a tree for the most it can get in every lane, apart from tolls at this gate."""
    accounts, ways, lanes, slots, table = search.accounts, search.ways, search.lanes, search.slots, search.table
    tree = search.trees[gate.tree]
    n, at = gate.high - gate.low + 1, g - tree.gate_start
    _tabulate(search, gate)
    for i in range(n * n):
        table[np.uintp(HIGHEST + i)] = -np.inf
    top = -np.inf
    for i in range(tree.begin, tree.stop):
        leaf = accounts[np.uintp(slots[np.uintp(i)])]
        spot = ways[np.uintp(leaf.way + at)].spot
        gross = leaf.net + table[np.uintp(spot)]
        leaf.gross = gross
        top = gross if gross > top else top
        if gross > table[np.uintp(HIGHEST + spot)]:
            table[np.uintp(HIGHEST + spot)] = gross
    # What can be had all the way from one lane to another can be had on every part of it.
    for length in range(n - 1, 0, -1):
        for i in range(n - length):
            k = HIGHEST + i * n + i + length
            gross = table[np.uintp(k)]
            if gross > table[np.uintp(k - 1)]:
                table[np.uintp(k - 1)] = gross
            if gross > table[np.uintp(k + n)]:
                table[np.uintp(k + n)] = gross
    for i in range(n):
        # No leaf there, which only categories that exclude each other can bring about: any bound will do.
        gross = table[np.uintp(HIGHEST + i * n + i)]
        lanes[np.uintp(gate.low + i)].most = gross if gross > -np.inf else top


@inner
def _tabulate_most(search, here):
    """Work out the most that is had in runs of 1, 2, 4, ... cells."""
    takings, runs = search.takings, search.runs
    n = here.high - here.low + 1
    for c in range(n):
        runs[np.uintp(c)] = takings[np.uintp(here.start + here.low + c)].sum
    length, row = 1, 0
    while 2 * length <= n:
        for c in range(n - 2 * length + 1):
            one, other = runs[np.uintp(row + c)], runs[np.uintp(row + c + length)]
            runs[np.uintp(row + n + c)] = one if one > other else other
        length, row = 2 * length, row + n


@inner
def _find_most(search, n, first, last):
    """The most that is had from one cell to another."""
    length, row = 1, 0
    while 2 * length <= last - first + 1:
        length, row = 2 * length, row + n
    one, other = search.runs[np.uintp(row + first)], search.runs[np.uintp(row + last - length + 1)]
    return one if one > other else other


@inner
def _set_tolls(search, here, gate, g, n_gates):
    """Set the tolls of a gate so that its tree gets its share in every lane, and take them off the tree's leaves."""
    accounts, ways, lanes, slots, table = search.accounts, search.ways, search.lanes, search.slots, search.table
    tree, now, takings = search.trees[gate.tree], search.now[0], search.takings
    before, zero = 0.0, 0.0
    for i in range(gate.low, gate.high + 1):
        lane = lanes[np.uintp(i)]
        first = lane.first if lane.first > here.low else here.low
        last = lanes[np.uintp(i + 1)].first - 1 if i < gate.high else here.high
        share = _find_most(search, here.high - here.low + 1, first - here.low, last - here.low) / n_gates
        # What all lanes have in common comes to nothing, but would grow and grow.
        zero = lane.most - share if i == gate.low else zero
        toll = lane.most - share - zero
        lane.toll = toll
        now.largest = max(now.largest, abs(toll))
        takings[np.uintp(here.start + first)].share += toll - before
        before = toll
    _tabulate(search, gate)
    at, best = g - tree.gate_start, -np.inf
    for i in range(tree.begin, tree.stop):
        leaf = accounts[np.uintp(slots[np.uintp(i)])]
        net = leaf.gross - table[np.uintp(ways[np.uintp(leaf.way + at)].spot)]
        leaf.net = net
        best = net if net > best else best
    tree.best = best


@part
def _find_least(now):
    """The least bound of a box that may have an answer."""
    return now.target - now.rounding - (now.price * now.within if now.price > 0.0 else 0.0)


@inner
def _pass_axis(search, axis, bound, error):
    """Set all tolls on an axis: (the bound now, the first and the last cell that can be part of an answer)."""
    gates, lanes, takings, trees = search.gates, search.lanes, search.takings, search.trees
    here, now = search.axes[axis], search.now[0]
    n_gates, rest = 0, bound - here.collected
    for cell in range(here.start + here.low, here.start + here.high + 1):
        takings[np.uintp(cell)].sum = takings[np.uintp(cell)].share = 0.0
    g = np.int64(here.gate)
    while g >= 0:
        gate = gates[np.uintp(g)]
        tree = trees[np.uintp(gate.tree)]
        if tree.seen == now.tick and gate.low < gate.high:
            n_gates += 1
            now.work += tree.stop - tree.begin
            rest -= tree.best
            _ask_tree(search, gate, g)
            before = 0.0
            for i in range(gate.low, gate.high + 1):
                lane = lanes[np.uintp(i)]
                first = lane.first if lane.first > here.low else here.low
                takings[np.uintp(here.start + first)].sum += lane.most - before
                before = lane.most
        g = np.int64(gate.following)
    first, last = here.high + 1, here.low - 1
    running = 0.0
    least = _find_least(now) - error - rest
    for cell in range(here.low, here.high + 1):
        at = np.uintp(here.start + cell)
        running += takings[at].sum
        left = running - now.price * search.cells[at].cost if now.price > 0.0 else running
        takings[at].sum = left
        if left >= least:
            first = min(first, cell)
            last = cell
    if n_gates == 0 or first > last:
        return (bound if n_gates == 0 else -np.inf), first, last
    _tabulate_most(search, here)
    bound = rest
    g = np.int64(here.gate)
    while g >= 0:
        gate = gates[g]
        if trees[gate.tree].seen == now.tick and gate.low < gate.high:
            _set_tolls(search, here, gate, g, n_gates)
            bound += trees[gate.tree].best
        g = np.int64(gate.following)
    here.collected = _find_most_left(search, here)
    return bound + here.collected, first, last


@part
def _find_error(search, level):
    """More than rounding can make of a bound: no longer are sums those of leaf values, that may have been exact."""
    now, n_axes = search.now[0], search.axes.shape[0]
    return 2.0**-50 * (now.n_lanes + n_axes) * (search.levels[level].n_trees + 1) * (n_axes + 1) * now.largest


@inner
def tighten(search, level):
    """Bound a level's box by one pass over all axes: (the bound, whether cells were cut off); -inf if none is left."""
    axes, now = search.axes, search.now[0]
    bound = _enter(search, level)
    now.largest = max(now.largest, now.price * now.within) if now.price > 0.0 else now.largest
    for i in range(now.n_active):
        axis = axes[i].active
        if axes[axis].low < axes[axis].high:
            axes[axis].collected = _collect_tolls(search, axis)
            bound += axes[axis].collected
        elif now.price > 0.0:
            bound -= now.price * search.cells[axes[axis].start + axes[axis].low].cost
    shaved = False
    for i in range(now.n_active):
        axis = axes[i].active
        low, high = axes[axis].low, axes[axis].high
        if low == high or axes[axis].gate < 0:
            continue
        error = _find_error(search, level)
        if bound < _find_least(now) - error:
            return -np.inf, shaved
        bound, first, last = _pass_axis(search, axis, bound, error)
        if bound == -np.inf:
            return bound, shaved
        if first > low or last < high:
            narrow(search, axis, first, last)
            shaved = True
    error = _find_error(search, level)
    if bound < _find_least(now) - error:
        return -np.inf, shaved
    return bound + error, shaved
