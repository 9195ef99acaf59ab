"""A table of classes in codes, with what they mean: all that growers on bins read of its rows.

What codes mean is planned once, by the sample that thresholds are chosen from (`CodePlan`). Rows are coded by that plan
as they come, batch after batch: a table in memory is one batch, a stream has many, and every block of rows that is
somewhere else is coded there.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from hardwood._kernels.compiling import frozen
from hardwood.grow.bins import Bins, CodeWriter, Sample, choose_bins
from hardwood.grow.general_categories import Categories, read_categories, write_codes
from hardwood.grow.limits import GrowOptions
from hardwood.grow.workers import hire
from hardwood.rows.task import Task
from hardwood.table import Schema
from hardwood.threat import Reach


@dataclass(frozen=True)
class CodePlan:
    """What the codes of a table mean."""

    bins: Bins
    reach: Reach  # with the classes that attack
    stays: np.ndarray  # bool per class: whether its rows are two samples, one that moves and one that does not
    categories: Categories

    def code(self, batches: Iterable[np.ndarray], class_index: np.ndarray, n_threads: int = 1) -> np.ndarray:
        """Return the codes of all samples of some rows: of every row, and then of the part that stays, if it has one.

        Parameters
        ----------
        batches : the rows, some at a time, encoded by the table's schema
        class_index : the classes of all of them
        """
        is_category = self.categories.n_categories > 0  # which have codes of their own
        attacks, stays, has_categories = self.reach.attacks, self.stays, is_category.any()
        writer = CodeWriter(self.bins, self.reach, stays, class_index)
        with hire(n_threads) as workers:
            for X in batches:
                if not len(X):
                    continue
                rows, parts = writer.write(np.where(is_category, 0.0, X) if has_categories else X, workers)
                if has_categories:
                    staying, still = X[stays[class_index[rows]]], np.zeros(parts.stop - parts.start, dtype=bool)
                    columns = self.bins.columns
                    write_codes(writer.codes[rows], columns, self.categories, X, attacks[class_index[rows]])
                    write_codes(writer.codes[parts], columns, self.categories, staying, still)
        return frozen(writer.codes)


@dataclass(frozen=True)
class CodedRows(CodePlan):
    """The codes of a table, with what they mean."""

    codes: np.ndarray  # uint8 or uint16 (sample, column), read-only; see `CodePlan.code`


def plan_codes(sample: Sample, schema: Schema, reach: Reach, options: GrowOptions, max_bins: int | None) -> CodePlan:
    """Choose thresholds by a sample; None: one between every two ends of reach."""
    attacks = reach.attacks & (options.rho > 0.0)
    stays = attacks & (options.rho < 1.0)
    # Ends may lie outside a feature's domain, as in the exact grower; `find_shifts` says why that changes nothing.
    reach = replace(reach, attacks=attacks, within=None)
    categories = read_categories(reach, schema)
    is_category = categories.n_categories > 0
    sample = sample._replace(
        X=np.where(is_category, 0.0, sample.X) if categories.n_codes else sample.X,
        is_missing=sample.is_missing & ~is_category,
    )
    bins = replace(choose_bins(sample, reach, stays, max_bins), n_codes=categories.n_codes)
    return CodePlan(bins, reach, stays, categories)


def code_rows(problem: Task, reach: Reach, options: GrowOptions, max_bins: int | None) -> CodedRows:
    """Choose thresholds for a table or a stream, and code its rows; None: a threshold between every two ends."""
    sample = problem.draw_sample(reach, max_bins)
    return code_batches(problem.read_batches(), sample, problem, reach, options, max_bins)


def code_batches(
    batches: Iterable[np.ndarray],
    sample: Sample,
    problem: Task,
    reach: Reach,
    options: GrowOptions,
    max_bins: int | None,
) -> CodedRows:
    """Choose thresholds by a sample, and code the rows of batches, which are those of the problem, in this order."""
    plan = plan_codes(sample, problem.schema, reach, options, max_bins)
    codes = plan.code(batches, problem.class_index, options.n_threads)
    return CodedRows(plan.bins, plan.reach, plan.stays, plan.categories, codes)


def draw_samples(drawn: np.ndarray, staying: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the samples of rows: the rows themselves, and the parts of them that stay."""
    part = np.full(n_rows, -1)
    part[staying] = n_rows + np.arange(len(staying))
    parts = part[drawn]
    return np.concatenate([drawn, parts[parts >= 0]])
