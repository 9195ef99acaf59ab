"""Hardening: it protects what it is trained on, keeps the labels of rows, and behaves as scikit-learn expects."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from estimator_checks import find_faulty_checks
from hardwood import (
    HardenedClassifier,
    RobustTreeClassifier,
    ThreatModel,
    adversarial_accuracy,
    as_ensemble,
    is_vulnerable,
)

# Checks that are expected to fail, each with its reason.
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "forests draw rows, whatever they weigh, and a row that is given "
    "twice may be attacked twice",
}

Table = tuple[np.ndarray, np.ndarray]


def small_forest() -> RandomForestClassifier:
    return RandomForestClassifier(5, max_depth=3, random_state=0)


@parametrize_with_checks(
    [
        HardenedClassifier(small_forest()),
        HardenedClassifier(small_forest(), threat=0.1, rounds=2, random_state=0),
        HardenedClassifier(
            GradientBoostingClassifier(n_estimators=4, random_state=0), threat=0.1, rounds=1, max_rows=9
        ),
    ],
    expected_failed_checks=lambda estimator: find_faulty_checks(estimator) | EXPECTED_FAILURES,
)
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def noisy() -> Table:
    """Two features that say much about the class, and one that says more, if nobody touches it."""
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, 400)
    solid = y[:, None] + generator.normal(0, 0.5, (400, 2))
    telltale = 0.1 * y + generator.normal(0, 0.05, 400)
    return np.column_stack([solid, telltale]), y


THREAT = [0.0, 0.0, 0.1]
BASES = {
    "forest": RandomForestClassifier(20, max_depth=4, random_state=0),
    "extra trees": ExtraTreesClassifier(20, max_depth=4, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=20, random_state=0),
    "histograms": HistGradientBoostingClassifier(max_iter=20, max_depth=3, random_state=0),
    "our tree": RobustTreeClassifier(max_depth=4),
}


class TestProtection:
    @pytest.mark.parametrize("name", BASES)
    def test_a_feature_that_the_attacker_owns_is_unlearned(self, noisy: Table, name: str) -> None:
        X, y = noisy
        base = clone(BASES[name]).fit(X[:200], y[:200])
        model = HardenedClassifier(base, THREAT, rounds=5).fit(X[:200], y[:200])
        before = adversarial_accuracy(base, X[200:], y[200:], THREAT)
        after = adversarial_accuracy(model, X[200:], y[200:], THREAT)
        assert after > before + 0.1
        assert model.score(X[200:], y[200:]) > base.score(X[200:], y[200:]) - 0.05

    @pytest.mark.parametrize("method", ["coordinate", "heuristic"])
    def test_other_attacks(self, noisy: Table, method: str) -> None:
        X, y = noisy
        base = BASES["boosting"]
        model = HardenedClassifier(base, THREAT, method=method, rounds=5).fit(X[:200], y[:200])
        before = adversarial_accuracy(clone(base).fit(X[:200], y[:200]), X[200:], y[200:], THREAT)
        assert adversarial_accuracy(model, X[200:], y[200:], THREAT) > before + 0.02

    def test_the_exact_attack(self, noisy: Table) -> None:
        X, y = noisy
        base = RandomForestClassifier(5, max_depth=3, random_state=0)
        model = HardenedClassifier(base, 0.05, method="search", rounds=2).fit(X, y)
        vulnerable = is_vulnerable(clone(base).fit(X, y), X, y, 0.05)
        wrong = clone(base).fit(X, y).predict(X) != y
        assert model.history_[0]["vulnerable"] == (vulnerable & ~wrong).sum()

    def test_only_attackers_are_moved(self, noisy: Table) -> None:
        X, y = noisy
        model = HardenedClassifier(BASES["forest"], THREAT, attacking_classes=1, rounds=1).fit(X, y)
        base = clone(BASES["forest"]).fit(X, y)
        right = base.predict(X) == y
        assert 0 < model.history_[0]["vulnerable"] <= (y == 1).sum()
        assert model.history_[0]["correct"] == right.sum()
        assert model.threat_ == ThreatModel(THREAT, attacking_classes=1)


class TestRounds:
    def test_the_history_adds_up(self, noisy: Table) -> None:
        X, y = noisy
        seen: list[tuple[int, int]] = []
        model = HardenedClassifier(
            BASES["forest"], 0.1, rounds=3, max_rows=50, random_state=0, progress=lambda *done: seen.append(done)
        ).fit(X, y)
        assert seen == [(1, 3), (2, 3), (3, 3)]
        assert [record["attacked"] for record in model.history_] == [50] * 3
        assert model.history_[-1]["examples"] == sum(record["vulnerable"] for record in model.history_)
        replaced = HardenedClassifier(BASES["forest"], 0.1, rounds=3, accumulate=False).fit(X, y)
        assert all(record["examples"] == record["vulnerable"] for record in replaced.history_)

    def test_nothing_to_do(self, noisy: Table) -> None:
        """Without a threat the estimator is what it was, after one round that finds nothing."""
        X, y = noisy
        model = HardenedClassifier(BASES["forest"]).fit(X, y)
        assert len(model.history_) == 1
        assert model.history_[0]["vulnerable"] == 0
        np.testing.assert_array_equal(model.predict_proba(X), clone(BASES["forest"]).fit(X, y).predict_proba(X))

    def test_same_seed_same_model(self, noisy: Table) -> None:
        X, y = noisy
        base = RandomForestClassifier(5)
        one, two, three = (
            HardenedClassifier(base, 0.1, rounds=2, max_rows=0.5, random_state=seed).fit(X, y).predict_proba(X)
            for seed in (0, 0, 1)
        )
        np.testing.assert_array_equal(one, two)
        assert (one != three).any()

    def test_weights_go_with_the_rows(self, noisy: Table) -> None:
        """Examples of rows without weight have none either: the hardened tree is the one of the other rows alone."""
        X, y = noisy
        base = RobustTreeClassifier(max_depth=3)
        weight = np.r_[np.ones(200), np.zeros(200)]
        model = HardenedClassifier(base, 0.1, rounds=2).fit(X, y, sample_weight=weight)
        alone = HardenedClassifier(base, 0.1, rounds=2).fit(X[:200], y[:200])
        np.testing.assert_array_equal(model.predict_proba(X), alone.predict_proba(X))


class TestTables:
    @pytest.mark.parametrize("library", [pd, pl])
    def test_frames_with_categories(self, frame: tuple[pd.DataFrame, pd.Series], library: Any) -> None:
        X, y = frame
        table = X if library is pd else pl.from_pandas(X)
        threat = {"income": 2.0, "color": {"red": ["blue"]}}
        model = HardenedClassifier(RobustTreeClassifier(max_depth=4), threat, rounds=2).fit(table, y)
        assert model.feature_names_in_.tolist() == X.columns.tolist()
        assert model.history_[0]["vulnerable"] > 0
        assert set(model.predict(table)) <= {"yes", "no"}
        assert as_ensemble(model) is model.ensemble_
        assert 0.0 < adversarial_accuracy(model, table, y, threat) <= 1.0


class TestLibraries:
    @pytest.mark.parametrize(("package", "name"), [("xgboost", "XGBClassifier"), ("lightgbm", "LGBMClassifier")])
    def test_boosting_libraries(self, noisy: Table, package: str, name: str) -> None:
        X, y = noisy
        settings = {"n_estimators": 20, "max_depth": 3, "n_jobs": 1}
        settings |= {"verbosity": -1} if package == "lightgbm" else {}
        base = getattr(pytest.importorskip(package), name)(**settings)
        model = HardenedClassifier(base, THREAT, rounds=5).fit(X[:200], y[:200])
        before = adversarial_accuracy(clone(base).fit(X[:200], y[:200]), X[200:], y[200:], THREAT)
        assert adversarial_accuracy(model, X[200:], y[200:], THREAT) > before + 0.02
        np.testing.assert_array_equal(model.predict(X), model.ensemble_.predict(X))


class TestErrors:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("method", "pgd"),
            ("method", None),
            ("norm", 3),
            ("rounds", 0),
            ("rounds", 2.5),
            ("rounds", True),
            ("max_rows", 0),
            ("max_rows", 1.5),
            ("accumulate", "yes"),
            ("time_limit", -1),
            ("threat", -0.5),
            ("attacking_classes", 7),
        ],
    )
    def test_parameters(self, noisy: Table, name: str, value: Any) -> None:
        model = HardenedClassifier(small_forest(), threat=0.1).set_params(**{name: value})
        with pytest.raises(ValueError, match=name):
            model.fit(*noisy)

    def test_models_that_are_no_trees(self, noisy: Table) -> None:
        with pytest.raises(TypeError, match="a LogisticRegression is not a tree model"):
            HardenedClassifier(LogisticRegression(), 0.1).fit(*noisy)

    def test_weights_for_an_estimator_without(self, noisy: Table) -> None:
        class Unweighted(ClassifierMixin, BaseEstimator):
            def fit(self, X: Any, y: Any) -> Any:
                return self

        X, y = noisy
        with pytest.raises(ValueError, match=r"sample_weight: Unweighted\.fit does not take weights"):
            HardenedClassifier(Unweighted(), 0.1).fit(X, y, sample_weight=np.ones(len(y)))

    def test_no_probabilities_without_the_estimators(self) -> None:
        assert hasattr(HardenedClassifier(small_forest()), "predict_proba")
        assert not hasattr(HardenedClassifier(small_forest()), "decision_function")
        assert hasattr(HardenedClassifier(GradientBoostingClassifier()), "decision_function")
