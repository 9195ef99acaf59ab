"""What encoders of scikit-learn make of the labels of categories: the encoder itself is asked, label by label."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardwood.convert.scikit_learn import run_quietly
from hardwood.table.columns import name_unseen

ENCODERS = ("OrdinalEncoder", "OneHotEncoder", "TargetEncoder")


@dataclass(frozen=True)
class Encoding:
    """One column that an encoder puts out: the number that stands for each label of one column that goes in.

    `unseen` and `missing` are for other labels and for no label; NaN where the encoder refuses them.
    """

    column: int
    labels: tuple[Any, ...]
    values: tuple[float, ...]
    unseen: float
    missing: float
    takes_unseen: bool

    def value_of(self, label: Any) -> float:
        """Return the number that stands for a label."""
        return self.values[self.labels.index(label)] if label in self.labels else self.unseen


def read_encoder(step: Any) -> Iterator[Encoding]:
    """Yield the columns that a fitted encoder puts out, in order."""
    n_columns = _count_columns(step)
    first = 0
    for column, known in enumerate(step.categories_):
        labels = tuple(label for label in known.tolist() if not _is_missing(label))
        rows = [_ask(step, column, label) for label in labels]
        unseen = _ask(step, column, name_unseen(labels))
        missing = _ask(step, column, math.nan)
        for j in range(first, first + n_columns[column]):
            yield Encoding(
                column,
                labels,
                tuple(math.nan if row is None else float(row[j]) for row in rows),
                math.nan if unseen is None else float(unseen[j]),
                math.nan if missing is None else float(missing[j]),
                unseen is not None,
            )
        first += n_columns[column]


def _count_columns(step: Any) -> list[int]:
    """Return how many columns come out for each that goes in."""
    if hasattr(step, "drop_idx_"):
        return list(step._n_features_outs)  # OneHotEncoder
    n_features = len(step.categories_)
    n_out = len(step.encodings_) if hasattr(step, "encodings_") else n_features  # several per target class
    return [n_out // n_features] * n_features


def _ask(step: Any, column: int, label: Any) -> np.ndarray | None:
    """Return what the encoder makes of a row with this label, or None if it refuses the row."""
    row = np.empty((1, len(step.categories_)), dtype=object)
    row[0] = [known[0] for known in step.categories_]
    row[0, column] = label
    if all(known.dtype.kind in "biuf" for known in step.categories_) and not isinstance(label, str):
        row = row.astype(np.float64)
    try:
        encoded = run_quietly(lambda table: _dense(step.transform(table)), row)
    except (ValueError, TypeError):
        return None
    return encoded[0]


def _dense(encoded: Any) -> np.ndarray:
    return np.asarray(encoded.toarray() if hasattr(encoded, "toarray") else encoded, dtype=np.float64)


def _is_missing(label: Any) -> bool:
    return label is None or (isinstance(label, float) and math.isnan(label))
