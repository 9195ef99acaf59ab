"""A table of classes in codes, with what they mean: all that growers on bins read of its rows.

Rows are coded as they come, batch after batch: a table in memory is one batch, a stream has many. Only the sample that
thresholds are chosen from has to be there before.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood.grow.bins import Bins, CodeWriter, Sample, choose_bins, take_sample
from hardwood.grow.general_categories import Categories, read_categories, write_codes
from hardwood.grow.limits import GrowOptions
from hardwood.grow.problem import Problem
from hardwood.grow.workers import hire
from hardwood.threat import Reach


@dataclass(frozen=True)
class CodedRows:
    """The codes of all samples: of every row, and then of the part that stays of those that have one."""

    codes: np.ndarray  # uint8 or uint16 (sample, column), read-only
    bins: Bins
    reach: Reach  # with the classes that attack
    stays: np.ndarray  # bool per class: whether its rows are two samples, one that moves and one that does not
    categories: Categories


def code_rows(problem: Problem, reach: Reach, options: GrowOptions, max_bins: int | None) -> CodedRows:
    """Choose thresholds for a table in memory, and code its rows; None: a threshold between every two ends."""
    sample = take_sample(problem.X, problem.class_index, reach, max_bins)
    return code_batches([problem.X], sample, problem, reach, options, max_bins)


def code_batches(
    batches: Iterable[np.ndarray],
    sample: Sample,
    problem: Problem,
    reach: Reach,
    options: GrowOptions,
    max_bins: int | None,
) -> CodedRows:
    """Choose thresholds by a sample, and code the rows of batches, which are those of the problem, in this order."""
    attacks = reach.attacks & (options.rho > 0.0)
    stays = attacks & (options.rho < 1.0)
    # Ends may lie outside a feature's domain, as in the exact grower; `find_shifts` says why that changes nothing.
    reach = replace(reach, attacks=attacks, within=None)
    categories = read_categories(reach, problem.schema)
    is_category = categories.n_categories > 0  # which have codes of their own
    sample = sample._replace(
        X=np.where(is_category, 0.0, sample.X) if categories.n_codes else sample.X,
        is_missing=sample.is_missing & ~is_category,
    )
    bins = replace(choose_bins(sample, reach, stays, max_bins), n_codes=categories.n_codes)
    writer, class_index = CodeWriter(bins, reach, stays, problem.class_index), problem.class_index
    with hire(options.n_threads) as workers:
        for X in batches:
            rows, parts = writer.write(np.where(is_category, 0.0, X) if categories.n_codes else X, workers)
            if categories.n_codes:
                staying, still = X[stays[class_index[rows]]], np.zeros(parts.stop - parts.start, dtype=bool)
                write_codes(writer.codes[rows], bins.columns, categories, X, attacks[class_index[rows]])
                write_codes(writer.codes[parts], bins.columns, categories, staying, still)
    return CodedRows(frozen(writer.codes), bins, reach, stays, categories)


def draw_samples(drawn: np.ndarray, staying: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the samples of rows: the rows themselves, and the parts of them that stay."""
    part = np.full(n_rows, -1)
    part[staying] = n_rows + np.arange(len(staying))
    parts = part[drawn]
    return np.concatenate([drawn, parts[parts >= 0]])
