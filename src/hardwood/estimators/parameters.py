"""Checking the parameters that robust estimators share, and turning them into numbers."""

import math
from collections.abc import Collection, Mapping
from numbers import Integral
from typing import Any

import numpy as np

from hardwood.grow.bins import MOST_BINS
from hardwood.grow.criteria import CRITERIA
from hardwood.grow.limits import UNLIMITED, GrowOptions, SizeLimits
from hardwood.grow.treant import LOSSES, TreantOptions
from hardwood.quoting import quote
from hardwood.reals import check_number, is_integer, read_seed, to_float
from hardwood.table import Schema
from hardwood.threads import count_threads


def is_share(value: Any) -> bool:
    """Say whether a value is a share: a real number in (0, 1] that is not an integer, so that 1 means one."""
    return not isinstance(value, Integral) and 0.0 < to_float(value) <= 1.0


def check_optional_integer(name: str, value: Any, low: int) -> int:
    """Return an integer >= low, or 'no limit' for None."""
    if value is None:
        return UNLIMITED
    if not (is_integer(value) and value >= low):
        raise ValueError(f"{name}={quote(value)}: expected None or an integer >= {low}")
    return min(int(value), UNLIMITED)


def check_size(name: str, value: Any, low: int, n_rows: int) -> int:
    """Return a number of rows, given as such or as a share of all rows."""
    if is_integer(value) and value >= low:
        return min(int(value), UNLIMITED)
    if is_share(value):
        return max(low, math.ceil(value * n_rows))
    raise ValueError(f"{name}={quote(value)}: expected an integer >= {low} or a share of the rows in (0, 1]")


def check_max_features(value: Any, n_features: int) -> int:
    """Return how many features a node tries."""
    if value is None:
        return n_features
    if isinstance(value, str) and value in ("sqrt", "log2"):
        root = math.sqrt(n_features) if value == "sqrt" else math.log2(n_features)
        return max(1, int(root))
    if is_integer(value) and value >= 1:
        return min(int(value), n_features)
    if is_share(value):
        return max(1, int(value * n_features))
    raise ValueError(
        f"max_features={quote(value)}: expected None, 'sqrt', 'log2', an integer >= 1 or a share of the features "
        "in (0, 1]"
    )


def check_max_bins(value: Any) -> int | str:
    """Return how many bins a feature may have, "exact" or "auto"."""
    if isinstance(value, str) and value in ("auto", "exact"):
        return value
    if is_integer(value) and 2 <= value <= MOST_BINS:
        return int(value)
    raise ValueError(f"max_bins={quote(value)}: expected 'auto', 'exact' or an integer from 2 to {MOST_BINS}")


def read_monotonic(monotonic_cst: Any, schema: Schema) -> np.ndarray | None:
    """Return 1, 0 or -1 for every feature; None if no feature is monotone."""
    if monotonic_cst is None:
        return None
    if isinstance(monotonic_cst, Mapping):
        positions = {str(schema.key(j)): j for j in range(schema.n_features)}
        given = np.zeros(schema.n_features, dtype=object)
        for key, value in monotonic_cst.items():
            if str(key) not in positions:
                raise ValueError(f"monotonic_cst: there is no column {quote(key)}")
            given[positions[str(key)]] = value
    else:
        given = np.asarray(monotonic_cst, dtype=object)
        if given.shape != (schema.n_features,):
            raise ValueError(
                f"monotonic_cst={quote(monotonic_cst)}: expected {schema.n_features} numbers, one per feature, or "
                "a dict"
            )
    for j, value in enumerate(given.tolist()):
        if not (is_integer(value) and value in (-1, 0, 1)):
            raise ValueError(f"monotonic_cst: {quote(value)} for feature {quote(schema.key(j))}: expected 1, 0 or -1")
        if value and schema.categories[j] is not None:
            raise ValueError(
                f"monotonic_cst: feature {quote(schema.key(j))} is categorical, which has no order; expected 0"
            )
    return given.astype(np.int64) if given.any() else None


def check_choice(name: str, value: Any, choices: Collection[str]) -> str:
    """Return one of several words, or say which there are."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name}={quote(value)}: expected one of {', '.join(map(repr, choices))}")
    return value


def check_size_limits(estimator: Any, n_rows: int) -> SizeLimits:
    """Read the parameters that say how large a tree may become, for a table of this size."""
    return SizeLimits(
        max_depth=check_optional_integer("max_depth", estimator.max_depth, 1),
        min_samples_split=check_size("min_samples_split", estimator.min_samples_split, 2, n_rows),
        min_samples_leaf=check_size("min_samples_leaf", estimator.min_samples_leaf, 1, n_rows),
    )


def check_grow_options(
    estimator: Any, n_rows: int, n_features: int, criteria: Collection[str] = tuple(CRITERIA)
) -> GrowOptions:
    """Read the growing parameters of a robust tree for a table of this size."""
    max_leaf_nodes = check_optional_integer("max_leaf_nodes", estimator.max_leaf_nodes, 2)
    return GrowOptions(
        criterion=check_choice("criterion", estimator.criterion, criteria),
        rho=check_number("rho", estimator.rho, 0.0, 1.0),
        size=check_size_limits(estimator, n_rows),
        min_impurity_decrease=check_number("min_impurity_decrease", estimator.min_impurity_decrease, 0.0),
        max_features=check_max_features(estimator.max_features, n_features),
        max_leaf_nodes=None if max_leaf_nodes == UNLIMITED else max_leaf_nodes,
        seed=read_seed(estimator.random_state),
        n_threads=count_threads(estimator.n_jobs),
    )


def check_treant_options(estimator: Any, n_rows: int) -> TreantOptions:
    """Read the growing parameters of a TREANT tree for a table of this size."""
    return TreantOptions(
        loss=check_choice("loss", estimator.loss, LOSSES),
        midway=check_choice("thresholds", estimator.thresholds, ("values", "midway")) == "midway",
        size=check_size_limits(estimator, n_rows),
        n_threads=count_threads(estimator.n_jobs),
    )
