"""Questions about regressions: between which outputs an attacker can move a prediction, and how far off that is."""

from typing import Any, NamedTuple

import numpy as np

from hardwood.convert import ModelRows, read_rows
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.sums import LARGEST_OUTPUT
from hardwood.quoting import quote
from hardwood.reals import read_reals, to_float
from hardwood.results import Certificate
from hardwood.threat import Reach, ThreatModel
from hardwood.verification.answers import Answers
from hardwood.verification.ask import AskSettings, extremes
from hardwood.verification.examples import restore


class RegressionQuestion(NamedTuple):
    """Rows of a table, the numbers wanted for them, and an attacker."""

    ensemble: TreeEnsemble
    X: Any  # the table as the caller gave it
    matrix: np.ndarray  # the same, encoded
    target: np.ndarray
    threat: ThreatModel
    reach: Reach

    def under(self, threat: ThreatModel) -> "RegressionQuestion":
        """Return the same rows with another attacker."""
        return self._replace(threat=threat, reach=threat.resolve(self.ensemble.schema))


class OutputRange(NamedTuple):
    """The lowest and the highest output that an attacker can bring about, row by row."""

    lowest: Answers
    highest: Answers

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C has cut the search short."""
        return self.lowest.interrupted or self.highest.interrupted

    def bound_errors(self, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return how far off from the target the output is, at worst: what was reached, and what is not exceeded."""
        reached = np.maximum(np.abs(self.highest.lower - target), np.abs(self.lowest.upper - target))
        limit = np.maximum(np.abs(self.highest.upper - target), np.abs(self.lowest.lower - target))
        return reached, np.maximum(reached, limit)

    def choose_examples(self, target: np.ndarray) -> np.ndarray:
        """Return the example of each row whose output is further off from the target."""
        is_above = np.abs(self.highest.lower - target) >= np.abs(self.lowest.upper - target)
        return np.where(is_above[:, None], self.highest.example, self.lowest.example)


def read_regression_question(model: Any, X: Any, y: Any, threat: Any) -> RegressionQuestion:
    """Read what a public function was given about a regression. Without `y` the model's own outputs stand for it."""
    rows = model if isinstance(model, ModelRows) else read_rows(model, X)
    ensemble = rows.ensemble
    matrix = ensemble.schema.encode(X) if rows.matrix is None else rows.matrix
    target = ensemble.output(matrix)[:, 0].astype(np.float64) if y is None else read_targets(y, len(matrix))
    words = ThreatModel.coerce(threat).settle(X, matrix, ensemble.schema)
    return RegressionQuestion(ensemble, X, matrix, target, words, words.resolve(ensemble.schema))


def find_outputs(question: RegressionQuestion, settings: AskSettings) -> OutputRange:
    """Find between which outputs an attacker can move the prediction of each row."""
    return OutputRange(*extremes(question.ensemble, question.matrix, question.reach, settings))


def give_back_errors(question: RegressionQuestion, examples: np.ndarray, least: np.ndarray) -> Any:
    """Return examples, NaN where there is none, as the table that was asked about; each is off by `least` or more."""
    ensemble, reach = question.ensemble, question.reach

    def is_off(rows: np.ndarray, points: np.ndarray) -> np.ndarray:
        output = ensemble.output(points)[:, 0].astype(np.float64)
        inside = reach.contains(question.matrix[rows], points, np.zeros(len(rows), dtype=np.intp))
        return inside & (np.abs(output - question.target[rows]) >= least[rows])

    return restore(ensemble.schema, question.X, question.matrix, examples, is_off)


def verify_outputs(model: Any, X: Any, y: Any, threat: Any, tolerance: Any, settings: AskSettings) -> Certificate:
    """Prove for every row between which outputs an attacker can move the prediction."""
    tolerance = check_tolerance(tolerance)
    question = read_regression_question(model, X, y, threat)
    outputs = find_outputs(question, settings)
    reached, limit = outputs.bound_errors(question.target)
    fails, proved = reached > tolerance, limit <= tolerance
    witness = np.where(fails[:, None], outputs.choose_examples(question.target), np.nan)
    least = np.full(len(reached), np.nextafter(tolerance, np.inf))  # whatever is more than the tolerance
    return Certificate(
        status=np.select([fails, proved], ["vulnerable", "robust"], "unknown"),
        lower=outputs.lowest.lower,
        upper=outputs.highest.upper,
        witness=give_back_errors(question, witness, least),
        interrupted=outputs.interrupted,
    )


def check_tolerance(tolerance: Any) -> float:
    """Return how far an output may be off."""
    apart = to_float(tolerance)
    if not apart >= 0.0:
        raise ValueError(
            f"tolerance={quote(tolerance)}: the model is a regression; expected how far its output may be off, a "
            "number >= 0"
        )
    return apart


def read_targets(y: Any, n_rows: int) -> np.ndarray:
    """Return the value wanted for each row."""
    values = read_reals(y, "y, as the model is a regression")
    if values.shape != (n_rows,):
        raise ValueError(f"y: expected {n_rows} values, one per row of X, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("y: expected finite values")
    too_large = np.abs(values) > LARGEST_OUTPUT
    if too_large.any():
        row = int(too_large.argmax())
        raise ValueError(f"y: {values[row]:.3g} in row {row} is too large; expected numbers up to {LARGEST_OUTPUT:.3g}")
    return values
