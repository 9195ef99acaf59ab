"""The numbers that the search was tuned by: what each one is, in which unit, and what measured it."""

from typing import NamedTuple


class SearchSettings(NamedTuple):
    """How the search spends its time. No setting changes an answer; each changes how long it takes.

    "Leaves" is the unit of work: leaves and cells looked at, some 100 million a second. Ranges in brackets are those
    that benchmarks/search_settings.py went over with four tasks of 15 to 25 rows: no task took a tenth longer than with
    the default, unless something else is said. What was not swept is marked so.
    """

    # How rows are handed over.
    rows_per_call: int = 16  # rows; not swept
    clock_work: int = 1_000_000  # leaves between two looks at the clock: some ten milliseconds; not swept
    row_work: int = 2**62  # leaves after which a row is given up, whatever the clock says: no limit
    first_leaves: int = 1024  # leaves within reach that there is room for at first; it doubles when needed; not swept
    first_levels: int = 64  # the same for levels of branch and bound; not swept

    # When the next tool is taken up.
    easy_boxes: int = 100  # boxes that branch and bound looks at before multipliers are tried [25 to 400]
    easy_work: int = 60_000  # leaves within the best distance before it is approached from below [15,000 to 240,000]

    # Sums of leaf values.
    odd_share: float = 0.02  # the share of leaves whose values may be no multiples of a common step; not swept

    # Climbing: where every move costs something, moves that gain less than this share of the best are left for later.
    move_share: float = 0.5  # [0 to 0.75]

    # The nearest example the easy way.
    doublings: int = 32  # how often the first radius is doubled before all within reach is taken; not swept
    radius_tries: int = 12  # radii that are bounded, and radii that are climbed in, before branch and bound [6 to 24]
    radius_failures: int = 4  # climbs in a row that find nothing before branch and bound [2 to 8]
    radius_growth: float = 1.25  # how many times as large the next radius is while there is no example; not swept

    # The nearest example from below: searches within a little more than is known to be too little.
    first_advance: float = 1 / 16  # how far the first one goes, as a share of the way to the best example [1/64 to 1/4]
    work_growth: float = 8.0  # how many times the work of the one before each takes [4 and 16: L2 a third longer]
    most_farther: float = 4.0  # no step is this many times as long, or as short, as the one before; not swept
    excess_work: int = 16  # one that takes this many times the work of all before it is made smaller; not swept

    # Multipliers: the price of a unit of cost, and for which boxes they are worthwhile.
    prices: int = 3  # prices tried on a first box, [2 to 4; with 4, L2 a sixth longer]
    price_ratio: float = 4.0  # each this many times the one before; not swept
    price_drift: float = 1.2  # what the price is multiplied or divided by afterwards; not swept
    retry_boxes: int = 16  # one box in this many is tried though it seems in vain [8 to 32]
    help_growth: float = 1.1  # what helps a box is tried on boxes this many times as far above the target; not swept
    vain_decay: float = 0.9  # where it does not help, the distance tried is this share of what it was; not swept
    vain_gap: float = 0.05  # plus this share of the box's own distance; not swept


SETTINGS = SearchSettings()
