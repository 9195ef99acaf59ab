"""Trees and forests of classes that are grown on a cluster."""

from dataclasses import replace
from typing import Any, Self

from sklearn.base import clone

from hardwood.dask.classes import place_problem
from hardwood.dask.model import DaskClassifier, take_client
from hardwood.dask.run import open_run
from hardwood.estimators import RobustForestClassifier, RobustTreeClassifier
from hardwood.estimators.forest_parts import check_bins, continue_forest, forget_oob
from hardwood.estimators.parameters import check_grow_options
from hardwood.estimators.refusals import refuse_partial_hiding
from hardwood.grow.forest import join_trees
from hardwood.grow.level_trees import grow_forest_over, grow_tree_over
from hardwood.progress import read_progress


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
            placed = place_problem(self, run, X, y, sample_weight)
            problem, n_rows = placed.problem, placed.n_rows
            reach, options = self._read_binned_options(problem, n_rows)
            plan, blocks = placed.code(reach, options)
            del placed  # and with it the rows
            ensemble = grow_tree_over(run, blocks, problem, plan, options, n_rows)
        return self._keep_only(ensemble, problem.threat)


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
        is_balanced_anew = isinstance(self.class_weight, str) and self.class_weight == "balanced_subsample"
        reader = clone(self).set_params(class_weight=None) if is_balanced_anew else self
        with open_run(self.client) as run:
            placed = place_problem(reader, run, X, y, sample_weight)
            problem, n_rows = placed.problem, placed.n_rows
            reach = problem.threat.resolve(problem.schema, problem.classes)
            options = check_grow_options(self, n_rows, problem.schema.n_features)
            options = replace(options, max_bins=check_bins(self.max_bins))
            refuse_partial_hiding(problem.threat, options.rho)
            before, forest = continue_forest(self, problem.schema, problem.classes, n_rows, options.seed)
            plan, blocks = placed.code(reach, options)
            del placed  # and with it the rows
            first = 0 if before is None else before.n_trees
            trees = grow_forest_over(
                run, blocks, problem, plan, options, forest, balance_draws=is_balanced_anew, first=first
            )
        self._keep(join_trees(trees if before is None else [before, *trees]), problem.threat)
        self._seed = forest.seed
        forget_oob(self, "oob_decision_function_")
        return self
