"""The attacker's answer to a split of many classes: it meets the leaf values, and no whole move does more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from hardwood._kernels.grow.criteria import ERROR
from hardwood._kernels.grow.targets import answers
from hardwood._kernels.grow.targets.ratings import Work, rate
from reference import many_classes

N_CASES = 12_500  # per number of classes


@njit
def answer_all(least, most, total, theta, mu, use_gini, move):
    """The answers to many splits, each from a start of its own; whether the sides are levelled."""
    levelled = np.zeros(len(least), dtype=np.bool_)
    for i in range(len(least)):
        levelled[i] = answers.is_levelled(least[i], most[i], total[i])
        n = total[i].sum()
        if levelled[i]:
            continue
        if use_gini:
            answers.answer_gini(least[i], most[i], total[i], n, theta[i], mu[i] * n, move[i])
        else:
            answers.answer_entropy(least[i], most[i], total[i], n, theta[i], move[i])
    return levelled


@njit
def rate_one(criterion, work, n, base):
    return rate(criterion, work, n, base, 0.0, False)


def draw_splits(generator: np.random.Generator, n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Splits of all sizes, half of them with classes that keep to a side, some with classes that do not attack."""
    size = generator.choice([2, 4, 10, 50, 1000], (n, 1))
    left, right, movable = (np.floor(generator.random((n, n_classes)) * (size + 1)) for _ in range(3))
    keeps = generator.random((n, n_classes)) < 0.5
    sided = generator.random((n, 1)) < 0.5
    left = np.where(sided, np.where(keeps, 3 * left + 1, left // 3), left)
    right = np.where(sided, np.where(keeps, right // 3, 3 * right + 1), right)
    still = (generator.random((n, 1)) < 0.3) & (generator.random((n, n_classes)) < 0.5)
    movable = np.where(still, 0.0, movable)
    unit = np.where(generator.random((n, 1)) < 0.5, 1.0, generator.random((n, 1)))  # whole rows, and weights
    left, right, movable = left * unit, right * unit, movable * unit
    return left, left + movable, left + movable + right


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 6, 7, 12, 40])
def test_moves_and_leaf_values_meet(criterion: str, n_classes: int) -> None:
    """Any move bounds the robust impurity from below, any leaf values do from above: where they meet both are best."""
    generator = np.random.default_rng(n_classes)
    least, most, total = draw_splits(generator, N_CASES, n_classes)
    kept = total.sum(axis=1) > 0.0
    least, most, total = least[kept], most[kept], total[kept]
    theta, mu, move = generator.random(len(least)), generator.normal(size=len(least)) * 0.1, np.full_like(total, np.nan)
    levelled = answer_all(least, most, total, theta, mu, criterion == "gini", move)
    assert levelled.mean() < 0.95
    np.testing.assert_array_equal(levelled, many_classes.can_level(least, most, total))
    n = total.sum(axis=1)
    open_cases = np.flatnonzero(~levelled)
    assert ((move >= least) & (move <= most))[open_cases].all()
    reached = many_classes.impurity(criterion, move) + many_classes.impurity(criterion, total - move)
    for i in open_cases:
        bound = many_classes.bound_by_values(criterion, move[i], least[i], most[i], total[i])
        assert bound - reached[i] <= 1e-12 * n[i]


def test_levelled_sides_gain_nothing() -> None:
    least, most, total = draw_splits(np.random.default_rng(0), 2000, 4)
    kept = many_classes.can_level(least, most, total) & (total.sum(axis=1) > 0.0)
    share = np.where(total > 0.0, least / np.where(total > 0.0, total, 1.0), 0.0).max(axis=1, keepdims=True)
    move = np.clip(total * share, least, most)[kept]
    for criterion in ("gini", "entropy"):
        assert (many_classes.gain(criterion, move, total[kept]) <= 1e-9 * total[kept].sum(axis=1)).all()


@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_no_whole_move_does_more(seed: int, n_classes: int) -> None:
    """Of all ways to move whole rows none leaves less than the answer, which may move parts of rows."""
    generator = np.random.default_rng(seed)
    left, right = generator.integers(0, 5, (2, n_classes)).astype(float)
    movable = generator.integers(0, 4, n_classes).astype(float)
    least, most, total = left, left + movable, left + movable + right
    work = make_work(least, most, total)
    n = total.sum()
    if n == 0.0:
        return
    base = float((total**2).sum() / n)
    for criterion, name in enumerate(["gini", "entropy"]):
        found = rate_one(criterion, work, n, base)
        best = many_classes.enumerate_moves(name, least, most, total)
        assert found <= best + 1e-9 * n
        if found > 0.0:  # one row more or less of each class
            assert best - found <= 2.0 * n_classes
    labels = [least[a] + (total - most)[b] for a in range(n_classes) for b in range(n_classes) if a != b]
    saved = max(labels) - total.max()
    assert rate_one(ERROR, work, n, base) == pytest.approx(max(saved, 0.0), abs=1e-8 * n)


def make_work(least: np.ndarray, most: np.ndarray, total: np.ndarray) -> Work:
    """What a scan knows of a cut."""
    n_classes = len(total)
    lows, highs, takes = (np.zeros(n_classes, dtype=np.int64) for _ in range(3))
    move, scale = np.zeros((2, n_classes))
    return Work(total, least, most, move, np.array([0.5, 0.0]), lows, highs, scale, takes)
