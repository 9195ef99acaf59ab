"""Durations and time limits leave out what was compiled: it happens once per installation, and tells of no model."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hardwood import HardenedClassifier, RobustTreeClassifier, RobustTreeRegressor, evaluate, stream
from hardwood._kernels import compiling
from hardwood.estimators import hardened
from hardwood.evaluation import ceiling, regression, robustness
from hardwood.verification import clock
from hardwood.verification.clock import Clock

X, Y = np.arange(12.0)[:, None], np.arange(12) % 2


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which does not go on by itself."""
    now = [1000.0]
    stopped = SimpleNamespace(monotonic=lambda: now[0])
    for module in (compiling, clock):
        monkeypatch.setattr(module, "time", stopped)
    monkeypatch.setattr(compiling, "_stopwatch", compiling._Stopwatch())
    return now


def compile_first(now: list[float], work: Callable[..., Any], seconds: float = 100.0) -> Callable[..., Any]:
    """Return work for which something has to be compiled first, for some seconds, and which takes two."""

    def do(*arguments: Any, **options: Any) -> Any:
        compiling._stopwatch.begin()
        now[0] += seconds
        compiling._stopwatch.end()
        now[0] += 2.0
        return work(*arguments, **options)

    return do


def test_a_report_says_compiling_apart(now: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """A report said "search 179.9 s", of which less than a second was the search."""
    model = RobustTreeClassifier(max_depth=1).fit(X, Y)
    monkeypatch.setattr(robustness, "find_ceilings", compile_first(now, robustness.find_ceilings))
    monkeypatch.setattr(robustness, "decide", compile_first(now, robustness.decide, 50.0))
    report = evaluate(model, X, Y, 0.1)
    assert report.seconds == {"ceiling": 2.0, "search": 2.0, "compiling": 150.0}
    assert "ceiling 2.0 s, search 2.0 s, compiling 150.0 s" in str(report)
    monkeypatch.undo()
    assert "compiling" not in evaluate(model, X, Y, 0.1).seconds


def test_so_does_that_of_a_regression(now: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    model = RobustTreeRegressor(max_depth=1).fit(X, X[:, 0])
    monkeypatch.setattr(regression, "find_outputs", compile_first(now, regression.find_outputs))
    assert evaluate(model, X, X[:, 0], 0.1).seconds == {"search": 2.0, "compiling": 100.0}


def test_and_that_of_a_stream(now: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first batch waits for the compiler, and the last says what parts there are."""
    model, decide, calls = RobustTreeClassifier(max_depth=1).fit(X, Y), robustness.decide, []

    def decide_next(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        return (compile_first(now, decide) if len(calls) == 1 else decide)(*arguments, **options)

    monkeypatch.setattr(robustness, "decide", decide_next)
    report = evaluate(model, stream(X, Y, batch_rows=6), None, 0.1, ceiling=False)
    assert len(calls) == 2
    assert report.seconds == {"search": 2.0, "compiling": 100.0}


def test_a_row_has_its_time_though_something_is_compiled(now: list[float]) -> None:
    """With `time_limit=1` the first row was undecided on a new machine, because it needed a kernel first."""
    row = Clock(1.0)
    with row.run() as own:
        compiling._stopwatch.begin()
        now[0] += 100.0
        assert own.left() == 1.0
        compiling._stopwatch.end()
        now[0] += 0.25
        assert own.left() == 0.75
    assert row.left() == 0.75


def test_the_budget_of_a_ceiling(now: list[float]) -> None:
    budget = ceiling.Budget(10.0)
    budget.begin(1)
    compile_first(now, list)()
    assert budget.lasts()
    now[0] += 10.0
    assert not budget.lasts()


def test_a_round_of_hardening(now: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardened, "nearest", compile_first(now, hardened.nearest))
    model = HardenedClassifier(RobustTreeClassifier(max_depth=1), 0.1, rounds=1).fit(X, Y)
    assert [counts["seconds"] for counts in model.history_] == [2.0]
