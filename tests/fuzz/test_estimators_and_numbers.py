"""Every estimator on numbers, labels and weights of every type and size: finite answers, or one readable sentence."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import event, given, note
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

import hardwood
from fuzz.numbers import labels, numbers, tables, weights
from fuzz.profile import dear
from hardwood import TreeEnsemble

THREATS = [None, 0.5, "10%", "<", 1e300, 1e-300, "1 std"]
# Of what is given, this is odd: the table, the target, the weights.
ODD = ["X", "X", "y", "w", "Xyw"]
Make = Callable[[Any, int], Any]
CLASSIFIERS: dict[str, Make] = {
    "tree": lambda t, s: hardwood.RobustTreeClassifier(t, max_depth=3),
    "entropy tree": lambda t, s: hardwood.RobustTreeClassifier(
        t, criterion="entropy", max_depth=3, class_weight="balanced"
    ),
    "binned tree": lambda t, s: hardwood.RobustTreeClassifier(t, max_depth=3, max_bins=4),
    "refined tree": lambda t, s: hardwood.RobustTreeClassifier(
        t, refine="search", n_starts=1, max_depth=2, random_state=s
    ),
    "tree of Chen": lambda t, s: hardwood.RobustTreeClassifier(t, attacker="chen", max_depth=3),
    "forest": lambda t, s: hardwood.RobustForestClassifier(
        t, n_estimators=2, max_depth=3, random_state=s, bootstrap=True
    ),
    "boosting": lambda t, s: hardwood.RobustBoostingClassifier(
        t, n_estimators=2, max_depth=2, random_state=s, min_child_weight=0.0
    ),
    "ordered boosting": lambda t, s: hardwood.RobustBoostingClassifier(
        t, n_estimators=2, max_depth=2, mode="ordered", early_stopping=False
    ),
    "optimal": lambda t, s: hardwood.OptimalRobustTreeClassifier(t, max_depth=1),
    "TREANT": lambda t, s: hardwood.TreantClassifier(t, max_depth=2),
    "hardened": lambda t, s: hardwood.HardenedClassifier(
        DecisionTreeClassifier(max_depth=2), t, rounds=1, random_state=s
    ),
}
REGRESSORS: dict[str, Make] = {
    "tree": lambda t, s: hardwood.RobustTreeRegressor(t, max_depth=3),
    "absolute tree": lambda t, s: hardwood.RobustTreeRegressor(t, criterion="absolute_error", max_depth=3),
    "binned tree": lambda t, s: hardwood.RobustTreeRegressor(t, max_depth=3, max_bins=4),
    "forest": lambda t, s: hardwood.RobustForestRegressor(t, n_estimators=2, max_depth=3, random_state=s),
    "boosting": lambda t, s: hardwood.RobustBoostingRegressor(
        t, n_estimators=2, max_depth=2, random_state=s, min_child_weight=0.0
    ),
    "ordered boosting": lambda t, s: hardwood.RobustBoostingRegressor(
        t, n_estimators=2, max_depth=2, mode="ordered", early_stopping=False
    ),
}


def ignore_others() -> None:
    """Ignore what is said for a user to hear, and what NumPy says while others convert numbers."""
    warnings.simplefilter("ignore", UserWarning)
    warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"sklearn|numpy|pandas")


def fit(model: Any, X: Any, y: Any, weight: Any) -> bool:
    """Fit an estimator, if it takes such a table; if not, it says so in a sentence."""
    try:
        model.fit(X, y) if weight is None else model.fit(X, y, sample_weight=weight)
    except (ValueError, TypeError) as refusal:
        text = str(refusal)
        assert 0 < len(text) < 2000
        event(f"refused: {text[:60]}")
        return False
    return True


def read_back(model: Any, ensemble: TreeEnsemble, X: Any, answers: list[Callable[[Any], np.ndarray]]) -> None:
    """A model that was pickled, or written and read, says the same."""
    twin = pickle.loads(pickle.dumps(model))
    parsed = TreeEnsemble.parse_json(ensemble.to_json())
    for ask in answers:
        np.testing.assert_array_equal(ask(twin), ask(model))
    np.testing.assert_array_equal(parsed.predict(X), ensemble.predict(X))


@dear
@given(st.data())
def test_classifiers(data: Any) -> None:
    n_rows = data.draw(st.sampled_from([12, 12, 30, 30, 2, 1]))
    name = data.draw(st.sampled_from(list(CLASSIFIERS)))
    model = CLASSIFIERS[name](data.draw(st.sampled_from(THREATS)), 0)
    odd = data.draw(st.sampled_from(ODD))
    X, y = data.draw(tables(n_rows, is_odd="X" in odd)), data.draw(labels(n_rows, is_odd="y" in odd))
    weight = data.draw(weights(n_rows, is_odd="w" in odd))
    note(f"{model}, {getattr(X, 'dtypes', getattr(X, 'dtype', type(X)))}")
    with warnings.catch_warnings():
        ignore_others()
        if not fit(model, X, y, weight):
            return
        event(f"fitted: {name}")
        predicted = model.predict(X)
        assert predicted.shape == (n_rows,)
        assert np.isin(predicted, model.classes_).all()
        if hasattr(model, "predict_proba"):
            share = model.predict_proba(X)
            assert share.shape == (n_rows, len(model.classes_))
            assert np.isfinite(share).all()
            assert ((share >= 0.0) & (share <= 1.0)).all()
            np.testing.assert_allclose(share.sum(axis=1), 1.0, rtol=1e-6)
        ensemble = hardwood.as_ensemble(model)
        read_back(model, ensemble, X, [lambda each: each.predict(X)])
        np.testing.assert_array_equal(ensemble.predict(X), predicted)
        certificate = hardwood.verify(model, X, None, model.threat_)
        assert (certificate.lower <= certificate.upper).all()
        assert np.isin(certificate.status, ["robust", "vulnerable"]).all()


@dear
@given(st.data())
def test_regressors(data: Any) -> None:
    n_rows = data.draw(st.sampled_from([12, 12, 30, 30, 2, 1]))
    name = data.draw(st.sampled_from(list(REGRESSORS)))
    model = REGRESSORS[name](data.draw(st.sampled_from(THREATS)), 0)
    odd = data.draw(st.sampled_from(ODD))
    X, y = data.draw(tables(n_rows, is_odd="X" in odd)), data.draw(numbers(n_rows, is_odd="y" in odd))
    weight = data.draw(weights(n_rows, is_odd="w" in odd))
    note(f"{model}, {getattr(X, 'dtypes', getattr(X, 'dtype', type(X)))}")
    with warnings.catch_warnings():
        ignore_others()
        if not fit(model, X, y, weight):
            return
        event(f"fitted: {name}")
        predicted = model.predict(X)
        assert predicted.shape == (n_rows,)
        assert np.isfinite(predicted).all()
        read_back(model, hardwood.as_ensemble(model), X, [lambda each: each.predict(X)])
        certificate = hardwood.verify(model, X, None, model.threat_, tolerance=0.0)
        assert (certificate.lower <= predicted).all()
        assert (predicted <= certificate.upper).all()
