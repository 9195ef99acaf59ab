"""Robust boosting of numbers as a scikit-learn regressor."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin

from hardwood.estimators.boosting import RobustBoosting
from hardwood.estimators.boosting_input import read_values
from hardwood.grow.bins import MOST_BINS
from hardwood.progress import Progress
from hardwood.results import MarginCertificate
from hardwood.verification.cheap import certify_values


class RobustBoostingRegressor(RobustBoosting, RegressorMixin, BaseEstimator):
    """Gradient boosting of numbers that hold up against adversarial examples.

    As :class:`RobustBoostingClassifier`, for squared errors: each tree is grown against the error at the worse end of
    the interval that the output of a row can be moved in, as far as the trees so far can tell.

    Parameters
    ----------
    threat : ThreatModel, number, str, list, dict or None, default=None
        What the attacker may do to each feature, in the units of the table; see :class:`ThreatModel` for every
        spelling. None: nothing.
    n_estimators : int, default=100
        How many rounds at most: a tree each.
    max_depth : int, default=4
        From 1 to 12. Beyond some 2,000 rows, 6 or 8 may add a little.
    learning_rate : float, default=0.1
        What the values of a tree are multiplied by.
    l2_regularization : float, default=1.0
        Added to the sum of hessians that leaf values are divided by.
    min_gain : float, default=0.0
        The least decrease of the second-order certified loss that a split has to promise.
    min_child_weight : float, default=1.0
        The least sum of hessians of either child, under attack.
    max_bins : int, default=255
        Between how many bins a feature's thresholds lie, from 2 to 255: quantiles of the ends of the rows' reach. What
        the attacker can do at each threshold is exact.
    subsample : float, default=1.0
        The share of the rows that a tree is grown on: each row is drawn with this probability, by a hash of its number.
    max_features : int, float, "sqrt", "log2" or None, default=1.0
        How many features a tree is grown on, drawn at random.
    mode : {"free", "ordered"}, default="free"
        "free": a row is in every leaf it can reach. "ordered": all splits of a feature that can be moved have the same
        direction, so the model is monotone in it; every row has one worst point, and the cheap certificate is
        exact. Slightly less accurate on some tables.
    early_stopping : "auto", "cv", float or False, default="auto"
        Which rows decide how many trees are kept, by their certified loss. "cv": all, in five folds. A share in (0, 1):
        that many, drawn at random. "auto": "cv" for up to 10,000 rows, 0.1 beyond. 0 trees, the constant model, is
        always a candidate. False: all trees are kept. The model itself is always fitted on all rows. In tables of more
        than 50,000 rows, hashes of row numbers choose those held out.
    n_iter_no_change : int or None, default=10
        After how many rounds without a lower loss of the rows held out boosting stops. None: after `n_estimators`.
    categorical_features : "from_dtype", list of names or indices, bool mask or None, default="from_dtype"
        Which columns are categorical. "from_dtype": those with a pandas `category` or polars `Categorical`/`Enum` type.
    warm_start : bool, default=False
        Whether `fit` adds rounds, up to `n_estimators`, to those there are; with ``early_stopping=False`` only.
    progress : callable, bool or None, default=None
        Called with (rounds done, rounds in all), and of a stream first with (rows read, rows in all), twice; True: a
        line on stderr.
    random_state : int, RandomState or None, default=None
        Draws folds, and the rows and features that trees are grown on if these are not all.
    n_jobs : int or None, default=None
        Threads over folds. The model does not depend on it.

    Attributes
    ----------
    ensemble_ : TreeEnsemble
        The trees; their output is the predicted value.
    threat_ : ThreatModel
        The threat model the trees were grown against.
    n_estimators_ : int
        How many rounds were kept; 0 is the constant model.
    train_loss_ : ndarray
        The mean certified loss of all rows after 0, 1, ... rounds, those that were not kept included.
    held_out_loss_ : ndarray
        The summed certified loss of rows held out after 0, 1, ... rounds; empty if none were.
    interrupted_ : bool
        Whether Ctrl-C has cut the fit short. The trees that there were by then are kept.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, if the table has them.

    Notes
    -----
    Thresholds are those of trees on bins, see :class:`RobustTreeClassifier`. A missing value goes to the side that
    the certified loss prefers, to the heavier child where training has none. A set of categories is a prefix of the
    categories in the order of their gradients; that is the best set unless an attacker may change the feature, or
    `min_child_weight` rules it out. A feature that an attacker can blank or fill in is not split on again below a split
    on it, on the side that missing values go to.

    Examples
    --------
    >>> import numpy as np
    >>> from hardwood import RobustBoostingRegressor
    >>> X = np.linspace(0.0, 1.0, 200)[:, None]
    >>> model = RobustBoostingRegressor(threat=0.05, random_state=0).fit(X, np.sin(5.0 * X[:, 0]))
    >>> certificate = model.certify(X)
    >>> bool((certificate.lower <= model.predict(X)).all() and (model.predict(X) <= certificate.upper).all())
    True
    """

    def __init__(
        self,
        threat: Any = None,
        *,
        n_estimators: int = 100,
        max_depth: int = 4,
        learning_rate: float = 0.1,
        l2_regularization: float = 1.0,
        min_gain: float = 0.0,
        min_child_weight: float = 1.0,
        max_bins: int = MOST_BINS,
        subsample: float = 1.0,
        max_features: int | float | str | None = 1.0,
        mode: str = "free",
        early_stopping: str | float | bool = "auto",
        n_iter_no_change: int | None = 10,
        categorical_features: Any = "from_dtype",
        warm_start: bool = False,
        progress: Progress | bool | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.threat = threat
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.l2_regularization = l2_regularization
        self.min_gain = min_gain
        self.min_child_weight = min_child_weight
        self.max_bins = max_bins
        self.subsample = subsample
        self.max_features = max_features
        self.mode = mode
        self.early_stopping = early_stopping
        self.n_iter_no_change = n_iter_no_change
        self.categorical_features = categorical_features
        self.warm_start = warm_start
        self.progress = progress
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Boost trees.

        Parameters
        ----------
        X : DataFrame (pandas, polars) or array-like of shape (n_samples, n_features), or a stream
            In the units the threat model speaks of; nothing has to be scaled. Values may be missing. A table larger
            than memory is read by :func:`hardwood.stream`, which brings numbers and weights with it.
        y : array-like of shape (n_samples,)
            Numbers.
        sample_weight : array-like of shape (n_samples,) or None
            A weight of 2 counts as the row twice, a weight of 0 as no row.

        Returns
        -------
        self
        """
        return self._fit(read_values(self, X, y, sample_weight))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the predicted values after each round."""
        for output in self._stage_outputs(X):
            yield output[:, 0]

    def certify(self, X: Any, y: Any = None, threat: Any = None, *, tolerance: float = 0.0) -> MarginCertificate:
        """Bound what an attacker can make the output of each row, in microseconds per row.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        y : array-like of numbers, or None
            None: the model's own predictions.
        threat : ThreatModel or any of its spellings, or None
            None: the one the model was fitted against.
        tolerance : float, default=0.0
            How far an output may be off from `y` for the row to count as certified.

        Returns
        -------
        MarginCertificate
            Its `lower` and `upper` are bounds on the output.
        """
        return certify_values(self._fitted_on(X), X, y, self.threat_ if threat is None else threat, tolerance)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        return tags
