"""Certificates for regressions: the interval that an attacker can move a prediction in."""

from numbers import Real
from typing import Any

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.results import Certificate
from hardwood.threat import ThreatModel
from hardwood.verification.ask import AskSettings, extreme
from hardwood.verification.examples import restore


def verify_outputs(
    ensemble: TreeEnsemble, X: Any, y: Any, threat: Any, tolerance: Any, settings: AskSettings
) -> Certificate:
    """Prove for every row between which outputs an attacker can move the prediction."""
    matrix = ensemble.schema.encode(X)
    tolerance = check_tolerance(tolerance)
    wanted = ensemble.output(matrix)[:, 0].astype(np.float64) if y is None else read_targets(y, len(matrix))
    reach = ThreatModel.coerce(threat).settle(X, matrix, ensemble.schema).resolve(ensemble.schema)
    highest = extreme(ensemble, matrix, reach, 1, settings)
    if highest.interrupted:
        settings = settings._replace(time_limit=0.0)  # cheap bounds only: what has been found need not wait
    lowest = extreme(ensemble, matrix, reach, -1, settings)

    def is_off(rows: np.ndarray, points: np.ndarray) -> np.ndarray:
        output = ensemble.output(points)[:, 0].astype(np.float64)
        inside = reach.contains(matrix[rows], points, np.zeros(len(rows), dtype=np.intp))
        return inside & (np.abs(output - wanted[rows]) > tolerance)

    # What was reached: at least `lower` of the highest output, at most `upper` of the lowest.
    off_above, off_below = np.abs(highest.lower - wanted), np.abs(lowest.upper - wanted)
    fails = np.maximum(off_above, off_below) > tolerance
    proved = (np.abs(highest.upper - wanted) <= tolerance) & (np.abs(lowest.lower - wanted) <= tolerance)
    worst = np.where((off_above >= off_below)[:, None], highest.example, lowest.example)
    witness = np.where(fails[:, None], worst, np.nan)
    return Certificate(
        status=np.select([fails, proved], ["vulnerable", "robust"], "unknown"),
        lower=lowest.lower,
        upper=highest.upper,
        witness=restore(ensemble.schema, X, matrix, witness, is_off),
        interrupted=highest.interrupted or lowest.interrupted,
    )


def check_tolerance(tolerance: Any) -> float:
    """Return how far an output may be off."""
    is_number = isinstance(tolerance, Real) and not isinstance(tolerance, bool)
    if not is_number or not float(tolerance) >= 0.0:
        raise ValueError(
            f"tolerance={tolerance!r}: the model is a regression; expected how far its output may be off, a number >= 0"
        )
    return float(tolerance)


def read_targets(y: Any, n_rows: int) -> np.ndarray:
    """Return the value wanted for each row."""
    try:
        values = np.asarray(y, dtype=np.float64)
    except (ValueError, TypeError):
        raise ValueError(f"y: the model is a regression; expected numbers, got {y!r}") from None
    if values.shape != (n_rows,):
        raise ValueError(f"y: expected {n_rows} values, one per row of X, got shape {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("y: expected finite values")
    return values
