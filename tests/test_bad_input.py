"""What every public function says to what it cannot use: one error, that names the parameter and a way out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from hardwood import (
    AttackRule,
    RobustTreeClassifier,
    ThreatModel,
    TreeEnsemble,
    adversarial_accuracy,
    as_ensemble,
    attack,
    is_vulnerable,
    verify,
)

Ask = Callable[[Any, Any, Any], Any]

# Everything that takes a model, a table and labels.
JUDGES: dict[str, Ask] = {
    "verify": lambda model, X, y: verify(model, X, y, 0.1),
    "attack": lambda model, X, y: attack(model, X, y, 0.1),
    "is_vulnerable": lambda model, X, y: is_vulnerable(model, X, y, 0.1),
    "adversarial_accuracy": lambda model, X, y: adversarial_accuracy(model, X, y, 0.1),
}
DOORS: dict[str, Ask] = {
    "predict": lambda model, X, y: as_ensemble(model).predict(X),
    "predict_proba": lambda model, X, y: as_ensemble(model).predict_proba(X),
    "apply": lambda model, X, y: as_ensemble(model).apply(X),
    "decision_path": lambda model, X, y: as_ensemble(model).decision_path(X),
    **JUDGES,
}
# What two answers are compared by, of those that are records.
ANSWERS = {"verify": "status", "attack": "distance"}
WITH_LIMIT: dict[str, Callable[..., Any]] = {
    "verify": verify,
    "attack": attack,
    "is_vulnerable": is_vulnerable,
    "adversarial_accuracy": adversarial_accuracy,
}


def table() -> tuple[pd.DataFrame, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(40, 3))
    return pd.DataFrame(X, columns=["a", "b", "c"]), (X[:, 0] + X[:, 1] > 0).astype(int)


X, Y = table()
MODELS: dict[str, Callable[[], Any]] = {
    "own": lambda: RobustTreeClassifier(0.1),
    "tree": lambda: DecisionTreeClassifier(max_depth=3),
    "forest": lambda: RandomForestClassifier(4, max_depth=3, random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5),
}


@cache
def fitted(name: str) -> Any:
    return MODELS[name]().fit(X, Y)


each_door = pytest.mark.parametrize("door", DOORS)
each_judge = pytest.mark.parametrize("door", JUDGES)
each_model = pytest.mark.parametrize("model", MODELS)


class TestTables:
    @each_model
    @each_door
    @pytest.mark.parametrize(
        "empty", [X[:0], X[:0].to_numpy(), pl.from_pandas(X)[:0]], ids=["pandas", "array", "polars"]
    )
    def test_no_rows(self, model: str, door: str, empty: Any) -> None:
        """The share of nothing is no number, and a table without rows is a slip further up."""
        with pytest.raises(
            ValueError, match=r"X has 0 sample\(s\) \(shape=\(0, 3\)\): expected a table of at least one"
        ):
            DOORS[door](fitted(model), empty, Y[:0])

    @each_model
    @each_door
    def test_another_number_of_columns(self, model: str, door: str) -> None:
        for n_columns in (2, 4):
            with pytest.raises(ValueError, match=rf"X has {n_columns} features, but \w+ is expecting 3 features"):
                DOORS[door](fitted(model), np.zeros((5, n_columns)), Y[:5])

    @each_model
    @each_door
    @pytest.mark.parametrize(
        ("other", "words"),
        [
            (X[["a", "b"]], r"(?s)now missing:.*- c"),
            (X.assign(d=1.0), r"(?s)unseen at fit time:.*- d"),
            (X.rename(columns={"b": "B"}), r"(?s)unseen at fit time:.*- B.*now missing:.*- b"),
        ],
        ids=["missing", "extra", "renamed"],
    )
    def test_other_columns(self, model: str, door: str, other: pd.DataFrame, words: str) -> None:
        with pytest.raises(ValueError, match=words):
            DOORS[door](fitted(model), other, Y)

    @each_model
    @each_door
    def test_another_order_of_columns(self, model: str, door: str) -> None:
        """Models predict in their own order only, as scikit-learn's do; whoever judges them goes by the names."""
        other = X[["b", "c", "a"]]
        if door not in JUDGES:
            with pytest.raises(ValueError, match="must be in the same order"):
                DOORS[door](fitted(model), other, Y)
            return
        with pytest.warns(UserWarning, match="in another order, and are told apart by their names"):
            aligned = JUDGES[door](fitted(model), other, Y)
        expected = JUDGES[door](fitted(model), X, Y)
        if door in ANSWERS:
            aligned, expected = (getattr(answer, ANSWERS[door]) for answer in (aligned, expected))
            assert (len(np.unique(expected)) > 1) == (model != "own")  # which holds in every row
        assert np.array_equal(aligned, expected)

    @each_model
    @each_door
    @pytest.mark.parametrize("value", [np.inf, -np.inf])
    def test_infinity(self, model: str, door: str, value: float) -> None:
        """No model takes it here, whether or not it takes missing values: an attacker could not move it."""
        rows = X.copy()
        rows.loc[7, "b"] = value
        with pytest.raises(ValueError, match=f"X contains infinity: feature 'b' is {value:g} in row 7"):
            DOORS[door](fitted(model), rows, Y)

    @each_door
    def test_text(self, door: str) -> None:
        with pytest.raises(ValueError, match=r"X: feature 'b' holds 'two', which is not a number; "):
            DOORS[door](fitted("forest"), X.assign(b="two"), Y)

    @each_door
    def test_one_row_as_a_list(self, door: str) -> None:
        with pytest.raises(ValueError, match="Reshape your data"):
            DOORS[door](fitted("forest"), [0.0, 1.0, 2.0], Y[:1])

    @each_door
    def test_missing_values(self, door: str) -> None:
        """An answer where the model has one, an error where it has no path for them."""
        rows = X.copy()
        rows.loc[3, "c"] = np.nan
        for accepting in ("tree", "forest", "boosting"):
            DOORS[door](fitted(accepting), rows, Y)
        with pytest.raises(ValueError, match=r"X contains NaN: feature 'c' has no value in row 3 .*; fill them in"):
            DOORS[door](fitted("own"), rows, Y)


class TestLabels:
    @each_model
    @each_judge
    @pytest.mark.parametrize(
        ("labels", "words"),
        [
            (Y + 5, r"y: [56] is not a class of the model; its classes are \[0, 1\]"),
            (np.where(Y, "yes", "no"), r"y: '(yes|no)' is not a class of the model"),
            (np.where(Y, 1.0, np.nan), r"y: nan is not a class of the model"),
            (Y[:5], r"y: expected 40 labels, one per row of X, got shape \(5,\)"),
            (Y[:, None], r"y: expected 40 labels, one per row of X, got shape \(40, 1\)"),
        ],
        ids=["unknown", "text", "NaN", "too few", "a column"],
    )
    def test_labels_that_are_none(self, model: str, door: str, labels: Any, words: str) -> None:
        with pytest.raises(ValueError, match=words):
            JUDGES[door](fitted(model), X, labels)

    @pytest.mark.parametrize("door", ["is_vulnerable", "adversarial_accuracy"])
    def test_no_labels(self, door: str) -> None:
        with pytest.raises(ValueError, match="y: expected 40 labels, one per row of X, got None"):
            JUDGES[door](fitted("forest"), X, None)


class TestModels:
    @pytest.mark.parametrize("source", [RandomForestClassifier(4), DecisionTreeClassifier()])
    def test_of_a_single_class(self, source: Any) -> None:
        """There is nothing to turn a row into. The search took the only output for that of two classes."""
        X, _ = table()
        y = np.ones(len(X))
        model = source.fit(X, y)
        for method in ("search", "milp"):
            certificate = verify(model, X, y, 0.5, method=method)
            assert (certificate.status == "robust").all()
            assert (certificate.lower > 0.0).all()
        for method in ("search", "milp", "heuristic", "coordinate", "lowest"):
            assert not attack(model, X, y, method=method).found.any()
        assert not attack(model, X, y, norm=1).found.any()
        assert not is_vulnerable(model, X, y, "<>").any()
        assert adversarial_accuracy(model, X, y, 0.5) == 1.0
        rules = ThreatModel(rules=[AttackRule("a", add=0.2)], budget=1)
        assert (verify(model, X[:3], y[:3], rules).status == "robust").all()

    @each_door
    def test_of_an_unknown_kind(self, door: str) -> None:
        for model in (LogisticRegression().fit(X, Y), None, 3, {"a": 1}):
            with pytest.raises(TypeError, match=f"model: a {type(model).__name__} is not a tree model hardwood knows"):
                DOORS[door](model, X, Y)

    @each_door
    def test_a_class_instead_of_a_model(self, door: str) -> None:
        for kind in (RandomForestClassifier, RobustTreeClassifier):
            with pytest.raises(TypeError, match=f"model: the class {kind.__name__} is not a tree model"):
                DOORS[door](kind, X, Y)

    @each_door
    def test_not_fitted(self, door: str) -> None:
        for model in (RandomForestClassifier(), RobustTreeClassifier(), make_pipeline(RandomForestClassifier())):
            with pytest.raises(ValueError, match=f"model: this {type(model).__name__} is not fitted; call fit first"):
                DOORS[door](model, X, Y)

    @each_door
    def test_a_pipeline(self, door: str) -> None:
        """One that mixes columns is refused, and the remedy that the error names works."""
        DOORS[door](make_pipeline(StandardScaler(), RandomForestClassifier(3, random_state=0)).fit(X, Y), X, Y)
        model = make_pipeline(PCA(), RandomForestClassifier(3, random_state=0)).fit(X, Y)
        with pytest.raises(TypeError, match=r"model: a Pipeline with a .* model\[-1\], with the table"):
            DOORS[door](model, X, Y)
        DOORS[door](model[-1], model[:-1].transform(X), Y)

    @pytest.mark.parametrize("door", ["is_vulnerable", "adversarial_accuracy"])
    def test_a_regression_has_no_classes(self, door: str) -> None:
        """(What there is to ask about regressions: see test_verify and test_evaluate_regression.)"""
        model = RandomForestRegressor(3, random_state=0).fit(X, X["a"])
        assert as_ensemble(model).predict(X).tolist() == model.predict(X).tolist()
        with pytest.raises(TypeError, match=r"model: this one is a regression, .*; expected a classifier"):
            JUDGES[door](model, X, Y)

    @each_door
    @pytest.mark.parametrize(
        ("name", "content", "extra"),
        [("model.json", '{"learner": {"gradient_booster": {}}}', "xgboost"), ("model.txt", "tree\n", "lightgbm")],
        ids=["xgboost", "lightgbm"],
    )
    def test_a_file_whose_library_is_not_installed(
        self, door: str, name: str, content: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / name).write_text(content)
        monkeypatch.setitem(sys.modules, extra, None)
        with pytest.raises(ImportError, match=rf"needs {extra}, which is not installed: pip install {extra}"):
            DOORS[door](tmp_path / name, X, Y)

    def test_a_file_that_is_not_there(self, tmp_path: Path) -> None:
        for read in (as_ensemble, TreeEnsemble.from_json):
            with pytest.raises(FileNotFoundError, match=r"absent\.json"):
                read(tmp_path / "absent.json")

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        path = tmp_path / "nowhere" / "model.json"
        for write in (as_ensemble(fitted("own")).to_json, ThreatModel(1).to_toml):
            with pytest.raises(FileNotFoundError, match=rf"{path.name}'$") as caught:
                write(path)
            assert caught.value.filename == str(path)


class TestLimits:
    @each_model
    @pytest.mark.parametrize("door", WITH_LIMIT)
    @pytest.mark.parametrize("limit", [-1, -0.001, float("nan"), -np.inf, "long", True, [1]], ids=str)
    def test_no_time_limit(self, model: str, door: str, limit: Any) -> None:
        with pytest.raises(ValueError, match=r"time_limit=.*: expected a number of seconds >= 0, or None for no limit"):
            WITH_LIMIT[door](fitted(model), X, Y, 0.1, time_limit=limit)

    @each_model
    def test_no_time_at_all(self, model: str) -> None:
        """Whatever is decided is right, and the rest is unknown, with bounds."""
        exact, nearest = verify(fitted(model), X, Y, 0.2), attack(fitted(model), X, Y, 0.2)
        hasty = verify(fitted(model), X, Y, 0.2, time_limit=0)
        decided = hasty.status != "unknown"
        assert np.array_equal(hasty.status[decided], exact.status[decided])
        result = attack(fitted(model), X, Y, 0.2, time_limit=0)
        assert (result.lower <= nearest.distance + 1e-12).all()
        assert (nearest.distance <= result.distance + 1e-12).all()

    def test_a_figure_that_no_time_is_given_for(self) -> None:
        """One tree needs none; for several the figure is not made up."""
        share = adversarial_accuracy(fitted("own"), X, Y, 0.2, time_limit=0)
        assert share == adversarial_accuracy(fitted("own"), X, Y, 0.2)
        with pytest.raises(TimeoutError, match=r"undecided after time_limit=0 seconds each; give them more time, or"):
            adversarial_accuracy(fitted("forest"), X, Y, 0.2, time_limit=0)

    @each_model
    @pytest.mark.parametrize("limit", [np.inf, 1e300, np.float32(60), None], ids=str)
    def test_all_the_time(self, model: str, limit: Any) -> None:
        assert "unknown" not in verify(fitted(model), X, Y, 0.1, time_limit=limit).status

    @pytest.mark.parametrize("n_jobs", [0, "two", 1.5, True], ids=str)
    def test_threads(self, n_jobs: Any) -> None:
        for ask in (verify, attack):
            with pytest.raises(ValueError, match=f"n_jobs={n_jobs!r}: expected None, a number of threads, or -1"):
                ask(fitted("forest"), X, Y, 0.1, n_jobs=n_jobs)


class TestThreats:
    @each_judge
    @pytest.mark.parametrize(
        ("threat", "words"),
        [
            (-1.0, r"threat: -1\.0 is negative"),
            (float("nan"), "threat: nan is not a number"),
            ([0.1, 0.1], "threat: 2 entries for a table of 3 features"),
            ({"z": 1}, "threat for feature 'z': there is no such column; the columns are 'a', 'b', 'c'"),
            (ThreatModel(1, attacking_classes=[7]), r"attacking_classes: 7 is not a class; the classes are \[0, 1\]"),
        ],
        ids=["negative", "NaN", "too short", "unknown column", "unknown class"],
    )
    def test_threats_that_are_none(self, door: str, threat: Any, words: str) -> None:
        with pytest.raises(ValueError, match=words):
            WITH_LIMIT[door](fitted("forest"), X, Y, threat)
