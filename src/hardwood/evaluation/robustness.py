"""`evaluate`: how a model fares with and without an attacker, and what any model could hope for."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from hardwood.convert import read_rows
from hardwood.evaluation.ceiling import Budget, find_ceilings
from hardwood.evaluation.detection import find_roc_auc, read_positive_class, set_threshold
from hardwood.evaluation.regression import evaluate_regression
from hardwood.evaluation.streamed import evaluate_stream
from hardwood.evaluation.timing import timed
from hardwood.progress import Progress, read_progress
from hardwood.quoting import quote
from hardwood.reals import read_reals
from hardwood.results import RobustnessReport
from hardwood.rows.refusals import refuse_beside_stream
from hardwood.table.batches import Stream
from hardwood.table.likeness import is_frame, is_polars
from hardwood.threads import count_threads
from hardwood.verification.answers import FOUND, NONE
from hardwood.verification.ask import AskSettings, decide, nearest
from hardwood.verification.question import Question, check_time_limit, read_question

# What is known of a row at an epsilon: the status of an answer, or that nobody has asked.
OPEN = -1


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    threat: Any,
    *,
    epsilons: Any = None,
    ceiling: bool = True,
    ceiling_time_limit: float | None = 60.0,
    distances: bool = False,
    positive_class: Any = None,
    decision_threshold: float | None = None,
    time_limit: float | None = 1.0,
    n_jobs: int | None = None,
    progress: Progress | bool | None = None,
) -> Any:
    """Measure a model on some rows: accuracy, adversarial accuracy, and what to compare them with.

    Of a regression the errors are measured: as rows stand, under attack, and of the best constant.

    A model that always says the same is perfectly robust, so its accuracy is reported beside: the model is worth
    something if it does better. And no model can be right about two rows of different classes that the attacker can
    move onto one point, which gives a ceiling that holds for every model.

    Parameters
    ----------
    model : fitted tree model
        Anything :func:`as_ensemble` takes: hardwood's own, scikit-learn's, XGBoost's, LightGBM's, or a saved model.
    X : table of shape (n_samples, n_features), or a stream
        See :func:`hardwood.stream`; it brings labels with it, and `y` is None. The report then has neither a ceiling
        nor an area under the ROC curve, which take all rows at once.
    y : array-like of labels, or of numbers for a regression
    threat : ThreatModel or any of its spellings
    epsilons : array-like of numbers >= 0, or None
        Also measure under these multiples of the threat model, as :meth:`ThreatModel.scaled` has them: distances are
        multiplied; what has no size, moves without limit and changes of category, is as it is from the smallest
        epsilon above 0 on. With 2 an attacker may move everything twice as far. None: the threat model as it stands.
    ceiling : bool, default=True
        Whether to work out the ceiling. With two classes it is exact: some classifier attains it on these rows. With
        more it is an upper bound. There is none for attackers with rules, or who want certain classes. With a budget
        over columns (`max_changes`, `radius`) it is exact where one class attacks, where columns are counted, or where
        no column that is measured is whole or categorical; otherwise, and where both classes attack under relations
        between columns, an upper bound, and `RobustnessReport.ceilings_lower` says how low it might be.
    ceiling_time_limit : float or None, default=60.0
        Seconds for the ceiling, all epsilons together; None: no limit. If they are not enough, what the report gives is
        still a ceiling, though not the lowest, and `RobustnessReport.ceilings_lower` says how low it might be.
    distances : bool, default=False
        Whether to find the nearest adversarial example of every row: the smallest change, in the units of the table
        and in the feature that is changed most (L-infinity), with which an attacker gets past the model who may change
        what the threat model says, but without limit, though no more columns than `max_changes`. For an attacker with
        rules: what the cheapest example within the budget costs. Takes several times as long as the rest.
    positive_class : label or None, default=None
        The class to be detected, such as fraud. The report then also gives precision, recall, the rate of false alarms
        and, for models of two classes, the area under the ROC curve, as things stand and under attack.
    decision_threshold : float or None, default=None
        Give the alarm where the probability of the positive class is above this, for a model of two classes; everything
        in the report is then about this decision. None: the model's own.
    time_limit : float or None, default=1.0
        Seconds per row and epsilon; None: no limit. What is not decided by then is unknown: shares become intervals.
    n_jobs : int or None, default=None
        Threads over rows.
    progress : callable, bool or None
        Called with (steps done, steps in all) as the work goes on. The ceiling, the search and the distances follow
        each other, and each counts its own steps. Of a stream, its rows are counted; rows in all are 0 if the source
        does not know. True: a line on stderr.

    Returns
    -------
    RobustnessReport, or RegressionReport for a regression
        If interrupted (Ctrl-C) on the way, with what had been decided by then.

    Examples
    --------
    >>> from hardwood import RobustTreeClassifier, evaluate
    >>> X, y = [[0.0], [1.0], [2.0], [6.0], [7.0]], ["no", "no", "no", "yes", "yes"]
    >>> report = evaluate(RobustTreeClassifier(2.0).fit(X, y), X, y, threat=2.0)
    >>> report.accuracy, report.adversarial_accuracy, report.constant_accuracy, report.ceiling
    (1.0, Bounds(lower=0.8, upper=0.8), 0.6, 0.8)
    """
    if isinstance(X, Stream):
        refuse_beside_stream(y=y)
        ask = partial(
            evaluate, epsilons=epsilons, ceiling=False, distances=distances, positive_class=positive_class,
            decision_threshold=decision_threshold, time_limit=time_limit, n_jobs=n_jobs,
        )  # fmt: skip
        return evaluate_stream(ask, model, X, threat, progress)
    limit, report = check_time_limit(time_limit), read_progress(progress)
    check_time_limit(ceiling_time_limit, "ceiling_time_limit")
    grid = _read_epsilons(epsilons)
    settings = AskSettings(time_limit=limit, n_threads=count_threads(n_jobs), progress=report)
    rows = read_rows(model, X)
    if rows.ensemble.classes is None:
        asked_for = {"distances": distances or None, "positive_class": positive_class}
        _refuse_for_regression(asked_for | {"decision_threshold": decision_threshold})
        return evaluate_regression(rows.ensemble, X, y, threat, grid, settings)
    question = read_question(rows, X, y, threat)
    positive = read_positive_class(positive_class, question.ensemble.labels)
    question = question._replace(ensemble=set_threshold(question.ensemble, positive, decision_threshold))
    has_ceiling = ceiling and not question.threat.rules and question.reach.targets is None
    budget = Budget(ceiling_time_limit) if has_ceiling else None
    return measure(question, settings, Plan(grid, budget, positive, distances=distances))


class Plan(NamedTuple):
    """What is to be measured of a classifier."""

    grid: np.ndarray  # the multiples of the threat model, 0 and 1 among them
    ceiling: Budget | None = None  # None: no ceiling
    positive: int | None = None  # the class to be detected
    distances: bool = False


def measure(question: Question, settings: AskSettings, plan: Plan) -> RobustnessReport:
    """Measure a classifier on some rows."""
    ensemble, matrix, class_index, X = question.ensemble, question.matrix, question.class_index, question.X
    grid, positive = plan.grid, plan.positive
    seconds: dict[str, float] = {}
    ceilings = ceilings_lower = None
    interrupted = False
    if plan.ceiling is not None:
        with timed("ceiling", seconds):
            scaled = [question.threat.scaled(epsilon) for epsilon in grid.tolist()]
            reaches = [threat.resolve(ensemble.schema, ensemble.labels) for threat in scaled]
            ceilings_lower, ceilings, interrupted = find_ceilings(
                matrix, class_index, reaches, budget=plan.ceiling, progress=settings.progress
            )
    prediction = ensemble.choose(question.outputs.of(ensemble, matrix))
    rows = _Rows(question, settings, interrupted)
    with timed("search", seconds):
        robust_to, fooled_at = rows.decide(prediction == class_index, grid)
    if ceilings_lower is not None:  # it is no lower than what this very model keeps
        ceilings_lower = np.maximum(ceilings_lower, [(robust_to >= epsilon).mean() for epsilon in grid])
    distance = lower = None
    if plan.distances and not rows.interrupted:
        with timed("distances", seconds):
            distance, lower = rows.measure()
    roc_auc = adversarial_roc_auc = None
    if positive is not None and len(ensemble.labels) == 2 and 0 < int((class_index == positive).sum()) < len(matrix):
        with timed("scores", seconds):
            asked = settings._replace(time_limit=0.0) if rows.interrupted else settings  # cheap bounds only
            roc_auc, adversarial_roc_auc, stopped = find_roc_auc(question, positive, asked)
            rows.interrupted |= stopped
    return RobustnessReport(
        threat=question.threat,
        classes=ensemble.labels,
        label=class_index,
        prediction=prediction,
        robust_to=robust_to,
        fooled_at=fooled_at,
        epsilons=grid,
        ceilings=ceilings,
        ceilings_lower=ceilings_lower,
        distance=distance,
        distance_lower=lower,
        positive=positive,
        roc_auc=roc_auc,
        adversarial_roc_auc=adversarial_roc_auc,
        seconds=seconds,
        interrupted=rows.interrupted,
        index=getattr(X, "index", None) if is_frame(X) else None,
        frame="polars" if is_polars(X) else "pandas",
    )


def _refuse_for_regression(asked_for: dict[str, Any]) -> None:
    """Refuse parameters that say nothing of a regression."""
    for name, value in asked_for.items():
        if value is not None:
            raise ValueError(f"{name}={quote(value)}: the model is a regression, which has no classes; leave it out")


def _read_epsilons(epsilons: Any) -> np.ndarray:
    """Return the multiples of the threat model to look at: those that are asked for, 0 and 1."""
    asked = read_reals([] if epsilons is None else epsilons, "epsilons")
    if asked.ndim != 1 or not (np.isfinite(asked) & (asked >= 0.0)).all():
        raise ValueError(f"epsilons: expected a list of finite numbers >= 0, got {quote(epsilons)}")
    return np.union1d(asked, [0.0, 1.0])


@dataclass
class _Rows:
    """Rows to be asked about under one attacker after the other."""

    question: Question
    settings: AskSettings
    interrupted: bool = False

    def decide(self, right: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find between which two epsilons each row falls: (robust to, fooled at).

        What holds at one epsilon holds at every smaller or larger one, so a row is asked about the middle one of those
        that are open, beginning with the threat model itself.
        """
        rows = np.flatnonzero(right)
        known = np.full((len(rows), len(grid)), OPEN, dtype=np.int8)
        known[:, 0] = NONE
        column = np.full(len(rows), np.flatnonzero(grid == 1.0)[0])
        while (known == OPEN).any() and not self.interrupted:
            for k in np.unique(column[column >= 0]).tolist():
                chosen = np.flatnonzero(column == k)
                asked = known[:, 1:]
                status = self._ask(rows[chosen], grid[k], int((asked != OPEN).sum()), asked.size)
                _note(known, chosen, k, status)
                if self.interrupted:
                    break
            column = _middle(known == OPEN)
        robust_to, fooled_at = np.full(len(right), -np.inf), np.where(right, np.inf, 0.0)
        robust_to[rows] = np.where(known == NONE, grid, -np.inf).max(axis=1)
        fooled_at[rows] = np.where(known == FOUND, grid, np.inf).min(axis=1)
        return robust_to, fooled_at

    def measure(self) -> tuple[np.ndarray, np.ndarray]:
        """Find how far the nearest example of each row is: (distance, lower bound of it)."""
        threat = self.question.threat
        far = self.question if threat.rules else self.question.under(threat.scaled(np.inf))
        weight = np.ones(far.ensemble.schema.n_features)
        answers = nearest(far.ensemble, far.matrix, far.class_index, far.reach, np.inf, weight, self.settings)
        self.interrupted = answers.interrupted
        return answers.upper, answers.lower

    def _ask(self, rows: np.ndarray, epsilon: float, before: int, total: int) -> np.ndarray:
        """Return the status of some rows under a multiple of the threat model."""
        report = self.settings.progress
        shifted = None if report is None else lambda done, _: report(before + done, total)
        asked = self.question.under(self.question.threat.scaled(epsilon))
        answers = decide(
            asked.ensemble, asked.matrix[rows], asked.class_index[rows], asked.reach,
            self.settings._replace(progress=shifted),
        )  # fmt: skip
        self.interrupted = answers.interrupted
        return answers.status


def _note(known: np.ndarray, rows: np.ndarray, column: int, status: np.ndarray) -> None:
    """Write down what is known at one epsilon, and what follows at the others."""
    known[rows, column] = status
    smaller, larger = np.arange(known.shape[1]) <= column, np.arange(known.shape[1]) >= column
    known[np.ix_(rows[status == NONE], smaller)] = NONE
    known[np.ix_(rows[status == FOUND], larger)] = FOUND


def _middle(is_open: np.ndarray) -> np.ndarray:
    """Return the middle open column of each row; -1 where there is none."""
    count = is_open.sum(axis=1)
    middle = (is_open.cumsum(axis=1) > (count // 2)[:, None]).argmax(axis=1)
    return np.where(count > 0, middle, -1)
