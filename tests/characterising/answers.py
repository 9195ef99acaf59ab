"""Answers over threats, models and goals, each with the name under which its digest is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import hardwood
from characterising.tables import Table, make_tables
from hardwood import AttackRule, ThreatModel

# Rows that are asked about, from the beginning of a table.
N_ASKED = 24
# Statuses, bounds and distances: arrays of one value per row.
Answer = Callable[[], list[np.ndarray]]


class _Asked(NamedTuple):
    """A model, and the rows that it is asked about."""

    model: Any
    X: pd.DataFrame
    y: np.ndarray


def list_answers() -> Iterator[tuple[str, Answer]]:
    """Go through threats, models and goals."""
    tables, targets, _ = make_tables()
    models = {
        (kind, table, target): _Asked(model, tables[table].X[:N_ASKED], y[:N_ASKED])
        for table, (target, y) in product(("plain", "both"), targets.items())
        for kind, model in _fit_models(tables[table], target, y)
        if target != 5
    }
    for (threat_name, threat), (name, asked) in product(_list_threats().items(), models.items()):
        if name[1] == "plain" and threat_name in ("blank", "fill", "category", "blank, related"):
            continue
        for goal, answer in _list_goals(threat, asked, is_number=name[2] == "numbers"):
            yield f"{goal} | {threat_name} | {' '.join(map(str, name))}", answer


def _fit_models(table: Table, target: Any, y: np.ndarray) -> Iterator[tuple[str, Any]]:
    small: dict[str, Any] = {"random_state": 0, "max_depth": 4}
    few = {**small, "n_estimators": 5}
    if target == "numbers":
        yield "tree", hardwood.RobustTreeRegressor(None, **small).fit(table.X, y)
        yield "forest", hardwood.RobustForestRegressor(table.threat, **few).fit(table.X, y)
        yield "boosting", hardwood.RobustBoostingRegressor(table.threat, early_stopping=False, **few).fit(table.X, y)
    else:
        yield "tree", hardwood.RobustTreeClassifier(None, **small).fit(table.X, y)
        yield "forest", hardwood.RobustForestClassifier(table.threat, **few).fit(table.X, y)
        yield "boosting", hardwood.RobustBoostingClassifier(table.threat, early_stopping=False, **few).fit(table.X, y)


def _list_threats() -> dict[str, ThreatModel]:
    numbers = {"a": 0.5, "b": "<>", "c": (1.0, 2.0)}
    one_step = [AttackRule("a", add=0.5), AttackRule("c", add=-1.0, cost=2.0)]
    return {
        "reach": ThreatModel(numbers),
        "one side": ThreatModel(">", whole_numbers=["c"]),
        "category": ThreatModel({**numbers, "k": {"u": ["v", "w"], "x": ["u"]}}),
        "class 1": ThreatModel(numbers, attacking_classes=[1]),
        "class 1 to 0": ThreatModel(numbers, attacking_classes={1: [0]}),
        "changes": ThreatModel({**numbers, "d": 1.0}, max_changes=2),
        "radius": ThreatModel("<>", radius=0.7, units={"c": 3.0}),
        "radius in l1": ThreatModel(numbers, radius=0.8, norm=1, max_changes=2, within={"a": (-2.0, 2.0)}),
        "relations": ThreatModel({**numbers, "d": 1.0}, relations=["a + d <= 2", "b <= c + 4"]),
        "rules": ThreatModel(rules=one_step, budget=3.0),
        "blank": ThreatModel(numbers, blank=["b", "k"]),
        "fill": ThreatModel({"a": 0.5}, fill=["b"]),
        "blank, related": ThreatModel(numbers, blank=["b"], relations=["a <= c"], whole_numbers=["c"]),
    }


def _list_goals(threat: ThreatModel, asked: _Asked, *, is_number: bool) -> Iterator[tuple[str, Answer]]:
    model, X, y = asked

    def attack(**options: Any) -> list[np.ndarray]:
        result = hardwood.attack(model, X, y, threat, **options)
        return [result.prediction, result.upper] if is_number else [result.found, result.distance, result.lower]

    def verify() -> list[np.ndarray]:
        result = hardwood.verify(model, X, y, threat)
        return [result.status, result.lower, result.upper]

    yield "attack", attack
    if is_number:
        return
    yield "verify", verify
    priced = bool(threat.rules)
    for norm in () if priced else (1, 2):
        yield f"attack in l{norm}", lambda norm=norm: attack(norm=norm)
    for method in () if priced else ("coordinate", "lowest"):
        yield method, lambda method=method: attack(method=method)
