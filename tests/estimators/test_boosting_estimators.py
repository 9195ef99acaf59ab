"""Robust boosting as scikit-learn estimators."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimator_checks import find_faulty_checks
from hardwood import (
    AttackRule,
    MarginCertificate,
    RobustBoostingClassifier,
    RobustBoostingRegressor,
    ThreatModel,
    TreeEnsemble,
    adversarial_accuracy,
    attack,
    evaluate,
    export_rules,
    load_dataset,
    verify,
)
from hardwood.grow.boosting import Booster


@parametrize_with_checks(
    [
        RobustBoostingClassifier(0.1, early_stopping=False, n_estimators=10),
        RobustBoostingClassifier(n_estimators=10, min_child_weight=0.1, n_jobs=2),
        RobustBoostingClassifier(
            0.01, mode="ordered", subsample=0.8, max_features=0.9, n_estimators=30, early_stopping=0.3
        ),
        RobustBoostingRegressor(0.1, early_stopping=False, n_estimators=20),
        RobustBoostingRegressor(0.1, n_estimators=10),
    ],
    expected_failed_checks=find_faulty_checks,
)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    """Weights are repetitions where nothing is held out; which rows are drawn to be depends on how many there are."""
    if estimator.early_stopping is not False and "sample_weight_equivalence" in check.func.__name__:
        pytest.skip("rows that are repeated are drawn otherwise than rows with weights; the model may differ")
    check(estimator)


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    X = generator.random((240, 4))
    return X, np.where(X[:, 0] + X[:, 1] + 0.1 * generator.normal(size=240) > 1.0, "yes", "no")


@pytest.mark.parametrize("model", [RobustBoostingClassifier(), RobustBoostingRegressor()])
@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("n_estimators", 0, "an integer >= 1"),
        ("max_depth", 13, "an integer from 1 to 12"),
        ("max_depth", None, "an integer from 1 to 12"),
        ("learning_rate", 0.0, "a number > 0"),
        ("l2_regularization", -1.0, "a number >= 0"),
        ("min_gain", "none", "a number >= 0"),
        ("min_child_weight", -0.1, "a number >= 0"),
        ("max_bins", 256, "an integer from 2 to 255"),
        ("subsample", 0.0, "a share of the rows"),
        ("subsample", True, "a share of the rows"),
        ("max_features", 0, "an integer >= 1"),
        ("mode", "both", "'free', 'ordered'"),
        ("early_stopping", True, "'auto', 'cv', a share"),
        ("early_stopping", "folds", "'auto', 'cv', a share"),
        ("early_stopping", 1.0, "'auto', 'cv', a share"),
        ("n_iter_no_change", 0, "an integer >= 1"),
        ("progress", 3, "a function"),
        ("n_jobs", 0, "a number of threads"),
        ("random_state", "one", "a RandomState"),
    ],
)
def test_bad_parameters(model: Any, name: str, value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=f"{name}={value!r}.*{says}"):
        clone(model).set_params(**{name: value}).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])


def test_threats_that_have_no_order() -> None:
    X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    with pytest.raises(ValueError, match="mode='ordered': the attacker may blank values"):
        RobustBoostingClassifier(ThreatModel(0.1, blank="all"), mode="ordered").fit(X, y)
    frame = pd.DataFrame({"kind": pd.Categorical(list("abab")), "size": [0.0, 1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match="mode='ordered': the attacker may change categories of column 'kind'"):
        RobustBoostingClassifier({"kind": "<>"}, mode="ordered").fit(frame, y)
    RobustBoostingClassifier({"size": 0.1}, mode="ordered").fit(frame, y)


def test_everything_works_on_the_model(table: tuple[np.ndarray, np.ndarray]) -> None:
    """Predicting, attacking, proving, evaluating, saving and reading the rules."""
    X, y = table
    model = RobustBoostingClassifier(0.05, random_state=0).fit(X, y)
    assert model.ensemble_.link == "logistic"
    assert model.decision_function(X).shape == (240,)
    np.testing.assert_array_equal(model.predict(X), np.where(model.decision_function(X) > 0.0, "yes", "no"))
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    certificate, exact = model.certify(X, y), verify(model, X, y, 0.05)
    assert isinstance(certificate, MarginCertificate)
    assert repr(certificate) == f"MarginCertificate(certified={certificate.certified.sum()} of 240)"
    assert (exact.status[certificate.certified] == "robust").all()
    assert (certificate.lower <= exact.upper + 1e-12).all()
    assert (certificate.lower <= certificate.upper).all()
    found = attack(model, X, y, 0.05)
    assert not found.found[certificate.certified].any()
    assert adversarial_accuracy(model, X, y, 0.05) == (exact.status == "robust").mean() > 0.7
    assert evaluate(model, X, y, 0.05).adversarial_accuracy.is_exact
    again = TreeEnsemble.parse_json(model.ensemble_.to_json())
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert "to the log-odds of yes" in export_rules(model)
    assert model.apply(X).shape == (240, model.n_estimators_)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))


def test_certifying_another_threat_and_own_predictions(table: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = table
    model = RobustBoostingClassifier(0.05, random_state=0).fit(X, y)
    near, far = model.certify(X, y, threat=0.01), model.certify(X, y, threat=0.2)
    assert near.certified.sum() >= model.certify(X, y).certified.sum() >= far.certified.sum()
    own = model.certify(X)
    assert own.certified.sum() >= model.certify(X, y).certified.sum()
    assert (own.upper >= 0.0).all()
    blanks = ThreatModel(0.05, blank=[0])
    status = verify(model, X, y, blanks).status
    assert (status[model.certify(X, y, threat=blanks).certified] == "robust").all()
    rules = ThreatModel(rules=[AttackRule(0, add=0.1)], budget=1.0)
    with pytest.raises(ValueError, match="attack rules have prices"):
        model.certify(X, y, threat=rules)


@pytest.mark.parametrize("mode", ["free", "ordered"])
def test_certified_never_above_exact_in_any_fold(mode: str) -> None:
    """Ordered: the same; free: nearly."""
    notes = load_dataset("banknote-authentication")
    X, y = np.asarray(notes.data), np.asarray(notes.target)
    for fold in range(3):
        test = np.arange(len(y)) % 3 == fold
        model = RobustBoostingClassifier(0.5, mode=mode, n_estimators=20, early_stopping=False).fit(X[~test], y[~test])
        certified = model.certify(X[test], y[test]).certified
        robust = verify(model, X[test], y[test], 0.5).status == "robust"
        assert (certified <= robust).all()
        assert robust.mean() - certified.mean() <= (0.02 if mode == "free" else 0.0)


def test_several_classes() -> None:
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = RobustBoostingClassifier(0.1, random_state=0).fit(X, names)
    assert model.ensemble_.link == "softmax"
    assert model.decision_function(X).shape == (150, 3)
    assert model.score(X, names) > 0.95
    exact = verify(model, X, names, 0.1)
    certificate = model.certify(X, names)
    assert (exact.status[certificate.certified] == "robust").all()
    assert (exact.status == "robust").mean() - certificate.certified.mean() < 0.05
    assert (exact.status == "robust").mean() > 0.9
    only = RobustBoostingClassifier(0.3, attacking_classes="setosa", random_state=0).fit(X, names)
    assert verify(only, X, names, only.threat_).status.tolist().count("robust") > 140


def test_stages(table: tuple[np.ndarray, np.ndarray]) -> None:
    """The last stage is the model, bit for bit; a model with fewer rounds is an earlier stage."""
    X, y = table
    model = RobustBoostingClassifier(0.05, early_stopping=False, n_estimators=8).fit(X, y)
    stages = list(model.staged_decision_function(X))
    assert len(stages) == model.n_estimators_ == 8
    np.testing.assert_array_equal(stages[-1], model.decision_function(X))
    shorter = RobustBoostingClassifier(0.05, early_stopping=False, n_estimators=3).fit(X, y)
    np.testing.assert_array_equal(stages[2], shorter.decision_function(X))
    np.testing.assert_array_equal(list(model.staged_predict(X))[2], shorter.predict(X))
    X, y = load_iris(return_X_y=True)
    model = RobustBoostingClassifier(0.1, early_stopping=False, n_estimators=3).fit(X, y)
    np.testing.assert_array_equal(list(model.staged_decision_function(X))[-1], model.decision_function(X))


@pytest.mark.parametrize("mode", ["free", "ordered"])
def test_warm_start_goes_on(table: tuple[np.ndarray, np.ndarray], mode: str) -> None:
    """Three rounds and five more are eight rounds."""
    X, y = table
    parameters: dict[str, Any] = {"threat": 0.05, "mode": mode, "early_stopping": False}
    warm = RobustBoostingClassifier(n_estimators=3, warm_start=True, **parameters).fit(X, y)
    warm.set_params(n_estimators=8).fit(X, y)
    whole = RobustBoostingClassifier(n_estimators=8, **parameters).fit(X, y)
    assert warm.n_estimators_ == 8
    np.testing.assert_allclose(warm.decision_function(X), whole.decision_function(X), rtol=1e-9)
    assert len(list(warm.staged_predict(X))) == 8
    with pytest.raises(ValueError, match="n_estimators=2: with warm_start=True, expected at least the 8 there are"):
        warm.set_params(n_estimators=2).fit(X, y)
    with pytest.raises(ValueError, match="early_stopping: with warm_start=True"):
        warm.set_params(n_estimators=9, early_stopping="cv").fit(X, y)
    with pytest.raises(ValueError, match="expected the classes"):
        warm.set_params(early_stopping=False).fit(X, np.where(y == "yes", 1, 0))
    with pytest.raises(ValueError, match="expected the columns"):
        warm.fit(X[:, :2], y)


@pytest.mark.parametrize("early_stopping", [False, "cv"])
def test_interrupting_keeps_the_trees_so_far(
    table: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch, early_stopping: Any
) -> None:
    """Ctrl-C in the sixth round: a model of at most five."""
    X, y = table
    add_round, calls = Booster.add_round, []

    def interrupt(self: Booster) -> Any:
        calls.append(self)
        if len(calls) > 5 * (1 if early_stopping is False else 6):
            raise KeyboardInterrupt
        return add_round(self)

    monkeypatch.setattr(Booster, "add_round", interrupt)
    model = RobustBoostingClassifier(0.05, early_stopping=early_stopping, random_state=0).fit(X, y)
    assert model.interrupted_
    assert model.n_estimators_ == 5
    assert model.score(X, y) > 0.7
    monkeypatch.undo()
    assert not RobustBoostingClassifier(0.05, n_estimators=2).fit(X, y).interrupted_


def test_progress(table: tuple[np.ndarray, np.ndarray]) -> None:
    said: list[tuple[int, int]] = []
    model = RobustBoostingClassifier(
        0.05, n_estimators=4, early_stopping=False, progress=lambda *step: said.append(step)
    )
    model.fit(*table)
    assert said == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_early_stopping_keeps_the_best_round(table: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = table
    for early_stopping in ("cv", 0.3):
        model = RobustBoostingClassifier(0.1, early_stopping=early_stopping, random_state=0).fit(X, y)
        assert model.held_out_loss_.argmin() == model.n_estimators_
        assert len(model.held_out_loss_) <= model.n_estimators_ + 11
    patient = RobustBoostingClassifier(0.1, n_iter_no_change=None, n_estimators=30, random_state=0).fit(X, y)
    assert len(patient.held_out_loss_) == 31
    assert len(RobustBoostingClassifier(0.1, early_stopping=False).fit(X, y).held_out_loss_) == 0


def test_weights_of_classes(table: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = table
    weighted = RobustBoostingClassifier(0.05, class_weight={"yes": 5.0}, early_stopping=False).fit(X, y)
    by_row = RobustBoostingClassifier(0.05, early_stopping=False).fit(X, y, np.where(y == "yes", 5.0, 1.0))
    np.testing.assert_allclose(weighted.decision_function(X), by_row.decision_function(X))
    assert (weighted.predict(X) == "yes").sum() > (
        RobustBoostingClassifier(0.05, early_stopping=False).fit(X, y).predict(X) == "yes"
    ).sum()


def test_kinds_of_tables_and_threats(table: tuple[np.ndarray, np.ndarray]) -> None:
    """Columns by name, pandas and polars, whole numbers, domains, one-sided and infinite reach, relative distances."""
    X, y = table
    X = np.column_stack([X[:, :3], np.round(10 * X[:, 3])])
    frame = pd.DataFrame(X, columns=list("abcd"))
    threats: list[Any] = [
        {"a": 0.05, "d": 1.0},
        ThreatModel({"a": ">", "b": 0.1, "d": 1.0}, whole_numbers=["d"], within={"b": (0.0, 1.0)}),
        ThreatModel({"a": "10%", "b": "<"}),
        ThreatModel(0.05, attacking_classes="yes"),
        ThreatModel({"a": 0.05}, blank=["b", "d"]),
    ]
    for threat in threats:
        model = RobustBoostingClassifier(threat, n_estimators=15, random_state=0).fit(frame, y)
        status = verify(model, frame, y, threat).status
        certified = model.certify(frame, y).certified
        assert (status[certified] == "robust").all()
        assert certified.mean() >= (status == "robust").mean() - 0.03
        other = RobustBoostingClassifier(threat, n_estimators=15, random_state=0).fit(pl.DataFrame(frame), y)
        np.testing.assert_array_equal(model.predict_proba(frame), other.predict_proba(pl.DataFrame(frame)))


def test_attackers_whose_moves_depend_on_each_other() -> None:
    """Training and certificates take what each column can be made; exact answers may be better, never worse."""
    generator = np.random.default_rng(0)
    kind = generator.integers(0, 3, 200)
    frame = pd.DataFrame(
        {"a": generator.random(200), "b": generator.random(200), "length": generator.integers(5, 20, 200)}
    )
    frame = frame.assign(digits=generator.integers(0, 5, 200), **{f"k{k}": (kind == k) * 1 for k in range(3)})
    y = np.where(frame["a"] + 0.3 * (kind == 1) + 0.02 * frame["length"] > 0.8, "bad", "good")
    threats = [
        ThreatModel({"a": 0.05}, groups=[["k0", "k1", "k2"]]),
        ThreatModel({"a": 0.05, "b": 0.1, "length": 2}, max_changes=1),
        ThreatModel({"a": 0.1, "b": 0.1}, radius=0.1, norm=2, units={"a": 1, "b": 1}),
        ThreatModel({"digits": 2, "length": 3}, relations=["digits <= length"]),
    ]
    for threat in threats:
        model = RobustBoostingClassifier(threat, n_estimators=10, early_stopping=False).fit(frame, y)
        status = verify(model, frame, y, threat).status
        certified = model.certify(frame, y).certified
        assert certified.mean() > 0.8
        assert (status[certified] == "robust").all()


def test_tables_that_say_little() -> None:
    """A column without a value, a reach without an end, two rows."""
    y = np.array([0, 0, 1, 1] * 5)
    X = np.column_stack([np.full(20, np.nan), y + np.tile([0.0, 0.1], 10)])
    model = RobustBoostingClassifier(0.1, early_stopping=False, min_child_weight=0.1).fit(X, y)
    assert model.score(X, y) == 1.0
    assert RobustBoostingClassifier("<>", early_stopping=False).fit(X, y).n_estimators_ == 0
    assert RobustBoostingClassifier(0.1).fit([[0.0], [1.0]], ["a", "b"]).n_estimators_ == 0


class TestRegressor:
    X = np.random.default_rng(0).random((300, 3)).round(2)
    y = 10.0 * np.sin(3.0 * X[:, 0]) + X[:, 1]

    def test_bounds_are_those_of_the_exact_search(self) -> None:
        for mode in ("free", "ordered"):
            model = RobustBoostingRegressor(0.02, n_estimators=30, mode=mode, random_state=0).fit(self.X, self.y)
            cheap = model.certify(self.X, self.y, tolerance=3.0)
            exact = verify(model, self.X, self.y, 0.02, tolerance=3.0)
            assert (cheap.lower <= exact.lower + 1e-9).all()
            assert (cheap.upper >= exact.upper - 1e-9).all()
            assert (exact.status[cheap.certified] == "robust").all()
            assert cheap.certified.mean() > 0.8
            if mode == "ordered":
                np.testing.assert_allclose(cheap.lower, exact.lower, atol=1e-9)
                np.testing.assert_allclose(cheap.upper, exact.upper, atol=1e-9)

    def test_beats_natural_boosting_and_the_constant(self) -> None:
        X, y = self.X, self.y

        def worst_error(model: Any) -> float:
            bounds = verify(model, X[1::2], y[1::2], 0.1, tolerance=np.inf)
            return float(np.mean(np.maximum(y[1::2] - bounds.lower, bounds.upper - y[1::2]) ** 2))

        robust = RobustBoostingRegressor(0.1, random_state=0).fit(X[::2], y[::2])
        natural = RobustBoostingRegressor(random_state=0).fit(X[::2], y[::2])
        assert worst_error(robust) < worst_error(natural)
        assert worst_error(robust) < np.var(y)

    def test_weights_stages_and_scores(self) -> None:
        weight = np.random.default_rng(1).integers(0, 3, 300)
        parameters: dict[str, Any] = {"n_estimators": 10, "early_stopping": False}
        weighted = RobustBoostingRegressor(0.05, **parameters).fit(self.X, self.y, weight)
        repeated = RobustBoostingRegressor(0.05, **parameters).fit(
            np.repeat(self.X, weight, axis=0), np.repeat(self.y, weight)
        )
        np.testing.assert_allclose(weighted.predict(self.X), repeated.predict(self.X), rtol=1e-9)
        np.testing.assert_array_equal(list(weighted.staged_predict(self.X))[-1], weighted.predict(self.X))
        assert cross_val_score(RobustBoostingRegressor(0.01, random_state=0), self.X, self.y, cv=3).min() > 0.8

    def test_bad_targets(self) -> None:
        with pytest.raises(ValueError, match="y: expected numbers, got"):
            RobustBoostingRegressor().fit(self.X, np.full(300, "high"))
        with pytest.raises(ValueError, match="sample_weight: the weights of all rows are zero; expected"):
            RobustBoostingRegressor().fit(self.X, self.y, np.zeros(300))


def test_a_row_that_is_held_out_may_weigh_anything() -> None:
    """Derivatives of rows that are held out have no place among integers in units of the others: NumPy warned of it."""
    model = RobustBoostingRegressor("10%", n_estimators=2, max_depth=2, random_state=0, min_child_weight=0.0)
    model.fit([[-7.125, 1.5], [0.0, 1.5]], [1.0, 1.0], [3.4e38, 1.2e-38])
    assert model.predict([[0.0, 1.5]]).tolist() == [1.0]
