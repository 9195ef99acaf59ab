"""Models over a lattice of settings, each with the name under which its digest is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import numpy as np

import hardwood
from characterising.tables import N_ROWS, Table, make_stream, make_tables
from hardwood import ThreatModel, TreeEnsemble

# A name, and what makes the model.
Setting = tuple[str, Callable[[], Any]]

_TREE_OPTIONS: list[dict[str, Any]] = [
    {},
    {"criterion": "entropy"},
    {"criterion": "adversarial_error"},
    {"max_leaf_nodes": 9, "min_samples_leaf": 5},
    {"rho": 0.5},
    {"max_features": 2, "random_state": 4},
    {"min_impurity_decrease": 0.02},
    {"monotonic_cst": {"a": 1}},
]


def list_models() -> Iterator[Setting]:
    """Go through every setting of every estimator."""
    tables, targets, weight = make_tables()
    yield from _list_trees(tables, targets, weight)
    yield from _list_ensembles(tables, targets, weight)
    yield from _list_levels(tables, targets, weight)
    yield from _list_two_class_methods(tables["plain"].X, targets[2], weight)


def _name(kind: str, *settings: Any, **options: Any) -> str:
    return " ".join([kind, *map(str, settings), *(f"{name}={value}" for name, value in options.items())])


def _list_trees(tables: dict[str, Table], targets: dict, weight: np.ndarray) -> Iterator[Setting]:
    for (table, (X, threat)), max_bins, weighs in product(tables.items(), ("exact", 15, 255), (False, True)):
        own = weight if weighs else None
        common = (table, max_bins, "weights" if weighs else "rows")
        for n_classes, attacking, options in product((2, 3, 5), (None, [1]), _TREE_OPTIONS):
            if weighs and options and not {"rho", "max_leaf_nodes"} & set(options):
                continue
            model = hardwood.RobustTreeClassifier(
                threat, max_depth=5, max_bins=max_bins, attacking_classes=attacking, **options
            )
            fit = (model, X, targets[n_classes], own)
            yield _name("tree", n_classes, *common, attacking=attacking, **options), _fit(*fit)
        for criterion, options in product(("squared_error", "absolute_error"), _TREE_OPTIONS):
            if "criterion" in options or "monotonic_cst" in options:
                continue
            regressor = hardwood.RobustTreeRegressor(
                threat, criterion=criterion, max_depth=5, max_bins=max_bins, **options
            )
            fit = (regressor, X, targets["numbers"], own)
            yield _name("regression tree", criterion, *common, **options), _fit(*fit)


def _fit(model: Any, X: Any, y: np.ndarray, weight: np.ndarray | None) -> Callable[[], TreeEnsemble]:
    return lambda: model.fit(X, y, weight).ensemble_


def _list_ensembles(tables: dict[str, Table], targets: dict, weight: np.ndarray) -> Iterator[Setting]:
    for (table, (X, threat)), (target, y), weighs in product(tables.items(), targets.items(), (False, True)):
        own, weights = (weight, "weights") if weighs else (None, "rows")
        numbers = target == "numbers"
        forest: Any = hardwood.RobustForestRegressor if numbers else hardwood.RobustForestClassifier
        boosting: Any = hardwood.RobustBoostingRegressor if numbers else hardwood.RobustBoostingClassifier
        tree: Any = hardwood.RobustTreeRegressor if numbers else hardwood.RobustTreeClassifier
        few: dict[str, Any] = {"max_bins": 15, "random_state": 1}
        boost: dict[str, Any] = {**few, "n_estimators": 3, "max_depth": 3, "early_stopping": False}
        makers = {
            "forest": forest(threat, n_estimators=3, max_depth=4, **few),
            "exact forest": forest(threat, n_estimators=2, max_depth=4, max_bins="exact", random_state=1),
            "boosting": boosting(threat, **boost),
            "boosting, large tables": boosting(threat, **{**boost, "max_bins": 255, "n_estimators": 2}),
        }
        for kind, model in makers.items():
            yield _name(kind, target, table, weights), _fit(model, X, y, own)
        streamed = {
            "streamed tree": tree(threat, max_depth=4, max_bins=15),
            "streamed boosting": boosting(threat, **boost),
        }
        for kind, model in streamed.items():
            rows = make_stream(X, y, own)
            yield _name(kind, target, table, weights), lambda model=model, rows=rows: model.fit(rows).ensemble_


def _list_levels(tables: dict[str, Table], targets: dict, weight: np.ndarray) -> Iterator[Setting]:
    options: list[dict[str, Any]] = [
        {}, {"rho": 0.5}, {"max_leaf_nodes": 9, "min_samples_leaf": 4},
        {"criterion": "entropy", "max_features": 2, "random_state": 4},
    ]  # fmt: skip
    for (name, table), n_classes, weighs, own in product(tables.items(), (2, 3), (False, True), options):
        setting = _name("levels", n_classes, name, "weights" if weighs else "rows", **own)
        yield setting, partial(_grow_levels, table, targets[n_classes], weight if weighs else None, own)


def _grow_levels(table: Table, y: np.ndarray, weight: np.ndarray | None, options: dict[str, Any]) -> TreeEnsemble:
    """Grow a tree level by level over three blocks of rows, in this process."""
    from hardwood.estimators.parameters import check_grow_options
    from hardwood.estimators.target import read_problem
    from hardwood.grow.blocks import LocalRun
    from hardwood.grow.class_blocks import code_block
    from hardwood.grow.coded_rows import code_rows
    from hardwood.grow.level_trees import grow_tree_over

    model = hardwood.RobustTreeClassifier(table.threat, max_depth=5, max_bins=31, **options)
    problem = read_problem(model, table.X, y, weight)
    grow_options = replace(check_grow_options(model, *table.X.shape), max_bins=31)
    plan = code_rows(problem, problem.threat.resolve(problem.schema, problem.classes), grow_options, 31)
    blocks = []
    for start in range(0, N_ROWS, 170):
        rows = slice(start, min(start + 170, N_ROWS))
        part = None if problem.sample_weight is None else problem.sample_weight[rows]
        pieces = ((start, rows.stop - start),)
        blocks.append(code_block(plan, [problem.X[rows]], problem.class_index[rows], part, pieces))
    no_weight = None if problem.sample_weight is None else np.empty(0)
    seen = replace(problem, X=problem.X[:0], target=problem.target[:0], sample_weight=no_weight)
    return grow_tree_over(LocalRun(), blocks, seen, plan, grow_options, N_ROWS)


def _list_two_class_methods(X: Any, y: np.ndarray, weight: np.ndarray) -> Iterator[Setting]:
    threat = ThreatModel({"a": 0.3, "b": (0.2, 0.1)})
    methods: dict[str, Any] = {
        "alternate": hardwood.RobustTreeClassifier(threat, refine="alternate", random_state=0),
        "search": hardwood.RobustTreeClassifier(threat, refine="search", random_state=0, max_depth=3),
        "chen": hardwood.RobustTreeClassifier(threat, attacker="chen", max_depth=4),
        "treant": hardwood.TreantClassifier(threat, max_depth=3),
        "optimal": hardwood.OptimalRobustTreeClassifier(threat, max_depth=2),
    }
    for name, model in methods.items():
        yield _name(name), lambda model=model: model.fit(X, y).ensemble_
    grown = hardwood.RobustTreeClassifier(threat, max_depth=5)
    for revise in (hardwood.prune, hardwood.relabel, hardwood.refine):
        revised = lambda revise=revise: hardwood.as_ensemble(revise(grown.fit(X, y), X, y, threat))  # noqa: E731
        yield _name(revise.__name__), revised
