"""Whose rows are changed, and what they are to be taken for: the classes that attack."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from hardwood.quoting import quote
from hardwood.table.columns import Label
from hardwood.threat.spelling import plain, read_label

# The labels of the classes that attack, or of each of them the classes it wants to be taken for; None for all.
AttackingClasses = tuple[Label, ...] | dict[Label, tuple[Label, ...]] | None


def read_classes(classes: Any) -> AttackingClasses:
    """Return the labels of the attacking classes, each once, with those they want to be taken for if that is said."""
    classes = plain(classes)
    if classes is None:
        return None
    if isinstance(classes, Mapping):
        return _read_targets(classes.items())
    many = isinstance(classes, Iterable) and not isinstance(classes, (str, bytes))
    labels = list(classes) if many else [classes]
    if labels and all(map(_is_pair, labels)):  # how TOML has a mapping whose keys need not be text
        return _read_targets(labels)
    return tuple(dict.fromkeys(read_label(label, "attacking_classes") for label in labels))


def _is_pair(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and isinstance(value[1], (list, tuple))


def _read_targets(pairs: Iterable[tuple[Any, Any]]) -> dict[Label, tuple[Label, ...]]:
    targets: dict[Label, tuple[Label, ...]] = {}
    for key, wanted in pairs:
        label = read_label(plain(key), "attacking_classes")
        several = isinstance(wanted, Iterable) and not isinstance(wanted, (str, bytes))
        labels = [read_label(plain(one), "attacking_classes") for one in (wanted if several else [wanted])]
        if label in labels or not labels:
            raise ValueError(
                f"attacking_classes: {quote(label)} wants to be taken for {quote(labels)}; expected one or more "
                "other classes"
            )
        targets[label] = tuple(dict.fromkeys(labels))
    return targets


def spell_classes(attackers: AttackingClasses) -> Any:
    """Return the attacking classes as a user would give them: a list or a mapping of lists."""
    if isinstance(attackers, dict):
        return {label: list(wanted) for label, wanted in attackers.items()}
    return None if attackers is None else list(attackers)


def compare_classes(attackers: AttackingClasses) -> Any:
    """Return what is equal for classes that attack alike."""
    if isinstance(attackers, dict):
        return {label: set(wanted) for label, wanted in attackers.items()}
    return None if attackers is None else set(attackers)


def find_attacking_classes(attackers: AttackingClasses, classes: Iterable[Any] | None) -> np.ndarray:
    """Say of each class whether it attacks; a single True where there are no classes."""
    if classes is None:
        if attackers is not None:
            raise ValueError(f"attacking_classes: {quote(spell_classes(attackers))} is given, but there are no classes")
        return np.array([True])
    known = [plain(label) for label in classes]
    named = list(attackers or ())
    if isinstance(attackers, dict):
        named += [label for wanted in attackers.values() for label in wanted]
    for label in named:
        if label not in known:
            raise ValueError(f"attacking_classes: {quote(label)} is not a class; the classes are {quote(known)}")
    return np.array([attackers is None or label in attackers for label in known])


def find_targets(attackers: AttackingClasses, classes: Iterable[Any] | None) -> np.ndarray | None:
    """Say of each class which others it wants to be taken for; None where that is any other, for all that attack."""
    if classes is None or not isinstance(attackers, dict):
        return None
    known = [plain(label) for label in classes]
    targets = np.array([[other in attackers.get(label, ()) for other in known] for label in known])
    any_other = targets.sum(axis=1) == len(known) - 1
    return None if (any_other | ~targets.any(axis=1)).all() else targets


def find_attacking_rows(attackers: AttackingClasses, y: Any, n_rows: int) -> np.ndarray:
    """Say of each row whether its class attacks."""
    if y is None and attackers is not None:
        attacking = quote(spell_classes(attackers))
        raise ValueError(f"y: needed to tell which rows may be moved, as attacking_classes={attacking}")
    if attackers is None:
        return np.ones(n_rows, dtype=bool)
    labels = np.asarray(y)
    if labels.shape != (n_rows,):
        raise ValueError(f"y: expected shape ({n_rows},), a label per row, got {labels.shape}")
    return np.array([label in attackers for label in labels.tolist()])
