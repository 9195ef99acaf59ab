"""How many rows any classifier could get right under attack, by trying every set of rows."""

from itertools import combinations

import numpy as np

from hardwood.threat import Reach


def can_meet(first: np.ndarray, second: np.ndarray, labels: tuple[int, int], reach: Reach) -> bool:
    """Say whether two rows can be moved onto a common point, feature by feature."""
    for j, allowed in enumerate(reach.categories):
        x, z = first[j], second[j]
        moves = [bool(reach.attacks[label]) for label in labels]
        if allowed is None:
            low = max(v - reach.left[j] * m if m else v for v, m in zip((x, z), moves, strict=True))
            high = min(v + reach.right[j] * m if m else v for v, m in zip((x, z), moves, strict=True))
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


def best_possible(rows: np.ndarray, label: np.ndarray, reach: Reach) -> int:
    """Return the size of the largest set of rows of which no two of different classes can meet."""
    n = len(rows)
    conflicts = [
        1 << i | 1 << j
        for i, j in combinations(range(n), 2)
        if label[i] != label[j] and can_meet(rows[i], rows[j], (label[i], label[j]), reach)
    ]
    return max(chosen.bit_count() for chosen in range(1 << n) if not any(chosen & c == c for c in conflicts))
