"""The paper's future work: how far attackers get who cannot see the tree, beside one who can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier

from hardwood import AttackResult, attack, black_box_attack, transfer_attack
from paper.methods import Method
from paper.pieces import Piece, Record, describe_table
from paper.protocol import Table, split_folds
from paper.published import DEPTH, EPSILON, FOLDS

ASKING = {"hopskipjump": "HopSkipJump", "boundary": "boundary attack"}
SURROGATE_TREES = 30
_TOOLBOX = "adversarial-robustness-toolbox"


@dataclass(frozen=True)
class BlackBoxPlan:
    """The tables of the study, how many test rows of each fold are attacked, and how often the tree may be asked."""

    tables: tuple[str, ...]
    rows: int
    queries: tuple[int, ...]


WHOLE_BLACK_BOX = BlackBoxPlan(
    tables=("breast-cancer", "ionosphere", "parkinsons", "sonar", "spambase", "wine"),
    rows=10,
    queries=(1, 3, 10, 30, 100, 300, 1000),
)
QUICK_BLACK_BOX = BlackBoxPlan(tables=("ionosphere", "sonar"), rows=4, queries=(1, 10, 100, 1000))

# An attacker by name, and how many answers of the tree it may have about a row: None, if that is not its limit.
Attacker = tuple[str, int | None]


def find_toolbox() -> str | None:
    """Return why the attacks that ask cannot be run; None if they can."""
    model = DummyClassifier().fit([[0.0], [1.0], [2.0]], [0, 0, 1])
    try:
        black_box_attack(model, [[2.0]], [1])  # is wrong as it stands: nothing is asked
    except ImportError as error:
        return str(error)
    return None


def list_attackers(plan: BlackBoxPlan, has_toolbox: bool) -> list[Attacker]:
    """Return the attackers of the study: who sees the tree, who learns a surrogate, and those who ask."""
    asking = [(name, queries) for name in ASKING for queries in plan.queries] if has_toolbox else []
    return [("exact", None), ("transfer", None), *asking]


def plan_black_box(table: Table, methods: tuple[Method, ...], plan: BlackBoxPlan, attacker: Attacker) -> list[Piece]:
    """Return a piece per fold: for each method's tree, the distance of the example found for each row, or None."""
    name, queries = attacker
    asks = name in ASKING

    def find(fold: int) -> Record:
        train, test = split_folds(table)[fold]
        rows = np.sort(np.random.default_rng(fold).choice(test, min(plan.rows, len(test)), replace=False))
        record = {}
        for method in methods:
            model = method.make(table.X.shape[1], DEPTH).fit(table.X[train], table.y[train])
            result = _attack_rows(attacker, model, table.X[train], table.X[rows], table.y[rows])
            record[method.key] = [
                float(distance) if found else None
                for found, distance in zip(result.found, result.distance, strict=True)
            ]
        return record

    settings = [method.make(table.X.shape[1], DEPTH).get_params() for method in methods]
    toolbox = version(_TOOLBOX) if asks else ""
    return [
        Piece(
            name=f"black box/{table.name}/{name}{f' {queries}' if asks else ''}/fold {fold + 1}",
            settings=f"{settings} {plan.rows} {toolbox} {describe_table(table.X, table.y)}",
            work=partial(find, fold),
            cells=len(methods) * (table.X.size + plan.rows * (queries or 1)),
            is_alone=asks,  # the toolbox draws from a generator that all threads share
        )
        for fold in range(FOLDS)
    ]


def _attack_rows(attacker: Attacker, model: Any, known: np.ndarray, X: np.ndarray, y: np.ndarray) -> AttackResult:
    """Attack rows within the paper's radius; `known` are the rows that the attacker can train a surrogate on."""
    name, queries = attacker
    if name in ASKING:
        assert queries is not None
        return black_box_attack(model, X, y, EPSILON, method=name, max_queries=queries, random_state=0)
    # A tree that gives one class to all rows teaches no surrogate; there is nothing to be found by the exact attack.
    if name == "transfer" and len(np.unique(model.predict(known))) > 1:
        from sklearn.ensemble import RandomForestClassifier  # slow to import, and the command line need not wait

        surrogate = RandomForestClassifier(SURROGATE_TREES, random_state=0)
        return transfer_attack(model, X, y, EPSILON, surrogate=surrogate, X_surrogate=known, n_jobs=1)
    return attack(model, X, y, EPSILON, n_jobs=1)


@dataclass(frozen=True)
class Susceptibility:
    """What an attacker does to a method's trees, over the rows of all tables of the study.

    Attributes
    ----------
    accuracy : float
        The share of rows that the trees still get right.
    fooled : float
        The share of those rows that can be fooled within the radius, and are right to begin with, that it fools.
    ratio : float
        The median distance of its examples of these rows, as a multiple of the least possible one.
    """

    accuracy: float
    fooled: float
    ratio: float


def weigh_attackers(
    found: Mapping[tuple[str, Attacker], Sequence[Record]],
) -> dict[Attacker, dict[str, Susceptibility]]:
    """Summarise the records of all tables and folds, by attacker and method."""
    tables = list(dict.fromkeys(table for table, _ in found))
    attackers = list(dict.fromkeys(attacker for _, attacker in found))

    def gather(attacker: Attacker, method: str) -> np.ndarray:
        lists = [record[method] for table in tables for record in found[table, attacker]]
        return np.array([np.inf if d is None else d for distances in lists for d in distances])

    methods = [] if not found else list(next(iter(found.values()))[0])
    least = {method: gather(("exact", None), method) for method in methods}
    return {
        attacker: {method: _weigh(gather(attacker, method), least[method]) for method in methods}
        for attacker in attackers
    }


def _weigh(distance: np.ndarray, least: np.ndarray) -> Susceptibility:
    movable = (least > 0) & np.isfinite(least)
    fooled = movable & np.isfinite(distance)
    return Susceptibility(
        accuracy=float(np.mean(np.isinf(distance))),
        fooled=float(fooled.sum() / movable.sum()) if movable.any() else np.nan,
        ratio=float(np.median(distance[fooled] / least[fooled])) if fooled.any() else np.nan,
    )


def list_susceptibilities(found: Mapping[tuple[str, Attacker], Sequence[Record]]) -> list[Record]:
    """Return a record per table, attacker and method."""
    records = []
    for table in dict.fromkeys(table for table, _ in found):
        for (name, queries), methods in weigh_attackers({k: v for k, v in found.items() if k[0] == table}).items():
            for method, figures in methods.items():
                records.append(
                    {
                        "table": table,
                        "method": method,
                        "attacker": name,
                        "queries": "" if queries is None else queries,
                        "accuracy": figures.accuracy,
                        "fooled": figures.fooled,
                        "median_ratio": figures.ratio,
                    }
                )
    return records
