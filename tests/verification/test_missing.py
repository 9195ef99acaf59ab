"""Rows with missing values: where a model takes them, every door does, and what is missing stays missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from hardwood import (
    RobustTreeClassifier,
    ThreatModel,
    TreeEnsemble,
    adversarial_accuracy,
    as_ensemble,
    attack,
    is_vulnerable,
    verify,
)
from hardwood.table import Schema
from reference import attacking as reference
from reference import enumerating
from reference.cases import random_case

SEEDS = st.integers(0, 2**32 - 1)
NORMS = [np.inf, 2, 1, 0]
NAN = np.nan


def assert_stays_missing(rows: np.ndarray, examples: np.ndarray) -> None:
    assert np.array_equal(np.isnan(rows), np.isnan(examples))


class TestOneTree:
    @given(SEEDS, st.sampled_from(NORMS))
    def test_every_leaf_tried(self, seed: int, norm: float) -> None:
        """Among them leaves that no number gets to, because splits contradict each other, but a missing value does."""
        tree, rows, label, threat = random_case(seed, 1, max_depth=5, n_rows=8, missing=True)
        generator = np.random.default_rng(seed)
        X = tree.schema.decode(rows)
        label[:2] = generator.integers(len(tree.labels), size=2)
        y = tree.labels[label]
        reach = threat.resolve(tree.schema, tree.labels)
        weight = generator.choice([0.0, 0.5, 1.0, 3.0], tree.schema.n_features).tolist()
        expected = [
            reference.nearest_distance(tree, row, int(k), reach, norm, weight)
            for row, k in zip(rows, label, strict=True)
        ]
        result = attack(tree, X, y, threat, norm=norm, feature_weight=weight)
        found = result.found
        assert found.tolist() == np.isfinite(expected).tolist()
        np.testing.assert_allclose(result.distance, expected, rtol=1e-12, atol=1e-150)
        assert np.array_equal(is_vulnerable(tree, X, y, threat), found)
        assert pd.isna(result.X_adv[~found]).all()
        if found.any():
            examples = result.X_adv[found]
            assert (tree.predict(examples) != y[found]).all()
            assert threat.contains(X[found], examples, y[found], tree.schema).all()
            assert_stays_missing(rows[found], tree.schema.encode(examples))

    def test_a_leaf_for_missing_values_only(self) -> None:
        """`x > 5` and then `x <= 3`: no number does both. A missing value goes right and left."""
        schema = Schema(2, None, (None, None), accepts_missing=True)
        missing_left = np.array([False, False, True, False, False, False, False])
        tree = reference.build((0, 5.0, 0, (0, 3.0, (1, 0.0, 0, 1), 0)), schema, missing_left=missing_left)
        X = np.array([[NAN, -1.0], [6.0, -1.0]])
        result = attack(tree, X)
        assert result.found.tolist() == [True, False]
        np.testing.assert_array_equal(result.X_adv[0], [NAN, np.nextafter(0.0, 1.0)])

    def test_found_tells_an_example_from_none(self) -> None:
        """The first row lacks every value, and so does its example: it is wrong as it stands."""
        schema = Schema(2, None, (None, None), accepts_missing=True)
        tree = reference.build((0, 0.5, 0, 1), schema, missing_left=np.array([True, False, False]))
        X = np.array([[NAN, NAN], [NAN, NAN]])
        result = attack(tree, X, [1, 0], 0.1)
        assert result.found.tolist() == [True, False]
        assert result.distance.tolist() == [0.0, np.inf]
        assert np.isnan(result.X_adv).all()

    def test_other_features_still_move(self) -> None:
        X = np.array([[NAN, 1.0], [NAN, 2.0], [0.0, 5.0], [0.0, 6.0]] * 5)
        tree = DecisionTreeClassifier().fit(X, [0, 1, 0, 1] * 5)
        row = np.array([[NAN, 1.4]])
        result = attack(tree, row, norm=2)
        assert result.distance[0] == pytest.approx(0.1)
        assert np.isnan(result.X_adv[0, 0])
        assert adversarial_accuracy(tree, X[:1], [0], 0.4) == 1.0
        assert adversarial_accuracy(tree, X[:1], [0], 0.6) == 0.0


class TestEnsembles:
    @given(SEEDS)
    def test_decisions_and_distances(self, seed: int) -> None:
        trees, rows, label, threat = random_case(seed, int(seed % 4) + 2, n_rows=4, missing=True)
        reach = threat.resolve(trees.schema, trees.labels)
        X = trees.schema.decode(rows)
        weight = [1.0] * trees.schema.n_features
        certificate, result = verify(trees, X, None, threat), attack(trees, X, None, threat)
        for k, (row, own) in enumerate(zip(rows, label, strict=True)):
            points = enumerating.adversarial_points(trees, row, own, reach)
            distances = [reference.distance(point, row, trees.schema, np.inf, weight) for point in points]
            assert certificate.status[k] == ("vulnerable" if distances else "robust")
            np.testing.assert_allclose(result.distance[k], min(distances, default=np.inf), rtol=1e-12)
        found = result.found
        assert np.array_equal(found, certificate.status == "vulnerable")
        assert np.array_equal(found, is_vulnerable(trees, X, trees.labels[label], threat))
        for examples in (result.X_adv, certificate.witness):
            if found.any():
                assert (trees.predict(examples[found]) != trees.labels[label[found]]).all()
                assert_stays_missing(rows[found], trees.schema.encode(examples[found]))


@pytest.fixture(scope="module")
def boosting() -> tuple[Any, pd.DataFrame, np.ndarray]:
    """A model that saw missing numbers and categories, and the table it saw."""
    generator = np.random.default_rng(0)
    n_rows = 300
    X = pd.DataFrame(
        {
            "age": generator.normal(40.0, 10.0, n_rows),
            "color": pd.Categorical(generator.choice(["blue", "green", "red"], n_rows)),
            "income": generator.normal(30.0, 8.0, n_rows),
        }
    )
    y = ((X["income"] > 30.0) ^ (X["color"] == "red")).to_numpy().astype(int)
    X.loc[::4, "income"] = NAN
    X.loc[::7, "color"] = None
    model = HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=6).fit(X, y)
    return model, X, y


class TestEveryDoor:
    THREAT: dict[str, Any] = {"age": 3.0, "income": 2.0, "color": "<>"}  # noqa: RUF012

    def test_predictions(self, boosting: Any) -> None:
        model, X, _ = boosting
        ensemble = as_ensemble(model)
        assert np.array_equal(ensemble.predict(X), model.predict(X))
        np.testing.assert_allclose(ensemble.predict_proba(X), model.predict_proba(X), rtol=1e-12)
        assert ensemble.apply(X).shape == (len(X), ensemble.n_trees)
        assert ensemble.decision_path(X).shape == (len(X), ensemble.n_nodes)

    def test_examples_fool_the_model_itself(self, boosting: Any) -> None:
        model, X, y = boosting
        certificate = verify(model, X, y, self.THREAT)
        result = attack(model, X, y, self.THREAT)
        assert 0 < result.found.sum() < len(X)
        lacks = X.isna().to_numpy()
        assert lacks[result.found].any()
        for found, table in ((result.found, result.X_adv), (certificate.status == "vulnerable", certificate.witness)):
            assert np.array_equal(found, result.found)
            assert (model.predict(table[found]) != y[found]).all()
            assert np.array_equal(table[found].isna().to_numpy(), lacks[found])
        share = adversarial_accuracy(model, X, y, self.THREAT)
        assert share == pytest.approx(1.0 - result.found.mean())
        assert share < (model.predict(X) == y).mean()

    def test_threads_and_progress(self, boosting: Any) -> None:
        model, X, _ = boosting
        seen: list[tuple[int, int]] = []
        one = verify(model, X, None, self.THREAT, progress=lambda done, total: seen.append((done, total)))
        two = verify(model, X, None, self.THREAT, n_jobs=2)
        assert np.array_equal(one.status, two.status)
        assert seen[-1] == (len(X), len(X))
        assert seen == sorted(seen)

    def test_no_time(self, boosting: Any) -> None:
        model, X, y = boosting
        exact, hasty = verify(model, X, y, self.THREAT), verify(model, X, y, self.THREAT, time_limit=0)
        decided = hasty.status != "unknown"
        assert np.array_equal(hasty.status[decided], exact.status[decided])

    def test_interrupted(self, boosting: Any) -> None:
        """What was decided is kept, and no search is begun for the rows that lack something else."""
        model, X, _ = boosting
        calls = []

        def interrupt(done: int, total: int) -> None:
            calls.append(done)
            raise KeyboardInterrupt

        certificate = verify(model, X, None, self.THREAT, progress=interrupt)
        assert len(calls) == 1
        assert 0 < (certificate.status != "unknown").sum() < len(X)
        assert (certificate.status == "unknown").any()

    @pytest.mark.parametrize("norm", NORMS)
    def test_splits_that_only_part_what_is_missing(self, norm: float) -> None:
        """Their thresholds are beyond every number: no gap between thresholds to begin a search with."""
        X = np.linspace(0.0, 1.0, 80)[:, None]
        X[::2] = NAN
        y = np.isnan(X[:, 0]) | (np.abs(X[:, 0] - 0.5) < 0.1)
        model = HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=2).fit(X, y)
        thresholds = as_ensemble(model).threshold
        assert np.ptp(thresholds[as_ensemble(model).feature >= 0]) > 1e300
        result = attack(model, X, None, "<>", norm=norm)
        assert np.array_equal(result.found, ~np.isnan(X[:, 0]))

    def test_missing_where_nothing_is_asked(self) -> None:
        """A feature that no split asks for makes no difference, and no second search."""
        generator = np.random.default_rng(0)
        X = generator.normal(size=(200, 3))
        forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(np.delete(X, 1, axis=1), X[:, 0] > 0)
        trees = as_ensemble(forest)
        X[::2, 1] = NAN
        wide = TreeEnsemble(
            **{
                **trees.__getstate__(),
                "feature": np.where(trees.feature == 1, 2, trees.feature).astype(np.int32),
                "schema": Schema(3, None, (None,) * 3, accepts_missing=True),
            }
        )
        status = verify(wide, X, None, 0.1).status
        assert np.array_equal(status, verify(trees, np.delete(X, 1, axis=1), None, 0.1).status)

    def test_an_unseen_category_is_not_a_missing_one(self) -> None:
        """Unseen goes left here and missing right. An example that needs an unseen category names one."""
        schema = Schema(1, ("color",), (("blue", "red"),), accepts_missing=True)
        tree = reference.build((0, {2}, 1, 0), schema)
        X = pd.DataFrame({"color": pd.Categorical(["blue", None])})
        assert tree.predict(X).tolist() == [0, 0]
        result = attack(tree, X, threat=ThreatModel("<>", unseen_categories="allow"))
        assert result.found.tolist() == [True, False]
        assert result.X_adv["color"].tolist()[0] == "unseen"
        assert tree.predict(result.X_adv[:1]).tolist() == [1]


class TestNoPath:
    @pytest.mark.parametrize("door", ["predict", "verify", "attack", "is_vulnerable", "adversarial_accuracy"])
    def test_hardwoods_own_trees_take_no_missing_values(self, model: RobustTreeClassifier, door: str) -> None:
        X = np.zeros((2, 3))
        X[1, 2] = NAN
        ask = {
            "predict": lambda: model.predict(X),
            "verify": lambda: verify(model, X, None, 0.1),
            "attack": lambda: attack(model, X),
            "is_vulnerable": lambda: is_vulnerable(model, X, [0, 0], 0.1),
            "adversarial_accuracy": lambda: adversarial_accuracy(model, X, [0, 0], 0.1),
        }[door]
        with pytest.raises(
            ValueError, match=r"X contains NaN: feature 2 has no value in row 1 .* no place for missing"
        ):
            ask()

    def test_a_missing_category_of_hardwoods_own_trees_is_one_never_seen(
        self, mixed: RobustTreeClassifier, frame: tuple[pd.DataFrame, pd.Series]
    ) -> None:
        X = frame[0].head()
        missing, unseen = X.copy(), X.copy()
        missing["town"] = pd.Categorical([None] * 5)
        unseen["town"] = pd.Categorical(["nowhere"] * 5)
        assert np.array_equal(mixed.predict_proba(missing), mixed.predict_proba(unseen))
