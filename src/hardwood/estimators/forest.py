"""RobustForestClassifier: many robust trees, each of which sees some of the features, and their average."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from hardwood.ensemble import TreeEnsemble
from hardwood.estimators.fitted import FittedTree
from hardwood.estimators.forest_parts import (
    average_importances,
    check_bins,
    continue_forest,
    forget_oob,
    grow_on,
    vote_unseen,
)
from hardwood.estimators.parameters import check_grow_options
from hardwood.estimators.refusals import refuse_partial_hiding
from hardwood.estimators.target import read_rows
from hardwood.grow.bins import MOST_BINS
from hardwood.grow.forest import ForestOptions, prepare_grower
from hardwood.grow.limits import GrowOptions
from hardwood.progress import Progress
from hardwood.results import MarginCertificate
from hardwood.rows.task import Task
from hardwood.threat import Reach, ThreatModel
from hardwood.verification.cheap import certify_classes


class RobustForestClassifier(FittedTree, ClassifierMixin, BaseEstimator):
    """A forest of decision trees that hold up against adversarial examples.

    Each tree is grown as :class:`RobustTreeClassifier` grows it, but every node tries some of the features only, drawn
    at random; the class probabilities of all trees are averaged. The defaults are those that did best under attack, and
    they are not scikit-learn's: shallow trees, because deep ones fit what the attacker can undo, and no bootstrap,
    because a tree that sees fewer rows knows less about what can be reached. `certify` bounds a forest in microseconds
    per row; :func:`verify` is exact.

    Parameters
    ----------
    threat : ThreatModel, number, str, list, dict or None, default=None
        What the attacker may do to each feature, in the units of the table; see :class:`ThreatModel`.
    n_estimators : int, default=100
        The number of trees.
    attacking_classes, rho, criterion, min_samples_split, min_samples_leaf, min_impurity_decrease, max_leaf_nodes
        As in :class:`RobustTreeClassifier`.
    max_depth : int or None, default=4
        No limit if None, but deep trees are worth little under attack.
    max_features : int, float, "sqrt", "log2" or None, default="sqrt"
        How many features a node tries, drawn at random; more if none of them can split the node.
    max_bins : int or "exact", default=255
        At how many thresholds a feature is tried: between as many bins, which are made once for all trees. "exact": at
        all there are, found anew for every tree.
    bootstrap : bool, default=False
        Whether each tree is grown from rows drawn with replacement.
    max_samples : int, float or None, default=None
        With `bootstrap`: how many rows, or what share of them, are drawn. None: as many as there are.
    oob_score : bool, default=False
        With `bootstrap`: whether to measure accuracy on the rows that trees have not seen, without an attacker.
    class_weight : dict, "balanced", "balanced_subsample" or None, default=None
        Weight of each class; "balanced_subsample": balanced in the rows of each tree.
    categorical_features : "from_dtype", list of names or indices, bool mask or None, default="from_dtype"
        Which columns are categorical.
    warm_start : bool, default=False
        Whether `fit` keeps the trees that are there and grows what is missing to `n_estimators`.
    progress : callable, bool or None, default=None
        Called with (trees done, trees in all), and before that with (rows read, rows in all) as a stream is read,
        twice; rows in all are 0 while nobody knows. True: a line on stderr.
    random_state : int, RandomState or None, default=None
        Draws features and rows.
    n_jobs : int or None, default=None
        Trees that are grown side by side, in threads or by the backend of joblib that is set. The forest does not
        depend on it.

    Attributes
    ----------
    ensemble_ : TreeEnsemble
        The forest.
    classes_ : ndarray
        The class labels.
    threat_ : ThreatModel
        The threat model the forest was grown against.
    oob_score_ : float
        Accuracy on rows that trees have not seen, if asked for.
    oob_decision_function_ : ndarray of shape (n_samples, n_classes)
        Class probabilities by the trees that have not seen a row; NaN where all have.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, if the table has them.

    Examples
    --------
    >>> from hardwood import RobustForestClassifier, adversarial_accuracy, load_dataset
    >>> table = load_dataset("banknote-authentication")
    >>> model = RobustForestClassifier(threat=0.5, n_estimators=20, random_state=0).fit(table.data, table.target)
    >>> adversarial_accuracy(model, table.data, table.target, threat=0.5) > 0.85
    True
    """

    oob_score_: float
    oob_decision_function_: np.ndarray
    _seed: int

    def __init__(
        self,
        threat: Any = None,
        *,
        n_estimators: int = 100,
        attacking_classes: Any = None,
        rho: float = 1.0,
        criterion: str = "gini",
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
        class_weight: Any = None,
        categorical_features: Any = "from_dtype",
        warm_start: bool = False,
        progress: Progress | bool | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.threat = threat
        self.n_estimators = n_estimators
        self.attacking_classes = attacking_classes
        self.rho = rho
        self.criterion = criterion
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
        self.class_weight = class_weight
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
            In the units the threat model speaks of; nothing has to be scaled. A table of numbers that is larger than
            memory is read by :func:`hardwood.stream`, which brings labels and weights with it.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,) or None

        Returns
        -------
        self
        """
        task = read_rows(self, X, y, sample_weight, class_weight=self._read_class_weight())
        reach, options, before, forest = self._prepare(task, task.n_rows)
        grower = prepare_grower(task, reach, options, balance_draws=self._is_balanced_anew)
        self._keep_grown(grow_on(before, grower, forest), task.threat, forest)
        if self.oob_score:
            self._keep_oob(task, forest)
        return self

    def _keep_grown(self, ensemble: TreeEnsemble, threat: ThreatModel, forest: ForestOptions) -> None:
        """Store what was grown, and forget what an earlier fit said of rows that trees had not seen."""
        self._keep(ensemble, threat)
        self._seed = forest.seed
        forget_oob(self, "oob_decision_function_")

    @property
    def _is_balanced_anew(self) -> bool:
        """Whether classes weigh the same in the rows that each tree is grown from."""
        return isinstance(self.class_weight, str) and self.class_weight == "balanced_subsample"

    def _read_class_weight(self) -> Any:
        """Return what classes weigh in the whole table."""
        return None if self._is_balanced_anew else self.class_weight

    def _prepare(self, task: Task, n_rows: int) -> tuple[Reach, GrowOptions, TreeEnsemble | None, ForestOptions]:
        """Return what the attacker may do to a table, the parameters for it, and trees that are there already."""
        options = check_grow_options(self, n_rows, task.schema.n_features)
        options = replace(options, max_bins=check_bins(self.max_bins))
        refuse_partial_hiding(task.threat, options.rho)
        return task.resolve(), options, *continue_forest(self, task.schema, task.classes, n_rows, options.seed)

    def _keep_oob(self, task: Task, forest: ForestOptions) -> None:
        """Store how the trees fare on rows that they have not seen."""
        votes, count = vote_unseen(self.ensemble_, task.X, forest)
        with np.errstate(invalid="ignore"):
            self.oob_decision_function_ = votes / count[:, None]
        judged = count > 0
        right = votes[judged].argmax(axis=1) == task.class_index[judged]
        self.oob_score_ = float(np.average(right, weights=task.row_weight[judged])) if judged.any() else np.nan

    @property
    def feature_importances_(self) -> np.ndarray:
        """Each feature's share of the Gini impurity that the trees remove under attack, averaged over the trees."""
        check_is_fitted(self)
        forest, n_features = self.ensemble_, self.n_features_in_
        impurity = forest.cover * (1.0 - (forest.value**2).sum(axis=1))
        inner = np.flatnonzero(forest.feature >= 0)
        decrease = impurity[inner] - impurity[forest.left[inner]] - impurity[forest.right[inner]]
        return average_importances(forest, inner, decrease, n_features)

    def apply(self, X: Any) -> np.ndarray:
        """Return the id of the leaf that each row ends in, one column per tree."""
        return self._fitted_on(X).apply(X)

    def certify(self, X: Any, y: Any = None, threat: Any = None) -> MarginCertificate:
        """Prove of rows that no attacker can change their class: cheap, and not of all rows of which it is true.

        The bound adds up the worst reachable leaf of every tree. :func:`verify` is exact.

        Parameters
        ----------
        X : table of shape (n_samples, n_features)
        y : array-like of labels, or None
            None: the forest's own predictions.
        threat : ThreatModel or any of its spellings, or None
            None: the one the forest was grown against.

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
