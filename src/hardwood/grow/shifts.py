"""What is prepared once per tree: the attacker's moves as shifts, and every feature's shifted orders."""

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow.orders import CLASS_BIT, TIE_TOLERANCE, Rows, Shifts, make_scratch, presort
from hardwood.grow.workers import Workers
from hardwood.threat import Reach


def find_shifts(reach: Reach, attacks: np.ndarray) -> Shifts:
    """Turn a reach into the shifts of both orientations, and give every feature its order slots.

    A feature that nobody can move has one order for both orientations; so has a categorical one.

    Shifts may lead out of a feature's domain, which changes nothing: every row is inside, so a threshold inside parts
    the same samples whether or not the others are brought back to the edge; and at one outside everybody can stay on
    the same side, so it gains nothing.
    """
    n_features = len(reach.left)
    shift = np.zeros((n_features, 2, 2))
    if attacks[0]:
        shift[:, 0, 0], shift[:, 1, 0] = reach.right, -reach.left
    if attacks[1]:
        shift[:, 0, 1], shift[:, 1, 1] = -reach.left, reach.right
    slots, largest = find_slots(reach, attacks)
    return Shifts(
        shift=shift,
        largest=largest,
        slots=slots,
        elsewhere=np.array([matrix is not None for matrix in reach.categories]),
    )


def find_slots(reach: Reach, attacks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give every feature a slot for each end of its rows' reach, one for both if nobody can move it.

    Returns the slots, int64 (feature, end), and the largest finite distance that anybody moves, per feature.
    """
    ends = np.stack([reach.left, reach.right]) if attacks.any() else np.zeros((2, len(reach.left)))
    two_slots = (ends != 0.0).any(axis=0)
    last_slot = np.cumsum(1 + two_slots) - 1
    largest = np.where(np.isfinite(ends), ends, 0.0).max(axis=0)
    return np.column_stack([last_slot - two_slots, last_slot]), largest


def sort_shifted(
    X: np.ndarray, class_index: np.ndarray, stays: np.ndarray, shifts: Shifts, workers: Workers
) -> np.ndarray:
    """Sort all samples of every feature by their shifted position: uint32 (slot, sample).

    `stays` says which classes have rows of two samples, one that moves and one that does not.
    """
    n_samples = len(X) + int(stays[class_index].sum())
    orders = np.empty((int(shifts.slots.max()) + 1, n_samples), dtype=np.uint32)
    payload = np.arange(len(X), dtype=np.uint32) | class_index.astype(np.uint32) << CLASS_BIT
    rows = Rows(X=frozen(X), payload=payload, n_zero=int((class_index == 0).sum()), stays=stays)
    workers.run(_sort_share, [(rows, shifts, *share, orders) for share in workers.share(0, X.shape[1])])
    return orders


def _sort_share(rows: Rows, shifts: Shifts, first: int, last: int, orders: np.ndarray) -> None:
    """Sort the features `first` to `last`; those too crowded for the kernel's radix sort by comparison."""
    scratch = make_scratch(len(rows.X))
    feature = presort(rows, shifts, first, last, False, orders, scratch)
    while feature < last:
        order = np.argsort(rows.X[:, feature], kind="stable")
        scratch.entries[:-1], scratch.values[:-1] = rows.payload[order], rows.X[order, feature]
        feature = presort(rows, shifts, feature, last, True, orders, scratch)


def find_differences(at: np.ndarray, largest: float) -> np.ndarray:
    """Say of neighbouring positions whether they count as different; see `_kernels.grow.orders`."""
    below, above = at[:-1], at[1:]
    with np.errstate(invalid="ignore", over="ignore"):
        gap = above - below
        tolerance = TIE_TOLERANCE if largest > 0.0 else 0.0
        size = np.maximum(np.maximum(np.abs(below), np.abs(above)), largest)
        return np.asarray((gap == np.inf) | ((gap > 0.0) & (gap > tolerance * size)))
