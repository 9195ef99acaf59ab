"""Certificates and attacks for ensembles, against enumeration."""

import dataclasses
import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor

from hardwood import (
    AttackRule,
    HardenedClassifier,
    RobustTreeClassifier,
    TreeEnsemble,
    adversarial_accuracy,
    as_ensemble,
    attack,
    is_vulnerable,
    load_dataset,
    make_adversarial_scorer,
    verify,
)
from hardwood._kernels.search import branching, decisions, distances, dual_bounds
from hardwood.threat import ThreatModel
from hardwood.verification import ask, clock, search
from hardwood.verification.answers import UNFINISHED
from hardwood.verification.settings import SETTINGS, SearchSettings
from reference import attacking, enumerating
from reference.cases import random_case


@pytest.fixture(scope="module")
def forest() -> tuple[TreeEnsemble, RandomForestClassifier, np.ndarray, np.ndarray]:
    table = load_dataset("diabetes")
    X = (table.data - table.data.min(axis=0)) / np.ptp(table.data, axis=0)
    forest = RandomForestClassifier(30, max_depth=5, random_state=0, n_jobs=1).fit(X, table.target)
    return as_ensemble(forest), forest, X[:60], table.target[:60]


@pytest.fixture(scope="module")
def hard() -> tuple[TreeEnsemble, np.ndarray]:
    """A forest and rows, each of which takes branch and bound half a million leaves at a radius of 0.12."""
    generator = np.random.default_rng(0)
    X = generator.random((400, 12))
    y = (X.sum(axis=1) + generator.normal(0, 0.5, 400) > 6).astype(int)
    return as_ensemble(RandomForestClassifier(150, random_state=0, n_jobs=1).fit(X, y)), X[[10, 11, 21, 88]]


def check_distances(seed: int, norm: float, search_settings: SearchSettings = SETTINGS) -> None:
    """Compare distances in a random case with the nearest of all points."""
    trees, rows, label, threat = random_case(seed)
    reach = threat.resolve(trees.schema, trees.labels)
    weight = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 3.0], trees.schema.n_features)
    result = ask.nearest(trees, rows, label, reach, norm, weight, ask.AskSettings(search=search_settings))
    np.testing.assert_array_equal(result.lower, result.upper)
    for row, own, distance in zip(rows, label, result.upper, strict=True):
        points = enumerating.adversarial_points(trees, row, own, reach)
        nearest = enumerating.nearest(points, row, trees.schema, norm, weight)
        np.testing.assert_allclose(distance, nearest, rtol=1e-12, atol=1e-300)


class TestAgainstEnumeration:
    @given(st.integers(0, 2**32))
    @example(256)
    def test_decisions(self, seed: int) -> None:
        """Case 256: sets of categories that meet pairwise and have nothing in common; it was once called robust."""
        trees, rows, label, threat = random_case(seed)
        reach = threat.resolve(trees.schema, trees.labels)
        certificate = verify(trees, trees.schema.decode(rows), None, threat)
        for row, own, status in zip(rows, label, certificate.status, strict=True):
            expected = len(enumerating.adversarial_points(trees, row, own, reach)) > 0
            assert status == ("vulnerable" if expected else "robust")

    @pytest.mark.parametrize("norm", [np.inf, 2, 1, 0])
    @given(seed=st.integers(0, 2**32))
    @example(seed=728)
    @example(seed=1001)
    @example(seed=1944)
    @example(seed=30239)
    def test_distances(self, norm: float, seed: int) -> None:
        """Cases 728 and others: a radius that is too small for another category, begun at a point that has one.

        Case 30239: sums in float32 that are equal to the cut, which is a float64.
        """
        check_distances(seed, norm)

    @pytest.mark.parametrize("norm", [np.inf, 2, 1, 0])
    @given(seed=st.integers(0, 2**32))
    def test_hard_distances(self, norm: float, seed: int) -> None:
        """Rows that are not done soon are searched within smaller distances first."""
        check_distances(seed, norm, SearchSettings(clock_work=3, easy_work=3))

    @given(st.integers(0, 2**32))
    def test_margins(self, seed: int) -> None:
        """The worst margin is between the bounds, and the upper one is attained."""
        trees, rows, label, threat = random_case(seed)
        reach = threat.resolve(trees.schema, trees.labels)
        certificate = verify(trees, trees.schema.decode(rows), None, threat)
        for k, (row, own) in enumerate(zip(rows, label, strict=True)):
            points = enumerating.reachable_points(trees, row, own, reach)
            worst = enumerating.worst_margin(trees, points, int(own))
            assert certificate.lower[k] <= worst <= certificate.upper[k]


def random_regression(seed: int) -> tuple[TreeEnsemble, np.ndarray, ThreatModel]:
    generator = np.random.default_rng(seed)
    schema = attacking.random_schema(generator)
    trees = attacking.random_trees(generator, schema, int(generator.integers(1, 6)), 2, 2, "logistic")
    trees = dataclasses.replace(trees, link="value", classes=None)
    rows = attacking.random_rows(generator, trees, 3)
    return trees, rows, ThreatModel(attacking.random_threat(generator, schema))


class TestRegression:
    @given(seed=st.integers(0, 2**32))
    @example(seed=872915785)
    def test_intervals_against_enumeration(self, seed: int) -> None:
        """Case 872915785: boxes used to be given up for sums too small to change a class; a regression has none."""
        trees, rows, threat = random_regression(seed)
        reach = threat.resolve(trees.schema)
        tolerance = float(np.random.default_rng(seed).choice([0.0, 0.5, 2.0]))
        certificate = verify(trees, trees.schema.decode(rows), None, threat, tolerance=tolerance)
        doubt = 2.0 * attacking.rounding(trees) + 1e-6 * np.abs(trees.output(rows)).max()
        for k, row in enumerate(rows):
            outputs = trees.output(enumerating.reachable_points(trees, row, 0, reach))[:, 0].astype(np.float64)
            assert certificate.lower[k] <= outputs.min() <= certificate.lower[k] + doubt
            assert certificate.upper[k] >= outputs.max() >= certificate.upper[k] - doubt
            off = np.abs(outputs - float(trees.output(row[None])[0, 0])).max()
            if abs(off - tolerance) > 2.0 * doubt:
                assert certificate.status[k] == ("vulnerable" if off > tolerance else "robust")

    def test_forest_on_targets(self) -> None:
        table = load_dataset("diabetes")
        X, y = table.data[:, :7], table.data[:, 7]
        model = RandomForestRegressor(20, max_depth=4, random_state=0, n_jobs=1).fit(X, y)
        certificate = verify(model, X[:40], y[:40], 1.0, tolerance=12.0)
        fails = certificate.status == "vulnerable"
        assert 0 < fails.sum() < 40
        assert (np.abs(model.predict(certificate.witness[fails]) - y[:40][fails]) > 12.0).all()
        moved = X[:40] + np.random.default_rng(0).uniform(-1.0, 1.0, X[:40].shape)
        assert (model.predict(moved) <= certificate.upper).all()
        assert (model.predict(moved) >= certificate.lower).all()

    @pytest.mark.parametrize("tolerance", [None, -1.0, "wide", True])
    def test_tolerance_is_asked_for(self, tolerance: Any) -> None:
        trees, rows, threat = random_regression(3)
        with pytest.raises(ValueError, match=r"tolerance=.*the model is a regression"):
            verify(trees, trees.schema.decode(rows), None, threat, tolerance=tolerance)

    def test_tolerance_of_a_classifier(self, forest: Any) -> None:
        with pytest.raises(ValueError, match=r"tolerance=1.0: the model is a classifier"):
            verify(forest[0], forest[2], None, 0.1, tolerance=1.0)


class TestForests:
    def test_witnesses_fool_the_forest_itself(self, forest: Any) -> None:
        _, source, X, y = forest
        certificate = verify(source, X, y, 0.05)
        found = certificate.status == "vulnerable"
        assert 0 < found.sum() < len(X)
        assert (source.predict(certificate.witness[found]) != y[found]).all()
        assert np.isnan(certificate.witness[~found]).all()
        right = source.predict(X) == y
        assert (np.abs(certificate.witness - X)[found & right] <= 0.05 + 1e-12).all()

    def test_robust_rows_survive_random_attacks(self, forest: Any) -> None:
        ensemble, _, X, y = forest
        robust = verify(ensemble, X, y, 0.05).status == "robust"
        generator = np.random.default_rng(0)
        for _ in range(200):
            moved = X[robust] + generator.choice([-0.05, 0.05, 0.0], X[robust].shape)
            assert (ensemble.predict(moved) == y[robust]).all()

    def test_distance_and_decision_agree(self, forest: Any) -> None:
        ensemble, _, X, y = forest
        distance = attack(ensemble, X, y).distance
        for epsilon in (0.01, 0.03, 0.1):
            np.testing.assert_array_equal(distance <= epsilon, is_vulnerable(ensemble, X, y, epsilon))

    def test_many_classes_agree_on_the_distance(self) -> None:
        """Each class is searched for within the distance of the best of the others so far."""
        X, y = load_digits(return_X_y=True)
        model = as_ensemble(RandomForestClassifier(15, max_depth=6, random_state=0, n_jobs=1).fit(X[:900], y[:900]))
        rows = X[-150:]
        for row, distance in zip(rows, attack(model, rows, threat=8.0).distance, strict=True):
            if np.isfinite(distance):
                assert verify(model, row[None], None, distance - 1e-9).status == "robust"
                assert verify(model, row[None], None, distance + 1e-9).status == "vulnerable"

    def test_accuracy_falls_as_the_threat_grows(self, forest: Any) -> None:
        ensemble, source, X, y = forest
        scores = [adversarial_accuracy(ensemble, X, y, epsilon) for epsilon in (0.0, 0.01, 0.05, 0.2, 1.0)]
        assert scores[0] == source.score(X, y)
        assert scores == sorted(scores, reverse=True)
        assert scores[-1] < scores[0]

    def test_threads_change_nothing(self, forest: Any) -> None:
        ensemble, _, X, y = forest
        one, two = verify(ensemble, X, y, 0.05), verify(ensemble, X, y, 0.05, n_jobs=2)
        np.testing.assert_array_equal(one.status, two.status)
        np.testing.assert_array_equal(one.witness, two.witness)

    def test_progress(self, forest: Any) -> None:
        ensemble, _, X, _ = forest
        seen: list[tuple[int, int]] = []
        verify(ensemble, X, None, 0.05, progress=lambda done, total: seen.append((done, total)))
        assert seen[-1] == (len(X), len(X))


class TestLimits:
    def test_no_time_leaves_the_cheap_bound(self, forest: Any) -> None:
        """A time-out is unknown, never an answer."""
        ensemble, _, X, y = forest
        exact = verify(ensemble, X, y, 0.05)
        hasty = verify(ensemble, X, y, 0.05, time_limit=0)
        assert (hasty.status == "unknown").any()
        decided = hasty.status != "unknown"
        np.testing.assert_array_equal(hasty.status[decided], exact.status[decided])
        assert (hasty.lower <= exact.upper + 1e-9).all()

    def test_accuracy_does_not_make_up_a_figure(self, forest: Any) -> None:
        ensemble, _, X, y = forest
        with pytest.raises(TimeoutError, match=r"rows are undecided after time_limit=0 seconds"):
            adversarial_accuracy(ensemble, X, y, 0.05, time_limit=0)

    def test_unfinished_distances_are_bracketed(self, forest: Any) -> None:
        ensemble, _, X, y = forest
        exact = attack(ensemble, X, y)
        hasty = attack(ensemble, X, y, time_limit=0)
        assert (hasty.lower <= exact.distance + 1e-12).all()
        assert (exact.distance <= hasty.distance + 1e-12).all()

    def test_a_hard_row_is_given_up_in_time(self, hard: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """A clock that goes on by 0.15 seconds per look, which is looked at as work on a row begins, before and after
        each stretch of it, and at the end: there is time for one stretch.
        """
        ensemble, X = hard
        looks = itertools.count()
        monkeypatch.setattr(clock, "time", SimpleNamespace(monotonic=lambda: 0.15 * next(looks)))
        reach = ThreatModel(0.12).resolve(ensemble.schema, ensemble.labels)
        often = SearchSettings(clock_work=1000)
        asked = ask.AskSettings(time_limit=0.2, search=often)
        answers = ask.decide(ensemble, X, ensemble.decide(X), reach, asked)
        assert (answers.status == UNFINISHED).all()
        assert next(looks) == 4 * len(X)

    @pytest.mark.parametrize("row_work", [1, 10_000, 100_000])
    def test_a_hard_row_is_given_up_after_some_work(self, hard: Any, row_work: int) -> None:
        """However long a box takes, the search comes back after about as many leaves as it is told."""
        ensemble, X = hard
        reach = ThreatModel(0.12).resolve(ensemble.schema, ensemble.labels)
        asked = ask.AskSettings(search=SearchSettings(clock_work=1000, row_work=row_work))
        answers = ask.decide(ensemble, X, ensemble.decide(X), reach, asked)
        assert (answers.status == UNFINISHED).all()
        assert answers.work is not None
        assert ((row_work <= answers.work) & (answers.work < row_work + 50_000)).all()

    @pytest.mark.parametrize("time_limit", [-1, "long", float("nan"), True])
    def test_bad_limits(self, forest: Any, time_limit: Any) -> None:
        with pytest.raises(ValueError, match="time_limit="):
            verify(forest[0], forest[2], None, 0.1, time_limit=time_limit)


def test_one_tree_agrees_with_its_own_search() -> None:
    table = load_dataset("banknote-authentication")
    X, y = table.data[:300], table.target[:300]
    model = RobustTreeClassifier(0.1, max_depth=6).fit(table.data, table.target)
    certificate = verify(model, X, y, 0.3)
    np.testing.assert_array_equal(certificate.status == "vulnerable", is_vulnerable(model, X, y, 0.3))
    assert repr(certificate).startswith("Certificate(robust=")


class TestCtrlC:
    """Whoever asked row by row keeps what was decided; whoever needs all rows is stopped."""

    THREAT = 0.1

    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
        """A forest and rows, of which the search is interrupted after the first 16."""
        rng = np.random.default_rng(0)
        X = rng.random((40, 3))
        y = (X[:, 0] + 0.2 * rng.random(40) > 0.6).astype(int)
        model = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, y)
        run_chunk, calls = search.RowSearch._run_chunk, itertools.count()

        def interrupt(*arguments: Any) -> Any:
            if next(calls) == 1:
                raise KeyboardInterrupt
            return run_chunk(*arguments)

        monkeypatch.setattr(search.RowSearch, "_run_chunk", interrupt)
        y = model.predict(X)
        yield model, X, y
        assert next(calls) >= 2  # otherwise nothing was interrupted

    def test_what_was_decided_is_kept(self, asked: Any) -> None:
        certificate = verify(*asked, self.THREAT)
        assert certificate.interrupted
        assert ((certificate.status == "unknown") == (np.arange(40) >= 16)).all()

    def test_what_was_found_is_kept(self, asked: Any) -> None:
        result = attack(*asked)
        assert result.interrupted
        assert result.found[:16].all()
        assert (result.lower[16:] == 0.0).all()

    def test_rules(self, asked: Any) -> None:
        threat = ThreatModel(rules=[AttackRule(0, add=0.2)], budget=1.0)
        certificate = verify(*asked, threat)
        assert certificate.interrupted
        assert (certificate.status[1:] == "unknown").all()
        assert certificate.status[0] != "unknown"

    def test_yes_or_no(self, asked: Any) -> None:
        with pytest.raises(KeyboardInterrupt):
            is_vulnerable(*asked, self.THREAT)

    def test_scores(self, asked: Any) -> None:
        model, X, y = asked
        with pytest.raises(KeyboardInterrupt):
            make_adversarial_scorer(self.THREAT, time_limit=5.0)(model, X, y)

    def test_training(self, asked: Any) -> None:
        model, X, y = asked
        with pytest.raises(KeyboardInterrupt):
            HardenedClassifier(model, self.THREAT, method="search", rounds=3).fit(X, y)

    def test_both_ends_of_an_output(self, asked: Any) -> None:
        _, X, y = asked
        model = RandomForestRegressor(5, max_depth=3, random_state=0).fit(X, X[:, 0] + y)
        wanted = np.where(np.arange(40) % 2, model.predict(X), 9.0)
        certificate = verify(model, X, wanted, self.THREAT, tolerance=0.01)
        assert certificate.interrupted
        assert (certificate.lower <= certificate.upper).all()
        assert (certificate.status[::2] == "vulnerable").all()  # those that were not come to are wrong as they stand


def test_without_ctrl_c_nothing_is_interrupted() -> None:
    X = np.linspace(0.0, 1.0, 20)[:, None]
    y = (X[:, 0] > 0.5).astype(int)
    model = RandomForestClassifier(3, random_state=0).fit(X, y)
    assert not verify(model, X, y, 0.1).interrupted
    assert not attack(model, X, y, 0.1).interrupted


@pytest.mark.parametrize("norm", [np.inf, 2, 1, 0])
def test_columns_that_the_model_ignores_are_left_alone(norm: float) -> None:
    """A model of two columns, and the same one among columns it does not look at, missing values included."""
    rng = np.random.default_rng(1)
    X = rng.random((60, 2))
    y = (X[:, 0] + 0.3 * X[:, 1] > 0.6).astype(int)
    X[::7, 1] = np.nan
    X[::20] = np.nan
    narrow = as_ensemble(HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=5).fit(X, y))
    wide_X = np.column_stack([rng.random((60, 2)), X[:, 0], np.full(60, np.nan), X[:, 1], rng.random(60)])
    wide = dataclasses.replace(
        narrow,
        feature=np.where(narrow.feature < 0, -1, np.array([2, 4])[narrow.feature]).astype(np.int32),
        schema=dataclasses.replace(narrow.schema, n_features=6, categories=(None,) * 6),
    )
    threat = [0.5, "<>", 0.1, 1.0, 0.1, ">"]
    certificates = verify(narrow, X, None, 0.1), verify(wide, wide_X, None, threat)
    assert (certificates[0].status == certificates[1].status).all()
    results = attack(narrow, X, None, 0.1, norm=norm), attack(wide, wide_X, None, threat, norm=norm)
    np.testing.assert_array_equal(results[0].distance, results[1].distance)
    np.testing.assert_array_equal(results[0].X_adv, results[1].X_adv[:, [2, 4]])
    ignored = [0, 1, 3, 5]
    np.testing.assert_array_equal(results[1].X_adv[results[1].found][:, ignored], wide_X[results[1].found][:, ignored])
    assert np.isnan(results[1].X_adv[~results[1].found]).all()
    assert results[0].found.any()
    assert not results[0].found.all()


@pytest.mark.skipif(not hasattr(decisions.decide_rows, "overloads"), reason="compilation is switched off")
@pytest.mark.parametrize("n_columns", [2, 30])
def test_one_row_and_then_many(n_columns: int) -> None:
    """The kernels are called without a look at types, so every call has to hand over the same ones.

    A choice of columns of several rows is in another order of memory than that of one row, and a table may be
    read-only or of float32. All of these used to be compiled for. The model ignores all columns but two.
    """
    X = np.random.default_rng(0).random((300, n_columns)).astype(np.float32).astype(np.float64)
    y = (X[:, 0] + X[:, 1] > 1.0).astype(int)
    forest = RandomForestClassifier(3, max_depth=2, max_features=None, random_state=0, n_jobs=1).fit(X, y)
    model = as_ensemble(forest)
    one_by_one = np.array([verify(model, row[None], None, 0.1).status[0] for row in X])
    read_only = X.copy()
    read_only.flags.writeable = False
    tables = [X[:1], X[:2], X, np.asfortranarray(X), X[::2].copy()[:, ::-1][:, ::-1], read_only, read_only[:1]]
    for table in (*tables, X.astype(np.float32)):
        for asked in (model, as_ensemble(forest)):
            expected = one_by_one[:: 2 if len(table) == 150 else 1][: len(table)]
            np.testing.assert_array_equal(verify(asked, table, None, 0.1).status, expected)
            for norm in (np.inf, 1):
                attack(asked, table[:20], norm=norm)
    assert set(one_by_one) == {"robust", "vulnerable"}
    kernels = (decisions.decide_rows, branching.branch_row, distances.approach_rows, distances.widen_row)
    forms = {kernel.py_func.__name__: len(kernel.overloads) for kernel in (*kernels, dual_bounds.bound_box)}
    assert all(number <= 1 for number in forms.values()), forms
    assert forms["decide_rows"] == forms["approach_rows"] == 1
