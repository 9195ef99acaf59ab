"""Robust boosting of classes as a scikit-learn classifier."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from hardwood.estimators.boosting import RobustBoosting
from hardwood.estimators.boosting_input import read_classes
from hardwood.estimators.fitted import FittedTree
from hardwood.grow.bins import MOST_BINS
from hardwood.progress import Progress
from hardwood.results import MarginCertificate
from hardwood.table.batches import Stream
from hardwood.verification.cheap import certify_classes


class RobustBoostingClassifier(RobustBoosting, FittedTree, ClassifierMixin, BaseEstimator):
    """Gradient boosting that holds up against adversarial examples.

    Trees are added one after another, as in XGBoost; but each is grown against the loss of certified margins. A row's
    certified margin is the sum, over trees, of the worst leaf that it can be moved into: a lower bound on what any
    attacker within the threat model can do to the row, and in practice a tight one. With an empty threat model it is
    ordinary second-order boosting.

    Parameters
    ----------
    threat : ThreatModel, number, str, list, dict or None, default=None
        What the attacker may do to each feature, in the units of the table; see :class:`ThreatModel` for every
        spelling. None: nothing. Where an attacker's moves depend on each other (one-hot groups, budgets, relations),
        training defends against all that each column can be made.
    attacking_classes : label, list of labels or None, default=None
        Which classes move. None: those of the threat model, which are all if it does not say.
    n_estimators : int, default=100
        How many rounds at most: a tree each, or one per class if there are more than two.
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
        exact (for two classes). Slightly less accurate on some tables.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class.
    early_stopping : "auto", "cv", float or False, default="auto"
        Which rows decide how many trees are kept, by their certified loss. "cv": all, in five folds. A share in (0, 1):
        that many, drawn at random. "auto": "cv" for up to 10,000 rows, 0.1 beyond. 0 trees, the constant model, is
        always a candidate. False: all trees are kept. The model itself is always fitted on all rows. Every class has
        its share of the rows held out in tables of up to 50,000 rows; in larger ones, hashes of row numbers choose.
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
        The trees; their single output is the log-odds of the second class, or there is an output per class.
    classes_ : ndarray
        The class labels.
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

    References
    ----------
    M. Andriushchenko and M. Hein, "Provably Robust Boosted Decision Stumps and Trees against Adversarial Attacks",
    NeurIPS 2019: boosting on certified margins.

    Examples
    --------
    >>> from hardwood import RobustBoostingClassifier, adversarial_accuracy, load_dataset
    >>> table = load_dataset("breast-w")
    >>> model = RobustBoostingClassifier(threat=2.0, random_state=0).fit(table.data[::2], table.target[::2])
    >>> certificate = model.certify(table.data[1::2], table.target[1::2])
    >>> exact = adversarial_accuracy(model, table.data[1::2], table.target[1::2], threat=2.0)
    >>> bool(0.85 < certificate.certified.mean() <= exact)
    True
    """

    def __init__(
        self,
        threat: Any = None,
        *,
        attacking_classes: Any = None,
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
        class_weight: Any = None,
        early_stopping: str | float | bool = "auto",
        n_iter_no_change: int | None = 10,
        categorical_features: Any = "from_dtype",
        warm_start: bool = False,
        progress: Progress | bool | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.threat = threat
        self.attacking_classes = attacking_classes
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
        self.class_weight = class_weight
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
            than memory is read by :func:`hardwood.stream`, which brings labels and weights with it.
        y : array-like of shape (n_samples,)
            Labels of two classes or more.
        sample_weight : array-like of shape (n_samples,) or None
            A weight of 2 counts as the row twice, a weight of 0 as no row.

        Returns
        -------
        self
        """
        self._fit(read_classes(self, X, y, sample_weight))
        self.classes_ = self.ensemble_.labels
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities: those that the log-odds stand for."""
        return super().predict_proba(X)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the log-odds of the second class, or an output per class if there are more than two."""
        if isinstance(X, Stream):
            return X.collect(self.decision_function)
        ensemble = self._fitted_on(X)
        return _flatten(ensemble.output(ensemble.schema.encode(X)))

    def staged_decision_function(self, X: Any) -> Iterator[np.ndarray]:
        """Yield what :meth:`decision_function` returns after each round."""
        return map(_flatten, self._stage_outputs(X))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Yield the predicted classes after each round."""
        for output in self._stage_outputs(X):
            yield self.classes_.take(self.ensemble_.choose(output))

    def certify(self, X: Any, y: Any = None, threat: Any = None) -> MarginCertificate:
        """Bound from below what an attacker can make the margin of each row, in microseconds per row.

        The bound is the sum, over trees, of the worst leaf that a row can reach: what training maximises. A row that is
        certified is robust; of the others :func:`hardwood.verify` says which are.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        y : array-like of labels, or None
            None: the model's own predictions.
        threat : ThreatModel or any of its spellings, or None
            None: the one the model was fitted against.

        Returns
        -------
        MarginCertificate
        """
        return certify_classes(self._fitted_on(X), X, y, self.threat_ if threat is None else threat)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        tags.input_tags.allow_nan = True
        return tags


def _flatten(output: np.ndarray) -> np.ndarray:
    """Return a single output as a vector."""
    return output[:, 0] if output.shape[1] == 1 else output
