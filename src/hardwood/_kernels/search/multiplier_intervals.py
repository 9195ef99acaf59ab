"""Where the multipliers of `multipliers` live: (tree, axis) pairs, and intervals of cells that share one."""

import numpy as np

from hardwood._kernels.compiling import inner
from hardwood._kernels.search.state import MAX_INTERVALS


@inner
def _make_pairs(search, begin, stop, n_pairs):
    """Make the pairs of a tree, one for every axis that its leaves have bounds on; how many pairs there are now."""
    axes, each, bounds, pairs, progress = search.axes, search.leaves, search.bounds, search.pairs, search.progress[0]
    progress.tick += 1
    for i in range(begin, stop):
        leaf = search.slots[i]
        for k in range(each[leaf].start, each[leaf].end):
            axis = bounds[k].axis
            here = axes[axis].dual
            if here.tree_tick != progress.tick:
                if n_pairs == pairs.shape[0]:
                    return np.int64(-1)
                here.tree_tick, here.tree_pair = progress.tick, n_pairs
                pairs[n_pairs].axis, pairs[n_pairs].n_bounds = axis, 0
                pairs[n_pairs].following, here.pair = here.pair, n_pairs
                n_pairs += 1
            pairs[here.tree_pair].n_bounds += 1
    return n_pairs


@inner
def _add_interval(intervals, pair, first):
    """Let an interval begin at a cell, unless one does or there are enough: then multipliers are a little coarser."""
    at = pair.end
    while intervals[at - 1].first > first:
        at -= 1
    if intervals[at - 1].first == first or pair.end - pair.start == MAX_INTERVALS:
        return
    for i in range(pair.end, at, -1):
        intervals[i].first = intervals[i - 1].first
    intervals[at].first = first
    pair.end += 1


@inner
def _make_intervals(search, begin, stop, first_pair, n_pairs, n_intervals):
    """Make the intervals of a tree's pairs; how many intervals there are now, or -1 if there is no room."""
    axes, each, bounds, pairs, intervals = search.axes, search.leaves, search.bounds, search.pairs, search.intervals
    end = n_intervals
    for p in range(first_pair, n_pairs):
        room = min(2 * pairs[p].n_bounds + 2, MAX_INTERVALS)
        if end + room > intervals.shape[0]:
            return np.int64(-1)
        intervals[end].first = 0
        pairs[p].start, pairs[p].end = end, end + 1
        end += room
    for i in range(begin, stop):
        leaf = search.slots[i]
        for k in range(each[leaf].start, each[leaf].end):
            pair = pairs[axes[bounds[k].axis].dual.tree_pair]
            _add_interval(intervals, pair, bounds[k].first)
            _add_interval(intervals, pair, bounds[k].last + 1)
    for p in range(first_pair, n_pairs):
        start = n_intervals
        for i in range(pairs[p].start, pairs[p].end):
            intervals[n_intervals].first, intervals[n_intervals].multiplier = intervals[i].first, 0.0
            n_intervals += 1
        pairs[p].start, pairs[p].end = start, n_intervals
    return n_intervals


@inner
def _find_interval(intervals, pair, cell):
    """Which interval of a pair a cell is in, counted from the pair's first."""
    at = pair.end - 1
    while intervals[at].first > cell:
        at -= 1
    return np.int32(at - pair.start)


@inner
def _span_leaf(search, leaf, first_pair, n_pairs, n_spans):
    """Note which intervals of its tree's pairs a leaf spans."""
    axes, each, bounds, pairs, spans = search.axes, search.leaves, search.bounds, search.pairs, search.spans
    for p in range(first_pair, n_pairs):
        span = spans[n_spans + p - first_pair]
        span.first, span.last = 0, pairs[p].end - pairs[p].start - 1
    for k in range(each[leaf].start, each[leaf].end):
        p = axes[bounds[k].axis].dual.tree_pair
        span = spans[n_spans + p - first_pair]
        span.first = _find_interval(search.intervals, pairs[p], bounds[k].first)
        span.last = _find_interval(search.intervals, pairs[p], bounds[k].last)


@inner
def make_multipliers(search):
    """Make pairs and intervals for the leaves of the first level, all multipliers 0; whether there is room."""
    axes, pairs, trees, leaf_duals = search.axes, search.pairs, search.tree_duals, search.leaf_duals
    slots, marks, here, dual = search.slots, search.marks, search.levels[0], search.dual[0]
    n_pairs, n_intervals, n_spans = np.int64(0), np.int64(0), np.int64(0)
    largest = 0.0
    for axis in range(axes.shape[0]):
        axes[axis].dual.pair = -1
    for t in range(here.n_trees):
        begin, stop, first_pair = marks[here.mark + t], marks[here.mark + t + 1], n_pairs
        n_pairs = _make_pairs(search, begin, stop, n_pairs)
        if n_pairs < 0:
            return False
        n_intervals = _make_intervals(search, begin, stop, first_pair, n_pairs, n_intervals)
        if n_intervals < 0 or n_spans + (stop - begin) * (n_pairs - first_pair) > search.spans.shape[0]:
            return False
        trees[t].pair_start, trees[t].pair_end = first_pair, n_pairs
        for p in range(first_pair, n_pairs):
            pairs[p].tree = t
        for i in range(begin, stop):
            leaf = slots[i]
            leaf_duals[leaf].tree, leaf_duals[leaf].span = t, n_spans
            largest = max(largest, abs(search.leaves[leaf].value))
            _span_leaf(search, leaf, first_pair, n_pairs, n_spans)
            n_spans += n_pairs - first_pair
    dual.has_multipliers, dual.largest, dual.n_intervals = 1, largest, n_intervals
    return True
