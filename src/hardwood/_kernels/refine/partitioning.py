"""Splits by categories: what each kind of samples loses on either side, and what no set of categories comes below.

A kind of samples are those that can be given the same categories. The best set of categories is a minimum cut, which is
not made here: most often the bound says that it would not help.
"""

import numpy as np

from hardwood._kernels.compiling import inner, kernel
from hardwood._kernels.refine.accounting import LEFT
from hardwood._kernels.refine.moves import SPLIT
from hardwood._kernels.refine.scanning import BY_ITSELF


@inner
def count_kinds(samples, feature):
    """Count the kinds of samples that a categorical feature tells apart: two per category, moved and as it is."""
    last = samples.reach.shape[0]
    for other in range(samples.first_reach.shape[0]):
        if samples.first_reach[feature] < samples.first_reach[other] < last:
            last = samples.first_reach[other]
    return last - samples.first_reach[feature]


@kernel(about="categories in refinement", seconds=0.3)
def weigh_kinds(samples, feature, n_undecided, histograms, lost):
    """Fill ``lost`` (2, kind) with the weight of the samples that lose on the right, and on the left; return how many.

    The second half of the kinds is of samples as they are: one that only its own value loses counts as one of them.
    """
    n_kinds = count_kinds(samples, feature)
    lost[:, :n_kinds] = 0.0
    for k in range(n_undecided):
        sample, side = histograms.undecided[k], histograms.side[k]
        kind = np.int64(samples.low[feature, sample])
        if side & BY_ITSELF:
            kind = np.int64(samples.own[feature, sample]) + (n_kinds >> 1)
        lost[1 if side & LEFT else 0, kind] += samples.weight[sample]
    return n_kinds


@inner
def may_partition(samples, tolerance, work):
    """Whether some set of categories may be better than the best move known, for what the scan was prepared for.

    Every kind gets to one side at least, and loses what is lost there.
    """
    n, histograms, move = work.stakes.counts[2], work.histograms, work.move[0]
    always = work.base[0]
    for k in range(n):
        if not histograms.side[k] & LEFT:
            always -= samples.weight[histograms.undecided[k]]
    least = move.loss - (tolerance if move.kind == SPLIT else 0.0) + tolerance
    for feature in range(samples.first_reach.shape[0]):
        if samples.first_reach[feature] >= 0:
            n_kinds = weigh_kinds(samples, feature, n, histograms, work.lost)
            loss = always
            for kind in range(n_kinds):
                loss += min(work.lost[0, kind], work.lost[1, kind])
            if loss < least:
                return True
    return False
