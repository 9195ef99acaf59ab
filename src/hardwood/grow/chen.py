"""The splits of Chen et al.: what the exact grower lets a kernel of its own look for instead of scanning orders."""

import numpy as np

from hardwood._kernels.grow import chen
from hardwood._kernels.grow.orders import Shifts
from hardwood.grow.exact import NodeSearch
from hardwood.grow.shifts import find_shifts
from hardwood.threat import Reach


def keep_in_place(reach: Reach) -> Shifts:
    """Return the shifts of rows that go down by their own values: none, and every feature is searched elsewhere."""
    shifts = find_shifts(reach, np.zeros(2, dtype=bool))
    return shifts._replace(elsewhere=np.ones(len(reach.left), dtype=bool))


def search_chen(reach: Reach, attacks: np.ndarray, *, greedy: bool) -> NodeSearch:
    """Return the search of Chen et al. over numerical features."""
    shift = np.stack([reach.right, -reach.left], axis=1)[:, :, None] * np.ones(2)
    shift[:, :, ~attacks] = 0.0
    return NodeSearch(chen.search, chen.ChenThreat(shift, greedy), chen.make_tally)
