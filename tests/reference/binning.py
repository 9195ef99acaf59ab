"""Thresholds, codes and histograms the slow way: by comparing every value with every threshold."""

from __future__ import annotations

import itertools

import numpy as np


def encode(values: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """How many thresholds are below each value."""
    return (thresholds < values[:, None]).sum(axis=1)


def separates(below: float, above: float, largest: float) -> bool:
    """Whether two neighbouring ends of reach do not count as equal."""
    tolerance = 1e-9 if largest > 0.0 else 0.0
    return above > below and above - below > tolerance * max(abs(below), abs(above), largest)


def find_gaps(ends: np.ndarray, largest: float) -> list[tuple[float, float]]:
    """Every two neighbouring ends that a threshold may part."""
    ends = sorted(end for end in ends.tolist() if np.isfinite(end))
    return [(a, b) for a, b in itertools.pairwise(ends) if separates(a, b, largest)]


def count(codes: np.ndarray, label: np.ndarray, width: int) -> np.ndarray:
    """Samples by column, code and class."""
    table = np.zeros((codes.shape[1], width, 2), dtype=np.int64)
    for row, one in zip(codes, label, strict=True):
        for column, code in enumerate(row):
            table[column, code, one] += 1
    return table
