"""Boosting over blocks of rows: the same model, bit for bit, as from the table in one piece."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hardwood import ThreatModel
from hardwood.estimators.boosting_parameters import draw_folds
from hardwood.grow import boosted, boosting_trees
from hardwood.grow.blocks import LocalRun
from hardwood.grow.boosted import code_tiles, grow_boosted
from hardwood.grow.boosted_blocks import gather_classes, grow_boosted_over
from hardwood.grow.boosting import Boosted, BoostingOptions
from hardwood.grow.boosting_steps import BoostBlock
from hardwood.grow.codes import TablePlan, plan_table
from hardwood.grow.row_draws import DrawnRows, ListedRows
from hardwood.rows.sampling import take_sample
from hardwood.rows.task import Task
from hardwood.table import Schema

N_ROWS = 400


class Case:
    """A table of three numbers and a category, and how it is boosted."""

    def __init__(self, *, n_classes: int = 2, threat: Any = None, missing: bool = False, **changes: Any) -> None:
        generator = np.random.default_rng(0)
        self.X = np.column_stack([generator.random((N_ROWS, 3)), generator.integers(0, 4, N_ROWS)])
        signal = self.X[:, 0] + (self.X[:, 3] > 1) * self.X[:, 1] + 0.1 * generator.normal(size=N_ROWS)
        classes = np.digitize(signal, np.linspace(0.4, 1.2, max(n_classes - 1, 1))).astype(np.uint8)
        self.target = signal if n_classes == 0 else classes
        if missing:
            self.X[generator.random(self.X.shape) < 0.1] = np.nan
        self.weight = generator.choice([0.3, 1.0, 2.7], N_ROWS)
        schema = Schema(4, None, (None, None, None, ("a", "b", "c", "d")), accepts_missing=True)
        self.classes = None if n_classes == 0 else np.arange(n_classes)
        words = {"threat": {0: 0.05, 1: (0.0, 0.1)}} if threat is None else dict(threat)
        threat = ThreatModel(words.pop("threat"), **words)
        weight = np.ones(max(1, n_classes))
        self.task = Task(np.empty((0, 4)), np.empty(0), None, weight, schema, self.classes, threat)
        self.reach = self.task.resolve()
        self.early_stopping = changes.pop("early_stopping", False)
        options = {
            "n_rounds": 6, "max_depth": 4, "learning_rate": 0.5, "l2": 1.0, "min_gain": 0.0, "min_child_weight": 1.0,
            "subsample": 1.0, "max_features": 4, "ordered": False, "max_bins": 40, "seed": 3, "patience": 3,
        }  # fmt: skip
        self.options = BoostingOptions(**(options | changes))

    @property
    def class_index(self) -> np.ndarray | None:
        return None if self.classes is None else self.target.astype(np.uint8)

    @property
    def own_class(self) -> np.ndarray:
        return np.zeros(N_ROWS, dtype=np.uint8) if self.class_index is None else self.class_index

    def plan(self) -> TablePlan:
        sample = take_sample(self.X, self.own_class, self.reach, self.options.max_bins)
        return plan_table(sample, self.reach, self.options.max_bins)

    def draw_folds(self, read_classes: Callable[[], np.ndarray]) -> Any:
        n_per_class = None if self.class_index is None else np.bincount(self.class_index)
        return draw_folds(self.early_stopping, n_per_class, N_ROWS, self.options.seed, read_classes)

    def cut(self, plan: TablePlan, pieces_of_blocks: list[list[tuple[int, int]]]) -> list[list[BoostBlock]]:
        blocks = []
        for pieces in pieces_of_blocks:
            rows = np.concatenate([np.arange(0), *(np.arange(first, first + n) for first, n in pieces)]).astype(int)
            own = replace(self.task, target=self.target[rows], sample_weight=self.weight[rows])
            blocks.append(code_tiles(plan, own, [self.X[rows]], pieces))
        return blocks

    def grow_whole(self) -> tuple[str, Boosted]:
        plan = self.plan()
        (tiles,) = self.cut(plan, [[(0, N_ROWS)]])
        folds = self.draw_folds(lambda: np.asarray(self.class_index))
        ensemble, grown = grow_boosted(self.task, tiles, self.options, folds, n_threads=1)
        return ensemble.to_json(), grown

    def grow_over(self, run: Any, pieces_of_blocks: list[list[tuple[int, int]]]) -> tuple[str, Boosted]:
        plan = self.plan()
        blocks = self.cut(plan, pieces_of_blocks)
        folds = self.draw_folds(lambda: gather_classes(run, blocks, N_ROWS))
        ensemble, grown = grow_boosted_over(run, blocks, self.task, plan, self.options, folds)
        return ensemble.to_json(), grown


CUTS: dict[str, list[list[tuple[int, int]]]] = {
    "one": [[(0, N_ROWS)]],
    "two": [[(0, 150)], [(150, 250)]],
    "with an empty one": [[(0, 1)], [], [(1, 399)]],
    "in pieces": [[(300, 100), (0, 7)], [(7, 0), (200, 100)], [(7, 193)]],
    "eight": [[(50 * k, 50)] for k in range(8)],
}

CASES: dict[str, dict[str, Any]] = {
    "two classes": {},
    "three classes": {"n_classes": 3},
    "numbers": {"n_classes": 0},
    "no threat": {"threat": {"threat": {}}},
    "missing values": {"missing": True},
    "missing values of three classes": {"missing": True, "n_classes": 3},
    "hidden values": {"missing": True, "threat": {"threat": {0: 0.1}, "blank": [0, 3], "fill": [1, 3]}},
    "categories that move": {"threat": {"threat": {0: 0.05, 3: {"a": ["b"], "c": ["a", "d"]}}}},
    "shares": {"threat": {"threat": "10%"}, "n_classes": 0},
    "one class attacks": {"threat": {"threat": {0: 0.1, 1: 0.1}, "attacking_classes": 1}},
    "some rows": {"subsample": 0.6},
    "some features": {"max_features": 2, "n_classes": 3},
    "ordered": {"ordered": True, "missing": True},
    "ordered, three classes": {"ordered": True, "n_classes": 3, "threat": {"threat": {0: 0.1, 2: 0.1}}},
    "folds": {"early_stopping": "cv", "n_rounds": 12, "learning_rate": 1.0},
    "folds of numbers": {"early_stopping": "cv", "n_classes": 0, "n_rounds": 4},
    "rows held out": {"early_stopping": 0.2, "n_classes": 3, "subsample": 0.8},
    "trees that are cut": {"learning_rate": 3.0, "n_classes": 3, "min_child_weight": 0.0},
}


def assert_same(mine: tuple[str, Boosted], expected: tuple[str, Boosted]) -> None:
    assert mine[0] == expected[0]
    for name in ("n_done", "train_loss", "held_out_loss", "total_weight"):
        assert getattr(mine[1], name) == getattr(expected[1], name)
    np.testing.assert_array_equal(mine[1].base, expected[1].base)
    np.testing.assert_array_equal(mine[1].directions, expected[1].directions)
    assert [len(trees) for trees in mine[1].rounds] == [len(trees) for trees in expected[1].rounds]
    fields = ["feature", "cut", "direction", "missing_left", "left", "parent", "depth", "value", "cover", "gain"]
    for trees, others in zip(mine[1].rounds, expected[1].rounds, strict=True):
        for tree, other in zip(trees, others, strict=True):
            is_split = tree.nodes["feature"] >= 0  # leaves have no cut, and no gain
            np.testing.assert_array_equal(tree.nodes[fields][is_split], other.nodes[fields][is_split])
            np.testing.assert_array_equal(tree.nodes["value"], other.nodes["value"])
            assert tree.output == other.output


@pytest.mark.parametrize("name", CASES)
def test_same_model_however_rows_are_cut(name: str) -> None:
    case = Case(**CASES[name])
    expected = case.grow_whole()
    assert sum(len(tree.nodes) for trees in expected[1].rounds for tree in trees) > 20
    for pieces in CUTS.values():
        assert_same(case.grow_over(LocalRun(), pieces), expected)


def test_many_rows_are_cut_into_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(**CASES["rows held out"])
    expected = case.grow_whole()
    monkeypatch.setattr(boosted, "TILE_ROWS", 150)
    assert len(case.cut(case.plan(), CUTS["one"])[0]) == 2
    assert_same(case.grow_whole(), expected)
    assert_same(case.grow_over(LocalRun(), CUTS["in pieces"]), expected)


def test_few_histograms_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are split in portions where a level needs more room than there is."""
    case = Case(max_depth=6, min_child_weight=0.0)
    expected = case.grow_whole()
    for n_nodes in (1, 3):
        monkeypatch.setattr(boosting_trees, "HISTOGRAM_BYTES", n_nodes * 16 * case.plan().n_cells)
        assert_same(case.grow_over(LocalRun(), CUTS["two"]), expected)


class TwiceRun(LocalRun):
    """Does everything twice, from copies: as a cluster does that loses a machine."""

    def submit(self, function: Callable[..., Any], *arguments: Any, name: str) -> Any:
        before = pickle.dumps(arguments)
        result = function(*pickle.loads(before))
        own = pickle.loads(before)
        assert pickle.dumps(function(*own)) == pickle.dumps(result)
        assert pickle.dumps(own) == pickle.dumps(pickle.loads(before))
        return result


@pytest.mark.parametrize("name", ["hidden values", "three classes", "folds", "ordered", "trees that are cut"])
def test_steps_are_pure(name: str) -> None:
    case = Case(**CASES[name] | {"n_rounds": 2})
    assert_same(case.grow_over(TwiceRun(), CUTS["in pieces"]), case.grow_whole())


class FrozenRun(LocalRun):
    """Hands over arrays that cannot be written to, as a cluster may."""

    def submit(self, function: Callable[..., Any], *arguments: Any, name: str) -> Any:
        buffers: list[Any] = []
        data = pickle.dumps(arguments, protocol=5, buffer_callback=buffers.append)
        return function(*pickle.loads(data, buffers=[bytes(buffer.raw()) for buffer in buffers]))


@pytest.mark.parametrize("name", ["missing values of three classes", "rows held out"])
def test_arrays_that_cannot_be_written_to(name: str) -> None:
    case = Case(**CASES[name])
    assert_same(case.grow_over(FrozenRun(), CUTS["in pieces"]), case.grow_whole())


def test_blocks_of_codes_are_those_of_the_table() -> None:
    case = Case(**CASES["hidden values"])
    plan = case.plan()
    ((whole,),) = case.cut(plan, CUTS["one"])
    for pieces in CUTS.values():
        for block, mine in zip(case.cut(plan, pieces), pieces, strict=True):
            (tile,) = block
            assert tile.pieces == tuple(piece for piece in mine if piece[1])
            expected = [whole.codes[first : first + n] for first, n in mine]
            np.testing.assert_array_equal(tile.codes, np.concatenate([whole.codes[:0], *expected]))


class TestDraws:
    def test_drawn_rows_are_their_share_and_know_no_blocks(self) -> None:
        drawn = DrawnRows(seed=1, number=2, low=0.0, high=0.3)
        whole = drawn.find([(0, 100_000)])
        assert whole.mean() == pytest.approx(0.3, abs=0.01)
        np.testing.assert_array_equal(drawn.find([(500, 7), (0, 3), (9, 0)]), [*whole[500:507], *whole[:3]])
        for other in (DrawnRows(2, 2, 0.0, 0.3), DrawnRows(1, 3, 0.0, 0.3)):
            assert (other.find([(0, 100_000)]) & whole).mean() == pytest.approx(0.09, abs=0.01)

    def test_large_tables_are_folded_by_hashes(self) -> None:
        folds = draw_folds("cv", np.array([40_000, 30_000]), 70_000, 0, pytest.fail)
        held_out = np.array([fold.find([(0, 70_000)]) for fold in folds])
        assert (held_out.sum(axis=0) == 1).all()
        np.testing.assert_allclose(held_out.mean(axis=1), 0.2, atol=0.01)
        (fold,) = draw_folds("auto", None, 70_000, 0, pytest.fail)
        assert fold.find([(0, 70_000)]).mean() == pytest.approx(0.1, abs=0.01)

    def test_listed_rows(self) -> None:
        listed = ListedRows(np.array([7, 1, 30]))
        np.testing.assert_array_equal(np.flatnonzero(listed.find([(30, 2), (0, 9), (50, 0)])), [0, 3, 9])
