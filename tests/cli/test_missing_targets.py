"""One table with holes in its target, for every verb: rows without a target are left out, and the verb says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import assert_one_sentence, make_table, run

HOLES = [0, 3, 7, 30, 31, 79]
NOTE = '6 of 80 rows have no value of "label" and are left out'


def make_holes(*, regression: bool = False) -> pd.DataFrame:
    table = make_table()
    if regression:
        table["label"] = table["income"] * 2.0 + table["age"]
    table.loc[HOLES, "label"] = np.nan
    # What stands in rows that are left out does not matter.
    table.loc[3, "income"] = np.inf
    table.loc[7, "age"] = np.nan
    return table


def fit(table: pd.DataFrame, *options: object) -> None:
    table.to_csv("data.csv", index=False)
    result = run("fit", "data.csv", "--target", "label", "--categorical", "colour", "--epsilon", 1, "--max-depth", 3,
                 "--output", "model.json", *(options or ("--refine", "none")))  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert NOTE in result.stderr


ASK = ("--target", "label", "--epsilon", 1)


class TestEveryVerb:
    """`fit` took such a table, and `evaluate`, `attack` and `show` refused the very same."""

    def test_evaluate(self) -> None:
        """The figures are those of the rows that are left, which keep their numbers."""
        table = make_holes()
        fit(table)
        result = run("evaluate", "model.json", "data.csv", *ASK, "--no-ceiling", "--output", "rows.csv")
        assert result.exit_code == 0, result.stderr
        assert result.stderr.strip() == f"hardwood: note: {NOTE}"
        left = table.dropna(subset="label")
        assert pd.read_csv("rows.csv")["row"].tolist() == (left.index + 1).tolist()
        left.to_csv("left.csv", index=False)
        plain = run("evaluate", "model.json", "left.csv", *ASK, "--no-ceiling", "--output", "plain.csv")
        assert plain.stderr == ""
        assert plain.stdout.partition("\n\n")[0] == result.stdout.partition("\n\n")[0]
        columns = [name for name in pd.read_csv("plain.csv").columns if name != "row"]
        assert pd.read_csv("plain.csv")[columns].equals(pd.read_csv("rows.csv")[columns])

    def test_attack(self) -> None:
        table = make_holes()
        fit(table)
        result = run("attack", "model.json", "data.csv", *ASK[:3], 9, "--output", "examples.csv")
        assert result.exit_code == 0, result.stderr
        assert result.stderr.strip() == f"hardwood: note: {NOTE}"
        assert result.stdout.startswith("74 rows: ")
        left, found = table.dropna(subset="label"), pd.read_csv("examples.csv")
        assert found["row"].tolist() == (left.index + 1).tolist()
        assert found["class"].tolist() == left["label"].tolist()
        moved = found["outcome"] == "made wrong"
        assert moved.any()
        assert (found.loc[moved, "income"] - left["income"].to_numpy()[moved]).abs().between(0.1, 9.0).any()

    @pytest.mark.parametrize("row", [1, 2, 80])
    def test_show(self, row: int) -> None:
        """A row may be asked about whether it has a target or not."""
        fit(make_holes())
        result = run("show", "model.json", "--row", row, "--data", "data.csv", *ASK)
        assert result.exit_code == 0, result.stderr
        assert result.stderr == ""
        first = result.stdout.splitlines()[0]
        assert first.startswith(f"row {row} is predicted ")
        assert (", and it is " in first) == (row - 1 not in HOLES)

    def test_show_says_what_is_wrong_with_its_own_row(self) -> None:
        fit(make_holes())
        for row, words in ((4, ['"income"', "infinite"]), (8, ['"age"', "row 8"]), (81, ["--row 81", "80 rows"])):
            result = run("show", "model.json", "--row", row, "--data", "data.csv", *ASK)
            assert_one_sentence(result, 1, *words)

    @pytest.mark.parametrize("verb", ["predict", "threat"])
    def test_verbs_that_need_no_target(self, verb: str) -> None:
        table = make_holes()
        fit(table)
        table.drop(index=[3, 7]).to_csv("data.csv", index=False)
        arguments = ["model.json", "data.csv", "--output", "p.csv"]
        if verb == "threat":
            arguments = ["data.csv", "--target", "label", "--output", "t.toml"]
        assert run(verb, *arguments).exit_code == 0

    def test_numbers(self) -> None:
        fit(make_holes(regression=True), "--task", "regression")
        for arguments in (
            ("evaluate", "model.json", "data.csv", *ASK),
            ("attack", "model.json", "data.csv", *ASK, "--output", "examples.csv"),
        ):
            result = run(*arguments)
            assert result.exit_code == 0, result.stderr
            assert result.stderr.strip() == f"hardwood: note: {NOTE}"
        assert run("show", "model.json", "--row", 1, "--data", "data.csv", *ASK).exit_code == 0

    @pytest.mark.parametrize("marker", ["n/a", "?", " NULL "])
    def test_markers_among_numbers(self, marker: str) -> None:
        """Where numbers are wanted, what stands for none is a hole: it was "Input y contains NaN", without a row."""
        table = make_holes(regression=True)
        table["label"] = table["label"].astype(object).where(table["label"].notna(), marker)
        fit(table, "--task", "regression")
        for arguments in (
            ("evaluate", "model.json", "data.csv", *ASK),
            ("attack", "model.json", "data.csv", *ASK, "--output", "examples.csv"),
        ):
            assert run(*arguments).stderr.strip() == f"hardwood: note: {NOTE}"
        for row, has_target in ((1, False), (2, True)):
            result = run("show", "model.json", "--row", row, "--data", "data.csv", *ASK)
            assert (", and it is " in result.stdout) == has_target

    def test_a_marker_can_be_a_class(self) -> None:
        table = make_table()
        table["label"] = table["label"].where(table["label"] == "fraud", "none")
        table.to_csv("data.csv", index=False)
        result = run("fit", "data.csv", *ASK, "--categorical", "colour", "--max-depth", 2, "--output", "model.json")
        assert "left out" not in result.stderr
        assert run("evaluate", "model.json", "data.csv", *ASK, "--no-ceiling").stderr == ""

    def test_part_after_part(self) -> None:
        """Parts that consist of such rows only are passed over."""
        pytest.importorskip("pyarrow")
        table = pd.concat([make_holes(), make_holes().assign(label=None)], ignore_index=True)
        table.to_parquet("data.parquet", row_group_size=20)
        result = run("fit", "data.parquet", *ASK, "--max-depth", 3, "--refine", "none", "--output", "model.json",
                     "--categorical", "colour", "--stream", "--max-bins", 9)  # fmt: skip
        assert result.exit_code == 0, result.stderr
        result = run("evaluate", "model.json", "data.parquet", *ASK, "--stream", "--output", "rows.csv")
        assert result.exit_code == 0, result.stderr
        assert '86 of 160 rows have no value of "label" and are left out' in result.stderr
        assert pd.read_csv("rows.csv")["row"].tolist() == (np.setdiff1d(np.arange(80), HOLES) + 1).tolist()

    @pytest.mark.parametrize("verb", ["fit", "evaluate", "attack"])
    def test_no_target_at_all(self, verb: str) -> None:
        fit(make_holes())
        make_table().assign(label=np.nan).to_csv("empty.csv", index=False)
        arguments = {
            "fit": ("fit", "empty.csv", "--target", "label", "--output", "other.json"),
            "evaluate": ("evaluate", "model.json", "empty.csv", *ASK),
            "attack": ("attack", "model.json", "empty.csv", *ASK, "--output", "examples.csv"),
        }[verb]
        assert_one_sentence(run(*arguments), 1, 'column "label" of empty.csv has no value in any row')
        assert not Path("examples.csv").exists()
