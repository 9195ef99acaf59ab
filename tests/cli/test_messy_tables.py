"""Tables as people have them: other separators and characters, identifiers, dates, text, flags and missing cells."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import SEPARATE, make_table, run, run_process
from typer.testing import CliRunner

from hardwood import TreeEnsemble
from hardwood.cli.app import app
from hardwood.cli.columns import Kind, classify, read_numbers

FIT = ("--target", "label", "--epsilon", 1, "--max-depth", 3, "--output", "model.json")


def make_messy(n_rows: int = 120) -> pd.DataFrame:
    generator = np.random.default_rng(5)
    table = make_table(n_rows)
    table.insert(0, "customer_id", [f"C{number:05d}" for number in range(n_rows)])
    table.insert(1, "signup", pd.date_range("2024-02-28", periods=n_rows).strftime("%Y-%m-%d"))
    table["active"] = generator.random(n_rows) < 0.5
    return table


LAYOUTS = {
    "semicolons": ({"sep": ";"}, "separated by semicolons"),
    "tabs": ({"sep": "\t"}, "separated by tabs"),
    "vertical bars": ({"sep": "|"}, "separated by vertical bars"),
    "decimal commas": ({"sep": ";", "decimal": ","}, "decimal commas"),
    "Windows-1252": ({"encoding": "cp1252"}, "Windows-1252"),
    "UTF-16": ({"encoding": "utf-16"}, "UTF-16"),
    "a byte order mark": ({"encoding": "utf-8-sig"}, ""),
    "an index": ({"index": True}, "left out as identifiers: Unnamed: 0"),
}


@pytest.mark.parametrize("case", LAYOUTS)
def test_layouts_are_recognised_and_said(case):
    """Each used to be refused with a line of Python that converts the table."""
    options, said = LAYOUTS[case]
    table = make_table().rename(columns={"income": "revenu déclaré"})
    table.to_csv("plain.csv", index=False)
    table.to_csv("other.csv", **({"index": False} | options))
    assert run("fit", "plain.csv", *FIT).exit_code == 0
    plain = Path("model.json").read_text()
    result = run("fit", "other.csv", *FIT)
    assert result.exit_code == 0, result.stderr
    assert said in result.stderr
    assert Path("model.json").read_text() == plain


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_standard_input(suffix):
    table = make_table()
    name = f"data.{suffix}"
    table.to_parquet(name) if suffix == "parquet" else table.to_csv(name, index=False)
    runner = CliRunner(**SEPARATE)
    arguments = ["fit", "-", *map(str, FIT)]
    result = runner.invoke(app, arguments, input=Path(name).read_bytes(), prog_name="hardwood")
    assert result.exit_code == 0, result.stderr
    assert "80 rows" in result.stdout


def test_only_the_table_comes_from_standard_input():
    make_table().to_csv("data.csv", index=False)
    result = run("predict", "-", "data.csv", "--output", "p.csv")
    assert result.exit_code == 1
    assert "only a table" in result.stderr
    empty = CliRunner(**SEPARATE).invoke(app, ["fit", "-", *map(str, FIT)], input=b"", prog_name="hardwood")
    assert empty.stderr == "hardwood: standard input is empty\n"


def test_what_the_columns_were_taken_for_is_said():
    make_messy().to_csv("data.csv", index=False)
    result = run("fit", "data.csv", *FIT)
    assert result.exit_code == 0, result.stderr
    notes = result.stderr.splitlines()
    assert "categories: colour, active" in notes[0]
    assert "left out as identifiers: customer_id (such as C00000)" in notes[1]
    assert "left out as dates: signup (such as 2024-02-28)" in notes[2]
    schema = TreeEnsemble.from_json("model.json").schema
    assert schema.feature_names == ("age", "colour", "income", "active")
    assert schema.categories[1:] == (("blue", "green", "red"), None, ("False", "True"))


def test_columns_can_be_said_to_be_otherwise():
    make_messy().to_csv("data.csv", index=False)
    result = run("fit", "data.csv", *FIT, "--numeric", "active", "--ignore", "colour", "--categorical", "customer_id",
                 "--ignore", "signup")  # fmt: skip
    assert result.exit_code == 0, result.stderr
    schema = TreeEnsemble.from_json("model.json").schema
    assert schema.feature_names == ("customer_id", "age", "income", "active")
    assert [labels is None for labels in schema.categories] == [False, True, True, True]


def test_all_that_is_wrong_is_said_at_once():
    table = make_messy()
    table["age"] = [*["twelve"] * 2, *table["age"].iloc[2:].astype(str)]
    table["income"] = [np.inf, *table["income"].iloc[1:]]
    table["label"] = "fraud"
    table.to_csv("data.csv", index=False)
    result = run("fit", "data.csv", *FIT)
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert len(lines) == 3
    assert all(line.startswith("hardwood: ") for line in lines)
    assert '"label"' in lines[0]
    assert "one class" in lines[0]
    assert '"twelve" in row 1' in lines[1]
    assert "2 such cells" in lines[1]
    assert '"income" is infinite in 1 of 120 rows' in lines[2]
    result = run("fit", "data.csv", "--target", "lable", "--ignore", "idd", "--output", "m.json")
    assert [f'no column "{name}"' in line for name, line in
            zip(["lable", "idd"], result.stderr.splitlines(), strict=True)] == [True, True]  # fmt: skip


def test_rows_without_a_label_are_left_out():
    table = make_table()
    table.loc[3:5, "label"] = None
    table.to_csv("data.csv", index=False)
    result = run("fit", "data.csv", *FIT)
    assert '3 of 80 rows have no value of "label" and are left out' in result.stderr
    assert "77 rows" in result.stdout


def classify_values(*values: object, name: str = "x", times: int = 10) -> Kind:
    return classify(pd.Series([*values] * times, name=name)).kind


def test_kinds_of_columns():
    assert classify_values(1.5, 2.0) is Kind.number
    assert classify_values("1", "2", "?") is Kind.number  # a marker of missing values among numbers
    assert classify_values("red", "blue") is Kind.category
    assert (
        classify_values("1", "2", "3", "red") is Kind.category
    )  # too many numbers to be a mistake is a matter of share
    assert classify_values("01", "02") is Kind.category  # text throughout: codes
    assert classify_values(True, False, None) is Kind.category
    assert classify_values("2024-01-31", "2024-02-01 10:30") is Kind.date
    assert classify_values("31.1.2024", "1/2/24") is Kind.date
    assert classify_values(None, np.nan) is Kind.nothing
    assert classify(pd.Series(np.arange(30), name="x")).kind is Kind.identifier  # counts the rows
    assert classify(pd.Series(np.arange(30) ** 2, name="x")).kind is Kind.number
    assert classify(pd.Series(np.arange(30) ** 2, name="accountId")).kind is Kind.identifier
    assert classify(pd.Series(np.arange(30) ** 2, name="paid")).kind is Kind.number
    assert classify(pd.Series([f"u{k}" for k in range(40)], name="user")).kind is Kind.identifier
    assert classify(pd.Series(pd.to_datetime(["2020-01-01"] * 3), name="x")).kind is Kind.date


def test_markers_of_missing_numbers():
    found = read_numbers(pd.Series(["1", "NA", "3", None], name="x"))
    assert found.values.dtype == "Int64"  # whole numbers stay whole, though some are missing
    assert found.values.isna().tolist() == [False, True, False, True]
    assert found.remark == '"NA" counts as missing in 1 cells'
    found = read_numbers(pd.Series(["1", "many"], name="x"), "count them")
    assert found.problem == 'column "x" holds "many" in row 2, where a number belongs: count them'


def test_a_large_table_is_cut_at_a_character_of_several_bytes():
    """The sample that tells what separates values may end inside one."""
    lines = ["name;x;label", *[f"é{'é' * (k % 3)};{k / 7:.3f};{'ab'[k % 2]}" for k in range(20000)]]
    with gzip.open("data.csv.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(lines))
    result = run("fit", "data.csv.gz", *FIT, "--refine", "none")
    assert result.exit_code == 0, result.stderr
    assert "separated by semicolons" in result.stderr
    assert "20,000 rows, 2 features" in result.stdout


class TestShow:
    def test_the_rules(self):
        make_messy().to_csv("data.csv", index=False)
        assert run("fit", "data.csv", *FIT).exit_code == 0
        result = run("show", "model.json")
        assert result.exit_code == 0, result.stderr
        assert result.stdout.startswith("one tree, ")
        assert "predict fraud (probability" in result.stdout

    def test_a_row(self):
        Path("threat.toml").write_text('[features]\nx = 3\ncolour = {red = ["blue"]}\n')
        table = pd.DataFrame({"x": [1, 2, 3, 11, 12, 13] * 4, "colour": ["red", "blue"] * 12})
        table["label"] = np.where(table["x"] > 5, "high", "low")
        table.to_csv("data.csv", index=False)
        arguments = ["data.csv", "--target", "label", "--categorical", "colour", "--output", "model.json"]
        assert run("fit", *arguments, "--threat", "threat.toml").exit_code == 0
        asked = ["show", "model.json", "--data", "data.csv", "--target", "label"]
        result = run(*asked, "--row", 3, "--threat", "threat.toml")
        assert result.exit_code == 0, result.stderr
        assert result.stdout.splitlines() == [
            "row 3 is predicted low, and it is low",
            "    x <= 7",
            "    predict low (probability 1, cover 50%)",
            "",
            "the attacker cannot move it to any other leaf",
        ]
        result = run(*asked, "--row", 4, "--epsilon", 5)
        assert result.stdout.splitlines()[-2:] == [
            "the attacker can push it to: predict low (probability 1, cover 50%)",
            "    x: 11 -> 7",
        ]

    def test_a_row_of_several_trees(self):
        from sklearn.ensemble import RandomForestClassifier

        from hardwood import as_ensemble

        table = make_table()
        X, y = table[["age", "income"]].to_numpy(), table["label"]
        forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)
        Path("forest.json").write_text(as_ensemble(forest).to_json())
        table[["age", "income"]].to_csv("rows.csv", index=False)
        outcomes = set()
        for row in range(1, 9):
            result = run("show", "forest.json", "--row", row, "--data", "rows.csv", "--epsilon", 4)
            assert result.exit_code == 0, result.stderr
            outcomes.add(result.stdout.splitlines()[1].split(" can make it ")[0])
        assert outcomes == {"the attacker", "whatever the attacker does, it stays so"}
        assert "5 trees" in run("show", "forest.json", "--tree", 2).stdout

    def test_wrong_use(self):
        make_table().to_csv("data.csv", index=False)
        assert run("fit", "data.csv", *FIT).exit_code == 0
        assert "--row and --data" in run("show", "model.json", "--row", 1).stderr
        assert "80 rows" in run("show", "model.json", "--row", 81, "--data", "data.csv").stderr
        assert "the model has 1" in run("show", "model.json", "--tree", 2).stderr


def test_a_messy_table_in_processes_of_their_own():
    """The whole way of a table with everything in it: identifiers, dates, text, flags, missing cells, three classes."""
    table = make_messy()
    table.loc[table["income"] < 20, "label"] = "unclear"
    table.loc[::7, "income"] = np.nan
    table.loc[::11, "colour"] = None
    table["age"] = table["age"].astype(object)
    table.loc[::13, "age"] = "?"
    table.to_csv("data.csv", index=False, sep=";")
    steps = [
        ("threat", "data.csv", "--target", "label", "--output", "threat.toml"),
        ("fit", "data.csv", "--target", "label", "--threat", "threat.toml", "--output", "model.json"),
        ("show", "model.json", "--row", "2", "--data", "data.csv", "--threat", "threat.toml"),
        ("evaluate", "model.json", "data.csv", "--target", "label", "--threat", "threat.toml"),
        ("attack", "model.json", "data.csv", "--target", "label", "--threat", "threat.toml", "--output", "a.csv"),
        ("predict", "model.json", "data.csv", "--output", "p.csv"),
    ]
    for step in steps:
        result = run_process(*step)
        assert result.returncode == 0, result.stderr


class TestModels:
    @pytest.mark.parametrize("model", ["tree", "forest", "boosting", "hardened"])
    def test_every_kind_goes_all_the_way(self, model):
        if model == "hardened":
            pytest.importorskip("xgboost", "3.2")  # older ones do not hold the labels of categories
        make_messy().to_csv("data.csv", index=False)
        size = [] if model == "tree" else ["--trees", 5]
        arguments = ["--target", "label", "--epsilon", 1, "--attacking-class", "fraud", "--output", "model.json"]
        result = run("fit", "data.csv", "--model", model, *size, *arguments)
        assert result.exit_code == 0, result.stderr
        assert "attacking_classes=['fraud']" in " ".join(result.stdout.split())
        ensemble = TreeEnsemble.from_json("model.json")
        assert ensemble.labels.tolist() == ["fraud", "honest"]
        assert ensemble.n_trees == 1 if model == "tree" else ensemble.n_trees >= 1
        evaluated = run("evaluate", "model.json", "data.csv", "--target", "label", "--epsilon", 1,
                        "--positive-class", "fraud", "--decision-threshold", 0.4)  # fmt: skip
        assert "detecting fraud" in evaluated.stdout, evaluated.stderr

    def test_treant(self):
        make_table(40).drop(columns="colour").to_csv("data.csv", index=False)
        Path("threat.toml").write_text("budget = 2\n[[rules]]\nfeature = 'income'\nadd = 1\n")
        result = run("fit", "data.csv", "--model", "treant", "--target", "label", "--threat", "threat.toml",
                     "--max-depth", 2, "--output", "model.json")  # fmt: skip
        assert result.exit_code == 0, result.stderr
        assert "AttackRule('income'" in result.stdout

    @pytest.mark.parametrize("model", ["tree", "forest", "boosting"])
    def test_numbers(self, model):
        table = make_table()
        table["income"] += 0.1 * table["age"]
        table.drop(columns=["label", "colour"]).to_csv("data.csv", index=False)
        result = run("fit", "data.csv", "--model", model, "--target", "income", "--task", "regression",
                     "--epsilon", 1, "--max-depth", 3, "--output", "model.json")  # fmt: skip
        assert result.exit_code == 0, result.stderr
        assert "target" in result.stdout
        assert "a constant" in result.stdout
        assert run("predict", "model.json", "data.csv", "--output", "p.csv").exit_code == 0
        assert pd.read_csv("p.csv")["prediction"].between(-20, 80).all()
        judged = ["model.json", "data.csv", "--target", "income", "--epsilon", 3]
        evaluated = run("evaluate", *judged, "--output", "rows.csv")
        assert "best constant" in evaluated.stdout, evaluated.stderr
        attacked = run("attack", *judged, "--output", "examples.csv")
        assert "can be made worse" in attacked.stdout, attacked.stderr
        examples = pd.read_csv("examples.csv")
        assert (examples["error"] >= examples["error_before"]).all()
        assert (examples["error"] > examples["error_before"]).any()
        row = int((examples["error"] - examples["error_before"]).argmax()) + 1
        shown = run("show", "model.json", "--row", row, "--data", "data.csv", "--epsilon", 3)
        assert "the attacker can " in shown.stdout, shown.stderr
        assert "    age: " in shown.stdout

    def test_options_that_a_model_does_not_have(self):
        make_table().to_csv("data.csv", index=False)
        for options, words in (
            (["--model", "boosting", "--rho", 0.5], "--rho: --model boosting"),
            (["--trees", 5], "--trees: --model tree"),
            (["--model", "treant", "--task", "regression", "--target", "age"], "predicts classes"),
            (["--model", "hardened", "--task", "regression", "--target", "age"], "predicts classes"),
            (["--task", "regression", "--target", "age", "--balanced"], "--balanced: --model tree for regression"),
        ):
            result = run("fit", "data.csv", "--target", "label", *options, "--output", "model.json")
            assert result.exit_code == 2, result.stderr
            assert words in result.stderr
