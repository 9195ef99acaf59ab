"""HiGHS, imported only when it is asked for; the one file that knows how to call it."""

import threading
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from hardwood.extras import explain_missing
from hardwood.verification.milp_problem import Expression, Problem

# How far a constraint may be from holding, and the best solution from the bound. Problems are scaled to numbers near 1.
PRECISION = 1e-9


class Outcome(NamedTuple):
    """What the solver says of a problem."""

    finished: bool
    columns: np.ndarray | None  # the best solution that it has; None if there is none
    bound: float  # no solution has a smaller objective; infinite if there is no solution at all


def load_highs() -> Any:
    """Import HiGHS; if it is missing, say how to install it."""
    try:
        return import_module("highspy")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "highspy":
            raise
        raise ModuleNotFoundError(explain_missing("method='milp'", "highspy"), name="highspy") from error


def minimise(
    problem: Problem,
    objective: Expression,
    *,
    seconds: float,
    stop: threading.Event,
    enough: float = -np.inf,
) -> Outcome:
    """Find the least value of an expression.

    Ends when time is up, when `stop` is set, or at a value that is small `enough`.
    """
    highs = load_highs()
    solver = highs.Highs()
    options = {
        "output_flag": False,
        "threads": 1,
        "time_limit": seconds,
        "mip_rel_gap": 0.0,
        "mip_abs_gap": PRECISION,
        "mip_feasibility_tolerance": PRECISION,
        "primal_feasibility_tolerance": PRECISION,
        "small_matrix_value": 1e-12,  # smaller coefficients are dropped
        "objective_target": enough,
        # With presolve on, HiGHS 1.7 to 1.15 cut off the best point of small problems, an optimum of -1/3 for -2/3, and
        # called others infeasible that are not.
        "presolve": "off",
    }
    for name, setting in options.items():
        solver.setOptionValue(name, setting)
    for moment in (solver.cbMipInterrupt, solver.cbSimplexInterrupt):
        moment.subscribe(lambda event: event.interrupt(stop.is_set()))
    solver.passModel(_write(highs, problem, objective))
    solver.run()
    status = solver.getModelStatus()
    if status == highs.HighsModelStatus.kInfeasible:
        return Outcome(True, None, np.inf)
    info = solver.getInfo()
    feasible = info.primal_solution_status == highs.SolutionStatus.kSolutionStatusFeasible
    columns = np.array(solver.getSolution().col_value) if feasible else None
    return Outcome(status == highs.HighsModelStatus.kOptimal, columns, info.mip_dual_bound)


def _write(highs: Any, problem: Problem, objective: Expression) -> Any:
    """Return a problem as HiGHS takes it: all columns from 0 to 1, thresholds and categories whole numbers."""
    rows = problem.rows
    model = highs.HighsLp()
    model.num_col_, model.num_row_ = problem.n_columns, len(rows.lower)
    cost = np.zeros(problem.n_columns)
    np.add.at(cost, objective.columns, objective.coefficients)
    model.col_cost_, model.offset_ = cost, objective.constant
    model.col_lower_, model.col_upper_ = np.zeros(problem.n_columns), np.ones(problem.n_columns)
    model.row_lower_, model.row_upper_ = np.array(rows.lower), np.array(rows.upper)
    model.a_matrix_.format_ = highs.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.array(rows.start)
    model.a_matrix_.index_ = np.array(rows.column)
    model.a_matrix_.value_ = np.array(rows.coefficient)
    whole, any_number = highs.HighsVarType.kInteger, highs.HighsVarType.kContinuous
    model.integrality_ = [whole] * problem.n_choices + [any_number] * (problem.n_columns - problem.n_choices)
    return model
