"""Searches with a kernel of their own: the grower lets them look at new nodes before it searches what is left."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from hardwood._kernels.grow import category_search, chen
from hardwood._kernels.grow.categories import make_partition
from hardwood.threat import Reach


@dataclass(frozen=True)
class Search:
    """A kernel that finds the best splits of new nodes, and what it needs.

    It is called with (samples, slots, problem, limits, nodes, sides, node, first, last, features, scratch, found,
    found_sides); see `_kernels.category_search.search`.
    """

    kernel: Callable[..., None]
    problem: Any
    make_scratch: Callable[[], Any]
    n_categories: int = 0  # the most that a feature has


def search_categories(reach: Reach, attacks: np.ndarray) -> Search | None:
    """The search over categorical features; None for a table that has none."""
    matrices, start, size = reach.pack_categories()
    if not size.any():
        return None
    spans = np.zeros(len(size), dtype=category_search.SPAN)
    spans["size"], spans["start"] = size, start
    problem = category_search.Categories(spans, matrices, (bool(attacks[0]), bool(attacks[1])))
    n_categories = int(size.max())
    return Search(category_search.search, problem, partial(make_partition, n_categories), n_categories)


def search_chen(reach: Reach, attacks: np.ndarray, greedy: bool) -> Search:
    """The search of Chen et al. over numerical features."""
    shift = np.stack([reach.right, -reach.left], axis=1)[:, :, None] * np.ones(2)
    shift[:, :, ~attacks] = 0.0
    return Search(chen.search, chen.ChenThreat(shift, greedy), chen.make_tally)
