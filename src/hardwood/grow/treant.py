"""Growing one tree by TREANT: the loss under attack, leaf values chosen against it, and attack invariance.

At every node, for every split, TREANT asks for the two leaf values that minimise the loss after the attacker has sent
each row that has the choice to the worse child. When the children are split further, a row might come to prefer the
other side, and the loss that was minimised would not be the loss any more. Attack invariance forbids that: a row
that went left must not lose less there than it would have on the right, and on the right no leaf that it could get
to may be worse for it than the one it turned down.

============================================  ==========================================================
TREANT                                        here
============================================  ==========================================================
instances of a node                           residents: entries that count
constraints of a node                         visitors (and residents): entries that bound leaf values
``D_l``, ``D_r``, ``D_unk``                   `_kernels.grow.treant.SplitGroups`
loss of a row at least / at most a bound      value at least / at most a bound: both losses are monotonic
constrained optimisation by SLSQP             closed form (`_kernels.grow.treant.solve`)
attacks enumerated, cost paid at every split  pieces; the least cost of the node's whole box, feature by feature
thresholds at the values of the table         the same, or midway between the ends of what rows can reach
============================================  ==========================================================

A categorical split sends one category left and all others right, as TREANT's do.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hardwood._kernels.grow import treant as kernels
from hardwood._kernels.grow.orders import TIE_TOLERANCE
from hardwood._kernels.grow.treant import Entries, PieceTable
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.building import Nodes, assemble
from hardwood.grow.limits import SizeLimits
from hardwood.grow.workers import Workers, hire
from hardwood.rows.task import Task
from hardwood.threat.priced_reach import Pieces, PricedReach

LOSSES = {"squared": kernels.SQUARED, "log": kernels.LOG}
# What a split must gain per unit of weight: less is rounding.
LEAST_GAIN = 1e-10


@dataclass(frozen=True)
class TreantOptions:
    """When to stop growing a TREANT tree, and how to choose its splits."""

    size: SizeLimits
    loss: str
    midway: bool
    n_threads: int


class Split(NamedTuple):
    """A split of a node: on a threshold, or on one category against the others."""

    loss: float
    feature: int
    threshold: float
    left: float
    right: float
    category: int = -1


@dataclass
class _Node:
    """A node that is still to be looked at: who can get there, and the part of the input space that it is."""

    entries: Entries
    low: np.ndarray
    high: np.ndarray
    allowed: dict[int, np.ndarray]
    value: float
    depth: int


def grow_treant(problem: Task, reach: PricedReach, options: TreantOptions) -> TreeEnsemble:
    """Grow one tree; `reach` is what the problem's threat means for its table, with prices."""
    weight = problem.row_weight
    counts = weight > 0.0  # a class may weigh nothing
    X, class_index = problem.X[counts], problem.class_index[counts]
    with hire(options.n_threads) as workers:
        grower = _Grower(_Attacker(X, class_index, reach), options, workers)
        grower.grow(class_index, weight[counts])
    return _harvest(grower, problem)


class _Attacker:
    """What the attacker can do to every training row, feature by feature."""

    def __init__(self, X: np.ndarray, class_index: np.ndarray, reach: PricedReach) -> None:
        self.limit = reach.limit
        self.n_features = X.shape[1]
        self.prices: dict[int, np.ndarray] = {}
        pieces: list[Pieces | None] = []
        for feature, cost in enumerate(reach.category_cost):
            if cost is not None:
                self.prices[feature] = reach.category_prices(X, class_index, feature)
            pieces.append(reach.pieces(X, class_index, feature) if cost is None else None)
        count = [0 if p is None else p.low.shape[1] for p in pieces]
        low, high, cost = (
            np.concatenate([np.empty((0, len(X))), *(p[k].T for p in pieces if p is not None)]) for k in range(3)
        )
        start = np.concatenate([[0], np.cumsum(count)])
        self.table = PieceTable(low, high, cost, start, size=np.zeros(self.n_features))
        for feature in range(self.n_features):
            if count[feature]:
                self.table.size[feature] = _furthest(X[:, feature], pieces[feature])
        self.thresholds = np.sort(X.T + _tie_width(X.T, self.table.size[:, None]), axis=1)

    def costs(self, node: _Node, feature: int, low: float, high: float) -> np.ndarray:
        """Return what each entry pays at least for a numerical feature above `low` and not above `high`."""
        columns = slice(self.table.start[feature], self.table.start[feature + 1])
        rows = node.entries.row
        return Pieces(*(array[columns, rows].T for array in self.table[:3])).least_cost(low, high)

    def category_costs(self, node: _Node, feature: int, allowed: np.ndarray) -> np.ndarray:
        """Return what each entry pays at least for one of the categories that are allowed."""
        return np.where(allowed, self.prices[feature][node.entries.row], np.inf).min(axis=1)


def _furthest(column: np.ndarray, pieces: Pieces | None) -> float:
    """Return how far any value can be moved, as far as that is finite."""
    assert pieces is not None
    largest = np.finfo(np.float64).max
    with np.errstate(over="ignore"):  # the distance between two finite numbers may be infinite, too
        distance = np.abs([np.where(np.abs(end) < largest, end - column[:, None], 0.0) for end in pieces[:2]])
    return float(distance.max(initial=0.0, where=distance < np.inf))


def _tie_width(values: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return how far two numbers near `values` may be apart and still count as equal: rounding, where things move."""
    return np.where(size > 0.0, TIE_TOLERANCE * np.maximum(np.abs(values), size), 0.0)


def _between_ends(low: np.ndarray, high: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return the thresholds midway between neighbouring ends of what rows can reach, feature by feature."""
    ends = np.sort(np.concatenate([low, high], axis=1), axis=1)
    below, above = ends[:, :-1], ends[:, 1:]
    largest = np.finfo(np.float64).max
    with np.errstate(invalid="ignore", over="ignore"):  # categories have infinite ends, and no thresholds
        middle = 0.5 * below + 0.5 * above
        width = _tie_width(np.maximum(np.abs(below), np.abs(above)), size[:, None])
        apart = (above - below > width) & (below > -largest) & (above < largest)
    middle = np.where((below <= middle) & (middle < above), middle, below)
    return np.sort(np.where(apart, middle, np.inf), axis=1)


class _Grower:
    """One tree while it grows."""

    def __init__(self, attacker: _Attacker, options: TreantOptions, workers: Workers) -> None:
        self.attacker, self.options, self.workers = attacker, options, workers
        self.kind = LOSSES[options.loss]
        self.value: list[float] = []
        self.cover: list[float] = []
        self.split: dict[int, tuple[Split, int]] = {}  # by node: the split, and the left child's number

    def grow(self, class_index: np.ndarray, weight: np.ndarray) -> None:
        """Split nodes, the deepest first, until no split lowers the loss under attack."""
        n_rows, n_features = len(class_index), self.attacker.n_features
        entries = Entries(
            row=np.arange(n_rows),
            resident=np.ones(n_rows, dtype=bool),
            class_index=class_index.astype(np.int64),
            weight=weight,
            lower=np.full(n_rows, -np.inf),
            upper=np.full(n_rows, np.inf),
            spent=np.zeros(n_rows),
        )
        allowed = {feature: np.ones(prices.shape[1], dtype=bool) for feature, prices in self.attacker.prices.items()}
        low, high = np.full(n_features, -np.inf), np.full(n_features, np.inf)
        root = _Node(entries, low, high, allowed, float(np.average(class_index, weights=weight)), 0)
        pending = [(self._add(root), root)]
        while pending:
            number, node = pending.pop()
            split = self._find_split(node)
            if split is not None:
                children = self._divide(node, split)
                numbers = [self._add(child) for child in children]
                self.split[number] = (split, numbers[0])
                pending += reversed(list(zip(numbers, children, strict=True)))

    def _add(self, node: _Node) -> int:
        self.value.append(node.value)
        self.cover.append(float(node.entries.weight[node.entries.resident].sum()))
        return len(self.value) - 1

    def _find_split(self, node: _Node) -> Split | None:
        """Return the split with the least loss under attack, if that is less than the node's own."""
        entries, size = node.entries, self.options.size
        residents = entries.resident
        if node.depth >= size.max_depth or residents.sum() < size.min_samples_split:
            return None
        zero, one = np.bincount(entries.class_index[residents], entries.weight[residents], minlength=2)
        own = _loss_of(self.options.loss, zero, one, node.value)
        shares = self.workers.share(0, self.attacker.n_features)
        found = self.workers.run(self._find_threshold, [(node, *share) for share in shares])
        found += [self._find_category(node, feature) for feature in self.attacker.prices]
        best = min(found, key=lambda split: split.loss)  # the first of equals, however many threads there are
        return best if own - best.loss > LEAST_GAIN * (zero + one) else None

    def _find_threshold(self, node: _Node, begin: int, end: int) -> Split:
        """Return the best split on the numerical ones of the features `begin` to `end`."""
        n = len(node.entries.row)
        low, high = np.empty((end - begin, n)), np.empty((end - begin, n))
        table, limit = self.attacker.table, self.attacker.limit
        kernels.find_ends(table, node.entries, node.low, node.high, limit, begin, end, low, high)
        if self.options.midway:
            thresholds = _between_ends(low, high, table.size[begin:end])
        else:
            thresholds = self.attacker.thresholds[begin:end]
        groups = kernels.SplitGroups(np.empty((3, 2)), np.empty((3, 2), dtype=np.int64), np.empty((2, 2)))
        ends = kernels.Ends(low, high, low.argsort(axis=1), high.argsort(axis=1), thresholds)
        limits = (self.options.size.min_samples_leaf, self.kind)
        best = kernels.find_threshold(table, node.entries, ends, begin, *limits, groups, np.empty((2, n + 1)))
        return Split(*best)

    def _find_category(self, node: _Node, feature: int) -> Split:
        """Return the best split of one category from the others."""
        entries, allowed = node.entries, node.allowed[feature]
        prices = np.where(allowed, self.attacker.prices[feature][entries.row], np.inf)
        others = entries.spent - prices.min(axis=1)
        can = (others[:, None] + prices) <= self.attacker.limit
        only = can & (can.sum(axis=1) == 1)[:, None]
        weight, count = np.zeros((len(allowed), 3, 2)), np.zeros((len(allowed), 3, 2), dtype=np.int64)
        for k, group in enumerate((only, ~can, can & ~only)):
            for one in range(2):
                mine = entries.resident & (entries.class_index == one)
                count[:, k, one] = group[mine].sum(axis=0)
                weight[:, k, one] = entries.weight[mine] @ group[mine]
        bounds = np.empty((len(allowed), 2, 2))
        for k, group in enumerate((can, ~only)):
            bounds[:, k, 0] = np.where(group, entries.lower[:, None], -np.inf).max(axis=0)
            bounds[:, k, 1] = np.where(group, entries.upper[:, None], np.inf).min(axis=0)
        loss, left, right = np.empty((3, len(allowed)))
        limits = (self.options.size.min_samples_leaf, self.kind)
        kernels.solve_candidates(weight, count, bounds, *limits, loss, left, right)
        loss[~allowed] = np.inf
        k = int(loss.argmin())
        return Split(loss[k], feature, 0.0, left[k], right[k], k)

    def _divide(self, node: _Node, split: Split) -> list[_Node]:
        """Make the two children: who can get there, at what cost, and within which bounds."""
        feature, attacker = split.feature, self.attacker
        boxes = _halves(node, split)
        if split.category >= 0:
            here = attacker.category_costs(node, feature, node.allowed[feature])
            costs = [attacker.category_costs(node, feature, allowed[feature]) for _, _, allowed in boxes]
        else:
            here = attacker.costs(node, feature, node.low[feature], node.high[feature])
            costs = [attacker.costs(node, feature, low[feature], high[feature]) for low, high, _ in boxes]
        others = node.entries.spent - here
        spent = [others + cost for cost in costs]
        can = [s <= attacker.limit for s in spent]
        children = []
        for side, box in enumerate(boxes):
            entries = _settle(node.entries, split, can, side)._replace(spent=spent[side])
            kept = Entries(*(array[can[side]] for array in entries))
            children.append(_Node(kept, *box, (split.left, split.right)[side], node.depth + 1))
        return children


def _settle(entries: Entries, split: Split, can: list[np.ndarray], side: int) -> Entries:
    """Send the residents that have the choice where the attacker wants them, and bound what comes after."""
    increases = split.left < split.right
    goes_left = (entries.class_index == 1) == increases
    torn = entries.resident & can[0] & can[1]
    lower, upper = entries.lower.copy(), entries.upper.copy()
    turned_down = np.where(goes_left, split.right, split.left)[torn]
    # The values of the left subtree stay below those that were turned down, or above, and those of the right the other
    # way round: so the side that was the worse one remains it.
    if increases == (side == 0):
        upper[torn] = np.minimum(upper[torn], turned_down)
    else:
        lower[torn] = np.maximum(lower[torn], turned_down)
    resident = entries.resident & (~torn | (goes_left == (side == 0)))
    return entries._replace(resident=resident, lower=lower, upper=upper)


def _halves(node: _Node, split: Split) -> list[tuple[np.ndarray, np.ndarray, dict[int, np.ndarray]]]:
    """Return the parts of the input space that the children are."""
    feature = split.feature
    if split.category < 0:
        below, above = node.high.copy(), node.low.copy()
        below[feature] = above[feature] = split.threshold
        return [(node.low, below, node.allowed), (above, node.high, node.allowed)]
    chosen = np.arange(len(node.allowed[feature])) == split.category
    sets = (node.allowed[feature] & chosen, node.allowed[feature] & ~chosen)
    return [(node.low, node.high, node.allowed | {feature: members}) for members in sets]


def _loss_of(loss: str, zero: float, one: float, value: float) -> float:
    """Return the loss of rows that all get the same value."""
    if loss == "squared":
        return one * (1.0 - value) ** 2 + zero * value**2
    p = np.clip(value, kernels.LEAST_PROBABILITY, 1.0 - kernels.LEAST_PROBABILITY)
    return float(-one * np.log(p) - zero * np.log(1.0 - p))


def _harvest(grower: _Grower, problem: Task) -> TreeEnsemble:
    """Return the finished tree, without what only growing needed."""
    n_nodes = len(grower.value)
    feature, left = np.full(n_nodes, -1), np.full(n_nodes, -1)
    threshold, value, cover = np.zeros(n_nodes), np.array(grower.value), np.array(grower.cover)
    left_sets = {}
    for node, (split, child) in grower.split.items():
        feature[node], threshold[node], left[node] = split.feature, split.threshold, child
        labels = problem.schema.categories[split.feature]
        if labels is not None:
            left_sets[node] = np.arange(len(labels) + 1) == split.category
    return assemble(
        Nodes(
            size=np.array([n_nodes]),
            feature=feature,
            threshold=threshold,
            left=left,
            right=left + 1,
            value=np.column_stack([1.0 - value, value]),
            cover=cover * problem.weight_unit,
            missing_left=cover[left] >= cover[left + 1],
        ),
        problem.schema,
        left_sets,
        base_score=np.zeros(2),
        link="probability",
        classes=problem.classes,
    )
