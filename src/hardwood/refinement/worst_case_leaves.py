"""The leaf values of a regression tree that are best under attack, all of them together.

A greedy tree gives each leaf the mean, or the median, of the rows that were sent to it split by split. Once the tree
stands, its error under attack is

    sum_i  w_i  max over the leaves l that row i can be moved into of  f(|y_i - v_l|),      f(t) = t^2 or t,

which is convex in all leaf values v at once. With `t_i` for the largest distance of row i that is a quadratic or linear
program,

    least  sum_i w_i f(t_i)     subject to    t_i + v_l >= y_i    and    t_i - v_l >= -y_i    for every row and its
    leaves,

solved by a primal-dual interior-point method. The distances drop out of every Newton step, so the system to solve has a
row per leaf. Multipliers give a bound that no leaf values beat, and the search ends when it is near enough.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import splu
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.reachable import list_reachable
from hardwood.threat import Reach
from hardwood.weights import scale_down

# The error under attack is within this share of the least there is.
GAP = 1e-8
# Newton steps; some 30 are the rule.
MOST_STEPS = 100
# What of the way to the nearest bound a step may go, and how much nearer to the optimum it aims.
STEP, CENTRING = 0.99, 0.1
# Systems with a larger share of entries are solved as dense ones.
DENSE = 0.1


class LeafProblem(NamedTuple):
    """Rows and the leaves they can be moved into; both are counted from 0."""

    row: np.ndarray  # per pair of a row and a leaf
    leaf: np.ndarray
    target: np.ndarray  # per row
    weight: np.ndarray
    squared: bool

    def measure(self, value: np.ndarray) -> float:
        """Return the error under attack with these leaf values."""
        distance = np.zeros(len(self.target))
        np.maximum.at(distance, self.row, np.abs(self.target[self.row] - value[self.leaf]))
        return float(self.weight @ (distance**2 if self.squared else distance))


class RefitLeaves(NamedTuple):
    """A tree with leaf values that are best under attack, and how good they are."""

    ensemble: TreeEnsemble
    error: float  # under attack, over the rows it was made for
    bound: float  # no leaf values have less


def refit_leaves(
    ensemble: TreeEnsemble,
    matrix: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray,
    reach: Reach,
    *,
    rho: float = 1.0,
    squared: bool = True,
) -> RefitLeaves:
    """Give the leaves of a single regression tree the values with the least error under attack; never a larger one.

    Parameters
    ----------
    ensemble : TreeEnsemble
        A regression tree.
    matrix, target, weight : ndarray
        Encoded rows, their numbers, and what they weigh.
    reach : Reach
        What the attacker may do.
    rho : float
        The share of attackers who attack.
    squared : bool
        Whether the error is squared, or absolute.
    """
    order = _sort_rows(matrix, target, weight)
    matrix, target, weight = matrix[order], target[order], weight[order]
    weight, unit = scale_down(weight)  # roots of weights make a difference of a unit one in the last bits
    pairs, leaves = _list_pairs(ensemble, matrix, weight, reach, rho)
    size = float(np.abs(target).max()) or 1.0
    problem = LeafProblem(pairs[0], pairs[1], target[pairs[3]] / size, pairs[2], squared)
    before = ensemble.value[leaves, 0] / size
    # Systems are small: threads would only wait for each other. Where weights are far apart, a step may lead out of the
    # range of numbers; what comes of it is worse than what was there, and not taken.
    with threadpool_limits(1, user_api="blas"), np.errstate(all="ignore"):
        after, bound = solve(problem, before)
    value = ensemble.value.copy()
    value[leaves, 0] = after * size
    scale = unit * (size * size if squared else size)
    return RefitLeaves(replace(ensemble, value=value), problem.measure(after) * scale, bound * scale)


def _sort_rows(matrix: np.ndarray, target: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return an order of rows that does not depend on the one they come in, for sums that are rounded as they go."""
    order = np.argsort(target)
    if (np.diff(target[order]) > 0.0).all():
        return order
    return np.lexsort((*matrix.T, weight, target))


def _list_pairs(
    ensemble: TreeEnsemble, matrix: np.ndarray, weight: np.ndarray, reach: Reach, rho: float
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Return (row, leaf) of every pair, the weight and the original of every row, and the node ids of the leaves.

    With rho below 1 a row is two: a part that moves, and one that is in its own leaf.
    """
    n_rows, attacks = len(matrix), np.zeros(len(matrix), dtype=np.intp)
    row, leaf, part, original = [], [], [], []
    if rho > 0.0:
        reachable = list_reachable(ensemble, reach, matrix, attacks)
        row, leaf, part, original = [reachable.row], [reachable.leaf], [rho * weight], [np.arange(n_rows)]
    if rho < 1.0:
        row.append(np.arange(n_rows) + n_rows * (rho > 0.0))
        leaf.append(ensemble.leaves(matrix)[:, 0])
        part.append((1.0 - rho) * weight)
        original.append(np.arange(n_rows))
    leaves, index = np.unique(np.concatenate(leaf), return_inverse=True)
    return (np.concatenate(row), index, np.concatenate(part), np.concatenate(original)), leaves


class _Point(NamedTuple):
    """An interior point: leaf values, distances, and multipliers of both kinds of bounds."""

    value: np.ndarray
    distance: np.ndarray
    above: np.ndarray  # per pair: of t + v >= y
    below: np.ndarray  # per pair: of t - v >= -y


def solve(problem: LeafProblem, start: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the best leaf values that were found, at least as good as those to start from, and a bound for all."""
    row, leaf, target = problem.row, problem.leaf, problem.target
    best, least, bound = start, problem.measure(start), 0.0
    point = _begin(problem, start)
    for _ in range(MOST_STEPS):
        bound = max(bound, _bound(problem, point))
        if least - bound <= GAP * least:
            break
        slack_above = point.distance[row] + point.value[leaf] - target[row]
        slack_below = point.distance[row] - point.value[leaf] + target[row]
        if not min(slack_above.min(), slack_below.min()) > 0.0:
            break  # distances are as small as what rounding does
        centre = CENTRING * (slack_above @ point.above + slack_below @ point.below) / (2 * len(row))
        step = _newton(problem, point, slack_above, slack_below, centre)
        if step is None:
            break
        change = step.distance[row] + step.value[leaf], step.distance[row] - step.value[leaf]
        length = min(
            _reach_bound(slack_above, change[0]),
            _reach_bound(slack_below, change[1]),
            _reach_bound(point.above, step.above),
            _reach_bound(point.below, step.below),
        )
        point = _Point(*(old + length * new for old, new in zip(point, step, strict=True)))
        error = problem.measure(point.value)
        if error < least:
            best, least = point.value, error
    return best, min(bound, least)


def _begin(problem: LeafProblem, value: np.ndarray) -> _Point:
    """Return an interior point at some leaf values: every distance larger than it has to be, multipliers balanced."""
    row, leaf, target, weight, squared = problem
    distance = np.zeros(len(target))
    np.maximum.at(distance, row, np.abs(target[row] - value[leaf]))
    distance = 1.1 * distance + 0.1 * (float(distance.mean()) or 1.0)
    slope = weight * (2.0 * distance if squared else 1.0)
    multiplier = (0.5 * slope / np.bincount(row))[row]
    return _Point(value.copy(), distance, multiplier, multiplier.copy())


def _newton(
    problem: LeafProblem, point: _Point, slack_above: np.ndarray, slack_below: np.ndarray, centre: float
) -> _Point | None:
    """Return the Newton step to where every slack times its multiplier is `centre`; None where it cannot be had."""
    row, leaf, target, weight, squared = problem
    n_rows, n_leaves = len(target), len(point.value)
    stiff_above, stiff_below = point.above / slack_above, point.below / slack_below
    total, difference = stiff_above + stiff_below, stiff_above - stiff_below
    slope = weight * (2.0 * point.distance if squared else 1.0)
    curvature = np.bincount(row, total, n_rows) + (2.0 * weight if squared else 0.0)
    pull_above, pull_below = centre / slack_above, centre / slack_below
    of_distance = np.bincount(row, pull_above + pull_below, n_rows) - slope
    of_value = np.bincount(leaf, pull_above - pull_below, n_leaves)
    coupling = sp.csr_matrix((difference, (row, leaf)), shape=(n_rows, n_leaves))
    scaled = sp.diags(1.0 / curvature) @ coupling
    diagonal = np.bincount(leaf, total, n_leaves) * (1.0 + 1e-13)
    value = _solve_system(sp.diags(diagonal) - coupling.T @ scaled, of_value - scaled.T @ of_distance)
    if value is None:
        return None
    distance = (of_distance - coupling @ value) / curvature
    return _Point(
        value,
        distance,
        pull_above - point.above - stiff_above * (distance[row] + value[leaf]),
        pull_below - point.below - stiff_below * (distance[row] - value[leaf]),
    )


def _solve_system(system: sp.csr_matrix, wanted: np.ndarray) -> np.ndarray | None:
    """Solve a positive definite system, sparse if leaves have few rows in common; None where rounding has spoilt it."""
    try:
        if system.nnz > DENSE * system.shape[0] ** 2:
            answer = scipy.linalg.cho_solve(scipy.linalg.cho_factor(system.toarray()), wanted)
        else:
            answer = splu(system.tocsc(), options={"SymmetricMode": True}, diag_pivot_thresh=0.0).solve(wanted)
    except (np.linalg.LinAlgError, RuntimeError, ValueError):  # a ValueError where entries are no numbers
        return None
    return answer if np.isfinite(answer).all() else None


def _reach_bound(amount: np.ndarray, change: np.ndarray) -> float:
    """Return how far along a change positive amounts stay positive, at most 1."""
    falls = change < 0.0
    return min(1.0, STEP * float((-amount[falls] / change[falls]).min(initial=np.inf)))


def _bound(problem: LeafProblem, point: _Point) -> float:
    """Return an error that no leaf values are below, by multipliers that are made to balance at every leaf."""
    row, leaf, target, weight, squared = problem
    n_leaves, n_rows = len(point.value), len(target)
    sums = [np.bincount(leaf, side, n_leaves) for side in (point.above, point.below)]
    least = np.minimum(*sums)
    above, below = (side * (least / total)[leaf] for side, total in zip((point.above, point.below), sums, strict=True))
    pull = np.bincount(row, above + below, n_rows)
    gain = float(target[row] @ (above - below))
    if squared:
        return gain - float((pull**2 / (4.0 * weight)).sum())
    return gain / max(1.0, float((pull / weight).max()))
