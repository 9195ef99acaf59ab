"""Ranks of methods over tables: the tests are the textbook's."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from paper.ranks import compare_ranks, wilcoxon_p


def draw_scores(seed: int, n_tables: int = 12, n_methods: int = 4) -> dict[str, list[float]]:
    generator = np.random.default_rng(seed)
    table = generator.random((n_methods, n_tables)) + 0.2 * np.arange(n_methods)[:, None]
    return {f"method {k}": line.tolist() for k, line in enumerate(table)}


@pytest.mark.parametrize("seed", range(10))
def test_without_ties_the_tests_are_those_of_scipy(seed: int) -> None:
    scores = draw_scores(seed)
    found = compare_ranks(scores)
    assert found.friedman_p == pytest.approx(stats.friedmanchisquare(*scores.values()).pvalue)
    raw = {pair: stats.wilcoxon(scores[pair[0]], scores[pair[1]]).pvalue for pair in found.p_values}
    for pair, p_value in raw.items():
        assert wilcoxon_p(np.subtract(*(scores[name] for name in pair))) == pytest.approx(p_value)
        assert found.p_values[pair] >= p_value
    least = min(raw, key=lambda pair: raw[pair])
    assert found.p_values[least] == pytest.approx(min(1.0, len(raw) * raw[least]))


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=8))
def test_wilcoxon_with_ties_is_the_share_of_signs(numbers: list[int]) -> None:
    """The p-value is the share of all ways to sign the differences that are at least as lopsided, zeros left out."""
    kept = np.array([number for number in numbers if number])
    ranks = stats.rankdata(np.abs(kept))
    off_centre = abs(ranks[kept > 0].sum() - ranks.sum() / 2)
    sums = [ranks[np.array(signs, dtype=bool)].sum() for signs in product([0, 1], repeat=len(kept))]
    expected = np.mean([abs(total - ranks.sum() / 2) >= off_centre for total in sums])
    assert wilcoxon_p(numbers) == pytest.approx(expected)


def test_the_critical_difference_is_the_published_one() -> None:
    """Demšar (2006), section 3.2.2: four classifiers and 14 data sets, q = 2.569 at 0.05, so 1.25."""
    found = compare_ranks(draw_scores(0, n_tables=14))
    assert found.critical_difference == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=1e-3)


def test_ties_share_their_ranks() -> None:
    found = compare_ranks({"a": [0.5, 0.5], "b": [0.5, 0.1 + 0.4], "c": [0.1, 0.9]})
    assert found.mean_ranks == {"a": 2.0, "b": 2.0, "c": 2.0}
    assert found.friedman_p == 1.0
    assert found.groups == [("a", "b", "c")]


def test_groups_are_told_apart() -> None:
    """Two that swap places are one group, one that always loses is none."""
    swapping = np.arange(12) % 2 * 0.1
    scores = {"last": np.arange(12) / 100, "first": 0.5 + swapping, "second": 0.6 - swapping}
    found = compare_ranks(scores)
    assert set(found.groups[0]) == {"first", "second"}
    assert len(found.groups) == 1
    assert list(found.mean_ranks)[-1] == "last"
    assert found.mean_ranks["last"] == 3.0
    assert found.friedman_p < 0.001


def test_a_chain_of_groups_overlaps() -> None:
    """Neighbours that cannot be told apart share a bar, though the ends of the chain can be."""
    generator = np.random.default_rng(3)
    noise = generator.normal(scale=0.1, size=(3, 14))
    scores = {name: 0.08 * k + noise[k] for k, name in enumerate("cba")}
    found = compare_ranks(scores)
    assert found.p_values["a", "c"] <= 0.05 < min(found.p_values["a", "b"], found.p_values["b", "c"])
    assert found.groups == [("a", "b"), ("b", "c")]


@pytest.mark.parametrize("scores", [{"a": [1.0, 2.0], "b": [1.0, 3.0]}, {"a": [1.0], "b": [1.0], "c": [2.0]}])
def test_too_little_to_compare(scores: dict[str, list[float]]) -> None:
    with pytest.raises(ValueError, match="expected at least three methods and two tables"):
        compare_ranks(scores)
