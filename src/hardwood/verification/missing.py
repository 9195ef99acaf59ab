"""Rows with missing values: each sees the ensemble without the splits on what it lacks.

A missing value stays missing, whatever the attacker does. So a split on it sends every point within reach of the row
the same way, and may as well not be there. Rows that lack the same features share what is left of the ensemble; whoever
searches that never meets a missing value.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from hardwood._kernels.ensemble_rows import Answers
from hardwood._kernels.ensemble_search import UNFINISHED
from hardwood.ensemble import TreeEnsemble
from hardwood.reach import Reach
from hardwood.verification.search import RowSearch


def without_splits_on(ensemble: TreeEnsemble, missing: np.ndarray) -> TreeEnsemble:
    """Return what is left of an ensemble for rows in which some features are missing.

    Each split on a missing feature gives its place to the child that missing values go to. The trees keep their order,
    so the outputs of such rows are the same to the last bit.

    Parameters
    ----------
    ensemble : TreeEnsemble
    missing : ndarray of bool, one per feature

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from hardwood import as_ensemble
    >>> tree = as_ensemble(DecisionTreeClassifier().fit([[0.0, 1.0], [0.0, 2.0], [1.0, 1.0]], [0, 1, 2]))
    >>> without_splits_on(tree, np.array([True, False])).n_leaves < tree.n_leaves
    True
    """
    is_inner = ensemble.feature >= 0
    skipped = is_inner & missing[ensemble.feature]
    heir = np.where(skipped, np.where(ensemble.missing_left, ensemble.left, ensemble.right), np.arange(len(skipped)))
    while not np.array_equal(heir, heir[heir]):  # the heir of a skipped node may be skipped, too
        heir = heir[heir]
    root = heir[ensemble.root]
    left = np.where(is_inner, heir[ensemble.left], -1)
    right = np.where(is_inner, heir[ensemble.right], -1)
    kept = np.zeros(len(skipped), dtype=bool)
    level = root
    while len(level):
        kept[level] = True
        level = level[is_inner[level]]
        level = np.concatenate([left[level], right[level]])
    number = np.append(np.cumsum(kept) - 1, -1).astype(np.int32)  # the last entry keeps -1 what it is
    as_they_are = ("feature", "threshold", "value", "cover", "missing_left", "category_start")
    nodes = {name: getattr(ensemble, name)[kept] for name in as_they_are}
    return replace(ensemble, root=number[root], left=number[left[kept]], right=number[right[kept]], **nodes)


@dataclass
class PatternSearch:
    """A `RowSearch` for each set of features that are missing together; a single one if no value is missing."""

    ensemble: TreeEnsemble
    reach: Reach
    weight: np.ndarray
    time_limit: float
    n_threads: int = 1
    progress: Callable[[int, int], object] | None = None

    def decide(self, matrix: np.ndarray, label: np.ndarray) -> Answers:
        """Ask of every row whether the attacker can give it another class."""
        return self._run(RowSearch.decide, matrix, label)

    def nearest(self, matrix: np.ndarray, label: np.ndarray, guess: np.ndarray) -> Answers:
        """Find the nearest example of every row, in the L-infinity norm."""
        return self._run(RowSearch.nearest, matrix, label, guess)

    def _run(self, ask: Callable[..., Answers], matrix: np.ndarray, *arguments: np.ndarray) -> Answers:
        is_missing = np.isnan(matrix)
        if not is_missing.any():
            return ask(self._search(self.ensemble, self.progress), matrix, *arguments)
        answers = _unanswered(matrix)
        # What no split asks for may be missing or not.
        is_used = np.isin(np.arange(matrix.shape[1]), self.ensemble.feature)
        patterns, group = np.unique(is_missing & is_used, axis=0, return_inverse=True)
        done = 0
        for index, pattern in enumerate(patterns):
            rows = np.flatnonzero(group.ravel() == index)
            progress = self.progress and partial(self._tell, self.progress, done, len(matrix))
            search = self._search(without_splits_on(self.ensemble, pattern), progress)
            present = np.where(is_missing[rows], 0.0, matrix[rows])
            found = ask(search, present, *(argument[rows] for argument in arguments))
            found.example[is_missing[rows]] = np.nan
            for whole, part in zip(answers, found, strict=True):
                whole[rows] = part
            if search._stop.is_set():  # interrupted: what is not decided stays unknown
                break
            done += len(rows)
        return answers

    def _search(self, ensemble: TreeEnsemble, progress: Callable[[int, int], object] | None) -> RowSearch:
        return RowSearch(ensemble, self.reach, self.weight, self.time_limit, self.n_threads, progress)

    @staticmethod
    def _tell(progress: Callable[[int, int], object], before: int, n_rows: int, done: int, _: int) -> None:
        progress(before + done, n_rows)


def _unanswered(matrix: np.ndarray) -> Answers:
    n_rows = len(matrix)
    return Answers(
        status=np.full(n_rows, UNFINISHED),
        bound=np.full(n_rows, np.inf),
        example=np.full_like(matrix, np.nan),
        distance=np.full(n_rows, np.inf),
        certified=np.zeros(n_rows),
    )
