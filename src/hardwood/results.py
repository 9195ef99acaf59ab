"""What attacks return: frozen records, no logic."""

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class AttackResult:
    """What an attack found, row by row.

    Attributes
    ----------
    found : ndarray of bool, shape (n_samples,)
        Whether there is an adversarial example. A row that is misclassified as it stands is its own example.
    X_adv : array or DataFrame, shape (n_samples, n_features)
        The examples, as the kind of table that was attacked; missing values where there is none.
    distance : ndarray of float, shape (n_samples,)
        How far each example is from its row; infinite where there is none.
    """

    found: np.ndarray
    X_adv: Any
    distance: np.ndarray

    def __repr__(self) -> str:
        return f"AttackResult(found={int(self.found.sum())} of {len(self.found)})"
