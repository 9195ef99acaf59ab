"""One tree: verdicts, margins and witnesses off its reachable leaves, against the search and against enumeration."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

from hardwood import RobustTreeClassifier, ThreatModel, TreeEnsemble, evaluate, is_vulnerable, verify
from hardwood.table import Schema
from hardwood.threat import Reach
from hardwood.verification import one_tree, search
from hardwood.verification.answers import FOUND, NONE, UNFINISHED
from hardwood.verification.clock import Clock
from reference import attacking, enumerating
from reference.cases import random_case

SEEDS = st.integers(0, 2**32 - 1)


def ask_one_tree(seed: int, link: str | None = None) -> tuple[TreeEnsemble, np.ndarray, np.ndarray, Reach]:
    """A tree, half of them for missing values, rows at its thresholds, some of them of another class, and a reach."""
    case = random_case(seed, 1, max_depth=4, n_rows=4, most_classes=4, missing=seed % 2 == 1, link=link)
    generator, class_index = np.random.default_rng(seed), case.class_index
    if link != "value":
        other = generator.integers(len(case.trees.labels), size=len(class_index))
        class_index = np.where(generator.random(len(class_index)) < 0.7, class_index, other)
    return case.trees, case.rows, class_index, case.reach


def search_rows(tree: TreeEnsemble, reach: Reach) -> search.RowSearch:
    """The ensemble search, which no public function asks about one tree."""
    return search.RowSearch(tree, reach, np.ones(tree.schema.n_features))


@given(SEEDS)
def test_verdicts_margins_and_witnesses(seed: int) -> None:
    tree, rows, class_index, reach = ask_one_tree(seed)
    answers = one_tree.decide(tree, rows, class_index, reach)
    assert not answers.interrupted
    np.testing.assert_array_equal(answers.lower, answers.upper)
    searched = search_rows(tree, reach).decide(rows, class_index, Clock(np.inf, len(rows)))
    for k, (row, own) in enumerate(zip(rows, class_index.tolist(), strict=True)):
        points = enumerating.reachable_points(tree, row, own, reach)
        assert answers.lower[k] == min(attacking.margin(tree, point, own) for point in points)
        is_fooled = any(attacking.predict(tree, point) != own for point in points)
        assert answers.status[k] == (FOUND if is_fooled else NONE)
        was_wrong = attacking.predict(tree, row) != own
        if not was_wrong:
            assert answers.status[k] == searched.status[k]
        witness = answers.example[k]
        if not is_fooled:
            assert np.isnan(witness).all()
        elif was_wrong:
            np.testing.assert_array_equal(witness, row)
        else:
            assert attacking.margin(tree, witness, own) == answers.lower[k]
            assert attacking.predict(tree, witness) != own
            missing = frozenset(np.flatnonzero(np.isnan(row)).tolist())
            leaf = attacking.walk(tree, tree.root[0], witness)[-1]
            nearest = attacking.nearest_in_region(attacking.regions(tree, tree.root[0], missing)[leaf], row, reach)
            np.testing.assert_array_equal(witness, np.array(nearest))


@given(SEEDS, st.sampled_from([1, -1]))
def test_extremes_of_regressions(seed: int, sign: int) -> None:
    tree, rows, class_index, reach = ask_one_tree(seed, "value")
    answers = one_tree.extreme(tree, rows, reach, sign)
    np.testing.assert_array_equal(answers.lower, answers.upper)
    searcher = search_rows(tree, reach)
    searched = searcher.extreme(rows, sign, Clock(np.inf, len(rows)))
    for k, row in enumerate(rows):
        points = enumerating.reachable_points(tree, row, 0, reach)
        outputs = [float(attacking.output(tree, [attacking.walk(tree, tree.root[0], p)[-1]])[0]) for p in points]
        assert answers.lower[k] == (max(outputs) if sign == 1 else min(outputs))
        bound = (tree.base_score[0] + sign * searched.bound[k]) / tree.divisor
        assert bound == pytest.approx(answers.lower[k], abs=1e-6)
    assert reach.contains(rows, answers.example, class_index).all()
    np.testing.assert_array_equal(tree.output(answers.example)[:, 0], answers.lower)


def test_public_functions_say_the_same(numbers: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = numbers
    model = RobustTreeClassifier(0.1, max_depth=5).fit(X, y)
    certificate = verify(model, X, y, 0.2)
    assert {"robust", "vulnerable"} == set(certificate.status)
    np.testing.assert_array_equal(certificate.status == "vulnerable", is_vulnerable(model, X, y, 0.2))
    np.testing.assert_array_equal(evaluate(model, X, y, 0.2, ceiling=False).status, certificate.status)
    np.testing.assert_array_equal(certificate.lower, certificate.upper)
    in_no_time = verify(model, X, y, 0.2, time_limit=0)
    np.testing.assert_array_equal(in_no_time.status, certificate.status)


def test_a_regression_is_exact() -> None:
    """One tree has one sum: the interval is what the attacker can really do, to the last bit."""
    generator = np.random.default_rng(0)
    X = generator.random((200, 2))
    model = DecisionTreeRegressor(max_depth=5).fit(X, np.sin(9 * X[:, 0]) * X[:, 1] / 3)
    certificate = verify(model, X[:20], None, 0.1, tolerance=0.05)
    assert set(certificate.status) == {"robust", "vulnerable"}
    points = X[:20] + generator.uniform(-0.1, 0.1, (2000, 20, 2))
    outputs = model.predict(points.reshape(-1, 2)).reshape(2000, 20)
    np.testing.assert_array_equal(certificate.lower, outputs.min(axis=0))
    np.testing.assert_array_equal(certificate.upper, outputs.max(axis=0))


def test_a_tie_lost_beside_a_tie_won() -> None:
    """Of equal outputs the first class wins: class 1 keeps a tie with class 2, and loses one with class 0."""
    value = [[0.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.5, 0.5, 0.0]]
    tree = attacking.assemble([0, -1, -1], [0.5, 0.0, 0.0], [1, -1, -1], [2, -1, -1], value)
    certificate = verify(tree, [[0.0]], [1], 1.0)
    assert certificate.status.tolist() == ["vulnerable"]
    assert certificate.lower.tolist() == certificate.upper.tolist() == [0.0]
    assert tree.predict(certificate.witness).tolist() == [0]
    assert verify(tree, [[0.0]], [1], 0.1).status.tolist() == ["robust"]


def test_infinity_is_no_value() -> None:
    """A split that only parts what is missing has the largest number as threshold: no number is beyond it."""
    largest = float(np.finfo(np.float64).max)
    tree = attacking.build((0, largest, 0, 1), Schema(1, None, (None,), accepts_missing=True))
    certificate = verify(tree, [[0.0], [np.nan]], [0, 1], "<>")
    assert certificate.status.tolist() == ["robust", "robust"]


def test_values_added_in_single_precision() -> None:
    """A leaf of 0.1 + 2**-30 is no float32: `predict` rounds the sum, and so must the verdict."""
    value = [[0.0], [0.1], [0.1 + 2.0**-30]]
    tree = attacking.assemble(
        [0, -1, -1], [0.5, 0, 0], [1, -1, -1], [2, -1, -1], value,
        link="logistic", classes=np.array([0, 1]), precision="float32", cut=0.1,
    )  # fmt: skip
    assert tree.predict([[0.0], [1.0]]).tolist() == [attacking.predict(tree, np.array([x])) for x in (0.0, 1.0)]
    certificate = verify(tree, [[0.0], [1.0]], None, 1.0)
    assert certificate.status.tolist() == ["robust", "robust"]
    assert (certificate.lower >= 0.0).all()


def test_chunks_progress_and_ctrl_c(model: Any, numbers: tuple[np.ndarray, np.ndarray], monkeypatch: Any) -> None:
    """What was decided before Ctrl-C is kept, the rest is unknown."""
    X, y = numbers
    whole = verify(model, X, y, 0.1)
    monkeypatch.setattr(one_tree, "CHUNK", 60)
    seen: list[tuple[int, int]] = []
    parts = verify(model, X, y, 0.1, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(60, 200), (120, 200), (180, 200), (200, 200)]
    np.testing.assert_array_equal(whole.status, parts.status)
    np.testing.assert_array_equal(whole.witness, parts.witness)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    cut_short = verify(model, X, y, 0.1, progress=interrupt)
    assert cut_short.interrupted
    np.testing.assert_array_equal(cut_short.status[:60], whole.status[:60])
    right = model.predict(X[60:]) == y[60:]
    assert (cut_short.status[60:][right] == "unknown").all()
    assert (cut_short.lower[60:] == -np.inf).all()
    answers = one_tree.decide(
        model.ensemble_, X, y, ThreatModel(0.1).resolve(model.ensemble_.schema, [0, 1]), interrupt
    )
    assert answers.interrupted
    assert set(answers.status[60:][right]) == {UNFINISHED}


def test_a_fresh_process_compiles_nothing_of_the_search(tmp_path: Path) -> None:
    """One tree waited half a minute for a search that it does not need: numba had to compile all of it first."""
    script = """
import numpy as np, pandas as pd
from hardwood import RobustTreeClassifier, adversarial_accuracy, evaluate, is_vulnerable, verify
X = pd.DataFrame({"a": np.arange(20.0), "b": pd.Categorical(list("xy") * 10)})
y = (X["a"] > 9).to_numpy().astype(int)
threat = {"a": 1.0, "b": "<>"}
model = RobustTreeClassifier(threat).fit(X, y)
verify(model, X, y, threat), is_vulnerable(model, X, y, threat), adversarial_accuracy(model, X, y, threat)
evaluate(model, X, y, threat, epsilons=[0.5], distances=True)
import sys
from numba.core.dispatcher import Dispatcher
kernels = [
    value for name, module in sys.modules.items() if name.startswith("hardwood._kernels")
    for value in vars(module).values() if isinstance(value, Dispatcher) and value.signatures
]
print(*(kernel.py_func.__module__ + "." + kernel.py_func.__name__ for kernel in kernels))
"""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment, timeout=600
    )
    compiled = done.stdout.split()
    assert "hardwood._kernels.reaching.list_reachable" in compiled
    assert not [name for name in compiled if name.startswith("hardwood._kernels.search")]


def test_the_index_of_a_frame_is_kept() -> None:
    X = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0]}, index=["w", "x", "y", "z"])
    model = RobustTreeClassifier().fit(X, [0, 0, 1, 1])
    witness = verify(model, X, [0, 0, 1, 1], 1.0).witness
    assert witness.index.tolist() == X.index.tolist()
    assert (witness - X)["a"].dropna().abs().max() <= 1.0
