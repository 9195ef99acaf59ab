"""A model is read once, and never taken for what it was before."""

import gc
import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from hardwood import as_ensemble, attack, evaluate, verify
from hardwood.ensemble import TreeEnsemble
from hardwood.table import Schema

X = np.random.default_rng(0).random((80, 3))
Y = (X.sum(axis=1) > 1.5).astype(int)
OTHER = (X[:, 0] > 0.3).astype(int)

MODELS = {
    "tree": lambda: DecisionTreeClassifier(max_depth=3, random_state=0),
    "forest": lambda: RandomForestClassifier(3, max_depth=2, random_state=0, n_jobs=1),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=3, random_state=0),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=5, learning_rate=1.0, min_samples_leaf=5),
    "pipeline": lambda: make_pipeline(StandardScaler(), DecisionTreeClassifier(max_depth=2, random_state=0)),
}


@pytest.fixture(params=MODELS)
def model(request: Any) -> Any:
    return MODELS[request.param]().fit(X, Y)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count how often a table is encoded, outputs are summed up, and a tree of scikit-learn is asked."""
    counted: Counter[str] = Counter()

    def count(owner: type, name: str) -> None:
        method = getattr(owner, name)

        def counting(*arguments: Any, **options: Any) -> Any:
            counted[name] += 1
            return method(*arguments, **options)

        monkeypatch.setattr(owner, name, counting)

    count(Schema, "encode")
    count(TreeEnsemble, "output")
    count(DecisionTreeClassifier, "predict")
    return counted


def test_second_question_reads_nothing(model: Any) -> None:
    assert as_ensemble(model, X) is as_ensemble(model, X)


def test_refitted_model_is_read_anew(model: Any) -> None:
    before = as_ensemble(model, X)
    model.fit(X, OTHER)
    after = as_ensemble(model, X)
    assert after is not before
    np.testing.assert_array_equal(after.predict(X), model.predict(X))
    assert (after.predict(X) != before.predict(X)).any()


def test_change_of_a_tree_in_place_is_noticed() -> None:
    """The object is the same, its tree is the same object, and nobody called fit."""
    tree = MODELS["tree"]().fit(X, Y)
    before = as_ensemble(tree, X).predict(X)
    tree.tree_.value[:] = tree.tree_.value[:, :, ::-1].copy()
    np.testing.assert_array_equal(as_ensemble(tree, X).predict(X), 1 - before)


def test_more_trees_are_noticed() -> None:
    """A warm start appends to the list of trees that what is remembered refers to as well."""
    forest = RandomForestClassifier(2, max_depth=2, random_state=0, n_jobs=1, warm_start=True).fit(X, Y)
    assert as_ensemble(forest, X).n_trees == 2
    forest.set_params(n_estimators=5).fit(X, Y)
    assert as_ensemble(forest, X).n_trees == 5


def test_changed_settings_are_noticed() -> None:
    pipeline = MODELS["pipeline"]().fit(X, Y)
    before = as_ensemble(pipeline, X)
    pipeline[0].mean_ += 0.25
    np.testing.assert_array_equal(as_ensemble(pipeline, X).predict(X), pipeline.predict(X))
    assert as_ensemble(pipeline, X) is not before


def test_booster_that_is_trained_on_is_read_anew() -> None:
    xgboost = pytest.importorskip("xgboost")
    model = xgboost.XGBClassifier(n_estimators=2, max_depth=2, n_jobs=1).fit(X, Y)
    before = as_ensemble(model, X)
    assert as_ensemble(model, X) is before
    model.get_booster().update(xgboost.DMatrix(X, Y), 2)
    assert as_ensemble(model.get_booster(), X).n_trees == before.n_trees + 1


def test_lightgbm_leaf_that_is_set_is_noticed() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=2, n_jobs=1, verbose=-1, min_child_samples=5).fit(X, Y)
    before = as_ensemble(model, X)
    assert as_ensemble(model, X) is before
    model.booster_.set_leaf_output(0, 0, 100.0)
    assert (as_ensemble(model, X).predict(X) != before.predict(X)).any()


def test_model_can_go(model: Any) -> None:
    """What is remembered refers to the trees of the model, not to the model, which it would keep for ever."""
    short_lived = clone(model).fit(X, Y)
    ensemble = weakref.ref(as_ensemble(short_lived, X))
    seen = weakref.ref(short_lived)
    del short_lived
    gc.collect()
    assert seen() is None
    assert ensemble() is None


def test_model_that_cannot_be_pickled_is_read_every_time() -> None:
    tree = MODELS["tree"]().fit(X, Y)
    tree.note = lambda: None
    before = as_ensemble(tree, X)
    assert as_ensemble(tree, X) is not before
    tree.fit(X, OTHER)
    np.testing.assert_array_equal(as_ensemble(tree, X).predict(X), tree.predict(X))


class TestCalls:
    """A table was encoded twice, outputs were summed up four times and the model was asked three times, every time."""

    @pytest.mark.parametrize(
        "ask",
        [
            lambda model, y: verify(model, X, y, 0.1),
            lambda model, y: attack(model, X, y, 0.1),
            lambda model, y: attack(model, X, y, 0.1, method="heuristic"),
            lambda model, y: evaluate(model, X, y, 0.1, ceiling=False),
        ],
        ids=["verify", "attack", "heuristic", "evaluate"],
    )
    def test_rows_are_encoded_and_predicted_once(self, calls: Counter[str], ask: Any) -> None:
        """Besides the rows, it is only the examples that are predicted."""
        tree = MODELS["tree"]().fit(X, Y)
        ask(tree, Y)
        first = calls.copy()
        calls.clear()
        ask(tree, Y)
        assert calls["encode"] == calls["predict"] == 1
        assert calls["output"] <= 3
        # The first question compares the import with the model, on rows near the thresholds.
        assert first["predict"] > 1
        assert first - Counter(predict=first["predict"]) == calls - Counter(predict=1) + Counter(output=1)

    def test_predictions_stand_for_labels_at_no_cost(self, calls: Counter[str]) -> None:
        ensemble = as_ensemble(MODELS["tree"]().fit(X, Y))
        calls.clear()
        verify(ensemble, X, None, 0.1)
        assert calls == Counter(encode=1, output=2)
