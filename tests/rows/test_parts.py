"""However a table is cut into parts, and in whichever order these are merged, what is learned is the same."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood import ThreatModel, stream
from hardwood.rows.parts import Part, finish_rows, place_categories, read_part
from hardwood.rows.request import Request
from hardwood.rows.sources import StreamSource, TableSource, read_task
from hardwood.rows.summary import summarize_part, summarize_target
from hardwood.rows.task import Task
from hardwood.table import Schema

N_ROWS = 60


def make_table(seed: int) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Numbers with gaps, whole numbers and categories; labels of three classes; weights, some of them 0."""
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": generator.normal(size=N_ROWS), "clicks": generator.integers(0, 9, N_ROWS)})
    frame["town"] = pd.Categorical(generator.choice(["d", "b", "a", "c"], N_ROWS))
    frame.loc[generator.random(N_ROWS) < 0.1 * (seed % 2), "x"] = np.nan
    labels = np.array(["no", "perhaps", "yes"])[generator.integers(0, 3, N_ROWS)]
    return frame, labels, generator.integers(0, 4, N_ROWS) / 2.0


def cut(frame: pd.DataFrame, y: np.ndarray, weight: np.ndarray | None, seed: int) -> list[Part]:
    """Cut a table anywhere; a part knows only the categories that it has."""
    ends = np.sort(np.random.default_rng(seed).choice(np.arange(1, N_ROWS), 4, replace=False))
    parts = []
    for number, rows in enumerate(np.split(np.arange(N_ROWS), ends)):
        X = frame.iloc[rows].copy()
        X["town"] = X["town"].cat.remove_unused_categories()
        parts.append(Part(number, X, y[rows], None if weight is None else weight[rows], f"part {number}"))
    return parts


def make_request(y: np.ndarray, **changes: Any) -> Request:
    threat = ThreatModel({"x": 0.5, "clicks": 1, "town": {"a": ["b"]}})
    has_classes = y.dtype.kind == "U"
    return Request(threat, "from_dtype", accepts_missing=True, has_classes=has_classes, **changes)


def assert_same(task: Task, expected: Task) -> None:
    for name in ("schema", "threat", "weight_unit", "target_unit"):
        assert getattr(task, name) == getattr(expected, name)
    for name in ("target", "sample_weight", "class_weight", "classes"):
        mine, theirs = getattr(task, name), getattr(expected, name)
        np.testing.assert_array_equal(mine, theirs)
        assert getattr(mine, "dtype", None) == getattr(theirs, "dtype", None)


CASES = st.tuples(
    st.integers(0, 9), st.integers(0, 99), st.booleans(), st.sampled_from(["classes", "numbers", "large"])
)


def make_target(kind: str, frame: pd.DataFrame, labels: np.ndarray) -> np.ndarray:
    if kind == "classes":
        return labels
    return frame["clicks"].to_numpy() * (1e200 if kind == "large numbers" else 1.5) - 1.0  # those have a unit


@given(CASES)
def test_a_stream_has_the_rows_of_the_table(case: tuple[int, int, bool, str]) -> None:
    seed, cuts, weighs, kind = case
    frame, labels, weight = make_table(seed)
    y, own = make_target(kind, frame, labels), weight if weighs else None
    request = make_request(y, divides_target=True, class_weight="balanced")
    expected = read_task(TableSource(frame, y, own), request)
    parts = cut(frame, y, own, cuts)
    batches = [(part.X, part.y) if own is None else (part.X, part.y, part.sample_weight) for part in parts]
    task = read_task(StreamSource(stream(lambda: iter(batches))), request)
    assert_same(task, expected)
    np.testing.assert_array_equal(np.concatenate(list(task.read_batches())), expected.X)
    sample, whole = task.draw_sample(task.resolve(), 9), expected.draw_sample(expected.resolve(), 9)
    np.testing.assert_array_equal(sample.X[:, :2], whole.X[:, :2])  # thresholds are of numbers only
    np.testing.assert_array_equal(sample.class_index, whole.class_index)
    np.testing.assert_array_equal(sample.is_missing, whole.is_missing)
    given = np.concatenate([target for _, target in task.read_rows()])
    kept = np.ones(N_ROWS, dtype=bool) if own is None else own > 0.0
    np.testing.assert_array_equal(task.classes[given] if kind == "classes" else given, y[kept])


@given(CASES, st.permutations(range(5)))
def test_parts_are_merged_in_any_order(case: tuple[int, int, bool, str], order: list[int]) -> None:
    seed, cuts, weighs, kind = case
    frame, labels, weight = make_table(seed)
    y, own = make_target(kind, frame, labels), weight if weighs else None
    request = make_request(y, divides_target=True)
    expected = read_task(TableSource(frame, y, own), request)
    parts = cut(frame, y, own, cuts)
    read = [read_part(part, request) for part in parts]
    seen = [summarize_part(part, each) for part, each in zip(parts, read, strict=True)]
    merged = reduce(lambda mine, theirs: mine.merge(theirs), [seen[k] for k in order])
    assert merged.columns.schema == Schema.from_table(frame, accepts_missing=True)
    assert merged.columns.any_missing == frame["x"].isna().any()
    task = merged.targets.make_task(request, expected.schema, expected.threat)
    rows = [finish_rows(each, task) for each in read]
    np.testing.assert_array_equal(np.concatenate([each.X for each in rows]), expected.X)
    for name in ("target", "sample_weight"):
        if name == "target" or weighs:
            found = np.concatenate([getattr(each, name) for each in rows])
            np.testing.assert_array_equal(found, getattr(expected, name))
            assert found.dtype == getattr(expected, name).dtype
    np.testing.assert_array_equal(task.class_weight, expected.class_weight)
    assert (task.weight_unit, task.target_unit) == (expected.weight_unit, expected.target_unit)


def test_categories_are_placed_in_a_copy() -> None:
    """On a cluster a block may be asked for its rows more than once."""
    own = Schema(2, None, (None, ("b", "d")), accepts_missing=True)
    all_rows = Schema(2, None, (None, ("a", "b", "c", "d")), accepts_missing=True)
    X = np.array([[0.5, 0.0], [1.5, 1.0], [2.5, np.nan]])
    for _ in range(2):
        np.testing.assert_array_equal(place_categories(X, own, all_rows)[:, 1], [1.0, 3.0, np.nan])
    assert place_categories(X, all_rows, all_rows) is X


def test_labels_that_cannot_be_merged_are_named_with_their_parts() -> None:
    frame, labels, _ = make_table(0)
    parts = cut(frame, labels, None, 0)
    request = make_request(labels)
    mine = summarize_target(parts[0], read_part(parts[0], request))
    numbered = parts[3]._replace(y=np.arange(len(parts[3].y)) % 2)
    with pytest.raises(ValueError, match=r"y: labels are <U.* in part 0 and int64 in part 3; give them one type"):
        mine.merge(summarize_target(numbered, read_part(numbered, request)))
