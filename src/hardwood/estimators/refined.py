"""What an estimator's parameters ask of refinement."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardwood.ensemble import TreeEnsemble
from hardwood.grow.limits import UNLIMITED, GrowOptions
from hardwood.grow.tree import grow_tree
from hardwood.progress import read_progress
from hardwood.quoting import quote
from hardwood.reals import LARGEST, check_count, check_number
from hardwood.refinement.alternation import Settings
from hardwood.refinement.door import count_covers
from hardwood.refinement.refined import MAX_SWEEPS, improve_ordered, order_features
from hardwood.refinement.rows import Rows, order_columns, select_columns
from hardwood.refinement.search import SearchPlan, search
from hardwood.refinement.search_report import SearchReport
from hardwood.rows.task import Task
from hardwood.threat import Reach

REFINEMENTS = ("alternate", "search")


@dataclass(frozen=True)
class Refinement:
    """How a greedy tree is refined."""

    settings: Settings
    seed: int
    plan: SearchPlan | None  # None: the one start there is

    def grow(self, problem: Task, reach: Reach, options: GrowOptions) -> tuple[TreeEnsemble, SearchReport | None]:
        """Grow a tree and refine it; return what a search has tried, too.

        Columns are taken in an order that does not depend on where they are in the table, so that this decides
        nothing, the greedy start included.
        """
        rows = Rows(problem.X, problem.class_index.astype(np.intp), problem.row_weight, reach, options.rho)
        columns = order_columns(rows)
        matrix, reach = np.ascontiguousarray(problem.X[:, columns]), reach.select(columns)
        unit, settings = problem.weight_unit, self.settings
        settings = settings._replace(price=settings.price / unit)
        if options.monotonic is not None:
            options = replace(options, monotonic=options.monotonic[columns])
        settings = settings._replace(monotonic=options.monotonic)
        problem = replace(problem, X=matrix, schema=select_columns(problem.schema, columns))
        rows = rows._replace(matrix=matrix, reach=reach)
        start = grow_tree(problem, reach, options)
        if self.plan is None:
            refined, report = improve_ordered(start, rows, settings, self.seed), None
        else:

            def grow(drawn: np.ndarray) -> TreeEnsemble:
                weight = None if problem.sample_weight is None else problem.sample_weight[drawn]
                sample = replace(problem, X=problem.X[drawn], target=problem.target[drawn], sample_weight=weight)
                return grow_tree(sample, reach, replace(options, n_threads=1))

            refined, report = search(start, grow, rows, settings, self.plan)
        return count_covers(order_features(refined, np.argsort(columns)), unit), report


def check_refinement(estimator: Any, options: GrowOptions) -> Refinement | None:
    """Read an estimator's parameters of refinement; None if it wants none."""
    name = estimator.refine
    price = check_number("refine_price", estimator.refine_price, 0.0, LARGEST)
    n_starts = check_count("n_starts", estimator.n_starts, 0)
    if name is None:
        return None
    if not isinstance(name, str) or name not in REFINEMENTS:
        raise ValueError(f"refine={quote(name)}: expected None or one of {', '.join(map(repr, REFINEMENTS))}")
    max_leaves = UNLIMITED if options.max_leaf_nodes is None else options.max_leaf_nodes
    settings = Settings(price, MAX_SWEEPS, options.size.max_depth, max_leaves)
    if name == "alternate":
        return Refinement(settings, options.seed, None)
    plan = SearchPlan(
        n_starts=n_starts,
        beat_constant=bool(estimator.beat_constant),
        seed=options.seed,
        n_threads=options.n_threads,
        progress=read_progress(estimator.progress),
    )
    return Refinement(settings, options.seed, plan)
