"""How far the passes through a stream are: rows read, and rows in all where the source knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hardwood import (
    RobustBoostingClassifier,
    RobustBoostingRegressor,
    RobustForestClassifier,
    RobustForestRegressor,
    RobustTreeClassifier,
    RobustTreeRegressor,
    stream,
)

X = np.random.default_rng(0).normal(size=(500, 2))
Y = (X[:, 0] > 0).astype(int)
ROWS = [(200, 500), (400, 500), (500, 500)]
UNKNOWN = [(200, 0), (400, 0), (500, 0), (500, 500)]


def read() -> Any:
    return ((X[start : start + 200], Y[start : start + 200]) for start in range(0, 500, 200))


@pytest.mark.parametrize("kind", [RobustTreeClassifier, RobustTreeRegressor])
def test_both_passes_of_a_tree(kind: type) -> None:
    heard: list[tuple[int, int]] = []
    model = kind(max_depth=2, progress=lambda *steps: heard.append(steps))
    model.fit(stream(X, Y, batch_rows=200))
    assert heard == ROWS * 2
    heard.clear()
    model.fit(stream(read))
    assert heard == UNKNOWN + ROWS  # what the first pass has counted, the second knows


@pytest.mark.parametrize(
    "kind", [RobustForestClassifier, RobustForestRegressor, RobustBoostingClassifier, RobustBoostingRegressor]
)
def test_forests_and_boosting_go_on_with_trees(kind: type) -> None:
    heard: list[tuple[int, int]] = []
    kind(n_estimators=2, max_depth=2, progress=lambda *steps: heard.append(steps)).fit(stream(X, Y, batch_rows=200))
    assert heard == [*ROWS * 2, (1, 2), (2, 2)]


def test_a_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    RobustTreeClassifier(max_depth=2, progress=True).fit(stream(read))
    assert capsys.readouterr().err == "\r200\r400\r500\r500 of 500\n\r200 of 500\r400 of 500\r500 of 500\n"


def test_wrong_progress_is_refused_before_anything_is_read() -> None:
    def fail() -> Any:
        raise AssertionError("read")

    with pytest.raises(ValueError, match="progress=3: expected True"):
        RobustTreeRegressor(progress=3).fit(stream(fail))


def test_sources_that_know(tmp_path: Path) -> None:
    assert stream(X).count_rows() == 500
    assert stream(read).count_rows() == 0
    dataset = pytest.importorskip("pyarrow.dataset")
    frame = pd.DataFrame(X, columns=["a", "b"])
    for name in ("1", "2"):
        frame.to_parquet(tmp_path / f"{name}.parquet")
    assert stream(tmp_path).count_rows() == 1000
    frame.to_csv(tmp_path / "table.csv", index=False)
    assert stream(dataset.dataset(tmp_path / "table.csv", format="csv")).count_rows() == 0
