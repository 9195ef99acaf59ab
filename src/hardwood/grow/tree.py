"""Growing one robust tree.

The paper's Algorithm 2 with its Algorithm 1 replaced by the shift theorem. A split is good if one side stays richer in
a class whatever the attacker does. Say the left side is class 0's (orientation 0): the attacker's best answer is to
send every class-1 sample that can get there left and every class-0 sample that can get there right, that is, to treat
each sample as if it sat at one end of its reach::

    orientation 0 (left is class 0's)    class 0 at x + right reach    class 1 at x - left reach
    orientation 1 (left is class 1's)    class 0 at x - left reach     class 1 at x + right reach

So the best robust split is the better of two ordinary scans over shifted values, keeping only thresholds whose
orientation holds, and samples go to the child where their shifted value falls. Each order is sorted once, before the
first node.

========================  ===========================================================
paper                     here
========================  ===========================================================
``L``, ``R``, ``LI/RI``   never formed: a shifted position says which side a sample takes
``S_robust``              `_kernels.grow.criteria.gain`
``x', y'``                the corner of the box: all movable samples that hurt, none that help
``rho``                   `class_count`: a row is a moving part rho and a staying part 1 - rho
========================  ===========================================================

With rho < 1 the paper lets a random share 1 - rho of the movable samples stay at every split. Here every row of an
attacking class is two samples from the start, one of weight rho that always moves and one of weight 1 - rho that never
does: an attacker either attacks or does not. That is deterministic, does not multiply samples down the tree, and makes
the tree's objective the plain mixture of natural and adversarial impurity.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow import category_search, growing
from hardwood._kernels.grow.criteria import ENTROPY, ERROR, GINI
from hardwood._kernels.grow.nodes import NODE, Limits
from hardwood._kernels.grow.orders import MAX_ROWS
from hardwood._kernels.grow.scanning import BLOCK
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.bit_sets import pack_sets
from hardwood.grow.presort import fill_orders, lay_out_moves
from hardwood.grow.searches import Search, search_categories, search_chen
from hardwood.table import Schema
from hardwood.threat import Reach

CRITERIA = {"gini": GINI, "entropy": ENTROPY, "error": ERROR}
ATTACKERS = ("groot", "chen", "chen-greedy")

# Nodes with fewer samples are not worth handing to threads.
LARGE_NODE = 1 << 14
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class GrowOptions:
    """When to stop growing and how to choose, every default already resolved to a number."""

    criterion: str
    rho: float
    max_depth: int
    min_samples_split: int
    min_samples_leaf: int
    min_impurity_decrease: float
    max_features: int
    max_leaf_nodes: int | None
    seed: int
    n_threads: int
    attacker: str = "groot"


def grow_tree(
    X: np.ndarray,
    class_index: np.ndarray,
    sample_weight: np.ndarray | None,
    class_weight: np.ndarray,
    reach: Reach,
    schema: Schema,
    classes: np.ndarray,
    options: GrowOptions,
) -> TreeEnsemble:
    """Grow one tree on an encoded matrix.

    Parameters
    ----------
    X : float64 (n, features), as `Schema.encode` makes it
    class_index : uint8 (n,), the class of each row
    sample_weight : float64 (n,) or None, positive
    class_weight : float64 (2,)
    """
    if len(X) > MAX_ROWS:
        raise ValueError(f"X has {len(X)} rows; at most {MAX_ROWS} are supported.")
    attacks = reach.attacks & (options.rho > 0.0)
    limits = _limits(attacks, options)
    if options.attacker == "groot":
        moves = lay_out_moves(reach, attacks)
        search = search_categories(reach, attacks)
    else:  # rows stay where they are, and what an attacker could do is left to the search
        moves = lay_out_moves(reach, np.zeros(2, dtype=bool))
        moves = moves._replace(elsewhere=np.ones(len(reach.left), dtype=bool))
        search = search_chen(reach, attacks, greedy=options.attacker == "chen-greedy")
    with _threads(options.n_threads) as run:
        samples = _prepare(X, class_index, sample_weight, class_weight, attacks, moves, options, run)
        grower = _Grower(samples, moves, search, limits, run, options.n_threads)
        grower.plant(class_index, options.seed)
        grower.grow()
    return _harvest(grower, schema, classes)


Runner = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]


@contextmanager
def _threads(n_threads: int) -> Iterator[Runner]:
    """A way to call a kernel on several argument tuples: one after another, or each in a thread."""
    if n_threads == 1:
        yield lambda function, calls: [function(*call) for call in calls]
        return
    with ThreadPoolExecutor(n_threads) as pool:
        yield lambda function, calls: list(pool.map(lambda call: function(*call), calls))


def _shares(items: tuple[int, int], n_threads: int) -> list[tuple[int, int]]:
    """Cut a range into one contiguous share per thread."""
    begin, end = items
    n_shares = min(end - begin, n_threads)
    return list(pairwise(begin + (end - begin) * k // n_shares for k in range(n_shares + 1)))


def _prepare(
    X: np.ndarray,
    class_index: np.ndarray,
    sample_weight: np.ndarray | None,
    class_weight: np.ndarray,
    attacks: np.ndarray,
    moves: growing.Moves,
    options: GrowOptions,
    run: Runner,
) -> growing.Samples:
    """Sort every feature in both orientations, and weigh the samples."""
    rho = options.rho
    splits = attacks & (rho < 1.0)  # classes whose rows are two samples
    orders = fill_orders(X, class_index, splits, moves, run, _shares((0, X.shape[1]), options.n_threads))
    class_count = np.where(splits[:, None], [rho, 1.0 - rho], [1.0, 0.0])
    weight = None
    if sample_weight is not None:
        row_weight = sample_weight * class_weight[class_index]
        weight = row_weight * class_count[class_index, 0]
        if splits.any():
            weight = np.concatenate([weight, row_weight * class_count[class_index, 1]])
    return growing.Samples(
        X=frozen(X),
        orders=orders,
        weight=weight,
        weights=tuple((class_count * class_weight[:, None]).ravel().tolist()),
        parts=tuple(class_count.ravel().tolist()),
        side=np.zeros(len(X) * (2 if splits.any() else 1) // 32 + 1, dtype=np.uint32),
    )


def _limits(attacks: np.ndarray, options: GrowOptions) -> Limits:
    whole_rows = options.rho == 1.0 or not attacks.any()
    any_leaf = options.min_samples_leaf <= 1 and whole_rows
    return Limits(
        criterion=CRITERIA[options.criterion],
        max_depth=options.max_depth,
        # Parts of rows are added up in floating point: a whole row may come out a trifle short.
        min_split=options.min_samples_split - 1e-6,
        min_leaf=0.0 if any_leaf else options.min_samples_leaf - 1e-6,
        min_gain=options.min_impurity_decrease,
        max_features=options.max_features,
        max_leaves=_NEVER if options.max_leaf_nodes is None else options.max_leaf_nodes,
        best_first=options.max_leaf_nodes is not None,
    )


class _Workspace(NamedTuple):
    """Scratch for one thread."""

    numbers: growing.Workspace
    scratch: Any  # of the search


class _Grower:
    """One tree while it grows: its arrays, and the loop around the kernels."""

    def __init__(
        self,
        samples: growing.Samples,
        moves: growing.Moves,
        search: Search | None,
        limits: Limits,
        run: Runner,
        n_threads: int,
    ) -> None:
        self.samples = samples
        self.moves = moves
        self.search = search
        self.limits = limits
        self.run = run
        self.n_threads = n_threads
        self.nodes = np.zeros(0, dtype=NODE)
        n_categories = 0 if search is None else search.n_categories
        self.sides = np.zeros((0, n_categories), dtype=np.uint8)  # see category_search.py
        self.frontier = growing.Frontier(np.empty(0, dtype=np.int64), np.zeros(4, dtype=np.int64))
        self._resize(256)

    def _resize(self, capacity: int) -> None:
        self.nodes = _lengthen(self.nodes, capacity)
        self.sides = _lengthen(self.sides, capacity)
        self.frontier = self.frontier._replace(heap=_lengthen(self.frontier.heap, capacity))

    def plant(self, class_index: np.ndarray, seed: int) -> None:
        """Make the root."""
        samples = self.samples
        if samples.weight is not None:
            label = np.tile(class_index, len(samples.weight) // len(class_index))
            zero, one = np.bincount(label, samples.weight, minlength=2)
        else:
            zero, one = np.bincount(class_index, minlength=2) * np.reshape(samples.weights, (2, 2)).sum(axis=1)
        root = self.nodes[0]
        root["feature"] = root["left"] = root["parent"] = -1
        root["end"] = samples.orders.shape[1]
        root["zero"], root["one"], root["count"], root["seed"] = zero, one, len(class_index), seed
        self.frontier.sizes[[growing.NODES, growing.LEAVES]] = 1
        # The relative slack lets a gain that equals the bound but for rounding pass, as scikit-learn does.
        self.limits = self.limits._replace(min_gain=self.limits.min_gain * (zero + one) * (1.0 - 1e-12))

    def grow(self) -> None:
        """Split the frontier's nodes until none is left; large ones with all threads."""
        threaded, searches = self.n_threads > 1, self.search is not None
        works = [self._workspace() for _ in range(self.n_threads)]
        if threaded:
            self._evaluate(0, works)
        elif searches:
            self._search(0, 1, works[0])
        while True:
            context = (self.samples, self.moves, self.limits, self.nodes, self.sides, self.frontier)
            large = LARGE_NODE if threaded else _NEVER
            reason, node = growing.grow(*context, large, searches, works[0].numbers)
            if reason == growing.DONE:
                return
            if reason == growing.FULL:
                self._resize(2 * len(self.nodes))
            elif reason == growing.NEW:
                self._search(node, 2, works[0])
            elif growing.split(*context, node, works[0].numbers):
                shares = zip(_shares((0, self.samples.X.shape[1]), self.n_threads), works, strict=False)
                divided = (self.samples, self.moves, self.nodes, node)
                self.run(growing.divide, [(*divided, *share, work.numbers) for share, work in shares])
                left = int(self.nodes["left"][node])
                self._evaluate(left, works)
                self._evaluate(left + 1, works)

    def _evaluate(self, node: int, works: list[_Workspace]) -> None:
        """Find a node's best split, the features shared out among the threads."""
        n_features = self.samples.X.shape[1]
        context = (self.samples, self.moves, self.limits)
        self.frontier.sizes[growing.EVALUATED] += 1
        begin, end = 0, min(self.limits.max_features, n_features)
        while begin < n_features:  # once, unless none of the first max_features features can split
            shares = list(zip(_shares((begin, end), self.n_threads), works, strict=False))
            if self.search is not None:
                self._share_search(self.search, node, shares)
            found = np.tile(self.nodes[node : node + 1], (len(shares), 1))
            self.run(
                growing.search, [(*context, found[k], *share, work.numbers) for k, (share, work) in enumerate(shares)]
            )
            self.nodes[node] = found[found["gain"].argmax(), 0]  # the first of equals, as in one thread
            if self.nodes["feature"][node] >= 0:
                growing.settle(*context, self.nodes, self.frontier, node)
                return
            begin, end = end, end + 1

    def _search(self, node: int, n_nodes: int, work: _Workspace) -> None:
        """Let the search look at new nodes, which keep what it finds."""
        search, found = self.search, slice(node, node + n_nodes)
        if search is not None:
            search.kernel(
                self.samples, self.moves.slots, search.problem, self.limits, self.nodes, self.sides, node, 0,
                self.samples.X.shape[1], work.numbers.features, work.scratch, self.nodes[found], self.sides[found],
            )  # fmt: skip

    def _share_search(self, search: Search, node: int, shares: list[tuple[tuple[int, int], _Workspace]]) -> None:
        """The same for one node, the features shared out among the threads."""
        context = (self.samples, self.moves.slots, search.problem, self.limits, self.nodes, self.sides, node)
        found = np.tile(self.nodes[node : node + 1], (len(shares), 1))
        sides = np.tile(self.sides[node : node + 1], (len(shares), 1, 1))
        calls = [
            (*context, *share, work.numbers.features, work.scratch, found[k], sides[k])
            for k, (share, work) in enumerate(shares)
        ]
        self.run(search.kernel, calls)
        best = found["gain"].argmax()
        self.nodes[node], self.sides[node] = found[best, 0], sides[best, 0]

    def _workspace(self) -> _Workspace:
        n_samples = self.samples.orders.shape[1]
        n_blocks = n_samples // BLOCK + 3
        return _Workspace(
            numbers=growing.Workspace(
                features=np.arange(self.samples.X.shape[1], dtype=np.int64),
                counts=np.zeros((n_blocks, 4), dtype=np.int64),
                bounds=np.empty(n_blocks),
                tally=np.empty(16),
                spill=np.empty(n_samples, dtype=np.uint32),
            ),
            scratch=None if self.search is None else self.search.make_scratch(),
        )


def _lengthen(array: np.ndarray, length: int) -> np.ndarray:
    longer = np.zeros((length, *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer


def _harvest(grower: _Grower, schema: Schema, classes: np.ndarray) -> TreeEnsemble:
    """The finished tree, without what only growing needed."""
    n_nodes = int(grower.frontier.sizes[0])
    nodes = grower.nodes[:n_nodes]
    left = nodes["left"].astype(np.int32)
    is_leaf = left < 0
    feature = np.where(is_leaf, -1, nodes["feature"]).astype(np.int32)
    weight = np.column_stack([nodes["zero"], nodes["one"]])
    cover = weight.sum(axis=1)
    heavier_left = np.zeros(n_nodes, dtype=bool)
    inner = np.flatnonzero(~is_leaf)
    heavier_left[inner] = cover[left[inner]] >= cover[left[inner] + 1]
    left_sets = {}
    for node in inner[nodes["first_right"][inner] < 0].tolist():
        labels = schema.categories[feature[node]]
        if labels is not None:
            sides = grower.sides[node, : len(labels) + 1]
            # Where nobody could sit, as in categories never seen, the heavier child is the better guess.
            left_sets[node] = np.where(
                sides & category_search.IDLE, heavier_left[node], sides & category_search.STAYS_RIGHT == 0
            )
    start, words = pack_sets(n_nodes, left_sets)
    return TreeEnsemble(
        root=np.zeros(1, dtype=np.int32),
        feature=feature,
        threshold=np.where(is_leaf | (start >= 0), 0.0, nodes["threshold"]),
        left=left,
        right=np.where(is_leaf, -1, left + 1).astype(np.int32),
        value=weight / cover[:, None],
        cover=cover,
        missing_left=heavier_left,
        category_start=start,
        category_words=words,
        base_score=np.zeros(2),
        link="probability",
        classes=classes,
        schema=schema,
    )
