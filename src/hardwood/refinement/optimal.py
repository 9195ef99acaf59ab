"""Trees of least adversarial error, with proof: best-first search over the root's cut.

If the root's cut moves from ``k`` to ``k'``, only the rows whose sides change can be lost or won. So what is known of
one cut is known, less the weight of those rows, of all its neighbours. The search keeps intervals of cuts, each with a
lower bound of the loss of every tree whose root is in it, and always looks at the cut with the least bound. It is done
when no bound is less than the loss of the best tree known. Stopped before, the least bound is what has been proved.

Trees of two levels are settled root by root in a kernel. For deeper ones, the rows that can go either way at the root
are given to one side only, the same search tells what each side loses at least, and both bounds are added up.
"""

import heapq
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import working_time
from hardwood._kernels.refine import optimal as kernels
from hardwood.refinement.optimal_columns import Link


class Split(NamedTuple):
    """An inner node in terms of cuts; a leaf is its class index."""

    feature: int
    cut: int
    left: "Split | int"
    right: "Split | int"


class Optimum(NamedTuple):
    """What is known of the least loss: the best tree found (None: none below the limit), its loss, a lower bound."""

    tree: Split | int | None
    loss: float
    lower: float


class Interval(NamedTuple):
    """Neighbouring cuts of one feature that have not been looked at."""

    feature: int
    cuts: np.ndarray
    bounds: np.ndarray  # per cut: no tree with this root has a smaller loss

    def choose(self) -> int:
        """Return the position of the cut to look at next: of those with the least bound, the one in the middle."""
        least = np.flatnonzero(self.bounds == self.bounds.min())
        return int(least[len(least) // 2])

    def remove(self, at: int, value: float, change: np.ndarray, upper: float) -> list["Interval"]:
        """Return what is left to be looked at, now that the cut at position `at` is known to lose `value` or more.

        `change` is the weight of rows whose sides change from cut to cut, added up from the first cut on.
        """
        bounds = np.maximum(self.bounds, value - np.abs(change[self.cuts] - change[self.cuts[at]]))
        parts = []
        for part in (slice(0, at), slice(at + 1, None)):
            is_open = np.flatnonzero(bounds[part] < upper)
            if len(is_open):
                inside = slice(is_open[0], is_open[-1] + 1)
                parts.append(Interval(self.feature, self.cuts[part][inside], bounds[part][inside]))
        return parts


class Samples(NamedTuple):
    """Rows in terms of cuts, as :class:`kernels.Codes` explains them."""

    low: np.ndarray
    high: np.ndarray
    n_cuts: np.ndarray
    class_index: np.ndarray
    weight: np.ndarray
    n_classes: int = 2
    link: Link | None = None  # what the codes are made of, where that depends on tests above

    def select(self, rows: np.ndarray) -> "Samples":
        """Return some of the rows."""
        low, high = (np.ascontiguousarray(codes[:, rows]) for codes in (self.low, self.high))
        link = None if self.link is None else self.link.select(rows)
        return Samples(low, high, self.n_cuts, self.class_index[rows], self.weight[rows], self.n_classes, link)

    def enter(self, feature: int, cut: int, *, is_left: bool) -> "Samples":
        """Return the rows as they are on one side of a cut; those that cannot get there mean nothing then."""
        if self.link is None or self.link.columns[feature].feature not in self.link.choices:
            return self
        low, high, link = self.link.enter(self.low, self.high, feature, cut, is_left=is_left)
        return self._replace(low=low, high=high, link=link)

    def encode(self) -> kernels.Codes:
        """Return the rows as kernels take them."""
        size = int(self.n_cuts.max(initial=0)) + 1
        change = np.empty((len(self.low), size))
        for feature, codes in enumerate(zip(self.low, self.high, strict=True)):
            change[feature] = sum(np.bincount(code, self.weight, minlength=size) for code in codes)
        if self.link is not None:
            for k, column in enumerate(self.link.columns):
                if column.feature in self.link.choices:
                    change[k] += self.link.choices[column.feature].measure_change(self.weight, size)
        return kernels.Codes(self.low, self.high, self.n_cuts, change, self.class_index, self.weight)

    def goes(self, feature: int, cut: int) -> tuple[np.ndarray, np.ndarray]:
        """Say of each row whether it can be moved to the left of a cut, and whether to the right."""
        return self.low[feature] <= cut, cut < self.high[feature]

    def find_lost(self, tree: Split | int) -> np.ndarray:
        """Say of each row whether a tree loses it."""
        if not isinstance(tree, Split):
            return self.class_index != tree
        lost = np.zeros(len(self.weight), dtype=bool)
        for goes, below, is_left in zip(
            self.goes(tree.feature, tree.cut), (tree.left, tree.right), (True, False), strict=True
        ):
            rows = np.flatnonzero(goes)
            lost[rows] |= self.enter(tree.feature, tree.cut, is_left=is_left).select(rows).find_lost(below)
        return lost


def find_optimum(
    samples: Samples,
    depth: int,
    limit: float = np.inf,
    end: float = np.inf,
    progress: Callable[[float, float], object] | None = None,
) -> Optimum:
    """Find the tree of at most `depth` levels that loses least, if it loses less than `limit`.

    `end` is the time (of the monotonic clock) to stop at; Ctrl-C stops it, too, with what is known by then. `progress`
    is called with the lower bound and the loss of the best tree.
    """
    search = _RootSearch(samples, depth, limit, end)
    with suppress(KeyboardInterrupt):
        search.run(progress)
    return search.answer()


def _search_below(samples: Samples, depth: int, limit: float, end: float) -> Optimum:
    """Do the same for a part of a tree. Ctrl-C is for the search of the whole."""
    search = _RootSearch(samples, depth, limit, end)
    search.run(None)
    return search.answer()


class _RootSearch:
    """The search over the root's cuts: what has been found, and the intervals that are left."""

    def __init__(self, samples: Samples, depth: int, limit: float, end: float) -> None:
        self.samples, self.depth, self.end = samples, depth, end
        self.tree: Split | int | None = None
        self.upper = limit
        n_rows = samples.low.shape[1]
        self._codes = samples.encode()
        self._change = self._codes.change.cumsum(axis=1)
        lists = [np.empty(n_rows, dtype=np.int64) for _ in range(5)]
        size = self._change.shape[1]
        self._scratch = kernels.Scratch._make([*lists, np.empty((4, size)), np.empty((2, samples.n_classes))])
        self._rows = np.arange(n_rows)
        self._numbers = count()  # intervals of equal bounds are looked at in the order in which they came up
        self._intervals: list[tuple[float, int, Interval]] = []
        self._unsettled = 0.0 if depth >= 2 else np.inf  # the least bound of roots that are in no interval

    def run(self, progress: Callable[[float, float], object] | None) -> None:
        """Search until it is proved that no tree is better, or the time is up."""
        self._try_leaf_and_stump()
        if self.depth >= 2 and self.upper > 0.0:
            least = self._find_least_below() if self.depth > 2 else self._stump_loss
            self._unsettled = np.inf
            for feature, n_cuts in enumerate(self.samples.n_cuts.tolist()):
                if n_cuts:
                    self._add(self._begin(feature, n_cuts, least))
        while self._intervals and self._intervals[0][0] < self.upper:
            if working_time() >= self.end:
                return
            self._look(self._intervals[0][2])
            if progress is not None:
                progress(self.find_lower(), self.upper)

    def find_lower(self) -> float:
        """Return a loss that no tree comes below."""
        if not self._intervals:
            return min(self.upper, self._unsettled)
        return min(self.upper, self._unsettled, self._intervals[0][0])

    def answer(self) -> Optimum:
        """Return what is known."""
        return Optimum(self.tree, self.upper, self.find_lower())

    def _note(self, loss: float, tree: Split | int) -> None:
        if loss < self.upper:
            self.upper, self.tree = loss, tree

    def _add(self, interval: Interval) -> None:
        heapq.heappush(self._intervals, (float(interval.bounds.min()), next(self._numbers), interval))

    def _try_leaf_and_stump(self) -> None:
        total = float(self.samples.weight.sum())
        kept = [float(self.samples.weight[self.samples.class_index == k].sum()) for k in range(self.samples.n_classes)]
        if self.samples.n_classes == 2:  # rounding must not decide between two
            kept[0] = total - kept[1]
        best = int(np.argmax(kept))
        self._note(kept[1 - best] if len(kept) == 2 else total - kept[best], best)
        if self.depth:
            choice = np.empty(4, dtype=np.int64)
            self._stump_loss = kernels.fit_stump(self._codes, self._rows, self._scratch, choice)
            self._note(self._stump_loss, _read_stump(choice))

    def _find_least_below(self) -> float:
        """Return a bound of the trees with one level less, and note the best of them."""
        tree, loss, lower = _search_below(self.samples, self.depth - 1, self.upper, self.end)
        if tree is not None:
            self._note(loss, tree)
        return lower

    def _begin(self, feature: int, n_cuts: int, least: float) -> Interval:
        """Return all cuts of a feature. A root that sends all rows to one side is as good as none: it loses `least`."""
        cuts = np.arange(n_cuts)
        change = self._change[feature]
        return Interval(feature, cuts, np.maximum(0.0, least - np.minimum(change[cuts], change[n_cuts] - change[cuts])))

    def _look(self, interval: Interval) -> None:
        """Find out about one root, and what follows for its neighbours."""
        at = interval.choose()
        feature, cut = interval.feature, int(interval.cuts[at])
        value = self._settle(feature, cut) if self.depth == 2 else self._bound(feature, cut)
        value = max(value, float(interval.bounds[at]))
        heapq.heappop(self._intervals)  # only now: a search that is interrupted keeps the bound
        self._unsettled = min(self._unsettled, value)
        for part in interval.remove(at, value, self._change[feature], self.upper):
            self._add(part)

    def _settle(self, feature: int, cut: int) -> float:
        """Return the least loss of two stumps below a root, or a bound where that is no better than what is known."""
        left_choice, choice, spare = (np.empty(size, dtype=np.int64) for size in (4, 8, 4))
        sides = []
        for is_left in (True, False):
            there = self.samples.enter(feature, cut, is_left=is_left)
            sides.append(self._codes if there is self.samples else there.encode())
        value = kernels.fit_root(
            self._codes, *sides, feature, cut, self._rows, self.upper, self._scratch, left_choice, choice, spare
        )
        if value < self.upper:
            self._note(value, Split(feature, cut, _read_stump(choice[:4]), _read_stump(choice[4:])))
        return value

    def _bound(self, feature: int, cut: int) -> float:
        """Return a lower bound of all trees with a root; note a tree found on the way, if it is the best.

        Where no row can go either way, the bound is the least loss.
        """
        left, right = self.samples.goes(feature, cut)
        on_left, on_right = (self.samples.enter(feature, cut, is_left=is_left) for is_left in (True, False))
        bound = 0.0
        for first, second, one, another, is_swapped in (
            (left, right, on_left, on_right, False),
            (right, left, on_right, on_left, True),
        ):
            own = np.flatnonzero(second & ~first)
            rest = _search_below(another.select(own), self.depth - 1, self.upper, self.end)
            if rest.lower >= self.upper:
                return rest.lower
            rows = np.flatnonzero(first)
            found = _search_below(one.select(rows), self.depth - 1, self.upper - rest.lower, self.end)
            bound = max(bound, found.lower + rest.lower)
            if bound >= self.upper:
                return bound
            if found.tree is not None:
                lost = np.zeros(len(left), dtype=bool)
                lost[rows] = one.select(rows).find_lost(found.tree)
                other = np.flatnonzero(second & ~lost)
                best = _search_below(another.select(other), self.depth - 1, self.upper - found.loss, self.end)
                if best.tree is not None:
                    below = (best.tree, found.tree) if is_swapped else (found.tree, best.tree)
                    self._note(found.loss + best.loss, Split(feature, cut, *below))
            if bound >= self.upper or not (first & second).any():
                return bound
        return bound


def _read_stump(choice: np.ndarray) -> Split | int:
    feature, cut, left, right = choice.tolist()
    return left if feature < 0 else Split(feature, cut, left, right)
