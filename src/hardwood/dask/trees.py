"""Trees and forests of classes that are grown on a cluster."""

from functools import partial
from typing import Any, Self

import numpy as np

from hardwood.dask.model import DaskClassifier, take_client
from hardwood.dask.partitions import PartitionSource
from hardwood.dask.run import open_run
from hardwood.estimators import RobustForestClassifier, RobustTreeClassifier
from hardwood.grow.class_blocks import ClassBlock, Pieces, code_block
from hardwood.grow.coded_rows import CodePlan, plan_codes
from hardwood.grow.forest import join_trees
from hardwood.grow.level_trees import grow_forest_over, grow_tree_over
from hardwood.grow.limits import GrowOptions
from hardwood.progress import read_progress
from hardwood.rows.request import read_request
from hardwood.rows.sources import read_task
from hardwood.rows.task import Task
from hardwood.threat import Reach


class DaskRobustTreeClassifier(DaskClassifier, RobustTreeClassifier):
    """A :class:`hardwood.RobustTreeClassifier` that is grown on a Dask cluster.

    The tree is the one that the whole table in memory gives on as many bins, to the last bit, however many workers and
    partitions there are, and also if workers are lost on the way.

    Parameters
    ----------
    threat, attacking_classes, rho, criterion, max_depth, min_samples_split, min_samples_leaf, min_impurity_decrease, \
max_features, max_leaf_nodes, max_bins, monotonic_cst, class_weight, categorical_features, random_state
        As in :class:`hardwood.RobustTreeClassifier`. ``max_bins="auto"`` means 255.
    attacker, refine, refine_price, n_starts, beat_constant, n_jobs
        Growers that need all rows in memory are refused, so these keep their defaults.
    progress : callable, bool or None, default=None
        Called with (steps done, steps known so far); True: a line on stderr.
    client : distributed.Client or None, default=None
        The cluster to work on. None: that of the current client.

    Attributes
    ----------
    ensemble_, classes_, threat_, n_features_in_, feature_names_in_
        As in :class:`hardwood.RobustTreeClassifier`.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from hardwood.dask import DaskRobustTreeClassifier
    >>> client = Client(processes=False, dashboard_address=":0")
    >>> X = da.random.default_rng(0).normal(size=(1000, 2), chunks=(250, 2))
    >>> model = DaskRobustTreeClassifier(threat=0.1, max_depth=3).fit(X, X[:, 0] > 0)
    >>> model.predict(X)
    dask.array<concatenate, shape=(1000,), dtype=bool, chunksize=(250,), chunktype=numpy.ndarray>
    >>> model.to_local()
    RobustTreeClassifier(max_depth=3, threat=0.1)
    >>> client.close()
    """

    local = RobustTreeClassifier
    __init__ = take_client(RobustTreeClassifier)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow the tree on the cluster.

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
        with open_run(self.client, read_progress(self.progress)) as run:
            source = PartitionSource(run, self, X, y, sample_weight)
            task = read_task(source, read_request(self))
            n_rows = int(source.n_kept.sum())
            reach, options = self._read_options(task, n_rows, in_memory=False)
            plan, blocks = _code(source, task, reach, options)
            del source  # and with it the rows
            ensemble = grow_tree_over(run, blocks, task, plan, options, n_rows)
        return self._keep_only(ensemble, task.threat)


class DaskRobustForestClassifier(DaskClassifier, RobustForestClassifier):
    """A :class:`hardwood.RobustForestClassifier` that is grown on a Dask cluster.

    The trees are grown side by side, level by level, from rows that stay where they are, and are those that the whole
    table in memory gives, to the last bit.

    Parameters
    ----------
    threat, n_estimators, attacking_classes, rho, criterion, max_depth, min_samples_split, min_samples_leaf, \
min_impurity_decrease, max_features, max_leaf_nodes, max_bins, bootstrap, max_samples, class_weight, \
categorical_features, warm_start, progress, random_state
        As in :class:`hardwood.RobustForestClassifier`; ``max_bins="exact"`` is refused.
    oob_score, n_jobs
        Scores of rows out of bag need all rows in memory and are refused, so these keep their defaults.
    client : distributed.Client or None, default=None
        The cluster to work on. None: that of the current client.

    Attributes
    ----------
    ensemble_, classes_, threat_, n_features_in_, feature_names_in_
        As in :class:`hardwood.RobustForestClassifier`.
    """

    local = RobustForestClassifier
    __init__ = take_client(RobustForestClassifier)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow the forest on the cluster.

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
        with open_run(self.client) as run:
            source = PartitionSource(run, self, X, y, sample_weight)
            task = read_task(source, read_request(self, class_weight=self._read_class_weight()))
            reach, options, before, forest = self._prepare(task, int(source.n_kept.sum()))
            plan, blocks = _code(source, task, reach, options)
            del source  # and with it the rows
            trees = grow_forest_over(
                run, blocks, task, plan, options, forest,
                balance_draws=self._is_balanced_anew, first=0 if before is None else before.n_trees,
            )  # fmt: skip
        self._keep_grown(join_trees(trees if before is None else [before, *trees]), task.threat, forest)
        return self


def _code(source: PartitionSource, task: Task, reach: Reach, options: GrowOptions) -> tuple[CodePlan, list[Any]]:
    """Have all rows coded; return what codes mean, and handles of the blocks."""
    plan = plan_codes(source.draw_sample(task), task.schema, reach, options, options.max_bins)
    return plan, source.code(task, partial(_code_block, plan))


def _code_block(plan: CodePlan, rows: Task, batches: list[np.ndarray], pieces: Pieces) -> ClassBlock:
    """Code the rows of a block."""
    return code_block(plan, batches, rows.class_index, rows.sample_weight, pieces)
