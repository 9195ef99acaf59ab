"""An ensemble and a threat made ready for searching, row by row."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from hardwood._kernels.search.branching import NARROWED_BESIDES, NARROWED_PER_PRICE
from hardwood._kernels.search.leaf_boxes import bound_leaves
from hardwood._kernels.search.leaves import BOUND, FEATURE, LEAF, SIDE, STEP, Model
from hardwood._kernels.search.state import (
    AXIS,
    CELL,
    CHANGE,
    DUAL,
    INTERVAL,
    LEAF_DUAL,
    LEVEL,
    MARGINAL,
    MAX_INTERVALS,
    PAIR,
    PROGRESS,
    QUESTION,
    RADIUS,
    SPAN,
    TREE_DUAL,
    Search,
)
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.reachable import find_parents
from hardwood.ensemble.whole_numbers import find_above
from hardwood.table import Schema
from hardwood.verification.settings import SearchSettings


def drop_unused(ensemble: TreeEnsemble) -> tuple[TreeEnsemble, np.ndarray]:
    """Return the ensemble as one of the columns alone that it looks at, and these columns; at least one."""
    schema, looks = ensemble.schema, ensemble.feature >= 0
    used = np.unique(ensemble.feature[looks]) if looks.any() else np.zeros(1, dtype=np.intp)
    if len(used) == schema.n_features:
        return ensemble, used
    feature = np.where(looks, np.searchsorted(used, ensemble.feature), ensemble.feature).astype(np.int32)
    narrow = Schema(len(used), None, tuple(schema.categories[j] for j in used.tolist()), schema.accepts_missing)
    return replace(ensemble, feature=feature, schema=narrow), used


def _find_cut(ensemble: TreeEnsemble) -> float:
    """Return where a single output turns from one class to the other, in the precision that `choose` compares in."""
    return 0.0 if ensemble.classes is None else float(np.dtype(ensemble.precision).type(ensemble.turning_point))


def find_last_sum(ensemble: TreeEnsemble) -> float:
    """Return the largest sum that is no greater than the cut after the division, in the model's own precision.

    Infinity if there is no second class. By bisection over all numbers there are: of positive ones the bits are in the
    order of the numbers.
    """
    cut = _find_cut(ensemble)
    if not math.isfinite(cut):
        return cut
    number = np.dtype(ensemble.precision).type
    integer = np.int64 if number is np.float64 else np.int32
    divisor = number(ensemble.divisor)

    def read(bits: int) -> np.floating:
        value: np.floating = integer(abs(bits)).view(number)
        return value if bits >= 0 else -value

    high = int(np.finfo(number).max.view(integer))
    low = -high - 1
    with np.errstate(over="ignore", under="ignore"):
        while low < high:
            middle = (low + high + 1) // 2
            if read(middle) / divisor <= cut:
                low = middle
            else:
                high = middle - 1
    return float(read(low))


def _round_down(exact: Fraction) -> float:
    """Return the largest float64 that is no greater."""
    largest = float(np.finfo(np.float64).max)
    if abs(exact) > largest:
        return largest if exact > 0 else -math.inf
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else math.nextafter(nearest, -math.inf)


def _find_limits(ensemble: TreeEnsemble) -> tuple[float, float]:
    """Return what leaf values have to exceed for the second class, and what minus their sum has to reach for the first.

    For a single output. Both are rounded down, never to nearest: a cut that vanishes beside a base score must not make
    a certificate of a tie.
    """
    if len(ensemble.base_score) > 1 or ensemble.classes is None:
        return 0.0, 0.0
    base = float(ensemble.base_score[0])
    last = find_last_sum(ensemble)
    if not math.isfinite(last):
        return last, -last
    return _round_down(Fraction(last) - Fraction(base)), _round_down(Fraction(base) - Fraction(last))


def make_model(ensemble: TreeEnsemble, whole: np.ndarray | None = None) -> Model:
    """Lay an ensemble out for the search: its thresholds, its leaves and their boxes in sparse form.

    whole : which features hold whole numbers only, as their thresholds must then; None: none.
    """
    n_features = ensemble.schema.n_features
    n_categories = np.array([0 if c is None else len(c) + 1 for c in ensemble.schema.categories], dtype=np.int64)
    leaves = np.flatnonzero(ensemble.feature < 0)
    start = np.empty(len(leaves) + 1, dtype=np.int64)
    entry = np.full(n_features, -1, dtype=np.int64)
    context = (ensemble.trees, find_parents(ensemble), n_categories, leaves, entry, start)
    none = np.empty(0, dtype=np.int64)
    room = bound_leaves(*context, none, np.empty(0), np.empty(0), none, np.empty(0, dtype=bool))
    size = max(1, int(start[-1]))  # never empty: that would mean counting
    feature, set_start = np.zeros(size, dtype=np.int64), np.empty(size, dtype=np.int64)
    low, high, sets = np.zeros(size), np.zeros(size), np.empty(room, dtype=bool)
    bound_leaves(*context, feature, low, high, set_start, sets)
    thresholds, rank = [], np.zeros(ensemble.n_nodes, dtype=np.int32)
    rank[leaves] = np.arange(len(leaves))
    sides = np.zeros(size, dtype=SIDE)
    sides["axis"], sides["set"] = feature, set_start
    inner = (ensemble.feature >= 0) & (ensemble.category_start < 0)
    for j in range(n_features):
        nodes = np.flatnonzero(inner & (ensemble.feature == j))
        values, index = np.unique(ensemble.threshold[nodes], return_inverse=True)
        rank[nodes] = index
        thresholds.append(values)
        at = feature == j
        sides["first"][at] = np.where(np.isneginf(low[at]), 0, np.searchsorted(values, low[at]) + 1)
        sides["last"][at] = np.searchsorted(values, high[at])
    features = np.zeros(n_features, dtype=FEATURE)
    sizes, all_thresholds = [len(values) for values in thresholds], np.concatenate(thresholds)
    features["threshold_end"] = np.cumsum(sizes)
    features["threshold_start"][1:] = features["threshold_end"][:-1]
    features["n_categories"] = n_categories
    features["category_start"] = np.cumsum(n_categories) - n_categories
    limits = _find_limits(ensemble)
    return Model(
        trees=ensemble.trees,
        value=ensemble.value,
        base_score=ensemble.base_score,
        single=ensemble.precision == "float32",
        divisor=float(ensemble.divisor),
        cut=_find_cut(ensemble),
        least_rise=limits[0],
        least_fall=limits[1],
        rank=rank,
        side_start=start,
        sides=sides,
        sets=sets,
        thresholds=all_thresholds,
        above=find_above(all_thresholds, None if whole is None else np.repeat(whole, sizes)),
        features=features,
    )


def measure_leaves(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return features and widths of leaves that have bounds on both sides there, some 1,000 at most.

    Where no leaf has, the average gaps between the thresholds of features.
    """
    thresholds, sides = model.thresholds, model.sides[: model.side_start[-1]]
    first, last = model.features["threshold_start"], model.features["threshold_end"] - 1
    axis = sides["axis"]
    bounded = np.flatnonzero((sides["first"] > 0) & (first[axis] + sides["last"] <= last[axis]))
    bounded = bounded[:: len(bounded) // 1000 + 1]
    several = np.flatnonzero(last > first)
    with np.errstate(over="ignore"):  # a split that only parts what is missing has the largest number as threshold
        if not len(bounded):
            return several, (thresholds[last[several]] - thresholds[first[several]]) / (last - first)[several]
        axis, sides = axis[bounded], sides[bounded]
        return axis, thresholds[first[axis] + sides["last"]] - thresholds[first[axis] + sides["first"] - 1]


def make_workspace(model: Model, max_depth: int, settings: SearchSettings, scale: int) -> Search:
    """Allocate what one thread needs for rows that reach up to `scale` times the first number of leaves."""
    # Each axis has a spare cell.
    features = model.features
    n_thresholds = features["threshold_end"] - features["threshold_start"]
    n_cells = np.concatenate([n_thresholds + 2, np.full(features["n_categories"].sum(), 3)])
    n_axes, n_leaves, n_levels = len(n_cells), settings.first_leaves * scale, settings.first_levels * scale
    n_trees = len(model.trees.root)
    n_narrowings = (NARROWED_PER_PRICE * settings.prices + NARROWED_BESIDES) * n_axes
    axes = np.zeros(n_axes, dtype=AXIS)
    axes["start"] = np.cumsum(n_cells) - n_cells
    return Search(
        leaves=np.zeros(n_leaves, dtype=LEAF),
        leaf_cost=np.zeros(n_leaves),
        bounds=np.zeros(8 * n_leaves + n_axes, dtype=BOUND),
        slots=np.zeros(4 * n_leaves, dtype=np.int32),
        marks=np.zeros(4 * (n_trees + 2) * scale, dtype=np.int32),
        axes=axes,
        levels=np.zeros(n_levels, dtype=LEVEL),
        changes=np.zeros(n_levels + 2 * n_narrowings, dtype=CHANGE),
        cells=np.zeros(n_cells.sum(), dtype=CELL),
        question=np.zeros(1, dtype=QUESTION),
        progress=np.zeros(1, dtype=PROGRESS),
        radius=np.zeros(1, dtype=RADIUS),
        point=np.empty(len(features)),
        output=np.empty(len(model.base_score)),
        entries=np.zeros(n_trees, dtype=np.int32),
        stack=np.zeros(max_depth + 2, dtype=STEP),
        dual=np.zeros(1, dtype=DUAL),
        pairs=np.zeros(2 * n_leaves, dtype=PAIR),
        intervals=np.zeros(8 * n_leaves, dtype=INTERVAL),
        spans=np.zeros(16 * n_leaves, dtype=SPAN),
        leaf_duals=np.zeros(n_leaves, dtype=LEAF_DUAL),
        tree_duals=np.zeros(n_trees, dtype=TREE_DUAL),
        marginals=np.zeros(n_cells.sum(), dtype=MARGINAL),
        table=np.empty(2 * MAX_INTERVALS**2),
        runs=np.empty(n_cells.max() * int(n_cells.max()).bit_length()),
    )
