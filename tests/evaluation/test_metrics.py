"""Adversarial accuracy: the share of rows that no attack in reach can turn."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from hardwood import (
    RobustTreeClassifier,
    ThreatModel,
    adversarial_accuracy,
    attack,
    is_vulnerable,
    make_adversarial_scorer,
)

Table = tuple[np.ndarray, np.ndarray]


@pytest.mark.parametrize("threat", [0.0, 0.05, [0.3, None, ">"], ThreatModel(0.2, attacking_classes=[1]), "<>"])
def test_equals_the_share_of_rows_without_an_example(model: RobustTreeClassifier, numbers: Table, threat: Any) -> None:
    X, y = numbers
    score = adversarial_accuracy(model, X, y, threat)
    assert type(score) is float
    assert score == 1.0 - attack(model, X, y, threat).found.mean()


def test_without_a_threat_it_is_accuracy(model: RobustTreeClassifier, numbers: Table) -> None:
    X, y = numbers
    weight = np.random.default_rng(0).exponential(size=len(y))
    assert adversarial_accuracy(model, X, y, None) == model.score(X, y)
    weighted = adversarial_accuracy(model, X, y, None, sample_weight=weight)
    assert weighted == pytest.approx(accuracy_score(y, model.predict(X), sample_weight=weight))


def test_weights(numbers: Table) -> None:
    X, y = numbers
    tree = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    score = adversarial_accuracy(tree, X, y, 0.1, sample_weight=weight)
    robust = ~is_vulnerable(tree, X, y, 0.1)
    assert 0.0 < score < 1.0
    assert score == pytest.approx((robust * weight).sum() / weight.sum())
    repeated = adversarial_accuracy(tree, X.repeat(weight, axis=0), y.repeat(weight), 0.1)
    assert score == pytest.approx(repeated)
    assert score == adversarial_accuracy(tree, X, y, 0.1, sample_weight=weight.tolist())


@pytest.mark.parametrize(
    "weight",
    [[1.0], np.ones((200, 1)), np.zeros(200), np.full(200, -1.0), np.full(200, np.nan), ["a"] * 200],
    ids=["too few", "two-dimensional", "all zero", "negative", "NaN", "text"],
)
def test_weights_that_are_none(model: RobustTreeClassifier, numbers: Table, weight: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="sample_weight"):
        adversarial_accuracy(model, *numbers, 0.1, sample_weight=weight)


def test_a_robust_tree_beats_a_natural_one_at_its_own_game(numbers: Table) -> None:
    X, y = numbers
    natural = RobustTreeClassifier(max_depth=4).fit(X, y)
    robust = RobustTreeClassifier(threat=0.1, max_depth=4).fit(X, y)
    scores = [adversarial_accuracy(tree, X, y, 0.1) for tree in (natural, robust)]
    assert scores[0] < scores[1]
    constant = max(y.mean(), 1 - y.mean())
    assert scores[1] > constant


class TestScorer:
    def test_in_a_grid_search(self, numbers: Table) -> None:
        """Every score is the adversarial accuracy of that model on that fold."""
        X, y = numbers
        threat = ThreatModel(0.1, attacking_classes=[1])
        grid = {"max_depth": [1, 3], "threat": [None, threat]}
        folds = KFold(3)
        with parallel_config("threading"):  # processes would do too: see below, but take long to start
            search = GridSearchCV(
                RobustTreeClassifier(), grid, scoring=make_adversarial_scorer(threat), cv=folds, n_jobs=2
            ).fit(X, y)
        for k, parameters in enumerate(search.cv_results_["params"]):
            for fold, (train, test) in enumerate(folds.split(X)):
                tree = RobustTreeClassifier(**parameters).fit(X[train], y[train])
                expected = adversarial_accuracy(tree, X[test], y[test], threat)
                assert search.cv_results_[f"split{fold}_test_score"][k] == expected
        assert search.best_params_["threat"] == threat

    def test_survives_pickling(self, model: RobustTreeClassifier, numbers: Table) -> None:
        scorer = make_adversarial_scorer([0.1, None, ">"], time_limit=3.0)
        assert pickle.loads(pickle.dumps(scorer)) == scorer
        assert clone(scorer, safe=False) == scorer
        assert scorer(model, *numbers) == adversarial_accuracy(model, *numbers, [0.1, None, ">"])

    def test_weights(self, model: RobustTreeClassifier, numbers: Table) -> None:
        weight = np.random.default_rng(0).exponential(size=len(numbers[1]))
        expected = adversarial_accuracy(model, *numbers, 0.1, sample_weight=weight)
        for limit in (None, 5.0):
            assert make_adversarial_scorer(0.1, time_limit=limit)(model, *numbers, sample_weight=weight) == expected

    def test_with_a_time_limit_it_is_what_is_proved(self, numbers: Table) -> None:
        X, y = numbers
        forest = RandomForestClassifier(60, random_state=0).fit(X, y)
        hurried = make_adversarial_scorer(0.05, time_limit=0)(forest, X, y)
        assert hurried < make_adversarial_scorer(0.05)(forest, X, y)

    def test_pipelines(self, numbers: Table) -> None:
        """A pipeline of scalers is a tree model of the table that goes in; one that mixes columns is refused."""
        X, y = numbers
        tree = DecisionTreeClassifier(max_depth=3, random_state=0)
        scorer = make_adversarial_scorer(0.1)
        plain = Pipeline([("nothing", "passthrough"), ("tree", tree)]).fit(X, y)
        assert scorer(plain, X, y) == adversarial_accuracy(plain[-1], X, y, 0.1)
        search = GridSearchCV(make_pipeline(StandardScaler(), tree), {}, scoring=scorer, error_score="raise").fit(X, y)
        scaled = search.best_estimator_
        units = dict(enumerate(0.1 / scaled[0].scale_))
        assert scorer(scaled, X, y) == adversarial_accuracy(scaled[-1], scaled[0].transform(X), y, units)
        assert scorer(search, X, y) == scorer(scaled, X, y)
        with pytest.raises(TypeError, match=r"Pipeline with a PCA in front \(step 'pca'\)"):
            scorer(make_pipeline(PCA(), tree).fit(X, y), X, y)

    def test_what_is_refused(self) -> None:
        with pytest.raises(ValueError, match="time_limit"):
            make_adversarial_scorer(0.1, time_limit=-1)
        with pytest.raises(ValueError, match="threat"):
            make_adversarial_scorer(-0.1)
