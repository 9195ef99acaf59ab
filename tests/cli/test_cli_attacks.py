"""The verbs around attacks: `threat`, `evaluate`, `attack`, with models of every library."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from running import COMMAND, ENVIRONMENT, assert_one_sentence, fit_small, make_table, run, write_csv
from sklearn.ensemble import RandomForestClassifier

from hardwood import ThreatModel, TreeEnsemble, as_ensemble, attack, evaluate, verify
from hardwood.cli import messages
from hardwood.table import Schema


def make_numbers(n_rows: int = 120) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    table = pd.DataFrame({"width": generator.normal(size=n_rows), "height": generator.normal(size=n_rows).round(2)})
    noise = 0.3 * generator.normal(size=n_rows)
    return table.assign(big=(table["width"] + table["height"] + noise > 0).astype(int))


def save_forest(table: pd.DataFrame, target: str = "big", n_trees: int = 12, **options: Any) -> TreeEnsemble:
    """Save a model that hardwood read from scikit-learn, as its own JSON."""
    forest = RandomForestClassifier(n_trees, random_state=0, **options)
    ensemble = as_ensemble(forest.fit(table.drop(columns=target), table[target]))
    ensemble.to_json("model.json")
    return ensemble


def read_exactly(path: str) -> pd.DataFrame:
    """Read numbers as they were written: until 3.1 pandas is a last bit off unless told otherwise."""
    is_exact = tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1)
    return pd.read_csv(path) if is_exact else pd.read_csv(path, float_precision="round_trip")


THREAT = "attacking_classes = [1]\n[features]\nwidth = 0.2\nheight = [0.1, 0.0]\n"


# Threat-model files


class TestThreat:
    def test_a_file_to_edit(self) -> None:
        table = make_table().assign(**{"a = b": 1.5, "constant": 7})
        table.to_csv("train.csv", index=False)
        result = run("threat", "train.csv", "--target", "label", "--output", "threat.toml")
        assert result.exit_code == 0, result.stderr
        assert "5 columns" in result.stdout
        assert ThreatModel.from_toml("threat.toml") == ThreatModel(None)
        text = Path("threat.toml").read_text()
        age = table["age"]
        for words in (
            f"whole number from {age.min()} to {age.max()}, median {age.median():g}",
            f"standard deviation {table['income'].std(ddof=0):.3g}",
            f"red ({(table['colour'] == 'red').sum()})",
            f"honest ({(table['label'] == 'honest').sum()})",
        ):
            assert words in text

    def test_every_example_in_it_can_be_uncommented(self) -> None:
        table = make_table().assign(**{"a = b": 1.5, 'q"uote': 0.25})
        table.to_csv("train.csv", index=False)
        assert run("threat", "train.csv", "--target", "label", "--output", "t.toml").exit_code == 0
        lines = Path("t.toml").read_text().splitlines()
        keys = [re.match(r"# ((?:\w+|\"(?:[^\"\\]|\\.)*\") = .*)", line) for line in lines]
        text = "\n".join(line if key is None else key[1] for line, key in zip(lines, keys, strict=True))
        features = tomllib.loads(text)["features"]
        assert sorted(features) == sorted(table.columns.drop("label"))
        threat = ThreatModel.parse(text)
        schema = Schema.from_table(table.drop(columns="label").astype({"colour": "category"}))
        reach = threat.resolve(schema, sorted(table["label"].unique()))
        assert (reach.right > 0).sum() == 4
        assert reach.attacks.sum() == 1

    def test_what_holds_in_all_rows_is_proposed(self) -> None:
        """Each proposed line alone, and all together, make a file that suits the table."""
        generator = np.random.default_rng(0)
        n_rows = 90
        table = pd.DataFrame(
            {"letters": generator.integers(0, 30, n_rows), "digits": generator.integers(0, 20, n_rows)}
        )
        table["length"] = table["letters"] + table["digits"] + 1
        table["all chars"] = table["letters"] + table["digits"]
        table["digit_share"] = table["digits"] / table["length"]
        table["https"] = generator.integers(0, 2, n_rows)
        table["age"] = np.where(generator.random(n_rows) < 0.2, np.nan, generator.normal(size=n_rows))
        colors = pd.get_dummies(pd.Series(generator.choice(["red", "blue", "teal"], n_rows)), prefix="color", dtype=int)
        table = pd.concat([table, colors], axis=1).assign(label=generator.integers(0, 2, n_rows))
        table.to_csv("train.csv", index=False)
        assert run("threat", "train.csv", "--target", "label", "--output", "t.toml").exit_code == 0
        lines = Path("t.toml").read_text().splitlines()
        for words in (
            "# 90 of 90 rows: exactly one of color_blue, color_red, color_teal is 1.",
            '# groups = [{ columns = ["color_blue", "color_red", "color_teal"], name = "color" }]',
            "# All 90 values of https are 0 or 1.",
            "# 90 of 90 rows: digit_share = digits / length",
            '# relations = ["`all chars` = letters + digits", '
            '"digit_share = digits / length", "`all chars` <= length"]',
            "# All 90 values of digit_share lie between 0 and 1.",
            "# letters = [0, inf]",
            '# whole_numbers = ["letters", "digits", "length", "all chars", "https"]',
            f"# Cells are missing in 1 column: age ({table['age'].isna().sum()}).",
            f"# 0 or 1: {table['https'].sum()} of 90 are 1",
            "# One column of the group color (see groups): color_red",
        ):
            assert words in lines
        X = table.drop(columns="label")
        schema = replace(Schema.from_table(X.fillna({"age": 0.0})), accepts_missing=True)
        proposed = [k for k, line in enumerate(lines) if re.match(r"# (?:\w+|\"[^\"]*\") = ", line)]
        assert len(proposed) == 18
        for some in [*([k] for k in proposed), proposed]:
            text = "\n".join(line[2:] if k in some else line for k, line in enumerate(lines))
            threat = ThreatModel.parse(text).settle(X, schema.encode(X), schema)
            reach = threat.resolve(schema, [0, 1])
            assert reach.contains(schema.encode(X), schema.encode(X), table["label"].to_numpy()).all()

    def test_without_a_target_and_with_missing_values(self) -> None:
        write_csv(x=[1.0, None, 3.5], empty=[None, None, None], c=["a", None, "b"])
        result = run("threat", "data.csv", "--output", "threat.toml")
        assert result.exit_code == 0, result.stderr
        text = Path("threat.toml").read_text()
        assert "number from 1 to 3.5" in text
        assert "empty: no values at all" in text
        assert ThreatModel.from_toml("threat.toml") == ThreatModel(None)

        assert text.count("1 cells are missing: they stay so") == 2

    def test_infinite_numbers(self) -> None:
        """A whole-number column that held an infinity ended in a traceback."""
        write_csv(x=[1, 2, float("inf")], y=[float("inf")] * 3, z=[1e300, -1e300, 0.5])
        result = run("threat", "data.csv", "--output", "threat.toml")
        assert result.exit_code == 0, result.stderr
        text = Path("threat.toml").read_text()
        assert "# 1 values are infinite, which no model takes\n# whole number from 1 to 2, median 1.5" in text
        assert "# y: all values are infinite" in text
        assert "# z = 1e+299" in text
        assert ThreatModel.from_toml("threat.toml") == ThreatModel(None)

    def test_identifiers_are_named_and_not_listed(self) -> None:
        """Twenty thousand customers were offered as twenty thousand categories to change."""
        names = [f"customer {k}" for k in range(300)]
        towns = [f"a town of quite a long name, some {'very ' * 10}{k % 20}" for k in range(300)]
        write_csv(customer=names, town=towns)
        assert run("threat", "data.csv", "--output", "threat.toml").exit_code == 0
        text = Path("threat.toml").read_text()
        assert "300 different values in 300 cells, such as customer 0, customer 1, customer 2, ..." in text
        assert "identifiers" in text
        assert "--ignore customer" in text
        assert "# customer = " not in text
        assert f"20 categories: {towns[0][:30]}... ({len(towns[0])} characters) (15), " in text
        assert text.count("(15)") == 12
        assert "and 8 more" in text

    def test_names_cannot_break_out_of_their_comment(self) -> None:
        pd.DataFrame({"a\nb = 1": [1.0, 2.0], "c": ["x\ny = 2", "z"]}).to_parquet("d.parquet")
        assert run("threat", "d.parquet", "--output", "t.toml").exit_code == 0
        assert ThreatModel.from_toml("t.toml") == ThreatModel(None)

    def test_numbers_are_those_of_fit(self) -> None:
        """Of a column with marks for missing cells changes of category were proposed, which no fit took."""
        table = make_table(60)
        table["age"] = table["age"].astype(str).where(np.arange(60) % 7 > 0, "?")
        table.to_csv("data.csv", index=False)
        assert run("threat", "data.csv", "--target", "label", "--output", "threat.toml").exit_code == 0
        lines = Path("threat.toml").read_text().splitlines()
        (proposed,) = (line for line in lines if line.startswith("# age = ") and "{" not in line and "[" not in line)
        Path("threat.toml").write_text("[features]\n" + proposed.removeprefix("# ") + "\n")
        result = run("fit", "data.csv", "--target", "label", "--threat", "threat.toml", "--output", "model.json")
        assert result.exit_code == 0, result.stderr

    def test_what_was_edited_is_not_overwritten(self) -> None:
        write_csv(x=[1.0, 2.0])
        Path("threat.toml").write_text("features = 1\n")
        assert_one_sentence(run("threat", "data.csv", "--output", "threat.toml"), 1, "--overwrite")
        assert Path("threat.toml").read_text() == "features = 1\n"
        assert run("threat", "data.csv", "--output", "threat.toml", "--overwrite").exit_code == 0
        assert ThreatModel.from_toml("threat.toml") == ThreatModel(None)

    def test_what_is_refused(self) -> None:
        assert_one_sentence(run("threat", "no.csv", "--output", "t.toml"), 1, "no.csv does not exist")
        write_csv(x=[1.0, 2.0])
        assert_one_sentence(run("threat", "data.csv", "--target", "y", "--output", "t.toml"), 1, '"y"', "x")
        assert_one_sentence(run("threat", "data.csv", "--output", "nowhere/t.toml"), 1, "nowhere")
        assert not Path("t.toml").exists()


def test_a_model_says_what_it_was_trained_against() -> None:
    """Standard deviations were measured on whatever table was asked about, and so were types of columns."""
    generator = np.random.default_rng(0)
    table = pd.DataFrame({"width": generator.normal(size=80), "n": generator.integers(0, 9, 80)})
    table["big"] = (table["width"] + table["n"] > 4).astype(int)
    table.to_csv("data.csv", index=False)
    Path("threat.toml").write_text('within = "from_data"\n[features]\nwidth = "0.5 std"\nn = ["20%", 0]\n')
    fit = ["fit", "data.csv", "--target", "big", "--threat", "threat.toml", "--output", "model.json", "--max-depth", 2]
    assert run(*fit).exit_code == 0
    saved = ThreatModel.parse(json.loads(Path("model.json").read_text())["threat"])
    X = table[["width", "n"]]
    low, high = X.min(), X.max()
    assert saved == ThreatModel(
        {"width": 0.5 * np.std(X["width"].to_numpy()), "n": ("20%", 0)},
        whole_numbers=["n"],
        within={name: (float(low[name]), float(high[name]), "from_data") for name in X},
    )
    table[:5].to_csv("few.csv", index=False)
    evaluation = ["evaluate", "model.json", "few.csv", "--target", "big", "--threat"]
    shown = [run(*evaluation, path) for path in ("model.json", "threat.toml")]
    assert [result.exit_code for result in shown] == [0, 0]
    commands = ["attack", "model.json", "few.csv", "--output", "rows.csv"], ["show", "model.json", "--data", "few.csv"]
    for verb in (commands[0], [*commands[1], "--row", 1]):
        assert run(*verb, "--threat", "threat.toml").exit_code == 0  # measured on the table, not on its first row
    report = evaluate(TreeEnsemble.from_json("model.json"), X[:5], table["big"][:5], saved)
    assert shown[0].stdout.startswith(str(report).rpartition("\n")[0])
    TreeEnsemble.from_json("model.json").to_json("plain.json")
    assert_one_sentence(run(*evaluation, "plain.json"), 1, "does not say what it was trained against")


# Evaluating


def test_evaluate_prints_the_report_and_writes_the_rows() -> None:
    table = make_numbers()
    table.to_csv("data.csv", index=False)
    ensemble = save_forest(table)
    Path("threat.toml").write_text(THREAT)
    result = run("evaluate", "model.json", "data.csv", "--target", "big", "--threat", "threat.toml", "--curve", 2,
                 "--distances", "--output", "rows.csv", "--plot", "curve.png", "--jobs", 2)  # fmt: skip
    assert result.exit_code == 0, result.stderr
    X, y = table[["width", "height"]], table["big"]
    report = evaluate(ensemble, X, y, ThreatModel.parse(THREAT), epsilons=np.linspace(0, 2, 9), distances=True)
    assert result.stdout.startswith(str(report).rpartition("\n")[0])  # all but the timing
    written = pd.read_csv("rows.csv")
    assert written["row"].tolist() == list(range(1, len(table) + 1))
    pd.testing.assert_frame_equal(written.drop(columns="row"), report.to_frame(), check_dtype=False)
    assert Path("curve.png").read_bytes().startswith(b"\x89PNG")


def test_evaluate_with_a_time_limit_of_zero_gives_intervals() -> None:
    table = make_numbers()
    table.to_parquet("data.parquet")
    ensemble = save_forest(table, n_trees=40)
    result = run("evaluate", "model.json", "data.parquet", "--target", "big", "--epsilon", 0.1, "--time-limit", 0)
    assert result.exit_code == 0, result.stderr
    exact = (verify(ensemble, table[["width", "height"]], table["big"], 0.1).status == "robust").mean()
    shown = re.search(r"adversarial accuracy\s+(\S+)% to (\S+)%", result.stdout)
    lower, upper = (float(number) / 100 for number in shown.groups())
    assert lower < upper
    assert lower - 0.001 <= exact <= upper + 0.001
    assert "undecided" in result.stdout


def test_the_ceiling_is_an_interval_when_its_time_runs_out_and_can_be_left_out() -> None:
    table = make_numbers()
    table.to_parquet("data.parquet")
    save_forest(table, n_trees=2)
    command = ["evaluate", "model.json", "data.parquet", "--target", "big", "--epsilon", 0.1]
    result = run(*command, "--ceiling-time-limit", 0)
    assert result.exit_code == 0, result.stderr
    assert re.search(r"ceiling\s+\S+% to 100.0%  the best that any classifier can do; time ran out", result.stdout)
    result = run(*command, "--no-ceiling")
    assert result.exit_code == 0, result.stderr
    assert "ceiling" not in result.stdout


def test_text_labels_and_categories() -> None:
    model = fit_small()
    result = run("evaluate", model, "train.csv", "--target", "label", "--epsilon", 1, "--output", "rows.parquet")
    assert result.exit_code == 0, result.stderr
    assert set(pd.read_parquet("rows.parquet")["label"]) == {"fraud", "honest"}


def test_labels_are_recognised_however_they_are_spelled() -> None:
    table = make_numbers()
    save_forest(table)
    outputs = []
    for spelled in (table["big"], table["big"].astype(float), table["big"].astype(bool)):
        table.assign(big=spelled).to_parquet("data.parquet")
        result = run("evaluate", "model.json", "data.parquet", "--target", "big", "--epsilon", 0.1)
        assert result.exit_code == 0, result.stderr
        outputs.append(result.stdout.rpartition("ceiling")[0])
    assert len(set(outputs)) == 1
    table.assign(big=np.where(table["big"], "large", "small")).to_csv("data.csv", index=False)
    result = run("evaluate", "model.json", "data.csv", "--target", "big", "--epsilon", 0.1)
    assert_one_sentence(result, 1, '"big"', "not a class of the model", "0, 1")


@pytest.mark.parametrize("kind", ["xgboost.json", "xgboost.ubj", "lightgbm.txt", "lightgbm without names.txt"])
def test_models_of_other_libraries(kind: str) -> None:
    """The figures are those of the model in memory; a model without names takes all columns but the target."""
    table = make_numbers()
    table.to_csv("data.csv", index=False)
    X, y = table[["width", "height"]], table["big"]
    if kind.startswith("xgboost"):
        library = pytest.importorskip("xgboost")
        model = library.XGBClassifier(n_estimators=8, max_depth=3, n_jobs=1).fit(X, y)
        model.save_model(kind)
    else:
        library = pytest.importorskip("lightgbm")
        fitted_on = X.to_numpy() if "without" in kind else X
        model = library.LGBMClassifier(n_estimators=8, num_leaves=7, n_jobs=1, verbose=-1).fit(fitted_on, y)
        model.booster_.save_model(kind)
    Path("threat.toml").write_text(THREAT if "without" not in kind else "features = 0.1\n")
    threat = ThreatModel.from_toml("threat.toml")
    result = run("evaluate", kind, "data.csv", "--target", "big", "--threat", "threat.toml")
    assert result.exit_code == 0, result.stderr
    expected = evaluate(as_ensemble(Path(kind)), X.to_numpy(), y, threat)
    assert re.search(rf"adversarial accuracy\s+{expected.adversarial_accuracy.lower:.1%}", result.stdout)
    result = run("attack", kind, "data.csv", "--target", "big", "--threat", "threat.toml", "--output", "ex.csv")
    assert result.exit_code == 0, result.stderr
    examples = read_exactly("ex.csv")
    found = examples["outcome"].isin(["was wrong", "made wrong"]).to_numpy()
    assert 0 < found.sum() < len(found)
    assert found.mean() == pytest.approx(1.0 - expected.adversarial_accuracy.lower)
    moved = examples.loc[found, ["width", "height"]]
    assert (model.predict(moved.to_numpy() if "without" in kind else moved) != y[found]).all()
    assert run("predict", kind, "data.csv", "--output", "p.csv").exit_code == (1 if "without" in kind else 0)


# Attacking


@pytest.mark.parametrize("output", ["examples.csv", "examples.parquet"])
def test_attack_writes_the_examples(output: str) -> None:
    table = make_numbers()
    table.to_csv("data.csv", index=False)
    ensemble = save_forest(table)
    Path("threat.toml").write_text(THREAT)
    result = run("attack", "model.json", "data.csv", "--target", "big", "--threat", "threat.toml", "--output", output)
    assert result.exit_code == 0, result.stderr
    X, y = table[["width", "height"]], table["big"]
    expected = attack(ensemble, X, y, ThreatModel.parse(THREAT))
    written = read_exactly(output) if output.endswith("csv") else pd.read_parquet(output)
    names = ["row", "class", "outcome", "distance", "lower", "width", "height", "width_before", "height_before"]
    assert written.columns.tolist() == names
    assert (written["class"] == y).all()
    for outcome in ("was_wrong", "made_wrong", "holds"):
        rows = getattr(expected, outcome)
        assert rows.any()
        assert ((written["outcome"] == outcome.replace("_", " ")) == rows).all()
    np.testing.assert_array_equal(written["distance"], expected.distance)
    np.testing.assert_array_equal(written[["width", "height"]], expected.X_adv)
    changed = (expected.X_adv != X) & expected.made_wrong[:, None]
    np.testing.assert_array_equal(written[["width_before", "height_before"]], X.where(changed))


@pytest.mark.parametrize("output", ["examples.csv", "examples.parquet"])
def test_attack_writes_columns_in_their_types(output: str) -> None:
    """As soon as a row held, the column had gaps, and 14 items were written as 14.0."""
    table = pd.DataFrame({"items": [1, 2, 14, 40], "paid": [False, True, False, True], "share": [0.5, 0.25, 0.5, 1.0]})
    table.assign(fraud=[0, 0, 1, 1]).to_csv("data.csv", index=False)
    assert run("fit", "data.csv", "--target", "fraud", "--output", "model.json").exit_code == 0
    Path("threat.toml").write_text('[features]\nitems = 9\npaid = "<>"\n')
    command = ["attack", "model.json", "data.csv", "--target", "fraud", "--threat", "threat.toml"]
    result = run(*command, "--output", output)
    assert result.exit_code == 0, result.stderr
    written = pd.read_csv(output, dtype=str) if output.endswith("csv") else pd.read_parquet(output).astype(str)
    assert written["outcome"].tolist() == ["made wrong", "made wrong", "made wrong", "holds"]
    assert written["items"].tolist()[:3] == ["9", "9", "8"]
    assert written["items_before"].tolist()[:3] == ["1", "2", "14"]
    assert written["paid"].tolist()[:3] == ["False", "True", "False"]


def test_attack_does_not_count_mistakes_as_attacks() -> None:
    """It said that 2,260 rows have an adversarial example, of which 2,257 were wrong as they stood."""
    table = make_numbers()
    save_forest(table)
    table.assign(big=1 - table["big"]).to_csv("data.csv", index=False)
    result = run("attack", "model.json", "data.csv", "--target", "big", "--epsilon", "0.001", "--output", "out.csv")
    assert result.exit_code == 0, result.stderr
    assert "120 rows: 119 (99.2%) are wrong as they stand, 0 (0.0%) can be made wrong, 1 (0.8%) hold" in result.stdout


def test_attack_without_labels_or_limits() -> None:
    model = fit_small()
    result = run("attack", model, "train.csv", "--norm", "0", "--output", "examples.csv")
    assert result.exit_code == 0, result.stderr
    table = make_table()
    X = table.drop(columns="label").astype({"colour": "category"})
    expected = attack(TreeEnsemble.from_json(model), X, norm=0)
    written = pd.read_csv("examples.csv")
    assert written["distance"].tolist() == expected.distance.tolist()
    assert set(written["colour"].dropna()) <= {"blue", "green", "red"}


def test_columns_that_are_called_like_those_of_the_output() -> None:
    table = make_numbers().rename(columns={"width": "distance", "height": "found"})
    table.to_csv("data.csv", index=False)
    save_forest(table)
    assert run("attack", "model.json", "data.csv", "--target", "big", "--output", "examples.csv").exit_code == 0
    names = ["row", "class", "outcome", "attack_distance", "lower", "distance", "found"]
    written = pd.read_csv("examples.csv")
    assert written.columns.tolist() == [*names, "distance_before", "found_before"]


# What they refuse


USAGE = {
    "no threat": (["evaluate", "model.json", "data.csv", "--target", "big"], 2, ["--threat", "--epsilon"]),
    "two threats": (
        ["evaluate", "model.json", "data.csv", "--target", "big", "--threat", "t.toml", "--epsilon", "1"],
        2,
        ["--threat", "--epsilon"],
    ),
    "no target": (["evaluate", "model.json", "data.csv", "--epsilon", "1"], 2, ["--target"]),
    "negative time": (
        ["evaluate", "model.json", "data.csv", "--target", "big", "--epsilon", "1", "--time-limit", "-1"],
        2,
        ["--time-limit"],
    ),
    "an endless curve": (
        ["evaluate", "model.json", "data.csv", "--target", "big", "--epsilon", "1", "--curve", "inf"],
        2,
        ["--curve", "finite"],
    ),
    "no threads": (
        ["evaluate", "model.json", "data.csv", "--target", "big", "--epsilon", "1", "--jobs", "0"],
        1,
        ["n_jobs"],
    ),
    "another norm": (["attack", "model.json", "data.csv", "--norm", "3", "--output", "e.csv"], 2, ["--norm"]),
    "an output that is no table": (["attack", "model.json", "data.csv", "--output", "e.txt"], 2, [".parquet"]),
    "no such folder": (["attack", "model.json", "data.csv", "--output", "no/e.csv"], 1, ["no folder"]),
    "a picture of no kind": (
        ["evaluate", "model.json", "data.csv", "--target", "big", "--epsilon", "1", "--plot", "c.txt"],
        1,
        ["c.txt", ".png"],
    ),
    "a picture over an input": (
        ["evaluate", "model.json", "data.csv", "--target", "big", "--epsilon", "1", "--plot", "model.json"],
        1,
        ["model.json", "input"],
    ),
    "no such model": (["evaluate", "m.json", "data.csv", "--target", "big", "--epsilon", "1"], 1, ["m.json"]),
    "an empty model": (["evaluate", "empty", "data.csv", "--target", "big", "--epsilon", "1"], 1, ["empty is empty"]),
    "a model of no kind": (
        ["evaluate", "data.csv", "data.csv", "--target", "big", "--epsilon", "1"],
        1,
        ["data.csv is not a JSON file of hardwood", "LightGBM"],
    ),
    "a pickle": (["attack", "m.pkl", "data.csv", "--output", "e.csv"], 1, ["pickle", "--trust-pickle"]),
    "a damaged pickle": (
        ["attack", "m.pkl", "data.csv", "--trust-pickle", "--output", "e.csv"],
        1,
        ["cannot read m.pkl", "joblib or pickle"],
    ),
    "a pickle of something else": (
        ["attack", "dict.pkl", "data.csv", "--trust-pickle", "--output", "e.csv"],
        1,
        ["cannot read dict.pkl", "a dict is not a tree model"],
    ),
    "no such table": (["attack", "model.json", "d.csv", "--output", "e.csv"], 1, ["d.csv does not exist"]),
    "an empty table": (["attack", "model.json", "empty.csv", "--output", "e.csv"], 1, ["no rows"]),
    "no such column": (
        ["evaluate", "model.json", "data.csv", "--target", "size", "--epsilon", "1"],
        1,
        ['"size"', "width, height, big"],
    ),
    "a target that is a feature": (
        ["evaluate", "model.json", "data.csv", "--target", "width", "--epsilon", "1"],
        1,
        ["width", "not the target"],
    ),
    "other columns": (["attack", "model.json", "other.csv", "--output", "e.csv"], 1, ["lacks columns", "height"]),
    "no such threat": (
        ["evaluate", "model.json", "data.csv", "--target", "big", "--threat", "t.toml"],
        1,
        ["t.toml does not exist"],
    ),
    "a threat of other columns": (
        ["evaluate", "model.json", "data.csv", "--target", "big", "--threat", "other.toml"],
        1,
        ["'depth'", "'width', 'height'"],
    ),
    "a class of a regression": (
        ["evaluate", "regression.json", "data.csv", "--target", "big", "--epsilon", "1", "--positive-class", "yes"],
        1,
        ["positive_class", "regression"],
    ),
}


@pytest.mark.parametrize("dump", [joblib.dump, lambda model, path: Path(path).write_bytes(pickle.dumps(model))])
def test_pickles_that_are_trusted(dump: Any) -> None:
    """Models of scikit-learn are saved as pickles: the answers are those of the JSON of the same model."""
    table = make_numbers(40)
    table.to_csv("data.csv", index=False)
    save_forest(table)
    features = table.drop(columns="big")
    dump(RandomForestClassifier(12, random_state=0).fit(features, table["big"]), "forest.joblib")
    asked = ["data.csv", "--target", "big", "--epsilon", "0.1"]
    for model, options in (("forest.joblib", ["--trust-pickle"]), ("model.json", [])):
        assert run("evaluate", model, *asked, *options, "--output", f"{model}-rows.csv").exit_code == 0
        assert run("attack", model, *asked, *options, "--output", f"{model}-examples.csv").exit_code == 0
        assert run("predict", model, "data.csv", *options, "--output", f"{model}-said.csv").exit_code == 0
    for what in ("rows", "examples", "said"):
        assert Path(f"forest.joblib-{what}.csv").read_text() == Path(f"model.json-{what}.csv").read_text()


@pytest.mark.parametrize("case", USAGE)
def test_what_is_refused(case: str) -> None:
    from sklearn.tree import DecisionTreeRegressor

    table = make_numbers(40)
    table.to_csv("data.csv", index=False)
    save_forest(table)
    regressor = DecisionTreeRegressor(max_depth=2).fit(table[["width", "height"]], table["big"])
    as_ensemble(regressor).to_json("regression.json")
    Path("empty").touch()
    Path("empty.csv").write_text("width,height,big\n")
    Path("m.pkl").write_bytes(b"\x80\x04")
    Path("dict.pkl").write_bytes(pickle.dumps({}))
    write_csv("other.csv", width=[1.0], size=[1.0])
    write_csv("gaps.csv", width=[1.0, 2.0], height=[1.0, None])
    Path("other.toml").write_text("[features]\ndepth = 1\n")
    before = sorted(os.listdir())
    arguments, code, words = USAGE[case]
    assert_one_sentence(run(*arguments), code, *words)
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_a_missing_library_is_named(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_numbers().to_csv("data.csv", index=False)
    monkeypatch.setitem(sys.modules, library, None)
    starts = {"lightgbm": "tree\nversion=v4\n", "xgboost": '{"learner":{"gradient_booster":{}}}'}
    Path("model").write_text(starts[library])
    result = run("attack", "model", "data.csv", "--output", "e.csv")
    assert_one_sentence(result, 1, f"pip install {library}")


def test_a_picture_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said before any work is done: not even that there is no model."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("evaluate", "model.json", "data.csv", "--target", "y", "--epsilon", 1, "--plot", "c.png")
    assert_one_sentence(result, 1, "pip install matplotlib")


# While they work


def test_progress_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with messages.showing_progress("Working...", patience=0.0) as show:
        show(1, 4)
        show(2, 4)  # too soon after the first line
    assert capsys.readouterr().err == "Working... 25% done\n"
    with messages.showing_progress("Working...") as show:
        show(1, 4)
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for one process")
@pytest.mark.parametrize("verb", ["evaluate", "attack"])
def test_interrupting(verb: str) -> None:
    """Ctrl-C ends the search at once; what had been found is written, the rest is undecided."""
    generator = np.random.default_rng(0)
    table = pd.DataFrame(generator.random((6000, 12))).rename(columns="x{}".format)
    noise = generator.normal(size=len(table))
    table = table.assign(big=(table.sum(axis=1) + noise > 6).astype(int))
    ensemble = save_forest(table.head(2000), n_trees=200, n_jobs=1)
    table.to_parquet("data.parquet")
    options = ["--target", "big", "--epsilon", "0.12", "--time-limit", "0.05", "--output", "out.csv"]
    command = [*COMMAND, verb, "model.json", "data.parquet", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=ENVIRONMENT, **pipes) as process:
        for line in process.stderr:
            if re.match(r"Attacking\.\.\. \d+% done", line):
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read().splitlines()
        assert process.wait(timeout=60) == 130
    assert rest[-1].startswith("hardwood: interrupted")
    written = pd.read_csv("out.csv")
    assert len(written) == len(table)
    undecided = written["status"] == "unknown" if verb == "evaluate" else written["lower"] < written["distance"]
    assert 0 < undecided.sum() < len(table)
    is_right = ensemble.predict(table.drop(columns="big")) == table["big"]  # others are decided before the search
    assert undecided[is_right].iloc[-1000:].all()  # it did not go on to the end
    assert sorted(os.listdir()) == ["data.parquet", "model.json", "out.csv"]
