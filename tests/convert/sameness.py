"""What the tests of imports share: rows that hug the thresholds, and what it means to predict the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hardwood import TreeEnsemble, adversarial_accuracy, attack, verify

N_ROWS = 10_000
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)


def make_table(n_rows: int = 300, n_features: int = 4) -> np.ndarray:
    """Return numbers of several kinds: any, decimal, float32, whole."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n_rows, n_features))
    X[:, 1] = X[:, 1].round(1)
    X[:, 2] = X[:, 2].astype(np.float32)
    X[:, 3] = X[:, 3].round()
    return X


def make_target(X: np.ndarray, n_classes: int) -> np.ndarray:
    """Return noisy classes, or noisy values for 0 classes."""
    X = np.nan_to_num(X)
    value = X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * np.random.default_rng(1).normal(size=len(X))
    return value if n_classes == 0 else np.digitize(value, np.linspace(-0.5, 0.5, n_classes - 1))


def with_missing(X: np.ndarray, share: float = 0.15) -> np.ndarray:
    """Return a copy in which some values are missing, in the last column more often where the first is large."""
    generator = np.random.default_rng(2)
    X = X.copy()
    X[generator.random(X.shape) < share] = np.nan
    X[(X[:, 0] > 0.5) & (generator.random(len(X)) < 0.7), -1] = np.nan
    return X


def hugging_rows(ensemble: TreeEnsemble, n_rows: int = N_ROWS, *, missing: bool = False, infinite: bool = False) -> Any:
    """Return rows whose values are at, just beside and halfway between thresholds, in float64 and in float32."""
    generator = np.random.default_rng(3)
    rows = generator.normal(size=(n_rows, ensemble.schema.n_features))
    for j, labels in enumerate(ensemble.schema.categories):
        if labels is not None:
            rows[:, j] = generator.integers(0, len(labels) + 1, n_rows)
            continue
        threshold = ensemble.threshold[ensemble.feature == j]
        threshold = threshold[np.abs(threshold) < LARGEST_FLOAT32 / 2]
        rounded = threshold.astype(np.float32)
        at = [threshold, *(np.nextafter(rounded, np.float32(side)) for side in (-np.inf, np.inf)), rounded]
        at += [at[1] / 2.0 + rounded / 2.0, at[2] / 2.0 + rounded / 2.0, np.array([0.0, -0.0, 1e-36, -1e-36, 1e20])]
        near = np.concatenate(at).astype(np.float64)
        near = np.concatenate([near, np.nextafter(near, np.inf), np.nextafter(near, -np.inf)])
        chosen = generator.random(n_rows) < 0.8
        rows[chosen, j] = generator.choice(near, chosen.sum())
        if infinite:
            rows[generator.random(n_rows) < 0.05, j] = np.inf
            rows[generator.random(n_rows) < 0.05, j] = -np.inf
    if missing:
        hit = generator.random(rows.shape) < 0.15
        hit[: n_rows // 3] = False
        rows[hit] = np.nan
    return rows


def assert_same_bits(ours: np.ndarray, theirs: Any) -> None:
    """Both are the same floats, to the last bit (but 0.0 and -0.0 are one number)."""
    theirs = np.asarray(theirs)
    assert ours.dtype == theirs.dtype
    assert np.array_equal(ours, theirs.reshape(ours.shape))


def assert_predicts(ensemble: TreeEnsemble, rows: np.ndarray, labels: Any) -> None:
    """The ensemble predicts these labels for rows as kernels take them."""
    ours = ensemble.output(rows)[:, 0] if ensemble.classes is None else ensemble.labels[ensemble.decide(rows)]
    assert np.array_equal(ours, labels)


def assert_same_at_the_door(ensemble: TreeEnsemble, rows: np.ndarray, predict: Callable[[Any], Any]) -> None:
    """`predict` of a table of numbers says what the source says, in float64 and float32, missing values included."""
    finite = np.where(np.isinf(rows), 0.0, rows)  # the door has no place for infinity
    assert len(rows) >= N_ROWS
    assert np.isnan(finite).any() == ensemble.schema.accepts_missing
    for table in (finite, finite.astype(np.float32)):
        assert np.array_equal(ensemble.predict(table), predict(table))


def assert_attacks_fool(model: Any, X: np.ndarray, y: np.ndarray) -> None:
    """Examples of rows with missing values fool the source itself, and lack the same values."""
    result, certificate = attack(model, X, y, 0.2), verify(model, X, y, 0.2)
    found = result.found
    assert 0 < found.sum() < len(X)
    assert np.isnan(X[found]).any()
    assert np.array_equal(found, certificate.status == "vulnerable")
    for examples in (result.X_adv[found], certificate.witness[found]):
        assert (model.predict(examples) != y[found]).all()
        assert np.array_equal(np.isnan(examples), np.isnan(X[found]))
        assert np.nanmax(np.abs(examples - X[found])) <= 0.2 + 1e-12
    assert adversarial_accuracy(model, X, y, 0.2) == 1.0 - found.mean()


def assert_survives_json(ensemble: TreeEnsemble, rows: np.ndarray) -> None:
    """What was imported can be saved and read without a change."""
    again = TreeEnsemble.parse_json(ensemble.to_json())
    assert again.schema == ensemble.schema
    assert_same_bits(again.output(rows), ensemble.output(rows))
    if ensemble.classes is not None:
        assert np.array_equal(again.decide(rows), ensemble.decide(rows))
