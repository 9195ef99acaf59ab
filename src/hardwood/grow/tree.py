"""Growing one robust tree.

The paper's Algorithm 2 with its Algorithm 1 replaced by the shift theorem. A split is good if one side stays richer in
a class whatever the attacker does. Say the left side is class 0's (orientation 0): the attacker's best answer is to
send every class-1 sample that can get there left and every class-0 sample that can get there right, that is, to treat
each sample as if it sat at one end of its reach::

    orientation 0 (left is class 0's)    class 0 at x + right reach    class 1 at x - left reach
    orientation 1 (left is class 1's)    class 0 at x - left reach     class 1 at x + right reach

So the best robust split is the better of two ordinary scans over shifted values, keeping only thresholds whose
orientation holds, and samples go to the child where their shifted value falls. Each order is sorted once, before the
first node.

========================  ===========================================================
paper                     here
========================  ===========================================================
``L``, ``R``, ``LI/RI``   never formed: a shifted position says which side a sample takes
``S_robust``              `_kernels.grow.criteria.gain`
``x', y'``                the corner of the box: all movable samples that hurt, none that help
``rho``                   a row is two samples: a part rho that moves and a part 1 - rho that stays
========================  ===========================================================

With more than two classes the end of its reach where a sample hurts depends on how the others are moved. The attacker's
answer is then solved for at each threshold: `_kernels.grow.targets.answers`.

With rho < 1 the paper lets a random share 1 - rho of the movable samples stay at every split. Here every row of an
attacking class is two samples from the start, one of weight rho that always moves and one of weight 1 - rho that never
does: an attacker either attacks or does not. That is deterministic, does not multiply samples down the tree, and makes
the tree's objective the plain mixture of natural and adversarial impurity.
"""

from dataclasses import replace

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.ensemble.building import Nodes, assemble
from hardwood.ensemble.whole_numbers import floor_thresholds
from hardwood.grow.categories import read_left_set, search_categories
from hardwood.grow.chen import keep_in_place, search_chen
from hardwood.grow.classes import GrownNodes, grow_classes
from hardwood.grow.coded_rows import CodedRows, code_rows
from hardwood.grow.exact import ExactGrower, prepare_samples
from hardwood.grow.general_categories import read_left_sets
from hardwood.grow.general_sweep import sweep_classes
from hardwood.grow.limits import GrowOptions, make_limits
from hardwood.grow.shares import SharedRows, place_thresholds, sort_shares
from hardwood.grow.shifts import find_shifts
from hardwood.grow.workers import hire
from hardwood.quoting import quote
from hardwood.rows.task import Task
from hardwood.threat import Reach

ATTACKERS = ("groot", "chen", "chen-greedy")


def grow_tree(problem: Task, reach: Reach, options: GrowOptions) -> TreeEnsemble:
    """Grow one robust tree; `reach` is what the problem's threat means for its table."""
    is_binned, is_monotone = options.max_bins is not None, options.monotonic is not None
    is_special = problem.schema.accepts_missing or is_monotone or (is_binned and bool(problem.schema.categorical))
    if len(problem.classes) > 2 or is_special:
        return grow_many_classes(problem, reach, options)
    if options.max_bins is not None:
        return grow_binned(problem, reach, options, options.max_bins)
    attacks = reach.attacks & (options.rho > 0.0)
    limits = make_limits(options, attacks)
    if options.attacker == "groot":
        shifts, search = find_shifts(reach.widen(problem.X), attacks), search_categories(reach, attacks)
    else:
        _refuse_shares(reach, options.attacker)
        shifts, search = keep_in_place(reach), search_chen(reach, attacks, greedy=options.attacker == "chen-greedy")
    with hire(options.n_threads) as workers:
        samples = prepare_samples(problem, shifts, attacks, options.rho, workers)
        rows = SharedRows(problem.X, problem.class_index, reach, attacks, attacks & (options.rho < 1.0))
        sort_shares(samples.orders, rows, shifts)
        grower = ExactGrower(samples, shifts, limits, search, workers)
        grower.plant(problem.class_index, options.seed)
        grower.grow()
    nodes = grower.nodes
    place_thresholds(nodes, samples.orders, rows, shifts)
    ensemble = harvest(nodes, weigh_nodes(nodes), _read_left_sets(grower, problem), problem)
    return floor_thresholds(ensemble, reach.whole)


def _refuse_shares(reach: Reach, attacker: str) -> None:
    if reach.share is not None:
        raise ValueError(
            f"attacker={quote(attacker)}: knows no shares of a value, such as '10%', in the threat; expected 'groot'"
        )


def grow_binned(problem: Task, reach: Reach, options: GrowOptions, max_bins: int | None) -> TreeEnsemble:
    """Grow one robust tree on bins; None: on as many as there are ends of reach."""
    return grow_coded(problem, code_rows(problem, reach, options, max_bins), options)


def grow_coded(problem: Task, coded: CodedRows, options: GrowOptions) -> TreeEnsemble:
    """Grow one robust tree from codes."""
    return finish(grow_classes(problem, coded, options), problem, coded.reach)


def grow_many_classes(problem: Task, reach: Reach, options: GrowOptions) -> TreeEnsemble:
    """Grow one robust tree of any number of classes, with all that the others cannot: exactly, or on bins.

    With missing values, categories or monotone features, exactly means on bins for all ends of reach.
    """
    needs_bins = problem.schema.accepts_missing or problem.schema.categorical or options.monotonic is not None
    if options.max_bins is None and not needs_bins:
        return finish(sweep_classes(problem, reach, options), problem, reach)
    return grow_coded(problem, code_rows(problem, reach, options, options.max_bins), options)


def finish(grown: GrownNodes, problem: Task, reach: Reach) -> TreeEnsemble:
    """Return the finished tree of a grower of classes."""
    cover, left = grown.weight.sum(axis=1), grown.nodes["left"]
    left_sets, missing_left = read_left_sets(grown.nodes, grown.sides, cover[left] >= cover[left + 1], problem.schema)
    ensemble, said = harvest(grown.nodes, grown.weight, left_sets, problem), grown.nodes["missing"]
    missing_left = np.where(said < 0, missing_left, said == 1) & (ensemble.feature >= 0)
    return floor_thresholds(replace(ensemble, missing_left=missing_left), reach.whole)


def _read_left_sets(grower: ExactGrower, problem: Task) -> dict[int, np.ndarray]:
    """Return which categories go left, by the number of the node that asks for them."""
    nodes, left_sets = grower.nodes, {}
    weight, left, feature = nodes["zero"] + nodes["one"], nodes["left"], nodes["feature"]
    for node in np.flatnonzero((left >= 0) & (nodes["first_right"] < 0)).tolist():
        labels = problem.schema.categories[feature[node]]
        if labels is not None:
            heavier_left = weight[left[node]] >= weight[left[node] + 1]
            left_sets[node] = read_left_set(grower.tree.sides[node, : len(labels) + 1], heavier_left)
    return left_sets


def weigh_nodes(nodes: np.ndarray) -> np.ndarray:
    """Return what both classes weigh in every node."""
    return np.column_stack([nodes["zero"], nodes["one"]])


def harvest(nodes: np.ndarray, weight: np.ndarray, left_sets: dict[int, np.ndarray], problem: Task) -> TreeEnsemble:
    """Return the finished tree, without what only growing needed; `weight` is per node and class."""
    left = nodes["left"]
    cover = weight.sum(axis=1)
    return assemble(
        Nodes(
            size=np.array([len(nodes)]),
            feature=nodes["feature"],
            threshold=nodes["threshold"],
            left=left,
            right=left + 1,
            value=weight / cover[:, None],
            cover=cover * problem.weight_unit,
            missing_left=cover[left] >= cover[left + 1],  # of leaves, nonsense that nobody reads
        ),
        problem.schema,
        left_sets,
        base_score=np.zeros(len(problem.classes)),
        link="probability",
        classes=problem.classes,
    )
