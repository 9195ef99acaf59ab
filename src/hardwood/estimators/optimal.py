"""The tree of least adversarial error as a scikit-learn classifier: a yardstick for others."""

import math
from collections.abc import Callable
from typing import Any, Self

from sklearn.base import BaseEstimator, ClassifierMixin

from hardwood._kernels.compiling import working_time
from hardwood.ensemble import TreeEnsemble
from hardwood.estimators.fitted import FittedTree
from hardwood.estimators.refusals import refuse_partial_hiding
from hardwood.estimators.target import read_problem
from hardwood.grow.limits import UNLIMITED, GrowOptions, SizeLimits
from hardwood.grow.tree import grow_tree
from hardwood.quoting import quote
from hardwood.reals import check_count, check_number
from hardwood.refinement.alternation import Settings
from hardwood.refinement.door import count_covers
from hardwood.refinement.leaf_values import measure_loss
from hardwood.refinement.optimal_tree import Proof, prove_optimum
from hardwood.refinement.refined import MAX_SWEEPS, improve
from hardwood.refinement.rows import Rows
from hardwood.rows.task import Task
from hardwood.threat import Reach


class OptimalRobustTreeClassifier(FittedTree, ClassifierMixin, BaseEstimator):
    """The decision tree of a small depth that loses the fewest training rows under attack, with proof.

    A yardstick: it tells how much any method of the same depth leaves on the table, on the rows it was trained on. It
    is not the method to use. The best tree for the training rows fits their noise, too: a tree refined with a price per
    leaf (``RobustTreeClassifier(refine="search")``) is the one for new rows.

    The search is exact for trees of up to two levels: fractions of a second, as a rule. Deeper trees are searched
    as well as time allows, and `lower_bound_` says what has been proved.

    Parameters
    ----------
    threat : ThreatModel, number, str, list, dict or None, default=None
        What the attacker may do to each feature, in the units of the table; see :class:`ThreatModel` for every
        spelling. Optimal is what is best against the box around a budget over columns (`max_changes`, `radius`).
    attacking_classes : label, list of labels or None, default=None
        Which classes move. None: those of the threat model, which are all if it does not say.
    rho : float in [0, 1], default=1.0
        The share of attackers who attack: the loss is `rho` times the adversarial loss plus `1 - rho` times the plain
        one.
    max_depth : int, default=2
    time_limit : float or None, default=60.0
        Seconds after which the best tree so far is taken; None: no limit. Interrupted by Ctrl-C, it is taken as well.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class.
    categorical_features : "from_dtype", list of names or indices, bool mask or None, default="from_dtype"
        Which columns are categorical; each may have eight categories at most, missing values among them.
    progress : callable or None, default=None
        Called with (lower bound, loss of the best tree so far) as the search goes on.

    Attributes
    ----------
    ensemble_ : TreeEnsemble
        The tree itself.
    loss_ : float
        The weight of the training rows that the tree loses under attack, as a share of all.
    lower_bound_ : float
        A share that no tree of this depth comes below.
    gap_ : float
        The difference of the two: 0 if the tree is proved to be the best.
    is_optimal_ : bool
        Whether it is.
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    threat_ : ThreatModel
        The threat model the tree is the best against.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, if the table has them.

    Notes
    -----
    Thresholds lie in the middle of the gaps between ends of reaches; ends closer than a billionth of their size count
    as equal. Of several best trees, the first that was found is taken.

    Losses are sums of weights in float64: with weights that are not whole numbers, bounds hold up to rounding.

    Examples
    --------
    >>> from hardwood import OptimalRobustTreeClassifier, load_dataset
    >>> table = load_dataset("diabetes")
    >>> best = OptimalRobustTreeClassifier(threat=0.1).fit(table.data, table.target)
    >>> best.is_optimal_, round(1 - best.loss_, 3)
    (True, 0.776)
    """

    def __init__(
        self,
        threat: Any = None,
        *,
        attacking_classes: Any = None,
        rho: float = 1.0,
        max_depth: int = 2,
        time_limit: float | None = 60.0,
        class_weight: Any = None,
        categorical_features: Any = "from_dtype",
        progress: Callable[[float, float], object] | None = None,
    ) -> None:
        self.threat = threat
        self.attacking_classes = attacking_classes
        self.rho = rho
        self.max_depth = max_depth
        self.time_limit = time_limit
        self.class_weight = class_weight
        self.categorical_features = categorical_features
        self.progress = progress

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the tree.

        Parameters
        ----------
        X : DataFrame (pandas, polars) or array-like of shape (n_samples, n_features)
            In the units the threat model speaks of; nothing has to be scaled.
        y : array-like of shape (n_samples,)
            Labels of two classes or more.
        sample_weight : array-like of shape (n_samples,) or None
            A weight of 2 counts as the row twice, a weight of 0 as no row.

        Returns
        -------
        self
        """
        max_depth = check_count("max_depth", self.max_depth, 0)
        limit = math.inf if self.time_limit is None else check_number("time_limit", self.time_limit, 0.0)
        rho = check_number("rho", self.rho, 0.0, 1.0)
        problem = read_problem(self, X, y, sample_weight)
        end = working_time() + limit
        reach = problem.threat.resolve(problem.schema, problem.classes)
        self._check_attackers(reach, problem, rho)
        weight = problem.row_weight
        counts = weight > 0.0  # a class may weigh nothing
        rows = Rows(problem.X[counts], problem.class_index[counts].astype("int64"), weight[counts], reach, rho)
        start = self._find_start(problem, rows)
        progress = self._count_in(problem.weight_unit)
        proof = prove_optimum(rows, start, measure_loss(start, rows), max_depth, end, progress)
        return self._keep_proof(proof, problem, float(rows.weight.sum()))

    def _check_attackers(self, reach: Reach, problem: Task, rho: float) -> None:
        """Refuse attackers that the start of the search or its proof does not know."""
        if reach.targets is not None:
            raise ValueError(
                f"attacking_classes={quote(problem.threat.attacking_classes)}: what each class wants to be taken for "
                "is not known here; give the list of classes that attack"
            )
        refuse_partial_hiding(problem.threat, rho)

    def _count_in(self, weight_unit: float) -> Callable[[float, float], object] | None:
        """Return whom to tell of losses in a unit, who is told of the weights themselves."""
        progress = self.progress
        if progress is None or weight_unit == 1.0:
            return progress
        return lambda lower, loss: progress(lower * weight_unit, loss * weight_unit)

    def _find_start(self, problem: Task, rows: Rows) -> TreeEnsemble:
        """Return a good tree to begin with: a greedy one, refined."""
        size = SizeLimits(max_depth=max(1, self.max_depth), min_samples_split=2, min_samples_leaf=1)
        options = GrowOptions(
            size=size, criterion="gini", rho=rows.rho, min_impurity_decrease=0.0,
            max_features=problem.schema.n_features, max_leaf_nodes=None, seed=0, n_threads=1,
        )  # fmt: skip
        settings = Settings(price=0.0, max_sweeps=MAX_SWEEPS, max_depth=self.max_depth, max_leaves=UNLIMITED)
        return improve(grow_tree(problem, rows.reach, options), rows, settings, 0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = True
        tags.input_tags.allow_nan = True
        return tags

    def _keep_proof(self, proof: Proof, problem: Task, total: float) -> Self:
        self._keep(count_covers(proof.ensemble, problem.weight_unit), problem.threat)
        self.loss_ = proof.loss / total
        self.lower_bound_ = min(proof.lower, proof.loss) / total
        self.gap_ = self.loss_ - self.lower_bound_
        self.is_optimal_ = proof.lower >= proof.loss
        return self
