"""What attacks and certificates have in common: words in, examples out, and the check that no example is wrong."""

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.table import Schema
from hardwood.threat import Reach, ThreatModel
from hardwood.threat.priced_reach import PricedReach

# Of every ensemble the last threat it was asked about: whoever asks row by row repeats it every time.
_last_reach: WeakKeyDictionary[TreeEnsemble, tuple[ThreatModel, Reach]] = WeakKeyDictionary()


def find_reach(ensemble: TreeEnsemble, threat: ThreatModel) -> Reach:
    """Return what the attacker may do to the rows that an ensemble classifies."""
    known = _last_reach.get(ensemble)
    if known is None or known[0] != threat:
        known = _last_reach[ensemble] = threat, threat.resolve(ensemble.schema, ensemble.labels)
    return known[1]


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
    if not found.any():
        return np.empty((0, len(ensemble.base_score)), dtype=ensemble.precision)
    matrix, examples, label = matrix[found], examples[found], label[found]
    output = ensemble.output(examples)
    if not (reach.contains(matrix, examples, label).all() and (ensemble.choose(output) != label).all()):
        raise RuntimeError("an adversarial example failed its own check; please report this with the model and the row")
    return output
