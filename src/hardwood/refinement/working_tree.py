"""A tree while it is being refined: from a TreeEnsemble to nodes that can be changed, and back."""

from typing import Any

import numpy as np

from hardwood._kernels.refine.moves import drop_empty
from hardwood._kernels.refine.tree import FREE, N_LEAVES, NODE, NOWHERE, Tree, trace_below
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.building import LeftSets, Nodes, assemble
from hardwood.refinement.rows import Samples, pack, unpack
from hardwood.table import Schema


def find_capacity(ensemble: TreeEnsemble, n_samples: int, max_depth: int) -> int:
    """Return how many nodes a tree may come to have: a leaf per sample is the most that can be of use."""
    return min(ensemble.n_nodes + 2 * n_samples, max(ensemble.n_nodes, 2 ** (min(max_depth, 62) + 1) - 1))


def plant(ensemble: TreeEnsemble, samples: Samples, capacity: int) -> Tree:
    """Return a tree of one TreeEnsemble that can be changed, with room for `capacity` nodes.

    Thresholds that are not among the cuts become the nearest cut; a grid that was found with this tree has them all.
    Subtrees that no value gets to are dropped.
    """
    number = number_nodes(ensemble.feature, ensemble)
    n_nodes, n_words = len(number), samples.known.shape[1]
    capacity = max(capacity, n_nodes)
    position = np.empty(ensemble.n_nodes + 1, dtype=np.int64)
    position[number], position[-1] = np.arange(n_nodes), -1
    nodes = np.zeros(capacity, dtype=NODE)
    nodes["parent"] = FREE
    nodes["settled"] = -1
    own = nodes[:n_nodes]
    own["missing_left"] = ensemble.missing_left[number]
    own["feature"], own["label"] = ensemble.feature[number], ensemble.node_class[number]
    own["left"], own["right"] = position[ensemble.left[number]], position[ensemble.right[number]]
    own["parent"] = -1
    inner = np.flatnonzero(own["feature"] >= 0)
    own["parent"][own["left"][inner]] = own["parent"][own["right"][inner]] = inner
    left_set = np.zeros((capacity, n_words), dtype=np.uint64)
    sets = ensemble.left_sets()
    for node in inner.tolist():
        feature = int(own["feature"][node])
        if number[node] in sets:
            goes_left = sets[int(number[node])]
            if count_codes(samples, feature) > len(goes_left):  # missing values are a category more
                goes_left = np.append(goes_left, ensemble.missing_left[number[node]])
            left_set[node] = pack(goes_left[None], n_words)[0]
        else:
            own["cut"][node] = _find_cut(samples, feature, float(ensemble.threshold[number[node]]))
    free = np.arange(capacity - 1, n_nodes - 1, -1, dtype=np.int64)
    tree = Tree(
        nodes=nodes,
        left_set=left_set,
        passed=np.zeros((capacity, n_words), dtype=np.uint64),
        free=np.concatenate([free, np.zeros(n_nodes, dtype=np.int64)]),
        sizes=np.array([len(free), n_nodes - len(inner), 0], dtype=np.int64),
    )
    stacks = [np.empty(capacity + 2, dtype=np.int64) for _ in range(2)]
    drop_empty(samples, tree, np.int64(0), np.empty(n_words, dtype=np.uint64), *stacks)
    trace_below(samples, tree, np.int64(0), NOWHERE, stacks[0])
    return tree


def count_codes(samples: Samples, feature: int) -> int:
    """Return how many categories there are of a feature, the never seen and the missing included; 0 for numbers."""
    return int(unpack(samples.known[feature][None], 64 * samples.known.shape[1]).sum())


def find_learned(samples: Samples, schema: Schema) -> np.ndarray:
    """Say of each feature whether it has been learned where missing values go."""
    n_labels = [0 if labels is None else len(labels) for labels in schema.categories]
    learned = samples.can_miss.copy()
    for feature in schema.categorical:
        learned[feature] = count_codes(samples, feature) > n_labels[feature] + 1
    return learned


def number_nodes(feature: np.ndarray, ensemble: TreeEnsemble) -> np.ndarray:
    """Return the nodes of the one tree level by level, from the root down to where `feature` says leaf."""
    levels = [ensemble.root.astype(np.int64)]
    while True:
        inner = levels[-1][feature[levels[-1]] >= 0]
        if not len(inner):
            return np.concatenate(levels)
        levels.append(np.column_stack([ensemble.left[inner], ensemble.right[inner]]).ravel().astype(np.int64))


def _find_cut(samples: Samples, feature: int, threshold: float) -> int:
    """Return the cut of a feature that is nearest to a threshold."""
    cut = samples.cut[samples.first_cut[feature] : samples.first_cut[feature + 1]]
    if not len(cut):
        return 0
    above = int(np.searchsorted(cut, threshold))
    if above == len(cut) or (above and threshold - cut[above - 1] < cut[above] - threshold):
        return above - 1
    return above


def count_leaves(tree: Tree) -> int:
    """Return the number of leaves."""
    return int(tree.sizes[N_LEAVES])


def harvest(tree: Tree, samples: Samples, schema: Schema, classes: np.ndarray) -> TreeEnsemble:
    """Return the tree as a TreeEnsemble whose leaves say their class, and nothing more."""
    nodes = tree.nodes
    is_used = nodes["parent"] != FREE
    is_leaf = (nodes["feature"] < 0) | ~is_used  # what is not in use still says what it was
    feature = np.where(is_leaf, -1, nodes["feature"])
    is_numerical = ~is_leaf & (samples.first_reach[nodes["feature"]] < 0)
    threshold = np.zeros(len(nodes))
    at = samples.first_cut[nodes["feature"][is_numerical]] + nodes["cut"][is_numerical]
    threshold[is_numerical] = samples.cut[at]
    missing_left = np.where(is_leaf, False, nodes["missing_left"])
    left_sets = []
    for node in np.flatnonzero(~is_leaf & ~is_numerical):
        labels = schema.categories[feature[node]]
        assert labels is not None
        goes_left = unpack(tree.left_set[node : node + 1], count_codes(samples, feature[node]))
        if goes_left.shape[1] > len(labels) + 1:
            missing_left[node] = goes_left[0, -1]
        left_sets.append(LeftSets(np.array([node]), goes_left[:, : len(labels) + 1]))
    described = Nodes(
        size=np.array([len(nodes)]),
        feature=feature,
        threshold=threshold,
        left=np.where(is_leaf, -1, nodes["left"]),
        right=np.where(is_leaf, -1, nodes["right"]),
        value=np.eye(len(classes))[np.where(is_leaf, nodes["label"], 0)],
        cover=np.zeros(len(nodes)),
        missing_left=missing_left,
    )
    return assemble(described, schema, left_sets, **describe_outputs(classes))


def describe_outputs(classes: np.ndarray) -> dict[str, Any]:
    """Return what a TreeEnsemble says of outputs that are class shares."""
    return {"base_score": np.zeros(len(classes)), "link": "probability", "classes": classes}
