"""The robust decision tree as a scikit-learn classifier."""

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from hardwood.ensemble import TreeEnsemble
from hardwood.estimators.fitted import FittedTree
from hardwood.estimators.parameters import check_choice, check_grow_options, check_max_bins, read_monotonic
from hardwood.estimators.refined import check_refinement
from hardwood.estimators.refusals import list_limits, refuse_categories, refuse_partial_hiding
from hardwood.estimators.target import read_rows
from hardwood.grow.bins import AUTO_ROWS, BINNED_ROWS, MOST_BINS
from hardwood.grow.limits import GrowOptions
from hardwood.grow.tree import ATTACKERS, grow_tree
from hardwood.progress import Progress
from hardwood.quoting import quote
from hardwood.refinement.refined import PRICE
from hardwood.refinement.search_report import SearchReport
from hardwood.rows.task import Task
from hardwood.table import Schema
from hardwood.threat import Reach, ThreatModel


class RobustTreeClassifier(FittedTree, ClassifierMixin, BaseEstimator):
    """A decision tree that holds up against adversarial examples.

    Every split is chosen by the impurity that is left after an attacker, who may move each row within the
    threat model, has done the worst to that split; rows go down the tree as the attacker would send them. This is the
    method of the paper "Efficient Training of Robust Decision Trees Against Adversarial Examples" (GROOT), made exact
    and deterministic. With an empty threat model it is an ordinary CART tree. A node that no split improves under
    attack is a leaf.

    Parameters
    ----------
    threat : ThreatModel, number, str, list, dict or None, default=None
        What the attacker may do to each feature, in the units of the table; see :class:`ThreatModel` for every
        spelling. None: nothing. The tree guards against the box around a budget over columns (`max_changes`, `radius`),
        as if each column could be moved as far as it can be by itself.
    attacking_classes : label, list of labels, dict or None, default=None
        Which classes move; a dict says which others each of them wants to be taken for. None: those of the threat
        model, which are all if it does not say. Training is against the classes that move, whatever they want.
    rho : float in [0, 1], default=1.0
        The share of attackers who attack. 1 guards against all of them, 0 gives the natural tree. Each row of an
        attacking class counts as a part `rho` that moves wherever it can and a part `1 - rho` that never does.
    attacker : {"groot", "chen", "chen-greedy"}, default="groot"
        How the worst case of a split is found, and what becomes of the rows. "groot": exactly, over all thresholds that
        shifted values suggest, and rows go down as the attacker would send them. The others are those of Chen et al.
        (2019): thresholds lie midway between values, and rows go down by their own values. "chen" takes the worst of
        four cases (nobody moves; all rows whose reach meets both sides go left; all go right; all change sides),
        "chen-greedy" moves these rows one by one while that brings the class mix of both sides nearer. Both are there
        for comparison, and for Gini and entropy, numerical features and `rho=1` only; "chen-greedy" takes no sample
        weights.
    criterion : {"gini", "entropy", "error"}, default="gini"
        Impurity of a node. "error" is the adversarial 0/1 loss; equal splits are told apart by Gini impurity.
    max_depth : int or None, default=None
        No limit if None; there is no recursion to run out of.
    min_samples_split : int or float, default=2
        How many rows (or what share of them) a node needs to be split.
    min_samples_leaf : int or float, default=1
        How many rows each child needs. A split that violates it is passed over; the node may still be split elsewhere.
        Rows are counted, not their weights; with `0 < rho < 1` parts of rows, of which each child then needs a whole
        one at least.
    min_impurity_decrease : float, default=0.0
        The least decrease of impurity under attack, weighted by the node's share of the training weight.
    max_features : int, float, "sqrt", "log2" or None, default=None
        How many features a node tries, drawn at random; more if none of them can split the node.
    max_leaf_nodes : int or None, default=None
        The most leaves a tree may have: nodes are then split in the order of their gain. No limit if None.
    max_bins : "auto", "exact" or int, default="auto"
        At how many thresholds a feature is tried. "exact": at all there are. An integer from 2 to 255: at those between
        as many bins, quantiles of the ends of the rows' reach; what the attacker can do at each of them is still exact,
        and a large table takes a fraction of the time. "auto": 255 bins for more than 100,000 rows, exact up to that
        many, and for attackers other than "groot". Categories have a bin each.
    monotonic_cst : array-like of int, dict or None, default=None
        For two classes, 1 for each feature with which the probability of the second class must not fall, -1 for those
        with which it must not rise, 0 for others, as in scikit-learn; or a dict of columns. Splits that would violate
        it are passed over, and what one split orders stays in order below it; so are the moves of refinement. Missing
        values are in no order.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class.
    categorical_features : "from_dtype", list of names or indices, bool mask or None, default="from_dtype"
        Which columns are categorical. "from_dtype": those with a pandas `category` or polars `Categorical`/`Enum` type.
    refine : {None, "alternate", "search"}, default=None
        What becomes of the greedy tree. None: it stays as it is, the paper's. "alternate": it is improved node by node
        on the exact adversarial 0/1 loss until nothing moves, see :func:`hardwood.refine`. "search": so are greedy
        trees grown on rows drawn at random, and the best of all is taken: the most robust tree, and still a matter of
        milliseconds for small tables. `max_depth` and `max_leaf_nodes` hold for the refined tree, too; what else says
        when to stop growing shapes the start only, because refinement has a price per leaf instead.
    refine_price : float, default=2.0
        What a leaf of a refined tree costs, in rows of weight 1: a leaf that saves fewer goes.
    n_starts : int, default=10
        How many starts from rows drawn at random the search tries, besides the one from all rows.
    beat_constant : bool, default=False
        Whether the search settles for a single leaf if its trees did not lose fewer rows than that in training, on rows
        that they had not seen. Insurance for tables of which nothing can be learned under attack; elsewhere it costs
        a little.
    progress : callable, bool or None, default=None
        Called with (starts done, starts in all) as the search goes on, and with (rows read, rows in all) as a stream is
        read, twice; rows in all are 0 while nobody knows. True: a line on stderr.
    random_state : int, RandomState or None, default=None
        Draws the features when `max_features` is less than all, and whatever refinement draws: the order in which nodes
        are visited, and the rows of the starts. Nothing else is random.
    n_jobs : int or None, default=None
        Threads over the features, and over the starts of a search. The tree does not depend on it.

    Attributes
    ----------
    ensemble_ : TreeEnsemble
        The tree itself.
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    threat_ : ThreatModel
        The threat model the tree was grown against.
    search_report_ : SearchReport
        With ``refine="search"``: every tree that was tried, what it loses, and which was chosen. If the search was
        interrupted (Ctrl-C), the best tree so far was taken.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, if the table has them.

    Notes
    -----
    *Values that count as equal.* Where something is added to a feature's values, two shifted values `a` and `b` count
    as equal if `|a - b| <= 1e-9 * max(|a|, |b|, reach)`, with `reach` the largest finite distance of that feature's
    threat: `7.0 + 0.1` and `7.2 - 0.1` differ in the last bit only, and a threshold between them would be a bet on
    rounding. Features that nobody can move, or only without limit, are compared exactly.

    *Splits that count as equal.* Gains are compared to 34 significant bits, one part in 1e10. Of equally good splits
    the first is taken: by feature, then by threshold. So the tree depends neither on the order of the rows nor on the
    unit of the weights, but for the last bits of its leaf values (and for gains that happen to lie on the boundary
    between two roundings, of which a search through 8,000 small tables found none).

    *Many classes.* With more than two classes the attacker's answer to a split is how much of every class he leaves or
    puts on the left, the solution of a small convex problem that is solved in closed form. Of a class that he divides,
    the rows with the lowest ends of reach go left, those with the same one together, until the weight is as near as can
    be to the solution; `min_samples_leaf` is kept whoever that is. Such trees need `attacker="groot"`.

    *Bins.* Thresholds between bins are chosen from the ends of the reach of 50,000 rows, those with the smallest hashes
    of their numbers. Up to that size the tree does not depend on the order of the rows, and it never depends on
    threads. A threshold is moved to the middle of the bins behind it that are empty in its node.

    *Missing values.* If the table has some, or the threat says that the attacker makes or fills them (`blank`, `fill`),
    the tree takes missing values later, too. A split of a feature of which values are missing in its node sends them to
    the side that is better under attack, or parts them from all others; elsewhere they go where more of the training
    weight went. Such trees are grown on bins, by default of as many as there are ends of reach.

    *Categories.* If a categorical feature cannot be moved, its best partition is a prefix of the categories in the
    order of their class share, which is found in linear time. If the feature can be moved, or if the best prefix would
    leave a child fewer rows than `min_samples_leaf`, all partitions are tried for up to 12 categories in a node (with
    "<>", those never seen count as one); beyond that a local search starts from the best prefix and moves or swaps
    single categories while that helps: it mostly, not always, finds the best partition. For more than two classes, with
    missing values (which are a category then) and on bins, the search starts from the prefixes in the order of each
    class's share, and moves single categories. A category never seen in training goes to the child that received more
    training weight.

    References
    ----------
    D. Vos and S. Verwer, "Efficient Training of Robust Decision Trees Against Adversarial Examples", ICML 2021.

    H. Chen, H. Zhang, D. Boning and C.-J. Hsieh, "Robust Decision Trees Against Adversarial Examples", ICML 2019.

    Examples
    --------
    >>> from hardwood import RobustTreeClassifier, adversarial_accuracy, load_dataset
    >>> table = load_dataset("banknote-authentication")
    >>> model = RobustTreeClassifier(threat=0.1, max_depth=4).fit(table.data, table.target)
    >>> adversarial_accuracy(model, table.data, table.target, threat=0.1) > 0.9
    True
    """

    search_report_: SearchReport
    _takes_all_with = (("attacker", "groot"),)

    def __init__(
        self,
        threat: Any = None,
        *,
        attacking_classes: Any = None,
        rho: float = 1.0,
        attacker: str = "groot",
        criterion: str = "gini",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        min_impurity_decrease: float = 0.0,
        max_features: int | float | str | None = None,
        max_leaf_nodes: int | None = None,
        max_bins: int | str = "auto",
        monotonic_cst: Any = None,
        class_weight: Any = None,
        categorical_features: Any = "from_dtype",
        refine: str | None = None,
        refine_price: float = PRICE,
        n_starts: int = 10,
        beat_constant: bool = False,
        progress: Progress | bool | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.threat = threat
        self.attacking_classes = attacking_classes
        self.rho = rho
        self.attacker = attacker
        self.criterion = criterion
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.min_impurity_decrease = min_impurity_decrease
        self.max_features = max_features
        self.max_leaf_nodes = max_leaf_nodes
        self.max_bins = max_bins
        self.monotonic_cst = monotonic_cst
        self.class_weight = class_weight
        self.categorical_features = categorical_features
        self.refine = refine
        self.refine_price = refine_price
        self.n_starts = n_starts
        self.beat_constant = beat_constant
        self.progress = progress
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow the tree.

        Parameters
        ----------
        X : DataFrame (pandas, polars) or array-like of shape (n_samples, n_features), or a stream
            In the units the threat model speaks of; nothing has to be scaled. A table larger than memory is read by
            :func:`hardwood.stream`, which brings labels and weights with it, and is grown on bins.
        y : array-like of shape (n_samples,)
            Labels of two or more classes.
        sample_weight : array-like of shape (n_samples,) or None
            A weight of 2 counts as the row twice, a weight of 0 as no row. `min_samples_split` and `min_samples_leaf`
            count rows, whatever they weigh.

        Returns
        -------
        self
        """
        task = read_rows(self, X, y, sample_weight, is_narrow=self._is_binned(X))
        reach, options = self._read_options(task, task.n_rows, in_memory=task.stream is None)
        refinement = check_refinement(self, options)
        if refinement is None:
            ensemble, report = grow_tree(task, reach, options), None
        else:
            ensemble, report = refinement.grow(task, reach, options)
        self._keep_only(ensemble, task.threat)
        if report is not None:
            self.search_report_ = report
        return self

    def _keep_only(self, ensemble: TreeEnsemble, threat: ThreatModel) -> Self:
        """Store what was grown, and forget an earlier search."""
        self._keep(ensemble, threat)
        if hasattr(self, "search_report_"):
            del self.search_report_
        return self

    def _read_options(self, task: Task, n_rows: int, *, in_memory: bool) -> tuple[Reach, GrowOptions]:
        """Return what the attacker may do to a table, and the parameters for it."""
        reach, n_classes = task.resolve(), len(task.classes)
        options = check_grow_options(self, n_rows, task.schema.n_features)
        options = replace(options, attacker=self._check_attacker(task.schema, task.sample_weight))
        options = replace(options, monotonic=self._read_monotonic(task.schema, n_classes))
        refuse_partial_hiding(task.threat, options.rho)
        return reach, replace(options, max_bins=self._choose_bins(task.schema, n_rows, in_memory=in_memory))

    def _check_attacker(self, schema: Schema, sample_weight: Any) -> str:
        """Return the attacker, or say why it cannot be had with the other parameters or this table."""
        attacker = check_choice("attacker", self.attacker, ATTACKERS)
        if attacker == "groot":
            return attacker
        if self.criterion == "error":
            raise ValueError(f"criterion='error': with attacker={quote(attacker)}, expected 'gini' or 'entropy'")
        if self.rho != 1.0:
            raise ValueError(f"rho={quote(self.rho)}: with attacker={quote(attacker)}, expected 1.0")
        refuse_categories(self, schema, "attacker")
        if attacker == "chen-greedy" and sample_weight is not None:
            raise ValueError("sample_weight: attacker='chen-greedy' moves whole rows; expected None")
        return attacker

    def _is_binned(self, X: Any) -> bool:
        """Say whether an array is certainly grown on bins, by a grower that widens it block by block."""
        if not isinstance(X, np.ndarray) or self.attacker != "groot" or self.refine is not None:
            return False
        return self.max_bins not in ("auto", "exact") or (self.max_bins == "auto" and len(X) > AUTO_ROWS)

    def _read_monotonic(self, schema: Schema, n_classes: int) -> np.ndarray | None:
        """Return which features are monotone, or say why they cannot be."""
        monotonic = read_monotonic(self.monotonic_cst, schema)
        if monotonic is None:
            return None
        if n_classes > 2:
            raise ValueError(f"monotonic_cst: for two classes only, and y has {n_classes}; leave it out")
        if self.attacker != "groot":
            raise ValueError(f"attacker={quote(self.attacker)}: with monotonic_cst, expected 'groot'")
        return monotonic

    def _choose_bins(self, schema: Schema, n_rows: int, *, in_memory: bool) -> int | None:
        """Return the most bins of a feature, None for the exact grower, or say why there cannot be bins."""
        max_bins = check_max_bins(self.max_bins)
        if max_bins == "exact":
            return None
        if max_bins == "auto":
            is_exact = not schema.accepts_missing and self.monotonic_cst is None
            can_bin = self.attacker == "groot" and n_rows > (AUTO_ROWS if is_exact else BINNED_ROWS)
            return MOST_BINS if can_bin or not in_memory else None
        if self.attacker != "groot":
            raise ValueError(
                f"max_bins={quote(max_bins)}: with attacker={quote(self.attacker)}, expected 'auto' or 'exact'"
            )
        return int(max_bins)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = tags.input_tags.allow_nan = not list_limits(self)
        return tags

    @property
    def feature_importances_(self) -> np.ndarray:
        """Each feature's share of the Gini impurity that the tree removes under attack."""
        check_is_fitted(self)
        tree = self.ensemble_
        impurity = tree.cover * (1.0 - (tree.value**2).sum(axis=1))
        inner = np.flatnonzero(tree.feature >= 0)
        decrease = impurity[inner] - impurity[tree.left[inner]] - impurity[tree.right[inner]]
        importance = np.bincount(tree.feature[inner], decrease, minlength=self.n_features_in_)
        return importance / importance.sum() if len(inner) else importance
