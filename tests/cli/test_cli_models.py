"""Models of other libraries on the command line: damaged files, warnings, respelt columns, unknown labels."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from running import assert_one_sentence, run
from sklearn.tree import DecisionTreeClassifier

import hardwood
from hardwood import RobustTreeClassifier, as_ensemble


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def make_table() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    table = pd.DataFrame(generator.normal(size=(120, 2)), columns=["monthly income", "age"])
    table["merchant"] = generator.choice(["Café", "Fuel", "Web"], 120)
    return table.assign(fraud=((table["merchant"] == "Fuel") ^ (table["age"] > 0)).astype(int))


def test_a_damaged_model_is_a_sentence() -> None:
    """LightGBM's reader ended the process: SIGABRT."""
    lgb = pytest.importorskip("lightgbm")
    table = make_table()[["monthly income", "age", "fraud"]]
    table.to_csv("data.csv", index=False)
    parameters = {"verbose": -1, "num_threads": 1, "objective": "binary"}
    booster = lgb.train(parameters, lgb.Dataset(table.drop(columns="fraud"), table["fraud"]), 2)
    lines = booster.model_to_string().splitlines()
    missing = next(line for line in lines if line.startswith("left_child="))
    Path("model.txt").write_text("\n".join(line for line in lines if line != missing))
    asked = ["evaluate", "model.txt", "data.csv", "--target", "fraud", "--epsilon", "0.1"]
    assert_one_sentence(run(*asked), 1, "model.txt is not a valid LightGBM model: tree 0: left_child is missing")


def test_columns_that_lightgbm_respells() -> None:
    """The threat and the examples are in the names of the table."""
    lgb = pytest.importorskip("lightgbm")
    table = make_table()[["monthly income", "age", "fraud"]]
    table.to_csv("data.csv", index=False)
    model = lgb.LGBMClassifier(n_estimators=3, n_jobs=1, verbose=-1).fit(table.drop(columns="fraud"), table["fraud"])
    model.booster_.save_model("model.txt")
    Path("threat.toml").write_text('[features]\n"monthly income" = 0.1\nage = 0.2\n')
    asked = ["model.txt", "data.csv", "--target", "fraud", "--threat", "threat.toml"]
    assert run("evaluate", *asked).exit_code == 0
    assert run("attack", *asked, "--output", "examples.csv").exit_code == 0
    assert "monthly income" in pd.read_csv("examples.csv").columns
    assert run("predict", "model.txt", "data.csv", "--output", "said.csv").exit_code == 0
    said = pd.read_csv("said.csv")["prediction"]
    assert np.array_equal(said, model.predict(table.drop(columns="fraud")))


@pytest.mark.parametrize("verb", ["evaluate", "attack", "predict"])
def test_labels_that_the_model_does_not_know(verb: str) -> None:
    """Every row was predicted as if its category were new, without a word."""
    table = make_table()
    model = RobustTreeClassifier(categorical_features=["merchant"]).fit(table.drop(columns="fraud"), table["fraud"])
    model.ensemble_.to_json("model.json")
    table.assign(merchant=table["merchant"].str.upper()).to_csv("data.csv", index=False)
    options = ["--output", "out.csv"] if verb != "evaluate" else []
    options += ["--target", "fraud", "--epsilon", "0.1"] if verb != "predict" else []
    result = run(verb, "model.json", "data.csv", *options)
    assert_one_sentence(result, 1, "'WEB'", "'CAFÉ'", "knows none of them; it knows 'Café', 'Fuel', 'Web'")


def test_warnings_are_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    """XGBoost's warnings came out as raw lines of Python, with the place in its source."""
    table = make_table()[["monthly income", "age", "fraud"]]
    table.to_csv("data.csv", index=False)
    model = DecisionTreeClassifier(max_depth=2).fit(table.drop(columns="fraud"), table["fraud"])

    def warn(path: Any) -> Any:
        for _ in range(2):
            warnings.warn("[12:34:56] WARNING: /workspace/src/learner.cc:343: This is old.", UserWarning, stacklevel=1)
        return as_ensemble(model)

    Path("model.json").write_text("{}")
    monkeypatch.setattr(hardwood, "as_ensemble", lambda given, X=None: given if X is not None else warn(given))
    result = run("predict", "model.json", "data.csv", "--output", "said.csv")
    assert result.exit_code == 0
    assert "hardwood: note: This is old." in result.stderr.splitlines()
    assert result.stderr.count("This is old") == 1
    assert "UserWarning" not in result.stderr
