"""Whose rows are changed: the classes that attack."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from hardwood.table.columns import Label
from hardwood.threat.spelling import plain, read_label

# The labels of the classes that attack; None for all.
AttackingClasses = tuple[Label, ...] | None


def read_classes(classes: Any) -> AttackingClasses:
    """Return the labels of the attacking classes, each once."""
    classes = plain(classes)
    if classes is None:
        return None
    many = isinstance(classes, Iterable) and not isinstance(classes, (str, bytes))
    labels = [read_label(label, "attacking_classes") for label in (classes if many else [classes])]
    return tuple(dict.fromkeys(labels))


def find_attacking_classes(attackers: AttackingClasses, classes: Iterable[Any] | None) -> np.ndarray:
    """Say of each class whether it attacks; a single True where there are no classes."""
    if classes is None:
        if attackers is not None:
            raise ValueError(f"attacking_classes: {list(attackers)!r} is given, but there are no classes")
        return np.array([True])
    known = [plain(label) for label in classes]
    for label in attackers or ():
        if label not in known:
            raise ValueError(f"attacking_classes: {label!r} is not a class; the classes are {known!r}")
    return np.array([attackers is None or label in attackers for label in known])


def find_attacking_rows(attackers: AttackingClasses, y: Any, n_rows: int) -> np.ndarray:
    """Say of each row whether its class attacks."""
    if y is None and attackers is not None:
        raise ValueError(f"y: needed to tell which rows may be moved, as attacking_classes={list(attackers)}")
    if attackers is None:
        return np.ones(n_rows, dtype=bool)
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise ValueError(f"y: expected shape ({n_rows},), a label per row, got {labels.shape}")
    return np.array([label in attackers for label in labels.tolist()])
