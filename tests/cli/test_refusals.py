"""Every kind of bad table, threat, model, option and output ends in one sentence."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import assert_one_sentence, fit_small, run, write_csv

from hardwood import TreeEnsemble

DATA_ERRORS = {
    "missing file": (lambda: "nothing.csv", ["nothing.csv does not exist"]),
    "folder": (lambda: os.mkdir("folder.csv") or "folder.csv", ["folder.csv is a folder without Parquet files"]),
    "name too long": (lambda: "x" * 300 + ".csv", ["too long"]),
    "empty file": (lambda: Path("data.csv").touch() or "data.csv", ["data.csv is empty"]),
    "no rows": (lambda: write_csv(x=[], y=[]), ["no rows"]),
    "other suffix": (lambda: write_csv("data.xlsx", x=[1, 2], y=[0, 1]), ["data.xlsx", ".parquet"]),
    "a number of 400 digits": (
        lambda: Path("d.csv").write_text(f"x,y\n1,0\n{'9' * 400},1\n") and "d.csv",
        ['"x"', "(400 characters)", "row 2", "308 digits"],
    ),
    "binary": (lambda: Path("data.csv").write_bytes(b"\x00\x01\x02x") and "data.csv", ["data.csv"]),
    "bad gzip": (lambda: Path("d.csv.gz").write_bytes(b"x,y\n1,2\n") and "d.csv.gz", ["d.csv.gz"]),
    "bad parquet": (lambda: Path("d.parquet").write_bytes(b"x,y") and "d.parquet", ["d.parquet"]),
    "ragged": (lambda: Path("d.csv").write_text("x,y\n1,0\n1,2,3\n") and "d.csv", ["d.csv"]),
    "ragged from the start": (
        lambda: Path("d.csv").write_text("x,y\n1,2,0\n") and "d.csv",
        ["d.csv"],
    ),
    "repeated name": (
        lambda: Path("d.csv").write_text("x,y,x\n1,0,2\n") and "d.csv",
        ["named", '"x"'],
    ),
    "no name": (
        lambda: Path("d.csv").write_text("x,,y\n1,2,0\n2,1,1\n") and "d.csv",
        ["column 2", "no name"],
    ),
    "no target": (lambda: write_csv(x=[1, 2], z=[0, 1]), ['no column "y"', "x, z"]),
    "only a target": (lambda: write_csv(y=[0, 1]), ['besides "y"']),
    "text among numbers": (
        lambda: write_csv(x=[*map(str, range(30)), "red"], y=[0, 1] * 15 + [1]),
        ['"x"', '"red" in row 31', '--categorical "x"', '--ignore "x"'],
    ),
    "too many classes": (
        lambda: write_csv(x=np.arange(50.0), y=np.arange(50.0) / 7),
        ['"y"', "50 different numbers", "--task regression"],
    ),
    "no label": (lambda: Path("d.csv").write_text("x,y\n1,\n2,\n") and "d.csv", ['"y"', "no value"]),
    "infinite": (lambda: write_csv(x=[1.0, np.inf], y=[0, 1]), ['"x"', "infinite", "row 2"]),
    "one class": (lambda: write_csv(x=[1, 2], y=["spam", "spam"]), ['"y"', "one class", "spam"]),
}


@pytest.mark.parametrize("case", DATA_ERRORS)
def test_bad_training_tables(case):
    make, words = DATA_ERRORS[case]
    data = make()
    before = sorted(os.listdir())
    result = run("fit", data, "--target", "y", "--output", "model.json")
    assert_one_sentence(result, 1, *words)
    assert sorted(os.listdir()) == before


THREAT_ERRORS = {
    "not there": (None, ["threat.toml"]),
    "not TOML": ("features = [", ["threat.toml", "TOML"]),
    "unknown column": ("[features]\nsize = 1", ["'size'"]),
    "nested too deep": ("features = " + "[" * 2000, ["threat.toml", "nested"]),
    "negative": ("[features]\nx = -1", ["'x'", "-1"]),
    "unknown class": ("features = 1\nattacking_classes = ['spam']", ["'spam'"]),
}


@pytest.mark.parametrize("case", THREAT_ERRORS)
def test_bad_threat_files(case):
    text, words = THREAT_ERRORS[case]
    if text is not None:
        Path("threat.toml").write_text(text)
    data = write_csv(x=[1, 2, 3, 4], y=[0, 0, 1, 1])
    result = run("fit", data, "--target", "y", "--threat", "threat.toml", "--output", "model.json")
    assert_one_sentence(result, 1, *words)
    assert not Path("model.json").exists()


def test_names_are_printed_as_they_are():
    """Rich would take parts of them for colours and emoji."""
    result = run("fit", "[red]:smile:.csv", "--target", "y", "--output", "model.json")
    assert_one_sentence(result, 1, "hardwood: [red]:smile:.csv does not exist")
    pd.DataFrame({"[red]": [1, 2], "y": ["[b]", ":smile:"]}).to_csv("[red].csv", index=False)
    result = run("fit", "[red].csv", "--target", "y", "--output", "[red]:smile:.json")
    assert "[b] (50.0%)" in result.stdout
    assert "[red]:smile:.json" in result.stdout


def test_an_attacking_class_that_is_none():
    data = write_csv(x=[1, 2], y=[0, 1])
    result = run("fit", data, "--target", "y", "--attacking-class", 2, "--output", "model.json")
    assert_one_sentence(result, 1, '"2"', "0, 1")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--epsilon", -1], ["--epsilon"]),
        (["--epsilon", 1, "--threat", "t.toml"], ["--epsilon", "--threat"]),
        (["--criterion", "magic"], ["magic", "gini"]),
        (["--ignore", "y"], ["--ignore", "target"]),
        (["--max-depth", "deep"], ["--max-depth"]),
        (["--nonsense"], ["--nonsense"]),
    ],
)
def test_wrong_usage(options, words):
    result = run("fit", write_csv(x=[1, 2], y=[0, 1]), "--target", "y", "--output", "m.json", *options)
    assert_one_sentence(result, 2, *words)
    assert_one_sentence(run("fit"), 2, "--help")
    assert_one_sentence(run("fly"), 2, "fly")
    assert_one_sentence(run("--nonsense"), 2, "--nonsense")


def test_outputs_that_cannot_be_written(monkeypatch):
    monkeypatch.setattr("hardwood.cli.fit.read_table", lambda *_: pytest.fail("work was done"))
    data = write_csv(x=[1, 2], y=[0, 1])
    os.mkdir("folder")
    for output, words in {
        "nowhere/model.json": ["nowhere"],
        "folder": ["not a file"],
        "data.csv": ["data.csv", "input"],
        "./folder/../data.csv": ["input"],
        "/dev/null": ["not a file"],
        "/proc/model.json": ["/proc/model.json"],
        "m" * 300 + ".json": ["too long"],
    }.items():
        result = run("fit", data, "--target", "y", "--output", output)
        assert_one_sentence(result, 1, *words)
    assert pd.read_csv(data).shape == (2, 2)


@pytest.mark.parametrize("name", ["model.pkl", "model", "model.csv"])
def test_models_are_written_as_json_only(name):
    """`fit --output x.pkl` wrote JSON, which whoever loads a pickle cannot read."""
    data = write_csv(x=[1, 2], y=[0, 1])
    assert_one_sentence(run("fit", data, "--target", "y", "--output", name), 2, "must end in .json", name)
    assert not Path(name).exists()


def test_a_model_passes_through_one_temporary_file(monkeypatch):
    """It passed through two, one beside the other."""
    made = []
    make = tempfile.mkstemp
    monkeypatch.setattr(tempfile, "mkstemp", lambda *args, **options: made.append(options) or make(*args, **options))
    fit_small()
    assert len(made) == 1


def test_a_write_that_fails_leaves_the_old_file(monkeypatch):
    model = fit_small()
    Path("p.csv").write_text("old")

    def fill_the_disk(table, path, **_):
        Path(path).write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", fill_the_disk)
    before = sorted(os.listdir())
    result = run("predict", model, "train.csv", "--output", "p.csv")
    assert_one_sentence(result, 1, "p.csv", "No space left")
    assert Path("p.csv").read_text() == "old"
    assert sorted(os.listdir()) == before


def test_outputs_may_be_links():
    os.mkdir("folder")
    os.symlink("folder/real.json", "link.json")
    fit_small("link.json")
    assert os.path.islink("link.json")
    assert TreeEnsemble.from_json("folder/real.json").n_trees == 1


def test_bad_tables_to_predict():
    model = fit_small()
    for columns, words in [
        ({"age": [1], "x": [2]}, ["colour, income"]),
        ({"age": [1], "colour": ["red"], "income": ["much"]}, ['"income"', '"much" in row 1']),
        ({"age": [1, None], "colour": ["red"] * 2, "income": [1, 2]}, ['"age"', "row 2"]),
        ({"age": [1, 2], "colour": ["red", None], "income": [1, 2]}, ['"colour"', "row 2", "the model takes no"]),
        ({"age": ["1", "-1" + "0" * 400], "colour": ["red"] * 2, "income": [1, 2]}, ['"age"', "row 2", "308 digits"]),
    ]:
        result = run("predict", model, write_csv(**columns), "--output", "p.csv")
        assert_one_sentence(result, 1, *words)
    assert_one_sentence(run("predict", model, "data.csv", "--output", "p.txt"), 2, ".parquet")
    assert_one_sentence(run("predict", model, "data.csv", "--output", "data.csv"), 1, "input")
    assert not Path("p.csv").exists()


@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "another", "binary"])
def test_bad_models(damage):
    text = fit_small().read_bytes()
    damaged = {
        "empty": b"",
        "truncated": text[: len(text) // 2],
        "another": b"{}",
        "binary": b"\xff",
    }
    if damage in damaged:
        Path("bad.json").write_bytes(damaged[damage])
    result = run("predict", "bad.json", "train.csv", "--output", "p.csv")
    assert_one_sentence(result, 1, "bad.json")
    assert not Path("p.csv").exists()
