"""TREANT as a scikit-learn classifier."""

from typing import Any, Self

from sklearn.base import BaseEstimator, ClassifierMixin

from hardwood.estimators.fitted import FittedTree
from hardwood.estimators.parameters import check_treant_options
from hardwood.estimators.target import read_problem
from hardwood.grow.treant import grow_treant
from hardwood.rows.sources import open_table
from hardwood.table.likeness import find_whole_columns
from hardwood.threat import ThreatModel


class TreantClassifier(FittedTree, ClassifierMixin, BaseEstimator):
    """A decision tree that minimises its loss under attack, by TREANT (Calzavara et al.), in closed form.

    Takes attackers with rules and a budget as well as those with a reach. Every split gets the two leaf values that
    minimise the loss once each row that can go either way has gone the worse way, and no later split may change which
    way that is (attack invariance). Choose it where what an attacker does has a price; :class:`RobustTreeClassifier` is
    faster and takes larger tables where it does not.

    Parameters
    ----------
    threat : ThreatModel, number, str, list, dict or None, default=None
        What the attacker may do; see :class:`ThreatModel` for every spelling, and for rules with a budget.
    attacking_classes : label, list of labels or None, default=None
        Which classes move. None: those of the threat model, which are all if it does not say.
    loss : {"squared", "log"}, default="squared"
        Squared error or logarithmic loss of the predicted probability.
    thresholds : {"values", "midway"}, default="values"
        Where a number may be split: at the values of the table, as TREANT does, or midway between the values at which
        the choices of a row change, as :class:`RobustTreeClassifier` does. The latter is the better choice for whole
        numbers: a row that sits on a threshold crosses it by however small a step.
    max_depth : int or None, default=None
        No limit if None.
    min_samples_split : int or float, default=2
        How many rows (or what share of them) a node needs to be split.
    min_samples_leaf : int or float, default=1
        How many rows each child needs after the attacker has moved them.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class.
    categorical_features : "from_dtype", list of names or indices, bool mask or None, default="from_dtype"
        Which columns are categorical. "from_dtype": those with a pandas `category` or polars `Categorical`/`Enum` type.
    n_jobs : int or None, default=None
        Threads over the features. The tree does not depend on it.

    Attributes
    ----------
    ensemble_ : TreeEnsemble
        The tree itself.
    classes_ : ndarray of shape (2,)
        The class labels.
    threat_ : ThreatModel
        The threat model the tree was grown against.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, if the table has them.

    Notes
    -----
    *No solver.* The constraints of attack invariance speak of the loss of single rows. For two classes a row's loss
    grows or falls with the predicted probability, so that each constraint is a bound on a leaf value, and the best
    value within bounds is the share of the second class, or the bound nearest to it. `hardwood._kernels.grow.treant`
    has the argument.

    *What differs from the original.* Costs are exact: what a row pays is the least cost of all that its leaf asks for,
    and a feature that is asked about twice is paid for once. Values that differ by rounding only count as equal. Both
    children of a split get at least one row.

    *Nothing is random.* There is no `random_state`.

    References
    ----------
    S. Calzavara, C. Lucchese, G. Tolomei, S. A. Abebe and S. Orlando, "TREANT: training evasion-aware decision
    trees", Data Mining and Knowledge Discovery 34, 2020.

    Examples
    --------
    >>> from hardwood import AttackRule, ThreatModel, TreantClassifier, adversarial_accuracy, load_dataset
    >>> table = load_dataset("banknote-authentication")
    >>> rules = [AttackRule(j, add=step) for j in range(4) for step in (-0.5, 0.5)]
    >>> threat = ThreatModel(rules=rules, budget=2)
    >>> model = TreantClassifier(threat, max_depth=4).fit(table.data, table.target)
    >>> adversarial_accuracy(model, table.data, table.target, threat) > 0.7
    True
    """

    def __init__(
        self,
        threat: Any = None,
        *,
        attacking_classes: Any = None,
        loss: str = "squared",
        thresholds: str = "values",
        max_depth: int | None = None,
        min_samples_split: int | float = 2,
        min_samples_leaf: int | float = 1,
        class_weight: Any = None,
        categorical_features: Any = "from_dtype",
        n_jobs: int | None = None,
    ) -> None:
        self.threat = threat
        self.attacking_classes = attacking_classes
        self.loss = loss
        self.thresholds = thresholds
        self.max_depth = max_depth
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.class_weight = class_weight
        self.categorical_features = categorical_features
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grow the tree.

        Parameters
        ----------
        X : DataFrame (pandas, polars) or array-like of shape (n_samples, n_features)
            In the units the threat model speaks of; nothing has to be scaled.
        y : array-like of shape (n_samples,)
            Labels of two classes.
        sample_weight : array-like of shape (n_samples,) or None
            A weight of 2 counts as the row twice, a weight of 0 as no row.

        Returns
        -------
        self
        """
        source, threat = open_table(X, y, sample_weight), ThreatModel.coerce(self.threat, self.attacking_classes)
        if threat.whole_numbers == "from_dtype" and not threat.rules and find_whole_columns(source.X):
            threat = threat.replace(whole_numbers=None)  # whole numbers are moved by parts, unless it says which are
        problem = read_problem(self, source, y, sample_weight, threat=threat)
        reach = problem.threat.price(problem.schema, problem.classes)
        options = check_treant_options(self, len(problem.X))
        return self._keep(grow_treant(problem, reach, options), problem.threat)
