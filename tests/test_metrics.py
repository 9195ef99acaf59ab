"""Adversarial accuracy: the share of rows that no attack in reach can turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score
from sklearn.tree import DecisionTreeClassifier

from hardwood import (
    RobustTreeClassifier,
    ThreatModel,
    adversarial_accuracy,
    attack,
    is_vulnerable,
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
