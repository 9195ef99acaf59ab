"""No error and no warning is longer than a screen, however long what it is about: texts, names, labels and paths."""

from __future__ import annotations

import copy
import json
import re
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hardwood
from hardwood import (
    AttackRule,
    OneHotGroup,
    OptimalRobustTreeClassifier,
    RobustBoostingClassifier,
    RobustForestClassifier,
    RobustTreeClassifier,
    RobustTreeRegressor,
    ThreatModel,
    TreeEnsemble,
    as_ensemble,
    attack,
    evaluate,
    verify,
)
from hardwood.quoting import list_some, quote, shorten

A_SCREEN = 2000
# A million characters; a hundred thousand names; a number of a hundred thousand digits.
LONG, MANY, HUGE = "x" * 1_000_000, [f"name {k}" for k in range(100_000)], 10**100_000
DIGITS = "9" * 100_000

X = pd.DataFrame({
    "a": np.arange(16.0), "b": [1, 0] * 8, "c": [0, 1] * 8, "k": pd.Categorical(["u", "v", "v", "u"] * 4),
})  # fmt: skip
Y = np.arange(16) // 4 % 2


@cache
def fitted() -> RobustTreeClassifier:
    return RobustTreeClassifier(max_depth=2).fit(X, X["k"] == "u")


def hear(work: Callable[[], Any]) -> list[str]:
    """Return all that is said to whoever does some work: warnings, and the error that ends it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            work()
        except (ValueError, TypeError, OSError) as error:
            return [*(str(warning.message) for warning in caught), str(error)]
    return [str(warning.message) for warning in caught]


def assert_short(work: Callable[[], Any], *, is_refused: bool = True) -> None:
    said = hear(work)
    assert said or not is_refused
    for message in said:
        assert len(message) <= A_SCREEN, message[:200]


def ask(*args: Any, **options: Any) -> None:
    """Ask about rows under a threat model, and train against it."""
    threat = ThreatModel(*args, **options)
    repr(threat)
    hear(lambda: RobustTreeClassifier(threat).fit(X, Y))
    (attack if threat.rules else verify)(fitted(), X, fitted().predict(X), threat)


def rule(**words: Any) -> Callable[[], None]:
    return lambda: ask(rules=[{"feature": "a", "add": 1} | words], budget=1)


def group(**words: Any) -> Callable[[], None]:
    return lambda: ask(groups=[{"columns": ["b", "c"]} | words])


def relate(text: str) -> Callable[[], None]:
    return lambda: ask(1, relations=[text])


THREATS: dict[str, Callable[[], None]] = {
    "features": lambda: ask(LONG),
    "features: bytes": lambda: ask(LONG.encode()),
    "features: list": lambda: ask(MANY),
    "features: number": lambda: ask(HUGE),
    "features: share": lambda: ask(DIGITS + "%"),
    "features: a column": lambda: ask({LONG: 1}),
    "features: many columns": lambda: ask(dict.fromkeys(MANY, 1)),
    "features: an index": lambda: ask({HUGE: 1}),
    "features: an entry": lambda: ask({"a": LONG}),
    "features: a side": lambda: ask({"a": (0, LONG)}),
    "features: too many sides": lambda: ask({"a": MANY}),
    "features: a category": lambda: ask({"k": {LONG: ["u"]}}),
    "features: a category to become": lambda: ask({"k": {"u": [LONG]}}),
    "features: a category that is a number": lambda: ask({"k": {"u": [HUGE]}}),
    "features: categories of a number": lambda: ask({"a": dict.fromkeys(MANY, "u")}),
    "features: a number for categories": lambda: ask({"k": 1.0}),
    "attacking_classes": lambda: ask(1, LONG),
    "attacking_classes: many": lambda: ask(1, MANY),
    "attacking_classes: a wish": lambda: ask(1, {1: LONG}),
    "rules": lambda: ask(rules=LONG, budget=1),
    "rules: a key": rule(**{LONG: 1}),
    "rules: feature": rule(feature=LONG),
    "rules: when": rule(when=LONG),
    "rules: when, many": rule(when=MANY),
    "rules: add": rule(add=LONG),
    "rules: set_to": rule(add=None, set_to=LONG),
    "rules: cost": rule(cost=LONG),
    "rules: of a column that moves": lambda: ask(
        {"a": 1}, rules=[AttackRule("a", when=[0, HUGE // 10**99_800], add=1)], budget=1
    ),
    "budget": lambda: ask(rules=[AttackRule("a", add=1)], budget=LONG),
    "repeat": lambda: ask(1, repeat=LONG),
    "unseen_categories": lambda: ask(1, unseen_categories=LONG),
    "whole_numbers": lambda: ask(1, whole_numbers=LONG),
    "whole_numbers: a column": lambda: ask(1, whole_numbers=[LONG]),
    "within": lambda: ask(1, within=LONG),
    "within: a column": lambda: ask(1, within={LONG: (0, 1)}),
    "within: a domain": lambda: ask(1, within={"a": LONG}),
    "within: a margin": lambda: ask(1, within=("from_data", LONG)),
    "groups": lambda: ask(groups=LONG),
    "groups: many columns": group(columns=MANY),
    "groups: a column twice": group(columns=[LONG, LONG]),
    "groups: its name": lambda: ask(groups=[OneHotGroup(["b", "a"], name=LONG)]),
    "groups: at_most_one": group(at_most_one=LONG),
    "groups: may_become": group(may_become={LONG: ["b"]}),
    "blank": lambda: ask(blank=LONG),
    "blank: many": lambda: ask(blank=MANY),
    "fill": lambda: ask(fill=[LONG]),
    "max_changes": lambda: ask(1, max_changes=LONG),
    "radius": lambda: ask(1, radius=LONG),
    "norm": lambda: ask(1, radius=1, norm=LONG),
    "units": lambda: ask(1, radius=1, units={LONG: 1}),
    "relations": lambda: ask(1, relations=LONG),
    "relations: no comparison": relate(LONG),
    "relations: a number": relate(f"a <= {DIGITS}"),
    "relations: an exponent": relate(f"a <= 1e{DIGITS}"),
    "relations: a factor": relate(f"a <= {DIGITS} * b"),
    "relations: a name": relate(f"`{LONG}` <= 1"),
    "relations: a function": relate(f"{LONG}(a) <= 1"),
    "relations: a sum": relate("a" + " + a" * 10_000 + " <= 1"),
    "relations: brackets": relate("(" * 10_000 + "a <= 1"),
    "relations: that rows break": relate(" " * 100_000 + "a <= 1"),
    "factor": lambda: ThreatModel(1).scaled(LONG),
    "text": lambda: ThreatModel.parse(LONG),
    "text: a key": lambda: ThreatModel.parse(f"{LONG} = 1"),
    "text: a string": lambda: ThreatModel.parse(f'features = "{LONG}"'),
    "a path": lambda: ThreatModel.from_toml(LONG),
    "no labels": lambda: ThreatModel(1, MANY).contains(X, X),
}


@pytest.mark.parametrize("place", THREATS)
def test_threat_models(place: str) -> None:
    """A relation with a number of 100,000 digits was an error of that length, as was any spelling of a megabyte."""
    assert_short(THREATS[place])


HOSTILE = {
    "text": LONG, "list of texts": [LONG], "many texts": MANY, "number": 10**4000, "digits": [10**400],
    "object": {LONG: LONG}, "nested": json.loads("[" * 90 + "]" * 90), "null": None, "ragged": [[0.5], [1.0, 2.0]],
}  # fmt: skip


def walk(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Go through all places of a document, of lists the first."""
    if path:
        yield path
    for key in value if isinstance(value, dict) else range(min(1, len(value))) if isinstance(value, list) else ():
        yield from walk(value[key], *path, key)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_model_documents(hostile: str) -> None:
    """Whatever stands in whatever place; the name of the source, too, was repeated in full."""
    document = json.loads(fitted().ensemble_.to_json())
    assert document["left_categories"]
    for path in walk(document):
        damaged = copy.deepcopy(document)
        place = damaged
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = HOSTILE[hostile]
        assert_short(partial(TreeEnsemble.parse_json, json.dumps(damaged), LONG), is_refused=False)
        if isinstance(place, dict):
            place[LONG] = place.pop(path[-1])
            if path != ("schema", "accepts_missing"):
                assert_short(partial(TreeEnsemble.parse_json, json.dumps(damaged)), is_refused=False)


def with_cell(cell: Any) -> pd.DataFrame:
    return X.assign(a=pd.Series([cell, *range(15)], dtype=object))


def name_columns(*names: Any) -> pd.DataFrame:
    return X.set_axis([*names, *"wxyz"][:4], axis=1)


LABELS = np.array([LONG[:50_000] + "no", LONG[:50_000] + "yes"])[Y]
WIDE = pd.DataFrame(np.zeros((16, 3000)), columns=[f"column {k} " * 10 for k in range(3000)])
TABLES: dict[str, Callable[[], Any]] = {
    "a cell of text": lambda: RobustTreeClassifier().fit(with_cell(LONG), Y),
    "a cell that is a number": lambda: RobustTreeClassifier().fit(with_cell(HUGE), Y),
    "a cell of another type": lambda: RobustTreeClassifier().fit(with_cell([LONG]), Y),
    "a cell of a list": lambda: RobustTreeClassifier().fit(with_cell(LONG).to_numpy().tolist(), Y),
    "no table": lambda: RobustTreeClassifier().fit(LONG, Y),
    "one row of text": lambda: RobustTreeClassifier().fit([LONG] * 16, Y),
    "a category that is a number": lambda: RobustTreeClassifier(categorical_features=["a"]).fit(with_cell(HUGE), Y),
    "a category that is a list": lambda: RobustTreeClassifier(categorical_features=["a"]).fit(with_cell([LONG]), Y),
    "a name twice": lambda: RobustTreeClassifier().fit(name_columns(LONG, LONG), Y),
    "a name beside a number": lambda: RobustTreeClassifier().fit(name_columns(LONG, 1), Y),
    "a name that is not there": lambda: RobustTreeClassifier(categorical_features=[LONG]).fit(X, Y),
    "categorical_features": lambda: RobustTreeClassifier(categorical_features=LONG).fit(X, Y),
    "a bad cell under a long name": lambda: RobustTreeClassifier().fit(name_columns(LONG).assign(**{LONG: "x"}), Y),
    "a missing cell under a long name": lambda: RobustForestClassifier(n_estimators=1)
    .fit(name_columns(LONG), Y)
    .predict(name_columns(LONG).assign(**{LONG: np.nan})),
    "other names in predict": lambda: fitted().predict(name_columns(LONG)),
    "other names in boosting": lambda: RobustBoostingClassifier(n_estimators=1).fit(X, Y).predict(name_columns(LONG)),
    "other names in as_ensemble": lambda: as_ensemble(fitted(), name_columns(LONG)),
    "other names of many columns": lambda: RobustTreeClassifier().fit(WIDE, Y).predict(WIDE.add_suffix("!")),
    "fewer of many columns": lambda: as_ensemble(RobustTreeClassifier().fit(WIDE, Y), WIDE.iloc[:, :9]),
    "a column that many do not have": lambda: RobustTreeClassifier({LONG: 1}).fit(WIDE, Y),
    "labels of many kinds": lambda: hardwood.TreantClassifier().fit(X, [LONG[:5000] + str(k) for k in range(16)]),
    "labels that are numbers": lambda: RobustTreeClassifier().fit(X, pd.Series([HUGE, 1] * 8, dtype=object)),
    "one label": lambda: RobustTreeClassifier().fit(X, [LONG] * 16),
    "a label that is none of the model": lambda: verify(fitted(), X, LABELS, 1),
    "labels of the model": lambda: verify(RobustTreeClassifier().fit(X, LABELS), X, Y, 1),
    "a class that attacks": lambda: verify(RobustTreeClassifier().fit(X, LABELS), X, LABELS, ThreatModel(1, [LONG])),
    "targets of text": lambda: RobustTreeRegressor().fit(X, [LONG] * 16),
    "targets that are numbers": lambda: RobustTreeRegressor().fit(X, [HUGE] * 16),
    "targets of evaluate": lambda: evaluate(RobustTreeRegressor().fit(X, Y), X, [LONG] * 16, 1),
    "weights": lambda: RobustTreeClassifier().fit(X, Y, [LONG] * 16),
    "weights that are numbers": lambda: RobustTreeClassifier().fit(X, Y, [HUGE] * 16),
    "class_weight": lambda: RobustTreeClassifier(class_weight=LONG).fit(X, Y),
    "class_weight of a class": lambda: RobustTreeClassifier(class_weight={LONG: 1}).fit(X, Y),
    "class_weight that is text": lambda: RobustTreeClassifier(class_weight={0: LONG}).fit(X, Y),
    "feature_weight": lambda: attack(fitted(), X, Y, feature_weight=LONG),
    "norm": lambda: attack(fitted(), X, Y, norm=LONG),
    "method": lambda: attack(fitted(), X, Y, method=LONG),
    "epsilons": lambda: evaluate(fitted(), X, Y, 1, epsilons=MANY),
    "positive_class": lambda: evaluate(fitted(), X, Y, 1, positive_class=LONG),
    "metric": lambda: hardwood.make_adversarial_scorer(1, metric=LONG),
    "a model": lambda: as_ensemble(LONG),
    "a path of a model": lambda: TreeEnsemble.from_json(LONG),
    "a path of a stream": lambda: hardwood.stream(LONG),
    "a target of a stream": lambda: hardwood.stream(X.to_numpy(dtype=object), LONG),
    "batch_rows": lambda: hardwood.stream(np.zeros((2, 2)), batch_rows=LONG),
    "a data set": lambda: hardwood.load_dataset(LONG),
    "monotonic_cst": lambda: RobustTreeClassifier(monotonic_cst={LONG: 1}).fit(X, Y),
}  # fmt: skip


@pytest.mark.parametrize("place", TABLES)
def test_tables_and_labels(place: str) -> None:
    """What scikit-learn says of tables repeats all of them; names of columns were listed in full."""
    assert_short(TABLES[place])


PARAMETERS = [
    pytest.param(estimator, name, id=f"{type(estimator).__name__}, {name}")
    for estimator in (
        RobustTreeClassifier(refine="search"), RobustTreeRegressor(), RobustForestClassifier(),
        RobustBoostingClassifier(), hardwood.TreantClassifier(), OptimalRobustTreeClassifier(),
        hardwood.HardenedClassifier(RobustTreeClassifier()),
    )
    for name in estimator.get_params(deep=False)
    # Whatever is true or false, or an object, is not repeated.
    if name not in ("beat_constant", "warm_start", "bootstrap", "verbose", "progress", "estimator", "oob_score")
]  # fmt: skip


# Of which any large number is as good as no limit.
WITHOUT_LIMIT = (
    "max_depth", "max_features", "max_leaf_nodes", "max_rows", "min_samples_split", "min_samples_leaf", "n_jobs",
    "n_iter_no_change",
)  # fmt: skip


@pytest.mark.parametrize(("estimator", "name"), PARAMETERS)
def test_parameters(estimator: Any, name: str) -> None:
    """Numbers of hundreds of digits were an OverflowError in some of them, without the name of the parameter."""
    values = [LONG, MANY] if name == "n_jobs" else [LONG, MANY, -HUGE]
    values += [] if name in WITHOUT_LIMIT else [10**400]
    for value in values:
        parameters = estimator.get_params(deep=False) | {name: value}
        said = hear(partial(lambda parameters: type(estimator)(**parameters).fit(X[["a"]], Y), parameters))
        assert said
        assert max(map(len, said)) <= A_SCREEN
        assert re.search(rf"\b{name}\b", said[-1]), said[-1]


class TestQuoting:
    def test_what_cannot_be_written_out(self) -> None:
        deep: list[Any] = []
        for _ in range(100_000):
            deep = [deep]
        assert quote(deep) == "list nested too deep to write out"
        assert shorten(10**5000) == "int too long to write out"
        while deep:
            deep = deep.pop()  # a list that deep cannot be thrown away at once

    def test_lists(self) -> None:
        assert len(list_some(MANY)) < A_SCREEN
        assert len(list_some([LONG] * 1000, 20)) < A_SCREEN
