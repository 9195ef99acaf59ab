"""The exact grower of trees of many classes: every threshold there is, by a sweep over the ends of reach."""

from dataclasses import replace

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood._kernels.grow import general_sweep
from hardwood._kernels.grow.frame.kernels import FULL
from hardwood._kernels.grow.nodes import NODES
from hardwood.grow.classes import (
    GrownNodes,
    enlarge,
    harvest_nodes,
    limit_growth,
    make_root,
    make_work,
    sum_up,
    weigh_classes,
)
from hardwood.grow.limits import GrowOptions
from hardwood.grow.sweep import Roster, find_thresholds, sort_ends
from hardwood.grow.workers import hire
from hardwood.rows.task import Task
from hardwood.threat import Reach


def sweep_classes(problem: Task, reach: Reach, options: GrowOptions) -> GrownNodes:
    """Grow one robust tree of any number of classes at all thresholds."""
    attacks = reach.attacks & (options.rho > 0.0)
    stays = attacks & (options.rho < 1.0)
    reach = replace(reach, attacks=attacks, within=None)  # as on bins
    roster = _make_roster(problem, attacks, stays, options.rho)
    with hire(options.n_threads) as workers:
        samples = sort_ends(problem.X, reach, roster, workers)
    classes, statistics = problem.class_index[roster.row], weigh_classes(problem, stays, options.rho)
    classes = classes.astype(np.uint32)  # however many there are: a form of the kernel for all
    sums = sum_up(classes, statistics.of_samples, len(problem.classes))
    tree = make_root(sums, len(classes), statistics.units, options.seed)
    limits = limit_growth(options, attacks, tree, statistics.units)
    work = make_work(tree)
    context = (samples, frozen(statistics.of_samples), frozen(classes), statistics.units, limits)
    while general_sweep.grow(*context, tree, work) == FULL:
        tree = enlarge(tree)
    nodes = tree.nodes[: int(tree.sizes[NODES])]
    nodes["threshold"] = find_thresholds(nodes, problem.X, reach, roster)
    return harvest_nodes(tree, statistics.units)


def _make_roster(problem: Task, attacks: np.ndarray, stays: np.ndarray, rho: float) -> Roster:
    """List the samples: every row, and then the parts that stay; rows of classes that do not attack stay as a whole."""
    class_index = problem.class_index
    staying = np.flatnonzero(stays[class_index])
    part = np.ones(len(class_index))
    part[staying] = rho
    return Roster(
        row=np.concatenate([np.arange(len(class_index)), staying]),
        stays=np.concatenate([~attacks[class_index], np.ones(len(staying), dtype=bool)]),
        weight=np.ones(len(class_index) + len(staying)),
        share=np.concatenate([part, np.full(len(staying), 1.0 - rho)]),
    )
