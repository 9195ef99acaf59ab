"""What is prepared once per tree: the attacker's moves as shifts, and every feature's shifted orders."""

from collections.abc import Callable
from typing import Any

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow import growing
from hardwood._kernels.grow.orders import CLASS_BIT, make_scratch, presort
from hardwood.threat import Reach


def lay_out_moves(reach: Reach, attacks: np.ndarray) -> growing.Moves:
    """Turn a reach into the shifts of both orientations, and give every feature its order slots.

    A feature that nobody can move has one order for both orientations; so has a categorical one.
    """
    n_features = len(reach.left)
    shift = np.zeros((n_features, 2, 2))
    if attacks[0]:
        shift[:, 0, 0], shift[:, 1, 0] = reach.right, -reach.left
    if attacks[1]:
        shift[:, 0, 1], shift[:, 1, 1] = -reach.left, reach.right
    two_orders = (shift != 0.0).any(axis=(1, 2))
    last_slot = np.cumsum(1 + two_orders) - 1
    slots = np.column_stack([last_slot - two_orders, last_slot])
    elsewhere = np.array([matrix is not None for matrix in reach.categories])
    return growing.Moves(shift=shift, slots=slots, elsewhere=elsewhere)


def fill_orders(
    X: np.ndarray,
    class_index: np.ndarray,
    splits: np.ndarray,
    moves: growing.Moves,
    run: Callable[..., object],
    shares: list[tuple[int, int]],
) -> np.ndarray:
    """Sort all samples of every feature by their shifted position: uint32 (slot, sample)."""
    n_samples = len(X) + int(splits[class_index].sum())
    orders = np.empty((int(moves.slots.max()) + 1, n_samples), dtype=np.uint32)
    payload = np.arange(len(X), dtype=np.uint32) | class_index.astype(np.uint32) << CLASS_BIT
    shift = moves.shift
    finite_reach = np.where(np.isfinite(shift), np.abs(shift), 0.0).max(axis=(1, 2))
    context = (frozen(X), payload, int((class_index == 0).sum()), splits, shift, finite_reach, moves.slots)
    run(_fill_share, [(context, *share, orders) for share in shares])
    return orders


def _fill_share(context: tuple[Any, ...], first: int, last: int, orders: np.ndarray) -> None:
    X, payload, *_ = context
    scratch = make_scratch(len(X))
    feature = presort(*context, first, last, False, orders, scratch)
    while feature < last:
        order = np.argsort(X[:, feature], kind="stable")
        scratch.entries[:-1], scratch.values[:-1] = payload[order], X[order, feature]
        feature = presort(*context, feature, last, True, orders, scratch)
