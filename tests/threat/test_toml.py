"""Threat files that nobody meant well with: keys without end, numbers of hundreds of digits, deep brackets."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hardwood import RobustTreeClassifier, ThreatModel, attack, verify

X = pd.DataFrame({
    "a": np.arange(16.0), "b": [1, 0] * 8, "c": [0, 1] * 8, "k": pd.Categorical(["u", "v"] * 8),
})  # fmt: skip
Y = np.arange(16) // 4 % 2
MODEL = RobustTreeClassifier(max_depth=2).fit(X, Y)
A_SCREEN = 2000
MOST_PARTS = 10


def dotted(n_parts: int) -> str:
    return ".".join(["a"] * n_parts)


def measure(text: str) -> float:
    """Return how many times the size of a text reading it takes in memory; it is refused."""
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"."):
            ThreatModel.parse(text)
        return tracemalloc.get_traced_memory()[1] / len(text)
    finally:
        tracemalloc.stop()


LONG_KEYS = {
    "a key": "{} = 1",
    "a table": "[{}]\nx = 1",
    "a list of tables": "[[{}]]\nx = 1",
    "in a table": "[features]\n{} = 1",
    "in braces": "features = {{ {} = 1 }}",
    "in braces in brackets": "rules = [{{ {} = 1 }}]",
    "blanks around dots": "{} = 1",
    "after a string": 'unseen_categories = "error"\n# {{ "\n{} = 1',
    "after strings with quotes in them": 'x = """ \\""" \' """\ny = \'\'\' " \'\'\'\n{} = 1',
}


class TestLongKeys:
    @pytest.mark.parametrize("case", LONG_KEYS)
    def test_are_refused_before_they_are_parsed(self, case: str) -> None:
        """A file of 28 kB took a gigabyte, one of 200 kB some 50: tomllib keeps every beginning of a dotted key."""
        key = dotted(20_000) if case != "blanks around dots" else " \t. ".join(["a"] * 20_000)
        text = LONG_KEYS[case].format(key)
        with pytest.raises(ValueError, match=rf"the key a.* in line \d has more than {MOST_PARTS} parts"):
            ThreatModel.parse(text)
        assert measure(text) < 100

    @pytest.mark.parametrize("part", ['"a b"', "'a.b'", "a-b", "1", '"\\""'])
    def test_of_parts_of_any_kind(self, part: str) -> None:
        with pytest.raises(ValueError, match="parts; a name with dots in it stands in quotes"):
            ThreatModel.parse(".".join([part] * 2000) + " = 1")

    def test_in_files(self, tmp_path: Path) -> None:
        path = tmp_path / "threat.toml"
        path.write_text(dotted(20_000) + " = 1")
        with pytest.raises(ValueError, match=r"threat\.toml: the key a\.a"):
            ThreatModel.from_toml(path)

    def test_what_only_looks_like_one_is_read(self) -> None:
        """Dots in texts, comments and numbers make no key, nor do names in quotes that are full of them."""
        name = dotted(5000)
        threat = ThreatModel.parse(f'# {name}\n[features] # {name} = 1\n"{name}" = 1.5\n\'x{name}\' = "<" # "\n')
        assert threat == ThreatModel({name: 1.5, "x" + name: "<"})
        text = f"relations = ['''`{name}` <= 1''', \"\"\"`b` <= 2\"\"\"]\nfeatures = 1\n"
        assert ThreatModel.parse(text).relations == [f"`{name}` <= 1", "`b` <= 2"]

    def test_keys_as_long_as_a_threat_model_needs(self) -> None:
        """The longest key that is parsed has ten parts, however long each: what that takes is by its length."""
        part = "a" * 10_000
        assert measure(".".join([part] * MOST_PARTS) + " = 1") < 100
        assert ThreatModel.parse("features.age.red = ['blue']") == ThreatModel({"age": {"red": ["blue"]}})


class TestDeepAndLong:
    @pytest.mark.parametrize("text", ["features = " + "[" * 50_000, "features = " + "{ a = " * 5000, "[" * 50_000])
    def test_brackets_without_end(self, text: str) -> None:
        assert measure(text) < 200
        with pytest.raises(ValueError, match=r"nested too deep|not valid TOML|parts") as caught:
            ThreatModel.parse(text)
        assert len(str(caught.value)) < A_SCREEN

    @pytest.mark.parametrize(
        "text",
        [
            "budget = [" + "1, " * 20_000 + "1]",
            "features = 1\nwithin = { " + ", ".join(f"c{k} = 1" for k in range(5_000)) + " }",
            "".join(f"[[rules]]\nx{k} = 1\n" for k in range(2_000)),
            "features = '" + "x" * 500_000 + "'",
            '"' * 300_001,
            "'''" + '"""' * 100_000,
            "#" * 300_000 + "\nx = 1",
        ],
        ids=["array", "table", "tables", "text", "quotes", "mixed quotes", "comment"],
    )
    def test_what_is_long_takes_memory_by_its_length(self, text: str) -> None:
        assert measure(text) < 200


# A number of 400 digits, in decimal and in hexadecimal, in which Python reads any number of digits.
NUMBERS = {"400 digits": "9" * 400, "hexadecimal": "0x" + "f" * 20_000, "negative": "-" + "9" * 400}
NUMBER_KEYS = {
    "features": "features = {}",
    "a feature": "[features]\na = {}",
    "a side": "[features]\na = [0, {}]",
    "a category": "[features]\nk = {{ u = [{}] }}",
    "attacking_classes": "features = 1\nattacking_classes = [{}]",
    "a class that is wanted": "features = 1\nattacking_classes = [[0, [{}]]]",
    "budget": "budget = {}\n[[rules]]\nfeature = 'a'\nadd = 1",
    "repeat": "repeat = {}",
    "unseen_categories": "unseen_categories = {}",
    "whole_numbers": "features = 1\nwhole_numbers = [{}]",
    "within": "features = 1\nwithin = {{ a = [{}, 1] }}",
    "a margin": "features = 1\nwithin = ['from_data', {}]",
    "groups": "groups = [[{}, 'b']]",
    "a group": "[[groups]]\ncolumns = ['b', 'c']\nmay_become = {{ b = [{}] }}",
    "blank": "blank = [{}]",
    "fill": "fill = [{}]",
    "max_changes": "features = 1\nmax_changes = {}",
    "radius": "features = 1\nradius = {}",
    "norm": "features = 1\nradius = 1\nnorm = {}",
    "units": "features = 1\nradius = 1\nunits = {}",
    "a unit": "features = 1\nradius = 1\nunits = {{ a = {} }}",
    "relations": "features = 1\nrelations = [{}]",
    "rules": "rules = [{}]",
    "rule feature": "budget = 1\n[[rules]]\nfeature = {}\nadd = 1",
    "rule when": "budget = 1\n[[rules]]\nfeature = 'a'\nadd = 1\nwhen = [0, {}]",
    "rule category": "budget = 1\n[[rules]]\nfeature = 'k'\nset_to = 'u'\nwhen = {}",
    "rule add": "budget = 1\n[[rules]]\nfeature = 'a'\nadd = {}",
    "rule set_to": "budget = 1\n[[rules]]\nfeature = 'a'\nset_to = {}",
    "rule cost": "budget = 1\n[[rules]]\nfeature = 'a'\nadd = 1\ncost = {}",
}


def ask(text: str) -> None:
    threat = ThreatModel.parse(text)
    assert repr(threat)
    (attack if threat.rules else verify)(MODEL, X, Y, threat)


class TestNumbersOfManyDigits:
    """`budget = 999...9` was an OverflowError; indices of columns were one of Python's on digits, without a name."""

    @pytest.mark.parametrize("number", NUMBERS)
    @pytest.mark.parametrize("key", NUMBER_KEYS)
    def test_in_every_key(self, key: str, number: str) -> None:
        with pytest.raises(ValueError, match=r".") as caught:
            ask(NUMBER_KEYS[key].format(NUMBERS[number]))
        said = str(caught.value)
        assert len(said) < A_SCREEN
        assert "Exceeds the limit" not in said
        assert "too large to convert" not in said

    @pytest.mark.parametrize("key", ["features", "budget", "max_changes", "within", "norm"])
    def test_more_digits_than_python_reads(self, key: str) -> None:
        with pytest.raises(ValueError, match=r"a number of thousands of digits; expected numbers up to 1\.8e308"):
            ThreatModel.parse(NUMBER_KEYS[key].format("9" * 5000))

    @pytest.mark.parametrize("index", [10**400, 10**5000, -(10**5000)], ids=["400 digits", "5,000 digits", "negative"])
    @pytest.mark.parametrize(
        "make",
        [
            lambda index: ThreatModel({index: 1}),
            lambda index: ThreatModel(1, within={index: (0, 1)}),
            lambda index: ThreatModel(1, radius=1, units={index: 1}),
            lambda index: ThreatModel(1, whole_numbers=[index]),
            lambda index: ThreatModel(blank=[index]),
            lambda index: ThreatModel(fill=[index]),
            lambda index: ThreatModel(groups=[[index, 1]]),
            lambda index: ThreatModel(rules=[{"feature": index, "add": 1}], budget=1),
        ],
    )
    def test_as_the_index_of_a_column(self, make: Any, index: int) -> None:
        with pytest.raises(ValueError, match="is neither a column name nor an index"):
            make(index)

    def test_as_a_number_of_changes(self) -> None:
        """It was taken, and the threat model could then be neither shown nor written."""
        with pytest.raises(ValueError, match=r"max_changes=.*: expected .* a whole number >= 0 of at most 18 digits"):
            ThreatModel(1, max_changes=10**5000)
