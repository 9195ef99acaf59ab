"""RegressionReport: what `evaluate` returns for a regression."""

import html
import textwrap
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from hardwood.extras import explain_missing
from hardwood.quoting import quote
from hardwood.results.records import ErrorBounds
from hardwood.weights import average, scale_down


@dataclass(frozen=True, eq=False, kw_only=True)
class RegressionReport:
    """How a regression fares on some rows, with and without an attacker.

    The size of an attack is given in multiples of the threat model, as :meth:`ThreatModel.scaled` has it: 1 is the
    threat model itself, 0 is no attacker.

    Attributes
    ----------
    threat : ThreatModel
    target, prediction : ndarray of float, shape (n_samples,)
        The number of each row, and what the model says of it as it stands.
    epsilons : ndarray of float
        The multiples of the threat model that were looked at; 0 and 1 are among them.
    lowest, highest : ndarray of float, shape (n_epsilons, n_samples)
        No prediction that the attacker can bring about is lower or higher.
    lowest_reached, highest_reached : ndarray of float, shape (n_epsilons, n_samples)
        The lowest and the highest prediction that was found. Equal to the above where the search was finished.
    seconds : dict
        How long each part took, without waiting for the compiler; "compiling", if anything was compiled: for how long.
    interrupted : bool
        Whether Ctrl-C ended the search early; what had not been decided is between bounds.
    index : pandas Index or None
        The index of the table that was evaluated, if it has one.
    frame : {"pandas", "polars"}
        What :meth:`to_frame` returns: the kind of DataFrame that was evaluated; for an array one of pandas.

    Examples
    --------
    >>> from hardwood import RobustTreeRegressor, evaluate
    >>> X, y = [[0.0], [1.0], [6.0], [7.0]], [1.0, 3.0, 8.0, 8.0]
    >>> report = evaluate(RobustTreeRegressor(1.0, max_depth=1).fit(X, y), X, y, threat=3.0)
    >>> report
    RegressionReport(squared_error=0.5, worst_squared_error=15.5, constant=9.5)
    >>> report.lowest[-1].tolist(), report.highest[-1].tolist()
    ([2.0, 2.0, 2.0, 8.0], [2.0, 8.0, 8.0, 8.0])
    """

    threat: Any
    target: np.ndarray
    prediction: np.ndarray
    epsilons: np.ndarray
    lowest: np.ndarray
    highest: np.ndarray
    lowest_reached: np.ndarray
    highest_reached: np.ndarray
    seconds: dict[str, float]
    interrupted: bool
    index: Any = None
    frame: str = "pandas"

    @property
    def n_samples(self) -> int:
        """How many rows."""
        return len(self.target)

    @property
    def squared_error(self) -> float:
        """The mean squared error as rows stand."""
        return _mean_square(self.prediction - self.target)

    @property
    def absolute_error(self) -> float:
        """The mean absolute error as rows stand."""
        return average(np.abs(self.prediction - self.target), None)

    @property
    def worst_squared_error(self) -> ErrorBounds:
        """The mean squared error once the attacker has made each row as bad as it gets."""
        return self.squared_error_at(1.0)

    @property
    def worst_absolute_error(self) -> ErrorBounds:
        """The mean absolute error once the attacker has made each row as bad as it gets."""
        return self.absolute_error_at(1.0)

    @property
    def constant_squared_error(self) -> float:
        """The mean squared error of always saying the mean of these rows, which no attacker can change."""
        scaled, unit = scale_down(self.target)
        return float(np.var(scaled)) * unit * unit

    @property
    def constant_absolute_error(self) -> float:
        """The mean absolute error of always saying the median of these rows, which no attacker can change."""
        return average(np.abs(self.target - np.median(self.target)), None)

    def errors_at(self, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
        """Return how far off each row is at worst under one of `epsilons`: what was found, and what is not exceeded."""
        at = np.flatnonzero(self.epsilons == epsilon)
        if not len(at):
            raise ValueError(
                f"epsilon={quote(epsilon)}: not looked at; expected one of {quote(self.epsilons.tolist())}"
            )
        k, target = int(at[0]), self.target
        found = np.maximum(np.abs(self.lowest_reached[k] - target), np.abs(self.highest_reached[k] - target))
        limit = np.maximum(np.abs(self.lowest[k] - target), np.abs(self.highest[k] - target))
        return found, np.maximum(found, limit)

    def squared_error_at(self, epsilon: float) -> ErrorBounds:
        """Return the mean squared error under one of `epsilons`, a multiple of the threat model.

        Examples
        --------
        >>> from hardwood import RobustTreeRegressor, evaluate
        >>> X, y = [[0.0], [1.0], [6.0], [7.0]], [1.0, 3.0, 8.0, 8.0]
        >>> report = evaluate(RobustTreeRegressor(max_depth=1).fit(X, y), X, y, threat=1.0, epsilons=[3.0])
        >>> [report.squared_error_at(epsilon).upper for epsilon in (0.0, 1.0, 3.0)]
        [0.5, 0.5, 15.5]
        """
        found, limit = self.errors_at(epsilon)
        return ErrorBounds(_mean_square(found), _mean_square(limit))

    def absolute_error_at(self, epsilon: float) -> ErrorBounds:
        """Return the mean absolute error under one of `epsilons`, a multiple of the threat model."""
        found, limit = self.errors_at(epsilon)
        return ErrorBounds(average(found, None), average(limit, None))

    def to_frame(self, of: str = "rows") -> Any:
        """Return the report as a DataFrame, of the library that the table that was evaluated is of; else of pandas.

        Parameters
        ----------
        of : {"rows", "curve"}, default="rows"
            One line per row of the table that was evaluated, with its index; or per epsilon.

        Examples
        --------
        >>> from hardwood import RobustTreeRegressor, evaluate
        >>> X, y = [[0.0], [1.0], [6.0], [7.0]], [1.0, 3.0, 8.0, 8.0]
        >>> evaluate(RobustTreeRegressor(max_depth=1).fit(X, y), X, y, threat=3.0).to_frame()
           target  prediction  lowest  highest  worst_error_lower  worst_error
        0     1.0         2.0     2.0      2.0                1.0          1.0
        1     3.0         2.0     2.0      8.0                5.0          5.0
        2     8.0         8.0     2.0      8.0                6.0          6.0
        3     8.0         8.0     8.0      8.0                0.0          0.0
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
        """Return what :meth:`to_frame` shows as a dict of columns."""
        if of == "rows":
            at = int(np.flatnonzero(self.epsilons == 1.0)[0])
            found, limit = self.errors_at(1.0)
            return {
                "target": self.target,
                "prediction": self.prediction,
                "lowest": self.lowest[at],
                "highest": self.highest[at],
                "worst_error_lower": found,
                "worst_error": limit,
            }
        if of != "curve":
            raise ValueError(f"of={quote(of)}: expected 'rows' or 'curve'")
        squared = [self.squared_error_at(epsilon) for epsilon in self.epsilons]
        absolute = [self.absolute_error_at(epsilon) for epsilon in self.epsilons]
        return {
            "epsilon": self.epsilons,
            "squared_error_lower": [bounds.lower for bounds in squared],
            "squared_error": [bounds.upper for bounds in squared],
            "absolute_error_lower": [bounds.lower for bounds in absolute],
            "absolute_error": [bounds.upper for bounds in absolute],
        }

    def __repr__(self) -> str:
        return (
            f"RegressionReport(squared_error={self.squared_error:.4g}, "
            f"worst_squared_error={self.worst_squared_error}, constant={self.constant_squared_error:.4g})"
        )

    def __str__(self) -> str:
        blocks = [self._say_question()]
        for table in self._make_tables():
            widths = [max(map(len, column)) for column in zip(*table, strict=True)]
            lines = [
                "  ".join([first.ljust(widths[0]), *map(str.rjust, others, widths[1:])]).rstrip()
                for first, *others in table
            ]
            blocks.append("\n".join(lines))
        return "\n\n".join([*blocks, self._say_seconds()])

    def _repr_html_(self) -> str:
        blocks = [f"<p>{html.escape(self._say_question())}</p>"]
        for table in self._make_tables():
            lines = []
            for i, line in enumerate(table):
                tag = "th" if i == 0 else "td"
                lines.append("<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in line) + "</tr>")
            blocks.append("<table>" + "".join(lines) + "</table>")
        return "<div>" + "".join([*blocks, f"<p>{html.escape(self._say_seconds())}</p>"]) + "</div>"

    def _say_question(self) -> str:
        threat = textwrap.shorten(repr(self.threat), 80, placeholder=" ...)")
        return f"{self.n_samples:,} row{'s' if self.n_samples > 1 else ''} under {threat}"

    def _say_seconds(self) -> str:
        parts = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in self.seconds.items())
        return f"{parts}; interrupted" if self.interrupted else parts

    def _make_tables(self) -> list[list[list[str]]]:
        """Return tables of text, each with a heading."""
        constant = (self.constant_squared_error, self.constant_absolute_error)
        tables = [
            [
                ["mean error", "squared", "absolute"],
                ["as rows stand", f"{self.squared_error:.4g}", f"{self.absolute_error:.4g}"],
                ["under attack", str(self.worst_squared_error), str(self.worst_absolute_error)],
                ["best constant", f"{constant[0]:.4g}", f"{constant[1]:.4g}"],
            ]
        ]
        if len(self.epsilons) > 2:
            tables.append([["times the threat", "squared", "absolute"]])
            for epsilon in self.epsilons:
                bounds = self.squared_error_at(epsilon), self.absolute_error_at(epsilon)
                tables[-1].append([f"{epsilon:g}", *map(str, bounds)])
        return tables


def _mean_square(errors: np.ndarray) -> float:
    """Return the mean of squares; infinite where that is more than a float can hold."""
    scaled, unit = scale_down(errors)
    return float(np.mean(scaled**2)) * unit * unit
