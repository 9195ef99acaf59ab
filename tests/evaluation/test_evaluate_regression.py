"""Regressions under attack: `evaluate`, `attack`, `verify` and scorers, against every point that matters."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.tree import DecisionTreeRegressor

from hardwood import (
    RobustBoostingRegressor,
    RobustForestRegressor,
    RobustTreeClassifier,
    RobustTreeRegressor,
    ThreatModel,
    as_ensemble,
    attack,
    evaluate,
    make_adversarial_scorer,
    verify,
)

EPSILON = 0.15


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.random((80, 2))
    return X, 3.0 * X[:, 0] + np.sin(7.0 * X[:, 1]) + 0.2 * generator.normal(size=80)


MODELS: dict[str, Any] = {
    "ours": RobustTreeRegressor(EPSILON, max_depth=4),
    "ours, absolute error": RobustTreeRegressor(EPSILON, criterion="absolute_error", max_depth=3),
    "our forest": RobustForestRegressor(EPSILON, n_estimators=3, max_depth=3, random_state=0),
    "our boosting": RobustBoostingRegressor(EPSILON, n_estimators=5, max_depth=2),
    "tree": DecisionTreeRegressor(max_depth=5, random_state=0),
    "forest": RandomForestRegressor(4, max_depth=4, random_state=0),
    "boosting": GradientBoostingRegressor(n_estimators=6, max_depth=2, random_state=0),
    "histograms": HistGradientBoostingRegressor(max_iter=5, max_leaf_nodes=5, min_samples_leaf=5),
}


def enumerate_outputs(model: Any, X: np.ndarray, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest prediction within reach: at a point of every cell between thresholds."""
    ensemble = as_ensemble(model)
    lowest, highest = np.empty(len(X)), np.empty(len(X))
    for i, row in enumerate(X):
        axes = []
        for j, value in enumerate(row):
            mine = ensemble.threshold[ensemble.feature == j]
            low, high = value - epsilon, value + epsilon
            points = np.concatenate([[low, high], mine, np.nextafter(mine, np.inf)])
            axes.append(np.unique(points[(low <= points) & (points <= high)]))
        outputs = model.predict(np.array(list(itertools.product(*axes))))
        lowest[i], highest[i] = outputs.min(), outputs.max()
    return lowest, highest


@pytest.mark.parametrize("name", MODELS)
def test_worst_errors_by_enumeration(name: str, table: Any) -> None:
    X, y = table
    model = MODELS[name].fit(X, y)
    report = evaluate(model, X[:25], y[:25], EPSILON, epsilons=[0.5, 1.0, 1.7], time_limit=None)
    np.testing.assert_allclose(report.prediction, model.predict(X[:25]))
    for k, epsilon in enumerate(report.epsilons):
        lowest, highest = enumerate_outputs(model, X[:25], epsilon * EPSILON)
        np.testing.assert_allclose(report.lowest[k], lowest, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(report.highest[k], highest, rtol=1e-6, atol=1e-6)
        worst = np.maximum(np.abs(lowest - y[:25]), np.abs(highest - y[:25]))
        assert report.squared_error_at(epsilon).upper == pytest.approx(np.mean(worst**2), rel=1e-5)
        assert report.absolute_error_at(epsilon).lower == pytest.approx(np.mean(worst), rel=1e-5)
    assert report.squared_error_at(0.0) == (pytest.approx(report.squared_error),) * 2


@pytest.mark.parametrize("name", MODELS)
def test_attack_finds_the_largest_error(name: str, table: Any) -> None:
    X, y = table
    model = MODELS[name].fit(X, y)
    result = attack(model, X[:25], y[:25], EPSILON)
    lowest, highest = enumerate_outputs(model, X[:25], EPSILON)
    worst = np.maximum(np.abs(lowest - y[:25]), np.abs(highest - y[:25]))
    np.testing.assert_allclose(result.error, worst, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(np.abs(model.predict(result.X_adv) - y[:25]), result.error, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(result.prediction, model.predict(result.X_adv), rtol=1e-6, atol=1e-6)
    assert (result.upper >= result.error).all()
    assert ThreatModel(EPSILON).contains(X[:25], result.X_adv).all()
    np.testing.assert_allclose(result.distance, np.abs(result.X_adv - X[:25]).max(axis=1))
    assert (result.error >= result.error_before).all()
    np.testing.assert_array_equal(result.X_adv[~result.made_worse], X[:25][~result.made_worse])


class TestAttack:
    def test_without_targets_and_threat(self, table: Any) -> None:
        """Without a threat every value is within reach, without targets the change of the prediction counts."""
        X, y = table
        model = MODELS["tree"].fit(X, y)
        result = attack(model, X)
        leaves = model.tree_.value[model.tree_.feature < 0, 0, 0]
        own = model.predict(X)
        np.testing.assert_allclose(result.error, np.maximum(own - leaves.min(), leaves.max() - own))
        assert (result.error_before == 0.0).all()

    def test_norms_weights_and_words(self, table: Any) -> None:
        X, y = table
        model = MODELS["ours"].fit(X, y)
        counted = attack(model, X, y, EPSILON, norm=0)
        assert set(counted.distance.tolist()) <= {0.0, 1.0, 2.0}
        weighted = attack(model, X, y, EPSILON, feature_weight=[2.0, 0.0])
        np.testing.assert_allclose(weighted.distance, 2.0 * np.abs(weighted.X_adv[:, 0] - X[:, 0]))
        assert repr(counted).startswith("RegressionAttackResult(rows=80, made_worse=")
        with pytest.raises(ValueError, match="method='milp': the model is a regression; expected 'search'"):
            attack(model, X, y, EPSILON, method="milp")

    def test_tables_come_back_as_they_were(self, table: Any) -> None:
        """Whole numbers stay whole where the error stays as large."""
        X, y = table
        frame = pd.DataFrame({"a": np.round(20.0 * X[:, 0]).astype(int), "b": X[:, 1]}, index=np.arange(80) + 7)
        model = RobustTreeRegressor(max_depth=4).fit(frame, y)
        result = attack(model, frame, y, {"a": 2})
        assert result.X_adv.index.tolist() == frame.index.tolist()
        assert result.X_adv["a"].dtype.kind == "i"
        np.testing.assert_allclose(np.abs(model.predict(result.X_adv) - y), result.error)


class TestReport:
    def test_figures(self, table: Any) -> None:
        X, y = table
        report = evaluate(MODELS["ours"].fit(X, y), X, y, EPSILON)
        assert report.constant_squared_error == pytest.approx(((y - y.mean()) ** 2).mean())
        assert report.constant_absolute_error == pytest.approx(np.abs(y - np.median(y)).mean())
        assert report.absolute_error == pytest.approx(np.abs(report.prediction - y).mean())
        assert report.worst_squared_error.is_exact
        assert report.worst_squared_error.lower >= report.squared_error
        assert report.worst_absolute_error.lower >= report.absolute_error
        with pytest.raises(ValueError, match=r"epsilon=0.3: not looked at; expected one of \[0.0, 1.0\]"):
            report.squared_error_at(0.3)

    def test_words(self, table: Any) -> None:
        X, y = table
        report = evaluate(MODELS["ours"].fit(X, y), X, y, EPSILON, epsilons=[0.5])
        text = str(report)
        assert text.startswith("80 rows under ThreatModel(0.15)")
        assert [line.split()[0] for line in text.splitlines()[2:6]] == ["mean", "as", "under", "best"]
        assert "times the threat" in text
        page = report._repr_html_()
        assert page.count("<table>") == 2
        assert "best constant" in page
        assert repr(report).startswith("RegressionReport(squared_error=")

    def test_frames(self, table: Any) -> None:
        X, y = table
        frame = pd.DataFrame(X, columns=["a", "b"], index=[f"row {k}" for k in range(80)])
        model = MODELS["ours"].fit(frame, y)
        rows = evaluate(model, frame, y, EPSILON).to_frame()
        assert rows.index.tolist() == frame.index.tolist()
        assert rows.columns.tolist() == [
            "target", "prediction", "lowest", "highest", "worst_error_lower", "worst_error",
        ]  # fmt: skip
        assert ((rows["lowest"] <= rows["prediction"]) & (rows["prediction"] <= rows["highest"])).all()
        curve = evaluate(model, pl.from_pandas(frame), y, EPSILON, epsilons=[2.0]).to_frame("curve")
        assert isinstance(curve, pl.DataFrame)
        assert curve["squared_error"].is_sorted()
        with pytest.raises(ValueError, match="of='classes': expected 'rows' or 'curve'"):
            evaluate(model, frame, y, EPSILON).to_columns("classes")

    def test_time_that_is_not_enough_makes_intervals(self, table: Any) -> None:
        X, y = table
        forest = RandomForestRegressor(40, random_state=0).fit(X, y)
        report = evaluate(forest, X[:10], y[:10], 0.4, time_limit=0.0)
        assert not report.worst_squared_error.is_exact
        exact = evaluate(MODELS["forest"].fit(X, y), X[:10], y[:10], 0.4, time_limit=None)
        assert exact.worst_squared_error.lower == pytest.approx(exact.worst_squared_error.upper)
        assert (report.lowest[-1] <= report.lowest_reached[-1]).all()
        assert (report.highest[-1] >= report.highest_reached[-1]).all()
        assert " to " in str(report.worst_squared_error)

    def test_progress_and_bad_input(self, table: Any) -> None:
        X, y = table
        model, steps = MODELS["ours"].fit(X, y), []
        evaluate(model, X, y, EPSILON, epsilons=[2.0], progress=lambda done, total: steps.append((done, total)))
        assert steps[-1] == (240, 240)
        with pytest.raises(ValueError, match="y: expected a number per row, got None"):
            evaluate(model, X, None, EPSILON)
        with pytest.raises(ValueError, match="distances=True: the model is a regression"):
            evaluate(model, X, y, EPSILON, distances=True)
        with pytest.raises(ValueError, match="positive_class=1: the model is a regression"):
            evaluate(model, X, y, EPSILON, positive_class=1)

    def test_curve(self, table: Any, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        from hardwood.plot import RobustnessCurveDisplay, save_robustness_curve

        X, y = table
        report = evaluate(MODELS["ours"].fit(X, y), X, y, EPSILON, epsilons=[0.5, 1.5])
        display = RobustnessCurveDisplay.from_report(report, name="tree")
        assert display.is_error
        np.testing.assert_allclose(display.upper, [report.squared_error_at(e).upper for e in report.epsilons])
        save_robustness_curve(report, tmp_path / "curve.png")
        assert (tmp_path / "curve.png").stat().st_size > 1000
        drawn = RobustnessCurveDisplay.from_estimator(MODELS["tree"].fit(X, y), X, y, EPSILON).plot()
        assert drawn.ax_.get_ylabel() == "mean squared error under attack"
        other = display.plot(drawn.ax_)
        assert other.ax_.get_ylim()[1] >= 1.05 * drawn.upper.max()
        import matplotlib.pyplot as plt

        plt.close("all")


class TestScorer:
    def test_same_as_the_report(self, table: Any) -> None:
        X, y = table
        weight = np.random.default_rng(0).random(80)
        for name in ("ours", "forest"):
            model = MODELS[name].fit(X, y)
            report = evaluate(model, X, y, EPSILON, time_limit=None)
            squared = make_adversarial_scorer(EPSILON, metric="neg_worst_squared_error")
            absolute = make_adversarial_scorer(EPSILON, metric="neg_worst_absolute_error")
            assert squared(model, X, y) == pytest.approx(-report.worst_squared_error.upper)
            assert absolute(model, X, y) == pytest.approx(-report.worst_absolute_error.upper)
            _, worst = report.errors_at(1.0)
            assert squared(model, X, y, weight) == pytest.approx(-np.average(worst**2, weights=weight))

    def test_model_selection(self, table: Any) -> None:
        X, y = table
        scorer = make_adversarial_scorer(EPSILON, metric="neg_worst_squared_error")
        search = GridSearchCV(RobustTreeRegressor(EPSILON), {"max_depth": [1, 4]}, scoring=scorer, cv=3).fit(X, y)
        assert search.best_score_ < 0.0

    def test_metrics_of_the_other_kind_are_refused(self, table: Any) -> None:
        X, y = table
        model = MODELS["ours"].fit(X, y)
        with pytest.raises(
            ValueError, match=r"metric='accuracy': the model is a regression; expected one of neg_worst"
        ):
            make_adversarial_scorer(EPSILON)(model, X, y)
        classifier = RobustTreeClassifier(EPSILON).fit(X, y > 1.0)
        with pytest.raises(ValueError, match=r"metric='neg_worst_squared_error': the model is a classifier"):
            make_adversarial_scorer(EPSILON, metric="neg_worst_squared_error")(classifier, X, y > 1.0)


def test_verify_says_the_same(table: Any) -> None:
    X, y = table
    model = MODELS["ours"].fit(X, y)
    report, bounds = evaluate(model, X, y, EPSILON), verify(model, X, y, EPSILON, tolerance=1.0)
    np.testing.assert_array_equal(report.lowest[1], bounds.lower)
    np.testing.assert_array_equal(report.highest[1], bounds.upper)
    _, worst = report.errors_at(1.0)
    assert (bounds.status == np.where(worst > 1.0, "vulnerable", "robust")).all()
    vulnerable = bounds.status == "vulnerable"
    assert (np.abs(model.predict(bounds.witness[vulnerable]) - y[vulnerable]) > 1.0).all()
