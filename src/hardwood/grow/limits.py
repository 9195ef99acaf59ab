"""When to stop growing, every default already resolved to a number."""

from dataclasses import dataclass

import numpy as np

from hardwood._kernels.grow.nodes import Limits
from hardwood.grow.criteria import CRITERIA

UNLIMITED = np.iinfo(np.int64).max

# Parts of rows are added up in floating point: a whole row may come out a trifle short.
ROW_TOLERANCE = 1e-6


@dataclass(frozen=True)
class SizeLimits:
    """How large a tree may become, whatever grows it."""

    max_depth: int
    min_samples_split: int
    min_samples_leaf: int


@dataclass(frozen=True)
class GrowOptions:
    """When to stop growing a robust tree, and how to choose its splits."""

    size: SizeLimits
    criterion: str
    rho: float
    min_impurity_decrease: float
    max_features: int
    max_leaf_nodes: int | None
    seed: int
    n_threads: int
    attacker: str = "groot"
    max_bins: int | None = None  # of a feature; None: every threshold, by the exact grower
    monotonic: np.ndarray | None = None  # int64 per feature: 1, 0 or -1; None: no feature is monotone


def make_limits(options: GrowOptions, attacks: np.ndarray) -> Limits:
    """Return the limits as the kernels take them; `attacks` says which classes have rows that move."""
    size = options.size
    whole_rows = options.rho == 1.0 or not attacks.any()
    any_leaf = size.min_samples_leaf <= 1 and whole_rows
    return Limits(
        criterion=CRITERIA[options.criterion],
        max_depth=size.max_depth,
        min_split=size.min_samples_split - ROW_TOLERANCE,
        min_leaf=0.0 if any_leaf else size.min_samples_leaf - ROW_TOLERANCE,
        min_gain=options.min_impurity_decrease,
        max_features=options.max_features,
        max_leaves=UNLIMITED if options.max_leaf_nodes is None else options.max_leaf_nodes,
        best_first=options.max_leaf_nodes is not None,
    )
