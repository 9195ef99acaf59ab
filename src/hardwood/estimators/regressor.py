"""The robust regression tree as a scikit-learn regressor."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from hardwood.ensemble import TreeEnsemble
from hardwood.estimators.fitted import SingleTree
from hardwood.estimators.parameters import check_grow_options, check_max_bins
from hardwood.estimators.refusals import list_limits
from hardwood.estimators.target import read_rows
from hardwood.grow.bins import MOST_BINS
from hardwood.grow.regression import ERRORS, grow_regression
from hardwood.grow.regression_bins import AUTO_REGRESSION_ROWS
from hardwood.progress import Progress
from hardwood.quoting import quote
from hardwood.refinement.worst_case_leaves import refit_leaves
from hardwood.rows.task import Task
from hardwood.threat import ThreatModel


class RobustTreeRegressor(SingleTree, RegressorMixin, BaseEstimator):
    """A regression tree whose predictions hold up against adversarial examples.

    Every split is chosen by the error that is left after an attacker, who may move each row within the threat model,
    has sent every row to the side that hurts it more; rows go down the tree as the attacker would send them. What the
    attacker can do to a split is found exactly. With an empty threat model it is an ordinary CART tree. A node that no
    split improves under attack is a leaf.

    Parameters
    ----------
    threat : ThreatModel, number, str, list, dict or None, default=None
        What the attacker may do to each feature, in the units of the table; see :class:`ThreatModel` for every
        spelling. None: nothing. The tree guards against the box around a budget over columns (`max_changes`, `radius`).
    criterion : {"squared_error", "absolute_error"}, default="squared_error"
        What a prediction that is off costs. Leaves predict the mean of their rows, as the attacker moved them, or the
        median.
    rho : float in [0, 1], default=1.0
        The share of attackers who attack. 1 guards against all of them, 0 gives the natural tree. Each row counts as a
        part `rho` that moves wherever it can and a part `1 - rho` that never does.
    max_depth : int or None, default=None
        No limit if None; there is no recursion to run out of.
    min_samples_split : int or float, default=2
        How many rows (or what share of them) a node needs to be split.
    min_samples_leaf : int or float, default=1
        How many rows each child needs, as the attacker sends them. A split that violates it is passed over; the node
        may still be split elsewhere. Rows are counted, not their weights; with `0 < rho < 1` parts of rows.
    min_impurity_decrease : float, default=0.0
        The least decrease of the error under attack, weighted by the node's share of the training weight.
    max_features : int, float, "sqrt", "log2" or None, default=None
        How many features a node tries, drawn at random; more if none of them can split the node.
    max_leaf_nodes : int or None, default=None
        The most leaves a tree may have: nodes are then split in the order of their gain. No limit if None.
    max_bins : "auto", "exact" or int, default="auto"
        At how many thresholds a feature is tried. "exact": at all there are. An integer from 2 to 255, for squared
        error only: at those between as many bins, quantiles of the ends of the rows' reach; the best of these is found
        exactly, and a large table takes a fraction of the time. "auto": 255 bins for more than 20,000 rows and squared
        error, and where values are missing or categorical, and for a stream; exact otherwise.
    refit_leaves : bool or "auto", default="auto"
        Whether leaves are given new values once the tree stands: those with the least error under attack on the
        training rows, all leaves together, found to 1e-8 of it. They never have more of it than the greedy values, and
        on rows that the tree has not seen mostly less. "auto": up to 20,000 rows of a table in memory.
    categorical_features : "from_dtype", list of names or indices, bool mask or None, default="from_dtype"
        Which columns are categorical. "from_dtype": those with a pandas `category` or polars `Categorical`/`Enum` type.
        For squared error only.
    progress : callable, bool or None, default=None
        Called with (rows read, rows in all) as a stream is read, twice; rows in all are 0 while nobody knows. True: a
        line on stderr.
    random_state : int, RandomState or None, default=None
        Draws the features when `max_features` is less than all. Nothing else is random.
    n_jobs : int or None, default=None
        Threads that sort the features. The tree does not depend on it.

    Attributes
    ----------
    ensemble_ : TreeEnsemble
        The tree itself.
    threat_ : ThreatModel
        The threat model the tree was grown against.
    feature_importances_ : ndarray of shape (n_features,)
        Each feature's share of the error that the splits take away under attack.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, if the table has them.

    Notes
    -----
    *What counts as equal* is as in :class:`RobustTreeClassifier`: values that differ by rounding only are not parted,
    and of equally good splits (to 34 significant bits of their gain) the first is taken, by feature, then by threshold.
    So the tree does not depend on the order of the rows.

    *Missing values* are taken with squared error: at every split they go to the side where that is better under attack.
    The attacker can neither make nor change them. A tree that has seen none refuses them.

    *Categories* are put in the order of their rows' means in the node, and every prefix of it is tried as the left set.
    If nobody can change the feature the best set is among them; if the attacker can, mostly. A category never seen in
    training goes to the child that received more training weight, unless a row can be given it.

    *Rows that do not care.* At the attacker's best answer to a split, rows at the midpoint of both predictions are hurt
    equally on both sides, and the worst case may divide them. They go down together, to the side of most of them.

    Examples
    --------
    >>> from hardwood import RobustTreeRegressor
    >>> X, y = [[0.0], [1.0], [2.0], [6.0], [7.0]], [1.0, 1.0, 2.0, 8.0, 8.0]
    >>> RobustTreeRegressor(threat=1.0, max_depth=1).fit(X, y).predict([[3.9], [4.1]]).round(2).tolist()
    [1.33, 8.0]
    """

    feature_importances_: np.ndarray
    _takes_all_with = (("criterion", "squared_error"),)

    def __init__(
        self,
        threat: Any = None,
        *,
        criterion: str = "squared_error",
        rho: float = 1.0,
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_impurity_decrease: float = 0.0,
        max_features: int | float | str | None = None,
        max_leaf_nodes: int | None = None,
        max_bins: int | str = "auto",
        refit_leaves: bool | str = "auto",
        categorical_features: Any = "from_dtype",
        progress: Progress | bool | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.threat = threat
        self.criterion = criterion
        self.rho = rho
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_impurity_decrease = min_impurity_decrease
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.max_bins = max_bins
        self.refit_leaves = refit_leaves
        self.categorical_features = categorical_features
        self.progress = progress
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow the tree.

        Parameters
        ----------
        X : DataFrame (pandas, polars) or array-like of shape (n_samples, n_features), or a stream
            In the units the threat model speaks of; nothing has to be scaled. With squared error values may be missing.
            A table larger than memory is read by :func:`hardwood.stream`, which brings numbers and weights with it, and
            is grown on bins.
        y : array-like of shape (n_samples,)
            Numbers.
        sample_weight : array-like of shape (n_samples,) or None
            A weight of 2 counts as the row twice, a weight of 0 as no row. `min_samples_split` and `min_samples_leaf`
            count rows, whatever they weigh.

        Returns
        -------
        self
        """
        task = read_rows(self, X, y, sample_weight)
        reach = task.resolve()
        options = check_grow_options(self, task.n_rows, task.schema.n_features, ERRORS)
        options = replace(options, max_bins=self._choose_bins(task))
        refits = self._choose_refit(task.n_rows) and options.rho > 0.0 and not reach.is_empty
        ensemble, saved = grow_regression(task, reach, options)
        if refits and task.stream is None:
            rows, squared = (task.X, task.target, task.row_weight), self.criterion == "squared_error"
            ensemble = refit_leaves(ensemble, *rows, reach, rho=options.rho, squared=squared).ensemble
        return self._keep(ensemble, saved, task.threat)

    def _keep(self, ensemble: TreeEnsemble, saved: np.ndarray, threat: ThreatModel) -> Self:
        """Store the tree, and what each feature has taken off the error."""
        self._store(ensemble, threat)
        total = saved.sum()
        self.feature_importances_ = saved / total if total > 0.0 else saved
        return self

    def _choose_refit(self, n_rows: int) -> bool:
        """Return whether leaves are given new values once the tree stands."""
        if isinstance(self.refit_leaves, str) and self.refit_leaves == "auto":
            return n_rows <= AUTO_REGRESSION_ROWS
        if not isinstance(self.refit_leaves, bool | np.bool_):
            raise ValueError(f"refit_leaves={quote(self.refit_leaves)}: expected True, False or 'auto'")
        return bool(self.refit_leaves)

    def _choose_bins(self, task: Task) -> int | None:
        """Return the most bins of a feature, None for the exact grower, or say why there cannot be bins."""
        max_bins, squared = check_max_bins(self.max_bins), self.criterion == "squared_error"
        needs_bins = task.schema.accepts_missing or bool(task.schema.categorical) or task.stream is not None
        if max_bins == "exact":
            return None
        if max_bins == "auto":
            return MOST_BINS if needs_bins or (squared and task.n_rows > AUTO_REGRESSION_ROWS) else None
        if not squared:
            raise ValueError(
                f"max_bins={quote(max_bins)}: with criterion={quote(self.criterion)}, expected 'auto' or 'exact'"
            )
        return int(max_bins)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = not list_limits(self)
        return tags
