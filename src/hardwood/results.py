"""What attacks, proofs and evaluations return: frozen records, and the figures that follow from them."""

import html
import textwrap
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


@dataclass(frozen=True, eq=False)
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
        """Return the report as a pandas DataFrame.

        Parameters
        ----------
        of : {"rows", "classes", "curve"}, default="rows"
            One line per row of the table that was evaluated, per class, or per epsilon.

        Examples
        --------
        >>> from hardwood import RobustTreeClassifier, evaluate
        >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
        >>> evaluate(RobustTreeClassifier().fit(X, y), X, y, threat=1.0).to_frame("curve")
           epsilon  lower  upper  ceiling_lower  ceiling
        0      0.0    1.0    1.0            1.0      1.0
        1      1.0    0.5    0.5            0.5      0.5
        """
        columns = {"rows": self._rows, "classes": self._classes, "curve": self._curve}
        if of not in columns:
            raise ValueError(f"of={of!r}: expected 'rows', 'classes' or 'curve'")
        try:
            import pandas
        except ImportError:
            raise ImportError("to_frame needs pandas, which is not installed: pip install pandas") from None
        return pandas.DataFrame(columns[of]())

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

    def _tables(self) -> list[list[list[str]]]:
        """What the report shows: tables of text, of which all but the first have a heading."""
        unknown = int((self.status == "unknown").sum())
        undecided = f"{unknown} row{'s' if unknown > 1 else ''} undecided" if unknown else ""
        commonest = self.classes[np.bincount(self.label).argmax()]
        figures = [
            ["accuracy", f"{self.accuracy:.1%}", ""],
            ["adversarial accuracy", str(self.adversarial_accuracy), undecided],
            ["constant classifier", f"{self.constant_accuracy:.1%}", f"always {commonest}"],
        ]
        if self.ceiling_bounds is not None:
            remark = "the best that any classifier can do" + ("" if self.ceiling_bounds.is_exact else "; time ran out")
            figures.append(["ceiling", str(self.ceiling_bounds), remark])
        classes = self._classes()
        tables = [figures, [["class", "rows", "accuracy", "under attack"]]]
        for name, rows, accuracy, *bounds in zip(*classes.values(), strict=True):
            tables[-1].append([str(name), f"{rows:,}", f"{accuracy:.1%}", str(Bounds(*bounds))])
        if len(self.epsilons) > 2:
            tables.append([["times the threat", "under attack", *([] if self.ceilings is None else ["ceiling"])]])
            for epsilon, lower, upper, *ceiling in zip(*self._curve().values(), strict=True):
                shown = [str(Bounds(*pair)) for pair in ([lower, upper], ceiling) if pair]
                tables[-1].append([f"{epsilon:g}", *shown])
        if self.distance is not None:
            tables.append(self._distances())
        return tables

    def _distances(self) -> list[list[str]]:
        """Quantiles of the distances of the rows that are classified correctly as they stand."""
        right = self.prediction == self.label
        lines = [["of the rows that are right", "have an example within"]]
        for share in (0.1, 0.25, 0.5, 0.75, 0.9) if right.any() else ():
            least, most = (
                np.quantile(values[right], share, method="inverted_cdf")
                for values in (self.distance_lower, self.distance)
                if values is not None
            )
            lines.append([f"{share:.0%}", f"{most:.4g}" if least == most else f"{least:.4g} to {most:.4g}"])
        return lines

    def __repr__(self) -> str:
        ceiling = "" if self.ceiling_bounds is None else f", ceiling={self.ceiling_bounds}"
        return (
            f"RobustnessReport(accuracy={self.accuracy:.1%}, adversarial_accuracy={self.adversarial_accuracy}, "
            f"constant={self.constant_accuracy:.1%}{ceiling})"
        )

    def __str__(self) -> str:
        blocks = [self._title()]
        for table in self._tables():
            widths = [max(map(len, column)) for column in zip(*table, strict=True)]
            lines = []
            for first, *others in table:
                # Numbers flush right; the remarks of the first table flush left.
                cells = [first.ljust(widths[0])]
                for k, (cell, width) in enumerate(zip(others, widths[1:], strict=True)):
                    cells.append(cell if len(blocks) == 1 and k == 1 else cell.rjust(width))
                lines.append("  ".join(cells).rstrip())
            blocks.append("\n".join(lines))
        return "\n\n".join([*blocks, self._timing()])

    def _repr_html_(self) -> str:
        blocks = [f"<p>{html.escape(self._title())}</p>"]
        for k, table in enumerate(self._tables()):
            lines = []
            for i, line in enumerate(table):
                tag = "th" if k and i == 0 else "td"
                lines.append("<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in line) + "</tr>")
            blocks.append("<table>" + "".join(lines) + "</table>")
        return "<div>" + "".join([*blocks, f"<p>{html.escape(self._timing())}</p>"]) + "</div>"

    def _title(self) -> str:
        threat = textwrap.shorten(repr(self.threat), 80, placeholder=" ...)")
        return f"{self.n_samples:,} row{'s' if self.n_samples > 1 else ''} under {threat}"

    def _timing(self) -> str:
        parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.seconds.items())
        return f"{parts}; interrupted" if self.interrupted else parts
