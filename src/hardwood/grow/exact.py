"""The exact grower of trees of two classes: every threshold of every feature, on orders that are sorted once.

It is the fastest there is for what it does, and it does nothing else: samples are of two classes, and a class is a bit
of an entry of an order (`_kernels.grow.orders`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow import growing
from hardwood._kernels.grow.criteria import SIGNIFICANT
from hardwood._kernels.grow.nodes import EVALUATED, LEAVES, NODE, NODES, Limits, Splits, Tree
from hardwood._kernels.grow.orders import MAX_ROWS, Shifts
from hardwood._kernels.grow.scanning import BLOCK, Kinds
from hardwood.grow.limits import UNLIMITED
from hardwood.grow.shifts import sort_shifted
from hardwood.grow.workers import Workers
from hardwood.rows.task import Task

# Nodes with fewer samples are not worth handing to threads.
LARGE_NODE = 1 << 14
# A gain that equals the least allowed but for rounding passes, as in scikit-learn.
GAIN_SLACK = 1.0 - 4.0 * 2.0**-SIGNIFICANT
FIRST_CAPACITY = 256  # nodes; doubled whenever a tree outgrows it


@dataclass(frozen=True)
class NodeSearch:
    """A kernel of its own that looks for the best splits of new nodes before the grower does.

    It is called with (samples, slots, threat, limits, tree, node, first, last, features, scratch, found); see
    `_kernels.grow.category_search.search`.
    """

    kernel: Callable[..., None]
    threat: Any
    make_scratch: Callable[[], Any]
    n_categories: int = 0  # the most that a feature has


def prepare_samples(
    problem: Task, shifts: Shifts, attacks: np.ndarray, rho: float, workers: Workers
) -> growing.Samples:
    """Sort every feature in both orientations, and weigh the samples."""
    X, class_index = problem.X, problem.class_index
    if len(X) > MAX_ROWS:
        raise ValueError(f"X has {len(X)} rows; at most {MAX_ROWS} are supported.")
    stays = attacks & (rho < 1.0)  # classes whose rows are two samples: one that moves, and one that does not
    part = np.where(stays[:, None], [rho, 1.0 - rho], [1.0, 0.0])  # of a row: (class, kind)
    weight = np.empty(0)
    if problem.sample_weight is not None:
        row_weight = problem.row_weight
        weight = row_weight * part[class_index, 0]
        if stays.any():
            weight = np.concatenate([weight, row_weight * part[class_index, 1]])
    return growing.Samples(
        X=frozen(X),
        orders=sort_shifted(X, class_index, stays, shifts, workers),
        weight=weight,
        kinds=Kinds(
            n_rows=len(X),
            weight=tuple((part * problem.class_weight[:, None]).ravel().tolist()),
            rows=tuple(part.ravel().tolist()),
        ),
        side=np.zeros(len(X) * (2 if stays.any() else 1) // 32 + 1, dtype=np.uint32),
    )


class _Workspace(NamedTuple):
    """Scratch for one thread."""

    own: growing.Workspace
    search: Any  # of the node search


class ExactGrower:
    """One tree while it grows: its arrays, and the loop around the kernels."""

    def __init__(
        self, samples: growing.Samples, shifts: Shifts, limits: Limits, search: NodeSearch | None, workers: Workers
    ) -> None:
        self.samples = samples
        self.shifts = shifts
        self.limits = limits
        self.search = search
        self.workers = workers
        n_categories = 0 if search is None else search.n_categories
        self.tree = Tree(
            nodes=np.zeros(0, dtype=NODE),
            sides=np.zeros((0, n_categories), dtype=np.uint8),
            heap=np.zeros(0, dtype=np.int64),
            sizes=np.zeros(4, dtype=np.int64),
        )
        self._resize(FIRST_CAPACITY)

    @property
    def nodes(self) -> np.ndarray:
        """Return the nodes there are."""
        return self.tree.nodes[: int(self.tree.sizes[NODES])]

    def plant(self, class_index: np.ndarray, seed: int) -> None:
        """Make the root, which holds all samples."""
        samples, tree = self.samples, self.tree
        if len(samples.weight):
            of_sample = np.tile(class_index, len(samples.weight) // len(class_index))
            zero, one = np.bincount(of_sample, samples.weight, minlength=2)
        else:
            zero, one = np.bincount(class_index, minlength=2) * np.reshape(samples.kinds.weight, (2, 2)).sum(axis=1)
        root = tree.nodes[0]
        root["feature"] = root["left"] = root["parent"] = -1
        root["end"] = samples.orders.shape[1]
        root["zero"], root["one"], root["count"], root["seed"] = zero, one, len(class_index), seed
        tree.sizes[[NODES, LEAVES]] = 1
        self.limits = self.limits._replace(min_gain=self.limits.min_gain * (zero + one) * GAIN_SLACK)

    def grow(self) -> None:
        """Split the frontier's nodes until none is left; large ones with all threads."""
        threaded, searches = self.workers.n_threads > 1, self.search is not None
        works = [self._make_workspace() for _ in range(self.workers.n_threads)]
        if threaded:
            self._evaluate(0, works)
        elif searches:
            self._search(0, 1, works[0])
        while True:
            context = (self.samples, self.shifts, self.limits, self.tree)
            large = LARGE_NODE if threaded else UNLIMITED
            reason, node = growing.grow(*context, large, searches, works[0].own)
            if reason == growing.DONE:
                return
            if reason == growing.FULL:
                self._resize(2 * len(self.tree.nodes))
            elif reason == growing.NEW:
                self._search(node, 2, works[0])
            elif growing.split(*context, node, works[0].own):
                self._divide(node, works)

    def _divide(self, node: int, works: list[_Workspace]) -> None:
        """Give a large node's children their samples, and evaluate them, with all threads."""
        shares = zip(self.workers.share(0, self.samples.X.shape[1]), works, strict=False)
        context = (self.samples, self.shifts, self.tree, node)
        self.workers.run(growing.divide, [(*context, *share, work.own) for share, work in shares])
        left = int(self.tree.nodes["left"][node])
        self._evaluate(left, works)
        self._evaluate(left + 1, works)

    def _evaluate(self, node: int, works: list[_Workspace]) -> None:
        """Find a node's best split, the features shared out among the threads."""
        nodes, n_features = self.tree.nodes, self.samples.X.shape[1]
        context = (self.samples, self.shifts, self.limits)
        self.tree.sizes[EVALUATED] += 1
        begin, end = 0, min(self.limits.max_features, n_features)
        while begin < n_features:  # once, unless none of the first max_features features can split
            shares = list(zip(self.workers.share(begin, end), works, strict=False))
            if self.search is not None:
                self._share_search(self.search, node, shares)
            found = np.tile(nodes[node : node + 1], (len(shares), 1))
            calls = [(*context, found[k], *share, work.own) for k, (share, work) in enumerate(shares)]
            self.workers.run(growing.search, calls)
            nodes[node] = found[found["gain"].argmax(), 0]  # the first of equals, as in one thread
            if nodes["feature"][node] >= 0:
                growing.settle(*context, self.tree, node)
                return
            begin, end = end, end + 1

    def _search(self, node: int, n_nodes: int, work: _Workspace) -> None:
        """Let the node search look at new nodes, which keep what it finds."""
        search, new = self.search, slice(node, node + n_nodes)
        if search is not None:
            tree = Splits(self.tree.nodes, self.tree.sides)
            found = Splits(tree.nodes[new], tree.sides[new])
            context = (self.samples, self.shifts.slots, search.threat, self.limits, tree, node)
            search.kernel(*context, 0, self.samples.X.shape[1], work.own.features, work.search, found)

    def _share_search(self, search: NodeSearch, node: int, shares: list[tuple[tuple[int, int], _Workspace]]) -> None:
        """Do the same for one node, the features shared out among the threads."""
        tree = Splits(self.tree.nodes, self.tree.sides)
        context = (self.samples, self.shifts.slots, search.threat, self.limits, tree, node)
        nodes = np.tile(tree.nodes[node : node + 1], (len(shares), 1))
        sides = np.tile(tree.sides[node : node + 1], (len(shares), 1, 1))
        calls = [
            (*context, *share, work.own.features, work.search, Splits(nodes[k], sides[k]))
            for k, (share, work) in enumerate(shares)
        ]
        self.workers.run(search.kernel, calls)
        best = nodes["gain"].argmax()
        tree.nodes[node], tree.sides[node] = nodes[best, 0], sides[best, 0]

    def _resize(self, capacity: int) -> None:
        tree = self.tree
        self.tree = tree._replace(
            nodes=_lengthen(tree.nodes, capacity),
            sides=_lengthen(tree.sides, capacity),
            heap=_lengthen(tree.heap, capacity),
        )

    def _make_workspace(self) -> _Workspace:
        n_samples = self.samples.orders.shape[1]
        n_blocks = n_samples // BLOCK + 3
        return _Workspace(
            own=growing.Workspace(
                features=np.arange(self.samples.X.shape[1], dtype=np.int64),
                counts=np.zeros((n_blocks, 4), dtype=np.int64),
                bounds=np.empty(n_blocks),
                tally=np.empty(16),
                spill=np.empty(n_samples, dtype=np.uint32),
            ),
            search=None if self.search is None else self.search.make_scratch(),
        )


def _lengthen(array: np.ndarray, length: int) -> np.ndarray:
    longer = np.zeros((length, *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return longer
