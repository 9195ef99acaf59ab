"""Evaluating streams: regressions, types that differ from batch to batch, and how far it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hardwood import (
    RobustTreeClassifier,
    RobustTreeRegressor,
    ThreatModel,
    adversarial_accuracy,
    evaluate,
    make_adversarial_scorer,
    stream,
)


def make_table(n_rows: int = 600) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n_rows, 3))
    return X, X[:, 0] + X[:, 1] * X[:, 2]


def test_regression() -> None:
    X, y = make_table()
    model = RobustTreeRegressor(0.1, max_depth=4).fit(X, y)
    expected = evaluate(model, X, y, 0.1, epsilons=[0.5, 2])
    report = evaluate(model, stream(X, y, batch_rows=250), None, 0.1, epsilons=[0.5, 2])
    for name in ("target", "prediction", "lowest", "highest", "lowest_reached", "highest_reached", "epsilons"):
        np.testing.assert_array_equal(getattr(report, name), getattr(expected, name))
    assert report.worst_squared_error == expected.worst_squared_error
    assert report.threat == expected.threat
    assert len(report.to_frame()) == 600
    with pytest.raises(ValueError, match="positive_class=1: the model is a regression"):
        evaluate(model, stream(X, y), None, 0.1, positive_class=1)


@pytest.mark.parametrize("metric", ["neg_worst_squared_error", "neg_worst_absolute_error"])
@pytest.mark.parametrize("weighted", [False, True])
def test_scorers(metric: str, weighted: bool) -> None:
    X, y = make_table()
    weight = np.arange(len(X)) % 3 if weighted else None
    model = RobustTreeRegressor(0.1, max_depth=4).fit(X, y)
    rows = stream(X, y, sample_weight=weight, batch_rows=250)
    score = make_adversarial_scorer(0.1, metric=metric)
    assert score(model, rows, None) == pytest.approx(score(model, X, y, weight), abs=1e-12)
    with pytest.raises(ValueError, match="metric='roc_auc': takes all rows at once"):
        make_adversarial_scorer(0.1, metric="roc_auc")(model, rows, None)


class TestWholeNumbers:
    """A column of whole numbers is of another type in batches where some are missing."""

    @pytest.fixture
    def table(self) -> tuple[pd.DataFrame, np.ndarray]:
        clicks = np.arange(400) % 10
        return pd.DataFrame({"clicks": clicks, "x": np.linspace(0.0, 1.0, 400)}), clicks > 4

    def cut(self, frame: pd.DataFrame, y: np.ndarray, kinds: list[str]) -> Any:
        def read() -> Iterator[tuple[pd.DataFrame, np.ndarray]]:
            for number, kind in enumerate(kinds):
                rows = slice(200 * number, 200 * number + 200)
                yield frame[rows].astype({"clicks": kind}), y[rows]

        return stream(read)

    @pytest.mark.parametrize(
        ("kinds", "whole"),
        [(["int64", "int64"], True), (["int64", "float64"], False), (["float64", "int64"], False)],
    )
    def test_settled_once(self, table: tuple[pd.DataFrame, np.ndarray], kinds: list[str], whole: bool) -> None:
        """By .9 of a click whole numbers do not move at all, and other numbers over the threshold at 4.5."""
        frame, y = table
        model = RobustTreeClassifier(max_depth=1).fit(frame, y)
        joined = frame if whole else frame.astype({"clicks": "float64"})
        expected = evaluate(model, joined, y, {"clicks": 0.9}, ceiling=False)
        rows = self.cut(frame, y, kinds)
        report = evaluate(model, rows, None, {"clicks": 0.9})
        assert report.adversarial_accuracy == expected.adversarial_accuracy
        assert report.adversarial_accuracy.lower == (1.0 if whole else 0.8)
        assert report.threat == expected.threat
        assert adversarial_accuracy(model, rows, None, {"clicks": 0.9}) == report.adversarial_accuracy.lower

    def test_what_the_threat_says_counts(self, table: tuple[pd.DataFrame, np.ndarray]) -> None:
        frame, y = table
        model = RobustTreeClassifier(max_depth=1).fit(frame, y)
        threat = ThreatModel({"clicks": 0.9}, whole_numbers=["clicks"])
        assert evaluate(model, self.cut(frame, y, ["int64", "float64"]), None, threat).adversarial_accuracy.lower == 1.0


@pytest.mark.parametrize("known", [True, False])
def test_progress_counts_rows(known: bool) -> None:
    X, y = make_table()
    model = RobustTreeRegressor(0.1, max_depth=3).fit(X, y)
    heard: list[tuple[int, int]] = []

    def read() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield X[:400], y[:400]
        yield X[400:], y[400:]

    rows = stream(X, y, batch_rows=400) if known else stream(read)
    evaluate(model, rows, None, 0.1, epsilons=[0.5, 2.0], progress=lambda *steps: heard.append(steps))
    assert {total for _, total in heard} == {600 if known else 0}
    done = [done for done, _ in heard]
    assert done == sorted(set(done))
    assert {400, 600} <= set(done)
    assert len(done) > 2  # also within a batch


def test_interrupted_while_reading() -> None:
    """What has been measured is reported; with nothing measured, there is nothing to report."""
    X, y = make_table()
    model = RobustTreeRegressor(0.1, max_depth=3).fit(X, y)

    def read(n_batches: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for _ in range(n_batches):
            yield X, y
        raise KeyboardInterrupt

    report = evaluate(model, stream(lambda: read(1)), None, 0.1)
    assert report.interrupted
    assert report.n_samples == 600
    with pytest.raises(KeyboardInterrupt):
        evaluate(model, stream(lambda: read(0)), None, 0.1)
