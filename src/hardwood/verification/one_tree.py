"""One tree: every answer is read off the leaves that a row can be moved into. Nothing is searched, no row is open."""

from collections.abc import Callable, Iterator

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.reachable import ReachableLeaves, list_reachable
from hardwood.ensemble.tree_ensemble import LeafBoxes
from hardwood.ensemble.whole_numbers import find_above
from hardwood.progress import Progress
from hardwood.threat import Reach
from hardwood.threat.reach import read_codes
from hardwood.verification.answers import FOUND, NONE, Answers, measure_margin
from hardwood.verification.distance import measure

# Rows at a time, so that their reachable leaves need not fit in memory all at once, and Ctrl-C is heard in between.
CHUNK = 1 << 12
# Points of leaves at a time, in values: 8 bytes each.
POINT_VALUES = 1 << 22
# Boxes of nodes that are kept with a tree, in cells of node and feature: 16 bytes each, so 16 MB at most.
KEPT_CELLS = 1 << 20


def decide(
    tree: TreeEnsemble,
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: Reach,
    progress: Progress | None = None,
) -> Answers:
    """Find the smallest margin that the attacker can force on each row, and a point that has it if it is another class.

    A row that is wrong as it stands is its own example.
    """
    answers = Answers.unknown(matrix)
    own = tree.decide(matrix) != class_index

    def answer(rows: slice, leaves: ReachableLeaves) -> None:
        index = class_index[rows][leaves.row]
        margin = measure_margin(tree, tree.node_output[leaves.leaf], index)
        # Of leaves with equal margins one of another class comes first: that tells a tie lost from a tie won.
        worst = _find_first(leaves, np.lexsort((tree.node_class[leaves.leaf] == index, margin)))
        leaf = leaves.leaf[worst]
        answers.lower[rows] = answers.upper[rows] = margin[worst]
        answers.status[rows] = np.where(tree.node_class[leaf] != class_index[rows], FOUND, NONE)
        found = np.flatnonzero((answers.status[rows] == FOUND) & ~own[rows])
        if len(found):
            answers.example[rows][found] = find_nearest(
                boxes, leaf[found], matrix[rows][found], class_index[rows][found], reach
            )

    boxes = find_boxes(tree)
    interrupted = _go_through(tree, matrix, class_index, reach, answer, progress)
    answers.status[own] = FOUND
    answers.example[own] = matrix[own]
    return answers._replace(interrupted=interrupted)


def extreme(
    tree: TreeEnsemble, matrix: np.ndarray, reach: Reach, sign: int, progress: Progress | None = None
) -> Answers:
    """Find the largest (sign 1) or smallest (-1) output of a regression that each row can be given, and its point."""
    answers = Answers.unknown(matrix)
    class_index = np.zeros(len(matrix), dtype=np.intp)
    output = tree.node_output[:, 0].astype(np.float64)

    def answer(rows: slice, leaves: ReachableLeaves) -> None:
        furthest = _find_first(leaves, np.argsort(-sign * output[leaves.leaf], kind="stable"))
        leaf = leaves.leaf[furthest]
        answers.status[rows] = NONE
        answers.lower[rows] = answers.upper[rows] = output[leaf]
        answers.example[rows] = find_nearest(boxes, leaf, matrix[rows], class_index[rows], reach)

    boxes = find_boxes(tree)
    interrupted = _go_through(tree, matrix, class_index, reach, answer, progress)
    return answers._replace(interrupted=interrupted)


def nearest(
    tree: TreeEnsemble,
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: Reach,
    norm: float,
    weight: np.ndarray,
    progress: Progress | None = None,
) -> Answers:
    """Find the nearest example of each row, and its distance: by looking at every leaf of another class."""
    answers = Answers.unknown(matrix, lower=0.0)

    def answer(rows: slice, leaves: ReachableLeaves) -> None:
        others = _keep(leaves, tree.node_class[leaves.leaf] != class_index[rows][leaves.row])
        distance = np.empty(len(others.leaf))
        for part, row, point in _go_to_leaves(boxes, others, matrix[rows], class_index[rows], reach):
            distance[part] = measure(point, matrix[rows][row], tree.schema, norm, weight)
        found = np.flatnonzero(np.diff(others.start))
        best = np.lexsort((distance, others.row))[others.start[found]]
        answers.lower[rows] = np.inf
        answers.status[rows] = NONE
        answers.status[rows][found] = FOUND
        answers.lower[rows][found] = answers.upper[rows][found] = distance[best]
        answers.example[rows][found] = find_nearest(
            boxes, others.leaf[best], matrix[rows][found], class_index[rows][found], reach
        )

    boxes = find_boxes(tree)
    interrupted = _go_through(tree, matrix, class_index, reach, answer, progress)
    return answers._replace(interrupted=interrupted)


def find_boxes(tree: TreeEnsemble) -> LeafBoxes:
    """Return the box of every node; kept with the tree unless they are large: whoever asks row by row repeats it."""
    if tree.n_nodes * tree.schema.n_features > KEPT_CELLS:
        return tree.node_boxes()
    boxes: LeafBoxes = tree.remember("node boxes", TreeEnsemble.node_boxes)
    return boxes


def _go_through(
    tree: TreeEnsemble,
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: Reach,
    answer: Callable[[slice, ReachableLeaves], None],
    progress: Progress | None,
) -> bool:
    """Answer for all rows, chunk by chunk; whether Ctrl-C came before the last."""
    try:
        for rows in _cut(len(matrix)):
            leaves = list_reachable(tree, reach, matrix[rows], class_index[rows])
            if reach.budget is not None:
                leaves = _keep_affordable(tree, leaves, matrix[rows], class_index[rows], reach)
            answer(rows, leaves)
            if progress is not None:
                progress(rows.stop, len(matrix))
    except KeyboardInterrupt:
        return True
    return False


def _keep_affordable(
    tree: TreeEnsemble, leaves: ReachableLeaves, matrix: np.ndarray, class_index: np.ndarray, reach: Reach
) -> ReachableLeaves:
    """Return the leaves that are within the budget: their nearest point is, as it changes least in every column."""
    affordable = np.empty(len(leaves.leaf), dtype=bool)
    for part, row, point in _go_to_leaves(find_boxes(tree), leaves, matrix, class_index, reach):
        affordable[part] = reach.affords(matrix[row], point)
    return _keep(leaves, affordable)


def _keep(leaves: ReachableLeaves, kept: np.ndarray) -> ReachableLeaves:
    """Return some of the entries."""
    before = np.concatenate([[0], np.cumsum(kept)])
    return ReachableLeaves(before[leaves.start], leaves.leaf[kept])


def _go_to_leaves(
    boxes: LeafBoxes, leaves: ReachableLeaves, matrix: np.ndarray, class_index: np.ndarray, reach: Reach
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield entries, their rows, and the nearest point of the leaf of each: as many at a time as fit."""
    row, step = leaves.row, max(1, POINT_VALUES // matrix.shape[1])
    for first in range(0, len(row), step):
        part = slice(first, first + step)
        here = row[part]
        yield part, here, find_nearest(boxes, leaves.leaf[part], matrix[here], class_index[here], reach)


def _cut(n_rows: int) -> Iterator[slice]:
    for start in range(0, n_rows, CHUNK):
        yield slice(start, min(start + CHUNK, n_rows))


def _find_first(leaves: ReachableLeaves, order: np.ndarray) -> np.ndarray:
    """Return, for each row, the one of its entries that comes first in an order of all entries."""
    by_row = order[np.argsort(leaves.row[order], kind="stable")]
    return by_row[leaves.start[:-1]]


def find_nearest(
    boxes: LeafBoxes, leaf: np.ndarray, matrix: np.ndarray, class_index: np.ndarray, reach: Reach
) -> np.ndarray:
    """Return the point of each row's leaf that is nearest to the row, in every norm; the row can be moved there.

    Leaves are open on their left end, so a value below takes the next float64, or the next whole number. What is
    missing stays missing. Among the categories that lead there the row's own is nearest; all others are equally far,
    and the first is taken.
    """
    above = find_above(boxes.low[leaf], reach.whole)
    point = np.minimum(np.maximum(matrix, above), boxes.high[leaf])
    if not reach.categorical:
        return point
    first, each, codes_before = 0, np.arange(len(leaf)), matrix[:, reach.categorical]
    is_missing, open_codes = np.isnan(codes_before), reach.open_codes(matrix, class_index)
    for k, (feature, own) in enumerate(zip(reach.categorical, read_codes(codes_before).T, strict=True)):
        codes = boxes.allowed[feature][leaf]
        codes = codes & open_codes[:, first : first + codes.shape[1]]
        first += codes.shape[1]
        stays = codes[each, own] | is_missing[:, k]
        point[:, feature] = np.where(stays, codes_before[:, k], codes.argmax(axis=1))
    return point
