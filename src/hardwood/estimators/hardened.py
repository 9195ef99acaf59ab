"""Hardening: any tree ensemble, retrained on the examples that fool it."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from hardwood._kernels.compiling import working_time
from hardwood.attacks.nearest import METHODS, check_norm
from hardwood.convert import as_ensemble
from hardwood.ensemble import TreeEnsemble
from hardwood.estimators.fitted import keep_columns
from hardwood.estimators.parameters import check_choice, check_size
from hardwood.estimators.refusals import explaining_missing, refuse_hiding
from hardwood.progress import Progress, read_progress
from hardwood.quoting import quote, shortening
from hardwood.reals import check_count, read_generator
from hardwood.rows.targets import read_labels
from hardwood.table import Schema
from hardwood.threads import count_threads
from hardwood.threat import ThreatModel
from hardwood.verification.answers import FOUND
from hardwood.verification.ask import AskSettings, nearest
from hardwood.verification.question import check_method, check_time_limit, read_question
from hardwood.weights import choose_weight_unit, find_weighted, measure_all, read_weights


def _estimator_has(name: str) -> Callable[[Any], bool]:
    """Say whether the hardened estimator has a method: the fitted one, or the one it will be made from."""

    def check(self: Any) -> bool:
        getattr(getattr(self, "estimator_", self._base()), name)
        return True

    return check


class HardenedClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A tree ensemble hardened by rounds of attack and retraining.

    Each round attacks training rows within the threat model and adds the examples that were found, with the labels of
    their rows, to the training rows; then the estimator is fitted anew. Works with whatever :func:`as_ensemble` can
    read: hardwood's own estimators, scikit-learn's forests and boosting, XGBoost, LightGBM.

    Parameters
    ----------
    estimator : classifier or None, default=None
        What to harden; None: a random forest. Models of moderate size (shallow trees, a low learning rate) gain most:
        one that can wrap each example in a pocket of its own learns little from it.
    threat : ThreatModel, number, str, list, dict or None, default=None
        What the attacker may do to each feature, in the units of the table. None: nothing, so there is nothing to
        harden against.
    attacking_classes : label, list of labels or None, default=None
        Which classes move. None: those of the threat model, which are all if it does not say.
    method : {"lowest", "coordinate", "heuristic", "search", "milp"}, default="lowest"
        How examples are found, see :func:`attack`. "lowest": the worst ones, deep in the wrong class; they teach most.
        "coordinate": the approximate L0 attack. "heuristic": near ones. "search", "milp": the nearest, exactly. Near
        ones lie just across a threshold, and a model may learn no more from them than to move it.
    norm : {inf, 2, 1, 0}, default=inf
        How distance is measured, for methods that look for a near example.
    rounds : int, default=10
        How often to attack and retrain. Fewer, if a round finds no example.
    max_rows : int, float or None, default=None
        How many training rows (or what share of them) a round attacks, drawn at random; None: all.
    accumulate : bool, default=True
        Whether examples of earlier rounds are kept. Without them, later rounds forget what earlier ones taught.
    time_limit : float or None, default=1.0
        Seconds that an exact attack may take per row; see :func:`attack`.
    progress : callable, bool or None, default=None
        Called with (rounds done, rounds in all) after each round. True: a line on stderr.
    categorical_features : "from_dtype", list of names or indices, bool mask or None, default="from_dtype"
        Which columns are categorical.
    random_state : int, RandomState or None, default=None
        Draws the rows; handed to the estimator, too, if it takes one and has none of its own.
    n_jobs : int or None, default=None
        Threads of the attacks.

    Attributes
    ----------
    estimator_ : classifier
        The estimator of the last round.
    ensemble_ : TreeEnsemble
        The same, as hardwood reads it.
    history_ : list of dict
        For each round: `attacked`, how many rows; `correct`, how many of them the model got right; `vulnerable`, how
        many of those an example was found for; `examples`, how many examples there are in training after it; `seconds`,
        how long it took, without what was compiled for it.
    classes_ : ndarray
        The class labels.
    threat_ : ThreatModel
        The threat model.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, if the table has them.

    References
    ----------
    A. Kantchelian, J. D. Tygar and A. D. Joseph, "Evasion and Hardening of Tree Ensemble Classifiers", ICML 2016.

    Examples
    --------
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> from hardwood import HardenedClassifier, adversarial_accuracy, load_dataset
    >>> table = load_dataset("diabetes")
    >>> natural = GradientBoostingClassifier(n_estimators=20, random_state=0).fit(table.data[::2], table.target[::2])
    >>> model = HardenedClassifier(natural, threat=2.0, rounds=5).fit(table.data[::2], table.target[::2])
    >>> before = adversarial_accuracy(natural, table.data[1::2], table.target[1::2], threat=2.0)
    >>> adversarial_accuracy(model, table.data[1::2], table.target[1::2], threat=2.0) > before + 0.1
    True
    """

    estimator_: Any
    ensemble_: TreeEnsemble
    history_: list[dict[str, Any]]
    classes_: np.ndarray
    threat_: ThreatModel

    def __init__(
        self,
        estimator: Any = None,
        threat: Any = None,
        *,
        attacking_classes: Any = None,
        method: str = "lowest",
        norm: float = np.inf,
        rounds: int = 10,
        max_rows: int | float | None = None,
        accumulate: bool = True,
        time_limit: float | None = 1.0,
        progress: Progress | bool | None = None,
        categorical_features: Any = "from_dtype",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.threat = threat
        self.attacking_classes = attacking_classes
        self.method = method
        self.norm = norm
        self.rounds = rounds
        self.max_rows = max_rows
        self.accumulate = accumulate
        self.time_limit = time_limit
        self.progress = progress
        self.categorical_features = categorical_features
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the estimator, then attack it and fit it anew, round by round.

        Parameters
        ----------
        X : DataFrame (pandas, polars) or array-like of shape (n_samples, n_features)
            In the units the threat model speaks of.
        y : array-like of shape (n_samples,)
            Labels, of a kind that the estimator takes.
        sample_weight : array-like of shape (n_samples,) or None
            For estimators that take weights. An example weighs as much as its row.

        Returns
        -------
        self
        """
        threat, base = ThreatModel.coerce(self.threat, self.attacking_classes), self._base()
        with explaining_missing(base):
            accepts_missing = bool(get_tags(base).input_tags.allow_nan)
            schema = threat.extend(Schema.from_table(X, self.categorical_features, accepts_missing=accepts_missing))
            matrix = schema.encode(X)
        refuse_hiding(base, threat)
        labels = read_labels(y, len(matrix))
        classes = np.unique(labels)
        threat = threat.settle(X, matrix, schema)
        # Refuses what does not suit the table, before anything is fitted.
        (threat.price if threat.rules else threat.resolve)(schema, classes)
        self._check_parameters()
        n_attacked = len(matrix) if self.max_rows is None else check_size("max_rows", self.max_rows, 1, len(matrix))
        random = read_generator(self.random_state)
        self._seed(base, random)
        training = _Training(X, schema, matrix, labels, _read_weight(sample_weight, matrix, base))
        model = training.fit(base)
        history: list[dict[str, Any]] = []
        report = read_progress(self.progress)
        for done in range(1, self.rounds + 1):
            start = working_time()
            rows = np.sort(random.permutation(len(matrix))[:n_attacked])
            counts = self._attack(model, training, rows, threat)
            if counts["vulnerable"]:
                model = training.fit(base)
            history.append(counts | {"seconds": working_time() - start})
            if report is not None:
                report(done, self.rounds)
            if not counts["vulnerable"]:
                break
        ensemble = as_ensemble(model)
        self.estimator_, self.ensemble_, self.history_ = model, ensemble, history
        self.classes_, self.threat_, self._schema = classes, threat, schema
        keep_columns(self, schema)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted class label of every row."""
        table = self._table(X)
        return np.asarray(self.estimator_.predict(table))

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return class probabilities, if the estimator has them."""
        table = self._table(X)
        return np.asarray(self.estimator_.predict_proba(table))

    @available_if(_estimator_has("decision_function"))
    def decision_function(self, X: Any) -> np.ndarray:
        """Return the decision function, if the estimator has one."""
        table = self._table(X)
        return np.asarray(self.estimator_.decision_function(table))

    def _attack(self, model: Any, training: "_Training", rows: np.ndarray, threat: ThreatModel) -> dict[str, int]:
        """Attack some training rows, add the examples found, and count."""
        labels = training.labels[rows]
        question = read_question(model, training.table(training.matrix[rows]), labels, threat)
        check_method(self.method, question, METHODS)
        settings = AskSettings(self.method, check_time_limit(self.time_limit), count_threads(self.n_jobs))
        ensemble, matrix, class_index, reach = question.ensemble, question.matrix, question.class_index, question.reach
        weight = np.ones(ensemble.schema.n_features)
        answers = nearest(ensemble, matrix, class_index, reach, self.norm, weight, settings)
        if answers.interrupted:
            raise KeyboardInterrupt
        is_found = answers.status == FOUND
        found = rows[is_found]
        examples, before = training.matrix[:0], training.matrix[found]
        if len(found):
            # The model may number categories in another way than the training table.
            table = _as_table(question.X, ensemble.schema, answers.example[is_found])
            examples = training.schema.encode(table)
        # A row that is wrong as it stands is its own example, and is in training already.
        new = ((examples != before) & ~np.isnan(before)).any(axis=1)
        training.add(found[new], examples[new], keep=self.accumulate)
        return {
            "attacked": len(rows),
            "correct": len(rows) - int((~new).sum()),
            "vulnerable": int(new.sum()),
            "examples": len(training.source),
        }

    def _base(self) -> Any:
        """Return the estimator to be fitted."""
        from sklearn.ensemble import RandomForestClassifier  # slow to import, and trees do without

        return clone(RandomForestClassifier() if self.estimator is None else self.estimator)

    def _seed(self, base: Any, random: Any) -> None:
        """Give the estimator a seed, if it takes one and has none of its own."""
        if self.random_state is not None and base.get_params().get("random_state", 0) is None:
            base.set_params(random_state=random.randint(np.iinfo(np.int32).max))

    def _check_parameters(self) -> None:
        check_norm(self.norm)
        check_time_limit(self.time_limit)
        check_choice("method", self.method, METHODS)
        check_count("rounds", self.rounds, 1)
        if not isinstance(self.accumulate, (bool, np.bool_)):
            raise ValueError(f"accumulate={quote(self.accumulate)}: expected True or False")

    def _table(self, X: Any) -> Any:
        """Return a table as the estimator was given it in training."""
        check_is_fitted(self)
        if not isinstance(X, np.ndarray) or X.ndim == 2:  # what is no table is refused by the schema
            with shortening():
                validate_data(self, X, reset=False, skip_check_array=True)
        return _as_table(X, self._schema, self._schema.encode(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        base = get_tags(self._base())
        tags.classifier_tags.multi_class = base.classifier_tags.multi_class
        tags.input_tags.allow_nan = base.input_tags.allow_nan
        tags.input_tags.categorical = True
        return tags


class _Training:
    """The training rows, and the examples that have been added to them."""

    def __init__(self, X: Any, schema: Schema, matrix: np.ndarray, labels: np.ndarray, weight: np.ndarray | None):
        self.X = X
        self.schema = schema
        self.matrix = matrix
        self.labels = labels
        self.weight = weight
        self.source = np.empty(0, dtype=np.intp)  # the row of each example
        self.examples = matrix[:0]

    def table(self, matrix: np.ndarray) -> Any:
        """Return encoded rows as a table of the kind that was given."""
        return _as_table(self.X, self.schema, matrix)

    def add(self, source: np.ndarray, examples: np.ndarray, *, keep: bool) -> None:
        """Add examples to those there are, or put them in their place."""
        self.source = np.concatenate([self.source, source]) if keep else source
        self.examples = np.concatenate([self.examples, examples]) if keep else examples

    def fit(self, base: Any) -> Any:
        """Fit a copy of an estimator."""
        rows = np.concatenate([np.arange(len(self.matrix)), self.source])
        table = self.table(np.concatenate([self.matrix, self.examples]))
        weights = {} if self.weight is None else {"sample_weight": self.weight[rows]}
        return clone(base).fit(table, self.labels[rows], **weights)


def _as_table(X: Any, schema: Schema, matrix: np.ndarray) -> Any:
    """Return encoded rows as a table that an estimator takes which is to know categories by their type."""
    is_plain = not hasattr(X, "columns") and not schema.categorical
    return matrix if is_plain else schema.decode(matrix)


def _read_weight(sample_weight: Any, matrix: np.ndarray, base: Any) -> np.ndarray | None:
    if sample_weight is None:
        return None
    if not has_fit_parameter(base, "sample_weight"):
        raise ValueError(f"sample_weight: {type(base).__name__}.fit does not take weights")
    weight = read_weights(sample_weight, len(matrix))
    kept = find_weighted(weight)
    return weight / choose_weight_unit(measure_all(weight[kept]), None, "sample_weight")
