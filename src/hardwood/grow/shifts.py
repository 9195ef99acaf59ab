"""What is prepared once per tree: the attacker's moves as shifts, and every feature's shifted orders."""

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow.orders import CLASS_BIT, Rows, Shifts, make_scratch, presort
from hardwood.grow.workers import Workers
from hardwood.threat import Reach


def find_shifts(reach: Reach, attacks: np.ndarray) -> Shifts:
    """Turn a reach into the shifts of both orientations, and give every feature its order slots.

    A feature that nobody can move has one order for both orientations; so has a categorical one.

    Shifts may lead out of a feature's domain, which changes nothing: every row is inside, so a threshold inside parts
    the same samples whether or not the others are brought back to the edge; and at one outside everybody can stay on
    the same side, so it gains nothing.
    """
    if reach.share is not None:
        raise ValueError(
            "threat: a share of the value, such as '10%', moves every row otherwise; give distances instead"
        )
    n_features = len(reach.left)
    shift = np.zeros((n_features, 2, 2))
    if attacks[0]:
        shift[:, 0, 0], shift[:, 1, 0] = reach.right, -reach.left
    if attacks[1]:
        shift[:, 0, 1], shift[:, 1, 1] = -reach.left, reach.right
    two_orders = (shift != 0.0).any(axis=(1, 2))
    last_slot = np.cumsum(1 + two_orders) - 1
    return Shifts(
        shift=shift,
        largest=np.where(np.isfinite(shift), np.abs(shift), 0.0).max(axis=(1, 2)),
        slots=np.column_stack([last_slot - two_orders, last_slot]),
        elsewhere=np.array([matrix is not None for matrix in reach.categories]),
    )


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
