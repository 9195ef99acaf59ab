"""What attacks and certificates have in common: labels in, examples out, and the check that no example is wrong."""

from typing import Any

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.priced_reach import PricedReach
from hardwood.reach import Reach
from hardwood.table import Schema


def read_labels(y: Any, classes: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the class index of every label."""
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        got = "None" if y is None else f"shape {labels.shape}"
        raise ValueError(f"y: expected {n_rows} labels, one per row of X, got {got}")
    index = np.full(n_rows, -1)
    for k, name in enumerate(classes.tolist()):
        index[labels == name] = k
    if (index < 0).any():
        label = labels[index < 0].tolist()[0]
        raise ValueError(f"y: {label!r} is not a class of the model; its classes are {classes.tolist()}")
    return index


def like(X: Any, schema: Schema, examples: np.ndarray) -> Any:
    """Return examples as the kind of table that was asked about."""
    plain = not hasattr(X, "columns") and not schema.categorical
    return examples if plain else schema.decode(examples)


def check_examples(
    ensemble: TreeEnsemble,
    reach: Reach | PricedReach,
    matrix: np.ndarray,
    examples: np.ndarray,
    label: np.ndarray,
    found: np.ndarray,
) -> np.ndarray:
    """Make sure that every example is within reach and is misclassified: a claim that is wrong must not leave here.

    Returns the model's outputs for the examples that were found.
    """
    inside = reach.contains(matrix[found], examples[found], label[found])
    output = ensemble.output(examples[found])
    if not (inside.all() and (ensemble.choose(output) != label[found]).all()):
        raise RuntimeError("an adversarial example failed its own check; please report this with the model and the row")
    return output
