"""Which of several methods is better over many tables: ranks, and whether they could be chance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

_DIGITS = 9  # scores are shares of rows: what differs later only has been rounded differently


@dataclass(frozen=True)
class RankComparison:
    """Methods by their mean rank over tables, the best first.

    Attributes
    ----------
    mean_ranks : dict
        By method; 1 is the best on every table, and methods that score the same share their ranks.
    n_tables : int
    friedman_p : float
        How likely ranks as different as these are if all methods are alike (Friedman's test).
    critical_difference : float
        The least difference of two mean ranks that is significant by Nemenyi's test.
    p_values : dict
        By pair of methods, the better first: Wilcoxon's signed-rank test, corrected by Holm for the number of pairs.
    groups : list of tuples
        Methods next to each other of which no two differ significantly by `p_values`; only groups that are in no other.
    """

    mean_ranks: dict[str, float]
    n_tables: int
    friedman_p: float
    critical_difference: float
    p_values: dict[tuple[str, str], float]
    groups: list[tuple[str, ...]]


def compare_ranks(scores: Mapping[str, Sequence[float]], *, level: float = 0.05) -> RankComparison:
    """Compare methods over tables.

    Parameters
    ----------
    scores : dict of sequences of float
        By method, its score on each table, in the same order; higher is better. At least three methods and two tables.
    level : float, default=0.05
        What counts as significant.

    Notes
    -----
    J. Demšar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 2006, for the tests of Friedman
    and Nemenyi. Groups go by Wilcoxon's test, as A. Benavoli, G. Corani and F. Mangili, "Should We Really Use Post-Hoc
    Tests Based on Mean-Ranks?", JMLR 2016, advise: the p-value of a pair does not depend on which other methods there
    are, but for the correction.

    Examples
    --------
    >>> from paper.ranks import compare_ranks
    >>> found = compare_ranks({"worst": [0.1, 0.2, 0.3], "best": [0.7, 0.8, 0.9], "middle": [0.7, 0.5, 0.6]})
    >>> [(name, round(rank, 2)) for name, rank in found.mean_ranks.items()]
    [('best', 1.17), ('middle', 1.83), ('worst', 3.0)]
    """
    from scipy.stats import rankdata, studentized_range

    table = np.array(list(scores.values()), dtype=np.float64).round(_DIGITS).T
    if table.ndim != 2 or table.shape[0] < 2 or table.shape[1] < 3:
        raise ValueError(f"scores: expected at least three methods and two tables, got shape {table.T.shape}")
    n_tables, n_methods = table.shape
    ranks = rankdata(-table, axis=1)
    names = [list(scores)[k] for k in np.argsort(ranks.mean(axis=0), kind="stable")]
    column = {name: table[:, k] for k, name in enumerate(scores)}
    p_values = _correct({pair: wilcoxon_p(column[pair[0]] - column[pair[1]]) for pair in combinations(names, 2)})
    quantile = studentized_range.ppf(1.0 - level, n_methods, np.inf) / np.sqrt(2.0)
    mean_rank = dict(zip(scores, ranks.mean(axis=0).tolist(), strict=True))
    return RankComparison(
        mean_ranks={name: mean_rank[name] for name in names},
        n_tables=n_tables,
        friedman_p=_friedman_p(ranks),
        critical_difference=float(quantile * np.sqrt(n_methods * (n_methods + 1) / (6.0 * n_tables))),
        p_values=p_values,
        groups=_find_groups(names, p_values, level),
    )


def wilcoxon_p(differences: Any) -> float:
    """Return the two-sided p-value of Wilcoxon's signed-rank test: exact, also with ties; zeros are left out.

    Examples
    --------
    >>> wilcoxon_p([0.1, 0.2, 0.3, 0.4, 0.5, 0.0])
    0.0625
    """
    from scipy.stats import rankdata

    kept = np.round(np.asarray(differences, dtype=np.float64), _DIGITS)
    kept = kept[kept != 0.0]
    # Ranks of ties are halves: doubled they are whole, and the sum of those of one sign is too.
    doubled = (2.0 * rankdata(np.abs(kept))).astype(int)
    probability = np.zeros(doubled.sum() + 1)
    probability[0] = 1.0
    for rank in doubled:
        probability[rank:] += probability[: len(probability) - rank].copy()
        probability /= 2.0
    observed = int(doubled[kept > 0.0].sum())
    tail = min(probability[: observed + 1].sum(), probability[observed:].sum())
    return float(min(1.0, 2.0 * tail))


def _friedman_p(ranks: np.ndarray) -> float:
    """Return the p-value of Friedman's test with the correction for ties; 1 if every table is one tie."""
    from scipy.stats import chi2

    n_tables, n_methods = ranks.shape
    middle = (n_methods + 1) / 2.0
    spread = ((ranks - middle) ** 2).sum()
    if spread == 0.0:
        return 1.0
    between = ((ranks.sum(axis=0) - n_tables * middle) ** 2).sum()
    return float(chi2.sf((n_methods - 1) * between / spread, n_methods - 1))


def _correct(p_values: dict[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """Return p-values corrected by Holm: the least times their number, the next times one less, and so on."""
    corrected, least = {}, 0.0
    for done, pair in enumerate(sorted(p_values, key=lambda pair: p_values[pair])):
        least = max(least, min(1.0, (len(p_values) - done) * p_values[pair]))
        corrected[pair] = least
    return {pair: corrected[pair] for pair in p_values}


def _find_groups(names: list[str], p_values: dict[tuple[str, str], float], level: float) -> list[tuple[str, ...]]:
    groups: list[tuple[str, ...]] = []
    last = 0
    for first in range(len(names)):
        end = first + 1
        while end < len(names) and all(p_values[names[k], names[end]] > level for k in range(first, end)):
            end += 1
        if end > last and end - first > 1:
            groups.append(tuple(names[first:end]))
        last = max(last, end)
    return groups
