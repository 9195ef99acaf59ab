"""Certificates for regressions: the interval that an attacker can move a prediction in."""

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from hardwood._kernels.search.branching import NONE
from hardwood.ensemble import TreeEnsemble
from hardwood.results import Certificate
from hardwood.threat import ThreatModel
from hardwood.verification.labels import like
from hardwood.verification.search import RowSearch


def verify_outputs(
    ensemble: TreeEnsemble,
    X: Any,
    y: Any,
    threat: Any,
    tolerance: Any,
    limit: float,
    n_threads: int,
    progress: Callable[[int, int], object] | None,
) -> Certificate:
    """Prove for every row between which outputs an attacker can move the prediction."""
    matrix = ensemble.schema.encode(X)
    tolerance = check_tolerance(tolerance)
    wanted = ensemble.output(matrix)[:, 0].astype(np.float64) if y is None else read_targets(y, len(matrix))
    reach = ThreatModel.coerce(threat).resolve(ensemble.schema)
    weight = np.ones(ensemble.schema.n_features)
    search = RowSearch(ensemble, reach, weight, limit, n_threads, progress)
    extremes = {1: search.extreme(matrix, 1)}
    interrupted = search.interrupted
    if interrupted:
        search.time_limit = 0.0  # cheap bounds only, so that what has been found need not wait
    extremes[-1] = search.extreme(matrix, -1)

    # Bounds of sums, widened by what rounding may do to the model's own sums, and to their division.
    base, spread = float(ensemble.base_score[0]), search.doubt
    upper = (base + extremes[1].bound + spread) / ensemble.divisor
    lower = (base - extremes[-1].bound - spread) / ensemble.divisor
    roundoff = float(np.finfo(ensemble.precision).eps)
    upper, lower = upper + roundoff * np.abs(upper), lower - roundoff * np.abs(lower)
    # Rows that the search did not come to are their own examples.
    example = {
        sign: np.where(np.isnan(found.example) & ~np.isnan(matrix), matrix, found.example)
        for sign, found in extremes.items()
    }
    reached = {sign: ensemble.output(points)[:, 0] for sign, points in example.items()}
    if spread == 0.0:  # sums are exact: where the search was finished, what was reached is the extreme
        upper = np.where(extremes[1].status == NONE, reached[1], upper)
        lower = np.where(extremes[-1].status == NONE, reached[-1], lower)
    off = {sign: np.abs(reached[sign].astype(np.float64) - wanted) for sign in reached}
    worst = np.where((off[1] >= off[-1])[:, None], example[1], example[-1])
    fails = np.maximum(off[1], off[-1]) > tolerance
    proved = (np.abs(upper - wanted) <= tolerance) & (np.abs(lower - wanted) <= tolerance)
    status = np.select([fails, proved], ["vulnerable", "robust"], "unknown")
    witness = np.where(fails[:, None], worst, np.nan)
    if not reach.contains(matrix[fails], witness[fails], np.zeros(int(fails.sum()), dtype=np.intp)).all():
        raise RuntimeError("a witness failed its own check; please report this with the model and the row")
    interrupted |= search.interrupted
    return Certificate(status, lower, upper, like(X, ensemble.schema, witness), interrupted)


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
