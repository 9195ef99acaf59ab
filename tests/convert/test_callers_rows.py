"""An import is compared with its source on the very rows that it is asked about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sameness import make_table, make_target
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor

from hardwood import (
    RobustTreeClassifier,
    adversarial_accuracy,
    as_ensemble,
    attack,
    evaluate,
    is_vulnerable,
    make_adversarial_scorer,
    verify,
)


class ContraryAt(RandomForestClassifier):
    """Predicts otherwise where the first column is 77, which is near no threshold: only the caller's rows tell."""

    def predict(self, X: Any) -> Any:
        return np.where(np.asarray(X)[:, 0] == 77.0, 1 - super().predict(X), super().predict(X))


class TestRows:
    X = make_table()

    def test_rows_that_differ_are_named(self) -> None:
        model = ContraryAt(3, random_state=0).fit(self.X, make_target(self.X, 2))
        as_ensemble(model)
        as_ensemble(model, self.X)
        rows = self.X.copy()
        rows[[4, 9], 0] = 77.0
        message = r"ContraryAt predicts otherwise than its import on 2 of 300 rows \(counted from 0: 4, 9\)"
        with pytest.raises(ValueError, match=message):
            as_ensemble(model, rows)
        with pytest.raises(ValueError, match=message):
            as_ensemble(model, pd.DataFrame(rows))

    def test_regressions(self) -> None:
        class Contrary(RandomForestRegressor):
            def predict(self, X: Any) -> Any:
                return super().predict(X) + (np.asarray(X)[:, 0] == 77.0)

        model = Contrary(3, random_state=0).fit(self.X, make_target(self.X, 0))
        as_ensemble(model, self.X)
        with pytest.raises(ValueError, match="on 1 of 1 rows"):
            as_ensemble(model, [[77.0, 0.0, 0.0, 0.0]])

    @pytest.mark.parametrize("kind", [np.asarray, np.float32, pd.DataFrame, pl.DataFrame, np.ndarray.tolist])
    def test_any_table(self, kind: Any) -> None:
        """Names of columns that only the table or only the model has are no matter for a warning."""
        y = make_target(self.X, 2)
        plain = RandomForestClassifier(3, random_state=0).fit(self.X, y)
        table = kind(self.X)
        assert as_ensemble(plain, table).predict(table).tolist() == plain.predict(np.asarray(table)).tolist()
        named = RandomForestClassifier(3, random_state=0).fit(pd.DataFrame(self.X, columns=list("abcd")), y)
        as_ensemble(named, np.asarray(table))

    def test_a_table_that_the_source_refuses(self) -> None:
        class Picky(RandomForestClassifier):
            def predict(self, X: Any) -> Any:
                if len(X) == 300:
                    raise KeyError("not these")
                return super().predict(X)

        model = Picky(3).fit(self.X, make_target(self.X, 2))
        with pytest.raises(ValueError, match="X: Picky itself does not predict for this table: 'not these'"):
            as_ensemble(model, self.X)

    def test_files(self, tmp_path: Path) -> None:
        """What is in a file is the source."""
        xgb = pytest.importorskip("xgboost")
        y = make_target(self.X, 2)
        model = xgb.XGBClassifier(n_estimators=3, n_jobs=1).fit(pd.DataFrame(self.X, columns=list("abcd")), y)
        model.save_model(tmp_path / "model.json")
        as_ensemble(tmp_path / "model.json", self.X)
        with pytest.raises(ValueError, match="feature names should match"):
            as_ensemble(tmp_path / "model.json", pd.DataFrame(self.X, columns=list("abce")))


class TestLabelsThatNobodyKnows:
    """A column whose every label is unseen is another spelling, and what is said of it says nothing."""

    X = pd.DataFrame({"c": pd.Categorical(["red", "green", "blue", "red"] * 10), "n": np.arange(40.0)})
    y = np.array([0, 1, 1, 0] * 10)

    @pytest.mark.parametrize("kind", ["hardwood", "ensemble", "scikit-learn"])
    def test_all_of_them(self, kind: str) -> None:
        model: Any = HistGradientBoostingClassifier(categorical_features="from_dtype", min_samples_leaf=1)
        if kind != "scikit-learn":
            model = RobustTreeClassifier(threat=0.0, max_depth=3)
        model.fit(self.X, self.y)
        model = model.ensemble_ if kind == "ensemble" else model
        as_ensemble(model, self.X)
        other = self.X.assign(c=self.X["c"].cat.rename_categories(str.upper))
        message = r"feature 'c' holds the categories 'RED', 'GREEN', 'BLUE', and the model knows none of them; it knows"
        with pytest.raises(ValueError, match=message + " 'blue', 'green', 'red'"):
            as_ensemble(model, other)

    def test_some_of_them(self) -> None:
        model = RobustTreeClassifier(threat=0.0).fit(self.X, self.y)
        as_ensemble(model, self.X.assign(c=pd.Categorical(["red", "mauve"] * 20)))
        as_ensemble(model, self.X.assign(c=pd.Categorical(["mauve"] * 40)))
        as_ensemble(model, self.X.assign(c="mauve")[:1])


class TestAnswers:
    """Whatever answers questions about a model of another library compares it on the rows it was given, first."""

    X = make_table(60)
    y = make_target(X, 2)

    @pytest.mark.parametrize(
        "ask",
        [
            lambda model, X, y: verify(model, X, y, 0.1),
            lambda model, X, y: attack(model, X, y),
            lambda model, X, y: is_vulnerable(model, X, y, 0.1),
            lambda model, X, y: adversarial_accuracy(model, X, y, 0.1),
            lambda model, X, y: evaluate(model, X, y, 0.1),
            lambda model, X, y: make_adversarial_scorer(0.1)(model, X, y),
            lambda model, X, y: make_adversarial_scorer(0.1, time_limit=1.0)(model, X, y),
        ],
        ids=["verify", "attack", "is_vulnerable", "adversarial_accuracy", "evaluate", "scorer", "scorer with a limit"],
    )
    def test_refused_where_the_source_differs(self, ask: Any) -> None:
        model = ContraryAt(2, max_depth=2, random_state=0).fit(self.X, self.y)
        ask(model, self.X, self.y)
        rows = self.X.copy()
        rows[7, 0] = 77.0
        with pytest.raises(ValueError, match=r"ContraryAt predicts otherwise .* \(counted from 0: 7\)"):
            ask(model, rows, self.y)

    def test_the_source_is_asked_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        model = RandomForestClassifier(2, max_depth=2, random_state=0).fit(self.X, self.y)
        asked = []
        predict = RandomForestClassifier.predict

        def count(self: Any, X: Any) -> Any:
            asked.append(len(X))
            return predict(self, X)

        monkeypatch.setattr(RandomForestClassifier, "predict", count)
        for ask in (verify, is_vulnerable, adversarial_accuracy, evaluate, attack):
            asked.clear()
            ask(model, self.X, self.y, threat=0.1)
            assert asked.count(len(self.X)) == 1

    def test_labels_that_are_not_ascii(self) -> None:
        """`evaluate` said 66 % of a model that has 99.9 %: XGBoost's labels were all unseen."""
        xgb = pytest.importorskip("xgboost")
        generator = np.random.default_rng(0)
        merchant = generator.choice(["Café", "Fuel", "Web"], 200)
        X = pd.DataFrame({"merchant": pd.Categorical(merchant), "amount": generator.normal(size=200)})
        y = (merchant == "Fuel").astype(int)
        model = xgb.XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1, enable_categorical=True).fit(X, y)
        assert evaluate(model, X, y, {"amount": 0.1}).accuracy == 1.0
        assert adversarial_accuracy(model, X, y, {"amount": 0.1}) == 1.0
        assert (verify(model, X, y, {"amount": 0.1}).status == "robust").all()
