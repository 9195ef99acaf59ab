"""Regression trees: fit time beside scikit-learn's, and the error under attack beside a natural tree's.

    make bench-regression

Two tables are printed. CPU seconds of a fit, one thread, 100,000 rows x 10 features, depth 8, all methods in turn in
the same run. And the error under attack, exactly, in five folds of scikit-learn's diabetes table (features scaled to
[0, 1]), divided by the variance of the target: below 1 is better than always saying the mean.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold
from sklearn.preprocessing import minmax_scale
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from hardwood import RobustTreeRegressor, verify
from measure import RESULTS, fastest_cpu_seconds, print_table, verdict, write_csv

ROWS, FEATURES, DEPTH, EPSILON = 100_000, 10, 8, 0.02
BINNED_BAR, EXACT_BAR = 0.2, 1.5
# The tree that has a bar: of this depth, with as many rows in a leaf, on diabetes.
SMALL = {"max_depth": 5, "min_samples_leaf": 5}
EPSILONS = (0.02, 0.05, 0.1)
BAR_EPSILON, ERROR_BAR = 0.05, 0.75
NATURAL, EXACT, BINNED, GREEDY = "scikit-learn", "exact", "binned", "exact, greedy leaves"


def make_table(rows: int, features: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Make Friedman's first table: five features matter, one pair of them together, and noise of variance 1."""
    generator = np.random.default_rng(seed)
    X = generator.random((rows, features))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, y + generator.normal(size=rows)


def measure_fits(repeats: int = 3) -> dict[str, float]:
    """Return the CPU seconds of a fit, method by method."""
    ours = partial(RobustTreeRegressor, EPSILON, max_depth=DEPTH)
    makers: dict[str, Callable[[], Any]] = {
        NATURAL: partial(DecisionTreeRegressor, max_depth=DEPTH, random_state=0),
        EXACT: partial(ours, max_bins="exact"),
        BINNED: partial(ours, max_bins=255),
    }
    small = make_table(200, FEATURES, 0)
    for make in makers.values():
        make().fit(*small)  # compiles, before any clock runs
    X, y = make_table(ROWS, FEATURES, 0)
    return fastest_cpu_seconds({name: lambda make=make: make().fit(X, y) for name, make in makers.items()}, repeats)


def measure_worst_error(model: Any, X: NDArray[np.float64], y: NDArray[np.float64], epsilon: float) -> float:
    """Return the mean squared error under attack."""
    bounds = verify(model, X, y, epsilon, tolerance=0.0)
    return float(np.maximum((bounds.upper - y) ** 2, (bounds.lower - y) ** 2).mean())


def measure_errors(epsilon: float) -> dict[str, float]:
    """Return the error under attack of each method in five folds, in variances of the target."""
    X, y = load_diabetes(return_X_y=True)
    X = minmax_scale(X)
    makers = {
        NATURAL: partial(DecisionTreeRegressor, random_state=0, **SMALL),
        EXACT: partial(RobustTreeRegressor, epsilon, max_bins="exact", **SMALL),
        BINNED: partial(RobustTreeRegressor, epsilon, max_bins=255, **SMALL),
        GREEDY: partial(RobustTreeRegressor, epsilon, max_bins="exact", refit_leaves=False, **SMALL),
    }
    errors = dict.fromkeys(makers, 0.0)
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        for name, make in makers.items():
            model = make().fit(X[train], y[train])
            errors[name] += measure_worst_error(model, X[test], y[test], epsilon) / y.var() / 5
    return errors


def main() -> None:
    seconds = measure_fits()
    print(f"\nfit, {ROWS:,} rows x {FEATURES} features, depth {DEPTH}, threat {EPSILON}")
    print_table(
        ["method", "CPU s", "/scikit-learn"],
        [[name, f"{time:.3f}", f"{time / seconds[NATURAL]:.3f}"] for name, time in seconds.items()],
    )
    records = [{"threat": epsilon, **measure_errors(epsilon)} for epsilon in EPSILONS]
    print(f"\ndiabetes, squared error under attack over variance, five folds, {SMALL}")
    names = [NATURAL, EXACT, BINNED, GREEDY]
    lines = [[f"{record['threat']:g}", *(f"{record[name]:.3f}" for name in names)] for record in records]
    print_table(["threat", *names], lines)
    print()
    print(verdict("regression tree: binned fit / scikit-learn", seconds[BINNED] / seconds[NATURAL], BINNED_BAR))
    print(verdict("regression tree: exact fit / scikit-learn", seconds[EXACT] / seconds[NATURAL], EXACT_BAR))
    at_bar = next(record for record in records if record["threat"] == BAR_EPSILON)
    what = f"diabetes, threat {BAR_EPSILON}: error under attack / natural"
    print(verdict(what, at_bar[EXACT] / at_bar[NATURAL], ERROR_BAR))
    write_csv(RESULTS / "regression.csv", records)


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
