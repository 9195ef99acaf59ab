"""Budgets over columns: how they are said, what they mean, and what is refused."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood import AttackRule, ThreatModel
from hardwood.table import Schema

COLUMNS = Schema(3, ("age", "income", "color"), (None, None, ("blue", "red")))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"max_changes": 1.5}, "max_changes=1.5"),
        ({"max_changes": -1}, "max_changes=-1"),
        ({"max_changes": True}, "max_changes=True"),
        ({"radius": -1}, "radius=-1"),
        ({"radius": "far"}, "radius='far'"),
        ({"radius": np.nan}, "radius=nan"),
        ({"radius": 1, "norm": 3}, "norm=3"),
        ({"radius": 1, "norm": np.inf}, "said in `features`"),
        ({"units": {"age": 1}}, "give a radius"),
        ({"radius": 1, "units": {"age": 0}}, "units for column 'age'"),
        ({"radius": 1, "units": {"age": np.inf}}, "units for column 'age'"),
        ({"radius": 1, "units": {"1": 1, 1: 2}}, "more than once"),
        ({"radius": 1, "units": -2}, "units: -2"),
    ],
)
def test_words_that_are_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        ThreatModel("<>", **words)


def test_a_unit_of_an_unknown_column_is_refused() -> None:
    with pytest.raises(ValueError, match="units: column 'aeg': there is no such column, did you mean 'age'"):
        ThreatModel("<>", radius=1, units={"aeg": 1}).resolve(COLUMNS)


def test_a_limit_of_nothing_is_refused() -> None:
    """Nothing can be changed unless `features` says what, and a limit on it would be silently of no use."""
    with pytest.raises(ValueError, match="features='<>'"):
        ThreatModel(radius=0.5)


def test_rules_have_a_budget_of_their_own() -> None:
    rules = [AttackRule("age", add=1)]
    with pytest.raises(ValueError, match="attack rules have costs"):
        ThreatModel("<>", rules=rules, budget=1, max_changes=1)


def test_training_sees_the_box_around_the_budget() -> None:
    threat = ThreatModel({"age": 2, "income": "<>", "color": "<>"}, radius=0.5, units={"age": 10, "income": 1000})
    reach = threat.resolve(COLUMNS)
    np.testing.assert_array_equal(reach.left, [2.0, 500.0, 0.0])
    matrix = reach.categories[2]
    assert matrix is not None
    assert matrix.sum() == len(matrix)  # another category is a change by 1, which is beyond the radius


def test_what_the_box_implies_is_no_budget() -> None:
    """An attacker who cannot exceed a limit is searched for as one without: nothing is slower."""
    assert ThreatModel({"age": 2, "income": 3}, max_changes=2).resolve(COLUMNS).budget is None
    assert ThreatModel({"age": 3, "income": 4}, radius=5).resolve(COLUMNS).budget is None
    assert ThreatModel({"age": 3, "income": 4}, radius=4.99).resolve(COLUMNS).budget is not None
    assert ThreatModel("<>", radius=np.inf).resolve(COLUMNS).budget is None
    assert ThreatModel("<>", radius=0).resolve(COLUMNS).is_empty
    assert ThreatModel("<>", max_changes=0).resolve(COLUMNS).is_empty


def test_sums_that_reach_the_radius_are_within_it() -> None:
    """In float64, 0.1 + 0.2 is more than 0.3."""
    threat = ThreatModel("<>", radius=0.3, norm=1)
    before = np.zeros((3, 2))
    after = np.array([[0.1, 0.2], [0.1, 0.2 + 1e-6], [0.3, 0.0]])
    assert threat.contains(before, after).tolist() == [True, False, True]


def test_categories_and_columns_are_counted() -> None:
    before = pd.DataFrame({"age": [1.0] * 4, "income": [2.0] * 4, "color": ["red"] * 4})
    after = pd.DataFrame(
        {"age": [1.5, 1.0, 1.5, 1.0], "income": [2.0, 2.0, 2.0, 3.0], "color": ["blue", "blue", "red", "blue"]}
    )
    changed = ThreatModel("<>", max_changes=1).contains(before, after, schema=COLUMNS)
    assert changed.tolist() == [False, True, True, False]
    far = ThreatModel("<>", radius=1.5, norm=1, units={"color": 2}).contains(before, after, schema=COLUMNS)
    assert far.tolist() == [True, True, True, True]
    near = ThreatModel("<>", radius=1.2, norm=1).contains(before, after, schema=COLUMNS)
    assert near.tolist() == [False, True, True, False]


def test_the_radius_is_scaled_and_the_count_is_not() -> None:
    threat = ThreatModel({"age": 2, "income": ">"}, max_changes=1, radius=0.5, norm=1, units={"age": 10})
    wider = threat.scaled(2)
    assert (wider.radius, wider.max_changes, wider.norm, wider.units) == (1.0, 1, 1, {"age": 10.0})
    assert threat.scaled(np.inf).resolve(COLUMNS).budget is not None
    assert threat.scaled(0).resolve(COLUMNS).is_empty


@given(
    max_changes=st.none() | st.integers(0, 5),
    radius=st.none() | st.floats(0, 1e6),
    norm=st.sampled_from([1, 2]),
    units=st.none() | st.floats(1e-3, 1e3) | st.dictionaries(st.sampled_from(["age", "income"]), st.floats(1e-3, 1e3)),
)
def test_words_survive_toml(max_changes: Any, radius: Any, norm: int, units: Any) -> None:
    threat = ThreatModel(
        "<>", max_changes=max_changes, radius=radius, norm=norm, units=None if radius is None else units
    )
    again = ThreatModel.parse(threat.to_toml())
    assert again == threat
    assert (again == ThreatModel("<>", max_changes=9)) is False
    assert eval(repr(threat)) == threat


def test_a_series_gives_units(tmp_path: Path) -> None:
    table = pd.DataFrame({"age": [20.0, 60.0], "income": [0.0, 1000.0]})
    threat = ThreatModel("<>", radius=0.5, units=table.max() - table.min())
    assert threat.units == {"age": 40.0, "income": 1000.0}
    threat.to_toml(tmp_path / "threat.toml")
    assert ThreatModel.from_toml(tmp_path / "threat.toml") == threat
