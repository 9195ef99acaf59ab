"""What a budget over columns pays for, in fractions: no sum is rounded."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hardwood.table import Schema
from hardwood.threat import ThreatModel

# A radius is exceeded by more than a billionth of it: in the L2 norm, of its square.
TOLERANCE = Fraction(1, 10**9)


def is_affordable(threat: ThreatModel, schema: Schema, row: Sequence[float], point: Sequence[float]) -> bool:
    """Say whether a row can be turned into a point within the threat model's max_changes and radius."""
    changes = []
    for j, (before, after) in enumerate(zip(row, point, strict=True)):
        if np.isnan(before) and np.isnan(after):
            continue
        if before != after:
            unit = threat.units.get(j, 1.0) if isinstance(threat.units, dict) else threat.units or 1.0
            # Another category is a change by 1, and so is a value that was blanked or filled in.
            by_one = schema.categories[j] is not None or np.isnan(before) or np.isnan(after)
            changes.append((Fraction(1) if by_one else abs(Fraction(after) - Fraction(before))) / Fraction(unit))
    if threat.max_changes is not None and len(changes) > threat.max_changes:
        return False
    if threat.radius is None:
        return True
    total = sum((change**threat.norm for change in changes), Fraction(0))
    return total <= Fraction(threat.radius) ** threat.norm * (1 + TOLERANCE)
