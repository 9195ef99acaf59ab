"""What is lost if a node becomes a leaf: for all nodes at once, and kept up to date while nodes do."""

from typing import NamedTuple

import numpy as np

from hardwood._kernels.compiling import inner, kernel


class Pruning(NamedTuple):
    """A tree, the leaves its samples can be moved into, and what is known of its nodes."""

    parent: np.ndarray  # int64 per node; -1 = root
    leaf_class: np.ndarray  # int64 per node: the class of a leaf
    start: np.ndarray  # int64: sample i can be moved into leaf[start[i]:start[i + 1]]
    leaf: np.ndarray  # int64; a leaf that was pruned away stands for the leaf it has become part of
    label: np.ndarray  # int64 per sample
    weight: np.ndarray  # float64 per sample
    at_stake: np.ndarray  # float64 (node, class): samples that can be moved there and are not lost elsewhere
    lost: np.ndarray  # float64 per node: those of them that are lost
    became: np.ndarray  # int64 per node: the leaf that a node is part of; itself, or -1 for inner nodes
    wrong: np.ndarray  # int64 per node: scratch, 0 between calls; -1 marks what was seen


@inner
def _mark(pruning, sample):
    """Count in `wrong` the leaves of another class that the sample can be moved into, below each node; return all."""
    total = 0
    for k in range(pruning.start[sample], pruning.start[sample + 1]):
        leaf = pruning.became[pruning.leaf[k]]
        if pruning.leaf_class[leaf] == pruning.label[sample] or pruning.wrong[leaf] > 0:
            continue
        total += 1
        node = leaf
        while node >= 0:
            pruning.wrong[node] += 1
            node = pruning.parent[node]
    return total


@inner
def _settle(pruning, sample, sign, total):
    """Add what a sample has at stake to each node it can be moved to, or take it away; forget what was counted."""
    weight = sign * pruning.weight[sample]
    for k in range(pruning.start[sample], pruning.start[sample + 1]):
        node = pruning.became[pruning.leaf[k]]
        while node >= 0 and pruning.wrong[node] >= 0:
            if pruning.wrong[node] == total:
                pruning.at_stake[node, pruning.label[sample]] += weight
                if total > 0:
                    pruning.lost[node] += weight
            pruning.wrong[node] = -1
            node = pruning.parent[node]
    for k in range(pruning.start[sample], pruning.start[sample + 1]):
        node = pruning.became[pruning.leaf[k]]
        while node >= 0 and pruning.wrong[node] < 0:
            pruning.wrong[node] = 0
            node = pruning.parent[node]


@kernel(about="pruning", seconds=0.3)
def weigh_all(pruning):
    """Fill `at_stake` and `lost`; return the weight of all samples that are lost."""
    loss = 0.0
    for sample in range(pruning.weight.shape[0]):
        total = _mark(pruning, sample)
        if total:
            loss += pruning.weight[sample]
        _settle(pruning, sample, 1.0, total)
    return loss


@kernel(about="pruning", seconds=0.4)
def make_leaf(pruning, node, label, below, samples):
    """Make a node a leaf of a class. `below` are all nodes below it, `samples` those that can be moved there."""
    for k in range(samples.shape[0]):
        _settle(pruning, samples[k], -1.0, _mark(pruning, samples[k]))
    for k in range(below.shape[0]):
        pruning.became[below[k]] = node
    pruning.became[node] = node
    pruning.leaf_class[node] = label
    for k in range(samples.shape[0]):
        _settle(pruning, samples[k], 1.0, _mark(pruning, samples[k]))
