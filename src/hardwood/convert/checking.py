"""Every import is compared with the model it came from before anybody relies on it."""

from collections.abc import Callable

import numpy as np

from hardwood.convert.precision import LARGEST
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.bit_sets import unpack_set

N_ROWS = 512
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)

Rows = Callable[[np.ndarray], np.ndarray]


def rows_near_thresholds(
    ensemble: TreeEnsemble,
    n_rows: int = N_ROWS,
    *,
    float32: bool = False,
    missing: bool = False,
    infinite: bool = False,
) -> np.ndarray:
    """Return rows that hug the thresholds: a value is a threshold of its feature or the float next to one.

    In half of the rows the values are drawn feature by feature, which mixes sides; each of the others goes to a leaf
    drawn at random and stands in a corner of the box that the leaf covers. With `float32`, the float32 numbers beside
    a threshold occur too, and nothing that is too large for float32. With `missing` and `infinite`, some values are
    NaN and infinite.
    """
    generator = np.random.default_rng(0)
    rows = np.zeros((n_rows, ensemble.schema.n_features))
    limit = LARGEST_FLOAT32 if float32 else LARGEST
    by_feature = np.argsort(ensemble.feature, kind="stable")
    ends = np.searchsorted(ensemble.feature[by_feature], np.arange(ensemble.schema.n_features + 1))
    for feature, labels in enumerate(ensemble.schema.categories):
        if labels is not None:
            rows[:, feature] = generator.integers(0, len(labels) + 1, n_rows)
            continue
        thresholds = np.unique(ensemble.threshold[by_feature[ends[feature] : ends[feature + 1]]])
        near = _neighbours(thresholds[np.abs(thresholds) < limit], float32)
        near = near[np.abs(near) <= limit]
        if infinite:
            near = np.append(near, [-np.inf, np.inf])
        if len(near):
            rows[:, feature] = generator.choice(near, n_rows)
    _go_to_leaves(ensemble, rows[: n_rows // 2], generator, limit)
    if missing:
        some = rows[::4]
        some[generator.random(some.shape) < 0.2] = np.nan
    return rows


def _neighbours(thresholds: np.ndarray, float32: bool) -> np.ndarray:
    """Return the thresholds and the floats on both sides of each, in float64 and, if asked to, in float32."""
    near = []
    with np.errstate(over="ignore"):
        for dtype in (np.float64, np.float32) if float32 else (np.float64,):
            rounded = thresholds.astype(dtype)
            near += [np.nextafter(rounded, dtype(-np.inf)), rounded, np.nextafter(rounded, dtype(np.inf))]
    return np.concatenate([numbers.astype(np.float64) for numbers in near])


def _go_to_leaves(ensemble: TreeEnsemble, rows: np.ndarray, generator: np.random.Generator, limit: float) -> None:
    """Move each row into a corner of the box of a leaf, which is a walk from the leaf up to its root."""
    inner = np.flatnonzero(ensemble.feature >= 0)
    parent = np.full(ensemble.n_nodes, -1)
    parent[ensemble.left[inner]] = parent[ensemble.right[inner]] = inner
    low, high = np.full(rows.shape, -np.inf), np.full(rows.shape, np.inf)
    node = generator.choice(np.flatnonzero(ensemble.feature < 0), len(rows))
    while (parent[node] >= 0).any():
        row = np.flatnonzero(parent[node] >= 0)
        child, node[row] = node[row], parent[node[row]]
        above = node[row]
        feature, goes_left = ensemble.feature[above], ensemble.left[above] == child
        is_number = ensemble.category_start[above] < 0
        at = row[is_number & goes_left], feature[is_number & goes_left]
        high[at] = np.minimum(high[at], ensemble.threshold[above[is_number & goes_left]])
        at = row[is_number & ~goes_left], feature[is_number & ~goes_left]
        low[at] = np.maximum(low[at], ensemble.threshold[above[is_number & ~goes_left]])
        for k in np.flatnonzero(~is_number).tolist():
            labels = ensemble.schema.categories[feature[k]]
            assert labels is not None
            left_set = unpack_set(ensemble.category_words, ensemble.category_start[above[k]], len(labels) + 1)
            codes = np.flatnonzero(left_set == goes_left[k])
            if len(codes):
                rows[row[k], feature[k]] = generator.choice(codes)
    upper = np.isfinite(high) & (generator.random(rows.shape) < 0.5) | np.isneginf(low)
    with np.errstate(over="ignore"):
        corner = np.where(upper, high, np.nextafter(low, np.inf))
    inside = (low < corner) & (corner <= high) & (np.abs(corner) <= limit)
    rows[inside] = corner[inside]


def check_import(
    ensemble: TreeEnsemble,
    predict: Rows,
    source: str,
    *,
    output: Rows | None = None,
    probability: Rows | None = None,
    float32: bool = False,
    infinite: bool = False,
) -> None:
    """Raise ``ValueError`` unless the import predicts what its source predicts, on rows that hug the thresholds.

    Parameters
    ----------
    ensemble : TreeEnsemble
    predict : callable
        What the source predicts for rows as the kernels take them: class labels, or values of a regression.
    source : str
        What errors call the source.
    output : callable, optional
        What the source says the outputs are. They have to be the same up to rounding: a compiler may fuse a
        multiplication and an addition. Classes have to be the same.
    probability : callable, optional
        For a source that rounds its outputs to probabilities and takes the largest: classes whose probabilities are
        equal to the last bit are then as good as one another.
    float32, infinite : bool
        What the source does with its rows: see `rows_near_thresholds`. Values are missing if the columns accept that.
    """
    # A split between missing values and all numbers has an infinite threshold, brought down to the largest number on
    # import. Infinity itself then lies on the other side; but it is no number that a TreeEnsemble takes.
    infinite = infinite and bool((ensemble.threshold < LARGEST).all())
    missing = ensemble.schema.accepts_missing
    rows = rows_near_thresholds(ensemble, float32=float32, missing=missing, infinite=infinite)
    ours = ensemble.output(rows)
    theirs = predict(rows)
    if np.shape(theirs) != (len(rows),):
        raise ValueError(f"{source} predicts an array of shape {np.shape(theirs)} for {len(rows)} rows, not one each")
    if ensemble.classes is None:
        wrong = ~_same_up_to_rounding(ensemble, ours[:, 0], theirs)
    else:
        decided = ensemble.decide(rows)
        wrong = ensemble.classes.take(decided) != theirs
        if probability is not None and wrong.any():
            likely = probability(rows)
            wrong &= likely[np.arange(len(rows)), decided] < likely.max(axis=1)
    if output is not None:
        wrong |= ~_same_up_to_rounding(ensemble, ours, output(rows).reshape(ours.shape)).all(axis=1)
    if wrong.any():
        raise ValueError(
            f"{source} could not be imported faithfully: the import predicts otherwise on {wrong.sum()} of "
            f"{len(rows)} rows near its thresholds. Please report this with the model."
        )


def _same_up_to_rounding(ensemble: TreeEnsemble, ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    scale = max(np.abs(ours).max(), np.abs(theirs).max())
    return np.abs(ours - theirs) <= ensemble.n_trees * np.finfo(ensemble.precision).eps * scale
