"""Splits by categories: what the exact grower lets a kernel of its own look for."""

from functools import partial

import numpy as np

from hardwood._kernels.grow import category_search
from hardwood._kernels.grow.categories import make_partition
from hardwood.grow.exact import NodeSearch
from hardwood.threat import Reach


def search_categories(reach: Reach, attacks: np.ndarray) -> NodeSearch | None:
    """Return the search over categorical features; None for a table that has none."""
    matrices, start, size = reach.pack_categories()
    if not size.any():
        return None
    spans = np.zeros(len(size), dtype=category_search.SPAN)
    spans["n_categories"], spans["start"] = size, start
    threat = category_search.Categories(spans, matrices, (bool(attacks[0]), bool(attacks[1])))
    n_categories = int(size.max())
    return NodeSearch(category_search.search, threat, partial(make_partition, n_categories), n_categories)


def read_left_set(sides: np.ndarray, heavier_left: bool) -> np.ndarray:
    """Return which categories a split sends left, as a bool array.

    Where no sample of the node could sit, as in categories never seen, the heavier child is the better guess.
    """
    is_idle = (sides & category_search.IDLE) != 0
    return np.where(is_idle, heavier_left, sides & category_search.STAYS_RIGHT == 0)
