"""RobustnessReport: what `evaluate` returns."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from hardwood.extras import explain_missing
from hardwood.quoting import quote
from hardwood.results.records import Bounds, DetectionRates
from hardwood.results.rendering import as_html, as_text


@dataclass(frozen=True, eq=False, kw_only=True)
class RobustnessReport:
    """How a model fares on some rows, with and without an attacker.

    The size of an attack is given in multiples of the threat model, as :meth:`ThreatModel.scaled` has it: 1 is the
    threat model itself, 0 is no attacker.

    Attributes
    ----------
    threat : ThreatModel
    classes : ndarray, the class labels
    label, prediction : ndarray of int, shape (n_samples,)
        The index of the true class of each row, and of the class the model gives it as it stands.
    robust_to : ndarray of float, shape (n_samples,)
        The largest of `epsilons` at which it is proved that the row stays right; -inf for rows that are misclassified.
    fooled_at : ndarray of float, shape (n_samples,)
        The smallest of `epsilons` at which there is an adversarial example; 0 for rows that are misclassified, inf
        where none was found.
    epsilons : ndarray of float
        The multiples of the threat model that were looked at; 0 and 1 are among them.
    ceilings : ndarray of float, one per epsilon, or None
        The adversarial accuracy that no classifier can exceed.
    ceilings_lower : ndarray of float, one per epsilon, or None
        The lowest such ceiling is no lower than this. Equal to `ceilings` unless time ran out while it was worked out,
        or a budget over columns or relations leave it open which rows can be moved onto one point.
    distance, distance_lower : ndarray of float, shape (n_samples,), or None
        How far the nearest adversarial example is, and how far it is at least (see :func:`evaluate`).
    positive : int or None
        The index of the class to be detected, if one was named.
    roc_auc : float or None
        The area under the ROC curve, for a model of two classes of which one is to be detected.
    adversarial_roc_auc : Bounds or None
        The same if every row of the positive class has the lowest score that the attacker can give it, and every other
        one the highest. None for attackers with rules.
    seconds : dict
        How long each part took, without waiting for the compiler; "compiling", if anything was compiled: for how long.
    interrupted : bool
        Whether Ctrl-C ended the search early; what had not been decided is unknown.
    index : pandas Index or None
        The index of the table that was evaluated, if it has one.
    frame : {"pandas", "polars"}
        What :meth:`to_frame` returns: the kind of DataFrame that was evaluated; for an array one of pandas.

    Examples
    --------
    >>> from hardwood import RobustTreeClassifier, evaluate
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"]
    >>> report = evaluate(RobustTreeClassifier().fit(X, y), X, y, threat=1.0)
    >>> report
    RobustnessReport(accuracy=100.0%, adversarial_accuracy=50.0%, constant=50.0%, ceiling=50.0%)
    >>> report.status.tolist()
    ['robust', 'vulnerable', 'vulnerable', 'robust']
    """

    threat: Any
    classes: np.ndarray
    label: np.ndarray
    prediction: np.ndarray
    robust_to: np.ndarray
    fooled_at: np.ndarray
    epsilons: np.ndarray
    ceilings: np.ndarray | None
    ceilings_lower: np.ndarray | None
    distance: np.ndarray | None
    distance_lower: np.ndarray | None
    seconds: dict[str, float]
    interrupted: bool
    positive: int | None = None
    roc_auc: float | None = None
    adversarial_roc_auc: Bounds | None = None
    index: Any = None
    frame: str = "pandas"

    @property
    def n_samples(self) -> int:
        """How many rows."""
        return len(self.label)

    @property
    def accuracy(self) -> float:
        """The share of rows that are classified correctly as they stand."""
        return float((self.prediction == self.label).mean())

    @property
    def adversarial_accuracy(self) -> Bounds:
        """The share of rows that are classified correctly whatever the attacker does."""
        return self.accuracy_at(1.0)

    @property
    def constant_accuracy(self) -> float:
        """The accuracy of always saying the commonest class of these rows, which no attacker can change."""
        return float(np.bincount(self.label).max() / self.n_samples)

    @property
    def ceiling(self) -> float | None:
        """The adversarial accuracy that no classifier can exceed; None if it was not asked for."""
        return None if self.ceiling_bounds is None else self.ceiling_bounds.upper

    @property
    def ceiling_bounds(self) -> Bounds | None:
        """The ceiling as an interval, which is exact unless time ran out or the threat leaves it open."""
        if self.ceilings is None or self.ceilings_lower is None:
            return None
        at = self.epsilons == 1.0
        return Bounds(float(self.ceilings_lower[at][0]), float(self.ceilings[at][0]))

    @property
    def status(self) -> np.ndarray:
        """What is known of each row: "robust", "vulnerable" or "unknown", as in `Certificate`."""
        return np.select([self.robust_to >= 1.0, self.fooled_at <= 1.0], ["robust", "vulnerable"], "unknown")

    def accuracy_at(self, epsilon: float, rows: Any = slice(None)) -> Bounds:
        """Return the adversarial accuracy under a multiple of the threat model, over all rows or some.

        Examples
        --------
        >>> from hardwood import RobustTreeClassifier, evaluate
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
        >>> report = evaluate(RobustTreeClassifier().fit(X, y), X, y, threat=1.0, epsilons=[0.25, 2.0])
        >>> [report.accuracy_at(epsilon).lower for epsilon in (0.0, 0.25, 1.0, 2.0)]
        [1.0, 1.0, 0.5, 0.0]
        """
        robust, fooled = self.robust_to[rows] >= epsilon, self.fooled_at[rows] <= epsilon
        return Bounds(float(robust.mean()), float((~fooled).mean()))

    def detection_at(self, epsilon: float = 1.0, positive_class: Any = None) -> DetectionRates:
        """Return precision, recall and the rate of false alarms under a multiple of the threat model.

        The attacker makes rows of the positive class pass and raises alarms for others, as far as the classes that
        attack allow. With more than two classes a row of another class that can be made wrong may not raise a false
        alarm: the bounds then allow for both.

        Parameters
        ----------
        epsilon : float, default=1.0
            0 is no attacker.
        positive_class : label or None
            The class to be detected; None: the one that :func:`evaluate` was told.

        Examples
        --------
        >>> from hardwood import RobustTreeClassifier, evaluate
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["ham", "ham", "spam", "spam"]
        >>> report = evaluate(RobustTreeClassifier().fit(X, y), X, y, threat=1.0, positive_class="spam")
        >>> report.detection_at().recall
        Bounds(lower=0.5, upper=0.5)
        """
        positive = self.positive
        if positive_class is not None:
            known = np.flatnonzero(self.classes == positive_class)
            if not len(known):
                known_classes = self.classes.tolist()
                raise ValueError(
                    f"positive_class={quote(positive_class)}: not a class; the classes are {known_classes}"
                )
            positive = int(known[0])
        if positive is None:
            raise ValueError("positive_class: say which class is to be detected, here or in evaluate")
        is_positive = self.label == positive
        robust, fooled = self.robust_to >= epsilon, self.fooled_at <= epsilon
        hits = int((robust & is_positive).sum()), int((~fooled & is_positive).sum())
        surely = fooled if len(self.classes) == 2 else self.prediction == positive
        alarms = int((surely & ~is_positive).sum()), int((~robust & ~is_positive).sum())
        rows = int(is_positive.sum())
        return DetectionRates(
            Bounds(_divide(hits[0], hits[0] + alarms[1]), _divide(hits[1], hits[1] + alarms[0])),
            Bounds(_divide(hits[0], rows), _divide(hits[1], rows)),
            Bounds(*(_divide(count, self.n_samples - rows) for count in alarms)),
        )

    def to_frame(self, of: str = "rows") -> Any:
        """Return the report as a DataFrame, of the library that the table that was evaluated is of; else of pandas.

        Parameters
        ----------
        of : {"rows", "classes", "curve"}, default="rows"
            One line per row of the table that was evaluated, with its index; per class; or per epsilon.

        Examples
        --------
        >>> from hardwood import RobustTreeClassifier, evaluate
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
        >>> evaluate(RobustTreeClassifier().fit(X, y), X, y, threat=1.0).to_frame("curve")
           epsilon  lower  upper  ceiling_lower  ceiling
        0      0.0    1.0    1.0            1.0      1.0
        1      1.0    0.5    0.5            0.5      0.5
        """
        columns = self.to_columns(of)
        try:
            library = import_module(self.frame)
        except ImportError:
            raise ImportError(explain_missing("to_frame", self.frame)) from None
        if self.frame == "polars":
            return library.DataFrame({name: np.asarray(values).tolist() for name, values in columns.items()})
        return library.DataFrame(columns, index=self.index if of == "rows" else None)

    def to_columns(self, of: str = "rows") -> dict[str, Any]:
        """Return what :meth:`to_frame` shows as a dict of columns.

        Examples
        --------
        >>> from hardwood import RobustTreeClassifier, evaluate
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
        >>> evaluate(RobustTreeClassifier().fit(X, y), X, y, threat=1.0).to_columns("classes")["rows"]
        [2, 2]
        """
        columns = {"rows": self._rows, "classes": self._classes, "curve": self._curve}
        if of not in columns:
            raise ValueError(f"of={quote(of)}: expected 'rows', 'classes' or 'curve'")
        return columns[of]()

    def _rows(self) -> dict[str, Any]:
        columns = {
            "label": self.classes[self.label],
            "prediction": self.classes[self.prediction],
            "status": self.status,
            "robust_to": self.robust_to,
            "fooled_at": self.fooled_at,
        }
        if self.distance is not None:
            columns |= {"distance": self.distance, "distance_lower": self.distance_lower}
        return columns

    def _classes(self) -> dict[str, Any]:
        present = np.unique(self.label)
        members = [self.label == k for k in present]
        bounds = [self.accuracy_at(1.0, rows) for rows in members]
        return {
            "class": self.classes[present],
            "rows": [int(rows.sum()) for rows in members],
            "accuracy": [float((self.prediction[rows] == self.label[rows]).mean()) for rows in members],
            "lower": [bound.lower for bound in bounds],
            "upper": [bound.upper for bound in bounds],
        }

    def _curve(self) -> dict[str, Any]:
        bounds = [self.accuracy_at(epsilon) for epsilon in self.epsilons]
        columns = {
            "epsilon": self.epsilons,
            "lower": [bound.lower for bound in bounds],
            "upper": [bound.upper for bound in bounds],
        }
        if self.ceilings is not None:
            columns |= {"ceiling_lower": self.ceilings_lower, "ceiling": self.ceilings}
        return columns

    def __repr__(self) -> str:
        ceiling = "" if self.ceiling_bounds is None else f", ceiling={self.ceiling_bounds}"
        return (
            f"RobustnessReport(accuracy={self.accuracy:.1%}, adversarial_accuracy={self.adversarial_accuracy}, "
            f"constant={self.constant_accuracy:.1%}{ceiling})"
        )

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def _divide(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
