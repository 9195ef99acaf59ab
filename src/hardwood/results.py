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
        Whether there is an adversarial example. A row that is misclassified as it stands is its own example. Ask this,
        not `X_adv`, which rows have one: an example of a row with missing values has missing values, too.
    X_adv : array or DataFrame, shape (n_samples, n_features)
        The examples, as the kind of table that was attacked; a row of missing values where there is none.
    distance : ndarray of float, shape (n_samples,)
        How far each example is from its row; infinite where none was found.
    lower : ndarray of float, shape (n_samples,)
        No example is nearer than this. Equal to `distance` where the search was finished; where it was not, the nearest
        example is between the two.
    """

    found: np.ndarray
    X_adv: Any
    distance: np.ndarray
    lower: np.ndarray

    def __repr__(self) -> str:
        return f"AttackResult(found={int(self.found.sum())} of {len(self.found)})"


@dataclass(frozen=True, eq=False)
class Certificate:
    """What is proved about each row under a threat model.

    Attributes
    ----------
    status : ndarray of str, shape (n_samples,)
        "robust": no attacker within the threat model can change the class. "vulnerable": one can, see `witness`; a
        row that is misclassified as it stands counts as vulnerable. "unknown": not decided within the time limit.
    lower, upper : ndarray of float, shape (n_samples,)
        Bounds on the worst margin that the attacker can force: how far the output of the true class stays ahead of the
        best other one. `lower > 0` proves a row robust, `upper` is attained by a point that was found. For a
        regression: no attacker can bring the output below `lower` or above `upper`.
    witness : array or DataFrame, shape (n_samples, n_features)
        For vulnerable rows a point within reach that the model gives another class, with missing values where the row
        has them; rows of missing values elsewhere.
    """

    status: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    witness: Any

    def __repr__(self) -> str:
        kinds = ("robust", "vulnerable", "unknown")
        return "Certificate(" + ", ".join(f"{kind}={int((self.status == kind).sum())}" for kind in kinds) + ")"
