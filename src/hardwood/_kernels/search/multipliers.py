"""A stronger bound on what a box can give: Lagrange multipliers.

The sum of every tree's best leaf is too good to be true where these leaves have no point in common. That they must have
one is a constraint for each (tree, axis) pair: the tree's leaf reaches the cell that the point is in. Give each pair a
multiplier for each cell, any number at all. A leaf pays on every axis the lowest multiplier of its cells, and a point
collects, from all trees, the multipliers of the cells that it is in. No leaf pays more than the points in it collect,
so the sum of leaf values at a point is no more than

    the sum over trees of the best reduced leaf value, plus the sum over axes of the most that a cell collects.

The least such bound is that of a linear program. `ascend` comes nearer to it by block-coordinate ascent of the dual on
max-marginals, as MPLP does for graphical models (Globerson and Jaakkola, "Fixing max-product: convergent message
passing algorithms for MAP LP-relaxations", NIPS 2007). Here a block is an axis: for each of its cells every tree tells
its max-marginal, the best leaf that reaches the cell without multipliers of this axis, and multipliers are set so that
each tree keeps the same share of what all trees together have in that cell. That never makes the bound worse. The sums
of marginals also tell which cells cannot be part of an answer.

Where changes cost something, and the costs of axes add up, a point also pays a price for what it costs: the multiplier
of the constraint that an answer costs less than `within`. An answer has a sum of at least the target; so its sum, less
the price times its cost, is at least the target less the price times `within`, whatever the price. A box whose bound is
below that has no answer.

Multipliers are good for any box, and best for the one they were set in. The search keeps them as it goes from box to
box. Cells that no leaf of a tree tells apart share a multiplier: they are an interval of the pair.
"""

import numpy as np

from hardwood._kernels.compiling import inner, part
from hardwood._kernels.search.state import MAX_INTERVALS, narrow

SECOND_TABLE = MAX_INTERVALS * MAX_INTERVALS  # where it begins


@inner
def _tabulate_lowest(search, pair):
    """Work out the lowest multiplier from any interval within the box to any other."""
    intervals, table = search.intervals, search.table
    n = pair.high - pair.low + 1
    for i in range(n):
        lowest = np.inf
        for k in range(i, n):
            multiplier = intervals[np.uintp(pair.low + k)].multiplier
            lowest = multiplier if multiplier < lowest else lowest
            table[np.uintp(i * n + k)] = lowest


@inner
def _fit_pair(search, pair, at, begin, stop):
    """Find the intervals of a pair that meet the box, and what every leaf spans of them; whether leaves differ there.

    Where every leaf spans all of them, there is nothing to pay for.
    """
    intervals, spans, slots = search.intervals, search.spans, search.slots
    axis = search.axes[np.uintp(pair.axis)]
    low, high = pair.start, pair.end - 1
    while low < high and intervals[np.uintp(low + 1)].first <= axis.low:
        low += 1
    while intervals[np.uintp(high)].first > axis.high:
        high -= 1
    n, shift = high - low + 1, low - pair.start
    differ = False
    for i in range(begin, stop if n > 1 else begin):
        span = spans[np.uintp(search.leaf_duals[np.uintp(slots[np.uintp(i)])].span + at)]
        first, last = span.first - shift, span.last - shift
        first, last = first if first > 0 else 0, last if last < n else n - 1
        span.entry = first * n + last
        differ |= span.entry != n - 1
    pair.low, pair.high = low, high if differ else low
    return differ


@inner
def _enter(search, level):
    """Take multipliers off the leaves of a level's box; the sum of every tree's best reduced leaf value."""
    each, spans, leaf_duals = search.leaves, search.spans, search.leaf_duals
    slots, marks, table = search.slots, search.marks, search.table
    here, progress = search.levels[level], search.progress[0]
    total = here.settled
    progress.tick += 1
    for t in range(here.n_trees):
        begin, stop = marks[here.mark + t], marks[here.mark + t + 1]
        tree = search.tree_duals[leaf_duals[slots[begin]].tree]
        tree.begin, tree.stop, tree.tick = begin, stop, progress.tick
        for i in range(begin, stop):
            leaf = np.uintp(slots[np.uintp(i)])
            leaf_duals[leaf].reduced = each[leaf].value
        for p in range(tree.pair_start, tree.pair_end):
            pair, at = search.pairs[np.uintp(p)], p - tree.pair_start
            if _fit_pair(search, pair, at, begin, stop):
                _tabulate_lowest(search, pair)
                for i in range(begin, stop):
                    leaf_dual = leaf_duals[np.uintp(slots[np.uintp(i)])]
                    leaf_dual.reduced -= table[np.uintp(spans[np.uintp(leaf_dual.span + at)].entry)]
        best = -np.inf
        for i in range(begin, stop):
            reduced = leaf_duals[np.uintp(slots[np.uintp(i)])].reduced
            best = reduced if reduced > best else best
        tree.best = best
        total += best
    return total


@inner
def _find_most_collected(search, here):
    """The most that a cell of an axis collects, less what it costs, from what is collected as differences."""
    cells, marginals, price = search.cells, search.marginals, search.dual[0].price
    running, most = 0.0, -np.inf
    for cell in range(here.start + here.low, here.start + here.high + 1):
        running += marginals[np.uintp(cell)].collected
        left = running - price * cells[np.uintp(cell)].cost if price > 0.0 else running
        most = left if left > most else most
    return most


@inner
def _collect(search, axis):
    """The most that a cell of an axis collects within the box, less what it costs."""
    here, pairs, intervals, marginals = search.axes[axis], search.pairs, search.intervals, search.marginals
    tick = search.progress[0].tick
    for cell in range(here.start + here.low, here.start + here.high + 1):
        marginals[cell].collected = 0.0
    p = here.dual.pair
    while p >= 0:
        pair = pairs[np.uintp(p)]
        if search.tree_duals[np.uintp(pair.tree)].tick == tick and pair.low < pair.high:
            before = 0.0
            for i in range(pair.low, pair.high + 1):
                interval = intervals[np.uintp(i)]
                first = interval.first if interval.first > here.low else here.low
                marginals[np.uintp(here.start + first)].collected += interval.multiplier - before
                before = interval.multiplier
        p = pair.following
    return _find_most_collected(search, here)


@inner
def _find_marginals(search, pair, p):
    """Find a tree's max-marginal of every interval: its best leaf there, without multipliers of this pair."""
    leaf_duals, spans, intervals = search.leaf_duals, search.spans, search.intervals
    slots, table = search.slots, search.table
    tree = search.tree_duals[pair.tree]
    n, at = pair.high - pair.low + 1, p - tree.pair_start
    _tabulate_lowest(search, pair)
    for i in range(n * n):
        table[np.uintp(SECOND_TABLE + i)] = -np.inf
    top = -np.inf
    for i in range(tree.begin, tree.stop):
        leaf = leaf_duals[np.uintp(slots[np.uintp(i)])]
        entry = spans[np.uintp(leaf.span + at)].entry
        others = leaf.reduced + table[np.uintp(entry)]
        leaf.others = others
        top = others if others > top else top
        if others > table[np.uintp(SECOND_TABLE + entry)]:
            table[np.uintp(SECOND_TABLE + entry)] = others
    # What can be had all the way from one interval to another can be had on every part of it.
    for length in range(n - 1, 0, -1):
        for i in range(n - length):
            k = SECOND_TABLE + i * n + i + length
            others = table[np.uintp(k)]
            if others > table[np.uintp(k - 1)]:
                table[np.uintp(k - 1)] = others
            if others > table[np.uintp(k + n)]:
                table[np.uintp(k + n)] = others
    for i in range(n):
        # No leaf there, which only categories that exclude each other can bring about: any bound will do.
        marginal = table[np.uintp(SECOND_TABLE + i * n + i)]
        intervals[np.uintp(pair.low + i)].marginal = marginal if marginal > -np.inf else top


@inner
def _tabulate_runs(search, here):
    """Work out the largest sum of marginals in runs of 1, 2, 4, ... cells."""
    marginals, runs = search.marginals, search.runs
    n = here.high - here.low + 1
    for c in range(n):
        runs[np.uintp(c)] = marginals[np.uintp(here.start + here.low + c)].total
    length, row = 1, 0
    while 2 * length <= n:
        for c in range(n - 2 * length + 1):
            one, other = runs[np.uintp(row + c)], runs[np.uintp(row + c + length)]
            runs[np.uintp(row + n + c)] = one if one > other else other
        length, row = 2 * length, row + n


@inner
def _find_largest(search, n, first, last):
    """The largest sum of marginals from one cell to another."""
    length, row = 1, 0
    while 2 * length <= last - first + 1:
        length, row = 2 * length, row + n
    one, other = search.runs[np.uintp(row + first)], search.runs[np.uintp(row + last - length + 1)]
    return one if one > other else other


@inner
def _set_multipliers(search, here, pair, p, n_pairs):
    """Set a pair's multipliers so that its tree keeps its share in every interval, and take them off its leaves."""
    leaf_duals, spans, intervals = search.leaf_duals, search.spans, search.intervals
    slots, table, marginals = search.slots, search.table, search.marginals
    tree, dual = search.tree_duals[pair.tree], search.dual[0]
    before, zero = 0.0, 0.0
    for i in range(pair.low, pair.high + 1):
        interval = intervals[np.uintp(i)]
        first = interval.first if interval.first > here.low else here.low
        last = intervals[np.uintp(i + 1)].first - 1 if i < pair.high else here.high
        share = _find_largest(search, here.high - here.low + 1, first - here.low, last - here.low) / n_pairs
        # What all intervals have in common comes to nothing, but would grow and grow.
        zero = interval.marginal - share if i == pair.low else zero
        multiplier = interval.marginal - share - zero
        interval.multiplier = multiplier
        dual.largest = max(dual.largest, abs(multiplier))
        marginals[np.uintp(here.start + first)].collected += multiplier - before
        before = multiplier
    _tabulate_lowest(search, pair)
    at, best = p - tree.pair_start, -np.inf
    for i in range(tree.begin, tree.stop):
        leaf = leaf_duals[np.uintp(slots[np.uintp(i)])]
        reduced = leaf.others - table[np.uintp(spans[np.uintp(leaf.span + at)].entry)]
        leaf.reduced = reduced
        best = reduced if reduced > best else best
    tree.best = best


@part
def _find_least(search):
    """The least bound of a box that may have an answer."""
    question, price = search.question[0], search.dual[0].price
    return question.target - question.rounding - (price * search.radius[0].within if price > 0.0 else 0.0)


@inner
def _add_marginals(search, axis, bound):
    """Add up the marginals of all trees on an axis, cell by cell: (how many pairs, the bound without them)."""
    pairs, intervals, marginals, trees = search.pairs, search.intervals, search.marginals, search.tree_duals
    here, progress = search.axes[axis], search.progress[0]
    n_pairs, rest = 0, bound - here.dual.collected
    for cell in range(here.start + here.low, here.start + here.high + 1):
        marginals[np.uintp(cell)].total = marginals[np.uintp(cell)].collected = 0.0
    p = np.int64(here.dual.pair)
    while p >= 0:
        pair = pairs[np.uintp(p)]
        tree = trees[np.uintp(pair.tree)]
        if tree.tick == progress.tick and pair.low < pair.high:
            n_pairs += 1
            progress.work += tree.stop - tree.begin
            rest -= tree.best
            _find_marginals(search, pair, p)
            before = 0.0
            for i in range(pair.low, pair.high + 1):
                interval = intervals[np.uintp(i)]
                first = interval.first if interval.first > here.low else here.low
                marginals[np.uintp(here.start + first)].total += interval.marginal - before
                before = interval.marginal
        p = np.int64(pair.following)
    return n_pairs, rest


@inner
def _ascend_axis(search, axis, bound, error):
    """Set all multipliers on an axis: (the bound now, the first and the last cell that can be part of an answer)."""
    pairs, marginals, trees = search.pairs, search.marginals, search.tree_duals
    here, price = search.axes[axis], search.dual[0].price
    n_pairs, rest = _add_marginals(search, axis, bound)
    first, last = here.high + 1, here.low - 1
    running = 0.0
    least = _find_least(search) - error - rest
    for cell in range(here.low, here.high + 1):
        at = np.uintp(here.start + cell)
        running += marginals[at].total
        left = running - price * search.cells[at].cost if price > 0.0 else running
        marginals[at].total = left
        if left >= least:
            first = min(first, cell)
            last = cell
    if n_pairs == 0 or first > last:
        return (bound if n_pairs == 0 else -np.inf), first, last
    _tabulate_runs(search, here)
    bound = rest
    p = np.int64(here.dual.pair)
    while p >= 0:
        pair = pairs[p]
        if trees[pair.tree].tick == search.progress[0].tick and pair.low < pair.high:
            _set_multipliers(search, here, pair, p, n_pairs)
            bound += trees[pair.tree].best
        p = np.int64(pair.following)
    here.dual.collected = _find_most_collected(search, here)
    return bound + here.dual.collected, first, last


@part
def _find_error(search, level):
    """More than rounding can make of a bound: no longer are sums those of leaf values, that may have been exact.

    A share of the largest number, and a little more: shares of denormal numbers are off by as much as these are.
    """
    dual, n_axes = search.dual[0], search.axes.shape[0]
    n_sums = (dual.n_intervals + n_axes) * (search.levels[level].n_trees + 1) * (n_axes + 1)
    return 2.0**-50 * n_sums * (dual.largest + 2.0**-1000)


@inner
def ascend(search, level):
    """Bound a level's box by a pass over all axes: (the bound, whether cells were taken off); -inf if none is left."""
    axes, progress, dual = search.axes, search.progress[0], search.dual[0]
    bound = _enter(search, level)
    dual.largest = max(dual.largest, dual.price * search.radius[0].within) if dual.price > 0.0 else dual.largest
    for i in range(progress.n_active):
        axis = axes[i].active
        if axes[axis].low < axes[axis].high:
            axes[axis].dual.collected = _collect(search, axis)
            bound += axes[axis].dual.collected
        elif dual.price > 0.0:
            bound -= dual.price * search.cells[axes[axis].start + axes[axis].low].cost
    shaved = False
    for i in range(progress.n_active):
        axis = axes[i].active
        low, high = axes[axis].low, axes[axis].high
        if low == high or axes[axis].dual.pair < 0:
            continue
        error = _find_error(search, level)
        if bound < _find_least(search) - error:
            return -np.inf, shaved
        bound, first, last = _ascend_axis(search, axis, bound, error)
        if bound == -np.inf:
            return bound, shaved
        if first > low or last < high:
            narrow(search, axis, first, last)
            shaved = True
    error = _find_error(search, level)
    if bound < _find_least(search) - error:
        return -np.inf, shaved
    return bound + error, shaved
