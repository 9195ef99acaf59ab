"""The paper's protocol: tables x methods x folds -> accuracy, adversarial accuracy, time to fit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from hardwood._kernels.compiling import count_compiling
from hardwood.evaluation import adversarial_accuracy, evaluate
from hardwood.reproduction.methods import Learner
from hardwood.reproduction.pieces import Piece, Record, describe_table
from hardwood.reproduction.published import DEPTH, EPSILON, FOLDS

_REPEATS = 3  # of a fit, for its time


@dataclass(frozen=True)
class Table:
    """A data set in raw units, with the classes as 0 and 1."""

    name: str
    X: np.ndarray
    y: np.ndarray

    @property
    def constant_accuracy(self) -> float:
        """The accuracy of a constant classifier, which no attacker can lower."""
        return float(np.bincount(self.y).max() / len(self.y))


@dataclass(frozen=True)
class Score:
    """A mean over the folds, and the standard deviation from fold to fold."""

    mean: float
    deviation: float

    @classmethod
    def over(cls, values: Sequence[float]) -> Score:
        """Summarise the values of the folds."""
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)))


def split_folds(table: Table) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the training and the test rows of the paper's folds."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=1)
    return list(folds.split(table.X, table.y))


def score_fold(
    model: Any, table: Table, fold: int, columns: np.ndarray | None = None, *, repeats: int = _REPEATS
) -> Record:
    """Fit a model on all folds but one, and return what it scores on that one, exactly.

    `columns` gives the features another order, which matters to nothing but which of two equal splits is taken.
    """
    X = table.X if columns is None else np.ascontiguousarray(table.X[:, columns])
    train, test = split_folds(table)[fold]
    seconds = time_fit(model, X[train], table.y[train], repeats)
    return {
        "accuracy": float(np.mean(model.predict(X[test]) == table.y[test])),
        "adversarial_accuracy": adversarial_accuracy(model, X[test], table.y[test], EPSILON),
        "fit_seconds": seconds,
    }


def time_fit(model: Any, X: np.ndarray, y: np.ndarray, repeats: int = _REPEATS) -> float:
    """Fit several times and return the least CPU time; a fit for which something was compiled does not count."""
    seconds: list[float] = []
    while len(seconds) < repeats:
        start, compiled = time.thread_time(), count_compiling()
        model.fit(X, y)
        if count_compiling() == compiled:
            seconds.append(time.thread_time() - start)
    return min(seconds)


def plan_folds(table: Table, learner: Learner, *, repeats: int = _REPEATS) -> list[Piece]:
    """Return the pieces of work of one table and one learner: one per fold, fitted `repeats` times for its time."""
    make = partial(learner.make, table.X.shape[1], DEPTH)
    settings = f"{make().get_params()} {repeats} {describe_table(table.X, table.y)}"

    def score(fold: int) -> Record:
        return score_fold(make(), table, fold, repeats=repeats)

    return [
        Piece(
            name=f"scores/{table.name}/{learner.key}/fold {fold + 1}",
            settings=settings,
            work=partial(score, fold),
            cells=table.X.size,
        )
        for fold in range(FOLDS)
    ]


def plan_ceilings(table: Table) -> list[Piece]:
    """Return a piece per fold: the accuracy under attack on its test rows that no classifier can exceed."""

    def find(fold: int) -> Record:
        train, test = split_folds(table)[fold]
        # The report wants a model. Its ceiling depends on the rows only.
        stump = DecisionTreeClassifier(max_depth=1).fit(table.X[train], table.y[train])
        report = evaluate(stump, table.X[test], table.y[test], EPSILON, ceiling_time_limit=None)
        assert report.ceiling is not None
        return {"ceiling": report.ceiling}

    return [
        Piece(
            name=f"ceilings/{table.name}/fold {fold + 1}",
            settings=describe_table(table.X, table.y),
            work=partial(find, fold),
            cells=table.X.size,
        )
        for fold in range(FOLDS)
    ]
