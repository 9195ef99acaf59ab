"""Everything an attacker can do to a row of an ensemble, by trying one point of every cell."""

from itertools import product

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.table import Schema
from hardwood.threat import Reach
from reference import attacking


def reachable_points(trees: TreeEnsemble, row: np.ndarray, label: int, reach: Reach) -> np.ndarray:
    """Return points of every cell that the row's reach meets, among them the one that is nearest to the row."""
    return np.array(list(product(*reachable_values(trees, row, label, reach))))


def reachable_values(trees: TreeEnsemble, row: np.ndarray, label: int, reach: Reach) -> list[np.ndarray]:
    """Return, feature by feature, the values among which there is one of every cell that the row's reach meets."""
    low, high = reach.box(row[None], np.array([label]))
    axes = []
    for j, allowed in enumerate(reach.categories):
        if np.isnan(row[j]):
            can_fill = reach.fill is not None and reach.fill[j] and reach.attacks[label]
            axes.append(np.append(_existing_values(trees, reach, j) if can_fill else [], row[j]))
            continue
        if allowed is not None:
            own = int(row[j])
            codes = np.flatnonzero(allowed[own]) if reach.attacks[label] else np.array([own])
            axes.append(codes.astype(float))
            continue
        thresholds = np.unique(trees.threshold[(trees.feature == j)])
        if reach.whole is not None and reach.whole[j]:
            # All whole numbers, as far as there are thresholds, and one more on either side.
            values = np.append(thresholds, row[j])
            first = max(np.floor(values.min()) - 1.0, np.ceil(low[0, j]))
            values = np.arange(first, min(np.ceil(values.max()) + 1.0, np.floor(high[0, j])) + 1.0)
        else:
            with np.errstate(over="ignore"):  # past the largest float64 there is no value
                above = np.nextafter(thresholds, np.inf)
            values = np.concatenate([[row[j]], thresholds, above[np.isfinite(above)]])
        axes.append(np.unique(values[(low[0, j] <= values) & (values <= high[0, j])]))
    if reach.blank is not None and reach.attacks[label]:
        axes = [
            np.append(values, np.nan) if reach.blank[j] and not np.isnan(row[j]) else values
            for j, values in enumerate(axes)
        ]
    return axes


def _existing_values(trees: TreeEnsemble, reach: Reach, j: int) -> np.ndarray:
    """Return values that a missing one can be given: all categories, or numbers of every cell of the domain."""
    allowed = reach.categories[j]
    if allowed is not None:
        return np.arange(len(allowed) - 1.0)
    least, most = (-np.inf, np.inf) if reach.within is None else reach.within[:, j]
    thresholds = np.unique(trees.threshold[trees.feature == j])
    ends = np.append(thresholds, [end for end in (least, most) if np.isfinite(end)])
    with np.errstate(over="ignore"):  # past the largest float64 there is no value
        values = np.concatenate([[0.0], ends, np.nextafter(ends, np.inf), np.nextafter(ends, -np.inf)])
    values = values[np.isfinite(values)]
    if reach.whole is not None and reach.whole[j]:
        values = np.concatenate([np.floor(values), np.ceil(values), np.floor(values) + 1.0])
    return np.unique(values[(least <= values) & (values <= most)])


def adversarial_points(trees: TreeEnsemble, row: np.ndarray, label: int, reach: Reach) -> np.ndarray:
    """Return those of them that the model gives another class."""
    points = reachable_points(trees, row, label, reach)
    return points[[attacking.predict(trees, point) != label for point in points]]


def worst_margin(trees: TreeEnsemble, points: np.ndarray, own: int) -> float:
    """Return how far a class is ahead at the point where it is least so."""
    return min(attacking.lead(trees, total, own) for total in attacking.outputs(trees, points))


def nearest(points: np.ndarray, row: np.ndarray, schema: Schema, norm: float, weight: np.ndarray) -> float:
    """Return the distance of a row from the nearest of some points as `attacking.distance` has it; infinite if none."""
    change = np.abs(points - row)
    for feature in schema.categorical:
        change[:, feature] = change[:, feature] != 0.0
    change[np.isnan(row) & np.isnan(points)] = 0.0
    change[np.isnan(row) != np.isnan(points)] = 1.0
    if norm == 0:
        distances = ((change != 0.0) * weight).sum(axis=1)
    elif norm == 2:
        distances = np.hypot.reduce(weight * change, axis=1)
    else:
        distances = (weight * change).sum(axis=1) if norm == 1 else (weight * change).max(axis=1)
    return float(distances.min(initial=np.inf))
