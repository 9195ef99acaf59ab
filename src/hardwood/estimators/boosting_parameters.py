"""Checking the parameters of robust boosting, and drawing the rows that it holds out."""

from collections.abc import Callable
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit

from hardwood.estimators.parameters import (
    check_choice,
    check_max_features,
    read_seed,
)
from hardwood.grow.bins import MOST_BINS
from hardwood.grow.boosting import BoostingOptions
from hardwood.grow.row_draws import DrawnRows, Fold, ListedRows
from hardwood.quoting import quote
from hardwood.reals import check_count, check_number, to_float
from hardwood.table import Schema
from hardwood.threat import Reach

MODES = ("free", "ordered")
N_FOLDS = 5
# Tables of more rows hold out one share of them instead of five in turn.
MOST_FOLD_ROWS = 10_000
HELD_OUT = 0.1
# Tables of more rows hold out those that hashes of their numbers choose. Of fewer, all are listed.
MOST_LISTED_ROWS = 50_000
# What tells the hashes of folds from those that draw the rows of trees, which are numbered from 0 on.
HASHED_FOLDS = 2**32 - 1
# Trees that are deeper do not generalise, and a tree keeps tables of all its nodes.
MOST_DEPTH = 12
# Steps that are larger lead nowhere, and their sums out of range.
MOST_RATE = 1e6


def check_boosting_options(estimator: Any, n_features: int) -> BoostingOptions:
    """Read how trees are to be grown."""
    learning_rate = check_number("learning_rate", estimator.learning_rate, 0.0, MOST_RATE)
    if learning_rate == 0.0:
        raise ValueError(f"learning_rate={quote(estimator.learning_rate)}: expected a number > 0")
    patience = estimator.n_iter_no_change
    return BoostingOptions(
        n_rounds=check_count("n_estimators", estimator.n_estimators, 1),
        max_depth=check_count("max_depth", estimator.max_depth, 1, MOST_DEPTH),
        learning_rate=learning_rate,
        l2=check_number("l2_regularization", estimator.l2_regularization, 0.0),
        min_gain=check_number("min_gain", estimator.min_gain, 0.0),
        min_child_weight=check_number("min_child_weight", estimator.min_child_weight, 0.0),
        subsample=_check_share("subsample", estimator.subsample),
        max_features=check_max_features(estimator.max_features, n_features),
        ordered=check_choice("mode", estimator.mode, MODES) == "ordered",
        max_bins=check_count("max_bins", estimator.max_bins, 2, MOST_BINS),
        seed=read_seed(estimator.random_state),
        patience=None if patience is None else check_count("n_iter_no_change", patience, 1),
    )


def _check_share(name: str, value: Any) -> float:
    share = to_float(value)
    if not 0.0 < share <= 1.0:
        raise ValueError(f"{name}={quote(value)}: expected a share of the rows in (0, 1]")
    return share


def check_ordered(reach: Reach, schema: Schema) -> None:
    """Refuse what cannot be put in an order: categories that an attacker may change, and values that he may hide."""
    for name in ("blank", "fill"):
        if getattr(reach, name) is not None and getattr(reach, name).any() and reach.attacks.any():
            raise ValueError(
                f"mode='ordered': the attacker may {name} values, which have no order then; expected 'free'"
            )
    for feature in reach.categorical:
        matrix = reach.categories[feature]
        assert matrix is not None
        if matrix.sum() > len(matrix) and reach.attacks.any():
            raise ValueError(
                f"mode='ordered': the attacker may change categories of column {quote(schema.key(feature))}, "
                "which have no order; expected 'free'"
            )


def draw_folds(
    early_stopping: Any,
    n_per_class: np.ndarray | None,
    n_rows: int,
    seed: int,
    read_classes: Callable[[], np.ndarray],
) -> list[Fold]:
    """Draw the rows that are held out, fold by fold; none if nothing stops early.

    In tables of up to `MOST_LISTED_ROWS` rows classes are spread evenly over folds. In larger ones hashes of the rows'
    numbers decide, which nobody has to write down. Where a class has too few rows to be held out, nothing is.

    Parameters
    ----------
    n_per_class : ndarray or None
        How many rows each class has; None: there are no classes.
    read_classes : callable
        Returns the class index of every row; called for small tables with classes only.
    """
    if isinstance(early_stopping, str) and early_stopping == "auto":
        early_stopping = "cv" if n_rows <= MOST_FOLD_ROWS else HELD_OUT
    if early_stopping is False:
        return []
    is_share = isinstance(early_stopping, Real) and not isinstance(early_stopping, (bool, Integral))
    if not (early_stopping == "cv" if isinstance(early_stopping, str) else is_share and 0.0 < early_stopping < 1.0):
        raise ValueError(
            f"early_stopping={quote(early_stopping)}: expected 'auto', 'cv', a share of the rows in (0, 1), or False"
        )
    is_cv = isinstance(early_stopping, str)
    smallest = n_rows if n_per_class is None else int(n_per_class[n_per_class > 0].min())
    if smallest < 2:
        return []
    n_folds = min(N_FOLDS, smallest)
    if n_rows > MOST_LISTED_ROWS:
        bounds = np.linspace(0.0, 1.0, n_folds + 1).tolist() if is_cv else [0.0, float(early_stopping)]
        return [DrawnRows(seed, HASHED_FOLDS, low, high) for low, high in pairwise(bounds)]
    y = np.zeros(n_rows) if n_per_class is None else read_classes()
    if is_cv:
        folds = (KFold if n_per_class is None else StratifiedKFold)(n_folds, shuffle=True, random_state=seed)
        return [ListedRows(held_out) for _, held_out in folds.split(y, y)]
    n_classes = 1 if n_per_class is None else int(np.count_nonzero(n_per_class))
    n_held_out = min(max(n_classes, int(np.ceil(early_stopping * n_rows))), n_rows - n_classes)
    draw = (ShuffleSplit if n_per_class is None else StratifiedShuffleSplit)(1, test_size=n_held_out, random_state=seed)
    return [ListedRows(held_out) for _, held_out in draw.split(y, y)]
