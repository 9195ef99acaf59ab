"""Parquet larger than memory: read part after part, with the same models, predictions and reports."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import ENVIRONMENT, assert_one_sentence, make_table, run

from hardwood.cli import messages, streams
from hardwood.cli.columns import Cells, Kind, judge
from hardwood.table import batches

pytest.importorskip("pyarrow")
FIT = ("--target", "label", "--epsilon", 1, "--max-depth", 3, "--output", "model.json")
# What a stream has, too: bins, and no refinement.
PLAIN = ("--max-bins", 50, "--refine", "none")


@pytest.fixture(autouse=True)
def _in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are read 32 rows at a time."""
    monkeypatch.setattr(batches.stream, "__kwdefaults__", batches.stream.__kwdefaults__ | {"batch_rows": 32})


def make_messy(n_rows: int = 150) -> pd.DataFrame:
    """A table with everything in it, of which most batches show only some."""
    generator = np.random.default_rng(5)
    table = make_table(n_rows)
    table.insert(0, "customer_id", [f"C{number:05d}" for number in range(n_rows)])
    table.insert(1, "signup", pd.date_range("2024-02-28", periods=n_rows).strftime("%Y-%m-%d"))
    table["number"] = np.arange(n_rows)
    table["account_id"] = generator.permutation(1000 * n_rows)[:n_rows]
    table["active"] = generator.random(n_rows) < 0.5
    table["clicks"] = pd.array(generator.integers(0, 9, n_rows), dtype="Int64").astype("float64")
    table.loc[140:, "clicks"] = np.nan  # in the last batch only: whole all the same
    table["grade"] = generator.integers(1, 6, n_rows).astype(str)
    table.loc[[3, 77], "grade"] = "?"
    table.loc[90:, "colour"] = "violet"
    table["colour"] = table["colour"].astype("category")
    table.loc[[40, 41], "label"] = None
    return table


def fit_both(*options: object, data: str = "data.parquet") -> tuple[str, str]:
    """Fit to a table in memory and as a stream; return what was written, and compare what was said."""
    models, said = [], []
    for how in ("--no-stream", "--stream"):
        result = run("fit", data, *FIT, *options, how)
        assert result.exit_code == 0, result.stderr
        models.append(Path("model.json").read_text())
        notes = [line for line in result.stderr.splitlines() if line.startswith("hardwood: note: ")]
        said.append((result.stdout, [note for note in notes if "is not refined" not in note]))
    assert said[0] == said[1]
    return models[0], models[1]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--model", "forest", "--trees", 3),
        ("--model", "boosting", "--trees", 3),
        ("--balanced", "--numeric", "active"),
    ],
)
def test_fit_is_the_same(options: tuple[object, ...]) -> None:
    make_messy().to_parquet("data.parquet")
    plain = PLAIN if "--model" not in options else PLAIN[:2]
    in_memory, streamed = fit_both(*plain, *options)
    assert streamed == in_memory


def test_columns_named_by_the_user() -> None:
    make_messy().to_parquet("data.parquet")
    options = ("--categorical", "clicks", "--numeric", "customer_id", "--ignore", "grade")
    result = run("fit", "data.parquet", *FIT, *options, "--stream")
    assert_one_sentence(result, 1, '"customer_id" holds "C00000" in row 1', "148 such cells")
    in_memory, streamed = fit_both(*PLAIN, "--categorical", "clicks", "--ignore", "grade")
    assert streamed == in_memory


@pytest.mark.parametrize("model", ["tree", "forest"])
def test_regression_is_the_same(model: str) -> None:
    table = make_messy().drop(columns="label")
    table["income"] = table["income"] + 0.1 * table["age"]
    table.loc[[5, 130], "income"] = np.nan
    table.to_parquet("data.parquet")
    options = ("--target", "income", "--task", "regression", "--model", model, "--max-bins", 50)
    for how in ("--no-stream", "--stream"):
        result = run("fit", "data.parquet", *FIT, *options, how)
        assert result.exit_code == 0, result.stderr
        assert "148 rows" in result.stdout
        assert "a constant" in result.stdout
    if model == "forest":  # a tree in memory is given other leaf values afterwards
        in_memory, streamed = fit_both(*options)
        assert in_memory == streamed


def test_without_being_told_to_refine() -> None:
    make_table().to_parquet("data.parquet")
    result = run("fit", "data.parquet", *FIT, "--stream")
    assert "note: the tree is grown greedily and is not refined, which needs the whole table" in result.stderr
    assert "80 rows" in result.stdout


def test_how_far_it_is_is_said_of_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch is announced, so each notice belongs to one pass: five batches, the last of which ends it."""
    make_messy().to_parquet("data.parquet")
    monkeypatch.setattr(messages, "_SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(messages.showing_progress.__wrapped__, "__kwdefaults__", {"patience": 0.0})
    result = run("fit", "data.parquet", *FIT, "--stream", "--model", "forest", "--trees", 3)
    assert result.exit_code == 0, result.stderr
    said = [line.partition("...")[0] for line in result.stderr.splitlines() if "% done" in line]
    assert said == [
        *["Looking at the columns"] * 4,
        *["Choosing thresholds"] * 4,
        *["Coding the rows"] * 4,
        *["Growing"] * 2,
        *["Attacking the training rows"] * 4,
    ]


def test_a_folder() -> None:
    table = make_messy()
    table.to_parquet("data.parquet")
    Path("folder").mkdir()
    table[:70].to_parquet("folder/1.parquet")
    table[70:].to_parquet("folder/2.parquet")
    assert run("fit", "data.parquet", *FIT, *PLAIN).exit_code == 0
    expected = Path("model.json").read_text()
    assert run("fit", "folder", *FIT, *PLAIN).exit_code == 0
    assert Path("model.json").read_text() == expected
    assert run("predict", "model.json", "folder", "--output", "p.csv").exit_code == 0
    assert len(pd.read_csv("p.csv")) == 150


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("target", ["label", "age"])
def test_predictions_are_the_same(suffix: str, target: str) -> None:
    make_messy().to_parquet("data.parquet")
    task = () if target == "label" else ("--task", "regression")
    result = run("fit", "data.parquet", *FIT, "--target", target, *task)
    assert result.exit_code == 0, result.stderr
    said, tables = [], []
    for how in ("--no-stream", "--stream"):
        result = run("predict", "model.json", "data.parquet", "--output", f"p.{suffix}", how)
        assert result.exit_code == 0, result.stderr
        said.append(result.stdout)
        tables.append(pd.read_parquet("p.parquet") if suffix == "parquet" else pd.read_csv(f"p.{suffix}"))
    assert said[0] == said[1]
    pd.testing.assert_frame_equal(*tables)
    assert sorted(os.listdir()) == sorted(["data.parquet", "model.json", f"p.{suffix}"])


@pytest.mark.parametrize("target", ["label", "age"])
def test_reports_are_the_same(target: str) -> None:
    """A column of whole numbers is whole in all batches, though its type is another where cells are missing."""
    table = make_messy().dropna(subset="label")
    table.to_parquet("data.parquet")
    task = () if target == "label" else ("--task", "regression")
    assert run("fit", "data.parquet", *FIT, "--target", target, *task).exit_code == 0
    Path("threat.toml").write_text("[features]\nclicks = 0.9\nincome = 2\n")
    reports = []
    for how in ("--no-stream", "--stream"):
        asked = ("--target", target, "--threat", "threat.toml", "--curve", 2, "--no-ceiling", "--output", "rows.csv")
        result = run("evaluate", "model.json", "data.parquet", *asked, how)
        assert result.exit_code == 0, result.stderr
        assert ("neither a ceiling" in result.stderr) == (how == "--stream" and target == "label")
        lines = [line for line in result.stdout.splitlines() if "search" not in line]
        reports.append((lines, pd.read_csv("rows.csv")))
    assert reports[0][0] == reports[1][0]
    pd.testing.assert_frame_equal(reports[0][1], reports[1][1])


class TestWhenToStream:
    def test_by_the_memory_that_is_free(self, monkeypatch: pytest.MonkeyPatch) -> None:
        frame = pd.DataFrame({"x": np.zeros(10_000), "n": np.zeros(10_000, dtype=np.int16), "y": ["a", "b"] * 5000})
        frame.to_parquet("data.parquet")
        needed = streams.measure_table(Path("data.parquet"))
        # Equal values are one in the file, and ten thousand in memory; and 40 bytes a cell to work on.
        assert 100_000 <= needed - 40 * 3 * 10_000 < 120_000
        for free, expected in ((2 * needed, False), (2 * needed - 2, True), (None, False)):
            monkeypatch.setattr(streams, "find_free_memory", lambda free=free: free)
            assert streams.choose_stream(Path("data.parquet"), None) is expected
            assert streams.choose_stream(Path("data.parquet"), False) is False
            assert streams.choose_stream(Path("data.parquet"), True) is True

    def test_it_is_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        make_table().to_parquet("data.parquet")
        monkeypatch.setattr(streams, "find_free_memory", lambda: 1 << 10)
        result = run("fit", "data.parquet", *FIT, *PLAIN)
        assert result.exit_code == 0
        assert "note: data.parquet in memory would take about 0.0 GiB of 0.0 GiB of free memory" in result.stderr

    def test_memory_of_this_system(self) -> None:
        free = streams.find_free_memory()
        assert free is None or free > 1 << 20
        assert (free is None) == (not Path("/proc/meminfo").exists())

    def test_limits_of_a_control_group(self, tmp_path: Path) -> None:
        (tmp_path / "memory.max").write_text("max\n")
        (tmp_path / "memory.current").write_text("4096\n")
        assert streams._read_bytes(tmp_path / "memory.max") is None
        assert streams._read_bytes(tmp_path / "memory.current") == 4096
        assert streams._read_bytes(tmp_path / "nothing") is None


class TestRefusals:
    @pytest.mark.parametrize(
        ("options", "code", "words"),
        [
            (["--model", "treant"], 2, ["--model treant needs the whole table in memory"]),
            (["--model", "hardened"], 2, ["--model hardened needs the whole table"]),
            (["--refine", "search"], 2, ["--refine search needs the whole table"]),
            (["--max-bins", "exact"], 1, ["max_bins='exact': needs all rows in memory"]),
            (["--target", "lable"], 1, ['no column "lable"']),
            (["--task", "regression", "--criterion", "absolute_error", "--target", "age"], 1, ["'squared_error'"]),
        ],
    )
    def test_what_needs_the_whole_table(self, options: list[str], code: int, words: list[str]) -> None:
        make_table().to_parquet("data.parquet")
        result = run("fit", "data.parquet", *FIT, "--stream", *options)
        assert result.exit_code == code
        for word in words:
            assert word in result.stderr
        assert os.listdir() == ["data.parquet"]

    def test_distances_that_are_measured(self) -> None:
        make_table().to_parquet("data.parquet")
        Path("threat.toml").write_text('[features]\nage = "1 std"\n')
        arguments = ("--target", "label", "--threat", "threat.toml", "--stream")
        result = run("fit", "data.parquet", *arguments, "--output", "model.json")
        assert_one_sentence(result, 1, "values of a whole table", "write them out as numbers")
        assert run("fit", "data.parquet", *FIT).exit_code == 0
        assert_one_sentence(run("evaluate", "model.json", "data.parquet", *arguments), 1, "values of a whole table")

    def test_sources(self) -> None:
        make_table().to_csv("data.csv", index=False)
        assert_one_sentence(run("fit", "data.csv", *FIT, "--stream"), 2, "--stream", "only Parquet", "data.csv")
        Path("folder").mkdir()
        assert_one_sentence(run("fit", "folder", *FIT), 1, "folder without Parquet files")
        make_table().to_parquet("folder/a.parquet")
        assert_one_sentence(run("fit", "folder", *FIT, "--no-stream"), 2, "--no-stream", "folder")
        make_table().rename(columns={"age": "years"}).to_parquet("folder/b.parquet")
        assert_one_sentence(run("fit", "folder", *FIT), 1, "b.parquet", "other columns")
        Path("broken.parquet").write_bytes(b"PAR1 and no more")
        assert_one_sentence(run("fit", "broken.parquet", *FIT), 1, "cannot read broken.parquet")

    def test_rows_are_counted_through_all_parts(self) -> None:
        table = make_table()
        table.to_parquet("data.parquet")
        assert run("fit", "data.parquet", *FIT).exit_code == 0
        table.loc[70, "income"] = np.nan
        table.to_parquet("rows.parquet")
        before = sorted(os.listdir())
        for verb in (["predict", "--output", "p.csv"], ["evaluate", "--target", "label", "--epsilon", 1]):
            result = run(verb[0], "model.json", "rows.parquet", *verb[1:], "--stream")
            assert result.exit_code == 1
            assert 'column "income" of rows.parquet has no value in 1 of' in result.stderr
            assert "first in row 71" in result.stderr
        table["income"] = table["income"].astype(object)
        table.loc[66, "income"] = np.inf
        table["income"] = table["income"].astype(float)
        table.to_parquet("rows.parquet")
        assert "first in row 67" in run("fit", "rows.parquet", *FIT, "--stream").stderr
        assert sorted(os.listdir()) == before

    def test_more_texts_than_are_kept(self) -> None:
        cells = Cells("hash", most=100)
        cells.add(pd.Series([f"a{k}" for k in range(101)]))
        cells.add(pd.Series(["a1"] * 1000, index=range(101, 1101)))
        found = judge(cells)
        assert found.kind is Kind.category
        assert "holds more than 100 different texts" in found.problem
        assert '--ignore "hash"' in found.problem
        for name, text, kind in (("order_id", "a{}", Kind.identifier), ("day", "2024-01-01 10:{}", Kind.date)):
            cells = Cells(name, most=100)
            cells.add(pd.Series([text.format(f"{k:02d}") for k in range(101)]))
            assert judge(cells).kind is kind


# Interrupts itself once some of the predictions are written.
INTERRUPT = """
import os, signal, sys
from hardwood.cli import predict
from hardwood.table import batches
from hardwood.__main__ import main
batches.stream.__kwdefaults__["batch_rows"] = 10
counted = predict._Counted.add

def add(self, predictions):
    if self._n_rows >= 30:
        os.kill(os.getpid(), signal.SIGINT)
    return counted(self, predictions)

predict._Counted.add = add
sys.argv[0] = "hardwood"
main()
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_interrupted_predictions_leave_nothing() -> None:
    make_table().to_parquet("data.parquet")
    assert run("fit", "data.parquet", *FIT).exit_code == 0
    Path("p.csv").write_text("as it was\n")
    before = sorted(os.listdir())
    command = [
        sys.executable,
        "-c",
        INTERRUPT,
        "predict",
        "model.json",
        "data.parquet",
        "--output",
        "p.csv",
        "--stream",
    ]
    result = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 130, result.stderr
    assert result.stderr.endswith("hardwood: interrupted\n")
    assert sorted(os.listdir()) == before
    assert Path("p.csv").read_text() == "as it was\n"


# Reads a table that never ends.
READ_FOR_EVER = """
import sys, time
from hardwood.cli import fit
from hardwood.cli.streams import make_stream, open_stream
from hardwood.__main__ import main

def open_for_ever(path, text_columns):
    first = next(iter(open_stream(path, text_columns)))
    def read():
        print("reading", file=sys.stderr, flush=True)
        while True:
            time.sleep(0.01)
            yield first
    return make_stream(path, read, 80)

fit.open_stream = open_for_ever
sys.argv[0] = "hardwood"
main()
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
def test_interrupting_a_streamed_fit() -> None:
    make_table().to_parquet("data.parquet")
    command = [sys.executable, "-c", READ_FOR_EVER, "fit", "data.parquet", "--stream", *map(str, FIT)]
    with subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if line == "reading\n":
                break
        process.send_signal(signal.SIGINT)
        assert process.stderr.read().endswith("hardwood: interrupted\n")
        assert process.wait(timeout=60) == 130
    assert os.listdir() == ["data.parquet"]
