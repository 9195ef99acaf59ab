"""Compiling ahead of time: for images, for whoever times anything, and for programs that say what they wait for.

``python -m hardwood.warm`` compiles everything, ``python -m hardwood.warm predict`` what predicting needs, and
``--jobs 2`` has two processes do it. What has been compiled before is loaded, in a fraction of a second.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from hardwood.estimators import RobustBoostingClassifier

_X = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0], [3.0, 1.0]])
_Y = np.array([0, 0, 1, 1])
# Weights are no other form of the kernels that grow trees, but what they add up exactly is a kernel of its own.
_WEIGHT = np.array([1.0, 2.0, 1.0, 2.0])


class _Table(NamedTuple):
    """A table of two columns."""

    X: np.ndarray
    categorical_features: list[int]


def _make_tables(*, categories: bool = False, holes: bool = False) -> list[_Table]:
    """Return a table whose codes take one byte, and one of two: other forms of the kernels."""
    from hardwood.grow.bins import BYTE_CODES

    tables = []
    for n_rows in (len(_X), BYTE_CODES + 2):  # the ends of reach, and categories, are as many at least
        X = np.column_stack([np.arange(n_rows), np.arange(n_rows) % 4]).astype(float)
        X[-1] = np.nan if holes else X[-1]
        tables.append(_Table(X, [0] * categories))
    return tables


def _make_noise() -> tuple[np.ndarray, np.ndarray]:
    """Return a table that nothing can be learnt from: every method has all hands full."""
    generator = np.random.default_rng(0)
    return generator.random((60, 4)), generator.integers(0, 2, 60)


def _warm_predict() -> None:
    from sklearn.tree import DecisionTreeClassifier

    from hardwood.convert import as_ensemble

    ensemble = as_ensemble(DecisionTreeClassifier(max_depth=1).fit(_X, _Y))
    ensemble.predict(_X)
    ensemble.apply(_X)
    ensemble.decision_path(_X)
    replace(ensemble, precision="float32").predict(_X)  # as XGBoost adds up


def _warm_fit() -> None:
    from hardwood.estimators import RobustTreeClassifier

    RobustTreeClassifier(threat=0.1).fit(_X, _Y)


def _warm_binned() -> None:
    from hardwood.estimators import RobustTreeClassifier

    RobustTreeClassifier(threat=0.1, max_bins=4).fit(_X, _Y, _WEIGHT)


def _warm_levels() -> None:
    _grow_levels(_Table(_X, []), np.array([0, 1, 1, 0]), 0.1)  # more than one level
    # Of three classes the attacker divides one between both sides of a split.
    _grow_levels(_Table(_X, []), np.array([0, 1, 2, 2]), 0.5)
    for table in _make_tables(categories=True):
        _grow_levels(table, np.resize([0, 1, 2, 2], len(table.X)), {0: "<>", 1: 0.5})


def _grow_levels(table: _Table, y: np.ndarray, threat: object) -> None:
    from hardwood.estimators import RobustTreeClassifier
    from hardwood.estimators.parameters import check_grow_options
    from hardwood.estimators.target import read_problem
    from hardwood.grow.bins import MOST_BINS
    from hardwood.grow.blocks import LocalRun
    from hardwood.grow.class_blocks import code_block
    from hardwood.grow.coded_rows import code_rows
    from hardwood.grow.level_trees import grow_tree_over

    X = table.X
    model = RobustTreeClassifier(threat, categorical_features=table.categorical_features, max_depth=2)
    problem = read_problem(model, X, y, 1.0 + y)
    options = replace(check_grow_options(model, *X.shape), max_bins=MOST_BINS)
    plan = code_rows(problem, problem.threat.resolve(problem.schema, problem.classes), options, options.max_bins)
    block = code_block(plan, [problem.X], problem.class_index, problem.sample_weight, ((0, len(X)),))
    grow_tree_over(LocalRun(), [block], problem, plan, options, len(X))


def _warm_regression() -> None:
    from hardwood.estimators import RobustTreeRegressor

    for criterion in ("squared_error", "absolute_error"):
        RobustTreeRegressor(threat=0.1, criterion=criterion).fit(_X, _Y, _WEIGHT)
    RobustTreeRegressor(threat=0.1, max_bins=4).fit(_X, _Y)
    for categories in (False, True):
        for X, categorical_features in _make_tables(categories=categories, holes=True):
            model = RobustTreeRegressor({1: 0.1}, max_bins="exact", max_depth=2)
            model.set_params(categorical_features=categorical_features).fit(X, np.arange(len(X)) % 2)


def _warm_many_classes() -> None:
    from hardwood.estimators import RobustTreeClassifier

    for max_bins in ("exact", 4):
        RobustTreeClassifier(threat=0.1, max_bins=max_bins).fit(_X, [0, 1, 2, 2], _WEIGHT)


def _warm_missing() -> None:
    _fit_special(holes=True)


def _fit_special(*, categories: bool = False, holes: bool = False) -> None:
    """Fit trees of categories, or of values that are missing, in codes of one byte and of two."""
    from hardwood.estimators import RobustTreeClassifier

    for X, categorical_features in _make_tables(categories=categories, holes=holes):
        model = RobustTreeClassifier({1: 0.1}, max_depth=2, categorical_features=categorical_features)
        model.fit(X, np.arange(len(X)) % 3, 1.0 + np.arange(len(X)))


def _warm_threads() -> None:
    from hardwood.estimators import RobustTreeClassifier
    from hardwood.grow.exact import LARGE_NODE

    X, y = np.tile(_X, (LARGE_NODE, 1)), np.tile([0, 1, 1, 0], LARGE_NODE)  # two levels of large nodes
    RobustTreeClassifier(threat=0.1, max_depth=2, n_jobs=2).fit(X, y)


def _warm_categories() -> None:
    from hardwood.estimators import RobustTreeClassifier

    RobustTreeClassifier(categorical_features=[0]).fit(_X, _Y)
    _fit_special(categories=True)


def _warm_boosting() -> None:
    for table in _list_boosting_tables():
        model = _make_boosting(table).set_params(early_stopping=False)
        model.fit(table.X, np.arange(len(table.X)) % 2).certify(table.X)


def _warm_boosting_levels() -> None:
    from hardwood.estimators.boosting import code_task
    from hardwood.estimators.boosting_parameters import check_boosting_options
    from hardwood.grow.blocks import LocalRun
    from hardwood.grow.boosted_blocks import grow_boosted_over
    from hardwood.rows.request import read_request
    from hardwood.rows.sources import TableSource, read_task

    for table in _list_boosting_tables():
        model = _make_boosting(table)
        source = TableSource(table.X, np.arange(len(table.X)) % 2, None)
        task = read_task(source, read_request(model, is_open=True))
        options = check_boosting_options(model, 2)
        tiles, _ = code_task(task, task.resolve(), options.max_bins, n_threads=1)
        grow_boosted_over(LocalRun(), [tiles], task, tiles[0].plan, options)


def _list_boosting_tables() -> list[_Table]:
    return [table for categories in (False, True) for table in _make_tables(categories=categories)]


def _make_boosting(table: _Table) -> "RobustBoostingClassifier":
    from hardwood.estimators import RobustBoostingClassifier
    from hardwood.threat import ThreatModel

    # Of numbers that can be hidden there are twice as many codes as bins: two bytes.
    threat = ThreatModel({1: 0.1}, blank=[0] if len(table.X) > len(_X) else None)
    model = RobustBoostingClassifier(threat, n_estimators=2, max_depth=2, min_child_weight=0.0)
    return model.set_params(categorical_features=table.categorical_features)


def _warm_chen() -> None:
    from hardwood.estimators import RobustTreeClassifier

    RobustTreeClassifier(threat=0.1, attacker="chen").fit(_X, _Y)


def _warm_treant() -> None:
    from hardwood.estimators import TreantClassifier

    for categorical_features in ([], [0]):
        TreantClassifier(threat={1: 0.1}, categorical_features=categorical_features).fit(_X, _Y)


def _warm_one_tree() -> None:
    from sklearn.tree import DecisionTreeClassifier

    from hardwood.attacks import attack
    from hardwood.evaluation import evaluate

    X, y = _make_noise()
    tree = DecisionTreeClassifier(max_depth=2).fit(X, y)
    evaluate(tree, X, y, 0.2)  # so far that rows are in conflict, for the ceiling
    attack(tree, X, y)


def _warm_ensembles() -> None:
    from sklearn.ensemble import RandomForestClassifier

    from hardwood.attacks import attack
    from hardwood.convert import as_ensemble
    from hardwood.evaluation import evaluate
    from hardwood.threat import ThreatModel
    from hardwood.verification.ask import AskSettings, decide, nearest
    from hardwood.verification.settings import SETTINGS

    forest = RandomForestClassifier(3, random_state=0).fit(_X, _Y)
    evaluate(forest, _X, _Y, 0.1)
    attack(forest, _X, _Y)
    # Noise, and a search that holds every row to be a hard one: all kernels are needed.
    X = np.random.default_rng(0).random((40, 3))
    ensemble = as_ensemble(RandomForestClassifier(9, random_state=0).fit(X, np.arange(40) % 2))
    reach, own = ThreatModel(0.2).resolve(ensemble.schema, ensemble.labels), ensemble.decide(X)
    hard = AskSettings(search=SETTINGS._replace(clock_work=1, easy_work=1, easy_boxes=-1))
    decide(ensemble, X, own, reach, hard)
    nearest(ensemble, X, own, reach, 1.0, np.ones(3), hard)


def _warm_heuristic() -> None:
    from sklearn.ensemble import RandomForestClassifier

    from hardwood.attacks import attack

    forest = RandomForestClassifier(3, random_state=0).fit(_X, _Y)
    for method in ("heuristic", "coordinate", "lowest"):
        attack(forest, _X, _Y, 0.1, method=method)


def _warm_rules() -> None:
    from sklearn.tree import DecisionTreeClassifier

    from hardwood.threat import AttackRule, ThreatModel
    from hardwood.verification import verify

    threat = ThreatModel(rules=[AttackRule(0, add=1.0)], budget=1.0)
    verify(DecisionTreeClassifier(max_depth=2).fit(_X, _Y), _X, _Y, threat)


def _warm_refine() -> None:
    from sklearn.tree import DecisionTreeClassifier

    from hardwood.estimators import RobustTreeClassifier
    from hardwood.refinement import prune, refine, relabel

    X, y = _make_noise()
    tree = DecisionTreeClassifier(random_state=0).fit(X, y)
    for revise in (prune, refine, relabel):
        revise(tree, X, y, 0.1)
    X[:, 0] = np.round(5 * X[:, 0])
    for monotonic_cst, target in ((None, y), (None, X[:, 0] % 3), ({1: 1}, X[:, 0] % 2)):
        # From a leaf on, so that there is a split by categories to be found.
        RobustTreeClassifier(
            {1: 0.1}, refine="alternate", min_impurity_decrease=1.0, max_depth=3, monotonic_cst=monotonic_cst,
            categorical_features=[0],
        ).fit(X, target)  # fmt: skip


def _warm_optimal() -> None:
    from hardwood.estimators import OptimalRobustTreeClassifier

    for max_depth in (1, 2):
        OptimalRobustTreeClassifier(0.1, max_depth=max_depth).fit(*_make_noise())


WORK: Mapping[str, Callable[[], None]] = MappingProxyType(
    {
        "predict": _warm_predict,
        "fit": _warm_fit,
        "binned": _warm_binned,
        "levels": _warm_levels,
        "regression": _warm_regression,
        "many classes": _warm_many_classes,
        "missing values": _warm_missing,
        "threads": _warm_threads,
        "categories": _warm_categories,
        "boosting": _warm_boosting,
        "boosting levels": _warm_boosting_levels,
        "chen": _warm_chen,
        "treant": _warm_treant,
        "refine": _warm_refine,
        "optimal": _warm_optimal,
        "one tree": _warm_one_tree,
        "ensembles": _warm_ensembles,
        "heuristic": _warm_heuristic,
        "rules": _warm_rules,
    }
)


# Kinds of work that compile much of the same, which one process does once.
_TOGETHER = (("levels", "many classes"), ("missing values", "categories"), ("ensembles", "heuristic"))


def warm_up(*work: str) -> None:
    """Compile what some kinds of work need, or load it if it has been compiled before.

    Parameters
    ----------
    *work : str
        Some of "predict"; "fit" (robust trees, numbers), "binned" (large tables), "levels" (tables in blocks, on
        several machines), "many classes", "missing values", "regression", "threads" (two classes exactly, by several
        threads), "categories", "boosting", "boosting levels" (many rows), "chen", "treant" (other ways to fit),
        "refine", "optimal" (better ones); "one tree", "ensembles" (verifying, attacking, evaluating), "heuristic"
        (attacks), "rules" (threats with costs). By default, everything.

    Examples
    --------
    >>> from hardwood.warm import warm_up
    >>> warm_up("predict")
    """
    for name in work or WORK:
        if name not in WORK:
            raise ValueError(f"work: expected some of {', '.join(map(repr, WORK))}, got {name!r}")
        WORK[name]()


def _share_out(work: Iterable[str]) -> list[list[str]]:
    """Return what processes can do side by side, the most first."""
    wanted = list(work)
    groups = [[name for name in group if name in wanted] for group in _TOGETHER]
    rest = [name for name in wanted if not any(name in group for group in _TOGETHER)]
    return [group for group in groups if group] + [[name] for name in rest]


def _warm_up_all(work: list[str]) -> None:
    warm_up(*work)


def main() -> None:
    """Compile what the command line names, or everything."""
    parser = argparse.ArgumentParser(prog="python -m hardwood.warm", description="Compile hardwood's kernels.")
    parser.add_argument("work", nargs="*", metavar="WORK", help=f"some of {', '.join(map(repr, WORK))}; default: all")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes side by side; default: 1")
    arguments = parser.parse_args()
    try:
        if arguments.jobs == 1:
            warm_up(*arguments.work)
        else:
            with ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as processes:
                list(processes.map(_warm_up_all, _share_out(arguments.work or WORK)))
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
