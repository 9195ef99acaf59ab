"""Which forms kernels are asked for: a lattice of fits, of verifications and attacks, on the smallest of tables.

numba compiles a kernel once for every combination of types that it is called with: a form. Run as a program, this asks
for all that a lattice of users' work asks for, or for what compiling ahead does, and prints the forms. Kernels run as
plain Python meanwhile, so that nothing is compiled and hundreds of fits take seconds::

    python tests/forms.py fit ask warm

prints {"fit": {kernel: [form, ...]}, ...}, where a form says of each argument, or of each part of one that is a tuple,
of which type it is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np

Form = dict[str, str]
Forms = dict[str, list[Form]]


@cache
def list_forms(*work: str) -> dict[str, Forms]:
    """Return the forms that kinds of work ask for, each in the order in which they are asked for."""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "ignore", __file__, *work]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout)


def take_forms() -> Forms:
    """Return the forms of every kernel that this process has asked for."""
    from numba.core.dispatcher import Dispatcher

    modules = [module for name, module in list(sys.modules.items()) if name.startswith("hardwood._kernels")]
    dispatchers = {id(value): value for module in modules for value in vars(module).values()}
    kernels = [each for each in dispatchers.values() if isinstance(each, Dispatcher) and hasattr(each._cache, "_name")]
    return {kernel._cache._name: [describe(kernel, form) for form in kernel.signatures] for kernel in kernels}


def describe(kernel: Any, signature: tuple) -> Form:
    """Say of which types a kernel's arguments are."""
    names = kernel.py_func.__code__.co_varnames
    return dict(pair for own in zip(names, signature, strict=False) for pair in name(*own))


def name(argument: str, found: Any) -> Iterator[tuple[str, str]]:
    """Say of which type an argument is, or each part of one that is a tuple."""
    from numba import types

    if isinstance(found, types.BaseTuple):
        parts = zip(getattr(found, "fields", range(len(found))), found, strict=True)
        yield from (pair for part, each in parts for pair in name(f"{argument}.{part}", each))
    elif isinstance(found, types.Array):
        dtype = "record" if isinstance(found.dtype, types.Record) else found.dtype
        access = ("" if found.mutable else " read-only") + ("" if found.aligned else " unaligned")
        yield argument, f"{dtype}[{found.ndim}] {found.layout}{access}"
    else:
        yield argument, "record" if isinstance(found, types.Record) else str(found)


# What a table consists of: numbers, categories, both; and whether there are holes in it. Of what is wide, codes of one
# byte cannot tell all ends of reach apart, or all categories.
NUMBERS, CATEGORIES, BOTH = "numbers", "categories", "both"
TABLES = tuple(product((NUMBERS, CATEGORIES, BOTH), (False, True), (False, True)))  # (columns, has holes, is wide)


def make_table(columns: str, has_holes: bool, is_wide: bool) -> tuple[np.ndarray, list[int]]:
    """Return a table of three columns, and which of them are categories."""
    n_rows = 400 if is_wide else 12
    X = np.random.default_rng(0).random((n_rows, 3))
    categorical = {NUMBERS: [], CATEGORIES: [0, 1, 2], BOTH: [1]}[columns]
    X[:, categorical] = np.floor(3 * X[:, categorical])
    if is_wide and categorical:
        X[:, 1] = np.arange(n_rows)
    if has_holes:
        X[::5] = np.nan
        X[1::5, 2] = np.nan
    return X, categorical


def make_target(n_rows: int, n_classes: int) -> np.ndarray:
    """Return classes, or numbers for no classes, that have nothing to do with the table."""
    noise = np.random.default_rng(1).random(n_rows)
    noise[: n_classes + 1] = np.linspace(0.0, 0.99, n_classes + 1)
    return np.floor(noise * n_classes).astype(np.int64) if n_classes else noise


def make_weight(n_rows: int) -> np.ndarray:
    """Return weights, of which no two are the same."""
    return 1.0 + np.arange(n_rows) / 7.0


def fit_everything() -> None:
    """Fit every estimator: all that decides about forms combined, and then what should not."""
    fit_trees()
    fit_in_blocks()
    fit_boosting()
    fit_with_other_options()
    fit_other_estimators()


def fit_trees() -> None:
    """Fit trees, forests and streams of two classes, of three and of numbers, on every kind of table."""
    import hardwood

    for (columns, has_holes, is_wide), n_classes, is_weighted in product(TABLES, (2, 3, 0), (False, True)):
        X, categorical = make_table(columns, has_holes, is_wide)
        y, weight = make_target(len(X), n_classes), make_weight(len(X)) if is_weighted else None
        tree, forest = (
            (hardwood.RobustTreeClassifier, hardwood.RobustForestClassifier)
            if n_classes
            else (hardwood.RobustTreeRegressor, hardwood.RobustForestRegressor)
        )
        words = {"threat": {0: 0.1, 2: (0.0, 0.2)}, "categorical_features": categorical, "max_depth": 2}
        if columns == CATEGORIES:
            words["threat"] = {0: "<>"}
        for max_bins in ("exact", 6):
            tree(max_bins=max_bins, **words).fit(X, y, weight)
        forest(n_estimators=2, bootstrap=True, **words).fit(X, y, weight)
        stream = hardwood.stream(X, y, sample_weight=weight, batch_rows=100)
        tree(max_bins=6, **words).fit(stream)
        forest(n_estimators=2, **words).fit(stream)


def fit_in_blocks() -> None:
    """Fit trees of classes level by level, over blocks of rows, as on a cluster."""
    from hardwood import RobustTreeClassifier
    from hardwood.estimators.parameters import check_grow_options
    from hardwood.estimators.target import read_problem
    from hardwood.grow.blocks import LocalRun
    from hardwood.grow.class_blocks import code_block
    from hardwood.grow.coded_rows import code_rows
    from hardwood.grow.level_trees import grow_tree_over

    for (columns, has_holes, is_wide), n_classes, is_weighted in product(TABLES, (2, 3), (False, True)):
        X, categorical = make_table(columns, has_holes, is_wide)
        y, weight = make_target(len(X), n_classes), make_weight(len(X)) if is_weighted else None
        model = RobustTreeClassifier({0: "<>" if 0 in categorical else 0.3}, categorical_features=categorical)
        problem = read_problem(model, X, y, weight)
        options = replace(check_grow_options(model, *X.shape), max_bins=6)
        plan = code_rows(problem, problem.threat.resolve(problem.schema, problem.classes), options, options.max_bins)
        blocks = []
        for rows in (slice(0, len(X) // 2), slice(len(X) // 2, len(X))):
            own = None if weight is None else problem.sample_weight[rows]
            pieces = ((rows.start, rows.stop - rows.start),)
            blocks.append(code_block(plan, [problem.X[rows]], problem.class_index[rows], own, pieces))
        grow_tree_over(LocalRun(), blocks, problem, plan, options, len(X))


def fit_boosting() -> None:
    """Boost trees, in one piece and over blocks of rows."""
    from hardwood import RobustBoostingClassifier, RobustBoostingRegressor
    from hardwood.grow import boosted

    usual = boosted.TILE_ROWS
    for (columns, has_holes, is_wide), n_classes, tile_rows in product(TABLES, (2, 3, 0), (usual, 6)):
        X, categorical = make_table(columns, has_holes, is_wide)
        y = make_target(len(X), n_classes)
        estimator = RobustBoostingClassifier if n_classes else RobustBoostingRegressor
        words = {"categorical_features": categorical, "n_estimators": 2, "max_depth": 2, "min_child_weight": 0.0}
        boosted.TILE_ROWS = tile_rows
        try:
            for is_weighted in (False, True):
                model = estimator({0: "<>" if 0 in categorical else 0.1}, early_stopping=False, **words)
                model.fit(X, y, make_weight(len(X)) if is_weighted else None).certify(X)
        finally:
            boosted.TILE_ROWS = usual


def fit_with_other_options() -> None:
    """Fit with whatever else can be said, one thing at a time: it is to decide about nothing."""
    from hardwood import RobustBoostingClassifier, RobustTreeClassifier, RobustTreeRegressor, ThreatModel

    threats = (
        None, {0: "10%"}, {2: ">"}, ThreatModel(0.1, {0: True, 1: False}), ThreatModel(0.1, max_changes=1),
        ThreatModel(0.1, within={2: (0.0, 1.0)}),
    )  # fmt: skip
    hiding = (ThreatModel(0.1, blank=[2]), ThreatModel(0.1, fill=[2]), ThreatModel(0.1, blank="all", fill="all"))
    shared = ({"rho": 0.5}, {"max_features": 1}, {"min_samples_leaf": 2}, {"n_jobs": 2}, {"max_leaf_nodes": 3})
    of_classes = ({"criterion": "entropy"}, {"criterion": "error"}, {"class_weight": "balanced"})
    for columns, has_holes, is_wide in product((NUMBERS, BOTH), (False, True), (False, True)):
        X, categorical = make_table(columns, has_holes, is_wide)
        words = {"categorical_features": categorical, "max_depth": 2}
        for threat, n_classes in product(threats + hiding * has_holes, (2, 3, 0)):
            y = make_target(len(X), n_classes)
            if n_classes == 2 or getattr(threat, "attacking_classes", None) is None:
                RobustTreeClassifier(threat, **words).fit(X, y) if n_classes else None
            if n_classes == 2:
                RobustBoostingClassifier(threat, n_estimators=1, early_stopping=False, **words).fit(X, y)
        for option, max_bins in product(shared + of_classes, ("exact", 6)):
            for n_classes in (2, 3):
                RobustTreeClassifier(0.1, max_bins=max_bins, **words, **option).fit(X, make_target(len(X), n_classes))
        for option, max_bins in product(shared, ("exact", 6)):
            RobustTreeRegressor(0.1, max_bins=max_bins, **words, **option).fit(X, make_target(len(X), 0))
        for max_bins, weight in product(("exact", 6), (None, make_weight(len(X)))):
            model = RobustTreeClassifier(0.1, max_bins=max_bins, monotonic_cst=[0, 0, 1], **words)
            model.fit(X, make_target(len(X), 2), weight)


def fit_other_estimators() -> None:
    """Fit what has growers of its own, and what finishes trees."""
    from hardwood import RobustTreeClassifier, RobustTreeRegressor, TreantClassifier
    from hardwood.grow import exact

    for columns, is_weighted in product((NUMBERS, CATEGORIES, BOTH), (False, True)):
        X, categorical = make_table(columns, False, False)
        y, weight, words = make_target(len(X), 2), make_weight(len(X)), {"categorical_features": categorical}
        weight = weight if is_weighted else None
        TreantClassifier({2: 0.1} if columns != CATEGORIES else None, max_depth=2, **words).fit(X, y, weight)
        usual, exact.LARGE_NODE = exact.LARGE_NODE, 4
        RobustTreeClassifier(None if categorical else 0.1, max_depth=3, n_jobs=2, **words).fit(X, y, weight)
        exact.LARGE_NODE = usual
        if not categorical:
            RobustTreeClassifier(0.1, attacker="chen", max_depth=2).fit(X, y, weight)
            RobustTreeClassifier(0.1, attacker="chen-greedy", max_depth=2).fit(X, y)
            model = RobustTreeRegressor(0.1, criterion="absolute_error", max_depth=2)
            model.fit(X, make_target(len(X), 0), weight)


def warm() -> None:
    """Compile ahead what users' work asks for."""
    from hardwood.warm import warm_up

    warm_up()


if __name__ == "__main__":
    WORK = {"fit": fit_everything, "warm": warm}
    found = {}
    for kind in sys.argv[1:]:
        WORK[kind]()
        found[kind] = take_forms()
    json.dump(found, sys.stdout)
