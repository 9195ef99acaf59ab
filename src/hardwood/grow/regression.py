"""Growing one robust regression tree.

A split is judged by the error that is left once an attacker has moved every row to the side that hurts it more. With
leaf values `a` and `b`, rows that are surely left (`hi <= t`), surely right (`lo > t`) and movable, the attacker leaves

    min over a, b of   sum_left f_i(a) + sum_right f_i(b) + sum_movable max(f_i(a), f_i(b))

of the error `f_i(v)`, `(y_i - v)^2` or `|y_i - v|`. That is convex in the values and, the other way round, concave in
what is moved, so every move bounds it from one side and every pair of values from the other, and where they meet both
are optimal. At the optimum movable rows on one side of the midpoint `c = (a + b) / 2` go left, the others right, and
rows go down the tree like that. `_kernels.grow.numbers` finds `c`; `rho` is as in `grow/tree.py`.
"""

import math
from typing import NamedTuple

import numpy as np

from hardwood._kernels.grow.nodes import Limits
from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.building import Nodes, assemble
from hardwood.ensemble.whole_numbers import floor_thresholds
from hardwood.grow.exact import GAIN_SLACK
from hardwood.grow.limits import ROW_TOLERANCE, UNLIMITED, GrowOptions
from hardwood.grow.regression_bins import (
    ALL_ENDS,
    CodedNumbers,
    code_numbers,
    cut_batches,
    grow_on_bins,
    read_left_sets,
)
from hardwood.grow.sweep import find_thresholds, grow_nodes, make_roster, sort_ends, weigh_roster
from hardwood.grow.workers import hire
from hardwood.rows.task import Task
from hardwood.threat import Reach

ERRORS = ("squared_error", "absolute_error")


class GrownTree(NamedTuple):
    """A regression tree, and what each feature has taken off the error under attack."""

    ensemble: TreeEnsemble
    saved: np.ndarray  # float64 per feature


def grow_regression(problem: Task, reach: Reach, options: GrowOptions) -> GrownTree:
    """Grow one robust regression tree; `reach` is what the problem's threat means for its table.

    The exact grower takes numbers only: if there is more, every threshold means bins for all ends of reach.
    """
    if options.max_bins is None and not (problem.schema.categorical or problem.schema.accepts_missing):
        return _grow_exactly(problem, reach, options)
    return grow_coded_numbers(problem, code_table(problem, reach, options), reach, options)


def code_table(problem: Task, reach: Reach, options: GrowOptions) -> CodedNumbers:
    """Choose thresholds for a table or a stream, and code its rows; without `max_bins`: all thresholds."""
    roster = make_roster(problem.target, problem.sample_weight, options.rho, moves=not reach.is_empty)
    sample, max_bins = problem.draw_sample(reach, options.max_bins), options.max_bins or ALL_ENDS
    batches = (batch for X in problem.read_batches() for batch in cut_batches(X))
    with hire(options.n_threads) as workers:
        return code_numbers(batches, sample, reach, roster, max_bins, workers)


def grow_coded_numbers(
    problem: Task,
    coded: CodedNumbers,
    reach: Reach,
    options: GrowOptions,
    drawn: np.ndarray | None = None,
) -> GrownTree:
    """Grow one tree from codes; `drawn` are the rows that it is grown from, with repetitions. None: all, each once."""
    roster = coded.roster
    entries = np.arange(len(roster.row), dtype=np.uint32) if drawn is None else coded.draw(drawn)
    weights, units = weigh_roster(roster, problem.sample_weight, None if drawn is None else entries)
    unit = find_unit(problem.target)
    target = problem.target[roster.row]
    target /= unit
    weight = roster.weight if drawn is None else roster.weight[entries]
    limits = _make_limits(options, float(weight.sum()), unit)
    grown = grow_on_bins(coded, entries, weights, target, units, limits, seed=options.seed)
    nodes, left_sets = grown.nodes, read_left_sets(grown, problem.schema)
    tree = _harvest(nodes, nodes["threshold"], left_sets, problem, unit, units.weight)
    return tree._replace(ensemble=floor_thresholds(tree.ensemble, reach.whole))


def _grow_exactly(problem: Task, reach: Reach, options: GrowOptions) -> GrownTree:
    """Grow one tree of numbers, with every threshold there is."""
    roster = make_roster(problem.target, problem.sample_weight, options.rho, moves=not reach.is_empty)
    weights, units = weigh_roster(roster, problem.sample_weight)
    unit = find_unit(problem.target)
    target = problem.target[roster.row] / unit
    squared = options.criterion == "squared_error"
    limits = _make_limits(options, float(roster.weight.sum()), unit)
    with hire(options.n_threads) as workers:
        samples = sort_ends(problem.X, reach, roster, workers)
        nodes = grow_nodes(samples, weights, target, units, limits, options.seed, squared=squared)
    threshold = find_thresholds(nodes, problem.X, reach, roster)
    tree = _harvest(nodes, threshold, {}, problem, unit, units.weight)
    return tree._replace(ensemble=floor_thresholds(tree.ensemble, reach.whole))


def find_unit(target: np.ndarray) -> float:
    """Return a unit in which numbers are of moderate size, so that their squares do not overflow.

    It is a power of two, which changes no bit of them.
    """
    largest = max(float(target.max()), -float(target.min()))
    return math.ldexp(1.0, math.frexp(largest)[1])


def _make_limits(options: GrowOptions, weight: float, unit: float) -> Limits:
    """Return the limits as the kernels take them; errors are counted in units, and by weight."""
    size = options.size
    least = options.min_impurity_decrease / unit
    least = least / unit if options.criterion == "squared_error" else least
    return Limits(
        criterion=ERRORS.index(options.criterion),
        max_depth=size.max_depth,
        min_split=size.min_samples_split - ROW_TOLERANCE,
        min_leaf=size.min_samples_leaf - ROW_TOLERANCE,
        min_gain=least * weight * GAIN_SLACK,
        max_features=options.max_features,
        max_leaves=UNLIMITED if options.max_leaf_nodes is None else options.max_leaf_nodes,
        best_first=options.max_leaf_nodes is not None,
    )


def _harvest(
    nodes: np.ndarray,
    threshold: np.ndarray,
    left_sets: dict[int, np.ndarray],
    problem: Task,
    unit: float,
    weight_unit: float,
) -> GrownTree:
    """Return the finished tree, without what only growing needed."""
    left = nodes["left"]
    cover = nodes["weight"] * weight_unit
    ensemble = assemble(
        Nodes(
            size=np.array([len(nodes)]),
            feature=nodes["feature"],
            threshold=threshold,
            left=left,
            right=left + 1,
            value=nodes["value"][:, None] * unit,
            cover=cover * problem.weight_unit,
            missing_left=_find_missing_sides(nodes, cover),
        ),
        problem.schema,
        left_sets,
        base_score=np.zeros(1),
        link="value",
        classes=None,
    )
    inner = left >= 0
    saved = np.bincount(nodes["feature"][inner], nodes["gain"][inner], minlength=problem.schema.n_features)
    return GrownTree(ensemble, saved)


def _find_missing_sides(nodes: np.ndarray, cover: np.ndarray) -> np.ndarray:
    """Say of each node whether missing values go left; where none was seen, to the child with more training weight."""
    left = nodes["left"]
    heavier_left = cover[left] >= cover[left + 1]  # of leaves, nonsense that nobody reads
    if "missing_left" not in (nodes.dtype.names or ()):
        return heavier_left
    return np.where(nodes["missing_left"] >= 0, nodes["missing_left"] > 0, heavier_left)
