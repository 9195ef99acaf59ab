"""How large the sums of an ensemble can become, and the refusal of those that floating point cannot hold."""

from typing import Any

import numpy as np

# Differences of sums, and sums of these, have to be numbers as well: so much room is left above the largest sum.
HEADROOM = 8.0
# Outputs in float64, and what they are compared with, stay below this.
LARGEST_OUTPUT = float(np.finfo(np.float64).max) / HEADROOM


def find_trees(ensemble: Any) -> np.ndarray:
    """Return the tree that each node belongs to."""
    tree = np.empty(ensemble.n_nodes, dtype=np.int64)
    level = ensemble.root
    tree[level] = np.arange(ensemble.n_trees)
    while len(level):
        level = level[ensemble.feature[level] >= 0]
        for child in (ensemble.left[level], ensemble.right[level]):
            tree[child] = tree[level]
        level = np.concatenate([ensemble.left[level], ensemble.right[level]])
    return tree


def find_largest_sum(ensemble: Any) -> float:
    """Return what no sum of base score and leaf values exceeds, part of the way included; before the division."""
    leaf = ensemble.feature < 0
    largest = np.zeros(ensemble.n_trees)
    np.maximum.at(largest, find_trees(ensemble)[leaf], np.abs(ensemble.value[leaf]).max(axis=1))
    with np.errstate(over="ignore"):  # infinite sums are refused by those who ask
        return float(largest.sum() + np.abs(ensemble.base_score).max())


def check_sums(ensemble: Any) -> None:
    """Refuse a model whose outputs, on some row or other, might not be numbers in its own precision.

    Raises
    ------
    ValueError
        If base score and leaves may add up to more than an eighth of the largest number, before or after the division,
        or if the precision cannot hold the divisor or the cut.
    """
    precision, divisor = ensemble.precision, ensemble.divisor
    limit = float(np.finfo(precision).max) / HEADROOM
    if not 0.0 < divisor < np.inf:
        raise ValueError(f"divisor: expected a positive number that {precision} can hold; it is {divisor} there")
    if not abs(ensemble.cut) <= limit:
        raise ValueError(f"cut={ensemble.cut:.3g}: expected at most {limit:.3g} for outputs in {precision}")
    # Most models are so far from the limit that the largest leaf settles it.
    size = float(np.abs(ensemble.value).max(initial=0.0)) * ensemble.n_trees + float(np.abs(ensemble.base_score).max())
    if size <= limit and size / divisor <= limit:
        return
    largest = find_largest_sum(ensemble)
    if largest <= limit and largest / divisor <= limit:
        return
    divided = "" if divisor == 1.0 else f", to be divided by {divisor:.3g}"
    remedy = (
        "Scale the target that the model predicts" if ensemble.classes is None else "Divide leaves, base_score and cut"
    )
    raise ValueError(
        f"value: leaves and base_score may add up to {largest:.3g}{divided}; {precision} has room for outputs of "
        f"{limit:.3g}. {remedy}."
    )
