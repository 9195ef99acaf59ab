"""Relations between columns: their words, what breaks them, and what is not understood."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood import AttackRule, RobustTreeClassifier, ThreatModel, verify
from hardwood.table import Schema
from hardwood.threat.placed_relations import FUNCTIONS
from hardwood.threat.relations import Expression, parse_relation, place_relations

NAMES = ["a", "b", "c d", "class"]
SCHEMA = Schema(5, (*NAMES, "color"), (None, None, None, None, ("blue", "red")))


@pytest.mark.parametrize(
    ("text", "terms", "constant", "is_equality"),
    [
        ("a + b <= `c d`", {"a": 1, "b": 1, "c d": -1}, 0, False),
        ("a >= 2 * (b - 3) / 4", {"b": 0.5, "a": -1}, -1.5, False),
        ("`class` = a + b + a", {"class": 1, "a": -2, "b": -1}, 0, True),
        ("-a == +b - 1e3", {"a": -1, "b": -1}, 1000, True),
        ("a - a + b <= 0", {"b": 1}, 0, False),
    ],
)
def test_linear_words(text: str, terms: dict[str, float], constant: float, is_equality: bool) -> None:
    [relation] = parse_relation(text)
    assert relation.left == Expression(terms, constant)
    assert relation.is_equality == is_equality


def test_a_chain_is_several_relations() -> None:
    assert [relation.left.terms for relation in parse_relation("0 <= a <= b")] == [{"a": -1}, {"a": 1, "b": -1}]


@pytest.mark.parametrize(
    ("text", "row", "value"),
    [
        ("a = b / `class`", [0, 3, 0, 4], 0.75),
        ("a = 100 * (b - 1) / (`class` + b) - 1", [0, 3, 0, 1], 49.0),
        ("a = b / `class` / 2", [0, 3, 0, 4], 0.375),
        ("1 / b = a", [0, 4, 0, 0], 0.25),
        ("a = log(b)", [0, 3, 0, 0], np.log(3.0)),
        ("a = 5 - 2 * log1p(b + 1)", [0, 3, 0, 0], 5.0 - 2.0 * np.log1p(4.0)),
        ("a = sqrt(b + `class`)", [0, 3, 0, 6], 3.0),
    ],
)
def test_derived_words(text: str, row: list[float], value: float) -> None:
    relations = place_relations([text], Schema.numeric(4, NAMES), None)
    assert relations is not None
    matrix = np.array([row, row], dtype=float)
    matrix[:, 0] = value, value * 1.001
    assert relations.derived[0].compute(matrix)[0] == pytest.approx(value)
    assert relations.find_broken(matrix).ravel().tolist() == [False, True]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a * b <= 3", "'a \\* b <= 3': not linear; columns can be multiplied by numbers only"),
        ("a / b <= 3", "not linear; a ratio or a function of columns can only say what one column is derived from"),
        ("2 * a = log(b)", "not linear; a ratio or a function"),
        ("a >= log(b)", "not linear; a ratio or a function"),
        ("a = log(b) + `class`", "not linear; only a number can be added"),
        ("a = b / `class` / a", "not linear; a ratio is of two linear expressions"),
        ("a = log(b / a)", "log takes a linear expression of columns"),
        ("a = log(b, 2)", "log takes one expression"),
        ("a ** 2 <= b", "'a \\*\\* 2' is not understood; expected columns, numbers"),
        ("a = sin(b)", "there is no function 'sin'; the functions are log, "),
        ("a = a / b", "column 'a' is derived from itself"),
        ("a < b", "expected <=, >= or =, not < or >; of whole numbers, a < b is a <= b - 1"),
        ("a != b", "expected a comparison by <=, >= or ="),
        ("a + b", "expected a comparison by <=, >= or ="),
        ("", "not understood; expected something like"),
        ("a <= ", "not understood"),
        ("class <= a", "names that are no identifiers in backticks"),
        ("a.b <= 1", "has to stand in backticks"),
        ("1 <= 2", "no column is left in it; a column without a name is its index in backticks"),
        ("a <= a + 1", "no column is left in it"),
        ("a / 0 <= b", "divides by 0"),
        ("a <= 1e999", "its numbers are out of range"),
        ("a = 0 * log(b)", "its numbers are out of range"),
        ("a <= b or a <= 3", "expected a comparison"),
        ("a <= 'x'", "is not understood"),
        ("a <= True", "is not understood"),
        ("__import__('os').remove('x') <= a", "there is no function"),
        ("(" * 5000 + "a" + ")" * 5000 + " <= b", "nested too deep|not understood"),
    ],
)
def test_what_is_not_understood_is_named(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ThreatModel(1.0, relations=[text])


@pytest.mark.parametrize(
    ("relations", "words"),
    [
        ("a <= b", "relations='a <= b': expected a list of strings"),
        (3, "relations=3: expected a list of strings"),
        ([3], "relations: 3 is not a string"),
    ],
)
def test_relations_are_a_list_of_strings(relations: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ThreatModel(1.0, relations=relations)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a <= bb", "relations: 'a <= bb': column 'bb': there is no such column, did you mean 'b'"),
        ("zz = a / b", "column 'zz': there is no such column"),
        ("a <= color", "column 'color' is categorical; relations are between numbers"),
    ],
)
def test_columns_have_to_be_there(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ThreatModel(1.0, relations=[text]).resolve(SCHEMA)


def test_rules_have_no_relations() -> None:
    with pytest.raises(ValueError, match="relations: not understood together with attack rules"):
        ThreatModel(rules=[AttackRule("a", add=1)], budget=1, relations=["a <= b"])


def test_words_come_back() -> None:
    threat = ThreatModel({"a": 1}, relations=["a + b <= `c d`", "a = log(b)"])
    assert threat.relations == ["a + b <= `c d`", "a = log(b)"]
    assert repr(threat) == "ThreatModel({'a': 1.0}, relations=['a + b <= `c d`', 'a = log(b)'])"
    assert ThreatModel.parse(threat.to_toml()) == threat
    assert threat != ThreatModel({"a": 1})
    assert threat == ThreatModel({"a": 1}, relations=threat.relations[::-1])
    assert threat.scaled(2.0).relations == threat.relations
    with pytest.raises(ValueError, match="relations: a ThreatModel is given, which has its own"):
        ThreatModel(threat, relations=["a <= b"])


def test_contains_asks_for_what_held_before() -> None:
    threat = ThreatModel(2.0, relations=["`0` + `1` <= `2`"])
    before = [[1.0, 1.0, 3.0], [1.0, 1.0, 3.0], [3.0, 3.0, 3.0], [0.1, 0.2, 0.5], [1.0, 1.0, 3.0]]
    after = [[2.0, 1.0, 3.0], [2.0, 1.1, 3.0], [5.0, 5.0, 3.0], [0.1, 0.2, 0.3], [2.0, 1.0, 3.0 - 1e-6]]
    with pytest.warns(UserWarning, match="does not hold in 1 of 5 rows as they stand, first in row 2"):
        contained = threat.contains(before, after)
    assert contained.tolist() == [True, False, True, True, False]


def test_a_row_may_stay_as_far_off_as_it_is() -> None:
    """Sums of float32 columns are off by more than rounding in float64, and a row must be able to stay what it is."""
    threat = ThreatModel(1.0, relations=["`2` = `0` + `1`"])
    X = np.array([[0.1, 0.2, 0.3]], dtype=np.float32).astype(np.float64)
    assert threat.contains(X, X).all()
    X[0, 2] += 1e-7
    assert threat.contains(X, X).all()
    assert not threat.contains(X, X + np.array([0.0, 0.0, 1e-7])).any()


def test_large_whole_numbers_are_compared_exactly() -> None:
    X = pd.DataFrame({"a": [10**9, 10**9], "b": [10**9, 10**9]})
    threat = ThreatModel(5, relations=["a <= b"])
    assert threat.contains(X, X.assign(a=[10**9 + 1, 10**9])).tolist() == [False, True]


def test_missing_terms_break_nothing() -> None:
    relations = place_relations(["a <= b", "b = a / `class`"], Schema.numeric(4, NAMES), None)
    assert relations is not None
    assert not relations.find_broken(np.array([[np.nan, 1.0, 0.0, 1.0]])).any()
    assert relations.find_broken(np.array([[1.0, 2.0, 0.0, 0.0]])).tolist() == [[False, True]]  # a / 0 is nothing


@given(
    name=st.sampled_from(sorted(FUNCTIONS)),
    low=st.floats(-8.0, 8.0),
    width=st.floats(0.0, 8.0),
    scale=st.sampled_from([1.0, -2.0]),
    value=st.floats(-20.0, 20.0),
)
def test_intervals_of_arguments(name: str, low: float, width: float, scale: float, value: float) -> None:
    """An argument is in the interval iff the function is between the ends, but for rounding."""
    relations = place_relations([f"a = {scale} * {name}(b) + 1"], Schema.numeric(4, NAMES), None)
    assert relations is not None
    derived, high = relations.derived[0], low + width
    first, last = derived.find_interval(low, high)
    computed = float(derived.compute(np.array([[0.0, value, 0.0, 0.0]]))[0])
    slack = 1e-9 * (1.0 + abs(computed))
    if np.isfinite(computed) and low + slack < computed < high - slack:
        assert first <= value <= last
    if not np.isfinite(computed) or not low - slack <= computed <= high + slack:
        assert not first + 1e-9 * (1.0 + abs(first)) < value < last - 1e-9 * (1.0 + abs(last))


def test_training_looks_at_the_box() -> None:
    X = np.random.default_rng(0).random((80, 2))
    y = X[:, 0] > 0.5
    plain = RobustTreeClassifier(ThreatModel(0.1), max_depth=3).fit(X, y)
    related = RobustTreeClassifier(ThreatModel(0.1, relations=["`0` + `1` <= 2"]), max_depth=3).fit(X, y)
    assert plain.ensemble_.to_json() == related.ensemble_.to_json()
    assert set(verify(related, X, y, related.threat).status) <= {"robust", "vulnerable"}
