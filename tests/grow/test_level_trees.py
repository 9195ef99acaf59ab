"""Trees grown level by level, over blocks of rows: to the last bit those grown from the same rows in memory."""

import pickle
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood import RobustForestClassifier, RobustTreeClassifier
from hardwood.estimators.forest_parts import check_forest
from hardwood.estimators.parameters import check_grow_options
from hardwood.estimators.target import read_problem
from hardwood.grow import classes, level_trees
from hardwood.grow.blocks import LocalRun, Step
from hardwood.grow.bootstrap import STRETCH_ROWS
from hardwood.grow.class_blocks import ClassBlock, code_block
from hardwood.grow.coded_rows import CodedRows, CodePlan, code_rows
from hardwood.grow.forest import grow_forest, take_codes
from hardwood.grow.level_trees import grow_forest_over, grow_tree_over
from hardwood.grow.limits import GrowOptions
from hardwood.grow.tree import grow_coded
from hardwood.rows.task import Task


def freeze(thing: Any) -> None:
    """Make all arrays of something read-only."""
    if isinstance(thing, np.ndarray):
        thing.flags.writeable = False
    elif isinstance(thing, dict):
        for each in thing.values():
            freeze(each)
    elif isinstance(thing, tuple):
        for each in thing:
            freeze(each)


class CarefulRun(LocalRun):
    """Hands everything over as other machines would see it, read-only, and does every step twice."""

    def submit(self, function: Any, *arguments: Any, name: str) -> Any:
        first, again = (self._call(function, arguments) for _ in range(2))
        assert pickle.dumps(first) == pickle.dumps(again), name
        return first

    def _call(self, function: Any, arguments: tuple) -> Any:
        handed = pickle.loads(pickle.dumps(arguments))
        for argument in handed:
            freeze(argument)
            if isinstance(argument, ClassBlock):
                freeze(tuple(getattr(argument, field.name) for field in fields(argument)))
            for step in argument.values() if isinstance(argument, dict) else ():
                if isinstance(step, Step):
                    freeze(tuple(getattr(step, field.name) for field in fields(step)))
        result = function(*handed)
        for argument, before in zip(handed, arguments, strict=True):
            assert pickle.dumps(argument) == pickle.dumps(pickle.loads(pickle.dumps(before)))
        return result


class Table:
    """A problem in memory, and the same without its rows."""

    def __init__(self, model: Any, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> None:
        reader = model
        self.balance = isinstance(model.class_weight, str) and model.class_weight == "balanced_subsample"
        if self.balance:
            reader = type(model)(**{**model.get_params(), "class_weight": None})
        problem = read_problem(reader, X, y, weight)
        max_bins = None if model.max_bins == "exact" else model.max_bins  # on bins, that is one per end of reach
        self.take(problem, replace(check_grow_options(model, len(problem.X), X.shape[1]), max_bins=max_bins))

    def take(self, problem: Task, options: GrowOptions) -> None:
        """Take a problem, and how to grow trees."""
        self.problem, self.options, self.n_rows = problem, options, len(problem.X)
        reach = self.problem.threat.resolve(self.problem.schema, self.problem.classes)
        self.coded: CodedRows = code_rows(self.problem, reach, self.options, self.options.max_bins)
        self.plan = CodePlan(self.coded.bins, self.coded.reach, self.coded.stays, self.coded.categories)
        own = self.problem.sample_weight
        self.empty = replace(
            self.problem, X=self.problem.X[:0], target=self.problem.target[:0],
            sample_weight=None if own is None else own[:0],
        )  # fmt: skip

    def cut(self, pieces_of_blocks: list) -> list[ClassBlock]:
        """Code blocks of the table."""
        problem = self.problem
        blocks = []
        for pieces in pieces_of_blocks:
            rows = np.concatenate([np.arange(0), *(np.arange(first, first + n) for first, n in pieces)])
            weight = None if problem.sample_weight is None else problem.sample_weight[rows]
            blocks.append(
                code_block(
                    self.plan, np.array_split(problem.X[rows], 2), problem.class_index[rows], weight, tuple(pieces)
                )
            )
        return blocks

    def cut_evenly(self, n_blocks: int) -> list[ClassBlock]:
        ends = np.linspace(0, self.n_rows, n_blocks + 1).astype(int).tolist()
        return self.cut([[(a, b - a)] for a, b in pairwise(ends)])

    def cut_oddly(self, n_blocks: int, seed: int = 0) -> list[ClassBlock]:
        """Blocks of several pieces each, in any order; the second has no rows, the third at most one."""
        generator = np.random.default_rng(seed)
        ends = np.sort(generator.integers(0, self.n_rows + 1, 3 * n_blocks)).tolist()
        ends = [0, min(1, ends[0]), *ends, self.n_rows]
        pieces = [(a, b - a) for a, b in pairwise(ends)]
        blocks: list[list] = [[] for _ in range(n_blocks)]
        for number in generator.permutation(len(pieces) - 1).tolist():
            owner = int(generator.integers(n_blocks))
            blocks[0 if owner in (1, 2) else owner].append(pieces[number + 1])
        blocks[min(2, n_blocks - 1)].append(pieces[0])
        return self.cut(blocks)


def assert_same(trees: Any, others: Any) -> None:
    for ours, theirs in zip(trees, others, strict=True):
        for field in fields(ours):
            mine, other = getattr(ours, field.name), getattr(theirs, field.name)
            if isinstance(mine, np.ndarray):
                assert mine.dtype == other.dtype
                np.testing.assert_array_equal(mine, other, err_msg=field.name)
            else:
                assert mine == other, field.name


def compare_trees(table: Table, cuts: list, run: Any = None) -> None:
    expected = grow_coded(table.problem, table.coded, table.options)
    for blocks in cuts:
        ours = grow_tree_over(run or LocalRun(), blocks, table.empty, table.plan, table.options, table.n_rows)
        assert_same([ours], [expected])


def make_table(n: int, seed: int = 0, n_features: int = 4) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    X = generator.random((n, n_features))
    y = (np.sin(6 * X) @ np.linspace(1.0, 0.4, n_features) > 0.0).astype(np.int64)
    return X, np.where(generator.random(n) < 0.1, 1 - y, y)


@st.composite
def problems(draw: st.DrawFn) -> tuple:
    n, seed = draw(st.integers(2, 300)), draw(st.integers(0, 1000))
    X, y = make_table(n, seed)
    X, y[:2] = np.round(X, draw(st.sampled_from([1, 2, 9]))), (0, 1)
    if draw(st.booleans()):
        y = np.sort(y)  # blocks of one class
    model = RobustTreeClassifier(
        threat=draw(st.sampled_from([None, 0.02, 0.1, [0.05, (0.0, 0.1), ">", None]])),
        rho=draw(st.sampled_from([1.0, 1.0, 0.3])),
        attacking_classes=draw(st.sampled_from([None, [1]])),
        criterion=draw(st.sampled_from(["gini", "entropy", "error"])),
        max_depth=draw(st.sampled_from([None, None, 1, 5])),
        min_samples_split=draw(st.sampled_from([2, 2, 20])),
        min_samples_leaf=draw(st.sampled_from([1, 1, 7])),
        min_impurity_decrease=draw(st.sampled_from([0.0, 0.0, 0.01])),
        max_features=draw(st.sampled_from([None, None, 1, 2])),
        max_leaf_nodes=draw(st.sampled_from([None, None, 2, 3, 9, 30])),
        class_weight=draw(st.sampled_from([None, "balanced", {0: 0.3, 1: 2.0}])),
        max_bins=draw(st.sampled_from([4, 255, "exact"])),
        random_state=draw(st.integers(0, 3)),
    )
    weight = None
    if draw(st.booleans()):
        weight = np.random.default_rng(seed).choice([0.5, 1.0, 0.7, 1e-3, 0.0], n)
        weight[:2] = 1.0
    return model, X, y, weight


@given(problems(), st.integers(1, 8), st.integers(0, 99))
def test_trees_do_not_depend_on_the_cut(problem: tuple, n_blocks: int, seed: int) -> None:
    table = Table(*problem)
    compare_trees(table, [table.cut_oddly(n_blocks, seed)])


@pytest.mark.parametrize(
    "parameters",
    [
        {"max_depth": 8},
        {"max_depth": 8, "rho": 0.4, "weighted": True},
        {"max_depth": None, "class_weight": "balanced"},
        {"max_depth": None, "max_leaf_nodes": 40, "criterion": "entropy"},
        {"max_depth": None, "max_leaf_nodes": 100, "weighted": True, "max_features": 2, "random_state": 1},
        {"max_depth": 12, "max_features": 1, "min_samples_leaf": 5, "random_state": 2},
    ],
)
def test_any_number_of_blocks(parameters: dict) -> None:
    X, y = make_table(6000)
    weight = np.random.default_rng(1).random(len(X)) if parameters.pop("weighted", False) else None
    table = Table(RobustTreeClassifier(0.03, max_bins=64, **parameters), X, y, weight)
    compare_trees(table, [table.cut_evenly(n) for n in (1, 2, 3, 8)] + [table.cut_oddly(8)])


@pytest.mark.parametrize("max_leaf_nodes", [None, 50])
@pytest.mark.parametrize("rho", [1.0, 0.5])
def test_levels_in_portions(max_leaf_nodes: int | None, rho: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for few histograms a level is done in portions, and some are counted anew: the tree is the same."""
    X, y = make_table(3000)
    table = Table(RobustTreeClassifier(0.02, rho=rho, max_leaf_nodes=max_leaf_nodes, max_bins=32), X, y)
    histogram = 8 * 4 * table.plan.bins.n_columns * table.plan.bins.width
    steps = []
    for n_slots in (10_000, 20, 1):
        monkeypatch.setattr(classes, "HISTOGRAM_BYTES", n_slots * histogram)
        run = CountingRun()
        compare_trees(table, [table.cut_evenly(3)], run)
        steps.append(run.n_steps)
    assert steps[0] <= steps[1] < steps[2]


class CountingRun(LocalRun):
    """Counts what is submitted."""

    n_steps = 0

    def submit(self, function: Any, *arguments: Any, name: str) -> Any:
        self.n_steps += 1
        return super().submit(function, *arguments, name=name)


def test_one_journey_per_level() -> None:
    """A tree of depth 6 is a root and five levels: what the last level leaves is not counted any more."""
    X, y = make_table(6000)
    table = Table(RobustTreeClassifier(0.03, max_depth=6, max_bins=64), X, y)
    run = CountingRun()
    grow_tree_over(run, table.cut_evenly(1), table.empty, table.plan, table.options, table.n_rows)
    assert run.n_steps == 2 * 6  # each of them a task that does the step, and one that takes what it has counted


@pytest.mark.parametrize("weighted", [False, True])
def test_steps_are_pure(weighted: bool) -> None:
    """Steps write to nothing they are handed, and do the same whenever they are done again, on any machine."""
    X, y = make_table(1500)
    weight = np.random.default_rng(1).random(len(X)) + 0.5 if weighted else None
    table = Table(RobustTreeClassifier(0.03, rho=0.7 if weighted else 1.0, max_depth=6, max_bins=32), X, y, weight)
    compare_trees(table, [table.cut_oddly(4)], CarefulRun())
    forest = RobustForestClassifier(
        0.03, n_estimators=2, max_depth=4, bootstrap=True, class_weight="balanced_subsample", random_state=3
    )
    compare_forests(Table(forest, X, y, weight), forest, 4, CarefulRun())


def test_more_rows_than_one_word_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond 2 ** 31 rows histograms add up weights instead of counts: the same splits."""
    X, y = make_table(2000)
    table = Table(RobustTreeClassifier(0.03, max_depth=6, max_bins=32), X, y)
    monkeypatch.setattr(level_trees, "MOST_COUNTED", 1999)
    compare_trees(table, [table.cut_evenly(3)])


def compare_forests(table: Table, model: RobustForestClassifier, n_blocks: int, run: Any = None) -> None:
    forest = check_forest(model, table.n_rows, model.random_state)
    grower = take_codes(table.problem, table.coded, table.options, balance_draws=table.balance)
    expected = grow_forest(grower, forest)
    for blocks in (table.cut_evenly(n_blocks), table.cut_oddly(n_blocks)):
        context = (run or LocalRun(), blocks, table.empty, table.plan, table.options, forest)
        ours = grow_forest_over(*context, balance_draws=table.balance)
        assert_same(ours, expected)
        assert_same(grow_forest_over(*context, balance_draws=table.balance, first=1), expected[1:])


@pytest.mark.parametrize("n_rows", [3000, 2 * STRETCH_ROWS + 100])
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"bootstrap": True, "weighted": True},
        {"bootstrap": True, "class_weight": "balanced_subsample", "max_samples": 0.3},
        {"bootstrap": True, "class_weight": "balanced_subsample", "rho": 0.5, "max_samples": 20_000, "max_depth": 3},
        {"class_weight": "balanced_subsample", "max_leaf_nodes": 6},
    ],
)
def test_forests_do_not_depend_on_the_cut(n_rows: int, parameters: dict) -> None:
    """Rows drawn in stretches, classes balanced in every draw: each block finds its share."""
    parameters = dict(parameters)
    X, y = make_table(n_rows)
    weight = np.random.default_rng(1).random(len(X)) if parameters.pop("weighted", False) else None
    model = RobustForestClassifier(0.02, n_estimators=3, max_bins=32, random_state=5, **parameters)
    compare_forests(Table(model, X, y, weight), model, 5)


def test_forests_in_portions() -> None:
    """More trees than grow side by side; whoever waits is told how many there are."""
    X, y = make_table(800)
    model = RobustForestClassifier(0.02, n_estimators=2 * level_trees.SIDE_BY_SIDE + 3, max_bins=16, random_state=5)
    table, told = Table(model, X, y), []
    forest = replace(check_forest(model, table.n_rows, 5), progress=lambda done, total: told.append((done, total)))
    trees = grow_forest_over(LocalRun(), table.cut_evenly(2), table.empty, table.plan, table.options, forest)
    assert told == [(8, 19), (16, 19), (19, 19)]
    grower = take_codes(table.problem, table.coded, table.options, balance_draws=False)
    assert_same(trees, grow_forest(grower, replace(forest, progress=None)))


def test_a_block_of_too_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = make_table(50)
    table = Table(RobustTreeClassifier(0.1, max_bins=8), X, y)
    context = (table.empty, table.plan, table.options, table.n_rows)
    expected = grow_coded(table.problem, table.coded, table.options)
    monkeypatch.setattr(classes.Target, "most_samples", 29)
    assert_same([grow_tree_over(LocalRun(), table.cut_evenly(2), *context)], [expected])
    with pytest.raises(ValueError, match=r"a block has 50 rows, 50 samples, and at most 29 .* more partitions"):
        grow_tree_over(LocalRun(), table.cut_evenly(1), *context)
    with pytest.raises(ValueError, match=r"X has 50 rows, 50 samples; at most 29 are supported"):
        grow_coded(table.problem, table.coded, table.options)


def test_pieces_that_are_not_the_rows() -> None:
    X, y = make_table(50)
    table = Table(RobustTreeClassifier(0.1, max_bins=8), X, y)
    with pytest.raises(ValueError, match=r"pieces: expected 50 rows in all"):
        code_block(table.plan, [table.problem.X], table.problem.class_index, None, ((0, 20), (30, 20)))
