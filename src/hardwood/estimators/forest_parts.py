"""What forests of classes and of numbers share: their parameters, warm starts, and rows that trees have not seen."""

from typing import Any

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.estimators.parameters import check_max_bins, is_share
from hardwood.grow.forest import ForestOptions, TreeGrower, find_unseen, grow_forest, join_trees
from hardwood.progress import read_progress
from hardwood.quoting import quote
from hardwood.reals import MOST_COUNTED, check_count, is_integer
from hardwood.table import Schema


def check_bins(max_bins: Any) -> int | None:
    """Return how many bins a feature has; None for all thresholds."""
    bins = check_max_bins(max_bins)
    if bins == "auto":
        raise ValueError("max_bins='auto': expected 'exact' or an integer from 2 to 255")
    return None if isinstance(bins, str) else bins


def continue_forest(
    estimator: Any, schema: Schema, classes: np.ndarray | None, n_rows: int, seed: int
) -> tuple[TreeEnsemble | None, ForestOptions]:
    """Return the trees that are there already, if they are kept, and what is asked of the forest."""
    if not (estimator.warm_start and hasattr(estimator, "ensemble_")):
        return None, check_forest(estimator, n_rows, seed)
    before: TreeEnsemble = estimator.ensemble_
    same_classes = (before.classes is None) == (classes is None)
    if same_classes and classes is not None and before.classes is not None:
        same_classes = before.classes.tolist() == classes.tolist()
    if before.schema != schema or not same_classes:
        raise ValueError("warm_start=True: X and y have other columns or classes than before; set it to False")
    forest = check_forest(estimator, n_rows, estimator._seed)
    if before.n_trees > forest.n_trees:
        raise ValueError(
            f"n_estimators={estimator.n_estimators}: there are {before.n_trees} trees, and warm_start=True keeps them"
        )
    return before, forest


def check_forest(estimator: Any, n_rows: int, seed: int) -> ForestOptions:
    """Read the parameters that make a forest of trees."""
    n_trees, share, bootstrap = estimator.n_estimators, estimator.max_samples, estimator.bootstrap
    n_trees = check_count("n_estimators", n_trees, 1)
    for name in ("max_samples", "oob_score"):
        if getattr(estimator, name) and not bootstrap:
            raise ValueError(
                f"{name}={quote(getattr(estimator, name))}: for bootstrap=True only; every tree sees all rows"
            )
    drawn = n_rows if share is None else share
    if not ((is_integer(drawn) and 1 <= drawn <= MOST_COUNTED) or is_share(drawn)):
        raise ValueError(f"max_samples={quote(drawn)}: expected None, an integer >= 1 or a share of the rows in (0, 1]")
    n_drawn = int(drawn) if is_integer(drawn) else max(1, round(float(drawn) * n_rows))
    return ForestOptions(
        n_trees=n_trees,
        n_rows=n_rows,
        n_drawn=n_drawn if bootstrap else None,
        seed=seed,
        n_jobs=estimator.n_jobs,
        progress=read_progress(estimator.progress),
    )


def grow_on(before: TreeEnsemble | None, grower: TreeGrower, forest: ForestOptions) -> TreeEnsemble:
    """Return a forest of the trees that are there and of those that are missing."""
    if before is None:
        return join_trees(grow_forest(grower, forest))
    return join_trees([before, *grow_forest(grower, forest, before.n_trees)])


def forget_oob(estimator: Any, *names: str) -> None:
    """Remove what an earlier fit said of rows that trees had not seen."""
    for name in ("oob_score_", *names):
        if hasattr(estimator, name):
            delattr(estimator, name)


def vote_unseen(ensemble: TreeEnsemble, matrix: np.ndarray, forest: ForestOptions) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum of what trees say of rows that they have not seen, and how many trees that are, per row."""
    unseen = find_unseen(forest)
    votes = np.zeros((len(matrix), ensemble.value.shape[1]))
    for number, leaves in enumerate(ensemble.leaves(matrix).T):
        rows = unseen[:, number]
        votes[rows] += ensemble.value[leaves[rows]]
    return votes, unseen.sum(axis=1)


def average_importances(ensemble: TreeEnsemble, inner: np.ndarray, saved: np.ndarray, n_features: int) -> np.ndarray:
    """Return each feature's share of what the inner nodes have saved, averaged over the trees."""
    tree = np.searchsorted(ensemble.root, inner, side="right") - 1
    by_tree = np.zeros((ensemble.n_trees, n_features))
    np.add.at(by_tree, (tree, ensemble.feature[inner]), saved)
    total = by_tree.sum(axis=1, keepdims=True)
    importance = np.divide(by_tree, total, out=np.zeros_like(by_tree), where=total > 0.0).mean(axis=0)
    return importance / importance.sum() if importance.any() else importance
