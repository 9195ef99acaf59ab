"""The tables, targets and attackers that models are characterised on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import hardwood

N_ROWS = 400


class Table(NamedTuple):
    """A table and what an attacker may do to it."""

    X: pd.DataFrame
    threat: hardwood.ThreatModel


def make_tables() -> tuple[dict[str, Table], dict[Any, np.ndarray], np.ndarray]:
    """Return tables by name; targets: two, three and five classes and numbers; and weights of the rows."""
    generator = np.random.default_rng(3)
    plain = pd.DataFrame({
        "a": generator.normal(size=N_ROWS).round(2),
        "b": generator.normal(size=N_ROWS).round(1),
        "c": generator.integers(0, 9, N_ROWS).astype(float),
        "d": generator.normal(size=N_ROWS).round(3),
    })  # fmt: skip
    score = (plain.a + 0.5 * plain.b + 0.2 * plain.c).to_numpy() + generator.normal(size=N_ROWS) * 0.3
    rank = np.argsort(np.argsort(score))
    targets: dict[Any, np.ndarray] = {n: rank * n // N_ROWS for n in (2, 3, 5)}
    targets["numbers"] = score.round(2)

    missing, categories = plain.copy(), plain.copy()
    missing.loc[generator.random(N_ROWS) < 0.2, "b"] = np.nan
    kinds = np.where(generator.random(N_ROWS) < 0.7, np.array(["u", "v", "w"])[targets[3]], "x")
    categories["k"] = pd.Categorical(kinds)
    both = categories.assign(b=missing.b)
    both.loc[generator.random(N_ROWS) < 0.1, "k"] = np.nan

    reach = {"a": 0.2, "b": (0.1, 0.3), "c": "<"}
    with_categories = {**reach, "k": {"u": ["v"], "w": ["x", "u"]}}
    threat = hardwood.ThreatModel
    tables = {
        "plain": Table(plain, threat(reach)),
        "categories": Table(categories, threat(with_categories)),
        "missing": Table(missing, threat(reach)),
        "both": Table(both, threat(with_categories)),
        "blank": Table(both, threat(with_categories, blank=["b", "k"])),
        "fill": Table(both, threat(with_categories, fill=["b"])),
    }
    return tables, targets, generator.integers(1, 4, N_ROWS).astype(float)


def make_stream(X: pd.DataFrame, y: np.ndarray, weight: np.ndarray | None) -> Any:
    """Return the same rows as a stream of four batches."""

    def batches() -> Iterator[tuple]:
        for start in range(0, len(X), 130):
            rows = slice(start, start + 130)
            yield (X[rows], y[rows]) if weight is None else (X[rows], y[rows], weight[rows])

    return hardwood.stream(batches)
