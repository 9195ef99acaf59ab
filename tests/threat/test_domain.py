"""Which values exist: whole numbers, and domains."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood import AttackRule, RobustTreeClassifier, ThreatModel, TreantClassifier, attack
from hardwood.table import Schema

SCHEMA = Schema(3, ("clicks", "share", "color"), (None, None, ("blue", "red")))


@given(
    x=st.integers(-6, 6),
    left=st.sampled_from([0.0, 0.3, 1.0, 1.9, 4.35 * 100 / 435, np.inf]),
    right=st.sampled_from([0.0, 0.9, 2.0, 2.5, np.inf]),
    low=st.sampled_from([-np.inf, -9.5, -6.0]),
    high=st.sampled_from([6.0, 7.2, np.inf]),
)
def test_the_ends_are_the_first_and_the_last_whole_number(
    x: int, left: float, right: float, low: float, high: float
) -> None:
    reach = ThreatModel([(left, right)], whole_numbers=[0], within={0: (low, high)}).resolve(Schema.numeric(1))
    values = np.arange(-1000.0, 1001.0)
    tolerance = 1e-9
    within_reach = (x - left - tolerance <= values) & (values <= x + right + tolerance)
    allowed = values[within_reach & (low <= values) & (values <= high)]
    ends = [float(end[0, 0]) for end in reach.box(np.array([[float(x)]]), None)]
    np.testing.assert_array_equal(np.clip(ends, -1000.0, 1000.0), [allowed.min(), allowed.max()])


def test_a_domain_clips_both_ends() -> None:
    reach = ThreatModel([2.0, "<>"], within={0: (0, 1), 1: (None, 5)}).resolve(Schema.numeric(2))
    low, high = reach.box(np.array([[0.5, 3.0], [np.nan, 3.0]]), None)
    np.testing.assert_array_equal(low, [[0.0, -np.inf], [np.nan, -np.inf]])
    np.testing.assert_array_equal(high, [[1.0, 5.0], [np.nan, 5.0]])
    narrow = reach.select(np.array([1]))
    assert narrow.box(np.array([[3.0]]), None)[1].tolist() == [[5.0]]


def test_rows_that_do_not_attack_stay() -> None:
    reach = ThreatModel([2.0], "b", whole_numbers=[0], within={0: (0, 3)}).resolve(Schema.numeric(1), ["a", "b"])
    low, high = reach.box(np.array([[2.0], [2.0]]), np.array([0, 1]))
    assert low.ravel().tolist() == [2.0, 0.0]
    assert high.ravel().tolist() == [2.0, 3.0]


def test_contains_asks_for_values_that_exist() -> None:
    threat = ThreatModel([2.0, 1.0], whole_numbers=[0], within={1: (0, 1)})
    X = np.array([[1.0, 0.5]] * 4)
    X_adv = np.array([[3.0, 0.9], [2.5, 0.5], [1.0, 1.2], [4.0, 0.5]])
    assert threat.contains(X, X_adv).tolist() == [True, False, False, False]


def test_words_come_back() -> None:
    threat = ThreatModel({"clicks": 2}, "spam", whole_numbers=["clicks"], within={"share": (0, 1), "clicks": (0, None)})
    assert threat.whole_numbers == ["clicks"]
    assert threat.within == {"share": (0.0, 1.0), "clicks": (0.0, np.inf)}
    assert ThreatModel.parse(threat.to_toml()) == threat
    assert repr(threat) == (
        "ThreatModel({'clicks': 2.0}, attacking_classes=['spam'], whole_numbers=['clicks'], "
        "within={'share': (0.0, 1.0), 'clicks': (0.0, inf)})"
    )
    assert threat != ThreatModel({"clicks": 2}, "spam", whole_numbers=["clicks"])
    assert threat != ThreatModel({"clicks": 2}, "spam", within=threat.within)
    for factor in (0.0, 0.5, np.inf):
        assert threat.scaled(factor).within == threat.within
        assert threat.scaled(factor).whole_numbers == ["clicks"]
    assert ThreatModel(threat, "ham").within == threat.within
    text = 'whole_numbers = "from_dtype"\nfeatures = 1\n[within]\nshare = [0, 1]\n'
    assert ThreatModel.parse(text) == ThreatModel(1, whole_numbers="from_dtype", within={"share": (0, 1)})


def test_a_table_says_which_columns_are_whole() -> None:
    table = pd.DataFrame({"n": [1, 2], "flag": [True, False], "x": [0.5, 1.0], "c": pd.Categorical(["a", "b"])})
    table["n2"] = pd.array([1, None], dtype="Int16")
    schema = Schema.from_table(table.assign(n2=0.0))
    threat = ThreatModel("<>", whole_numbers="from_dtype")
    settled = threat.settle(table, schema.encode(table.assign(n2=0.0)), schema)
    assert settled == ThreatModel("<>", whole_numbers=["n", "flag", "n2"], within={"flag": (0, 1)})
    assert threat.whole_numbers == "from_dtype"
    assert ThreatModel("<>") == threat
    in_parts = ThreatModel("<>", whole_numbers=None)
    assert in_parts.settle(table, schema.encode(table.assign(n2=0.0)), schema) is in_parts
    assert in_parts.whole_numbers == ThreatModel("<>", whole_numbers=[]).whole_numbers == []
    assert ThreatModel.parse(in_parts.to_toml()) == in_parts != threat
    array = np.array([[1, 2]])
    assert threat.settle(array, array.astype(float), Schema.numeric(2)) is threat
    assert threat.resolve(schema).whole is None
    nothing = ThreatModel(None)
    assert nothing.settle(table, schema.encode(table.assign(n2=0.0)), schema) is nothing


def test_types_that_are_found_once_are_kept() -> None:
    """A column of fractions in training is not moved in whole steps because the rows asked about happen to be whole."""
    table, y = pd.DataFrame({"x": [0.5, 1.0, 3.5, 4.0], "n": [1, 2, 3, 4]}), [0, 0, 1, 1]
    model = RobustTreeClassifier({"x": 1}).fit(table, y)
    assert model.threat_ == ThreatModel({"x": 1}, whole_numbers=["n"])
    whole = pd.DataFrame({"x": [2, 4], "n": [2, 4]})
    assert attack(model, whole, [0, 1], model.threat_).distance[0] == pytest.approx(0.25)
    assert attack(model, whole, [0, 1], {"x": 1}).distance[0] == 1.0


def test_ordinary_trees_stay_as_they_are() -> None:
    """Where nothing is attacked, thresholds lie midway between whole numbers, as in CART."""
    table = pd.DataFrame({"n": [1, 2, 5, 6]})
    assert RobustTreeClassifier().fit(table, [0, 0, 1, 1]).ensemble_.threshold[0] == 3.5
    assert RobustTreeClassifier(1).fit(table, [0, 0, 1, 1]).ensemble_.threshold[0] == 3.0


def test_treant_moves_by_parts() -> None:
    """TREANT knows no whole numbers: it must not refuse a DataFrame because it has some."""
    table, y = pd.DataFrame({"n": [1, 2, 5, 6]}), [0, 0, 1, 1]
    assert TreantClassifier(1).fit(table, y).threat_ == ThreatModel(1, whole_numbers=None)
    rules = ThreatModel(rules=[AttackRule("n", add=1)], budget=1)
    model = TreantClassifier(rules).fit(table, y)
    assert model.threat_ == rules
    assert attack(model, table, y, rules).X_adv.shape == (4, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"whole_numbers": "clicks"}, "whole_numbers='clicks': expected a list"),
        ({"whole_numbers": 3}, "whole_numbers=3: expected a list"),
        ({"whole_numbers": [1.5]}, "whole_numbers: 1.5 is neither a column name nor an index"),
        ({"within": [(0, 1)]}, "expected a dict"),
        ({"within": {"share": 1}}, "within for column 'share': 1 is not a pair"),
        ({"within": {"share": (1, 0)}}, "within for column 'share': there is no value from 1 to 0"),
        ({"within": {"share": (0, np.nan)}}, "within for column 'share': nan is not a number"),
        ({"within": {"share": ("0", 1)}}, "within for column 'share': '0' is not a number"),
        ({"within": {0: (0, 1), "0": (0, 1)}}, "column '0' is given more than once"),
        ({"rules": [AttackRule("clicks", add=1)], "budget": 1, "whole_numbers": ["share"]}, "attack rules"),
        ({"rules": [AttackRule("clicks", add=1)], "budget": 1, "within": {"clicks": (0, 1)}}, "it has attack rules"),
    ],
)
def test_words_that_mean_nothing(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ThreatModel(None if "rules" in options else 1, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"whole_numbers": ["click"]}, "whole_numbers: column 'click': there is no such column, did you mean 'clicks'"),
        ({"within": {"shares": (0, 1)}}, "within: column 'shares': there is no such column, did you mean 'share'"),
        ({"whole_numbers": ["color"]}, "whole_numbers: column 'color' is categorical"),
        ({"within": {"color": (0, 1)}}, "within: column 'color' is categorical"),
        ({"whole_numbers": ["clicks"], "within": {"clicks": (0.2, 0.8)}}, "no whole number from 0.2 to 0.8"),
    ],
)
def test_words_that_do_not_suit_the_table(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ThreatModel(1, **options).resolve(SCHEMA)


def test_rows_with_values_that_do_not_exist() -> None:
    """Trained or asked: the row and the column are named."""
    X, y = np.array([[0.0, 0.1], [1.0, 0.2], [2.5, 1.5]]), [0, 1, 1]
    plain = RobustTreeClassifier().fit(X, y)
    for threat, message in (
        (ThreatModel(1, whole_numbers=[0]), "feature 0 is 2.5 in row 2 .counted from 0., which is not a whole number"),
        (ThreatModel(1, within={1: (0, 1)}), "feature 1 is 1.5 in row 2 .counted from 0., which is not within"),
    ):
        with pytest.raises(ValueError, match=message):
            RobustTreeClassifier(threat).fit(X, y)
        with pytest.raises(ValueError, match=message):
            attack(plain, X, y, threat)


def test_costs_and_whole_numbers_do_not_mix() -> None:
    with pytest.raises(ValueError, match="not understood where changes have costs"):
        TreantClassifier(ThreatModel(1, whole_numbers=[0])).fit([[0.0], [1.0]], [0, 1])


def test_very_large_whole_numbers() -> None:
    """From 2**53 on every float64 is whole, and the next one is more than 1 away."""
    far = 2.0**53
    model = RobustTreeClassifier().fit([[far], [far + 8.0]], [0, 1])
    result = attack(model, [[far]], [0], ThreatModel("<>", whole_numbers=[0]))
    assert result.found.all()
    assert result.distance.tolist() == [6.0]


class TestFromData:
    TABLE = pd.DataFrame({"n": [2, 7, 4], "x": [0.5, np.nan, 2.5], "c": pd.Categorical(["a", "b", "a"])})

    def settle(self, threat: ThreatModel) -> ThreatModel:
        schema = replace(Schema.from_table(self.TABLE.assign(x=0.0)), accepts_missing=True)
        return threat.settle(self.TABLE, schema.encode(self.TABLE), schema)

    def test_the_range_of_the_columns(self) -> None:
        threat = ThreatModel("<>", within="from_data")
        settled = self.settle(threat)
        assert threat.within == "from_data"
        assert settled.within == {"n": (2.0, 7.0, "from_data"), "x": (0.5, 2.5, "from_data")}
        assert self.settle(settled) is settled
        assert self.settle(ThreatModel(1, within=("from_data", 0.1))).within["n"] == (1.5, 7.5, "from_data")
        one = ThreatModel(1, within={"x": ("from_data", 0.5), "n": (0, 9)})
        assert self.settle(one).within == {"x": (-0.5, 3.5, "from_data"), "n": (0.0, 9.0)}

    def test_a_margin_ends_at_whole_numbers(self) -> None:
        settled = self.settle(ThreatModel("<>", within=("from_data", 0.3)))
        reach = settled.resolve(Schema(3, ("n", "x", "c"), (None, None, ("a", "b"))))
        low, high = reach.box(np.array([[4.0, 1.0, 0.0]]), None)
        assert (low[0, 0], high[0, 0]) == (1.0, 8.0)

    @pytest.mark.parametrize(
        "within",
        ["from_data", ("from_data", 0.1), {"n": "from_data", "x": ["from_data", 0.25]}, {"x": (0, 3, "from_data")}],
    )
    def test_words_come_back(self, within: Any) -> None:
        threat = ThreatModel(1, within=within)
        for words in (threat, self.settle(threat)):
            assert ThreatModel.parse(words.to_toml()) == words
            assert ThreatModel(words, "a").within == words.within == words.scaled(2.0).within
        assert ThreatModel(1, within=("from_data", 0)) == ThreatModel(1, within="from_data")

    def test_rows_beyond_what_was_seen_are_no_error(self) -> None:
        """Almost every test table has a row beyond the training table: it can be moved back, and not further out."""
        X = np.array([[0.0], [1.0], [3.0], [4.0]])
        model = RobustTreeClassifier(ThreatModel(0.9, within="from_data")).fit(X, [0, 0, 1, 1])
        assert model.threat_ == ThreatModel(0.9, within={0: (0, 4, "from_data")})
        assert model.threat_.contains([[5.0]] * 3, [[4.5], [5.0], [5.5]]).tolist() == [True, True, False]
        assert attack(model, [[5.0]], [1], model.threat_).found.tolist() == [False]

    def test_rules_and_empty_columns_are_passed_over(self) -> None:
        threat = ThreatModel({"x": 1}, rules=[AttackRule("n", add=1)], budget=1, within="from_data")
        assert self.settle(threat).within == {"x": (0.5, 2.5, "from_data")}
        X = np.array([[np.nan, 1.0], [np.nan, 2.0]])
        schema = replace(Schema.numeric(2), accepts_missing=True)
        assert ThreatModel(1, within="from_data").settle(X, X, schema).within == {1: (1.0, 2.0, "from_data")}

    @pytest.mark.parametrize(
        ("within", "message"),
        [
            (("from_data", -0.1), "within: the margin -0.1: expected a share >= 0"),
            ({"x": ("from_data", "a")}, "within for column 'x': the margin 'a': expected a share"),
            ("from_dta", "within='from_dta': expected a dict"),
            ({"x": "from_dta"}, "within for column 'x': 'from_dta' is not a pair"),
            ({"x": (0, 1, "seen")}, "within for column 'x': .* is not a pair"),
        ],
    )
    def test_words_that_mean_nothing(self, within: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            ThreatModel(1, within=within)

    def test_a_table_is_needed(self) -> None:
        for within in ("from_data", {0: "from_data"}):
            with pytest.raises(ValueError, match="'from_data' is left to a table"):
                ThreatModel(1, within=within).resolve(Schema.numeric(1))
        with pytest.raises(ValueError, match="within: column 'c' is categorical"):
            self.settle(ThreatModel(1, within={"c": "from_data"}))
