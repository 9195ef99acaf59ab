"""Scores on tables of Dask: every partition adds up what its rows say, and rows stay where they are."""

from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from sklearn.base import is_classifier

from hardwood.dask.run import open_run
from hardwood.dask.tables import delay_parts
from hardwood.rows.parts import Part, say_where
from hardwood.rows.targets import read_column, read_numbers
from hardwood.weights import read_weights


class Sums(NamedTuple):
    """What the rows of a partition add up to."""

    weight: float
    error: float  # the weight of wrong classes, or the squared error
    mean: float = 0.0  # of numbers
    spread: float = 0.0  # their squared distances from the mean

    def merge(self, other: "Sums") -> "Sums":
        """Return the sums of both; squares are never taken of numbers far from their mean."""
        weight = self.weight + other.weight
        apart, share = other.mean - self.mean, other.weight / weight
        return Sums(
            weight,
            self.error + other.error,
            self.mean + apart * share,
            self.spread + other.spread + apart * apart * self.weight * share,
        )


def score_parts(model: Any, X: Any, y: Any, sample_weight: Any, client: Any) -> float:
    """Return the accuracy of a classifier, or R² of a regressor, as scikit-learn has them.

    model : fitted, and knows nothing of Dask
    """
    from dask import delayed

    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    parts, token = delay_parts(X, y, sample_weight), uuid4().hex
    shared, add_up = delayed(model, name=f"hardwood-model-{token}", traverse=False), delayed(_add_up, pure=False)
    with open_run(client) as run:
        tasks = [add_up(shared, part, dask_key_name=f"hardwood-score-{token}-{k}") for k, part in enumerate(parts)]
        found = [sums for sums in run.gather(run.compute(tasks)) if sums is not None]
    if not found:
        raise ValueError("X has no rows that weigh anything")
    total = found[0]
    for sums in found[1:]:
        total = total.merge(sums)
    if not np.isfinite([total.weight, total.error, total.spread]).all():
        raise ValueError("y, sample_weight: weights or squared errors add up to more than float64 can hold; scale them")
    if is_classifier(model):
        return 1.0 - total.error / total.weight
    return 1.0 - total.error / total.spread if total.spread else float(total.error == 0.0)


def _add_up(model: Any, part: Part) -> Sums | None:
    """Add up what the rows of a partition say; None: it has none that weigh anything."""
    n_rows = part.X.shape[0]
    with say_where(part):
        weight = np.ones(n_rows) if part.sample_weight is None else read_weights(part.sample_weight, n_rows)
        total = float(weight.sum())
        if not total:
            return None
        predicted = model.predict(part.X)
        if is_classifier(model):
            return Sums(total, float(weight[predicted != read_column(part.y, n_rows)].sum()))
        target = read_numbers(part.y, n_rows)
    mean = float(np.average(target, weights=weight))
    return Sums(total, float(weight @ (target - predicted) ** 2), mean, float(weight @ (target - mean) ** 2))
