"""RobustForestClassifier: many robust trees, each of which sees some of the features, and their average."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted

from hardwood.ensemble import TreeEnsemble
from hardwood.estimators.fitted import FittedTree
from hardwood.estimators.parameters import check_grow_options, check_max_bins, is_integer, is_share
from hardwood.estimators.target import read_problem
from hardwood.grow.bins import MOST_BINS
from hardwood.grow.forest import ForestOptions, find_unseen, grow_forest, join_trees
from hardwood.grow.problem import Problem
from hardwood.progress import Progress, read_progress


class RobustForestClassifier(FittedTree, ClassifierMixin, BaseEstimator):
    """A forest of decision trees that hold up against adversarial examples.

    Each tree is grown as :class:`RobustTreeClassifier` grows it, but every node tries some of the features only, drawn
    at random; the class probabilities of all trees are averaged. The defaults are those that did best under attack, and
    they are not scikit-learn's: shallow trees, because deep ones fit what the attacker can undo, and no bootstrap,
    because a tree that sees fewer rows knows less about what can be reached. :func:`certify` bounds a forest in
    microseconds per row; :func:`verify` is exact.

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
        Called with (trees done, trees in all); True: a line on stderr.
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the forest.

        Parameters
        ----------
        X : DataFrame (pandas, polars) or array-like of shape (n_samples, n_features)
            In the units the threat model speaks of; nothing has to be scaled.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,) or None

        Returns
        -------
        self
        """
        is_balanced_anew = isinstance(self.class_weight, str) and self.class_weight == "balanced_subsample"
        reader = clone(self).set_params(class_weight=None) if is_balanced_anew else self
        problem = read_problem(reader, X, y, sample_weight)
        reach = problem.threat.resolve(problem.schema, problem.classes)
        options = check_grow_options(self, len(problem.X), problem.schema.n_features)
        max_bins = check_max_bins(self.max_bins)
        options = replace(options, max_bins=None if isinstance(max_bins, str) else max_bins)
        before = self._find_trees(problem) if self.warm_start and hasattr(self, "ensemble_") else None
        seed = options.seed if before is None else self._seed
        forest = self._check_forest(len(problem.X), seed, is_balanced_anew)
        if before is not None and before.n_trees > forest.n_trees:
            raise ValueError(
                f"n_estimators={self.n_estimators}: there are {before.n_trees} trees, and warm_start=True keeps them"
            )
        first = 0 if before is None else before.n_trees
        trees = grow_forest(problem, reach, options, forest, first)
        ensemble = join_trees([*([] if before is None else [before]), *trees]) if trees else before
        assert ensemble is not None
        self._keep(ensemble, problem.threat)
        self._seed = seed
        self._keep_oob(problem, forest)
        return self

    def _keep_oob(self, problem: Problem, forest: ForestOptions) -> None:
        """Store how the trees fare on rows that they have not seen, or forget it."""
        for name in ("oob_score_", "oob_decision_function_"):
            if hasattr(self, name):
                delattr(self, name)
        if not self.oob_score:
            return
        unseen = find_unseen(forest, len(problem.X))
        ensemble = self.ensemble_
        votes = np.zeros((len(problem.X), len(problem.classes)))
        for number, leaves in enumerate(ensemble.leaves(problem.X).T):
            rows = unseen[:, number]
            votes[rows] += ensemble.value[leaves[rows]]
        count = unseen.sum(axis=1)
        with np.errstate(invalid="ignore"):
            self.oob_decision_function_ = votes / count[:, None]
        judged = count > 0
        right = votes[judged].argmax(axis=1) == problem.class_index[judged]
        self.oob_score_ = float(np.average(right, weights=problem.row_weight[judged])) if judged.any() else float("nan")

    def _find_trees(self, problem: Problem) -> TreeEnsemble:
        """Return the trees that are there already, which must be of the same columns and classes."""
        ensemble = self.ensemble_
        if ensemble.schema != problem.schema or ensemble.labels.tolist() != problem.classes.tolist():
            raise ValueError("warm_start=True: X and y have other columns or classes than before; set it to False")
        return ensemble

    def _check_forest(self, n_rows: int, seed: int, is_balanced_anew: bool) -> ForestOptions:
        if not (is_integer(self.n_estimators) and self.n_estimators >= 1):
            raise ValueError(f"n_estimators={self.n_estimators!r}: expected an integer >= 1")
        for name in ("max_samples", "oob_score"):
            if getattr(self, name) and not self.bootstrap:
                raise ValueError(f"{name}={getattr(self, name)!r}: for bootstrap=True only; every tree sees all rows")
        drawn = n_rows if self.max_samples is None else self.max_samples
        if not ((is_integer(drawn) and drawn >= 1) or is_share(drawn)):
            raise ValueError(f"max_samples={drawn!r}: expected None, an integer >= 1 or a share of the rows in (0, 1]")
        n_drawn = int(drawn) if is_integer(drawn) else max(1, round(float(drawn) * n_rows))
        return ForestOptions(
            n_trees=int(self.n_estimators),
            n_drawn=n_drawn if self.bootstrap else None,
            balance_draws=is_balanced_anew,
            seed=seed,
            n_jobs=self.n_jobs,
            progress=read_progress(self.progress),
        )

    @property
    def feature_importances_(self) -> np.ndarray:
        """Each feature's share of the Gini impurity that the trees remove under attack, averaged over the trees."""
        check_is_fitted(self)
        forest, n_features = self.ensemble_, self.n_features_in_
        impurity = forest.cover * (1.0 - (forest.value**2).sum(axis=1))
        inner = np.flatnonzero(forest.feature >= 0)
        decrease = impurity[inner] - impurity[forest.left[inner]] - impurity[forest.right[inner]]
        tree = np.searchsorted(forest.root, inner, side="right") - 1
        by_tree = np.bincount(
            tree * n_features + forest.feature[inner], decrease, minlength=forest.n_trees * n_features
        )
        by_tree = by_tree.reshape(forest.n_trees, n_features).astype(np.float64)
        total = by_tree.sum(axis=1, keepdims=True)
        importance = np.divide(by_tree, total, out=np.zeros_like(by_tree), where=total > 0.0).mean(axis=0)
        return importance / importance.sum() if importance.any() else importance

    def apply(self, X: Any) -> np.ndarray:
        """Return the id of the leaf that each row ends in, one column per tree."""
        return self._fitted_on(X).apply(X)
