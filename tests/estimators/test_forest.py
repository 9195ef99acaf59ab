"""RobustForestClassifier: scikit-learn's conventions, and trees that are what single trees would be."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimator_checks import find_faulty_checks
from hardwood import (
    RobustForestClassifier,
    RobustForestRegressor,
    RobustTreeClassifier,
    RobustTreeRegressor,
    ThreatModel,
    TreeEnsemble,
    adversarial_accuracy,
    as_ensemble,
    evaluate,
    verify,
)
from hardwood.estimators.forest_parts import check_forest
from hardwood.estimators.parameters import check_grow_options
from hardwood.estimators.target import read_problem
from hardwood.grow.forest import draw_rows, draw_seeds, find_unseen, join_trees
from hardwood.grow.regression import ERRORS, grow_regression
from hardwood.grow.tree import grow_tree


def list_expected_failures(estimator: Any) -> dict[str, str]:
    expected = {
        "check_class_weight_classifiers": "a leaf of one class predicts it, however little it weighs",
        "check_sample_weight_equivalence_on_dense_data": "rows that are drawn are not the same as their weights",
    }
    if not estimator.bootstrap:
        del expected["check_sample_weight_equivalence_on_dense_data"]
    return expected | find_faulty_checks(estimator)


@parametrize_with_checks(
    [
        RobustForestClassifier(n_estimators=4, random_state=0),
        RobustForestClassifier(0.05, n_estimators=4, bootstrap=True, random_state=0),
        RobustForestRegressor(0.05, n_estimators=4, random_state=0),
    ],
    expected_failed_checks=list_expected_failures,
)
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    check(estimator)


def make_rows(n_rows: int = 90) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(8)
    X = generator.integers(0, 12, (n_rows, 5)) / 10.0
    y = (X[:, 0] + X[:, 1] + generator.normal(0, 0.2, n_rows) > 1.1).astype(int)
    return X, np.array(["ham", "spam"])[y]


def is_same(one: TreeEnsemble, other: TreeEnsemble) -> bool:
    return one.to_json() == other.to_json()


class TestTrees:
    @pytest.mark.parametrize("options", [{}, {"bootstrap": True}, {"bootstrap": True, "max_samples": 0.4},
                                         {"class_weight": "balanced_subsample", "bootstrap": True},
                                         {"rho": 0.5, "bootstrap": True}], ids=str)  # fmt: skip
    @pytest.mark.parametrize("weighted", [False, True])
    def test_each_is_the_tree_of_its_rows(self, options: dict[str, Any], weighted: bool) -> None:
        """Grown from codes that were made for all rows, it is the exact tree of the rows that were drawn."""
        X, y = make_rows()
        weight = np.random.default_rng(1).random(len(X)) + 0.5 if weighted else None
        model = RobustForestClassifier(0.15, n_estimators=6, random_state=3, **options).fit(X, y, weight)
        forest = check_forest(model, len(X), model._seed)
        problem = read_problem(clone(model).set_params(class_weight=None), X, y, weight)
        reach = problem.threat.resolve(problem.schema, problem.classes)
        trees = []
        for seed in draw_seeds(forest):
            drawn = draw_rows(forest, seed)
            drawn = np.arange(len(X)) if drawn is None else drawn
            arguments = {"threat": 0.15, "max_depth": 4, "max_features": "sqrt", "rho": options.get("rho", 1.0)}
            if options.get("class_weight"):
                arguments["class_weight"] = "balanced"
            single = RobustTreeClassifier(**arguments, max_bins="exact", random_state=0)
            own = read_problem(single, X[drawn], y[drawn], None if weight is None else weight[drawn])
            grow_options = check_grow_options(single, len(drawn), X.shape[1])
            trees.append(grow_tree(own, reach, replace(grow_options, seed=seed)))
        joined = join_trees(trees)
        assert model.ensemble_.n_trees == 6
        assert model.ensemble_.threshold.tolist() == joined.threshold.tolist()
        assert model.ensemble_.feature.tolist() == joined.feature.tolist()
        assert model.ensemble_.value == pytest.approx(joined.value, abs=1e-9)

    @pytest.mark.parametrize("bootstrap", [False, True])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_many_classes_and_missing_values(self, bootstrap: bool, weighted: bool) -> None:
        """Each is the tree of its rows, with bins for all ends, as long as the rows drawn have the same ends."""
        X, _ = make_rows(300)
        y = (X[:, 0] * 10).astype(int) % 3
        X[::9, 2] = np.nan
        weight = np.random.default_rng(1).random(len(X)) + 0.5 if weighted else None
        model = RobustForestClassifier(0.1, n_estimators=4, bootstrap=bootstrap, random_state=3).fit(X, y, weight)
        trees = []
        forest = check_forest(model, len(X), model._seed)
        for seed in draw_seeds(forest):
            drawn = draw_rows(forest, seed)
            drawn = np.arange(len(X)) if drawn is None else drawn
            single = RobustTreeClassifier(0.1, max_depth=4, max_features="sqrt", max_bins=255)
            own = read_problem(single, X[drawn], y[drawn], None if weight is None else weight[drawn])
            options = replace(check_grow_options(single, len(drawn), X.shape[1]), seed=seed, max_bins=255)
            trees.append(grow_tree(own, own.threat.resolve(own.schema, own.classes), options))
        joined = join_trees(trees)
        assert model.ensemble_.feature.tolist() == joined.feature.tolist()
        assert model.ensemble_.threshold.tolist() == joined.threshold.tolist()
        assert model.ensemble_.value == pytest.approx(joined.value, abs=1e-9)
        assert (model.ensemble_.missing_left == joined.missing_left).all()
        assert (verify(model, X, y, 0.1).status != "unknown").all()

    def test_the_forest_says_the_average(self) -> None:
        X, y = make_rows()
        model = RobustForestClassifier(0.1, n_estimators=7, random_state=0).fit(X, y)
        ensemble = model.ensemble_
        votes = np.mean([ensemble.value[leaves] for leaves in ensemble.leaves(X).T], axis=0)
        assert model.predict_proba(X) == pytest.approx(votes)
        assert model.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(len(X)))
        assert (model.predict(X) == model.classes_[votes.argmax(axis=1)]).all()

    def test_neither_threads_nor_processes_matter(self) -> None:
        X, y = make_rows()
        model = RobustForestClassifier(0.1, n_estimators=6, bootstrap=True, random_state=0)
        alone = clone(model).fit(X, y).ensemble_
        assert is_same(alone, clone(model).set_params(n_jobs=2).fit(X, y).ensemble_)
        with parallel_config(backend="loky", n_jobs=2):
            assert is_same(alone, clone(model).fit(X, y).ensemble_)
        assert not is_same(alone, clone(model).set_params(random_state=1).fit(X, y).ensemble_)

    def test_categories(self) -> None:
        X, y = make_rows()
        table = pd.DataFrame(X, columns=list("abcde"))
        colour = np.where(y == "spam", "red", "blue").astype(object)
        colour[::4] = "green"
        table["colour"] = pd.Categorical(colour)
        threat = ThreatModel({"a": 0.1, "b": 0.1, "colour": {"red": ["green"]}})
        model = RobustForestClassifier(threat, n_estimators=5, max_features=None, random_state=0).fit(table, y)
        assert model.ensemble_.schema.categories[5] == ("blue", "green", "red")
        assert (model.ensemble_.feature == 5).any()
        assert is_same(TreeEnsemble.parse_json(model.ensemble_.to_json()), model.ensemble_)  # which checks every node
        certificate = verify(model, table, y, threat)
        assert (certificate.status != "unknown").all()


class TestWarmStart:
    def test_grown_in_two_steps_or_in_one(self) -> None:
        X, y = make_rows()
        model = RobustForestClassifier(0.1, n_estimators=4, bootstrap=True, oob_score=True, random_state=5)
        at_once = clone(model).set_params(n_estimators=9).fit(X, y)
        model.fit(X, y).set_params(warm_start=True, n_estimators=9).fit(X, y)
        assert is_same(model.ensemble_, at_once.ensemble_)
        assert model.oob_score_ == at_once.oob_score_
        assert is_same(model.fit(X, y).ensemble_, at_once.ensemble_)

    def test_without_a_seed_it_goes_on(self) -> None:
        X, y = make_rows()
        model = RobustForestClassifier(0.1, n_estimators=3, warm_start=True).fit(X, y)
        first = model.ensemble_.threshold[: model.ensemble_.root[2]].tolist()
        model.set_params(n_estimators=5).fit(X, y)
        assert model.ensemble_.n_trees == 5
        assert model.ensemble_.threshold[: model.ensemble_.root[2]].tolist() == first

    def test_wrong_use(self) -> None:
        X, y = make_rows()
        model = RobustForestClassifier(0.1, n_estimators=3, warm_start=True).fit(X, y)
        with pytest.raises(ValueError, match="n_estimators=2: there are 3 trees"):
            model.set_params(n_estimators=2).fit(X, y)
        with pytest.raises(ValueError, match="other columns or classes"):
            model.set_params(n_estimators=4).fit(X[:, :3], y)


class TestOutOfBag:
    def test_by_plain_counting(self) -> None:
        X, y = make_rows()
        model = RobustForestClassifier(0.1, n_estimators=30, bootstrap=True, oob_score=True, random_state=0).fit(X, y)
        forest = check_forest(model, len(X), model._seed)
        seen = [set(draw_rows(forest, seed).tolist()) for seed in draw_seeds(forest)]
        unseen = find_unseen(forest)
        assert all((row not in seen[tree]) == unseen[row, tree] for row in range(len(X)) for tree in range(30))
        leaves = model.apply(X)
        assert leaves.shape == (len(X), 30)
        right = 0
        for row in range(len(X)):
            values = [model.ensemble_.value[leaves[row, tree]] for tree in range(30) if unseen[row, tree]]
            assert model.oob_decision_function_[row] == pytest.approx(np.mean(values, axis=0))
            right += model.classes_[np.mean(values, axis=0).argmax()] == y[row]
        assert model.oob_score_ == pytest.approx(right / len(X))

    def test_forgotten_by_a_fit_without(self) -> None:
        X, y = make_rows()
        model = RobustForestClassifier(0.1, n_estimators=5, bootstrap=True, oob_score=True, random_state=0).fit(X, y)
        model.set_params(oob_score=False).fit(X, y)
        assert not hasattr(model, "oob_score_")


def test_whatever_asks_a_model_asks_a_forest() -> None:
    X, y = make_rows()
    model = RobustForestClassifier(0.1, n_estimators=15, random_state=0).fit(X, y)
    report = evaluate(model, X, y, threat=0.1)
    assert report.adversarial_accuracy.is_exact
    assert report.adversarial_accuracy.lower == adversarial_accuracy(model, X, y, 0.1)
    again = pickle.loads(pickle.dumps(model))
    assert is_same(again.ensemble_, model.ensemble_)
    assert is_same(as_ensemble(model), TreeEnsemble.parse_json(model.ensemble_.to_json()))
    importances = model.feature_importances_
    assert importances.sum() == pytest.approx(1.0)
    assert importances[:2].sum() > 0.5
    assert (RobustForestClassifier("<>", n_estimators=3).fit(X, y).feature_importances_ == 0.0).all()


def test_the_certificate_holds() -> None:
    X, y = make_rows()
    model = RobustForestClassifier(0.1, n_estimators=15, random_state=0).fit(X, y)
    exact, cheap = verify(model, X, y, 0.1), model.certify(X, y)
    assert cheap.certified.any()
    assert not (cheap.certified & (exact.status != "robust")).any()
    assert (cheap.lower <= exact.upper + 1e-12).all()


class TestNumbers:
    def test_each_tree_is_that_of_its_rows(self) -> None:
        X, _ = make_rows()
        y = X[:, 0] - X[:, 1] ** 2
        options = {"max_depth": 3, "max_features": 2, "min_samples_leaf": 2}
        model = RobustForestRegressor(0.1, n_estimators=4, bootstrap=True, random_state=2, **options).fit(X, y)
        single = RobustTreeRegressor(0.1, max_bins=255, refit_leaves=False, **options)
        trees = []
        for seed in draw_seeds(check_forest(model, len(X), model._seed)):
            drawn = draw_rows(check_forest(model, len(X), model._seed), seed)
            problem = read_problem(single, X[drawn], y[drawn], None)
            grow_options = check_grow_options(single, len(drawn), X.shape[1], ERRORS)
            grow_options = replace(grow_options, seed=seed, max_bins=255)
            trees.append(grow_regression(problem, problem.threat.resolve(problem.schema), grow_options).ensemble)
        assert is_same(model.ensemble_, join_trees(trees))
        mean = np.mean([tree.predict(X) for tree in trees], axis=0)
        assert model.predict(X) == pytest.approx(mean)

    def test_out_of_bag_warm_starts_and_certificates(self) -> None:
        X, _ = make_rows()
        y = X[:, 0] - X[:, 1] ** 2
        model = RobustForestRegressor(0.1, n_estimators=40, bootstrap=True, oob_score=True, random_state=0)
        at_once = clone(model).fit(X, y)
        model.set_params(n_estimators=10).fit(X, y).set_params(n_estimators=40, warm_start=True).fit(X, y)
        assert is_same(model.ensemble_, at_once.ensemble_)
        unseen = find_unseen(check_forest(model, len(X), model._seed))
        leaves = model.apply(X)
        votes = [model.ensemble_.value[leaves[row, unseen[row]], 0].mean() for row in range(len(X))]
        assert model.oob_prediction_ == pytest.approx(votes)
        assert model.oob_score_ == pytest.approx(r2_score(y, votes))
        exact, cheap = verify(model, X, y, 0.1, tolerance=0.4), model.certify(X, y, tolerance=0.4)
        assert (cheap.lower <= exact.lower + 1e-9).all()
        assert (cheap.upper >= exact.upper - 1e-9).all()
        assert not (cheap.certified & (exact.status == "vulnerable")).any()

    def test_wrong_use(self) -> None:
        X, _ = make_rows()
        with pytest.raises(ValueError, match="max_bins='auto'"):
            RobustForestRegressor(max_bins="auto").fit(X, X[:, 0])
        with pytest.raises(ValueError, match="criterion='gini'"):
            RobustForestRegressor(criterion="gini").fit(X, X[:, 0])


def test_progress() -> None:
    X, y = make_rows()
    told: list[tuple[int, int]] = []
    RobustForestClassifier(n_estimators=3, progress=lambda *steps: told.append(steps)).fit(X, y)
    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_estimators": 0}, "n_estimators=0: expected an integer >= 1"),
        ({"oob_score": True}, "oob_score=True: for bootstrap=True only"),
        ({"max_samples": 0.5}, r"max_samples=0\.5: for bootstrap=True only"),
        ({"bootstrap": True, "max_samples": 1.5}, r"max_samples=1\.5: expected None"),
        ({"max_bins": 1}, "max_bins=1: expected"),
        ({"class_weight": "heavy"}, "class_weight"),
    ],
    ids=str,
)
def test_wrong_parameters(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RobustForestClassifier(**options).fit(*make_rows())


def test_regression_forests_take_categories_and_missing_values() -> None:
    """They used to refuse both, though their trees take them."""
    generator = np.random.default_rng(0)
    town = generator.choice(["A", "B", "C"], 200)
    X = pd.DataFrame({"town": pd.Categorical(town), "x": generator.random(200)})
    X.loc[::9, "x"] = np.nan
    y = np.where(town == "B", 5.0, 1.0) + np.nan_to_num(X["x"].to_numpy())
    for max_bins in (255, "exact"):
        forest = RobustForestRegressor({"x": 0.05}, n_estimators=5, max_bins=max_bins, random_state=0).fit(X, y)
        assert forest.score(X, y) > 0.9
    with pytest.raises(ValueError, match="criterion='squared_error' takes missing values"):
        RobustForestRegressor(criterion="absolute_error", n_estimators=2).fit(X, y)
