"""Categories in a box: each is an axis of two cells, and a row has one of them."""

import numpy as np

from hardwood._kernels.compiling import inner
from hardwood._kernels.search.leaves import MISSING
from hardwood._kernels.search.state import narrow


@inner
def settle_categories(model, search):
    """A row has one category: if one is certain the others are not, if one is left it is certain.

    Returns (whether none is left, whether anything changed).
    """
    axes = search.axes
    changed = False
    n_features = model.features.shape[0]
    for j in range(n_features):
        if model.features[j].n_categories == 0 or axes[j].own == MISSING:
            continue
        begin = n_features + model.features[j].category_start
        end = begin + model.features[j].n_categories
        certain, possible, some = np.int64(-1), 0, np.int64(-1)
        for axis in range(begin, end):
            if axes[axis].low == 1:
                certain = np.int64(axis)
            if axes[axis].high == 1:
                possible += 1
                some = np.int64(axis)
        if possible == 0:
            return True, changed
        if possible == 1 and certain < 0:
            certain = some
            narrow(search, some, 1, 1)
            changed = True
        if certain >= 0 and possible > 1:
            for axis in range(begin, end):
                if axis != certain and axes[axis].high == 1:
                    if axes[axis].low == 1:
                        return True, changed
                    narrow(search, axis, 0, 0)
            changed = True
    return False, changed


@inner
def choose_category(model, search, j):
    """Choose a category that all best leaves allow, the row's own one if possible; whether there is one."""
    axes = search.axes
    begin = model.features.shape[0] + model.features[j].category_start
    chosen = np.int64(-1)
    for axis in range(begin, begin + model.features[j].n_categories):
        possible = axes[axis].high == 1
        certain = axes[axis].low == 1
        if axes[axis].is_touched:
            possible, certain = axes[axis].probe.last == 1, axes[axis].probe.first == 1
        if certain or (possible and (chosen < 0 or axes[axis].own == 1)):
            chosen = np.int64(axis)
            if certain:
                break
    if chosen < 0:
        return False
    for axis in range(begin, begin + model.features[j].n_categories):
        axes[axis].chosen = axis == chosen
    return True
