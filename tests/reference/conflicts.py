"""How many rows any classifier could get right under attack: by trying every set of rows, and by a plain matching."""

import math
from itertools import combinations

import numpy as np

from hardwood.threat import Reach


def can_meet(first: np.ndarray, second: np.ndarray, labels: tuple[int, int], reach: Reach) -> bool:
    """Say whether two rows can be moved onto a common point, feature by feature."""
    for j, allowed in enumerate(reach.categories):
        x, z = first[j], second[j]
        moves = [bool(reach.attacks[label]) for label in labels]
        can_miss = [
            math.isnan(v) or (m and reach.blank is not None and reach.blank[j])
            for v, m in zip((x, z), moves, strict=True)
        ]
        if all(can_miss):
            continue
        if math.isnan(x) or math.isnan(z):
            value, fills = (z, moves[0]) if math.isnan(x) else (x, moves[1])
            is_known = allowed is None or bool(allowed[int(value), :-1].any() if moves[math.isnan(x)] else True)
            is_known &= allowed is None or moves[math.isnan(x)] or int(value) < len(allowed) - 1
            if not (fills and reach.fill is not None and reach.fill[j] and is_known):
                return False
        elif allowed is None:
            low = max(v - reach.left[j] if m else v for v, m in zip((x, z), moves, strict=True))
            high = min(v + reach.right[j] if m else v for v, m in zip((x, z), moves, strict=True))
            if low > high:
                return False
        else:
            known = range(len(allowed) - 1)
            becomes = [
                {code for code in known if (allowed[int(v), code] if m else code == int(v))}
                for v, m in zip((x, z), moves, strict=True)
            ]
            if not becomes[0] & becomes[1]:
                return False
    return True


def list_conflicts(rows: np.ndarray, label: np.ndarray, reach: Reach) -> list[tuple[int, int]]:
    """Return the pairs of rows of different classes that can meet."""
    return [
        (i, j)
        for i, j in combinations(range(len(rows)), 2)
        if label[i] != label[j] and can_meet(rows[i], rows[j], (label[i], label[j]), reach)
    ]


def best_possible(rows: np.ndarray, label: np.ndarray, reach: Reach) -> int:
    """Return the size of the largest set of rows of which no two of different classes can meet."""
    masks = [1 << i | 1 << j for i, j in list_conflicts(rows, label, reach)]
    return max(chosen.bit_count() for chosen in range(1 << len(rows)) if not any(chosen & m == m for m in masks))


def matching_bound(rows: np.ndarray, label: np.ndarray, reach: Reach) -> int:
    """Return how many rows a maximum fractional matching of the conflicts leaves over, rounded down.

    Each row stands on both sides, and each pair is tried in turn (Kuhn): a matching of the doubled graph is twice a
    fractional one. For two classes that is a maximum matching (König).
    """
    partners: list[list[int]] = [[] for _ in rows]
    for i, j in list_conflicts(rows, label, reach):
        partners[i].append(j)
        partners[j].append(i)
    left_of: dict[int, int] = {}

    def improve(row: int, seen: set[int]) -> bool:
        for partner in partners[row]:
            if partner not in seen:
                seen.add(partner)
                if partner not in left_of or improve(left_of[partner], seen):
                    left_of[partner] = row
                    return True
        return False

    twice = sum(improve(row, set()) for row in range(len(rows)))
    return len(rows) - (twice + 1) // 2
