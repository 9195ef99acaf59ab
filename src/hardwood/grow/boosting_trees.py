"""Boosted trees: where all rows are in one block, by the grower that goes depth first; else level by level.

Both give the same trees, to the last bit and with the same node numbers.
"""

from collections.abc import Generator
from typing import Protocol

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow import boosting as kernels
from hardwood._kernels.grow import boosting_tree
from hardwood._kernels.grow.boosting_categories import make_categories
from hardwood.grow.blocks import Counts, Step
from hardwood.grow.boosting_steps import BoostBlock, BoosterState, GrowingTree, GrownTree, TreeTask
from hardwood.grow.codes import TablePlan

# What the histograms of the nodes that are split at once may take up, beyond those of a single one.
HISTOGRAM_BYTES = 1 << 28

TreeSteps = Generator[Step, Counts, GrownTree]


class TreeGrower(Protocol):
    """A way to grow trees."""

    def grow(self, task: TreeTask, directions: np.ndarray) -> TreeSteps:
        """Grow a tree by steps; in ordered mode the directions of features are written to."""


def _make_tables(plan: TablePlan, max_depth: int, n_slots: int) -> boosting_tree.BoostedTree:
    """Allocate what a tree is grown in."""
    n_nodes = 2 ** (max_depth + 1) - 1
    n_categories = 0 if plan.categories is None else int(plan.categories.n_categories.max())
    return boosting_tree.BoostedTree(
        nodes=np.zeros(n_nodes, dtype=boosting_tree.NODE),
        left_of=np.zeros((n_nodes, plan.width), dtype=bool),
        right_of=np.zeros((n_nodes, plan.width), dtype=bool),
        set_left=np.zeros((n_nodes, n_categories), dtype=bool),
        cells=np.empty((n_slots, 2 * plan.n_cells), dtype=np.int64),
        free=np.arange(n_slots, -1, -1),  # n_slots of them: the slots n_slots - 1 to 0
        stack=np.zeros(max_depth + 2, dtype=np.int64),
        directions=np.zeros(0, dtype=np.int8),
    )


_ROOT = np.zeros(1, dtype=boosting_tree.NODE)
_ROOT[["feature", "left", "parent", "slot"]] = -1
_ROOT["lower"], _ROOT["upper"] = -np.inf, np.inf


def _plant(nodes: np.ndarray, n_rows: int) -> None:
    """Make a root."""
    nodes[:1] = _ROOT
    nodes["end"][0] = n_rows


class WholeTrees:
    """Grows trees on a single block, depth first, in room that is theirs: no two threads may share it."""

    def __init__(self, plan: TablePlan, n_rows: int, max_depth: int) -> None:
        self.tables = _make_tables(plan, max_depth, n_slots=max_depth + 2)
        self.entries = np.empty(n_rows * (max_depth + 1), dtype=np.uint32)
        self.spill = np.empty(n_rows, dtype=np.uint32)
        # Categories have scratch of their own.
        self.categories = None if plan.categories is None else make_categories(*plan.categories[:5])

    def grow(self, task: TreeTask, directions: np.ndarray) -> TreeSteps:
        """Grow a tree in one step."""
        return GrownTree(*(yield _GrowWhole(task, directions, self)))


class _GrowWhole(Step):
    """Grows a tree on the only block there is."""

    name = "grow"

    def __init__(self, task: TreeTask, directions: np.ndarray, room: WholeTrees) -> None:
        self._task, self._directions, self._room = task, directions, room

    def do(self, block: BoostBlock, state: BoosterState) -> tuple[BoosterState, Counts]:
        """Return the tables of the tree."""
        assert state.now is not None
        task, room, derivatives = self._task, self._room, state.now.derivatives[self._task.output]
        tables = room.tables._replace(directions=self._directions)
        mine = task.find_rows(block, state)
        room.entries[: len(mine)] = mine
        _plant(tables.nodes, len(mine))
        rows = boosting_tree.GradientRows(
            codes=frozen(block.codes),
            group=frozen(derivatives.group),
            gradients=frozen(task.fix_point(derivatives)),
            entries=room.entries,
            spill=room.spill,
        )
        n_nodes = kernels.grow(rows, task.take_columns(block.plan), room.categories, task.rule, tables)
        grown = (tables.nodes, tables.left_of, tables.right_of, tables.set_left)
        return state, tuple(table[:n_nodes].copy() for table in grown)


class LevelTrees:
    """Grows trees over any number of blocks, as many nodes at once as there is room for: in general level by level."""

    def __init__(self, plan: TablePlan, max_depth: int) -> None:
        self._plan, self._max_depth = plan, max_depth

    def grow(self, task: TreeTask, directions: np.ndarray) -> TreeSteps:
        """Grow a tree."""
        from hardwood._kernels.grow.boosting_levels import split_nodes

        plan, rule = self._plan, task.rule
        columns = task.take_columns(plan)
        categories = None if plan.categories is None else make_categories(*plan.categories[:5])
        tables = _make_tables(plan, self._max_depth, n_slots=0)._replace(directions=directions)
        nodes = tables.nodes
        (sums, cells) = yield _CountRoot(task)
        _plant(nodes, 0)
        nodes[0]["gradient"], nodes[0]["hessian"] = sums
        nodes[0]["cover"] = nodes[0]["hessian"] * rule.hessian_unit
        histograms = {0: cells}  # of nodes that wait
        waiting, n_nodes = ([0] if self._is_open(task, nodes[0]) else []), 1
        while waiting:
            n_at_once = self._count_at_once(task)
            chosen, waiting = waiting[-n_at_once:], waiting[:-n_at_once]
            nodes["slot"][chosen] = np.arange(len(chosen))
            tables = tables._replace(cells=np.stack([histograms[node] for node in chosen]))
            n_nodes = split_nodes(columns, categories, rule, tables, np.array(chosen), n_nodes)
            split = [node for node in chosen if nodes["feature"][node] >= 0]
            divided = [node for node in split if nodes["depth"][node] + 1 < self._max_depth]
            if divided:
                step = _Divide(task, divided, tables, self._plan.is_moved)
                step.share(histograms, nodes, *(yield step))
            for node in chosen:
                del histograms[node]
            for child in (int(nodes["left"][node]) + side for node in divided for side in (0, 1)):
                if self._is_open(task, nodes[child]):
                    waiting.append(child)
                else:
                    del histograms[child]
        return _renumber(tables, n_nodes)

    def _is_open(self, task: TreeTask, node: np.void) -> bool:
        rule = task.rule
        weight = float(node["hessian"]) * rule.hessian_unit
        return bool(node["depth"] < self._max_depth and weight >= 2.0 * rule.min_child_weight)

    def _count_at_once(self, task: TreeTask) -> int:
        """Return how many nodes are split at once; in ordered mode each depends on those before."""
        return 1 if task.rule.ordered else max(1, HISTOGRAM_BYTES // (16 * self._plan.n_cells))


class _CountRoot(Step):
    """Gives the root of a tree its rows, and counts them: sums, and a histogram."""

    name = "count-root"

    def __init__(self, task: TreeTask) -> None:
        self._task = task

    def do(self, block: BoostBlock, state: BoosterState) -> tuple[BoosterState, Counts]:
        """Count."""
        from hardwood._kernels.grow.boosting_levels import count_root

        assert state.now is not None
        task, derivatives = self._task, state.now.derivatives[self._task.output]
        tree = GrowingTree(derivatives.group, task.fix_point(derivatives), {0: task.find_rows(block, state)})
        cells, sums = np.zeros(2 * block.plan.n_cells, dtype=np.int64), np.zeros(2, dtype=np.int64)
        count_root(_take_rows(block, tree, tree.rows[0], 0), task.take_columns(block.plan), cells, sums)
        return _put_tree(state, task.output, tree), (sums, cells)


class _Divide(Step):
    """Divides the rows of nodes among their children, and counts.

    Histograms of the rows that can only go to the lighter child of each, those of rows that can go both ways where
    there may be any, and the gradients and hessians of the rows of each child.
    """

    name = "divide"

    def __init__(
        self, task: TreeTask, divided: list[int], tables: boosting_tree.BoostedTree, is_moved: np.ndarray
    ) -> None:
        n_nodes, left = len(divided), tables.nodes["left"][divided]
        self._task, self._divided = task, divided
        # A tree of its own: the nodes, and behind them their children.
        self._nodes = np.zeros(3 * n_nodes, dtype=boosting_tree.NODE)
        self._nodes[:n_nodes] = tables.nodes[divided]
        self._nodes["left"][:n_nodes] = n_nodes + 2 * np.arange(n_nodes)
        self._left_of, self._right_of = tables.left_of[divided], tables.right_of[divided]
        self._children = np.column_stack([left, left + 1]).tolist()
        self._count_left = tables.nodes["cover"][left] <= tables.nodes["cover"][left + 1]
        goes_both_ways = is_moved[tables.nodes["feature"][divided]] & (not task.rule.ordered)
        self._both = np.where(goes_both_ways, n_nodes - 1 + np.cumsum(goes_both_ways), -1)

    def do(self, block: BoostBlock, state: BoosterState) -> tuple[BoosterState, Counts]:
        """Count."""
        from hardwood._kernels.grow.boosting_levels import divide_nodes

        task, tree, n_nodes = self._task, state.trees[self._task.output], len(self._divided)
        nodes, entries = self._place_rows(tree)
        tables = boosting_tree.BoostedTree(
            nodes=nodes,
            left_of=frozen(self._left_of),
            right_of=frozen(self._right_of),
            set_left=np.empty((0, 0), dtype=bool),
            cells=np.empty((0, 0), dtype=np.int64),
            free=np.empty(0, dtype=np.int64),
            stack=np.empty(0, dtype=np.int64),
            directions=np.empty(0, dtype=np.int8),
        )
        cells = np.zeros((n_nodes + np.count_nonzero(self._both >= 0), 2 * block.plan.n_cells), dtype=np.int64)
        columns = task.take_columns(block.plan)
        which = (frozen(self._count_left), frozen(self._both))
        divide_nodes(_take_rows(block, tree, entries, block.n_rows), columns, task.rule, tables, *which, cells)
        rows = {node: mine for node, mine in tree.rows.items() if node not in self._divided}
        for both, records in zip(self._children, nodes[n_nodes:].reshape(-1, 2), strict=True):
            for child, record in zip(both, records, strict=True):
                rows[child] = entries[record["start"] : record["end"]]
        sums = np.stack([nodes["gradient"][n_nodes:], nodes["hessian"][n_nodes:]], axis=1)
        return _put_tree(state, task.output, tree._replace(rows=rows)), (cells, sums)

    def _place_rows(self, tree: GrowingTree) -> tuple[np.ndarray, np.ndarray]:
        """Return the nodes with their rows, and the rows, with room for those of the children behind each node's."""
        nodes, mine = self._nodes.copy(), [tree.rows[node] for node in self._divided]
        n_rows = np.array([len(each) for each in mine])
        start = 2 * (np.cumsum(n_rows) - n_rows)
        nodes["start"][: len(mine)], nodes["end"][: len(mine)] = start, start + n_rows
        entries = np.empty(2 * int(n_rows.sum()), dtype=np.uint32)
        for first, each in zip(start.tolist(), mine, strict=True):
            entries[first : first + len(each)] = each
        return nodes, entries

    def share(self, histograms: dict[int, np.ndarray], nodes: np.ndarray, cells: np.ndarray, sums: np.ndarray) -> None:
        """Give all children their sums and their histograms, by what all blocks have counted."""
        for k, (node, children) in enumerate(zip(self._divided, self._children, strict=True)):
            lighter, heavier = children if self._count_left[k] else children[::-1]
            histograms[heavier] = histograms[node] - cells[k]
            histograms[lighter] = cells[k] if self._both[k] < 0 else cells[k] + cells[self._both[k]]
            nodes["gradient"][children], nodes["hessian"][children] = sums[2 * k : 2 * k + 2].T


def _take_rows(block: BoostBlock, tree: GrowingTree, entries: np.ndarray, n_spill: int) -> boosting_tree.GradientRows:
    return boosting_tree.GradientRows(
        codes=frozen(block.codes),
        group=frozen(tree.group),
        gradients=frozen(tree.gradients),
        entries=entries,
        spill=np.empty(n_spill, dtype=np.uint32),
    )


def _put_tree(state: BoosterState, output: int, tree: GrowingTree) -> BoosterState:
    return state._replace(trees=state.trees | {output: tree})


def _renumber(tables: boosting_tree.BoostedTree, n_nodes: int) -> GrownTree:
    """Number nodes as if they had been split depth first, right children first."""
    nodes = tables.nodes
    order, new_number, stack = [0], np.zeros(n_nodes, dtype=np.int64), [0]
    while stack:
        node = stack.pop()
        if nodes["feature"][node] >= 0:
            children = [int(nodes["left"][node]), int(nodes["left"][node]) + 1]
            new_number[children] = len(order), len(order) + 1
            order += children
            stack += children
    renumbered = nodes[order]
    is_split = renumbered["feature"] >= 0
    renumbered["left"][is_split] = new_number[renumbered["left"][is_split]]
    renumbered["parent"][1:] = new_number[renumbered["parent"][1:]]
    return GrownTree(renumbered, *(table[order] for table in (tables.left_of, tables.right_of, tables.set_left)))
