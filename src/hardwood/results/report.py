"""RobustnessReport: what `evaluate` returns."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from hardwood.extras import explain_missing
from hardwood.results.records import Bounds
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
        The lowest such ceiling is no lower than this. Equal to `ceilings` unless time ran out while it was worked out.
    distance, distance_lower : ndarray of float, shape (n_samples,), or None
        How far the nearest adversarial example is, and how far it is at least (see :func:`evaluate`).
    seconds : dict
        How long each part took.
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
        """The ceiling as an interval, which is exact unless time ran out while it was worked out."""
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
            raise ValueError(f"of={of!r}: expected 'rows', 'classes' or 'curve'")
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
