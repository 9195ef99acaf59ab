"""Trees of classes over blocks of rows: the tree of the grower in memory, to the last bit, however rows are cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from test_level_trees import CarefulRun, CountingRun, Table, assert_same, compare_trees

from hardwood import RobustTreeClassifier
from hardwood.estimators.parameters import check_grow_options
from hardwood.grow import classes
from hardwood.grow.blocks import LocalRun
from hardwood.grow.forest import ForestOptions, grow_forest, take_codes
from hardwood.grow.level_trees import grow_forest_over, grow_tree_over
from hardwood.grow.limits import SizeLimits
from hardwood.rows.task import Task
from hardwood.table import Schema
from hardwood.threat import ThreatModel

CRITERIA = ("gini", "entropy", "error")
KINDS = ("numbers", "missing", "hidden", "categories", "monotone")


class DrawnTable(Table):
    """A small table full of ties, with a threat and options of some kind."""

    balance = False

    def __init__(self, seed: int, kind: str) -> None:
        generator = np.random.default_rng(seed)

        def one_of(*values: Any) -> Any:
            return values[generator.integers(len(values))]

        n_classes = 2 if kind == "monotone" else int(generator.integers(2 if kind != "numbers" else 3, 7))
        n_rows, n_features = int(generator.integers(60, 160)), 3
        sizes = [0, int(generator.integers(1, 4)), 5] if kind == "categories" else [0] * n_features
        X = generator.integers(-8, 9, (n_rows, n_features)).astype(float)
        for j, size in enumerate(sizes):
            X[:, j] = np.abs(X[:, j]) % (size + 1) if size else X[:, j]
        slope = generator.choice([-1.0, 0.5, 2.0], n_features)
        score = X @ slope + generator.normal(size=n_rows)
        y = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
        y[:n_classes] = np.arange(n_classes)
        if seed % 3 == 0:  # blocks of few classes, or of one
            X, y = X[np.argsort(y)], np.sort(y)
        if kind != "numbers":
            X[generator.random(X.shape) < 0.15] = np.nan
        moves = [one_of(0.5, 1.0, (0.5, 2.0), ">") if not size else _draw_moves(size, one_of) for size in sizes]
        is_hidden = kind == "hidden" or (kind == "categories" and seed % 2)
        attacking = sorted(generator.permutation(n_classes)[: 1 + n_classes // 3].tolist())
        threat = ThreatModel(
            moves,
            attacking if is_hidden else one_of(None, attacking),
            blank=one_of("all", [0], [1, 2]) if is_hidden else None,
            fill=one_of("all", [0], None) if is_hidden else None,
        )
        model = RobustTreeClassifier(
            threat,
            rho=1.0 if is_hidden else one_of(1.0, 1.0, 0.6),
            criterion=one_of(*CRITERIA),
            max_depth=one_of(None, 3, 6),
            min_samples_leaf=one_of(1, 1, 4),
            max_leaf_nodes=one_of(None, None, 6, 15),
            max_features=one_of(None, None, 1, 2),
            random_state=seed,
        )
        schema = Schema(n_features, None, tuple(tuple("abcde"[:size]) or None for size in sizes), kind != "numbers")
        options = check_grow_options(model, n_rows, n_features)
        monotonic = np.sign(slope).astype(int) * [1, 0, 1] if kind == "monotone" else None
        weight = one_of(None, None, generator.choice([0.5, 1.0, 2.0, 0.7], n_rows))
        class_weight = one_of(np.ones(n_classes), 0.5 + generator.random(n_classes))
        problem = Task(X, y.astype(np.uint8), weight, class_weight, schema, np.arange(n_classes), threat)
        options = replace(options, monotonic=monotonic, max_bins=one_of(255, 12))
        self.take(problem, options)


def _draw_moves(size: int, one_of: Callable) -> Any:
    """What can be done to categories: nothing, anything, or something."""
    return one_of(None, "<>", {"a": ["abcde"[size - 1]]})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(16))
def test_the_tree_is_the_one_grown_in_memory(seed: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one block, in some, in eight; then with room for few histograms, so that levels are done in portions."""
    table = DrawnTable(seed, kind)
    compare_trees(table, [table.cut_evenly(1), table.cut_oddly(2 + seed % 6, seed), table.cut_oddly(8, seed)])
    monkeypatch.setattr(classes, "HISTOGRAM_BYTES", 1)
    compare_trees(table, [table.cut_oddly(3, seed)])


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_trees_of_drawn_rows(kind: str, balance: bool) -> None:
    table = DrawnTable(3, kind)
    forest = ForestOptions(3, table.n_rows, table.n_rows // 2, seed=1, n_jobs=1)
    grower = take_codes(table.problem, table.coded, table.options, balance_draws=balance)
    context = (LocalRun(), table.cut_oddly(4), table.empty, table.plan, table.options, forest)
    assert_same(grow_forest_over(*context, balance_draws=balance), grow_forest(grower, forest))


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_pure(kind: str) -> None:
    """They write to nothing they are handed, and do the same when they are done again."""
    table = DrawnTable(4, kind)
    compare_trees(table, [table.cut_oddly(3)], CarefulRun())


def test_steps_of_a_level() -> None:
    """One step, and one more where the attacker divides a class; none to fill leaves."""
    drawn = DrawnTable(1, "numbers")
    options = replace(drawn.options, max_leaf_nodes=None, max_features=3, size=SizeLimits(3, 2, 1), rho=1.0)
    n_steps = []
    for distance in (0.0, 1.0):
        table = DrawnTable(1, "numbers")
        table.take(replace(drawn.problem, sample_weight=None, threat=ThreatModel(distance)), options)
        run = CountingRun()
        grow_tree_over(run, table.cut_evenly(1), table.empty, table.plan, table.options, table.n_rows)
        n_steps.append(run.n_steps)
    # Each is a task that does the step, and one that takes what it has counted.
    assert n_steps == [2 * 3, 2 * 6]  # plant, descend, descend; plant, tally, descend, tally, descend, tally


def test_a_block_of_too_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    table = DrawnTable(1, "numbers")
    monkeypatch.setattr(classes.Target, "most_samples", 29)
    with pytest.raises(ValueError, match=r"a block has \d+ rows, \d+ samples, and at most 29 .* more partitions"):
        grow_tree_over(LocalRun(), table.cut_evenly(1), table.empty, table.plan, table.options, table.n_rows)
