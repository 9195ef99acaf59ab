"""Which forms kernels are asked for: by a lattice of fits of the smallest of tables, and by compiling ahead.

numba compiles a kernel once for every combination of types that it is called with: a form. Run as a program, this does
what users do, or what ``python -m hardwood.warm`` does, and prints the forms. Kernels run as plain Python meanwhile and
write down what they are given: nothing is compiled. Codes of one byte are made to tell few codes apart, so that small
tables need codes of two::

    python tests/forms.py fit warm

prints {"fit": {kernel: [form, ...]}, ...}, where a form says of each argument, or of each part of one that is a tuple,
of which type it is.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial, wraps
from itertools import product
from typing import Any

import numpy as np

Form = dict[str, str]
Forms = dict[str, list[Form]]

# Of so many codes one byte is said to hold, and of so many rows a table is narrow, or too wide for one byte.
BYTE_CODES = 16
NARROW, WIDE = 4, 17


# Prints all kernels there are.
DECLARE = """
import importlib, pkgutil
from hardwood import _kernels
from hardwood._kernels.storage import KernelStorage
declared = set()
make = KernelStorage.__init__
KernelStorage.__init__ = lambda self, *arguments: make(self, *arguments) or declared.add(self._name)
for module in pkgutil.walk_packages(_kernels.__path__, f"{_kernels.__name__}."):
    importlib.import_module(module.name)
print(*sorted(declared))
"""


@cache
def list_forms(*work: str) -> dict[str, Forms]:
    """Return the forms of the kernels that kinds of work ask for, each in the order in which they are asked for."""
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "ignore", __file__, *work]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout)


@cache
def list_kernels() -> set[str]:
    """Return the names of all kernels that there are."""
    command = [sys.executable, "-c", DECLARE]
    return set(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split())


def record_forms() -> Forms:
    """Let kernels write down the forms that they are asked for; return where. Kernels must not have been imported."""
    from hardwood._kernels import compiling

    found: Forms = {}
    compiling.kernel = partial(_record_kernel, found)
    return found


def _record_kernel(found: Forms, function: Callable | None = None, **_: Any) -> Callable:
    """Stand in for the decorator of kernels."""
    if function is None:
        return partial(_record_kernel, found)
    from numba import typeof

    name = f"{function.__module__.removeprefix('hardwood._kernels.')}.{function.__qualname__}"
    arguments = function.__code__.co_varnames

    @wraps(function)
    def call(*given: Any) -> Any:
        form = dict(pair for own in zip(arguments, map(typeof, given), strict=False) for pair in _describe(*own))
        forms = found.setdefault(name, [])
        if form not in forms:
            forms.append(form)
        return function(*given)

    return call


def _describe(argument: str, found: Any) -> Iterator[tuple[str, str]]:
    """Say of which type an argument is, or each part of one that is a tuple."""
    from numba import types

    if isinstance(found, types.BaseTuple):
        parts = zip(getattr(found, "fields", range(len(found))), found, strict=True)
        yield from (pair for part, each in parts for pair in _describe(f"{argument}.{part}", each))
    elif isinstance(found, types.Array):
        is_record = isinstance(found.dtype, types.Record)  # whose alignment is a matter of its fields
        dtype = "record" if is_record else found.dtype
        access = ("" if found.mutable else " read-only") + ("" if found.aligned or is_record else " unaligned")
        yield argument, f"{dtype}[{found.ndim}] {found.layout}{access}"
    else:
        yield argument, "record" if isinstance(found, types.Record) else str(found)


def shrink() -> None:
    """Make large what is small, before estimators are imported."""
    from hardwood.grow import bins, exact

    bins.BYTE_CODES, bins.MOST_BINS = BYTE_CODES, BYTE_CODES - 1
    exact.LARGE_NODE = 4


# What a table consists of: numbers, categories, both; and whether there are holes in it. Of what is wide, codes of one
# byte cannot tell all ends of reach apart, or all categories.
NUMBERS, CATEGORIES, BOTH = "numbers", "categories", "both"
TABLES = tuple(product((NUMBERS, CATEGORIES, BOTH), (False, True), (False, True)))  # (columns, has holes, is wide)


def make_table(columns: str, has_holes: bool, is_wide: bool) -> tuple[np.ndarray, list[int]]:
    """Return a table of three columns, and which of them are categories."""
    n_rows = WIDE if is_wide else NARROW
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
    fit_other_tables()
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
            tree(max_bins=max_bins, **words).fit(X, y, weight).predict(X)
        forest(n_estimators=2, bootstrap=True, **words).fit(X, y, weight)
        stream = hardwood.stream(X, y, sample_weight=weight, batch_rows=10)
        tree(max_bins=6, **words).fit(stream)
        forest(n_estimators=1, **words).fit(stream)


class TravellingRun:
    """Runs tasks as a cluster does that is as unkind as can be: whatever arrives somewhere cannot be written to."""

    def submit(self, function: Callable[..., Any], *arguments: Any, name: str) -> Any:
        """Call the function with what arrives of its arguments; what it returns travels, too."""
        return _travel(function(*_travel(arguments)))

    def result(self, handle: Any) -> Any:
        """Return what was handed in: a handle is the result."""
        return handle


def _travel(thing: Any) -> Any:
    """Return what arrives: a copy on memory that cannot be written to."""
    buffers: list[pickle.PickleBuffer] = []
    content = pickle.dumps(thing, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(content, buffers=[bytes(buffer) for buffer in buffers])


def fit_in_blocks() -> None:
    """Fit trees level by level, over blocks of rows, here and as on a cluster."""
    from hardwood.grow.blocks import LocalRun

    for run, (columns, has_holes, is_wide) in product((LocalRun(), TravellingRun()), TABLES):
        X, categorical = make_table(columns, has_holes, is_wide)
        if columns != CATEGORIES:
            X[:, 0] = np.where(np.isnan(X[:, 0]), np.nan, np.arange(len(X)) % 4)
        threat = {0: "<>" if columns == CATEGORIES else 0.5, 1: "<>" if categorical else 0.3, 2: "<>"}
        boost_blocks(run, X, categorical, threat)
        # Of three classes the attacker divides one between both sides of the best split.
        for n_classes, weight in product((2, 3), (None, make_weight(len(X)))):
            y = np.resize([0, 1, 2, 2] if n_classes == 3 else [0, 1], len(X))
            grow_blocks(run, X, y, weight, categorical, threat)


def grow_blocks(
    run: Any, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None, categorical: list[int], threat: dict
) -> None:
    """Grow a tree over two blocks of rows."""
    from hardwood import RobustTreeClassifier
    from hardwood.estimators.parameters import check_grow_options
    from hardwood.estimators.target import read_problem
    from hardwood.grow.class_blocks import code_block
    from hardwood.grow.coded_rows import code_rows
    from hardwood.grow.level_trees import grow_tree_over

    model = RobustTreeClassifier(threat, categorical_features=categorical, max_depth=2)
    problem = read_problem(model, X, y, weight)
    options = replace(check_grow_options(model, *X.shape), max_bins=6)
    plan = code_rows(problem, problem.threat.resolve(problem.schema, problem.classes), options, options.max_bins)
    blocks = []
    for rows in (slice(0, len(X) // 2), slice(len(X) // 2, len(X))):
        own = None if weight is None else problem.sample_weight[rows]
        pieces = ((rows.start, rows.stop - rows.start),)
        blocks.append(code_block(plan, [problem.X[rows]], problem.class_index[rows], own, pieces))
    grow_tree_over(run, blocks, problem, plan, options, len(X))


def boost_blocks(run: Any, X: np.ndarray, categorical: list[int], threat: dict) -> None:
    """Boost a tree of two classes over two blocks of rows."""
    from hardwood import RobustBoostingClassifier
    from hardwood.estimators.boosting_input import read_classes
    from hardwood.estimators.boosting_parameters import check_boosting_options
    from hardwood.grow import boosted
    from hardwood.grow.boosted_blocks import grow_boosted_over

    words = {"categorical_features": categorical, "n_estimators": 1, "max_depth": 2, "min_child_weight": 0.0}
    model = RobustBoostingClassifier(threat, **words)
    rows, options = read_classes(model, X, np.arange(len(X)) % 2, None), check_boosting_options(model, 2)
    usual, boosted.TILE_ROWS = boosted.TILE_ROWS, len(X) // 2
    tiles, _ = rows.code(options.max_bins, n_threads=1, before=None)
    boosted.TILE_ROWS = usual
    grow_boosted_over(run, [[tile] for tile in tiles], rows.problem, tiles[0].plan, options)


def fit_boosting() -> None:
    """Boost trees, in one piece and in tiles."""
    from hardwood import RobustBoostingClassifier, RobustBoostingRegressor
    from hardwood.grow import boosted

    usual = boosted.TILE_ROWS
    for (columns, has_holes, is_wide), n_classes, tile_rows in product(TABLES, (2, 3, 0), (usual, NARROW // 2)):
        X, categorical = make_table(columns, has_holes, is_wide)
        y = make_target(len(X), n_classes)
        estimator = RobustBoostingClassifier if n_classes else RobustBoostingRegressor
        words = {"categorical_features": categorical, "n_estimators": 1, "max_depth": 2, "min_child_weight": 0.0}
        boosted.TILE_ROWS = tile_rows
        try:
            for weight in (None, make_weight(len(X))):
                model = estimator({0: "<>" if 0 in categorical else 0.1}, early_stopping=False, **words)
                model.fit(X, y, weight).certify(X)
        finally:
            boosted.TILE_ROWS = usual


def fit_with_other_options() -> None:
    """Fit with whatever else can be said, one thing at a time: it is to decide about nothing."""
    from hardwood import (
        RobustBoostingClassifier,
        RobustBoostingRegressor,
        RobustTreeClassifier,
        RobustTreeRegressor,
        ThreatModel,
    )  # fmt: skip

    threats = (
        None, {0: "10%"}, {2: ">"}, ThreatModel(0.1, {0: True, 1: False}), ThreatModel(0.1, max_changes=1),
        ThreatModel(0.1, within={2: (0.0, 1.0)}),
    )  # fmt: skip
    hiding = (ThreatModel(0.1, blank=[2]), ThreatModel(0.1, fill=[2]), ThreatModel(0.1, blank="all", fill="all"))
    shared = ({"rho": 0.5}, {"max_features": 1}, {"min_samples_leaf": 2}, {"n_jobs": 2}, {"max_leaf_nodes": 3})
    of_classes = ({"criterion": "entropy"}, {"criterion": "error"}, {"class_weight": "balanced"})
    for columns, has_holes, is_wide in product((NUMBERS, BOTH), (False, True), (False, True)):
        X, categorical = make_table(columns, has_holes, is_wide)
        two, three, numbers = (make_target(len(X), n_classes) for n_classes in (2, 3, 0))
        words = {"categorical_features": categorical, "max_depth": 2}
        for threat in threats + hiding * has_holes:
            RobustTreeClassifier(threat, **words).fit(X, two)
            RobustBoostingClassifier(threat, n_estimators=1, early_stopping=False, **words).fit(X, two)
            if getattr(threat, "attacking_classes", None) is None:
                RobustTreeClassifier(threat, **words).fit(X, three)
        for option, max_bins in product(shared, ("exact", 6)):
            for y in (two, three):
                RobustTreeClassifier(0.1, max_bins=max_bins, **words, **option).fit(X, y)
            RobustTreeRegressor(0.1, max_bins=max_bins, **words, **option).fit(X, numbers)
        for option, y in product(of_classes, (two, three)):
            RobustTreeClassifier(0.1, max_bins=6, **words, **option).fit(X, y)
        for option in (
            {"subsample": 0.5},
            {"max_features": 1},
            {"mode": "ordered"},
            {"n_jobs": 2},
            {"early_stopping": 0.4},
        ):
            for estimator, y in ((RobustBoostingClassifier, two), (RobustBoostingRegressor, numbers)):
                estimator(0.1, n_estimators=2, **words, **option).fit(X, y)
        for max_bins, weight in product(("exact", 6), (None, make_weight(len(X)))):
            model = RobustTreeClassifier(0.1, max_bins=max_bins, monotonic_cst=[0, 0, 1], **words)
            model.fit(X, two, weight)


def fit_other_tables() -> None:
    """Fit tables that are laid out in memory in other ways, and one of more classes than a byte counts."""
    import hardwood

    for columns, has_holes in product((NUMBERS, BOTH), (False, True)):
        X, categorical = make_table(columns, has_holes, False)
        read_only, every_second = X.copy(), np.repeat(X, 2, axis=0)[::2]
        read_only.flags.writeable = False
        for own, n_classes in product((np.asfortranarray(X), read_only, every_second, np.float32(X)), (2, 3, 0)):
            kind = "Classifier" if n_classes else "Regressor"
            words = {"threat": 0.1, "categorical_features": categorical, "max_depth": 2}
            for name, options in (("Tree", {"max_bins": "exact"}), ("Tree", {"max_bins": 6}), ("Boosting", {})):
                model = getattr(hardwood, f"Robust{name}{kind}")(**words, **options)
                model.fit(own, make_target(len(X), n_classes)).predict(own)
    X, y = np.arange(300.0)[:, None], np.arange(300)
    for max_bins in ("exact", 2):
        hardwood.RobustTreeClassifier(0.1, max_depth=1, max_bins=max_bins).fit(X, y)


def fit_other_estimators() -> None:
    """Fit what has growers of its own, and what finishes trees."""
    from hardwood import OptimalRobustTreeClassifier, RobustTreeClassifier, RobustTreeRegressor, TreantClassifier

    for columns, is_weighted in product((NUMBERS, CATEGORIES, BOTH), (False, True)):
        X, categorical = make_table(columns, False, True)
        y, weight, words = make_target(len(X), 2), make_weight(len(X)), {"categorical_features": categorical}
        weight = weight if is_weighted else None
        TreantClassifier({2: 0.1} if columns != CATEGORIES else None, max_depth=2, **words).fit(X, y, weight)
        RobustTreeClassifier(None if categorical else 0.1, max_depth=3, n_jobs=2, **words).fit(X, y, weight)
        for threat, refine in product((None, {0: "<>" if 0 in categorical else 0.1}), ("search", "alternate")):
            RobustTreeClassifier(threat, max_depth=2, refine=refine, n_starts=1, **words).fit(X, y, weight)
        if not categorical:
            OptimalRobustTreeClassifier(0.1, max_depth=2).fit(X, y, weight)
            RobustTreeClassifier(0.1, attacker="chen", max_depth=2).fit(X, y, weight)
            RobustTreeClassifier(0.1, attacker="chen-greedy", max_depth=2).fit(X, y)
            model = RobustTreeRegressor(0.1, criterion="absolute_error", max_depth=2)
            model.fit(X, make_target(len(X), 0), weight)


def warm() -> None:
    """Compile ahead what users' work asks for."""
    from hardwood.warm import warm_up

    warm_up()


def main(*work: str) -> None:
    """Do some kinds of work, and print the forms that each asks for."""
    found = record_forms()
    shrink()
    answer = {}
    for kind in work:
        found.clear()
        {"fit": fit_everything, "warm": warm}[kind]()
        answer[kind] = dict(found)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
