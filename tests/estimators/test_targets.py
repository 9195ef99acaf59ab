"""Targets from one end of float64 to the other: predicted in any unit, refused where they do not add up."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from hardwood import (
    RobustBoostingRegressor,
    RobustForestRegressor,
    RobustTreeRegressor,
    TreeEnsemble,
    attack,
    evaluate,
    make_adversarial_scorer,
    stream,
    verify,
)

GENERATOR = np.random.default_rng(0)
X = GENERATOR.integers(-8, 9, (60, 3)) * 0.25
Y = np.round(X[:, 0] + X[:, 1] + 0.4 * GENERATOR.normal(size=60), 2)
SMALL: dict[str, Any] = {"max_depth": 3}
FEW: dict[str, Any] = {"n_estimators": 3, "max_depth": 3, "random_state": 0}
ESTIMATORS: dict[str, Any] = {
    "tree": RobustTreeRegressor(0.1, **SMALL),
    "absolute error": RobustTreeRegressor(0.1, criterion="absolute_error", **SMALL),
    "bins": RobustTreeRegressor(0.1, max_bins=9, **SMALL),
    "rho": RobustTreeRegressor(0.1, rho=0.3, **SMALL),
    "greedy leaves": RobustTreeRegressor(0.1, refit_leaves=False, **SMALL),
    "forest": RobustForestRegressor(0.1, **FEW),
    "exact forest": RobustForestRegressor(0.1, max_bins="exact", **FEW),
    "boosting": RobustBoostingRegressor(0.1, early_stopping=False, **FEW),
    "boosting, early": RobustBoostingRegressor(0.1, **FEW),
    "boosting, ordered": RobustBoostingRegressor(0.1, mode="ordered", early_stopping=False, **FEW),
}
STREAMED = ["tree", "bins", "rho", "forest", "boosting", "boosting, early"]
WAYS = [*((name, False) for name in ESTIMATORS), *((name, True) for name in STREAMED)]
LARGEST = float(np.finfo(np.float64).max)


def fit(name: str, y: np.ndarray, *, streamed: bool = False) -> Any:
    model = type(ESTIMATORS[name])(**ESTIMATORS[name].get_params())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return model.fit(stream(X, y, batch_rows=25)) if streamed else model.fit(X, y)


# The largest power of two of which multiples of `Y` can be added up. Forests add up predictions, boosting squares.
LARGEST_POWER = {"forest": 1000, "exact forest": 1000} | dict.fromkeys([n for n in ESTIMATORS if "boost" in n], 495)


class TestAnyUnit:
    @pytest.mark.parametrize(("name", "streamed"), WAYS)
    def test_powers_of_two(self, name: str, streamed: bool) -> None:
        """A model of targets in another unit predicts the same numbers in it, but for last bits, or says what is wrong.

        Boosting predicted minus infinity for targets of 1.7e308, and its JSON could not be written.
        """
        expected = fit(name, Y, streamed=streamed).predict(X)
        for power in (-1000, -501, -170, 1, 170, 495, 1000, 1018, 1021):
            if power > LARGEST_POWER.get(name, 1018):
                with pytest.raises(
                    ValueError, match=r"y: .* is too large.* expected numbers up to .* Scale the target"
                ):
                    fit(name, np.ldexp(Y, power), streamed=streamed)
                continue
            model = fit(name, np.ldexp(Y, power), streamed=streamed)
            assert np.allclose(np.ldexp(model.predict(X), -power), expected, rtol=1e-7)
            assert np.array_equal(TreeEnsemble.parse_json(model.ensemble_.to_json()).predict(X), model.predict(X))

    @pytest.mark.parametrize(("name", "streamed"), WAYS)
    def test_both_ends(self, name: str, streamed: bool) -> None:
        y = np.where(Y > 0, LARGEST, -LARGEST)
        with pytest.raises(ValueError, match=r"y: .* is too large"):
            fit(name, y, streamed=streamed)
        for tiny in (5e-324, 1e-310, 1e-300):
            assert np.isfinite(fit(name, np.where(Y > 0, tiny, -tiny), streamed=streamed).predict(X)).all()

    def test_a_forest_adds_up(self) -> None:
        with pytest.raises(
            ValueError, match=r"expected numbers up to 2\.25e\+305, as n_estimators=100 predictions are"
        ):
            RobustForestRegressor(n_estimators=100).fit(X, np.ldexp(Y, 1018))


REPORTED = ("squared_error", "constant_squared_error", "absolute_error", "constant_absolute_error")


class TestAsked:
    @pytest.mark.parametrize("name", ["tree", "forest"])
    def test_reports_in_any_unit(self, name: str) -> None:
        """Means overflowed, with warnings of numpy; now squares beyond float64 are infinite, absolute errors not."""
        plain = evaluate(fit(name, Y), X, Y, 0.1)
        for power in (-500, 200, 508, 700, 1010):
            y = np.ldexp(Y, power)
            model = fit(name, y)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                report = evaluate(model, X, y, 0.1)
                assert all([str(report), report._repr_html_(), repr(report)])
                frame = report.to_frame("curve")
                assert np.isfinite(attack(model, X, y, 0.1).upper).all()
                assert verify(model, X, y, 0.1, tolerance=float(np.ldexp(1.0, power))).status.shape == (60,)
            for value in REPORTED:
                scale = 2 * power if "squared" in value else power
                with np.errstate(over="ignore"):
                    expected = float(np.ldexp(getattr(plain, value), scale))
                assert getattr(report, value) == pytest.approx(expected, rel=1e-6)
            assert report.worst_absolute_error.upper == pytest.approx(np.ldexp(plain.worst_absolute_error.upper, power))
            assert np.isfinite(frame["absolute_error"]).all()
            assert np.isfinite(frame["squared_error"]).all() == (power < 510)

    def test_scores_are_numbers(self) -> None:
        """Squares beyond float64 made a score of minus infinity, which a search cannot compare."""
        y = np.ldexp(Y, 700)
        model = fit("tree", y)
        assert np.isfinite(make_adversarial_scorer(0.1, metric="neg_worst_absolute_error")(model, X, y))
        with pytest.raises(
            ValueError, match=r"y: .*more than float64 can hold; choose metric='neg_worst_absolute_error'"
        ):
            make_adversarial_scorer(0.1, metric="neg_worst_squared_error")(model, X, y)

    @pytest.mark.parametrize("ask", [evaluate, attack, verify], ids=lambda function: function.__name__)
    def test_what_is_asked_about_stays_in_range(self, ask: Any) -> None:
        model, options = fit("tree", Y), {"tolerance": 1.0} if ask is verify else {}
        for y, words in (
            (
                np.where(Y > 0, LARGEST, -LARGEST),
                r"y: -?1\.8e\+308 in row 0 is too large; expected numbers up to 2\.25e",
            ),
            ([10**400] * 60, r"y, .*: expected numbers up to 1\.8e308"),
            (["1.0"] * 60, r"y, as the model is a regression: expected numbers, got '1\.0'"),
            (np.full(60, np.nan), "y: expected finite values"),
        ):
            with pytest.raises(ValueError, match=words):
                ask(model, X, y, 0.1, **options)
