"""Boosting on a cluster."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np

from hardwood.dask.classes import place_problem
from hardwood.dask.model import DaskClassifier, DaskModel, take_client
from hardwood.dask.reading import BlockedTable, RowReader, draw_sample, place_rows
from hardwood.dask.run import DaskRun, open_run
from hardwood.dask.tables import Part
from hardwood.estimators import RobustBoostingClassifier, RobustBoostingRegressor
from hardwood.estimators.boosting_parameters import check_boosting_options, check_ordered, draw_folds
from hardwood.grow.boosted import BoostingProblem, make_tiles
from hardwood.grow.boosted_blocks import gather_classes, grow_boosted_over
from hardwood.grow.boosting_steps import BoostBlock
from hardwood.grow.codes import TablePlan, plan_table
from hardwood.grow.workers import hire
from hardwood.progress import read_progress
from hardwood.rows.sampling import Sample
from hardwood.rows.targets import choose_target_unit
from hardwood.threat import ThreatModel
from hardwood.weights import choose_weight_unit, refuse_no_weight


class Units(NamedTuple):
    """What numbers are divided by: powers of two."""

    weight: float
    target: float


class PlacedRows(NamedTuple):
    """What is boosted from a table on a cluster."""

    problem: BoostingProblem
    threat: ThreatModel
    class_weight: np.ndarray | None  # float64 per class; None: the target is numbers
    n_per_class: np.ndarray  # int64: the rows of each class, or all, that weigh something
    sample: Sample
    table: BlockedTable
    reader: RowReader


def place_classes(estimator: Any, run: DaskRun, X: Any, y: Any, sample_weight: Any) -> PlacedRows:
    """Read a table of classes into the memory of a cluster."""
    placed = place_problem(estimator, run, X, y, sample_weight)
    found = placed.problem
    schema = replace(found.schema, accepts_missing=True)
    reach = found.threat.resolve(schema, found.classes)
    problem = BoostingProblem(schema, found.classes, reach, found.weight_unit)
    return PlacedRows(
        problem, found.threat, found.class_weight, placed.n_per_class, placed.sample, placed.table, placed.reader
    )


def place_values(estimator: Any, run: DaskRun, X: Any, y: Any, sample_weight: Any) -> PlacedRows:
    """Read a table of numbers into the memory of a cluster."""
    table, found = place_rows(estimator, run, X, y, sample_weight, has_classes=False)
    refuse_no_weight(int(found.n_kept.sum()))
    schema, threat = found.columns.settle(ThreatModel.coerce(estimator.threat))
    schema = replace(schema, accepts_missing=True)
    reader = RowReader(schema, threat, None, found.number_rows(len(table.handles)))
    weights = found.weights
    unit = choose_weight_unit(weights, None, "sample_weight")
    total = float(weights.largest[0]) / unit * int(weights.n_rows[0])
    target_unit = choose_target_unit(found.largest_target, total, unit)
    problem = BoostingProblem(schema, None, threat.resolve(schema), unit, target_unit)
    return PlacedRows(problem, threat, None, found.n_kept, draw_sample(table, reader, found), table, reader)


def _code(
    parts: list[Part], reader: RowReader, plan: TablePlan, units: Units, class_weight: np.ndarray | None
) -> list[BoostBlock]:
    """Code the rows of a block."""
    rows = list(reader.read(parts))
    target = np.concatenate(
        [np.empty(0, dtype=np.uint8 if reader.classes is not None else np.float64)] + [each.target for each in rows]
    )
    weights = [np.ones(len(each.X)) if each.sample_weight is None else each.sample_weight for each in rows]
    weight, codes, start = np.concatenate([np.empty(0), *weights]), plan.make_room(len(target)), 0
    class_index = np.zeros(len(target), dtype=np.uint8) if class_weight is None else target
    with hire(1) as workers:
        for each in rows:
            own = slice(start, start + len(each.X))
            plan.encode(each.X, class_index[own], codes[own], workers)
            start = own.stop
    if class_weight is not None:
        weight = class_weight[class_index] * weight
    else:
        weight, target = weight / units.weight, target / units.target
    pieces = tuple((each.start, len(each.X)) for each in rows)
    n_classes = 0 if class_weight is None else len(class_weight)
    return make_tiles(plan, codes, n_classes, target, weight, pieces)


def _fit_on(estimator: Any, place: Callable[..., PlacedRows], X: Any, y: Any, sample_weight: Any) -> None:
    """Boost trees and keep them."""
    if estimator.warm_start:
        raise ValueError("warm_start=True: on a cluster, boosting begins anew; expected False")
    with open_run(estimator.client) as run:
        placed = place(estimator, run, X, y, sample_weight)
        problem, threat, n_per_class = placed.problem, placed.threat, placed.n_per_class
        n_rows = int(n_per_class.sum())
        options = check_boosting_options(estimator, problem.schema.n_features)
        if options.ordered:
            check_ordered(problem.reach, problem.schema)
        plan = plan_table(placed.sample, problem.reach, options.max_bins)
        units = Units(problem.weight_unit, problem.target_unit)
        blocks = placed.table.map(_code, placed.reader, plan, units, placed.class_weight, name="hardwood-code")
        del placed  # and with it the rows
        folds = draw_folds(
            estimator.early_stopping,
            None if problem.classes is None else n_per_class,
            n_rows,
            options.seed,
            lambda: gather_classes(run, blocks, n_rows),
        )
        progress = read_progress(estimator.progress)
        ensemble, boosted = grow_boosted_over(run, blocks, problem, plan, options, folds, progress)
    estimator._keep_boosted(ensemble, threat, boosted, np.empty(0, dtype=np.int64))


class DaskRobustBoostingClassifier(DaskClassifier, RobustBoostingClassifier):
    """A :class:`hardwood.RobustBoostingClassifier` that is fitted on a Dask cluster.

    The model is the one that the whole table in memory gives, to the last bit, however many workers and partitions
    there are, and also if workers are lost on the way.

    Parameters
    ----------
    threat, attacking_classes, n_estimators, max_depth, learning_rate, l2_regularization, min_gain, min_child_weight, \
max_bins, subsample, max_features, mode, class_weight, early_stopping, n_iter_no_change, categorical_features, \
progress, random_state
        As in :class:`hardwood.RobustBoostingClassifier`.
    warm_start, n_jobs
        These keep their defaults: boosting begins anew, on the threads of the workers.
    client : distributed.Client or None, default=None
        The cluster to work on. None: that of the current client.

    Attributes
    ----------
    ensemble_, classes_, threat_, n_estimators_, train_loss_, held_out_loss_, interrupted_, n_features_in_, \
feature_names_in_
        As in :class:`hardwood.RobustBoostingClassifier`.
    """

    local = RobustBoostingClassifier
    __init__ = take_client(RobustBoostingClassifier)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Boost trees on the cluster.

        Parameters
        ----------
        X : Dask array or DataFrame of shape (n_samples, n_features)
            Read once, and kept in the memory of the cluster until it is coded.
        y : Dask array or Series with the partitions of X, or the name of a column of X
            Labels of two or more classes.
        sample_weight : Dask array or Series, the name of a column of X, or None

        Returns
        -------
        self
        """
        _fit_on(self, place_classes, X, y, sample_weight)
        self.classes_ = self.ensemble_.labels
        return self


class DaskRobustBoostingRegressor(DaskModel, RobustBoostingRegressor):
    """A :class:`hardwood.RobustBoostingRegressor` that is fitted on a Dask cluster.

    The model is the one that the whole table in memory gives, to the last bit, however many workers and partitions
    there are, and also if workers are lost on the way.

    Parameters
    ----------
    threat, n_estimators, max_depth, learning_rate, l2_regularization, min_gain, min_child_weight, max_bins, \
subsample, max_features, mode, early_stopping, n_iter_no_change, categorical_features, progress, random_state
        As in :class:`hardwood.RobustBoostingRegressor`.
    warm_start, n_jobs
        These keep their defaults: boosting begins anew, on the threads of the workers.
    client : distributed.Client or None, default=None
        The cluster to work on. None: that of the current client.

    Attributes
    ----------
    ensemble_, threat_, n_estimators_, train_loss_, held_out_loss_, interrupted_, n_features_in_, feature_names_in_
        As in :class:`hardwood.RobustBoostingRegressor`.
    """

    local = RobustBoostingRegressor
    __init__ = take_client(RobustBoostingRegressor)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Boost trees on the cluster.

        Parameters
        ----------
        X : Dask array or DataFrame of shape (n_samples, n_features)
            Read once, and kept in the memory of the cluster until it is coded.
        y : Dask array or Series with the partitions of X, or the name of a column of X
            Numbers.
        sample_weight : Dask array or Series, the name of a column of X, or None

        Returns
        -------
        self
        """
        _fit_on(self, place_values, X, y, sample_weight)
        return self
