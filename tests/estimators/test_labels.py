"""Labels of every kind: what a classifier is fitted to can be written, read back and asked about; dates are refused."""

from __future__ import annotations

import datetime as dt
import warnings
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from hardwood import (
    HardenedClassifier,
    OptimalRobustTreeClassifier,
    RobustBoostingClassifier,
    RobustForestClassifier,
    RobustTreeClassifier,
    TreantClassifier,
    TreeEnsemble,
    as_ensemble,
    attack,
    evaluate,
    stream,
    verify,
)

X = np.random.default_rng(0).normal(size=(40, 2))
IS_ONE = X[:, 0] > 0
ESTIMATORS: dict[str, Any] = {
    "tree": RobustTreeClassifier(0.1, max_depth=2),
    "forest": RobustForestClassifier(0.1, n_estimators=2, random_state=0),
    "boosting": RobustBoostingClassifier(0.1, n_estimators=2, early_stopping=False),
    "treant": TreantClassifier(0.1, max_depth=1),
    "optimal": OptimalRobustTreeClassifier(0.1, max_depth=1),
    "hardened": HardenedClassifier(RobustTreeClassifier(max_depth=2), threat=0.1, rounds=1),
}


def choose(zero: Any, one: Any) -> np.ndarray:
    """Return one of two objects for each row."""
    labels = np.empty(len(X), dtype=object)
    labels[:] = [one if is_one else zero for is_one in IS_ONE]
    return labels


def of_type(dtype: Any, zero: Any = 0, one: Any = 1) -> np.ndarray:
    return np.where(IS_ONE, np.array(one, dtype), np.array(zero, dtype))


def series(dtype: Any, zero: Any = 0, one: Any = 1) -> pd.Series:
    return pd.Series(choose(zero, one).tolist(), dtype=dtype)


DAYS = [pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01")]
DATE, OTHER_DATE = dt.date(2020, 1, 1), dt.date(2021, 1, 1)

GOOD: dict[str, Any] = {
    "truth values": IS_ONE,
    "int": of_type(np.int64),
    "int8": of_type(np.int8, -128, 127),
    "uint64": of_type(np.uint64, 2**63, 2**64 - 1),
    "0 and the largest uint64": of_type(np.uint64, 0, 2**64 - 1),
    "whole floats": of_type(np.float64),
    "half precision": of_type(np.float16),
    "text": of_type(str, "no", "yes"),
    "objects that are text": choose("no", "yes"),
    "objects that are text of numpy": choose(np.str_("no"), np.str_("yes")),
    "text, one empty": choose("", " "),
    "text of digits": choose("1", "01"),
    "text with a mark": choose("\ufeffa", "a"),
    "text of several lines": choose("a\nb", "a"),
    "text that is no Unicode": choose("\ud800", "a"),
    "long text": choose("x" * 100_000, "a"),
    "a list of numbers": of_type(np.int64).tolist(),
    "a list of text": choose("no", "yes").tolist(),
    "a list of text and numbers": choose(1, "yes").tolist(),
    "category": pd.Series(pd.Categorical(choose("no", "yes"))),
    "category of numbers": pd.Series(pd.Categorical(of_type(np.int64))),
    "Int64": series("Int64"),
    "boolean": series("boolean", False, True),
    "string": series("string", "no", "yes"),
    "polars text": pl.Series(choose("no", "yes").tolist()),
    "polars numbers": pl.Series(of_type(np.int64)),
    "polars categories": pl.Series(choose("no", "yes").tolist(), dtype=pl.Categorical),
}
DATES: dict[str, Any] = {
    "datetime64": of_type("datetime64[D]", "2020-01-01", "2021-01-01"),
    "datetime64[ns]": of_type("datetime64[ns]", "2020-01-01", "2021-01-01"),
    "DatetimeIndex": pd.DatetimeIndex(choose(*DAYS).tolist()),
    "Series of dates": pd.Series(choose(*DAYS).tolist()),
    "Series of times somewhere": pd.Series(choose(*DAYS).tolist()).dt.tz_localize("UTC"),
    "Timestamp": choose(*DAYS),
    "date": choose(DATE, OTHER_DATE),
    "datetime": choose(dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1)),
    "time": choose(dt.time(1), dt.time(2)),
    "list of dates": choose(DATE, OTHER_DATE).tolist(),
    "timedelta64": of_type("timedelta64[D]", 1, 2),
    "Timedelta": choose(pd.Timedelta(1), pd.Timedelta(2)),
    "timedelta": choose(dt.timedelta(1), dt.timedelta(2)),
    "Period": pd.Series(pd.PeriodIndex(choose("2020", "2021"), freq="Y")),
    "category of dates": pd.Series(pd.Categorical(choose(*DAYS))),
    "polars dates": pl.Series(choose(DATE, OTHER_DATE).tolist()),
    "dates and text": choose(DATE, "2021-01-01"),
    "text and dates": choose("2020-01-01", OTHER_DATE),
    "dates and numbers": choose(DATE, 1),
}
OTHERS: dict[str, Any] = {
    "integers of 400 digits": choose(10**400, 1),
    "decimals": choose(Decimal(1), Decimal(2)),
    "fractions": choose(Fraction(1), Fraction(2)),
    "tuples": choose((1,), (2,)),
    "bytes": of_type(bytes, b"no", b"yes"),
    "complex numbers": of_type(complex),
    "long double": of_type(np.longdouble),
    "objects that are numbers": choose(0, 1),
    "records": np.array([(k,) for k in IS_ONE], dtype=[("a", int)]),
}
MISSING: dict[str, Any] = {
    "None": choose(None, "yes"),
    "NaN": of_type(float, np.nan, 1.0),
    "NaN among text": choose(float("nan"), "yes"),
    "NA": series("Int64", pd.NA, 1),
    "NaT": choose(pd.NaT, "yes"),
    "infinity": of_type(float, np.inf, 1.0),
}


def fit(name: str, y: Any) -> Any:
    if name != "stream":
        return type(ESTIMATORS[name])(**ESTIMATORS[name].get_params(deep=False)).fit(X, y)
    return RobustTreeClassifier(0.1, max_depth=2).fit(stream(lambda: iter([(X[:20], y[:20]), (X[20:], y[20:])])))


def each(kinds: dict[str, Any]) -> Any:
    pairs = [(name, kind) for name in (*ESTIMATORS, "stream") for kind in kinds]
    return pytest.mark.parametrize(("name", "kind"), pairs)


@each(GOOD)
def test_what_is_accepted_can_be_kept(name: str, kind: str) -> None:
    """Classes of uint64 came back from JSON as floats, of which several are one."""
    y = GOOD[kind]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit(name, y)
        ensemble = as_ensemble(model)
        again = TreeEnsemble.parse_json(ensemble.to_json())
        expected = model.predict(X).tolist()
        assert again.predict(X).tolist() == expected
        assert again.labels.tolist() == ensemble.labels.tolist()
        assert len(set(expected)) == 2
        for asked in (model, again):
            assert evaluate(asked, X, y, 0.1).accuracy == np.mean(np.array(expected) == np.asarray(y))
            assert verify(asked, X, y, 0.1).status.shape == attack(asked, X, y, 0.1).found.shape


@each(DATES)
def test_dates_are_refused(name: str, kind: str) -> None:
    """A model of dates could be fitted, and then not saved: "Object of type datetime is not JSON serializable"."""
    with pytest.raises(
        ValueError, match=r"y(\[\d+\])? is .*Unknown label type; .*y\.astype\(str\) makes text of labels"
    ):
        fit(name, DATES[kind])


@pytest.mark.parametrize("kind", DATES)
def test_the_remedy_works(kind: str) -> None:
    y = pd.Series(DATES[kind]).astype(str)
    test = TreeEnsemble.parse_json(fit("tree", y).ensemble_.to_json())
    assert set(test.predict(X)) == set(y)


@each(OTHERS | MISSING)
def test_what_is_no_label_is_refused(name: str, kind: str) -> None:
    with pytest.raises(ValueError, match=r"y\[\d+\]|y is |Input y contains|is missing"):
        fit(name, (OTHERS | MISSING)[kind])


def test_a_zero_character_at_the_end() -> None:
    """Arrays of numpy forget it, so that the model did not know its own class any more."""
    with pytest.raises(ValueError, match="y: a label ends with a zero character"):
        fit("tree", choose("a\0", "a"))
    text = fit("tree", choose("b", "a")).ensemble_.to_json()
    for labels in ('["a\\u0000", "b"]', "[18446744073709551616, 1]", "[-1, 18446744073709551615]"):
        with pytest.raises(ValueError, match="classes has a label with a zero character or too many digits"):
            TreeEnsemble.parse_json(text.replace('["a", "b"]', labels))
