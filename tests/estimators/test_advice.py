"""A refusal names the parameter that refuses and what to do instead, and that works."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from hardwood import (
    AttackRule,
    HardenedClassifier,
    OptimalRobustTreeClassifier,
    RobustBoostingClassifier,
    RobustBoostingRegressor,
    RobustForestClassifier,
    RobustForestRegressor,
    RobustTreeClassifier,
    RobustTreeRegressor,
    ThreatModel,
    TreantClassifier,
)

TREE, NUMBER = RobustTreeClassifier, RobustTreeRegressor
N_ROWS = 12
BLANK = ThreatModel({1: 0.1}, blank=[0])
FILL = ThreatModel({1: 0.1}, fill=[0])
RULES = ThreatModel(rules=[AttackRule(1, add=0.1)], budget=1.0)


def make_table(kind: str) -> np.ndarray:
    """Return rows of three columns: complete ones of numbers, with a missing value, or with categories."""
    X = np.random.default_rng(0).random((N_ROWS, 3)).round(2)
    if kind == "missing":
        X[3, 1] = np.nan
    if kind == "categories":
        X[:, 0] = np.arange(N_ROWS) % 3
    return X


def make_target(estimator: Any, n_classes: int) -> np.ndarray:
    return np.arange(N_ROWS) / 3.0 if "Regressor" in type(estimator).__name__ else np.arange(N_ROWS) % n_classes


def fit(estimator: Any, kind: str, threat: Any) -> Any:
    """Fit to a table of a kind: "classes" are three, and else two."""
    own = clone(estimator).set_params(threat=threat, categorical_features=[0] if kind == "categories" else [])
    return own.fit(make_table(kind), make_target(estimator, 3 if kind == "classes" else 2))


def limit(estimator: Any) -> dict[str, Any]:
    """Return the parameter of an estimator because of which it takes less, and what it is to be."""
    return {"criterion": "squared_error"} if isinstance(estimator, NUMBER) else {"attacker": "groot"}


LIMITED = [TREE(attacker="chen"), TREE(attacker="chen-greedy"), TREE(attacker="chen", refine="alternate")]
ABSOLUTE = NUMBER(criterion="absolute_error")


@pytest.mark.parametrize("kind", ["missing", "classes", "blank"])
@pytest.mark.parametrize("estimator", [*LIMITED, ABSOLUTE], ids=str)
def test_the_parameter_that_refuses_is_named(estimator: Any, kind: str) -> None:
    """Of missing values it was said that the model has no place for them, of three classes to merge them.

    Without one parameter both work; nothing said so. Of `blank` it was said that nobody gains by hiding a value.
    """
    threat = BLANK if kind == "blank" else 0.1
    if estimator is ABSOLUTE and kind != "missing":
        return  # any number may be learnt; and no regression tree is grown against attackers who hide values
    with pytest.raises(ValueError, match="Otherwise") as refusal:
        fit(estimator, kind, threat)
    for name, value in limit(estimator).items():
        assert f"{name}={getattr(estimator, name)!r}" in str(refusal.value)
        assert f"{name}={value!r}" in str(refusal.value)
    assert "this model" not in str(refusal.value)
    fit(clone(estimator).set_params(**limit(estimator)), kind, threat)


@pytest.mark.parametrize("estimator", [*LIMITED, ABSOLUTE, HardenedClassifier(TREE(attacker="chen"))], ids=str)
def test_missing_categories(estimator: Any) -> None:
    """They are refused as columns are read, before values are."""
    X = pd.DataFrame({"colour": pd.Categorical(["blue", "red", None] * 4), "size": np.arange(12.0)})
    said = r"X: feature 'colour' is categorical and has a missing value, and .* takes? complete rows only; .* takes?"
    with pytest.raises(ValueError, match=rf"{said} missing values\. Otherwise give them a category of their own"):
        clone(estimator).fit(X, make_target(estimator, 2))


def test_a_hardened_model_takes_missing_categories_if_its_estimator_does() -> None:
    """It refused them, whatever it was to harden."""
    X = pd.DataFrame({"colour": pd.Categorical(["blue", "red", None] * 4), "size": np.arange(12.0)})
    y = np.array([0, 1, 1] * 4)
    model = HardenedClassifier(TREE(), {"size": 0.1}, rounds=1).fit(X, y)
    assert model.predict(X).tolist() == y.tolist()


@pytest.mark.parametrize("estimator", [*LIMITED, ABSOLUTE], ids=str)
def test_categories(estimator: Any) -> None:
    """Attackers that move rows as wholes, and absolute errors, take numbers only."""
    limits = limit(estimator)
    with pytest.raises(ValueError, match=r"X: column 0 is categorical, and .* takes numbers only; ") as refusal:
        fit(estimator, "categories", {1: 0.1})
    assert all(f"{name}={value!r} takes categories" in str(refusal.value) for name, value in limits.items())
    fit(clone(estimator).set_params(**limits), "categories", {1: 0.1})


@pytest.mark.parametrize("kind", ["missing", "classes", "blank"])
@pytest.mark.parametrize("estimator", [TreantClassifier(max_depth=1)], ids=str)
def test_what_takes_it_is_named_where_no_parameter_decides(estimator: Any, kind: str) -> None:
    threat = BLANK if kind == "blank" else 0.1
    with pytest.raises(ValueError, match=rf"{type(estimator).__name__} takes .* only.*; RobustTreeClassifier takes "):
        fit(estimator, kind, threat)
    fit(TREE(max_depth=1), kind, threat)


@pytest.mark.parametrize("kind", ["missing", "blank"])
def test_a_hardened_model_passes_on_what_its_estimator_takes(kind: str) -> None:
    threat, model = BLANK if kind == "blank" else 0.1, HardenedClassifier(TREE(attacker="chen"), rounds=1)
    with pytest.raises(ValueError, match=r"attacker='chen' takes complete rows only.*; attacker='groot' takes missing"):
        fit(model, kind, threat)
    fit(model.set_params(estimator__attacker="groot", estimator__threat=threat), kind, threat)


@pytest.mark.parametrize("threat", [BLANK, FILL], ids=["blank", "fill"])
@pytest.mark.parametrize("estimator", [NUMBER(), ABSOLUTE, RobustForestRegressor(n_estimators=2)], ids=str)
def test_numbers_that_attackers_hide(estimator: Any, threat: ThreatModel) -> None:
    with pytest.raises(ValueError, match=r"blanks values or fills them in; RobustBoostingRegressor can\. Otherwise"):
        fit(estimator, "complete", threat)
    fit(RobustBoostingRegressor(n_estimators=2), "complete", threat)


@pytest.mark.parametrize("threat", [BLANK, FILL], ids=["blank", "fill"])
@pytest.mark.parametrize("estimator", [TREE(rho=0.5), RobustForestClassifier(n_estimators=2, rho=0.5)], ids=str)
def test_a_share_of_attackers_who_hide_values(estimator: Any, threat: ThreatModel) -> None:
    """Forests took `rho=0.5` without a word, and grew as if all attackers hid values."""
    with pytest.raises(ValueError, match=r"rho=0\.5: with blank or fill, expected 0\.0 or 1\.0"):
        fit(estimator, "complete", threat)
    fit(clone(estimator).set_params(rho=1.0), "complete", threat)


ORDERED = RobustBoostingClassifier(mode="ordered", n_estimators=2)
APART = [
    ("attacker='chen': knows no shares", TREE(attacker="chen"), {"attacker": "groot"}, "complete", {1: "10%"}),
    ("criterion='error': with attacker='chen'", TREE(attacker="chen", criterion="error"), {"criterion": "gini"}),
    ("max_bins=4: with attacker='chen'", TREE(attacker="chen", max_bins=4), {"max_bins": "exact"}),
    ("rho=0.5: with attacker='chen'", TREE(attacker="chen", rho=0.5), {"rho": 1.0}),
    ("attacker='chen': with mono", TREE(attacker="chen", monotonic_cst=[0, 1, 0]), {"attacker": "groot"}),
    ("monotonic_cst: for two classes only", TREE(monotonic_cst=[0, 1, 0]), {"monotonic_cst": None}, "classes"),
    (
        "monotonic_cst: feature 0 is cat",
        TREE(monotonic_cst=[1, 0, 0]),
        {"monotonic_cst": [0, 0, 0]},
        "categories",
        None,
    ),
    ("max_bins=4: with criterion=", NUMBER(criterion="absolute_error", max_bins=4), {"max_bins": "exact"}),
    ("mode='ordered': the attacker may blank", ORDERED, {"mode": "free"}, "complete", BLANK),
    ("mode='ordered': the attacker may fill", ORDERED, {"mode": "free"}, "complete", FILL),
]


@pytest.mark.parametrize("case", APART, ids=lambda case: case[0])
def test_parameters_that_do_not_go_together(case: Any) -> None:
    """What is said to be expected fits."""
    said, estimator, remedy, kind, threat = (*case, *("complete", 0.1)[len(case) - 3 :])
    with pytest.raises(ValueError, match=said):
        fit(estimator, kind, threat)
    fit(clone(estimator).set_params(**remedy), kind, threat)


def test_attack_rules() -> None:
    for estimator in (TREE(), RobustForestClassifier(), RobustBoostingClassifier(), OptimalRobustTreeClassifier()):
        with pytest.raises(ValueError, match=r"rules .* not understood here; give how far .* \(TreantClassifier is"):
            fit(estimator, "complete", RULES)
    fit(TreantClassifier(max_depth=1), "complete", RULES)
    with pytest.raises(ValueError, match="method='lowest': knows no attack rules; use method='search'"):
        fit(HardenedClassifier(rounds=1), "complete", RULES)
