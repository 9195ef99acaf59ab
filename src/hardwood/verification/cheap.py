"""The cheap certificate of a sum of trees: the worst leaf of every tree, added up. Microseconds per row, no search.

It proves what it proves, and leaves open what only a search can tell (`verify`).
"""

from typing import Any

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.leaf_bounds import add_worst_leaves
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.missing_columns import part_rows
from hardwood.ensemble.reachable import CHUNK, find_parents
from hardwood.results import MarginCertificate
from hardwood.threat import Reach, ThreatModel
from hardwood.threat.priced_reach import PricedReach
from hardwood.verification.answers import measure_margin
from hardwood.verification.ask import ask_in_whole_numbers
from hardwood.verification.engine import find_last_sum
from hardwood.verification.question import read_question
from hardwood.verification.regression import check_tolerance, read_targets
from hardwood.verification.rounding import Rounding, measure_rounding


def certify_classes(ensemble: TreeEnsemble, X: Any, y: Any, threat: Any) -> MarginCertificate:
    """Bound from below what the attacker can make the margin of each row; without `y`, of the class it is given."""
    question = read_question(ensemble, X, y, threat, predict_if_no_labels=True)
    if isinstance(question.reach, PricedReach):
        raise ValueError("threat: attack rules have prices, which the cheap bound knows nothing of; use verify")
    certified, lower = bound_margins(ensemble, question.matrix, question.class_index, question.reach)
    upper = measure_margin(ensemble, ensemble.output(question.matrix), question.class_index)
    return MarginCertificate(certified=certified, lower=np.minimum(lower, upper), upper=upper)


def certify_values(ensemble: TreeEnsemble, X: Any, y: Any, threat: Any, tolerance: Any) -> MarginCertificate:
    """Bound the outputs of a regression; a row is certified if they stay within the tolerance of `y`."""
    matrix = ensemble.schema.encode(X)
    tolerance = check_tolerance(tolerance)
    wanted = ensemble.output(matrix)[:, 0].astype(np.float64) if y is None else read_targets(y, len(matrix))
    reach = ThreatModel.coerce(threat).settle(X, matrix, ensemble.schema).resolve(ensemble.schema)
    low, high = bound_outputs(ensemble, matrix, np.zeros(len(matrix), dtype=np.intp), reach)
    certified = (wanted - low <= tolerance) & (high - wanted <= tolerance)
    return MarginCertificate(certified=certified, lower=low, upper=high)


def bound_margins(
    ensemble: TreeEnsemble, matrix: np.ndarray, class_index: np.ndarray, reach: Reach
) -> tuple[np.ndarray, np.ndarray]:
    """Say of each row of an encoded matrix whether it keeps its class, and what no attacker brings its margin below.

    Ties fall as in predictions: the first class wins, so a row of it keeps its class at a margin of 0. Sums are
    compared before the division, which keeps their order.
    """
    doubt = _measure_rounding(ensemble).doubt
    if len(ensemble.base_score) == 1:
        low, high = (sums[:, 0] for sums in sum_extremes(ensemble, matrix, class_index, reach))
        last = find_last_sum(ensemble)
        certified = np.where(class_index == 1, _lower(low, doubt) > last, -_lower(-high, doubt) <= last)
        low, high = -_round_up(ensemble, -low), _round_up(ensemble, high)
        return certified, np.where(class_index == 1, low - ensemble.turning_point, ensemble.turning_point - high)
    value, base = ensemble.value, ensemble.base_score
    lead = _add_up(ensemble, value, matrix, class_index, reach, class_index.astype(np.int64))
    lead += base - base[class_index][:, None]
    lead[np.arange(len(lead)), class_index] = -np.inf
    most, wins_ties = -_lower(-lead, doubt), class_index[:, None] < np.arange(lead.shape[1])
    certified = ((most < 0.0) | (wins_ties & (most == 0.0))).all(axis=1)
    return certified, -_round_up(ensemble, lead.max(axis=1))


def _lower(sums: np.ndarray, doubt: float) -> np.ndarray:
    """Return what sums surely exceed or equal, if there is a doubt."""
    return sums if doubt == 0.0 else np.nextafter(sums - doubt, -np.inf)


def bound_outputs(
    ensemble: TreeEnsemble, matrix: np.ndarray, class_index: np.ndarray, reach: Reach
) -> tuple[np.ndarray, np.ndarray]:
    """Return what the single output of each row can at least and at most be made."""
    low, high = sum_extremes(ensemble, matrix, class_index, reach)
    return -_round_up(ensemble, -low[:, 0]), _round_up(ensemble, high[:, 0])


def sum_extremes(
    ensemble: TreeEnsemble, matrix: np.ndarray, class_index: np.ndarray, reach: Reach
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of the lowest and of the highest leaves in reach, and of the base score: (row, output) each."""
    both = np.concatenate([-ensemble.value, ensemble.value], axis=1)
    total = _add_up(ensemble, both, matrix, class_index, reach, np.full(len(matrix), -1))
    low, high = np.hsplit(total, 2)
    return ensemble.base_score - low, ensemble.base_score + high


def _round_up(ensemble: TreeEnsemble, bound: np.ndarray) -> np.ndarray:
    """Return sums in float64 as bounds on the model's own sums, which it adds up and divides in its own precision."""
    return _measure_rounding(ensemble).bound_outputs(ensemble, bound)


def _measure_rounding(ensemble: TreeEnsemble) -> Rounding:
    rounding: Rounding = ensemble.remember(Rounding, measure_rounding)
    return rounding


def _add_up(
    ensemble: TreeEnsemble,
    value: np.ndarray,
    matrix: np.ndarray,
    class_index: np.ndarray,
    reach: Reach,
    own: np.ndarray,
) -> np.ndarray:
    """Add up the worst leaves of all trees, chunk by chunk: (row, output)."""
    parts = part_rows(ensemble, matrix, class_index, reach)
    if parts is not None:  # values can be blanked or filled
        total = np.empty((len(matrix), value.shape[1]))
        for part in parts:
            values, here = value[part.columns.origin], part.rows
            total[here] = _add_up(part.ensemble, values, part.matrix, class_index[here], part.reach, own[here])
        return total
    ensemble = ask_in_whole_numbers(ensemble, reach)
    n_codes = np.array([0 if codes is None else len(codes) for codes in reach.categories], dtype=np.int64)
    about_trees = (
        ensemble.trees, frozen(np.ascontiguousarray(value)), ensemble.remember("parents", find_parents),
        ensemble.remember("contradictions", TreeEnsemble.contradictions), np.cumsum(n_codes) - n_codes, n_codes,
    )  # fmt: skip
    stack, largest = np.empty(ensemble.max_depth + 2, dtype=np.int64), np.empty(value.shape[1])
    total = np.zeros((len(matrix), value.shape[1]))
    for first in range(0, len(matrix), CHUNK):
        rows = slice(first, first + CHUNK)
        low, high = reach.box(matrix[rows], class_index[rows])
        np.minimum(high, np.finfo(np.float64).max, out=high)  # infinity is no value that a row can have
        allowed = reach.open_codes(matrix[rows], class_index[rows])
        about_rows = (frozen(low), frozen(high), frozen(allowed), own[rows], stack, largest, total[rows])
        add_worst_leaves(*about_trees, *about_rows)
    return total
