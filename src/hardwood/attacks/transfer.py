"""Transfer attacks: examples that fool a model of one's own, tried on another."""

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from hardwood.attacks.black_box import Target
from hardwood.attacks.nearest import METHODS, check_norm
from hardwood.quoting import quote
from hardwood.reals import read_seed
from hardwood.results import AttackResult
from hardwood.threads import count_threads
from hardwood.threat import ThreatModel
from hardwood.verification.answers import FOUND
from hardwood.verification.ask import AskSettings, nearest
from hardwood.verification.question import check_method, read_question

# Predictions spent on bringing an example nearer: each halves the stretch between it and the row.
HALVINGS = 10


def transfer_attack(
    model: Any,
    X: Any,
    y: Any = None,
    threat: Any = None,
    *,
    surrogate: Any = None,
    X_surrogate: Any = None,
    method: str = "lowest",
    norm: float = np.inf,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> AttackResult:
    """Attack any classifier through a tree model that was trained to predict as it does.

    The attacker has rows, asks the model for their classes, trains a surrogate on the answers, attacks the surrogate,
    and tries the examples on the model. An example that works is then moved back towards its row as far as it keeps
    working, by halving the stretch. Each row costs a dozen predictions of the model.

    Parameters
    ----------
    model : fitted classifier
        Anything with ``predict``; it need not be a tree model.
    X : table of shape (n_samples, n_features)
        Numerical columns only.
    y : array-like of labels, or None
        None: the model's own predictions.
    threat : ThreatModel or any of its spellings, or None
        None: anywhere.
    surrogate : classifier or None, default=None
        A tree model of any kind that :func:`as_ensemble` takes. If it is not fitted, it is fitted on `X_surrogate` and
        the model's predictions there. None: a random forest.
    X_surrogate : table or None, default=None
        The rows that the attacker has; None: `X`.
    method : {"lowest", "heuristic", "coordinate", "search"}, default="lowest"
        How the surrogate is attacked, see :func:`attack`. Examples that are deep in the wrong class transfer best.
    norm : {inf, 2, 1, 0}, default=inf
        How distance is measured.
    random_state : int, RandomState or None, default=None
        For the surrogate, if it takes one and has none of its own.
    n_jobs : int or None, default=None
        Threads of the attack on the surrogate.

    Returns
    -------
    AttackResult
        Only examples that the model itself gets wrong. `lower` is 0: nothing is proved.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from hardwood import load_dataset, transfer_attack
    >>> table = load_dataset("banknote-authentication")
    >>> model = LogisticRegression(max_iter=1000).fit(table.data, table.target)
    >>> result = transfer_attack(model, table.data[:100], threat=2.0, X_surrogate=table.data, random_state=0)
    >>> bool(result.found.mean() > 0.5)
    True
    """
    if not isinstance(method, str) or method not in METHODS:
        raise ValueError(f"method={quote(method)}: expected one of {', '.join(map(repr, METHODS))}")
    check_norm(norm)
    target = Target(model, X, y, threat)
    fitted = _fit_surrogate(surrogate, model, X if X_surrogate is None else X_surrogate, random_state)
    known = np.isin(target.classes[target.class_index], fitted.classes_)
    rows = np.flatnonzero(known & ~target.is_wrong & target.reach.attacks[target.class_index])
    examples = np.where(target.is_wrong[:, None], target.matrix, np.nan)
    found = target.is_wrong.copy()
    if len(rows):
        labels = target.classes[target.class_index[rows]]
        question = read_question(fitted, target.table(target.matrix[rows]), labels, _leave_out(target.threat, fitted))
        check_method(method, question, METHODS)
        settings = AskSettings(method, n_threads=count_threads(n_jobs))
        weight = np.ones(target.schema.n_features)
        ensemble, matrix, class_index, reach = question.ensemble, question.matrix, question.class_index, question.reach
        answers = nearest(ensemble, matrix, class_index, reach, norm, weight, settings)
        if answers.interrupted:
            raise KeyboardInterrupt
        fooled = answers.status == FOUND
        rows, points = _try(target, rows[fooled], answers.example[fooled])
        found[rows] = True
        examples[rows] = _approach(target, rows, points)
    return target.result(found, examples, norm)


def _fit_surrogate(surrogate: Any, model: Any, X: Any, random_state: Any) -> Any:
    """Return the surrogate, trained to predict what the model predicts unless it has been trained already."""
    if surrogate is not None:
        try:
            check_is_fitted(surrogate)
        except NotFittedError:
            surrogate = clone(surrogate)
        else:
            return surrogate
    from sklearn.ensemble import RandomForestClassifier  # slow to import, and other attacks do without

    base = RandomForestClassifier() if surrogate is None else surrogate
    if base.get_params().get("random_state", 0) is None:
        base.set_params(random_state=read_seed(random_state))
    predicted = np.asarray(model.predict(X))
    if len(np.unique(predicted)) < 2:
        raise ValueError(
            f"X_surrogate: the model gives all {len(predicted)} rows the class {quote(predicted[:1].tolist()[0])}; "
            "a surrogate needs rows of at least two"
        )
    return base.fit(X, predicted)


def _leave_out(threat: ThreatModel, surrogate: Any) -> ThreatModel:
    """Return the attacker as far as the classes go that the surrogate knows: it may not have seen them all."""
    known = surrogate.classes_.tolist()
    classes = threat.attacking_classes
    if classes is None:
        return threat
    if isinstance(classes, dict):
        wanted = {own: [label for label in labels if label in known] for own, labels in classes.items() if own in known}
        return threat.replace(attacking_classes={own: labels for own, labels in wanted.items() if labels})
    return threat.replace(attacking_classes=[label for label in classes if label in known])


def _try(target: Target, rows: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keep the points that the model itself gives another class."""
    if not len(rows):
        return rows, points
    works = target.finds(rows, target.predict(points))
    return rows[works], points[works]


def _approach(target: Target, rows: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Move examples towards their rows, by halving."""
    origin, best = target.matrix[rows], points
    low, high = np.zeros((len(rows), 1)), np.ones((len(rows), 1))
    for _ in range(HALVINGS if len(rows) else 0):
        middle = 0.5 * (low + high)
        # Between two points of a box rounding may step out of it by a bit.
        trial = np.clip(origin + middle * (points - origin), np.minimum(origin, points), np.maximum(origin, points))
        trial = target.round_off(trial, rows)
        works = target.finds(rows, target.predict(trial))[:, None]
        best, low, high = np.where(works, trial, best), np.where(works, low, middle), np.where(works, middle, high)
    return best
