"""One-hot groups in a user's words, found in tables, and as arrays."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from hardwood import AttackRule, OneHotGroup, RobustTreeClassifier, ThreatModel, find_one_hot_groups
from hardwood.table import Schema

COLORS = ["color_blue", "color_red", "color_teal"]


def make_table() -> pd.DataFrame:
    return pd.get_dummies(pd.DataFrame({"age": [31, 54, 40, 22], "color": ["red", "blue", "teal", "red"]}), dtype=int)


def settle(threat: ThreatModel, X: Any) -> ThreatModel:
    schema = Schema.from_table(X)
    return threat.settle(X, schema.encode(X), schema)


class TestWords:
    def test_they_come_back(self) -> None:
        groups = [
            OneHotGroup(COLORS, may_become={"color_red": "color_blue", "color_blue": []}, name="color"),
            ["a", "b"],
            {"columns": [3, 4], "at_most_one": True, "may_become": {3: [4, None], "": [4]}},
            OneHotGroup(["x", "y"], may_become={}),
        ]
        threat = ThreatModel({"age": 2}, groups=groups)
        assert threat.groups is not None
        assert repr(threat.groups[2]) == "OneHotGroup([3, 4], at_most_one=True, may_become={3: [4, ''], '': [4]})"
        assert repr(threat.groups[3]) == "OneHotGroup(['x', 'y'], may_become=None)"
        assert ThreatModel.parse(threat.to_toml()) == threat
        assert eval(repr(threat)) == threat
        assert ThreatModel(threat, attacking_classes=[1]).groups == threat.groups
        assert threat != ThreatModel({"age": 2}, groups=groups[:3])
        assert threat.scaled(3.0).groups == threat.groups
        nothing = threat.scaled(0.0).groups
        assert nothing is not None
        assert [group.may_become for group in nothing] == [None] * 4
        found = ThreatModel(groups="from_table")
        assert ThreatModel.parse(found.to_toml()) == found
        assert found.groups == "from_table"
        assert found.scaled(0.0).groups is None
        assert ThreatModel().groups is None

    def test_a_file(self) -> None:
        text = """
        [features]
        age = 2

        [[groups]]
        name = "color"
        columns = ["color_blue", "color_red"]

        [[groups]]
        columns = ["tier_2", "tier_3"]
        at_most_one = true
        may_become = { tier_3 = ["tier_2", ""] }
        """
        tiers = OneHotGroup(["tier_2", "tier_3"], at_most_one=True, may_become={"tier_3": ["tier_2", ""]})
        colors = OneHotGroup(["color_blue", "color_red"], name="color")
        assert ThreatModel.parse(text) == ThreatModel({"age": 2}, groups=[colors, tiers])

    @pytest.mark.parametrize(
        ("groups", "message"),
        [
            ("color", "groups='color': expected a list of groups"),
            (OneHotGroup(["a", "b"]), "expected a list of groups"),
            ([["a"]], r"groups\[0\]: columns=\['a'\]: a one-hot group has at least two columns"),
            ([["a", "b"], ["b", "c"]], r"groups: column 'b' is in groups\[0\] and in groups\[1\]"),
            ([["a", "a"]], "columns: 'a' is given more than once"),
            ([["a", 1.5]], "columns: 1.5 is neither a column name nor an index"),
            (["ab"], r"groups\[0\]: columns='ab': expected a list of columns"),
            ([{"column": ["a", "b"]}], "unknown key 'column'; the keys are 'columns'"),
            ([{"name": "a"}], "columns: missing"),
            ([{"columns": ["a", "b"], "name": 3}], "name=3: expected a str"),
            ([{"columns": ["a", "b"], "at_most_one": 1}], "at_most_one=1: expected True or False"),
            ([{"columns": ["a", "b"], "may_become": ">"}], "may_become='>': expected '<>', None or a dict"),
            ([{"columns": ["a", "b"], "may_become": {"a": "c"}}], "may_become: 'c' is not one of its columns"),
            ([{"columns": ["a", "b"], "may_become": {"a": ""}}], "say at_most_one=True where none may be set"),
        ],
    )
    def test_what_is_not_understood(self, groups: Any, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            ThreatModel(groups=groups)

    def test_rules_are_another_matter(self) -> None:
        with pytest.raises(ValueError, match="groups: not understood together with attack rules"):
            ThreatModel(rules=[AttackRule("age", add=1)], budget=1, groups=[COLORS])
        with pytest.raises(ValueError, match=r"groups=.*: not understood where changes have costs"):
            ThreatModel(groups=[COLORS]).price(Schema.from_table(make_table()))

    @pytest.mark.parametrize("features", [{"color_red": 1}, [None, None, 1, None], {"color_red": "<>"}])
    def test_a_column_is_not_changed_by_itself(self, features: Any) -> None:
        schema = Schema.from_table(make_table())
        with pytest.raises(ValueError, match=r"threat for feature 'color_red': .* is in a one-hot group"):
            ThreatModel(features, groups=[COLORS]).resolve(schema)

    def test_one_entry_for_all_passes_over_groups(self) -> None:
        table = make_table()
        assert settle(ThreatModel("1 std", groups=[COLORS]), table).features == {"age": pytest.approx(11.82, abs=0.1)}
        settled = settle(ThreatModel("1 std", groups=[[1, 2, 3]]), table.to_numpy())
        assert settled.features[1:] == [None] * 3
        for spelling in (0.5, "10%", "1 std", "<>"):
            reach = settle(ThreatModel(spelling, groups=[COLORS]), table).resolve(Schema.from_table(table))
            assert reach.left[1:].tolist() == [1.0] * 3

    def test_columns_that_do_not_fit(self) -> None:
        table = make_table().assign(town=pd.Categorical(["A", "B", "A", "B"]))
        schema = Schema.from_table(table)
        with pytest.raises(ValueError, match=r"one-hot group of .*: column 'color_rde': there is no such column, did"):
            ThreatModel(groups=[["color_rde", "color_blue"]]).resolve(schema)
        with pytest.raises(ValueError, match="column 'town' is categorical; groups are of 0/1 columns"):
            ThreatModel(groups=[["color_red", "town"]]).resolve(schema)
        with pytest.raises(ValueError, match="here is no table to find groups in"):
            ThreatModel(groups="from_table").resolve(schema)


class TestRows:
    @pytest.mark.parametrize(
        ("column", "value", "message"),
        [
            (
                "color_red",
                0.5,
                r"X: feature 'color_red' is 0.5 in row 1 .* one-hot group 'color', whose columns are 0 or 1",
            ),
            ("color_red", 2, "X: feature 'color_red' is 2 in row 1"),
            ("color_red", 1, r"X: 2 columns of the one-hot group 'color' are 1 in row 1 .*, expected exactly one"),
            ("color_blue", 0, r"X: 0 columns of the one-hot group 'color' are 1 in row 1 .* or say at_most_one=True"),
        ],
    )
    def test_a_row_that_is_not_of_its_group_is_named(self, column: str, value: float, message: str) -> None:
        table = make_table().astype(float)
        table.loc[1, column] = value
        with pytest.raises(ValueError, match=message):
            settle(ThreatModel(groups=[OneHotGroup(COLORS, name="color")], whole_numbers=None), table)

    def test_none_set(self) -> None:
        table = make_table()
        table.loc[1, "color_blue"] = 0
        threat = ThreatModel(groups=[OneHotGroup(COLORS, at_most_one=True)])
        settle(threat, table)
        table.loc[1, ["color_red", "color_blue"]] = 1
        with pytest.raises(ValueError, match=r"2 columns .* expected at most one"):
            settle(threat, table)

    def test_a_missing_value(self) -> None:
        X = np.array([[0.0, 1.0], [np.nan, 0.0]])
        with pytest.raises(ValueError, match=r"X: feature 0 is missing in row 1 \(counted from 0\), but it belongs to"):
            ThreatModel(groups=[[0, 1]]).settle(X, X, Schema(2, None, (None, None), accepts_missing=True))

    def test_contains(self) -> None:
        threat = ThreatModel(0.5, groups=[OneHotGroup([1, 2, 3], may_become={1: [2], 3: [1]})], attacking_classes=[1])
        row = [0.0, 1.0, 0.0, 0.0]
        after = [[0.5, 0, 1, 0], [0, 0, 0, 1], [0, 1, 1, 0], [0, 0, 0, 0], [0, 0.5, 0.5, 0], [0, 1, 0, 0], [1, 1, 0, 0]]
        assert threat.contains([row] * 7, after, [1] * 7).tolist() == [True, False, False, False, False, True, False]
        assert threat.contains([row], after[:1], [0]).tolist() == [False]
        none = ThreatModel(groups=[OneHotGroup([0, 1], at_most_one=True)])
        assert none.contains([[0, 1]] * 3, [[0, 0], [1, 0], [1, 1]]).tolist() == [True, True, False]


class TestReach:
    def test_the_box_encloses_what_can_be_done(self) -> None:
        group = OneHotGroup([1, 2, 3], may_become={1: [2]})
        reach = ThreatModel(0.5, groups=[group]).resolve(Schema.numeric(4))
        assert reach.left.tolist() == [0.5, 1.0, 0.0, 0.0]
        assert reach.right.tolist() == [0.5, 0.0, 1.0, 0.0]
        assert reach.whole is not None
        assert reach.whole.tolist() == [False, True, True, True]
        low, high = reach.box(np.array([[0.0, 1.0, 0.0, 0.0]]), None)
        assert low[0].tolist() == [-0.5, 0.0, 0.0, 0.0]
        assert high[0].tolist() == [0.5, 1.0, 1.0, 0.0]

    def test_a_domain_forbids_states(self) -> None:
        """Where a column cannot be 1, its category cannot be reached; where it cannot be 0, no other can."""
        reach = ThreatModel(groups=[[0, 1, 2]], within={2: (0, 0)}).resolve(Schema.numeric(3))
        assert reach.groups is not None
        assert reach.groups.allowed[0].tolist() == [[True, True, False], [True, True, False], [True, True, True]]

    def test_columns_are_selected(self) -> None:
        reach = ThreatModel(groups=[[0, 1], [2, 3]]).resolve(Schema.numeric(4))
        some = reach.select(np.array([3, 0, 2])).groups
        assert some is not None
        assert [columns.tolist() for columns in some.columns] == [[2, 0]]
        assert reach.select(np.array([0, 2])).groups is None


class TestFinding:
    def test_by_names(self) -> None:
        frame = pd.DataFrame({
            "marital-status": ["never-married", "divorced", "never-married", "widowed"],
            "color": ["dark_red", "red", "dark_blue", "red"],
            "has_ip": ["no", "no", "no", "yes"],
            "age": [1, 0, 2, 1],
        })  # fmt: skip
        table = pd.get_dummies(frame, columns=["marital-status", "color"]).assign(
            has_ip=[0, 0, 0, 1], has_at=[1, 0, 0, 0]
        )
        found = find_one_hot_groups(table)
        assert [group.name for group in found] == ["marital-status", "color"]
        assert [len(group.columns) for group in found] == [3, 3]
        more = find_one_hot_groups(table, at_most_one=True)
        assert more[2] == OneHotGroup(["has_ip", "has_at"], at_most_one=True, name="has")

    def test_two_groups_with_one_beginning(self) -> None:
        a, b = np.array([0, 1, 2, 0]), np.array([1, 0, 1, 1])
        names = [*(f"job_now_{k}" for k in range(3)), *(f"job_then_{k}" for k in range(2))]
        table = pd.DataFrame(np.hstack([np.eye(3)[a], np.eye(2)[b]]), columns=names)
        assert [group.name for group in find_one_hot_groups(table)] == ["job_now", "job_then"]

    def test_without_names(self) -> None:
        a, b = np.array([0, 1, 2, 0]), np.array([1, 0, 1, 1])
        X = np.hstack([[[0.0]] * 4, np.eye(4)[a], [[1.5]] * 4, np.eye(2)[b], [[1.0]] * 4])
        found = find_one_hot_groups(X)
        assert [list(group.columns) for group in found] == [[1, 2, 3], [6, 7]]

    def test_what_is_no_group(self) -> None:
        table = pd.DataFrame({"a_x": [0, 1, 0], "a_y": [1, 1, 1], "b_x": [0.5, 0.5, 0.0], "b_y": [0.5, 0.5, 1.0]})
        assert find_one_hot_groups(table) == []
        one = pd.DataFrame({"a_x": [1], "a_y": [0]})  # always the same column: no evidence
        assert find_one_hot_groups(one) == []
        missing = pd.DataFrame({"a_x": [1.0, 0.0, np.nan], "a_y": [0.0, 1.0, 0.0]})
        assert find_one_hot_groups(missing) == []

    def test_a_threat_finds_them(self) -> None:
        settled = settle(ThreatModel({"age": 1}, groups="from_table"), make_table())
        assert settled.groups == [OneHotGroup(COLORS, name="color")]
        with pytest.raises(ValueError, match="groups='from_table': there are none in the 1 rows of X"):
            settle(ThreatModel({"age": 1}, groups="from_table"), make_table()[:1])
        model = RobustTreeClassifier(ThreatModel({"age": 1}, groups="from_table")).fit(make_table(), [0, 1, 0, 1])
        assert model.threat_.groups == settled.groups
        pl = pytest.importorskip("polars")
        assert find_one_hot_groups(pl.from_pandas(make_table())) == [OneHotGroup(COLORS, name="color")]
