"""From rows to the tree of least adversarial error: what the search over cuts is given, and what comes of it."""

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.building import LeftSets, Nodes, assemble
from hardwood.quoting import quote
from hardwood.refinement.leaf_values import fill_values
from hardwood.refinement.optimal import Samples, Split, find_optimum
from hardwood.refinement.rows import Rows, find_grid, make_samples
from hardwood.refinement.working_tree import describe_outputs
from hardwood.table import Schema

# Every partition of the categories of a column is a column of one cut: 127 of them for eight categories.
MOST_CATEGORIES = 8


class Column(NamedTuple):
    """What the cuts of one feature of the samples stand for: thresholds, or a single set of categories that go left."""

    feature: int
    threshold: np.ndarray
    left_set: np.ndarray | None

    @property
    def n_cuts(self) -> int:
        """How many cuts there are."""
        return len(self.threshold) if self.left_set is None else 1


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
    return Proof(fill_values(ensemble, ensemble.node_class, rows), found.loss, found.lower)


def encode_samples(rows: Rows, schema: Schema) -> tuple[Samples, list[Column]]:
    """Return the rows in terms of cuts, and what the cuts stand for."""
    grid = find_grid(rows)
    codes = make_samples(rows, grid)
    columns, ends = [], []
    for feature, labels in enumerate(schema.categories):
        if labels is None:
            thresholds = grid.cut[grid.first_cut[feature] : grid.first_cut[feature + 1]]
            columns.append(Column(feature, thresholds, None))
            ends.append((codes.low[feature], codes.high[feature]))
            continue
        _refuse_what_moves(rows, schema, feature)
        category = codes.low[feature] % (len(labels) + 1)
        for left_set in _list_partitions(category, codes.weight, schema, feature):
            goes_right = (~left_set[category]).astype(np.uint16)
            columns.append(Column(feature, np.empty(0), left_set))
            ends.append((goes_right, goes_right))  # left of cut 0, or right of it
    low, high = (np.stack(codes) for codes in zip(*ends, strict=True))
    n_cuts = np.array([column.n_cuts for column in columns], dtype=np.int64)
    return Samples(low, high, n_cuts, codes.label, codes.weight), columns


def _refuse_what_moves(rows: Rows, schema: Schema, feature: int) -> None:
    """Refuse categories that can be changed: two splits on one feature would have to be looked at together."""
    allowed = rows.reach.categories[feature]
    assert allowed is not None
    if rows.rho > 0.0 and rows.reach.attacks.any() and (allowed & ~np.eye(len(allowed), dtype=bool)).any():
        raise ValueError(
            f"threat: it lets categories of column {quote(schema.key(feature))} change; "
            "OptimalRobustTreeClassifier takes categories that stay as they are. Leave the column out, or use "
            "RobustTreeClassifier(refine='search')"
        )


def _list_partitions(category: np.ndarray, weight: np.ndarray, schema: Schema, feature: int) -> list[np.ndarray]:
    """List the ways to divide the categories that are there, as sets that go left; the last one goes right.

    Categories that no row has go where more rows go.
    """
    labels = schema.categories[feature]
    assert labels is not None
    total = np.bincount(category, weight, minlength=len(labels) + 1)
    present = np.flatnonzero(np.bincount(category, minlength=len(labels) + 1))
    if len(present) > MOST_CATEGORIES:
        raise ValueError(
            f"X: column {quote(schema.key(feature))} has {len(present)} categories; OptimalRobustTreeClassifier "
            f"tries all partitions and takes {MOST_CATEGORIES} at most. Leave the column out, or merge categories"
        )
    partitions = []
    for sides in product([False, True], repeat=len(present) - 1):
        if any(sides):
            goes_left = np.array([*sides, False])
            left_set = np.full(len(labels) + 1, total[present[goes_left]].sum() > 0.5 * total.sum())
            left_set[present] = goes_left
            partitions.append(left_set)
    return partitions


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
        left_set = columns[node.feature].left_set
        if left_set is not None:
            left_sets.append(LeftSets(np.array([number]), left_set[None]))
    splits = [columns[node.feature] if isinstance(node, Split) else None for node in nodes]
    described = Nodes(
        size=np.array([len(nodes)]),
        feature=np.array([-1 if column is None else column.feature for column in splits]),
        threshold=np.array([_read_threshold(node, columns) for node in nodes]),
        left=np.array([left for left, _ in children]),
        right=np.array([right for _, right in children]),
        value=np.eye(len(classes))[[0 if isinstance(node, Split) else node for node in nodes]],
        cover=np.zeros(len(nodes)),
        missing_left=np.zeros(len(nodes), dtype=bool),
    )
    return assemble(described, schema, left_sets, **describe_outputs(classes))


def _read_threshold(node: Split | int, columns: list[Column]) -> float:
    if not isinstance(node, Split) or columns[node.feature].left_set is not None:
        return 0.0
    return float(columns[node.feature].threshold[node.cut])
