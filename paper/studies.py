"""Studies beside the paper's table: how time grows, what rho buys, which attacks transfer, what ties decide."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import make_classification

from hardwood import attack
from paper.methods import Learner, Method, make_rho_tree
from paper.pieces import Piece, Record, describe_table
from paper.protocol import Table, score_fold, split_folds, time_fit
from paper.published import DEPTH, EPSILON, FOLDS

RHO_TABLES = ("ionosphere", "sonar", "spambase", "wine")
COLUMN_ORDERS = 20


Size = tuple[str, int, int, int]  # what varies, rows, features, depth


@dataclass(frozen=True)
class GrowthPlan:
    """The sizes at which fits are timed: one of rows, features and depth varies, the others stay."""

    rows: tuple[int, ...]
    features: tuple[int, ...]
    depths: tuple[int, ...]
    fixed_rows: int

    @property
    def sizes(self) -> list[Size]:
        """All sizes."""
        few = self.features[0]
        return [
            *(("rows", rows, few, DEPTH) for rows in self.rows),
            *(("features", self.fixed_rows, features, DEPTH) for features in self.features),
            *(("depth", self.fixed_rows, few, depth) for depth in self.depths),
        ]


WHOLE_GROWTH = GrowthPlan(
    rows=(4_000, 8_000, 16_000, 32_000, 64_000, 128_000),
    features=(10, 20, 40, 80),
    depths=(2, 3, 4, 5, 6, 7, 8),
    fixed_rows=16_000,
)
QUICK_GROWTH = GrowthPlan(rows=(2_000, 4_000, 8_000, 16_000), features=(10, 20, 40), depths=(2, 4, 6), fixed_rows=4_000)
WHOLE_HARDENING = GrowthPlan(
    rows=(1_000, 2_000, 4_000, 8_000), features=(10, 20, 40, 80), depths=(2, 3, 4, 5, 6), fixed_rows=1_000
)
QUICK_HARDENING = GrowthPlan(rows=(500, 1_000, 2_000), features=(10, 20, 40), depths=(2, 4), fixed_rows=500)


def plan_growth(plan: GrowthPlan, learners: tuple[Learner, ...], trees: int = 1) -> dict[tuple[str, Size], Piece]:
    """Return pieces that time one fit each of a model of `trees` trees, on tables made for it, by learner and size."""

    def measure(learner: Learner, rows: int, features: int, depth: int) -> Record:
        informative = features // 2
        X, y = make_classification(
            rows, features, n_informative=informative, n_clusters_per_class=4, flip_y=0.05, random_state=0
        )
        return {"fit_seconds": time_fit(learner.make(features, depth), X, y)}

    return {
        (learner.key, (varies, rows, features, depth)): Piece(
            name=f"growth/{learner.key}/{varies}/{rows} rows, {features} features, depth {depth}",
            settings=f"{learner.make(features, depth).get_params()}",
            work=partial(measure, learner, rows, features, depth),
            cells=rows * features * trees,
            is_alone=True,
        )
        for varies, rows, features, depth in plan.sizes
        for learner in learners
    }


def growth_exponent(sizes: Any, seconds: Any) -> float:
    """Return the slope of log time on log size: 1 is linear, 2 quadratic.

    Examples
    --------
    >>> round(growth_exponent([1, 2, 4], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    slope, _ = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return float(slope)


def plan_rho(table: Table, rhos: tuple[float, ...]) -> list[Piece]:
    """Return a piece per rho: the means over the paper's folds."""

    def score(rho: float) -> Record:
        records = [score_fold(make_rho_tree(rho), table, fold) for fold in range(FOLDS)]
        return {key: float(np.mean([r[key] for r in records])) for key in ("accuracy", "adversarial_accuracy")}

    return [
        Piece(
            name=f"rho/{table.name}/{rho:g}",
            settings=f"{make_rho_tree(rho).get_params()} {describe_table(table.X, table.y)}",
            work=partial(score, rho),
            cells=FOLDS * table.X.size,
        )
        for rho in rhos
    ]


def plan_transfer(table: Table, methods: tuple[Method, ...]) -> list[Piece]:
    """Return a piece per fold: accuracies of each method's tree on the examples that fool another's.

    An attacker who cannot see a tree attacks one of his own, fitted to the same rows, and hands in what fools that one
    (the nearest example within reach; a row that it cannot fool stays as it is).
    """

    def score(fold: int) -> Record:
        train, test = split_folds(table)[fold]
        X, y = table.X[test], table.y[test]
        models = {m.key: m.make(X.shape[1], DEPTH).fit(table.X[train], table.y[train]) for m in methods}
        record = {}
        for own, surrogate in models.items():
            result = attack(surrogate, X, y, EPSILON)
            handed_in = np.where(result.found[:, None], result.X_adv, X)
            for other, target in models.items():
                record[f"{own} to {other}"] = float(np.mean(target.predict(handed_in) == y))
        return record

    settings = [method.make(table.X.shape[1], DEPTH).get_params() for method in methods]
    return [
        Piece(
            name=f"transfer/{table.name}/fold {fold + 1}",
            settings=f"{settings} {describe_table(table.X, table.y)}",
            work=partial(score, fold),
            cells=len(methods) * table.X.size,
        )
        for fold in range(FOLDS)
    ]


def plan_column_orders(table: Table, method: Method) -> list[Piece]:
    """Return a piece per random order of the columns: the mean adversarial accuracy over the folds."""

    def score(seed: int) -> Record:
        columns = np.random.default_rng(seed).permutation(table.X.shape[1])
        scores = [
            score_fold(method.make(len(columns), DEPTH), table, fold, columns)["adversarial_accuracy"]
            for fold in range(FOLDS)
        ]
        return {"adversarial_accuracy": float(np.mean(scores))}

    return [
        Piece(
            name=f"column orders/{table.name}/{method.key}/{seed}",
            settings=f"{method.make(table.X.shape[1], DEPTH).get_params()} {describe_table(table.X, table.y)}",
            work=partial(score, seed),
            cells=FOLDS * table.X.size,
        )
        for seed in range(1, COLUMN_ORDERS + 1)
    ]
