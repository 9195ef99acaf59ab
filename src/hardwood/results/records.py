"""What attacks and proofs return: frozen records, row by row."""

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np


@dataclass(frozen=True, eq=False, kw_only=True)
class AttackResult:
    """What an attack found, row by row.

    Each row is one of four: wrong as it stands (`was_wrong`), right but with an example (`made_wrong`), right whatever
    the attacker does (`holds`), or `undecided`.

    Attributes
    ----------
    found : ndarray of bool, shape (n_samples,)
        Whether there is an adversarial example. A row that is wrong as it stands is its own example. Ask this, not
        `X_adv`, which rows have one: an example of a row with missing values has missing values, too.
    was_wrong : ndarray of bool, shape (n_samples,)
        Whether the model gets the row wrong as it stands, without any attack.
    X_adv : array or DataFrame, shape (n_samples, n_features)
        The examples, as the kind of table that was attacked, with its index; a row of missing values where there is
        none. Columns of whole numbers and truth values keep their type where every example remains one when its values
        are rounded, away from the row; otherwise the column is of floats. So is a column of a NumPy type, which knows
        no missing values, if some row has no example.
    distance : ndarray of float, shape (n_samples,)
        How far the nearest example is from its row, all numbers taken as real ones; infinite where none was found. An
        example whose whole numbers were rounded lies less than one unit further.
    lower : ndarray of float, shape (n_samples,)
        No example is nearer than this. Equal to `distance` where the search was finished; where it was not, the nearest
        example is between the two.
    interrupted : bool
        Whether Ctrl-C has cut it short.
    """

    found: np.ndarray
    was_wrong: np.ndarray
    X_adv: Any
    distance: np.ndarray
    lower: np.ndarray
    interrupted: bool = False

    @property
    def made_wrong(self) -> np.ndarray:
        """Whether the model gets the row right as it stands, and wrong once it is attacked."""
        return self.found & ~self.was_wrong

    @property
    def holds(self) -> np.ndarray:
        """Whether it is proved that the row stays right."""
        return ~self.found & (self.lower == np.inf)

    @property
    def undecided(self) -> np.ndarray:
        """Whether no example was found, and yet there may be one."""
        return ~self.found & (self.lower < np.inf)

    def __repr__(self) -> str:
        kinds = ("was_wrong", "made_wrong", "holds", "undecided")
        return "AttackResult(" + ", ".join(f"{kind}={int(getattr(self, kind).sum())}" for kind in kinds) + ")"


@dataclass(frozen=True, eq=False, kw_only=True)
class Certificate:
    """What is proved about each row under a threat model.

    Attributes
    ----------
    status : ndarray of str, shape (n_samples,)
        "robust": no attacker within the threat model can change the class. "vulnerable": one can, see `witness`; a
        row that is misclassified as it stands counts as vulnerable. "unknown": not decided within the time limit.
    lower, upper : ndarray of float, shape (n_samples,)
        Bounds on the worst margin that the attacker can force: how far the output of the true class stays ahead of the
        best other one. `lower > 0` proves a row robust, `upper` is attained by a point that was found. Both are the
        same for a model of one tree. For a regression: no attacker can bring the output below `lower` or above `upper`.
    witness : array or DataFrame, shape (n_samples, n_features)
        For vulnerable rows a point within reach that the model gives another class, with missing values where the row
        has them; rows of missing values elsewhere. The kind of table that was asked about, with its index and types as
        `AttackResult.X_adv` has them.
    interrupted : bool
        Whether Ctrl-C has cut it short.
    """

    status: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    witness: Any
    interrupted: bool = False

    def __repr__(self) -> str:
        kinds = ("robust", "vulnerable", "unknown")
        return "Certificate(" + ", ".join(f"{kind}={int((self.status == kind).sum())}" for kind in kinds) + ")"


@dataclass(frozen=True, eq=False, kw_only=True)
class MarginCertificate:
    """What a bound proves about each row under a threat model, without a search.

    Attributes
    ----------
    certified : ndarray of bool, shape (n_samples,)
        Whether it is proved that the row keeps its class, or, for a regression, that its output stays within the
        tolerance. Ties fall as in predictions: at a margin of 0 the first of equal classes is kept. Of a row that is
        not certified nothing is said: :func:`hardwood.verify` decides.
    lower, upper : ndarray of float, shape (n_samples,)
        No attacker can bring the margin below `lower`, and it is `upper` as the row stands. For a regression: no
        attacker can bring the output below `lower` or above `upper`.
    """

    certified: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def __repr__(self) -> str:
        return f"MarginCertificate(certified={int(self.certified.sum())} of {len(self.certified)})"


Result = TypeVar("Result", AttackResult, Certificate)


def unless_interrupted(result: Result) -> Result:
    """Return a result that is complete; go on with the interruption of one that is not.

    For callers who need all rows: a training round, a score.
    """
    if result.interrupted:
        raise KeyboardInterrupt
    return result


class Bounds(NamedTuple):
    """A share of rows: between `lower` and `upper`, which are equal once every row is decided.

    Examples
    --------
    >>> print(Bounds(0.5, 0.5), "and", Bounds(0.5, 0.625))
    50.0% and 50.0% to 62.5%
    """

    lower: float
    upper: float

    @property
    def is_exact(self) -> bool:
        """Whether both are the same."""
        return self.lower == self.upper

    def __str__(self) -> str:
        return f"{self.lower:.1%}" if self.is_exact else f"{self.lower:.1%} to {self.upper:.1%}"


class DetectionRates(NamedTuple):
    """How well a model detects a class.

    Attributes
    ----------
    precision : Bounds
        The share of alarms that are right; 0 if there is none.
    recall : Bounds
        The share of rows of the positive class that raise an alarm.
    false_alarm_rate : Bounds
        The share of the other rows that do.
    """

    precision: Bounds
    recall: Bounds
    false_alarm_rate: Bounds


class ErrorBounds(NamedTuple):
    """A mean error: between `lower` and `upper`, which are equal once every row is decided.

    Examples
    --------
    >>> print(ErrorBounds(0.25, 0.25), "and", ErrorBounds(2900.123, 3100.0))
    0.25 and 2900 to 3100
    """

    lower: float
    upper: float

    @property
    def is_exact(self) -> bool:
        """Whether both are the same."""
        return self.lower == self.upper

    def __str__(self) -> str:
        return f"{self.lower:.4g}" if self.is_exact else f"{self.lower:.4g} to {self.upper:.4g}"


@dataclass(frozen=True, eq=False, kw_only=True)
class RegressionAttackResult:
    """What an attack on a regression found, row by row: the example whose prediction is furthest off.

    Attributes
    ----------
    X_adv : array or DataFrame, shape (n_samples, n_features)
        The examples, as the kind of table that was attacked, with its index and types as `AttackResult.X_adv` has them.
        A row that the attacker cannot make worse is its own example.
    prediction : ndarray of float, shape (n_samples,)
        What the model says of the examples.
    error : ndarray of float, shape (n_samples,)
        How far that is off.
    upper : ndarray of float, shape (n_samples,)
        No example is further off. Equal to `error` where the search was finished.
    error_before : ndarray of float, shape (n_samples,)
        How far the prediction is off without any attack.
    distance : ndarray of float, shape (n_samples,)
        How far the example is from its row; there may be a nearer one with the same prediction if the model has several
        trees.
    interrupted : bool
        Whether Ctrl-C has cut it short.
    """

    X_adv: Any
    prediction: np.ndarray
    error: np.ndarray
    upper: np.ndarray
    error_before: np.ndarray
    distance: np.ndarray
    interrupted: bool = False

    @property
    def made_worse(self) -> np.ndarray:
        """Whether the example is further off than the row as it stands."""
        return np.asarray(self.error > self.error_before)

    def __repr__(self) -> str:
        return (
            f"RegressionAttackResult(rows={len(self.error)}, made_worse={int(self.made_worse.sum())}, "
            f"mean_error={self.error_before.mean():.4g} -> {self.error.mean():.4g})"
        )
