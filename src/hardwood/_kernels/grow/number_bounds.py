"""What the splits of a regression tree on bins can gain at most, by the histogram of a node (`binned_numbers.py`)."""

from numpy import int64, uint64

from hardwood._kernels.compiling import inner
from hardwood._kernels.grow.criteria import ROUNDING
from hardwood._kernels.grow.number_categories import begin_left, n_variants, next_left, prepare


@inner
def measure_lead(left_weight, left_value, totals):
    """How far the means are apart, times both weights, and both weights, if this much is left."""
    right_weight = float(totals.weight - left_weight)
    lead = float(totals.value - left_value) * float(left_weight) - float(left_value) * right_weight
    return lead, float(left_weight) * right_weight


@inner
def _rate(surely, possibly, totals, noise):
    """What a split can gain at most, by what is surely and possibly left: weights below and above the mean, values."""
    if surely[0] + surely[1] == 0 or possibly[0] + possibly[1] == totals.weight:
        return 0.0  # nobody is surely left, or nobody surely right
    rising, product = measure_lead(surely[0] + possibly[1], surely[2] + possibly[3], totals)
    if rising > noise:
        return rising * rising / (product * totals.weight)
    falling, product = measure_lead(possibly[0] + surely[1], possibly[2] + surely[3], totals)
    return falling * falling / (product * totals.weight) if -falling > noise else 0.0


@inner
def holds_missing(cells, bins, feature):
    """Whether a value of a feature is missing in a node."""
    if bins.missing < 0:
        return False
    at = 4 * (bins.columns[feature, 0] * bins.width + bins.missing)
    return cells[at + 1] + cells[at + 3] > 0


@inner
def _bound(cells, lo, hi, n_cuts, missing, totals, bounds):
    """Bound what every threshold of one feature can gain: `lo` and `hi` are the first cells of its columns.

    `missing` is the cell of missing values that go left; -1 if there is none.
    """
    noise = ROUNDING * totals.weight * totals.size
    lo_low_value = lo_low = lo_high_value = lo_high = int64(0)
    if missing >= 0:
        lo_low_value, lo_low = cells[4 * missing], cells[4 * missing + 1]
        lo_high_value, lo_high = cells[4 * missing + 2], cells[4 * missing + 3]
    hi_low_value, hi_low, hi_high_value, hi_high = lo_low_value, lo_low, lo_high_value, lo_high
    for code in range(n_cuts):
        at, to = uint64((lo + code) * 4), uint64((hi + code) * 4)
        lo_low_value, lo_low = lo_low_value + cells[at], lo_low + cells[at + uint64(1)]
        lo_high_value, lo_high = lo_high_value + cells[at + uint64(2)], lo_high + cells[at + uint64(3)]
        hi_low_value, hi_low = hi_low_value + cells[to], hi_low + cells[to + uint64(1)]
        hi_high_value, hi_high = hi_high_value + cells[to + uint64(2)], hi_high + cells[to + uint64(3)]
        surely, possibly = (
            (hi_low, hi_high, hi_low_value, hi_high_value),
            (lo_low, lo_high, lo_low_value, lo_high_value),
        )
        bounds[code] = _rate(surely, possibly, totals, noise)


@inner
def bound_thresholds(samples, bins, feature, totals):
    """Bound what the thresholds of a feature can gain, with missing values on the right (0) and on the left (1)."""
    width, bounds = bins.width, samples.bounds[feature]
    lo, hi = bins.columns[feature, 0] * width, bins.columns[feature, 1] * width
    n_thresholds, has_missing = bins.n_thresholds[feature], holds_missing(samples.cells, bins, feature)
    for side in range(2):
        bounds[side, n_thresholds] = 0.0
    # The last cut has all numbers on the left, and what is missing on the right.
    _bound(samples.cells, lo, hi, n_thresholds + int64(has_missing), int64(-1), totals, bounds[0])
    if has_missing:
        _bound(samples.cells, lo, hi, n_thresholds, lo + bins.missing, totals, bounds[1])
    return has_missing


@inner
def bound_sets(samples, bins, categories, tree, node, feature, totals):
    """Bound what sets of categories can gain: prefixes of their order, those without rows on the right or left."""
    if categories is None:
        return
    noise, bounds = ROUNDING * totals.weight * totals.size, samples.bounds[feature]
    first, sums = bins.columns[feature, 0] * bins.width, samples.sums
    for side in range(2):
        for code in range(bins.n_thresholds[feature] + 1):
            bounds[side, code] = 0.0
    missing = bins.missing if holds_missing(samples.cells, bins, feature) else int64(-1)
    n_sorted = prepare(samples.cells, first, tree, node, feature, missing, categories)
    for idle_left in range(n_variants(feature, categories)):
        begin_left(feature, idle_left, categories)
        for k in range(n_sorted - 1):
            next_left(samples.cells, first, feature, missing, k, categories, sums)
            surely, possibly = (sums[0], sums[1], sums[2], sums[3]), (sums[4], sums[5], sums[6], sums[7])
            bounds[idle_left, k + 1] = _rate(surely, possibly, totals, noise)
