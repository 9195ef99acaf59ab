"""Models of LightGBM predict the same after they were imported, on rows that hug their thresholds."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sameness import (
    assert_attacks_fool,
    assert_predicts,
    assert_same_at_the_door,
    assert_same_bits,
    assert_survives_json,
    hugging_rows,
    make_table,
    make_target,
    with_missing,
)

from hardwood import TreeEnsemble, as_ensemble

lgb = pytest.importorskip("lightgbm")

# Version 4.6 gives tables without names names of its own, and is surprised when they have none again.
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")

QUIET = {"num_threads": 1, "verbose": -1, "min_data_in_leaf": 5, "num_leaves": 10, "seed": 0}
SMALL = {"n_estimators": 10, "n_jobs": 1, "verbose": -1, "min_child_samples": 5, "num_leaves": 10, "random_state": 0}
SPLIT_EAGERLY = {"min_data_per_group": 2, "cat_smooth": 1.0, "cat_l2": 1.0}


def train(parameters: dict[str, Any], X: Any, y: Any, n_rounds: int = 10, **options: Any) -> Any:
    """Train a booster of a few small trees."""
    return lgb.train({**QUIET, **parameters}, lgb.Dataset(X, y, **options), n_rounds)


def check_booster(booster: Any, ensemble: TreeEnsemble, to_source: Any = lambda rows: rows) -> None:
    # Where a split only parts missing values from others, its threshold is the largest float: below infinity.
    infinite = bool((ensemble.threshold < np.finfo(np.float64).max).all())
    rows = hugging_rows(ensemble, missing=True, infinite=infinite)

    def predict(table: np.ndarray) -> np.ndarray:
        predicted = booster.predict(table)
        if ensemble.classes is None:
            return predicted
        return predicted > 0.5 if predicted.ndim == 1 else predicted.argmax(axis=1)

    for table in (rows, rows.astype(np.float32)):
        encoded = table.astype(np.float64)
        raw = booster.predict(to_source(encoded), raw_score=True)
        assert_same_bits(ensemble.output(encoded), raw / ensemble.divisor)
        assert_predicts(ensemble, encoded, predict(to_source(table)))
    if all(labels is None for labels in ensemble.schema.categories):
        assert_same_at_the_door(ensemble, rows, predict)
    assert_survives_json(ensemble, rows[:500])


@pytest.mark.parametrize("missing", [False, True], ids=["none missing", "some missing"])
@pytest.mark.parametrize(
    ("parameters", "n_classes"),
    [
        ({"objective": "binary"}, 2),
        ({"objective": "binary", "sigmoid": 0.3}, 2),
        ({"objective": "binary", "boosting": "dart", "drop_rate": 0.5}, 2),
        ({"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, 2),
        ({"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5, "sigmoid": 2.0}, 2),
        ({"objective": "binary", "data_sample_strategy": "goss", "use_missing": False}, 2),
        ({"objective": "binary", "boost_from_average": False, "extra_trees": True}, 2),
        ({"objective": "multiclass", "num_class": 4}, 4),
        (
            {"objective": "multiclass", "num_class": 3, "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
            3,
        ),
        ({"objective": "regression"}, 0),
        ({"objective": "regression_l1"}, 0),
        ({"objective": "huber"}, 0),
        ({"objective": "quantile", "alpha": 0.8}, 0),
        ({"objective": "regression", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, 0),
    ],
    ids=str,
)
def test_boosters(parameters: dict[str, Any], n_classes: int, missing: bool) -> None:
    X = make_table()
    X = with_missing(X) if missing else X
    booster = train(parameters, X, make_target(X, n_classes))
    ensemble = as_ensemble(booster)
    check_booster(booster, ensemble)
    present = hugging_rows(ensemble, 1000)
    if ensemble.link in ("logistic", "softmax"):
        ours, theirs = ensemble.predict_proba(present), booster.predict(present)
        assert np.allclose(ours[:, 1] if theirs.ndim == 1 else ours, theirs, rtol=1e-12)


@pytest.mark.parametrize(("kind", "n_classes"), [("LGBMClassifier", 2), ("LGBMClassifier", 4), ("LGBMRegressor", 0)])
def test_estimators(kind: str, n_classes: int) -> None:
    X = make_table()
    y = make_target(X, n_classes)
    labels = np.array(["a", "b", "c", "d"])[y] if n_classes else y
    model = getattr(lgb, kind)(**SMALL).fit(X, labels)
    ensemble = as_ensemble(model)
    rows = hugging_rows(ensemble, missing=True, infinite=True)
    for table in (rows, rows.astype(np.float32)):
        assert_predicts(ensemble, table.astype(np.float64), model.predict(table))
    assert_same_at_the_door(ensemble, rows, model.predict)
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    model = getattr(lgb, kind)(**SMALL).fit(frame, labels)
    ensemble = as_ensemble(model)
    assert ensemble.schema.feature_names == ("a", "b", "c", "d")
    assert np.array_equal(ensemble.predict(frame), model.predict(frame))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_attacks_on_rows_with_missing_values(n_classes: int) -> None:
    X = with_missing(make_table())
    y = make_target(X, n_classes)
    assert_attacks_fool(lgb.LGBMClassifier(**SMALL).fit(X, y), X[:80], y[:80])


def test_a_ranker() -> None:
    X = make_table()
    model = lgb.LGBMRanker(**SMALL).fit(X, make_target(X, 3), group=[100, 200])
    ensemble = as_ensemble(model)
    rows = hugging_rows(ensemble, missing=True)
    assert_same_bits(ensemble.output(rows)[:, 0], model.predict(rows))


def test_early_stopping(tmp_path: Path) -> None:
    """Only the best rounds predict, and only they are saved."""
    X = make_table()
    y = make_target(X, 2)
    held_out = lgb.Dataset(X, np.where(np.arange(len(X)) % 3, y, 1 - y))
    booster = lgb.train(
        {**QUIET, "objective": "binary"},
        lgb.Dataset(X, y),
        200,
        valid_sets=[held_out],
        callbacks=[lgb.early_stopping(3, verbose=False)],
        keep_training_booster=True,
    )
    assert 1 < booster.best_iteration < booster.current_iteration()
    ensemble = as_ensemble(booster)
    assert ensemble.n_trees == booster.best_iteration
    check_booster(booster, ensemble)
    booster.save_model(tmp_path / "model.txt")
    assert as_ensemble(tmp_path / "model.txt").to_json() == ensemble.to_json()


def replace_leaves(booster: Any, values: list[float]) -> Any:
    """Return a booster of one tree with other leaf values."""
    text = booster.model_to_string(num_iteration=1)
    return lgb.Booster(model_str=re.sub(r"leaf_value=.*", f"leaf_value={' '.join(map(repr, values))}", text))


@pytest.mark.parametrize("sigmoid", [1.0, 0.3, 7.0])
def test_the_cut_of_the_sigmoid(sigmoid: float) -> None:
    """A score a little above 0 still has the probability 0.5, and is of the first class."""
    X = np.arange(40.0)[:, None]
    booster = train({"objective": "binary", "num_leaves": 8, "sigmoid": sigmoid}, X, np.arange(40) // 5 % 2, 1)
    cut = as_ensemble(booster).cut
    assert 0.0 <= cut < 1e-15
    scores = [cut, np.nextafter(cut, 1.0), np.nextafter(cut, -1.0), cut * 1.5, 0.0, -cut, 1e-300, -1e-300]
    n_leaves = int(re.findall(r"num_leaves=(\d+)", booster.model_to_string())[0])
    crafted = replace_leaves(booster, [float(score) for score in scores[:n_leaves]])
    assert np.array_equal(np.unique(crafted.predict(X, raw_score=True)), np.unique(scores[:n_leaves]))
    assert np.array_equal(as_ensemble(crafted).predict(X), crafted.predict(X) > 0.5)


def test_tiny_numbers_are_zero() -> None:
    """Up to 1e-35 (as a float32) a number counts as zero before it is compared, on both sides of zero."""
    generator = np.random.default_rng(0)
    X = generator.choice([-1.0, 0.0, 1.0], (300, 2))
    y = (X[:, 0] > -1) ^ (X[:, 1] > 0)
    booster = train({"objective": "binary"}, X, y)
    ensemble = as_ensemble(booster)
    zero = float(np.float32(1e-35))
    assert {zero, np.nextafter(-zero, -1.0)} <= set(ensemble.threshold[ensemble.feature >= 0].tolist())
    numbers = np.array([0.0, -0.0, zero, -zero, zero / 2, -zero / 2, 5e-324])
    numbers = np.concatenate([numbers, np.nextafter(numbers, 1.0), np.nextafter(numbers, -1.0), [-1.0, 1.0]])
    rows = generator.choice(numbers, (2000, 2))
    assert_same_bits(ensemble.output(rows), booster.predict(rows, raw_score=True))


def test_a_model_that_is_a_constant() -> None:
    X = make_table()
    booster = train({"objective": "binary"}, X, np.arange(len(X)) % 2 * 0 + 1)
    ensemble = as_ensemble(booster)
    assert ensemble.n_leaves == ensemble.n_trees
    assert np.array_equal(ensemble.predict(X), booster.predict(X) > 0.5)


class TestMissing:
    """Missing may mean NaN, zero or nothing, split by split."""

    def test_zero_where_it_would_go_anyway(self) -> None:
        X = np.abs(make_table()) + 1.0
        booster = train({"objective": "regression", "zero_as_missing": True, "boosting": "gbdt"}, X, X[:, 0] + X[:, 1])
        text = booster.model_to_string()
        # Of a split with no zeros in training, LightGBM says that zeros go right; here thresholds are above 0.
        flipped = re.sub(r"decision_type=.*", lambda line: line[0].replace("4", "6"), text)
        ensemble = as_ensemble(lgb.Booster(model_str=flipped))
        rows = hugging_rows(ensemble, missing=True)
        assert_same_bits(ensemble.output(rows)[:, 0], lgb.Booster(model_str=flipped).predict(rows))

    def test_zero_that_makes_an_exception(self) -> None:
        X = make_table()
        X[::3, 0] = 0.0
        booster = train({"objective": "regression", "zero_as_missing": True}, X, X[:, 0] + 5.0 * (X[:, 0] == 0.0))
        with pytest.raises(ValueError, match="takes zero for a missing value"):
            as_ensemble(booster)


class TestCategories:
    @staticmethod
    def frame(n_rows: int = 400) -> tuple[pd.DataFrame, np.ndarray]:
        generator = np.random.default_rng(4)
        X = pd.DataFrame(
            {
                "number": generator.normal(size=n_rows),
                "color": pd.Categorical(generator.choice(["red", "green", "blue", "grün", "a b", "z"], n_rows)),
                "town": pd.Categorical(generator.choice([f"town {k:02}" for k in range(70)], n_rows)),
                "size": pd.Categorical(generator.choice([10, 20, 30], n_rows)),
            }
        )
        X.loc[::11, "color"] = None
        X.loc[::13, "number"] = np.nan
        value = X["color"].isin(["red", "grün"]).to_numpy() ^ (X["number"] > 0).to_numpy()
        return X, (value ^ (X["town"].cat.codes.to_numpy() % 3 == 0)).astype(int)

    @pytest.mark.parametrize("max_cat_to_onehot", [1, 100], ids=["partition", "one against the rest"])
    def test_labels_of_a_frame(self, max_cat_to_onehot: int, tmp_path: Path) -> None:
        X, y = self.frame()
        options = {**SMALL, **SPLIT_EAGERLY, "max_cat_to_onehot": max_cat_to_onehot}
        model = lgb.LGBMClassifier(**options).fit(X, y)
        ensemble = as_ensemble(model)
        categories = ensemble.schema.categories
        assert categories[0] is None
        assert categories[1] == ("a b", "blue", "green", "grün", "red", "z")
        assert len(categories[2] or ()) == 70
        assert categories[3] == (10, 20, 30)
        assert (ensemble.category_start >= 0).sum() > 5
        assert X.isna().any().tolist() == [True, True, False, False]
        assert np.array_equal(ensemble.predict(X), model.predict(X))
        strange = X.assign(color=pd.Categorical(["purple"] * len(X)))
        assert np.array_equal(ensemble.predict(strange), model.predict(strange))
        rows = hugging_rows(ensemble, missing=True)
        table = ensemble.schema.decode(rows)
        assert_predicts(ensemble, rows, model.predict(table))
        assert np.array_equal(ensemble.predict(table), model.predict(table))
        check_booster(model.booster_, ensemble)
        model.booster_.save_model(tmp_path / "model.txt")
        assert as_ensemble(tmp_path / "model.txt").to_json() == ensemble.to_json()

    def test_numbers_of_an_array(self) -> None:
        """The numbers themselves are the labels; what was too rare to be kept goes right, like the unseen."""
        generator = np.random.default_rng(5)
        X = make_table(1000)
        X[:, 3] = generator.choice([0.0, 1.0, 2.0, 5.0, 100.0, 777.0], len(X), p=[0.3, 0.3, 0.15, 0.15, 0.095, 0.005])
        X[::17, 3] = np.nan
        y = make_target(X, 2) ^ np.isin(X[:, 3], [1.0, 100.0])
        booster = train({"objective": "binary", **SPLIT_EAGERLY}, X, y, categorical_feature=[3])
        ensemble = as_ensemble(booster)
        labels = ensemble.schema.categories[3]
        assert labels is not None
        assert set(labels) >= {0, 1, 2, 5, 100}

        def to_source(rows: np.ndarray) -> np.ndarray:
            table = rows.copy()
            known = ~np.isnan(rows[:, 3])
            table[known, 3] = np.array([*labels, 55])[rows[known, 3].astype(int)]
            return table

        check_booster(booster, ensemble, to_source)
        assert np.array_equal(ensemble.predict(X), booster.predict(X) > 0.5)

    def test_ordered_categories_are_refused(self) -> None:
        """They are compared as numbers, and the model does not say which columns they are."""
        X, y = self.frame()
        X["color"] = X["color"].cat.as_ordered()
        model = lgb.LGBMClassifier(**SMALL).fit(X, y)
        with pytest.raises(ValueError, match="3 columns of categories, but 2 of its features"):
            as_ensemble(model)

    def test_a_column_of_one_category(self) -> None:
        X, y = self.frame()
        X.insert(0, "same", pd.Categorical(["same"] * len(X)))
        model = lgb.LGBMClassifier(**SMALL).fit(X, y)
        ensemble = as_ensemble(model)
        assert ensemble.schema.categories[0] == ("same",)
        assert np.array_equal(ensemble.predict(X), model.predict(X))


class TestNames:
    """LightGBM writes an underscore for every space in a name and then takes the table as it was; so did we not."""

    X = pd.DataFrame(make_table(), columns=["monthly income", "age", "time at work", "n_cards"])

    def test_spaces(self) -> None:
        model = lgb.LGBMClassifier(**SMALL).fit(self.X, make_target(self.X.to_numpy(), 2))
        assert model.booster_.feature_name()[0] == "monthly_income"
        for source in (model, model.booster_):
            ensemble = as_ensemble(source, self.X)
            assert ensemble.schema.feature_names == tuple(self.X.columns)
            assert np.array_equal(ensemble.predict(self.X), model.predict(self.X))
            respelt = self.X.rename(columns=lambda name: name.replace(" ", "_"))
            assert as_ensemble(source, respelt).schema.feature_names == tuple(respelt.columns)

    def test_other_names(self) -> None:
        model = lgb.LGBMClassifier(**SMALL).fit(self.X, make_target(self.X.to_numpy(), 2))
        with pytest.raises(ValueError, match="feature names should match"):
            as_ensemble(model, self.X.rename(columns={"age": "years"}))


class TestFiles:
    def test_text(self, tmp_path: Path) -> None:
        X = make_table()
        booster = train({"objective": "binary"}, X, make_target(X, 2))
        for name in ("model.txt", "model.model", "model"):
            path = tmp_path / name
            booster.save_model(path)
            for where in (path, str(path)):
                assert as_ensemble(where).to_json() == as_ensemble(booster).to_json()
        assert as_ensemble(booster).schema.feature_names is None

    def test_damaged(self, tmp_path: Path) -> None:
        path = tmp_path / "model.txt"
        path.write_text("tree\nversion=v4\n")
        with pytest.raises(ValueError, match=r"model\.txt is not a valid LightGBM model"):
            as_ensemble(path)

    def test_without_the_library(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "model.txt"
        path.write_text("tree\nversion=v4\n")
        monkeypatch.setitem(sys.modules, "lightgbm", None)
        with pytest.raises(ImportError, match=r"pip install lightgbm"):
            as_ensemble(path)


class TestRefused:
    @pytest.mark.parametrize(
        "parameters",
        [
            {"objective": "poisson"},
            {"objective": "gamma"},
            {"objective": "tweedie"},
            {"objective": "cross_entropy"},
            {"objective": "regression", "reg_sqrt": True},
            {"objective": "multiclassova", "num_class": 2},
        ],
        ids=str,
    )
    def test_functions_of_the_sum(self, parameters: dict[str, Any]) -> None:
        X = make_table()
        y = (np.abs(make_target(X, 0)) > 0.5).astype(float)
        y = y + 0.1 if parameters["objective"] == "gamma" else y
        with pytest.raises(ValueError, match="predicts not the sum"):
            as_ensemble(train(parameters, X, y))

    def test_a_classifier_that_votes_one_against_the_rest(self) -> None:
        X = make_table()
        model = lgb.LGBMClassifier(objective="multiclassova", **SMALL).fit(X, make_target(X, 3))
        with pytest.raises(ValueError, match="has the objective 'multiclassova"):
            as_ensemble(model)

    def test_linear_trees(self) -> None:
        X = make_table()
        with pytest.raises(ValueError, match="linear_tree=True"):
            as_ensemble(train({"objective": "regression", "linear_tree": True}, X, make_target(X, 0)))

    def test_not_fitted(self) -> None:
        for kind in (lgb.LGBMClassifier, lgb.LGBMRegressor):
            with pytest.raises(ValueError, match=f"{kind.__name__} is not fitted"):
                as_ensemble(kind())


@given(
    values=st.lists(st.floats(-1e300, 1e300), min_size=6, max_size=14, unique=True),
    labels=st.lists(st.integers(0, 3), min_size=14, max_size=14),
)
def test_any_small_model(values: list[float], labels: list[int]) -> None:
    """Thresholds anywhere among the floats."""
    X = np.array(values)[:, None]
    options = {"objective": "regression", "min_data_in_leaf": 1, "min_data_in_bin": 1, "min_sum_hessian_in_leaf": 0.0}
    booster = train(options, X, np.array(labels[: len(values)], dtype=float), n_rounds=2)
    ensemble = as_ensemble(booster)
    at = np.concatenate([ensemble.threshold[ensemble.feature == 0], X[:, 0]])
    rows = np.concatenate([at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf), [np.nan, np.inf, -np.inf]])[:, None]
    assert_same_bits(ensemble.output(rows), booster.predict(rows, raw_score=True))
