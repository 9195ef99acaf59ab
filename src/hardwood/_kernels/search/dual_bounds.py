"""The kernel of multipliers: bound one box of a search that is not easy once more, and say whether it is done with."""

import numpy as np

from hardwood._kernels.compiling import inner, kernel, part
from hardwood._kernels.search.multiplier_intervals import make_multipliers
from hardwood._kernels.search.multipliers import ascend
from hardwood._kernels.search.state import AGAIN, BOUNDED, CROWDED, DONE, EVERY, NONE, UNFINISHED, keep_leaves

# Prices are kept in the range of numbers, and their products with costs.
LARGEST_PRICE = 1e200


@inner
def _set_price(search, settings, level):
    """Try some prices on a box and keep the best: (whether the box is done with, whether cells were taken off)."""
    question, dual, within = search.question[0], search.dual[0], search.radius[0].within
    price = (search.levels[0].bound - question.target) / (settings.price_ratio * within)
    if not 0.0 < price < LARGEST_PRICE:
        return False, False
    best, best_price, any_shaved = np.inf, price, False
    for _ in range(settings.prices):
        dual.price = price
        for _ in range(2):
            bound, shaved = ascend(search, level)
            if bound == -np.inf:
                return True, any_shaved
            if shaved:  # only leaves that meet the box pay
                keep_leaves(search, level, level, EVERY, 0.0)
                any_shaved = True
            if bound + price * within < best:
                best, best_price = bound + price * within, price
        price *= settings.price_ratio
    dual.price, dual.drift = best_price, settings.price_drift
    return False, any_shaved


@part
def _ascend_twice(search, level):
    """Bound a box with the price and, if there is one, with another price, which may be better for boxes to come."""
    dual, within = search.dual[0], search.radius[0].within
    bound, shaved = ascend(search, level)
    if dual.price == 0.0:
        search.levels[level].bound = min(search.levels[level].bound, bound)
    elif not shaved and bound > -np.inf:
        price, worst = dual.price, bound + dual.price * within
        dual.price *= dual.drift
        bound, shaved = ascend(search, level)
        if bound + dual.price * within >= worst:
            dual.price, dual.drift = price, 1.0 / dual.drift
    return bound, shaved


@part
def _bound(search, settings, level, has_price):
    """Look at a box once more: NONE: done with it; AGAIN: it is smaller now; or UNFINISHED.

    Where the sum of best leaves is far above the target, multipliers are in vain. How far is found out: a box that they
    help with tells to try a little farther, one that they do not to try less far, and now and then one is tried anyway.
    """
    progress, dual = search.progress[0], search.dual[0]
    gap = progress.total - search.question[0].target
    if gap > dual.worthwhile and progress.n_boxes % settings.retry_boxes > 0:
        return UNFINISHED
    if has_price and dual.price == 0.0 and search.radius[0].within < np.inf:
        empty, shaved = _set_price(search, settings, level)
        if empty or shaved:
            return NONE if empty else AGAIN
    bound, shaved = _ascend_twice(search, level)
    if shaved or bound == -np.inf:
        dual.worthwhile = max(dual.worthwhile, settings.help_growth * gap)
        return NONE if bound == -np.inf else AGAIN
    faded = settings.vain_decay * dual.worthwhile + settings.vain_gap * gap
    dual.worthwhile = min(dual.worthwhile, faded)
    return UNFINISHED


@kernel(about="bounds by Lagrange multipliers, for hard rows", seconds=4.6)
def bound_box(search, settings, has_price):
    """Bound the box that branch and bound is looking at: DONE, with a verdict for it in the progress; or CROWDED.

    has_price : whether costs of axes add up to the cost that is to be least.
    """
    progress, dual, level = search.progress[0], search.dual[0], search.progress[0].level
    if dual.has_multipliers == 0:
        if not make_multipliers(search):
            return CROWDED
        dual.worthwhile = search.levels[0].bound - search.question[0].target
    progress.verdict = _bound(search, settings, level, has_price)
    if progress.verdict == AGAIN:
        keep_leaves(search, level, level, EVERY, 0.0)
    progress.stage = BOUNDED
    return DONE
