"""RobustForestRegressor: many robust regression trees, each of which sees some of the features, and their average."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from hardwood.estimators.fitted import SingleTree
from hardwood.estimators.forest_parts import check_bins, continue_forest, forget_oob, grow_on, vote_unseen
from hardwood.estimators.parameters import check_grow_options
from hardwood.estimators.refusals import list_limits
from hardwood.estimators.target import read_rows
from hardwood.grow.bins import MOST_BINS
from hardwood.grow.forest import ForestOptions, prepare_number_grower
from hardwood.grow.regression import ERRORS, find_unit
from hardwood.progress import Progress
from hardwood.results import MarginCertificate
from hardwood.rows.task import Task
from hardwood.verification.cheap import certify_values


class RobustForestRegressor(SingleTree, RegressorMixin, BaseEstimator):
    """A forest of regression trees that hold up against adversarial examples.

    Each tree is grown as :class:`RobustTreeRegressor` grows it, without refitting its leaves, but every node tries some
    of the features only, drawn at random; what the trees predict is averaged.

    Parameters
    ----------
    threat : ThreatModel, number, str, list, dict or None, default=None
        What the attacker may do to each feature, in the units of the table; see :class:`ThreatModel`.
    n_estimators : int, default=100
        The number of trees.
    criterion, rho, min_samples_split, min_samples_leaf, min_impurity_decrease, max_leaf_nodes, categorical_features
        As in :class:`RobustTreeRegressor`.
    max_depth : int or None, default=4
        No limit if None, but deep trees fit what the attacker can undo.
    max_features : int, float, "sqrt", "log2" or None, default="sqrt"
        How many features a node tries, drawn at random; more if none of them can split the node.
    max_bins : int or "exact", default=255
        At how many thresholds a feature is tried: between as many bins, which are made once for all trees. "exact": at
        all there are. With absolute error always all.
    bootstrap : bool, default=False
        Whether each tree is grown from rows drawn with replacement.
    max_samples : int, float or None, default=None
        With `bootstrap`: how many rows, or what share of them, are drawn. None: as many as there are.
    oob_score : bool, default=False
        With `bootstrap`: whether to measure R2 on the rows that trees have not seen, without an attacker.
    warm_start : bool, default=False
        Whether `fit` keeps the trees that are there and grows what is missing to `n_estimators`.
    progress : callable, bool or None, default=None
        Called with (trees done, trees in all), and before that with (rows read, rows in all) as a stream is read,
        twice; rows in all are 0 while nobody knows. True: a line on stderr.
    random_state : int, RandomState or None, default=None
        Draws features and rows.
    n_jobs : int or None, default=None
        Trees that are grown side by side. The forest does not depend on it.

    Attributes
    ----------
    ensemble_ : TreeEnsemble
        The forest.
    threat_ : ThreatModel
        The threat model the forest was grown against.
    oob_score_ : float
        R2 on rows that trees have not seen, if asked for.
    oob_prediction_ : ndarray of shape (n_samples,)
        What the trees that have not seen a row predict for it; NaN where all have.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, if the table has them.

    Examples
    --------
    >>> import numpy as np
    >>> from hardwood import RobustForestRegressor, verify
    >>> X = np.arange(40.0).reshape(-1, 1)
    >>> model = RobustForestRegressor(threat=1.0, n_estimators=10, random_state=0).fit(X, X[:, 0])
    >>> certificate = verify(model, X, X[:, 0], threat=1.0, tolerance=10.0)
    >>> bool((certificate.status == "robust").all())
    True
    """

    _takes_all_with = (("criterion", "squared_error"),)
    oob_score_: float
    oob_prediction_: np.ndarray
    _seed: int

    def __init__(
        self,
        threat: Any = None,
        *,
        n_estimators: int = 100,
        criterion: str = "squared_error",
        rho: float = 1.0,
        max_depth: int | None = 4,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_impurity_decrease: float = 0.0,
        max_features: int | float | str | None = "sqrt",
        max_leaf_nodes: int | None = None,
        max_bins: int | str = MOST_BINS,
        bootstrap: bool = False,
        max_samples: int | float | None = None,
        oob_score: bool = False,
        categorical_features: Any = "from_dtype",
        warm_start: bool = False,
        progress: Progress | bool | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.threat = threat
        self.n_estimators = n_estimators
        self.criterion = criterion
        self.rho = rho
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_impurity_decrease = min_impurity_decrease
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.max_bins = max_bins
        self.bootstrap = bootstrap
        self.max_samples = max_samples
        self.oob_score = oob_score
        self.categorical_features = categorical_features
        self.warm_start = warm_start
        self.progress = progress
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X : DataFrame (pandas, polars) or array-like of shape (n_samples, n_features), or a stream
            In the units the threat model speaks of; nothing has to be scaled. A table larger than memory is read by
            :func:`hardwood.stream`, which brings numbers and weights with it.
        y : array-like of shape (n_samples,)
            Numbers.
        sample_weight : array-like of shape (n_samples,) or None

        Returns
        -------
        self
        """
        task = read_rows(self, X, y, sample_weight)
        reach = task.resolve()
        options = check_grow_options(self, task.n_rows, task.schema.n_features, ERRORS)
        max_bins = check_bins(self.max_bins)
        squared = options.criterion == "squared_error"
        options = replace(options, max_bins=max_bins if squared else None, n_threads=1)
        before, forest = continue_forest(self, task.schema, None, task.n_rows, options.seed)
        self._store(grow_on(before, prepare_number_grower(task, reach, options), forest), task.threat)
        self._seed = forest.seed
        self._keep_oob(task, forest)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = not list_limits(self)
        return tags

    def _keep_oob(self, task: Task, forest: ForestOptions) -> None:
        """Store how the trees fare on rows that they have not seen, or forget it."""
        forget_oob(self, "oob_prediction_")
        if not self.oob_score:
            return
        votes, count = vote_unseen(self.ensemble_, task.X, forest)
        with np.errstate(invalid="ignore"):
            self.oob_prediction_ = votes[:, 0] / count
        judged = count > 0
        weight = None if task.sample_weight is None else task.sample_weight[judged]
        enough, unit = judged.sum() >= 2, find_unit(task.target)  # squares of large numbers are none
        self.oob_score_ = (
            float(r2_score(task.target[judged] / unit, self.oob_prediction_[judged] / unit, sample_weight=weight))
            if enough
            else np.nan
        )

    def apply(self, X: Any) -> np.ndarray:
        """Return the id of the leaf that each row ends in, one column per tree."""
        check_is_fitted(self)
        return self._fitted_on(X).apply(X)

    def certify(self, X: Any, y: Any = None, threat: Any = None, *, tolerance: float = 0.0) -> MarginCertificate:
        """Bound what an attacker can make of predictions: cheap, and wider than what :func:`verify` finds.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        y : array-like of numbers, or None
            None: the forest's own predictions.
        threat : ThreatModel or any of its spellings, or None
            None: the one the forest was grown against.
        tolerance : float, default=0.0
            How far a prediction may be off `y` for a row to be certified.

        Returns
        -------
        MarginCertificate
        """
        return certify_values(self._fitted_on(X), X, y, self.threat_ if threat is None else threat, tolerance)
