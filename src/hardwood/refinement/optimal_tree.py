"""From rows to the tree of least adversarial error: what the search over cuts is given, and what comes of it."""

from collections.abc import Callable
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np

from hardwood._kernels.refine.codes import MISSING, NUMBER
from hardwood._kernels.refine.codes import Samples as RowCodes
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.building import LeftSets, Nodes, assemble
from hardwood.quoting import quote
from hardwood.refinement.leaf_values import fill_values
from hardwood.refinement.optimal import Samples, Split, find_optimum
from hardwood.refinement.optimal_columns import Categories, Choices, Column, Link, Numbers
from hardwood.refinement.rows import Rows, find_gaps, find_grid, make_samples, unpack
from hardwood.refinement.working_tree import describe_outputs
from hardwood.table import Schema

# Every partition of the categories of a column is a column of one cut: 127 of them for eight categories.
MOST_CATEGORIES = 8


class Proof(NamedTuple):
    """The best tree found, what it loses, and a loss that no tree of its depth comes below; both in units of weight."""

    ensemble: TreeEnsemble
    loss: float
    lower: float


def prove_optimum(
    rows: Rows,
    start: TreeEnsemble,
    loss: float,
    depth: int,
    end: float,
    progress: Callable[[float, float], object] | None = None,
) -> Proof:
    """Find the tree of at most `depth` levels that loses least, beginning with a tree and its loss.

    `end` is the time (of the monotonic clock) to stop at.
    """
    samples, columns = encode_samples(rows, start.schema)
    found = find_optimum(samples, depth, loss, end, progress)
    if found.tree is None:
        return Proof(start, loss, found.lower)
    ensemble = build_tree(found.tree, columns, start.schema, start.labels)
    filled = fill_values(ensemble, ensemble.node_class, rows, learned=find_gaps(rows))
    return Proof(filled, found.loss, found.lower)


def encode_samples(rows: Rows, schema: Schema) -> tuple[Samples, list[Column]]:
    """Return the rows in terms of cuts, and what the cuts stand for."""
    grid = find_grid(rows)
    codes = make_samples(rows, grid)
    columns: list[Column] = []
    choices: dict[int, Choices] = {}
    firsts = [*grid.first_reach[grid.first_reach >= 0].tolist(), len(grid.reach)]
    n_codes = {j: (last - first) // 2 for j, (first, last) in zip(schema.categorical, pairwise(firsts), strict=True)}
    for feature, labels in enumerate(schema.categories):
        thresholds = grid.cut[grid.first_cut[feature] : grid.first_cut[feature + 1]]
        if labels is not None:
            sets = grid.reach[grid.first_reach[feature] + codes.low[feature].astype(np.intp)]
            found = Categories(unpack(sets, n_codes[feature]))
            own = codes.low[feature] % n_codes[feature]
            columns += _list_partitions(found, own, codes.weight, schema, feature)
            choices[feature] = found
        elif grid.can_miss[feature]:
            choices[feature] = _read_numbers(codes, feature)
            columns.append(Column(feature, thresholds, None))
            columns.append(Column(feature, thresholds[:-1], None, missing_left=True))
        else:
            columns.append(Column(feature, thresholds, None))
    ends = [
        choices[column.feature].encode(column)
        if column.feature in choices
        else (codes.low[column.feature], codes.high[column.feature])
        for column in columns
    ]
    # There is no column where all categories are the same.
    low, high = (
        np.array([both[k] for both in ends], dtype=np.uint16).reshape(len(ends), len(codes.label)) for k in range(2)
    )
    n_cuts = np.array([column.n_cuts for column in columns], dtype=np.int64)
    changing = {feature: found for feature, found in choices.items() if found.can_change()}
    link = Link(columns, changing) if changing else None
    n_classes = max(2, int(codes.label.max()) + 1)
    return Samples(low, high, n_cuts, codes.label, codes.weight, n_classes, link), columns


def _read_numbers(codes: RowCodes, feature: int) -> Numbers:
    """Return what rows can become in a feature of numbers that may be missing."""
    state = codes.state[feature]
    return Numbers(codes.low[feature], codes.high[feature], state & NUMBER > 0, state & MISSING > 0)


def _list_partitions(
    choices: Categories, own: np.ndarray, weight: np.ndarray, schema: Schema, feature: int
) -> list[Column]:
    """List the ways to divide the categories that can be there, as sets that go left; the last one goes right.

    Categories that no row can have go where more rows go.
    """
    n_codes = choices.codes.shape[1]
    total = np.bincount(own, weight, minlength=n_codes)
    present = np.flatnonzero(choices.codes.any(axis=0))
    if len(present) > MOST_CATEGORIES:
        raise ValueError(
            f"X: column {quote(schema.key(feature))} has {len(present)} categories; OptimalRobustTreeClassifier "
            f"tries all partitions and takes {MOST_CATEGORIES} at most. Leave the column out, or merge categories"
        )
    columns = []
    for sides in product([False, True], repeat=max(0, len(present) - 1)):
        if any(sides):
            goes_left = np.array([*sides, False])
            left_set = np.full(n_codes, total[present[goes_left]].sum() > 0.5 * total.sum())
            left_set[present] = goes_left
            columns.append(Column(feature, np.empty(0), left_set))
    return columns


def build_tree(tree: Split | int, columns: list[Column], schema: Schema, classes: np.ndarray) -> TreeEnsemble:
    """Return a tree of cuts as a TreeEnsemble whose leaves say their class, and nothing more."""
    nodes: list[Split | int] = [tree]
    children: list[tuple[int, int]] = []
    left_sets = []
    for number, node in enumerate(nodes):  # the list grows while it is walked
        if not isinstance(node, Split):
            children.append((-1, -1))
            continue
        children.append((len(nodes), len(nodes) + 1))
        nodes += [node.left, node.right]
        left_set, labels = columns[node.feature].left_set, schema.categories[columns[node.feature].feature]
        if left_set is not None and labels is not None:
            left_sets.append(LeftSets(np.array([number]), left_set[None, : len(labels) + 1]))
    splits = [columns[node.feature] if isinstance(node, Split) else None for node in nodes]
    described = Nodes(
        size=np.array([len(nodes)]),
        feature=np.array([-1 if column is None else column.feature for column in splits]),
        threshold=np.array([_read_threshold(node, columns) for node in nodes]),
        left=np.array([left for left, _ in children]),
        right=np.array([right for _, right in children]),
        value=np.eye(len(classes))[[0 if isinstance(node, Split) else node for node in nodes]],
        cover=np.zeros(len(nodes)),
        missing_left=np.array([column is not None and _takes_missing_left(column, schema) for column in splits]),
    )
    return assemble(described, schema, left_sets, **describe_outputs(classes))


def _takes_missing_left(column: Column, schema: Schema) -> bool:
    """Say whether missing values go left; a missing category is the one after those of the schema."""
    labels = schema.categories[column.feature]
    if column.left_set is None or labels is None:
        return column.missing_left
    return len(column.left_set) > len(labels) + 1 and bool(column.left_set[-1])


def _read_threshold(node: Split | int, columns: list[Column]) -> float:
    if not isinstance(node, Split) or columns[node.feature].left_set is not None:
        return 0.0
    return float(columns[node.feature].threshold[node.cut])
