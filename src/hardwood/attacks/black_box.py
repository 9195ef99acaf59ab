"""Attacks that only ask the model for its predictions, by the Adversarial Robustness Toolbox."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from hardwood.extras import explain_missing
from hardwood.quoting import quote
from hardwood.reals import check_count, read_generator
from hardwood.results import AttackResult
from hardwood.table import Schema
from hardwood.table.likeness import decode_like
from hardwood.threat import Reach, ThreatModel
from hardwood.verification.distance import measure
from hardwood.verification.examples import restore
from hardwood.verification.folding import Folding
from hardwood.verification.question import read_class_index

METHODS = ("hopskipjump", "boundary")
NORMS = (np.inf, 2)
# How many points are tried to find a first example, which the attack then brings nearer.
DRAWS = 100


def black_box_attack(
    model: Any,
    X: Any,
    y: Any = None,
    threat: Any = None,
    *,
    method: str = "hopskipjump",
    norm: float = np.inf,
    max_queries: int = 2000,
    random_state: Any = None,
) -> AttackResult:
    """Look for adversarial examples of any classifier by asking it for predictions, as an outsider would.

    Needs the Adversarial Robustness Toolbox: ``pip install adversarial-robustness-toolbox``. For tree models
    :func:`attack` knows more and finds more; this shows how far an attacker gets who does not know the model.

    Parameters
    ----------
    model : fitted classifier
        Anything with ``predict``; it need not be a tree model.
    X : table of shape (n_samples, n_features)
        Numerical columns only.
    y : array-like of labels, or None
        None: the model's own predictions.
    threat : ThreatModel or any of its spellings, or None
        None: anywhere. Where there is no limit, the attack stays within the range of the column in `X`.
    method : {"hopskipjump", "boundary"}, default="hopskipjump"
        HopSkipJump (Chen et al., 2020) or the boundary attack (Brendel et al., 2018).
    norm : {inf, 2}, default=inf
        How distance is measured. The boundary attack takes its steps by L2, whatever this says.
    max_queries : int, default=2000
        How many predictions the attack of a row may ask for.
    random_state : int, RandomState or None, default=None

    Returns
    -------
    AttackResult
        For each row the nearest example among all points that the attack asked about. `lower` is 0: nothing is proved.

    Notes
    -----
    The attack works in coordinates in which the row's reach is the unit cube, so steps suit features of any scale, and
    no point that is out of reach is ever asked about.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from hardwood import black_box_attack
    >>> model = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> black_box_attack(model, [[1.0]], [0], threat=1.0, random_state=0).found  # doctest: +SKIP
    array([ True])
    """
    toolbox = _load_toolbox()
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"method={quote(method)}: expected one of {', '.join(map(repr, METHODS))}")
    if not isinstance(norm, (int, float)) or norm not in NORMS:
        raise ValueError(f"norm={quote(norm)}: expected inf or 2")
    max_queries = check_count("max_queries", max_queries, 1)
    target = Target(model, X, y, threat)
    generator = read_generator(random_state)
    examples = np.where(target.is_wrong[:, None], target.matrix, np.nan)
    found = target.is_wrong.copy()
    for row in np.flatnonzero(~target.is_wrong & target.reach.attacks[target.class_index]).tolist():
        query_attack = _QueryAttack(target, row, norm, max_queries)
        if len(query_attack.movable):
            _run(toolbox, method, norm, query_attack, int(generator.randint(np.iinfo(np.int32).max)))
        if query_attack.best is not None:
            found[row], examples[row] = True, query_attack.best
    return target.result(found, examples, norm)


class Target:
    """A model that can only be asked for predictions, and the rows to be attacked."""

    def __init__(self, model: Any, X: Any, y: Any, threat: Any) -> None:
        if not callable(getattr(model, "predict", None)):
            raise TypeError(f"model: a {type(model).__name__} has no predict method")
        self.model = model
        self.X = X
        self.schema = Schema.from_table(X)
        for j, labels in enumerate(self.schema.categories):
            if labels is not None:
                raise ValueError(
                    f"X: column {quote(self.schema.key(j))} is categorical; these attacks move numbers only"
                )
        self.matrix = self.schema.encode(X)
        predicted = np.asarray(model.predict(X))
        self.classes = np.asarray(getattr(model, "classes_", np.unique(predicted)))
        self.class_index = read_class_index(predicted if y is None else y, self.classes, len(self.matrix))
        self.is_wrong = self.classes[self.class_index] != predicted
        words = ThreatModel.coerce("<>" if threat is None else threat)
        self.threat = words.settle(X, self.matrix, self.schema)
        # Whether the model takes missing values only it knows; these attacks move numbers.
        self.reach: Reach = self.threat.resolve(replace(self.schema, accepts_missing=True), self.classes)
        low, high = self.reach.box(self.matrix, self.class_index)
        # Without a limit: the range of the column, to the side that is open.
        self.low = np.where(np.isfinite(low), low, np.minimum(self.matrix, self.matrix.min(axis=0)))
        self.high = np.where(np.isfinite(high), high, np.maximum(self.matrix, self.matrix.max(axis=0)))

    def table(self, matrix: np.ndarray) -> Any:
        """Return encoded rows as a table of the kind that was given."""
        return decode_like(self.schema, matrix, self.X)

    def round_off(self, points: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return points of the boxes of rows as values that exist.

        Whole where the attacker moves whole numbers, the ends of reach are; and of every one-hot group one column.
        """
        if self.reach.groups is not None:
            self.reach.groups.round_off(points, self.matrix[rows], self.reach.attacks[self.class_index[rows]])
        return points if self.reach.whole is None else np.where(self.reach.whole, np.rint(points), points)

    def measure(self, points: np.ndarray, rows: np.ndarray, norm: float) -> np.ndarray:
        """Return how far points are from their rows."""
        before, after, schema = self.matrix[rows], points, self.schema
        if self.reach.groups is not None:
            folding = Folding(schema.n_features, self.reach.groups)
            before, after, schema = folding.fold_rows(before), folding.fold_rows(after), folding.fold_schema(schema)
        return measure(after, before, schema, norm, np.ones(schema.n_features))

    def predict(self, matrix: np.ndarray) -> np.ndarray:
        """Return the labels that the model gives to encoded rows."""
        return np.asarray(self.model.predict(self.table(matrix)))

    def result(self, found: np.ndarray, examples: np.ndarray, norm: float) -> AttackResult:
        """Check every example once more, and measure it."""
        rows = np.flatnonzero(found)
        lost = rows[~self.is_fooled(rows, examples[rows])]
        if len(lost):
            warnings.warn(
                f"the examples of {len(lost)} rows, the first of them row {lost[0]}, fool the model no longer and are "
                "left out: does it always answer alike?",
                RuntimeWarning,
                stacklevel=2,
            )
            found[lost], examples[lost], rows = False, np.nan, np.setdiff1d(rows, lost)
        distance = np.full(len(examples), np.inf)
        distance[found] = self.measure(examples[found], rows, norm)
        return AttackResult(
            found=found,
            was_wrong=self.is_wrong,
            X_adv=restore(self.schema, self.X, self.matrix, examples, self.is_fooled),
            distance=distance,
            lower=np.zeros(len(examples)),
        )

    def is_fooled(self, rows: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Say of each point whether its row can be moved there and the model gives it another class."""
        if not len(rows):
            return np.ones(0, dtype=bool)
        own = self.class_index[rows]
        inside = self.reach.contains(self.matrix[rows], points, own)
        return inside & self.finds(rows, self.predict(points))

    def finds(self, rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Say of rows that are given these labels whether the attacker wants that, or they were wrong before."""
        own = self.class_index[rows]
        differs = labels != self.classes[own]
        if self.reach.targets is None:
            return np.asarray(differs)
        wanted = self.reach.targets[own] & (self.classes[None] == labels[:, None])
        return np.asarray(wanted.any(axis=1) | (differs & self.is_wrong[rows]))


class _OutOfQueriesError(Exception):
    """The attack has asked as often as it may."""


class _QueryAttack:
    """The attack of one row: answers what the toolbox asks, counts, and remembers the nearest example."""

    def __init__(self, target: Target, row: int, norm: float, max_queries: int) -> None:
        self.target = target
        self.norm = norm
        self.left = max_queries
        self.position = row
        self.row = target.matrix[row]
        self.class_index = target.class_index[row]
        self.low, self.high = target.low[row], target.high[row]
        self.movable = np.flatnonzero(self.low < self.high)
        self.best: np.ndarray | None = None
        self._distance = np.inf

    def in_cube(self, point: np.ndarray) -> np.ndarray:
        """Return a point within reach as a point of the unit cube, in a table of one row."""
        low, high = self.low[self.movable], self.high[self.movable]
        return ((point[self.movable] - low) / (high - low))[None].astype(np.float32)

    def answer(self, cube: np.ndarray) -> np.ndarray:
        """Predict points of the unit cube, as a column per class."""
        points = np.tile(self.row, (len(cube), 1))
        low, high = self.low[self.movable], self.high[self.movable]
        share = np.asarray(cube, dtype=np.float64)
        points[:, self.movable] = np.clip(low + share * (high - low), low, high)
        points = self.target.round_off(points, np.full(len(points), self.position))[: self.left]
        if not len(points):
            raise _OutOfQueriesError
        self.left -= len(points)
        predicted = self.target.predict(points)
        reach, rows = self.target.reach, np.tile(self.row, (len(points), 1))
        if reach.budget is not None or reach.relations is not None:  # what is beyond them is no example
            is_example = reach.affords(rows, points)
            if reach.relations is not None:
                is_example &= reach.relations.are_kept(rows, points)
            predicted = np.where(is_example, predicted, self.target.classes[self.class_index])
        if reach.targets is not None:  # nor is what the attacker does not want
            wanted = self.target.finds(np.full(len(points), self.position), predicted)
            predicted = np.where(wanted, predicted, self.target.classes[self.class_index])
        self._remember(points[predicted != self.target.classes[self.class_index]])
        if len(points) < len(cube):
            raise _OutOfQueriesError
        return (predicted[:, None] == self.target.classes).astype(np.float32)

    def _remember(self, examples: np.ndarray) -> None:
        if len(examples):
            distance = self.target.measure(examples, np.full(len(examples), self.position), self.norm)
            nearest = int(distance.argmin())
            if distance[nearest] < self._distance:
                self.best, self._distance = examples[nearest], float(distance[nearest])


def _load_toolbox() -> ModuleType:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about deep learning frameworks that are not installed
            import art.attacks.evasion
            import art.estimators.classification
    except ImportError:
        raise ImportError(explain_missing("a black-box attack by the Adversarial Robustness Toolbox", "art")) from None
    return art


def _run(toolbox: ModuleType, method: str, norm: float, query_attack: _QueryAttack, seed: int) -> None:
    """Let the toolbox ask until it is done or out of queries; the query attack remembers the nearest example.

    The first example is drawn here: the toolbox would draw it from a generator that cannot be seeded.
    """
    classifier = toolbox.estimators.classification.BlackBoxClassifier(
        query_attack.answer, (len(query_attack.movable),), len(query_attack.target.classes), clip_values=(0.0, 1.0)
    )
    evasion = toolbox.attacks.evasion
    attacks: dict[str, Callable[[], Any]] = {
        "hopskipjump": lambda: evasion.HopSkipJump(classifier, norm=norm, max_iter=100, max_eval=1000, verbose=False),
        "boundary": lambda: evasion.BoundaryAttack(classifier, targeted=False, verbose=False),
    }
    before = np.random.get_state()  # noqa: NPY002 - the toolbox draws from the global generator
    np.random.seed(seed)  # noqa: NPY002
    try:
        draws = np.random.random((DRAWS, len(query_attack.movable)))  # noqa: NPY002
        draws[::2] = draws[::2] > 0.5  # corners: as far as the attacker can go
        query_attack.answer(draws)
        if query_attack.best is not None:
            attacks[method]().generate(
                query_attack.in_cube(query_attack.row), x_adv_init=query_attack.in_cube(query_attack.best)
            )
    except _OutOfQueriesError:
        pass
    finally:
        np.random.set_state(before)  # noqa: NPY002
