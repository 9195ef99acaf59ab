"""Boosting on a cluster."""

from functools import partial
from typing import Any, Self

import numpy as np

from hardwood.dask.model import DaskClassifier, DaskModel, take_client
from hardwood.dask.partitions import PartitionSource
from hardwood.dask.run import open_run
from hardwood.estimators import RobustBoostingClassifier, RobustBoostingRegressor
from hardwood.grow.boosted import code_tiles
from hardwood.grow.boosted_blocks import gather_classes, grow_boosted_over
from hardwood.grow.codes import plan_table
from hardwood.progress import read_progress
from hardwood.rows.sources import read_task


def _fit_on(estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Boost trees and keep them."""
    if estimator.warm_start:
        raise ValueError("warm_start=True: on a cluster, boosting begins anew; expected False")
    with open_run(estimator.client) as run:
        source = PartitionSource(run, estimator, X, y, sample_weight)
        task, n_kept = read_task(source, estimator._make_request()), source.n_kept
        reach, options = estimator._prepare(task)
        plan = plan_table(source.draw_sample(task), reach, options.max_bins)
        blocks = source.code(task, partial(code_tiles, plan))
        del source  # and with it the rows
        folds = estimator._draw_folds(
            task, n_kept, options.seed, lambda: gather_classes(run, blocks, int(n_kept.sum()))
        )
        progress = read_progress(estimator.progress)
        ensemble, boosted = grow_boosted_over(run, blocks, task, plan, options, folds, progress)
    estimator._keep_boosted(ensemble, task.threat, boosted, np.empty(0, dtype=np.int64))


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
        _fit_on(self, X, y, sample_weight)
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
        _fit_on(self, X, y, sample_weight)
        return self
