"""The numbers of one node: their mean or median, their ranks, and their distances from the mean in fixed point."""

import math

from numpy import int64, uint64

from hardwood._kernels.compiling import inner
from hardwood._kernels.grow.numbers import SUM_BITS, Totals, weigh
from hardwood._kernels.grow.orders import ID_MASK


@inner
def find_mean(order, start, end, weights, target):
    """Mean of a node's numbers, added up twice: the second time what the first has rounded off."""
    mean, total = target[uint64(order[start] & ID_MASK)], 0.0
    for _ in range(2):
        total, offset = 0.0, 0.0
        for i in range(start, end):
            sample = uint64(order[i] & ID_MASK)
            weight = float(weigh(weights, sample)[0])
            total += weight
            offset += weight * (target[sample] - mean)
        mean += offset / total
    return mean


@inner
def find_median(order, start, end, weights, target):
    """Median of a node's numbers, which come in ascending order: the middle of those that would do."""
    total, below = int64(0), int64(0)
    for i in range(start, end):
        total += weigh(weights, uint64(order[i] & ID_MASK))[0]
    for i in range(start, end):
        sample = uint64(order[i] & ID_MASK)
        below += weigh(weights, sample)[0]
        if 2 * below > total or i == end - 1:
            return target[sample]
        if 2 * below == total:
            return 0.5 * target[sample] + 0.5 * target[uint64(order[i + 1] & ID_MASK)]
    return 0.0


@inner
def measure_error(order, start, end, weights, target, centre, squared):
    """Sum of squared or absolute distances from a centre."""
    error = 0.0
    for i in range(start, end):
        sample = uint64(order[i] & ID_MASK)
        distance = abs(target[sample] - centre)
        error += float(weigh(weights, sample)[0]) * (distance * distance if squared else distance)
    return error


@inner
def rank(order, start, end, weights, numbers, mean, error):
    """Number a node's samples and put their distances from the mean in fixed point: (totals, scale).

    `order` has them by their numbers, ascending. `error` is the sum of their absolute distances from the mean.
    """
    target, value, height = numbers.target, numbers.value, numbers.height
    scale = math.ldexp(1.0, SUM_BITS - math.frexp(error)[1])
    weight_sum, value_sum, rows_sum, size = int64(0), int64(0), int64(0), int64(0)
    n_ranks, before = int64(0), target[uint64(order[start] & ID_MASK)]
    for i in range(start, end):
        sample = uint64(order[i] & ID_MASK)
        number = target[sample]
        if i == start or number != before:
            height[n_ranks] = (number - mean) * scale
            numbers.first[n_ranks] = sample
            before = number
            n_ranks += 1
        weight, rows = weigh(weights, sample)
        numbers.rank[sample] = n_ranks - 1
        value[sample] = int64(round(float(weight) * height[n_ranks - 1]))
        weight_sum, rows_sum = weight_sum + weight, rows_sum + rows
        value_sum += value[sample]
        size += abs(value[sample])
    return Totals(weight_sum, value_sum, rows_sum, size, n_ranks), scale


@inner
def find_start(height, n_ranks):
    """The first rank that is not below the mean."""
    least, most = int64(0), n_ranks
    while least < most:
        at = (least + most) // 2
        if height[at] < 0.0:
            least = at + 1
        else:
            most = at
    return least
