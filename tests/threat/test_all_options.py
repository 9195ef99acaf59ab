"""Everything that a threat model can say, together: written, read, shown, compared, copied, scaled and settled."""

import copy
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardwood import AttackRule, ThreatModel
from hardwood.table import Schema
from hardwood.threat import OneHotGroup
from hardwood.threat.options import list_options

DISTANCES = st.sampled_from([None, 0.5, 3, ">", "<>", "10%", "1.5 std", "2 iqr", ("10%", 1), (0.25, "0.5 std")])
SOME: dict[str, Any] = {
    "attacking_classes": st.sampled_from([None, ["fraud"], [0, 1]]),
    "unseen_categories": st.sampled_from(["error", "ignore", "allow"]),
    "whole_numbers": st.sampled_from(["from_dtype", None, [], ["items"], ["items", "total"]]),
    "within": st.sampled_from(
        [None, {"share": (0, 1)}, "from_data", ("from_data", 0.25), {"items": "from_data", "share": (0, None)}]
    ),
    "groups": st.sampled_from(
        [
            None,
            "from_table",
            [OneHotGroup(["pay_card", "pay_cash"], name="pay")],
            [{"columns": ["pay_card", "pay_cash"], "at_most_one": True, "may_become": {"pay_card": ["", "pay_cash"]}}],
        ]
    ),
    "blank": st.sampled_from([None, "all", ["share"]]),
    "fill": st.sampled_from([None, ["share", "items"]]),
    "max_changes": st.sampled_from([None, 1, 3]),
    "radius": st.sampled_from([None, 0.5, 2]),
    "norm": st.sampled_from([1, 2]),
    "units": st.sampled_from([None, {"items": 5, "share": 0.5}]),
    "relations": st.sampled_from([None, ["total = items + extras"], ["`total` >= items", "share = items / total"]]),
}
FEATURES = st.one_of(DISTANCES.filter(lambda entry: not isinstance(entry, tuple)), st.fixed_dictionaries(
    {}, optional={"items": DISTANCES, "share": DISTANCES, "town": st.just({"A": ["B"]})}
))  # fmt: skip


@st.composite
def threats(draw: st.DrawFn) -> ThreatModel:
    """Return a threat model that says several things, and leaves others unsaid."""
    options = {name: draw(strategy) for name, strategy in SOME.items() if draw(st.booleans())}
    if options.get("radius") is None:
        options = {name: value for name, value in options.items() if name not in ("norm", "units")}
    features = draw(FEATURES)
    moves = any(said is not None for said in (features or None, *map(options.get, ("groups", "blank", "fill"))))
    return ThreatModel(features if moves else "<>", **options)


def test_nothing_is_left_out() -> None:
    """Whoever adds an option adds it here; rules stand for themselves and have tests of their own."""
    assert {*SOME, "rules", "budget", "repeat"} == {*list_options()}


@given(threats())
def test_words_come_back(threat: ThreatModel) -> None:
    assert ThreatModel.parse(threat.to_toml()) == threat
    assert eval(repr(threat), {"ThreatModel": ThreatModel, "OneHotGroup": OneHotGroup, "inf": np.inf}) == threat
    for twin in (copy.deepcopy(threat), pickle.loads(pickle.dumps(threat)), threat.replace(), ThreatModel(threat)):
        assert twin == threat
        assert repr(twin) == repr(threat)


@given(threats())
def test_scaled(threat: ThreatModel) -> None:
    said = repr(threat)
    assert threat.scaled(1.0) == threat
    assert threat.scaled(0.5).scaled(2.0) == threat
    nobody = threat.scaled(0.0)
    schema = Schema.numeric(6, ["items", "extras", "total", "share", "pay_card", "pay_cash"])
    X = np.array([[1.0, 2.0, 3.0, 1 / 3, 1.0, 0.0], [4.0, 2.0, 6.0, 2 / 3, 0.0, 1.0]])
    words = nobody.replace(attacking_classes=None).settle(X, X, schema)
    assert not words.contains(X, X + np.eye(6)[0], schema=schema).any()
    assert words.contains(X, X, schema=schema).all()
    assert repr(threat) == said  # which nothing of this has changed


@given(threats())
def test_what_is_settled_stays_so(threat: ThreatModel) -> None:
    """Once a table has been seen, no other table changes what a threat model means."""
    generator = np.random.default_rng(0)
    items, extras = generator.integers(1, 9, (2, 30))
    card = generator.integers(0, 2, 30)
    town = pd.Categorical(generator.choice(["A", "B"], 30))
    table = pd.DataFrame(
        {"items": items, "extras": extras, "total": items + extras, "share": items / (items + extras), "pay_card": card,
         "pay_cash": 1 - card, "town": town}
    )  # fmt: skip
    schema = replace(Schema.from_table(table), accepts_missing=True)
    settled = threat.settle(table, schema.encode(table), schema)
    other = table.assign(items=items * 2.0, total=items * 2.0 + extras, share=(2.0 * items) / (items * 2.0 + extras))
    other["pay_card"], other["pay_cash"] = 1, 0
    if settled.whole_numbers == "from_dtype":
        assert not isinstance(threat.features, str | float)
    assert settled.settle(other, schema.encode(other), schema) == settled
    assert ThreatModel.parse(settled.to_toml()) == settled


@pytest.mark.parametrize("option", list_options())
def test_options_are_compared(option: str) -> None:
    rules = {"rules": [AttackRule("items", add=1)], "budget": 1}
    pairs: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "attacking_classes": ({}, {"attacking_classes": [1]}),
        "rules": (rules, rules | {"rules": [AttackRule("items", add=2)]}),
        "budget": (rules, rules | {"budget": 2}),
        "repeat": (rules, rules | {"repeat": False}),
        "unseen_categories": ({}, {"unseen_categories": "allow"}),
        "whole_numbers": ({}, {"whole_numbers": None}),
        "within": ({}, {"within": "from_data"}),
        "groups": ({}, {"groups": "from_table"}),
        "blank": ({}, {"blank": "all"}),
        "fill": ({}, {"fill": "all"}),
        "max_changes": ({}, {"max_changes": 2}),
        "radius": ({"radius": 1}, {"radius": 2}),
        "norm": ({"radius": 1, "norm": 1}, {"radius": 1, "norm": 2}),
        "units": ({"radius": 1}, {"radius": 1, "units": {"items": 2}}),
        "relations": ({}, {"relations": ["items <= total"]}),
    }
    one, other = (ThreatModel(None if "rules" in options else "<>", **options) for options in pairs[option])
    assert one != other
    assert getattr(one, option) != getattr(other, option)
    if option != "rules":
        assert f"{option}=" in repr(one) + repr(other)
