"""The coordinate attack in plain Python: every value of every feature is tried by predicting."""

from fractions import Fraction

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.threat import Reach
from reference import attacking, enumerating


def margin(trees: TreeEnsemble, row: np.ndarray, label: int) -> Fraction:
    """Return how far the label is ahead of the best other class, before the division and without rounding."""
    total = [Fraction(score) for score in trees.base_score]
    for root in trees.root:
        leaf = attacking.walk(trees, root, row)[-1]
        total = [a + Fraction(b) for a, b in zip(total, trees.value[leaf], strict=True)]
    if len(total) == 1:
        ahead = Fraction(trees.cut) * Fraction(trees.divisor) - total[0]
        return ahead if label == 0 else -ahead
    return total[label] - max(value for k, value in enumerate(total) if k != label)


def with_value(point: np.ndarray, j: int, value: float) -> np.ndarray:
    """Return a copy of a point with one value changed."""
    changed = point.copy()
    changed[j] = value
    return changed


def coordinate_attack(trees: TreeEnsemble, row: np.ndarray, label: int, reach: Reach) -> np.ndarray | None:
    """Return the example that changing one feature at a time leads to; None if it leads to none."""
    values = enumerating.reachable_values(trees, row, label, reach)
    point = row
    while attacking.predict(trees, point) == label:
        here = margin(trees, point, label)
        moves = []
        for j, labels in enumerate(trees.schema.categories):
            for value in values[j][~np.isnan(values[j])].tolist():
                price = abs(value - row[j]) if labels is None else float(value != row[j])
                moves.append((margin(trees, with_value(point, j, value), label), price, j, value))
        best, _, j, value = min(moves, default=(here, 0.0, 0, 0.0))
        if best >= here:
            return None
        point = with_value(point, j, value)
    for j in range(len(row)):
        without = with_value(point, j, row[j])
        if attacking.predict(trees, without) != label:
            point = without
    return point
