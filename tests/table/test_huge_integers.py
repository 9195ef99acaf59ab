"""Integers of hundreds of digits, which columns of objects can hold and float64 cannot: a sentence at every door."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.tree import DecisionTreeClassifier

import hardwood
from hardwood import (
    RobustBoostingClassifier,
    RobustForestClassifier,
    RobustTreeClassifier,
    RobustTreeRegressor,
    TreantClassifier,
    adversarial_accuracy,
    as_ensemble,
    attack,
    evaluate,
    is_vulnerable,
    make_adversarial_scorer,
    refine,
    stream,
    verify,
)

N_ROWS = 20
HUGE = [10**400, -(10**400), 10**5000]
X = pd.DataFrame({"a": np.arange(20.0), "b": np.arange(20.0) * 7 % 5})
Y = np.arange(20) // 5 % 2
CLASSIFIERS: list[Any] = [
    RobustTreeClassifier(0.1), RobustForestClassifier(n_estimators=1), TreantClassifier(max_depth=1),
    RobustBoostingClassifier(n_estimators=1, early_stopping=False),
]  # fmt: skip
MODELS = [*CLASSIFIERS, RobustTreeRegressor(0.1)]
SENTENCE = (
    r"feature 'b' holds (-?1000.* \(40\d characters\)|int too long to write out), expected numbers up to 1\.8e308"
)
each_number = pytest.mark.parametrize("number", HUGE, ids=["large", "small", "too long to write out"])


def put(number: int) -> pd.DataFrame:
    """Return the table with a number in its second column."""
    return X.assign(b=pd.Series([*range(N_ROWS - 1), number], dtype=object))


def among(number: Any, like: Any = 1) -> list[Any]:
    return [*[like] * (N_ROWS - 1), number]


ASKED: dict[str, Callable[[Any, Any], Any]] = {
    "predict": lambda model, X: model.predict(X),
    "ensemble": lambda model, X: as_ensemble(model).apply(X),
    "verify": lambda model, X: verify(model, X, Y, 0.1, **tolerate(model)),
    "attack": lambda model, X: attack(model, X, Y, 0.1),
    "evaluate": lambda model, X: evaluate(model, X, Y, 0.1),
    "scorer": lambda model, X: make_adversarial_scorer(
        0.1, metric="accuracy" if as_ensemble(model).classes is not None else "neg_worst_absolute_error"
    )(model, X, Y),
}


def tolerate(model: Any) -> dict[str, float]:
    return {} if as_ensemble(model).classes is not None else {"tolerance": 1.0}


class TestTables:
    """A column of objects with an integer of 400 digits was an OverflowError; only the command line had a sentence."""

    @each_number
    @pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
    def test_fit(self, model: Any, number: int) -> None:
        with pytest.raises(ValueError, match=SENTENCE):
            model.fit(put(number), Y)
        with pytest.raises(ValueError, match=SENTENCE.replace("'b'", "1")):
            model.fit(put(number).to_numpy(dtype=object), Y)

    @each_number
    @pytest.mark.parametrize("door", ASKED)
    @pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
    def test_asked(self, model: Any, door: str, number: int) -> None:
        model.fit(X, Y)
        with pytest.raises(ValueError, match=SENTENCE):
            ASKED[door](model, put(number))

    @each_number
    def test_more_doors(self, number: int) -> None:
        model, table = RobustTreeClassifier(0.1).fit(X, Y), put(number)
        for ask in (
            lambda: is_vulnerable(model, table, Y, 0.1),
            lambda: adversarial_accuracy(model, table, Y, 0.1),
            lambda: refine(model, table, Y),
            lambda: hardwood.ThreatModel(1).contains(table, table),
            lambda: hardwood.find_one_hot_groups(table),
            lambda: RobustTreeClassifier(0.1).fit(stream(lambda: iter([(table, Y)]))),
        ):
            with pytest.raises(ValueError, match=SENTENCE):
                ask()

    @each_number
    def test_of_models_of_others(self, number: int) -> None:
        model = DecisionTreeClassifier().fit(X, Y)
        for ask in (
            as_ensemble,
            lambda model, X: verify(model, X, Y, 0.1),
            lambda model, X: evaluate(model, X, Y, 0.1),
        ):
            with pytest.raises(ValueError, match=SENTENCE):
                ask(model, put(number))

    def test_as_large_as_a_float_can_be(self) -> None:
        """What float64 can hold is a number, in a column of objects as well."""
        model = RobustTreeClassifier().fit(put(10**308), Y)
        assert np.array_equal(model.predict(put(10**308)), model.predict(put(1e308)))

    @each_number
    def test_as_a_category(self, number: int) -> None:
        table = X.assign(k=pd.Series(among(number), dtype=object))
        with pytest.raises(ValueError, match=r"is not a str, bool, or number up to 1\.8e308; convert it to text"):
            RobustTreeClassifier(categorical_features=["k"]).fit(table, Y)

    def test_in_polars(self) -> None:
        table = pl.DataFrame({"a": X["a"].tolist(), "b": pl.Series(among(10**400), dtype=pl.Object)})
        with pytest.raises(ValueError, match=SENTENCE):
            RobustTreeClassifier().fit(table, Y)


KINDS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "array": lambda values: np.array(values, dtype=object),
    "Series": lambda values: pd.Series(values, dtype=object),
}


@each_number
@pytest.mark.parametrize("kind", KINDS)
class TestBesideTables:
    def test_targets(self, kind: str, number: int) -> None:
        y, fitted = KINDS[kind](among(number)), RobustTreeRegressor().fit(X, Y)
        for ask in (
            lambda: RobustTreeRegressor().fit(X, y),
            lambda: evaluate(fitted, X, y, 0.1),
            lambda: attack(fitted, X, y, 0.1),
            lambda: verify(fitted, X, y, 0.1, tolerance=1.0),
            lambda: RobustTreeRegressor().fit(stream(lambda: iter([(X, y)]))),
        ):
            with pytest.raises(ValueError, match=r"y.*: expected numbers up to 1\.8e308, got"):
                ask()

    def test_labels(self, kind: str, number: int) -> None:
        y, fitted = KINDS[kind](among(number)), RobustTreeClassifier().fit(X, Y)
        for ask in (
            *(lambda model=model: model.fit(X, y) for model in CLASSIFIERS),
            lambda: evaluate(fitted, X, y, 0.1),
            lambda: attack(fitted, X, y, 0.1),
            lambda: verify(fitted, X, y, 0.1),
        ):
            with pytest.raises(ValueError, match=r"^y(\[\d+\])?[: ]"):
                ask()

    def test_weights(self, kind: str, number: int) -> None:
        weight, fitted = KINDS[kind](among(number)), RobustTreeClassifier(0.1).fit(X, Y)
        for ask in (
            *(lambda model=model: model.fit(X, Y, sample_weight=weight) for model in MODELS),
            lambda: adversarial_accuracy(fitted, X, Y, 0.1, sample_weight=weight),
            lambda: refine(fitted, X, Y, sample_weight=weight),
            lambda: RobustTreeClassifier().fit(stream(lambda: iter([(X, Y, weight)]))),
        ):
            with pytest.raises(ValueError, match=r"sample_weight: expected numbers up to 1\.8e308, got"):
                ask()

    def test_feature_weights_and_epsilons(self, kind: str, number: int) -> None:
        model = RobustTreeClassifier().fit(X, Y)
        with pytest.raises(ValueError, match=r"feature_weight: expected numbers up to 1\.8e308"):
            attack(model, X, Y, feature_weight=KINDS[kind]([1, number]))
        with pytest.raises(ValueError, match=r"epsilons: expected numbers up to 1\.8e308"):
            evaluate(model, X, Y, 0.1, epsilons=KINDS[kind]([1, number]))


@each_number
def test_single_numbers(number: int) -> None:
    """Limits of time and tolerances: too large for a float is no number."""
    classifier, regressor = RobustTreeClassifier().fit(X, Y), RobustTreeRegressor().fit(X, Y)
    for name, ask in {
        "time_limit": lambda: attack(classifier, X, Y, time_limit=number),
        "ceiling_time_limit": lambda: evaluate(classifier, X, Y, 0.1, ceiling_time_limit=number),
        "tolerance": lambda: verify(regressor, X, Y, 0.1, tolerance=number),
        "decision_threshold": lambda: evaluate(classifier, X, Y, 0.1, positive_class=1, decision_threshold=number),
        "factor": lambda: hardwood.ThreatModel(1).scaled(number),
        "threat": lambda: verify(classifier, X, Y, number),
        "price": lambda: refine(classifier, X, Y, 0.1, price=number),
        "class_weight of 0": lambda: RobustTreeClassifier(class_weight={0: number}).fit(X, Y),
    }.items():
        with pytest.raises(ValueError, match=rf"{name}[=:]"):
            ask()
