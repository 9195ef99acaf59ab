"""Robust regression trees: every split against everything an attacker can do, and the leaves that follow from it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

from hardwood import RobustTreeRegressor as Regressor
from hardwood import ThreatModel, verify
from reference.regressing import Split, best_gain, check_fit, error_of, make_samples, samples_of, split_at, thresholds

SEEDS = st.integers(0, 2**32 - 1)
CRITERIA = ["squared_error", "absolute_error"]


def grow(*threat: Any, **parameters: Any) -> Regressor:
    """The tree as it was grown: leaves that are given new values say nothing of splits."""
    return Regressor(*threat, refit_leaves=False, **parameters)


def draw_table(seed: int, n_rows: int, n_features: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Columns with and without ties, and numbers that depend on them: whole, heavy-tailed or smooth."""
    generator = np.random.default_rng(seed)
    X = generator.random((n_rows, n_features))
    X = X.round(int(generator.integers(1, 4)))
    noise = [
        generator.normal(size=n_rows),
        generator.integers(0, 4, n_rows).astype(float),
        generator.exponential(size=n_rows) ** 2,
    ][generator.integers(3)]
    y = noise + generator.choice([0.0, 1.0, 4.0]) * (X[:, 0] > 0.5) + generator.choice([0.0, 2.0]) * X[:, -1]
    return X, np.round(y, 1) if generator.random() < 0.3 else y


@given(SEEDS, st.integers(2, 24), st.sampled_from(CRITERIA), st.sampled_from([0.0, 0.05, 0.1, 0.3]))
def test_every_split_is_the_best_there_is(seed: int, n_rows: int, criterion: str, epsilon: float) -> None:
    X, y = draw_table(seed, n_rows)
    check_fit(grow(epsilon, criterion=criterion, max_depth=4), X, y)


@given(SEEDS, st.integers(2, 14), st.sampled_from(CRITERIA), st.sampled_from([0.25, 0.5, 1.0]))
def test_weights_and_shares_of_attackers(seed: int, n_rows: int, criterion: str, rho: float) -> None:
    X, y = draw_table(seed, n_rows)
    generator = np.random.default_rng(seed)
    weight = generator.choice([0.5, 1.0, 2.0, 3.7], n_rows)
    check_fit(grow(0.1, criterion=criterion, rho=rho, max_depth=3), X, y, weight)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("threat", [["<", 0.1], [">", None], ["<>", (0.0, 0.2)], [(0.3, 0.0), "10%"]])
def test_one_sided_unlimited_and_relative_reach(criterion: str, threat: Any) -> None:
    for seed in range(6):
        X, y = draw_table(seed, 16)
        check_fit(grow(threat, criterion=criterion, max_depth=3), X, y)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_whole_numbers_and_domains(criterion: str) -> None:
    for seed in range(6):
        X, y = draw_table(seed, 16)
        X = np.round(10.0 * X)
        threat = ThreatModel(1.5, whole_numbers=[0, 1], within={0: (0, 10)})
        tree = check_fit(grow(threat, criterion=criterion, max_depth=3), X, y)
        assert (tree.threshold == np.floor(tree.threshold)).all()


def enumerate_moves(split: Split, squared: bool) -> float:
    """The most error that any move of whole movable samples leaves."""
    movable = np.flatnonzero(split.movable)
    worst = -np.inf
    for moves in itertools.product((False, True), repeat=len(movable)):
        goes_left = split.left.copy()
        goes_left[movable] = moves
        parts = split.samples[goes_left], split.samples[~goes_left]
        worst = max(worst, sum(error_of(part, squared) for part in parts))
    return worst


@pytest.mark.parametrize("criterion", CRITERIA)
def test_no_move_of_whole_rows_leaves_more(criterion: str) -> None:
    """All moves are tried where at most 9 rows can be moved; for absolute error the best of them is the worst case."""
    squared, n_tried = criterion == "squared_error", 0
    for seed in range(60):
        X, y = draw_table(seed, 11, 1)
        model = grow(0.1, criterion=criterion, max_depth=1).fit(X, y)
        if model.get_n_leaves() == 1:
            continue
        split = split_at(samples_of(model, X, y), 0, float(model.ensemble_.threshold[0]))
        if split.movable.sum() > 9:
            continue
        left_over, _ = split.settle(squared)
        moved = enumerate_moves(split, squared)
        assert moved <= left_over + 1e-9
        if not squared:
            assert moved >= left_over - 1e-9
        n_tried += 1
    assert n_tried > 20


@pytest.mark.parametrize("criterion", CRITERIA)
def test_without_an_attacker_it_is_cart(criterion: str) -> None:
    generator = np.random.default_rng(0)
    X = generator.random((300, 4))
    y = 5.0 * X[:, 0] + np.sin(9.0 * X[:, 1]) + 0.1 * generator.normal(size=300)
    ours = grow(criterion=criterion, max_depth=5, min_samples_leaf=3).fit(X, y)
    theirs = DecisionTreeRegressor(criterion=criterion, max_depth=5, min_samples_leaf=3, random_state=0).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6)
    if criterion == "squared_error":
        np.testing.assert_allclose(ours.feature_importances_, theirs.feature_importances_, atol=1e-6)


class TestLimits:
    X, y = draw_table(3, 200, 3)

    def fit(self, **parameters: Any) -> Regressor:
        return grow(0.02, **parameters).fit(self.X, self.y)

    @pytest.mark.parametrize("criterion", CRITERIA)
    @pytest.mark.parametrize("rho", [1.0, 0.5])
    def test_leaves_have_enough_rows(self, criterion: str, rho: float) -> None:
        tree = self.fit(min_samples_leaf=7, criterion=criterion, rho=rho).ensemble_
        assert tree.n_leaves > 3
        assert tree.cover[tree.feature < 0].min() >= 7.0 - 1e-6

    def test_splits_have_enough_rows(self) -> None:
        tree = self.fit(min_samples_split=30).ensemble_
        assert tree.cover[tree.feature >= 0].min() >= 30.0

    def test_best_splits_come_first(self) -> None:
        for n_leaves in (2, 5, 11):
            assert self.fit(max_leaf_nodes=n_leaves).get_n_leaves() == n_leaves
        assert self.fit(max_depth=2).get_depth() == 2

    @pytest.mark.parametrize("criterion", CRITERIA)
    def test_least_gain(self, criterion: str) -> None:
        for decrease in (0.01, 0.1, 0.5):
            model = grow(0.05, criterion=criterion, min_impurity_decrease=decrease)
            check_fit(model, self.X[:40], self.y[:40])

    def test_features_are_drawn(self) -> None:
        first, again = self.fit(max_features=1, random_state=0), self.fit(max_features=1, random_state=0)
        other = self.fit(max_features=1, random_state=1)
        np.testing.assert_array_equal(first.ensemble_.feature, again.ensemble_.feature)
        assert first.ensemble_.feature.tolist() != other.ensemble_.feature.tolist()


def same_tree(first: Regressor, second: Regressor) -> None:
    np.testing.assert_array_equal(first.ensemble_.feature, second.ensemble_.feature)
    # Ends that count as equal differ in their last bits, and not all of them are in every node of both trees.
    np.testing.assert_allclose(first.ensemble_.threshold, second.ensemble_.threshold, rtol=1e-9)
    np.testing.assert_allclose(first.ensemble_.value, second.ensemble_.value, rtol=1e-12, atol=1e-12)


@given(SEEDS, st.sampled_from(CRITERIA))
def test_order_of_rows_and_units_do_not_matter(seed: int, criterion: str) -> None:
    X, y = draw_table(seed, 40)
    shuffled = np.random.default_rng(seed).permutation(40)
    model = grow(0.05, criterion=criterion).fit(X, y)
    again = grow(0.05, criterion=criterion, n_jobs=2).fit(X[shuffled], y[shuffled])
    same_tree(model, again)
    heavier = grow(0.05, criterion=criterion).fit(X, y, np.full(40, 3.0))
    same_tree(model, heavier)
    larger = grow(0.05, criterion=criterion).fit(X, 1024.0 * y)
    np.testing.assert_allclose(larger.ensemble_.value / 1024.0, model.ensemble_.value, rtol=1e-12, atol=1e-12)


@given(SEEDS, st.sampled_from(CRITERIA))
def test_weights_are_repeated_rows(seed: int, criterion: str) -> None:
    X, y = draw_table(seed, 20)
    times = np.random.default_rng(seed).integers(0, 4, 20)
    if not times.any():
        return
    weighted = grow(0.05, criterion=criterion).fit(X, y, times)
    repeated = grow(0.05, criterion=criterion).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    same_tree(weighted, repeated)


def test_rho_is_a_mixture() -> None:
    """The gain of every split is that of samples of two kinds; with rho 0 the tree is the natural one."""
    X, y = draw_table(5, 60)
    natural = grow().fit(X, y)
    same_tree(grow(0.1, rho=0.0).fit(X, y), natural)
    reach = ThreatModel(0.1).resolve(natural.ensemble_.schema)
    samples = make_samples(X, y, np.ones(60), reach, 0.4)
    stump = grow(0.1, rho=0.4, max_depth=1).fit(X, y).ensemble_
    gain = split_at(samples, int(stump.feature[0]), float(stump.threshold[0])).gain(squared=True)
    np.testing.assert_allclose(gain, best_gain(samples, squared=True), rtol=1e-9)


@pytest.mark.parametrize("size", [1e-300, 1e-9, 1e150, 1e300])
def test_sizes_of_numbers(size: float) -> None:
    X, y = draw_table(7, 30)
    model = grow(0.05, max_depth=3).fit(X, y)
    other = grow(0.05, max_depth=3).fit(X, size * y)
    np.testing.assert_array_equal(model.ensemble_.feature, other.ensemble_.feature)
    np.testing.assert_allclose(other.predict(X) / size, model.predict(X), rtol=1e-9)


def test_one_row_and_one_number() -> None:
    assert grow(0.1).fit([[1.0]], [3.0]).predict([[5.0]]).tolist() == [3.0]
    assert grow(0.1).fit([[1.0], [2.0]], [0.0, 0.0]).get_n_leaves() == 1


def test_thresholds_lie_between_ends_of_reach() -> None:
    X, y = draw_table(2, 30)
    model = grow(0.05, max_depth=1).fit(X, y)
    ends = thresholds(samples_of(model, X, y), int(model.ensemble_.feature[0]))
    assert not np.isclose(ends, model.ensemble_.threshold[0], rtol=0.0, atol=1e-12).any()


class TestBins:
    @given(SEEDS, st.integers(2, 40), st.sampled_from([0.0, 0.05, 0.2]), st.sampled_from([1.0, 0.4]))
    def test_with_bins_for_all_ends_it_is_the_exact_tree(
        self, seed: int, n_rows: int, epsilon: float, rho: float
    ) -> None:
        """Split by split, ties settled alike; with 255 bins a small table has all of them."""
        X, y = draw_table(seed, n_rows)
        weight = np.random.default_rng(seed).choice([0.5, 1.0, 3.0], n_rows) if seed % 2 else None
        for limits in ({}, {"min_samples_leaf": 3}, {"max_leaf_nodes": 4}, {"max_features": 1, "random_state": 0}):
            exact, binned = (
                grow(epsilon, rho=rho, max_bins=max_bins, **limits).fit(X, y, weight) for max_bins in ("exact", 255)
            )
            same_tree(exact, binned)
            np.testing.assert_allclose(binned.feature_importances_, exact.feature_importances_, atol=1e-9)

    def test_the_best_of_few_thresholds_is_taken(self) -> None:
        """The split at the root is as good as any at the thresholds that there are, by the oracle."""
        X, y = draw_table(11, 60)
        model = grow(0.1, max_bins=4, max_depth=1).fit(X, y)
        samples = samples_of(model, X, y)
        tried = {
            (int(stump.feature[0]), float(stump.threshold[0]))
            for seed in range(8)
            for stump in [grow(0.1, max_bins=4, max_depth=1, max_features=1, random_state=seed).fit(X, y).ensemble_]
            if stump.n_leaves == 2
        }
        gains = [split_at(samples, *split).gain(squared=True) for split in tried]
        root = int(model.ensemble_.feature[0]), float(model.ensemble_.threshold[0])
        np.testing.assert_allclose(split_at(samples, *root).gain(squared=True), max(gains), rtol=1e-9)

    def test_large_tables_are_nearly_as_good(self) -> None:
        generator = np.random.default_rng(0)
        X = generator.random((3000, 3))
        y = 4.0 * X[:, 0] + np.sin(6.0 * X[:, 1]) + 0.3 * generator.normal(size=3000)
        errors = []
        for max_bins in ("exact", 64):
            model = grow(0.02, max_depth=6, max_bins=max_bins).fit(X, y)
            bounds = verify(model, X, y, 0.02, tolerance=0.0)
            errors.append(np.maximum((bounds.upper - y) ** 2, (bounds.lower - y) ** 2).mean())
        assert errors[1] < 1.03 * errors[0]

    def test_absolute_error_has_none(self) -> None:
        X, y = draw_table(0, 20)
        with pytest.raises(
            ValueError, match=r"max_bins=8: with criterion='absolute_error', expected 'auto' or 'exact'"
        ):
            grow(criterion="absolute_error", max_bins=8).fit(X, y)
        grow(criterion="absolute_error", max_bins="auto").fit(X, y)


class TestMissing:
    @given(SEEDS, st.integers(2, 24), st.sampled_from([0.0, 0.1, 0.3]), st.sampled_from([1.0, 0.5]))
    def test_every_split_is_the_best_there_is(self, seed: int, n_rows: int, epsilon: float, rho: float) -> None:
        """With missing values on either side, and of those that part them from the others."""
        X, y = draw_table(seed, n_rows)
        generator = np.random.default_rng(seed)
        X[generator.random(X.shape) < 0.25] = np.nan
        y = y + generator.choice([0.0, 3.0]) * np.isnan(X[:, 0])
        weight = generator.choice([0.5, 1.0, 2.0], n_rows) if seed % 3 == 0 else None
        check_fit(grow(epsilon, rho=rho, max_depth=4, max_bins="exact"), X, y, weight)

    def test_as_scikit_learn(self) -> None:
        generator = np.random.default_rng(2)
        X = generator.random((200, 3))
        y = 4.0 * X[:, 0] + generator.normal(0.0, 0.1, 200)
        X[generator.random(X.shape) < 0.1] = np.nan
        ours = grow(max_depth=4, max_bins="exact").fit(X, y)
        theirs = DecisionTreeRegressor(max_depth=4, random_state=0).fit(X, y)
        np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-6)

    def test_attacks_and_proofs(self) -> None:
        generator = np.random.default_rng(3)
        X = generator.random((120, 2))
        y = np.where(X[:, 0] > 0.5, 4.0, 1.0) + X[:, 1]
        X[generator.random(X.shape) < 0.2] = np.nan
        model = Regressor(0.1, max_depth=4).fit(X, y)
        bounds = verify(model, X, y, 0.1, tolerance=0.0)
        assert ((bounds.lower <= model.predict(X)) & (model.predict(X) <= bounds.upper)).all()
        stays = np.isnan(X).all(axis=1)
        np.testing.assert_array_equal(bounds.lower[stays], bounds.upper[stays])

    def test_what_is_refused(self) -> None:
        X, y = draw_table(0, 20)
        whole = grow(0.1).fit(X, y)
        X[3, 1] = np.nan
        for refuse in (lambda: whole.predict(X), lambda: grow(criterion="absolute_error").fit(X, y)):
            with pytest.raises(ValueError, match=r"missing|NaN"):
                refuse()
        with pytest.raises(ValueError, match="cannot be trained against an attacker who blanks values"):
            grow(ThreatModel(0.1, blank="all")).fit(X, y)


class TestCategories:
    def draw(self, seed: int, n_rows: int) -> tuple[pd.DataFrame, np.ndarray]:
        X, y = draw_table(seed, n_rows)
        generator = np.random.default_rng(seed)
        labels = generator.choice(["A", "B", "C", "D"], n_rows)
        if seed % 3 == 0:
            labels = np.where(generator.random(n_rows) < 0.15, None, labels)
        y = y + generator.choice([0.0, 3.0]) * np.isin(labels, ["A", "C"])
        town = pd.Categorical(labels, categories=["A", "B", "C", "D"])
        return pd.DataFrame({"town": town, "x": X[:, 0]}), y

    @given(SEEDS, st.integers(2, 20), st.sampled_from([0.0, 0.1]), st.sampled_from([1.0, 0.5]))
    def test_sets_that_nobody_can_change_are_the_best_there_are(
        self, seed: int, n_rows: int, epsilon: float, rho: float
    ) -> None:
        frame, y = self.draw(seed, n_rows)
        check_fit(grow({"x": epsilon}, rho=rho, max_depth=3, max_bins="exact"), frame, y)

    @given(SEEDS, st.integers(2, 20), st.sampled_from([1.0, 0.5]))
    def test_sets_that_can_be_changed(self, seed: int, n_rows: int, rho: float) -> None:
        """Every split gains what the oracle says it gains, and rows go down as the attacker sends them."""
        frame, y = self.draw(seed, n_rows)
        changes = [{"A": ["B"]}, {"A": ["B", "C"], "D": ["A"]}, "<>"][seed % 3]
        check_fit(grow(ThreatModel({"town": changes, "x": 0.05}), rho=rho, max_depth=3, max_bins="exact"), frame, y)

    def test_no_gain_for_an_attacker_who_can_change_everything(self) -> None:
        generator = np.random.default_rng(0)
        frame = pd.DataFrame({"town": pd.Categorical(generator.choice(["A", "B"], 60))})
        y = np.where(frame["town"] == "A", 1.0, 5.0)
        assert grow({"town": "<>"}).fit(frame, y).get_n_leaves() == 1
        assert grow({"town": {"A": ["B"]}}).fit(frame, y).get_n_leaves() == 1
        assert grow().fit(frame, y).predict(frame).tolist() == y.tolist()

    def test_few_changes_leave_most_of_it(self) -> None:
        """Rows that can be given another town are lost in training, too, but the others are told apart."""
        generator = np.random.default_rng(1)
        frame = pd.DataFrame({"town": pd.Categorical(generator.choice(["A", "B", "C", "D"], 200))})
        y = frame["town"].map({"A": 1.0, "B": 2.0, "C": 8.0, "D": 9.0}).to_numpy(float)
        threat = {"town": {"A": ["D"]}}
        model = Regressor(threat).fit(frame, y)
        bounds, natural = (verify(tree, frame, y, threat, tolerance=0.0) for tree in (model, Regressor().fit(frame, y)))
        worst = [np.maximum((b.upper - y) ** 2, (b.lower - y) ** 2).mean() for b in (bounds, natural)]
        assert worst[0] < worst[1]
