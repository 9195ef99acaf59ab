"""Small tables with a column of every kind, and threats that say anything about them that can be said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from hardwood import AttackRule, OneHotGroup, ThreatModel

COLORS = ["blue", "green", "red"]
NEVER_SEEN = "violet"
# Two numbers, three whole ones of which the last is the sum of the others, a category, and two one-hot groups.
NUMBERS, WHOLE, PAY, TIER = ["x", "z"], ["n", "m", "total"], ["pay_bill", "pay_card", "pay_cash"], ["tier_2", "tier_3"]


@dataclass(frozen=True)
class Kind:
    """What a table has, and what a model of it has to predict."""

    seed: int
    has_color: bool = False
    has_groups: bool = False
    has_total: bool = False
    has_holes: bool = False
    n_classes: int = 2  # 0: numbers
    names_classes: bool = False

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        total, color, groups = self.has_total, self.has_color, self.has_groups
        return [*NUMBERS, "n", "m", *["total"] * total, *["color"] * color, *(PAY + TIER) * groups]

    @property
    def classes(self) -> list[Any]:
        """The labels."""
        return [f"class {k}" for k in range(self.n_classes)] if self.names_classes else list(range(self.n_classes))


@st.composite
def kinds(draw: st.DrawFn, n_classes: st.SearchStrategy[int], *, has_color: bool, has_holes: bool) -> Kind:
    """Return a kind of table that some model takes."""
    return Kind(
        seed=draw(st.integers(0, 2**32 - 1)),
        has_color=has_color and draw(st.booleans()),
        has_groups=draw(st.booleans()),
        has_total=draw(st.booleans()),
        has_holes=has_holes and draw(st.booleans()),
        n_classes=draw(n_classes),
    )


def make_table(kind: Kind, n_rows: int = 40) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a table and the classes, or numbers, of its rows."""
    generator = np.random.default_rng(kind.seed)
    x, z = np.round(4.0 * generator.random(n_rows), 1), np.round(generator.normal(0.0, 2.0, n_rows), 2)
    n, m = generator.integers(0, 4, (2, n_rows))
    pay, tier = (
        np.eye(3, dtype=int)[generator.integers(0, 3, n_rows)],
        np.eye(3, dtype=int)[generator.integers(0, 3, n_rows)],
    )
    color = generator.integers(0, 3, n_rows).astype(float)
    if kind.has_holes:
        for values in (x, z, color):
            values[generator.random(n_rows) < 0.2] = np.nan
    matrix = {"x": x, "z": z, "n": n, "m": m, "total": n + m, "color": color}
    matrix |= dict(zip(PAY + TIER, np.hstack([pay, tier[:, :2]]).T, strict=True))
    table = make_frame(np.column_stack([matrix[name] for name in kind.columns]).astype(np.float64), kind.columns)
    codes = np.nan_to_num(np.column_stack([matrix[name] for name in kind.columns]).astype(np.float64), nan=-1.0)
    score = codes @ generator.choice([-2.0, -1.0, 1.0, 2.0], codes.shape[1]) + generator.normal(0.0, 1.0, n_rows)
    if kind.n_classes == 0:
        return table, np.round(score, 2)
    class_index = np.argsort(np.argsort(score)) * kind.n_classes // n_rows
    return table, np.array(kind.classes)[class_index]


def make_frame(matrix: np.ndarray, columns: list[str]) -> pd.DataFrame:
    """Return rows as a table: whole numbers as integers, codes as categories, of which the last was never seen."""
    frame = pd.DataFrame(matrix, columns=columns)
    for name in columns:
        values = frame[name].to_numpy()
        if name == "color":
            labels = [*COLORS, NEVER_SEEN] if (values == len(COLORS)).any() else COLORS
            frame[name] = pd.Categorical.from_codes(np.nan_to_num(values, nan=-1.0).astype(int), labels)
        elif name not in NUMBERS and (values == np.floor(values)).all():
            frame[name] = values.astype(int)
    return frame


def make_matrix(frame: pd.DataFrame) -> np.ndarray:
    """Return a table as `make_frame` took it."""
    codes = {**dict(zip([*COLORS, NEVER_SEEN], range(4), strict=True)), None: np.nan}
    parts = [
        frame[name]
        .astype(object)
        .where(frame[name].notna(), None)
        .map(codes.get)
        .to_numpy(dtype=np.float64, na_value=np.nan)
        if name == "color"
        else frame[name].to_numpy(dtype=np.float64, na_value=np.nan)
        for name in frame.columns
    ]
    return np.column_stack(parts)


DISTANCES: list[Any] = [
    None, "", 0.5, 1, 1.5, 2.9999999999, (1, 3), (0.4, 2), (0, np.inf), ">", "<", "<>", "10%", "50%", "0.5 std",
    "1 iqr", ("10%", 1), (0.25, "0.5 std"),
]  # fmt: skip
RELATIONS = [
    "total = n + m",
    "n + m <= 5",
    "2 * m <= total + 3",
    "x <= n + 4",
    "n - m >= -2",
    "z <= 2 * x + 3",
    "x = n + z",
]


@st.composite
def color_moves(draw: st.DrawFn) -> Any:
    """Return which category may become which."""
    if draw(st.booleans()):
        return "<>"
    moves = draw(st.dictionaries(st.sampled_from(COLORS), st.sets(st.sampled_from(COLORS), min_size=1), min_size=1))
    return {before: sorted(after) for before, after in moves.items()}


@st.composite
def feature_entries(draw: st.DrawFn, columns: list[str], *, are_grouped: bool) -> Any:
    """Return what is said of features: one word for all, a word per column, or of some by name."""
    spelling = draw(st.sampled_from(["one", "some", "some", "all"]))
    if spelling == "one":
        return draw(st.sampled_from([entry for entry in DISTANCES if not isinstance(entry, tuple) and entry]))
    free = [name for name in columns if not (are_grouped and name in PAY + TIER)]
    named = free if spelling == "all" else draw(st.lists(st.sampled_from(free), min_size=1, unique=True))
    entries = {name: draw(color_moves() if name == "color" else st.sampled_from(DISTANCES)) for name in named}
    if named == columns:
        return list(entries.values())
    said = {name: entry for name, entry in entries.items() if entry is not None}  # a Series makes NaN of None
    return pd.Series(said, dtype=object) if said and draw(st.booleans()) else entries


@st.composite
def groups(draw: st.DrawFn, columns: list[str]) -> Any:
    """Return one-hot groups, as one may spell them, or nothing."""
    if "pay_bill" not in columns or draw(st.booleans()):
        return None
    if draw(st.integers(0, 3)) == 0:
        return "from_table"

    def may_become(labels: list[str]) -> Any:
        targets = st.lists(st.sampled_from(labels), unique=True, min_size=1)
        return draw(st.one_of(st.just("<>"), st.dictionaries(st.sampled_from(labels), targets, min_size=1)))

    return [
        draw(st.sampled_from([PAY, OneHotGroup(PAY, may_become=may_become(PAY), name="pay")])),
        {"columns": TIER, "at_most_one": True, "may_become": may_become([*TIER, ""])},
    ]  # fmt: skip


@st.composite
def attacking_classes(draw: st.DrawFn, classes: list[Any]) -> Any:
    """Return who attacks: everyone, some, or some who want to be taken for others."""
    spelling = draw(st.sampled_from(["all", "all", "some", "mapping"])) if len(classes) > 1 else "all"
    if spelling == "all":
        return None
    some = draw(st.lists(st.sampled_from(classes), min_size=1, unique=True))
    if spelling == "some":
        return some
    return {
        own: draw(st.lists(st.sampled_from([each for each in classes if each != own]), min_size=1, unique=True))
        for own in some
    }


@st.composite
def domains(draw: st.DrawFn, columns: list[str]) -> Any:
    """Return between which values columns exist."""
    said = {"x": (0, 4), "n": (0, 3), "m": (0, None), "total": (0, 6), "z": (-9, 9.5)}
    return draw(st.one_of(
        st.none(), st.just("from_data"), st.just(("from_data", 0.25)),
        st.fixed_dictionaries({}, optional={
            name: st.sampled_from([ends, "from_data"]) for name, ends in said.items() if name in columns
        }),
    ))  # fmt: skip


@st.composite
def rules(draw: st.DrawFn, columns: list[str]) -> dict[str, Any]:
    """Return attack rules, and what they leave to be said of other columns."""
    possible = [
        AttackRule("x", add=1), AttackRule("x", when=(1, 3), add=(-0.5, -0.25), cost=2), AttackRule("n", add=-1),
        AttackRule("n", when=(0, 2), set_to=3, cost=0.5), AttackRule("z", add=(-1, 1), cost=1.5),
        AttackRule("z", when=(-1, 1), set_to=0),
    ]  # fmt: skip
    if "color" in columns:
        possible += [AttackRule("color", when="red", set_to="blue"), AttackRule("color", set_to="green", cost=2)]
    chosen = draw(st.lists(st.sampled_from(possible), min_size=1, max_size=4, unique=True))
    free = [name for name in columns if name not in {rule.feature for rule in chosen} and name != "color"]
    features = draw(st.dictionaries(st.sampled_from(free), st.sampled_from(DISTANCES), max_size=2))
    return {
        "features": features or None, "rules": chosen, "budget": draw(st.sampled_from([0.5, 1, 2, 3])),
        "repeat": draw(st.booleans()), "within": draw(st.sampled_from([None, dict.fromkeys(features, "from_data")])),
    }  # fmt: skip


@st.composite
def threats(draw: st.DrawFn, kind: Kind) -> ThreatModel:
    """Return a threat that may say anything, and leaves half of it unsaid."""
    columns = kind.columns
    some = attacking_classes(kind.classes)
    if kind.n_classes and not kind.has_holes and draw(st.integers(0, 5)) == 0:
        return ThreatModel(**draw(rules(columns)), attacking_classes=draw(some))
    said: dict[str, Any] = {
        "attacking_classes": draw(some),
        "groups": draw(groups(columns)),
        "within": draw(domains(columns)),
    }
    said["features"] = draw(feature_entries(columns, are_grouped=said["groups"] is not None))
    said["whole_numbers"] = draw(st.sampled_from(["from_dtype", None, ["n"], ["n", "m", *["total"] * kind.has_total]]))
    grouped = PAY + TIER if said["groups"] is not None else []
    if kind.has_holes:
        hidden = st.one_of(st.none(), st.lists(st.sampled_from(["x", "z"]), unique=True, min_size=1))
        said |= {"blank": draw(hidden), "fill": draw(hidden)}
    if draw(st.booleans()):
        said["max_changes"] = draw(st.integers(1, 3))
    if draw(st.booleans()):
        said |= {"radius": draw(st.sampled_from([0.3, 1, 2.5])), "norm": draw(st.sampled_from([1, 2]))}
        units = st.sampled_from([None, 2, {"x": 0.5, "n": 3}, pd.Series({"z": 0.25, **dict.fromkeys(grouped, 1.5)})])
        said["units"] = draw(units)
    if draw(st.booleans()):
        known = [text for text in RELATIONS if kind.has_total or "total" not in text]
        said["relations"] = draw(st.lists(st.sampled_from(known), min_size=1, max_size=2, unique=True))
    if kind.has_color and isinstance(said["features"], dict) and draw(st.booleans()):
        said["unseen_categories"] = draw(st.sampled_from(["ignore", "allow"]))
        said["features"] = {**said["features"], "color": {"red": ["blue", NEVER_SEEN], "green": [NEVER_SEEN]}}
    return ThreatModel(**said)
