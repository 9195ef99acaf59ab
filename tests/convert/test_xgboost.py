"""Models of XGBoost predict the same after they were imported, on rows that hug their thresholds."""

from __future__ import annotations

import json
import sys
import warnings
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

xgb = pytest.importorskip("xgboost")

KEEPS_LABELS = tuple(int(part) for part in xgb.__version__.split(".")[:2]) >= (3, 1)
KEEPS_ALL_LABELS = tuple(int(part) for part in xgb.__version__.split(".")[:2]) >= (3, 4)  # not only ASCII
SMALL = {"n_estimators": 10, "max_depth": 4, "n_jobs": 1, "random_state": 0}


def train(parameters: dict[str, Any], X: Any, y: Any, n_rounds: int = 10, **options: Any) -> Any:
    """Train a booster of a few small trees."""
    data = xgb.DMatrix(X, y, nthread=1, **options)
    return xgb.train({"nthread": 1, "max_depth": 4, "seed": 0, **parameters}, data, n_rounds)


def margins_of(booster: Any, rows: np.ndarray) -> np.ndarray:
    return booster.predict(xgb.DMatrix(rows, nthread=1), output_margin=True)


def check_estimator(model: Any, ensemble: TreeEnsemble) -> None:
    rows = hugging_rows(ensemble, missing=True, infinite=True)
    for table in (rows, rows.astype(np.float32)):
        encoded = table.astype(np.float64)
        assert_predicts(ensemble, encoded, model.predict(table))
        assert_same_bits(ensemble.output(encoded), model.predict(table, output_margin=True))
    assert_same_at_the_door(ensemble, rows, model.predict)
    assert_survives_json(ensemble, rows[:500])


@pytest.mark.parametrize("missing", [False, True], ids=["none missing", "some missing"])
@pytest.mark.parametrize("n_classes", [0, 2, 4])
@pytest.mark.parametrize("tree_method", ["hist", "exact", "approx"])
def test_estimators(tree_method: str, n_classes: int, missing: bool) -> None:
    X = make_table()
    X = with_missing(X) if missing else X
    kind = xgb.XGBClassifier if n_classes else xgb.XGBRegressor
    model = kind(tree_method=tree_method, **SMALL).fit(X, make_target(X, n_classes))
    ensemble = as_ensemble(model)
    assert ensemble.precision == "float32"
    check_estimator(model, ensemble)


@pytest.mark.filterwarnings("ignore:.*XGBRF:FutureWarning")  # on their way out from 3.4 on
@pytest.mark.parametrize(
    ("kind", "parameters", "n_classes"),
    [
        ("XGBRFClassifier", {}, 2),
        ("XGBRFClassifier", {}, 3),
        ("XGBRFRegressor", {}, 0),
        ("XGBClassifier", {"num_parallel_tree": 3}, 3),
        ("XGBClassifier", {"base_score": 0.9}, 2),
        ("XGBClassifier", {"grow_policy": "lossguide", "max_leaves": 7}, 2),
        ("XGBClassifier", {"objective": "binary:hinge"}, 2),
        ("XGBClassifier", {"objective": "binary:logitraw"}, 2),
        ("XGBClassifier", {"objective": "reg:logistic"}, 2),
        ("XGBClassifier", {"objective": "multi:softmax"}, 3),
        ("XGBRegressor", {"objective": "reg:absoluteerror"}, 0),
        ("XGBRegressor", {"objective": "reg:pseudohubererror"}, 0),
        ("XGBRegressor", {"base_score": -3.7}, 0),
    ],
    ids=str,
)
def test_kinds(kind: str, parameters: dict[str, Any], n_classes: int) -> None:
    X = make_table()
    model = getattr(xgb, kind)(**SMALL, **parameters).fit(X, make_target(X, n_classes))
    check_estimator(model, as_ensemble(model))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_attacks_on_rows_with_missing_values(n_classes: int) -> None:
    X = with_missing(make_table())
    y = make_target(X, n_classes)
    assert_attacks_fool(xgb.XGBClassifier(**SMALL).fit(X, y), X[:80], y[:80])


@pytest.mark.filterwarnings("ignore:.*booster=dart. is deprecated")  # from 3.3 on dropout has parameters of its own
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_dart(n_classes: int) -> None:
    """Trees have weights; prediction in place (estimators) and from a DMatrix (boosters) round differently."""
    X = make_table()
    kind = xgb.XGBClassifier if n_classes else xgb.XGBRegressor
    model = kind(booster="dart", rate_drop=0.5, **SMALL).fit(X, make_target(X, n_classes))
    ensemble = as_ensemble(model)
    check_estimator(model, ensemble)
    booster = model.get_booster()
    rows = hugging_rows(ensemble, missing=True)
    assert_same_bits(as_ensemble(booster).output(rows), margins_of(booster, rows))


@pytest.mark.parametrize(
    ("objective", "n_classes"),
    [
        ("binary:logistic", 2),
        ("binary:logitraw", 2),
        ("binary:hinge", 2),
        ("multi:softprob", 3),
        ("multi:softmax", 3),
        ("reg:squarederror", 0),
        ("reg:squaredlogerror", 0),
        ("rank:pairwise", 2),
    ],
)
def test_boosters(objective: str, n_classes: int) -> None:
    X = make_table()
    y = make_target(X, n_classes)
    parameters = {"objective": objective, **({"num_class": n_classes} if "multi" in objective else {})}
    booster = train(parameters, X, np.abs(y))
    ensemble = as_ensemble(booster)
    rows = hugging_rows(ensemble, missing=True)

    def predict(table: np.ndarray) -> np.ndarray:
        predicted = booster.predict(xgb.DMatrix(table, nthread=1))
        if objective == "multi:softprob":
            return predicted.argmax(axis=1)
        return predicted > (0.0 if objective == "binary:logitraw" else 0.5) if "binary" in objective else predicted

    assert_same_at_the_door(ensemble, rows, predict)
    for table in (rows, rows.astype(np.float32)):
        assert_same_bits(ensemble.output(table.astype(np.float64)), margins_of(booster, table))
    if objective in ("binary:logistic", "multi:softprob"):
        expected = booster.predict(xgb.DMatrix(rows, nthread=1))
        ours = ensemble.predict_proba(rows)
        assert np.allclose(ours if "multi" in objective else ours[:, 1], expected, atol=1e-6)


def test_the_cut_of_the_sigmoid() -> None:
    """A margin a little above 0 still has the probability 0.5, and is of the first class."""
    X = make_table()
    model = xgb.XGBClassifier(**SMALL).fit(X, make_target(X, 2))
    cut = np.float32(as_ensemble(model).cut)
    assert 0.0 < cut < 1e-6
    document = json.loads(model.get_booster().save_raw("json"))
    learner = document["learner"]
    learner["learner_model_param"]["base_score"] = "[5E-1]" if KEEPS_LABELS else "5E-1"
    margins = [cut]
    for direction in (-1.0, 1.0):
        for _ in range(3):
            margins.append(np.nextafter(margins[-1 if len(margins) != 4 else 0], np.float32(direction)))
    for margin in margins:
        forest = learner["gradient_booster"]["model"]
        tree = json.loads(json.dumps(forest["trees"][0]))
        tree["split_conditions"] = [
            float(margin) if left < 0 else condition
            for left, condition in zip(tree["left_children"], tree["split_conditions"], strict=True)
        ]
        one = {**forest, "trees": [tree], "tree_info": [0], "iteration_indptr": [0, 1]}
        one["gbtree_model_param"] = {**forest["gbtree_model_param"], "num_trees": "1"}
        changed = {**learner, "gradient_booster": {**learner["gradient_booster"], "model": one}}
        crafted = xgb.XGBClassifier(n_jobs=1)
        crafted.load_model(bytearray(json.dumps({**document, "learner": changed}).encode()))
        assert crafted.predict(X[:1], output_margin=True) == margin
        assert as_ensemble(crafted).predict(X[:1]) == crafted.predict(X[:1]) == int(margin > cut)


@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob"])
def test_early_stopping(objective: str, tmp_path: Path) -> None:
    """An estimator predicts with the best round; a booster with all. A file is what was saved."""
    X = make_table()
    y = make_target(X, 2 if "binary" in objective else 3)
    noise = np.random.default_rng(0).permutation(y)
    model = xgb.XGBClassifier(**{**SMALL, "n_estimators": 60}, early_stopping_rounds=3, num_parallel_tree=2)
    model.fit(X, y, eval_set=[(X, noise)], verbose=False)
    ensemble = as_ensemble(model)
    n_groups = 1 if "binary" in objective else 3
    assert ensemble.n_trees == 2 * n_groups * (model.best_iteration + 1)
    check_estimator(model, ensemble)
    booster = model.get_booster()
    whole = as_ensemble(booster)
    assert whole.n_trees == 2 * n_groups * booster.num_boosted_rounds() > ensemble.n_trees
    rows = hugging_rows(whole)
    assert_same_bits(whole.output(rows), margins_of(booster, rows))
    model.save_model(tmp_path / "estimator.json")
    booster.save_model(tmp_path / "booster.json")
    assert as_ensemble(tmp_path / "estimator.json").n_trees == ensemble.n_trees
    assert as_ensemble(tmp_path / "booster.json").n_trees == whole.n_trees
    assert as_ensemble(booster[:2]).n_trees == 2 * n_groups * 2


def test_nodes_that_were_pruned_away() -> None:
    X = make_table()
    model = xgb.XGBClassifier(tree_method="exact", gamma=3.0, **SMALL).fit(X, make_target(X, 2))
    trees = json.loads(model.get_booster().save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    assert any(tree["tree_param"]["num_deleted"] != "0" for tree in trees)
    ensemble = as_ensemble(model)
    assert ensemble.n_nodes < sum(int(tree["tree_param"]["num_nodes"]) for tree in trees)
    check_estimator(model, ensemble)


def test_leaves_are_not_base_weights() -> None:
    """With `exact`, the base weights in the JSON are not yet multiplied by the learning rate."""
    X = make_table()
    model = xgb.XGBClassifier(tree_method="exact", learning_rate=0.1, **SMALL).fit(X, make_target(X, 2))
    tree = json.loads(model.get_booster().save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"][0]
    leaf = tree["left_children"].index(-1)
    assert tree["base_weights"][leaf] == pytest.approx(10 * tree["split_conditions"][leaf])
    ensemble = as_ensemble(model)
    assert np.float32(tree["split_conditions"][leaf]) in ensemble.value
    check_estimator(model, ensemble)


@pytest.mark.skipif(not KEEPS_LABELS, reason="the layout of vector leaves was another")
def test_leaves_that_are_vectors() -> None:
    X = make_table()
    model = xgb.XGBClassifier(multi_strategy="multi_output_tree", **SMALL).fit(X, make_target(X, 3))
    if "leaf_weights" not in model.get_booster().save_raw("json").decode():
        with pytest.raises(ValueError, match="leaves are vectors"):
            as_ensemble(model)
        return
    ensemble = as_ensemble(model)
    assert ensemble.n_trees == SMALL["n_estimators"]
    check_estimator(model, ensemble)


def test_a_classifier_with_an_objective_of_its_own() -> None:
    def objective(y: np.ndarray, margin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return margin - y, np.ones_like(margin)

    X = make_table()
    model = xgb.XGBClassifier(objective=objective, **SMALL).fit(X, make_target(X, 2))
    check_estimator(model, as_ensemble(model))


def test_close_classes_of_softprob() -> None:
    """Margins that differ by less than probabilities can show: XGBoost takes the first class, the import the larger."""
    X = make_table()
    model = xgb.XGBClassifier(learning_rate=3e-8, base_score=0.05, **SMALL).fit(X, make_target(X, 3))
    ensemble = as_ensemble(model)
    rows = hugging_rows(ensemble)
    assert_same_bits(ensemble.output(rows), model.predict(rows, output_margin=True))
    differ = ensemble.predict(rows) != model.predict(rows)
    assert differ.any()
    best = np.sort(ensemble.output(rows)[differ], axis=1)
    assert (best[:, 2] - best[:, 1]).max() < 2e-7
    probability = model.predict_proba(rows)
    chosen = probability[np.arange(len(rows)), ensemble.predict(rows)]
    assert (chosen[differ] == probability[differ].max(axis=1)).all()


class TestCategories:
    @staticmethod
    def frame(n_rows: int = 400) -> tuple[pd.DataFrame, np.ndarray]:
        generator = np.random.default_rng(4)
        X = pd.DataFrame(
            {
                "number": generator.normal(size=n_rows),
                "color": pd.Categorical(generator.choice(["red", "green", "blue", "yellow", "a b", "z"], n_rows)),
                "town": pd.Categorical(generator.choice([f"town {k:02}" for k in range(70)], n_rows)),
                "size": pd.Categorical(generator.choice([10, 20, 30], n_rows)),
            }
        )
        X.loc[::11, "color"] = None
        X.loc[::13, "number"] = np.nan
        value = X["color"].isin(["red", "yellow"]).to_numpy() ^ (X["number"] > 0).to_numpy()
        return X, (value ^ (X["town"].cat.codes.to_numpy() % 3 == 0)).astype(int)

    @pytest.mark.skipif(not KEEPS_LABELS, reason="labels are kept from 3.1 on")
    @pytest.mark.parametrize("max_cat_to_onehot", [1, 100], ids=["partition", "one against the rest"])
    @pytest.mark.parametrize("tree_method", ["hist", "approx"])
    def test_labels_of_a_frame(self, tree_method: str, max_cat_to_onehot: int, tmp_path: Path) -> None:
        X, y = self.frame()
        parameters = {"tree_method": tree_method, "enable_categorical": True, "max_cat_to_onehot": max_cat_to_onehot}
        model = xgb.XGBClassifier(**SMALL, **parameters).fit(X, y)
        ensemble = as_ensemble(model)
        categories = ensemble.schema.categories
        assert categories[1] == ("a b", "blue", "green", "red", "yellow", "z")
        assert categories[0] is None
        assert categories[3] == (10, 20, 30)
        assert len(categories[2] or ()) == 70
        assert X.isna().any().tolist() == [True, True, False, False]
        assert np.array_equal(ensemble.predict(X), model.predict(X))
        other_order = X.assign(color=X["color"].cat.set_categories(["z", "red", "a b", "green", "blue", "yellow"]))
        assert np.array_equal(ensemble.predict(other_order), model.predict(other_order))
        rows = hugging_rows(ensemble, missing=True)
        assert_predicts(ensemble, rows, model.predict(rows))
        assert_same_bits(ensemble.output(rows), model.predict(rows, output_margin=True))
        known = ensemble.schema.decode(rows[~(rows[:, 1:] == [6, 70, 3]).any(axis=1)])
        assert np.array_equal(ensemble.predict(known), model.predict(known))
        assert_survives_json(ensemble, rows[:500])
        model.save_model(tmp_path / "model.ubj")
        assert as_ensemble(tmp_path / "model.ubj").to_json() == ensemble.to_json()
        assert as_ensemble(model.get_booster()).to_json() == ensemble.to_json()

    @pytest.mark.parametrize("tree_method", ["hist", "approx"])
    def test_codes_of_an_array(self, tree_method: str) -> None:
        """Codes are labels; a code that no split has heard of goes left."""
        X = make_table()
        X[:, 3] = np.random.default_rng(5).choice([0.0, 1.0, 2.0, 5.0, 9.0], len(X))
        X[::7, 3] = np.nan
        y = make_target(X, 2) ^ np.isin(X[:, 3], [1.0, 5.0])
        types = ["q", "q", "q", "c"]
        booster = train(
            {"objective": "binary:logistic", "tree_method": tree_method, "max_cat_to_onehot": 1},
            X,
            y,
            feature_types=types,
            enable_categorical=True,
        )
        ensemble = as_ensemble(booster)
        assert ensemble.schema.categories[3] == tuple(range(10))
        rows = hugging_rows(ensemble, missing=True)
        for unseen in (10.0, 11.0, 99.0, 5000.0):
            table = rows.copy()
            table[rows[:, 3] == 10.0, 3] = unseen
            data = xgb.DMatrix(table, feature_types=types, enable_categorical=True, nthread=1)
            assert_same_bits(ensemble.output(rows), booster.predict(data, output_margin=True))

    @pytest.mark.skipif(KEEPS_ALL_LABELS, reason="labels are kept")
    def test_codes_where_labels_are_not_kept(self) -> None:
        """Before 3.1 they are not; and until 3.3 letters that are not ASCII move the ends of labels."""
        X, y = self.frame()
        X = X[["number", "color"]]
        X["color"] = X["color"].cat.rename_categories({"green": "grün"})
        model = xgb.XGBClassifier(tree_method="hist", enable_categorical=True, **SMALL).fit(X, y)
        with pytest.warns(UserWarning, match="does not hold the labels of 'color'"):
            ensemble = as_ensemble(model)
        labels = ensemble.schema.categories[1]
        assert labels == tuple(range(6))
        codes = X.assign(color=X["color"].cat.codes.astype(float).where(X["color"].notna()))
        assert np.array_equal(ensemble.predict(codes), model.predict(X))

    @pytest.mark.parametrize("labels", [["Café", "Fuel", "Web"], ["Ünïcødé€", "éa", "bc", "漢字"]], ids=str)
    def test_labels_that_are_not_ascii(self, labels: list[str]) -> None:
        """Every label became unseen, and `evaluate` said 66 % of a model that has 99.9 %, after a mere warning.

        XGBoost 3.1 to 3.3 keeps such labels cut in the wrong places and short of their last bytes; the table of the
        caller has them whole.
        """
        generator = np.random.default_rng(0)
        color = generator.choice(labels, 300)
        X = pd.DataFrame({"n": generator.normal(size=300), "c": pd.Categorical(color, categories=labels)})
        y = np.isin(color, labels[::2]).astype(int)
        model = xgb.XGBClassifier(enable_categorical=True, **SMALL).fit(X, y)
        assert (model.predict(X) == y).all()
        ensemble = as_ensemble(model, X)
        assert ensemble.schema.categories == (None, tuple(labels))
        assert np.array_equal(ensemble.predict(X), y)
        assert np.array_equal(as_ensemble(model.get_booster(), X).predict(X), y)

    @pytest.mark.skipif(KEEPS_ALL_LABELS or not KEEPS_LABELS, reason="XGBoost 3.1 to 3.3 cuts labels")
    def test_other_labels_than_those_that_were_cut(self) -> None:
        labels = ["Café", "Fuel", "Web"]
        X = pd.DataFrame({"c": pd.Categorical(labels * 20)})
        model = xgb.XGBClassifier(enable_categorical=True, **SMALL).fit(X, [0, 1, 0] * 20)
        other = X.assign(c=X["c"].cat.set_categories(["Web", "Café", "Fuel"]))
        with pytest.raises(ValueError, match=r"feature 'c' has the categories \['Web', 'Café', 'Fuel'\].*'CaféFuelWe'"):
            as_ensemble(model, other)


class TestFiles:
    @pytest.mark.parametrize("suffix", ["json", "ubj"])
    @pytest.mark.parametrize("n_classes", [0, 2, 3])
    def test_estimators(self, n_classes: int, suffix: str, tmp_path: Path) -> None:
        X = pd.DataFrame(make_table(), columns=["a", "b", "c", "d"])
        kind = xgb.XGBClassifier if n_classes else xgb.XGBRegressor
        model = kind(**SMALL).fit(X, make_target(X.to_numpy(), n_classes))
        path = tmp_path / f"model.{suffix}"
        model.save_model(path)
        for where in (path, str(path)):
            assert as_ensemble(where).to_json() == as_ensemble(model).to_json()
        rows = pd.DataFrame(hugging_rows(as_ensemble(path)), columns=X.columns)
        assert np.array_equal(as_ensemble(path).predict(rows), model.predict(rows))
        elsewhere = tmp_path / "model.bin"  # content counts, not the name
        elsewhere.write_bytes(path.read_bytes())
        assert as_ensemble(elsewhere).schema.feature_names == ("a", "b", "c", "d")

    def test_indented_json(self, tmp_path: Path) -> None:
        X = make_table()
        booster = train({"objective": "binary:logistic"}, X, make_target(X, 2))
        path = tmp_path / "model.json"
        path.write_text(json.dumps(json.loads(booster.save_raw("json")), indent=2))
        assert as_ensemble(path).to_json() == as_ensemble(booster).to_json()

    def test_damaged(self, tmp_path: Path) -> None:
        X = make_table()
        raw = train({}, X, make_target(X, 0)).save_raw("json")
        path = tmp_path / "model.json"
        path.write_bytes(raw[: len(raw) // 2])
        with pytest.raises(ValueError, match=r"model\.json is not a valid XGBoost model"):
            as_ensemble(path)

    def test_without_the_library(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "model.json"
        path.write_text('{"learner": {"gradient_booster": {}}}')
        monkeypatch.setitem(sys.modules, "xgboost", None)
        with pytest.raises(ImportError, match=r"pip install xgboost"):
            as_ensemble(path)

    def test_an_old_version(self, monkeypatch: pytest.MonkeyPatch) -> None:
        X = make_table()
        booster = train({}, X, make_target(X, 0))
        monkeypatch.setattr(xgb, "__version__", "1.7.6")
        with pytest.raises(ImportError, match=r"xgboost 1\.7\.6 is installed; .* 2\.1 and later"):
            as_ensemble(booster)


class TestRefused:
    @pytest.mark.parametrize("objective", ["reg:logistic", "count:poisson", "reg:gamma", "reg:tweedie"])
    def test_functions_of_the_sum(self, objective: str) -> None:
        X = make_table()
        y = np.clip(np.abs(make_target(X, 0)), 0.01, 1.0)
        with pytest.raises(ValueError, match=f"objective='{objective}' it predicts not the sum"):
            as_ensemble(train({"objective": objective}, X, y))

    def test_a_regressor_of_probabilities(self) -> None:
        X = make_table()
        model = xgb.XGBRegressor(objective="binary:logistic", **SMALL).fit(X, make_target(X, 2))
        with pytest.raises(ValueError, match="predicts not the sum"):
            as_ensemble(model)

    def test_linear(self) -> None:
        X = make_table()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # gblinear is on its way out
            model = xgb.XGBClassifier(booster="gblinear", n_estimators=2, n_jobs=1).fit(X, make_target(X, 2))
            with pytest.raises(ValueError, match="gblinear"):
                as_ensemble(model)

    def test_several_targets(self) -> None:
        X = make_table()
        model = xgb.XGBRegressor(**SMALL).fit(X, X[:, :2])
        with pytest.raises(ValueError, match="has 2 targets"):
            as_ensemble(model)

    def test_another_mark_for_missing(self) -> None:
        X = make_table()
        model = xgb.XGBClassifier(missing=-1.0, **SMALL).fit(X, make_target(X, 2))
        with pytest.raises(ValueError, match=r"takes -1\.0 for a missing value"):
            as_ensemble(model)

    def test_not_fitted(self) -> None:
        for kind in (xgb.XGBClassifier, xgb.XGBRegressor):
            with pytest.raises(ValueError, match=f"{kind.__name__} is not fitted"):
                as_ensemble(kind())

    def test_no_trees(self) -> None:
        X = make_table()
        with pytest.raises(ValueError, match="no trees"):
            as_ensemble(train({}, X, make_target(X, 0), n_rounds=0))


@given(
    values=st.lists(st.floats(-(2.0**127), 2.0**127, width=32), min_size=4, max_size=12, unique=True),
    labels=st.lists(st.booleans(), min_size=12, max_size=12),
    tree_method=st.sampled_from(["hist", "exact"]),
)
def test_any_small_model(values: list[float], labels: list[bool], tree_method: str) -> None:
    """Thresholds anywhere, from the smallest float32 to the largest."""
    X = np.array(values)[:, None]
    parameters = {"tree_method": tree_method, "min_child_weight": 0, "lambda": 0.1}
    booster = train(parameters, X, np.array(labels[: len(values)], dtype=float), n_rounds=2)
    ensemble = as_ensemble(booster)
    at = np.concatenate([ensemble.threshold[ensemble.feature == 0], X[:, 0]])
    with np.errstate(over="ignore"):
        beside = np.nextafter(at.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    rows = np.concatenate([at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf), beside])[:, None]
    rows = rows[np.abs(rows[:, 0]) <= 3.4e38]
    assert_same_bits(ensemble.output(rows), margins_of(booster, rows))
