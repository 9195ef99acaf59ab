"""Growing a tree level by level: which nodes are split next, whose histograms are counted, and how nodes are numbered.

A grower in memory splits one node after another and numbers the children as they come. Over blocks every step costs a
journey, so all nodes that are known to be split are split in one. Afterwards the order of the grower in memory is
replayed: the splits are the same, and so are then the numbers of the nodes. With `max_leaf_nodes` the best nodes are
split first, and the replay also says which: those that it meets before it has enough leaves. Some of them it may not
meet any more once the children of others are known; what they were split into is left out in the end.

Here is what trees of all kinds share. What nodes are, how they are split and what blocks do is a `LevelTree`.
"""

import heapq
from collections.abc import Generator
from typing import NamedTuple, Protocol

import numpy as np

from hardwood._kernels.grow.nodes import DROPPED, LEFT, RIGHT, WAITS, Limits
from hardwood.grow.blocks import Counts, Step


class Moves(NamedTuple):
    """What a step does to the samples that a block holds, segment by segment: a segment is those of one node.

    Segments stay in this order: one that waits stays as it is, one that is split becomes those of its children that are
    kept, the left one first.
    """

    action: np.ndarray  # int64 per segment: which split parts it, WAITS or DROPPED
    keep: np.ndarray  # uint8 per split, in the order of their segments: LEFT | RIGHT, children whose samples are kept
    made: np.ndarray  # uint8 per split: LEFT | RIGHT, the children whose histograms are made, the left one first


def count_children(bits: np.ndarray) -> int:
    """Return how many children `Moves.keep` or `Moves.made` speaks of."""
    return int(np.count_nonzero(bits & LEFT) + np.count_nonzero(bits & RIGHT))


class LevelTree(Protocol):
    """A tree that is grown level by level. Its nodes are numbered as they come; the root is node 0."""

    limits: Limits
    n_cells: int  # of a histogram

    @property
    def nodes(self) -> np.ndarray:
        """Records with `left`, `gain` and `count`, the rows; and room for more."""

    def plant(self) -> Generator[Step, Counts, np.ndarray]:
        """Make the root, settle the limits, and return the root's histogram."""

    def find_open(self, nodes: np.ndarray) -> np.ndarray:
        """Say which nodes may be split at all."""

    def search(self, nodes: np.ndarray, cells: np.ndarray, slots: np.ndarray) -> np.ndarray:
        """Find the best splits of nodes by their histograms, and say which are worth it."""

    def split(self, nodes: np.ndarray, segments: np.ndarray) -> Generator[Step, Counts, None]:
        """Make the children of nodes, whose samples are in these segments, in their order: a node's are neighbours."""

    def descend(self, nodes: np.ndarray, moves: Moves) -> Generator[Step, Counts, np.ndarray]:
        """Have samples moved; split number k is that of nodes[k]. Return the histograms made (child, cell)."""


class Replay(NamedTuple):
    """The tree as a grower in memory makes it."""

    order: np.ndarray  # its nodes, by the numbers they have here; -1 for nodes that are not known yet
    left: np.ndarray  # the number there of the left child; -1 for leaves
    wanted: list[int]  # nodes that have to be split before more is known


def replay(left: np.ndarray, gain: np.ndarray, is_worth: np.ndarray, limits: Limits) -> Replay:
    """Split nodes in the order of a grower in memory (`_kernels/grow/frontier.py`).

    Parameters
    ----------
    left : the left child of each node; -1 where it is not split
    gain : of its split
    is_worth : whether it is worth to be split
    """
    lefts, gains, worth = left.tolist(), gain.tolist(), is_worth.tolist()
    order, new_left, wanted = [0], [-1], []
    frontier: list = []  # the number of the newest last, or a heap by gain and number

    def meet(node: int) -> None:
        if node >= 0 and worth[node]:
            number = len(order) - 1
            if limits.best_first:
                heapq.heappush(frontier, (-gains[node], -number))
            else:
                frontier.append(number)

    meet(0)
    n_leaves = 1
    while frontier and n_leaves < limits.max_leaves:
        number = -heapq.heappop(frontier)[1] if limits.best_first else frontier.pop()
        node, n_leaves = order[number], n_leaves + 1
        first = lefts[node]
        if first < 0:
            wanted.append(node)
        new_left[number] = len(order)
        for child in (first, first + 1):
            order.append(child if first >= 0 else -1)
            new_left.append(-1)
            meet(order[-1])
    return Replay(np.array(order), np.array(new_left), wanted)


def grow_levels(tree: LevelTree, n_slots: int) -> Generator[Step, Counts, Replay]:
    """Grow a tree, with room for the histograms of some nodes, at least four; return how its nodes are numbered."""
    growth = _Growth(tree, n_slots)
    growth.take_root((yield from tree.plant()))
    while len(segments := growth.choose()):
        nodes = np.array(growth.segments)[segments]
        yield from tree.split(nodes, segments)
        split = growth.part(nodes)
        if len(split.nodes):
            growth.take_children(split, (yield from tree.descend(split.nodes, growth.move(split))))
    return growth.replay()


class _Splits(NamedTuple):
    """Nodes that are split in one step, and what becomes of their children; see `Moves`."""

    nodes: np.ndarray
    keep: np.ndarray
    made: np.ndarray


class _Growth:
    """The nodes that wait to be split, their histograms, and whose samples blocks hold."""

    def __init__(self, tree: LevelTree, n_slots: int) -> None:
        self._tree = tree
        self._cells = np.empty((n_slots, tree.n_cells), dtype=np.int64)
        self._free = list(range(n_slots))
        self._waiting: dict[int, int] = {}  # where the histogram of each is; -1: it is given up for want of room
        self.segments = [0]  # the nodes whose samples blocks hold, in their order
        self._worth: list[bool] = []  # per node

    def take_root(self, histogram: np.ndarray) -> None:
        """Take the histogram of the root."""
        slots = {}
        if self._tree.find_open(np.array([0]))[0]:
            slots[0] = self._free.pop()
            self._cells[slots[0]] = histogram
        self._search(slots, 1)

    def choose(self) -> np.ndarray:
        """Return which segments are split next, as many as there is room for the histograms of the children."""
        wanted = self.replay().wanted if self._tree.limits.best_first else list(reversed(self._waiting))
        place = {node: segment for segment, node in enumerate(self.segments)}
        chosen, room = [], len(self._free)
        for node in wanted:
            room -= 1 if self._waiting[node] >= 0 else 2
            if room < 0:
                break
            chosen.append(place[node])
        return np.sort(np.array(chosen, dtype=np.int64))

    def part(self, nodes: np.ndarray) -> _Splits:
        """Return those nodes of which a child may be split again; of the others nothing is needed any more."""
        left, count = self._tree.nodes["left"][nodes], self._tree.nodes["count"]
        open_left, open_right = self._tree.find_open(left), self._tree.find_open(left + 1)
        keep = (open_left * LEFT + open_right * RIGHT).astype(np.uint8)
        smaller = np.where(count[left] <= count[left + 1], LEFT, RIGHT).astype(np.uint8)
        has_histogram = np.array([self._waiting[node] >= 0 for node in nodes.tolist()])
        for node in nodes[keep == 0].tolist():
            self._release(self._waiting.pop(node))
        self._worth += [False] * (2 * len(nodes))
        some = keep > 0
        return _Splits(nodes[some], keep[some], np.where(has_histogram, smaller, keep)[some])

    def move(self, split: _Splits) -> Moves:
        """Return what becomes of the samples of all segments, and keep in mind where they will be."""
        place = {node: k for k, node in enumerate(split.nodes.tolist())}
        action, segments = [], []
        for node in self.segments:
            k = place.get(node)
            action.append(k if k is not None else WAITS if node in self._waiting else DROPPED)
            if k is not None:
                left = int(self._tree.nodes["left"][node])
                segments += [left + right for right in range(2) if split.keep[k] & (LEFT, RIGHT)[right]]
            elif node in self._waiting:
                segments.append(node)
        self.segments = segments
        return Moves(np.array(action, dtype=np.int64), split.keep, split.made)

    def take_children(self, split: _Splits, histograms: np.ndarray) -> None:
        """Take the histograms that were made; what was not is what is left of the parent's."""
        slots: dict[int, int] = {}
        rest = iter(histograms)
        for node, keep, made in zip(split.nodes.tolist(), split.keep.tolist(), split.made.tolist(), strict=True):
            left, slot = int(self._tree.nodes["left"][node]), self._waiting.pop(node)
            if slot < 0:
                for child, bit in ((left, LEFT), (left + 1, RIGHT)):
                    if made & bit:
                        self._put(slots, child, next(rest))
                continue
            smaller, larger = (left, left + 1) if made == LEFT else (left + 1, left)
            own = next(rest)
            if keep & (LEFT + RIGHT - made):
                np.subtract(self._cells[slot], own, out=self._cells[slot])
                slots[larger] = slot
            else:
                self._free.append(slot)
            if keep & made:
                self._put(slots, smaller, own)
        self._search(dict(sorted(slots.items())), 0)

    def _put(self, slots: dict[int, int], node: int, histogram: np.ndarray) -> None:
        slots[node] = self._free.pop()
        self._cells[slots[node]] = histogram

    def _search(self, slots: dict[int, int], n_new: int) -> None:
        """Search nodes for splits by their histograms, and keep those that are worth it, while there is room."""
        self._worth += [False] * n_new
        if not slots:
            return
        nodes, where = np.array(list(slots)), np.array(list(slots.values()))
        is_worth = self._tree.search(nodes, self._cells, where)
        for node, slot, worth in zip(nodes.tolist(), where.tolist(), is_worth.tolist(), strict=True):
            self._worth[node] = worth
            if worth:
                self._waiting[node] = slot
            else:
                self._free.append(slot)
        for node, slot in self._waiting.items():  # the oldest first: they are split last
            if 2 * len(self._free) >= len(self._cells):
                break
            self._release(slot)
            self._waiting[node] = -1

    def _release(self, slot: int) -> None:
        if slot >= 0:
            self._free.append(slot)

    def replay(self) -> Replay:
        """Replay the order of a grower in memory."""
        nodes = self._tree.nodes[: len(self._worth)]
        return replay(nodes["left"], nodes["gain"], np.array(self._worth), self._tree.limits)
