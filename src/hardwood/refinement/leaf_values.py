"""What the leaves of a refined tree say: classes were chosen for the whole tree, class shares follow from the rows."""

from dataclasses import replace

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.reachable import ReachableLeaves, list_reachable
from hardwood.refinement.rows import Part, Rows, divide
from hardwood.refinement.working_tree import describe_outputs


def list_leaves(ensemble: TreeEnsemble, rows: Rows, part: Part, tree: int = 0) -> ReachableLeaves:
    """List the leaves of a tree that rows can be moved into, in one of the ways in which they count."""
    matrix, label = rows.matrix[part.which], rows.label[part.which]
    if part.moves:
        return list_reachable(ensemble, part.reach, matrix, label, tree)
    return ReachableLeaves(np.arange(len(matrix) + 1), ensemble.leaves(matrix)[:, tree])


def find_wrong(
    ensemble: TreeEnsemble, leaf_class: np.ndarray, rows: Rows, part: Part, leaves: ReachableLeaves
) -> np.ndarray:
    """Say of each entry whether it loses its row: a leaf of another class, if the attacker wants that.

    Where a row is by itself, it is lost in a leaf of any other class.
    """
    label, given = rows.label[part.which][leaves.row], leaf_class[leaves.leaf]
    if rows.reach.targets is None or not part.moves:
        return np.asarray(given != label)
    own = ensemble.leaves(rows.matrix[part.which])[:, 0]
    return np.asarray(rows.reach.targets[label, given] | ((given != label) & (leaves.leaf == own[leaves.row])))


def measure_loss(ensemble: TreeEnsemble, rows: Rows) -> float:
    """Return the loss of a single tree: the weight of the rows that can be moved into a leaf of another class."""
    loss = 0.0
    for part in divide(rows):
        leaves = list_leaves(ensemble, rows, part)
        is_wrong = find_wrong(ensemble, ensemble.node_class, rows, part, leaves)
        is_lost = np.bincount(leaves.row, is_wrong, minlength=len(part.which)) > 0
        loss += part.share * float(rows.weight[part.which][is_lost].sum())
    return loss


def weigh_nodes(ensemble: TreeEnsemble, leaf_class: np.ndarray, rows: Rows) -> np.ndarray:
    """Return the weight of each class in every node, (node, class), once the attacker has moved the rows.

    A row that cannot be moved into a leaf of another class stays where it is, and so does one that is in such a leaf
    already. The others are divided among the leaves of another class that they can be moved into.
    """
    weight = np.zeros((ensemble.n_nodes, len(ensemble.labels)))
    for part in divide(rows):
        label, own = rows.label[part.which], ensemble.leaves(rows.matrix[part.which])[:, 0]
        leaves = list_leaves(ensemble, rows, part)
        row = leaves.row
        is_wrong = find_wrong(ensemble, leaf_class, rows, part, leaves)
        n_wrong = np.bincount(row, is_wrong, minlength=len(label))
        stays = (n_wrong == 0) | (leaf_class[own] != label)
        row_weight = rows.weight[part.which] * part.share
        np.add.at(weight, (own[stays], label[stays]), row_weight[stays])
        moved = is_wrong & ~stays[row]
        np.add.at(weight, (leaves.leaf[moved], label[row[moved]]), row_weight[row[moved]] / n_wrong[row[moved]])
    for level in reversed(ensemble.levels):
        inner = level[ensemble.feature[level] >= 0]
        weight[inner] = weight[ensemble.left[inner]] + weight[ensemble.right[inner]]
    return weight


def fill_values(
    ensemble: TreeEnsemble, leaf_class: np.ndarray, rows: Rows, *, learned: np.ndarray | None = None
) -> TreeEnsemble:
    """Return a tree whose leaves predict the classes they are given (an entry per node), with class shares.

    A leaf may be given the class of fewer of its rows, because the others are lost in other leaves anyway. It then
    says its class with a share just above one half. Missing values of features where that is `learned` (bool per
    feature) go where they went before, others to the child that more weight goes to.
    """
    weight = weigh_nodes(ensemble, leaf_class, rows)
    cover = weight.sum(axis=1)
    classes = ensemble.labels
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.where(cover[:, None] > 0.0, weight / cover[:, None], 1.0 / len(classes))
    is_leaf = ensemble.feature < 0
    misled = np.flatnonzero(is_leaf & (value.argmax(axis=1) != leaf_class))
    above = np.nextafter(0.5, 1.0)
    most = value[misled].argmax(axis=1)
    value[misled] = 0.0
    value[misled, most] = 1.0 - above
    value[misled, leaf_class[misled]] = above
    heavier_left = np.zeros(ensemble.n_nodes, dtype=bool)
    inner = np.flatnonzero(~is_leaf)
    heavier_left[inner] = cover[ensemble.left[inner]] >= cover[ensemble.right[inner]]
    if learned is not None:
        heavier_left[inner] = np.where(
            learned[ensemble.feature[inner]], ensemble.missing_left[inner], heavier_left[inner]
        )
    return replace(
        ensemble,
        value=value,
        cover=cover,
        missing_left=heavier_left,
        precision="float64",
        divisor=1.0,
        cut=0.0,
        **describe_outputs(classes),
    )


def keep_missing(ensemble: TreeEnsemble) -> np.ndarray | None:
    """Return, for `fill_values`, that missing values go where they went in all features, if the tree takes some."""
    schema = ensemble.schema
    return np.ones(schema.n_features, dtype=bool) if schema.accepts_missing else None
